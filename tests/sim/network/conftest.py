"""Small networks for the tests: a TOML text in, what the run left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim.network.run import NetworkOutcome, simulate_network
from sim.network.scenario_io import load_network

ROUTER = """
[[switch]]
program = "ipv4.p4"
routes = "add ipv4_lpm hdr.ipv4.dst:{address}/32 forward(port:{port}, mac:{mac})"
"""
EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


@pytest.fixture
def simulate(tmp_path: Path) -> Callable[..., NetworkOutcome]:
    """`simulate(text, overrides...)`: the scenario's run."""

    def make(text: str, *, pcap: tuple[str, ...] = (), **overrides: object) -> NetworkOutcome:
        path = tmp_path / "network.toml"
        path.write_text(text)
        scenario = load_network(path, {name.replace("__", "."): value for name, value in overrides.items()})
        return simulate_network(scenario, pcap=pcap, pcap_folder=tmp_path / "pcap")

    return make


def flow(outcome: NetworkOutcome, number: int = 0) -> dict[str, Any]:
    """One row of the flows table."""
    return {name: column[number] for name, column in outcome.tables["flows"].items()}
