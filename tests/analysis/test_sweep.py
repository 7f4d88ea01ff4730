"""Sweeps: what a file asks for, each unit once, failures kept, kills survived, two at once, a scheduler."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import netfold
from analysis.records import damage, load_runs
from analysis.sweep import child, cluster
from analysis.sweep.address import group_name, plan_name
from analysis.sweep.drive import run_sweep
from analysis.sweep.folder import SweepFolder
from analysis.sweep.memory import graph_size, preparing_bytes, simulating_bytes
from analysis.sweep.spec import Sweep, load_sweep, make_sweep
from sim.prepare import expand
from sim.scenario_io import load_scenario
from workloads.errors import InputError
from workloads.systems import SYSTEMS

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "graph.source": "karate", "model.hidden": 32, "cluster.topology": "star", "cluster.workers": 4,
    "run.recirculation": "free", "run.systems": "host,switchgnn",
}  # fmt: skip
TINY_TOML = "[set]\n" + "".join(f'"{key}" = {json.dumps(value)}\n' for key, value in TINY.items())


def tiny(**more: Any) -> Sweep:
    return make_sweep(base=TINY, **more)


def file_of(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


# What a file asks for.


def test_grid_list_and_seeds_multiply(tmp_path: Path) -> None:
    text = """
        [sweep]
        seeds = [3, 4]
        seed_keys = ["run.seed", "plan.seed"]
        [grid]
        "cluster.workers" = [4, 8]
        loss.rate = [0.0, 0.01, 0.02]
        [[list]]
        "switch.memory_bytes" = "10MB"
        [[list]]
        "switch.memory_bytes" = "unlimited"
    """
    sweep = load_sweep(file_of(tmp_path, TINY_TOML + text))
    assert len(sweep.points) == 2 * 2 * 3 * 2
    first = sweep.points[0].keys
    assert first == {
        "switch.memory_bytes": "10MB", "cluster.workers": 4, "loss.rate": 0.0, "run.seed": 3, "plan.seed": 3,
    }  # fmt: skip
    # switchgnn at every point; host does not look at the memory, so both memories share its units
    assert len(sweep.units) == 24 + 12
    for unit in sweep.units.values():
        assert unit.scenario.run.seed == unit.scenario.plan.seed in (3, 4)
        assert unit.scenario.run.systems in ("host", "switchgnn")


def test_a_scenario_file_is_the_base(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('[run]\nsystems = "g3"\n[graph]\nsource = "karate"\n')
    sweep = load_sweep(file_of(tmp_path, '[sweep]\nscenario = "base.toml"\n[set]\ncluster.workers = 8\n'))
    [unit] = sweep.units.values()
    assert (unit.variant.system.name, unit.scenario.cluster.workers) == ("g3", 8)


def test_a_units_scenario_repeats_it(tmp_path: Path) -> None:
    sweep = tiny(grid={"run.recirculation": ["both"], "run.memory_sweep": ["1kB,unlimited"]})
    for name, unit in sweep.units.items():
        again = make_sweep(base={}, points=[_keys(unit.scenario)])
        assert list(again.units) == [name]


def _keys(scenario: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from sim.scenario_io import find_key

    flat = {f"{part}.{key}": value for part, keys in asdict(scenario).items() for key, value in keys.items()}
    word = {key: find_key(key)[1].metadata.get("word", "") for key in flat}
    return {key: word[key] if word[key] and value == 0 else value for key, value in flat.items()}


def test_addresses_follow_content_not_place(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "edges.txt").write_text("0 1\n1 2\n")
    at = {place: tiny(grid={"graph.source": [str(tmp_path / place / "edges.txt")]}) for place in ("a", "b")}
    assert list(at["a"].units) == list(at["b"].units)
    (tmp_path / "b" / "edges.txt").write_text("0 1\n1 3\n")
    changed = tiny(grid={"graph.source": [str(tmp_path / "b" / "edges.txt")]})
    assert set(changed.units).isdisjoint(at["a"].units)
    assert set(tiny(grid={"loss.rate": [0.1]}).units).isdisjoint(tiny().units)


def test_units_of_dynamic_systems_share_plans_only_where_all_knobs_are_equal() -> None:
    base = {"run.systems": "swash", "graph.source": "contacts:60:12", "cluster.workers": 4}

    def group(**more: object) -> str:
        [variant] = expand(load_scenario(None, base | {"cluster.topology": "star"} | more))
        return group_name(variant, {})

    assert group() == group(**{"loss.rate": 0.1})
    names = ("dynamic.share", "dynamic.epoch", "plan.seed", "run.seed", "switch.aggregator_bytes")
    others = [group(**{name: value}) for name, value in zip(names, (0.5, 3, 9, 9, 256), strict=True)]
    assert len({group(), *others}) == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "not valid TOML"),
        ("[swep]", "unknown table 'swep'"),
        ("[sweep]\nseed = 1", "sweep.seed: unknown"),
        ("[sweep]\nseeds = 0", "sweep.seeds"),
        ("[sweep]\nseeds = [1, 1]", "different seeds"),
        ("[sweep]\nseeds = true", "sweep.seeds"),
        ('[sweep]\nmemory = "lots"', "sweep.memory"),
        ("[sweep]\nscenario = 3", "sweep.scenario"),
        ('[sweep]\nseed_keys = ["run.sed"]\nseeds = 2', "the nearest is run.seed"),
        ('[grid]\n"cluster.worker" = [1]', "the nearest is cluster.workers"),
        ('[grid]\n"cluster.workers" = 4', "needs a list"),
        ('[grid]\n"cluster.workers" = []', "needs a list"),
        ('[grid]\n"cluster.workers" = [4, 1]', "cluster.workers"),
        ('[set]\n"loss.rate" = 0.1\nloss = { rate = 0.2 }', "given twice"),
        ("list = 3", "[[list]]"),
        ("grid = 3", "[grid]"),
        ('[grid]\n"run.seed" = [1,2,3,4,5,6,7,8,9,10]\n[sweep]\nseeds = 20000', "at most 100000"),
        ('[set]\n"run.systems" = "hots"', "hots"),
    ],
)  # fmt: skip
def test_bad_files_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = file_of(tmp_path, text)
    assert netfold.main(["sweep", str(path), "-o", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"netfold: error: {path}: ") and err.count("\n") == 1
    assert said in err
    assert not (tmp_path / "out").exists()


def test_bad_options_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, TINY_TOML)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("")
    for options in (["--jobs", "0"], ["--memory", "0"], ["-o", str(tmp_path / "taken")]):
        assert netfold.main(["sweep", str(path), "-o", str(tmp_path / "out"), *options]) == 2
        assert capsys.readouterr().err.startswith("netfold: error: --")
    assert netfold.main(["sweep", str(tmp_path / "none.toml")]) == 2


# Each unit once.


def test_plans_are_made_once_and_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = sys.modules["sim.prepare"].make_plan
    monkeypatch.setattr("sim.prepare.make_plan", lambda *a, **k: made.append(k["width"]) or real(*a, **k))
    sweep = tiny(grid={"loss.rate": [0.0, 0.01], "run.recirculation": ["both"]}, seeds=[1, 2, 3])
    assert len(sweep.units) == 2 * 3 * 3  # host, switchgnn-free, switchgnn-tofino
    plans = {plan_name(unit.variant, {}): unit.variant for unit in sweep.units.values()}
    assert len(plans) == 2
    folder = SweepFolder(tmp_path)
    folder.create()
    for _ in range(2):
        told = child.answer_prepare(child.PrepareRequest(tmp_path, "group", plans, tmp_path / "cache"))
        assert all(memory > 10**8 for memory in told["plans"].values())
        assert made == [32, 32], "host's and SwitchGNN's, at the one width that is propagated"


def test_a_sweep_runs_keeps_failures_and_is_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = '\n[grid]\n"switch.memory_bytes" = ["100MB", 300]\n[sweep]\nseeds = 2\n'
    path, out = file_of(tmp_path, TINY_TOML + grid), tmp_path / "out"
    assert netfold.main(["sweep", str(path), "-o", str(out), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["units"], told["ran"], told["failed"]) == (6, 4, 2)
    assert all("memory" in reason for reason in told["failures"].values())
    [kept, _] = sorted((out / "failed").iterdir())
    assert json.loads(kept.read_text())["reason"] in told["failures"].values()
    rows = {row["system"]: row for row in told["summary"]}
    assert rows["host"]["runs"] == rows["switchgnn"]["runs"] == 2
    assert rows["host"]["epoch_time_ns_low"] <= rows["host"]["epoch_time_ns"]
    before = {file: file.stat().st_mtime_ns for file in out.rglob("summary.json")}
    assert netfold.main(["sweep", str(path), "-o", str(out), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["ran"], told["reused"], told["failed"]) == (0, 4, 2)
    assert {file: file.stat().st_mtime_ns for file in out.rglob("summary.json")} == before
    one = next(iter(load_runs(out).runs)).folder
    assert netfold.main(["show", str(one), "--no-plots"]) == 0, "each is a results folder"
    assert not list((out / ".prepared").iterdir())
    assert netfold.main(["sweep", str(path), "-o", str(out), "--dry-run"]) == 0
    assert "4 points, 6 runs" in capsys.readouterr().out


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def hole(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3] + bytes(40) + whole[len(whole) // 3 + 40 :])


DAMAGES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "queues.parquet is cut short": ("queues.parquet", cut),
    "summary.json is damaged": ("summary.json", lambda path: path.write_text('{"netfold": ')),
    "no summary.json": ("summary.json", Path.unlink),
    "epochs.parquet is not readable": ("epochs.parquet", hole),
    "blocks.parquet is missing": ("blocks.parquet", Path.unlink),
    "scenario.toml is missing or damaged": ("scenario.toml", lambda path: path.write_bytes(b"\xff")),
    "links.parquet is not readable (other columns)": (
        "links.parquet", lambda path: shutil.copy(path.with_name("packets.parquet"), path)),
}  # fmt: skip


def hurt(run: Path, why: str) -> None:
    """Damage a run's folder so that this is what is wrong with it."""
    name, how = DAMAGES[why]
    how(min(run.rglob(name), key=lambda file: len(file.parts)))


