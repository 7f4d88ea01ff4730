"""The whole check: rows of what is used and what there is, and the problems, each with its line."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass, field

from p4.codegen.tna import tna_blocks
from p4.lang import ir
from p4.lang import types as ty
from p4.lang.diagnostics import Diagnostic, Span
from p4.lang.walk import bodies
from p4.tofino import chip as source
from p4.tofino.access import accesses_of
from p4.tofino.chip import Chip
from p4.tofino.collect import UnitCollector
from p4.tofino.headers import parsing, phv
from p4.tofino.place import Placement, place
from p4.tofino.salu import check_action, check_register, element_bits
from p4.tofino.units import TableAt, Unit, array_of

# The ports that send a packet back into its pipe's ingress.
_RECIRCULATE = range(68, 72)


@dataclass(frozen=True)
class Row:
    """``limit`` None: for information. Not ``binding``: beyond it others may serve in its place."""

    name: str
    used: float
    limit: float | None
    source: str = ""
    binding: bool = True

    @property
    def fits(self) -> bool:
        return self.limit is None or not self.binding or self.used <= self.limit


@dataclass
class Report:
    chip: Chip
    rows: list[Row]
    problems: list[Diagnostic]
    stages: list[list[str]] = field(default_factory=list)  # what lies in each

    @property
    def fits(self) -> bool:
        return not self.problems and all(row.fits for row in self.rows)

    def as_data(self) -> dict[str, object]:
        return {
            "target": self.chip.name,
            "provenance": "modelled",
            "fits": self.fits,
            "rows": [{**asdict(row), "fits": row.fits} for row in self.rows],
            "stages": self.stages,
        }


def is_tna(program: ir.Program) -> bool:
    """Whether it is for a Tofino."""
    main = program.main
    return (
        main is not None
        and isinstance(main.type, ty.Block)
        and main.type.name
        in (
            "Switch",
            "MultiParserSwitch",
        )
    )


def render_fit(report: Report, name: str) -> str:
    """The report as text: used and limit, what lies in each stage, and where the limits are from."""
    width = max(len(row.name) for row in report.rows)
    lines = [f"{name} on {report.chip.title} (modelled: an estimate, not the vendor's compiler)", ""]
    for row in report.rows:
        limit = f" / {row.limit:g}" if row.limit is not None else ""
        lines.append(f"  {row.name:{width}} {row.used:>7g}{limit}{'' if row.fits else '   OVER'}")
    lines.append("")
    for number, stage in enumerate(report.stages):
        first, *rest = textwrap.wrap(", ".join(stage) or "nothing", 90)
        lines += [f"  stage {number:2}  {first}", *(f"            {line}" for line in rest)]
    lines += ["", *(f"  limits: {s}" for s in dict.fromkeys(r.source for r in report.rows if r.source))]
    lines += [f"  stages by dependency: {s}" for s in (source.RMT, source.COMPILING)]
    lines += ["", f"{name}: {'fits' if report.fits else 'does not fit'}"]
    return "\n".join(lines)


def check_fit(
    program: ir.Program, chip: Chip, *, recirculations: float | None = None, load_gbps: float | None = None
) -> Report:
    """The report for a checked TNA program.

    `recirculations`: passes beyond the first that a packet makes on average, `load_gbps`: what arrives in a
    pipe; together they are compared with what the recirculation ports carry. Raises P4Error for programs of
    several pipelines or parsers.
    """
    blocks = {role: instance.declaration for role, instance in tna_blocks(program).items()}
    whole: dict[str, ir.Parser | ir.Control] = {r: b for r, b in blocks.items() if b is not None}
    problems: list[Diagnostic] = []
    units: list[Unit] = []
    most_accesses = 0
    registers: dict[ir.Instance, set[ir.Instance]] = {}
    for gress in ("ingress", "egress"):
        control = whole[gress]
        assert isinstance(control, ir.Control)
        collector = UnitCollector(gress)
        collector.control(control, {p: p.name for p in control.params})
        units += collector.units
        problems += collector.problems
        for reached, spans in accesses_of(control).items():
            if isinstance(reached, TableAt):
                if len(spans) > 1:
                    what = f"table '{reached.table.name}' is applied twice, first at line {spans[0].line}"
                    problems.append(Diagnostic(spans[1], what, "once in a pass"))
                continue
            if _is_register(reached.instance):
                most_accesses = max(most_accesses, len(spans))
            if len(spans) > 1:
                often = f"{len(spans)} times in one pass, first at line {spans[0].line}"
                what = f"'{reached.name}' is reached {often}"
                problems.append(Diagnostic(spans[1], what, "one access to an array in a pass"))
        for inner in _controls(control):
            for local in inner.locals:
                if isinstance(local, ir.Instance) and (array_of(local) is not None):
                    registers.setdefault(array_of(local) or local, set()).add(local)
    rows, alu_problems = _alus(registers, chip)
    problems += alu_problems
    placement = place(units, chip)
    problems += placement.problems
    header_rows, header_problems = _headers(whole, units, chip)
    problems += header_problems
    all_rows = [
        *_stage_rows(placement, chip),
        Row("accesses to one array in a pass", most_accesses, 1, source.ONE_ACCESS),
        *rows,
        *header_rows,
        *_recirculation(whole, chip, recirculations, load_gbps, problems),
    ]
    stages = [sorted({u.name for u in s.units}) for s in placement.stages]
    return Report(chip, all_rows, _once(problems), stages)


def _once(problems: list[Diagnostic]) -> list[Diagnostic]:
    """Each problem of a place once: a macro's line may be reached many times."""
    seen: dict[tuple[object, ...], Diagnostic] = {}
    for p in problems:
        place_ = (p.span.file.path, p.span.line, p.span.col) if p.span else ()
        seen.setdefault((*place_, p.message), p)
    return sorted(seen.values(), key=lambda d: d.span.line if d.span else 0)


