"""Parsers and controls of TNA programs: the writers of blocks.py, with TNA's externs for v1model's."""

from __future__ import annotations

from p4.codegen.blocks import BlockWriter, Shared, ctor_values
from p4.codegen.code import Code, unsupported
from p4.codegen.controls import ControlWriter
from p4.codegen.externs import values
from p4.codegen.layout import base_of, scalar_fields
from p4.codegen.parsers import ParserWriter
from p4.codegen.schema import StateInfo
from p4.codegen.tables import annotated_name
from p4.lang import ir
from p4.lang import types as ty
from p4.lang.walk import walk

_HASHES = {"CRC16": "crc16", "CRC32": "crc32", "XOR16": "xor16", "RANDOM": "random", "IDENTITY": "identity"}


class TnaWriter(BlockWriter):
    """TNA's objects and their methods. What the engine does not run is refused by name."""

    hashes: dict[ir.Instance, str]
    sums: list[str]  # members that are Checksums

    def inner_block(self, instance: ir.Instance) -> str:
        assert instance.declaration is not None
        name = instance.name or instance.declaration.name
        member = self.member(name)
        path = annotated_name(instance.annotations, self.path, name)
        ctor = ctor_values(instance.declaration, instance, self)
        struct, exits = write_tna_block(
            self.shared, instance.declaration, ctor, path, f"{self.access}.{member}"
        )
        self.fields.line(f"{struct} {member};")
        self.blocks[instance] = member
        if exits:
            self.exiting.add(instance)
        return member

    # ---- objects

    def extern(self, instance: ir.Instance, type_: ty.Extern) -> None:
        member = self.member(instance.name)
        name = annotated_name(instance.annotations, self.path, instance.name)
        args = values_of(instance)
        match type_.name:
            case "Register":
                size, element = self.integer(args[0]), base_of(type_.args[0])
                bits = self._element_bits(instance, element)
                initial = f"{{{self.expr(args[1])}}}" if len(args) > 1 else ""
                self.fields.line(f"{self.register_array(instance, element, size)} {member}{initial};")
                self.register("registers", member, StateInfo(name, size, bits))
            case "RegisterAction":
                self._register_action(instance, type_, member, args[0])
            case "Counter":
                size = self.integer(args[0])
                self.fields.line(f"Counter {member}{{{size}}};")
                self.register("counters", member, StateInfo(name, size, unit=self._unit(args[1]).lower()))
            case "Meter":
                size, unit = self.integer(args[0]), self._unit(args[1]).lower()
                if len(args) > 2:
                    raise unsupported(instance.span, "a Meter with colours of its own", "Meter(size, type)")
                self.fields.line(f"Meter {member}{{{size}, {str(unit == 'bytes').lower()}}};")
                self.register("meters", member, StateInfo(name, size, unit=unit))
            case "Hash":
                algorithm = args[0].value if isinstance(args[0], ir.Const) else ""
                if algorithm not in _HASHES or len(args) > 1:
                    listed = ", ".join(_HASHES)
                    raise unsupported(instance.span, f"Hash with algorithm {algorithm or '?'}", listed)
                self.hashes[instance] = _HASHES[str(algorithm)]
            case "Checksum":
                self.fields.line(f"OnesSum {member};")
                self.sums.append(member)
            case "Mirror" | "Resubmit" | "Digest" | "Random" | "DirectCounter":
                pass  # no state of their own
            case _:
                raise unsupported(instance.span, f"extern '{type_.name}'")
        self.members[instance] = member

    @staticmethod
    def _element_bits(instance: ir.Instance, element: ty.Type) -> int:
        if isinstance(element, ty.Bits):
            return element.width
        if isinstance(element, ty.Record) and element.kind == "struct" and len(element.fields) == 2:
            first, second = (base_of(t) for _, t in element.fields)
            if first == second and isinstance(first, ty.Bits) and first.width in (8, 16, 32):
                return 2 * first.width
        raise unsupported(instance.span, f"a Register of {element}", "bit<>, int<>, or a struct of two alike")

    def _register_action(
        self, instance: ir.Instance, type_: ty.Extern, member: str, register: ir.Expr
    ) -> None:
        """`U member(Frame& f, index)`: reads the element, runs apply(), writes it back."""
        if not isinstance(self, ControlWriter) or not isinstance(register, ir.InstanceRef):
            raise unsupported(instance.span, "this RegisterAction", "one in a control, of its own Register")
        if register.instance not in self.members:
            raise unsupported(
                instance.span, "a Register declared outside its control", "one beside its RegisterAction"
            )
        array = self.members[register.instance]
        apply = instance.methods["apply"]
        returns = type_.args[2]
        result = self.cpp(returns) if isinstance(base_of(returns), (ty.Bits, ty.Simple)) else "void"
        outer, self.used = self.used, {*self.used, "index", "f"}
        code, self.code = self.code, Code()
        value = self.declare(apply.params[0])
        with self.code.block(f"{result} {member}(Frame& f, uint64_t index)"):
            self.code.line("(void)f;")
            self.code.line(f"{self.cpp(apply.params[0].type)} {value}{{}};")
            self.code.line(f"{array}.read({value}, index);")
            rv = ""
            if len(apply.params) > 1:
                rv = self.declare(apply.params[1])
                self.code.line(f"{self.cpp(apply.params[1].type)} {rv}{{}};")
            # A lambda, so that `return` in the body leaves only the body.
            with self.code.block("[&]", "}();"):
                self.block(apply.body)
            self.code.line(f"{array}.write(index, {value});")
            if result != "void":
                self.code.line(f"return {rv};" if rv else "return {};")
        self.fields.add(self.code)
        self.code, self.used = code, outer

    def clear_outs(self, params: tuple[ir.Variable, ...]) -> None:
        super().clear_outs(params)
        for member in self.sums:
            self.code.line(f"{member}.clear();")

    # ---- calls

    def extern_lines(self, e: ir.Call) -> list[str]:
        c = f"tna({self.context_argument})"
        if isinstance(e.target, ir.ExternFunction):
            if e.target.name == "verify":
                return super().extern_lines(e)
            raise unsupported(e.span, f"extern function '{e.target.name}'")
        assert isinstance(e.target, ir.Method)
        args = values(e)
        match e.target.extern.name, e.target.name:
            case "packet_in" | "packet_out", _:
                return super().extern_lines(e)
            case "Register", "write":
                return [f"{self._member(e.target)}.write({self.index(args[0])}, {self.expr(args[1])});"]
            case "RegisterAction", "execute":
                return [f"{self.extern_value(e)};"]
            case "Counter", "count":
                self._only(e, 1)
                where = f"{self.index(args[0])}, {self.context_argument}.packet_bytes"
                return [f"{self._member(e.target)}.count({where});"]
            case "DirectCounter", "count":
                self._only(e, 0)
                return []  # hits of its table are counted there, see _table
            case "Checksum", ("add" | "subtract") as how:
                w = self.temporary()
                return ["{", *self.writer(args[0], w), f"{self._member(e.target)}.{how}({w});", "}"]
            case "Mirror", "emit":
                header = f", {self.expr(args[1])}" if len(args) > 1 else ""
                return [f"{c}.mirror({self.index(args[0])}{header});"]
            case "Resubmit", "emit":
                return [f"{c}.resubmit_packet({self.expr(args[0]) if args else ''});"]
            case "Digest", "pack":
                return self._digest(e, args[0])
            case "Hash" | "Random" | "Checksum" | "Meter" | "Register", _:
                return [f"(void){self.extern_value(e)};"]
        raise unsupported(e.span, f"{e.target.extern.name}.{e.target.name}()")

    def extern_value(self, e: ir.Call) -> str:
        if isinstance(e.target, ir.ExternFunction):
            return self._function_value(e, e.target.name)
        assert isinstance(e.target, ir.Method)
        c, args, t = self.context_argument, values(e), self.cpp(e.type)
        match e.target.extern.name, e.target.name:
            case "packet_in", _:
                return super().extern_value(e)
            case "RegisterAction", "execute":
                return f"{self._member(e.target)}({self.frame_argument}, {self.index(args[0])})"
            case "Register", "read":
                member, name = self._member(e.target), self.temporary()
                return f"({{ {t} {name}{{}}; {member}.read({name}, {self.index(args[0])}); {name}; }})"
            case "Random", "get":
                return f"{t}({t}::R({c}.random()))"
            case "Hash", "get":
                return self._hash_value(e, e.target, args[0])
            case "Checksum", "verify":
                return f"{self._member(e.target)}.wrong()"
            case "Checksum", "get":
                return f"{self._member(e.target)}.get()"
            case "Checksum", "update":
                w = self.temporary()
                ones = self.expr(args[1]) if len(args) > 1 else "false"
                return f"({{ {' '.join(self.writer(args[0], w))} OnesSum::of({w}, {ones}); }})"
            case "Meter", "execute":
                self._only(e, 1)
                where = f"{self.index(args[0])}, {c}.packet_bytes, {c}.now_us"
                colour = self.temporary()
                run = f"const int {colour} = {self._member(e.target)}.execute({where});"
                return f"({{ {run} {t}(uint8_t({colour} == 2 ? 3 : {colour})); }})"
        raise unsupported(e.span, f"{e.target.extern.name}.{e.target.name}() as a value")

    def _hash_value(self, e: ir.Call, target: ir.Method, data: ir.Expr) -> str:
        assert isinstance(target.object, ir.InstanceRef)
        algorithm = self.hashes[target.object.instance]
        w, t = self.temporary(), self.cpp(e.type)
        put = " ".join(self.writer(data, w))
        if algorithm != "identity":
            return f"({{ {put} {self.context_argument}.checksum<{t}>(Algorithm::{algorithm}, {w}); }})"
        bits = sum(ty.bit_width(s) or 0 for _, s in scalar_fields(base_of(data.type), ""))
        if not 0 < bits <= 64:
            raise unsupported(e.span, f"an IDENTITY hash of {bits} bits", "at most 64")
        low = f"identity({w}.data(), {w}.bytes()) >> {-bits % 8}"
        return f"({{ {put} {t}({t}::R({low})); }})"

    def _function_value(self, e: ir.Call, name: str) -> str:
        if name in ("min", "max"):
            a, b = self.temporary(), self.temporary()
            first, second = (self.expr(v) for v in values(e))
            op = "<" if name == "min" else ">"
            return f"({{ auto {a} = {first}; auto {b} = {second}; {a} {op} {b} ? {a} : {b}; }})"
        if name in ("sizeInBits", "sizeInBytes"):
            width = ty.bit_width(e.type_args[0]) or 0
            return f"bit<32>({width if name == 'sizeInBits' else (width + 7) // 8})"
        raise unsupported(e.span, f"extern function '{name}' as a value")

    @staticmethod
    def _only(e: ir.Call, count: int) -> None:
        if len(values(e)) > count:
            assert isinstance(e.target, ir.Method)
            raise unsupported(e.span, f"{e.target.extern.name}.{e.target.name}() with adjustments or colours")


