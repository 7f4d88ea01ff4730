"""Header and metadata bits in PHV containers, and the parser's rows.

Containers hold 8, 16 or 32 bits. A field of a header lies with its neighbours as on the wire; metadata
fields of less than a byte share bytes. Headers that no packet has at once (different ways through the parser)
share their containers. Fields that no stage touches go to tagalong containers, as long as there are any. Not
modelled: metadata that is never alive together, so the true number may be lower; and the groups that
containers come in, so it may be higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from p4.lang import ir
from p4.lang import types as ty
from p4.lang.diagnostics import Diagnostic
from p4.lang.walk import walk
from p4.tofino.chip import Chip
from p4.tofino.units import Unit

TAGALONG = {8: 32, 16: 48, 32: 32}


@dataclass
class Phv:
    """Bits in containers, bits that no stage touches, and containers by width."""

    bits: int
    carried_bits: int
    containers: dict[int, int]


def phv(blocks: dict[str, ir.Parser | ir.Control], units: list[Unit], chip: Chip) -> Phv:
    """What headers and metadata of both pipelines take."""
    runs: list[int] = []  # widths of pieces that need a place
    carried = 0
    for gress in ("ingress", "egress"):
        touched: set[str] = set()
        for unit in units:
            if unit.gress == gress:
                touched |= unit.match | unit.reads | unit.writes
        control, parser = blocks[gress], blocks[f"{gress}_parse"]
        assert isinstance(parser, ir.Parser)
        headers: dict[str, list[tuple[int, bool]]] = {}
        for param in control.params:
            if not isinstance(param.type, ty.Record):
                continue
            intrinsic = "intrinsic" in param.type.name
            for name, fields in _headers(param.name, param.type):
                used = [w for p, w in fields if p in touched]
                if name and not intrinsic:
                    headers[name] = _pieces(fields, touched)
                else:
                    runs += _joined(used)
        weights = {name: sum(w for w, is_used in pieces if is_used) for name, pieces in headers.items()}
        extracted = _extracted_headers(parser, control.params[0].name)
        parsed = set().union(*extracted.values(), set())
        together = _heaviest("start", parser, extracted, weights, {}) | (headers.keys() - parsed)
        for name in together & headers.keys():
            runs += [w for w, is_used in headers[name] if is_used]
            carried += sum(w for w, is_used in headers[name] if not is_used)
    spilled = max(0, carried - sum(w * n for w, n in TAGALONG.items()))
    return Phv(sum(runs) + spilled, carried, _pack(runs, spilled, chip))


def _joined(widths: list[int]) -> list[int]:
    """Metadata fields as pieces: those of less than a byte share bytes."""
    out = [w for w in widths if w >= 8]
    room: list[int] = []
    for width in sorted((w for w in widths if w < 8), reverse=True):
        at = next((i for i, left in enumerate(room) if left >= width), None)
        if at is None:
            room.append(8 - width)
        else:
            room[at] -= width
    return out + [8] * len(room)


def _extracted_headers(parser: ir.Parser, headers: str) -> dict[str, set[str]]:
    """State -> the headers it extracts, under the control's name for the headers."""
    own = parser.params[1].name
    out: dict[str, set[str]] = {}
    for state in parser.states:
        out[state.name] = set()
        for node in walk(state.body):
            is_extract = isinstance(node, ir.Call) and isinstance(node.target, ir.Method)
            if is_extract and isinstance(node, ir.Call) and node.args and node.args[0].value is not None:
                path = _path(node.args[0].value)
                if path.startswith(f"{own}."):
                    out[state.name].add(headers + path[len(own) :])
    return out


def _path(e: ir.Expr) -> str:
    match e:
        case ir.Var():
            return e.variable.name
        case ir.Field():
            return f"{_path(e.base)}.{e.name}"
        case ir.Item() if isinstance(e.index, ir.Const):
            return f"{_path(e.base)}[{e.index.value}]"
    return "?"


def _heaviest(
    name: str,
    parser: ir.Parser,
    extracted: dict[str, set[str]],
    weights: dict[str, int],
    known: dict[str, set[str]],
) -> set[str]:
    """The headers of the way from a state that take the most bits: no packet has more at once."""
    if name in known or name not in extracted:
        return known.get(name, set())
    known[name] = extracted[name]  # a way that comes back ends here
    state = next(s for s in parser.states if s.name == name)
    ways = [_heaviest(c.state, parser, extracted, weights, known) for c in state.transition.cases]
    best = max(ways, key=lambda way: sum(weights.get(h, 0) for h in way), default=set())
    known[name] = extracted[name] | best
    return known[name]


