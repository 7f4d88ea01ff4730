"""Calls as C++: functions, actions, blocks, tables, built-in methods. Externs are in externs.py.

P4 copies arguments in and results out. A reference does the same as long as no two arguments overlap and the
callee cannot reach the argument otherwise; where that is not certain, a temporary is copied back.
"""

from __future__ import annotations

from p4.codegen.code import unsupported
from p4.codegen.expressions import has_effects
from p4.codegen.externs import ExternWriter
from p4.codegen.layout import base_of
from p4.codegen.objects import ObjectRef
from p4.lang import ir
from p4.lang import types as ty


class CallWriter(ExternWriter):
    """`call_lines` gives a call as statements, `call` as a value."""

    # How this block's members are named; set by the writers of parsers and controls.
    actions: dict[ir.Action, str]
    tables: dict[ir.Table, str]
    blocks: dict[ir.Instance, str]
    functions: dict[ir.Function, str]
    frame_argument = "f"

    @property
    def rehearsal(self) -> str:
        """Behind the name of a member function that is compiled twice (announce.py)."""
        return "" if self.followed is None else "<Rehearsal>"

    def call_lines(self, e: ir.Call) -> list[str]:
        """The call as statements, its value dropped."""
        target = e.target
        match target:
            case ir.Builtin():
                return self._builtin(e, target)
            case ir.ExternFunction() | ir.Method():
                return self.extern_lines(e)
            case ir.ApplyTable():
                return [f"{self.tables[target.table]}{self.rehearsal}({self.frame_argument});"]
        before, callee, after = self._prepared(e)
        return [*before, f"{callee};", *after]

    def call(self, e: ir.Call) -> str:
        target = e.target
        match target:
            case ir.Builtin() if target.name == "isValid":
                base = self.expr(target.object)
                union = (
                    isinstance(target.object.type, ty.Record) and target.object.type.kind == "header_union"
                )
                return f"{base}.is_valid()" if union else f"{base}.valid_"
            case ir.ExternFunction() | ir.Method():
                return self.extern_value(e)
            case ir.ApplyTable():
                return f"{self.tables[target.table]}{self.rehearsal}({self.frame_argument})"
            case ir.FunctionTarget():
                before, callee, after = self._prepared(e)
                if not before and not after:
                    return callee
                # A statement expression: the copies happen around the call, wherever the value is used.
                return f"({{ {' '.join(before)} auto value_ = {callee}; {' '.join(after)} value_; }})"
        raise unsupported(e.span, "this call as a value")

    def _prepared(self, e: ir.Call) -> tuple[list[str], str, list[str]]:
        """What comes before, the call itself, what comes after."""
        target = e.target
        match target:
            case ir.ActionTarget():
                name, first = self.actions[target.action] + self.rehearsal, [self.frame_argument]
            case ir.FunctionTarget():
                name, first = self.functions[target.function], [self.context_argument]
            case ir.ApplyBlock():
                block = self.block_member(target.instance, e)
                name, first = f"{block}.apply{self.rehearsal}", [self.context_argument]
            case _:
                raise unsupported(e.span, "this call")
        copy_all = isinstance(target, ir.ActionTarget)
        before: list[str] = []
        after: list[str] = []
        arguments: list[str] = []
        in_order = any(a.value is not None and has_effects(a.value) for a in e.args)
        paths = [self._path(a.value) if a.value is not None else "" for a in e.args]
        for at, argument in enumerate(e.args):
            others = [p for i, p in enumerate(paths) if i != at]
            arguments.append(
                self._argument(
                    argument,
                    paths[at],
                    others,
                    copy_all=copy_all,
                    in_order=in_order,
                    before=before,
                    after=after,
                )
            )
        return before, f"{name}({', '.join([*first, *arguments])})", after

    def block_member(self, instance: ir.Instance, e: ir.Call) -> str:
        if instance in self.blocks:
            return self.blocks[instance]
        passed = self.passed_block(instance)
        if passed is None:
            raise unsupported(e.span, f"applying '{instance.name}' here")
        return self.objects.text(passed, self.context_argument)

    def passed_block(self, instance: ir.Instance) -> ObjectRef | None:
        """The block that a constructor's parameter of this name stands for."""
        found = (v for k, v in self.ctor.items() if k.name == instance.name)
        return next((v for v in found if isinstance(v, ObjectRef)), None)

    def _argument(
        self,
        argument: ir.Argument,
        path: str,
        others: list[str],
        *,
        copy_all: bool,
        in_order: bool,
        before: list[str],
        after: list[str],
    ) -> str:
        param, value = argument.param, argument.value
        cpp = self.cpp(param.type)
        if value is None:
            name = self.temporary()
            before.append(f"{cpp} {name}{{}};")
            return name
        if isinstance(param.type, ty.Extern):
            return self.place(value) or self.expr(value)
        if param.direction not in ("out", "inout"):
            text = self.expr(value)
            if in_order:
                name = self.temporary()
                before.append(f"{cpp} {name} = {text};")
                return name
            structured = isinstance(base_of(param.type), (ty.Record, ty.Stack, ty.Tuple))
            overlaps = any(_overlap(path, o) for o in others if o)
            return f"{cpp}({text})" if structured and (overlaps or copy_all) else text
        overlaps = copy_all or not path or any(_overlap(path, o) for o in others if o)
        if not overlaps:
            return self.expr(value)
        name = self.temporary()
        before.append(
            f"{cpp} {name} = {self.expr(value)};" if param.direction == "inout" else f"{cpp} {name}{{}};"
        )
        after.append(self.assignment(value, name))
        return name

    def _path(self, e: ir.Expr) -> str:
        """An lvalue's text if it is a plain path; "" for a slice, an element at a run-time index, a value."""
        if isinstance(e, ir.Var):
            return self.expr(e)
        if isinstance(e, ir.Field) and not isinstance(e.base.type, ty.ApplyResult):
            base = self._path(e.base)
            return self.expr(e) if base else ""
        return ""

    def assignment(self, target: ir.Expr, value: str) -> str:
        """One statement that assigns, also to a slice and to a member of a union."""
        if isinstance(target, (ir.Slice, ir.SliceAt)) and isinstance(target.base, ir.SliceAt):
            raise unsupported(target.span, "an assignment to a slice of a slice at a run-time position")
        if isinstance(target, ir.SliceAt):
            if isinstance(target.base, ir.Slice):
                raise unsupported(target.span, "an assignment at a run-time position in a slice")
            base, start = self.expr(target.base), self.expr(target.low)
            return f"set_slice_at({base}, shift_amount({start}), {value});"
        if isinstance(target, ir.Slice):
            high, low = target.high, target.low
            inner: ir.Expr = target.base
            while isinstance(inner, ir.Slice):
                high, low = high + inner.low, low + inner.low
                inner = inner.base
            while isinstance(inner, ir.Cast):
                inner = inner.operand
            return f"set_slice<{high}, {low}>({self.expr(inner)}, {value});"
        union = self.union_of(target)
        if union:
            text = self.expr(target)
            return f"{text} = {value}; if ({text}.valid_) {union}.only(&{text});"
        return f"{self.expr(target)} = {value};"

    def union_of(self, target: ir.Expr) -> str:
        """The union that a header is a member of, as C++; "" if it is none's."""
        if not isinstance(target, ir.Field) or not isinstance(target.base.type, ty.Record):
            return ""
        return self.expr(target.base) if target.base.type.kind == "header_union" else ""

    def _builtin(self, e: ir.Call, target: ir.Builtin) -> list[str]:
        base = self.expr(target.object)
        match target.name:
            case "setValid":
                union = self.union_of(target.object)
                return [f"{base}.set_valid();", *([f"{union}.only(&{base});"] if union else [])]
            case "setInvalid":
                return [f"{base}.valid_ = false;"]
            case "push_front" | "pop_front":
                amount = e.args[0].value
                assert amount is not None
                return [f"{base}.{target.name}({self.integer(amount)});"]
        return []  # isValid() whose answer nobody reads


def _overlap(a: str, b: str) -> bool:
    return a == b or a.startswith(b + ".") or b.startswith(a + ".")
