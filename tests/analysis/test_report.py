"""The report: its data by value, then the page in headless Chromium: DOM, plotted values, no errors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import netfold
from analysis.records import load_records
from analysis.report.data import report_data, thin_maximum
from analysis.report.page import render_page, write_report
from sim.results import SCHEMAS, write_table
from sim.scenario_io import load_scenario
from tests.analysis.browser import Browser
from tests.analysis.made_runs import figures, results
from workloads.errors import InputError

HOSTILE = 'reddit </script><script>console.error("in")</script> <b>&amp;'
RUNS = {
    "host": figures("host", total_bytes=1000, epoch_time_ns=1000, contributions=0, bypassed=0, results=0),
    "switchgnn-free": figures("switchgnn-free", total_bytes=190, epoch_time_ns=260, backlog_max_bytes=50),
    "switchgnn-tofino": figures("switchgnn-tofino", total_bytes=190, epoch_time_ns=600),
    "switchgnn-no-gamr-free": figures("switchgnn-no-gamr-free", total_bytes=190, backlog_max_bytes=100),
    "switchgnn-free@10MB": figures("switchgnn-free@10MB", total_bytes=770, memory_bytes=10**7),
}
TINY = {"cluster.workers": 4, "cluster.topology": "leaf-spine:2x2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "made"
    return results(place, RUNS, scenario=load_scenario(None, TINY), graph=HOSTILE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def page_of(folder: Path, place: Path) -> Path:
    write_report(folder, place)
    return place


def test_data_by_value(folder: Path) -> None:
    data = report_data(load_records(folder))
    by_label = {run["label"]: run for run in data["runs"]}
    assert list(by_label) == list(RUNS)
    run = by_label["switchgnn-free"]
    assert run["backlog"] == {"time_ms": [0.0001, 0.0002, 0.0003], "bytes": [10, 50, 20]}
    ports = run["ports"]
    assert ports["names"] == ["leaf0:0", "spine0:1"], "the recirculation queue is no egress port"
    assert ports["largest_bytes"] == 50
    packed = np.frombuffer(base64.b64decode(ports["packed"]), dtype="<u2").reshape(2, 3)
    assert packed / 65535 * 50 == pytest.approx(np.array([[10, 30, 20], [0, 50, 0]]), abs=0.001)
    assert ports["area_byte_s"] == pytest.approx([60e-7, 50e-7])
    # layer 1 has no propagation: 50 ns of compute; layer 2: 50, 60, 70 before, 100, 200, 300 in it, 50 after
    assert [row["before_ms"] for row in run["epochs"]] == pytest.approx([50e-6, 60e-6])
    assert [row["comm_ms"] for row in run["epochs"]] == pytest.approx([0, 200e-6])
    assert [row["after_ms"] for row in run["epochs"]] == pytest.approx([0, 50e-6])
    assert run["blocks"]["start_ms"] == [0.0001, 0.00026, 0.0005]
    assert (run["blocks"]["gap_ms"], run["blocks"]["left_out"]) == (pytest.approx(10e-6), 0)
    assert run["traffic"]["up"] == {"bytes": 500, "payload_bytes": 400, "frames": {"upload": 3}}
    links = run["links"]
    assert (links["source"][0], links["target"][0], links["bytes"][0]) == ("worker0", "leaf0", 375)
    # 300 ns of communication: 3750 bytes on a link of 100 Gb/s
    assert links["utilisation"] == pytest.approx([size / 3750 for size in links["bytes"]], abs=1e-6)
    memory = {row["memory_bytes"]: row["traffic_vs_host"] for row in data["memory"]}
    assert memory == {10**7: pytest.approx(-0.23), 10**8: pytest.approx(-0.81)}
    assert json.dumps(data, allow_nan=False)


def test_lines_are_thinned_to_their_maxima() -> None:
    times, values = np.arange(10_001), np.ones(10_001, dtype=int)
    values[[0, 7777, 10_000]] = [5, 9, 7]
    shown_times, shown = thin_maximum(times, values, 100)
    assert len(shown) == len(shown_times) <= 100
    assert (shown[0], shown[-1], shown.max()) == (5, 7, 9)
    assert (np.diff(shown_times) > 0).all() and shown_times[-1] == 10_000
    assert thin_maximum(times[:0], values[:0])[0].size == 0


def test_the_page_of_a_run(folder: Path, browser: Browser, tmp_path: Path) -> None:
    page = page_of(folder, tmp_path / "report.html")
    assert page.stat().st_size < 15_000_000
    browser.dark(False)
    browser.open(page)
    assert HOSTILE in browser.run("document.querySelector('h1').textContent"), "names are text, not HTML"
    headings = browser.run("[...document.querySelectorAll('section h2')].map(one => one.textContent)")
    assert headings == [
        "What was run", "Headline", "Backlog over time", "Queues over the topology", "Block timeline",
        "Traffic by link", "Epoch breakdown", "Switch memory", "Beside the paper", "Run it again",
    ]  # fmt: skip
    rows = browser.run(
        "[...document.querySelectorAll('#headline tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.firstChild.textContent))"
    )
    ours = {row[0]: row[1:] for row in rows}["switchgnn"]
    assert ours == ["190 B", "−81 %", "2 B", "50 B", "25 %", "260 ns", "−74 %", "600 ns", "−40 %"]
    tiles = browser.run("[...document.querySelectorAll('.tile b')].map(one => one.textContent)")
    assert tiles == ["−81 %", "−74 %", "−40 %", "−50 %"]
    # what is plotted is what was recorded
    lines = browser.run(
        "document.getElementById('backlog-plot').data.map(one => [one.name, one.y, one.visible])"
    )
    assert ["switchgnn", [10, 50, 20], True] in lines
    assert ["host", [10, 50, 20], "legendonly"] in lines, "the pair with and without GAMR comes first"
    choose = "(box, value) => { box.value = value; box.dispatchEvent(new Event('change')); }"
    browser.run(f"({choose})(document.querySelector('#backlog select'), 'leaf0:0')")
    line = browser.run("document.getElementById('backlog-plot').data.find(one => one.name === 'switchgnn').y")
    assert line == pytest.approx([10, 30, 20], abs=0.01)
    # the slider starts where most is queued (200 ns: 30 + 50) and moves the colours
    colours = "document.getElementById('topology-plot').data[2].marker.color"
    assert browser.run("document.getElementById('time-shown').value") == "0.0002000 ms"
    assert browser.run(colours) == pytest.approx([30, 50], abs=0.01)
    browser.run(
        "const s = document.getElementById('time-slider'); s.value = 2; s.dispatchEvent(new Event('input'))"
    )
    assert browser.run(colours) == pytest.approx([20, 0], abs=0.01)
    names = browser.run("document.getElementById('topology-plot').data[2].text")
    assert names == ["leaf0 → worker0", "spine0 → leaf1"]
    heat = browser.run("document.getElementById('heat-plot').data[0].z.map(row => [...row])")
    assert heat == [pytest.approx([10, 30, 20], abs=0.01), pytest.approx([0, 50, 0], abs=0.01)]
    spans = browser.run("document.getElementById('blocks-plot').data.map(one => [one.name, one.base, one.x])")
    assert spans == [
        ["level 0", [0.0001, 0.0005], [pytest.approx(0.00015), pytest.approx(0.0001)]],
        ["level 1", [0.00026], [pytest.approx(0.00014)]],
    ]
    traffic = browser.run("document.getElementById('traffic-plot').data.map(one => one.x[0])")
    assert traffic == [400, 100, 400, 100, 100, 100], "values, then headers and control: up, down, fabric"
    map_of_links = "document.getElementById('links-plot').data[2]"
    assert browser.run(f"{map_of_links}.text") == [
        "worker0 → leaf0", "worker2 → leaf1", "leaf0 → worker0", "leaf1 → worker2", "leaf0 → spine0",
        "spine1 → leaf1",
    ]  # fmt: skip
    assert browser.run(f"{map_of_links}.marker.color") == pytest.approx(
        [0.1, 1 / 30, 4 / 75, 0.08, 1 / 75, 0.04], abs=1e-6
    )
    assert browser.run(f"{map_of_links}.marker.symbol.map(one => one.slice(9))") == [
        "up", "up", "down", "down", "up", "down",
    ]  # fmt: skip
    where = list(zip(*(browser.run(f"[...{map_of_links}.{axis}]") for axis in "xy"), strict=True))
    assert where[:4] == [(0.5, 0.08), (2.5, 0.08), (0.5, 0.24), (2.5, 0.24)], "over the workers"
    assert all(1 < height < 2 for _, height in where[4:]), "between leaves and spines"
    hover = browser.run(f"{map_of_links}.customdata")
    assert hover[0] == ["10 %", "375 B", "2", ""]
    assert hover[1] == ["3.3 %", "125 B", "1", "<br>others' traffic: 75 B"]
    busiest = browser.run(
        "[...document.querySelectorAll('#links-table tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert busiest == [
        ["worker → switch", "2", "500 B", "250 B", "worker0 → leaf0", "375 B", "2", "10 %"],
        ["switch → worker", "2", "500 B", "250 B", "leaf1 → worker2", "300 B", "1", "8.0 %"],
        ["leaf → spine", "1", "50 B", "50 B", "leaf0 → spine0", "50 B", "4", "1.3 %"],
        ["spine → leaf", "1", "150 B", "150 B", "spine1 → leaf1", "150 B", "5", "4.0 %"],
    ]
    epoch = browser.run("document.getElementById('epoch-plot').data.map(one => one.x[0])")
    assert epoch == pytest.approx([110e-6, 200e-6, 50e-6, 1000e-6])
    memory = browser.run("document.getElementById('memory-plot').data.map(one => [one.name, one.x, one.y])")
    assert memory[0] == ["switchgnn", ["10.0 MB", "100 MB"], pytest.approx([770e-9, 190e-9])]
    assert "netfold run" in browser.run("document.querySelector('#rerun pre').textContent")
    assert {address.partition(":")[0] for address in browser.asked} <= {"file", "data", "about"}, "offline"
    assert browser.errors == []


def test_a_star_and_a_run_from_before_links(browser: Browser, tmp_path: Path) -> None:
    """The run that is shown changes with the box; one without the table is not offered."""
    star = load_scenario(None, {"cluster.workers": 2, "cluster.topology": "star"})
    runs = {"host": figures("host"), "g3": figures("g3"), "presum-free": figures("presum-free")}
    place = results(tmp_path / "star", runs, scenario=star)
    (place / "host" / "links.parquet").unlink()
    for label, size in (("g3", 1500), ("presum-free", 3000)):
        columns = {
            "source": np.array(["worker0", "switch"]), "target": np.array(["switch", "worker1"]),
            "hop": np.array(["up", "down"]), "packets": np.array([1, 2]), "bytes": np.array([size, 75]),
            "background_packets": np.zeros(2, dtype=int), "background_bytes": np.zeros(2, dtype=int),
        }  # fmt: skip
        write_table(place / label / "links.parquet", columns, SCHEMAS["links"])
    browser.open(page_of(place, tmp_path / "star.html"))
    boxes = browser.run("[...document.querySelectorAll('#traffic select option')].map(one => one.value)")
    assert boxes == ["g3", "presum-free"]
    shown = "document.getElementById('links-plot').data[2].marker.color"
    choose = "(box, value) => { box.value = value; box.dispatchEvent(new Event('change')); }"
    for label, used in (("presum-free", 0.8), ("g3", 0.4)):
        browser.run(f"({choose})(document.querySelector('#traffic select'), '{label}')")
        assert browser.run(shown) == pytest.approx([used, 0.02])
        assert f"{used * 100:.0f} %" in browser.run("document.getElementById('links-table').textContent")
    for label in ("g3", "presum-free"):
        (place / label / "links.parquet").unlink()
    browser.open(page_of(place, tmp_path / "old.html"))
    assert browser.run("document.getElementById('links-plot')") is None
    assert "not recorded" in browser.run("document.querySelector('#traffic .note').textContent")
    assert browser.errors == []


def test_light_dark_and_paper(folder: Path, browser: Browser, tmp_path: Path) -> None:
    page = page_of(folder, tmp_path / "report.html")
    ink = "getComputedStyle(document.body).backgroundColor"
    shots = {}
    for dark in (False, True):
        browser.dark(dark)
        browser.open(page)
        shots[dark] = browser.run(ink)
        browser.screenshot(tmp_path / f"{dark}.png", whole=False)
        picture = np.asarray(Image.open(tmp_path / f"{dark}.png").convert("L"))
        assert (picture.mean() > 200) == (not dark)
        assert picture.std() > 5, "not an empty page"
    assert shots[False] != shots[True]
    browser.run("document.getElementById('theme').click()")
    assert browser.run(ink) == shots[False], "the button turns it over"
    assert browser.run("document.querySelector('.main-svg text').textContent") is not None
    assert browser.pdf().startswith(b"%PDF")
    contrast = browser.run(
        "(() => { const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(one => {"
        " const s = one / 255; return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; });"
        " return 0.2126 * r + 0.7152 * g + 0.0722 * b; };"
        " return ['.lead', '.facts dt', '.down', 'td small', 'nav a'].map(one => {"
        " const style = getComputedStyle(document.querySelector(one)), back ="
        " getComputedStyle(document.querySelector('section')).backgroundColor;"
        " const [a, b] = [light(style.color), light(back)].sort((x, y) => y - x);"
        " return (a + 0.05) / (b + 0.05); }); })()"
    )
    assert min(contrast) >= 4.5, "WCAG AA"
    assert browser.errors == []


def test_the_page_of_a_sweep(browser: Browser, tmp_path: Path) -> None:
    for seed in (1, 2):
        for rate in (0.0, 0.1):
            runs: dict[str, Any] = {"host": figures("host", epoch_time_ns=1_000_000 * seed + int(rate * 1e7))}
            scenario = load_scenario(None, {"run.seed": seed, "loss.rate": rate})
            results(tmp_path / "s" / f"{seed}-{rate}", runs, scenario=scenario)
    (tmp_path / "s" / "1-0.0" / "host" / "epochs.parquet").unlink()
    (tmp_path / "s" / "failed").mkdir()
    (tmp_path / "s" / "failed" / "g3-00.json").write_text('{"reason": "no room"}')
    page = page_of(tmp_path / "s", tmp_path / "sweep.html")
    browser.open(page)
    assert "3 runs" in browser.run("document.querySelector('h1').textContent")
    about = browser.run("document.querySelector('#about').textContent")
    assert "is missing" in about, "the damaged one is named"
    assert "g3-00 failed: no room" in about
    [line] = browser.run(
        "document.getElementById('sweep-plot').data.map(one => [one.name, one.x, one.y, one.error_y])"
    )
    assert line[:3] == ["host", ["0", "0.1"], [2.0, 2.5]]
    # seeds 1 and 2 at loss 0.1: 2 and 3 ms; the interval by enumeration is 2.0375 .. 2.9625
    assert line[3]["array"] == [0, pytest.approx(0.4625)]
    assert browser.errors == []


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "out.html"
    assert netfold.main(["report", str(folder), "-o", str(place), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"report": str(place), "bytes": place.stat().st_size}
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]
    for results_folder, output in ((tmp_path / "no", place), (folder, place / "r.html")):
        assert netfold.main(["report", str(results_folder), "-o", str(output)]) == 2
        assert capsys.readouterr().err.startswith("netfold: error: ")
    with pytest.raises(InputError, match="no results"):
        write_report(tmp_path, place)


def test_a_page_is_deterministic(folder: Path) -> None:
    data = report_data(load_records(folder))
    assert render_page(data) == render_page(report_data(load_records(folder)))
    assert "{{" not in render_page(data).partition("plotly.js")[0]
