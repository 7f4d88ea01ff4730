"""The scenario: every parameter of one simulated experiment, as frozen dataclasses with limits and sources.

A `Scenario` is always valid: its constructor raises InputError (one line: key, value, what is allowed)
otherwise. `sim/scenario_io.py` reads it from TOML and `--set`. Each default's source stands beside it:
  SwitchGNN  Li et al., "Accelerating Distributed Graph Learning by Using Collaborative In-Network Multicast
             and Aggregation", USENIX ATC 2025
  HPCC       Li et al., SIGCOMM 2019, and the ns-3 configuration its authors released with it (run.py,
             "dcqcn_paper"), the public ns-3 release of DCQCN
  DCQCN      Zhu et al., SIGCOMM 2015
"""

from __future__ import annotations

import math
import re
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from sim import wire
from workloads.errors import InputError
from workloads.partition.dynamic import METHODS
from workloads.partition.light_metis import KEEP
from workloads.plan.dynamic import CHOICES, TIMINGS

MAX_WORKERS = 65_535  # a worker's number is 16 bits on the wire
AGGREGATOR_HEADER_BYTES = 8  # control word (owner, count) of each aggregator; the rest holds int32 values
# what an MTU counts besides the payload
PACKET_HEADER_BYTES = wire.IPV4_BYTES + wire.UDP_BYTES + wire.NETFOLD_BYTES
WIRE_VALUES = 30  # VALUES_PER_PACKET of p4/programs/include/wire.p4
_LEAF_SPINE = re.compile(r"leaf-spine:([0-9]{1,5})[x×]([0-9]{1,5})")


def key(
    default: Any,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    word: str = "",
) -> Any:
    """One scenario key: default, unit for parsing, inclusive limits, choices, a word that stands for 0."""
    meta = {"unit": unit, "low": low, "high": high, "choices": choices, "word": word}
    return field(default=default, metadata=meta)


@dataclass(frozen=True)
class GraphSection:
    """Which graph is trained on (see workloads/graphs for the names and file formats)."""

    source: str = "debian"  # the real graph that ships with netfold
    scale: float = key(1.0, low=1e-6, high=1.0)
    seed: int = key(1, low=0, high=2**31 - 1)


@dataclass(frozen=True)
class PartitionSection:
    """How vertices are placed on workers."""

    method: str = key("metis", choices=("metis", "random", "contiguous"))  # SwitchGNN: METIS
    balance: str = key("unit", choices=("unit", "degree", "feature"))
    seed: int = key(1, low=0, high=2**31 - 1)


@dataclass(frozen=True)
class PlanSection:
    """Choices of the propagation plan that a user varies; the rest belongs to the system."""

    # "host": block recursion stops where sending the remaining cut edges host-based moves fewer bytes (ours).
    residual: str = key("none", choices=("none", "host"))
    seed: int = key(1, low=0, high=2**31 - 1)


@dataclass(frozen=True)
class ModelSection:
    """The trained network: a GCN (Kipf & Welling, ICLR 2017)."""

    layers: int = key(4, low=1, high=1000)  # SwitchGNN: 4-layer GCN
    hidden: int = key(256, low=1, high=65_536)  # BNS-GCN (MLSys 2022) trains Reddit with 256
    # The input layer's aggregation never changes, so it is computed once (BNS-GCN's --use-pp).
    use_pp: bool = True


@dataclass(frozen=True)
class DynamicSection:
    """Training of a dynamic graph on sliding windows (systems that `netfold systems` marks as dynamic)."""

    window: int = key(0, low=1, high=10_000, word="auto")  # snapshots, Ns; auto: the graph's own
    lifetime: int = key(0, low=1, high=10_000, word="auto")  # snapshots that an edge lives, z
    snapshots: int = key(0, low=5, high=2_000, word="auto")  # that an edge stream is cut into
    placing: str = key("", choices=("", *METHODS))  # partition method; "": the system's own
    keep: float = key(KEEP, low=1e-6, high=1.0)  # of the original snapshots that light-metis merges
    # SWASH's flexible communication: every k-th epoch, s windows of it (0: all), a share p of the rows
    interval: int = key(1, low=1, high=10_000)
    windows: int = key(0, low=0, high=1_000_000)
    share: float = key(0.25, low=1e-6, high=1.0)
    choose: str = key("importance", choices=CHOICES)
    when: str = key("even", choices=TIMINGS)
    cache_windows: int = key(4, low=0, high=10_000)
    epoch: int = key(0, low=0, high=1_000)  # which epoch is simulated


