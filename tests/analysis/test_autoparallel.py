"""`netfold autoparallel` and `netfold collectives`: tables, JSON, what does not fit, one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import netfold
from analysis.autoparallel.cluster import parse_cluster
from sim.collectives_network import SimulatedNetwork
from sim.scenario_io import load_scenario
from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.parallel.pieces import Balance
from workloads.parallel.scheme import Scheme


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("NETFOLD_CACHE", str(tmp_path_factory.getbasetemp() / "autoparallel-cache"))


def run(capsys, *words: str) -> tuple[int, str, str]:
    status = netfold.main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


AUTO = ("autoparallel", "--graph", "karate", "--cluster", "star:4", "--device", "a100")


def test_ranked_schemes_as_json(capsys):
    status, out, _ = run(capsys, *AUTO, "--model", "gcn", "--turns", "1,2", "--json")
    answer = json.loads(out)
    assert status == 0
    times = [row["step_ns"] for row in answer["schemes"] if row["fits"]]
    assert times == sorted(times) and answer["choice"] == answer["schemes"][0]["scheme"]
    assert {row["scheme"] for row in answer["schemes"]} >= {"data 4", "partition 4", "tensor 4"}
    assert {row["data"] * row["partition"] * row["tensor"] for row in answer["schemes"]} == {4}
    for row in answer["schemes"]:
        if row["fits"]:
            parts = sum(row["compute_ns"].values()) + sum(row["transfer_ns"].values())
            assert row["step_ns"] == pytest.approx(parts, abs=20)
            assert sum(row["memory_bytes"].values()) > 0 and row["why"]
    facts = answer["facts"]
    assert facts["vertices"] == 34 and facts["network"] == "simulated"
    assert "modelled" in facts["device"] and "A100" in facts["device"]
    assert all(0 <= error < 1 for error in facts["extrapolation_error"].values())


def test_a_transformers_table_says_why(capsys):
    words = (*AUTO[:-2], "--device", "rtx3090", "--model", "graphormer-slim", "--sequence-length", "17")
    status, out, _ = run(capsys, *words, "--turns", "1", "--memory", "24GB")
    assert status == 0
    assert "sequence 4" in out and "fastest that fits" in out and "transfers simulated" in out
    assert "4 shares of 2 sequence(s)" in " ".join(out.split())


def test_a_set_of_graphs_is_divided_without_cuts(capsys):
    words = ("autoparallel", "--graph", "families:60", "--cluster", "star:4", "--device", "a100")
    status, out, _ = run(capsys, *words, "--model", "gcn", "--turns", "1", "--json")
    answer = json.loads(out)
    rows = {row["scheme"]: row for row in answer["schemes"]}
    assert status == 0 and answer["facts"]["graphs"] == 60
    assert rows["data 4"]["fits"] and rows["tensor 4"]["fits"]
    assert not rows["partition 4"]["fits"] and "set of graphs" in rows["partition 4"]["why"]
    quarter, whole = (rows[name]["compute_ns"]["gcn"] for name in ("data 4", "tensor 4"))
    assert quarter < whole  # a quarter of the graphs, against a quarter of the columns of all


def test_on_this_machine_the_first_schemes_are_run_and_the_fastest_is_taken(capsys, monkeypatch):
    monkeypatch.setattr("workloads.parallel.local.ROUNDS", 1)
    monkeypatch.setattr("workloads.parallel.shortlist.ROUNDS", 3)
    words = ("autoparallel", "--graph", "karate", "--cluster", "local:2", "--device", "a100")
    status, out, _ = run(capsys, *words, "--turns", "1", "--shortlist", "2", "--json")
    answer = json.loads(out)
    assert status == 0 and 1 <= len(answer["measured"]) <= 2
    times = [row["step_ns"] for row in answer["measured"]]
    assert times == sorted(times) and answer["choice"] == answer["measured"][0]["scheme"]
    assert answer["predicted_choice"] == answer["schemes"][0]["scheme"]
    assert answer["facts"]["network"] == "measured"


def test_what_does_not_fit_in_memory(capsys):
    status, _, err = run(capsys, *AUTO, "--memory", "10kB", "--turns", "1")
    assert status == 2
    assert "no scheme fits; the nearest" in err and err.count("\n") == 1


def test_switches_that_add_are_used_and_can_be_refused(capsys):
    words = ("autoparallel", "--graph", "karate", "--cluster", "leaf-spine:2x2:8", "--device", "a100")
    _, out, _ = run(capsys, *words, "--hidden", "1024", "--json", "--turns", "1")
    added = {name for row in json.loads(out)["schemes"] for name in row["transfer_ns"]}
    assert any("in-network" in name for name in added)
    _, out, _ = run(capsys, *words, "--hidden", "1024", "--json", "--turns", "1", "--no-in-network")
    plain = {name for row in json.loads(out)["schemes"] for name in row["transfer_ns"]}
    assert not any("in-network" in name for name in plain)


def test_faster_links_make_transfers_faster(capsys):
    times = []
    for rate in ("10Gbps", "400Gbps"):
        given = ("--set", f"cluster.host_link_bps={rate}")
        _, out, _ = run(capsys, *AUTO, "--hidden", "512", "--turns", "1", "--json", *given)
        rows = {row["scheme"]: row for row in json.loads(out)["schemes"]}
        times.append(sum(rows["tensor 4"]["transfer_ns"].values()))
    assert times[1] < 0.6 * times[0]


def test_collectives_as_table_and_json(capsys):
    status, out, _ = run(capsys, "collectives", "--cluster", "star:4", "--bytes", "1kB,100MB", "--json")
    answer = json.loads(out)
    assert status == 0 and answer["group"] == 4
    for row in answer["times"]:
        assert row["time_ns"] > row["lower_bound_ns"]
        assert row["simulated"] == (row["bytes"] == 1000)
    status, out, _ = run(capsys, "collectives", "--cluster", "leaf-spine:2x2:8", "--group", "4")
    assert status == 0 and "in-network" in out and "groups of 4" in out


def test_the_boundary_exchange_of_a_whole_partition_is_simulated_as_it_is(tmp_path):
    scenario = load_scenario(None, {"cluster.workers": 4, "cluster.topology": "star"})
    network = SimulatedNetwork(scenario, load_graph("karate"), Balance(), cache=tmp_path)
    alone = network.boundary_ns(Scheme(partition=4), 64, 1e4)
    mixed = network.boundary_ns(Scheme(partition=2, tensor=2), 64, 1e4)
    assert alone > 0 and mixed > 0
    assert any(name.startswith("boundary exchange") for name in network.used)
    assert any("all-to-all" in name for name in network.used)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--cluster", "ring:4"), "allowed: star:DEVICES"),
        (("--cluster", "local:99"), "1 to 16 workers"),
        (("--cluster", "local:2", "--set", "cluster.ecmp=flow"), "is of a simulated cluster"),
        (("--cluster", "leaf-spine:3x2:8"), "spread evenly"),
        (("--model", "bert"), "allowed: gcn"),
        (("--graph", "nowhere"), "nowhere"),
        (("--device", "abacus"), "known are"),
        (("--profile", "/nonexistent.parquet", "--device", ""), "there is no /nonexistent.parquet"),
        (("--memory", "many"), "memory"),
        (("--turns", "0,x"), "expected numbers of 1 to 64"),
        (("--hidden", "0"), "hidden: 0 given"),
        (("--threshold", "1"), "more than 1"),
        (("--top", "0"), "at least 1"),
        (("--train", "3"), "is simulated"),
        (("--shortlist", "3"), "is simulated"),
        (("--cluster", "local:2", "--shortlist", "-1"), "allowed: 0 to 100"),
        (("--graph", "families:3"), "20..100000"),
        (("--graph", "families:40", "--model", "gt", "--sequence-length", "9"), "not for a set of graphs"),
        (("--model", "gt", "--sequence-length", "-1"), "0 or more"),
    ],
)
def test_bad_input_is_one_line(capsys, words, told):
    status, out, err = run(capsys, *AUTO, *words)
    assert status == 2 and out == ""
    assert told in err and err.count("\n") == 1 and err.startswith("netfold: error: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--cluster", "local:2"), "not simulated"),
        (("--bytes", ","), "expected sizes"),
        (("--group", "3"), "divisors of 8"),
    ],
)
def test_bad_collectives_are_one_line(capsys, words, told):
    status, _, err = run(capsys, "collectives", *words)
    assert status == 2 and told in err and err.count("\n") == 1


def test_a_scenario_file_is_a_cluster(tmp_path: Path):
    file = tmp_path / "cluster.toml"
    file.write_text('[cluster]\nworkers = 6\ntopology = "star"\n', encoding="utf-8")
    found = parse_cluster(str(file), {})
    assert found.devices == 6 and found.scenario is not None
    assert found.scenario.congestion.control == "dcqcn"  # a file says what it wants
    with pytest.raises(InputError):
        parse_cluster(str(tmp_path / "none.toml"), {})


def test_training_for_less_than_no_epoch_is_refused(capsys):
    from netfold import main

    assert main(["autoparallel", "--cluster", "local:2", "--train", "-1"]) == 2
    assert capsys.readouterr().err == "netfold: error: train: -1 epochs given; at least 0\n"
