"""Runs of statements that do the same to one register array and header field after another, as loops.

P4 has no arrays of fields, so a program that does something to each of a packet's values repeats it for
each (the EACH_VALUE of p4/programs). Where the repetitions differ only in fields that lie side by side
in a header and in registers that lie side by side in memory (state.h interleaves them), they are one
loop over both, which the C++ compiler turns into vectors.

A run is taken only where a loop is the same: its statements are assignments and register reads and
writes, nothing they share is written by one repetition and read by another except through a local
variable, and every index stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from p4.codegen.calls import CallWriter
from p4.codegen.code import Code, cpp_name
from p4.codegen.externs import values
from p4.codegen.layout import base_of
from p4.lang import ir
from p4.lang import types as ty
from p4.lang.walk import is_chain

FEWEST = 8  # repetitions that are worth a loop
LONGEST = 12  # statements in each of them


@dataclass
class _Run:
    """``period`` statements, ``count`` times. The moving parts are those of the first repetition."""

    period: int
    count: int
    fields: list[ir.Field] = field(default_factory=list)
    registers: list[ir.Method] = field(default_factory=list)


class RunWriter(CallWriter):
    """`write_run` writes the run that begins at a statement, if one does."""

    code: Code
    rerolls = True  # not where every access is to be recorded

    def write_run(self, items: Sequence[ir.Statement], at: int) -> int:
        """How many statements were written as one loop; 0 if none."""
        run = self._find(items, at) if self.rerolls else None
        if run is None:
            return 0
        self._write(run, items[at : at + run.period * run.count], items[at : at + run.period])
        return run.period * run.count

    def statement(self, s: ir.Statement) -> None:
        """Defined by the layer above."""
        raise NotImplementedError

    # ---- finding

    def _find(self, items: Sequence[ir.Statement], at: int) -> _Run | None:
        for period in range(1, min(LONGEST, (len(items) - at) // FEWEST) + 1):
            first = items[at : at + period]
            if not all(map(_simple, first)):
                return None
            run = _Run(period, 1)
            while self._repeats(run, first, items[at + run.count * period : at + (run.count + 1) * period]):
                run.count += 1
            if run.count >= FEWEST and self._is_loop(run, first):
                return run
        return None

    def _repeats(self, run: _Run, first: Sequence[ir.Statement], these: Sequence[ir.Statement]) -> bool:
        """Whether `these` are repetition `run.count`: the second says what moves, the others move so."""
        if len(these) != len(first) or not all(map(_simple, these)):
            return False
        moving = _Run(run.period, run.count)
        if not all(self._alike(moving, a, b) for a, b in zip(first, these, strict=True)):
            return False
        if run.count == 1:
            run.fields, run.registers = moving.fields, moving.registers
            return bool(moving.registers or moving.fields)
        return moving.fields == run.fields and moving.registers == run.registers

    def _alike(self, run: _Run, a: ir.Statement, b: ir.Statement) -> bool:
        match a, b:
            case ir.Assign(), ir.Assign():
                return self._same(run, a.target, b.target) and self._same(run, a.value, b.value)
            case ir.CallStatement(), ir.CallStatement():
                return self._same(run, a.call, b.call)
        return False

    def _same(self, run: _Run, a: ir.Expr, b: ir.Expr) -> bool:
        if type(a) is not type(b) or a.type != b.type:
            return False
        match a, b:
            case ir.Const(), ir.Const():
                return a.value == b.value
            case ir.Var(), ir.Var():
                return a.variable is b.variable
            case ir.Field(), ir.Field():
                if not self._same(_Run(0, 0), a.base, b.base):
                    return False
                if a.name == b.name:
                    return True
                run.fields.append(a)
                return _field_distance(a, b) == run.count
            case ir.Slice(), ir.Slice():
                return (a.high, a.low) == (b.high, b.low) and self._same(run, a.base, b.base)
            case ir.Unary(), ir.Unary():
                return a.op == b.op and self._same(run, a.operand, b.operand)
            case ir.Cast(), ir.Cast():
                return self._same(run, a.operand, b.operand)
            case ir.Binary(), ir.Binary():
                return a.op == b.op and self._same(run, a.left, b.left) and self._same(run, a.right, b.right)
            case ir.Ternary(), ir.Ternary():
                pairs = ((a.condition, b.condition), (a.yes, b.yes), (a.no, b.no))
                return all(self._same(run, x, y) for x, y in pairs)
            case ir.Call(), ir.Call():
                assert isinstance(a.target, ir.Method) and isinstance(b.target, ir.Method)
                if a.target.name != b.target.name:
                    return False
                mine, other = self.place(a.target.object), self.place(b.target.object)
                if mine != other:
                    run.registers.append(a.target)
                    here, there = self.register_place(mine), self.register_place(other)
                    if here is None or there != (here[0], here[1] + run.count):
                        return False
                elif not mine:
                    return False
                return all(self._same(run, x, y) for x, y in zip(values(a), values(b), strict=True))
        return False

    def register_place(self, place: str) -> tuple[object, int] | None:
        """(a group, a number in it) of a register; a group lie side by side. None outside blocks."""
        return None

    # ---- whether a loop is the same

    def _is_loop(self, run: _Run, first: Sequence[ir.Statement]) -> bool:
        moving = set(run.fields)
        accesses = [s.call for s in first if isinstance(s, ir.CallStatement)]
        if any(call.target not in run.registers for call in accesses):
            return False  # the same element each time round: no use of a loop
        indices = [self._index_of(call) for call in accesses]
        written: set[ir.Variable] = set()
        stored: set[tuple[str, str]] = set()  # the fields that some repetition writes, with their records
        for target in map(_target, first):
            if target in moving:
                assert isinstance(target, ir.Field)
                stored.update((self.expr(target.base), name) for name in _fields_from(target, run.count))
            elif isinstance(target, ir.Var) and self._is_local(target.variable):
                written.add(target.variable)
            elif target is not None:
                return False
        starts: dict[str, str] = {}  # of each record, the one field that its run of fields begins with
        for one in run.fields:
            if starts.setdefault(self.expr(one.base), one.name) != one.name:
                return False
        arrays = [self.place(m.object) for m in run.registers]
        places = [place for place in map(self.register_place, arrays) if place is not None]
        if any(a[0] == b[0] and 0 < abs(a[1] - b[1]) < run.count for a in places for b in places):
            return False  # one's end is the other's beginning
        for e in (e for s in first for e in _parts(s)):
            if not isinstance(base_of(e.type), ty.Bits) and base_of(e.type) != ty.BOOL:
                return False
            if isinstance(e, ir.Field) and e not in moving and (self.expr(e.base), e.name) in stored:
                return False
        for index in indices:
            for e in _walk(index):
                if e in moving or (isinstance(e, ir.Var) and e.variable in written):
                    return False
        return True

    def _is_local(self, variable: ir.Variable) -> bool:
        return not self.names.get(variable, "f.").startswith("f.") and variable.kind == "local"

    @staticmethod
    def _index_of(call: ir.Call) -> ir.Expr:
        assert isinstance(call.target, ir.Method)
        return values(call)[1 if call.target.name == "read" else 0]

    # ---- writing

    def _write(self, run: _Run, all_: Sequence[ir.Statement], first: Sequence[ir.Statement]) -> None:
        code = self.code
        if run.registers and self.followed is not None:
            code.line(self.stop_rehearsal())
        with code.block(""):
            elements: dict[tuple[str, str], str] = {}
            for s in first:
                if isinstance(s, ir.CallStatement) and isinstance(s.call.target, ir.Method):
                    key = (self.place(s.call.target.object), self.index(self._index_of(s.call)))
                    if key not in elements:
                        elements[key] = self.temporary()
                        code.line(f"auto* const __restrict {elements[key]} = {key[0]}.element({key[1]});")
            bases = {self.expr(e.base): e for e in run.fields}
            restrict = " __restrict" if len(bases) == 1 else ""
            pointers = {}
            for text, e in bases.items():
                pointers[text] = self.temporary()
                self._point(pointers[text], text, e, run.count, restrict)
            for e in run.fields:
                self.places[e] = f"{pointers[self.expr(e.base)]}[k_]"
            inside = " && ".join(f"{name} != nullptr" for name in elements.values()) or "true"
            with code.block(f"if ({inside})", "} else {"):
                self._loop(run, first, elements)
            for e in run.fields:
                del self.places[e]
            code.indent += 1
            for s in all_:
                self.statement(s)
            code.indent -= 1
            code.line("}")

    def _point(self, name: str, base: str, e: ir.Field, count: int, restrict: str) -> None:
        """A pointer to the first of the fields, made from the whole record's address."""
        record, cpp = self.cpp(e.base.type), self.cpp(e.type)
        names = _fields_from(e, count)
        ends = [f"offsetof({record}, {cpp_name(n)})" for n in (names[0], names[-1])]
        self.code.line(f"static_assert({ends[1]} - {ends[0]} == {count - 1} * sizeof({cpp}));")
        place = f"reinterpret_cast<char*>(&{base}) + {ends[0]}"
        self.code.line(f"{cpp}* const{restrict} {name} = reinterpret_cast<{cpp}*>({place});")

    def _loop(self, run: _Run, first: Sequence[ir.Statement], elements: dict[tuple[str, str], str]) -> None:
        code = self.code
        ever: list[tuple[str, str, str]] = []  # whether a condition ever held; the variable, what it then is
        body = Code()
        for s in first:
            once = _set_once(s, first)
            if once is not None:
                variable, condition, value = once
                flag = self.temporary()
                ever.append((flag, self.expr(variable), self.expr(value)))
                body.line(f"{flag} |= {self.expr(condition)};")
            elif isinstance(s, ir.Assign):
                body.line(f"{self.expr(s.target)} = {self.expr(s.value)};")
            else:
                assert isinstance(s, ir.CallStatement) and isinstance(s.call.target, ir.Method)
                key = (self.place(s.call.target.object), self.index(self._index_of(s.call)))
                element = f"{elements[key]}[k_]"
                args = values(s.call)
                if s.call.target.name == "read":
                    body.line(f"{self.expr(args[0])} = {element};")
                else:
                    body.line(f"{element} = {self.expr(args[1])};")
        for flag, _, _ in ever:
            code.line(f"uint32_t {flag} = 0;")
        with code.block(f"for (int k_ = 0; k_ < {run.count}; ++k_)"):
            code.add(body)
        for flag, variable_, value_ in ever:
            code.line(f"if ({flag}) {variable_} = {value_};")


