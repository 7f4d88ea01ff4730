"""Plans whose propagation *is* a collective: who sends what to whom, in the form the simulation runs.

A boundary vertex is one message and an edge is "these two workers swap theirs". All edges are symmetric, as a
plan's must be, so every pattern here is a swap: all-to-all is one swap per pair, a ring's step one swap with
either neighbour (half of the values run round the ring each way, as in two counter-rotating rings), and an
all-reduce inside a switch is one clique per packet, in which each member receives the sum of the others'.
`groups`: disjoint lists of equally many workers; each group runs the collective on its own, all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from workloads.plan import Plan
from workloads.plan.plan import freeze_plan

Groups = Sequence[Sequence[int]]


def all_to_all_plan(workers: int, groups: Groups, width: int, values_per_packet: int) -> Plan:
    """Every member sends every other member of its group a message of `width` values."""
    owners, partners, first = [], [], 0
    for group in groups:
        size = len(group)
        sender, receiver = np.nonzero(~np.eye(size, dtype=bool))
        number = np.full((size, size), -1)
        number[sender, receiver] = first + np.arange(len(sender))
        owners.append(np.asarray(group)[sender])
        partners.append(number[receiver, sender])
        first += len(sender)
    return _host_plan(workers, np.concatenate(owners), np.concatenate(partners), width, values_per_packet)


def ring_plan(workers: int, groups: Groups, width: int, values_per_packet: int) -> Plan:
    """Every member sends `width` values to its successor and `width` to its predecessor in the group."""
    owners, partners, first = [], [], 0
    for group in groups:
        size, place = len(group), np.arange(len(group))
        number = np.empty(2 * size, dtype=np.int64)  # 2i: to the successor, 2i+1: to the predecessor
        number[2 * place] = first + 2 * ((place + 1) % size) + 1
        number[2 * place + 1] = first + 2 * ((place - 1) % size)
        owners.append(np.repeat(np.asarray(group), 2))
        partners.append(number)
        first += 2 * size
    return _host_plan(workers, np.concatenate(owners), np.concatenate(partners), width, values_per_packet)


def clique_plan(workers: int, groups: Groups, packets: int, values_per_packet: int) -> Plan:
    """All-reduce at one switch: for each of `packets` packets of values, the members' vertices form a clique.

    A vertex's result is the sum of the other members' packets, to which its owner adds its own. Every member
    uploads each packet once and receives one result for it, as with SwitchML (NSDI 2021) and its multicast.
    """
    size = len(groups[0])
    members = np.concatenate([np.asarray(group) for group in groups])
    owner = np.tile(members, packets)
    others = np.array([[other for other in range(size) if other != place] for place in range(size)])
    blocks = packets * len(groups)
    adjacency = np.repeat(np.arange(blocks) * size, size)[:, None] + np.tile(others, (blocks, 1))
    count = len(owner)
    pointers = np.arange(count + 1, dtype=np.int64) * (size - 1)
    return freeze_plan(
        **_scalars(workers, values_per_packet, values_per_packet, "single"),
        boundary=np.arange(count, dtype=np.int32),
        owner=owner.astype(np.int32),
        block_level=np.zeros(1, dtype=np.int32),
        block_ptr=np.array([0, count], dtype=np.int64),
        block_vertices=np.arange(count, dtype=np.int32),
        adj_ptr=pointers,
        adj=adjacency.reshape(-1).astype(np.int32),
        residual_ptr=np.zeros(count + 1, dtype=np.int64),
        residual_adj=np.zeros(0, dtype=np.int32),
    )


def _host_plan(
    workers: int, owner: npt.NDArray[np.int64], partner: npt.NDArray[np.int64], width: int, per_packet: int
) -> Plan:
    """Vertex v of worker owner[v] is swapped with its one neighbour partner[v]."""
    count = len(owner)
    return freeze_plan(
        **_scalars(workers, width, per_packet, "none"),
        boundary=np.arange(count, dtype=np.int32),
        owner=owner.astype(np.int32),
        block_level=np.zeros(0, dtype=np.int32),
        block_ptr=np.zeros(1, dtype=np.int64),
        block_vertices=np.zeros(0, dtype=np.int32),
        adj_ptr=np.zeros(1, dtype=np.int64),
        adj=np.zeros(0, dtype=np.int32),
        residual_ptr=np.arange(count + 1, dtype=np.int64),
        residual_adj=partner.astype(np.int32),
    )


def _scalars(workers: int, width: int, per_packet: int, blocks: str) -> dict[str, object]:
    return {
        "num_workers": workers,
        "width": width,
        "values_per_packet": per_packet,
        "chunks": -(-width // per_packet),
        "aggregators": 0,
        "memory_bytes": 0,
        "aggregator_bytes": 0,
        "per_vertex_bytes": 0,
        "per_edge_bytes": 0,
        "order": "random",
        "blocks_mode": blocks,
        "residual_mode": "none",
        "seed": 0,
        "graph_name": "collective",
        "graph_digest": "",
        "partition_digest": "",
    }