@dataclass(frozen=True)
class ClusterSection:
    """Hosts, switches and links."""

    workers: int = key(128, low=2, high=MAX_WORKERS)  # SwitchGNN, ns-3 runs
    topology: str = "leaf-spine:8x8"  # SwitchGNN, leaf-spine runs (8x8, 128 hosts); or "star"
    host_link_bps: int = key(100_000_000_000, unit="bps", low=1e6, high=1e13)  # SwitchGNN, ns-3 runs
    fabric_link_bps: int = key(100_000_000_000, unit="bps", low=1e6, high=1e13)  # as the host links
    link_delay_ns: int = key(1000, unit="ns", low=0, high=1e9)  # HPCC: 1 us on every link
    # Port to port. Vendors quote 300-500 ns for 100 GbE cut-through silicon (Broadcom Tomahawk: ~500 ns,
    # blog.ipspace.net "Broadcom Tomahawk 101"); Tofino's figure is not published.
    switch_latency_ns: int = key(400, unit="ns", low=0, high=1e9)
    # "flow": RFC 2992, hash-threshold per flow; "destination": one spine for each worker, as a routing table
    # has it, and as P4 switches route
    ecmp: str = key("flow", choices=("flow", "packet", "destination"))
    mtu_bytes: int = key(1500, unit="bytes", low=128, high=9216)  # IEEE 802.3 standard frame payload

    @property
    def leaves(self) -> int:
        """Number of leaf switches; 0 in a star."""
        return self._shape()[0]

    @property
    def spines(self) -> int:
        """Number of spine switches; 0 in a star."""
        return self._shape()[1]

    @property
    def hosts_per_leaf(self) -> int:
        """Workers under one leaf; all of them in a star."""
        return self.workers // max(self.leaves, 1)

    def _shape(self) -> tuple[int, int]:
        match = _LEAF_SPINE.fullmatch(self.topology)
        return (int(match[1]), int(match[2])) if match else (0, 0)


@dataclass(frozen=True)
class SwitchSection:
    """The aggregating switch: a Tofino-like pipeline."""

    # "native": the models of sim/native; "p4": a compiled P4 program, real bytes in and out
    model: str = key("native", choices=("native", "p4"))
    program: str = "p4/programs/switchgnn.p4"  # a path, or the name of one of p4/programs
    spine_program: str = ""  # of spines; empty: `program`
    # How workers report a block done. "lean": 64-byte frames to the block's root; "wire": the frames of
    # p4/programs, whose leaves count their racks. P4 switches speak the latter.
    protocol: str = key("lean", choices=("lean", "wire"))
    # SwitchGNN, ns-3 runs: 100 MB of aggregators ("unlimited" is stored as 0).
    memory_bytes: int = key(100_000_000, unit="bytes", low=1, high=2**40, word="unlimited")
    aggregator_bytes: int = key(128, unit="bytes", low=12, high=1024)  # SwitchGNN, as ATP (NSDI 2021)
    # "free" is what the paper's simulation appears to do
    recirculation: str = key("free", choices=("free", "tofino"))
    # Barefoot, "Programmable Data Plane at Terabit Speeds", P4 workshop 2018
    pipelines: int = key(4, low=1, high=64)
    # NetCache (SOSP 2017) gives a Tofino pipe 1 billion packets per second.
    pipeline_pps: int = key(1_000_000_000, unit="pps", low=1e3, high=1e12)
    # A pipeline's recirculation port is one 4 x 25 Gb/s channel group (TNA port 68 and its like). Looping
    # front ports back gives more, as SwitchML does with three whole pipelines: raise this to model that.
    recirculation_bps: int = key(100_000_000_000, unit="bps", low=1e6, high=1e14)
    hierarchy: str = key("aggregate", choices=("aggregate", "multicast"))  # SwitchGNN, leaf-spine runs
    # 0: no limit, as in the paper, whose ns-3 queues reach 1 GB. A Tofino shares about 22 MB among all ports.
    buffer_bytes: int = key(0, unit="bytes", low=1, high=2**40, word="unlimited")
    pfc: bool = False
    # IEEE 802.1Qbb. XOFF lies above Kmax so that ECN acts before PFC (DCQCN); 0 means 2 Kmax,
    # or half of a smaller buffer.
    pfc_xoff_bytes: int = key(0, unit="bytes", low=1, high=2**40, word="auto")
    pfc_xon_bytes: int = key(0, unit="bytes", low=1, high=2**40, word="auto")  # DCQCN: XOFF - 2 MTU

    @property
    def values_per_packet(self) -> int:
        """int32 values one aggregator, and so one packet, carries: 30 for 128 B."""
        return (self.aggregator_bytes - AGGREGATOR_HEADER_BYTES) // 4

    @property
    def aggregators(self) -> int:
        """Whole aggregators in the memory; 0 when it is unlimited."""
        return self.memory_bytes // self.aggregator_bytes


