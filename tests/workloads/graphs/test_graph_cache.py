"""The cache and the saved form: hits are mapped, damage is found, writers do not disturb each other."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.graphs.csr import check_csr
from workloads.graphs.store import load_saved, save_graph


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "graphs").iterdir())


def test_a_second_load_is_the_same_graph_mapped_from_disk(own_cache: Path) -> None:
    first, second = load_graph("rmat:8", seed=5), load_graph("rmat:8", seed=5)
    assert first.digest == second.digest and first.provenance == second.provenance
    assert isinstance(second.indices, np.memmap) and not second.indices.flags.writeable
    assert len(entries(own_cache)) == 1


def test_what_decides_the_graph_decides_the_entry(own_cache: Path) -> None:
    load_graph("rmat:8")
    load_graph("rmat:8", seed=2)
    load_graph("rmat:8:4")
    load_graph("reddit", scale=0.001)
    load_graph("reddit", scale=0.001, features=True)
    load_graph("reddit", scale=0.001, seed=2)
    assert len(entries(own_cache)) == 6


def test_the_argument_beats_the_environment(own_cache: Path, tmp_path: Path) -> None:
    load_graph("rmat:6", cache=tmp_path)
    assert len(entries(tmp_path)) == 1 and not (own_cache / "graphs").exists()


def test_a_changed_file_is_read_again_even_with_its_old_times(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("1 2\n")
    os.utime(path, ns=(10**18, 10**18))
    assert load_graph(str(path)).num_edges == 2
    path.write_text("1 1\n")
    os.utime(path, ns=(10**18, 10**18))
    assert load_graph(str(path)).num_edges == 0


@pytest.mark.parametrize("file", ["indptr.npy", "indices.npy", "graph.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "empty"])
def test_a_damaged_entry_is_made_again(
    file: str, damage: str, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = load_graph("rmat:8").digest
    path = entries(own_cache)[0] / file
    content = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    else:
        content[-5] ^= 0x41
        path.write_bytes({"flip": content, "cut": content[:-3], "empty": b""}[damage])
    again = load_graph("rmat:8")
    assert again.digest == digest
    check_csr((again.indptr, again.indices))
    assert "damaged and made again" in capsys.readouterr().err
    load_graph("rmat:8")
    assert capsys.readouterr().err == ""
    assert len(entries(own_cache)) == 1


def test_a_cache_that_cannot_be_written_costs_a_notice_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert load_graph("rmat:6", cache=blocked).num_vertices == 64
    assert "not cached" in capsys.readouterr().err


def test_many_writers_at_once_all_get_the_graph(own_cache: Path) -> None:
    found: list[str] = []

    def load() -> None:
        graph = load_graph("rmat:9", seed=9)
        check_csr((graph.indptr, graph.indices))
        found.append(graph.digest)

    threads = [threading.Thread(target=load) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12 and len(set(found)) == 1
    assert len(entries(own_cache)) == 1


def test_a_mapped_graph_stays_valid_when_its_entry_is_replaced(own_cache: Path) -> None:
    graph = load_graph("rmat:8")
    before = graph.indices.tolist()
    save_graph(load_graph("ring:5"), entries(own_cache)[0])
    assert graph.indices.tolist() == before


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Graph, Path]:
    graph = load_graph("reddit", scale=0.001, features=True)
    save_graph(graph, tmp_path / "saved")
    return graph, tmp_path / "saved"


def test_a_saved_graph_comes_back_whole(saved: tuple[Graph, Path]) -> None:
    graph, folder = saved
    back = load_graph(str(folder))
    assert (back.name, back.digest, back.provenance) == (graph.name, graph.digest, graph.provenance)
    assert back.features is not None and graph.features is not None
    assert (back.features == graph.features).all()


def test_a_saved_graph_that_was_forged_is_refused(tmp_path: Path) -> None:
    graph = load_graph("ring:5")
    forged = graph.indices.copy()
    forged[0] = 2
    save_graph(
        Graph("x", graph.indptr, forged, 0, 0, None, None, None, graph.provenance, graph.digest),
        tmp_path / "x",
    )
    with pytest.raises(InputError, match=r"reverse|ascending"):
        load_graph(str(tmp_path / "x"))
    save_graph(
        Graph("x", graph.indptr, graph.indices, 7, 0, None, None, None, graph.provenance, graph.digest),
        tmp_path / "y",
    )
    with pytest.raises(InputError, match="digest"):
        load_graph(str(tmp_path / "y"))


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.data())
def test_a_mutated_description_gives_the_graph_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    folder = tmp_path / "saved"
    if not folder.exists():
        save_graph(load_graph("karate"), folder)
        shutil.copy(folder / "graph.json", tmp_path / "whole.json")
    about = json.loads((tmp_path / "whole.json").read_text())
    about[data.draw(st.sampled_from([*about, "other"]))] = data.draw(JSON_VALUES)
    (folder / "graph.json").write_text(json.dumps(about))
    try:
        load_saved(folder)
    except InputError as error:
        assert "\n" not in str(error)
