"""Every metric against an example worked out by hand (the comment beside it), then properties."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.metrics import (
    aggregation_ratio,
    backlog_area,
    backlog_over_time,
    backlog_percentiles,
    block_times,
    bootstrap_interval,
    bypass_share,
    communication_fairness,
    completion_times,
    jain,
    link_utilisation,
    measure,
    permutation_p,
    summarise,
    utilisation,
)
from analysis.records import load_records
from sim.scenario import ClusterSection
from tests.analysis.made_runs import BLOCKS, EPOCHS, LINKS, QUEUES, figures, results

QUEUE_FRAME = pd.DataFrame(QUEUES)


def test_backlog_over_time_takes_the_longest_egress_queue() -> None:
    assert backlog_over_time(QUEUE_FRAME).to_numpy().tolist() == [[100, 10], [200, 50], [300, 20]]


def test_backlog_area_is_maximum_times_interval() -> None:
    area = backlog_area(QUEUE_FRAME)
    # leaf0 port 0: (10 + 30 + 20) B x 100 ns; spine0 port 1: 50 B x 100 ns; recirculation does not count
    assert area["switch"].tolist() == ["leaf0", "spine0"]
    assert area["area_byte_s"].tolist() == pytest.approx([60 * 100e-9, 50 * 100e-9])


def test_backlog_percentiles_are_over_busy_intervals() -> None:
    rows = backlog_percentiles(QUEUE_FRAME, (50, 100)).set_index(["switch", "port"])
    # all ports: longest per interval 10, 50, 20; leaf0/0: 10, 30, 20; spine0/1: busy in one interval of three
    assert rows.loc[("", -1)].tolist() == [1.0, 20.0, 50.0]
    assert rows.loc[("leaf0", 0)].tolist() == [1.0, 20.0, 30.0]
    assert rows.loc[("spine0", 1)].tolist() == pytest.approx([1 / 3, 50.0, 50.0])


def test_queues_without_samples_give_nothing() -> None:
    empty = QUEUE_FRAME.iloc[:0]
    assert backlog_over_time(empty).empty
    assert backlog_area(empty).empty
    assert backlog_percentiles(empty)["p50_bytes"].tolist() == [0.0]


def test_completion_times() -> None:
    [row] = completion_times(pd.DataFrame(EPOCHS)).to_dict("records")
    # starts 100, 110, 120 and ends 200, 310, 420: 100, 210, 320 after the first start
    assert (row["layer"], row["direction"], row["workers"], row["start_ns"]) == (2, "forward", 3, 100)
    assert (row["first_ns"], row["median_ns"], row["last_ns"], row["slowest"]) == (100, 210.0, 320, 2)
    assert row["p99_ns"] == pytest.approx(210 + 0.98 * 110)


def test_block_times_and_gaps() -> None:
    blocks = block_times(pd.DataFrame(BLOCKS))
    assert blocks["duration_ns"].tolist() == [150, 140, 100]
    assert blocks["gap_ns"].tolist() == [0, 10, 0], "260 - 250; a propagation's first block has none"


def test_jain() -> None:
    assert jain([1, 1, 1, 1]) == 1.0
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([1, 2, 3]) == pytest.approx(36 / (3 * 14))
    assert math.isnan(jain([]))
    assert math.isnan(jain([0, 0]))
    # workers' communication 100, 200, 300: the same shape as 1, 2, 3
    assert communication_fairness(pd.DataFrame(EPOCHS)) == pytest.approx(36 / 42)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_jain_lies_between_one_over_n_and_one(shares: list[float]) -> None:
    index = jain(shares)
    assert math.isnan(index) or 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9


def test_utilisation() -> None:
    cluster = ClusterSection(
        workers=4, topology="leaf-spine:2x1", host_link_bps=10**9, fabric_link_bps=10**9, link_delay_ns=0
    )
    # 1000 ns x 4 hosts x 1 Gb/s = 500 bytes; fabric: 2 leaves x 1 spine x both ways = 500 bytes too
    used = utilisation(figures("host", comm_time_ns=1000, up_bytes=250, down_bytes=500), cluster)
    assert used == pytest.approx({"up_utilisation": 0.5, "down_utilisation": 1.0, "fabric_utilisation": 0.4})
    star = ClusterSection(workers=4, topology="star")
    assert math.isnan(utilisation(figures("host"), star)["fabric_utilisation"])


def test_utilisation_of_single_links() -> None:
    cluster = ClusterSection(
        workers=4, topology="leaf-spine:2x2", host_link_bps=10**9, fabric_link_bps=2 * 10**9, link_delay_ns=0
    )
    summary = figures("host", comm_time_ns=4000)  # 500 bytes on a host's link, 1000 on a leaf's
    used = link_utilisation(pd.DataFrame(LINKS), summary, cluster)
    assert used == pytest.approx([0.75, 0.25, 0.4, 0.6, 0.05, 0.15])
    classes = utilisation(summary, cluster)
    hops = LINKS["hop"]
    assert used[hops == "up"].sum() / 4 == pytest.approx(classes["up_utilisation"]), "two sent nothing"
    assert used[hops == "fabric"].sum() / 8 == pytest.approx(classes["fabric_utilisation"])
    assert np.isnan(link_utilisation(pd.DataFrame(LINKS), figures("host", comm_time_ns=0), cluster)).all()


def test_aggregation_and_bypass() -> None:
    run = figures("strawman-free")  # 40 contributions, 10 of them bypassed, 4 results
    assert aggregation_ratio(run) == pytest.approx(40 / 14)
    assert bypass_share(run) == 0.25
    host = figures("host", contributions=0, bypassed=0, results=0)
    assert math.isnan(aggregation_ratio(host))
    assert math.isnan(bypass_share(host))


def test_bootstrap_of_two_values_is_their_enumeration() -> None:
    # resamples of (0, 10): means 0, 5, 5, 10; numpy's 2.5th percentile lies 0.075 of the way from 0 to 5
    assert bootstrap_interval([0, 10]) == pytest.approx((0.375, 9.625))
    # 27 resamples of (1, 2, 3); their means sorted: 1, 4/3 x3, 5/3 x6, 2 x7, ... ; place 0.025 x 26 = 0.65
    assert bootstrap_interval([1, 2, 3]) == pytest.approx((1 + 0.65 / 3, 3 - 0.65 / 3))
    assert all(math.isnan(bound) for bound in bootstrap_interval([5]))


def test_bootstrap_covers_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        low, high = bootstrap_interval(random.normal(3, 1, size=20))
        covered += low <= 3 <= high
    assert 0.85 <= covered / 200 <= 0.99


def test_permutation_p_is_the_enumeration() -> None:
    # of C(6, 3) = 20 splits of 1..6 only {1,2,3} and {4,5,6} differ by 3
    assert permutation_p([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)
    # 4 against 2 at mean difference 1.5: |difference| >= 1.5 in 5 of 15 splits, counted by hand
    assert permutation_p([1, 2, 3, 4], [4, 4]) == pytest.approx(5 / 15)
    assert permutation_p([5, 5], [5, 5]) == 1.0
    assert math.isnan(permutation_p([1], [2, 3]))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12),
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12),
)
def test_permutation_p_is_a_symmetric_probability(first: list[float], second: list[float]) -> None:
    p = permutation_p(first, second)
    assert 0 < p <= 1
    if len(first) + len(second) <= 12:  # enumerated
        assert permutation_p(second, first) == pytest.approx(p)


def test_summarise_by_setting_over_seeds() -> None:
    frame = pd.DataFrame(
        {
            "graph": "g", "system": ["host", "host", "g3"], "recirculation": "", "memory_bytes": 1,
            "run.seed": [1, 2, 1], "loss.rate": [0.0, 0.0, 0.0], "epoch_time_ns": [100, 300, 50],
        }
    )  # fmt: skip
    table = summarise(frame, metrics=["epoch_time_ns"])
    assert list(table.columns[:5]) == ["graph", "system", "recirculation", "memory_bytes", "runs"]
    host, g3 = table.to_dict("records")
    assert (host["runs"], host["epoch_time_ns"]) == (2, 200.0)
    assert (host["epoch_time_ns_low"], host["epoch_time_ns_high"]) == pytest.approx((107.5, 292.5))
    assert math.isnan(g3["epoch_time_ns_low"])
    varied = summarise(frame.assign(**{"loss.rate": [0.0, 0.1, 0.0]}), metrics=["epoch_time_ns"])
    assert varied["loss.rate"].tolist() == [0.0, 0.1, 0.0], "a key that varies is a setting"


def test_measure_puts_it_all_in_one_row(tmp_path: Path) -> None:
    records = load_records(results(tmp_path / "r", {"strawman-free": figures("strawman-free")}))
    row = measure(records, "strawman-free")
    assert row["backlog_area_byte_s"] == pytest.approx(80 * 100e-9)
    assert row["ports_area_byte_s"] == pytest.approx(110 * 100e-9)
    assert (row["completion_ns"], row["completions_ns"]) == (320.0, 320.0)
    assert row["communication_fairness"] == pytest.approx(36 / 42)
    assert row["bypass_share"] == 0.25
    assert row["up_utilisation"] == pytest.approx(8 * 500 / (128 * 100e9 * 300e-9))
