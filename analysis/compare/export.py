"""A frame as a file for elsewhere: CSV, Parquet, or a LaTeX table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.html import show_value
from workloads.errors import InputError
from workloads.files import write_whole

SUFFIXES = (".csv", ".parquet", ".tex")
_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "µ": r"\textmu{}", "−": "$-$",
    "–": "--", "→": r"$\to$", "×": r"$\times$",
}  # fmt: skip


def write_table(frame: pd.DataFrame, place: str | Path, *, caption: str = "") -> None:
    """Write a frame; the suffix of `place` says how: numbers as they are in .csv and .parquet, as people read
    them in .tex (a booktabs table). Whole or not at all. Raises InputError.
    """
    place = Path(place)
    check_place(place)

    def write(part: Path) -> None:
        if place.suffix == ".parquet":
            with part.open("wb") as file:
                frame.to_parquet(file, index=False)
        else:
            text = frame.to_csv(index=False) if place.suffix == ".csv" else latex(frame, caption)
            part.write_text(text, encoding="utf-8")

    write_whole(place, write, what="--output")


def check_place(place: Path) -> None:
    """Whether a file's suffix is one of SUFFIXES. Raises InputError."""
    if place.suffix not in SUFFIXES:
        raise InputError(f"--output: {place} given; its name must end in {', '.join(SUFFIXES)}")


def latex(frame: pd.DataFrame, caption: str = "") -> str:
    """A table environment for booktabs: numbers by the units in the columns' names, to the right."""
    numeric = [pd.api.types.is_numeric_dtype(frame[name]) for name in frame.columns]
    lines = [r"% needs \usepackage{booktabs}", r"\begin{table}", r"  \centering"]
    lines += [rf"  \caption{{{escape_tex(caption)}}}"] if caption else []
    lines += [rf"  \begin{{tabular}}{{{''.join('r' if one else 'l' for one in numeric)}}}", r"    \toprule"]
    lines += [f"    {_cells([str(name) for name in frame.columns])}", r"    \midrule"]
    for _, row in frame.iterrows():
        lines.append(f"    {_cells([show_value(str(name), row[name]) for name in frame.columns])}")
    lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def escape_tex(text: str) -> str:
    """Text that LaTeX shows as it is."""
    return "".join(_TEX.get(letter, letter) for letter in text)


def _cells(texts: list[str]) -> str:
    return " & ".join(map(escape_tex, texts)) + r" \\"
