"""A small engine for tests of all around the real one: its signature, made-up but deterministic figures."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

FAKE_ENGINE = """
import os, signal, time
from types import SimpleNamespace
import numpy as np
from workloads.errors import InputError

def simulate(scenario, system, plans, phases, *, progress=None, features=None):
    epoch = 1_000_000 + 1000 * len(system.name)
    widths = [phase.width for phase in phases if phase.width]
    uploads = sum(plans[width].num_uploads * plans[width].chunks for width in widths)
    free = scenario.switch.recirculation == "free"
    for step in range(1, 4):
        progress(step * epoch // 3, 100 * step, step / 3)
    summary = dict(
        comm_time_ns=epoch // 2, epoch_time_ns=epoch if free else 2 * epoch, compute_time_ns=epoch // 2,
        up_bytes=1000 + uploads, down_bytes=1000 + uploads, fabric_bytes=10, total_bytes=2000 + 2 * uploads,
        up_payload_bytes=900, down_payload_bytes=900, passes=7 * uploads, recirculated_passes=6 * uploads,
        results=uploads, bypassed_share=0.25 if system.switching == "fcfs" else 0.0, packets_sent=uploads,
        packet_hops=2 * uploads, events=4 * uploads, ecn_marks=0, cnps=0, pulls=0,
        timeouts=0, resends=0, drops=0, saturated=0,
        backlog_p50_bytes=10, backlog_p99_bytes=100, backlog_max_bytes=1000,
    )
    times = np.arange(0, epoch, epoch // 10)
    tables = dict(
        queues=dict(time_ns=times, switch=np.array(["leaf0"] * len(times)), port=np.zeros(len(times), int),
                    backlog_bytes=times % 777, shared_bytes=times % 999),
        epochs=dict(layer=np.array([1]), direction=np.array(["forward"]), worker=np.array([0]),
                    start_ns=np.array([0]), comm_start_ns=np.array([1]), comm_end_ns=np.array([2]),
                    end_ns=np.array([3])),
    )
    results = []
    if features:
        results = [np.load(os.environ["FAKE_RESULTS"])] * len(widths) if "FAKE_RESULTS" in os.environ else []
    return SimpleNamespace(summary=summary, tables=tables, results=results)

def crash(scenario, system, *rest, **named):
    if system.name == "g3":
        os.kill(os.getpid(), signal.SIGKILL)
    if system.name == "presum":
        raise ValueError("a broken\\ninvariant")
    if system.name == "strawman":
        raise InputError("switch.memory_bytes: too small for this system")
    return simulate(scenario, system, *rest, **named)

def slow(scenario, system, *rest, **named):
    if system.name != "host":
        open(os.environ["FAKE_STARTED"], "w").close()
        time.sleep(60)
    return simulate(scenario, system, *rest, **named)
"""


@pytest.fixture
def fake_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The fake engine's module name; spawned processes inherit sys.path."""
    (tmp_path / "fake_engine_for_tests.py").write_text(textwrap.dedent(FAKE_ENGINE))
    monkeypatch.syspath_prepend(tmp_path)
    return "fake_engine_for_tests"
