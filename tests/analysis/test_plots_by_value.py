"""What the figures and tables show, read back from them: bars, lines and cells against the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.html import frame_html, show_value, with_intervals
from analysis.metrics import comparison, summarise
from analysis.plots import draw_backlog, draw_comparison, draw_memory
from analysis.records import Records, load_records
from analysis.tables import frame_table, sweep_table, systems_table
from tests.analysis.made_runs import figures, results

RUNS = {
    "host": figures("host", up_bytes=4e9, down_bytes=6e9, total_bytes=10e9, epoch_time_ns=50e6),
    "switchgnn-free": figures(
        "switchgnn-free",
        up_bytes=1e9,
        down_bytes=1e9,
        total_bytes=2e9,
        epoch_time_ns=10e6,
        memory_bytes=10**8,
    ),
    "switchgnn-tofino": figures("switchgnn-tofino", total_bytes=2e9, epoch_time_ns=20e6),
    "switchgnn-no-gamr-free": figures("switchgnn-no-gamr-free", total_bytes=2e9, epoch_time_ns=11e6),
    "switchgnn-free@10MB": figures("switchgnn-free@10MB", total_bytes=5e9, memory_bytes=10**7),
}


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return load_records(results(tmp_path / "r", RUNS))


def bars(container: Any) -> list[float]:
    return [patch.get_width() for patch in container.patches]


def test_comparison_bars(records: Records) -> None:
    figure = draw_comparison(records)
    assert figure is not None
    traffic, epoch = figure.axes
    up, down = traffic.containers
    assert bars(up) == pytest.approx([4, 1, 500e-9])
    assert bars(down) == pytest.approx([6, 1, 500e-9])
    free, tofino, host = epoch.containers
    assert bars(free) == pytest.approx([10, 11])
    assert bars(tofino)[0] == pytest.approx(20)
    assert bars(host) == pytest.approx([50])
    assert [label.get_text() for label in traffic.get_yticklabels()] == [
        "host",
        "switchgnn",
        "switchgnn-no-gamr",
    ]
    assert "stand-in" in figure.get_supxlabel()


def test_backlog_lines(records: Records) -> None:
    figure = draw_backlog(records)
    assert figure is not None
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["with GAMR", "without GAMR (random order)"]
    for line in lines:
        assert list(line.get_xdata()) == pytest.approx([100e-6, 200e-6, 300e-6])
        assert list(line.get_ydata()) == pytest.approx([10e-6, 50e-6, 20e-6])


def test_memory_lines(records: Records) -> None:
    figure = draw_memory(records)
    assert figure is not None
    line, host = figure.axes[0].get_lines()
    assert list(line.get_ydata()) == pytest.approx([5, 2])
    assert list(host.get_ydata()) == [10, 10]
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["10 MB", "100 MB"]


def cells(table: Any) -> list[list[str]]:
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def test_table_cells(records: Records) -> None:
    rows = {row[0]: row[1:] for row in cells(systems_table(records))}
    assert rows["switchgnn"][:4] == ["1.00 GB", "1.00 GB", "2.00 GB", "-80%"]
    assert rows["switchgnn"][4:9] == ["1 B", "2 B", "50 B", "9", "25%"]
    assert rows["switchgnn"][-4:] == ["10.0 ms", "-80%", "20.0 ms", "-60%"]
    sweep = sweep_table(records)
    assert [row[:4] for row in cells(sweep)] == [
        ["switchgnn", "10.0 MB", "5.00 GB", "-50%"], ["switchgnn", "100 MB", "2.00 GB", "-80%"],
    ]  # fmt: skip


def test_any_frame_by_the_units_in_its_columns(records: Records) -> None:
    shown = cells(frame_table(comparison(records).reset_index()[["system", "epoch_free_ns"]], "t"))
    assert shown[1] == ["switchgnn", "10.0 ms"]
    page = frame_html(comparison(records).reset_index()[["system", "total_bytes"]], caption="<b>")
    assert ">2.00 GB</td>" in page and "&lt;b&gt;" in page
    assert "<td" in records._repr_html_() and "−80%" in records._repr_html_()
    frame = summarise(records.runs().assign(graph="g"), by=["graph"], metrics=["epoch_time_ns"])
    [row] = with_intervals(frame).to_dict("records")
    assert row["epoch_time_ns"].startswith("18.2 ms [") and row["epoch_time_ns"].endswith(" ms]")


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("memory_bytes", 0, "unlimited"), ("total_bytes", 1500, "1.50 kB"), ("bypassed_share", 0.25, "25.0%"),
        ("epoch_time_ns", 1.5e6, "1.50 ms"), ("cluster.host_link_bps", 10**11, "100 Gb/s"), ("x", None, "–"),
        ("x", float("nan"), "–"), ("x", True, "True"),
        ("loss.rate", 0.01, "0.01"), ("passes", 12_345, "12.3 k"),
        ("traffic_vs_host", -0.8, "−80%"), ("area_byte_s", 1e3, "1.00 kB·s"),
    ],
)  # fmt: skip
def test_values_are_shown_by_unit(column: str, value: Any, shown: str) -> None:
    assert show_value(column, value) == shown
