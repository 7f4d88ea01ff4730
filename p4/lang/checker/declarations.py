"""Declarations inside bodies, and the bodies of functions and actions."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.calls import CallChecker
from p4.lang.checker.conversions import base_of
from p4.lang.checker.names import Overload, TypeName


class DeclarationChecker(CallChecker):
    """Variables, constants, objects, parameters, functions and actions: checked and declared."""

    returns: ty.Type = ty.VOID

    def block(self, node: ast.Block, *, guarded: bool = False) -> ir.Block:
        """A body in a new scope. Defined by the layer above."""
        raise NotImplementedError

    def variable(self, node: ast.VarDecl) -> ir.VarDecl:
        type_ = self.resolve(node.type)
        if type_ in (ty.VOID, ty.INT, ty.STRING, ty.MATCH_KIND) or isinstance(
            type_, (ty.Block, ty.Extern, ty.ListOf)
        ):
            self.sink.error(
                node.type.span, f"variable '{node.name}' of type {type_}", "a type with run-time values"
            )
            type_ = ty.UNKNOWN
        init = self.value(node.init, type_, f"the value of '{node.name}'") if node.init is not None else None
        variable = ir.Variable(node.name, type_, "local", node.span, annotations=node.annotations)
        self.declare(node.name, variable, node.span)
        return ir.VarDecl(node.span, variable, init)

    def constant(self, node: ast.ConstDecl) -> ir.Const | None:
        type_ = self.resolve(node.type)
        value = self.value(node.value, type_, f"the value of '{node.name}'")
        if isinstance(type_, (ty.Extern, ty.Block)):
            self.sink.error(node.type.span, f"constant '{node.name}' of type {type_}", "a value's type")
            type_ = ty.UNKNOWN
        if ty.UNKNOWN in (type_, value.type):
            known = ir.Const(ty.UNKNOWN, node.span, 0)
            self.declare(node.name, known, node.span)
            return None
        if not self.is_compile_time(value):
            self.sink.error(
                node.value.span, f"constant '{node.name}' is known only at run time", "a compile-time value"
            )
        if isinstance(value, ir.Const):
            self.declare(node.name, value, node.span)
            return value
        self.declare(node.name, value, node.span)  # structured, or made of constructor parameters
        return None

    def instance(self, node: ast.InstanceDecl) -> ir.Instance | None:
        made = self.constructed(node.type)
        instance = self.make_instance(node.name, made, node.args, node.span, node.annotations)
        if instance is None:
            # Declared all the same, so that its uses are not errors too.
            self.declare(node.name, ir.Variable(node.name, ty.UNKNOWN, "local", node.span), node.span)
            return None
        if node.initializer is not None:
            self._initializer(node, instance)
        elif isinstance(instance.type, ty.Extern):
            missing = [m.name for m in instance.type.methods if m.is_abstract and not m.is_optional]
            if missing:
                self.sink.error(
                    node.span,
                    f"'{node.name}' does not implement abstract method '{missing[0]}'",
                    f"{node.name} = {{ ... {missing[0]}(...) {{ ... }} }}",
                )
        self.declare(node.name, instance, node.span)
        return instance

    def _initializer(self, node: ast.InstanceDecl, instance: ir.Instance) -> None:
        """The abstract methods of an extern, implemented where the object is declared."""
        if not isinstance(instance.type, ty.Extern):
            self.sink.error(
                node.span, f"an initializer for {instance.type}", "an extern with abstract methods"
            )
            return
        wanted = {m.name: m for m in instance.type.methods if m.is_abstract}
        for part in node.initializer or ():
            if not isinstance(part, ast.FunctionDecl):
                self.sink.error(part.span, "an object inside an initializer is not supported", "methods only")
                continue
            function = self.function_body(part, self.signature(part.prototype))
            abstract = wanted.pop(part.name, None)
            if abstract is None:
                self.sink.error(part.span, f"extern {instance.type} has no abstract method '{part.name}'")
                continue
            given = [(p.direction, p.type) for p in function.signature.params]
            needed = [(p.direction, p.type) for p in abstract.params]
            least = sum(not p.optional for p in abstract.params)
            same = least <= len(given) <= len(needed) and all(
                g == n or isinstance(n[1], ty.TypeVar) for g, n in zip(given, needed, strict=False)
            )
            if not same:
                self.sink.error(
                    part.span, f"method '{part.name}' differs from its declaration", str(abstract)
                )
            instance.methods[part.name] = function
        for name in (n for n, method in wanted.items() if not method.is_optional):
            self.sink.error(node.span, f"'{node.name}' does not implement abstract method '{name}'")

    def params(self, nodes: tuple[ast.Param, ...], kind: str = "param") -> tuple[ir.Variable, ...]:
        """Parameters, declared in the current scope."""
        out = []
        for node in nodes:
            type_ = self.resolve(node.type)
            if type_ == ty.VOID:
                self.sink.error(node.span, f"parameter '{node.name}' of type void")
            objects = isinstance(type_, (ty.Extern, ty.Block))
            if node.direction and (
                objects or type_ == ty.STRING or (type_ == ty.INT and node.direction != "in")
            ):
                self.sink.error(
                    node.span, f"parameter '{node.name}' of type {type_} with a direction", "no direction"
                )
            default = self._default(node, type_) if kind == "ctor" else None
            variable = ir.Variable(
                node.name, type_, kind, node.span, node.direction, node.annotations, default
            )
            self.declare(node.name, variable, node.span)
            out.append(variable)
        return tuple(out)

    def param_types(self, nodes: tuple[ast.Param, ...]) -> tuple[ty.Param, ...]:
        """Parameters as part of a signature."""
        out = []
        seen: set[str] = set()
        for node in nodes:
            if node.name in seen:
                self.sink.error(node.span, f"parameter '{node.name}' is declared twice")
            seen.add(node.name)
            type_ = self.resolve(node.type)
            if type_ == ty.VOID:
                self.sink.error(node.span, f"parameter '{node.name}' of type void")
            if node.direction and (isinstance(type_, (ty.Extern, ty.Block)) or type_ == ty.STRING):
                self.sink.error(
                    node.span, f"parameter '{node.name}' of type {type_} with a direction", "no direction"
                )
            default = self._default(node, type_)
            optional = any(a.name == "optional" for a in node.annotations)
            out.append(ty.Param(node.name, node.direction, type_, optional, default))
        return tuple(out)

    def _default(self, node: ast.Param, type_: ty.Type) -> ir.Expr | None:
        """The value of a parameter that is left out."""
        if node.default is None:
            return None
        if node.direction in ("out", "inout"):
            self.sink.error(node.span, f"a default for {node.direction} parameter '{node.name}'")
        default = self.value(node.default, type_, f"the default of '{node.name}'")
        if not self.is_compile_time(default):
            self.sink.error(
                node.default.span, f"the default of '{node.name}' is known only at run time", "a constant"
            )
        return default

    def signature(self, node: ast.Prototype) -> ty.Signature:
        with self.scope():
            variables = self.type_vars(node.type_params, node.span)
            params = self.param_types(node.params)
            returns = None if node.returns is None else self.resolve(node.returns)
            if returns == ty.INT or isinstance(returns, (ty.Extern, ty.Block)):
                self.sink.error(node.span, f"'{node.name}' returns {returns}", "a type with run-time values")
            optional = any(a.name == "optional" for a in node.annotations)
            return ty.Signature(node.name, variables, params, returns, node.is_abstract, optional)

    def function_body(
        self, node: ast.FunctionDecl, signature: ty.Signature, types: dict[str, ty.Type] | None = None
    ) -> ir.Function:
        """The function checked, its type parameters being `types`."""
        assert node.body is not None
        with self.scope("function"):
            for name, type_ in (types or {}).items():
                self.declare(name, TypeName(type_), None)
            params = self.params(node.prototype.params)
            for variable in params:
                if not variable.direction and not isinstance(variable.type, ty.Extern):
                    variable.direction = "in"
            assert signature.returns is not None
            outer, self.returns = (
                self.returns,
                self.resolve(node.prototype.returns or ast.BaseType(node.span, "void")),
            )
            body = self.block(node.body, guarded=True)
            if self.returns not in (ty.VOID, ty.UNKNOWN) and not always_returns(body):
                self.sink.error(
                    node.span, f"function '{node.name}' can end without a return", f"return of {self.returns}"
                )
            returns, self.returns = self.returns, outer
        return ir.Function(node.name, params, returns, body, node.span, signature)

    def instantiate(self, overload: Overload, type_args: tuple[ty.Type, ...]) -> ir.Function:
        if type_args not in overload.instances:
            names = [v.name for v in overload.signature.type_params]
            # The body sees what its declaration saw: the top-level scope.
            outer, self.scopes = self.scopes, self.scopes[:1]
            try:
                overload.instances[type_args] = self.function_body(
                    overload.declaration, overload.signature, dict(zip(names, type_args, strict=True))
                )
            finally:
                self.scopes = outer
        return overload.instances[type_args]

    def action(self, node: ast.ActionDecl) -> ir.Action:
        seen_data = False
        for param in node.params:
            if not param.direction:
                seen_data = True
            elif seen_data:
                self.sink.error(
                    param.span,
                    f"parameter '{param.name}' with a direction after one without",
                    "parameters without a direction last",
                )
        signature = ty.Signature(node.name, (), self.param_types(node.params), ty.VOID)
        with self.scope("action"):
            params = self.params(node.params)
            for variable in params:
                self._check_action_param(variable)
            outer, self.returns = self.returns, ty.VOID
            body = self.block(node.body, guarded=True)
            self.returns = outer
        action = ir.Action(node.name, params, body, node.span, signature, node.annotations)
        self.declare(node.name, action, node.span)
        return action

    def _check_action_param(self, variable: ir.Variable) -> None:
        base = base_of(variable.type)
        if variable.direction:
            wrong = isinstance(base, (ty.Extern, ty.Block)) or base in (ty.STRING, ty.INT)
        else:  # a table entry supplies it, so it must have bits
            scalar = isinstance(base, ty.Bits) or base in (ty.BOOL, ty.ERROR, ty.UNKNOWN)
            wrong = not scalar and not isinstance(base, ty.EnumType)
        if wrong:
            self.sink.error(
                variable.span,
                f"action parameter '{variable.name}' of type {variable.type}",
                "bit<>, int<>, bool, error or an enum",
            )


def always_returns(statement: ir.Statement) -> bool:
    """Whether no path runs off the statement's end."""
    match statement:
        case ir.Return() | ir.Exit():
            return True
        case ir.Block():
            return any(map(always_returns, statement.items))
        case ir.If():
            return (
                statement.orelse is not None
                and always_returns(statement.then)
                and always_returns(statement.orelse)
            )
        case ir.Switch():
            return any(c.is_default for c in statement.cases) and all(
                always_returns(c.body) for c in statement.cases
            )
    return False
