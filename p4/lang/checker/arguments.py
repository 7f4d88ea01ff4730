"""Arguments to parameters: matched, converted, type parameters inferred."""

from __future__ import annotations

from collections.abc import Sequence

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.expressions import ExpressionChecker
from p4.lang.diagnostics import Span


class ArgumentChecker(ExpressionChecker):
    """`bind_call` for calls of every kind, constructors included."""

    @staticmethod
    def _takes(signature: ty.Signature, args: Sequence[ast.Arg]) -> bool:
        """Whether the number (and names) of the arguments fit."""
        if any(a.name for a in args):
            names = {a.name for a in args}
            known = {p.name for p in signature.params}
            needed = {p.name for p in signature.params if not p.optional and p.default is None}
            return None not in names and names <= known and needed <= names
        needed_count = sum(1 for p in signature.params if not p.optional and p.default is None)
        return needed_count <= len(args) <= len(signature.params)

    def bind_call(
        self,
        signature: ty.Signature,
        type_nodes: Sequence[ast.TypeNode],
        args: Sequence[ast.Arg],
        span: Span,
        *,
        constant: bool = False,
        infer_all: bool = True,
    ) -> tuple[ty.Signature, tuple[ir.Argument, ...], tuple[ty.Type, ...]] | None:
        """Arguments matched with parameters and converted; type parameters inferred. None after an error."""
        matched = self._match(signature, args, span)
        if matched is None:
            return None
        bindings: dict[ty.TypeVar, ty.Type] = {}
        if type_nodes:
            if len(type_nodes) != len(signature.type_params):
                self.sink.error(
                    span,
                    f"'{signature.name}' with {len(type_nodes)} type arguments",
                    f"{len(signature.type_params)}",
                )
                return None
            for variable, node in zip(signature.type_params, type_nodes, strict=True):
                if not isinstance(node, ast.DontCareType):
                    bindings[variable] = self.resolve(node)
        values: list[ir.Expr | None] = []
        ok = True
        for param, arg in zip(signature.params, matched, strict=True):
            if arg is None or arg.value is None:
                values.append(None)
                continue
            formal = ty.substitute(param.type, bindings)
            value = self.expr(arg.value, None if ty.has_type_vars(formal) else formal)
            values.append(value)
            if value.type == ty.UNKNOWN:
                ok = False
            elif not ty.unify(formal, value.type, bindings):
                actual = ty.substitute(formal, bindings)
                self.sink.error(
                    arg.span,
                    f"argument for '{param.name}' of '{signature.name}' has type {value.type}",
                    f"{actual}",
                )
                ok = False
        if not ok:
            return None
        for variable in signature.type_params:
            if variable not in bindings and infer_all and not any(p.optional for p in signature.params):
                self.sink.error(
                    span,
                    f"type parameter '{variable}' of '{signature.name}' cannot be inferred",
                    f"{signature.name}<...>(...)",
                )
                return None
        if not constant:
            for param, given in zip(signature.params, values, strict=True):
                inferred = bindings.get(param.type) if isinstance(param.type, ty.TypeVar) else None
                if given is not None and inferred == ty.INT:
                    what = f"the width of '{param.name}' of '{signature.name}' is not known"
                    self.sink.error(given.span, what, "a width, e.g. 16w1")
                    return None
        bound = ty.substitute_signature(signature, bindings)
        arguments = []
        for param, arg, given in zip(bound.params, matched, values, strict=True):
            argument = self._argument(bound.name, param, arg, given, constant)
            if argument is None:
                return None
            arguments.append(argument)
        return bound, tuple(arguments), tuple(bindings.get(v, v) for v in signature.type_params)

    def _match(
        self, signature: ty.Signature, args: Sequence[ast.Arg], span: Span
    ) -> list[ast.Arg | None] | None:
        """The argument of each parameter, in the parameters' order."""
        if any(a.name for a in args):
            if not all(a.name for a in args):
                self.sink.error(span, "named and positional arguments in one call", "one kind")
                return None
            matched: list[ast.Arg | None]
            by_name: dict[str, ast.Arg] = {}
            for arg in args:
                assert arg.name is not None
                if arg.name in by_name or arg.name not in {p.name for p in signature.params}:
                    what = "given twice" if arg.name in by_name else "unknown"
                    self.sink.error(
                        arg.span, f"argument '{arg.name}' of '{signature.name}' is {what}", str(signature)
                    )
                    return None
                by_name[arg.name] = arg
            matched = [by_name.get(p.name) for p in signature.params]
        else:
            if len(args) > len(signature.params):
                self.sink.error(
                    span,
                    f"'{signature.name}' called with {len(args)} arguments",
                    f"{len(signature.params)}: {signature}",
                )
                return None
            matched = [*args, *[None] * (len(signature.params) - len(args))]
        for param, given in zip(signature.params, matched, strict=True):
            if given is None and not param.optional and param.default is None:
                self.sink.error(
                    span, f"argument '{param.name}' of '{signature.name}' is missing", str(signature)
                )
                return None
        return matched

    def _argument(
        self, callee: str, param: ty.Param, arg: ast.Arg | None, value: ir.Expr | None, constant: bool
    ) -> ir.Argument | None:
        if arg is None:
            return ir.Argument(param, param.default)
        if value is None:  # `_`
            if param.direction != "out" and not param.optional:
                self.sink.error(
                    arg.span, f"'_' for '{param.name}' of '{callee}'", "a value: only out accepts '_'"
                )
                return None
            return ir.Argument(param, None)
        what = f"argument for '{param.name}' of '{callee}'"
        if param.direction in ("out", "inout"):
            if not self.is_lvalue(value):
                self.sink.error(
                    arg.span,
                    f"{what} cannot be assigned to",
                    f"a variable: the parameter is {param.direction}",
                )
                return None
            if value.type != param.type and not isinstance(param.type, ty.TypeVar):
                self.sink.error(arg.span, f"{what} has type {value.type}", f"exactly {param.type}")
                return None
            return ir.Argument(param, value)
        dropped = isinstance(value.type, (ty.ApplyResult, ty.ActionRun)) or value.type == ty.VOID
        if dropped or (isinstance(value.type, ty.Block) and not constant):
            self.sink.error(arg.span, f"{what} is {value.type}", "a value")
            return None
        converted = self.convert(value, param.type, what) if not ty.has_type_vars(param.type) else value
        if constant and not self.is_compile_time(converted):
            self.sink.error(arg.span, f"{what} is known only at run time", "a compile-time value")
            return None
        return ir.Argument(param, converted)
