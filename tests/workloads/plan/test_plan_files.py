"""Plans on disk: what is saved is what is loaded, damage is one line, nothing half-written; the cache; the
command.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netfold
from tests.workloads.plan.drawing import alone, graph_of, star
from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.partition import partition_graph
from workloads.plan import Plan, make_plan, store
from workloads.plan.cli import parse_memory
from workloads.plan.plan import ARRAYS, SCALARS


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    graph = load_graph("karate")
    partition = partition_graph(graph, 4, cache=tmp_path / "cache")
    return make_plan(graph, partition, width=64, memory_bytes=8000, cache=tmp_path / "cache")


def test_saved_is_loaded(tmp_path: Path, plan: Plan) -> None:
    plan.save(tmp_path / "deep" / "plan")
    loaded = Plan.load(tmp_path / "deep" / "plan")
    for name in SCALARS:
        assert getattr(loaded, name) == getattr(plan, name)
    for name in ARRAYS:
        assert np.array_equal(getattr(loaded, name), getattr(plan, name))
        assert not getattr(loaded, name).flags.writeable
    assert isinstance(loaded.adj, np.memmap)
    assert loaded.digest == plan.digest
    assert loaded.shape() == plan.shape()
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["plan"]


def test_an_empty_plan_survives(tmp_path: Path) -> None:
    graph = graph_of(2, [(0, 1)])
    partition = partition_graph(graph, 1, cache=tmp_path)
    make_plan(graph, partition, width=1, memory_bytes=None).save(tmp_path / "plan")
    assert Plan.load(tmp_path / "plan").num_boundary == 0


def test_a_plan_replaces_a_plan_and_nothing_else(tmp_path: Path, plan: Plan) -> None:
    plan.save(tmp_path / "plan")
    plan.save(tmp_path / "plan")
    assert Plan.load(tmp_path / "plan").digest == plan.digest
    (tmp_path / "plan" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a plan"):
        plan.save(tmp_path / "plan")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is not a plan"):
        plan.save(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "plan")
    with pytest.raises(InputError, match="is not a plan"):
        plan.save(tmp_path / "link")


def test_a_failed_save_leaves_nothing(tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(InputError, match="No space left on device"):
        plan.save(tmp_path / "plan")
    assert [p.name for p in tmp_path.iterdir() if p.name != "cache"] == []


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: (f / "plan.json").unlink(), "there is no plan.json"),
        (lambda f: (f / "adj.npy").unlink(), "adj.npy is missing"),
        (lambda f: (f / "adj.npy").write_bytes(b""), "adj.npy cannot be read"),
        (lambda f: (f / "adj.npy").write_bytes((f / "adj.npy").read_bytes()[:-4]), "adj.npy cannot be read"),
        (lambda f: np.save(f / "adj.npy", np.load(f / "adj.npy")[:-1]), "plan.json says <i4"),
        (lambda f: np.save(f / "adj.npy", np.load(f / "adj.npy").astype(np.int64)), "adj.npy is int64"),
        (lambda f: np.save(f / "adj.npy", np.load(f / "adj.npy")[::-1].copy()), "does not match its digest"),
        (lambda f: np.save(f / "adj.npy", np.array([{}], dtype=object)), "adj.npy cannot be read"),
        (lambda f: (f / "plan.json").write_text("{"), "plan.json cannot be read"),
        (lambda f: (f / "plan.json").write_text("[" * 100_000), "plan.json cannot be read"),
        (lambda f: (f / "plan.json").write_bytes(b"\xff\xfe"), "plan.json cannot be read"),
        (lambda f: (f / "plan.json").write_text("[]"), "not a netfold plan's"),
        (lambda f: edit(f, version=99), "format version 99; allowed: 1"),
        (lambda f: edit(f, scalars=[]), "lacks its scalars"),
        (lambda f: edit(f, digest=5), "does not match its digest"),
        (lambda f: edit_scalar(f, "width", "wide"), "width is 'wide'"),
        (lambda f: edit_scalar(f, "width", True), "width is True"),
        (lambda f: edit_scalar(f, "width", 65), "does not match its digest"),
    ],
)
def test_damage_is_one_line(tmp_path: Path, plan: Plan, damage: object, says: str) -> None:
    plan.save(tmp_path / "plan")
    damage(tmp_path / "plan")  # type: ignore[operator]
    with pytest.raises(InputError, match=says) as error:
        Plan.load(tmp_path / "plan")
    assert "\n" not in str(error.value)


def edit(folder: Path, **changes: object) -> None:
    """Change top-level entries of plan.json."""
    head = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps({**head, **changes}))


def edit_scalar(folder: Path, name: str, value: object) -> None:
    """Change one scalar of plan.json."""
    scalars = json.loads((folder / "plan.json").read_text())["scalars"]
    edit(folder, scalars={**scalars, name: value})


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_fuzzed_plans_load_as_they_were_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("fuzz") / "plan"
    graph = graph_of(5, star(5))
    plan = make_plan(graph, alone(graph), width=3, memory_bytes=None)
    plan.save(folder)
    file = folder / data.draw(st.sampled_from(sorted(os.listdir(folder))))
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))]))
    try:
        loaded = Plan.load(folder)
    except InputError:
        return
    assert loaded.digest == plan.digest
    assert all(np.array_equal(getattr(loaded, name), getattr(plan, name)) for name in ARRAYS)


def test_a_kept_plan_is_used_and_a_damaged_one_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "WORTH_KEEPING_EDGES", 1)
    graph = load_graph("karate")
    partition = partition_graph(graph, 4, cache=tmp_path)
    recipe = {"width": 64, "memory_bytes": 8000, "cache": tmp_path}
    made = make_plan(graph, partition, **recipe)
    (kept,) = (tmp_path / "plans").iterdir()
    again = make_plan(graph, partition, **recipe)
    assert isinstance(again.adj, np.memmap)
    assert again.digest == made.digest
    (kept / "adj.npy").write_bytes(b"damaged")
    assert make_plan(graph, partition, **recipe).digest == made.digest
    make_plan(graph, partition, **{**recipe, "seed": 2})
    assert len(list((tmp_path / "plans").iterdir())) == 2


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETFOLD_CACHE", str(tmp_path / "cache"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the command."""
    try:
        status = netfold.main(["plan", *arguments])
    except SystemExit as end:
        status = int(end.code or 0)
    out = capsys.readouterr()
    return status, out.out, out.err


