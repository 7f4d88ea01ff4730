"""`netfold train-dynamic` from the front door: records, repeats, bad input, resume, a worker that dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import netfold
from workloads.training.dynamic.options import make_options
from workloads.training.dynamic.prepare import make_dynamic_jobs
from workloads.training.dynamic.worker import train_dynamic_worker
from workloads.training.launch import WorkerError, run_cluster
from workloads.training.prepare import Keeping

ROOT = Path(netfold.__file__).parent
SMALL = ["train-dynamic", "--graph", "contacts:60:12", "--window", "3", "--workers", "2", "--hidden", "4"]


def test_a_run_leaves_a_folder_that_repeats_byte_for_byte(tmp_path, capsys):
    command = [*SMALL, "--epochs", "3", "--p", "0.3", "--s", "2", "--adaptive", "--json"]
    assert netfold.main([*command, "-o", str(tmp_path / "a")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert netfold.main([*command, "-o", str(tmp_path / "b")]) == 0
    for name in ("epochs.parquet", "windows.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    epochs, windows = (pd.read_parquet(tmp_path / "a" / f"{name}.parquet") for name in ("epochs", "windows"))
    assert list(epochs["epoch"]) == [0, 1, 2] == [row["epoch"] for row in answer["epochs"]]
    assert [row["share"] for row in answer["epochs"]] == [1.0, 0.5, 0.3]
    assert answer["settings"]["partition"] == "light-metis"
    assert answer["settings"]["task"] == "classification"
    told = answer["summary"]
    for kind in ("embeddings", "gradients", "weights"):
        total = told[f"{kind}_bytes"]
        assert total == windows[f"{kind}_bytes"].sum() == epochs[f"{kind}_bytes"].sum() > 0
    assert 0 < told["test_accuracy"] <= 1 and 0 <= told["test_f1"] <= 1
    assert 0 < told["cache_bytes"] <= told["cache_most_bytes"] < told["peak_bytes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_people_read_metrics_bytes_and_the_cache(tmp_path, capsys):
    assert netfold.main([*SMALL, "--epochs", "1", "-o", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "swash, tgcn on contacts:60:12, 2 workers" in shown
    for word in ("accuracy", "f1", "embeddings", "cached", "at most"):
        assert word in shown


BAD = [
    (["--graph", "nowhere"], "dynamic graph 'nowhere'"),
    (["--window", "9"], "window: 9 snapshots given"),
    (["--graph", "social:60:5", "--window", "3"], "window: 3 snapshots given; allowed: 1 to 2"),
    (["--workers", "0"], "workers: 0 given"),
    (["--workers", "61"], "workers: 61 given"),
    (["--p", "0"], "p: 0.0 given; allowed: 1e-06 to 1"),
    (["--p", "nan"], "p: nan given"),
    (["--k", "0"], "k: 0 given"),
    (["--s", "-1"], "s: -1.0 given"),
    (["--s", "2.5"], "s: 2.5 given; allowed: a share below 1, or a whole number"),
    (["--cache-windows", "-1"], "cache_windows: -1 given"),
    (["--system", "full", "--p", "0.5"], "p: given for system full; allowed with swash only"),
    (["--system", "full", "--adaptive"], "adaptive: given for system full"),
    (["--system", "dynagraph", "--inputs", "each"], "inputs: each given for system dynagraph"),
    (["--partition", "chunk"], "chunk moves vertices between workers; allowed with swash"),
    (["--system", "dynahb", "--partition", "snapshot"], "allowed with dynahb: a partition of vertices"),
    (["--model", "evolvegcn", "--hidden", "61"], "allowed with evolvegcn: 1 to the vertices, 60"),
    (["--resume"], "resume: there is no"),
    (["--device", "cuda"], "device: cuda for 2 workers"),
    (["--model", "gcn"], "invalid choice"),
]


@pytest.mark.parametrize(("arguments", "told"), BAD)
def test_bad_input_is_one_line(arguments, told, tmp_path, capsys):
    import torch

    if "cuda" in arguments and torch.cuda.device_count() >= 2:
        pytest.skip("this machine has CUDA devices enough")
    command = [*SMALL, "--epochs", "1", "-o", str(tmp_path / "run"), *arguments]
    try:
        status = netfold.main(command)
    except SystemExit as exit_:
        status = exit_.code
    assert status == 2
    error = capsys.readouterr().err
    assert error.startswith("netfold: error: ") and error.count("\n") == 1
    assert told in error
    assert not list(tmp_path.iterdir())


def jobs(graph, split, keeping=None, **given):
    options = make_options({"hidden": 4, "timeout_s": 20.0} | given)
    return make_dynamic_jobs(graph, split(graph, 2, options.system), options, keeping=keeping)


def test_a_killed_worker_ends_the_job_and_is_named(graphs, split):
    def kill(row):
        if row["epoch"] == 2:
            [victim] = [p for p in multiprocessing.active_children() if p.name == "worker 1"]
            os.kill(victim.pid, signal.SIGKILL)

    with pytest.raises(WorkerError, match=r"^worker 1 of 2 was killed by SIGKILL.*all workers were ended$"):
        run_cluster(jobs(graphs["regression"], split, epochs=100_000), kill, train_dynamic_worker)
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("worker ")]


def test_a_diverged_loss_says_what_to_change(graphs, split):
    made = jobs(graphs["regression"], split)
    spoiled = made[1].local.features[0].copy()
    spoiled[0] = float("nan")
    object.__setattr__(made[1].local, "features", (spoiled, *made[1].local.features[1:]))
    with pytest.raises(WorkerError, match="loss is no longer finite in epoch 0; lower --lr"):
        run_cluster(made, lambda row: None, train_dynamic_worker)


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(graphs, split, tmp_path):
    """EvolveGCN keeps all that the others keep between windows, and its summaries."""

    def go(epochs, **keeping):
        kept = Keeping(tmp_path / "kept", **keeping)
        knobs = {"p": 0.4, "k": 2, "s": 2, "adaptive": True, "cache_windows": 2}
        made = jobs(graphs["link"], split, kept, epochs=epochs, model="evolvegcn", **knobs)
        return run_cluster(made, lambda row: None, train_dynamic_worker)

    whole = go(6)
    assert not (tmp_path / "kept").exists()
    go(4, every=3)
    files = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert files == ["worker-0-3.pt", "worker-1-3.pt"]
    resumed = go(6, resume=True)
    assert repr(resumed.epochs) == repr(whole.epochs)
    assert resumed.windows == whole.windows
    for name, value in whole.weights.items():
        assert resumed.weights[name].tobytes() == value.tobytes()


def test_without_torch_the_command_says_so():
    code = (
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'torch' else real(name, *a)\n"
        "import sys, netfold\n"
        "assert netfold.main(['train-dynamic']) == 2\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (
        done.stderr.startswith("netfold: error: train-dynamic: needs torch") and done.stderr.count("\n") == 1
    )


@pytest.mark.slow
def test_torchrun_gives_the_same_trajectory(tmp_path):
    run = [*SMALL, "--epochs", "2", "-o"]
    assert netfold.main([*run, str(tmp_path / "own")]) == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "netfold", *run, str(tmp_path / "torchrun")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("epochs.parquet", "windows.parquet"):
        assert (tmp_path / "torchrun" / name).read_bytes() == (tmp_path / "own" / name).read_bytes()
