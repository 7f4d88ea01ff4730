"""Numbers with units as people write them ("100MB", "25 Gbps", "1.5us"): parse them, and print them back.

Sizes are decimal (1 MB = 10^6 bytes, as datasheets and the SwitchGNN paper count); KiB/MiB/GiB are binary.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

from workloads.errors import InputError

_UNITS: dict[str, dict[str, Decimal]] = {
    "bytes": {
        "": Decimal(1), "b": Decimal(1), "byte": Decimal(1), "bytes": Decimal(1),
        "kb": Decimal(10**3), "mb": Decimal(10**6), "gb": Decimal(10**9), "tb": Decimal(10**12),
        "kib": Decimal(2**10), "mib": Decimal(2**20), "gib": Decimal(2**30), "tib": Decimal(2**40),
    },
    "bps": {
        "": Decimal(1), "bps": Decimal(1), "kbps": Decimal(10**3), "mbps": Decimal(10**6),
        "gbps": Decimal(10**9), "tbps": Decimal(10**12), "bit/s": Decimal(1), "kbit/s": Decimal(10**3),
        "mbit/s": Decimal(10**6), "gbit/s": Decimal(10**9), "tbit/s": Decimal(10**12), "kb/s": Decimal(10**3),
        "mb/s": Decimal(10**6), "gb/s": Decimal(10**9), "tb/s": Decimal(10**12),
    },
    "ns": {"": Decimal(1), "ns": Decimal(1), "us": Decimal(10**3), "µs": Decimal(10**3), "ms": Decimal(10**6),
           "s": Decimal(10**9)},
    "pps": {"": Decimal(1), "pps": Decimal(1), "kpps": Decimal(10**3), "mpps": Decimal(10**6),
            "gpps": Decimal(10**9), "bpps": Decimal(10**9)},
}  # fmt: skip
_EXAMPLES = {
    "bytes": '"100MB", "64KiB" or a number of bytes',
    "bps": '"100Gbps", "25Gb/s" or a number of bits per second',
    "ns": '"1us", "50ms" or a number of nanoseconds',
    "pps": '"1Gpps" or a number of packets per second',
}
_NUMBER = r"[+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµ/]*)\s*", re.ASCII)
LARGEST = 2**62  # what the C++ side still adds up in 64 bits without wrapping


def parse_quantity(value: object, unit: str, where: str) -> int:
    """A whole number of `unit` ("bytes", "bps", "ns", "pps") from a number or a text such as "100MB".

    Raises InputError naming `where` for anything else, for NaN and infinity, and beyond 2^62.
    """
    match value:
        case bool():
            raise InputError(f"{where}: {str(value).lower()} given; expected {_EXAMPLES[unit]}")
        case int():
            number = Decimal(value)
        case float():
            if not math.isfinite(value):
                raise InputError(f"{where}: {value} given; expected {_EXAMPLES[unit]}")
            number = Decimal(repr(value))
        case str():
            number = _parse_text(value, unit, where)
        case _:
            raise InputError(f"{where}: {_short(value)} given; expected {_EXAMPLES[unit]}")
    if abs(number) > LARGEST:
        raise InputError(f"{where}: {_short(value)} is too large; at most {LARGEST}")
    rounded = number.to_integral_value()
    if number != rounded:
        raise InputError(f"{where}: {_short(value)} is not a whole number of {unit}")
    return int(rounded)


def _parse_text(text: str, unit: str, where: str) -> Decimal:
    match = _QUANTITY.fullmatch(text[:80].replace("μ", "µ")) if len(text) <= 80 else None
    if match is None:
        raise InputError(f"{where}: {_short(text)} given; expected {_EXAMPLES[unit]}")
    digits, suffix = match.groups()
    factor = _UNITS[unit].get(suffix.lower())
    if factor is None:
        known = ", ".join(name for name in _UNITS[unit] if name)
        raise InputError(f"{where}: unknown unit {suffix!r} in {_short(text)}; known are {known}")
    try:
        return Decimal(digits.replace("_", "")) * factor
    except InvalidOperation:
        raise InputError(f"{where}: {_short(text)} given; expected {_EXAMPLES[unit]}") from None


def _short(value: object) -> str:
    """A value as given, quoted, on one line and never longer than a terminal line."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def format_bytes(count: float) -> str:
    """1234567 -> "1.23 MB": three significant digits, decimal units."""
    return _scaled(count, 1000.0, ["B", "kB", "MB", "GB", "TB", "PB"])


def format_ns(duration_ns: float) -> str:
    """1234567 -> "1.23 ms": three significant digits."""
    return _scaled(duration_ns, 1000.0, ["ns", "µs", "ms", "s"])


def format_count(count: float) -> str:
    """1234567 -> "1.23 M": three significant digits."""
    return _scaled(count, 1000.0, ["", "k", "M", "G", "T"])


def _scaled(value: float, step: float, units: list[str]) -> str:
    index = 0
    while abs(value) >= step * 0.9995 and index < len(units) - 1:
        value /= step
        index += 1
    if index == 0:
        return f"{value:.0f} {units[0]}".rstrip()
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {units[index]}".rstrip()