@pytest.mark.usefixtures("own_cache")
def test_plan_and_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "made"
    made = ["karate", "--workers", "4", "--memory", "20kB", "--width", "64", "-o", str(folder), "--json"]
    status, out, err = run(capsys, *made)
    assert (status, err) == (0, "")
    shape = json.loads(out)
    assert shape["workers"] == 4
    assert shape["num_levels"] == len(shape["levels"])
    status, out, _ = run(capsys, "inspect", str(folder), "karate", "--json")
    shapes = json.loads(out)
    assert shapes[0] == shape
    assert shapes[1]["workers"] == 8
    status, out, _ = run(capsys, "inspect", str(folder))
    assert status == 0
    for word in ("level", "uploads", "residual", "all host-based", "karate"):
        assert word in out


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["karate", "--workers", "99"], "workers: 99 given, but graph karate has only 34 vertices"),
        (["karate", "--memory", "1kB"], "two joined vertices of 9 aggregators"),
        (["karate", "--memory", "lots"], 'allowed: a size such as "100MB"'),
        (["karate", "--width", "0"], "width: 0"),
        (["karate", "--order", "best"], "invalid choice"),
        (["karate", "ring:9"], "one graph at a time"),
        (["inspect"], "nothing to inspect"),
        (["inspect", "karate", "-o", "x"], "-o is for making a plan"),
        (["nosuch"], "nosuch"),
        ([], "required"),
    ],
)
def test_bad_arguments_are_one_line_and_leave_nothing(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("netfold: error: ") and err.count("\n") == 1 and says in err
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "size"),
    [("100MB", 10**8), ("10 MB", 10**7), ("1.5kB", 1500), ("64KiB", 65536), ("7", 7), ("unlimited", None)],
)
def test_memory_sizes(text: str, size: int | None) -> None:
    assert parse_memory(text) == size


@given(text=st.text(max_size=40))
def test_any_memory_text_is_a_size_or_refused(text: str) -> None:
    try:
        size = parse_memory(text)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert size is None or size >= 0
