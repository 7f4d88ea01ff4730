"""What every worker receives equals A·H bit for bit: every system, topology, limit and fault."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.scenario import BackgroundSection, ClusterSection, CongestionSection, LossSection, SwitchSection
from workloads.graphs.csr import build_csr
from workloads.graphs.graph import Provenance, make_graph
from workloads.plan import make_plan
from workloads.systems import STATIC_SYSTEMS as SYSTEMS

TOPOLOGIES = ("star", "leaf-spine:2x2", "leaf-spine:4x3", "leaf-spine:8x1")


def assert_equals_oracle(experiment, run) -> None:
    assert len(run.results) == experiment.phases
    expected = experiment.expected()
    for received in run.results:
        np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_and_topology(experiment, system, topology):
    case = experiment(topology=topology, aggregators=60)
    run = case.run(system)
    assert_equals_oracle(case, run)
    assert run.summary["timeouts"] == run.summary["duplicates"] == run.summary["stale"] == 0
    assert run.summary["saturated"] == run.summary["losses"] == run.summary["drops"] == 0


@pytest.mark.parametrize(
    "loss", [LossSection(rate=0.05), LossSection(rate=0.05, mean_burst=5.0), LossSection(rate=0.3)]
)
@pytest.mark.parametrize("topology", TOPOLOGIES[:2])
@pytest.mark.parametrize("system", SYSTEMS)
def test_under_loss(experiment, system, topology, loss):
    case = experiment(topology=topology, aggregators=60)
    run = case.run(system, loss=loss)
    assert run.summary["losses"] > 0
    assert run.summary["timeouts"] > 0
    assert_equals_oracle(case, run)


@pytest.mark.parametrize("recirculation", ["free", "tofino"])
@pytest.mark.parametrize("hierarchy", ["aggregate", "multicast"])
@pytest.mark.parametrize("system", ["switchgnn", "presum"])
def test_recirculation_and_hierarchy(experiment, system, hierarchy, recirculation):
    case = experiment(topology="leaf-spine:4x2", aggregators=60)
    switch = SwitchSection(recirculation=recirculation)
    assert_equals_oracle(case, case.run(system, switch=switch, system={"hierarchy": hierarchy}))
    lossy = case.run(system, switch=switch, system={"hierarchy": hierarchy}, loss=LossSection(rate=0.1))
    assert_equals_oracle(case, lossy)


@pytest.mark.parametrize("system", ["strawman", "switchgnn-no-blocks", "presum"])
@pytest.mark.parametrize("topology", TOPOLOGIES[:3])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_overflowing_aggregators(experiment, system, topology, loss):
    case = experiment(topology=topology, aggregators=3)
    run = case.run(system, loss=LossSection(rate=loss))
    assert_equals_oracle(case, run)
    assert run.summary["bypassed"] > 0
    assert 0 < run.summary["bypassed_share"] < 1


def test_blocks_with_host_based_rest(experiment):
    case = experiment("rmat:8:16", topology="leaf-spine:2x2", aggregators=3 * 120)
    system = SYSTEMS["switchgnn"]
    plan = make_plan(case.graph, case.partition, width=case.width, memory_bytes=case.memory_bytes,
                     blocks=system.blocks, order=system.order, residual="host", seed=1)  # fmt: skip
    assert plan.num_blocks > 0
    assert len(plan.residual_adj) > 0
    for loss in (0.0, 0.1):
        assert_equals_oracle(case, case.run("switchgnn", plan=plan, loss=LossSection(rate=loss)))


@pytest.mark.parametrize("width", [1, 29, 30, 31, 363, 364, 800])
@pytest.mark.parametrize("system", ["host", "g3", "switchgnn", "presum"])
def test_widths_around_packet_sizes(experiment, system, width):
    case = experiment(width=width)
    assert_equals_oracle(case, case.run(system))
    assert_equals_oracle(case, case.run(system, loss=LossSection(rate=0.1)))


@pytest.mark.parametrize(
    ("system", "buffer_bytes"), [("host", 2_000), ("switchgnn", 2_000), ("strawman", 2_000), ("presum", 400)]
)
def test_small_buffers_drop_and_recover(experiment, system, buffer_bytes):
    case = experiment("les-miserables", topology="leaf-spine:2x2", width=256)
    run = case.run(system, switch=SwitchSection(buffer_bytes=buffer_bytes))
    assert run.summary["drops"] > 0
    assert_equals_oracle(case, run)


@pytest.mark.parametrize("system", ["host", "switchgnn", "strawman"])
def test_flow_control_drops_nothing(experiment, system):
    case = experiment("les-miserables", topology="leaf-spine:2x2", width=256, compute_ns=0)
    switch = SwitchSection(buffer_bytes=400_000, pfc=True, pfc_xoff_bytes=1_200, pfc_xon_bytes=600)
    run = case.run(system, switch=switch, congestion=CongestionSection(control="none"))
    assert run.summary["drops"] == run.summary["losses"] == 0
    assert run.summary["pauses"] > 0
    assert_equals_oracle(case, run)


def test_background_traffic_and_spraying(experiment):
    case = experiment(topology="leaf-spine:2x2", width=256)
    for system in ("host", "switchgnn"):
        run = case.run(
            system,
            background=BackgroundSection(load=0.6),
            cluster=ClusterSection(ecmp="packet"),
            loss=LossSection(rate=0.02),
        )
        assert run.summary["background_flows"] > 0
        assert_equals_oracle(case, run)


def test_saturation_is_counted(experiment):
    case = experiment(largest=2**30)
    assert np.abs(case.expected()).max() > 2**31  # the exact sums do not fit
    run = case.run("switchgnn")
    assert run.summary["saturated"] > 0
    fits = (np.abs(case.expected()) < 2**29).all(axis=1)
    np.testing.assert_array_equal(run.results[0][fits], case.expected()[fits])
    assert np.abs(run.results[0]).max() <= 2**31


@pytest.mark.parametrize("system", SYSTEMS)
def test_value_mode_and_timing_mode_have_the_same_timing(experiment, system):
    case = experiment(topology="leaf-spine:2x2", aggregators=40)
    for sections in ({}, {"loss": LossSection(rate=0.05)}):
        with_values = case.run(system, values=True, **sections)
        without = case.run(system, values=False, **sections)
        assert with_values.summary == without.summary
        for table, columns in with_values.tables.items():
            for name, column in columns.items():
                np.testing.assert_array_equal(column, without.tables[table][name])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_graphs_orders_limits_and_losses(experiment_on, data):
    n = data.draw(st.integers(4, 40), label="vertices")
    workers = data.draw(st.sampled_from([2, 4, 6]).filter(lambda k: k <= n), label="workers")
    edges = data.draw(
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1, max_size=4 * n),
        label="edges",
    )
    edges = [edge for edge in edges if edge[0] != edge[1]] or [(0, 1)]
    source, target = np.array(edges).T
    case = experiment_on(
        make_graph("drawn", build_csr(n, source, target), Provenance("generated", "hypothesis")),
        workers=workers,
        topology=data.draw(st.sampled_from(["star", "leaf-spine:2x1", "leaf-spine:2x2"]), label="topology"),
        width=data.draw(st.sampled_from([1, 30, 65]), label="width"),
        seed=data.draw(st.integers(1, 1000), label="seed"),
        aggregators=data.draw(st.sampled_from([0, 6, 12, 50]), label="aggregators"),
    )
    system = data.draw(st.sampled_from(list(SYSTEMS)), label="system")
    run = case.run(
        system,
        loss=LossSection(rate=data.draw(st.sampled_from([0.0, 0.02, 0.2]), label="loss")),
        switch=SwitchSection(
            recirculation=data.draw(st.sampled_from(["free", "tofino"]), label="recirculation")
        ),
    )
    assert_equals_oracle(case, run)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_racks_whose_leaves_overflow(experiment_on, seed, data):
    """Sums of some racks, raw contributions of others, in every mixture that few aggregators bring about."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 60))
    source, target = rng.integers(0, n, (2, int(rng.integers(n, 4 * n))))
    if (source == target).all():
        return
    case = experiment_on(
        make_graph("drawn", build_csr(n, source, target), Provenance("generated", "numpy")),
        workers=data.draw(st.sampled_from([4, 8, 12]), label="workers"),
        topology=data.draw(
            st.sampled_from(["leaf-spine:4x1", "leaf-spine:4x3", "leaf-spine:2x2"]), label="topology"
        ),
        width=data.draw(st.sampled_from([1, 65]), label="width"),
        seed=int(rng.integers(1, 1000)),
        aggregators=data.draw(st.integers(2, 20), label="aggregators"),
    )
    run = case.run(
        data.draw(st.sampled_from(["strawman", "switchgnn-no-blocks", "presum"]), label="system"),
        loss=LossSection(rate=data.draw(st.sampled_from([0.0, 0.02, 0.2]), label="loss")),
        system={"hierarchy": data.draw(st.sampled_from(["aggregate", "multicast"]), label="hierarchy")},
    )
    assert_equals_oracle(case, run)
