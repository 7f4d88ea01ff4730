"""One packet's path through a program: a tracing library run pass by pass, its record decoded.

A trace is data, ready for JSON:

    {"port", "bytes", "passes": [pass], "out": [packet], "stopped": true if it went round too often}
    pass: {"number", "pipeline": ingress or egress, "port", "why", "steps": [step], "next": [text]}
    packet: {"pass", "port", "bytes", "data", "headers": [{"header", "type", "fields", "bits"}], "payload"}
    step: {"step": "state" | "extract" | "parser error" | "checksum error" | "control" | "table" | "action"
           | "read" | "write" | "count" | "meter", ...}
"""

from __future__ import annotations

import ctypes as c
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from p4.codegen.build import build
from p4.codegen.layout import base_of
from p4.codegen.schema import FieldInfo
from p4.codegen.trace import generate_traced
from p4.lang import ir
from p4.lang import types as ty
from p4.targets.engine import Engine
from p4.targets.names import checked

MAX_PASSES = 1000
_COLOURS = ("green", "yellow", "red")
_WHY = {
    0: "unicast",
    1: "clone from ingress",
    2: "clone from egress",
    4: "recirculated",
    5: "multicast copy",
    6: "resubmitted",
}
_GOES = ("to egress of port {}", "resubmitted", "recirculated from port {}")


class _Descriptor(c.Structure):
    _fields_ = (
        ("item", c.c_uint64),
        ("next", c.c_uint32),
        ("port", c.c_uint32),
        ("priority", c.c_uint32),
        ("bytes", c.c_uint32),
    )


@dataclass
class _Path:
    """A packet's passes so far; what waits for its next: (pipeline, port, item)."""

    passes: list[dict[str, Any]] = field(default_factory=list)
    out: list[dict[str, Any]] = field(default_factory=list)
    waiting: deque[tuple[str, int, int]] = field(default_factory=deque)


def _descriptors(after: c.c_void_p, count: int) -> list[_Descriptor]:
    return list((_Descriptor * count).from_address(after.value or 0)) if count else []


