"""A P4 file's library, found again without reading the program: a record of what it was made from.

Parsing, checking and translating a program takes a second, its library lies in the cache. The record
(`sources/` in the cache) names every file that the program was, with a hash of its content, the places
where an include was looked for in vain, and the library. It holds as long as all that is so. The front
end itself is part of the record's name, as are the defines, the compiler with its flags and the processor.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from p4.codegen import generate
from p4.codegen.build import build, cache_folder, compiler_flags, digest_of, toolchain
from p4.lang import ir, load_program


@dataclass(frozen=True)
class _Source:
    path: Path
    include: Sequence[Path]
    defines: Mapping[str, str] | None

    def load(self) -> ir.Program:
        return load_program(self.path, include=self.include, defines=self.defines)

    def record(self, kind: str) -> Path:
        """Where it is remembered what became of this source."""
        defines = sorted((self.defines or {}).items())
        given = json.dumps([os.getcwd(), str(self.path), [str(x) for x in self.include], defines])
        name = digest_of(kind, given, _front_end(), *toolchain(), *compiler_flags())
        return cache_folder() / "sources" / f"{name}.json"


def compiled(path: Path, *, include: Sequence[Path] = (), defines: Mapping[str, str] | None = None) -> Path:
    """The program's shared library, as build() gives it. Raises P4Error and BuildError."""
    source = _Source(path, include, defines)
    place = source.record("library")
    name = _remembered(place)
    if not (cache_folder() / name / "engine.so").exists() or not name:
        begun, program = time.time_ns(), source.load()
        name = build(generate(program)).parent.name
        _remember(place, begun, path, program, name)
    return cache_folder() / name / "engine.so"


def check_file(path: Path, *, include: Sequence[Path] = (), defines: Mapping[str, str] | None = None) -> None:
    """Whether a program is valid P4. Raises P4Error."""
    source = _Source(path, include, defines)
    place = source.record("valid")
    if not _remembered(place):
        begun = time.time_ns()
        _remember(place, begun, path, source.load(), "yes")


def _remembered(place: Path) -> str:
    """What became of the source, if its files are as they were; else ""."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        record = json.loads(place.read_text())
        same = all(_content(Path(name)) == digest for name, digest in record["files"].items())
        if same and not any(Path(name).is_file() for name in record["missed"]):
            return str(record["value"])
    return ""


def _remember(place: Path, begun_ns: int, path: Path, program: ir.Program, value: str) -> None:
    with contextlib.suppress(OSError):  # a record saves time, no more
        read = [path, *program.files]
        content = {str(file): _content(file) for file in read}
        if any(file.stat().st_mtime_ns >= begun_ns for file in read):
            return  # one of them changed while it was read
        record = {"files": content, "missed": [str(x) for x in program.missed_files], "value": value}
        _write(place, json.dumps(record))


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).rename(place)


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _front_end() -> str:
    """The source of everything that reads and translates programs."""
    digest = hashlib.sha256()
    for package in ("p4.lang", "p4.codegen"):
        root = Path(str(files(package).joinpath("")))
        for file in sorted(x for x in root.rglob("*") if x.suffix in (".py", ".lark", ".p4")):
            digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
