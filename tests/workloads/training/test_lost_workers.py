"""A worker that is lost ends the job on all, wherever it was: starting, loading, in a collective, saving."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch.distributed as dist

import netfold
from workloads.errors import InputError
from workloads.partition import partition_graph
from workloads.training.data import training_data
from workloads.training.launch import WorkerError, run_cluster, train_cluster
from workloads.training.options import TrainOptions
from workloads.training.prepare import Keeping, make_jobs
from workloads.training.watch import Watch, _accept
from workloads.training.worker import train_worker

ROOT = Path(netfold.__file__).parent
PROMISED_S = 30  # by the issue


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def watches(workers: int, patience_s: float = 20.0, absent: tuple[int, ...] = ()):
    """(the watches by rank, what each was told), all in this process."""
    store = dist.HashStore()
    told: dict[int, list[str]] = {rank: [] for rank in range(workers)}
    made = {
        rank: Watch(
            rank, workers, host="127.0.0.1", store=store, patience_s=patience_s, ended=told[rank].append
        )
        for rank in range(workers)
        if rank not in absent
    }
    return made, told


def wait_until(true, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert true()


def test_who_leaves_as_he_should_alarms_nobody():
    made, told = watches(4)
    for rank in (2, 1, 3, 0):
        made[rank].leave()
    for watch in made.values():
        watch._thread.join(5)
        assert not watch._thread.is_alive()
    assert not any(told.values())


def test_worker_0_may_leave_first():
    made, told = watches(3)
    for rank in range(3):
        made[rank].leave()
    for watch in made.values():
        watch._thread.join(5)
    assert not any(told.values())


@pytest.mark.parametrize(
    "end, heard",
    [(Watch.leave, []), (lambda first: first.failed("why"), ["worker 0 of 4 failed: why"])],
    ids=["leaves", "fails"],
)
def test_who_is_taken_in_late_hears_what_worker_0_has_said(end, heard, monkeypatch):
    said, say = threading.Event(), Watch._say

    def late(*args):
        assert said.wait(10)
        return _accept(*args)

    def mark(self, line):
        say(self, line)
        if self.rank == 0:
            said.set()

    monkeypatch.setattr("workloads.training.watch._accept", late)
    monkeypatch.setattr(Watch, "_say", mark)
    made, told = watches(4)
    assert not made[0]._peers
    end(made[0])
    for rank in (1, 2, 3):
        wait_until(lambda rank=rank: told[rank] or not made[rank]._thread.is_alive())
        assert told[rank] == heard


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_closed_connection_names_the_lost_worker_to_all_others(lost):
    made, told = watches(4)
    wait_until(lambda: len(made[0]._peers) == 3)
    made[lost]._told.set()  # the dead tell nothing
    for peer in made[lost]._peers.values():
        peer.shutdown(socket.SHUT_RDWR)
    others = [rank for rank in range(4) if rank != lost]
    wait_until(lambda: all(told[rank] for rank in others))
    for rank in others:
        assert told[rank] == [f"worker {lost} of 4 is gone: its process ended, or its machine"]


def test_a_reason_reaches_all_and_only_the_first_one_counts():
    made, told = watches(3)
    wait_until(lambda: len(made[0]._peers) == 2)
    made[2].failed("ValueError: no\nmore (x.py:3)")
    wait_until(lambda: bool(told[0] and told[1]))
    made[1].failed("LostWorkerError: worker 2 is gone")
    assert told == {0: ["worker 2 of 3 failed: ValueError: no more (x.py:3)"], 1: told[0], 2: []}
    made[1].wait_for_cause()  # known: returns at once


def test_a_worker_that_never_starts_is_named():
    made, told = watches(3, patience_s=0.5, absent=(1,))
    wait_until(lambda: bool(told[0] and told[2]))
    assert (
        told[2]
        == told[0]
        == ["worker 1 of 3 did not start within 0.5 s; a slow start needs a longer --timeout"]
    )
    assert set(made) == {0, 2}


def test_without_worker_0_the_others_say_so():
    with pytest.raises(InputError, match=r"^worker 0 did not start within 0.2 s"):
        Watch(1, 2, host="127.0.0.1", store=dist.HashStore(), patience_s=0.2, ended=print)


def test_strangers_at_the_port_are_sent_away():
    made, told = watches(2)
    port = made[0]._listener.getsockname()[1]
    for content in (b"GET / HTTP/1.1\r\n", b"wrong 1\n", b"\xff\xfe\n", b""):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(content)
            stranger.shutdown(socket.SHUT_WR)
            stranger.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(10) == b""
    for rank in (1, 0):
        made[rank].leave()
    for watch in made.values():
        watch._thread.join(5)
    assert not any(told.values())


def started_as_by_torchrun(script: str, workers: int, folder: Path) -> list[subprocess.Popen[str]]:
    """Processes with the environment that torchrun gives its workers, each running `script`."""
    place = folder / "script.py"
    place.write_text(textwrap.dedent(script), encoding="utf-8")
    shared = {
        "TORCHELASTIC_RUN_ID": "test",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        "PYTHONPATH": str(ROOT),
    }
    return [
        subprocess.Popen(
            [sys.executable, str(place)],
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(workers)
    ]


LOADING = """
import os, sys, time
from pathlib import Path
import netfold, workloads.training.cli
real = workloads.training.cli.load_graph
def slow(*args, **kwargs):
    rank = os.environ["RANK"]
    Path({folder!r}, "loading-" + rank).touch()
    {what}
    return real(*args, **kwargs)
