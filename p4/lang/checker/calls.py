"""Calls: which function, method, action, table or block is meant."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.constructors import ConstructorChecker
from p4.lang.checker.conversions import unknown
from p4.lang.checker.names import FunctionSet, GenericType, Overload, Symbol, TypeName
from p4.lang.diagnostics import Span

_HEADER_METHODS = {
    "isValid": ty.BOOL,
    "setValid": ty.VOID,
    "setInvalid": ty.VOID,
    "minSizeInBits": ty.INT,
    "minSizeInBytes": ty.INT,
    "maxSizeInBits": ty.INT,
    "maxSizeInBytes": ty.INT,
}


class CallChecker(ConstructorChecker):
    """`call` resolves one call expression."""

    def call(self, node: ast.Call) -> ir.Expr:
        callee = node.callee
        if isinstance(callee, ast.TypeExpr):
            return self.construct(node, self.constructed(callee.type))
        if isinstance(callee, ast.Member):
            return self._member_call(node, callee)
        if isinstance(callee, ast.Name):
            return self._named_call(node, callee)
        self.sink.error(callee.span, "this cannot be called", "a function, method, action, table or block")
        return unknown(node.span)

    # ---- by name

    def _named_call(self, node: ast.Call, callee: ast.Name) -> ir.Expr:
        symbol = self.lookup(callee.name, callee.is_global)
        match symbol:
            case FunctionSet():
                return self._function_call(node, symbol)
            case ir.Action():
                return self._action_call(node, symbol)
            case TypeName() | GenericType() | ir.Parser() | ir.Control():
                named = ast.NamedType(callee.span, callee.name, callee.is_global)
                type_node: ast.TypeNode = named
                if node.type_args:
                    type_node = ast.SpecializedType(callee.span, named, node.type_args)
                return self.construct(node, self.constructed(type_node))
            case None:
                self.sink.error(
                    callee.span, f"unknown function or action '{callee.name}'", self.suggest(callee.name)
                )
            case _:
                hint = f"{callee.name}.apply()" if isinstance(symbol, (ir.Table, ir.Instance)) else ""
                self.sink.error(
                    callee.span, f"'{callee.name}' is {self.describe(symbol)}: it cannot be called", hint
                )
        return unknown(node.span)

    def _function_call(self, node: ast.Call, functions: FunctionSet) -> ir.Expr:
        overload = self._choose(functions, node)
        if overload is None:
            return unknown(node.span)
        bound = self.bind_call(overload.signature, node.type_args, node.args, node.span)
        if bound is None:
            return unknown(node.span)
        signature, args, type_args = bound
        if functions.name == "static_assert" and overload.declaration.body is None:
            return self._static_assert(node.span, args)
        target: ir.Target
        if overload.declaration.body is None:
            target = ir.ExternFunction(overload.signature.name)
            if overload.signature.name == "verify" and self.context not in ("state", "parser"):
                self.sink.error(node.span, "verify() outside a parser")
        elif overload.function is not None:
            target = ir.FunctionTarget(overload.function)
        else:
            target = ir.FunctionTarget(self.instantiate(overload, type_args))
        assert signature.returns is not None
        return ir.Call(signature.returns, node.span, target, args, type_args)

    def _static_assert(self, span: Span, args: tuple[ir.Argument, ...]) -> ir.Expr:
        check = args[0].value
        if not isinstance(check, ir.Const):
            self.sink.error(span, "static_assert of a value known only at run time", "a compile-time bool")
        elif not check.value:
            message = args[1].value if len(args) > 1 else None
            text = f": {message.value}" if isinstance(message, ir.Const) else ""
            self.sink.error(span, f"static_assert failed{text}")
        return ir.Const(ty.BOOL, span, True)

    def _choose(self, functions: FunctionSet, node: ast.Call) -> Overload | None:
        fitting = [o for o in functions.overloads if self._takes(o.signature, node.args)]
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            shown = "; ".join(str(o.signature) for o in functions.overloads[:4])
            self.sink.error(
                node.span, f"'{functions.name}' cannot take these {len(node.args)} arguments", shown
            )
        else:
            self.sink.error(
                node.span,
                f"call of '{functions.name}' is ambiguous",
                "; ".join(str(o.signature) for o in fitting),
            )
        return None

    def instantiate(self, overload: Overload, type_args: tuple[ty.Type, ...]) -> ir.Function:
        """A generic function's body checked for these types. Defined by a layer above."""
        raise NotImplementedError

    def _action_call(self, node: ast.Call, action: ir.Action) -> ir.Expr:
        if self.context not in ("apply", "action"):
            self.sink.error(
                node.span, f"action '{action.name}' called outside a control's apply block or an action"
            )
        bound = self.bind_call(action.signature, node.type_args, node.args, node.span)
        if bound is None:
            return unknown(node.span)
        return ir.Call(ty.VOID, node.span, ir.ActionTarget(action), bound[1])

    # ---- members

    def _member_call(self, node: ast.Call, callee: ast.Member) -> ir.Expr:
        base_node = callee.base
        symbol: Symbol | None = None
        if isinstance(base_node, ast.Name):
            symbol = self.lookup(base_node.name, base_node.is_global)
            if isinstance(symbol, ir.Table):
                return self._table_call(node, callee, symbol)
            if isinstance(symbol, (ir.Parser, ir.Control)):
                return self._direct_apply(node, callee, ast.NamedType(base_node.span, base_node.name))
        if isinstance(base_node, ast.TypeExpr):
            type_ = self.resolve(base_node.type)
            if isinstance(type_, ty.Block):
                return self._direct_apply(node, callee, base_node.type)
            if (
                isinstance(type_, ty.Record)
                and callee.name in _HEADER_METHODS
                and callee.name
                not in (
                    "isValid",
                    "setValid",
                    "setInvalid",
                )
            ):
                return self._size_of(type_, callee, node.span)
            if type_ != ty.UNKNOWN:
                self.sink.error(callee.span, f"'{type_}' has no '{callee.name}' that can be called")
            return unknown(node.span)
        base = self.expr(base_node)
        type_ = base.type
        match type_:
            case ty.Extern():
                return self._method_call(node, callee, base, type_)
            case ty.Block():
                return self._block_call(node, callee, base)
            case ty.Record() | ty.Stack():
                return self._builtin_call(node, callee, base)
            case _ if callee.name in _HEADER_METHODS and "SizeIn" in callee.name:
                return self._size_of(type_, callee, node.span)
        if type_ != ty.UNKNOWN:
            self.sink.error(callee.span, f"{type_} has no method '{callee.name}'")
        return unknown(node.span)

    def _table_call(self, node: ast.Call, callee: ast.Member, table: ir.Table) -> ir.Expr:
        if callee.name != "apply" or node.args or node.type_args:
            self.sink.error(callee.span, f"'{callee.name}' of table '{table.name}'", "apply()")
            return unknown(node.span)
        if self.context != "apply":
            self.sink.error(node.span, f"table '{table.name}' applied outside a control's apply block")
        return ir.Call(ty.ApplyResult(table.name), node.span, ir.ApplyTable(table), ())

    def _direct_apply(self, node: ast.Call, callee: ast.Member, type_node: ast.TypeNode) -> ir.Expr:
        """``Control.apply(...)``: an instance without a name, applied once."""
        construct = ast.Call(node.span, ast.TypeExpr(type_node.span, type_node), (), ())
        made = self.construct(construct, self.constructed(type_node))
        if not isinstance(made, ir.Call) or not isinstance(made.target, ir.Construct):
            return unknown(node.span)
        reference = ir.InstanceRef(made.type, node.span, made.target.instance)
        return self._block_call(node, callee, reference)

    def _block_call(self, node: ast.Call, callee: ast.Member, base: ir.Expr) -> ir.Expr:
        assert isinstance(base.type, ty.Block)
        if callee.name != "apply":
            self.sink.error(callee.span, f"{base.type} has no method '{callee.name}'", "apply")
            return unknown(node.span)
        if not isinstance(base, ir.InstanceRef):
            if isinstance(base, ir.Var):  # a block passed to a constructor
                bound = self.bind_call(
                    ty.Signature("apply", (), base.type.params, ty.VOID), (), node.args, node.span
                )
                instance = ir.Instance(base.variable.name, base.type, (), node.span)
                return ir.Call(ty.VOID, node.span, ir.ApplyBlock(instance), bound[1] if bound else ())
            return unknown(node.span)
        allowed = ("state", "parser") if base.type.kind == "parser" else ("apply",)
        if base.type.kind == "package" or self.context not in allowed:
            place = "a parser's state" if base.type.kind == "parser" else "a control's apply block"
            self.sink.error(node.span, f"{base.type.kind} '{base.instance.name}' applied here", place)
            return unknown(node.span)
        signature = ty.Signature("apply", (), base.type.params, ty.VOID)
        bound = self.bind_call(signature, node.type_args, node.args, node.span)
        if bound is None:
            return unknown(node.span)
        return ir.Call(ty.VOID, node.span, ir.ApplyBlock(base.instance), bound[1])

    def _method_call(self, node: ast.Call, callee: ast.Member, base: ir.Expr, type_: ty.Extern) -> ir.Expr:
        methods = [m for m in type_.methods if m.name == callee.name and m.returns is not None]
        if not methods:
            names = ", ".join(dict.fromkeys(m.name for m in type_.methods if m.returns is not None))
            self.sink.error(callee.span, f"extern {type_} has no method '{callee.name}'", names)
            return unknown(node.span)
        fitting = [m for m in methods if self._takes(m, node.args)]
        if len(fitting) != 1:
            self.sink.error(
                node.span,
                f"'{callee.name}' cannot take these {len(node.args)} arguments",
                "; ".join(map(str, methods)),
            )
            return unknown(node.span)
        bound = self.bind_call(fitting[0], node.type_args, node.args, node.span)
        if bound is None:
            return unknown(node.span)
        signature, args, type_args = bound
        assert signature.returns is not None
        if type_.name in ("packet_in", "packet_out"):
            self._check_packet_call(callee.name, args, type_args, node.span)
        return ir.Call(signature.returns, node.span, ir.Method(base, type_, callee.name), args, type_args)

    def _check_packet_call(
        self, name: str, args: tuple[ir.Argument, ...], type_args: tuple[ty.Type, ...], span: Span
    ) -> None:
        """What the packet methods ask beyond their signatures: headers, and sizes that are known."""
        if name == "extract":
            type_ = type_args[0]
            if isinstance(type_, ty.TypeVar):
                return
            header = isinstance(type_, ty.Record) and type_.kind == "header"
            if not header and args[0].value is not None:
                self.sink.error(span, f"extract into {type_}", "a header")
                return
            assert isinstance(type_, ty.Record) or args[0].value is None
            variable = isinstance(type_, ty.Record) and any(isinstance(t, ty.Varbit) for _, t in type_.fields)
            if variable != (len(args) == 2) and header:
                self.sink.error(
                    span,
                    f"extract of {type_} with {len(args)} arguments",
                    "two for a header with a varbit field, one for any other",
                )
        elif name == "lookahead":
            open_type = ty.has_type_vars(type_args[0])  # in a generic body: checked again when it is used
            if (ty.bit_width(type_args[0]) is None and not open_type) or self._varbits(type_args[0]):
                self.sink.error(span, f"lookahead of {type_args[0]}", "a type of fixed size")
        elif name == "emit" and not self._emittable(type_args[0]):
            self.sink.error(span, f"emit of {type_args[0]}", "headers, stacks, unions, or structs of these")

    def _emittable(self, type_: ty.Type) -> bool:
        match type_:
            case ty.Record("struct", _, _, fields):
                return all(self._emittable(t) for _, t in fields)
            case ty.Tuple(items):
                return all(map(self._emittable, items))
            case ty.Stack(element, _):
                return self._emittable(element)
        return isinstance(type_, (ty.Record, ty.TypeVar))

    def _builtin_call(self, node: ast.Call, callee: ast.Member, base: ir.Expr) -> ir.Expr:
        name, span, type_ = callee.name, node.span, base.type
        if isinstance(type_, ty.Stack):
            if name not in ("push_front", "pop_front"):
                self.sink.error(
                    callee.span, f"a header stack has no method '{name}'", "push_front or pop_front"
                )
                return unknown(span)
            if self.context in ("parser", "state"):
                self.sink.error(span, f"'{name}' inside a parser")
            if not self.is_lvalue(base):
                self.sink.error(base.span, f"'{name}' of something that cannot be changed")
            if len(node.args) != 1 or node.args[0].value is None:
                self.sink.error(span, f"'{name}' takes one argument", "a compile-time count")
                return unknown(span)
            count = self.constant_int(node.args[0].value, "the count")
            if count is None or count < 0:
                if count is not None:
                    self.sink.error(span, f"'{name}' by {count}", "a count >= 0")
                return unknown(span)
            amount = ir.Const(ty.INT, span, count)
            argument = ir.Argument(ty.Param("count", "", ty.INT), amount)
            return ir.Call(ty.VOID, span, ir.Builtin(base, name), (argument,))
        assert isinstance(type_, ty.Record)
        if name in _HEADER_METHODS and "SizeIn" in name:
            return self._size_of(type_, callee, span)
        known = ("isValid",) if type_.kind == "header_union" else ("isValid", "setValid", "setInvalid")
        if type_.kind == "struct" or name not in known:
            wanted = ", ".join(known) if type_.kind != "struct" else "no method: it is a struct"
            self.sink.error(callee.span, f"{type_.kind} {type_} has no method '{name}'", wanted)
            return unknown(span)
        if node.args:
            self.sink.error(span, f"'{name}' takes no arguments")
        if name != "isValid" and not self.is_lvalue(base):
            self.sink.error(
                base.span,
                f"'{name}' of a header that cannot be changed",
                "a local, or an out or inout parameter",
            )
        return ir.Call(_HEADER_METHODS[name], span, ir.Builtin(base, name), ())

    def _size_of(self, type_: ty.Type, callee: ast.Member, span: Span) -> ir.Expr:
        most = ty.bit_width(type_)
        if ty.has_type_vars(type_):  # in a generic body: known when it is used
            return unknown(span)
        if most is None:
            self.sink.error(span, f"{type_} has no size in bits")
            return unknown(span)
        least = most
        if callee.name.startswith("min"):
            least -= self._varbits(type_)
        bits = least if callee.name.startswith("min") else most
        return ir.Const(ty.INT, span, (bits + 7) // 8 if callee.name.endswith("Bytes") else bits)

    def _varbits(self, type_: ty.Type) -> int:
        if isinstance(type_, ty.Varbit):
            return type_.width
        if isinstance(type_, ty.Record) and type_.kind == "header_union":
            return ty.bit_width(type_) or 0  # a union may hold nothing
        if isinstance(type_, ty.Record):
            return sum(self._varbits(t) for _, t in type_.fields)
        return 0
