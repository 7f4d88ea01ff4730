"""The page itself: the template with styles, scripts and data written into it, one file with everything."""

from __future__ import annotations

import html
import json
import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from analysis.records import load_records, load_runs
from analysis.report.data import report_data
from analysis.report.many import sweep_data
from sim.results import is_results
from workloads.files import write_whole


def write_report(results: str | Path, place: str | Path) -> int:
    """Write the page about a results folder, or a folder of them, to the file `place`; its size in bytes.

    Raises InputError when there is nothing to report, or the file cannot be written.
    """
    results, place = Path(results), Path(place)
    data = report_data(load_records(results)) if is_results(results) else sweep_data(load_runs(results))
    content = render_page(data).encode("utf-8", errors="replace")
    write_whole(place, lambda part: part.write_bytes(content), what="--output")
    return len(content)


def render_page(data: dict[str, Any]) -> str:
    """The whole page as text."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415  # 5 MB that only a report needs

    parts = {
        "title": html.escape(f"{data['title']} · netfold"),
        "style": _file("page.css"),
        "plotly": get_plotlyjs().replace("</script", "<\\/script"),
        "script": _file("page.js"),
        "data": _script_json(data),
        "version": html.escape(version("netfold")),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html"))


def _script_json(data: dict[str, Any]) -> str:
    """JSON that ends no script element, whatever names it holds."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _file(name: str) -> str:
    return files("analysis.report").joinpath(name).read_text(encoding="utf-8")
