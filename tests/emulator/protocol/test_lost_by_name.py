"""One frame lost at a named place, and what the protocol makes of it: always the same sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emulator.cluster.errors import ClusterError
from emulator.cluster.faults import LinkFaults
from emulator.protocol.rtt import RttEstimator
from emulator.wire import OFFSETS, PacketType
from p4.control.switchgnn import take_turn

KIND = OFFSETS["agg"]


def lose(cluster: Any, link: tuple[str, str], kind: PacketType, which: Callable[[int], bool]) -> list[int]:
    """Frames of a kind vanish on a link; `which` is asked with their number. Returns the numbers lost."""
    line, lost, seen = cluster.lines[link], [], [0]
    carry = line.carry

    def filtered(frames: Any, lengths: Any, now_ns: int) -> Any:
        keep = np.ones(len(frames), bool)
        for at in np.flatnonzero(frames[:, KIND] == kind):
            if which(seen[0]):
                keep[at] = False
                lost.append(seen[0])
            seen[0] += 1
        return carry(frames[keep], lengths[keep], now_ns) if keep.any() else []

    line.carry = filtered
    return lost


def propagate(cluster: Any, case: Any, count: int = 2) -> dict[str, int]:
    random = np.random.default_rng(5)
    for _ in range(count):
        values = case.values(random)
        np.testing.assert_array_equal(cluster.propagate(1, values), case.sums(values))
    total: dict[str, int] = {}
    for station in cluster.stations:
        for name, n in station.counters().items():
            total[name] = total.get(name, 0) + n
    return total


@pytest.mark.parametrize(
    ("link", "kind"),
    [
        (("worker0", "switch"), PacketType.UPLOAD),
        (("switch", "worker1"), PacketType.RESULT),
        (("worker2", "switch"), PacketType.DONE),
        (("switch", "worker0"), PacketType.COMPLETE),
        (("switch", "worker2"), PacketType.COMPLETE),
    ],
)
@pytest.mark.parametrize("which", [0, 1, 2, 5])
def test_one_frame_is_lost(
    make_case: Callable[..., Any], link: tuple[str, str], kind: PacketType, which: int
) -> None:
    case = make_case(graph="rmat:5:4", memory=0)
    with case.cluster() as cluster:
        cluster.load()
        lost = lose(cluster, link, kind, lambda n: n == which)
        total = propagate(cluster, case, 3)
        assert lost == [which]
        if kind in (PacketType.UPLOAD, PacketType.RESULT):
            assert total["pulls"] > 0
            assert total["contributions"] > 0
        else:
            assert total["reports_resent"] > 0
            assert total["pulls"] == 0


def test_pulls_and_answers_are_lost_too(make_case: Callable[..., Any]) -> None:
    case = make_case(graph="rmat:5:4", memory=0)
    with case.cluster() as cluster:
        cluster.load()
        lose(cluster, ("worker0", "switch"), PacketType.UPLOAD, lambda n: n == 0)
        pulls = [lose(cluster, (f"worker{w}", "switch"), PacketType.PULL, lambda n: n < 1) for w in (1, 2)]
        answers = lose(cluster, ("worker0", "switch"), PacketType.DIRECT, lambda n: n < 2)
        total = propagate(cluster, case)
        assert sum(map(len, pulls)) > 0
        assert len(answers) == 2
        assert total["timeouts"] > 2


def test_every_upload_is_lost(make_case: Callable[..., Any]) -> None:
    """The switch adds nothing: every sum is made by its owner."""
    case = make_case()
    with case.cluster() as cluster:
        cluster.load()
        for w in range(3):
            lose(cluster, (f"worker{w}", "switch"), PacketType.UPLOAD, lambda n: True)
        total = propagate(cluster, case)
        assert total.get("results", 0) == 0
        assert total["bypassed_chunks"] > 0
        assert cluster.switch_events()["added"] == 0


def test_a_load_frame_is_lost_and_loaded_again(make_case: Callable[..., Any]) -> None:
    case = make_case()
    with case.cluster() as cluster:
        lost = lose(cluster, ("worker0", "switch"), PacketType.LOAD, lambda n: n in (0, 3))
        acknowledged = lose(cluster, ("switch", "worker0"), PacketType.LOAD, lambda n: n == 1)
        cluster.load()
        assert lost == [0, 3]
        assert acknowledged == [1]
        assert sum(loader.resent for loader in cluster.stations[0].loaders) == 3
        propagate(cluster, case)


def test_a_worker_that_can_send_nothing_is_named(make_case: Callable[..., Any]) -> None:
    case = make_case(memory=0)
    with case.cluster() as cluster:
        cluster.load()
        lose(cluster, ("worker1", "switch"), PacketType.DONE, lambda n: True)
        with pytest.raises(ClusterError, match=r"worker [02].*0\.5 s without anything new") as error:
            propagate(cluster, case)
        assert "\n" not in str(error.value)
        assert cluster.now_ns < 2_000_000_000


def test_missing_contributions_name_their_owner(make_case: Callable[..., Any]) -> None:
    case = make_case(memory=0)
    with case.cluster() as cluster:
        cluster.load()
        lose(cluster, ("worker1", "switch"), PacketType.UPLOAD, lambda n: True)
        lose(cluster, ("worker1", "switch"), PacketType.DIRECT, lambda n: True)
        with pytest.raises(ClusterError, match=r"collecting results.*missing: worker 1"):
            propagate(cluster, case)


def test_a_killed_worker_is_named(make_case: Callable[..., Any]) -> None:
    case = make_case()
    with case.cluster(["worker2: kill=3us"]) as cluster:
        cluster.load()
        with pytest.raises(ClusterError, match=r"worker 2 was killed.*run was ended"):
            propagate(cluster, case)


def test_no_fault_costs_nothing(make_case: Callable[..., Any]) -> None:
    """Without faults nothing is sent but each upload, result and barrier once."""
    case = make_case(graph="rmat:5:4")
    plan = case.plan
    with case.cluster() as cluster:
        cluster.load()
        total = propagate(cluster, case)
        frames = plan.num_uploads * plan.chunks * 2
        assert total["uploads"] == total["results"] == frames
        assert total["reports"] == total["completions"] == plan.num_workers * (1 + 2 * 2 * plan.num_blocks)
        assert {name for name, n in total.items() if n} == {"uploads", "results", "reports", "completions"}
        events = cluster.switch_events()
        assert events["added"] == len(plan.adj) * plan.chunks * 2
        assert events["refused"] == events["duplicates"] == events["stale"] == 0


def test_the_round_number_goes_round(make_case: Callable[..., Any]) -> None:
    """16 bits of round end; older is older across the end too."""
    case = make_case()
    with case.cluster(["*: loss=0.02, duplicate=0.1, reorder=0.1, late=100us"]) as cluster:
        cluster.load()
        for station in cluster.stations:
            station.endpoint.round = 65_533
        last = (65_533 << 16 | 2 * case.plan.num_blocks) + 1
        cluster.engines["switch"].register_write("done_tag", 1, last)
        propagate(cluster, case, 6)
        assert {station.endpoint.round for station in cluster.stations} == {3}


def test_congestion_slows_the_uploader(make_case: Callable[..., Any]) -> None:
    """Marked results make CNPs, CNPs cut the last contributor's rate; the sums stay."""
    case = make_case(graph="rmat:7:6", memory=0)
    with case.cluster(ecn_frames=2, rate_bps=1e9) as cluster:
        cluster.load()
        total = propagate(cluster, case)
        assert total["ecn_marks"] > 0
        assert total["cnps"] == total["cnps_sent"] > 0


