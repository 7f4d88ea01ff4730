"""The embedded switch: a generated library in this process, its packets in batches of numpy arrays."""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from p4.codegen import generate
from p4.codegen.build import build
from p4.codegen.schema import ActionInfo, Schema, TableInfo
from p4.lang import load_program
from p4.targets.library import open_library
from p4.targets.names import checked, encode_data, encode_key, find
from p4.targets.target import (
    QUEUE_DEPTH,
    DigestMessage,
    MatchValue,
    Packet,
    Target,
    TargetError,
)

Number = TypeVar("Number", np.uint8, np.uint32, np.uint64)
_STATUS = {-3: "INVALID_ARGUMENT", -5: "NOT_FOUND", -6: "ALREADY_EXISTS", -8: "RESOURCE_EXHAUSTED"}


_NEVER = (1 << 64) - 1
# Passes through ingress and egress; packets stopped and dropped: they went round for ever, looped for ever, found
# their queue full; assert()s and assume()s that failed.
STATISTICS = ("passes", "runaways", "endless_loops", "queue_drops", "failed_assertions")
_PROBLEMS = {
    "runaways": "packets recirculated, resubmitted or cloned without end, stopped and dropped",
    "endless_loops": "packets in a loop or parser without end, stopped and dropped",
    "queue_drops": "packets dropped by a full egress queue",
    "failed_assertions": "assert() or assume() failed",
}


class QueueState(NamedTuple):
    """Packets in an egress queue now, the most there ever were, and those it dropped."""

    waiting: int
    most: int
    dropped: int


class Batch(NamedTuple):
    """Packets as arrays: packet i is data[ends[i-1]:ends[i]] on ports[i], made by input packet sources[i]."""

    data: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.uint64]
    ports: npt.NDArray[np.uint32]
    sources: npt.NDArray[np.uint32]


def pack(packets: Sequence[Packet]) -> Batch:
    """Packets as one batch."""
    ends = np.cumsum([len(p.data) for p in packets], dtype=np.uint64)
    ports = np.array([p.port for p in packets], dtype=np.uint32)
    data = np.frombuffer(b"".join(p.data for p in packets), dtype=np.uint8)
    return Batch(data, ends, ports, np.arange(len(packets), dtype=np.uint32))


def unpack(batch: Batch) -> list[Packet]:
    """A batch as packets."""
    raw = batch.data.tobytes()
    starts = [0, *batch.ends.tolist()]
    return [Packet(p, raw[starts[i] : starts[i + 1]]) for i, p in enumerate(batch.ports.tolist())]


