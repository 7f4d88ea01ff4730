"""One run of one system: scenario, plan and phases go to the C++ models, rows of results come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim import _native, wire
from sim.scenario import Scenario
from workloads.background import flow_size_cdf
from workloads.compute import Phase
from workloads.errors import InputError
from workloads.plan import Plan
from workloads.systems.system import System

if TYPE_CHECKING:
    from sim import p4_model

Progress = Callable[[int, int, float], None]

VALUE_KINDS = ("upload", "presum", "partial", "result", "raw")
OWN_KINDS = tuple(kind for kind in _native.KINDS if kind != "background")
HOPS = ("up", "down", "fabric")
KEPT_COUNTERS = (
    *(
        "passes",
        "recirculated_passes",
        "results",
        "contributions",
        "bypassed",
        "ecn_marks",
        "cnps",
        "timeouts",
    ),
    *("pulls", "resends", "drops", "losses", "stale", "duplicates", "saturated", "pauses", "events"),
    *("background_bytes", "background_flows", "queue_memory_bytes"),
)
P4_COUNTERS = (
    *("p4_passes", "p4_refused", "p4_unreadable", "p4_load_packets", "p4_load_ns"),
)
MAX_VALUE_BYTES = 4 << 30  # of aggregator contents that value mode may hold
# A run that simulates this long without ending is stuck: far beyond any epoch, reached in bounded wall time.
TIME_LIMIT_NS = 3_600 * 10**9


@dataclass(frozen=True)
class Run:
    """What one simulation gave. `summary` and `tables` are described in docs/results.md; `results` is, in
    value mode, one int64[nb, width] per propagation: what the owners received."""

    summary: dict[str, Any]
    tables: dict[str, dict[str, npt.NDArray[Any]]]
    results: list[npt.NDArray[np.int64]]


def simulate(
    scenario: Scenario,
    system: System,
    plans: Mapping[int, Plan],
    phases: Sequence[Phase],
    *,
    progress: Progress | None = None,
    features: Mapping[int, npt.NDArray[np.int32]] | None = None,
    stock_events: bool = False,
    trace: list[list[tuple[int, int, bool, bytes]]] | None = None,
) -> Run:
    """Simulate one epoch of `system` at packet level.

    plans: width (or the key that a phase names) -> plan, for all that phases propagate. features: value
    mode, the same keys ->
    int32[nb, width] in the plan's boundary order, already scaled to fixed point. progress(simulated_ns,
    packet_hops, share) is called about four times a second. stock_events schedules every event through
    ns-3's DefaultSimulatorImpl instead of netfold's lane: the same run, slower (a check, see
    tests/sim/test_lane.py). trace: with P4 switches, receives for each of them (leaves first) every packet at
    its ports: time in picoseconds, port, whether it goes out, bytes.

    Raises InputError for what cannot be simulated, RuntimeError when the run gets stuck.
    """
    _check(scenario, system, plans, phases, features)
    keys = sorted(plans)
    handles = [_plan_arrays(plans[key]) for key in keys]
    steps = [
        (
            keys.index(phase.plan_key) if phase.width else -1,
            np.ascontiguousarray(phase.pre_ns, dtype=np.int64),
            np.ascontiguousarray(phase.post_ns, dtype=np.int64),
        )
        for phase in phases
    ]
    config = native_config(scenario, system)
    config.value_mode = features is not None
    config.stock_events = stock_events
    config.p4_trace = trace is not None
    switches, layout = None, None
    if config.p4:
        from sim import p4_model  # noqa: PLC0415  (the P4 front end takes a while to load)

        switches, layout = p4_model.make_switches(scenario, system, plans), p4_model.layout()
    try:
        simulation = _native.Simulation(config, handles, steps, switches.sources if switches else [], layout)
        if features is not None:
            by_key = {key: np.ascontiguousarray(features[key], dtype=np.int32) for key in keys}
            simulation.set_features([by_key[phase.plan_key] if phase.width else None for phase in phases])
        simulation.run(progress)
        counters = simulation.counters()
        if switches:
            _count_p4(counters, switches)
            if trace is not None:
                trace += [simulation.trace(number) for number in range(len(switches.names))]
    except _native.P4Stopped as error:
        raise InputError(f"switch.program: {error}") from None
    finally:
        if switches:
            switches.close()

    queues = simulation.queues()
    epochs = simulation.epochs()
    tables = {
        "queues": _queue_table(queues, scenario),
        "blocks": _block_table(simulation.blocks(), phases),
        "epochs": _epoch_table(epochs, phases, scenario.cluster.workers),
        "links": _link_table(simulation.links(), scenario),
    }
    if scenario.run.packet_sample:
        tables["packets"] = _packet_table(simulation.packets(), scenario, plans, phases)
    results = []
    if features is not None:
        for number, phase in enumerate(phases):
            if phase.width:
                results.append(simulation.results(number).reshape(-1, phase.width))
    return Run(_summary(counters, queues, epochs, phases, scenario.cluster.workers), tables, results)


def _count_p4(counters: dict[str, int], switches: p4_model.Switches) -> None:
    """The program's own counters in the places of the native model's."""
    events = switches.counters()
    counters["passes"] = events["added"]
    counters["contributions"] = max(0, events["added"] - counters["p4_partials"])
    counters["recirculated_passes"] = counters["p4_recirculated"]
    for event in ("stale", "duplicates", "saturated"):
        counters[event] += events[event]
    counters |= {
        "p4_refused": events["refused"],
        "p4_unreadable": counters["unreadable"],
        "p4_load_packets": switches.load_packets,
        "p4_load_ns": switches.load_ns,
    }


def native_config(scenario: Scenario, system: System) -> _native.Config:
    """The flat configuration of the C++ models."""
    cluster, switch, congestion = scenario.cluster, scenario.switch, scenario.congestion
    fabric_share = (
        cluster.fabric_link_bps / cluster.host_link_bps
    )  # ECN thresholds scale with the link (HPCC)
    limited = switch.recirculation == "tofino" and system.in_network
    flow_bytes, flow_cdf = flow_size_cdf(scenario.background.distribution)
    values: dict[str, Any] = {
        "workers": cluster.workers,
        "leaves": max(cluster.leaves, 1),
        "spines": cluster.spines,
        "host_link_bps": cluster.host_link_bps,
        "fabric_link_bps": cluster.fabric_link_bps,
        "link_delay_ns": cluster.link_delay_ns,
        "switch_latency_ns": cluster.switch_latency_ns,
        "ecmp_per_packet": cluster.ecmp == "packet",
        "ecmp_by_destination": cluster.ecmp == "destination",
        "p4": switch.model == "p4",
        "wire_protocol": switch.protocol == "wire",
        "mtu_bytes": cluster.mtu_bytes,
        "tx_burst": scenario.host.tx_burst,
        "frame_overhead_bytes": wire.FRAME_OVERHEAD_BYTES,
        "wire_gap_bytes": wire.GAP_BYTES,
        "control_frame_bytes": (
            wire.FRAME_OVERHEAD_BYTES + 4 * switch.values_per_packet
            if switch.protocol == "wire"
            else wire.CONTROL_FRAME_BYTES
        ),
        "pull_entry_bytes": wire.PULL_ENTRY_BYTES,
        "values_per_packet": switch.values_per_packet,
        "aggregators": 0 if system.unlimited_memory else switch.aggregators,
        "recirculation_limited": limited,
        "pass_rate_pps": switch.pipelines * switch.pipeline_pps,
        "recirculation_bps": switch.pipelines * switch.recirculation_bps,
        "buffer_bytes": switch.buffer_bytes,
        "pfc": switch.pfc,
        "pfc_xoff_bytes": switch.pfc_xoff_bytes,
        "pfc_xon_bytes": switch.pfc_xon_bytes,
        "first_come": system.switching == "fcfs",
        "multicast_home": cluster.leaves > 1 and system.hierarchy == "multicast",
        "presum": system.presum,
        "dcqcn": congestion.control == "dcqcn",
        "ecn_kmin_bytes": congestion.ecn_kmin_bytes,
        "ecn_kmax_bytes": congestion.ecn_kmax_bytes,
        "ecn_pmax": congestion.ecn_pmax,
        "ecn_fabric_kmin_bytes": congestion.ecn_kmin_bytes * fabric_share,
        "ecn_fabric_kmax_bytes": congestion.ecn_kmax_bytes * fabric_share,
        "dcqcn_g": congestion.dcqcn_g,
        "dcqcn_alpha_timer_ns": congestion.dcqcn_alpha_timer_ns,
        "dcqcn_increase_timer_ns": congestion.dcqcn_increase_timer_ns,
        "dcqcn_byte_counter_bytes": congestion.dcqcn_byte_counter_bytes,
        "dcqcn_fast_recovery_rounds": congestion.dcqcn_fast_recovery_rounds,
        "dcqcn_rai_bps": congestion.dcqcn_rai_bps,
        "dcqcn_rhai_bps": congestion.dcqcn_rhai_bps,
        "dcqcn_min_rate_bps": congestion.dcqcn_min_rate_bps,
        "cnp_interval_ns": congestion.cnp_interval_ns,
        "loss_rate": scenario.loss.rate,
        "loss_mean_burst": scenario.loss.mean_burst,
        "background_load": scenario.background.load,
        "background_bytes": [float(size) for size in flow_bytes],
        "background_cdf": [float(share) for share in flow_cdf],
        "rto_ns": scenario.reliability.rto_ns,
        "rto_min_ns": scenario.reliability.rto_min_ns,
        "time_limit_ns": TIME_LIMIT_NS,
        "pipeline_bins": system.pipeline_bins,
        "sample_interval_ns": scenario.run.sample_interval_ns,
        "packet_sample": scenario.run.packet_sample,
        "seed": scenario.run.seed,
    }
    config = _native.Config()
    for name, value in values.items():
        current = getattr(config, name)
        setattr(config, name, type(current)(value) if isinstance(current, int | float | bool) else value)
    return config


def _check(
    scenario: Scenario,
    system: System,
    plans: Mapping[int, Plan],
    phases: Sequence[Phase],
    features: Mapping[int, npt.NDArray[np.int32]] | None,
) -> None:
    cluster, switch = scenario.cluster, scenario.switch
    addresses = cluster.workers + max(cluster.leaves, 1) + cluster.spines
    if addresses > 65_535:
        raise InputError(
            f"cluster.workers: {addresses} workers and switches; the wire format addresses 65535"
        )
    for phase in phases:
        if phase.width and phase.plan_key not in plans:
            raise InputError(f"no plan for propagations of width {phase.width}; given are {sorted(plans)}")
    for number, plan in plans.items():
        width = plan.width
        if plan.num_workers != cluster.workers:
            raise InputError(
                f"the plan is for {plan.num_workers} workers, cluster.workers is {cluster.workers}"
            )
        if plan.num_blocks and plan.values_per_packet != switch.values_per_packet:
            raise InputError(
                f"the plan packs {plan.values_per_packet} values a packet, "
                f"switch.aggregator_bytes = {switch.aggregator_bytes} packs {switch.values_per_packet}"
            )
        if plan.num_blocks and system.switching == "forward":
            raise InputError(
                f"{system.name} forwards only; its plan must have no blocks, {plan.num_blocks} given"
            )
        if plan.num_blocks and system.pipeline_bins > 1:
            raise InputError(
                f"{system.name}: pipelined bins need a host-based plan, {plan.num_blocks} blocks given"
            )
        if features is not None:
            if features[number].shape != (plan.num_boundary, width):
                raise InputError(
                    f"features of width {width}: shape {features[number].shape} given, "
                    f"{(plan.num_boundary, width)} expected"
                )
            largest = int(np.diff(plan.block_ptr).max(initial=0))
            held = 4 * largest * plan.chunks * plan.values_per_packet * max(cluster.leaves, 1)
            if held > MAX_VALUE_BYTES:
                raise InputError(
                    f"run.value_mode: the largest block would hold {held / 1e9:.1f} GB of sums on "
                    f"{max(cluster.leaves, 1)} switches; at most {MAX_VALUE_BYTES / 1e9:.1f} GB: "
                    "use a smaller graph"
                )


def _plan_arrays(plan: Plan) -> _native.PlanArrays:
    return _native.PlanArrays(
        plan.num_workers,
        plan.width,
        plan.chunks,
        plan.owner,
        plan.block_level,
        plan.block_ptr,
        plan.block_vertices,
        plan.adj_ptr,
        plan.adj,
        plan.residual_ptr,
        plan.residual_adj,
    )


def switch_names(scenario: Scenario) -> list[str]:
    """Names of the switches, in the order of the models' columns."""
    cluster = scenario.cluster
    if not cluster.leaves:
        return ["switch"]
    return [f"leaf{i}" for i in range(cluster.leaves)] + [f"spine{i}" for i in range(cluster.spines)]


