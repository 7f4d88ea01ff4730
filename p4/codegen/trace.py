"""A program generated for tracing: each step of a packet is recorded (p4/runtime/netfold_p4/trace.h).

The writers here write what those of blocks.py do, with a line more where a step is taken. Nothing of it is
in the library of a program that is not traced.
"""

from __future__ import annotations

from p4.codegen.blocks import Writers
from p4.codegen.code import Code, cpp_name, unsupported
from p4.codegen.controls import ControlWriter
from p4.codegen.parsers import ParserWriter
from p4.codegen.tables import annotated_name
from p4.codegen.v1model import Generated, generate_v1model
from p4.lang import ir
from p4.lang import types as ty


def generate_traced(program: ir.Program) -> Generated:
    """C++ for a checked v1model program, with a record of every step. Raises P4Error as `generate` does."""
    main = program.main
    if main is None or not isinstance(main.type, ty.Block) or main.type.name != "V1Switch":
        raise unsupported(main.span if main else None, "tracing this program", "v1model: V1Switch(...) main;")
    made = generate_v1model(program, Writers(_TracedParser, _TracedControl))
    head = '#include "netfold_p4/v1model.h"\n'
    source = made.source.replace(head, f'#include "netfold_p4/trace.h"\n{head}', 1)
    return Generated(source + '#include "netfold_p4/trace_abi.h"\n', made.schema)


def _insert(lines: list[str], after: str, text: str, start: int) -> None:
    """A line behind the first from `start` on that begins with `after`."""
    at = next(i for i in range(start, len(lines)) if lines[i].lstrip().startswith(after))
    spaces = len(lines[at + 1]) - len(lines[at + 1].lstrip())
    lines.insert(at + 1, " " * spaces + text)


def _written(e: ir.Expr) -> str:
    """A header as the program names it."""
    match e:
        case ir.Var():
            return e.variable.name
        case ir.Field():
            return f"{_written(e.base)}.{e.name}"
        case ir.StackPart():
            return f"{_written(e.base)}.{e.part}"
        case ir.Item(index=ir.Const(value=value)):
            return f"{_written(e.base)}[{value}]"
        case ir.Item():
            return f"{_written(e.base)}[...]"
    return "header"


class _TracedParser(ParserWriter):
    rerolls = False

    def _state(self, state: ir.State, states: dict[str, str]) -> None:
        start = len(self.code.lines)
        super()._state(state, states)
        line = f'p4::trace::state("{self.path}", "{state.name}");'
        _insert(self.code.lines, f"case {states[state.name]}:", line, start)

    def _extract(self, e: ir.Call, packet: str) -> list[str]:
        lines = super()._extract(e, packet)
        header = e.args[0].value
        if header is None:
            return lines
        # Behind the extract itself: `next` is another element afterwards.
        record = f'p4::trace::header("extract", "{_written(header)}", "{header.type}", {self.expr(header)});'
        return [lines[0], record, *lines[1:]]


class _TracedControl(ControlWriter):
    rerolls = False

    def write(self, struct: str) -> bool:
        start = len(self.shared.code.lines)
        exits = super().write(struct)
        std_meta = f", {self.std_meta}" if self.std_meta else ""
        lines = self.shared.code.lines
        at = next(i for i in range(start, len(lines)) if lines[i].startswith(f"struct {struct} "))
        _insert(lines, "Frame f{", f'p4::trace::control("{self.path}"{std_meta});', at)
        return exits

    def _action(self, action: ir.Action) -> None:
        start = len(self.code.lines)
        super()._action(action)
        is_local = action in self.control.locals
        name = annotated_name(action.annotations, self.path if is_local else "", action.name)
        _insert(self.code.lines, f"void {self.actions[action]}(", f'p4::trace::action("{name}");', start)

    def table_function(self, code: Code, table: ir.Table, name: str, *how: str) -> None:
        start = len(code.lines)
        super().table_function(code, table, name, *how)
        has_key = any(line.lstrip().startswith("uint64_t key[") for line in code.lines[start:])
        key = "key, sizeof key" if has_key else "nullptr, 0"
        path = annotated_name(table.annotations, self.path, table.name)
        record = f'p4::trace::table("{path}", {key}, entry, call.action, call.data);'
        _insert(code.lines, "const ActionCall& call =", record, start)

    def _method_lines(self, e: ir.Call, target: ir.Method) -> list[str]:
        lines = super()._method_lines(e, target)
        value = e.args[0].value if e.args else None
        if (target.extern.name, target.name) != ("packet_out", "emit") or value is None:
            return lines
        return [*lines, *_emitted(self.expr(value), _written(value), value.type)]


def _emitted(text: str, name: str, type_: ty.Type) -> list[str]:
    """A record for each header inside what is emitted; `text` is it in C++."""
    match type_:
        case ty.Record("header", _, _, _):
            return [f'p4::trace::header("emit", "{name}", "{type_}", {text});']
        case ty.Record(_, _, _, fields):
            parts = [(n, t, cpp_name(n)) for n, t in fields]
            return [x for n, t, member in parts for x in _emitted(f"{text}.{member}", f"{name}.{n}", t)]
        case ty.Stack(element, size):
            return [x for i in range(size) for x in _emitted(f"{text}.items[{i}]", f"{name}[{i}]", element)]
    return []
