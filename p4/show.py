"""A program described for people: its tables, state and parser graph."""

from __future__ import annotations

from p4.codegen.schema import Schema
from p4.lang import ir


def describe(program: ir.Program, schema: Schema) -> str:
    """Tables with keys and actions, state with its bytes, parser states with where they go."""
    lines = [f"{program.path}"]
    for table in schema.tables:
        keys = ", ".join(f"{k.name}: {k.match_kind} ({k.bits} bits)" for k in table.keys) or "no key"
        lines += [
            "",
            f"table {table.name}   {table.size} entries" + (" (const)" if table.entries_are_const else ""),
        ]
        lines.append(f"  key      {keys}")
        for number, action in enumerate(table.actions):
            params = ", ".join(f"{p.name}: {p.bits}" for p in action.params)
            mark = "   default" if number == table.default_action else ""
            lines.append(f"  action   {action.name}({params}){mark}")
    total = 0
    if schema.registers:
        lines.append("")
    for register in schema.registers:
        size = register.size * ((register.bits + 7) // 8)
        total += size
        lines.append(f"register {register.name}   {register.size} x {register.bits} bits = {size} bytes")
    if total:
        lines.append(f"registers together: {total} bytes")
    for kind, states in (
        ("counter", schema.counters),
        ("meter", schema.meters),
        ("value set", schema.value_sets),
    ):
        lines += [f"{kind} {s.name}   {s.size} cells {s.unit}".rstrip() for s in states]
    for name, edges in parser_edges(program).items():
        lines += ["", f"parser {name}"]
        for source, label, to in edges:
            lines.append(f"  {source} -> {to}" + (f"   [{label}]" if label else ""))
    return "\n".join(lines)


def parser_edges(program: ir.Program) -> dict[str, list[tuple[str, str, str]]]:
    """For each parser: (state, what is matched, next state)."""
    out: dict[str, list[tuple[str, str, str]]] = {}
    for name, parser in program.parsers.items():
        out[name] = [
            (state.name, ", ".join(_match(m) for m in case.matches), case.state)
            for state in parser.states
            for case in state.transition.cases
        ]
    return out


def _match(match: ir.Match) -> str:
    def number(e: ir.Expr | None) -> str:
        if isinstance(e, ir.Const):
            return (
                hex(e.value) if isinstance(e.value, int) and not isinstance(e.value, bool) else str(e.value)
            )
        return e.value_set.name if isinstance(e, ir.ValueSetRef) else "..."

    match match.kind:
        case "any":
            return "default"
        case "mask":
            return f"{number(match.value)} &&& {number(match.second)}"
        case "range":
            return f"{number(match.value)} .. {number(match.second)}"
    return number(match.value)


def parser_dot(program: ir.Program) -> str:
    """The parsers' states as one Graphviz digraph."""
    lines = ["digraph parsers {", "  node [shape=box, fontname=monospace];"]
    for name, edges in parser_edges(program).items():
        lines += [f'  subgraph "cluster_{name}" {{', f'    label="{name}";']
        for source, label, to in edges:
            shown = f' [label="{label}"]' if label else ""
            lines.append(f'    "{name}.{source}" -> "{name}.{to}"{shown};')
        lines.append("  }")
    lines.append("}")
    return "\n".join(lines)
