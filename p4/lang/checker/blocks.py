"""Parsers, controls and packages."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.conversions import base_of
from p4.lang.checker.names import GenericType, TypeName
from p4.lang.checker.tables import TableChecker
from p4.lang.diagnostics import Span


class BlockChecker(TableChecker):
    """`parser`, `control` and `package` check one declaration each and declare its name."""

    def _block_type(
        self, kind: str, node: ast.ParserDecl | ast.ControlDecl | ast.PackageDecl
    ) -> tuple[ty.Block, tuple[ty.TypeVar, ...]]:
        with self.scope():
            variables = self.type_vars(node.type_params, node.span)
            params = self.param_types(node.params)
            for param, written in zip(params, node.params, strict=True):
                is_block = isinstance(param.type, ty.Block)
                if is_block and kind != "package":
                    self.sink.error(
                        written.span,
                        f"parameter '{param.name}' of type {param.type}",
                        "a constructor parameter",
                    )
            return ty.Block(kind, node.name, params, variables), variables

    def _declare_type(self, node: ast.Declaration, type_: ty.Type, variables: tuple[ty.TypeVar, ...]) -> None:
        symbol = GenericType(node.name, variables, type_) if variables else TypeName(type_)
        self.declare(node.name, symbol, node.span)

    def package(self, node: ast.PackageDecl) -> None:
        type_, variables = self._block_type("package", node)
        self._declare_type(node, type_, variables)

    # ---- parsers

    def parser(self, node: ast.ParserDecl) -> ir.Parser | None:
        type_, variables = self._block_type("parser", node)
        if node.states is None:
            self._declare_type(node, type_, variables)
            return None
        if variables:
            self.sink.error(
                node.span,
                f"parser '{node.name}' has type parameters and a body",
                "one of them: P4 lets only parser types be generic",
            )
            return None
        with self.scope("parser"):
            params = self.params(node.params)
            ctor_params = self._ctor_params(node, "parser")
            with self.scope(guarded=True):
                parser = self._parser_body(node, type_, params, ctor_params)
        self.declare(node.name, parser, node.span)
        return parser

    def _ctor_params(self, node: ast.ParserDecl | ast.ControlDecl, kind: str) -> tuple[ir.Variable, ...]:
        """The constructor's parameters: values, externs, and blocks of a declared type of the same kind."""
        for written in node.ctor_params:
            type_ = written.type
            named = self.lookup(type_.name) if isinstance(type_, ast.NamedType) else None
            if isinstance(named, (ir.Parser, ir.Control)):
                what = f"constructor parameter '{written.name}' of type {named.name}, which has a body"
                self.sink.error(written.span, what, f"a {kind} type: {kind} T(...);")
        params = self.params(node.ctor_params, "ctor")
        for param in params:
            if isinstance(param.type, ty.Block) and param.type.kind != kind:
                self.sink.error(
                    param.span, f"constructor parameter '{param.name}': a {param.type.kind}", f"a {kind}"
                )
        return params

    def _parser_body(
        self,
        node: ast.ParserDecl,
        type_: ty.Block,
        params: tuple[ir.Variable, ...],
        ctor: tuple[ir.Variable, ...],
    ) -> ir.Parser:
        locals_: list[ir.VarDecl | ir.Instance | ir.ValueSet] = []
        for part in node.locals:
            match part:
                case ast.ConstDecl():
                    self.constant(part)
                case ast.VarDecl():
                    locals_.append(self.variable(part))
                case ast.ValueSetDecl():
                    locals_.append(self._value_set(part))
                case ast.InstanceDecl():
                    instance = self.instance(part)
                    if instance is not None:
                        locals_.append(instance)
        assert node.states is not None
        names: dict[str, Span] = {}
        for state in node.states:
            if state.name in ("accept", "reject"):
                self.sink.error(state.span, f"state '{state.name}' is built in", "another name")
            elif state.name in names:
                self.sink.error(state.span, f"state '{state.name}' twice (first at {names[state.name]})")
            names.setdefault(state.name, state.span)
        if "start" not in names:
            self.sink.error(node.span, f"parser '{node.name}' has no state 'start'")
        states = tuple(self._state(s, names) for s in node.states)
        self._check_end(node, states)
        return ir.Parser(node.name, type_, params, ctor, tuple(locals_), states, node.span, node.annotations)

    def _check_end(self, node: ast.ParserDecl, states: tuple[ir.State, ...]) -> None:
        """A way from start to accept or reject must exist."""
        ways = {s.name: {c.state for c in s.transition.cases} for s in states}
        for state in states:  # a select that no case matches ends in reject (error.NoMatch)
            if state.transition.exprs and not any(_always(c) for c in state.transition.cases):
                ways[state.name].add("reject")
        seen, ahead = {"start"}, ["start"]
        while ahead:
            for name in ways.get(ahead.pop(), {"reject"}) - seen:
                seen.add(name)
                ahead.append(name)
        if not seen & {"accept", "reject"}:
            self.sink.error(
                node.span, f"parser '{node.name}' never ends", "a way from start to accept or reject"
            )

    def _value_set(self, node: ast.ValueSetDecl) -> ir.ValueSet:
        type_ = self.resolve(node.type)
        size = self.expr(node.size)
        if not self.is_compile_time(size):
            self.sink.error(node.size.span, "a value set's size known only at run time", "a constant")
        value_set = ir.ValueSet(node.name, type_, size, node.span, node.annotations)
        self.declare(node.name, value_set, node.span)
        return value_set

    def _state(self, node: ast.StateDecl, names: dict[str, Span]) -> ir.State:
        with self.scope("state"):
            body = self.items(node.items)
            transition = self._transition(node, names)
        return ir.State(node.name, body, transition, node.span, node.annotations)

    def _transition(self, node: ast.StateDecl, names: dict[str, Span]) -> ir.Transition:
        target = node.transition
        if target is None:
            # A state without a transition goes to reject (spec 13.4).
            return ir.Transition((), (ir.SelectCase((), "reject", node.span),), node.span)
        if isinstance(target, ast.GoTo):
            self._known_state(target.state, target.span, names)
            return ir.Transition((), (ir.SelectCase((), target.state, target.span),), target.span)
        exprs = tuple(self._selected(e) for e in target.exprs)
        cases = []
        for case in target.cases:
            self._known_state(case.state, case.span, names)
            matches = self.keyset(case.keyset, [e.type for e in exprs], "this case of select")
            for match in matches or ():
                for part in (match.value, match.second):
                    if part is not None and match.kind != "set" and not self.is_compile_time(part):
                        self.sink.error(part.span, "a value known only at run time in a case", "a constant")
            if matches is not None:
                cases.append(ir.SelectCase(matches, case.state, case.span))
        return ir.Transition(exprs, tuple(cases), target.span)

    def _selected(self, node: ast.Expr) -> ir.Expr:
        value = self.expr(node)
        if value.type == ty.INT:
            self.sink.error(node.span, "select of a constant without a width", "a width, e.g. 8w1")
            return ir.Default(ty.UNKNOWN, node.span)
        if not self._selectable(value.type):
            self.sink.error(node.span, f"select of {value.type}", "bit<>, int<>, bool, an enum or error")
            return ir.Default(ty.UNKNOWN, node.span)
        return value

    def _selectable(self, type_: ty.Type) -> bool:
        base = base_of(type_)
        if isinstance(base, ty.Tuple):
            return all(map(self._selectable, base.items))
        return isinstance(base, (ty.Bits, ty.EnumType)) or base in (ty.BOOL, ty.ERROR, ty.UNKNOWN)

    def _known_state(self, name: str, span: Span, names: dict[str, Span]) -> None:
        if name not in names and name not in ("accept", "reject"):
            self.sink.error(span, f"unknown state '{name}'", ", ".join([*names, "accept", "reject"][:8]))

    # ---- controls

    def control(self, node: ast.ControlDecl) -> ir.Control | None:
        type_, variables = self._block_type("control", node)
        if node.body is None:
            self._declare_type(node, type_, variables)
            return None
        if variables:
            self.sink.error(
                node.span,
                f"control '{node.name}' has type parameters and a body",
                "one of them: P4 lets only control types be generic",
            )
            return None
        with self.scope("control"):
            params = self.params(node.params)
            ctor_params = self._ctor_params(node, "control")
            with self.scope(guarded=True):
                locals_: list[ir.VarDecl | ir.Instance | ir.Action | ir.Table] = []
                for part in node.locals:
                    locals_.extend(self._control_part(part))
                with self.scope("apply"):
                    outer, self.returns = self.returns, ty.VOID
                    body = self.block(node.body)
                    self.returns = outer
        control = ir.Control(
            node.name, type_, params, ctor_params, tuple(locals_), body, node.span, node.annotations
        )
        self.declare(node.name, control, node.span)
        return control

    def _control_part(self, part: ast.Declaration) -> list[ir.VarDecl | ir.Instance | ir.Action | ir.Table]:
        match part:
            case ast.ConstDecl():
                self.constant(part)
            case ast.VarDecl():
                return [self.variable(part)]
            case ast.ActionDecl():
                return [self.action(part)]
            case ast.TableDecl():
                return [self.table(part)]
            case ast.InstanceDecl():
                instance = self.instance(part)
                return [] if instance is None else [instance]
        return []


def _always(case: ir.SelectCase) -> bool:
    """Whether the case matches whatever comes."""
    return all(m.kind == "any" for m in case.matches)
