"""Every switch's program: compiled once; an engine for each switch, with its entries and routes."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from p4.codegen import generate
from p4.codegen.build import BuildError, build
from p4.lang import load_program
from p4.lang.diagnostics import P4Error
from p4.programs import FOLDER
from p4.targets.engine import Engine
from p4.targets.stf import StfError, read_stf, run_stf_text
from p4.targets.target import MatchValue, TargetError
from sim.network.routes import expand
from sim.network.scenario import NetworkScenario, SwitchRule, check_marking
from sim.network.topology import Topology
from workloads.errors import InputError

_ADDING = ("entries",)  # what a later rule adds to instead of replacing


@dataclass
class SwitchProgram:
    """What runs on one switch."""

    engine: NamedEngine
    path: Path
    rule: SwitchRule
    digest: str  # of the generated code: equal for equal programs
    lines: list[str] = field(default_factory=list)  # of STF, as entered


class NamedEngine(Engine):
    """An engine that remembers how its entries read, for the counters' table."""

    def __init__(self, library: Path, *, seed: int = 1) -> None:
        self.entry_names: dict[tuple[int, int], str] = {}
        super().__init__(library, seed=seed)

    def _insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        priority: int,
        call: tuple[int, bytes],
        indirect: tuple[int, int],
    ) -> int:
        made = super()._insert(table, match, priority, call, indirect)
        shown = " ".join(f"{name}:{_shown(value)}" for name, value in match.items())
        self.entry_names[self._table(table)[0], made] = shown
        return made

    def counted_by_entry(self, table: int, entry: int) -> tuple[int, int]:
        """(packets, bytes) of an entry by its numbers, in a table with a direct counter."""
        values = (ctypes.c_uint64 * 2)()
        self._library.nf_entry_counters(self._handle, table, entry, values)
        return values[0], values[1]


def _shown(value: MatchValue) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:#x}/{value[1]}"
    return "*" if value is None else f"{value:#x}"


def load_programs(
    scenario: NetworkScenario, topology: Topology, stage: Callable[[str], None]
) -> list[SwitchProgram]:
    """One for each switch. Raises InputError: no program, one that does not compile, a refused entry."""
    rules = [_rule_of(scenario, topology, switch) for switch in range(len(topology.switches))]
    libraries: dict[tuple[str, tuple[str, ...], tuple[str, ...]], tuple[Path, Path, str]] = {}
    routes: dict[tuple[str, ...], list[list[str]]] = {}
    made = []
    for switch, (number, rule) in enumerate(rules):
        what = (rule.program, rule.include, rule.define)
        if what not in libraries:
            stage(f"compiling {Path(rule.program).name}")
            libraries[what] = _compile(f"switch {number}", rule)
        path, library, digest = libraries[what]
        if rule.routes not in routes:
            routes[rule.routes] = expand(f"switch {number}: routes", rule.routes, topology)
        engine = NamedEngine(library, seed=scenario.network.seed + switch)
        program = SwitchProgram(engine, path, rule, digest)
        made.append(program)
        _enter(program, topology.switches[switch], routes[rule.routes][switch])
    return made


def _rule_of(scenario: NetworkScenario, topology: Topology, switch: int) -> tuple[int, SwitchRule]:
    """The rules that match a switch as one, and the number of the last."""
    found: SwitchRule | None = None
    last = 0
    for number, rule in enumerate(scenario.switch):
        if switch not in topology.find_switches(f"switch {number + 1}: nodes", rule.nodes):
            continue
        given = scenario.given[number] if scenario.given else frozenset(item.name for item in fields(rule))
        last = number + 1
        if found is None or "program" in given:
            changes = {name: getattr(rule, name) for name in given}
            base = (
                SwitchRule()
                if found is None
                else replace(found, entries=(), routes=(), include=(), define=())
            )
            found = replace(base, **changes)
        else:
            changes = {name: getattr(rule, name) for name in given}
            for name in _ADDING:
                changes[name] = getattr(found, name) + changes.get(name, ())
            found = replace(found, **changes)
    if found is None or not found.program:
        name = topology.switches[switch]
        raise InputError(
            f'switch {name}: it has no program; write [[switch]] with nodes = "{name}" and program = "..."'
        )
    check_marking(f"switch {last}", found)
    return last, found


def _compile(where: str, rule: SwitchRule) -> tuple[Path, Path, str]:
    path = Path(rule.program)
    if not path.is_file() and path.name == rule.program and (FOLDER / path.name).is_file():
        path = FOLDER / path.name
    if not path.is_file():
        raise InputError(f"{where}: program = {rule.program[:80]!a}: no such file")
    defines = dict(item.partition("=")[::2] for item in rule.define)
    try:
        program = load_program(
            path, include=[Path(x) for x in rule.include], defines={k: v or "1" for k, v in defines.items()}
        )
        generated = generate(program)
        library = build(generated)
    except P4Error as error:
        raise InputError(f"{where}: {error.diagnostics[0].render().splitlines()[0]}") from None
    except BuildError as error:
        raise InputError(f"{where}: {path.name}: {error}") from None
    except OSError as error:
        raise InputError(f"{where}: {path}: {error.strerror or error}") from None
    return path, library, hashlib.sha256(generated.source.encode()).hexdigest()


def _enter(program: SwitchProgram, name: str, routes: list[str]) -> None:
    """Files of entries, then single entries and routes. STF's packets have no place here."""
    try:
        for path in (x for x in program.rule.entries if x.endswith(".stf")):
            text = "\n".join("" if _is_packet(x) else x for x in read_stf(Path(path)).splitlines())
            run_stf_text(program.engine, text, path)
            program.lines += [x for x in text.splitlines() if x.split("#")[0].strip()]
        single = [x for x in program.rule.entries if not x.endswith(".stf")]
        for line in filter(_is_packet, single):
            raise InputError(f"switch {name}: entries: {line[:60]!a}: packets come from [[flow]]")
        # One text, because the node numbers of multicast commands go on from line to line.
        run_stf_text(program.engine, "\n".join([*single, *routes]), f"switch {name}: line")
        program.lines += [*single, *routes]
    except (StfError, TargetError) as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"switch {name}: entries: {error.filename}: {error.strerror}") from None


def _is_packet(line: str) -> bool:
    return line.split("#", maxsplit=1)[0].split()[:1] in (["packet"], ["expect"], ["no_packet"], ["wait"])