class Engine(Target):
    """A program's library loaded, with its own state; several can run side by side."""

    def __init__(self, library: Path, *, seed: int = 1) -> None:
        self.schema = Schema.from_json(library.with_name("schema.json").read_text())
        self._library = open_library(library)
        self._handle = self._library.nf_create(seed)
        if not self._handle:
            raise TargetError(
                "RESOURCE_EXHAUSTED", "not enough memory for the program's registers and counters"
            )
        self.now_ns = 0  # the time of the next packet; the caller moves it
        self._load_written_entries()

    @staticmethod
    def load(
        path: Path, *, include: Sequence[Path] = (), defines: Mapping[str, str] | None = None, seed: int = 1
    ) -> Engine:
        """From P4 source. Raises P4Error (the program) or BuildError (the compiler)."""
        return Engine(build(generate(load_program(path, include=include, defines=defines))), seed=seed)

    def __enter__(self) -> Engine:
        return self

    @property
    def now_us(self) -> int:
        """`now_ns` in microseconds, the unit of v1model's timestamps."""
        return self.now_ns // 1000

    @now_us.setter
    def now_us(self, value: int) -> None:
        self.now_ns = value * 1000

    def close(self) -> None:
        if self._handle:
            self._library.nf_destroy(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def _load_written_entries(self) -> None:
        for number, table in enumerate(self.schema.tables):
            if table.default_action >= 0:
                data = encode_data(table.actions[table.default_action], table.default_data)
                self._library.nf_table_default(self._handle, number, table.default_action, data, len(data))
            for entry in table.entries:
                key = b"".join(
                    v.to_bytes((f.bits + 7) // 8, "big")
                    for f, (v, _, _) in zip(table.keys, entry.keys, strict=True)
                )
                mask = b"".join(
                    m.to_bytes((f.bits + 7) // 8, "big")
                    for f, (_, m, _) in zip(table.keys, entry.keys, strict=True)
                )
                prefixes = [
                    p for f, (_, _, p) in zip(table.keys, entry.keys, strict=True) if f.match_kind == "lpm"
                ]
                data = encode_data(table.actions[entry.action], entry.data)
                self._library.nf_table_insert(
                    self._handle,
                    number,
                    key,
                    mask,
                    prefixes[0] if prefixes else 0,
                    entry.priority,
                    entry.action,
                    data,
                    len(data),
                )

    # ---- packets

    def run(self, batch: Batch, *, step_ns: int = 0) -> Batch:
        """All packets of `batch` in, all that come out as copied arrays. Packet i at now_ns + i * step_ns."""
        data = np.ascontiguousarray(batch.data, dtype=np.uint8)
        ends = np.ascontiguousarray(batch.ends, dtype=np.uint64)
        ports = np.ascontiguousarray(batch.ports, dtype=np.uint32)
        if len(ends) != len(ports) or (
            len(ends) and (int(ends[-1]) > data.size or bool(np.any(ends[1:] < ends[:-1])))
        ):
            raise ValueError("batch: ends must rise within the data, one for each port")
        self._library.nf_receive(
            self._handle,
            len(ends),
            data.ctypes.data,
            ends.ctypes.data,
            ports.ctypes.data,
            self.now_ns,
            step_ns,
        )
        self.now_ns += step_ns * len(ends)
        return self._take_output()

    def _take_output(self) -> Batch:
        pointers = [c.c_void_p() for _ in range(4)]
        count = self._library.nf_output(self._handle, *(c.byref(p) for p in pointers))
        ends = _copy(pointers[1], count, np.uint64)
        size = int(ends[-1]) if count else 0
        batch = Batch(
            _copy(pointers[0], size, np.uint8),
            ends,
            _copy(pointers[2], count, np.uint32),
            _copy(pointers[3], count, np.uint32),
        )
        self._library.nf_clear_output(self._handle)
        return batch

    def send(self, port: int, data: bytes) -> None:
        ends, ports = np.array([len(data)], np.uint64), np.array([checked("port", port, 9)], np.uint32)
        raw = np.frombuffer(data, np.uint8)
        self._library.nf_receive(
            self._handle, 1, raw.ctypes.data, ends.ctypes.data, ports.ctypes.data, self.now_ns, 0
        )

    def receive(self) -> list[Packet]:
        self._library.nf_advance(self._handle, self.now_ns)
        return unpack(self._take_output())

    def statistics(self) -> dict[str, int]:
        """What the switch counted; see STATISTICS."""
        values = (c.c_uint64 * len(STATISTICS))()
        self._library.nf_statistics(self._handle, values)
        return dict(zip(STATISTICS, values, strict=True))

    def problems(self) -> list[str]:
        """One line for each kind of packet that was stopped, and for assertions that failed."""
        counted = self.statistics()
        return [f"{text}: {counted[key]}" for key, text in _PROBLEMS.items() if counted[key]]

    # ---- egress queues

    def egress_queue(
        self, port: int, *, rate_pps: int = 0, depth: int = QUEUE_DEPTH, priority: int | None = None
    ) -> None:
        checked("port", port, 9)
        level = -1 if priority is None else checked("priority", priority, 3)
        checked("rate_pps", rate_pps, 63)
        self._library.nf_queue(self._handle, port, level, rate_pps, checked("depth", depth, 63))

    def queue_state(self, port: int, priority: int = 0) -> QueueState:
        """What one of a port's queues holds and dropped; nothing where no egress_queue() was set."""
        values = (c.c_uint64 * 3)()
        level = checked("priority", priority, 3)
        self._library.nf_queue_state(self._handle, checked("port", port, 9), level, values)
        return QueueState(*values)

    def next_due_ns(self) -> int | None:
        """When the next packet leaves its queue; None if none waits."""
        due = int(self._library.nf_next_due(self._handle))
        return None if due == _NEVER else due

    # ---- tables

    def insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> int:
        number, info = self._table(table)
        if info.entries_are_const:
            raise TargetError("PERMISSION_DENIED", f"table '{info.name}': its entries are const")
        if not info.keys:
            raise TargetError("INVALID_ARGUMENT", f"table '{info.name}' has no key: set its default action")
        self._check_priority(info, priority)
        key, mask, prefix = encode_key(info, match)
        at, encoded = self._action(info, action, data, default=False)
        status = self._library.nf_table_insert(
            self._handle, number, key, mask, prefix, priority, at, encoded, len(encoded)
        )
        if status < 0:
            why = {-6: "an entry with this match is there already", -8: f"it is full ({info.size} entries)"}[
                status
            ]
            raise TargetError(_STATUS[status], f"table '{info.name}': {why}")
        return int(status)

    def modify(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> None:
        number, info = self._table(table)
        entry = self._entry(number, info, match, priority)
        at, encoded = self._action(info, action, data, default=False)
        self._library.nf_table_modify(self._handle, number, entry, at, encoded, len(encoded))

    def delete(self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0) -> None:
        number, info = self._table(table)
        self._library.nf_table_erase(self._handle, number, self._entry(number, info, match, priority))

    def set_default(self, table: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> None:
        number, info = self._table(table)
        if info.default_is_const:
            raise TargetError("PERMISSION_DENIED", f"table '{info.name}': its default action is const")
        at, encoded = self._action(info, action, data, default=True)
        self._library.nf_table_default(self._handle, number, at, encoded, len(encoded))

    def entry_counters(
        self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0
    ) -> tuple[int, int]:
        """(packets, bytes) of a table with a direct counter."""
        number, info = self._table(table)
        if not info.counts:
            raise TargetError("INVALID_ARGUMENT", f"table '{info.name}' has no direct counter")
        values = (c.c_uint64 * 2)()
        self._library.nf_entry_counters(
            self._handle, number, self._entry(number, info, match, priority), values
        )
        return values[0], values[1]

    def _table(self, name: str) -> tuple[int, TableInfo]:
        number = find("table", self.schema.tables, name)
        return number, self.schema.tables[number]

    def _entry(self, number: int, info: TableInfo, match: Mapping[str, MatchValue], priority: int) -> int:
        key, mask, prefix = encode_key(info, match)
        entry = self._library.nf_table_find(self._handle, number, key, mask, prefix, priority)
        if entry < 0:
            raise TargetError("NOT_FOUND", f"table '{info.name}': no entry with this match")
        return int(entry)

    @staticmethod
    def _check_priority(info: TableInfo, priority: int) -> None:
        ordered = any(k.match_kind in ("ternary", "range", "optional") for k in info.keys)
        if ordered and not 0 < priority < 1 << 31:
            raise TargetError(
                "INVALID_ARGUMENT", f"table '{info.name}': priority {priority}, it needs one above 0"
            )
        if not ordered and priority:
            raise TargetError("INVALID_ARGUMENT", f"table '{info.name}' takes no priority, given {priority}")

    def _action(
        self, info: TableInfo, name: str, data: Mapping[str, int] | Sequence[int], *, default: bool
    ) -> tuple[int, bytes]:
        at = find(f"action of table '{info.name}'", info.actions, name)
        action: ActionInfo = info.actions[at]
        if action.table_only if default else action.default_only:
            raise TargetError(
                "PERMISSION_DENIED", f"action '{action.name}' cannot be used here: it is annotated so"
            )
        return at, encode_data(action, data)

    def value_set_insert(self, name: str, values: Sequence[int], masks: Sequence[int] | None = None) -> None:
        """One more accepted value (or several fields' values, for a set of structs)."""
        number = find("value set", self.schema.value_sets, name)
        fields = self.schema.value_sets[number].fields
        if len(values) != len(fields) or (masks is not None and len(masks) != len(fields)):
            raise TargetError("INVALID_ARGUMENT", f"value set '{name}' takes {len(fields)} values")
        ones = [(1 << f.bits) - 1 for f in fields]
        sides = [
            b"".join(
                checked(f"value set '{name}'", v, f.bits).to_bytes((f.bits + 7) // 8, "big")
                for f, v in zip(fields, side, strict=True)
            )
            for side in (values, masks or ones)
        ]
        if self._library.nf_value_set_insert(self._handle, number, *sides) < 0:
            raise TargetError("RESOURCE_EXHAUSTED", f"value set '{name}' is full")

    # ---- replication

    def multicast_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        checked("multicast group", group, 16)
        if group == 0:
            raise TargetError("INVALID_ARGUMENT", "multicast group 0 means none: groups begin at 1")
        ports = np.array([checked("port", p, 9) for p, _ in replicas], np.uint32)
        rids = np.array([checked("rid", r, 16) for _, r in replicas], np.uint32)
        self._library.nf_multicast_group(self._handle, group, len(ports), ports.ctypes.data, rids.ctypes.data)

    def clone_session(
        self, session: int, *, port: int | None = None, group: int = 0, truncate: int = 0
    ) -> None:
        checked("clone session", session, 32)
        where = -1 if port is None else checked("port", port, 9)
        self._library.nf_clone_session(
            self._handle, session, where, checked("group", group, 16), truncate or 0xFFFFFFFF
        )

    # ---- state

    def register_array(self, name: str) -> npt.NDArray[np.unsignedinteger]:
        """The live elements of a register of at most 64 bits: writing to the array writes the register."""
        number = find("register", self.schema.registers, name)
        info = self.schema.registers[number]
        if info.bits > 64:
            raise TargetError(
                "INVALID_ARGUMENT", f"register '{info.name}' has {info.bits} bits, more than 64"
            )
        return self._raw_register(number).view(f"u{(1, 2, 4, 8)[max(0, (info.bits - 1).bit_length() - 3)]}")

    def _raw_register(self, number: int) -> npt.NDArray[np.uint8]:
        pointer, size = c.c_void_p(), c.c_int()
        count = self._library.nf_register(self._handle, number, c.byref(pointer), c.byref(size))
        if not count:
            return np.empty(0, np.uint8)
        buffer = (c.c_uint8 * (count * size.value)).from_address(pointer.value or 0)
        return np.frombuffer(buffer, np.uint8)

    def _element(self, name: str, index: int) -> tuple[npt.NDArray[np.uint8], int]:
        number = find("register", self.schema.registers, name)
        info = self.schema.registers[number]
        if not 0 <= index < info.size:
            raise TargetError(
                "INVALID_ARGUMENT", f"register '{info.name}': index {index}, allowed 0 to {info.size - 1}"
            )
        raw = self._raw_register(number)
        size = raw.size // info.size
        return raw[index * size : (index + 1) * size], info.bits

    def register_read(self, name: str, index: int) -> int:
        return int.from_bytes(self._element(name, index)[0].tobytes(), "little")

    def register_write(self, name: str, index: int, value: int) -> None:
        element, bits = self._element(name, index)
        given = checked(f"register '{name}'", value, bits)
        element[:] = np.frombuffer(given.to_bytes(element.size, "little"), np.uint8)

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        number = find("counter", self.schema.counters, name)
        info = self.schema.counters[number]
        if not 0 <= index < info.size:
            raise TargetError(
                "INVALID_ARGUMENT", f"counter '{info.name}': index {index}, allowed 0 to {info.size - 1}"
            )
        packets, octets = c.c_void_p(), c.c_void_p()
        self._library.nf_counter(self._handle, number, c.byref(packets), c.byref(octets))
        values = [c.cast(p, c.POINTER(c.c_uint64))[index] for p in (packets, octets)]
        return values[0], values[1]

    def meter_configure(
        self,
        name: str,
        index: int,
        *,
        committed_rate: float,
        committed_burst: float,
        peak_rate: float,
        peak_burst: float,
    ) -> None:
        """Rates in units (packets or bytes, as declared) per second, bursts in units.

        For a direct meter, `index` is the entry's number.
        """
        number = find("meter", self.schema.meters, name)
        status = self._library.nf_meter_configure(
            self._handle, number, index, committed_rate, committed_burst, peak_rate, peak_burst, self.now_ns
        )
        if status < 0:
            raise TargetError("INVALID_ARGUMENT", f"meter '{name}': index {index} is out of bounds")

    def digests(self) -> list[DigestMessage]:
        """The digests sent since the last call."""
        out = []
        for index in range(self._library.nf_digest_count(self._handle)):
            kind, pointer = c.c_int(), c.c_void_p()
            size = self._library.nf_digest(self._handle, index, c.byref(kind), c.byref(pointer))
            info = self.schema.digests[kind.value]
            value = int.from_bytes(c.string_at(pointer, size), "big") >> (
                -sum(f.bits for f in info.fields) % 8
            )
            fields: dict[str, int] = {}
            for field in reversed(info.fields):
                fields[field.name] = value & ((1 << field.bits) - 1)
                value >>= field.bits
            out.append(DigestMessage(info.name, dict(reversed(fields.items()))))
        self._library.nf_digest_clear(self._handle)
        return out


def _copy(pointer: c.c_void_p, count: int, dtype: type[Number]) -> npt.NDArray[Number]:
    if not count:
        return np.empty(0, dtype)
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(c.string_at(pointer, size), dtype).copy()