def _queue_table(queues: dict[str, npt.NDArray[Any]], scenario: Scenario) -> dict[str, npt.NDArray[Any]]:
    ports = queues["ports_per_switch"]
    switches = len(ports)
    rows = len(queues["time_ns"])
    columns = int(ports.sum()) + switches
    backlog = queues["backlog_bytes"].reshape(rows, columns).astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(ports)[:-1]))
    shared = np.add.reduceat(backlog[:, : columns - switches], starts, axis=1)
    shared += backlog[:, columns - switches :]
    switch_of = np.concatenate((np.repeat(np.arange(switches), ports), np.arange(switches)))
    port_of = np.concatenate([*(np.arange(count) for count in ports), np.full(switches, -1)])
    names = np.array(switch_names(scenario), dtype=object)
    return {
        "time_ns": np.repeat(queues["time_ns"], columns),
        "switch": names[np.tile(switch_of, rows)],
        "port": np.tile(port_of, rows).astype(np.int32),
        "backlog_bytes": backlog.reshape(-1),
        "shared_bytes": shared[:, switch_of].reshape(-1),
    }


def _block_table(blocks: dict[str, npt.NDArray[Any]], phases: Sequence[Phase]) -> dict[str, npt.NDArray[Any]]:
    propagation: dict[int, int] = {}
    for number, phase in enumerate(phases):
        if phase.width:
            propagation[number] = len(propagation)
    which = blocks["phase"]
    return {
        "propagation": np.array([propagation[phase] for phase in which], dtype=np.int32),
        "layer": np.array([phases[phase].layer for phase in which], dtype=np.int32),
        "direction": np.array([phases[phase].direction for phase in which], dtype=object),
        "block": blocks["block"],
        "level": blocks["level"],
        "vertices": blocks["vertices"],
        "start_ns": blocks["start_ns"],
        "end_ns": blocks["end_ns"],
    }


