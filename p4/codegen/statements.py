"""Statements as C++."""

from __future__ import annotations

from p4.codegen.ahead import MARK, looks_at_queue
from p4.codegen.code import Code, unsupported
from p4.codegen.expressions import has_effects
from p4.codegen.layout import base_of
from p4.codegen.runs import RunWriter
from p4.lang import ir
from p4.lang import types as ty


class StatementWriter(RunWriter):
    """`statement` writes to `code`."""

    code: Code
    # The actions, tables and blocks whose call may end with `exit`.
    exiting: set[object]

    def block(self, block: ir.Block) -> None:
        at = 0
        while at < len(block.items):
            written = self.write_run(block.items, at)
            if not written:
                self.statement(block.items[at])
            elif any(map(looks_at_queue, block.items[at : at + written])):
                self.mark_look_at_queue()
            at += written or 1

    def braced(self, head: str, body: ir.Statement, tail: str = "}") -> None:
        with self.code.block(head, tail):
            self.block(body) if isinstance(body, ir.Block) else self.statement(body)

    def begin_member(self, code: Code) -> None:
        """Before a member function's head."""
        if self.followed is not None:
            code.line("template <bool Rehearsal>")

    def mark_look_at_queue(self) -> None:
        """What runs here has read of queue or clock."""
        self.code.line(f"{self.context_argument}.{MARK} = true;")

    def statement(self, s: ir.Statement) -> None:
        code = self.code
        if looks_at_queue(s):
            self.mark_look_at_queue()
        match s:
            case ir.Block():
                if s.items:
                    self.braced("", s)
            case ir.VarDecl():
                init = "{}" if s.init is None else f" = {self.expr(s.init)}"
                cpp = self.cpp(s.variable.type)
                code.line(f"{cpp} {self.declare(s.variable)}{init};")
                if s.init is not None:
                    self._leave_if_exited(s.init)
            case ir.Assign():
                self._assign(s)
                self._leave_if_exited(s.value)
            case ir.CallStatement():
                lines = self.call_lines(s.call)
                temporaries = len(lines) > 1 and lines[0] != "{" and not lines[0].startswith("if (")
                for line in ["{", *lines, "}"] if temporaries else lines:
                    code.line(line)
                self._leave_if_exited(s.call)
            case ir.If():
                self._if(s)
            case ir.Switch():
                self._switch(s)
            case ir.Exit():
                code.line(f"{self.context_argument}.exited = true;")
                code.line("return;")
            case ir.Return():
                code.line("return;" if s.value is None else f"return {self.expr(s.value)};")
            case ir.For():
                self._for(s)
            case ir.ForRange():
                self._for_range(s)
            case ir.ForEach():
                self._for_each(s)
            case ir.Break():
                code.line("break;")
            case ir.Continue():
                code.line("continue;")
            case _:
                raise unsupported(s.span, type(s).__name__)

    def _assign(self, s: ir.Assign) -> None:
        effects = has_effects(s.value) or has_effects(s.target)
        if not effects or isinstance(s.target, (ir.Var, ir.Slice, ir.SliceAt)) or self.union_of(s.target):
            self.code.line(self.assignment(s.target, self.expr(s.value)))
            return
        # P4 finds the place before it evaluates the value; C++ the other way round.
        place = self.temporary()
        with self.code.block(""):
            self.code.line(f"auto& {place} = {self.expr(s.target)};")
            self.places[s.target] = place  # `target += value` reads the same place, found once
            self.code.line(f"{place} = {self.expr(s.value)};")
            del self.places[s.target]

    def _if(self, s: ir.If) -> None:
        condition = self.expr(s.condition)
        if self._may_exit(s.condition):
            name = self.temporary()
            self.code.line(f"const bool {name} = {condition};")
            self._leave_if_exited(s.condition)
            condition = name
        if s.orelse is None:
            self.braced(f"if ({condition})", s.then)
            return
        self.braced(f"if ({condition})", s.then, "} else {")
        self.code.indent += 1
        self.statement(s.orelse)
        self.code.indent -= 1
        self.code.line("}")

    def _switch(self, s: ir.Switch) -> None:
        """An if chain: no case falls through once it has a block, and labels are any constants."""
        subject = self.temporary()
        value = self.expr(s.subject)
        with self.code.block(""):
            self.code.line(f"const auto {subject} = {value};")
            self._leave_if_exited(s.subject)
            head = "if"
            for case in s.cases:
                if case.is_default:
                    tests = ["true"]
                elif s.table is not None:
                    numbers = [self._action_number(s.table, label) for label in case.labels]
                    tests = [f"{subject}.action == {n}" for n in numbers]
                else:
                    tests = [
                        f"{subject} == {self.expr(label)}"
                        for label in case.labels
                        if isinstance(label, ir.Expr)
                    ]
                self.braced(f"{head} ({' || '.join(tests)})", case.body)
                head = "else if"

    @staticmethod
    def _action_number(table: ir.Table, label: ir.Expr | ir.Action) -> int:
        return next(i for i, use in enumerate(table.actions) if use.action is label)

    def _for(self, s: ir.For) -> None:
        with self.code.block(""):
            for init in s.inits:
                self.statement(init)
            # The updates stand in the for's head, so that `continue` reaches them.
            outer, self.code = self.code, Code()
            for update in s.updates:
                self.statement(update)
            updates, self.code = self.code, outer
            step = f"({{ {' '.join(line.strip() for line in updates.lines)} }})"
            with self.code.block(f"for (; {self.expr(s.condition)}; {step})"):
                self.code.line(f"{self.context_argument}.step();")
                self.statement(s.body)

    def _for_range(self, s: ir.ForRange) -> None:
        first, last, more = (self.temporary() for _ in range(3))
        cpp = self.cpp(s.variable.type)
        base = base_of(s.variable.type)
        one = self.number(1, base) if isinstance(base, ty.Bits) else "1"
        with self.code.block(""):
            self.code.line(f"{cpp} {first} = {self.expr(s.first)};")
            self.code.line(f"const {cpp} {last} = {self.expr(s.last)};")
            # Counts up to the last value without stepping over the width's end.
            step = f"{more} = {first} < {last}, {first} = {first} + {one}"
            name = self.declare(s.variable)
            with self.code.block(f"for (bool {more} = {first} <= {last}; {more}; {step})"):
                self.code.line(f"{self.context_argument}.step();")
                self.code.line(f"{cpp} {name} = {first};")
                self.statement(s.body)

    def _for_each(self, s: ir.ForEach) -> None:
        cpp = self.cpp(s.variable.type)
        items, item = self.temporary(), self.temporary()
        with self.code.block(""):
            if isinstance(s.collection, ir.Aggregate):
                if not s.collection.items:
                    return
                values = ", ".join(self.expr(i) for i in s.collection.items)
                self.code.line(f"const {cpp} {items}[] = {{{values}}};")
            else:  # a copy: the body may change the stack
                self.code.line(f"const auto {items} = {self.expr(s.collection)}.items_copy();")
            name = self.declare(s.variable)
            with self.code.block(f"for (const auto& {item} : {items})"):
                self.code.line(f"{self.context_argument}.step();")
                self.code.line(f"{cpp} {name} = {item};")
                self.statement(s.body)

    # ---- exit

    def _leave_if_exited(self, e: ir.Expr) -> None:
        if self._may_exit(e):
            self.code.line(f"if ({self.context_argument}.exited) return;")
        elif self.followed is not None and isinstance(e, ir.Call):
            self.code.line(f"if (Rehearsal && {self.context_argument}.exited) return;")

    def _may_exit(self, e: ir.Expr) -> bool:
        match e:
            case ir.Call():
                match e.target:
                    case ir.ActionTarget():
                        return e.target.action in self.exiting
                    case ir.ApplyTable():
                        return e.target.table in self.exiting
                    case ir.ApplyBlock():
                        return e.target.instance in self.exiting
                return False
            case ir.Field():
                return self._may_exit(e.base)
            case ir.Unary() | ir.Cast():
                return self._may_exit(e.operand)
            case ir.Binary():
                return self._may_exit(e.left) or self._may_exit(e.right)
            case ir.Ternary():
                return self._may_exit(e.condition) or self._may_exit(e.yes) or self._may_exit(e.no)
        return False


