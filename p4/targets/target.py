"""The interface of every switch: load a program, fill its tables, send packets in, take packets out.

Names are the control plane's (``MyIngress.ipv4_lpm``); a last part is enough where it is the only one
(``ipv4_lpm``). Errors carry P4Runtime's code for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

# exact and optional: the value; ternary (value, mask); lpm (value, prefix length); range (low, high).
# A key left out or None matches anything, where its kind allows that.
MatchValue: TypeAlias = int | tuple[int, int] | None


QUEUE_DEPTH = 64  # packets in an egress queue: simple_switch's default


class TargetError(Exception):
    """A control call refused. ``code``: INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, ... as in P4Runtime."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(f"{code}: {message}")


class Packet(NamedTuple):
    """A packet and the port it came in or went out by."""

    port: int
    data: bytes


@dataclass(frozen=True)
class DigestMessage:
    """What a digest() call sent: its struct's name and fields."""

    name: str
    fields: dict[str, int]


class Target(ABC):
    """A loaded program. Use as a context manager, or close() it."""

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give back what the switch holds; it cannot be used afterwards."""

    # ---- packets

    @abstractmethod
    def send(self, port: int, data: bytes) -> None:
        """One packet into `port`."""

    @abstractmethod
    def receive(self, expected: int = 0) -> list[Packet]:
        """The packets that came out since the last call, in the switch's order on each port.

        A switch in another process is waited for: until `expected` packets have come (10 s at most)
        and its ports have been quiet for a moment.
        """

    @abstractmethod
    def settle(self) -> None:
        """Waits until the packets sent so far have gone through, where they would not keep their order."""

    # ---- tables

    @abstractmethod
    def insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> int:
        """A new entry; its number. The higher priority wins; ternary, range and optional keys need one."""

    @abstractmethod
    def modify(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> None:
        """Another action for an entry that is there."""

    @abstractmethod
    def delete(self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0) -> None:
        """An entry removed."""

    @abstractmethod
    def set_default(self, table: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> None:
        """The action for packets that no entry matches."""

    # ---- action profiles and selectors

    def add_member(self, profile: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> int:
        """A new member, an action with its data; its number."""
        raise TargetError("UNIMPLEMENTED", "this switch has no action profiles")

    def modify_member(
        self, profile: str, member: int, action: str, data: Mapping[str, int] | Sequence[int] = ()
    ) -> None:
        """Another action for a member, wherever it is used."""
        raise TargetError("UNIMPLEMENTED", "this switch has no action profiles")

    def delete_member(self, profile: str, member: int) -> None:
        """A member removed; FAILED_PRECONDITION while an entry or a group has it."""
        raise TargetError("UNIMPLEMENTED", "this switch has no action profiles")

    def set_group(self, profile: str, members: Sequence[int], *, group: int | None = None) -> int:
        """A group of an action selector's members, a new one or `group` changed; its number."""
        raise TargetError("UNIMPLEMENTED", "this switch has no action profiles")

    def delete_group(self, profile: str, group: int) -> None:
        """A group removed; FAILED_PRECONDITION while an entry has it."""
        raise TargetError("UNIMPLEMENTED", "this switch has no action profiles")

    def insert_indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int = 0,
    ) -> int:
        """A new entry of a table with an action profile: it runs a member, or one of a group; its number."""
        raise TargetError("UNIMPLEMENTED", "this switch has no action profiles")

    def modify_indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int = 0,
    ) -> None:
        """Another member or group for an entry that is there."""
        raise TargetError("UNIMPLEMENTED", "this switch has no action profiles")

    # ---- replication

    @abstractmethod
    def multicast_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Group `group` (> 0) sends a copy to each (port, rid). Replaces what it was."""

    @abstractmethod
    def clone_session(
        self, session: int, *, port: int | None = None, group: int = 0, truncate: int = 0
    ) -> None:
        """Where clones of a session go. ``truncate`` 0: whole packets."""

    # ---- egress queues

    def egress_queue(
        self, port: int, *, rate_pps: int = 0, depth: int = QUEUE_DEPTH, priority: int | None = None
    ) -> None:
        """Limits the queues of a port (or the one of a priority, 0 to 7; the higher leaves first).

        ``rate_pps`` packets a second leave, 0 as many as come; more than `depth` packets waiting are dropped.
        As simple_switch's set_queue_rate and set_queue_depth: each priority has its own rate. Ports that were
        not limited let every packet through at once.
        """
        raise TargetError("UNIMPLEMENTED", "this switch has no egress queues that can be set")

    # ---- state

    @abstractmethod
    def register_read(self, name: str, index: int) -> int:
        """One element, as its bit pattern."""

    @abstractmethod
    def register_write(self, name: str, index: int, value: int) -> None:
        """One element set."""

    @abstractmethod
    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """(packets, bytes)."""
