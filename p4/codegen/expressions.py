"""Expressions as C++. The runtime's types carry widths, so most operators are themselves."""

from __future__ import annotations

from p4.codegen.code import cpp_name, unsupported
from p4.codegen.layout import Layout, base_of, scalar_fields
from p4.lang import ir
from p4.lang import types as ty

_SAME = ("+", "-", "*", "/", "%", "&", "|", "^", "<", ">", "<=", ">=", "==", "!=", "&&", "||")
_NAMED = {"|+|": "sat_add", "|-|": "sat_sub", "<<": "shl", ">>": "shr", "++": "concat"}


def has_effects(e: ir.Expr) -> bool:
    """Whether evaluating it may change something: a call that is not of a pure built-in."""
    match e:
        case ir.Call():
            return not isinstance(e.target, ir.Builtin)
        case ir.Field() | ir.Slice() | ir.StackPart():
            return has_effects(e.base)
        case ir.SliceAt():
            return has_effects(e.base) or has_effects(e.low)
        case ir.Item():
            return has_effects(e.base) or has_effects(e.index)
        case ir.Unary() | ir.Cast():
            return has_effects(e.operand)
        case ir.Binary():
            return has_effects(e.left) or has_effects(e.right)
        case ir.Ternary():
            return has_effects(e.condition) or has_effects(e.yes) or has_effects(e.no)
        case ir.Aggregate():
            return any(map(has_effects, e.items))
    return False


