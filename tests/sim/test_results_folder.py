"""The results folder: exact schemas, byte-identical files, nothing half-written."""

from __future__ import annotations

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


def test_other_peoples_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("...")
    (tmp_path / "file").write_text("...")
    for place in (tmp_path / "thesis", tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="--output"):
            ResultsFolder(place)
    ResultsFolder(tmp_path / "empty").discard()
