"""Switch memory: what an aggregator costs, how many a budget buys, and how many vertices a block may have."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.errors import InputError

VALUES_PER_PACKET = 30
AGGREGATOR_BYTES = 128
"""An 8 B control word (owner, count) and 30 x int32, as in ATP and SwitchGNN."""

PAPER_ACCOUNTING = (0, 0)
"""(per_vertex_bytes, per_edge_bytes) as SwitchGNN counts: aggregators only."""

P4_ACCOUNTING = (8, 4)
"""What a P4 program that walks a vertex's neighbours by recirculation also keeps: per vertex of the block
where its neighbour list starts and how long it is (2 x 32 bit), per directed edge the neighbour's slot (32
bit)."""

SMALLEST_BLOCK = 2
"""A block needs both ends of an edge."""


@dataclass(frozen=True)
class Capacity:
    """What one block may hold. budget_bytes 0 = unlimited. Costs in bytes; a vertex's includes its
    aggregators.
    """

    budget_bytes: int
    aggregators: int
    chunks: int
    vertex_bytes: int
    edge_bytes: int

    @property
    def unlimited(self) -> bool:
        """True when any block fits."""
        return self.budget_bytes == 0

    def block_bytes(self, vertices: int, edges: int) -> int:
        """Memory of a block with that many vertices and directed edges."""
        return vertices * self.vertex_bytes + edges * self.edge_bytes

    def fits(self, vertices: int, edges: int) -> bool:
        """Whether a block with that many vertices and directed edges fits."""
        return self.unlimited or (
            self.block_bytes(vertices, edges) <= self.budget_bytes
            and vertices * self.chunks <= self.aggregators
        )

    @property
    def most_vertices(self) -> int:
        """The most vertices a block can have when its edges cost nothing."""
        return min(self.budget_bytes // self.vertex_bytes, self.aggregators // self.chunks)


def aggregators_for(memory_bytes: int, aggregator_bytes: int = AGGREGATOR_BYTES) -> int:
    """Whole aggregators in a memory budget (10 MB and 100 MB are decimal, as in the paper): 78,125 in 10
    MB.
    """
    return memory_bytes // aggregator_bytes


def block_capacity(
    memory_bytes: int | None,
    chunks: int,
    *,
    aggregator_bytes: int = AGGREGATOR_BYTES,
    per_vertex_bytes: int = PAPER_ACCOUNTING[0],
    per_edge_bytes: int = PAPER_ACCOUNTING[1],
) -> Capacity:
    """The capacity of a block of vertices with `chunks` aggregators each; None is unlimited memory.

    A block of V vertices and E directed edges takes V * (chunks * aggregator_bytes + per_vertex_bytes) + E *
    per_edge_bytes.
    """
    vertex_bytes = chunks * aggregator_bytes + per_vertex_bytes
    if memory_bytes is None:
        return Capacity(0, 0, chunks, vertex_bytes, per_edge_bytes)
    aggregators = aggregators_for(memory_bytes, aggregator_bytes)
    return Capacity(memory_bytes, aggregators, chunks, vertex_bytes, per_edge_bytes)


def require_room_for_an_edge(capacity: Capacity) -> None:
    """Raise InputError when not even two joined vertices fit: no block could then hold an edge."""
    if capacity.fits(SMALLEST_BLOCK, 2):
        return
    raise InputError(
        f"switch memory: {capacity.budget_bytes} B given, but the smallest block, two joined vertices of "
        f"{capacity.chunks} aggregators each, takes {capacity.block_bytes(SMALLEST_BLOCK, 2)} B; "
        "allowed: that or more"
    )
