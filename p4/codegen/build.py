"""Source to shared library: the system's C++ compiler, once for each content, kept in the user's cache.

A library's name is the hash of everything that goes into it (generated source, schema, runtime headers,
compiler, flags, processor), so a cached one is never stale. It is written under a temporary name and renamed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

from p4.codegen.v1model import Generated

FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fno-plt", "-Wall", "-Wextra")
# The machine that compiles is the one that runs it. Loops over a packet's values are worth their code.
FAST = ("-march=native", "-ftree-vectorize", "-fvect-cost-model=dynamic")
SANITIZED = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
# What a correct program may leave unused is not worth a warning.
QUIET = tuple(
    f"-Wno-{name}"
    for name in (
        "unused-parameter",
        "unused-variable",
        "unused-but-set-variable",
        "unused-function",
        "unused-value",
    )
)
RUNTIME = Path(str(files("p4.runtime").joinpath("")))


class BuildError(Exception):
    """No compiler, or a compiler that rejected the generated source; the message says which."""


def cache_folder() -> Path:
    """Where libraries are kept: $XDG_CACHE_HOME/netfold/p4."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "netfold" / "p4"


@cache
def compiler() -> tuple[str, str]:
    """(path, version line) of $CXX, g++ or clang++. Raises BuildError if there is none."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++", "c++"):
        path = shutil.which(name) if name else None
        if path:
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            return path, version.split("\n", 1)[0]
    raise BuildError("no C++ compiler: g++ or clang++ is needed on PATH, or $CXX set")


@cache
def _runtime_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted((RUNTIME / "netfold_p4").glob("*.h")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def _processor() -> str:
    """What `-march=native` stands for: a cache may be shared by machines that differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(
        next((x for x in lines if x.startswith(name)), "") for name in ("model name", "flags", "Features")
    )


def library_key(generated: Generated, flags: tuple[str, ...]) -> str:
    """The content hash that names a library and the schema beside it."""
    return digest_of(generated.source, generated.schema.to_json(), *toolchain(), *flags)


def toolchain() -> tuple[str, ...]:
    """What makes two libraries of one source differ, but for the flags. Raises BuildError."""
    return _runtime_digest(), _processor(), *compiler()


def compiler_flags(*, sanitize: bool = False) -> tuple[str, ...]:
    """What the compiler is called with."""
    return (*FLAGS, *QUIET, *(SANITIZED if sanitize else FAST))


def digest_of(*parts: str) -> str:
    """A name for content."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def build(generated: Generated, *, folder: Path | None = None, sanitize: bool = False) -> Path:
    """The program's shared library, compiled if it is not in the cache (`folder`: another one).

    With `sanitize` it runs under AddressSanitizer and UBSan (preload libasan). Raises BuildError.
    """
    flags = compiler_flags(sanitize=sanitize)
    place = (folder or cache_folder()) / library_key(generated, flags)
    library = place / "engine.so"
    if library.exists():
        return library
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".building-") as name:
            made = Path(name) / "done"
            made.mkdir()
            (made / "program.cpp").write_text(generated.source)
            (made / "schema.json").write_text(generated.schema.to_json())
            if sys.stderr.isatty():
                print("netfold: compiling the P4 program for this processor, once ...", file=sys.stderr)
            command = [compiler()[0], *flags, f"-I{RUNTIME}", "program.cpp", "-o", "engine.so"]
            done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
            if done.returncode:
                first = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr[:300])
                raise BuildError(f"the C++ compiler rejected the generated source (a bug of ours): {first}")
            try:
                made.rename(place)
            except OSError:
                if not library.exists():  # else another process was faster
                    place.rename(Path(name) / "incomplete")  # somebody has deleted a part of it
                    made.rename(place)
    except OSError as error:
        raise BuildError(f"cannot write to the cache {place.parent}: {error.strerror}") from None
    return library
