"""What a network's run leaves: tables for Parquet and figures for summary.json.

flows     one row a source and destination
ports     one row a switch's port, with what it sent
queues    the longest backlog of a port in a sampling interval, where there was one
links     frames that faults damaged
counters  direct counters of table entries, and counters of the program
messages  what programs told: digest() and log_msg()
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from sim.network.programs import SwitchProgram
from sim.network.routes import dotted
from sim.network.topology import Topology
from sim.network.traffic import Flow

_I, _S, _F = pa.int64(), pa.string(), pa.float64()
SCHEMAS: dict[str, pa.Schema] = {
    "flows": pa.schema(
        [
            ("flow", _I), ("name", _S), ("kind", _S), ("source", _S), ("target", _S), ("start_ns", _I),
            ("stop_ns", _I), ("sent_packets", _I), ("sent_bytes", _I), ("received_packets", _I),
            ("received_bytes", _I), ("lost_packets", _I), ("duplicates", _I), ("reordered", _I),
            ("damaged", _I), ("retransmits", _I), ("throughput_bps", _F), ("latency_mean_ns", _F),
            ("latency_p50_ns", _F), ("latency_p99_ns", _F), ("latency_max_ns", _F),
            ("first_ns", _I), ("last_ns", _I),
        ]
    ),
    "ports": pa.schema(
        [
            ("switch", _S), ("port", _I), ("peer", _S), ("rate_bps", _I), ("packets", _I), ("bytes", _I),
            ("drops", _I), ("marks", _I), ("max_backlog_bytes", _I),
        ]
    ),
    "queues": pa.schema([("time_ns", _I), ("switch", _S), ("port", _I), ("backlog_bytes", _I)]),
    "links": pa.schema([("a", _S), ("b", _S), ("rate_bps", _I), ("delay_ns", _I), ("lost_frames", _I)]),
    "counters": pa.schema(
        [
            ("switch", _S), ("kind", _S), ("name", _S), ("index", _I), ("entry", _S), ("packets", _I),
            ("bytes", _I),
        ]
    ),
    "messages": pa.schema([("switch", _S), ("kind", _S), ("name", _S), ("text", _S)]),
}  # fmt: skip
Columns = dict[str, np.ndarray]


def flow_table(
    flows: list[Flow], topology: Topology, counts: Columns, latencies: list[np.ndarray]
) -> Columns:
    """`latencies`: picoseconds, one array a flow. Latencies of a flow without any are NaN.

    udp: one way, application to application. echo, ping: there and back. tcp: the round trips TCP measured.
    throughput: payload received, from the start until the last of it came.
    """
    unique = counts["received_packets"] - counts["duplicates"] - counts["damaged"]
    packets = np.array([flow.kind != "tcp" for flow in flows], bool)
    lasted = np.array([counts["last_ns"][i] - flow.start_ns for i, flow in enumerate(flows)], float)
    throughput = np.zeros(len(flows))
    np.divide(counts["received_bytes"] * 8e9, lasted, out=throughput, where=lasted > 0)
    figures = np.array([_latency_figures(one) for one in latencies], float).reshape(len(flows), 4)
    return {
        "flow": np.arange(len(flows)),
        "name": _texts([flow.name for flow in flows]),
        "kind": _texts([flow.kind for flow in flows]),
        "source": _texts([topology.hosts[flow.source] for flow in flows]),
        "target": _texts([_target(flow, topology) for flow in flows]),
        "start_ns": np.array([flow.start_ns for flow in flows], np.int64),
        "stop_ns": np.array([flow.stop_ns for flow in flows], np.int64),
        **counts,
        "lost_packets": np.where(packets, counts["sent_packets"] - unique, 0),
        "throughput_bps": throughput,
        "latency_mean_ns": figures[:, 0],
        "latency_p50_ns": figures[:, 1],
        "latency_p99_ns": figures[:, 2],
        "latency_max_ns": figures[:, 3],
    }


def _target(flow: Flow, topology: Topology) -> str:
    here = [topology.hosts[host] for host in flow.listeners]
    return here[0] if topology.addresses[flow.listeners[0]] == flow.address else dotted(flow.address)


def _latency_figures(picoseconds: np.ndarray) -> tuple[float, float, float, float]:
    if not picoseconds.size:
        return (float("nan"),) * 4
    middle, tail = np.percentile(picoseconds, (50, 99))
    return (
        float(picoseconds.mean() / 1000),
        float(middle / 1000),
        float(tail / 1000),
        float(picoseconds.max() / 1000),
    )


def group_figures(flows: list[Flow], table: Columns, latencies: list[np.ndarray]) -> list[dict[str, Any]]:
    """For each [[flow]] entry, all its flows together. A figure that does not exist is None."""
    out = []
    for entry in dict.fromkeys(flow.entry for flow in flows):
        of = [i for i, flow in enumerate(flows) if flow.entry == entry]
        measured = np.concatenate([latencies[i] for i in of])
        mean, middle, tail, most = _latency_figures(measured)
        out.append(
            {
                "name": flows[of[0]].name,
                "kind": flows[of[0]].kind,
                "flows": len(of),
                **{
                    key: int(table[key][of].sum())
                    for key in (
                        "sent_packets", "received_packets", "lost_packets", "received_bytes", "reordered",
                        "duplicates", "damaged", "retransmits",
                    )
                },
                "throughput_bps": float(table["throughput_bps"][of].sum()),
                "throughput_min_bps": float(table["throughput_bps"][of].min()),
                "latency_mean_ns": mean if measured.size else None,
                "latency_p50_ns": middle if measured.size else None,
                "latency_p99_ns": tail if measured.size else None,
                "latency_max_ns": most if measured.size else None,
            }
        )  # fmt: skip
    return out


def port_table(topology: Topology, counts: list[tuple[list[int], Columns]]) -> Columns:
    """`counts`: for each switch its port numbers and what each counted."""
    rates = {}
    for link in topology.links:
        rates[link.a, link.port_a] = rates[link.b, link.port_b] = link.rate_bps
    first = len(topology.hosts)
    rows = [(switch, port) for switch, (ports, _) in enumerate(counts) for port in ports]
    return {
        "switch": _texts([topology.switches[switch] for switch, _ in rows]),
        "port": np.array([port for _, port in rows], np.int64),
        "peer": _texts([topology.name(topology.ports(switch)[port]) for switch, port in rows]),
        "rate_bps": np.array([rates[first + switch, port] for switch, port in rows], np.int64),
        **{
            key: np.concatenate([columns[key] for _, columns in counts])
            for key in ("packets", "bytes", "drops", "marks", "max_backlog_bytes")
        },
    }


def queue_table(topology: Topology, samples: Columns) -> Columns:
    names = np.array(topology.switches, object)
    return {
        "time_ns": samples["time_ns"],
        "switch": names[samples["node"]] if len(samples["node"]) else _texts([]),
        "port": samples["port"].astype(np.int64),
        "backlog_bytes": samples["backlog_bytes"],
    }


def link_table(topology: Topology, lost: np.ndarray) -> Columns:
    return {
        "a": _texts([topology.name(link.a) for link in topology.links]),
        "b": _texts([topology.name(link.b) for link in topology.links]),
        "rate_bps": np.array([link.rate_bps for link in topology.links], np.int64),
        "delay_ns": np.array([link.delay_ns for link in topology.links], np.int64),
        "lost_frames": lost,
    }


def counter_table(topology: Topology, programs: list[SwitchProgram]) -> Columns:
    """Counters that counted something, and every entry of a table with a direct counter."""
    rows: list[tuple[str, str, str, int, str, int, int]] = []
    for name, program in zip(topology.switches, programs, strict=True):
        engine = program.engine
        for number, table in enumerate(engine.schema.tables):
            for (at, entry), shown in engine.entry_names.items() if table.counter else ():
                if at == number:
                    packets, octets = engine.counted_by_entry(number, entry)
                    rows.append((name, "entry", table.name, entry, shown, packets, octets))
        for counter in engine.schema.counters:
            for index in range(counter.size):
                packets, octets = engine.counter_read(counter.name, index)
                if packets or octets:
                    rows.append((name, "counter", counter.name, index, "", packets, octets))
    columns = list(zip(*rows, strict=True)) or [()] * 7
    texts, numbers = (0, 1, 2, 4), (3, 5, 6)
    made = {i: _texts(list(columns[i])) for i in texts} | {i: np.array(columns[i], np.int64) for i in numbers}
    return {key: made[i] for i, key in enumerate(SCHEMAS["counters"].names)}


def message_table(topology: Topology, programs: list[SwitchProgram]) -> Columns:
    """Every digest, its fields as JSON, and every line of log_msg(); a switch's in the order they came."""
    rows: list[tuple[str, str, str, str]] = []
    for name, program in zip(topology.switches, programs, strict=True):
        for message in program.engine.digests():
            rows.append((name, "digest", message.name, json.dumps(message.fields)))
        rows += [(name, "log", "", line) for line in program.engine.log()]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    return {key: _texts(list(column)) for key, column in zip(SCHEMAS["messages"].names, columns, strict=True)}


def _texts(values: list[str]) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out