def _simple(s: ir.Statement) -> bool:
    """An assignment, or a read or write of a register array of v1model."""
    if isinstance(s, ir.Assign):
        return isinstance(s.target, (ir.Var, ir.Field))
    if not isinstance(s, ir.CallStatement) or not isinstance(s.call.target, ir.Method):
        return False
    target = s.call.target
    if target.extern.name != "register" or target.name not in ("read", "write") or len(values(s.call)) != 2:
        return False
    return target.name == "write" or isinstance(values(s.call)[0], (ir.Var, ir.Field))


def _field_distance(first: ir.Field, second: ir.Field) -> int:
    """How many places a field stands behind another of the record; 0 unless all between are of their type."""
    record = first.base.type
    if not isinstance(record, ty.Record) or record.kind == "header_union" or not is_chain(first.base):
        return 0
    names = [n for n, _ in record.fields]
    begin, end = names.index(first.name), names.index(second.name)
    between = {base_of(t) for _, t in record.fields[begin : end + 1]}
    kind = next(iter(between)) if len(between) == 1 else None
    return end - begin if isinstance(kind, ty.Bits) and kind.width <= 64 else 0


def _fields_from(first: ir.Field, count: int) -> list[str]:
    """The field and those behind it in its record, `count` in all."""
    assert isinstance(first.base.type, ty.Record)
    names = [n for n, _ in first.base.type.fields]
    return names[names.index(first.name) :][:count]


