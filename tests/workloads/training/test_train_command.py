"""`netfold train` from the front door, and the local cluster's behaviour when workers die."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import netfold
from tests.workloads.training.threads import train_in_threads
from workloads.partition import partition_graph
from workloads.training import launch
from workloads.training.data import training_data
from workloads.training.dropout import kept
from workloads.training.launch import WorkerError, train_cluster
from workloads.training.options import TrainOptions
from workloads.training.prepare import Keeping, make_jobs

KARATE = ["train", "--graph", "karate", "--workers", "2", "--hidden", "8", "--epochs", "6"]
ROOT = Path(netfold.__file__).parent


def test_a_run_leaves_a_folder_that_repeats_byte_for_byte(tmp_path, capsys):
    command = [*KARATE, "--system", "sylvie", "--json"]
    assert netfold.main([*command, "-o", str(tmp_path / "a")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["summary"]["epochs"] == 6
    assert answer["settings"]["made_up"].startswith("features: identity")
    assert netfold.main([*command, "-o", str(tmp_path / "b")]) == 0
    for name in ("epochs.parquet", "exchanges.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    epochs = pd.read_parquet(tmp_path / "a" / "epochs.parquet")
    assert list(epochs["epoch"]) == list(range(6))
    assert answer["summary"]["embeddings_bytes"] == epochs["embeddings_bytes"].sum() > 0
    times = pd.read_parquet(tmp_path / "a" / "times.parquet")
    assert (times["epoch_ns"].dropna() > 0).all() and set(times["worker"]) == {0, 1}
    for name in ("extractor", "coordinate", "encode", "decode"):
        assert 0 < answer["summary"][f"{name}_s"] < 3600
        assert (times[f"{name}_ns"].dropna() > 0).any()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_preset_fills_what_is_not_given(tmp_path, capsys):
    command = ["train", "--graph", "karate", "--workers", "2", "--preset", "ogbn-products", "--model", "sage"]
    assert netfold.main([*command, "--epochs", "2", "--json", "-o", str(tmp_path / "run")]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    shape = {name: settings[name] for name in ("layers", "hidden", "dropout", "epochs")}
    assert shape == {"layers": 3, "hidden": 128, "dropout": 0.3, "epochs": 2}


def test_the_presets_are_the_papers_table():
    from workloads.training.presets import preset

    shapes = {name: preset(name, "sage") for name in ("reddit", "yelp", "ogbn-products", "amazon")}
    table = {n: (s["layers"], s["hidden"], s["epochs"], s["dropout"]) for n, s in shapes.items()}
    assert table == {
        "reddit": (4, 256, 2000, 0.5),
        "yelp": (4, 512, 2000, 0.1),
        "ogbn-products": (3, 128, 500, 0.3),
        "amazon": (4, 128, 2000, 0.1),
    }
    assert all(preset(name, "gcn") == shape for name, shape in shapes.items())
    deep = {name: tuple(preset(name, "gcnii").values()) for name in shapes}
    assert deep == {"reddit": (8, 256), "yelp": (8, 512), "ogbn-products": (8, 128), "amazon": (6, 128)}
    assert tuple(preset("reddit", "jknet").values()) == (8, 128, 800, 0.5)
    assert tuple(preset("ogbn-products", "gat").values()) == (3, 256)


def test_people_read_scores_and_bytes(tmp_path, capsys):
    assert netfold.main([*KARATE, "-o", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "accuracy" in shown and "embeddings" in shown and "made up" in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--graph", "ring:10"], "no labels"),
        (["--workers", "0"], "workers: 0 given"),
        (["--dropout", "1"], "dropout: 1.0 given; allowed: 0 to 0.99"),
        (["--lr", "nan"], "lr: nan given"),
        (["--delta", "0"], "gap: 0 given"),
        (["--system", "bns-gcn", "--model", "gat"], "gat with bns-gcn"),
        (
            ["--preset", "yelp", "--model", "jknet"],
            "preset: yelp with model jknet; allowed models: gcn, sage",
        ),
        (["--workers", "35"], "only 34 vertices"),
    ],
)
def test_bad_input_is_one_line(arguments, told, tmp_path, capsys):
    assert netfold.main([*KARATE, "-o", str(tmp_path / "run"), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("netfold: error: ") and error.count("\n") == 1
    assert told in error
    assert not list(tmp_path.iterdir())


def test_without_torch_the_command_says_so_and_the_others_run():
    code = (
        "import sys, importlib.abc\n"
        "class Block(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'torch' else real(name, *a)\n"
        "import netfold\n"
        "assert netfold.main(['graph', 'list']) == 0\n"
        "assert netfold.main(['train', '--graph', 'karate']) == 2\n"
        "assert netfold.main(['trace', '-o', 'x.parquet']) == 2\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pip install 'netfold[train]'") == 2


def jobs(graph, workers, **options):
    chosen = TrainOptions(hidden=8, epochs=100_000, timeout_s=20, **options)
    return make_jobs(graph, partition_graph(graph, workers), training_data(graph, 1), chosen)


def test_a_killed_worker_ends_the_job_and_is_named(karate):
    def kill(row):
        if row["epoch"] == 3:
            [victim] = [p for p in multiprocessing.active_children() if p.name == "worker 1"]
            os.kill(victim.pid, signal.SIGKILL)

    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"^worker 1 of 3 was killed by SIGKILL.*all workers were ended$"):
        train_cluster(jobs(karate, 3), kill)
    assert time.monotonic() - start < 30  # what the issue promises
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("worker ")]


def test_a_failing_worker_is_named_with_its_reason(karate):
    broken = jobs(karate, 2)
    object.__setattr__(broken[1], "features", broken[1].features[:-1])
    with pytest.raises(WorkerError, match=r"worker 1 of 2 failed: \w+: .*\.py:\d+\)") as told:
        train_cluster(broken, lambda row: None)
    assert "\n" not in str(told.value)


def test_a_worker_without_memory_says_what_to_change(karate):
    greedy = make_jobs(karate, partition_graph(karate, 2), training_data(karate, 1), TrainOptions())
    object.__setattr__(greedy[1].options, "hidden", 10**13)  # more weights than addresses
    with pytest.raises(WorkerError, match="out of memory: use a smaller --hidden"):
        train_cluster(greedy, lambda row: None)


def test_a_diverged_loss_says_what_to_change(karate):
    spoiled = jobs(karate, 2)
    spoiled[0].features[0, 0] = float("nan")
    with pytest.raises(WorkerError, match="loss is no longer finite in epoch 0; lower --lr"):
        train_cluster(spoiled, lambda row: None)
    spoiled = jobs(karate, 2, system="sylvie")
    spoiled[0].features[:] = float("nan")
    with pytest.raises(WorkerError, match=r"NaN, infinity or .* in the embeddings of layer 1, epoch 0"):
        train_cluster(spoiled, lambda row: None)


@pytest.mark.parametrize("system", ["sylvie", "pipegcn", "bns-gcn"])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(system, karate, tmp_path):
    def go(folder, epochs, **keeping):
        chosen = TrainOptions(hidden=8, epochs=epochs, system=system, dropout=0.3, gap=2, share=0.5)
        partition, data = partition_graph(karate, 2), training_data(karate, 1)
        kept = Keeping(tmp_path / folder, **keeping)
        return train_in_threads(make_jobs(karate, partition, data, chosen, keeping=kept))

    whole = go("never", 14)
    assert not (tmp_path / "never").exists()
    go("kept", 7, every=3)
    files = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert files == ["worker-0-6.pt", "worker-1-6.pt"]
    (tmp_path / "kept" / "worker-1-9.pt").write_bytes(b"half a file of a later epoch")
    resumed = go("kept", 14, resume=True)
    assert len(resumed.epochs) == 14
    assert repr(resumed.epochs) == repr(whole.epochs)
    assert resumed.exchanges == whole.exchanges
    for name, value in whole.weights.items():
        assert resumed.weights[name].tobytes() == value.tobytes()


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused_before_any_worker_starts(
    karate, tmp_path, capsys, monkeypatch
):
    command = [*KARATE, "--system", "sylvie", "-o", str(tmp_path / "run")]
    assert netfold.main([*command, "--resume"]) == 2
    assert "resume: there is no" in capsys.readouterr().err
    assert netfold.main([*command, "--checkpoint-every", "2"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(launch, "run_cluster", None)  # calling it would be a TypeError
    assert netfold.main([*command, "--resume", "--lr", "0.02", "--epochs", "8"]) == 2
    told = capsys.readouterr().err
    assert "is of another run; graph, partition and settings must be the same" in told
    assert told.count("\n") == 1 and "worker 0 of" not in told
    place = tmp_path / "run.checkpoint" / "worker-1-5.pt"
    place.write_bytes(place.read_bytes()[:1000])
    assert netfold.main([*command, "--resume", "--epochs", "8"]) == 2
    assert "is not a readable checkpoint" in capsys.readouterr().err
    place.unlink()
    assert netfold.main([*command, "--resume", "--epochs", "8"]) == 2
    assert "no checkpoint that all workers have" in capsys.readouterr().err
    assert not list(tmp_path.rglob(".*"))


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "run"
    command = [*KARATE, "--system", "sylvie", "-o", str(folder)]

    def with_ctrl_c(jobs, on_epoch):
        def told(row):
            on_epoch(row)
            if row["epoch"] == 2:
                os.kill(os.getpid(), signal.SIGINT)

        return train_cluster(jobs, told)

    with monkeypatch.context() as patched:
        patched.setattr(launch, "train_cluster", with_ctrl_c)
        assert netfold.main([*command, "--epochs", "1000000"]) == 130
    assert "the same command with --resume goes on" in capsys.readouterr().err
    summary = json.loads((folder / "summary.json").read_text())["summary"]
    done = summary["epochs"]
    assert summary["interrupted"] and 3 <= done < 1000000
    assert netfold.main([*command, "--epochs", str(done + 3), "--resume", "--json"]) == 0
    resumed = json.loads(capsys.readouterr().out)
    assert not (tmp_path / "run.checkpoint").exists()
    assert netfold.main([*command[:-1], str(tmp_path / "b"), "--epochs", str(done + 3), "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert resumed["epochs"] == whole["epochs"]
    assert len(whole["epochs"]) == done + 3


def wait_for(ready, process) -> None:
    deadline = time.monotonic() + 300  # a busy machine takes a minute to load torch
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ready()


def test_a_failure_shows_the_workers_traceback(karate, capsys, tmp_path, monkeypatch):
    spoiled = jobs(karate, 2)
    spoiled[1].labels[:] = 99
    with pytest.raises(
        WorkerError, match=r"worker 1 of 2 failed: IndexError: .*all workers were ended"
    ) as caught:
        train_cluster(spoiled, lambda row: None)
    assert caught.value.report.startswith("Traceback") and "score.py" in caught.value.report

    def failing(jobs, on_epoch):
        raise WorkerError("worker 1 of 2 failed", "Traceback: where it was\n")

    monkeypatch.setattr("workloads.training.launch.train_cluster", failing)
    assert netfold.main([*KARATE, "-o", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error == "Traceback: where it was\nnetfold: error: worker 1 of 2 failed\n"


def test_out_of_memory_says_what_to_change(karate, capsys, tmp_path, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr("workloads.training.prepare.make_jobs", full)
    assert netfold.main([*KARATE, "-o", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("netfold: error: train: out of memory; use a smaller --hidden")
    assert "--system sar" in error and error.count("\n") == 1


def test_cuda_without_enough_devices_is_refused(tmp_path, capsys):
    import torch

    if torch.cuda.device_count() >= 2:
        pytest.skip("this machine has CUDA devices enough")
    assert netfold.main([*KARATE, "--device", "cuda", "-o", str(tmp_path / "run")]) == 2
    assert "device: cuda for 2 workers on a machine with" in capsys.readouterr().err


def test_cuda_and_nccl_follow_the_cpu(karate, monkeypatch):
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    for system in ("dgl", "sar", "pipegcn"):
        runs = []
        for device in ("cpu", "cuda"):
            chosen = TrainOptions(hidden=8, epochs=10, system=system, device=device, precision="float64")
            partition, data = partition_graph(karate, 2), training_data(karate, 1)
            runs.append(train_cluster(make_jobs(karate, partition, data, chosen), lambda row: None))
        losses = [[row["loss"] for row in run.epochs] for run in runs]
        assert losses[1] == pytest.approx(losses[0], rel=1e-9)
        bytes_by_epoch = [[row["embeddings_bytes"] for row in run.epochs] for run in runs]
        assert bytes_by_epoch[0] == bytes_by_epoch[1]


def parents() -> dict[int, int]:
    """The parent of every process, by id."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return found


