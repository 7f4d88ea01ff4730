"""Plain, gzip, xz or (through apt's helper) lz4 files as one byte stream; damage becomes one clear line."""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from workloads.errors import InputError

BLOCK_BYTES = 8 << 20
# A METIS line lists all neighbours of one vertex: 2^31 bytes would be a vertex with ~250 M neighbours.
MAX_LINE_BYTES = 1 << 31
_APT_HELPER = "/usr/lib/apt/apt-helper"


@contextmanager
def readable(path: Path, doing: str = "read") -> Iterator[None]:
    """Turn what the operating system or a decompressor says about `path` into an InputError."""
    try:
        yield
    except EOFError:
        raise InputError(f"{path}: the compressed file ends early (truncated?)") from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{path}: damaged compressed data ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be {doing} ({error.strerror or error})") from None


def _unlz4(path: Path) -> BinaryIO:
    # apt keeps its indices as lz4, which Python's standard library does not read; apt's own helper does.
    helper = [_APT_HELPER, "cat-file"] if Path(_APT_HELPER).exists() else None
    if helper is None and shutil.which("lz4"):
        helper = ["lz4", "-dc"]
    if helper is None:
        raise InputError(
            f"{path}: lz4 data needs apt's helper ({_APT_HELPER}) or the lz4 command; or unpack it first"
        )
    with tempfile.TemporaryDirectory() as folder:
        # The helper goes by the suffix, which a copied index may have lost.
        link = Path(folder) / "index.lz4"
        link.symlink_to(path.resolve())
        done = subprocess.run([*helper, str(link)], capture_output=True, check=False)
    if done.returncode != 0:
        raise InputError(f"{path}: damaged lz4 data ({done.stderr.decode(errors='replace')[-200:]})")
    return io.BytesIO(done.stdout)


@contextmanager
def open_stream(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed; the kind is told by its first bytes, not by its name."""
    with readable(path):
        if not path.is_file():
            raise InputError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
        with path.open("rb") as raw:
            magic = raw.peek(6)[:6]
            stream: BinaryIO = raw
            if magic.startswith(b"\x1f\x8b"):
                stream = cast(BinaryIO, gzip.open(raw))  # noqa: SIM115 (its file is closed here)
            elif magic.startswith(b"\xfd7zXZ\x00"):
                stream = cast(BinaryIO, lzma.LZMAFile(raw))  # noqa: SIM115
            elif magic.startswith(b"\x04\x22\x4d\x18"):
                stream = _unlz4(path)
            yield stream


def line_blocks(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Blocks of whole lines of about BLOCK_BYTES; the last line need not end in a newline."""
    rest: list[bytes] = []
    held = 0
    while block := stream.read(BLOCK_BYTES):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, block[:cut]])
            rest, held = [block[cut:]], len(block) - cut
        else:
            rest.append(block)
            held += len(block)
            if held > MAX_LINE_BYTES:
                raise InputError(f"{path}: a line longer than {MAX_LINE_BYTES} bytes")
    last = b"".join(rest)
    if last:
        yield last
