"""The embedded switch: a generated library in this process, its packets in batches of numpy arrays."""

from __future__ import annotations

import ctypes as c
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from p4.codegen.compiled import compiled
from p4.codegen.schema import Schema
from p4.targets.batch import Batch, unpack
from p4.targets.engine_tables import EngineTables
from p4.targets.library import open_library
from p4.targets.names import checked, find
from p4.targets.target import QUEUE_DEPTH, DigestMessage, Packet, TargetError

if TYPE_CHECKING:
    from p4.config.v1 import p4info_pb2

Number = TypeVar("Number", np.uint8, np.uint32, np.uint64)
_NEVER = (1 << 64) - 1
# Passes through ingress and egress; packets stopped and dropped because they went round for ever, looped for
# ever or found their queue full; assert()s and assume()s that failed; parsers that never reached an end.
STATISTICS = (
    *("passes", "runaways", "endless_loops", "queue_drops", "failed_assertions"),
    *("parser_timeouts", "program_drops"),
)
_PROBLEMS = {
    "runaways": "packets recirculated, resubmitted or cloned without end, stopped and dropped",
    "endless_loops": "packets in a loop or parser without end, stopped and dropped",
    "queue_drops": "packets dropped by a full egress queue",
    "failed_assertions": "assert() or assume() failed",
    "parser_timeouts": "packets whose parser loops without end: it ended in error.ParserTimeout",
}


class QueueState(NamedTuple):
    """Packets in an egress queue now, the most there ever were, and those it dropped."""

    waiting: int
    most: int
    dropped: int


class Engine(EngineTables):
    """A program's library loaded, with its own state; several can run side by side."""

    def __init__(self, library: Path, *, seed: int = 1) -> None:
        self.library_path = library
        self.schema = Schema.from_json(library.with_name("schema.json").read_text())
        self._library = open_library(library)
        self._handle = self._library.nf_create(seed)
        if not self._handle:
            raise TargetError(
                "RESOURCE_EXHAUSTED", "not enough memory for the program's registers and counters"
            )
        self.now_ns = 0  # the time of the next packet; the caller moves it
        self.load_written_entries()

    @staticmethod
    def load(
        path: Path, *, include: Sequence[Path] = (), defines: Mapping[str, str] | None = None, seed: int = 1
    ) -> Engine:
        """From P4 source. Raises P4Error (the program) or BuildError (the compiler)."""
        return Engine(compiled(path, include=include, defines=defines), seed=seed)

    def __enter__(self) -> Engine:
        return self

    @property
    def address(self) -> int:
        """The handle of nf_* calls, for native code that runs the passes itself (sim/native/p4/program.h)."""
        if not self._handle:
            raise TargetError("FAILED_PRECONDITION", "the switch is closed")
        return int(self._handle)

    @property
    def now_us(self) -> int:
        """`now_ns` in microseconds, the unit of v1model's timestamps."""
        return self.now_ns // 1000

    @now_us.setter
    def now_us(self, value: int) -> None:
        self.now_ns = value * 1000

    @property
    def p4info(self) -> p4info_pb2.P4Info:
        """The program's P4Info, for P4Runtime controllers."""
        # protobuf takes a while to import, and few ask for this.
        from p4.targets.p4info import make_p4info  # noqa: PLC0415

        return make_p4info(self.schema)

    def close(self) -> None:
        if self._handle:
            self._library.nf_destroy(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

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
        pointers = [c.c_void_p() for _ in range(5)]
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

    def settle(self) -> None:
        pass  # send() returns when the packet is through

    def receive(self, expected: int = 0) -> list[Packet]:
        self._library.nf_advance(self._handle, self.now_ns)
        return unpack(self._take_output())

    def statistics(self) -> dict[str, int]:
        """What the switch counted; see STATISTICS."""
        values = self._library.nf_statistics(self._handle)
        return dict(zip(STATISTICS, values[: len(STATISTICS)], strict=True))

    def problems(self) -> list[str]:
        """One line for each kind of packet that was stopped, and for assertions that failed."""
        counted = self.statistics()
        return [f"{text}: {counted[key]}" for key, text in _PROBLEMS.items() if counted[key]]

    def report(self) -> None:
        """log_msg()'s lines and the problems, on stderr: what a command has to say besides its answer."""
        for line in self.log():
            print(f"log: {line}", file=sys.stderr)
        for problem in self.problems():
            print(f"netfold: warning: {problem}", file=sys.stderr)

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
        size = (1, 2, 4, 8)[max(0, (info.bits - 1).bit_length() - 3)]
        data, stride = self._raw_register(number)
        count = -(-len(data) // stride)
        return np.ndarray((count,), f"u{size}", data, strides=(stride,))

    def _raw_register(self, number: int) -> tuple[npt.NDArray[np.uint8], int]:
        """The memory from a register's first element on, and the bytes from one element to the next."""
        pointer, size, stride = c.c_void_p(), c.c_int(), c.c_uint64()
        count = self._library.nf_register(
            self._handle, number, c.byref(pointer), c.byref(size), c.byref(stride)
        )
        if not count:
            return np.empty(0, np.uint8), 1
        # Of the last element only its own bytes: what follows may not be the register's block any more.
        length = (count - 1) * stride.value + size.value
        buffer = (c.c_uint8 * length).from_address(pointer.value or 0)
        return np.frombuffer(buffer, np.uint8), stride.value

    def _element(self, name: str, index: int) -> tuple[npt.NDArray[np.uint8], int]:
        number = find("register", self.schema.registers, name)
        info = self.schema.registers[number]
        if not 0 <= index < info.size:
            raise TargetError(
                "INVALID_ARGUMENT", f"register '{info.name}': index {index}, allowed 0 to {info.size - 1}"
            )
        raw, stride = self._raw_register(number)
        size = len(raw) - (info.size - 1) * stride
        return raw[index * stride : index * stride + size], info.bits

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

    def log(self) -> list[str]:
        """The lines that log_msg() calls wrote since the last call; at most 10,000, the rest is counted."""
        out = []
        for index in range(self._library.nf_log_count(self._handle)):
            pointer = c.c_void_p()
            size = self._library.nf_log(self._handle, index, c.byref(pointer))
            out.append(c.string_at(pointer, size).decode("utf-8", "replace"))
        lost = self._library.nf_log_clear(self._handle)
        return [*out, f"... {lost} lines more"] if lost else out

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
