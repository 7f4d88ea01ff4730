"""Mutated files of every format: only an InputError of one line or a valid graph may come out."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads import _kernels
from workloads.errors import InputError
from workloads.graphs.csr import check_csr
from workloads.graphs.formats.npz import read_npz
from workloads.graphs.formats.registry import FORMATS, recognise

Examples = dict[str, Callable[[Path], Path]]
FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
SNIPPETS = [
    b"\n", b"\n\n", b" ", b",", b"-1", b"0", b"1e999", b"nan", b"%", b"#", b"99999999999999999999",
    b"2147483647", b"\x00", b"[", b"]", b'"', b"{", b"null", b"true",
]  # fmt: skip


def mutate(content: bytes, data: st.DataObject) -> bytes:
    text = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(text) - 1, 0)))
        cut = data.draw(st.integers(0, 6))
        text[at : at + cut] = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from(SNIPPETS)))
    if data.draw(st.booleans()):
        del text[data.draw(st.integers(0, len(text))) :]
    return bytes(text)


def only_a_graph_or_one_line(read: Callable[[], object]) -> None:
    try:
        graph = read()
    except InputError as error:
        assert "\n" not in str(error)
        return
    check_csr((graph.indptr, graph.indices))  # type: ignore[attr-defined]
    for name in ("features", "labels", "split"):
        array = getattr(graph, name)
        assert array is None or len(array) == graph.num_vertices  # type: ignore[attr-defined]
    assert graph.features is None or np.isfinite(graph.features).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["snap", "matrixmarket", "metis"])
@FUZZ
@given(data=st.data())
def test_mutated_text_files(name: str, examples: Examples, tmp_path: Path, data: st.DataObject) -> None:
    path = examples[name](tmp_path)
    path.write_bytes(mutate(path.read_bytes(), data))
    only_a_graph_or_one_line(lambda: FORMATS[name].read(path))
    try:
        recognise(path)
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", ["ogb", "dgl-reddit", "graphsaint"])
@FUZZ
@given(data=st.data())
def test_mutated_files_of_data_sets(
    name: str, examples: Examples, tmp_path: Path, data: st.DataObject
) -> None:
    folder = examples[name](tmp_path)
    file = data.draw(st.sampled_from(FORMATS[name].files(folder)))
    content = file.read_bytes()
    # Half of the time below the compression, so that the parser sees the damage and not only gzip.
    if file.suffix == ".gz" and data.draw(st.booleans()):
        content = gzip.compress(mutate(gzip.decompress(content), data))
    elif file.suffix == ".npz" and data.draw(st.booleans()):
        content = mutate_member(content, data)
    else:
        content = mutate(content, data)
    file.write_bytes(content)
    only_a_graph_or_one_line(lambda: FORMATS[name].read(folder))


def mutate_member(content: bytes, data: st.DataObject) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w") as new:
        chosen = data.draw(st.sampled_from(old.namelist()))
        for member in old.namelist():
            new.writestr(member, mutate(old.read(member), data) if member == chosen else old.read(member))
    return packed.getvalue()


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 2), st.booleans())
def test_the_row_parser_on_any_bytes(block: bytes, ints: int, reals: int, comma: bool) -> None:
    try:
        whole, numbers, lines = _kernels.parse_rows(block, 1, ints, reals, comma, "#%")
    except ValueError as error:
        assert str(error).startswith("line ")
    else:
        assert len(whole) == len(numbers) and lines == len(block.split(b"\n")) - block.endswith(b"\n") - (
            not block
        )
        assert np.isfinite(numbers).all()


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4), max_size=20), st.booleans())
def test_the_ragged_parser_gives_back_what_was_written(rows: list[list[int]], final_newline: bool) -> None:
    text = "\n".join(" ".join(map(str, row)) for row in rows) + ("\n" if final_newline else "")
    values, counts, _ = _kernels.parse_ragged(text.encode(), 1, "%")
    assert values.tolist() == [value for row in rows for value in row]
    expected = [len(row) for row in rows] if rows else ([0] if final_newline else [])
    if rows and not rows[-1] and not final_newline:
        expected = expected[:-1]
    assert counts.tolist() == expected


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_the_row_parser_reads_floats_exactly(numbers: list[float]) -> None:
    block = "".join(f"{number!r}\n" for number in numbers).encode()
    _, found, _ = _kernels.parse_rows(block, 1, 0, 1, False, "")
    assert found[:, 0].tolist() == numbers


def test_a_zip_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("row.npy", b"x" * 100)
    raw = bytearray(path.read_bytes())
    # The uncompressed size in the central directory: 24 bytes into its entry.
    at = raw.index(b"PK\x01\x02") + 24
    raw[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(bytes(raw))
    with pytest.raises(InputError, match="more than a file of"):
        read_npz(path, {"row": True})
