"""P4 types as C++ types: which type a value has, and the structs with their wire layout."""

from __future__ import annotations

import re
from collections.abc import Callable

from p4.codegen.code import Code, cpp_name, unsupported
from p4.lang import types as ty


def base_of(type_: ty.Type) -> ty.Type:
    """Through `type` and serializable enums to what the value is made of."""
    while True:
        if isinstance(type_, ty.NewType):
            type_ = type_.base
        elif isinstance(type_, ty.EnumType) and type_.underlying is not None:
            type_ = type_.underlying
        else:
            return type_


def field_names(type_: ty.Type) -> list[tuple[str, ty.Type]]:
    """The same scalars by their names in the program, for the control plane."""
    return [(path.lstrip("."), t) for path, t in scalar_fields(type_, "", str)]


def scalar_fields(
    type_: ty.Type, path: str, spell: Callable[[str], str] = cpp_name
) -> list[tuple[str, ty.Type]]:
    """The scalars a value consists of, each as a C++ expression from `path`, in wire order. `spell` writes a
    field's name.
    """
    base = base_of(type_)
    match base:
        case ty.Record(_, _, _, fields):
            return [s for n, t in fields for s in scalar_fields(t, f"{path}.{spell(n)}", spell)]
        case ty.Tuple(items):
            return [s for i, t in enumerate(items) for s in scalar_fields(t, f"{path}.f{i}", spell)]
        case ty.Stack(element, size):
            return [s for i in range(size) for s in scalar_fields(element, f"{path}.items[{i}]", spell)]
    return [(path, base)]


SHORTEST_RUN = 4  # fields


def _run_length(scalars: list[tuple[str, ty.Type]]) -> int:
    """How many of the first fields are alike and of 16, 32 or 64 bits; 0 if they are few."""
    kind = scalars[0][1]
    if not (isinstance(kind, ty.Bits) and kind.width in (16, 32, 64)):
        return 0
    count = 0
    while count < len(scalars) and scalars[count][1] == kind and "." not in scalars[count][0]:
        count += 1
    return count if count >= SHORTEST_RUN else 0


def _unit_length(scalars: list[tuple[str, ty.Type]]) -> int:
    """How many of the first fields make up a word of 8, 16, 32 or 64 bits, if more than one do."""
    bits = 0
    for count, (_, kind) in enumerate(scalars, 1):
        if isinstance(kind, ty.Varbit) or not (isinstance(kind, ty.Bits) or kind == ty.BOOL):
            return 0
        bits += ty.bit_width(kind) or 0
        if bits % 8 == 0:
            return count if count > 1 and bits in (8, 16, 32, 64) else 0
    return 0