def _epoch_table(
    epochs: dict[str, npt.NDArray[np.int64]], phases: Sequence[Phase], workers: int
) -> dict[str, npt.NDArray[Any]]:
    return {
        "layer": np.repeat(np.array([phase.layer for phase in phases], dtype=np.int32), workers),
        "direction": np.repeat(np.array([phase.direction for phase in phases], dtype=object), workers),
        "worker": np.tile(np.arange(workers, dtype=np.int32), len(phases)),
        **epochs,
    }


def _node_names(scenario: Scenario) -> npt.NDArray[Any]:
    """Names of workers and switches by their address in the models."""
    workers = [f"worker{i}" for i in range(scenario.cluster.workers)]
    return np.array(workers + switch_names(scenario), dtype=object)


def _link_table(links: dict[str, npt.NDArray[Any]], scenario: Scenario) -> dict[str, npt.NDArray[Any]]:
    nodes = _node_names(scenario)
    named = {"source": nodes[links["source"]], "target": nodes[links["target"]]}
    return {**links, **named, "hop": np.array(HOPS, dtype=object)[links["hop"]]}


def _packet_table(
    packets: dict[str, npt.NDArray[Any]],
    scenario: Scenario,
    plans: Mapping[int, Plan],
    phases: Sequence[Phase],
) -> dict[str, npt.NDArray[Any]]:
    vertex = packets["vertex"].copy()
    for number, phase in enumerate(phases):
        of_phase = (packets["phase"] == number) & (vertex >= 0)
        if of_phase.any():
            vertex[of_phase] = plans[phase.plan_key].boundary[vertex[of_phase]]
    nodes = _node_names(scenario)
    return {
        "time_ns": packets["time_ns"],
        "kind": np.array(_native.KINDS, dtype=object)[packets["kind"]],
        "src": nodes[packets["src"]],
        "dst": nodes[packets["dst"]],
        "vertex": vertex,
        "chunk": packets["chunk"],
        "block": packets["block"],
        "bytes": packets["bytes"],
        "hop": np.array(HOPS, dtype=object)[packets["hop"]],
    }