@dataclass(frozen=True)
class CongestionSection:
    """ECN at switches, DCQCN at hosts. "auto" (stored as 0 until resolved) scales with the host link."""

    control: str = key("dcqcn", choices=("dcqcn", "none"))  # SwitchGNN: DCQCN style
    # HPCC release: 100 KB per 25 Gb/s
    ecn_kmin_bytes: int = key(0, unit="bytes", low=1, high=2**40, word="auto")
    # HPCC release: 400 KB per 25 Gb/s
    ecn_kmax_bytes: int = key(0, unit="bytes", low=1, high=2**40, word="auto")
    ecn_pmax: float = key(0.2, low=0.0, high=1.0)  # HPCC release, PMAX_MAP
    dcqcn_g: float = key(1 / 256, low=1e-6, high=1.0)  # DCQCN
    dcqcn_alpha_timer_ns: int = key(55_000, unit="ns", low=1000, high=1e9)  # DCQCN: K = 55 us
    dcqcn_increase_timer_ns: int = key(55_000, unit="ns", low=1000, high=1e9)  # DCQCN: T = 55 us
    dcqcn_byte_counter_bytes: int = key(10_000_000, unit="bytes", low=1000, high=2**40)  # DCQCN: B = 10 MB
    dcqcn_fast_recovery_rounds: int = key(5, low=1, high=100)  # DCQCN: F = 5
    # HPCC release: 5 Mb/s per 25 Gb/s
    dcqcn_rai_bps: int = key(0, unit="bps", low=1, high=1e12, word="auto")
    # HPCC release: 50 Mb/s per 25 Gb/s
    dcqcn_rhai_bps: int = key(0, unit="bps", low=1, high=1e12, word="auto")
    dcqcn_min_rate_bps: int = key(100_000_000, unit="bps", low=1, high=1e12)  # HPCC release: RdmaHw MinRate
    cnp_interval_ns: int = key(50_000, unit="ns", low=0, high=1e9)  # DCQCN: N = 50 us


@dataclass(frozen=True)
class HostSection:
    """The host's network stack."""

    tx_burst: int = key(32, low=1, high=1024)  # packets; MAX_PKT_BURST of DPDK's own forwarding examples


@dataclass(frozen=True)
class LossSection:
    """Packet loss on links: uniform, or Gilbert-Elliott bursts when mean_burst > 1."""

    rate: float = key(0.0, low=0.0, high=0.5)
    mean_burst: float = key(1.0, low=1.0, high=10_000.0)  # packets


@dataclass(frozen=True)
class BackgroundSection:
    """Other tenants' traffic: Poisson flow arrivals between random hosts."""

    load: float = key(0.0, low=0.0, high=0.9)  # share of the host links
    # SwitchGNN, background traffic; see workloads/background.py
    distribution: str = key("hadoop", choices=("hadoop",))


@dataclass(frozen=True)
class ReliabilitySection:
    """When a host gives up waiting and pulls."""

    # 0 ("auto"): from the plan's own lower bound on the time a propagation can take.
    rto_ns: int = key(0, unit="ns", low=1000, high=1e12, word="auto")
    # 1 ms: the smallest datacentre RTOmin in common use (Vasudevan et al., SIGCOMM 2009, go lower still)
    rto_min_ns: int = key(1_000_000, unit="ns", low=1000, high=1e12)


