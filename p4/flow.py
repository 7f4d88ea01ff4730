"""Which tables and inner blocks of a control are applied after which: its control flow, without the rest."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from p4.lang import ir
from p4.lang.walk import walk

START, END = "start", "end"
_LABEL = 34  # characters of an edge's condition
Ends = list[tuple[str, str]]  # nodes that the next one follows, with what must hold


@dataclass
class Flow:
    """Nodes in order; edges (from, condition, to). A table's node is its name, an inner block's `name()`."""

    nodes: list[str] = field(default_factory=list)
    edges: list[tuple[str, str, str]] = field(default_factory=list)


def control_flow(control: ir.Control) -> Flow:
    """The flow of one control; returns that no table precedes are left out."""
    flow = Flow([START])
    _join(flow, _run(flow, control.body, [(START, "")]), END)
    return flow


def without_runs(edges: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The edges with tables that follow one another and differ in a number (value0, value1) as one node."""
    following = {a: b for a, label, b in edges if not label and _is_next(a, b)}
    ways_in = Counter(b for _, _, b in edges)
    ways_out = Counter(a for a, _, _ in edges)
    runs: dict[str, str] = {}
    for first in following:
        if first in runs:
            continue
        run = [first]
        while (after := following.get(run[-1])) and ways_in[after] == ways_out[run[-1]] == 1:
            run.append(after)
        if len(run) > 2:
            number = re.sub(r"^.*?(\d+)$", r"\1", run[-1])
            runs |= dict.fromkeys(run, f"{first}..{number}")
    named = [(runs.get(a, a), label, runs.get(b, b)) for a, label, b in edges]
    return [(a, label, b) for a, label, b in named if a != b or a not in runs.values()]


def _is_next(a: str, b: str) -> bool:
    first, second = (re.fullmatch(r"(.*?)(\d+)", name) for name in (a, b))
    if first is None or second is None:
        return False
    return first[1] == second[1] and int(second[2]) == int(first[2]) + 1


def _join(flow: Flow, ends: Ends, node: str) -> None:
    if node not in flow.nodes:
        flow.nodes.append(node)
    for source, label in ends:
        if (source, label, node) not in flow.edges:
            flow.edges.append((source, label, node))


def _applied(node: object) -> list[str]:
    """What an expression or statement applies, in order."""
    names = []
    for e in walk(node):
        if isinstance(e, ir.Call) and isinstance(e.target, ir.ApplyTable):
            names.append(e.target.table.name)
        elif isinstance(e, ir.Call) and isinstance(e.target, ir.ApplyBlock):
            names.append(f"{e.target.instance.name or e.target.instance.type}()")
    return names


def _through(flow: Flow, names: list[str], ends: Ends) -> Ends:
    for name in names:
        _join(flow, ends, name)
        ends = [(name, "")]
    return ends


def _run(flow: Flow, statement: ir.Statement | None, ends: Ends) -> Ends:
    match statement:
        case None:
            return ends
        case ir.Block():
            for item in statement.items:
                ends = _run(flow, item, ends)
            return ends
        case ir.Return() | ir.Exit():
            _join(flow, [e for e in ends if e[0] != START or flow.nodes == [START]], END)
            return []
        case ir.If():
            return _if(flow, statement, ends)
        case ir.Switch():
            ends = _through(flow, _applied(statement.subject), ends)
            out = [] if any(c.is_default for c in statement.cases) else _labelled(ends, "otherwise")
            for case in statement.cases:
                names = [x.name if isinstance(x, ir.Action) else text_of(x) for x in case.labels]
                label = ", ".join(names) or "default"
                out += _run(flow, case.body, _labelled(ends, label))
            return _once(out)
        case ir.For() | ir.ForRange():
            return _once(ends + _run(flow, statement.body, ends))
    return _through(flow, _applied(statement), ends)


def _if(flow: Flow, statement: ir.If, ends: Ends) -> Ends:
    ends = _through(flow, _applied(statement.condition), ends)
    matters = _applied(statement.then) or _applied(statement.orelse)
    asked = _asked(statement.condition)
    if not matters and not asked:
        return ends  # nothing below but returns: where the packet leaves early is not drawn
    yes, no = asked or (text_of(statement.condition), "else")
    out = _run(flow, statement.then, _labelled(ends, yes))
    return _once(out + _run(flow, statement.orelse, _labelled(ends, no)))


def _asked(condition: ir.Expr) -> tuple[str, str] | None:
    """("hit", "miss") for ``t.apply().hit``, and so on; None for another condition."""
    match condition:
        case ir.Unary(op="!"):
            inner = _asked(condition.operand)
            return (inner[1], inner[0]) if inner else None
        case ir.Field(base=ir.Call(target=ir.ApplyTable()), name=name) if name in ("hit", "miss"):
            return ("hit", "miss") if name == "hit" else ("miss", "hit")
    return None


def _labelled(ends: Ends, label: str) -> Ends:
    """More that must hold. An `else` says something only where nothing more is said."""
    out = []
    for node, old in ends:
        said = [x for x in (old, label) if x and x != "else"]
        out.append((node, ", ".join(said) or "else"))
    return out


def _once(ends: Ends) -> Ends:
    return list(dict.fromkeys(ends))


def text_of(e: ir.Expr, most: int = _LABEL) -> str:
    """An expression as a short text; what is too long ends in dots."""
    text = _text(e)
    return text if len(text) <= most else text[: most - 3] + "..."


def _text(e: ir.Expr) -> str:
    match e:
        case ir.Const():
            return str(e.value).lower() if isinstance(e.value, bool) else str(e.value)
        case ir.Var():
            return e.variable.name
        case ir.Field():
            return f"{_text(e.base)}.{e.name}"
        case ir.Slice():
            return f"{_text(e.base)}[{e.high}:{e.low}]"
        case ir.Unary():
            return f"{e.op}{_text(e.operand)}"
        case ir.Binary():
            return f"{_text(e.left)} {e.op} {_text(e.right)}"
        case ir.Cast():
            return _text(e.operand)
        case ir.Call(target=ir.Builtin(name=name)):
            return f"{_text(e.target.object)}.{name}()" if isinstance(e.target, ir.Builtin) else name
        case ir.Call(target=ir.ApplyTable()):
            return f"{e.target.table.name}.apply()" if isinstance(e.target, ir.ApplyTable) else "apply()"
        case ir.Item():
            return f"{_text(e.base)}[{_text(e.index)}]"
    return "..."
