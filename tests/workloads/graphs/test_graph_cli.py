"""`netfold graph`: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.graphs.cli import add_commands
from workloads.graphs.stats import describe, gini, top_share


def netfold(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    args = parser.parse_args(["graph", *argv])
    return int(args.run(args))


def test_info_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold("info", "karate", "--json") == 0
    about = json.loads(capsys.readouterr().out)
    real = nx.karate_club_graph()
    degrees = [degree for _, degree in real.degree()]
    assert (about["vertices"], about["directed_edges"]) == (34, 156)
    assert about["degree_max"] == max(degrees) and about["degree_median"] == np.median(degrees)
    assert about["components"] == 1 and about["isolated_vertices"] == 0
    assert about["provenance_kind"] == "real"


def test_info_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold("info", "yelp", "--scale", "0.001", "--seed", "7") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "synthetic stand-in" in text and "seed 7" in text
    assert "100 classes (declared, not stored)" in text and "300 per vertex (declared, not stored)" in text


def test_info_of_a_graph_without_edges(capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold("info", "star:1", "--json") == 0
    about = json.loads(capsys.readouterr().out)
    assert about["directed_edges"] == 0 and about["isolated_vertices"] == 1 and about["degree_gini"] == 0
    assert netfold("info", "star:1") == 0


def test_components_and_isolated_vertices_are_counted() -> None:
    debian = describe(load_graph("debian"))
    assert debian["components"] > debian["isolated_vertices"] > 0
    assert debian["largest_component"] > 0.9 * debian["vertices"]
    star = describe(load_graph("star:10"))
    assert star["components"] == 1 and star["largest_component"] == 10


def test_skew_measures() -> None:
    assert gini(np.full(10, 3)) == 0 and gini(np.array([0, 0, 0, 8])) == 0.75
    assert top_share(np.array([8, 1, 1, 0, 0])) == 0.8 and top_share(np.zeros(4, np.int64)) == 0


def test_list_names_graphs_and_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert netfold("list", "--json") == 0
    listing = json.loads(capsys.readouterr().out)
    assert "debian" in {row["name"] for row in listing["graphs"]}
    assert "ogb" in {row["format"] for row in listing["formats"]}
    assert netfold("list") == 0
    assert "synthetic stand-in" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["metis", "mtx", "snap", "netfold"])
def test_a_converted_graph_reads_back(target: str, tmp_path: Path) -> None:
    forced = {"metis": "metis", "mtx": "matrixmarket", "snap": "snap", "netfold": "netfold"}[target]
    for source in ("karate", "ring:70000"):
        out = tmp_path / f"{source[:4]}.{target}"
        assert netfold("convert", source, "-o", str(out), "--to", target) == 0
        graph, back = load_graph(source), load_graph(f"{forced}:{out}")
        assert back.indptr.tolist() == graph.indptr.tolist()
        assert back.indices.tolist() == graph.indices.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"kara.{target}", f"ring.{target}"]


def test_convert_refuses_places_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        netfold("convert", "karate", "-o", str(tmp_path), "--to", "metis")
    with pytest.raises(InputError, match="/proc/none/x cannot be written"):
        netfold("convert", "karate", "-o", "/proc/none/x", "--to", "metis")
    with pytest.raises(InputError, match="not a saved graph"):
        netfold("convert", "karate", "-o", str(tmp_path), "--to", "netfold")
    assert list(tmp_path.iterdir()) == []


def test_build_debian_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "Packages"
    index.write_text("Package: a\nDepends: b\nDescription: x y\n\nPackage: b\n")
    out = tmp_path / "out.npz"
    assert netfold("build-debian", str(index), "-o", str(out), "--json") == 0
    assert json.loads(capsys.readouterr().out)["directed_edges"] == 2
    assert load_graph(str(out)).num_vertices == 2
    with pytest.raises(InputError, match="no such file"):
        netfold("build-debian", str(tmp_path / "none"), "-o", str(out))
