"""The front end's entries: a file or a text, through preprocessor, parser and checker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from p4.lang import ir
from p4.lang.checker import check_program
from p4.lang.diagnostics import Collector, Diagnostic, P4Error, TooManyErrorsError
from p4.lang.parser import parse_tokens
from p4.lang.preprocess import Preprocessor

INCLUDE_FOLDER = Path(str(files("p4.lang").joinpath("include")))


def check_text(
    text: str,
    path: str = "<text>",
    *,
    folder: Path | None = None,
    include: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    sink: Collector | None = None,
) -> ir.Program:
    """The typed program of a source text; quoted includes come from `folder`, then `include`, then ours.

    Raises P4Error with every error found. Warnings are left in `sink`, if one is given.
    """
    sink = sink if sink is not None else Collector()
    program: ir.Program | None = None
    try:
        preprocessor = Preprocessor(sink, [*include, INCLUDE_FOLDER], defines)
        declarations = parse_tokens(preprocessor.run(text, path, folder), sink)
        program = check_program(declarations, path, tuple(preprocessor.files), sink)
        program.missed_files = tuple(preprocessor.missed)
    except TooManyErrorsError:
        pass
    except RecursionError:
        sink.error(None, f"{path}: nested too deeply")
    sink.raise_if_errors()
    assert program is not None
    return program


def load_program(
    path: Path,
    *,
    include: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    sink: Collector | None = None,
) -> ir.Program:
    """The typed program of a file. Raises P4Error, also if the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise P4Error([Diagnostic(None, f"cannot read '{path}': {error.strerror}")]) from None
    return check_text(text, str(path), folder=path.parent, include=include, defines=defines, sink=sink)
