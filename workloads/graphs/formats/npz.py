"""Read .npz and .npy files of strangers: no pickles, no allocation that the file's size does not justify."""

from __future__ import annotations

import ast
import re
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.files import write_whole
from workloads.graphs.formats.stream import readable

# Deflate cannot expand by more than 1032 (zlib's technical details page); a header that claims more lies.
_MAX_DEFLATE_RATIO = 1032
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DESCR = re.compile(r"[<>|=]?([biuf][0-9]{1,2}|[SU][0-9]{1,6})")
_MAX_HEADER_BYTES = 1 << 16


def _header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, column-major or not, and type. numpy's own reader is too lenient with strangers."""
    magic = stream.read(8)
    if (
        len(magic) != 8
        or magic[:6] != b"\x93NUMPY"
        or magic[6:] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00")
    ):
        raise InputError(f"{where}: damaged .npy header (not a .npy file of version 1 to 3)")
    size_bytes = stream.read(2 if magic[6] == 1 else 4)
    size = int.from_bytes(size_bytes, "little")
    text = stream.read(size) if size <= _MAX_HEADER_BYTES else b""
    if len(text) != size:
        raise InputError(f"{where}: damaged .npy header ({size} bytes long)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fields = ast.literal_eval(text.decode("latin-1").strip())
        descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
        if isinstance(descr, str) and _DESCR.fullmatch(descr) is None:
            raise InputError(f"{where}: holds {descr[:20]!r}, allowed are numbers and text, no pickle")
        dtype = np.dtype(str(descr))
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError):
        raise InputError(f"{where}: damaged .npy header") from None
    if not isinstance(shape, tuple) or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise InputError(f"{where}: shape {str(shape)[:40]} is negative or no shape")
    return shape, bool(fortran), dtype


def _nbytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    nbytes = dtype.itemsize
    for extent in shape:
        nbytes *= extent
    return nbytes


def read_npz(path: Path, names: Mapping[str, bool]) -> dict[str, npt.NDArray[Any]]:
    """Arrays of an .npz by name; `names` maps each name to whether it must be there. Others are not read.

    Raises InputError for a damaged archive, a missing array, object arrays, and sizes the file cannot hold.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    with readable(path):
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        size = path.stat().st_size
        try:
            with zipfile.ZipFile(path) as archive:
                members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                for name, needed in names.items():
                    if name in members:
                        arrays[name] = _member(archive, members[name], f"{path}: array {name!r}", size)
                    elif needed:
                        held = ", ".join(sorted(members)[:12]) or "nothing"
                        raise InputError(f"{path}: no array {name!r}; it holds {held}")
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise InputError(f"{path}: damaged .npz file ({error})") from None
    return arrays


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, size: int) -> npt.NDArray[Any]:
    if info.compress_type not in _METHODS:
        raise InputError(f"{where}: compression method {info.compress_type}, allowed are stored and deflated")
    if info.compress_size > size or info.file_size > (info.compress_size + 64) * _MAX_DEFLATE_RATIO:
        raise InputError(
            f"{where}: {info.file_size} bytes claimed, more than a file of {size} bytes can hold"
        )
    try:
        with archive.open(info) as stream:
            shape, fortran, dtype = _header(stream, where)
            nbytes = _nbytes(shape, dtype)
            if nbytes > info.file_size:
                raise InputError(
                    f"{where}: shape {shape} of {dtype} needs {nbytes} bytes, {info.file_size} are there"
                )
            # A buffer of our own instead of read(): one copy of a large array, not two.
            flat = np.empty(nbytes, dtype=np.uint8)
            view = flat.data
            filled = 0
            while filled < nbytes:
                got = stream.readinto(view[filled : filled + (16 << 20)])  # type: ignore[attr-defined]
                if not got:
                    raise InputError(f"{where}: ends after {filled} of {nbytes} bytes")
                filled += got
            if stream.read(1):
                raise InputError(f"{where}: holds more bytes than its shape {shape} of {dtype} needs")
        typed = flat.view(dtype) if nbytes else np.empty(0, dtype)
        return typed.reshape(shape, order="F" if fortran else "C")
    except MemoryError:
        raise InputError(f"{where}: too large for this machine's memory") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{where}: damaged array ({error})") from None


def read_npy(path: Path) -> npt.NDArray[Any]:
    """A .npy file, memory-mapped read-only. Raises InputError as `read_npz` does."""
    with readable(path):
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        try:
            with path.open("rb") as stream:
                shape, fortran, dtype = _header(stream, str(path))
                offset = stream.tell()
            nbytes = _nbytes(shape, dtype)
            held = path.stat().st_size - offset
            if nbytes != held:
                raise InputError(f"{path}: shape {shape} of {dtype} needs {nbytes} bytes, {held} are there")
            if nbytes == 0:
                return np.empty(shape, dtype)
            return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(f"{path}: damaged .npy file ({error})") from None


def save_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a compressed .npz, whole or not at all; the same arrays give the same bytes."""

    def write(part: Path) -> None:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy")
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)

    write_whole(path, write)