def _headers(path: str, type_: ty.Type) -> list[tuple[str, list[tuple[str, int]]]]:
    """(its path, its fields with widths) of each header below; "" for the loose fields of a struct."""
    while isinstance(type_, ty.NewType):
        type_ = type_.base
    if isinstance(type_, ty.Stack):
        return [h for i in range(type_.size) for h in _headers(f"{path}[{i}]", type_.element)]
    if not isinstance(type_, ty.Record):
        return [("", [(path, ty.bit_width(type_) or 1)])]
    if type_.kind == "header":
        return [(path, [(f"{path}.{n}", ty.bit_width(t) or 1) for n, t in type_.fields])]
    inner = [h for n, t in type_.fields for h in _headers(f"{path}.{n}", t)]
    loose = [f for name, fields in inner if not name for f in fields]
    return [h for h in inner if h[0]] + ([("", loose)] if loose else [])


def _pieces(fields: list[tuple[str, int]], touched: set[str]) -> list[tuple[int, bool]]:
    """Fields of a header joined to whole bytes: (bits, whether a stage touches them)."""
    out: list[tuple[int, bool]] = []
    width, used = 0, False
    for path, bits in fields:
        width, used = width + bits, used or path in touched
        if width % 8 == 0:
            out.append((width, used))
            width, used = 0, False
    if width:
        out.append((width, used))
    return out


def _pack(runs: list[int], spilled: int, chip: Chip) -> dict[int, int]:
    """Containers by width: 32-bit ones first for wide fields, narrower ones when those run out."""
    limits = dict(chip.containers)
    used = dict.fromkeys(limits, 0)
    pieces = []
    for width in [*sorted(runs, reverse=True), *[32] * ceil(spilled / 32)]:
        pieces += [32] * (width // 32)
        rest = width % 32
        pieces += (
            [] if not rest else [8] if rest <= 8 else [16] if rest <= 16 else [16, 8] if rest <= 24 else [32]
        )
    for piece in pieces:
        if piece == 32 and used[32] >= limits[32]:
            half = 16 if used[16] + 2 <= limits[16] else 8
            used[half] += 32 // half
        elif piece == 16 and used[16] >= limits[16]:
            used[8] += 2
        elif piece == 8 and used[8] >= limits[8] and used[16] < limits[16]:
            used[16] += 1
        else:
            used[piece] += 1
    return used


@dataclass
class Parsing:
    """Rows of the parser's TCAM, states on the longest way (0 if it may loop), bytes it takes there."""

    rows: int
    depth: int
    bytes: int


def parsing(parser: ir.Parser, chip: Chip) -> tuple[Parsing, list[Diagnostic]]:
    """One parser's size, and selects that are too wide."""
    problems: list[Diagnostic] = []
    rows, ways = 0, {}
    for state in parser.states:
        cases = max(1, len(state.transition.cases))
        size = sum(_extracted(s) for s in state.body)
        rows += cases + max(0, ceil(size / chip.extract_bytes) - 1)
        ways[state.name] = (size, [c.state for c in state.transition.cases])
        width = sum(ty.bit_width(e.type) or 1 for e in state.transition.exprs)
        if width > chip.select_bits:
            what = f"state '{state.name}' selects on {width} bits"
            problems.append(Diagnostic(state.transition.span, what, f"{chip.select_bits} at most"))
    depth, size = _longest("start", ways, frozenset())
    return Parsing(rows, depth, size), problems


def _longest(name: str, ways: dict[str, tuple[int, list[str]]], seen: frozenset[str]) -> tuple[int, int]:
    """(states, bytes) of the longest way from a state; a state that was passed ends it."""
    if name not in ways or name in seen:
        return 0, 0
    size, following = ways[name]
    rest = [_longest(f, ways, seen | {name}) for f in dict.fromkeys(following)]
    return 1 + max((d for d, _ in rest), default=0), size + max((b for _, b in rest), default=0)


def _extracted(s: ir.Statement) -> int:
    """Bytes that a statement takes from the packet."""
    size = 0
    for node in walk(s):
        if isinstance(node, ir.Call) and isinstance(node.target, ir.Method):
            if node.target.name == "extract":
                size += ceil((ty.bit_width(node.type_args[0]) or 0) / 8)
            elif node.target.name == "advance" and node.args[0].value is not None:
                amount = node.args[0].value
                size += ceil(int(amount.value) / 8) if isinstance(amount, ir.Const) else 0
    return size
