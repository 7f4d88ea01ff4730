"""Whatever the network does, every owner gets A H exactly: the protocol with the real switch program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

PROPAGATIONS = 3
# A failing run is repeated by its seed; making it smaller would take longer than it is worth.
random_runs = settings(
    deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)
chances = st.sampled_from([0.0, 0.0, 0.01, 0.1, 0.3])
rules = st.builds(
    lambda where, loss, burst, duplicate, reorder, corrupt, late: (
        f"{where}: loss={loss}, burst={burst}, duplicate={duplicate}, reorder={reorder}, "
        f"corrupt={corrupt}, late={late}us"
    ),
    st.sampled_from(["*", "worker*.up", "worker*.down", "worker0.up", "worker1.down"]),
    chances,
    st.sampled_from([1, 1, 4]),
    chances,
    chances,
    st.sampled_from([0.0, 0.0, 0.05]),
    st.sampled_from([3, 50, 400]),
)
extras = st.sampled_from(
    [
        [],
        [],
        ["worker0: stall=0us..300us"],
        ["worker1: stall=20us..900us", "worker2.up: delay=60us"],
        ["worker1.down: down=5us..250us"],
    ]
)
shapes = st.sampled_from(
    [
        {"workers": 2, "width": 7, "memory": 0},
        {"workers": 3, "width": 40, "memory": 1500},
        {"workers": 4, "width": 33, "memory": 2600, "residual": "host"},
        {"workers": 4, "width": 30, "memory": 0, "racks": 2},
        {"workers": 6, "width": 31, "memory": 2600, "racks": 3},
        {"workers": 3, "width": 61, "blocks": "none", "memory": 0},
    ]
)


def run(
    case: Any, asked: list[str], seed: int, burst: int, propagations: int = PROPAGATIONS
) -> dict[str, int]:
    """Raises if a sum is wrong; a run that gives up raises too."""
    random = np.random.default_rng(seed)
    with case.cluster(asked, seed=seed, burst=burst, patience_ns=3_000_000_000) as cluster:
        cluster.load()
        for _ in range(propagations):
            values = case.values(random)
            np.testing.assert_array_equal(cluster.propagate(1, values), case.sums(values))
        switch = cluster.switch_events()
        assert switch["saturated"] == 0
        for station in cluster.stations:
            assert station.endpoint.counters.saturated == 0
            assert station.endpoint.counters.dropped["forged"] == 0
        return switch


@pytest.mark.parametrize("faults", [[], ["*: loss=0.05, duplicate=0.1, reorder=0.1"]], ids=["none", "all"])
@pytest.mark.parametrize("racks", [0, 2])
def test_two_jobs_touch_nothing_of_each_other(
    make_case: Callable[..., Any], racks: int, faults: list[str]
) -> None:
    first = make_case(workers=4, racks=racks)
    second = make_case(workers=4, racks=racks, graph_seed=5, width=61)
    restart = ["leaf0: restart=20us" if racks else "switch: restart=20us"]
    random = np.random.default_rng(2)
    asked = faults and faults + restart
    with first.cluster(asked, patience_ns=3_000_000_000, second=second) as cluster:
        cluster.load()
        for _ in range(PROPAGATIONS):
            for number, case in ((1, first), (2, second)):
                values = case.values(random)
                np.testing.assert_array_equal(cluster.propagate(number, values), case.sums(values))
        pulls = sum(station.counters()["pulls"] for station in cluster.stations)
        # A sum that the other job spoilt would have been pulled.
        assert (pulls > 0) == bool(faults)
        assert cluster.switch_events().get("restarts", 0) == len(asked) // 2


@given(
    shapes, st.lists(rules, max_size=2), extras, st.tuples(st.integers(0, 2**32), st.sampled_from([1, 3, 32]))
)
@settings(random_runs, max_examples=35)
def test_random_faults(
    make_case: Callable[..., Any],
    shape: dict[str, Any],
    links: list[str],
    more: list[str],
    run_as: tuple[int, int],
) -> None:
    seed, burst = run_as
    case = make_case(graph_seed=seed % 5, **shape)
    run(case, links + [rule for rule in more if _fits(rule, shape["workers"])], seed, burst)


def _fits(rule: str, workers: int) -> bool:
    return not rule.startswith("worker2") or workers > 2


@given(
    st.sampled_from([{}, {"workers": 4, "racks": 2, "memory": 2600}]),
    st.lists(st.integers(1, 4_000), min_size=1, max_size=3),
    st.sampled_from([[], ["*: loss=0.05, duplicate=0.1, reorder=0.1, late=300us"]]),
    st.integers(0, 2**32),
)
@settings(random_runs, max_examples=8)
def test_switch_restarts_in_the_middle_of_blocks(
    make_case: Callable[..., Any], shape: dict[str, Any], times_us: list[int], links: list[str], seed: int
) -> None:
    case = make_case(graph="rmat:5:4", **shape)
    names = ["leaf0", "leaf1", "spine1"] if case.topology.racks else ["switch"]
    restarts = [f"{names[i % len(names)]}: restart={at}us" for i, at in enumerate(times_us)]
    switch = run(case, links + restarts, seed, 8, propagations=4)
    if min(times_us) < 20:
        assert switch["restarts"] >= 1


@pytest.mark.slow
def test_many_random_faults(make_case: Callable[..., Any]) -> None:
    """By hand: more of the same. NETFOLD_INTERLEAVINGS says how many propagations."""
    import os

    wanted = int(os.environ.get("NETFOLD_INTERLEAVINGS", "3000"))
    random = np.random.default_rng()
    shape_list = [
        {"workers": 2, "width": 7, "memory": 0},
        {"workers": 3, "width": 40, "memory": 1500},
        {"workers": 4, "width": 33, "memory": 2600, "residual": "host"},
        {"workers": 4, "width": 30, "memory": 0, "racks": 2},
    ]
    done = 0
    while done < wanted:
        seed = int(random.integers(2**32))
        chosen = np.random.default_rng(seed)
        loss, twice, late = (float(x) for x in chosen.choice([0.0, 0.01, 0.05, 0.2], 3))
        asked = [f"*: loss={loss}, duplicate={twice}, reorder={late}, late={int(chosen.integers(1, 500))}us"]
        if chosen.random() < 0.3:
            asked.append(
                f"worker0: stall={int(chosen.integers(0, 100))}us..{int(chosen.integers(101, 900))}us"
            )
        shape = shape_list[int(chosen.integers(len(shape_list)))]
        if chosen.random() < 0.2:
            name = "leaf0" if shape.get("racks") else "switch"
            asked.append(f"{name}: restart={int(chosen.integers(1, 500))}us")
        print(seed, shape, asked)
        run(make_case(graph_seed=seed % 50, **shape), asked, seed, int(chosen.integers(1, 33)), 20)
        done += 20
