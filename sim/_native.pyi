"""The C++ models (sim/native/module.cpp), as Python sees them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

KINDS: list[str]

class Config:
    """Flat configuration; its fields are those of sim/native/config.h."""

    value_mode: bool
    stock_events: bool
    p4: bool
    p4_trace: bool
    def __init__(self) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

class P4Stopped(RuntimeError):  # noqa: N818  (what happened to the program)
    """A P4 program that would never end."""

class PlanArrays:
    """A plan's arrays, borrowed."""

    def __init__(
        self,
        workers: int,
        width: int,
        chunks: int,
        owner: npt.NDArray[np.int32],
        block_level: npt.NDArray[np.int32],
        block_ptr: npt.NDArray[np.int64],
        block_vertices: npt.NDArray[np.int32],
        adj_ptr: npt.NDArray[np.int64],
        adj: npt.NDArray[np.int32],
        residual_ptr: npt.NDArray[np.int64],
        residual_adj: npt.NDArray[np.int32],
    ) -> None: ...

class Simulation:
    """One run. phases: (index into plans or -1, pre_ns int64[workers], post_ns int64[workers])."""

    def __init__(
        self,
        config: Config,
        plans: list[PlanArrays],
        phases: list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]],
        switches: list[tuple[str, int, str, str]] = ...,
        layout: tuple[dict[str, tuple[int, int]], dict[str, int]] | None = None,
    ) -> None: ...
    def trace(self, number: int) -> list[tuple[int, int, bool, bytes]]: ...
    def set_features(self, by_phase: list[npt.NDArray[np.int32] | None]) -> None: ...
    def run(self, progress: Callable[[int, int, float], None] | None) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def epochs(self) -> dict[str, npt.NDArray[np.int64]]: ...
    def blocks(self) -> dict[str, npt.NDArray[Any]]: ...
    def queues(self) -> dict[str, npt.NDArray[Any]]: ...
    def links(self) -> dict[str, npt.NDArray[Any]]: ...
    def packets(self) -> dict[str, npt.NDArray[Any]]: ...
    def results(self, phase: int) -> npt.NDArray[np.int64]: ...
