"""A program described for people: tables, state, parser graph and control flow; as text or a picture."""

from __future__ import annotations

import re
from pathlib import Path

from p4.codegen.schema import Schema, StateInfo, TableInfo
from p4.flow import END, control_flow, text_of, without_runs
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
    if schema.registers or schema.counters or schema.meters:
        lines += ["", *state_lines(schema)]
    lines += [f"value set {s.name}   {s.size} cells" for s in schema.value_sets]
    for name, edges in parser_edges(program).items():
        lines += ["", f"parser {name}"]
        for source, label, to in edges:
            lines.append(f"  {source} -> {to}" + (f"   [{label}]" if label else ""))
    for name, edges in flow_edges(program).items():
        lines += ["", f"control {name}"]
        lines += [f"  {a} -> {b}" + (f"   [{label}]" if label else "") for a, label, b in edges]
    return "\n".join(lines)


def flow_edges(program: ir.Program) -> dict[str, list[tuple[str, str, str]]]:
    """For each control that applies something: (table or block, what must hold, which comes next)."""
    flows = {name: control_flow(control) for name, control in program.controls.items()}
    return {name: without_runs(flow.edges) for name, flow in flows.items() if len(flow.nodes) > 2}


def state_lines(schema: Schema) -> list[str]:
    """Registers, counters and meters with their bytes; register arrays that differ in a number, as one."""
    alike: dict[tuple[str, int, int], list[StateInfo]] = {}
    for register in schema.registers:
        stem = re.sub(r"\d+$", "", register.name)
        alike.setdefault((stem, register.size, register.bits), []).append(register)
    lines, total = [], 0
    for (stem, size, bits), group in alike.items():
        in_bytes = len(group) * size * ((bits + 7) // 8)
        total += in_bytes
        first, last = (re.sub("^.*?(?=\\d*$)", "", r.name) for r in (group[0], group[-1]))
        name = f"{stem}{first}..{last}" if len(group) > 1 else group[0].name
        times = f"{len(group)} x " if len(group) > 1 else ""
        lines.append(f"register {name}   {times}{size} x {bits} bits = {in_bytes} bytes")
    if total:
        lines.append(f"registers together: {total} bytes")
    lines += [f"counter {s.name}   {s.size} cells {s.unit} = {16 * s.size} bytes" for s in schema.counters]
    lines += [f"meter {s.name}   {s.size} cells {s.unit}" for s in schema.meters]
    return lines


def picture(program: ir.Program, schema: Schema, path: Path) -> None:
    """Parsers and the flow of controls that apply tables, beside one another; the state's bytes below."""
    from p4.picture import Panel, draw  # noqa: PLC0415 - matplotlib takes a moment, and only a picture needs it

    panels = []
    for name, edges in parser_edges(program).items():
        reached = dict.fromkeys([e[0] for e in edges] + [e[2] for e in edges])
        texts = {state: [state, *_extracted(program.parsers[name], state)] for state in reached}
        panels.append(Panel(f"parser {name}", texts, edges))
    for name, edges in flow_edges(program).items():
        tables = {t.name.rsplit(".")[-1]: t for t in schema.tables if f"{name}." in f"{t.name}."}
        nodes = dict.fromkeys([e[0] for e in edges] + [e[2] for e in edges])
        # Of the ways out, only a table's hit or miss is worth a label.
        shown = [(a, _lines(x) if b != END or x in ("hit", "miss") else "", b) for a, x, b in edges]
        panels.append(Panel(f"control {name}", {n: [n, *_table_text(tables.get(n))] for n in nodes}, shown))
    draw(panels, state_lines(schema), path)


def _extracted(parser: ir.Parser, state: str) -> list[str]:
    """What a state extracts, one line each."""
    out = []
    for found in parser.states:
        for item in found.body if found.name == state else ():
            if isinstance(item, ir.CallStatement) and isinstance(item.call.target, ir.Method):
                header = item.call.args[0].value if item.call.args else None
                if item.call.target.name == "extract" and header is not None:
                    out.append(f"extract {text_of(header)}")
    return out


def _lines(label: str) -> str:
    """A label's conditions below one another."""
    return label.replace(", ", ",\n")


def _table_text(table: TableInfo | None) -> list[str]:
    if table is None:
        return []
    keys = [f"{k.name}: {k.match_kind}" for k in table.keys]
    actions = [a.name.rsplit(".")[-1] for a in table.actions]
    return [*keys, f"{', '.join(actions)}", f"{table.size} entries"]


def parser_edges(program: ir.Program) -> dict[str, list[tuple[str, str, str]]]:
    """For each parser: (state, what is matched, next state)."""
    out: dict[str, list[tuple[str, str, str]]] = {}
    for name, parser in program.parsers.items():
        out[name] = [
            (state.name, _matches(case.matches), case.state)
            for state in parser.states
            for case in state.transition.cases
        ]
    return out


def _matches(matches: tuple[ir.Match, ...]) -> str:
    texts = [_match(m) for m in matches]
    return "default" if texts and set(texts) == {"default"} else ", ".join(texts)


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