def _is_register(array: ir.Instance) -> bool:
    return isinstance(array.type, ty.Extern) and array.type.name in ("Register", "DirectRegister")


def _controls(control: ir.Control) -> list[ir.Control]:
    """It and those it applies."""
    out = [control]
    for node in bodies(control):
        if isinstance(node, ir.Call) and isinstance(node.target, ir.ApplyBlock):
            inner = node.target.instance.declaration
            if isinstance(inner, ir.Control):
                out += _controls(inner)
    return out


def _alus(registers: dict[ir.Instance, set[ir.Instance]], chip: Chip) -> tuple[list[Row], list[Diagnostic]]:
    problems: list[Diagnostic] = []
    widest, most = 0, 0
    used = {"comparisons": 0, "inputs": 0, "updates": 0, "result_bits": 0}
    for array, users in registers.items():
        if not _is_register(array):
            continue
        widest = max(widest, element_bits(array))
        problems += check_register(array, chip)
        actions = [u for u in users if u is not array]
        most = max(most, len(actions))
        if len(actions) > chip.actions_per_register:
            what = f"register '{array.name}' has {len(actions)} RegisterActions"
            problems.append(Diagnostic(array.span, what, f"{chip.actions_per_register} at most"))
        for action in actions:
            one, found = check_action(action, chip)
            problems += found
            used = {k: max(v, one[k]) for k, v in used.items()}
    rows = [
        Row("bits of a register's element", widest, chip.register_bits, source.DEVICE),
        Row("RegisterActions of one register", most, chip.actions_per_register, source.DEVICE),
        Row("comparisons in a RegisterAction", used["comparisons"], chip.comparisons, source.DEVICE),
        Row("packet fields in a RegisterAction", used["inputs"], chip.inputs, source.DEVICE),
        Row("updates of a word in a RegisterAction", used["updates"], chip.updates, source.DEVICE),
        Row("bits that a RegisterAction returns", used["result_bits"], 32 * chip.outputs, source.DEVICE),
    ]
    return rows, problems


