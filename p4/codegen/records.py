"""Which register arrays of a block lie interleaved in memory (state.h): those read at the same index.

A program that keeps a record in as many arrays as it has fields reads them all at one index, so element i
of all of them belongs into the same few cache lines. An array that is read at another index would only
take room in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass

from p4.lang import ir
from p4.lang.walk import bodies

LINE_BYTES = 64
SMALL = 8  # a record's last line is not worth it for less than this part of one


@dataclass(frozen=True)
class Array:
    """A register array as it is declared."""

    instance: ir.Instance
    size: int
    element_bytes: int


def records_of(block: ir.Parser | ir.Control, arrays: Sequence[Array]) -> dict[ir.Instance, int]:
    """The number of each array's record; arrays of one record are of one size.

    Arrays that share an index at which they are read are one record, as are those that the block itself
    reads nowhere. A record that is a little longer than whole cache lines leaves its first arrays apart.
    """
    indices = _read_at(block)
    groups: list[tuple[int, set[object], list[Array]]] = []
    for array in arrays:
        here = indices.get(array.instance, {None})
        joined = [g for g in groups if g[0] == array.size and g[1] & here]
        groups = [g for g in groups if g not in joined]
        shared = here.union(*(g[1] for g in joined))
        groups.append((array.size, shared, [*(a for g in joined for a in g[2]), array]))
    numbers: dict[ir.Instance, int] = {}
    for _, _, group in groups:
        order = [array for array in arrays if array in group]
        apart = _apart(order)
        count = len(set(numbers.values()))
        for n, array in enumerate(apart):
            numbers[array.instance] = count + n
        for array in order[len(apart) :]:
            numbers[array.instance] = count + len(apart)
    return numbers


def read_for_nothing(block: ir.Parser | ir.Control) -> frozenset[ir.Variable]:
    """The local variables that registers are read into and that nothing else names.

    Such a read has no effect. It says that the element will be wanted, and is compiled as that.
    """
    named: dict[ir.Variable, int] = {}
    for node in bodies(block):
        if isinstance(node, ir.Var):
            named[node.variable] = named.get(node.variable, 0) + 1
        elif isinstance(node, ir.Call) and isinstance(node.target, ir.Method):
            into = node.args[0].value if node.args else None
            reads = (node.target.extern.name, node.target.name) == ("register", "read")
            if reads and isinstance(into, ir.Var):
                named[into.variable] = named.get(into.variable, 0) - 1
    fields_ = {local.variable for local in block.locals if isinstance(local, ir.VarDecl)}
    return frozenset(v for v, times in named.items() if times == 0 and v.kind == "local" and v not in fields_)


def _apart(record: list[Array]) -> list[Array]:
    """The first arrays of a record, if the rest then fills whole cache lines."""
    total = sum(array.element_bytes for array in record)
    beyond = total % LINE_BYTES
    if total < LINE_BYTES or beyond > LINE_BYTES // SMALL:
        return []
    for n in range(len(record)):
        left = sum(array.element_bytes for array in record[:n])
        if left >= beyond:
            return record[:n] if left == beyond else []
    return []


def _read_at(block: ir.Parser | ir.Control) -> dict[ir.Instance, set[object]]:
    found: dict[ir.Instance, set[object]] = {}
    for node in bodies(block):
        if not isinstance(node, ir.Call) or not isinstance(node.target, ir.Method):
            continue
        target, args = node.target, [a.value for a in node.args]
        if not isinstance(target.object, ir.InstanceRef):
            continue
        array = target.object.instance
        match target.extern.name, target.name:
            case "register", "read":
                found.setdefault(array, set()).add(_shape(args[1]))
            case "RegisterAction", "execute":
                of = array.args[0].value
                if isinstance(of, ir.InstanceRef):
                    found.setdefault(of.instance, set()).add(_shape(args[0]))
    return found


def _shape(node: object) -> object:
    """What an index is, wherever it is written: equal for equal expressions."""
    if isinstance(node, ir.Variable):
        return id(node)
    if isinstance(node, tuple):
        return tuple(map(_shape, node))
    if is_dataclass(node) and not isinstance(node, type):
        parts = (getattr(node, f.name) for f in fields(node) if f.name not in ("span", "type"))
        return (type(node).__name__, *map(_shape, parts))
    return node
