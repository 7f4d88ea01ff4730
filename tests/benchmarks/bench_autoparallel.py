"""`netfold autoparallel` against brute force: every scheme of small cases really run, and two choices held
against the best of them: the first of the predicted ranking, and the first after a measured shortlist.

    python tests/benchmarks/bench_autoparallel.py both     [--seconds S] [--budget S] [--cases A,B]
    python tests/benchmarks/bench_autoparallel.py report   [--parts]
    python tests/benchmarks/bench_autoparallel.py memory

Measure on an idle machine. `both`, or `predict` and `brute` apart, append a line per case to --results and
leave out the cases that have one, so that they can be run in short quiet spells (--budget), one after the
other; `report` reads the file. HELD_OUT cases were chosen before anything was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workloads.graphs import load_graph
from workloads.parallel.costs import roofline_costs
from workloads.parallel.local import LocalNetwork, measure_local
from workloads.parallel.measure import WARMUPS, measure_schemes
from workloads.parallel.pieces import Balance
from workloads.parallel.predict import Predictor, kernels_of
from workloads.parallel.scheme import Scheme, schemes
from workloads.parallel.shortlist import measured_shortlist
from workloads.parallel.task import CHECKPOINTED, Task, model_spec, set_task
from workloads.parallel.training import Training
from workloads.training.data import TrainingData, training_data
from workloads.training.transformer.graph_set import families
from workloads.training.transformer.names import SET_PREFIX

WITHIN = 1.15
ANY = roofline_costs(1e11, 2e10)  # every kernel is measured at its sizes
TURNS = (1, 2)
PARTS = {"brute": ("brute",), "predict": ("predict",), "both": ("predict", "brute")}
CLOSE = 2  # schemes within this factor of the best of a first round, of few steps, are measured again, longer
BALANCE = Balance(100.0, 10.0)  # of the parts in both runs, so that they are of the same schemes


@dataclass(frozen=True)
class Case:
    """sizes: of `model_spec`; length: vertices per sequence."""

    name: str
    workers: int
    model: str
    graph: str
    scale: float = 1.0
    sizes: dict[str, Any] = field(default_factory=dict)
    length: int = 0
    held_out: bool = False


CASES = (
    Case("gcn-sparse", 2, "gcn", "planted:8000", sizes={"hidden": 64}),
    Case("sage-narrow", 3, "sage", "ogbn-products", 0.002, {"hidden": 16}),
    Case("gat", 2, "gat", "planted:4000", sizes={"hidden": 32}),
    Case("dense-attention", 2, "graphormer-slim", "planted:512", sizes={"layers": 2, "attention": "dense"}),
    Case("sparse-attention", 4, "gt", "planted:2000", sizes={"layers": 2, "hidden": 64}),
    Case("gcn-wide", 4, "gcn", "planted:2000", sizes={"hidden": 256}),
    Case("sequences", 3, "graphormer-slim", "planted:2000", sizes={"layers": 2}, length=200),
    Case("many-graphs", 2, "gcn", "families:400", sizes={"hidden": 64, "layers": 3}),
    Case("jknet-skewed", 4, "jknet", "rmat:12:8", sizes={"hidden": 48, "layers": 3}, held_out=True),
    Case("flash-attention", 2, "gt", "planted:1000", 1, {"layers": 2, "attention": "flash"}, 0, True),
    Case("many-graphs-gt", 3, "gt", "families:200", sizes={"layers": 2}, held_out=True),
    Case("gat-3", 3, "gat", "ogbn-products", 0.001, {"hidden": 64}, held_out=True),
)


def task_of(case: Case) -> Task:
    """The case's task; a graph without labels gets random ones, and without features 48 random values."""
    if case.graph.startswith(SET_PREFIX):
        return set_task(families(case.graph, 1), model_spec(case.model, **case.sizes))
    graph = load_graph(case.graph, scale=case.scale, features=True)
    if graph.labels is not None:
        data = training_data(graph, 1)
    else:
        random, n = np.random.default_rng(1), graph.num_vertices
        split = np.minimum(np.arange(n) % 5 // 3, 2).astype(np.int8)
        features = random.random((n, 48), dtype=np.float32)
        data = TrainingData(features, random.integers(0, 10, n), split, 10, "random")
    return Task(graph, data, model_spec(case.model, **case.sizes), case.length)


def schemes_of(case: Case, task: Task) -> list[Scheme]:
    """All of them."""
    checkpoints = task.model.name in CHECKPOINTED
    return schemes(case.workers, task.model.axes, turns=TURNS, checkpoints=checkpoints)


def main() -> None:
    """Do one part of it."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("part", choices=[*PARTS, "report", "memory"])
    parser.add_argument("--results", type=Path, default=Path("/tmp/netfold-autoparallel.jsonl"))
    parser.add_argument("--seconds", type=float, default=8, help="of steps in a case's brute force")
    parser.add_argument("--budget", type=float, default=1e9, help="begin no case after so many seconds")
    parser.add_argument("--cases", default="", help="names; default: all")
    parser.add_argument("--again", action="store_true", help="also those that are in the results")
    parser.add_argument("--parts", action="store_true", help="every scheme, by part")
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = [name for name in args.cases.split(",") if name]
    known = {case.name: case for case in CASES}
    chosen = [known[name] for name in names] if names else list(CASES)
    if args.part == "report":
        _report(chosen, _results(args.results), args.parts)
        return
    if args.part == "memory":
        _memory()
        return
    start = time.monotonic()
    networks: dict[int, LocalNetwork] = {}
    done = set() if args.again else set(_results(args.results))
    for case in chosen:
        parts = [part for part in PARTS[args.part] if (part, case.name) not in done]
        if not parts:
            continue
        if time.monotonic() - start > args.budget:
            print("out of time; the rest another time")
            return
        for part in parts:
            row = _brute(case, args.seconds) if part == "brute" else _predict(case, networks)
            row |= {"part": part, "case": case.name, "load": os.getloadavg()[0]}
            with args.results.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)
            print(f"{part} {case.name}: {time.monotonic() - start:.0f} s since the start", flush=True)


def _results(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(part, case) -> its last line."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {(row["part"], row["case"]): row for row in rows}


def _brute(case: Case, seconds: float) -> dict[str, Any]:
    """All schemes a few steps each; those near the best then again, for `seconds`."""
    task = task_of(case)
    first = measure_schemes(task, schemes_of(case, task), rounds=3, balance=BALANCE)
    found = {one.scheme: one for one in first if not one.failure}
    best = min(one.wall_s for one in found.values())
    near = [scheme for scheme, one in found.items() if one.wall_s <= CLOSE * best]
    again = measure_schemes(task, near, rounds=60, seconds=seconds, balance=BALANCE)
    found |= {one.scheme: one for one in again}
    rows = {
        scheme.name: {
            "ms": 1e3 * one.wall_s,
            "low": 1e3 * one.low_s,
            "high": 1e3 * one.high_s,
            "compute": 1e3 * one.compute_s,
            "waiting": 1e3 * one.waiting_s,
            "steps": (len(one.losses) - WARMUPS) // 2,
        }
        for scheme, one in found.items()
    }
    return {"schemes": rows, "again": [scheme.name for scheme in near]}


def _predict(case: Case, known: dict[int, LocalNetwork]) -> dict[str, Any]:
    task = task_of(case)
    chosen = schemes_of(case, task)
    start = time.monotonic()
    wanted = kernels_of(task, ANY, chosen, BALANCE)
    if case.workers not in known:
        known[case.workers] = measure_local(case.workers)[0]
    network, exact = measure_local(case.workers, wanted, known=known[case.workers])
    costs = replace(ANY, exact=exact)
    ranked = Predictor(task, costs, network, balance=BALANCE).rank(chosen)
    profiled = time.monotonic() - start
    short = measured_shortlist(task, ranked, balance=BALANCE)
    rows = {
        one.scheme.name: {
            "ms": one.step_ns / 1e6,
            "compute": {name: ns / 1e6 for name, ns in one.compute.items()},
            "transfers": {name: ns / 1e6 for name, ns in one.transfers.items()},
        }
        for one in ranked
        if not one.why_not
    }
    return {
        "schemes": rows,
        "shortlist": {one.scheme.name: 1e3 * one.wall_s for one in short},
        "kernels": [[*key[:2], asdict(key[2]), ns] for key, ns in exact.items()],
        "curves": [[*key, curve.sizes, curve.times_ns] for key, curve in network.curves.items()],
        "profile_s": profiled,
        "shortlist_s": time.monotonic() - start - profiled,
    }


def _report(chosen: list[Case], results: dict[tuple[str, str], dict[str, Any]], parts: bool) -> None:
    lines = []
    for case in chosen:
        brute, told = results.get(("brute", case.name)), results.get(("predict", case.name))
        if brute is None or told is None:
            print(f"{case.name}: not measured yet")
            continue
        measured = brute["schemes"]
        best = min(measured, key=lambda name: measured[name]["ms"])
        first = next(iter(told["schemes"]))
        short = next(iter(told["shortlist"]))
        ratios = [measured[name]["ms"] / measured[best]["ms"] for name in (first, short)]
        lines.append((case, *ratios))
        print(
            f"{case.name}{' (held out)' if case.held_out else ''}: {case.workers} workers, {case.model} on "
            f"{case.graph}, {len(measured)} schemes, {measured[best]['steps']} steps each; "
            f"best {_measured(best, measured)}; "
            f"predicted first {_measured(first, measured)}, ratio {ratios[0]:.3f}; after a shortlist of "
            f"{len(told['shortlist'])} {_measured(short, measured)}, ratio {ratios[1]:.3f} "
            f"(profile {told['profile_s']:.0f} s, shortlist {told['shortlist_s']:.0f} s)"
        )
        if parts:
            for name in sorted(measured, key=lambda name: measured[name]["ms"]):
                row, one = measured[name], told["schemes"].get(name)
                if one is None:
                    continue
                compute, transfers = sum(one["compute"].values()), sum(one["transfers"].values())
                print(
                    f"    {name:42s} {row['ms']:7.1f} told {one['ms']:7.1f} | compute {row['compute']:7.1f} "
                    f"told {compute:7.1f} | transfers {row['waiting']:7.1f} told {transfers:7.1f}"
                )
    for kind, at in (("predicted first choice", 1), ("choice after the shortlist", 2)):
        for held in (False, True):
            mine = [line[at] for line in lines if line[0].held_out == held]
            good = sum(ratio <= WITHIN for ratio in mine)
            what = "held-out cases" if held else "cases"
            print(f"{kind} within {WITHIN:.2f} of the best measured: {good} of {len(mine)} {what}")


def _measured(name: str, measured: dict[str, Any]) -> str:
    row = measured[name]
    return f"{name}, {row['ms']:.1f} ms [{row['low']:.1f}..{row['high']:.1f}]"


def _memory() -> None:
    """The model's memory beside the growth of this process's peak resident set, larger and larger steps."""
    for hidden, layers, checkpoint in ((64, 2, False), (256, 4, True), (256, 4, False), (512, 6, False)):
        graph = load_graph("reddit", scale=0.05, features=True)
        task = Task(graph, training_data(graph, 1), model_spec("gcn", hidden=hidden, layers=layers))
        scheme = Scheme(checkpoint=checkpoint)
        told = Predictor(task, ANY, measure_local(1)[0]).predict(scheme)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget earlier peaks
        start = _status("VmRSS")
        training = Training(task, scheme, 0)
        step = training.step(measure=True)
        training.step()
        grown = f"{(_status('VmHWM') - start) / 1e6:.0f} MB"
        training.close()
        print(
            f"memory, gcn {layers} x {hidden}{', checkpoints' if checkpoint else ''}: predicted "
            f"{told.memory_bytes / 1e6:.0f} MB, resident set grew by {grown}; kept for backward: predicted "
            f"{told.memory['activations'] / 1e6:.1f}, measured {step.kept_bytes / 1e6:.1f} MB"
        )


def _status(name: str) -> int:
    """Bytes of one line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    [found] = [line for line in lines if line.startswith(name + ":")]
    return int(found.split()[1]) * 1024


if __name__ == "__main__":
    main()
