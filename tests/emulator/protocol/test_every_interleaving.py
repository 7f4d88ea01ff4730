"""The protocol's machines in every order of events, not in some: small clusters, explored to the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emulator.protocol.frames import Arrived
from emulator.wire import FRAME, PacketType
from p4.targets.batch import Batch
from tests.emulator.protocol.interleavings import Budget, Cluster, Deadlock, Explorer, SwitchModel

PAIR = {"graph": "star:2", "workers": 2, "width": 1, "memory": 0}
RING = {"graph": "ring:4", "workers": 2, "width": 1, "memory": 0}
THREE = {"graph": "star:3", "workers": 3, "width": 1, "memory": 0}


def explorer(make_case: Callable[..., Any], shape: dict[str, Any], propagations: int = 1) -> Explorer:
    case = make_case(**shape)
    return Explorer(case.plan, case.cross, shape["workers"], propagations)


@pytest.mark.parametrize(
    ("shape", "budget", "propagations", "least"),
    [
        (PAIR, Budget(), 1, 10_000),
        (PAIR, Budget(lost=1), 1, 500_000),
        (PAIR, Budget(copies=1), 1, 1_000_000),
        (PAIR, Budget(early_timers=1), 1, 10_000_000),
        (PAIR, Budget(lost=1, restarts=1), 1, 10_000_000),
        (PAIR, Budget(lost=1), 2, 10_000_000_000),
    ],
)
def test_the_sums_are_right_in_every_order(
    make_case: Callable[..., Any], shape: dict[str, Any], budget: Budget, propagations: int, least: int
) -> None:
    assert explorer(make_case, shape, propagations).explore(budget) >= least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "budget"),
    [
        (PAIR, Budget(lost=1, copies=1, early_timers=1)),
        (PAIR, Budget(lost=2, restarts=1)),
        (PAIR, Budget(lost=1, copies=1, early_timers=1, restarts=1)),
        (RING, Budget(lost=1)),
        (THREE, Budget()),
    ],
)
def test_the_sums_are_right_with_more_faults(
    make_case: Callable[..., Any], shape: dict[str, Any], budget: Budget
) -> None:
    """By hand, with -s: how many."""
    found = explorer(make_case, shape)
    count = found.explore(budget)
    print(f"\n{shape}, {budget}: {count:.3g} interleavings, {found.states} states, {found.steps} steps")
    assert count > 1_000_000


def test_a_switch_that_adds_copies_is_found(
    make_case: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = SwitchModel._upload

    def forgetful(self: SwitchModel, frame: Any, now: int) -> Any:
        self.seen = {}
        return upload(self, frame, now)

    monkeypatch.setattr(SwitchModel, "_upload", forgetful)
    with pytest.raises(AssertionError, match="wrong sums"):
        explorer(make_case, THREE).explore(Budget(copies=1))


def test_a_restarted_switch_that_is_not_told_again_is_found(
    make_case: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told once only, at its restart, it may refuse the next barrier for ever."""
    restarted, resume = SwitchModel.restarted, SwitchModel.resume

    def told(self: SwitchModel, passed: tuple[int, int]) -> SwitchModel:
        with monkeypatch.context() as once:
            once.setattr(SwitchModel, "resume", resume)
            return restarted(self, passed)

    found = explorer(make_case, PAIR)
    follow = Explorer._follow
    begun = []

    def deaf_from_now_on(self: Explorer, state: Cluster) -> int:
        if not begun:
            begun.append(True)
            monkeypatch.setattr(SwitchModel, "restarted", told)
            monkeypatch.setattr(SwitchModel, "resume", lambda self, passed: None)
        return follow(self, state)

    monkeypatch.setattr(Explorer, "_follow", deaf_from_now_on)
    with pytest.raises(Deadlock, match="over and over"):
        found.explore(Budget(lost=1, restarts=1))


@pytest.mark.parametrize("shape", [PAIR, RING, THREE, {"graph": "rmat:4:3", "workers": 3, "memory": 2600}])
def test_the_model_is_the_program(make_case: Callable[..., Any], shape: dict[str, Any]) -> None:
    """The same frames in the same order into switchgnn.p4: what comes out is the same."""
    case = make_case(**shape)
    for seed in range(6):
        random = np.random.default_rng(seed)
        with case.cluster() as cluster:
            cluster.load()
            walk = Walk(explorer(make_case, shape, 2), cluster.engines["switch"], random)
            walk.go(Budget(lost=3, copies=3, early_timers=3))
            assert walk.compared > 10


class Walk:
    """One path by chance, with the program beside the model."""

    def __init__(self, found: Explorer, engine: Any, random: np.random.Generator) -> None:
        self.explorer, self.engine, self.random = found, engine, random
        self.compared = 0

    def go(self, budget: Budget) -> None:
        receive = SwitchModel.receive
        choose = self.explorer._all
        compared: dict[int, list[Any]] = {}

        def noted(model: SwitchModel, raw: bytes) -> Any:
            out = receive(model, raw)
            compared[id(model)] = [raw, out]
            return out

        def one(state: Cluster) -> list[Cluster]:
            compared.clear()
            following = choose(state)
            chosen = following[int(self.random.integers(len(following)))]
            if id(chosen.switch) in compared:
                self._compare(*compared[id(chosen.switch)])
            return [chosen]

        self.explorer._all = one  # type: ignore[method-assign]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SwitchModel, "receive", noted)
            self.explorer.explore(budget)

    def _compare(self, raw: bytes, out: list[tuple[int, bytes]]) -> None:
        self.compared += 1
        data, port = np.frombuffer(raw, np.uint8), int(np.frombuffer(raw, FRAME)["agg"]["worker"][0])
        ends, ports = np.array([len(raw)], np.uint64), np.array([port], np.uint32)
        got = self.engine.run(Batch(data, ends, ports, np.zeros(0, np.uint32)))
        theirs = [] if not len(got.ends) else list(np.split(got.data, got.ends[:-1].astype(int)))
        program = sorted((int(p), told(frame.tobytes())) for p, frame in zip(got.ports, theirs, strict=True))
        assert program == sorted((worker, told(frame)) for worker, frame in out)


def told(raw: bytes) -> tuple[Any, ...]:
    """What a frame says to an endpoint."""
    frame = np.frombuffer(raw, FRAME)
    head = Arrived(frame)
    of_result = head.type[0] == PacketType.RESULT
    names = ("type", "job", "block", "round", "vertex", "chunk", "count")
    return (
        *(int(getattr(head, name)[0]) for name in names),
        int(head.worker[0]) if of_result else 0,
        int(head.source_worker[0]),
        int(frame["ipv4"]["dst"][0]),
        head.values.tobytes() if head.type[0] != PacketType.COMPLETE else b"",
    )
