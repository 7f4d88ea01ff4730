"""The units of a control along its control flow, and what no action or condition of a stage can do."""

from __future__ import annotations

from dataclasses import dataclass, field

from p4.lang import ir
from p4.lang import types as ty
from p4.lang.diagnostics import Diagnostic, Span
from p4.lang.walk import places, root, walk
from p4.tofino.units import Array, Guard, TableAt, Unit, array_of, leaves

DEFAULT_SIZE = 512  # of a table that does not say
Env = dict[ir.Variable, str]


@dataclass
class _Place:
    """Where in the control flow: the branches taken, and what decided them."""

    guards: tuple[Guard, ...] = ()
    match: frozenset[str] = frozenset()
    follows: frozenset[Unit] = frozenset()


@dataclass
class _Step:
    """What an action has done so far: everything in it happens at once."""

    unit: Unit
    written: dict[str, Span] = field(default_factory=dict)  # what was computed
    copies: dict[str, set[str]] = field(default_factory=dict)  # what is a copy of other fields, or a result


class UnitCollector:
    """`units` of one control and those it applies. `problems`: what no action of a stage can do."""

    def __init__(self, gress: str) -> None:
        self.gress = gress
        self.units: list[Unit] = []
        self.problems: list[Diagnostic] = []
        self._locals = 0
        self._path: tuple[ir.Instance, ...] = ()
        self._ctor: dict[ir.Variable, ir.Expr] = {}

    def control(self, control: ir.Control, env: Env, place: _Place | None = None) -> None:
        place = place or _Place()
        for local in control.locals:
            if isinstance(local, ir.VarDecl):
                self._variable(local, env, place)
        self._block(control.body.items, env, place)

    # ---- names

    def path(self, e: ir.Expr, env: Env) -> str:
        match e:
            case ir.Var():
                if e.variable not in env:
                    env[e.variable] = e.variable.name
                return env[e.variable]
            case ir.Field():
                return f"{self.path(e.base, env)}.{e.name}"
            case ir.Item():
                index = e.index.value if isinstance(e.index, ir.Const) else "*"
                return f"{self.path(e.base, env)}[{index}]"
            case ir.Slice() | ir.StackPart():
                return self.path(e.base, env)
            case ir.Cast():
                return self.path(e.operand, env)
        return "?"

    def read(self, e: ir.Expr | None, env: Env) -> set[str]:
        """The scalar fields that an expression reads."""
        out: set[str] = set()
        for node in walk(e):
            if isinstance(node, ir.Call) and isinstance(node.target, ir.Builtin):
                out.add(f"{self.path(node.target.object, env)}.$valid")
        for place in places(e):
            variable = root(place)
            if variable is not None and variable.kind not in ("ctor", "const"):
                out |= leaves(self.path(place, env), _base(place).type)
        return out

    # ---- control flow

    def _block(self, items: tuple[ir.Statement, ...], env: Env, place: _Place) -> bool:
        """Whether the end of the block is reached on some path."""
        for statement in items:
            ends = self._statement(statement, env, place)
            if ends is None:
                return False
            place = ends
        return True

    def _statement(self, s: ir.Statement, env: Env, place: _Place) -> _Place | None:
        """The place after it; None if nothing comes after it."""
        match s:
            case ir.Block():
                return place if self._block(s.items, env, place) else None
            case ir.VarDecl():
                self._variable(s, env, place)
            case ir.Assign():
                tables = self._tables_in(s.value, env, place)
                self._add(self._single(s, env, place, tables))
            case ir.CallStatement():
                return self._call(s.call, env, place)
            case ir.If():
                return self._if(s, env, place)
            case ir.Switch():
                return self._switch(s, env, place)
            case ir.Return() | ir.Exit():
                return None
            case ir.For() | ir.ForRange():
                self.problems.append(
                    Diagnostic(s.span, "a loop: a pipeline has none", "the rounds written out")
                )
        return place

    def _if(self, s: ir.If, env: Env, place: _Place) -> _Place | None:
        tables = self._tables_in(s.condition, env, place)
        self._condition(s.condition, env)
        match = place.match | self.read(s.condition, env)
        after = []
        for branch, body in enumerate((s.then, s.orelse)):
            inside = _Place((*place.guards, Guard(s, branch)), frozenset(match), place.follows | tables)
            end = inside if body is None else self._statement(body, env, inside)
            if end is not None:
                after.append(inside)
        # What follows an `if` of which one branch does not return runs in the other one only.
        return None if not after else place if len(after) == 2 else after[0]

    def _switch(self, s: ir.Switch, env: Env, place: _Place) -> _Place | None:
        tables = self._tables_in(s.subject, env, place)
        match = place.match | (set() if s.table else self.read(s.subject, env))
        reached = not any(c.is_default for c in s.cases)
        for branch, case in enumerate(s.cases):
            inside = _Place((*place.guards, Guard(s, branch)), frozenset(match), place.follows | tables)
            reached = self._statement(case.body, env, inside) is not None or reached
        return place if reached else None

    def _condition(self, condition: ir.Expr, env: Env) -> None:
        """A gateway compares fields with constants, or two fields for equality."""
        for node in walk(condition):
            if not isinstance(node, ir.Binary):
                continue
            both = self.read(node.left, env) and self.read(node.right, env)
            if node.op in ("<", ">", "<=", ">=") and both:
                what = f"'{node.op}' of two fields in a condition: a gateway compares them for equality only"
                self.problems.append(Diagnostic(node.span, what, "their difference, and its sign bit"))
            elif node.op in ("+", "-", "*", "/", "%", "|+|", "|-|") and both:
                what = f"'{node.op}' inside a condition: a gateway does not compute"
                self.problems.append(Diagnostic(node.span, what, "a field that was computed before"))

    def _tables_in(self, e: ir.Expr, env: Env, place: _Place) -> frozenset[Unit]:
        """Applies the tables whose result an expression uses."""
        out = set()
        for node in walk(e):
            if isinstance(node, ir.Call) and isinstance(node.target, ir.ApplyTable):
                out.add(self._table(node.target.table, node.span, env, place))
        return frozenset(out)

    # ---- units

    def _add(self, unit: Unit) -> Unit:
        self.units.append(unit)
        return unit

    def _unit(self, name: str, span: Span, place: _Place) -> Unit:
        return Unit(name, span, self.gress, None, place.guards, set(place.match), follows=set(place.follows))

    def _single(
        self, s: ir.Statement, env: Env, place: _Place, tables: frozenset[Unit] = frozenset()
    ) -> Unit:
        unit = self._unit(f"line {s.span.line}", s.span, place)
        unit.follows |= tables
        self._action((s,), env, unit)
        return unit

    def _variable(self, s: ir.VarDecl, env: Env, place: _Place) -> None:
        self._locals += 1
        env[s.variable] = f"{s.variable.name}#{self._locals}"
        if s.init is not None:
            tables = self._tables_in(s.init, env, place)
            target = ir.Var(s.variable.type, s.span, s.variable)
            self._add(self._single(ir.Assign(s.span, target, s.init), env, place, tables))

    def _call(self, call: ir.Call, env: Env, place: _Place) -> _Place | None:
        match call.target:
            case ir.ApplyTable(table):
                self._table(table, call.span, env, place)
            case ir.ActionTarget(action):
                unit = self._unit(action.name, call.span, place)
                self._action(action.body.items, self._arguments(call, action.params, env), unit)
                self._add(unit)
            case ir.ApplyBlock(instance) if isinstance(instance.declaration, ir.Control):
                inner = self._arguments(call, instance.declaration.params, env)
                outer_path, outer_ctor = self._path, self._ctor
                self._path = (*self._path, instance)
                self._ctor = {**self._ctor, **_ctor_values(instance, self._ctor)}
                self.control(instance.declaration, inner, place)
                self._path, self._ctor = outer_path, outer_ctor
            case _:
                self._add(self._single(ir.CallStatement(call.span, call), env, place))
        return place

    def _arguments(self, call: ir.Call, params: tuple[ir.Variable, ...], env: Env) -> Env:
        inner = dict(env)
        for variable, argument in zip(params, call.args, strict=False):
            if argument.value is not None:
                inner[variable] = self.path(argument.value, env)
        return inner

    def _table(self, table: ir.Table, span: Span, env: Env, place: _Place) -> Unit:
        unit = self._unit(table.name, table.span, place)
        unit.table = TableAt(self._path, table)
        unit.table_size = self._constant(table.size, DEFAULT_SIZE)
        for key in table.keys:
            unit.match |= self.read(key.expr, env)
        for use in table.actions:
            one = Unit(unit.name, use.action.span, self.gress)
            inner = dict(env)
            bound = iter(use.bound)
            for param in use.action.params:
                if param.direction:
                    inner[param] = self.path(next(bound), env)
                else:
                    inner[param] = f"{table.name}/{param.name}"
            self._action(use.action.body.items, inner, one)
            unit.reads |= {r for r in one.reads if not _is_data(r)}
            unit.writes |= one.writes
            unit.arrays.update(one.arrays)
            unit.sizes.update(one.sizes)
            unit.index_bits = max(unit.index_bits, one.index_bits)
        for name in ("counters", "meters", "registers"):
            attached = table.properties.get(name)
            if isinstance(attached, ir.InstanceRef):
                self._reach(Array(self._path, attached.instance), table.span, unit)
        for array in unit.arrays:
            if array.kind.startswith("Direct"):
                unit.sizes[array] = unit.table_size
        return self._add(unit)

    # ---- inside an action: everything happens at once

    def _action(self, items: tuple[ir.Statement, ...], env: Env, unit: Unit) -> None:
        self._steps(items, env, _Step(unit))

    def _steps(self, items: tuple[ir.Statement, ...], env: Env, step: _Step) -> None:
        for s in items:
            match s:
                case ir.Block():
                    self._steps(s.items, env, step)
                case ir.VarDecl():
                    self._locals += 1
                    env[s.variable] = f"{s.variable.name}#{self._locals}"
                    if s.init is not None:
                        self._assign(ir.Var(s.variable.type, s.span, s.variable), s.init, env, step)
                case ir.Assign():
                    self._assign(s.target, s.value, env, step)
                case ir.CallStatement(call=ir.Call(target=ir.ActionTarget(action)) as call):
                    self._steps(action.body.items, self._arguments(call, action.params, env), step)
                case ir.CallStatement():
                    self._effect(s.call, env, step.unit)
                case ir.If() | ir.Switch():
                    what = "a condition inside an action: an action does the same for every packet"
                    self.problems.append(Diagnostic(s.span, what, "a condition in apply, or two actions"))
                case ir.Return():
                    pass
                case _:
                    self.problems.append(Diagnostic(s.span, f"{type(s).__name__.lower()} inside an action"))

    def _assign(self, target: ir.Expr, value: ir.Expr, env: Env, step: _Step) -> None:
        reads: set[str] = set()
        for name in self.read(value, env):
            reads |= step.copies.get(name, {name})
        self._accesses(value, env, step.unit)
        self._arithmetic(value, env)
        early = sorted(reads & step.written.keys())
        if early:
            what = f"'{early[0]}' is computed and used in one action: that takes two stages"
            self.problems.append(Diagnostic(value.span, what, "two actions"))
        step.unit.reads |= reads
        targets = leaves(self.path(target, env), _base(target).type)
        step.unit.writes |= targets
        for name in targets:
            step.written.pop(name, None)
            step.copies.pop(name, None)
            if _is_move(value):  # whoever reads it in this action reads what it is a copy of
                step.copies[name] = reads
            else:
                step.written[name] = value.span

    def _effect(self, call: ir.Call, env: Env, unit: Unit) -> None:
        """A call for what it does: a header made valid, a counter, an array."""
        if isinstance(call.target, ir.Builtin):
            unit.writes.add(f"{self.path(call.target.object, env)}.$valid")
            return
        for argument in call.args:
            unit.reads |= self.read(argument.value, env)
            if argument.param.direction in ("out", "inout") and argument.value is not None:
                unit.writes |= leaves(self.path(argument.value, env), argument.value.type)
        self._accesses(call, env, unit)

    def _accesses(self, e: ir.Expr, env: Env, unit: Unit) -> None:
        """The arrays that an expression reaches, and what their RegisterActions read."""
        for node in walk(e):
            if not isinstance(node, ir.Call) or not isinstance(node.target, ir.Method):
                continue
            target = node.target.object
            if not isinstance(target, ir.InstanceRef):
                continue
            array = array_of(target.instance)
            if array is None:
                continue
            self._reach(Array(self._path, array), node.span, unit)
            for method in target.instance.methods.values():
                for place in places(method.body):
                    if root(place) not in method.params:
                        unit.reads |= self.read(place, env)
            if node.args and node.args[0].value is not None:
                index = node.args[0].value
                unit.index_bits = max(unit.index_bits, self._index(index))

    def _reach(self, array: Array, span: Span, unit: Unit) -> None:
        unit.arrays.setdefault(array, span)
        args = array.instance.args
        unit.sizes.setdefault(array, self._constant(args[0].value if args else None, 1))

    def _constant(self, e: ir.Expr | None, default: int) -> int:
        """The value of a size, the constructor's parameters put in."""
        while isinstance(e, ir.Cast) or (isinstance(e, ir.Var) and e.variable in self._ctor):
            e = e.operand if isinstance(e, ir.Cast) else self._ctor[e.variable]
        return int(e.value) if isinstance(e, ir.Const) and isinstance(e.value, int) else default

    def _index(self, index: ir.Expr) -> int:
        for node in walk(index):
            if isinstance(node, ir.Binary) and node.op != "++":
                what = "arithmetic in an array's index: hash distribution only moves bits"
                self.problems.append(Diagnostic(node.span, what, "a field computed a stage before"))
        return ty.bit_width(index.type) or 32

    def _arithmetic(self, e: ir.Expr, env: Env) -> None:
        """What an action's ALU cannot do."""
        for node in walk(e):
            if isinstance(node, ir.Ternary) and not all(_is_data(r) for r in self.read(node.condition, env)):
                what = "a conditional value in an action"
                self.problems.append(Diagnostic(node.span, what, "a condition in apply"))
            if not isinstance(node, ir.Binary) or not (
                self.read(node.left, env) or self.read(node.right, env)
            ):
                continue
            width = ty.bit_width(node.type) or 0
            if node.op in ("*", "/", "%"):
                self.problems.append(
                    Diagnostic(node.span, f"'{node.op}': an ALU of a stage has none", "a table")
                )
            elif node.op in ("<<", ">>") and self.read(node.right, env):
                self.problems.append(
                    Diagnostic(node.span, "a shift by a field", "a shift by a constant, or a table")
                )
            elif node.op in ("+", "-", "|+|", "|-|") and width > 32:
                what = f"arithmetic on {width} bits: a container has at most 32"
                self.problems.append(Diagnostic(node.span, what, "bit<32>"))


