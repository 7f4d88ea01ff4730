"""Units to stages: dependencies as in RMT and in Jose et al., then list scheduling by the longest chain.

A unit that matches on, reads or writes what an earlier one writes comes a stage later (match and action
dependencies); one that writes what an earlier one reads, or runs by an earlier table's hit or miss, may
share its stage. All units that reach one array share its stage. Of the units that are ready, those with the
longest chain behind them go first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from math import ceil

from p4.lang.diagnostics import Diagnostic
from p4.tofino.chip import Chip
from p4.tofino.memory import Need, array_need, table_need
from p4.tofino.units import Array, TableAt, Unit

_ALL = 64  # stages of an imagined chip, to say how many would be needed


@dataclass
class Stage:
    """What is in it."""

    units: list[Unit] = field(default_factory=list)
    sram: int = 0
    tcam: int = 0
    exact_bytes: int = 0
    ternary_bytes: int = 0
    map_rams: int = 0
    stateful: int = 0
    counting: int = 0
    hash_slices: int = 0
    tables: int = 0
    gateways: int = 0
    branches: set[object] = field(default_factory=set)
    runs: set[object] = field(default_factory=set)


@dataclass(eq=False)
class Cluster:
    """Units that share an array or a table, or one unit. `stage` is the last one it takes."""

    units: list[Unit]
    need: Need
    order: int
    before: dict[Cluster, int] = field(default_factory=dict)  # cluster -> stages that must lie between
    after: dict[Cluster, int] = field(default_factory=dict)
    height: int = 0  # of the longest chain behind it
    alu_height: int = 0  # stages that the stateful ALUs behind it need
    stage: int = -1

    @property
    def splits(self) -> bool:
        """A match table may be spread over stages, unless it reaches an array that is not its own."""
        one = {u.table for u in self.units}
        return len(one) == 1 and None not in one and not self.need.map_rams


@dataclass
class Placement:
    stages: list[Stage]
    problems: list[Diagnostic]
    needed: dict[str, int]  # stages, of each gress


def dependency(first: Unit, second: Unit) -> int | None:
    """Stages that `second` must come after `first`: 1, 0 (not before), None."""
    if first.gress != second.gress or first.excludes(second):
        return None
    if first.writes & (second.match | second.reads | second.writes):
        return 1
    if first in second.follows or (first.match | first.reads) & second.writes:
        return 0
    return None


def place(units: list[Unit], chip: Chip) -> Placement:
    """Units (ingress first, in the order of the text) to stages.

    Problems name the first line that does not fit.
    """
    problems: list[Diagnostic] = []
    clusters = _clusters(units, chip, problems)
    _link(clusters, units, chip, problems)
    # List scheduling is a heuristic: of a few orders of preference, the one that needs the fewest stages.
    tried = [_schedule(clusters, preference, chip) for preference in _PREFERENCES]
    at, stages = min(tried, key=lambda result: max(result[0].values(), default=0))
    for cluster in clusters:
        cluster.stage = at[cluster]
    late = [c for c in sorted(clusters, key=lambda c: c.stage) if c.stage >= chip.stages]
    if late and late[0].stage == _ALL:
        unit = late[0].units[0]
        problems.append(Diagnostic(unit.span, f"'{unit.name}' fits no stage, whatever else is in it"))
    elif late:
        problems.append(_late(late[0], chip))
    needed = {
        gress: 1 + max((c.stage for c in clusters if c.units[0].gress == gress), default=-1)
        for gress in ("ingress", "egress")
    }
    return Placement(stages[: max(*needed.values(), 1)], problems, needed)


_PREFERENCES: tuple[Callable[[Cluster], tuple[int, ...]], ...] = (
    lambda c: (-max(c.height, c.alu_height), -c.need.stateful, c.order),
    lambda c: (-c.height, -c.need.stateful, c.order),
    lambda c: (-c.need.stateful, -c.height, c.order),
)


def _schedule(
    clusters: list[Cluster], preference: Callable[[Cluster], tuple[int, ...]], chip: Chip
) -> tuple[dict[Cluster, int], list[Stage]]:
    """(stage of each, _ALL for what fits none; what is in the stages)."""
    stages = [Stage() for _ in range(_ALL)]
    at: dict[Cluster, int] = {}
    left = sorted(clusters, key=preference)
    started: dict[Cluster, Need] = {}
    for number, stage in enumerate(stages):
        placed = True
        while placed and left:
            placed = False
            for cluster in list(left):
                if any(at.get(b, _ALL) + distance > number for b, distance in cluster.before.items()):
                    continue
                rest = _put(cluster, started.get(cluster, cluster.need), stage, chip)
                if rest is None:
                    continue
                if rest != Need():
                    started[cluster] = rest
                    continue
                at[cluster] = number
                left.remove(cluster)
                placed = True
        if not left:
            break
    at.update(dict.fromkeys(left, _ALL))
    return at, stages


def _clusters(units: list[Unit], chip: Chip, problems: list[Diagnostic]) -> list[Cluster]:
    shared: dict[Array | TableAt, list[Unit]] = {}
    for unit in units:
        for array in unit.arrays:
            shared.setdefault(array, []).append(unit)
        if unit.table is not None:
            shared.setdefault(unit.table, []).append(unit)
    group = {unit: {unit} for unit in units}
    for sharers in shared.values():
        joined = set().union(*(group[u] for u in sharers))
        for unit in joined:
            group[unit] = joined
    out, done = [], set()
    for order, unit in enumerate(units):
        if id(group[unit]) in done:
            continue
        done.add(id(group[unit]))
        members = [u for u in units if u in group[unit]]
        arrays = {a: max(u.index_bits for u in members if a in u.arrays) for u in members for a in u.arrays}
        need = Need()
        seen: set[TableAt] = set()
        for member in members:
            if member.table is not None and member.table not in seen:
                seen.add(member.table)
                need = _sum(need, table_need(member.table.table, member.table_size))
        for array, index_bits in arrays.items():
            size = max(u.sizes[array] for u in members if array in u.sizes)
            one = array_need(array, index_bits, size)
            if one.map_rams > chip.map_rams:
                what = f"'{array.name}' takes {one.map_rams} memory blocks of a stage (one to spare)"
                problems.append(
                    Diagnostic(
                        array.instance.span, what, f"{chip.map_rams} at most: fewer or narrower elements"
                    )
                )
                one = Need(0, 0, 0, 0, chip.map_rams, one.stateful, one.counting, one.hash_slices)
            if array.kind.startswith(
                "Direct"
            ):  # its elements go with the table's entries, wherever those are
                one = replace(one, table_sram=one.map_rams, map_rams=0)
            need = _sum(need, one)
        out.append(Cluster(members, need, order))
    return out


def _sum(a: Need, b: Need) -> Need:
    return Need(*(getattr(a, f.name) + getattr(b, f.name) for f in fields(Need)))


def _link(clusters: list[Cluster], units: list[Unit], chip: Chip, problems: list[Diagnostic]) -> None:
    """Which cluster comes how long before which, and how long the chain behind each is."""
    of = {unit: cluster for cluster in clusters for unit in cluster.units}
    for i, first in enumerate(units):
        for second in units[i + 1 :]:
            distance = dependency(first, second)
            if distance is None:
                continue
            a, b = of[first], of[second]
            if a is not b:
                b.before[a] = max(b.before.get(a, 0), distance)
                a.after[b] = max(a.after.get(b, 0), distance)
            elif distance and first is not second:
                name = next((x.name for x in first.arrays if x in second.arrays), first.name)
                what = f"'{name}' is reached here by what depends on its use in line {first.span.line}"
                problems.append(Diagnostic(second.span, what, "an array lies in one stage"))
    for cluster in clusters:
        if cluster in _behind(cluster):
            unit = cluster.units[-1]
            name = next((a.name for a in unit.arrays), unit.name)
            what = f"'{name}' would lie in two stages: between its uses stands what depends on the first"
            problems.append(Diagnostic(unit.span, what, "an array lies in one stage"))
            for other in [*cluster.before]:
                del other.after[cluster]
            cluster.before.clear()
    heights: dict[Cluster, int] = {}

    def height(cluster: Cluster) -> int:
        if cluster not in heights:
            heights[cluster] = max((d + height(c) for c, d in cluster.after.items()), default=0)
        return heights[cluster]

    for cluster in clusters:
        cluster.height, cluster.alu_height = height(cluster), _alu_height(cluster, chip)


def _alu_height(cluster: Cluster, chip: Chip) -> int:
    """Stages that the stateful ALUs behind it need, if all of them wait for it."""
    behind = [c for c in _behind(cluster) if c.need.stateful]
    if not behind:
        return 0
    return min(_distance(cluster, c) for c in behind) + ceil(
        sum(c.need.stateful for c in behind) / chip.stateful_alus
    )


def _distance(start: Cluster, end: Cluster) -> int:
    """The longest chain from one to the other."""
    best = {start: 0}
    for cluster in sorted({start, *_behind(start)}, key=lambda c: c.order):
        for after, distance in cluster.after.items():
            if cluster in best:
                best[after] = max(best.get(after, 0), best[cluster] + distance)
    return best.get(end, 0)


def _behind(start: Cluster) -> set[Cluster]:
    """All that come after it."""
    seen: set[Cluster] = set()
    front = list(start.after)
    while front:
        cluster = front.pop()
        if cluster not in seen:
            seen.add(cluster)
            front += cluster.after
    return seen


def _put(cluster: Cluster, need: Need, stage: Stage, chip: Chip) -> Need | None:
    """Puts it into the stage: an empty Need if whole, what is left if in part, None if not at all."""
    new_tables, new_branches, new_runs = _logical(cluster, stage)
    fits = (
        stage.tables + new_tables <= chip.logical_tables
        and stage.gateways + len(new_branches) <= chip.gateways
        and stage.stateful + need.stateful <= chip.stateful_alus
        and stage.counting + need.counting <= chip.counter_alus
        and stage.map_rams + need.map_rams <= chip.map_rams
        and stage.hash_slices + need.hash_slices <= chip.hash_slices
        and stage.exact_bytes + need.exact_bytes <= chip.exact_bytes
        and stage.ternary_bytes + need.ternary_bytes <= chip.ternary_bytes
    )
    if not fits:
        return None
    sram, tcam = chip.sram_blocks - stage.sram - need.map_rams, chip.tcam_blocks - stage.tcam
    part = Need()
    if sram < need.table_sram or tcam < need.tcam:
        if not cluster.splits or sram <= 0 or (need.tcam and tcam <= 0):
            return None
        # Entries are spread: as large a part of both memories as there is room for.
        share = min(1.0, sram / max(1, need.table_sram), tcam / need.tcam if need.tcam else 1.0)
        taken_sram, taken_tcam = int(need.table_sram * share), int(need.tcam * share)
        if not taken_sram and not taken_tcam:
            return None
        part = replace(need, table_sram=need.table_sram - taken_sram, tcam=need.tcam - taken_tcam)
        need = replace(need, table_sram=taken_sram, tcam=taken_tcam)
    stage.sram += need.table_sram + need.map_rams
    stage.tcam += need.tcam
    for name in ("exact_bytes", "ternary_bytes", "map_rams", "stateful", "counting", "hash_slices"):
        setattr(stage, name, getattr(stage, name) + getattr(need, name))
    stage.tables += new_tables
    stage.gateways += len(new_branches)
    stage.branches |= new_branches
    stage.runs |= new_runs
    stage.units += cluster.units
    return part


def _logical(cluster: Cluster, stage: Stage) -> tuple[int, set[object], set[object]]:
    """Logical tables and gateways it adds. Statements of one branch in one stage are one logical table."""
    tables = {u.table for u in cluster.units if u.table is not None}
    runs: set[object] = {u.guards for u in cluster.units if u.table is None}
    runs -= stage.runs
    branches: set[object] = {u.guards[-1].condition for u in cluster.units if u.guards}
    branches -= stage.branches
    return len(tables) + len(runs), branches, runs


def _late(cluster: Cluster, chip: Chip) -> Diagnostic:
    """The chain that makes it late."""
    unit, at = cluster.units[0], cluster
    chain: list[str] = []
    while at.before and len(chain) < 6:
        at = max(at.before, key=lambda c: c.stage + at.before[c])
        chain.append(f"'{at.units[0].name}' (line {at.units[0].span.line}, stage {at.stage})")
    behind = "" if not chain else ", behind " + ", ".join(chain)
    what = f"'{unit.name}' comes to stage {cluster.stage}{behind}"
    return Diagnostic(unit.span, what, f"stages 0 to {chip.stages - 1}")