class TracedEngine(Engine):
    """An engine that can also `trace` a packet. State and tables are as in any Engine."""

    def __init__(self, program: ir.Program, *, folder: Path | None = None) -> None:
        super().__init__(build(generate_traced(program), folder=folder))
        self._program = program
        self._library.nf_trace.restype = c.c_uint64
        self._library.nf_trace.argtypes = [c.c_void_p, c.POINTER(c.c_void_p)]
        self._library.nf_trace_clear.argtypes = [c.c_void_p]
        self._library.nf_trace_meter.restype = c.c_void_p
        self._library.nf_trace_meter.argtypes = [c.c_void_p, c.c_int]
        self._objects = self._addresses()

    def trace(self, port: int, data: bytes) -> dict[str, Any]:
        """The packet in, and every pass that comes of it. Raises TargetError for a port there is not."""
        checked("port", port, 9)
        self._record()
        path = _Path()
        after = c.c_void_p()
        count = self._library.nf_ingress(self._handle, port, data, len(data), self.now_ns, 0, c.byref(after))
        self._note(path, "ingress", port, _descriptors(after, count))
        while path.waiting and len(path.passes) < MAX_PASSES:
            pipeline, at, item = path.waiting.popleft()
            count = self._library.nf_pass(self._handle, item, self.now_ns, self.now_ns, 0, 0, c.byref(after))
            self._note(path, pipeline, at, _descriptors(after, count))
        for _, _, item in path.waiting:
            self._library.nf_discard(self._handle, item)
        return {
            "port": port,
            "bytes": len(data),
            "passes": path.passes,
            "out": path.out,
            "stopped": bool(path.waiting),
        }

    # ---- one pass

    def _note(self, path: _Path, pipeline: str, port: int, following: list[_Descriptor]) -> None:
        """Adds the pass that has just run, and what it leaves behind."""
        steps, emitted, kind = self._steps()
        number = len(path.passes) + 1
        packets = self.receive()
        goes = [_GOES[d.next].format(d.port) for d in following]
        for packet in packets:
            goes.append(f"out of port {packet.port}")
            size = sum(e.pop("bytes") for e in emitted)
            path.out.append(
                {
                    "pass": number,
                    "port": packet.port,
                    "bytes": len(packet.data),
                    "data": packet.data.hex(),
                    "headers": emitted,
                    "payload": packet.data[size:].hex(),
                }
            )
        why = "received" if number == 1 else _WHY.get(kind, "")
        path.passes.append(
            {
                "number": number,
                "pipeline": pipeline,
                "port": port,
                "why": why,
                "steps": steps,
                "next": goes or ["dropped"],
            }
        )
        for d in following:
            path.waiting.append(("ingress" if d.next else "egress", d.port, d.item))

    # ---- the record

    def _record(self) -> list[list[str]]:
        """What was recorded since the last call: lines of fields."""
        pointer = c.c_void_p()
        size = self._library.nf_trace(self._handle, c.byref(pointer))
        text = c.string_at(pointer.value or 0, size).decode() if size else ""
        self._library.nf_trace_clear(self._handle)
        return [line.split("\t") for line in text.split("\n") if line]

    def _steps(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
        """Steps, headers written to the packet, and the packet's instance_type (-1 if no control saw it)."""
        steps: list[dict[str, Any]] = []
        emitted: list[dict[str, Any]] = []
        kind = -1
        by_table = ""  # the action that a table has just called
        for what, *fields in self._record():
            called, by_table = by_table, ""
            match what:
                case "state":
                    steps.append({"step": "state", "parser": fields[0], "state": fields[1]})
                case "extract":
                    steps.append({"step": "extract", **self._header(fields)})
                case "emit":
                    emitted.append({**self._header(fields), "bytes": len(fields[2]) // 2})
                case "control":
                    if len(fields) > 1 and kind < 0:
                        kind = int(fields[1])
                        self._errors(steps, int(fields[4]), int(fields[3]))
                    steps.append({"step": "control", "control": fields[0]})
                case "table":
                    steps.append(self._table_step(fields))
                    by_table = steps[-1]["action"]
                case "action":
                    if fields[0] != called:
                        steps.append({"step": "action", "action": fields[0]})
                case _:
                    steps.append(self._access(what, fields))
        return steps, emitted, kind

    def _errors(self, steps: list[dict[str, Any]], parser_error: int, checksum_error: int) -> None:
        """What went wrong before ingress, put behind the parser's steps."""
        at = len(steps)
        while at and steps[at - 1]["step"] == "control":
            at -= 1
        if parser_error and steps and at and steps[at - 1]["step"] in ("state", "extract"):
            steps.insert(at, {"step": "parser error", "error": self._program.errors[parser_error]})
            at += 1
        if checksum_error:
            steps.insert(at, {"step": "checksum error"})

    def _header(self, fields: list[str]) -> dict[str, Any]:
        name, type_name, raw = fields
        record = self._program.record_types.get(type_name)
        decoded = decode_header(record, bytes.fromhex(raw)) if record else {"raw": raw}
        widths = {n: ty.bit_width(t) or 0 for n, t in record.fields} if record else {}
        return {"header": name, "type": type_name, "fields": decoded, "bits": widths}

    def _table_step(self, fields: list[str]) -> dict[str, Any]:
        name, entry, action = fields[0], int(fields[1]), int(fields[2])
        key, data = bytes.fromhex(fields[3]), bytes.fromhex(fields[4])
        info = next(t for t in self.schema.tables if t.name == name)
        step: dict[str, Any] = {
            "step": "table",
            "table": name,
            "key": _fields(info.keys, key),
            "hit": entry >= 0,
        }
        called = info.actions[action] if action >= 0 else None
        step["action"] = called.name if called else ""
        step["data"] = _fields(called.params, data) if called else {}
        return step

    def _addresses(self) -> dict[int, tuple[str, str, int, bool]]:
        """Address -> (kind, name, bits, signed) of every register, counter and meter."""
        found: dict[int, tuple[str, str, int, bool]] = {}
        pointer, other, size, stride = c.c_void_p(), c.c_void_p(), c.c_int(), c.c_uint64()
        signed = _signed_registers(self._program)
        for number, info in enumerate(self.schema.registers):
            places = (c.byref(pointer), c.byref(size), c.byref(stride))
            self._library.nf_register(self._handle, number, *places)
            is_signed = info.name.rsplit(".")[-1] in signed
            found[pointer.value or 0] = ("register", info.name, info.bits, is_signed)
        for number, info in enumerate(self.schema.counters):
            self._library.nf_counter(self._handle, number, c.byref(pointer), c.byref(other))
            found[pointer.value or 0] = ("counter", info.name, 64, False)
        for number, info in enumerate(self.schema.meters):
            found[self._library.nf_trace_meter(self._handle, number) or 0] = ("meter", info.name, 32, False)
        return found

    def _access(self, what: str, fields: list[str]) -> dict[str, Any]:
        address, index, size = int(fields[0]), int(fields[1]), int(fields[2])
        kind, name, bits, signed = self._objects[address]
        step: dict[str, Any] = {"step": what, kind: name, "index": index}
        if index >= size:
            return {**step, "out_of_bounds": size}
        values = [_number(bytes.fromhex(f)[::-1], bits, signed=signed) for f in (fields[3], fields[4])]
        match what:
            case "count":
                return {**step, "before": values[0], "after": values[0] + 1}
            case "meter":
                return {**step, "colour": _COLOURS[values[0]]}
            case "read":
                return {**step, "value": values[0]}
        return {**step, "before": values[0], "after": values[1]}


def _number(raw: bytes, bits: int, *, signed: bool) -> int:
    value = int.from_bytes(raw, "big") & ((1 << bits) - 1)
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _fields(infos: tuple[FieldInfo, ...], raw: bytes) -> dict[str, int]:
    """Key fields or action data, each in whole bytes."""
    out, at = {}, 0
    for info in infos:
        size = (info.bits + 7) // 8
        out[info.name] = int.from_bytes(raw[at : at + size], "big")
        at += size
    return out


def _signed_registers(program: ir.Program) -> set[str]:
    """The names of registers of int<>: their elements may be negative."""
    out = set()
    for control in program.controls.values():
        for local in control.locals:
            if isinstance(local, ir.Instance) and isinstance(local.type, ty.Extern) and local.type.args:
                element = base_of(local.type.args[0])
                if local.type.name == "register" and isinstance(element, ty.Bits) and element.signed:
                    out.add(local.name)
    return out


def decode_header(record: ty.Record, raw: bytes) -> dict[str, int | str]:
    """A header's fields from its bytes: numbers, the name of an enum's member, hex for a varbit."""
    total = len(raw) * 8
    fixed = sum(ty.bit_width(t) or 0 for _, t in record.fields if not isinstance(base_of(t), ty.Varbit))
    value, at = int.from_bytes(raw, "big"), total
    out: dict[str, int | str] = {}
    for name, type_ in record.fields:
        base = base_of(type_)
        bits = total - fixed if isinstance(base, ty.Varbit) else ty.bit_width(type_) or 0
        at -= bits
        part = (value >> at) & ((1 << bits) - 1)
        if isinstance(base, ty.Varbit):
            out[name] = f"{part:0{bits // 4}x}" if bits else ""
            continue
        named = _member(type_, part)
        signed = isinstance(base, ty.Bits) and base.signed
        out[name] = named or (part - (1 << bits) if signed and part >> (bits - 1) else part)
    return out


def _member(type_: ty.Type, value: int) -> str:
    if isinstance(type_, ty.EnumType) and type_.underlying is not None:
        return next((m for m in type_.members if type_.value(m) == value), "")
    return ""
