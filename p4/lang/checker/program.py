"""The whole program: top-level declarations in order, then the typed program."""

from __future__ import annotations

from pathlib import Path

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.blocks import BlockChecker
from p4.lang.checker.conversions import base_of
from p4.lang.checker.fold import bounds, wrap
from p4.lang.checker.names import FunctionSet, GenericType, Overload, TypeName
from p4.lang.diagnostics import Collector


class ProgramChecker(BlockChecker):
    """Collects what the typed program lists."""

    def __init__(self, sink: Collector) -> None:
        super().__init__(sink)
        self.enums: dict[str, ty.EnumType] = {}
        self.externs: dict[str, ty.Extern] = {}
        self.parsers: dict[str, ir.Parser] = {}
        self.controls: dict[str, ir.Control] = {}
        self.actions: list[ir.Action] = []
        self.instances: list[ir.Instance] = []
        self.constants: dict[str, ir.Const] = {}
        self.overloads: list[Overload] = []

    def declaration(self, node: ast.Declaration) -> None:
        match node:
            case ast.ConstDecl():
                constant = self.constant(node)
                if constant is not None:
                    self.constants[node.name] = constant
            case ast.StructDecl():
                self._record_type(node)
            case ast.EnumDecl():
                self._enum(node)
            case ast.NamesDecl():
                self._names(node)
            case ast.TypedefDecl():
                self._typedef(node)
            case ast.ExternDecl():
                self._extern(node)
            case ast.FunctionDecl():
                self._function(node)
            case ast.ActionDecl():
                self.actions.append(self.action(node))
            case ast.ParserDecl():
                parser = self.parser(node)
                if parser is not None:
                    self.parsers[node.name] = parser
            case ast.ControlDecl():
                control = self.control(node)
                if control is not None:
                    self.controls[node.name] = control
            case ast.PackageDecl():
                self.package(node)
            case ast.InstanceDecl():
                self._top_instance(node)
            case _:
                raise AssertionError(f"no declaration {type(node).__name__}")

    # ---- types

    def _record_type(self, node: ast.StructDecl) -> None:
        with self.scope():
            variables = self.type_vars(node.type_params, node.span)
            fields: list[tuple[str, ty.Type]] = []
            for field in node.fields:
                if any(name == field.name for name, _ in fields):
                    self.sink.error(field.span, f"field '{field.name}' is declared twice")
                    continue
                type_ = self.resolve(field.type)
                self.check_field(node.kind, field.name, type_, field.span)
                fields.append((field.name, type_))
        if node.kind == "header" and sum(isinstance(t, ty.Varbit) for _, t in fields) > 1:
            self.sink.error(node.span, f"header '{node.name}' has more than one varbit field", "at most one")
        record = ty.Record(node.kind, node.name, variables, tuple(fields))
        self.records[node.name] = node
        if variables:
            self.declare(node.name, GenericType(node.name, variables, record), node.span)
        else:
            self.record_types[node.name] = record
            self.declare(node.name, TypeName(record), node.span)

    def _enum(self, node: ast.EnumDecl) -> None:
        names: list[str] = []
        for member in node.members:
            if member.name in names:
                self.sink.error(member.span, f"enum member '{member.name}' is declared twice")
            names.append(member.name)
        if not names:
            self.sink.error(node.span, f"enum '{node.name}' has no members")
        underlying: ty.Bits | None = None
        values: list[int] = []
        if node.underlying is not None:
            resolved = self.resolve(node.underlying)
            if isinstance(resolved, ty.Bits) and resolved.width:
                underlying = resolved
                values = [self._enum_value(m, resolved) for m in node.members]
            elif resolved != ty.UNKNOWN:
                self.sink.error(node.underlying.span, f"enum over {resolved}", "bit<N> or int<N>")
        else:
            for member in node.members:
                if member.value is not None:
                    self.sink.error(
                        member.span, f"a value for member '{member.name}' of a plain enum", "enum bit<N> ..."
                    )
        type_ = ty.EnumType(node.name, tuple(names), underlying, tuple(values))
        self.enums[node.name] = type_
        self.declare(node.name, TypeName(type_), node.span)

    def _enum_value(self, member: ast.EnumMember, type_: ty.Bits) -> int:
        if member.value is None:
            self.sink.error(
                member.span, f"member '{member.name}' of a serializable enum has no value", "= constant"
            )
            return 0
        value = self.expr(member.value)
        if value.type != ty.INT:
            value = self.convert(value, type_, f"the value of '{member.name}'")
        if isinstance(value, ir.Const) and isinstance(value.value, int):
            low, high = bounds(type_)
            if not low <= value.value <= high:
                self.sink.error(member.span, f"value {value.value} of '{member.name}'", f"{low} to {high}")
            return wrap(value.value, type_)
        if value.type != ty.UNKNOWN:
            self.sink.error(
                member.value.span, f"the value of '{member.name}' is known only at run time", "a constant"
            )
        return 0

    def _names(self, node: ast.NamesDecl) -> None:
        known = self.errors if node.name == "error" else self.match_kinds
        for name, span in node.names:
            if name in known:
                self.sink.error(span, f"{node.name} '{name}' is declared twice (first at {known[name]})")
            known.setdefault(name, span)

    def _typedef(self, node: ast.TypedefDecl) -> None:
        type_ = self.resolve(node.type)
        if type_ == ty.VOID:
            self.sink.error(node.type.span, "another name for void")
            type_ = ty.UNKNOWN
        if node.is_new and type_ != ty.UNKNOWN:
            base = base_of(type_)
            if not isinstance(base, ty.Bits) and base not in (ty.BOOL,) and not isinstance(base, ty.EnumType):
                self.sink.error(node.type.span, f"a new type over {type_}", "bit<>, int<>, bool or an enum")
            type_ = ty.NewType(node.name, type_)
        self.declare(node.name, TypeName(type_), node.span)

    def _extern(self, node: ast.ExternDecl) -> None:
        with self.scope():
            variables = self.type_vars(node.type_params, node.span)
            if variables:
                inside: ty.Type = ty.Extern(node.name, variables)
                self.declare(node.name, GenericType(node.name, variables, inside), node.span)
            else:
                self.declare(node.name, TypeName(ty.Extern(node.name, ())), node.span)
            methods = []
            for method in node.methods:
                if method.returns is None and method.name != node.name:
                    self.sink.error(
                        method.span, f"constructor '{method.name}' of extern '{node.name}'", node.name
                    )
                if method.returns is not None and method.name == node.name:
                    self.sink.error(
                        method.span, f"constructor '{method.name}' with a result type", f"{node.name}(...)"
                    )
                methods.append(self.signature(method))
        extern = ty.Extern(node.name, variables, tuple(methods))
        seen: set[tuple[str, tuple[str, ...]]] = set()
        for written, signature in zip(node.methods, methods, strict=True):
            key = (signature.name, tuple(sorted(p.name for p in signature.params)))
            if key in seen:
                self.sink.error(written.span, f"method '{signature.name}' is declared twice")
            seen.add(key)
        self.externs[node.name] = extern
        self.declare(
            node.name, GenericType(node.name, variables, extern) if variables else TypeName(extern), node.span
        )

    # ---- functions and objects

    def _function(self, node: ast.FunctionDecl) -> None:
        signature = self.signature(node.prototype)
        overload = Overload(signature, node)
        if node.body is not None:
            if signature.type_params:
                # Checked once with the parameters as they stand, for the errors; again for each use.
                names = dict(zip(node.prototype.type_params, signature.type_params, strict=True))
                self.function_body(node, signature, dict(names))
            else:
                overload.function = self.function_body(node, signature)
        self.overloads.append(overload)
        symbol = self.scopes[0].symbols.get(node.name)
        if symbol is not None and isinstance(symbol[0], FunctionSet):
            for other in symbol[0].overloads:
                same = {p.name for p in other.signature.params} == {p.name for p in signature.params}
                if same and len(other.signature.params) == len(signature.params):
                    self.sink.error(
                        node.span, f"function '{node.name}' with these parameters is declared twice"
                    )
                    return
            symbol[0].overloads.append(overload)
            return
        self.declare(node.name, FunctionSet(node.name, [overload]), node.span)

    def _top_instance(self, node: ast.InstanceDecl) -> None:
        instance = self.instance(node)
        if instance is None:
            return
        if isinstance(instance.type, ty.Block) and instance.type.kind != "package":
            self.sink.error(
                node.span,
                f"{instance.type.kind} '{node.name}' instantiated at the top level",
                "it inside another block, or as an argument of a package",
            )
        self.instances.append(instance)

    def program(self, path: str, files: tuple[Path, ...]) -> ir.Program:
        main = next((i for i in self.instances if i.name == "main"), None)
        if main is not None and not (isinstance(main.type, ty.Block) and main.type.kind == "package"):
            self.sink.error(main.span, f"'main' is {main.type}", "a package, e.g. V1Switch(...) main;")
        functions = [o.function for o in self.overloads if o.function is not None]
        functions += [f for o in self.overloads for f in o.instances.values()]
        return ir.Program(
            path,
            files,
            tuple(self.errors),
            tuple(self.match_kinds),
            self.records,
            self.record_types,
            self.enums,
            self.externs,
            self.parsers,
            self.controls,
            tuple(functions),
            tuple(self.actions),
            tuple(self.instances),
            self.constants,
            main,
        )


def check_program(
    declarations: list[ast.Declaration], path: str, files: tuple[Path, ...], sink: Collector
) -> ir.Program:
    """The typed program of these declarations; what is wrong with it goes to `sink`."""
    checker = ProgramChecker(sink)
    for declaration in declarations:
        checker.declaration(declaration)
    return checker.program(path, files)