workloads.training.cli.load_graph = slow
workers = os.environ["WORLD_SIZE"]
sys.exit(netfold.main(["train", "--graph", "karate", "--workers", workers, "-o", {folder!r} + "/run"]))
"""


def test_a_worker_killed_while_it_loads_ends_all_and_is_named(tmp_path):
    script = LOADING.format(folder=str(tmp_path), what="time.sleep(600)")
    workers = started_as_by_torchrun(script, 2, tmp_path)
    try:
        wait_until(lambda: len(list(tmp_path.glob("loading-*"))) == 2, 300)
        start = time.monotonic()
        workers[1].kill()
        errors = [worker.communicate(timeout=PROMISED_S)[1] for worker in workers]
        assert time.monotonic() - start < PROMISED_S
    finally:
        for worker in workers:
            worker.kill()
    assert workers[0].returncode == 2
    assert "netfold: error: worker 1 of 2 is gone: its process ended, or its machine" in errors[0]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_worker_that_fails_while_it_loads_gives_all_its_reason(tmp_path):
    what = "time.sleep(600 if rank != '2' else 1); raise ValueError('unreadable' + chr(10) + 'here')"
    workers = started_as_by_torchrun(LOADING.format(folder=str(tmp_path), what=what), 3, tmp_path)
    try:
        errors = [worker.communicate(timeout=300)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, error in zip(workers, errors, strict=True):
        assert worker.returncode == 2
        assert "netfold: error: worker 2 of 3 failed: ValueError: unreadable (script.py:" in error
    assert "Traceback" in errors[2] and "Traceback" not in errors[0]


def jobs(graph, workers, keeping=None, **options):
    chosen = TrainOptions(hidden=8, epochs=100_000, timeout_s=20, **options)
    partition = partition_graph(graph, workers)
    return make_jobs(graph, partition, training_data(graph, 1), chosen, keeping=keeping)


@pytest.mark.parametrize("delay_s", [0.0, 0.3])
def test_a_worker_killed_as_soon_as_it_is_there_ends_the_job(karate, delay_s):
    """Before it has joined the group: while it takes its job, or while it waits for the others."""
    over = threading.Event()

    def kill() -> None:
        while not over.is_set():
            for process in multiprocessing.active_children():
                if process.name == "worker 1" and process.pid is not None:
                    time.sleep(delay_s)
                    os.kill(process.pid, signal.SIGKILL)
                    return
            time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    start = time.monotonic()
    try:
        with pytest.raises(WorkerError, match=r"^worker 1 of 3 (was killed by SIGKILL|ended)"):
            train_cluster(jobs(karate, 3), lambda row: None)
    finally:
        over.set()
        killer.join()
    assert time.monotonic() - start < PROMISED_S
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("worker ")]


class Hangs:
    """Whoever unpickles it sleeps."""

    def __reduce__(self):
        return time.sleep, (600,)


def test_a_worker_that_hangs_before_it_has_its_job_is_named_in_time(karate):
    given = jobs(karate, 3)
    options = replace(given[0].options, timeout_s=4)
    given = [replace(job, options=options) for job in given]
    # The rest is more than the pipe holds, so nobody can write the job to its end either.
    given[1] = replace(given[1], identity=(Hangs(), "x" * (1 << 20)))
    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"^worker 1 of 3 did not start within 4 s; .* --timeout; all"):
        train_cluster(given, lambda row: None)
    assert time.monotonic() - start < PROMISED_S
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("worker ")]


def late(job, store, report, *, device, stop):
    """Worker 1 has its job, and does not come."""
    if job.local.rank == 1:
        time.sleep(600)
    return train_worker(job, store, report, device=device, stop=stop)


@pytest.mark.slow
def test_a_worker_that_hangs_before_it_joins_is_named_in_time(karate):
    given = jobs(karate, 3)
    given = [replace(job, options=replace(job.options, timeout_s=4)) for job in given]
    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"LostWorkerError: worker 1 did not join within 4 s; .* --timeout"):
        run_cluster(given, lambda row: None, late)
    assert time.monotonic() - start < PROMISED_S


def test_a_worker_that_cannot_save_ends_the_job_and_says_why(karate, tmp_path):
    (tmp_path / "kept" / "worker-1-2.pt" / "in the way").mkdir(parents=True)
    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"worker 1 of 3 failed: .*checkpoint: .*worker-1-2.pt cannot be"):
        train_cluster(jobs(karate, 3, Keeping(tmp_path / "kept", every=3)), lambda row: None)
    assert time.monotonic() - start < PROMISED_S
    assert not list((tmp_path / "kept").glob(".*"))
