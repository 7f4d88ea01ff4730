"""`netfold autoparallel` against brute force: every scheme of small cases really run, and its first choice
held against the best of them. Also predicted against measured memory. Run it on an idle machine:

    python tests/benchmarks/bench_autoparallel.py [ROUNDS]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from workloads.graphs import load_graph
from workloads.parallel.costs import fit_costs
from workloads.parallel.local import measure_local
from workloads.parallel.measure import Measured, measure_pairs
from workloads.parallel.predict import Prediction, Predictor
from workloads.parallel.profile import device_profile
from workloads.parallel.scheme import Scheme, schemes
from workloads.parallel.task import CHECKPOINTED, Task, model_spec
from workloads.parallel.training import Training
from workloads.training.data import training_data

WITHIN = 1.15
# workers, model, graph, scale, sizes, sequence length
CASES: tuple[tuple[int, str, str, float, dict[str, int], int], ...] = (
    (2, "gcn", "reddit", 0.01, {"hidden": 32}, 0),
    (2, "gcn", "reddit", 0.005, {"hidden": 64}, 0),
    (2, "sage", "reddit", 0.01, {"hidden": 128, "layers": 3}, 0),
    (2, "graphormer-slim", "reddit", 0.003, {}, 175),
    (2, "gt", "reddit", 0.003, {}, 0),
    (3, "gcn", "reddit", 0.005, {"hidden": 64}, 0),
    (4, "gcn", "reddit", 0.005, {"hidden": 128}, 0),
    (4, "graphormer-slim", "reddit", 0.003, {"layers": 2}, 175),
)


def main() -> None:
    """Print one line per case, then memory."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    torch.set_num_threads(1)
    table, facts = device_profile(Path("/tmp/netfold-bench-profile.parquet"), fresh=True)
    costs = fit_costs(table)
    print(f"autoparallel: profile of {facts['device']}; each scheme {rounds} steps, medians", flush=True)
    ratios = []
    for workers in sorted({case[0] for case in CASES}):
        network = measure_local(workers)
        print(f"{workers} workers: crowding {network.crowding}")
        predicted: list[tuple[str, Task, Prediction]] = []
        for _, name, source, scale, sizes, length in (case for case in CASES if case[0] == workers):
            graph = load_graph(source, scale=scale, features=True)
            task = Task(graph, training_data(graph, 1), model_spec(name, **sizes), length)
            chosen = schemes(workers, task.model.axes, turns=(1, 2), checkpoints=name in CHECKPOINTED)
            ranked = Predictor(task, costs, network).rank(chosen)
            label = f"{name} on {source} {graph.num_vertices}v, {workers} workers"
            predicted += [(label, task, one) for one in ranked if not one.why_not]
        pairs = [(task, one.scheme) for _, task, one in predicted]
        measured = measure_pairs(pairs, rounds=rounds)
        for label in dict.fromkeys(label for label, _, _ in predicted):
            mine = [
                (one, found)
                for (of, _, one), found in zip(predicted, measured, strict=True)
                if of == label and not found.failure
            ]
            ratios.append(_report(label, mine))
    good = sum(ratio <= WITHIN for ratio in ratios)
    print(f"first choice within {WITHIN:.2f} of the best measured: {good} of {len(ratios)} cases")
    _memory()


def _report(label: str, found: list[tuple[Prediction, Measured]]) -> float:
    first, taken = found[0]
    best = min((one for _, one in found), key=lambda one: one.wall_s)
    ratio = taken.wall_s / best.wall_s
    print(
        f"{label}: {len(found)} schemes; first choice {first.scheme.name}, {1e3 * taken.wall_s:.1f} ms "
        f"(predicted {first.step_ns / 1e6:.1f}); best {best.scheme.name}, {1e3 * best.wall_s:.1f} ms "
        f"[{1e3 * best.low_s:.1f}..{1e3 * best.high_s:.1f}]; ratio {ratio:.3f}",
        flush=True,
    )
    for one, real in found:
        print(
            f"    {one.scheme.name:45s} predicted {one.step_ns / 1e6:8.1f}, "
            f"measured {1e3 * real.wall_s:8.1f} ms "
            f"(transfers {one.transfer_ns / 1e6:.1f}, {1e3 * real.waiting_s:.1f})"
        )
    return ratio


def _memory() -> None:
    """The model's memory beside the growth of this process's peak resident set, larger and larger steps."""
    costs = None
    for hidden, layers, checkpoint in ((64, 2, False), (256, 4, True), (256, 4, False), (512, 6, False)):
        graph = load_graph("reddit", scale=0.05, features=True)
        task = Task(graph, training_data(graph, 1), model_spec("gcn", hidden=hidden, layers=layers))
        costs = costs or fit_costs(device_profile(Path("/tmp/netfold-bench-profile.parquet"))[0])
        scheme = Scheme(checkpoint=checkpoint)
        told = Predictor(task, costs, measure_local(1)).predict(scheme)
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
