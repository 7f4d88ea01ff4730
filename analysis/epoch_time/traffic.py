"""Counted bytes: which worker sends how much in one propagation, host-based, quantised, or through the
switch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.scenario import Scenario
from sim.wire import FRAME_OVERHEAD_BYTES
from workloads.graphs import Graph
from workloads.partition import Partition
from workloads.plan import Plan
from workloads.training.extractor import LEVELS, boundary_pool, mask_levels, node_bits, percentile_rank

SCALE_BYTES = 8  # of a quantised vector: its minimum and scale in float32
GRID_BITS = 8  # 255 is a multiple of 2^b - 1 for b = 1, 2, 4, 8: every width's levels lie on the 8-bit grid


@dataclass(frozen=True)
class Sends:
    """Vectors that worker p sends to worker q in one host-based propagation, by mask level of the vertex:
    int64[levels, k, k]. levels: uint8[n], 0 outside the boundary.
    """

    count: NDArray[np.int64]
    levels: NDArray[np.uint8]

    def main_bytes(self, width: int, base: int | None) -> NDArray[np.float64]:
        """float64[k, k]: exact values, or packed with `base` bits and the levels' more, without scales."""
        return sum_levels(self.count, vector_bytes(width, base))

    def wire_bytes(self, width: int, base: int | None, mtu_bytes: int) -> NDArray[np.float64]:
        """The same with scales and frame overhead, vectors packed back to back into frames."""
        main = self.main_bytes(width, base)
        scales = 0.0 if base is None else SCALE_BYTES * self.count.sum(0).astype(np.float64)
        return framed(main + scales, mtu_bytes)


def vector_bytes(width: int, base: int | None) -> NDArray[np.float64]:
    """float64[levels]: bytes of one vector at each mask level."""
    if base is None:
        return np.full(LEVELS, 4.0 * width)
    bits = node_bits(base, np.arange(LEVELS, dtype=np.uint8)).astype(np.int64)
    return np.ceil(width * bits / 8)


def sum_levels(count: NDArray[np.int64], per_vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[k, k] from int64[levels, k, k] and float64[levels]."""
    return np.tensordot(per_vector, count.astype(np.float64), axes=1)


def framed(payload: NDArray[np.float64], mtu_bytes: int) -> NDArray[np.float64]:
    """Bytes on the wire of payloads cut into full frames."""
    room = mtu_bytes - (FRAME_OVERHEAD_BYTES - 18)  # Ethernet's header and check do not count towards the MTU
    return payload * (1 + FRAME_OVERHEAD_BYTES / room)


def count_sends(graph: Graph, partition: Partition) -> Sends:
    """One pass over the edges."""
    parts = partition.parts.astype(np.int64)
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    other = parts[graph.indices]
    crossing = parts[rows] != other
    pairs = np.unique(rows[crossing] * partition.k + other[crossing])
    vertex, peer = pairs // partition.k, pairs % partition.k
    pool, sends = boundary_pool(graph, partition)
    levels = np.zeros(graph.num_vertices, dtype=np.uint8)
    levels[pool] = mask_levels(percentile_rank(graph.degrees[pool]), sends)
    k = partition.k
    flat = (levels[vertex].astype(np.int64) * k + parts[vertex]) * k + peer
    count = np.bincount(flat, minlength=LEVELS * k * k).reshape(LEVELS, k, k)
    return Sends(count.astype(np.int64), levels)


@dataclass(frozen=True)
class Uploads:
    """One in-network propagation. up, down: float64[k], bytes of each worker; across: float64[leaves,
    leaves], bytes between leaves (empty in a star); blocks: how many; lane_bits: of an aggregator's values.
    """

    up: NDArray[np.float64]
    down: NDArray[np.float64]
    across: NDArray[np.float64]
    blocks: int
    lane_bits: int


def count_uploads(
    plan: Plan, scenario: Scenario, width: int, levels: NDArray[np.uint8], base: int | None
) -> Uploads:
    """Bytes through the switch: every block vertex uploads once and gets one result.

    With `base`, values are quantised on one range for the whole propagation, so that integers can be added:
    b-bit levels are lifted onto the 8-bit grid by the switch, and aggregator lanes of 16 bits hold the sum of
    up to 257 of them; a plan with more neighbours in a block needs 32 bits.
    """
    k = plan.num_workers
    vertex = plan.block_vertices
    owner = plan.owner[vertex].astype(np.int64)
    expected = np.diff(plan.adj_ptr)
    lane_bits = 32
    if base is not None and expected.max(initial=0) * (2**GRID_BITS - 1) < 2**16:
        lane_bits = 16
    per_packet = scenario.switch.values_per_packet * 32 // lane_bits
    packets = -(-width // per_packet)
    headers = packets * FRAME_OVERHEAD_BYTES
    payload = (
        vector_bytes(width, base)[levels[plan.boundary[vertex]]]
        if base
        else np.full(len(vertex), 4.0 * width)
    )
    result = headers + width * lane_bits / 8
    up = np.bincount(owner, weights=headers + payload, minlength=k).astype(np.float64)
    down = np.bincount(owner, minlength=k).astype(np.float64) * result
    leaves = scenario.cluster.leaves
    if not leaves:
        return Uploads(up, down, np.zeros((0, 0)), plan.num_blocks, lane_bits)
    # A rack's contributions to v travel once, as a partial sum, to v's leaf.
    rack_of = np.arange(k) // scenario.cluster.hosts_per_leaf
    entry = np.repeat(np.arange(len(vertex)), expected)
    block = np.repeat(np.arange(plan.num_blocks), np.diff(plan.block_ptr))
    source = plan.block_ptr[block[entry]] + plan.adj
    pairs = np.unique(entry * leaves + rack_of[owner[source]])
    to, source_rack = rack_of[owner[pairs // leaves]], pairs % leaves
    across = (
        np.bincount(source_rack * leaves + to, minlength=leaves * leaves).reshape(leaves, leaves) * result
    )
    return Uploads(up, down, across.astype(np.float64), plan.num_blocks, lane_bits)