class Layout:
    """Collects the structs that the program needs, in the order in which C++ must see them."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        self.code = Code()
        self.names: dict[object, str] = {}
        with self.code.block("enum class error_t : uint16_t", "};"):
            for index, name in enumerate(errors):
                self.code.line(f"{cpp_name(name)} = {index},")

    def cpp(self, type_: ty.Type) -> str:
        """The C++ type of values of this type."""
        base = base_of(type_)
        match base:
            case ty.Bits(width, signed):
                return f"{'sint' if signed else 'bit'}<{width}>"
            case ty.Varbit(width):
                return f"varbit<{width}>"
            case ty.Simple("bool"):
                return "bool"
            case ty.Simple("error"):
                return "error_t"
            case ty.Simple("void"):
                return "void"
            case ty.EnumType():
                return self._enum(base)
            case ty.Stack(element, size):
                return f"Stack<{self.cpp(element)}, {size}>"
            case ty.Record():
                return self._record(base)
            case ty.Tuple(items):
                fields = tuple((f"f{i}", t) for i, t in enumerate(items))
                return self._record(ty.Record("struct", "", (), fields), "tuple")
            case ty.Extern("packet_in", _, _):
                return "PacketIn"
            case ty.Extern("packet_out", _, _):
                return "PacketOut"
            case ty.Extern("register", args, _):
                return f"Register<{self.cpp(args[0])}>"
            case ty.Extern("counter", _, _):
                return "Counter"
            case ty.Extern("meter", _, _):
                return "Meter"
            case ty.Extern("action_profile" | "action_selector", _, _):
                return "ActionProfile"
            case ty.Extern("direct_meter", _, _):
                return "DirectMeter"
            case ty.Extern("direct_counter" | "Checksum16", _, _):
                return "void"  # nothing to hold
        raise unsupported(None, f"a value of type {type_}")

    def _unique(self, wanted: str) -> str:
        name, n = wanted, 1
        while name in self.names.values():
            n += 1
            name = f"{wanted}{n}"
        return name

    def _enum(self, type_: ty.EnumType) -> str:
        if type_ not in self.names:
            self.names[type_] = self._unique(cpp_name(type_.name))
            members = ", ".join(cpp_name(m) for m in type_.members)
            self.code.line(f"enum class {self.names[type_]} : uint32_t {{ {members} }};")
        return self.names[type_]

    def _record(self, type_: ty.Record, fallback: str = "record") -> str:
        key = (type_.kind, str(type_), tuple((n, str(t)) for n, t in type_.fields))
        if key not in self.names:
            for _, inner in type_.fields:
                self.cpp(inner)
            wanted = cpp_name(re.sub(r"\W+", "_", str(type_)).strip("_")) if type_.name else fallback
            self.names[key] = self._unique(wanted)
            self._define(self.names[key], type_)
        return self.names[key]

    # ---- definitions

    def _define(self, name: str, type_: ty.Record) -> None:
        code = self.code
        code.line()
        with code.block(f"struct {name}", "};"):
            for field, inner in type_.fields:
                code.line(f"{self.cpp(inner)} {cpp_name(field)}{{}};")
            members = [cpp_name(n) for n, _ in type_.fields]
            if type_.kind == "header":
                code.line("bool valid_ = false;")
                self._set_valid(type_)
            if type_.kind == "header_union":
                self._union_functions(members)
            elif ty.bit_width(type_) is not None and not self._has_stack(type_):
                self._wire_functions(name, type_)
            same = " && ".join(f"{m} == other_.{m}" for m in members) or "true"
            if type_.kind == "header":
                same = f"valid_ == other_.valid_ && (!valid_ || ({same}))"
            named = " other_" if "other_." in same else ""
            code.line(f"bool operator==(const {name}&{named}) const {{ return {same}; }}")
            code.line(f"bool operator!=(const {name}& other_) const {{ return !(*this == other_); }}")

    def _set_valid(self, type_: ty.Record) -> None:
        """setValid() of an invalid header zeroes its fields, as BMv2 does; a varbit keeps its length."""
        with self.code.block("void set_valid()"):
            self.code.line("if (valid_) return;")
            for field, inner in type_.fields:
                name = cpp_name(field)
                kept = isinstance(base_of(inner), ty.Varbit)
                self.code.line(f"{name}.clear();" if kept else f"{name} = decltype({name}){{}};")
            self.code.line("valid_ = true;")

    def _has_stack(self, type_: ty.Record) -> bool:
        return any(
            (isinstance(t, ty.Record) and t.kind != "struct") or isinstance(t, ty.Stack)
            for _, t in type_.fields
        )

    def _union_functions(self, members: list[str]) -> None:
        """At most one member is valid: whoever makes one valid calls only()."""
        code = self.code
        with code.block("void only(const void* kept)"):
            for member in members:
                code.line(f"if (&{member} != kept) {member}.valid_ = false;")
        code.line(
            f"bool is_valid() const {{ return {' || '.join(f'{m}.valid_' for m in members) or 'false'}; }}"
        )

    def _wire_functions(self, name: str, type_: ty.Record) -> None:
        code = self.code
        scalars = scalar_fields(type_, "this->")
        scalars = [(path.replace("this->.", "this->"), t) for path, t in scalars]
        varbits = [(path, t) for path, t in scalars if isinstance(t, ty.Varbit)]
        fixed = sum(ty.bit_width(t) or 0 for _, t in scalars if not isinstance(t, ty.Varbit))
        longest = sum(t.width for _, t in varbits)
        code.line(f"static constexpr size_t fixed_bits = {fixed}, varbit_bits = {longest};")
        behind = f" + {varbits[0][0]}.bits" if varbits else ""
        code.line(f"size_t size_bits() const {{ return fixed_bits{behind}; }}")
        for reading in (True, False):
            arguments = "const uint8_t* p, uint32_t varbits" if reading else "uint8_t* p"
            with code.block(
                f"void {'read' if reading else 'write'}({arguments}){'' if reading else ' const'}"
            ):
                at, seen_varbit, skip = 0, False, 0
                for number, (path, inner) in enumerate(scalars):
                    behind = varbits[0][0] if seen_varbit else ""
                    if not skip and not seen_varbit and at % 8 == 0:
                        if skip := _run_length(scalars[number:]):
                            self._wire_run(name, scalars[number : number + skip], at, reading=reading)
                        elif skip := _unit_length(scalars[number:]):
                            self._wire_unit(scalars[number : number + skip], at, reading=reading)
                    if skip:
                        skip -= 1
                    else:
                        self._wire_field(path, inner, at, behind, reading=reading)
                    if isinstance(inner, ty.Varbit):
                        seen_varbit = True
                    else:
                        at += ty.bit_width(inner) or 0
                if reading:
                    code.line("(void)p, (void)varbits;")
                    if type_.kind == "header":
                        code.line("valid_ = true;")
                else:
                    code.line("(void)p;")

    def _wire_run(self, name: str, run: list[tuple[str, ty.Type]], at: int, *, reading: bool) -> None:
        """Fields that lie side by side on both sides, in one loop."""
        code, cpp = self.code, self.cpp(run[0][1])
        first, last = (f"offsetof({name}, {path.removeprefix('this->')})" for path, _ in (run[0], run[-1]))
        width = run[0][1].width if isinstance(run[0][1], ty.Bits) else 0
        code.line(f"static_assert({last} - {first} == {len(run) - 1} * sizeof({cpp}));")
        field = f"reinterpret_cast<{'' if reading else 'const '}char*>(this) + {first}"
        packet = f"p + {at // 8}"
        to, source = (field, packet) if reading else (packet, field)
        code.line(f"swap_run<uint{width}_t, {len(run)}>({to}, {source});")

    def _wire_unit(self, unit: list[tuple[str, ty.Type]], at: int, *, reading: bool) -> None:
        """Fields that share bytes, in one load or store."""
        code = self.code
        widths = [ty.bit_width(t) or 0 for _, t in unit]
        whole, left, parts = f"bit<{sum(widths)}>", sum(widths), []
        with code.block(""):
            if reading:
                code.line(f"const uint64_t unit_ = load<{whole}, {at}>(p).v;")
            for (path, inner), width in zip(unit, widths, strict=True):
                left -= width
                if not reading:
                    parts.append(f"uint64_t({path}{'' if inner == ty.BOOL else '.v'}) << {left}")
                elif inner == ty.BOOL:
                    code.line(f"{path} = (unit_ >> {left} & 1) != 0;")
                else:
                    code.line(f"{path} = {self.cpp(inner)}(static_cast<rep<{width}>>(unit_ >> {left}));")
            if not reading:
                value = f"static_cast<rep<{sum(widths)}>>({' | '.join(parts)})"
                code.line(f"store<{whole}, {at}>(p, {whole}({value}));")

    def _wire_field(self, path: str, inner: ty.Type, at: int, varbit: str, *, reading: bool) -> None:
        """``varbit``: the varbit field that stands before, whose length moves this one; or ""."""
        code = self.code
        if isinstance(inner, ty.Varbit):
            code.line(f"{path}.read(p, {at}, varbits);" if reading else f"{path}.write(p, {at});")
            return
        cpp = "bit<1>" if inner == ty.BOOL else self.cpp(inner)
        if varbit:
            where = f"{at} + {varbit}.bits"
            got, put = f"load_at<{cpp}>(p, {where})", f"store_at<{cpp}>(p, {where}, "
        else:
            got, put = f"load<{cpp}, {at}>(p)", f"store<{cpp}, {at}>(p, "
        if inner == ty.BOOL:
            code.line(f"{path} = {got}.v != 0;" if reading else f"{put}bit<1>({path}));")
        else:
            code.line(f"{path} = {got};" if reading else f"{put}{path});")