@dataclass(frozen=True)
class ComputeSection:
    """Where compute times come from."""

    device: str = "rtx3090"  # SwitchGNN: the testbed's GPU; names in workloads/devices.toml
    table: str = ""  # a CSV or Parquet of measured times (workloads/compute_table.py) instead of the roofline


@dataclass(frozen=True)
class RunSection:
    """How the simulation itself runs and what it records."""

    systems: str = ""  # comma-separated names (workloads/systems); empty: the command's own choice
    # Whether in-network systems run with free recirculation, within Tofino's limits, or once with each.
    recirculation: str = key("both", choices=("both", "free", "tofino"))
    memory_sweep: str = ""  # comma-separated sizes: memory-bound systems run with each, recirculation free
    value_mode: bool = False  # packets carry numbers; what owners receive is checked against the oracle
    sample_interval_ns: int = key(0, unit="ns", low=100, high=1e12, word="auto")
    packet_sample: int = key(0, low=0, high=2**31 - 1)  # every Nth packet is recorded; 0: none
    seed: int = key(1, low=0, high=2**31 - 1)


@dataclass(frozen=True)
class Scenario:
    """One experiment. Sections are the tables of the TOML file; attribute names are its keys."""

    graph: GraphSection = GraphSection()
    partition: PartitionSection = PartitionSection()
    plan: PlanSection = PlanSection()
    model: ModelSection = ModelSection()
    dynamic: DynamicSection = DynamicSection()
    cluster: ClusterSection = ClusterSection()
    switch: SwitchSection = SwitchSection()
    congestion: CongestionSection = CongestionSection()
    host: HostSection = HostSection()
    loss: LossSection = LossSection()
    background: BackgroundSection = BackgroundSection()
    reliability: ReliabilitySection = ReliabilitySection()
    compute: ComputeSection = ComputeSection()
    run: RunSection = RunSection()

    def __post_init__(self) -> None:
        for section in fields(self):
            values = getattr(self, section.name)
            for item in fields(values):
                check_value(f"{section.name}.{item.name}", getattr(values, item.name), item)
        _check_topology(self.cluster)
        object.__setattr__(self, "congestion", _resolve_congestion(self.congestion, self.cluster))
        object.__setattr__(self, "switch", _resolve_switch(self.switch, self.congestion, self.cluster))
        if self.switch.model == "p4":
            _resolve_p4(self)
        elif self.switch.program != SwitchSection.program or self.switch.spine_program:
            name = "program" if self.switch.program != SwitchSection.program else "spine_program"
            raise InputError(
                f"switch.{name}: {getattr(self.switch, name)[:60]!r} given, which runs on P4 switches only; "
                'set switch.model = "p4"'
            )


def check_value(where: str, value: Any, item: Field[Any]) -> None:
    """One key's type and limits. Raises InputError naming `where`."""
    meta = item.metadata
    expected: Any = type(item.default)
    if expected is float and type(value) is int:
        value = float(value)
    if type(value) is not expected:
        raise InputError(f"{where}: expected {expected.__name__}, {type(value).__name__} given")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where}: {value} given; expected a finite number")
    if not meta:
        return
    if meta["word"] and value == 0:
        return
    if meta["choices"] and value not in meta["choices"]:
        raise InputError(f"{where}: {value!r} given; allowed: {', '.join(meta['choices'])}")
    low, high, unit = meta["low"], meta["high"], meta["unit"] and f" {meta['unit']}"
    if low is not None and value < low:
        raise InputError(f"{where}: {value}{unit} given; at least {_plain(low)}{unit}")
    if high is not None and value > high:
        raise InputError(f"{where}: {value}{unit} given; at most {_plain(high)}{unit}")


def _plain(limit: float) -> str:
    """A limit without an exponent where it is a whole number."""
    return f"{int(limit)}" if limit == int(limit) else f"{limit:g}"