def _summary(
    counters: dict[str, int],
    queues: dict[str, npt.NDArray[Any]],
    epochs: dict[str, npt.NDArray[np.int64]],
    phases: Sequence[Phase],
    workers: int,
) -> dict[str, Any]:
    def total(hop: str, what: str, kinds: Sequence[str] = OWN_KINDS) -> int:
        return sum(counters[f"{hop}_{kind}_{what}"] for kind in kinds)

    def payload(hop: str) -> int:
        return total(hop, "bytes", VALUE_KINDS) - wire.FRAME_OVERHEAD_BYTES * total(
            hop, "frames", VALUE_KINDS
        )

    up, down, fabric = (total(hop, "bytes") for hop in HOPS)
    communication = np.where(epochs["comm_start_ns"] >= 0, epochs["comm_end_ns"] - epochs["comm_start_ns"], 0)
    compute = sum((phase.pre_ns + phase.post_ns for phase in phases), np.zeros(workers, dtype=np.int64))
    switches = len(queues["ports_per_switch"])
    rows = len(queues["time_ns"])
    backlog = queues["backlog_bytes"].reshape(rows, -1)
    busiest = backlog[:, : backlog.shape[1] - switches].max(axis=1)[queues["active"] > 0]
    summary: dict[str, Any] = {
        "comm_time_ns": int(communication.reshape(-1, workers).sum(axis=0).max(initial=0)),
        "compute_time_ns": int(compute.max(initial=0)),
        "epoch_time_ns": int(counters["end_ns"]),
        "up_bytes": up,
        "down_bytes": down,
        "total_bytes": up + down,
        "fabric_bytes": fabric,
        "up_payload_bytes": payload("up"),
        "down_payload_bytes": payload("down"),
        "fabric_payload_bytes": payload("fabric"),
        "bypassed_share": counters["bypassed"] / counters["contributions"]
        if counters["contributions"]
        else 0.0,
        "backlog_p50_bytes": int(np.percentile(busiest, 50)) if len(busiest) else 0,
        "backlog_p99_bytes": int(np.percentile(busiest, 99)) if len(busiest) else 0,
        "backlog_max_bytes": int(counters["max_port_backlog_bytes"]),
        "recirculation_backlog_max_bytes": int(backlog[:, backlog.shape[1] - switches :].max(initial=0)),
        "packets_sent": sum(counters[f"up_{kind}_frames"] for kind in OWN_KINDS),
        "packet_hops": counters["hops"],
    }
    summary.update({name: counters[name] for name in KEPT_COUNTERS})
    if counters["p4_passes"]:
        summary.update({name: counters[name] for name in P4_COUNTERS})
    for kind in _native.KINDS:
        for hop in HOPS:
            summary[f"{hop}_{kind}_frames"] = counters[f"{hop}_{kind}_frames"]
    return summary
