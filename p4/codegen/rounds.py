"""Programs whose parser extracts what their deparser emits: their packets go round without becoming bytes.

A packet that recirculates is deparsed and parsed again. Where the deparser only emits headers, one after
another, and the parser only extracts headers and looks at them, the second undoes the first unless it
takes other headers; that is seen while it parses (packet.h, HeadersIn), and the bytes are made after all.
"""

from __future__ import annotations

from p4.codegen.code import cpp_name
from p4.codegen.externs import emit_lines, has_varbit
from p4.lang import ir
from p4.lang.walk import bodies, is_chain


def reads_what_it_writes(parser: ir.Parser, deparser: ir.Control) -> bool:
    """Whether the parser can do without bytes, and the deparser without writing them."""
    return _only_extracts(parser) and not deparser.locals and all(map(_emit_of_header, _statements(deparser)))


def emitted_headers(deparser: ir.Control, packet: str, headers: str) -> list[str]:
    """The C++ statements that emit what such a deparser emits of `headers`."""
    lines = []
    for statement in _statements(deparser):
        emitted = _emit_of_header(statement)
        assert emitted is not None
        lines += emit_lines(packet, _text(emitted, headers), emitted.type)
    return lines


def _statements(deparser: ir.Control) -> tuple[ir.Statement, ...]:
    return deparser.body.items


def _emit_of_header(s: ir.Statement) -> ir.Expr | None:
    """What the statement emits, if it does nothing else and that is the packet's own."""
    if not isinstance(s, ir.CallStatement) or not isinstance(s.call.target, ir.Method):
        return None
    target, args = s.call.target, s.call.args
    if (target.extern.name, target.name) != ("packet_out", "emit"):
        return None
    value = args[0].value
    return value if value is not None and is_chain(value) else None


def _only_extracts(parser: ir.Parser) -> bool:
    if any(isinstance(local, ir.Instance) for local in parser.locals):
        return False
    return all(_has_no_effect(node) for node in bodies(parser) if isinstance(node, ir.Call))


def _has_no_effect(call: ir.Call) -> bool:
    """Beyond the headers and metadata of the packet; a header of fixed size is extracted, or none."""
    target = call.target
    if isinstance(target, ir.Builtin):
        return True
    if isinstance(target, ir.ExternFunction):
        return target.name == "verify"
    if not isinstance(target, ir.Method) or (target.extern.name, target.name) != ("packet_in", "extract"):
        return False
    into = call.args[0].value
    return len(call.args) == 1 and into is not None and not has_varbit(into.type)


def _text(e: ir.Expr, variable: str) -> str:
    return f"{_text(e.base, variable)}.{cpp_name(e.name)}" if isinstance(e, ir.Field) else variable