def _check_topology(cluster: ClusterSection) -> None:
    where = "cluster.topology"
    if cluster.topology == "star":
        return
    if not _LEAF_SPINE.fullmatch(cluster.topology):
        raise InputError(
            f'{where}: {cluster.topology[:40]!r} given; allowed: "star", "leaf-spine:LEAVESxSPINES" (8x8)'
        )
    if cluster.leaves < 1 or cluster.spines < 1:
        raise InputError(f"{where}: {cluster.topology!r} needs at least one leaf and one spine")
    if cluster.leaves > 4096 or cluster.spines > 4096:
        raise InputError(f"{where}: {cluster.topology!r} given; at most 4096 leaves and 4096 spines")
    if cluster.workers % cluster.leaves:
        raise InputError(
            f"{where}: {cluster.workers} workers cannot be spread evenly over {cluster.leaves} leaves; "
            "cluster.workers must be a multiple of the leaves"
        )


def _resolve_congestion(congestion: CongestionSection, cluster: ClusterSection) -> CongestionSection:
    share = cluster.host_link_bps / 25e9
    resolved = replace(
        congestion,
        ecn_kmin_bytes=congestion.ecn_kmin_bytes or max(round(100_000 * share), cluster.mtu_bytes),
        ecn_kmax_bytes=congestion.ecn_kmax_bytes or max(round(400_000 * share), 4 * cluster.mtu_bytes),
        dcqcn_rai_bps=congestion.dcqcn_rai_bps or max(round(5e6 * share), 1),
        dcqcn_rhai_bps=congestion.dcqcn_rhai_bps or max(round(50e6 * share), 1),
        dcqcn_min_rate_bps=min(congestion.dcqcn_min_rate_bps, cluster.host_link_bps),
    )
    if resolved.ecn_kmin_bytes > resolved.ecn_kmax_bytes:
        raise InputError(
            f"congestion.ecn_kmin_bytes: {resolved.ecn_kmin_bytes} bytes given; "
            f"at most ecn_kmax_bytes = {resolved.ecn_kmax_bytes}"
        )
    return resolved


def _resolve_switch(
    switch: SwitchSection, congestion: CongestionSection, cluster: ClusterSection
) -> SwitchSection:
    if switch.memory_bytes and switch.memory_bytes < switch.aggregator_bytes:
        raise InputError(
            f"switch.memory_bytes: {switch.memory_bytes} bytes hold no aggregator; "
            f"at least switch.aggregator_bytes = {switch.aggregator_bytes}"
        )
    packet = PACKET_HEADER_BYTES + 4 * switch.values_per_packet
    if packet > cluster.mtu_bytes:
        raise InputError(
            f"switch.aggregator_bytes: {switch.aggregator_bytes} makes packets of {packet} bytes; "
            f"at most cluster.mtu_bytes = {cluster.mtu_bytes}"
        )
    most = switch.buffer_bytes // 2 or 2 * congestion.ecn_kmax_bytes
    xoff = switch.pfc_xoff_bytes or min(2 * congestion.ecn_kmax_bytes, most)
    xon = switch.pfc_xon_bytes or max(xoff - 2 * cluster.mtu_bytes, 1)
    if xon > xoff:
        raise InputError(f"switch.pfc_xon_bytes: {xon} bytes given; at most pfc_xoff_bytes = {xoff}")
    if switch.pfc and switch.buffer_bytes and xoff > switch.buffer_bytes:
        raise InputError(
            f"switch.pfc_xoff_bytes: {xoff} bytes given; at most switch.buffer_bytes = {switch.buffer_bytes}"
        )
    return replace(switch, pfc_xoff_bytes=xoff, pfc_xon_bytes=xon)


def _resolve_p4(scenario: Scenario) -> None:
    """What P4 switches settle: their routes are tables', their reports the wire format's."""
    switch, cluster = scenario.switch, scenario.cluster
    if switch.spine_program and not cluster.spines:
        raise InputError(
            f"switch.spine_program: {switch.spine_program[:60]!r} given; {cluster.topology} has no spines"
        )
    if cluster.ecmp == "packet":
        raise InputError("cluster.ecmp: packet given; P4 switches route by destination")
    if switch.pfc:
        raise InputError("switch.pfc: true given; P4 switches have no priority flow control: false")
    if switch.values_per_packet != WIRE_VALUES:
        raise InputError(
            f"switch.aggregator_bytes: {switch.aggregator_bytes} holds {switch.values_per_packet} values; "
            f"P4 programs here carry {WIRE_VALUES} a packet: 128"
        )
    object.__setattr__(scenario, "switch", replace(switch, protocol="wire"))
    object.__setattr__(scenario, "cluster", replace(cluster, ecmp="destination"))
