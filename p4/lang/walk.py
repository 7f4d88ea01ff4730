"""Everything below a node of the typed program: statements and expressions, in the order of the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from p4.lang import ir

_INNER = (
    ir.Statement,
    ir.Expr,
    ir.SwitchCase,
    ir.Argument,
    ir.Method,
    ir.Builtin,
    ir.Transition,
    ir.SelectCase,
    ir.Match,
)
Node = ir.Statement | ir.Expr


def walk(node: object) -> Iterator[Node]:
    """`node` and what it is made of. Actions, tables and functions that are called are not entered."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
        return
    if not isinstance(node, _INNER):
        return
    if isinstance(node, (ir.Statement, ir.Expr)):
        yield node
    for part in fields(node):
        if part.name not in ("span", "type"):
            yield from walk(getattr(node, part.name))


def bodies(block: ir.Parser | ir.Control) -> Iterator[Node]:
    """Everything in a parser or control: its states or body, its actions and the methods of its objects."""
    if isinstance(block, ir.Parser):
        for state in block.states:
            yield from walk(state.body)
            yield from walk(state.transition)
    else:
        yield from walk(block.body)
    for local in block.locals:
        match local:
            case ir.Action():
                yield from walk(local.body)
            case ir.VarDecl():
                yield from walk(local)
            case ir.Instance():
                for function in local.methods.values():
                    yield from walk(function.body)


def applied(block: ir.Parser | ir.Control) -> list[ir.Parser | ir.Control]:
    """The block and those that it applies."""
    found = [block]
    for one in found:
        for node in bodies(one):
            if isinstance(node, ir.Call) and isinstance(node.target, ir.ApplyBlock):
                inner = node.target.instance.declaration
                if inner is not None and inner not in found:
                    found.append(inner)
    return found


def reached(block: ir.Parser | ir.Control) -> Iterator[Node]:
    """Everything that may run in it: its own, and the blocks, actions, tables and functions that it calls."""
    entered: set[object] = set()
    waiting: list[Node] = []
    for one in applied(block):
        waiting += bodies(one)
        for table in one.locals:
            if isinstance(table, ir.Table):
                waiting += [n for key in table.keys for n in walk(key.expr)]
                waiting += [n for use in table.actions for e in use.bound for n in walk(e)]
                for use in table.actions:
                    entered.add(use.action)
                    waiting += walk(use.action.body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ir.Call):
            called = (
                node.target.action
                if isinstance(node.target, ir.ActionTarget)
                else node.target.function
                if isinstance(node.target, ir.FunctionTarget)
                else None
            )
            if called is not None and called not in entered:
                entered.add(called)
                waiting += walk(called.body)


def places(node: object) -> Iterator[ir.Expr]:
    """The variables, fields, elements and slices named in it, each whole: `h.a[3:0]`, not also `h.a`."""
    nodes = list(walk(node))
    inner = {id(n.base) for n in nodes if isinstance(n, (ir.Field, ir.Slice, ir.Item, ir.StackPart))}
    for one in nodes:
        if isinstance(one, (ir.Var, ir.Field, ir.Slice, ir.Item, ir.StackPart)) and id(one) not in inner:
            yield one


def is_chain(e: ir.Expr) -> bool:
    """Whether it is a variable, or a field of fields of one."""
    return isinstance(e, ir.Var) or (isinstance(e, ir.Field) and is_chain(e.base))


def root(e: ir.Expr) -> ir.Variable | None:
    """The variable that a place is, or is part of."""
    while isinstance(e, (ir.Field, ir.Slice, ir.Item, ir.StackPart)):
        e = e.base
    return e.variable if isinstance(e, ir.Var) else None
