"""A packet's path (p4/targets/trace.py) as text for people."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

_WIDTH = 110
_PLAIN = 100_000  # numbers below are decimal, those above hexadecimal


def render(trace: Mapping[str, Any]) -> str:
    """Pass by pass, then the packets that came out."""
    lines = [f"packet on port {trace['port']}, {trace['bytes']} bytes"]
    for one in trace["passes"]:
        lines += ["", f"pass {one['number']}: {one['pipeline']}, {_where(one)}"]
        lines += _steps(one["steps"])
        lines.append(f"  -> {'; '.join(one['next'])}")
    if trace["stopped"]:
        lines += ["", f"stopped after {len(trace['passes'])} passes"]
    lines.append("")
    for packet in trace["out"]:
        lines.append(f"out of port {packet['port']} in pass {packet['pass']}: {packet['bytes']} bytes")
        for header in packet["headers"]:
            lines += _wrapped(f"  {header['header']}  ", _fields(header["fields"], header["bits"]))
        if packet["payload"]:
            lines += _wrapped("  payload  ", packet["payload"])
    if not trace["out"]:
        lines.append("nothing comes out")
    return "\n".join(lines)


def _where(one: Mapping[str, Any]) -> str:
    port = f"port {one['port']}"
    return f"{port}, {one['why']}" if one["why"] else port


def _steps(steps: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    parser, clone = "", ""
    for at, step in enumerate(steps):
        match step["step"]:
            case "state":
                if step["parser"] != parser:
                    parser = step["parser"]
                    lines.append(f"  parser {parser}{clone}")
                lines.append(f"    state {step['state']}")
            case "extract":
                lines += _wrapped(f"      extracts {step['header']}  ", _fields(step["fields"], step["bits"]))
            case "parser error":
                lines.append(f"    error: {step['error']}")
            case "checksum error":
                lines.append("    the checksum is wrong")
            case "control":
                parser, clone = "", ", for the clone"  # what is parsed after a control
                if at + 1 < len(steps) and steps[at + 1]["step"] != "control":  # else nothing happens in it
                    lines.append(f"  control {step['control']}")
            case "table":
                found = "hit" if step["hit"] else "miss"
                key = f"[{_fields(step['key'])}]  " if step["key"] else ""
                called = f"{step['action']}({_fields(step['data'])})" if step["action"] else "no action"
                lines += _wrapped(f"    table {step['table']}  ", f"{key}{found}: {called}")
            case "action":
                lines.append(f"    action {step['action']}")
            case _:
                lines.append(f"    {_access(step)}")
    return lines


def _access(step: Mapping[str, Any]) -> str:
    kind = next(k for k in ("register", "counter", "meter") if k in step)
    cell = f"{kind} {step[kind]}[{step['index']}]"
    if "out_of_bounds" in step:
        return f"{cell}  {step['step']} out of bounds: it has {step['out_of_bounds']}"
    match step["step"]:
        case "meter":
            return f"{cell}  {step['colour']}"
        case "read":
            return f"{cell}  read {number(step['value'])}"
    return f"{cell}  {number(step['before'])} -> {number(step['after'])}"


def number(value: int | str, bits: int = 0) -> str:
    """Small and negative numbers decimal, large ones hexadecimal; 48 bits as a MAC address."""
    if isinstance(value, str):
        return value
    if bits == 48:
        return value.to_bytes(6, "big").hex(":")
    return str(value) if value < _PLAIN else f"{value:#x}"


def _fields(fields: Mapping[str, int | str], bits: Mapping[str, int] | None = None) -> str:
    widths = bits or {}
    return " ".join(f"{name}={number(value, widths.get(name, 0))}" for name, value in fields.items())


def _wrapped(head: str, text: str) -> list[str]:
    indent = " " * min(len(head), 24)
    return textwrap.wrap(head + text, _WIDTH, subsequent_indent=indent, drop_whitespace=True) or [head]