def _target(s: ir.Statement) -> ir.Expr | None:
    """What the statement writes, unless that is a register."""
    if isinstance(s, ir.Assign):
        return s.target
    assert isinstance(s, ir.CallStatement) and isinstance(s.call.target, ir.Method)
    return values(s.call)[0] if s.call.target.name == "read" else None


def _parts(s: ir.Statement) -> Iterator[ir.Expr]:
    """Every value in the statement, down to the fields."""
    if isinstance(s, ir.Assign):
        yield from _walk(s.target)
        yield from _walk(s.value)
    elif isinstance(s, ir.CallStatement):
        for value in values(s.call):
            yield from _walk(value)


def _walk(e: ir.Expr) -> Iterator[ir.Expr]:
    yield e
    match e:
        case ir.Slice():
            yield from _walk(e.base)
        case ir.Unary() | ir.Cast():
            yield from _walk(e.operand)
        case ir.Binary():
            yield from _walk(e.left)
            yield from _walk(e.right)
        case ir.Ternary():
            yield from _walk(e.condition)
            yield from _walk(e.yes)
            yield from _walk(e.no)


def _set_once(s: ir.Statement, first: Sequence[ir.Statement]) -> tuple[ir.Expr, ir.Expr, ir.Expr] | None:
    """(x, c, k) of `x = c ? k : x`, k constant and x nowhere else in the run: x is k if c ever holds."""
    if (
        not isinstance(s, ir.Assign)
        or not isinstance(s.target, ir.Var)
        or not isinstance(s.value, ir.Ternary)
    ):
        return None
    x, value = s.target.variable, s.value
    if not isinstance(value.yes, ir.Const) or not (isinstance(value.no, ir.Var) and value.no.variable is x):
        return None
    uses = [e for t in first for e in _parts(t) if isinstance(e, ir.Var) and e.variable is x]
    return (s.target, value.condition, value.yes) if len(uses) == 2 else None