def _is_move(e: ir.Expr) -> bool:
    """A copy: of a field, a constant, action data, an array's or a hash's result, or several side by side."""
    match e:
        case ir.Slice():
            return _is_move(e.base)
        case ir.Cast():
            return _is_move(e.operand)
        case ir.Binary(op="++"):
            return _is_move(e.left) and _is_move(e.right)
        case ir.Aggregate():
            return all(map(_is_move, e.items))
        case ir.Call():
            return isinstance(e.target, ir.Method)
    return isinstance(e, (ir.Const, ir.Var, ir.Field, ir.Item, ir.Default))


def _is_data(path: str) -> bool:
    """Whether it is action data: the control plane has decided, as the entry was written."""
    return "/" in path


def _ctor_values(instance: ir.Instance, outer: dict[ir.Variable, ir.Expr]) -> dict[ir.Variable, ir.Expr]:
    out = {}
    assert instance.declaration is not None
    for variable, argument in zip(instance.declaration.ctor_params, instance.args, strict=False):
        value = argument.value
        while isinstance(value, ir.Var) and value.variable in outer:
            value = outer[value.variable]
        if value is not None:
            out[variable] = value
    return out


def _base(e: ir.Expr) -> ir.Expr:
    """Without its slices: what is read is the field."""
    while isinstance(e, ir.Slice):
        e = e.base
    return e
