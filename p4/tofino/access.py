"""How often a packet reaches each array and table in a pass: the most over all paths, and where again."""

from __future__ import annotations

from collections.abc import Iterable

from p4.lang import ir
from p4.lang.diagnostics import Span
from p4.lang.walk import walk
from p4.tofino.units import Array, TableAt, array_of

# Where an array is reached, in the order of a path.
Accesses = dict[Array | TableAt, tuple[Span, ...]]
Path = tuple[ir.Instance, ...]


def accesses_of(control: ir.Control, path: Path = ()) -> Accesses:
    """For each array and table, the way through the control that reaches it most often."""
    falls, ended = _block(control.body.items, path)
    return _most([falls, ended])


def _most(paths: Iterable[Accesses | None]) -> Accesses:
    out: Accesses = {}
    for path in paths:
        for array, spans in (path or {}).items():
            if len(spans) > len(out.get(array, ())):
                out[array] = spans
    return out


def _then(first: Accesses, second: Accesses) -> Accesses:
    return {
        a: (*first.get(a, ()), *second.get(a, ())) for a in (*first, *(x for x in second if x not in first))
    }


def _block(items: Iterable[ir.Statement], path: Path) -> tuple[Accesses | None, Accesses]:
    """(of the paths that reach the end, None if none does; of those that return before)."""
    falls: Accesses | None = {}
    ended: Accesses = {}
    for statement in items:
        if falls is None:
            break
        next_falls, next_ended = _statement(statement, path)
        ended = _most([ended, _then(falls, next_ended)])
        falls = None if next_falls is None else _then(falls, next_falls)
    return falls, ended


def _statement(s: ir.Statement, path: Path) -> tuple[Accesses | None, Accesses]:
    match s:
        case ir.Block():
            return _block(s.items, path)
        case ir.If():
            before = _expression(s.condition, path)
            branches = [
                _statement(s.then, path),
                ({}, {}) if s.orelse is None else _statement(s.orelse, path),
            ]
        case ir.Switch():
            before = {} if s.table else _expression(s.subject, path)
            branches = _switch(s, path)
        case ir.Return() | ir.Exit():
            return None, {}
        case ir.Assign():
            return _expression(s.value, path), {}
        case ir.VarDecl():
            return _expression(s.init, path), {}
        case ir.CallStatement():
            return _expression(s.call, path), {}
        case _:
            return {}, {}
    falling = [f for f, _ in branches if f is not None]
    ended = _most([e for _, e in branches])
    return (_then(before, _most(falling)) if falling else None), _then(before, ended)


def _switch(s: ir.Switch, path: Path) -> list[tuple[Accesses | None, Accesses]]:
    """One branch for each case. After an action of a table comes that action's case."""
    branches = []
    for case in s.cases:
        falls, ended = _statement(case.body, path)
        before: Accesses = {}
        if s.table is not None:
            named = [x for x in case.labels if isinstance(x, ir.Action)]
            others = [use.action for use in s.table.actions if case.is_default or use.action in named]
            once: Accesses = {TableAt(path, s.table): (s.subject.span,)}
            before = _then(once, _most([_then(_action(a, path), _attached(s.table, path)) for a in others]))
        branches.append((None if falls is None else _then(before, falls), _then(before, ended)))
    if not any(c.is_default for c in s.cases):
        rest = [] if s.table is None else [_action(use.action, path) for use in s.table.actions]
        table: Accesses = {} if s.table is None else {TableAt(path, s.table): (s.subject.span,)}
        branches.append((_then(table, _then(_most(rest), _attached(s.table, path))), {}))
    return branches


def _expression(e: ir.Expr | None, path: Path) -> Accesses:
    """In the order of evaluation. (Both sides of && count: a gateway evaluates both.)"""
    out: Accesses = {}
    for node in walk(e):
        if not isinstance(node, ir.Call):
            continue
        match node.target:
            case ir.ApplyTable(table):
                out = _then(out, {TableAt(path, table): (node.span,)})
                out = _then(
                    out,
                    _then(
                        _most([_action(use.action, path) for use in table.actions]), _attached(table, path)
                    ),
                )
            case ir.ActionTarget(action):
                out = _then(out, _action(action, path))
            case ir.ApplyBlock(instance) if isinstance(instance.declaration, ir.Control):
                out = _then(out, accesses_of(instance.declaration, (*path, instance)))
            case ir.Method(object=ir.InstanceRef(instance=instance)):
                array = array_of(instance)
                # A direct array goes with its table's entry, not with the call.
                if array is not None and not str(array.type).startswith("Direct"):
                    out = _then(out, {Array(path, array): (node.span,)})
    return out


def _action(action: ir.Action, path: Path) -> Accesses:
    falls, ended = _block(action.body.items, path)
    return _most([falls, ended])


def _attached(table: ir.Table | None, path: Path) -> Accesses:
    out: Accesses = {}
    for name in ("counters", "meters", "registers"):
        value = table.properties.get(name) if table else None
        if isinstance(value, ir.InstanceRef):
            out[Array(path, value.instance)] = (value.span,)
    return out
