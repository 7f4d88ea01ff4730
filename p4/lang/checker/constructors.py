"""Objects made by constructors: externs, parsers, controls, packages."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.arguments import ArgumentChecker
from p4.lang.checker.conversions import unknown
from p4.lang.checker.names import GenericType
from p4.lang.diagnostics import Span


class ConstructorChecker(ArgumentChecker):
    """`make_instance` checks one object, declared or made in place."""

    def constructed(
        self, node: ast.TypeNode
    ) -> tuple[ty.Type, ir.Parser | ir.Control | None, GenericType | None]:
        """What a constructor makes: its type, declaration and (no type arguments given) generic form."""
        name = node.name if isinstance(node, ast.NamedType) else None
        if name is not None:
            symbol = self.lookup(name)
            if isinstance(symbol, GenericType):
                return symbol.body, None, symbol
            if isinstance(symbol, (ir.Parser, ir.Control)):
                return symbol.type, symbol, None
        return self.resolve(node), None, None

    def construct(
        self, node: ast.Call, made: tuple[ty.Type, ir.Parser | ir.Control | None, GenericType | None]
    ) -> ir.Expr:
        instance = self.make_instance("", made, node.args, node.span)
        if instance is None:
            return unknown(node.span)
        return ir.Call(instance.type, node.span, ir.Construct(instance), ())

    def make_instance(
        self,
        name: str,
        made: tuple[ty.Type, ir.Parser | ir.Control | None, GenericType | None],
        args: tuple[ast.Arg, ...],
        span: Span,
        annotations: tuple[ast.Annotation, ...] = (),
    ) -> ir.Instance | None:
        """An object of the type, its constructor's arguments checked. None after an error."""
        type_, declaration, generic = made
        variables = generic.variables if generic else ()
        signature: ty.Signature | None = None
        if self.context in ("action", "function"):
            self.sink.error(
                span,
                f"an object of type {type_} made inside {'an' if self.context[0] == 'a' else 'a'} "
                f"{self.context}",
                "objects in controls, parsers or at the top",
            )
        match type_:
            case ty.Extern():
                ctors = [m for m in type_.methods if m.returns is None]
                fitting = [c for c in ctors if self._takes(c, args)]
                if len(fitting) != 1:
                    shown = "; ".join(map(str, ctors)) or "none: it cannot be constructed"
                    self.sink.error(
                        span, f"no constructor of {type_.name} takes {len(args)} arguments", shown
                    )
                    return None
                signature = fitting[0]
                if not name and any(m.is_abstract for m in type_.methods):
                    self.sink.error(
                        span,
                        f"{type_.name} has abstract methods",
                        f"a declaration: {type_.name}(...) name = {{ ... }};",
                    )
                    return None
            case ty.Block("package"):
                signature = ty.Signature(type_.name, variables, type_.params, None)
            case ty.Block() if declaration is not None:
                if (type_.kind, self.context) in (("parser", "control"), ("control", "parser")):
                    self.sink.error(span, f"a {type_.kind} made inside a {self.context}", f"a {self.context}")
                    return None
                params = tuple(
                    ty.Param(v.name, v.direction, v.type, default=v.default) for v in declaration.ctor_params
                )
                signature = ty.Signature(declaration.name, (), params, None)
            case ty.Block():
                self.sink.error(
                    span, f"{type_.kind} type '{type_.name}' has no body: it cannot be instantiated"
                )
                return None
            case _:
                if type_ != ty.UNKNOWN:
                    self.sink.error(
                        span, f"{type_} has no constructor", "an extern, parser, control or package"
                    )
                return None
        # Open type arguments: left out altogether, or written `_`.
        open_vars = tuple(dict.fromkeys((*variables, *self._open_vars(type_))))
        signature = ty.Signature(signature.name, open_vars, signature.params, None)
        bound = self.bind_call(
            signature, (), args, span, constant=True, infer_all=not isinstance(type_, ty.Extern)
        )
        if bound is None:
            return None
        bindings = {v: t for v, t in zip(open_vars, bound[2], strict=True) if not isinstance(t, ty.TypeVar)}
        if generic and isinstance(type_, ty.Extern) and len(bindings) < len(variables):
            self.sink.error(
                span, f"the type arguments of '{type_.name}' cannot be inferred", f"{type_.name}<...>(...)"
            )
            return None
        return ir.Instance(
            name, ty.substitute(type_, bindings), bound[1], span, annotations, declaration=declaration
        )

    @staticmethod
    def _open_vars(type_: ty.Type) -> tuple[ty.TypeVar, ...]:
        args = type_.args if isinstance(type_, (ty.Extern, ty.Block)) else ()
        return tuple(a for a in args if isinstance(a, ty.TypeVar) and a.name == "_")
