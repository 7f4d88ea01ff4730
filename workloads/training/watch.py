"""Who is still there: every worker of a torchrun job holds a connection to worker 0, from start to end.

gloo and NCCL notice a lost worker only where both take part in a collective, and before the first one not at
all. A connection tells it at any moment: the operating system closes a process's when it ends, whatever it
was doing, and TCP's keepalive misses a machine that has vanished. Worker 0 passes on who is lost, and why.
"""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

import torch.distributed as dist

from workloads.errors import InputError

_KEY = "netfold-watch"
_KEEPALIVE_S, _KEEPALIVE_MISSED = 5, 3  # a vanished machine is lost after 5 + 3 x 5 s
_BYE, _LOST = "bye", "lost "
_CAUSE_S = 2.0
_FAREWELL_S = 5.0


def end_process(line: str) -> NoReturn:
    """Say it and end at once, without asking gloo's threads, which may wait for a peer that is gone."""
    print(f"netfold: error: {line}", file=sys.stderr, flush=True)
    os._exit(2)


class Watch:
    """One worker's view of the others, in a thread. When one is lost, `ended` is called with the line that
    names it, once.

    host: where worker 0 listens; store: of the process group, by which it tells its port. patience_s: how
    long workers may take to join. Raises InputError when worker 0 cannot be reached in that time.
    """

    def __init__(
        self,
        rank: int,
        workers: int,
        *,
        host: str,
        store: dist.Store,
        patience_s: float,
        ended: Callable[[str], object] = end_process,
    ) -> None:
        self.rank, self.workers = rank, workers
        self._ended, self._patience_s = ended, patience_s
        self._left = threading.Event()
        self._told = threading.Event()
        self._peers: dict[int, socket.socket] = {}
        self._last = ""  # what was said last, which whoever joins later hears too
        self._saying = threading.Lock()
        if rank == 0:
            self._secret = secrets.token_hex(8)
            self._listener = _listen()
            store.set(_KEY, f"{self._listener.getsockname()[1]} {self._secret}")
            watching = self._watch_all
        else:
            self._peers[0] = _join(rank, host, store, patience_s)
            watching = self._watch_first
        self._thread = threading.Thread(target=watching, name="watch", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """This worker is done, as it should be."""
        self._left.set()
        self._say(_BYE)
        if self.rank == 0:  # who waits to be taken in must hear it before this process ends
            self._thread.join(_FAREWELL_S)

    def failed(self, reason: str) -> None:
        """This worker is about to end for a reason of its own: the others shall give it."""
        if not self._told.is_set():
            self._told.set()
            self._tell(f"worker {self.rank} of {self.workers} failed: {reason}")

    def wait_for_cause(self) -> None:
        """This worker has missed another in a collective: give the watch time to hear which one failed, and
        why. When it does, `ended` is called.
        """
        self._told.wait(_CAUSE_S)

    def _tell(self, line: str) -> None:
        self._say(_LOST + line)

    def _say(self, line: str) -> None:
        with self._saying:
            self._last = line
            for peer in self._peers.values():
                _send(peer, line)

    def _take_in(self) -> int | None:
        """Worker 0: the rank of who waits longest at the port; None for a stranger."""
        joined = _accept(self._listener, self._secret)
        if joined is None:
            return None
        rank, peer = joined
        with self._saying:
            self._peers[rank] = peer
            if self._last:
                _send(peer, self._last)
        return rank

    def _lose(self, line: str) -> None:
        if self._told.is_set() or self._left.is_set():
            return
        self._told.set()
        self._tell(line)
        self._ended(line)

    def _watch_first(self) -> None:
        """A worker other than 0: what worker 0 says, or that it says nothing more."""
        for line in _lines(self._peers[0]):
            if line == _BYE:
                return
            self._lose(line.removeprefix(_LOST))
        self._lose(self._gone(0))

    def _gone(self, rank: int) -> str:
        return f"worker {rank} of {self.workers} is gone: its process ended, or its machine"

    def _watch_all(self) -> None:
        """Worker 0: takes the others in, and hears which of them ends."""
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        deadline = time.monotonic() + self._patience_s
        there: dict[int, str] = {}  # what came of each, up to a line's end
        done: set[int] = set()
        while len(done) < self.workers - 1 and not self._left.is_set():
            for key, _ in selector.select(0.2):
                if key.data is None:
                    taken = self._take_in()
                    if taken is not None:
                        there[taken] = ""
                        selector.register(self._peers[taken], selectors.EVENT_READ, taken)
                    continue
                rank = key.data
                try:
                    got = self._peers[rank].recv(4096).decode(errors="replace")
                except OSError:
                    got = ""
                *lines, there[rank] = (there[rank] + got).split("\n")
                for line in lines:
                    if line == _BYE:
                        done.add(rank)
                    else:
                        self._lose(line.removeprefix(_LOST))
                if not got:
                    selector.unregister(self._peers[rank])
                    if rank not in done:
                        self._lose(self._gone(rank))
            if len(there) < self.workers - 1 and time.monotonic() > deadline:
                missing = min(set(range(1, self.workers)) - set(there))
                self._lose(
                    f"worker {missing} of {self.workers} did not start within {self._patience_s:g} s; a slow "
                    "start needs a longer --timeout"
                )
        self._listener.settimeout(0)
        with suppress(BlockingIOError):
            while True:
                self._take_in()
        self._listener.close()


def _listen() -> socket.socket:
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", 0), family=socket.AF_INET6, backlog=256, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=256)


def _join(rank: int, host: str, store: dist.Store, patience_s: float) -> socket.socket:
    try:
        store.wait([_KEY], timedelta(seconds=patience_s))
        port, secret = store.get(_KEY).decode().split()
        peer = socket.create_connection((host, int(port)), timeout=patience_s)
    except (RuntimeError, OSError) as error:
        told = str(error).partition("\n")[0][:80]
        raise InputError(
            f"worker 0 did not start within {patience_s:g} s ({told}); a slow start needs a longer --timeout"
        ) from None
    peer.settimeout(None)
    _keep_alive(peer)
    _send(peer, f"{secret} {rank}")
    return peer


def _accept(listener: socket.socket, secret: str) -> tuple[int, socket.socket] | None:
    """(rank, its connection); None for a stranger."""
    peer, _ = listener.accept()
    peer.settimeout(5)
    with suppress(OSError, ValueError):
        told = b""
        while not told.endswith(b"\n") and len(told) < 100:
            more = peer.recv(1)
            if not more:
                break
            told += more
        said, rank = told.decode().split()
        if secrets.compare_digest(said, secret):
            peer.settimeout(None)
            _keep_alive(peer)
            return int(rank), peer
    peer.close()
    return None


def _keep_alive(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_MISSED)


def _send(peer: socket.socket, line: str) -> None:
    with suppress(OSError):
        peer.sendall(" ".join(line.split()).encode() + b"\n")


def _lines(peer: socket.socket) -> Iterator[str]:
    """What the peer says until its connection ends."""
    rest = ""
    while True:
        try:
            got = peer.recv(4096).decode(errors="replace")
        except OSError:
            return
        if not got:
            return
        *lines, rest = (rest + got).split("\n")
        yield from lines
