"""`netfold train` for graph transformers, from the front door, on worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netfold
from workloads.training.failure import LESS_MEMORY
from workloads.training.launch import WorkerError

KARATE = ["train", "--graph", "karate", "--workers", "2", "--epochs", "3"]
GIVEN = ["--clusters", "4", "--sub-block", "8"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("NETFOLD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def test_a_run_leaves_its_folder_and_repeats(tmp_path, capsys):
    command = [*KARATE, *GIVEN, "--system", "torchgt", "--json"]
    answers = []
    for name in ("a", "b"):
        assert netfold.main([*command, "-o", str(tmp_path / name)]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    answer = answers[0]
    files = {path.name for path in (tmp_path / "a").iterdir()}
    tables = {"epochs", "exchanges", "times", "memory", "predictions", "reformations"}
    assert files == {"order.npy", "summary.json", *(f"{name}.parquet" for name in tables)}
    settings, summary = answer["settings"], answer["summary"]
    assert (settings["clusters"], settings["sub_block"], settings["exchange"]) == (4, 8, "all-to-all")
    assert settings["conditions"]["self_attention"] and not settings["conditions"]["hold"]
    assert summary["handed_values"] == summary["formula_values"] == 4 * 34 * 64 / 2
    assert summary["dense_layer_share"] == 1 / 12
    assert 0 < summary["preparation_share"] < 1 and summary["preparation_structure_s"] > 0
    # The predictions are in the graph's order: they score what the last epoch did.
    frame = pd.read_parquet(tmp_path / "a" / "predictions.parquet")
    assert list(frame["vertex"]) == list(range(34))
    assert summary["last_test_score"] == answer["epochs"][-1]["test_score"]
    assert sorted(np.load(tmp_path / "a" / "order.npy")) == list(range(34))
    epochs = [pd.read_parquet(tmp_path / name / "epochs.parquet") for name in ("a", "b")]
    pairs = settings["tile_pays_from_pairs"] == answers[1]["settings"]["tile_pays_from_pairs"]
    if pairs:  # measured, so it may differ; equal settings give equal epochs
        pd.testing.assert_frame_equal(*epochs)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a", "b"]


def test_people_read_conditions_layout_exchange_and_preparation(tmp_path, capsys):
    command = [*KARATE, *GIVEN, "--system", "torchgt", "--model", "gt", "-o", str(tmp_path / "run")]
    assert netfold.main(command) == 0
    shown = capsys.readouterr().out
    for told in (
        "Hamiltonian path",
        "dense layers",
        "k 4, d_b 8",
        "by formula 8,704",
        "preparation",
        "made up",
    ):
        assert told in shown


def test_a_set_of_graphs_trains_and_resumes(tmp_path, capsys):
    base = ["train", "--graph", "families:40", "--workers", "2", "--system", "torchgt", "--sub-block", "8"]
    base += ["--batch", "16", "--json", "--checkpoint-every", "1"]
    assert netfold.main([*base, "--epochs", "3", "-o", str(tmp_path / "whole")]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert netfold.main([*base, "--epochs", "2", "-o", str(tmp_path / "half")]) == 0
    capsys.readouterr()
    assert netfold.main([*base, "--epochs", "3", "--resume", "-o", str(tmp_path / "half")]) == 0
    resumed = json.loads(capsys.readouterr().out)
    losses = [[row["loss"] for row in answer["epochs"]] for answer in (resumed, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)  # another tiling may have been measured


def test_what_was_measured_is_kept_when_a_run_goes_on(tmp_path, capsys):
    base = [*KARATE, "--system", "torchgt", "--json", "--checkpoint-every", "1", "-o", str(tmp_path / "run")]
    assert netfold.main([*base, "--epochs", "2"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert netfold.main([*base, "--epochs", "4", "--resume"]) == 0
    then = json.loads(capsys.readouterr().out)
    assert not then["settings"]["tried"]
    for name in ("clusters", "sub_block", "tile_pays_from_pairs"):
        assert then["settings"][name] == first["settings"][name]
    assert [row["loss"] for row in then["epochs"]][:2] == [row["loss"] for row in first["epochs"]]
    assert netfold.main([*base, "--epochs", "4", "--resume", "--dropout", "0.5"]) == 2
    assert "of another run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--system", "torchgt", "--model", "gcn"], "model: 'gcn' given; allowed: graphormer-slim"),
        (["--system", "dgl", "--model", "gt"], "model: 'gt' given; allowed: gcn"),
        (["--system", "dgl", "--clusters", "8"], "clusters: given with system dgl; allowed with torchgt"),
        (["--system", "sylvie", "--beta", "0"], "beta: given with system sylvie"),
        (["--system", "torchgt", "--bits", "4"], "bits: given with system torchgt"),
        (["--system", "torchgt", "--preset", "reddit"], "preset: given with system torchgt"),
        (["--system", "torchgt", "--partition", "random"], "partition: given with system torchgt"),
        (["--system", "gp-raw", "--beta", "1"], "beta: given with system gp-raw; allowed with torchgt"),
        (["--system", "gp-flash", "--pattern", "full"], "pattern: given with system gp-flash"),
        (["--system", "torchgt", "--heads", "7"], "heads: 7 do not divide a hidden width of 64"),
        (["--system", "torchgt", "--workers", "9"], "9 given, but graphormer-slim has 8 heads"),
        (["--system", "gp-sparse", "--workers", "35"], "only 34 tokens"),
        (["--system", "torchgt", "--workers", "0"], "workers: 0 given; allowed: 1 to 64"),
        (["--system", "torchgt", "--lr", "nan"], "lr: nan given"),
        (["--system", "torchgt", "--beta", "-1"], "beta: -1.0 given"),
        (["--system", "torchgt", "--dense-every", "0"], "dense-every: 0 given"),
        (["--system", "torchgt", "--graph", "families:7"], "whole number 20..100000"),
        (
            ["--system", "torchgt", "--graph", "families:40", "--exchange", "all-gather"],
            "allowed: all-to-all",
        ),
        (["--system", "torchgt", "--graph", "ring:10"], "no labels"),
        (["--system", "torchgt", "--batch", "4"], "batch: 4 given with one graph; allowed with families:"),
        (["--system", "torchgt", "--clusters", "1000"], "clusters: 1000 given; allowed: 1 to 34"),
        (["--system", "torchgt", "--graph", "families:40", "--clusters", "4"], "clusters: given with a set"),
        (["--system", "torchgt", "--graph", "families:40", "--beta", "1"], "beta: given with a set"),
        (["--system", "torchgt", "--reform", "off", "--beta", "2"], "with --reform off it has no effect"),
        (["--system", "torchgt", "--interleave", "never", "--dense-every", "3"], "--interleave never"),
        (["--system", "torchgt", "--pattern", "full", "--sub-block", "8"], "with --pattern full"),
        (["--system", "gp-sparse", "--sub-block", "8"], "sub-block: given with system gp-sparse"),
        (["--system", "gp-raw", "--interleave", "auto"], "interleave: given with system gp-raw"),
        (["--system", "gp-flash", "--kernel", "plain"], "kernel: given with system gp-flash"),
        (["--system", "dgl", "--kernel", "plain"], "kernel: given with system dgl"),
        (["--system", "torchgt", "--kernel", "flex", "--device", "cpu"], "kernel: flex on a CPU"),
        (["--system", "torchgt", "--kernel", "triton", "--device", "cpu"], "kernel: triton on a CPU"),
        (["--system", "dgl", "--precision", "bfloat16"], "precision: 'bfloat16' given"),
        (["--system", "torchgt", "--resume"], "resume: there is no"),
        (
            ["--system", "gp-raw", "--graph", "planted:100000"],
            "gp-raw needs about 2280.0 GB for the matrices",
        ),
    ],
)
def test_bad_input_is_one_line(arguments, told, tmp_path, capsys):
    assert netfold.main([*KARATE, "-o", str(tmp_path / "run"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("netfold: error: ") and error.count("\n") == 1
    assert told in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--system", "torchgt"],
            "out of memory; use a smaller --hidden, fewer --layers, --precision bfloat16",
        ),
        (["--system", "gp-raw"], "use --system torchgt or gp-sparse, whose memory grows with edges"),
        (["--system", "torchgt", "--graph", "families:40", "--batch", "8"], "use a smaller --batch"),
    ],
)
def test_without_memory_one_line_says_what_to_change(arguments, told, tmp_path, capsys, monkeypatch):
    def exhausted(*given, **named):
        raise MemoryError

    for name in ("prepare_graph", "prepare_set"):
        monkeypatch.setattr(f"workloads.training.transformer.command.{name}", exhausted)
    assert netfold.main([*KARATE, "-o", str(tmp_path / "run"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("netfold: error: ") and error.count("\n") == 1 and told in error

    def killed(*given, **named):
        raise WorkerError(f"worker 0 of 2 was killed by SIGKILL: {LESS_MEMORY}; all workers were ended")

    monkeypatch.undo()
    monkeypatch.setattr("workloads.training.transformer.command.run_cluster", killed)
    assert netfold.main([*KARATE, *GIVEN, "-o", str(tmp_path / "run"), "--system", "torchgt"]) == 2
    assert "--precision bfloat16" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["karate", "families:40"])
def test_torchrun_gives_the_same_trajectory(tmp_path, graph):
    run = [
        *KARATE,
        "--system",
        "torchgt",
        "--graph",
        graph,
        "--sub-block",
        "8",
        "--checkpoint-every",
        "1",
        "-o",
    ]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "netfold", *run, str(tmp_path / "torchrun")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads((tmp_path / "torchrun" / "summary.json").read_text())
    epochs = pd.read_parquet(tmp_path / "torchrun" / "epochs.parquet")
    assert theirs["settings"]["workers"] == 2 and len(epochs) == 3
    # The same layout, taken from its checkpoint, on processes that netfold starts: one more epoch, alike.
    os.rename(tmp_path / "torchrun.checkpoint", tmp_path / "own.checkpoint")
    run[run.index("--epochs") + 1] = "4"
    assert netfold.main([*run, str(tmp_path / "own"), "--resume"]) == 0
    own = pd.read_parquet(tmp_path / "own" / "epochs.parquet")
    pd.testing.assert_frame_equal(own[:3], epochs)
    settings = json.loads((tmp_path / "own" / "summary.json").read_text())["settings"]
    for name in ("clusters", "sub_block", "tile_pays_from_pairs"):
        assert settings[name] == theirs["settings"][name]
    command[command.index("--workers") + 1] = "3"
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "workers: 3 given, but torchrun started 2 processes" in refused.stderr


ROOT = Path(__file__).resolve().parents[4]
