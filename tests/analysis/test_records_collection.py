"""Collections: thousands of folders, lazily, the damaged ones named."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from analysis.metrics import measure_all, summarise
from analysis.records import load_records, load_runs
from sim.results import SCHEMAS
from sim.scenario_io import load_scenario
from tests.analysis.made_runs import figures, results
from workloads.errors import InputError


@pytest.fixture
def many(tmp_path: Path) -> Path:
    for seed in (1, 2):
        runs = {
            "host": figures("host", epoch_time_ns=1000 * seed),
            "switchgnn-free": figures("switchgnn-free"),
        }
        scenario = load_scenario(None, {"run.seed": seed, "switch.memory_bytes": "unlimited"})
        results(tmp_path / "deep" / f"s{seed}", runs, scenario=scenario)
    return tmp_path


def test_one_row_per_run_with_units_in_the_names(many: Path) -> None:
    runs = load_runs(many)
    assert runs.frame["run"].tolist() == [
        "deep/s1/host", "deep/s1/switchgnn-free", "deep/s2/host", "deep/s2/switchgnn-free",
    ]  # fmt: skip
    assert runs.frame["run.seed"].tolist() == [1, 1, 2, 2]
    assert runs.frame["epoch_time_ns"].tolist() == [1000, 470, 2000, 470]
    assert runs.frame["switch.memory_bytes"].tolist() == [0] * 4, "unlimited, as everywhere"
    assert runs.frame["graph_directed_edges"].tolist() == [800] * 4
    assert len(runs.where(system="host", run__seed=2)) == 1


def test_tables_of_all_runs_and_only_what_is_asked(many: Path) -> None:
    runs = load_runs(many)
    queues = runs.table("queues", ["time_ns", "backlog_bytes"], where=ds.field("port") >= 0)
    assert list(queues.columns) == ["run", "time_ns", "backlog_bytes"]
    assert len(queues) == 4 * 6
    for path in (many / "deep" / "s1").rglob("queues.parquet"):
        path.unlink()
    one = runs.table("queues", where=ds.field("run") == "deep/s2/host")
    assert len(one) == 9, "the files of other runs are not even opened"


def test_damaged_folders_are_named_and_skipped(many: Path) -> None:
    for name in ("cut", "missing", "json", "list", "foreign", "no-run"):
        shutil.copytree(many / "deep" / "s1", many / name)
    cut = many / "cut" / "host" / "queues.parquet"
    cut.write_bytes(cut.read_bytes()[:-20])
    (many / "missing" / "host" / "epochs.parquet").unlink()
    (many / "json" / "summary.json").write_text("{")
    (many / "list" / "summary.json").write_text("[]")
    (many / "foreign" / "scenario.toml").write_text("= not toml")
    shutil.rmtree(many / "no-run" / "host")
    (many / "half").mkdir()
    (many / "half" / "scenario.toml").write_text("")
    (many / ".hidden.building-1").mkdir()
    runs = load_runs(many)
    assert len(runs) == 4
    assert {Path(name).name for name in runs.skipped} == {
        "cut", "missing", "json", "list", "foreign", "no-run", "half",
    }  # fmt: skip
    assert "host/queues.parquet is cut short" in runs.skipped[str(many / "cut")]
    assert "no summary.json" in runs.skipped[str(many / "half")]
    assert "cut short" in runs._repr_html_()


def test_runs_recorded_before_links_were_are_read(many: Path) -> None:
    for path in (many / "deep" / "s1").rglob("links.parquet"):
        path.unlink()
    runs = load_runs(many)
    assert (len(runs), runs.skipped) == (4, {})
    links = runs.table("links", ["source", "bytes"])
    assert set(links["run"]) == {"deep/s2/host", "deep/s2/switchgnn-free"}
    assert links["bytes"].sum() == 2 * 1200
    old = load_records(many / "deep" / "s1")
    assert list(old.table("host", "links").columns) == SCHEMAS["links"].names
    assert old.table("host", "links", ["hop"]).shape == (0, 1)
    assert len(load_records(many / "deep" / "s2").table("host", "links")) == 6
    older = load_runs(many / "deep" / "s1")
    assert older.table("links").empty
    (many / "deep" / "s1" / "host" / "links.parquet").write_bytes(b"PAR1 broken")
    assert "links.parquet is cut short" in next(iter(load_runs(many).skipped.values()))


def test_a_table_damaged_in_its_middle_is_named_when_read(many: Path) -> None:
    bad = many / "deep" / "s1" / "host" / "epochs.parquet"
    data = bytearray(bad.read_bytes())
    data[4:-8] = bytes(len(data) - 12)
    bad.write_bytes(data)
    runs = load_runs(many)
    assert not runs.skipped
    assert set(runs.table("epochs")["run"]) == set(runs.frame["run"]) - {"deep/s1/host"}
    assert str(bad) in runs.skipped
    assert set(measure_all(runs)["run"]) == set(runs.frame["run"]) - {"deep/s1/host"}


def test_no_folder_is_one_line_and_an_empty_one_no_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load_runs(tmp_path / "nowhere")
    empty = load_runs(tmp_path)
    assert len(empty) == 0
    assert summarise(empty.frame).empty
    assert "<table>" in empty._repr_html_()


def test_a_thousand_runs_load_and_summarise(tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    """The promise is 5 s; what it took is printed and recorded."""
    first = results(tmp_path / "all" / "0", {"switchgnn-free": figures("switchgnn-free")})
    for number in range(1, 1000):
        shutil.copytree(first, tmp_path / "all" / f"{number}", copy_function=shutil.copy)
        path = tmp_path / "all" / f"{number}" / "scenario.toml"
        text = path.read_text().replace("\nrate = 0.0", f"\nrate = 0.0{number % 100:02d}1")
        path.write_text(text)
    started = time.process_time()
    runs = load_runs(tmp_path / "all")
    table = summarise(runs.frame)
    record_property("seconds", time.process_time() - started)
    print("seconds of CPU", time.process_time() - started)
    assert len(runs) == 1000
    assert len(table) == 101
    assert table["runs"].sum() == 1000
