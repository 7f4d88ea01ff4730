"""`--cluster`: a simulated one (star:16, leaf-spine:8x8:128, a scenario file) or this machine (local:4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sim.scenario import Scenario
from sim.scenario_io import load_scenario
from workloads.errors import InputError
from workloads.parallel.scheme import MOST_WORKERS

_FORMS = "star:DEVICES, leaf-spine:LEAVESxSPINES:DEVICES, local:WORKERS or a scenario.toml"
_SIMULATED = re.compile(r"(star|leaf-spine:\d{1,4}x\d{1,4}):(\d{1,5})")
_LOCAL = re.compile(r"local:(\d{1,4})")


@dataclass(frozen=True)
class Cluster:
    """text: as given; devices; scenario: what to simulate, or None on this machine."""

    text: str
    devices: int
    scenario: Scenario | None


def parse_cluster(text: str, overrides: Mapping[str, object]) -> Cluster:
    """Raises InputError for what is none, and for overrides of a cluster that is not simulated."""
    if found := _LOCAL.fullmatch(text):
        devices = int(found[1])
        if not 1 <= devices <= MOST_WORKERS:
            raise InputError(f"cluster: {text} given; allowed on this machine: 1 to {MOST_WORKERS} workers")
        if overrides:
            raise InputError(f"--set: {next(iter(overrides))} is of a simulated cluster; {text} is measured")
        return Cluster(text, devices, None)
    if found := _SIMULATED.fullmatch(text):
        # With unlimited buffers nothing is lost, and DCQCN's slow recovery would only add time.
        chosen: dict[str, object] = {
            "cluster.topology": found[1],
            "cluster.workers": found[2],
            "congestion.control": "none",
        }
        scenario = load_scenario(None, chosen | dict(overrides))
        return Cluster(text, scenario.cluster.workers, scenario)
    if text.endswith(".toml") or Path(text).is_file():
        scenario = load_scenario(Path(text), dict(overrides))
        return Cluster(text, scenario.cluster.workers, scenario)
    raise InputError(f"cluster: {text[:40]!r} given; allowed: {_FORMS}")