def _stage_rows(placement: Placement, chip: Chip) -> list[Row]:
    stages = placement.stages

    def most(name: str) -> int:
        return max(getattr(s, name) for s in stages)

    def total(name: str) -> int:
        return sum(getattr(s, name) for s in stages)

    return [
        Row("stages, ingress", placement.needed["ingress"], chip.stages, source.DEVICE),
        Row("stages, egress", placement.needed["egress"], chip.stages, source.DEVICE),
        Row("stateful ALUs", total("stateful"), chip.stages * chip.stateful_alus, source.MEMORIES),
        Row("stateful ALUs in a stage", most("stateful"), chip.stateful_alus, source.MEMORIES),
        Row("counter ALUs in a stage", most("counting"), chip.counter_alus, source.MEMORIES),
        Row("SRAM blocks (16 KiB)", total("sram"), chip.stages * chip.sram_blocks, source.MAU),
        Row("SRAM blocks in a stage", most("sram"), chip.sram_blocks, source.MAU),
        Row("map RAMs in a stage", most("map_rams"), chip.map_rams, source.MAU),
        Row("TCAM blocks (44 x 512)", total("tcam"), chip.stages * chip.tcam_blocks, source.MAU),
        Row("TCAM blocks in a stage", most("tcam"), chip.tcam_blocks, source.MAU),
        Row("logical tables in a stage", most("tables"), chip.logical_tables, source.MAU),
        Row("gateways in a stage", most("gateways"), chip.gateways, source.MEMORIES),
        Row("exact crossbar bytes in a stage", most("exact_bytes"), chip.exact_bytes, source.MAU),
        Row("ternary crossbar bytes in a stage", most("ternary_bytes"), chip.ternary_bytes, source.MAU),
        Row("hash distribution slices in a stage", most("hash_slices"), chip.hash_slices, source.MAU),
    ]


def _headers(
    blocks: dict[str, ir.Parser | ir.Control], units: list[Unit], chip: Chip
) -> tuple[list[Row], list[Diagnostic]]:
    used = phv(blocks, units, chip)
    problems: list[Diagnostic] = []
    rows = [
        Row("PHV bits", used.bits, chip.phv_bits, source.PHV),
        *(
            Row(f"PHV containers of {w} bits", used.containers[w], n, source.PHV, False)
            for w, n in chip.containers
        ),
        Row("bits carried past the stages", used.carried_bits, None, source.PHV),
    ]
    over = next((r for r in rows if not r.fits), None)
    if over is not None:
        what = f"headers and metadata take {over.used:g} {over.name}"
        problems.append(Diagnostic(blocks["ingress"].span, what, f"{over.limit:g} at most"))
    for gress in ("ingress", "egress"):
        parser = blocks[f"{gress}_parse"]
        assert isinstance(parser, ir.Parser)
        size, found = parsing(parser, chip)
        problems += found
        rows += [
            Row(f"parser rows, {gress}", size.rows, chip.parser_rows, source.PARDE),
            Row(f"parser states on the longest way, {gress}", size.depth, None),
            Row(f"parsed bytes on the longest way, {gress}", size.bytes, None),
        ]
        if size.rows > chip.parser_rows:
            what = f"parser '{parser.name}' takes {size.rows} rows"
            problems.append(Diagnostic(parser.span, what, f"{chip.parser_rows} at most"))
    return rows, problems


def _recirculation(
    blocks: dict[str, ir.Parser | ir.Control],
    chip: Chip,
    recirculations: float | None,
    load_gbps: float | None,
    problems: list[Diagnostic],
) -> list[Row]:
    """Which ports it sends round by, and whether they carry the load that the caller expects."""
    spans: dict[int, Span] = {}
    for node in bodies(blocks["ingress"]):
        if isinstance(node, ir.Assign) and isinstance(node.target, ir.Field):
            value = node.value
            while isinstance(value, ir.Cast):
                value = value.operand
            is_port = node.target.name == "ucast_egress_port" and isinstance(value, ir.Const)
            if is_port and isinstance(value, ir.Const) and (int(value.value) & 0x7F) in _RECIRCULATE:
                spans.setdefault(int(value.value), node.span)
    rows = [Row("recirculation ports named", len(spans), chip.recirculation_ports, source.PORTS)]
    if recirculations is not None and load_gbps is not None:
        carried = max(1, len(spans)) * chip.recirculation_gbps
        rows.append(Row("Gb/s going round", recirculations * load_gbps, carried, source.PORTS))
        if not rows[-1].fits:
            what = f"{load_gbps:g} Gb/s that go round {recirculations:g} times are {rows[-1].used:g} Gb/s"
            where = next(iter(spans.values()), blocks["ingress"].span)
            problems.append(
                Diagnostic(where, what, f"{carried} Gb/s: {max(1, len(spans))} port(s) are named")
            )
    return rows