class ExpressionWriter:
    """Expressions of one block instance. ``ctor``: what its constructor's parameters are."""

    def __init__(self, layout: Layout, ctor: dict[ir.Variable, ir.Expr]) -> None:
        self.layout = layout
        self.ctor = ctor
        self.names: dict[ir.Variable, str] = {}
        self.used: set[str] = set()
        self.temporaries = 0
        self.places: dict[ir.Expr, str] = {}  # expressions evaluated already, and where their value is

    # ---- names

    def declare(self, variable: ir.Variable, prefix: str = "") -> str:
        """A C++ name for a variable, not used before in this function."""
        name, n = cpp_name(variable.name), 1
        while name in self.used:
            n += 1
            name = f"{cpp_name(variable.name)}{n}"
        self.used.add(name)
        self.names[variable] = prefix + name
        return name

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}_"

    def cpp(self, type_: ty.Type) -> str:
        return self.layout.cpp(type_)

    # ---- values

    def expr(self, e: ir.Expr) -> str:
        if e in self.places:
            return self.places[e]
        match e:
            case ir.Const():
                return self.constant(e)
            case ir.Var():
                return self._variable(e)
            case ir.Field():
                return self._field(e)
            case ir.Item():
                if isinstance(e.base.type, ty.Tuple):
                    return f"{self.expr(e.base)}.f{self.integer(e.index)}"
                return f"{self.expr(e.base)}.at({self.index(e.index)})"
            case ir.StackPart():
                base = self.expr(e.base)
                return f"{base}.{'last_index' if e.part == 'lastIndex' else e.part}()"
            case ir.Slice():
                return f"slice<{e.high}, {e.low}>({self.expr(e.base)})"
            case ir.SliceAt():
                assert isinstance(e.type, ty.Bits)
                return f"slice_at<{e.type.width}>({self.expr(e.base)}, shift_amount({self.expr(e.low)}))"
            case ir.Unary():
                return f"{e.op}({self.expr(e.operand)})"
            case ir.Binary():
                return self._binary(e)
            case ir.Ternary():
                return f"({self.expr(e.condition)} ? {self.expr(e.yes)} : {self.expr(e.no)})"
            case ir.Cast():
                return self._cast(e)
            case ir.Aggregate():
                return self._aggregate(e)
            case ir.Default():
                return f"{self.cpp(e.type)}{{}}"
            case ir.Call():
                return self.call(e)
        raise unsupported(e.span, f"{type(e).__name__} as a value")

    def constant(self, e: ir.Const) -> str:
        base = base_of(e.type)
        value = e.value
        match base:
            case ty.Bits():
                return self.number(int(value), base)
            case ty.Simple("bool"):
                return "true" if value else "false"
            case ty.Simple("error"):
                return f"error_t::{cpp_name(str(value))}"
            case ty.EnumType():
                return f"{self.cpp(base)}::{cpp_name(str(value))}"
            case ty.Simple("int"):
                return str(value)
        raise unsupported(e.span, f"a constant of type {e.type}")

    def number(self, value: int, type_: ty.Bits) -> str:
        """A literal of the type, as its bit pattern."""
        pattern = value & ((1 << type_.width) - 1)
        name = self.cpp(type_)
        if type_.width <= 64:
            return (
                f"{name}({pattern:#x}u{'ll' if pattern >> 32 else ''})"
                if pattern > 9
                else f"{name}({pattern})"
            )
        words = [(pattern >> (64 * i)) & (2**64 - 1) for i in range((type_.width + 63) // 64)]
        if type_.width <= 128:
            return f"{name}(u128({words[1]:#x}ull) << 64 | {words[0]:#x}ull)"
        listed = ", ".join(f"{w:#x}ull" for w in words)
        return f"{name}({name}::R{{{{{listed}}}}})"

    def integer(self, e: ir.Expr) -> int:
        """The value of an expression that is known when the program is instantiated."""
        value = self.resolve(e)
        if isinstance(value, ir.Const) and isinstance(value.value, int):
            return int(value.value)
        raise unsupported(e.span, "a value that is not a plain constant here")

    def resolve(self, e: ir.Expr) -> ir.Expr:
        """A constructor parameter replaced by what was passed; constant casts applied."""
        if isinstance(e, ir.Var) and e.variable in self.ctor:
            return self.ctor[e.variable]
        if isinstance(e, ir.Cast):
            inner = self.resolve(e.operand)
            target = base_of(e.type)
            if isinstance(inner, ir.Const) and isinstance(inner.value, int) and isinstance(target, ty.Bits):
                return ir.Const(e.type, e.span, int(inner.value) & ((1 << target.width) - 1))
        if isinstance(e, ir.Binary):
            left, right = self.resolve(e.left), self.resolve(e.right)
            both = isinstance(left, ir.Const) and isinstance(right, ir.Const)
            if (
                both
                and e.op in ("+", "-", "*")
                and isinstance(left, ir.Const)
                and isinstance(right, ir.Const)
            ):
                a, b = int(left.value), int(right.value)
                return ir.Const(e.type, e.span, {"+": a + b, "-": a - b, "*": a * b}[e.op])
        return e

    def index(self, e: ir.Expr) -> str:
        """As a 64-bit number: an index, an amount."""
        value = self.resolve(e)
        if isinstance(value, ir.Const):
            return f"{int(value.value)}u"
        return f"({self.expr(e)}).u64()"

    def bits(self, e: ir.Expr) -> str:
        """A scalar as bit<> or int<>: what keys, hashes and comparisons of enums need."""
        return self.as_bits(self.expr(e), base_of(e.type))

    @staticmethod
    def as_bits(text: str, base: ty.Type) -> str:
        if isinstance(base, ty.Bits):
            return text
        if base == ty.BOOL:
            return f"bit<1>({text})"
        if base == ty.ERROR:
            return f"bit<16>(uint16_t({text}))"
        if isinstance(base, ty.EnumType):
            return f"bit<32>(uint32_t({text}))"
        raise unsupported(None, f"a value of type {base} as bits")

    def _variable(self, e: ir.Var) -> str:
        if e.variable in self.ctor:
            value = self.ctor[e.variable]
            if isinstance(value, ir.Const):
                return self.constant(ir.Const(e.variable.type, e.span, value.value))
            return self.expr(value)
        if e.variable not in self.names:
            raise unsupported(e.span, f"'{e.variable.name}' here")
        return self.names[e.variable]

    def _field(self, e: ir.Field) -> str:
        base = self.expr(e.base)
        if isinstance(e.base.type, ty.ApplyResult):
            return f"{'!' if e.name == 'miss' else ''}{base}.hit"
        return f"{base}.{cpp_name(e.name)}"

    def _binary(self, e: ir.Binary) -> str:
        left, right = self.expr(e.left), self.expr(e.right)
        if e.op not in ("&&", "||") and has_effects(e.right):
            # P4 evaluates from left to right, C++ as it likes.
            first, second = self.temporary(), self.temporary()
            operands = f"auto {first} = {left}; auto {second} = {right};"
            return f"({{ {operands} {self._operator(e.op, first, second)}; }})"
        return self._operator(e.op, left, right)

    @staticmethod
    def _operator(op: str, left: str, right: str) -> str:
        if op in _NAMED:
            return f"{_NAMED[op]}({left}, {right})"
        assert op in _SAME
        return f"({left} {op} {right})"

    def _cast(self, e: ir.Cast) -> str:
        source, to = base_of(e.operand.type), base_of(e.type)
        inner = self.expr(e.operand)
        if source == to:
            return inner
        if to == ty.BOOL:
            return f"({inner}.v != 0)"
        if source == ty.BOOL:
            return f"{self.cpp(to)}({inner})"
        if source == ty.INT and isinstance(to, ty.Bits):
            return self.number(self.integer(e.operand), to)
        return f"cast<{self.cpp(to)}>({inner})"

    def _aggregate(self, e: ir.Aggregate) -> str:
        type_ = base_of(e.type)
        items = [self.expr(i) for i in e.items]
        if isinstance(type_, ty.Record) and type_.kind == "header":
            items.append("true")
        if isinstance(type_, ty.Stack):
            return f"{self.cpp(type_)}{{{{{', '.join(items)}}}, 0}}"
        return f"{self.cpp(type_)}{{{', '.join(items)}}}"

    # ---- byte strings

    def writer(self, data: ir.Expr, name: str, *, open_end: bool = False) -> list[str]:
        """Statements that put `data`'s scalars one after another into a byte string called `name`.

        ``open_end``: more bytes follow (a payload), so its length is not known when compiling.
        """
        scalars = self._scalars(data)
        if open_end or any(isinstance(t, ty.Varbit) for _, t in scalars):
            puts = [path if isinstance(t, ty.Varbit) else self.as_bits(path, t) for path, t in scalars]
            return [f"BitWriter {name};", *(f"{name}.put({put});" for put in puts)]
        at, lines = 0, []
        for path, type_ in scalars:
            lines.append(f"{name}.put<{at}>({self.as_bits(path, type_)});")
            at += ty.bit_width(type_) or (16 if type_ == ty.ERROR else 32)
        return [f"Packed<{at}> {name};", *lines]

    def puts_of_valid(self, data: ir.Expr, name: str) -> tuple[list[str], list[str]]:
        """Statements that put `data`'s scalars but those of invalid headers; the headers it has fields of."""
        base = base_of(data.type)
        if isinstance(data, ir.Aggregate) and not (isinstance(base, ty.Record) and base.kind != "struct"):
            parts = [self.puts_of_valid(item, name) for item in data.items]
            puts = [line for lines, _ in parts for line in lines]
            return puts, list(dict.fromkeys(header for _, headers in parts for header in headers))
        puts = [
            f"{name}.put({path if isinstance(t, ty.Varbit) else self.as_bits(path, t)});"
            for path, t in self._scalars(data)
        ]
        owner = data
        while not (isinstance(made_of := base_of(owner.type), ty.Record) and made_of.kind == "header"):
            if isinstance(owner, (ir.Field, ir.Slice)):
                owner = owner.base
            elif isinstance(owner, ir.Cast):
                owner = owner.operand
            else:
                return puts, []
        header = self.expr(owner)
        return [f"if ({header}.valid_) {{", *puts, "}"], [header]

    def _scalars(self, data: ir.Expr) -> list[tuple[str, ty.Type]]:
        """The scalars of a list of data, in order, each as C++."""
        base = base_of(data.type)
        if isinstance(data, ir.Aggregate) and not (isinstance(base, ty.Record) and base.kind != "struct"):
            return [scalar for item in data.items for scalar in self._scalars(item)]
        if base in (ty.INT, ty.STRING):
            raise unsupported(data.span, f"a value of type {data.type} in a list of data", "one with a width")
        return scalar_fields(base, self.expr(data))

    # ---- needed from the layers above

    def call(self, e: ir.Call) -> str:
        """A call as a value."""
        raise NotImplementedError
