"""Names and numbers as a user gives them, against the program's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from p4.codegen.schema import ActionInfo, FieldInfo, TableInfo
from p4.targets.target import MatchValue, TargetError


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def find(kind: str, items: Sequence[T], name: str) -> int:
    """The position of the item called `name`: in full, or by an unambiguous last part."""
    exact = [i for i, item in enumerate(items) if item.name == name]
    suffix = [i for i, item in enumerate(items) if item.name.endswith("." + name)]
    found = exact or suffix
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(items[i].name for i in found)
        raise TargetError("INVALID_ARGUMENT", f"{kind} '{name}' is ambiguous: {names}")
    known = ", ".join(item.name for item in items[:8]) or "none"
    raise TargetError("NOT_FOUND", f"{kind} '{name}' does not exist; there are: {known}")


def checked(what: str, value: object, bits: int) -> int:
    """`value` if it is an integer of at most `bits` bits."""
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, int):
        raise TargetError("INVALID_ARGUMENT", f"{what}: {value!r} is not an integer")
    if not 0 <= value < 1 << bits:
        raise TargetError("INVALID_ARGUMENT", f"{what}: {value:#x} does not fit {bits} bits")
    return value


def encode_key(table: TableInfo, match: Mapping[str, MatchValue]) -> tuple[bytes, bytes, int]:
    """(key, mask or high ends, prefix length) as the engine's table takes them."""
    left = dict(match)
    values = [take(field.name, left) for field in table.keys]
    if left:
        names = ", ".join(f.name for f in table.keys)
        raise TargetError(
            "INVALID_ARGUMENT", f"table '{table.name}' has no key '{next(iter(left))}'; its keys: {names}"
        )
    key, mask = bytearray(), bytearray()
    prefix = 0
    for field, value in zip(table.keys, values, strict=True):
        first, second, length = _one_key(table, field, value)
        size = (field.bits + 7) // 8
        key += first.to_bytes(size, "big")
        mask += second.to_bytes(size, "big")
        if field.match_kind == "lpm":
            prefix = length
    return bytes(key), bytes(mask), prefix


def take(name: str, left: dict[str, MatchValue]) -> MatchValue:
    """The value for a field: by its name or by the last parts of it (``ipv4.dst`` for ``hdr.ipv4.dst``)."""
    while name not in left and "." in name:
        name = name.partition(".")[2]
    return left.pop(name, None)


def _one_key(table: TableInfo, field: FieldInfo, value: MatchValue) -> tuple[int, int, int]:
    what = f"key '{field.name}' of table '{table.name}'"
    ones = (1 << field.bits) - 1
    kind = field.match_kind
    if value is None:
        if kind == "exact":
            raise TargetError("INVALID_ARGUMENT", f"{what} is exact: it needs a value")
        return 0, ones if kind == "range" else 0, 0
    if isinstance(value, tuple):
        if kind in ("exact", "optional") or len(value) != 2:
            raise TargetError("INVALID_ARGUMENT", f"{what} is {kind}: it takes one value")
        first, second = value
    else:
        first, second = value, (field.bits if kind == "lpm" else value if kind == "range" else ones)
    first = checked(what, first, field.bits)
    if kind == "lpm":
        if not 0 <= second <= field.bits:
            raise TargetError(
                "INVALID_ARGUMENT", f"{what}: prefix length {second}, allowed 0 to {field.bits}"
            )
        if first & ~(ones << (field.bits - second)) & ones:
            raise TargetError(
                "INVALID_ARGUMENT", f"{what}: bits set in {first:#x} beyond its prefix of {second}"
            )
        return first, 0, second
    second = checked(what, second, field.bits)
    if kind == "range" and first > second:
        raise TargetError("INVALID_ARGUMENT", f"{what}: range {first}..{second} is empty")
    if kind == "ternary" and first & ~second:
        raise TargetError("INVALID_ARGUMENT", f"{what}: bits set in {first:#x} outside its mask {second:#x}")
    return first, second, 0


def encode_data(action: ActionInfo, data: Mapping[str, int] | Sequence[int]) -> bytes:
    """Action data as the engine takes it."""
    names = [p.name for p in action.params]
    if isinstance(data, Mapping):
        if set(data) != set(names):
            raise TargetError(
                "INVALID_ARGUMENT", f"action '{action.name}' takes {names}, given {sorted(data)}"
            )
        values: Sequence[int] = [data[n] for n in names]
    else:
        values = list(data)
        if len(values) != len(names):
            raise TargetError(
                "INVALID_ARGUMENT", f"action '{action.name}' takes {names}, given {len(values)} values"
            )
    out = bytearray()
    for param, value in zip(action.params, values, strict=True):
        what = f"parameter '{param.name}' of action '{action.name}'"
        out += checked(what, value, param.bits).to_bytes((param.bits + 7) // 8, "big")
    return bytes(out)
