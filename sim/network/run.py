"""Run a [network] scenario and keep its results: what `netfold run` does with one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sim.network import records
from sim.network.programs import SwitchProgram, load_programs
from sim.network.scenario import NetworkScenario
from sim.network.scenario_io import dump_network, with_output_paths
from sim.network.topology import Topology, make_topology
from sim.network.traffic import Flow, expand_flows
from sim.results import ResultsFolder, write_json, write_table
from workloads.errors import InputError

SAMPLES = 200  # of the queues in a run, unless the scenario says how often
_TCP = {
    "cubic": "ns3::TcpCubic", "newreno": "ns3::TcpLinuxReno", "dctcp": "ns3::TcpDctcp", "bbr": "ns3::TcpBbr",
    "vegas": "ns3::TcpVegas", "westwood": "ns3::TcpWestwoodPlus", "illinois": "ns3::TcpIllinois",
}  # fmt: skip


@dataclass
class NetworkOutcome:
    """Figures, and the tables of records.SCHEMAS."""

    summary: dict[str, Any]
    tables: dict[str, records.Columns] = field(default_factory=dict)
    topology: Topology | None = None
    programs: list[SwitchProgram] = field(default_factory=list)


def simulate_network(
    scenario: NetworkScenario,
    *,
    progress: Callable[[float], None] | None = None,
    stage: Callable[[str], None] = lambda text: None,
    pcap: tuple[str, ...] = (),
    pcap_folder: Path | None = None,
) -> NetworkOutcome:
    """One run. `progress` gets the share that is done; `pcap`: names or patterns of nodes that are recorded.

    Raises InputError for a scenario that cannot be run and for a program that never ends with a packet.
    """
    # ns-3's internet modules take a moment to load; nobody else needs them.
    from sim import _network as native  # noqa: PLC0415

    topology = make_topology(scenario)
    flows = expand_flows(scenario, topology)
    recorded = _find_nodes(topology, pcap)
    programs = load_programs(scenario, topology, stage)
    config = _config(native, scenario, topology, flows, programs)
    if recorded:
        assert pcap_folder is not None
        pcap_folder.mkdir(parents=True)
        config.pcap, config.pcap_prefix = recorded, f"{pcap_folder}/"
    stage("simulating")
    began = time.perf_counter()
    try:
        run = native.NetworkRun(config)
        run.run(progress)
    except IndexError:  # ns-3's ping looks up a reply's number among those that it sent
        raise InputError(
            "ping: a program answered with a sequence number that was never sent, which ns-3's ping cannot "
            'take; keep the number, or use kind = "echo"'
        ) from None
    except (RuntimeError, ValueError) as error:
        raise InputError(str(error)) from None
    outcome = _collect(run, scenario, topology, flows, programs)
    outcome.summary["wall_s"] = time.perf_counter() - began
    return outcome


def run_network(scenario: NetworkScenario, place: Path, **options: Any) -> NetworkOutcome:
    """`simulate_network` into the results folder `place`; nothing is left where it fails."""
    folder = ResultsFolder(place)
    try:
        outcome = simulate_network(scenario, pcap_folder=folder.building / "pcap", **options)
        for name, schema in records.SCHEMAS.items():
            write_table(folder.building / f"{name}.parquet", outcome.tables[name], schema)
        write_json(
            folder.building / "programs.json",
            {
                name: {"program": str(p.path), "generated_sha256": p.digest, "entries": p.lines}
                for name, p in zip(
                    outcome.topology.switches if outcome.topology else [], outcome.programs, strict=True
                )
            },
        )
        told = {"version": version("netfold")}
        folder.commit(dump_network(with_output_paths(scenario), told), outcome.summary)
        return outcome
    except BaseException:
        folder.discard()
        raise


def _find_nodes(topology: Topology, patterns: tuple[str, ...]) -> list[int]:
    """Numbers of the hosts and switches that a name or pattern means."""
    nodes: list[int] = []
    first = len(topology.hosts)
    for pattern in patterns:
        some: list[int] = []
        for find, offset in ((topology.find_hosts, 0), (topology.find_switches, first)):
            try:
                some += [offset + i for i in find("--pcap", (pattern,))]
            except InputError:
                continue
        if not some:
            raise InputError(f"--pcap: {pattern[:60]!a} is no host or switch of this network")
        nodes += some
    return sorted(set(nodes))


def _config(
    native: Any,
    scenario: NetworkScenario,
    topology: Topology,
    flows: list[Flow],
    programs: list[SwitchProgram],
) -> Any:
    """The scenario as sim/native/stock/network.h takes it."""
    network, hosts = scenario.network, scenario.hosts
    config = native.NetworkConfig()
    config.hosts = [
        _made(native.HostConfig, name=name, mac=mac, address=address)
        for name, mac, address in zip(topology.hosts, topology.macs, topology.addresses, strict=True)
    ]
    config.switches = [
        _made(
            native.SwitchConfig,
            name=name,
            program=program.path.name,
            library=str(program.engine.library_path),
            engine=program.engine.address,
            ingress_latency_ns=program.rule.ingress_latency_ns,
            egress_latency_ns=program.rule.egress_latency_ns,
            pass_rate_pps=program.rule.pass_rate_pps,
            recirculation_bps=program.rule.recirculation_bps,
            queue_packets=program.rule.queue_packets,
            buffer_bytes=program.rule.buffer_bytes,
            ecn_kmin_bytes=program.rule.ecn_kmin_bytes,
            ecn_kmax_bytes=program.rule.ecn_kmax_bytes,
            ecn_pmax=program.rule.ecn_pmax,
            max_rounds=program.rule.max_rounds,
        )
        for name, program in zip(topology.switches, programs, strict=True)
    ]
    config.links = [_made(native.LinkConfig, **vars(link)) for link in topology.links]
    config.faults = [
        _made(
            native.FaultConfig,
            link=link,
            loss=fault.loss,
            mean_burst=fault.mean_burst,
            from_ns=fault.from_ns,
            until_ns=fault.until_ns,
        )
        for number, fault in enumerate(scenario.fault, 1)
        for link in topology.find_links(f"fault {number}: links", fault.links)
    ]
    config.flows = [
        _made(native.FlowConfig, **{k: v for k, v in vars(flow).items() if k not in ("entry", "name")})
        for flow in flows
    ]
    whole = network.duration_ns + network.drain_ns
    config.duration_ns, config.drain_ns = network.duration_ns, network.drain_ns
    config.sample_interval_ns = network.sample_interval_ns or max(whole // SAMPLES, 100)
    config.mtu_bytes, config.host_queue_bytes = scenario.links.mtu_bytes, hosts.queue_bytes
    config.static_arp = network.arp == "static"
    config.tcp, config.tcp_ecn, config.tcp_buffer_bytes = (
        _TCP[hosts.tcp],
        hosts.tcp_ecn,
        hosts.tcp_buffer_bytes,
    )
    config.tcp_min_rto_ns = hosts.tcp_min_rto_ns
    config.seed = network.seed
    return config


def _made(cls: Any, **values: Any) -> Any:
    made = cls()
    for name, value in values.items():
        setattr(made, name, list(value) if isinstance(value, tuple) else value)
    return made


def _collect(
    run: Any, scenario: NetworkScenario, topology: Topology, flows: list[Flow], programs: list[SwitchProgram]
) -> NetworkOutcome:
    latencies = [run.latencies(i) for i in range(len(flows))]
    numbers = [list(topology.ports(i)) for i in range(len(topology.switches))]
    ports = [(of, run.ports(i, of)) for i, of in enumerate(numbers)]
    passes = np.array([run.passes(i) for i in range(len(topology.switches))]).reshape(-1, 3)
    drops = np.array([run.drops(i) for i in range(len(topology.switches))]).reshape(-1, 3)
    flow_table = records.flow_table(flows, topology, run.flows(), latencies)
    tables = {
        "flows": flow_table,
        "ports": records.port_table(topology, ports),
        "queues": records.queue_table(topology, run.queues()),
        "links": records.link_table(topology, run.lost()),
        "counters": records.counter_table(topology, programs),
        "messages": records.message_table(topology, programs),
    }
    totals = {key: int(tables["ports"][key].sum()) for key in ("packets", "bytes", "marks")}
    summary = {
        "kind": "network",
        "netfold": version("netfold"),
        "provenance": "simulated",
        "topology": scenario.network.topology,
        "hosts": len(topology.hosts),
        "switches": len(topology.switches),
        "links": len(topology.links),
        "seed": scenario.network.seed,
        "duration_ns": scenario.network.duration_ns,
        "end_ns": run.end_ns(),
        "events": run.events(),
        "flows": records.group_figures(flows, flow_table, latencies),
        "switch_packets": totals["packets"],
        "switch_bytes": totals["bytes"],
        **_drop_figures(drops),
        "ecn_marks": totals["marks"],
        "lost_frames": int(tables["links"]["lost_frames"].sum()),
        "max_backlog_bytes": int(tables["ports"]["max_backlog_bytes"].max()),
        "passes": int(passes[:, 0].sum()),
        "recirculated_passes": int(passes[:, 1].sum()),
        "messages": len(tables["messages"]["switch"]),
        "programs": _program_figures(topology, programs, ports, passes, drops),
        "warnings": _warnings(topology, programs, passes),
    }
    return NetworkOutcome(summary, tables, topology, programs)


def _warnings(topology: Topology, programs: list[SwitchProgram], passes: np.ndarray) -> list[str]:
    out = []
    for i, (name, program) in enumerate(zip(topology.switches, programs, strict=True)):
        out += [f"{name}: {problem}" for problem in program.engine.problems()]
        if passes[i, 2]:
            out.append(
                f"{name}: packets were still going round when the run ended; does {program.path.name} "
                "recirculate without end?"
            )
    return out


def _drop_figures(drops: np.ndarray) -> dict[str, int]:
    """Packets that full queues, the program and ports without a link let go, of some switches together."""
    by_program, queue, nowhere = (int(drops[:, i].sum()) for i in range(3))
    return {"drops": queue, "program_drops": by_program, "no_link_drops": nowhere}


def _program_figures(
    topology: Topology,
    programs: list[SwitchProgram],
    ports: list[tuple[list[int], records.Columns]],
    passes: np.ndarray,
    drops: np.ndarray,
) -> list[dict[str, Any]]:
    """Switches that run the same program, together."""
    groups: dict[tuple[str, str], list[int]] = {}
    for i, program in enumerate(programs):
        groups.setdefault((program.path.name, program.digest), []).append(i)
    return [
        {
            "program": name,
            "switches": [topology.switches[i] for i in of],
            "entries": sum(len(programs[i].lines) for i in of),
            "passes": int(passes[of, 0].sum()),
            "recirculated_passes": int(passes[of, 1].sum()),
            **{
                out: int(sum(ports[i][1][key].sum() for i in of))
                for out, key in (("packets", "packets"), ("ecn_marks", "marks"))
            },
            **_drop_figures(drops[of]),
            "max_backlog_bytes": int(max(ports[i][1]["max_backlog_bytes"].max() for i in of)),
        }
        for (name, _), of in groups.items()
    ]
