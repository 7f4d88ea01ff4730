"""The results folder: exact schemas, byte-identical files, nothing half-written."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sim.results import SCHEMAS, ResultsFolder, is_results, write_run, write_table
from workloads.errors import InputError

QUEUES = {
    "time_ns": np.arange(5),
    "switch": np.array(["leaf0", "leaf0", "spine1", "spine1", "spine1"]),
    "port": np.zeros(5, dtype=np.int32),
    "backlog_bytes": np.arange(5) * 10,
    "shared_bytes": np.arange(5) * 20,
}


def test_tables_have_their_schema_and_read_back(tmp_path: Path) -> None:
    write_run(tmp_path / "host", {"epoch_time_ns": np.int64(5)}, {"queues": QUEUES})
    for name, schema in SCHEMAS.items():
        assert pq.read_schema(tmp_path / "host" / f"{name}.parquet").equals(schema)
    table = pq.read_table(tmp_path / "host" / "queues.parquet").to_pydict()
    assert table["switch"] == ["leaf0", "leaf0", "spine1", "spine1", "spine1"]
    assert table["backlog_bytes"] == [0, 10, 20, 30, 40]
    assert pq.read_table(tmp_path / "host" / "packets.parquet").num_rows == 0


def test_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
    objects = QUEUES | {"switch": QUEUES["switch"].astype(object)}
    write_run(tmp_path / "a", {"x": 1, "y": 2.5}, {"queues": QUEUES})
    write_run(tmp_path / "b", {"y": 2.5, "x": 1}, {"queues": objects})
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_wrong_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected"):
        write_table(tmp_path / "q.parquet", {"time_ns": np.arange(3)}, SCHEMAS["queues"])


def test_summaries_hold_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_run(tmp_path / "host", {"x": float("nan")}, {})


def test_commit_replaces_earlier_results_and_discard_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "results"
    first = ResultsFolder(place)
    write_run(first.building / "host", {}, {})
    assert not place.exists()
    first.commit("[netfold]\n", {"order": ["host"]})
    assert is_results(place)
    second = ResultsFolder(place)
    second.commit("[netfold]\n", {"order": []})
    assert not (place / "host").exists()
    third = ResultsFolder(place)
    third.discard()
    assert [entry.name for entry in place.parent.iterdir()] == ["results"]


def test_discard_removes_the_parents_it_made_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    ResultsFolder(tmp_path / "mine" / "a" / "b").discard()
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]
    folder = ResultsFolder(tmp_path / "mine" / "a" / "b")
    (tmp_path / "mine" / "a" / "note").write_text("...")
    folder.discard()
    assert (tmp_path / "mine" / "a" / "note").is_file()


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    (tmp_path / "dangling").symlink_to("new")
    for link, target in (("link", "disk"), ("dangling", "new")):
        for _ in range(2):
            ResultsFolder(tmp_path / link).commit("[netfold]\n", {})
        assert (tmp_path / link).is_symlink()
        assert is_results(tmp_path / target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "disk", "link", "new"]


def test_names_that_cannot_be_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too long"):
        ResultsFolder(tmp_path / ("x" * 300))
    with pytest.raises(InputError, match="too long"):  # the name itself fits, the temporary one does not
        ResultsFolder(tmp_path / "deep" / ("x" * 250))
    assert list(tmp_path.iterdir()) == []


def test_the_current_folder_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="current folder"):
        ResultsFolder(Path())


def test_names_need_not_be_utf8(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "caf\udce9")
    write_run(folder.building / "host", {}, {"queues": QUEUES})
    folder.commit("[netfold]\n", {})
    assert is_results(tmp_path / "caf\udce9")


def test_earlier_results_stay_when_new_ones_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ResultsFolder(tmp_path / "r").commit("[netfold]\n", {"order": ["first"]})
    before = (tmp_path / "r" / "summary.json").read_bytes()
    second = ResultsFolder(tmp_path / "r")
    rename = os.replace

    def full(source: Path, target: Path) -> None:
        if source == second.building:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="No space left"):
        second.commit("[netfold]\n", {"order": ["second"]})
    second.discard()
    assert (tmp_path / "r" / "summary.json").read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_a_run_that_ends_in_between_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = ResultsFolder(tmp_path / "r"), tmp_path / "other"
    ResultsFolder(other).commit("[netfold]\n", {"order": ["other"]})
    rename = os.replace

    def late(source: Path, target: Path) -> None:
        if source == mine.building and other.exists():
            rename(other, target)
        rename(source, target)

    monkeypatch.setattr(os, "replace", late)
    mine.commit("[netfold]\n", {"order": ["mine"]})
    assert "mine" in (tmp_path / "r" / "summary.json").read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["r"]


def test_other_peoples_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("...")
    (tmp_path / "file").write_text("...")
    for place in (tmp_path / "thesis", tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="--output"):
            ResultsFolder(place)
    ResultsFolder(tmp_path / "empty").discard()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    ResultsFolder(tmp_path / "r").commit("[netfold]\n", {})
    host = socket.gethostname()
    made = {
        name: tmp_path / name
        for name in (
            f".r.building-{host}-{dead.pid}",
            f".r.replaced-{host}-{dead.pid}",
            f".r.building-{host}-{running.pid}",
            f".r.building-elsewhere-{dead.pid}",
            f".rr.building-{host}-{dead.pid}",
        )
    }
    for folder in made.values():
        (folder / "host").mkdir(parents=True)
    new = ResultsFolder(tmp_path / "r")
    assert {name for name, folder in made.items() if folder.exists()} == set(list(made)[2:])
    new.discard()
    running.communicate(b"\n")


def test_results_that_a_killed_run_stepped_aside_are_not_lost(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    aside = tmp_path / f".r.replaced-{socket.gethostname()}-{dead.pid}"
    ResultsFolder(aside).commit("[netfold]\n", {})
    ResultsFolder(tmp_path / "r").discard()
    assert is_results(aside)
