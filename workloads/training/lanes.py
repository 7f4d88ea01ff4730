"""Lanes: where a worker's transfers run, in order, beside its computing: a thread on a CPU, a stream on CUDA.

A transfer is submitted when what it sends has been computed, and returns a `Ticket`. Nothing may read what a
transfer writes before `Ticket.wait()`; a transfer starts only after everything submitted to the computing
side before it, so it may overwrite what was read there earlier.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import torch
from torch import Tensor


class Ticket(Protocol):
    """One transfer under way."""

    def wait(self) -> None:
        """Let the computing side go on only when the transfer is done. Raises what the transfer raised."""
        ...

    def elapsed_ns(self) -> int:
        """How long it took, once it is done."""
        ...


class Lane(Protocol):
    """Runs transfers one after the other."""

    def submit(self, transfer: Callable[[], None]) -> Ticket: ...
    def lend(self, values: Tensor) -> None: ...
    def close(self) -> None: ...


class ThreadLane:
    """A thread of its own. The computing side is the calling thread, so what it read is read when it
    submits.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1)

    def submit(self, transfer: Callable[[], None]) -> Ticket:
        """Queue it."""
        return _ThreadTicket(self._pool.submit(_timed, transfer))

    def lend(self, values: Tensor) -> None:
        """The transfer holds a reference, which is all that a thread needs."""

    def close(self) -> None:
        """Wait for what is queued and end the thread."""
        self._pool.shutdown(wait=True)


def _timed(transfer: Callable[[], None]) -> int:
    start = time.perf_counter_ns()
    with torch.no_grad():
        transfer()
    return time.perf_counter_ns() - start


class _ThreadTicket:
    def __init__(self, future: Future[int]) -> None:
        self._future = future

    def wait(self) -> None:
        self._future.result()

    def elapsed_ns(self) -> int:
        return self._future.result()


class StreamLane:
    """A CUDA stream of its own. The host enqueues the transfer at once; events order the two streams."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device)

    def submit(self, transfer: Callable[[], None]) -> Ticket:
        """Enqueue it behind what the computing stream has been given so far."""
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(self._device))
        start, done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(self._stream), torch.no_grad():
            self._stream.wait_event(ready)
            start.record(self._stream)
            transfer()
            done.record(self._stream)
        return _StreamTicket(self._device, start, done)

    def lend(self, values: Tensor) -> None:
        """Their memory is not given out again before this stream is done with them."""
        values.record_stream(self._stream)

    def close(self) -> None:
        """Wait for what is queued."""
        self._stream.synchronize()


class _StreamTicket:
    def __init__(self, device: torch.device, start: Any, done: Any) -> None:
        self._device, self._start, self._done = device, start, done

    def wait(self) -> None:
        torch.cuda.current_stream(self._device).wait_event(self._done)

    def elapsed_ns(self) -> int:
        self._done.synchronize()
        return round(self._start.elapsed_time(self._done) * 1e6)


def make_lane(device: torch.device) -> Lane:
    """The lane for transfers of tensors on this device."""
    return StreamLane(device) if device.type == "cuda" else ThreadLane()
