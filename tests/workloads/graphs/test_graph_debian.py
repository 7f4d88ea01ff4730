"""Debian's dependency graph: the Packages parser, what an edge is, the snapshot, and damage to both."""

from __future__ import annotations

import gzip
import itertools
import lzma
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.graphs.csr import check_csr
from workloads.graphs.debian_build import build_debian, summary_buckets, word_bucket
from workloads.graphs.debian_index import default_indices, merge, read_index, version_key
from workloads.graphs.debian_snapshot import SNAPSHOT, load_snapshot
from workloads.graphs.formats.npz import read_npz

INDEX = """\
Package: alpha
Version: 1.0
Section: utils
Priority: optional
Depends: beta (>= 1.0), missing | gamma:any,
 mailer
Recommends: nowhere
Description: Fast alpha tool
 and a long text that is not read

Package: beta
Version: 2:1.0-1
Section: contrib/libs
Pre-Depends: gamma
Description: beta library

Package: gamma
Version: 1
Section: libs
Provides: virtual-thing (= 1)
Description: gamma

Package: zmail
Version: 1
Section: mail
Priority: important
Provides: mailer
Description: z

Package: amail
Version: 1
Section: mail
Priority: optional
Provides: mailer, virtual-thing
Depends: virtual-thing
Description: a

Package: lonely
Version: 1
Description: none
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "Packages"
    path.write_text(INDEX)
    return path


def named_edges(path: Path) -> set[tuple[str, str]]:
    graph = load_snapshot(path)
    names = read_npz(path, {"names": True})["names"].tobytes().decode().split("\n")
    rows = np.repeat(np.arange(graph.num_vertices), graph.degrees)
    return {(names[a], names[b]) for a, b in zip(rows, graph.indices, strict=True) if a < b}


def test_an_edge_is_the_package_each_clause_leads_to(index: Path, tmp_path: Path) -> None:
    graph = build_debian([index], tmp_path / "out.npz")
    # mailer: zmail has the higher priority. virtual-thing: amail itself comes before gamma by name.
    assert named_edges(tmp_path / "out.npz") == {
        ("alpha", "beta"), ("alpha", "gamma"), ("alpha", "zmail"), ("beta", "gamma")
    }  # fmt: skip
    assert graph.num_vertices == 6 and (graph.degrees == 0).sum() == 2
    check_csr((graph.indptr, graph.indices))


def test_sections_are_labels_and_words_are_counted_by_hash(index: Path, tmp_path: Path) -> None:
    graph = build_debian([index], tmp_path / "out.npz")
    sections = read_npz(tmp_path / "out.npz", {"sections": True})["sections"].tobytes().decode().split("\n")
    assert graph.labels is not None and graph.features is not None
    # In name order: alpha, amail, beta, gamma, lonely, zmail.
    assert [sections[label] for label in graph.labels] == ["utils", "mail", "libs", "libs", "unknown", "mail"]
    expected = np.zeros(128)
    for word in ("fast", "alpha", "tool"):
        expected[word_bucket(word)] += 1
    assert graph.features[0].tolist() == expected.tolist()
    assert word_bucket("tool") == 112 and summary_buckets("A b c") == []


def test_an_lz4_index_is_read_where_apt_or_lz4_is_there(index: Path, tmp_path: Path) -> None:
    if not shutil.which("lz4"):
        pytest.skip("no lz4 command to pack with")
    packed = tmp_path / "Packages.packed"
    packed.write_bytes(subprocess.run(["lz4", "-c", str(index)], capture_output=True, check=True).stdout)
    assert [package.name for package in read_index(packed)][:2] == ["alpha", "beta"]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_indices_give_the_same_graph(index: Path, tmp_path: Path, pack: object) -> None:
    packed = tmp_path / "Packages.packed"
    packed.write_bytes(pack(index.read_bytes()))  # type: ignore[operator]
    one = build_debian([index], tmp_path / "a.npz")
    two = build_debian([packed], tmp_path / "b.npz")
    assert one.digest == two.digest


def test_building_twice_gives_the_same_bytes(index: Path, tmp_path: Path) -> None:
    build_debian([index], tmp_path / "a.npz")
    build_debian([index], tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_the_highest_version_of_a_package_counts(tmp_path: Path) -> None:
    path = tmp_path / "Packages"
    path.write_text("Package: a\nVersion: 1.9\nSection: old\n\nPackage: a\nVersion: 1.10\nSection: new\n")
    assert [package.section for package in merge(read_index(path)).values()] == ["new"]


def test_versions_sort_as_debian_sorts_them() -> None:
    ascending = ["", "0~~", "0~~a", "0~", "0", "0a", "0+", "1.0~rc1", "1.0", "1.0-1", "1.0-1+b1", "1.0-1.1",
                 "1.0-2", "1.0.1", "1.2", "1.9", "1.10", "1:0", "10:0"]  # fmt: skip
    for low, high in itertools.pairwise(ascending):
        assert version_key(low) < version_key(high), (low, high)
    assert version_key("1.01") == version_key("1.1") and version_key("0:1") == version_key("1")
    assert version_key("9" * 5000) < version_key("9" * 5001)


def test_the_release_file_beside_the_index_names_the_graph(tmp_path: Path) -> None:
    index = tmp_path / "host_debian_dists_trixie_main_binary-amd64_Packages"
    index.write_text(INDEX)
    (tmp_path / "host_debian_dists_trixie_InRelease").write_text(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: Debian\nLabel: Debian\nVersion: 13.1\n"
        "Codename: trixie\nDate: Sat, 06 Sep 2025 10:16:37 UTC\nMD5Sum:\n 00 1 x\n"
    )
    graph = build_debian([index], tmp_path / "out.npz")
    assert graph.name == "debian-trixie"
    assert "2025-09-06" in graph.provenance.notes and "an edge joins" in graph.provenance.notes
    assert graph.provenance.source.startswith("Debian 13.1, apt index host_")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "holds no package"),
        (b"hello\n", "line 1"),
        (b"Version: 1\n\n", "package name"),
        (b"Package: a b\n", "package name"),
        (b" folded\n", "line 1: a continuation"),
        (b"Package: a\n\nnonsense here\n", "line 3"),
        (b"Package: \xff\n", "UTF-8"),
        (gzip.compress(INDEX.encode())[:-20], "ends early"),
        (b"\x1f\x8b\x08\x00nonsense", "damaged"),
        (b"\xfd7zXZ\x00nonsense", "damaged"),
        (b"\x04\x22\x4d\x18nonsense", "lz4"),
    ],
)
def test_a_damaged_index_is_one_line_and_writes_nothing(tmp_path: Path, text: bytes, said: str) -> None:
    path, out = tmp_path / "Packages", tmp_path / "out.npz"
    path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        build_debian([path], out)
    assert said in str(caught.value) and str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == [path]


def test_no_index_on_this_machine_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.graphs.debian_index.APT_LISTS", tmp_path)
    with pytest.raises(InputError, match="apt-get update"):
        default_indices()
    (tmp_path / "x_Packages").write_text(INDEX)
    (tmp_path / "x_Packages.diff_Index").write_text("")
    assert [path.name for path in default_indices()] == ["x_Packages"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.data())
def test_a_mutated_index_gives_packages_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(INDEX.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b"\n", b"\n\n", b" ", b"|", b",", b":"]))
        )
    path = tmp_path / "Packages"
    path.write_bytes(bytes(text))
    try:
        graph = build_debian([path], tmp_path / "out.npz")
    except InputError as error:
        assert "\n" not in str(error)
    else:
        check_csr((graph.indptr, graph.indices))


def test_the_shipped_snapshot_is_small_large_enough_and_has_a_hub() -> None:
    graph = load_graph("debian")
    assert SNAPSHOT.stat().st_size <= 3_000_000
    assert graph.num_vertices > 50_000
    assert graph.degrees.max() > 20_000
    assert graph.name == "debian-bookworm" and graph.provenance.kind == "real"
    assert "released 20" in graph.provenance.notes and "an edge joins" in graph.provenance.notes
    assert graph.features is not None and graph.features.shape == (graph.num_vertices, graph.feature_width)
    check_csr((graph.indptr, graph.indices))


def test_the_shipped_snapshot_holds_no_prose() -> None:
    names = read_npz(SNAPSHOT, {"names": True})["names"].tobytes().decode().split("\n")
    assert all(" " not in name for name in names) and names == sorted(names)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(st.data())
def test_a_mutated_snapshot_gives_a_valid_graph_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    source = tmp_path / "Packages"
    if not source.exists():
        source.write_text(INDEX)
        build_debian([source], tmp_path / "out.npz")
    arrays = dict(np.load(tmp_path / "out.npz"))
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    kind = data.draw(st.sampled_from(["value", "cut", "type", "shape", "drop"]))
    if kind == "value" and array.size:
        array = array.copy()
        array[data.draw(st.integers(0, array.size - 1))] = data.draw(st.sampled_from([0, 1, 5, 127]))
    elif kind == "cut":
        array = array[:-1]
    elif kind == "type":
        array = array.astype(data.draw(st.sampled_from(["f8", "i8", "u8", "U3", "?", "c16"])))
    elif kind == "shape":
        array = array.reshape(1, -1)
    arrays[name] = array
    if kind == "drop":
        del arrays[name]
    np.savez(tmp_path / "bad.npz", **arrays)
    try:
        graph = load_snapshot(tmp_path / "bad.npz")
    except InputError as error:
        assert "\n" not in str(error)
    else:
        check_csr((graph.indptr, graph.indices))