def family_of(pid: int) -> list[int]:
    """Children, their children, and so on."""
    parent = parents()
    family = [pid]
    for member in family:
        family += [child for child, of in parent.items() if of == member]
    return family[1:]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_torchrun_gives_the_same_trajectory(tmp_path):
    run = [*KARATE, "-o"]
    assert netfold.main([*run, str(tmp_path / "own")]) == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "netfold", *run, str(tmp_path / "torchrun")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("epochs.parquet", "exchanges.parquet"):
        assert (tmp_path / "torchrun" / name).read_bytes() == (tmp_path / "own" / name).read_bytes()
    command[command.index("--workers") + 1] = "3"
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "workers: 3 given, but torchrun started 2 processes" in refused.stderr


@pytest.mark.slow
def test_under_torchrun_a_killed_worker_ends_the_others_and_is_named(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "netfold", *KARATE[:-1], "1000000", "-o", str(tmp_path / "run")]
    command += ["--checkpoint-every", "5"]
    agent = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list((tmp_path / "run.checkpoint").glob("worker-1-*.pt")), agent)
    told = {}
    for member in family_of(agent.pid):
        environment = Path(f"/proc/{member}/environ").read_bytes().split(b"\0")
        told |= {entry: member for entry in environment if entry.startswith(b"RANK=")}
    os.kill(told[b"RANK=1"], signal.SIGKILL)
    killed = time.monotonic()
    _, errors = agent.communicate(timeout=120)
    assert time.monotonic() - killed < 30
    assert agent.returncode != 0
    assert "LostWorkerError: worker 1 is gone" in errors or "Signal 9 (SIGKILL)" in errors


