"""The externs of core.p4 and v1model as calls of the runtime."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from p4.codegen.code import cpp_name, cpp_string, unsupported
from p4.codegen.effects import has_effect
from p4.codegen.expressions import ExpressionWriter
from p4.codegen.layout import base_of, field_names
from p4.codegen.objects import ObjectRef, Objects
from p4.codegen.schema import FieldInfo, StateInfo
from p4.lang import ir
from p4.lang import types as ty
from p4.lang.diagnostics import Span

FIRST_DATA_LIST = 256  # numbers of field lists that the program wrote as data; its own are bit<8>
_ALGORITHMS = ("crc32", "crc32_custom", "crc16", "crc16_custom", "random", "identity", "csum16", "xor16")


def values(e: ir.Call) -> list[ir.Expr]:
    """The arguments' values; v1model's functions leave none out."""
    return [a.value for a in e.args if a.value is not None]


class ExternWriter(ExpressionWriter):
    """`extern_lines` and `extern_value`. ``digests`` is the program's list, which calls add to."""

    context_argument = "f.c"
    members: dict[ir.Instance, str]
    digests: list[StateInfo]
    objects: Objects
    # Of a main control: its metadata parameters, and what they are called in Program::preserve().
    metadata: dict[str, str]
    data_lists: list[tuple[str, ...]]
    unread: AbstractSet[ir.Variable] = frozenset()  # local variables that registers are read into
    # Where the code is compiled a second time to be rehearsed (announce.py): the arrays whose values lead on.
    followed: AbstractSet[ir.Instance] | None = None
    std_meta = ""  # the standard metadata in reach, for mark_to_drop() without an argument

    def assignment(self, target: ir.Expr, value: str) -> str:
        """One statement that assigns. Defined by the layer above."""
        raise NotImplementedError

    def union_of(self, target: ir.Expr) -> str:
        raise NotImplementedError

    # ---- functions

    def stop_rehearsal(self, *before: str) -> str:
        """The end of a rehearsal, in a function without a value; nothing where there is none."""
        lines = " ".join([*before, f"{self.context_argument}.exited = true; return;"])
        return f"if constexpr (Rehearsal) {{ {lines} }}"

    def extern_lines(self, e: ir.Call) -> list[str]:
        lines = self._extern_lines(e)
        if self.followed is None:
            return lines
        return [self.stop_rehearsal(), *lines] if has_effect(e) else lines

    def _extern_lines(self, e: ir.Call) -> list[str]:
        if isinstance(e.target, ir.Method):
            return self._method_lines(e, e.target)
        assert isinstance(e.target, ir.ExternFunction)
        c, args = self.context_argument, values(e)
        match e.target.name:
            case "verify":
                return [f"if (!{self.expr(args[0])}) throw ParserError{{uint16_t({self.expr(args[1])})}};"]
            case "mark_to_drop":
                std = self.expr(args[0]) if args else self.std_meta
                if not std:
                    raise unsupported(e.span, "mark_to_drop() here", "mark_to_drop(standard_metadata)")
                return [f"{std}.egress_spec = bit<9>(511);", f"{std}.mcast_grp = bit<16>();"]
            case "random":
                t = self.cpp(args[0].type)
                low, high = self.expr(args[1]), self.expr(args[2])
                return [self.assignment(args[0], f"{c}.random_between<{t}>({low}, {high})")]
            case "digest":
                return self._digest(e, args[1])
            case "hash":
                return self._hash(e, args)
            case "verify_checksum" | "verify_checksum_with_payload":
                w = self.temporary()
                given = f"{self.cpp(args[2].type)}({self.expr(args[2])})"
                check = f"{c}.verify_checksum({self.algorithm(args[3])}, {w}, {given});"
                return [f"if ({self.expr(args[0])}) {{", *self._checksum(e, args[1], w, check), "}"]
            case "update_checksum" | "update_checksum_with_payload":
                t, w = self.cpp(args[2].type), self.temporary()
                put = self.assignment(args[2], f"{c}.checksum<{t}>({self.algorithm(args[3])}, {w})")
                return [f"if ({self.expr(args[0])}) {{", *self._checksum(e, args[1], w, put), "}"]
            case "clone":
                return [f"{c}.clone({self.index(args[1])}, no_field_list);"]
            case "clone_preserving_field_list":
                return [f"{c}.clone({self.index(args[1])}, {self.integer(args[2])});"]
            case "clone3":
                return [f"{c}.clone({self.index(args[1])}, {self._data_list(e, args[2])});"]
            case "resubmit" | "recirculate":
                return [f"{c}.{e.target.name}({self._data_list(e, args[0])});"]
            case "resubmit_preserving_field_list" | "recirculate_preserving_field_list":
                return [f"{c}.{e.target.name.split('_')[0]}({self.integer(args[0])});"]
            case "truncate":
                return [f"{c}.truncate({self.index(args[0])});"]
            case "assert" | "assume":
                return [f"{c}.check({self.expr(args[0])});"]
            case "log_msg":
                return self._log(e, args)
        raise unsupported(e.span, f"extern function '{e.target.name}'")

    def extern_value(self, e: ir.Call) -> str:
        target = e.target
        if isinstance(target, ir.Method):
            name = (target.extern.name, target.name)
            if name == ("packet_in", "lookahead"):
                return self._lookahead(self.expr(target.object), e)
            if name == ("packet_in", "length"):
                return f"{self.expr(target.object)}.length()"
            if name == ("Checksum16", "get"):
                w = self.temporary()
                lines = " ".join(self.writer(values(e)[0], w))
                return f"({{ {lines} {self.context_argument}.checksum<bit<16>>(Algorithm::csum16, {w}); }})"
            raise unsupported(e.span, f"{target.extern.name}.{target.name}() as a value")
        raise unsupported(e.span, "this extern function as a value")

    def _log(self, e: ir.Call, args: list[ir.Expr]) -> list[str]:
        if not (isinstance(args[0], ir.Const) and isinstance(args[0].value, str)):
            raise unsupported(e.span, "log_msg() of a text known only at run time", '"text {}"')
        scalars = self._scalars(args[1]) if len(args) > 1 else []
        values_ = ", ".join(f"to_text({self.as_bits(path, t)})" for path, t in scalars)
        return [f"{self.context_argument}.log({cpp_string(args[0].value)}, {{{values_}}});"]

    def _data_list(self, e: ir.Call, data: ir.Expr) -> str:
        """The old forms: their data is a field list, of metadata fields as the pass leaves them."""
        paths = []
        for text, _ in self._scalars(data):
            found = [(old, new) for old, new in self.metadata.items() if text.startswith(f"{old}.")]
            if not found:
                assert isinstance(e.target, ir.ExternFunction)
                what = f"{e.target.name} with data that is not a field of ingress's or egress's metadata"
                raise unsupported(e.span, what, "a _preserving_field_list form and @field_list")
            [(old, new)] = found
            paths.append(new + text.removeprefix(old))
        if not paths:
            return "no_field_list"
        if tuple(paths) not in self.data_lists:
            self.data_lists.append(tuple(paths))
        return str(FIRST_DATA_LIST + self.data_lists.index(tuple(paths)))

    def _checksum(self, e: ir.Call, data: ir.Expr, w: str, use: str) -> list[str]:
        """`use` of the data in `w`; as in BMv2, the fields of invalid headers are left out of it."""
        assert isinstance(e.target, ir.ExternFunction)
        payload = []
        if e.target.name.endswith("_with_payload"):
            payload = [f"{w}.put({self.context_argument}.payload, {self.context_argument}.payload_bytes);"]
        complete = [*self.writer(data, w, open_end=bool(payload)), *payload, use]
        if "Algorithm::csum16" in use and complete[0].startswith("Packed<"):
            complete[0] = f"InternetSum {w};"
        puts, headers = self.puts_of_valid(data, w)
        if not headers:
            return complete
        valid = " && ".join(f"{header}.valid_" for header in headers)
        return [f"if ({valid}) {{", *complete, "} else {", f"BitWriter {w};", *puts, *payload, use, "}"]

    def algorithm(self, e: ir.Expr) -> str:
        value = self.resolve(e)
        if isinstance(value, ir.Const) and value.value in _ALGORITHMS:
            return f"Algorithm::{value.value}"
        raise unsupported(e.span, "a hash algorithm that is not a constant of HashAlgorithm")

    def _hash(self, e: ir.Call, args: list[ir.Expr]) -> list[str]:
        w = self.temporary()
        t = self.cpp(args[0].type)
        algorithm, base, most = self.algorithm(args[1]), self.index(args[2]), self.index(args[4])
        value = f"{self.context_argument}.hash<{t}>({algorithm}, {base}, {w}, {most})"
        return ["{", *self.writer(args[3], w), self.assignment(args[0], value), "}"]

    def _digest(self, e: ir.Call, data: ir.Expr) -> list[str]:
        w = self.temporary()
        base = base_of(data.type)
        name = base.name if isinstance(base, ty.Record) and base.name else "digest"
        fields = tuple(
            FieldInfo(field, ty.bit_width(t) or (16 if t == ty.ERROR else 32))
            for field, t in field_names(base)
        )
        info = StateInfo(name, 0, fields=fields)
        if info not in self.digests:
            self.digests.append(info)
        kind = self.digests.index(info)
        return ["{", *self.writer(data, w), f"{self.context_argument}.digest({kind}, {w});", "}"]

    # ---- objects

    def place(self, e: ir.Expr) -> str:
        """An object as C++: a member here, a parameter of apply(), or one from elsewhere; "" if none."""
        value = self.resolve(e)
        if isinstance(value, ObjectRef):
            return self.objects.text(value, self.context_argument)
        if isinstance(value, ir.InstanceRef):
            if value.instance in self.members:
                return self.members[value.instance]
            if value.instance in self.objects.top:
                return self.objects.text(self.objects.top[value.instance], self.context_argument)
        if isinstance(value, ir.Var) and value.variable in self.names:
            return self.names[value.variable]
        return ""

    def _member(self, target: ir.Method) -> str:
        place = self.place(target.object)
        if not place:
            raise unsupported(target.object.span, f"an object of type {target.extern.name} here")
        return place

    def _method_lines(self, e: ir.Call, target: ir.Method) -> list[str]:
        c, args = self.context_argument, values(e)
        match target.extern.name, target.name:
            case "packet_in", "extract":
                return self._extract(e, self.expr(target.object))
            case "packet_in", "advance":
                return [f"{self.expr(target.object)}.advance({self.index(args[0])});"]
            case "packet_in", _:
                return [f"(void){self.extern_value(e)};"]
            case "packet_out", "emit":
                self._whole_bytes_inside(args[0].type, e.span)
                return emit_lines(self.expr(target.object), self.expr(args[0]), args[0].type)
            case "register", "read":
                member = self._member(target)
                if isinstance(args[0], ir.Var) and args[0].variable in self.unread:
                    return [f"{member}.prefetch({self.index(args[1])});"]
                if self.followed is not None and not self._leads_on(target.object):
                    stop = self.stop_rehearsal(f"{member}.prefetch({self.index(args[1])});")
                    return [stop, *self._read_lines(member, args)]
                return self._read_lines(member, args)
            case "register", "write":
                return [f"{self._member(target)}.write({self.index(args[0])}, {self.expr(args[1])});"]
            case "counter", "count":
                return [f"{self._member(target)}.count({self.index(args[0])}, {c}.packet_bytes);"]
            case "direct_counter", "count":
                return []  # every hit of its table is counted
            case "meter", "execute_meter":
                where = f"{self.index(args[0])}, {c}.packet_bytes, {c}.now_us"
                return [self._coloured(args[1], f"{self._member(target)}.execute({where})")]
            case "direct_meter", "read":
                member = self._member(target)
                where = f"uint64_t(int64_t({member}.entry)), {c}.packet_bytes, {c}.now_us"
                return [self._coloured(args[0], f"{member}.execute({where})")]
        raise unsupported(e.span, f"{target.extern.name}.{target.name}()")

    def _leads_on(self, array: ir.Expr) -> bool:
        assert self.followed is not None
        return isinstance(array, ir.InstanceRef) and array.instance in self.followed

    def _read_lines(self, member: str, args: list[ir.Expr]) -> list[str]:
        if isinstance(args[0], (ir.Slice, ir.SliceAt)):
            t, name = self.cpp(args[0].type), self.temporary()
            read = f"{member}.read({name}, {self.index(args[1])});"
            return [f"{t} {name}{{}};", read, self.assignment(args[0], name)]
        return [f"{member}.read({self.expr(args[0])}, {self.index(args[1])});"]

    def _coloured(self, out: ir.Expr, colour: str) -> str:
        t = self.cpp(out.type)
        return self.assignment(out, f"{t}({t}::R({colour}))")

    # ---- packets

    def _extract(self, e: ir.Call, packet: str) -> list[str]:
        header = e.args[0].value
        self._whole_bytes(e.type_args[0], e.span)
        if header is None:
            return [f"{packet}.skip<{self.cpp(e.type_args[0])}>();"]
        text = self.expr(header)
        extra = f", {self.index(values(e)[1])}" if len(e.args) > 1 else ""
        lines = [f"{packet}.extract({text}{extra});"]
        union = self.union_of(header)
        if union:
            lines.append(f"{union}.only(&{text});")
        place: ir.Expr = header
        while isinstance(place, ir.Field):  # next may be a stack's union, and the header its member
            place = place.base
        if isinstance(place, ir.StackPart) and place.part == "next":
            lines.append(f"{self.expr(place.base)}.advance();")
        return lines

    @staticmethod
    def _whole_bytes(type_: ty.Type, span: Span) -> None:
        """Headers begin and end at bytes, as BMv2 wants them; one with a varbit is checked as it is read."""
        width = ty.bit_width(type_)
        if width is not None and width % 8 and not has_varbit(type_):
            raise unsupported(span, f"header {type_} of {width} bits", "whole bytes")

    def _whole_bytes_inside(self, type_: ty.Type, span: Span) -> None:
        match type_:
            case ty.Record("header", _, _, _):
                self._whole_bytes(type_, span)
            case ty.Record(_, _, _, fields):
                for _, inner in fields:
                    self._whole_bytes_inside(inner, span)
            case ty.Stack(element, _):
                self._whole_bytes_inside(element, span)

    def _lookahead(self, packet: str, e: ir.Call) -> str:
        base = base_of(e.type)
        if isinstance(base, ty.Bits):
            return f"{packet}.lookahead<{self.cpp(base)}>()"
        if base == ty.BOOL:
            return f"({packet}.lookahead<bit<1>>().v != 0)"
        return f"{packet}.lookahead_header<{self.cpp(base)}>()"


def has_varbit(type_: ty.Type) -> bool:
    """Whether it is a header with a field of varying length."""
    return isinstance(type_, ty.Record) and any(isinstance(t, ty.Varbit) for _, t in type_.fields)


def emit_lines(packet: str, text: str, type_: ty.Type) -> list[str]:
    """C++ statements that emit the headers in `text`."""
    match type_:
        case ty.Record("header", _, _, _):
            return [f"{packet}.emit({text});"]
        case ty.Record(_, _, _, fields):
            return [line for n, t in fields for line in emit_lines(packet, f"{text}.{cpp_name(n)}", t)]
        case ty.Stack(element, size):
            return [line for i in range(size) for line in emit_lines(packet, f"{text}.items[{i}]", element)]
        case ty.Tuple(items):
            return [line for i, t in enumerate(items) for line in emit_lines(packet, f"{text}.f{i}", t)]
    raise unsupported(None, f"emit of {type_}")
