"""Statements."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.conversions import base_of
from p4.lang.checker.declarations import DeclarationChecker


class StatementChecker(DeclarationChecker):
    """`block` checks a body in a new scope."""

    loops = 0

    def block(self, node: ast.Block, *, guarded: bool = False) -> ir.Block:
        with self.scope(guarded=guarded):
            return ir.Block(node.span, self.items(node.items))

    def items(self, nodes: tuple[ast.Node, ...]) -> tuple[ir.Statement, ...]:
        return tuple(s for n in nodes for s in self.item(n))

    def item(self, node: ast.Node) -> list[ir.Statement]:
        """One statement or declaration; a declaration of an object leaves no statement."""
        match node:
            case ast.VarDecl():
                return [self.variable(node)]
            case ast.ConstDecl():
                self.constant(node)
                return []
            case ast.InstanceDecl():
                self.instance(node)
                return []
            case ast.Statement():
                return [self.statement(node)]
        raise AssertionError(f"no statement {type(node).__name__}")

    # ---- statements

    def statement(self, node: ast.Statement) -> ir.Statement:
        span = node.span
        match node:
            case ast.Block():
                return self.block(node)
            case ast.Assign():
                return self._assign(node)
            case ast.CallStatement():
                return self._call_statement(node)
            case ast.If():
                condition = self.value(node.condition, ty.BOOL, "the condition of 'if'")
                then = self.nested(node.then)
                return ir.If(span, condition, then, self.nested(node.orelse) if node.orelse else None)
            case ast.Switch():
                return self._switch(node)
            case ast.Exit():
                if self.context not in ("apply", "action"):
                    self.sink.error(span, "'exit' outside a control or an action")
                return ir.Exit(span)
            case ast.Return():
                return self._return(node)
            case ast.Empty():
                return ir.Block(span, ())
            case ast.For():
                with self.scope():
                    inits = self.items(node.inits)
                    condition = self.value(node.condition, ty.BOOL, "the condition of 'for'")
                    updates = tuple(self.statement(u) for u in node.updates)
                    return ir.For(span, inits, condition, updates, self._loop_body(node.body))
            case ast.ForIn():
                return self._for_in(node)
            case ast.Break() | ast.Continue():
                word = "break" if isinstance(node, ast.Break) else "continue"
                if not self.loops:
                    self.sink.error(span, f"'{word}' outside a loop")
                return ir.Break(span) if word == "break" else ir.Continue(span)
        raise AssertionError(f"no statement {type(node).__name__}")

    def nested(self, node: ast.Statement) -> ir.Statement:
        with self.scope():
            return self.statement(node)

    def _loop_body(self, node: ast.Statement) -> ir.Statement:
        self.loops += 1
        body = self.nested(node)
        self.loops -= 1
        return body

    def _for_in(self, node: ast.ForIn) -> ir.Statement:
        type_ = self.resolve(node.type)
        if node.last is None:
            return self._for_each(node, type_)
        if not isinstance(base_of(type_), ty.Bits) and type_ != ty.UNKNOWN:
            self.sink.error(node.type.span, f"'for' over values of type {type_}", "bit<> or int<>")
        first = self.value(node.first, type_, "the first value")
        last = self.value(node.last, type_, "the last value")
        with self.scope():
            variable = ir.Variable(node.name, type_, "local", node.span)
            self.declare(node.name, variable, node.span)
            return ir.ForRange(node.span, variable, first, last, self._loop_body(node.body))

    def _for_each(self, node: ast.ForIn, type_: ty.Type) -> ir.Statement:
        """Over a header stack, or a list of values."""
        collection = self.expr(node.first)
        match collection:
            case _ if isinstance(collection.type, ty.Stack):
                if collection.type.element not in (type_, ty.UNKNOWN) and type_ != ty.UNKNOWN:
                    self.sink.error(
                        node.type.span,
                        f"'for' over {collection.type} with a {type_}",
                        str(collection.type.element),
                    )
            case ir.Aggregate(type=ty.Tuple() | ty.ListOf()):
                items = tuple(self.convert(i, type_, "an item of the list") for i in collection.items)
                collection = ir.Aggregate(ty.ListOf(type_), collection.span, items)
            case _:
                if collection.type != ty.UNKNOWN:
                    self.sink.error(
                        node.first.span, f"'for' over {collection.type}", "a range, a list or a header stack"
                    )
                collection = ir.Aggregate(ty.ListOf(type_), collection.span, ())
        with self.scope():
            variable = ir.Variable(node.name, type_, "local", node.span)
            self.declare(node.name, variable, node.span)
            return ir.ForEach(node.span, variable, collection, self._loop_body(node.body))

    def _assign(self, node: ast.Assign) -> ir.Statement:
        target = self.expr(node.target)
        if not self.is_lvalue(target):
            self.sink.error(
                node.target.span,
                "this cannot be assigned to",
                "a variable, a field, or an out or inout parameter",
            )
            self.expr(node.value)
            return ir.Block(node.span, ())
        if node.op:
            right = self.expr(node.value, target.type)
            value = self.binary(node.op, target, right, node.span)
            if value.type not in (target.type, ty.UNKNOWN):
                value = self.convert(value, target.type, f"the value of '{node.op}='")
        else:
            value = self.value(node.value, target.type, "the assigned value")
        return ir.Assign(node.span, target, value)

    def _call_statement(self, node: ast.CallStatement) -> ir.Statement:
        if not isinstance(node.call, ast.Call):
            self.sink.error(node.span, "a value alone is not a statement", "an assignment or a call")
            return ir.Block(node.span, ())
        call = self.expr(node.call)
        if isinstance(call, ir.Call) and isinstance(call.target, ir.Construct):
            self.sink.error(node.span, "an object made and dropped", "a name for it")
        if not isinstance(call, ir.Call):  # a call that is a constant, or one already reported
            return ir.Block(node.span, ())
        return ir.CallStatement(node.span, call)

    def _return(self, node: ast.Return) -> ir.Statement:
        if self.context in ("parser", "state"):
            self.sink.error(node.span, "'return' inside a parser")
        if node.value is None:
            if self.returns != ty.VOID:
                self.sink.error(node.span, "'return' without a value", str(self.returns))
            return ir.Return(node.span, None)
        if self.returns == ty.VOID:
            self.sink.error(node.span, "'return' with a value where none is returned")
            self.expr(node.value)
            return ir.Return(node.span, None)
        return ir.Return(node.span, self.value(node.value, self.returns, "the returned value"))

    # ---- switch

    def _switch(self, node: ast.Switch) -> ir.Statement:
        if self.context in ("parser", "state"):
            self.sink.error(node.span, "'switch' inside a parser", "a select transition")
        subject = self.expr(node.subject)
        table: ir.Table | None = None
        if isinstance(subject.type, ty.ActionRun):
            call = subject.base if isinstance(subject, ir.Field) else None
            if isinstance(call, ir.Call) and isinstance(call.target, ir.ApplyTable):
                table, subject = call.target.table, call
        elif isinstance(subject.type, ty.EnumType):
            pass
        elif not isinstance(base_of(subject.type), ty.Bits) and subject.type not in (
            ty.UNKNOWN,
            ty.BOOL,
            ty.ERROR,
        ):
            self.sink.error(
                node.subject.span, f"'switch' on {subject.type}", "table.apply().action_run, bits or an enum"
            )
        cases: list[ir.SwitchCase] = []
        pending: list[ir.Expr | ir.Action] = []
        pending_default = seen_default = False
        seen: set[object] = set()
        for index, case in enumerate(node.cases):
            if isinstance(case.label, ast.AnySet):
                if seen_default:
                    self.sink.error(case.span, "'default' twice in a switch")
                if index < len(node.cases) - 1:
                    self.sink.error(case.span, "'default' before the last label", "it at the end")
                seen_default = pending_default = True
            else:
                label = self._switch_label(case.label, subject, table)
                if label is not None:
                    key = label.value if isinstance(label, ir.Const) else label
                    if key in seen:
                        self.sink.error(case.span, "the same label twice in a switch")
                    seen.add(key)
                    pending.append(label)
            if case.block is not None:
                cases.append(ir.SwitchCase(tuple(pending), pending_default, self.block(case.block)))
                pending, pending_default = [], False
        return ir.Switch(node.span, subject, table, tuple(cases))

    def _switch_label(
        self, node: ast.Expr, subject: ir.Expr, table: ir.Table | None
    ) -> ir.Expr | ir.Action | None:
        if table is not None:
            if isinstance(node, ast.Name):
                for use in table.actions:
                    if use.action.name == node.name:
                        return use.action
            names = ", ".join(u.action.name for u in table.actions)
            self.sink.error(node.span, f"no action of table '{table.name}'", names)
            return None
        label = self.value(node, subject.type, "a label of the switch")
        if not isinstance(label, ir.Const):
            if label.type != ty.UNKNOWN:
                self.sink.error(node.span, "a label known only at run time", "a constant")
            return None
        return label