class TnaParserWriter(TnaWriter, ParserWriter):
    """One instance of a parser."""

    def __init__(
        self, shared: Shared, parser: ir.Parser, ctor: dict[ir.Variable, ir.Expr], path: str, access: str
    ) -> None:
        super().__init__(shared, parser, ctor, path, access)
        self.hashes, self.sums = {}, []


class TnaControlWriter(TnaWriter, ControlWriter):
    """One instance of a control."""

    def __init__(
        self, shared: Shared, control: ir.Control, ctor: dict[ir.Variable, ir.Expr], path: str, access: str
    ) -> None:
        super().__init__(shared, control, ctor, path, access)
        self.hashes, self.sums = {}, []

    def _table(self, table: ir.Table, member: str, action_path: dict[ir.Action, str]) -> None:
        for name in ("registers", "meters", "atcam", "alpm", "idle_timeout"):
            if name in table.properties:
                raise unsupported(table.span, f"table property '{name}'")
        counter = table.properties.get("counters")
        if isinstance(counter, ir.InstanceRef):
            for use in table.actions:
                if not _counts(use.action, counter.instance):
                    what = f"action '{use.action.name}' that leaves its table's DirectCounter alone"
                    raise unsupported(
                        use.action.span, what, f"{counter.instance.name}.count() in each action"
                    )
        super()._table(table, member, action_path)


def _counts(action: ir.Action, counter: ir.Instance) -> bool:
    return any(
        isinstance(n, ir.Call)
        and isinstance(n.target, ir.Method)
        and isinstance(n.target.object, ir.InstanceRef)
        and n.target.object.instance is counter
        for n in walk(action.body)
    )


def values_of(instance: ir.Instance) -> list[ir.Expr]:
    """The constructor's arguments that were given."""
    return [a.value for a in instance.args if a.value is not None]


def write_tna_block(
    shared: Shared,
    declaration: ir.Parser | ir.Control,
    ctor: dict[ir.Variable, ir.Expr],
    path: str,
    access: str,
) -> tuple[str, bool]:
    """(struct name, whether it may exit) of one instance, written after those inside it."""
    struct = shared.struct_name(path)
    writer = TnaParserWriter if isinstance(declaration, ir.Parser) else TnaControlWriter
    return struct, writer(shared, declaration, ctor, path, access).write(struct)  # type: ignore[arg-type]
