"""An lcore: a function in a process of its own, on a CPU of its own where there is one.

    worker = Lcore(loop, port, cpu=1, keep=[end])
    result = worker.join(timeout_s=10)

The process starts by fork, so ports, pools and rings made before are its too. It dies with its parent
(more exactly with the thread that started it), however that ends, and leaves Ctrl-C to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

from emulator.host.shm import ShmEnd, close_other_ends

_PR_SET_PDEATHSIG = 1  # prctl(2)
_fork = multiprocessing.get_context("fork")


class LcoreError(Exception):
    """An lcore did not end well: ``str(error)`` names it and says how it ended."""


def pin(cpu: int) -> bool:
    """Put this process on one CPU. False, and nothing is changed, if it is none of those we may use."""
    if cpu not in os.sched_getaffinity(0):
        return False
    os.sched_setaffinity(0, {cpu})
    return True


class Lcore:
    """``function(*args)`` runs at once. ``keep``: the link ends it uses; the others are closed in it.

    Without `keep` it keeps all, as the lcores of one host do.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *args: Any,
        name: str = "lcore",
        cpu: int | None = None,
        keep: Iterable[ShmEnd] | None = None,
    ) -> None:
        self.name = name
        self._result, theirs = _fork.Pipe(duplex=False)
        self._process = _fork.Process(
            target=_run,
            args=(function, args, theirs),
            kwargs={"cpu": cpu, "keep": None if keep is None else list(keep), "parent": os.getpid()},
            name=name,
            daemon=True,
        )
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None  # it was started
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    @property
    def sentinel(self) -> int:
        """A descriptor that is readable once the process has ended."""
        return self._process.sentinel

    def join(self, timeout_s: float | None = None) -> Any:
        """What the function returned. Raises LcoreError if it raised, was killed, or runs on after
        `timeout_s`.
        """
        outcome = None
        with contextlib.suppress(EOFError):  # it ended without a word
            if self._result.poll(timeout_s):
                outcome = self._result.recv()
            else:
                raise LcoreError(f"{self.name}: still running after {timeout_s} s")
        self._process.join()
        if outcome is None:
            code = self._process.exitcode or 0
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
            raise LcoreError(f"{self.name}: {how}")
        fine, value = outcome
        if not fine:
            raise LcoreError(f"{self.name}: {value}")
        return value

    def kill(self) -> None:
        """End it at once, if it has not ended yet, and collect it."""
        self._process.kill()
        self._process.join()


def _run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    result: Connection,
    *,
    cpu: int | None,
    keep: list[ShmEnd] | None,
    parent: int,
) -> None:
    """The process: what it has of its parent's that it should not have is put away first."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could ask to be told
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if cpu is not None:
        pin(cpu)
    if keep is not None:
        close_other_ends(keep)
    try:
        outcome = (True, function(*args))
    except BaseException as error:
        traceback.print_exc()
        outcome = (False, f"{type(error).__name__}: {error}")
    result.send(outcome)