def test_damaged_results_are_named_and_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = file_of(tmp_path, TINY_TOML + "[sweep]\nseeds = 2\n"), tmp_path / "out"
    assert netfold.main(["sweep", str(path), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["damaged"] == {}
    first = {file: file.read_bytes() for file in out.rglob("*.parquet")}
    folders = sorted((out / "runs").iterdir())
    assert len(folders) == 4
    for number, reason in enumerate(DAMAGES):
        copy = shutil.copytree(folders[3], tmp_path / f"copy{number}")
        assert damage(copy) is None
        hurt(copy, reason)
        assert reason in str(damage(copy))
    why = {folder.name: reason for folder, reason in zip(folders[:3], DAMAGES, strict=False)}
    for name, reason in why.items():
        hurt(out / "runs" / name, reason)
    before = finished(out)[folders[3].name]
    assert netfold.main(["sweep", str(path), "-o", str(out), "--dry-run", "--json"]) == 0
    states = {one["unit"]: one["state"] for one in json.loads(capsys.readouterr().out)["units"]}
    assert states == {folder.name: "damaged" if folder.name in why else "done" for folder in folders}
    assert netfold.main(["sweep", str(path), "-o", str(out), "--json"]) == 0
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert (told["ran"], told["reused"], told["failed"], told["skipped"]) == (3, 1, 0, {})
    assert told["damaged"].keys() == why.keys()
    for name, reason in why.items():
        assert reason in told["damaged"][name]
        assert f"{name}: damaged (" in shown.err
    assert {file: file.read_bytes() for file in out.rglob("*.parquet")} == first
    assert finished(out)[folders[3].name] == before, "the whole one stays as it is"
    assert sorted((out / "runs").iterdir()) == folders, "nothing is left of the damaged ones"


def test_a_unit_that_dies_is_kept_as_failed_and_can_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETFOLD_CACHE", str(tmp_path / "cache"))
    sweep, place = tiny(grid={"run.systems": ["host"]}), tmp_path / "s"
    [name] = sweep.units
    folder = SweepFolder(place)
    folder.create()
    folder.fail(name, "the machine burned", "", "")
    outcome = run_sweep(sweep, place)
    assert outcome.failures == {name: "the machine burned"}
    outcome = run_sweep(sweep, place, retry=True)
    assert outcome.outcomes == {name: "ran"}
    assert folder.failure(name) is None


# Kills.


def start(path: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "netfold", "sweep", str(path), "-o", str(out), "--json", *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def finished(out: Path) -> dict[str, tuple[int, int]]:
    """Finished runs with what would change if they were written again."""
    files = [path for path in out.glob("runs/*/summary.json") if not path.parent.name.startswith(".")]
    return {path.parent.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def test_a_sweep_killed_again_and_again_resumes(tmp_path: Path) -> None:
    path, out = file_of(tmp_path, TINY_TOML + "[sweep]\nseeds = 2\n"), tmp_path / "out"
    seen: dict[str, tuple[int, int]] = {}
    kills = 0
    for wanted in (0, 2):  # runs finished when the kill comes: before the first, then in the middle
        process = start(path, out)
        while process.poll() is None and (len(finished(out)) < wanted or not (out / ".prepared").is_dir()):
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        now = finished(out)
        assert seen.items() <= now.items(), "nothing lost, nothing written again"
        seen = now
    assert kills == 2
    process = start(path, out)
    told = json.loads(process.communicate()[0])
    assert (process.returncode, told["units"], told["failed"]) == (0, 4, 0)
    assert told["ran"] + told["reused"] == 4
    assert told["reused"] >= len(seen)
    assert seen.items() <= finished(out).items()
    assert len(load_runs(out)) == 4
    assert not load_runs(out).skipped
    assert not [path for path in (out / "runs").iterdir() if path.name.startswith(".")]


KILLER = """
import io, os, pickle, shutil, sys
from pathlib import Path
from analysis.records import load_runs
from analysis.sweep import child
from analysis.sweep.folder import SweepFolder

def engine(*args, **kwargs):
    class Run:
        summary, tables, results = {"epoch_time_ns": 7, "total_bytes": 1}, {}, []
    return Run()

root, request, prepared = Path(sys.argv[1]), *pickle.loads(Path(sys.argv[2]).read_bytes())
damaged = sys.argv[3] == "damaged"

def work(kill_at):
    '''In a process that kills itself before its kill_at-th change of the file system.'''
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    count = 0
    def counted(function):
        def call(*args, **kwargs):
            nonlocal count
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), 9)
            return function(*args, **kwargs)
        return call
    for name in ("mkdir", "replace", "rename", "unlink", "rmdir", "fdopen"):
        setattr(os, name, counted(getattr(os, name)))
    io.open = counted(io.open)
    sys.modules["__main__"].__dict__["io"] = io
    told = child.answer_run(request)
    os._exit({"ran": 10, "reused": 11}.get(told["outcome"], 99))

folder, points = SweepFolder(root), 0
for kill_at in range(1, 500):
    shutil.rmtree(root, ignore_errors=True)
    folder.create()
    folder.job_file(request.plan).write_bytes(prepared)
    if damaged:
        (folder.runs / request.name).mkdir()
        for name in ("summary.json", "scenario.toml"):
            (folder.runs / request.name / name).write_text("{")
    status = work(kill_at)
    done = folder.is_done(request.name) and not folder.damage(request.name)
    if status != -9:
        assert status == 10 and done, status
        break
    points += 1
    partly = load_runs(root)
    assert len(partly) == done and (damaged or not partly.skipped), (kill_at, partly.skipped)
    status = work(0)
    assert status == (11 if done else 10), (kill_at, status)
    whole = load_runs(root)
    assert len(whole) == 1 and not whole.skipped, kill_at
    left = [path.name for path in folder.runs.iterdir()]
    assert left == [request.name], (kill_at, left)
print(points)
"""


@pytest.mark.parametrize("before", ["nothing", "damaged"])
def test_a_unit_killed_at_any_change_of_the_file_system_is_run_once(tmp_path: Path, before: str) -> None:
    import pickle

    from sim.job import Job

    [unit] = tiny(grid={"run.systems": ["switchgnn"]}).units.values()
    facts = {"graph": {}, "partitions": {}, "plans": {}, "widths": [], "compute": ""}
    prepared = child.Prepared(Job(unit.variant, {}, [], {}, 1), "", facts)
    request = child.RunRequest(tmp_path / "s", unit.name, "plan", unit.variant, engine="__main__:engine")
    (tmp_path / "request").write_bytes(pickle.dumps((request, pickle.dumps(prepared))))
    command = [sys.executable, "-c", KILLER, str(tmp_path / "s"), str(tmp_path / "request"), before]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) >= 12, "so many places were tried"


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    """The parent's end of stdin closes, however it ended; the child, busy for ever, goes too."""
    code = "import time; from analysis.sweep import child; "
    code += "child._read_request = lambda stream: None; "
    code += "child.answer_run = lambda r: time.sleep(600); child.main()"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE)
    time.sleep(0.2)
    assert process.stdin
    process.stdin.close()
    assert process.wait(timeout=60) == 1


def test_ctrl_c_keeps_what_has_ended(tmp_path: Path) -> None:
    path, out = file_of(tmp_path, TINY_TOML + "[sweep]\nseeds = 40\n"), tmp_path / "out"
    process = start(path, out)
    while process.poll() is None and not finished(out):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT if _heeds_interrupt() else signal.SIGTERM)
    told = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 130
    assert told["interrupted"] and 1 <= told["ran"] < 80
    assert told["ran"] == len(load_runs(out))
    assert not told["failures"], "what was ended is not failed"


def _heeds_interrupt() -> bool:
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


# Two at once, other schedulers, memory.


def test_two_sweeps_on_one_folder_share_the_work(tmp_path: Path) -> None:
    path, out = file_of(tmp_path, TINY_TOML), tmp_path / "out"
    processes = [start(path, out) for _ in range(2)]
    told = [json.loads(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sum(one["ran"] for one in told) == 2, "each unit once, by one or the other"
    assert all(one["ran"] + one["reused"] == 2 for one in told)
    assert len(load_runs(out)) == 2


def test_an_existing_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    options: Any = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(processes=True, resources={"memory": 1e9}, **options) as running:
        sweep = tiny(seeds=[1, 2])
        outcome = run_sweep(sweep, tmp_path / "s", scheduler=running.scheduler_address)
    assert outcome.counts() == {"units": 4, "ran": 4, "reused": 0, "failed": 0}
    assert "4 ran" in outcome._repr_html_()
    monkeypatch.setattr(cluster, "CONNECT_S", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense://here"):
        with pytest.raises(InputError, match="--scheduler"):
            run_sweep(tiny(seeds=[3]), tmp_path / "s", scheduler=address)


def _sleep(seconds: float) -> tuple[float, float]:
    started = time.monotonic()
    time.sleep(seconds)
    return started, time.monotonic()


def test_what_does_not_fit_together_does_not_run_together() -> None:
    with cluster.local_cluster(jobs=3, memory_bytes=1000) as started:
        futures = [
            started.client.submit(_sleep, 0.15, resources=started.needs(need), pure=False)
            for need in (600, 600, 10_000)  # the last is more than there is: it runs, alone
        ]
        spans = sorted(started.client.gather(futures))
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
        small = [
            started.client.submit(_sleep, 0.5, resources=started.needs(300), pure=False) for _ in range(3)
        ]
        spans = sorted(started.client.gather(small))
        assert spans[2][0] < spans[0][1], "three that fit run together"


@pytest.mark.parametrize(
    ("source", "scale", "size"),
    [
        ("reddit", 0.1, (23_296, 11_461_589)),
        ("rmat:10:8", 1.0, (1024, 16_384)),
        ("star:50", 1.0, (50, 100)),
    ],
)
def test_memory_follows_the_graph(source: str, scale: float, size: tuple[int, int]) -> None:
    scenario = load_scenario(None, {"graph.source": source, "graph.scale": scale})
    assert graph_size(scenario) == pytest.approx(size, rel=0.01)
    assert preparing_bytes(scenario) >= 30 * size[1]


def test_memory_follows_the_system() -> None:
    """Measured at scale 0.1, 128 workers, leaf-spine: 961 MB for the strawman, at most 347 MB for others."""
    prepared = 284_000_000
    assert simulating_bytes(SYSTEMS["strawman"], prepared) > 961e6
    assert 347e6 < simulating_bytes(SYSTEMS["g3"], prepared) < 500e6
    assert simulating_bytes(SYSTEMS["switchgnn"], 150_000_000) == 150_000_000


def test_memory_of_a_file_follows_its_size(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_bytes(b"0 1\n" * 1000)
    scenario = load_scenario(None, {"graph.source": f"edges:{tmp_path / 'edges.txt'}"})
    named = load_scenario(None, {"graph.source": str(tmp_path / "edges.txt")})
    assert graph_size(named) == (500, 1000)
    assert graph_size(scenario)[1] > 0