def test_a_completion_arrives_long_after_the_switch_was_restarted(make_case: Callable[..., Any]) -> None:
    """Worker 1's copy is lost, worker 0's comes when worker 1 has reported to the new switch: worker 0 then
    reports the next barrier, which that switch would refuse before the last one's turn is over."""
    case = make_case(graph="rmat:5:4", workers=2, memory=0)
    with case.cluster(["worker0.down: delay=30ms"]) as cluster:
        cluster.load()
        cluster.stations[0].endpoint.rtt = RttEstimator(70_000_000, 70_000_000)  # it does not report again

        def restart(number: int) -> bool:
            if number == 1:
                cluster._at(cluster.now_ns + 1, cluster._stop_switch, "switch")
                cluster._at(cluster.now_ns + 2_000_000, cluster._restart_switch, "switch")
            return number == 1

        assert lose(cluster, ("switch", "worker1"), PacketType.COMPLETE, restart) == []
        propagate(cluster, case, 3)
        assert cluster.switch_events()["restarts"] == 1


def test_lists_from_before_a_restart_are_refused(make_case: Callable[..., Any]) -> None:
    """A size that was late on its way would make the new switch add up by lists that it has in part."""
    case = make_case(graph="rmat:5:4", memory=0)
    with case.cluster() as cluster:
        line = cluster.lines["worker0", "switch"]
        carry, kept = line.carry, []

        def listen(frames: Any, lengths: Any, now_ns: int) -> Any:
            loads = frames[:, KIND] == PacketType.LOAD
            if loads.any():
                kept.append((frames[loads].copy(), lengths[loads].copy()))
            return carry(frames, lengths, now_ns)

        line.carry = listen
        cluster.load()
        propagate(cluster, case, 1)
        cluster._stop_switch("switch")
        cluster._turns["switch"] += 1
        cluster._start(cluster.switches["switch"])
        engine = cluster.engines["switch"]
        take_turn(engine, cluster.switch_jobs, 1)
        before = engine.register_array("block_size").copy()
        for frames, lengths in kept:
            cluster._through(cluster.switches["switch"], "worker0", frames, lengths)
        assert (engine.register_array("block_size") == before).all()
        assert not engine.register_array("entry_degree").any()
        assert cluster.switch_events()["stale"] >= sum(len(frames) for frames, _ in kept)


@pytest.mark.parametrize("racks", [0, 2])
def test_a_worker_that_is_not_heard_of_is_named(make_case: Callable[..., Any], racks: int) -> None:
    case = make_case(workers=4, racks=racks, memory=0)
    with case.cluster(["worker2.up: loss=1"]) as cluster:
        cluster.lines["worker2", "switch" if not racks else "leaf1"].faults = LinkFaults()
        cluster.load()
        cluster.lines["worker2", "switch" if not racks else "leaf1"].faults = LinkFaults(loss=1.0)
        with pytest.raises(ClusterError) as error:
            propagate(cluster, case)
        where = "leaf1" if racks else "switch"
        assert f"no report of: worker 2 at {where}" in str(error.value)


def test_contributions_that_cannot_come_are_named(make_case: Callable[..., Any]) -> None:
    """Worker 2's sums come by spine 0, as do the answers to its pulls; reports go by spine 1."""
    case = make_case(workers=4, racks=2, memory=0)
    with (
        case.cluster(["leaf0>spine0: loss=1"]) as cluster,
        pytest.raises(ClusterError, match="worker 2 without contributions of worker 0, worker 1"),
    ):
        cluster.load()
        propagate(cluster, case)


def test_a_leaf_that_is_not_heard_of_is_named(make_case: Callable[..., Any]) -> None:
    case = make_case(workers=4, racks=2, memory=0)
    with (
        case.cluster(["leaf1>spine*: loss=1"]) as cluster,
        pytest.raises(ClusterError, match="no report of: leaf1 at spine1"),
    ):
        cluster.load()
