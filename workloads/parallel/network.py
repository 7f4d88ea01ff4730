"""What a prediction wants to know of a network, whoever answers: a simulation, or this machine measured."""

from __future__ import annotations

from typing import Protocol

from workloads.parallel.scheme import Scheme


class Network(Protocol):
    """Times of transfers along axes of a scheme, in all groups at once."""

    @property
    def provenance(self) -> str:
        """ "simulated" or "measured"."""
        ...

    def transfer_ns(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> float:
        """kind: "all-reduce" (of a vector of `size` bytes), "all-gather" (`size` bytes gathered),
        "all-to-all" (a worker sends `size` bytes).
        """
        ...

    def boundary_ns(self, scheme: Scheme, width: int, size: float) -> float:
        """One boundary exchange of `width` values a vertex; the busiest worker sends `size` bytes."""
        ...

    def how(self, kind: str, scheme: Scheme, axes: tuple[str, ...], size: float) -> str:
        """The algorithm that `transfer_ns` takes, in words."""
        ...

    @property
    def packed(self) -> bool:
        """Whether the times include packing and unpacking at the workers."""
        ...