def has_exit(s: ir.Statement, called: set[object]) -> bool:
    """Whether an `exit` stands in the statement; what it calls is added to `called`."""

    def calls(e: ir.Expr | None) -> None:
        match e:
            case ir.Call():
                match e.target:
                    case ir.ActionTarget():
                        called.add(e.target.action)
                    case ir.ApplyTable():
                        called.add(e.target.table)
                    case ir.ApplyBlock():
                        called.add(e.target.instance)
                for argument in e.args:
                    calls(argument.value)
            case ir.Field() | ir.Slice() | ir.SliceAt():
                calls(e.base)
            case ir.Unary() | ir.Cast():
                calls(e.operand)
            case ir.Binary():
                calls(e.left)
                calls(e.right)
            case ir.Ternary():
                calls(e.condition)
                calls(e.yes)
                calls(e.no)

    match s:
        case ir.Exit():
            return True
        case ir.Block():
            return any(has_exit(i, called) for i in s.items)
        case ir.If():
            calls(s.condition)
            inner = [has_exit(s.then, called)]
            if s.orelse is not None:
                inner.append(has_exit(s.orelse, called))
            return any(inner)
        case ir.Switch():
            calls(s.subject)
            return any(has_exit(c.body, called) for c in s.cases)
        case ir.For() | ir.ForRange() | ir.ForEach():
            return has_exit(s.body, called)
        case ir.Assign():
            calls(s.value)
        case ir.VarDecl():
            calls(s.init)
        case ir.CallStatement():
            calls(s.call)
    return False
