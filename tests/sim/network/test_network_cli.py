"""`netfold run`, `show` and `scenario` on a network: results folder, tables, JSON, pcap, one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from scapy.utils import rdpcap

from netfold import main
from sim.network.records import SCHEMAS
from tests.sim.network.conftest import EXAMPLES, ROUTER

SMALL = """
[network]
hosts = 4
duration_ns = "1ms"
"""
FLOWS = """
[[flow]]
name = "around"
from = "h*"
to = "h*"
pattern = "shift:1"
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(SMALL + ROUTER + FLOWS)
    return path


def test_a_run_leaves_tables_and_prints_them(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(scenario), "--pcap", "h1,s*"]) == 0
    shown = capsys.readouterr().out
    assert "star: 4 hosts, 1 switches, 4 links" in shown
    assert "around" in shown and "ipv4.p4" in shown
    place = Path("results/network-mine")
    flows = pd.read_parquet(place / "flows.parquet")
    assert flows["source"].tolist() == ["h0", "h1", "h2", "h3"]
    assert flows["target"].tolist() == ["h1", "h2", "h3", "h0"]
    assert (flows["lost_packets"] == 0).all() and (flows["received_packets"] > 5).all()
    for name, schema in SCHEMAS.items():
        assert pd.read_parquet(place / f"{name}.parquet").columns.tolist() == schema.names
    # h1's port of the switch sends what h0 sent, and h1's own link records that and what h1 sent.
    sent, got = flows["sent_packets"][1], flows["received_packets"][0]
    assert (
        len(rdpcap(str(place / "pcap" / "h1.pcap")))
        == len(rdpcap(str(place / "pcap" / "s0-1.pcap")))
        == sent + got
    )
    assert main(["show", str(place)]) == 0
    assert capsys.readouterr().out.splitlines()[:5] == shown.splitlines()[:5]


def test_json_is_the_summary(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(scenario), "-o", "out", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    kept = json.loads(Path("out/summary.json").read_text())
    assert printed == {**kept, "results": "out"}
    assert main(["show", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == printed
    assert kept["kind"] == "network" and kept["programs"][0]["entries"] == 4


def test_other_readers_say_what_the_folder_is(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(scenario), "-o", "out"]) == 0
    capsys.readouterr()
    assert main(["report", "out"]) == 2
    assert "out: the results of a network, not of a propagation" in capsys.readouterr().err


def test_the_results_folder_repeats_its_run(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(scenario), "-o", "first", "--seed", "5", "--set", "links.delay_ns=3us"]) == 0
    assert main(["run", "first/scenario.toml", "-o", "second"]) == 0
    for name in SCHEMAS:
        assert Path(f"first/{name}.parquet").read_bytes() == Path(f"second/{name}.parquet").read_bytes()


def test_a_scenario_is_printed_resolved(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", str(scenario), "--topology", "leaf-spine:2x1"]) == 0
    text = capsys.readouterr().out
    assert 'topology = "leaf-spine:2x1"' in text and "rate_bps = 10000000000" in text
    Path("again.toml").write_text(text)
    assert main(["run", "again.toml", "-o", "out"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mine.toml", "--graph", "karate"], "--graph: mine.toml describes a network, which has none"),
        (
            ["run", "mine.toml", "--set", "graph.scale=1"],
            "--set graph.scale: a network's sections are network",
        ),
        (
            ["run", "mine.toml", "--set", "flow.0.from=h1"],
            "--set flow.0.from: each [[flow]] is one of a list; change it in mine.toml",
        ),
        (
            ["run", "mine.toml", "--set", "network.hosts"],
            "--set: 'network.hosts' given; expected section.key=value",
        ),
        (["run", "mine.toml", "--pcap", "h9"], "--pcap: 'h9' is no host or switch of this network"),
        (["run", "mine.toml", "--set", "network.seed=0"], "network.seed: 0 given; at least 1"),
        (["compare", "mine.toml"], "compare: mine.toml describes a network"),
        (["run", "--pcap", "h1"], "--pcap: for a scenario with a [network] section only"),
        (["run", "nowhere.toml"], "nowhere.toml: no such scenario file"),
        (["run", "mine.toml", "-o", "mine.toml"], "--output: mine.toml exists and is no results folder"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    scenario: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert message in told.err and told.err.count("\n") == 1 and told.out == ""
    assert [p.name for p in scenario.parent.iterdir()] == ["mine.toml"]


def test_a_stopped_program_leaves_nothing(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Path(__file__).with_name("endless.p4")
    text = f'{SMALL}[[switch]]\nprogram = "{program}"\n{FLOWS}packet_bytes = 300\n'
    scenario.write_text(text.replace(FLOWS, f"max_rounds = 20\n{FLOWS}"))
    assert main(["run", str(scenario)]) == 2
    told = capsys.readouterr().err
    assert "endless.p4 recirculates or resubmits a packet without end" in told and told.count("\n") == 1
    assert [p.name for p in scenario.parent.iterdir()] == ["mine.toml"]


def test_packets_that_go_round_when_the_run_ends_are_told(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Path(__file__).with_name("endless.p4")
    scenario.write_text(f'{SMALL}[[switch]]\nprogram = "{program}"\n{FLOWS}packet_bytes = 300\n')
    assert main(["run", str(scenario)]) == 1
    assert "netfold: warning: s0: packets were still going round" in capsys.readouterr().err


def test_a_network_needs_neither_ns3s_bindings_nor_torch(tmp_path: Path) -> None:
    """They take ten seconds, and five, to import."""
    (tmp_path / "mine.toml").write_text(SMALL + ROUTER + FLOWS)
    code = (
        "import sys; from netfold import main; status = main(['run', 'mine.toml', '--json']); "
        "print(sorted({'cppyy', 'torch'} & set(sys.modules)), file=sys.stderr); sys.exit(status)"
    )
    told = {**os.environ, "PYTHONPATH": str(EXAMPLES.parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=told
    )
    assert done.stderr == "[]\n"