@pytest.mark.slow
def test_workers_do_not_outlive_a_killed_launcher(tmp_path):
    command = [sys.executable, "-m", "netfold", *KARATE[:-1], "100000", "-o", str(tmp_path / "run")]
    launcher = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    family: list[int] = []
    while len(family) < 4 and time.monotonic() < deadline:  # fork server, tracker, two workers
        time.sleep(0.3)
        family = family_of(launcher.pid)
    assert len(family) >= 4
    launcher.kill()
    launcher.wait()
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in family) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in family if alive(pid)]


def test_dropout_keeps_its_share_and_depends_on_vertex_column_and_key():
    import torch

    vertices = torch.arange(3000, dtype=torch.int32)
    mask = kept(vertices, 100, 0.3, 12345)
    assert abs(float(mask.double().mean()) - 0.7) < 5 * (0.21 / mask.numel()) ** 0.5
    assert torch.equal(kept(vertices[50:60], 100, 0.3, 12345), mask[50:60])
    assert float((mask == kept(vertices, 100, 0.3, 12346)).double().mean()) == pytest.approx(0.58, abs=0.01)
    for shifted in (mask.roll(1, 0), mask.roll(1, 1)):
        assert float((mask == shifted).double().mean()) == pytest.approx(0.58, abs=0.01)
    assert (mask.double().mean(0) - 0.7).abs().max() < 5 * (0.21 / 3000) ** 0.5
    assert (mask.double().mean(1) - 0.7).abs().max() < 5 * (0.21 / 100) ** 0.5
