"""Edge streams: every format by example, their cut into snapshots, and every kind of damage in one
line."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import InputError
from workloads.graphs.dynamic import load_dynamic_graph
from workloads.graphs.dynamic.debian import debian_releases
from workloads.graphs.dynamic.streams import READERS, read_stream, recognise_stream
from workloads.training.dynamic.task import make_task

SNAP = "# made by hand\n7 3 100\n3 9 110\n7 3 150\n9 9 160\n12 3 200\n"
SIGNED = "6,2,4,1289241911.72836\n6,5,2,1289241941.53378\n2,6,-1,1289243140.39049\n"
JODIE = (
    "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    "0,0,0.0,0,0.5,1.0\n1,0,36.0,0,1.5,2.0\n0,1,77.0,1,-1.0,0.0\n1,1,100.0,0,0.0,4.0\n"
)
CONTACTS = (
    "1291597340\t1157\t1232\tMED\tADM\n1291597360\t1157\t1191\tMED\tMED\n1291597700\t1191\t1232\tMED\tADM\n\n"
)
TGB = "day,src,dst,usd\n18353,a,b,1.5\n18354,b,c,2\n18356,c,a,3\n"


def written(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_snap_lines_with_comments_loops_and_repeats(tmp_path):
    path = written(tmp_path, "mail.txt", SNAP)
    assert recognise_stream(path) == "snap-temporal"
    stream = read_stream("snap-temporal", path)
    assert (
        stream.n == 4
        and stream.sources.tolist() == [0, 1, 0, 2, 3]
        and stream.targets.tolist() == [1, 2, 1, 2, 1]
    )
    graph = load_dynamic_graph(str(path), snapshots=5, lifetime=1, window=2, cache=tmp_path)
    # intervals of 20: 100..119, 120..139, 140..159, 160..179, 180..200
    assert [edges.tolist() for edges in graph.arrivals] == [[[0, 1], [1, 2]], [], [[0, 1]], [], [[1, 3]]]
    assert graph.provenance.kind == "real" and graph.task == "link"
    assert graph.features[0, 1].tolist() == pytest.approx([np.log(3), np.log(3), 1])


def test_packed_files_and_the_cache(tmp_path):
    path = tmp_path / "mail.txt.gz"
    path.write_bytes(gzip.compress(SNAP.encode()))
    graphs = [load_dynamic_graph(str(path), snapshots=5, window=2, cache=tmp_path / "kept") for _ in range(2)]
    assert graphs[0].digest == graphs[1].digest
    [entry] = (tmp_path / "kept" / "dynamic").iterdir()
    (entry / "arrivals.npy").write_bytes(b"nothing")
    again = load_dynamic_graph(str(path), snapshots=5, window=2, cache=tmp_path / "kept")
    assert again.digest == graphs[0].digest


def test_signed_networks_have_their_time_last(tmp_path):
    path = written(tmp_path, "otc.csv", SIGNED)
    stream = read_stream(recognise_stream(path), path)
    assert stream.n == 3 and stream.time[0] == 1289241911.72836
    assert stream.sources.tolist() == [0, 0, 1] and stream.targets.tolist() == [1, 2, 0]


def test_jodie_users_and_items_labels_and_features(tmp_path):
    path = written(tmp_path, "wikipedia.csv", JODIE)
    assert recognise_stream(path) == "jodie"
    stream = read_stream("jodie", path)
    assert stream.n == 4  # user 0, item 0, user 1, item 1
    assert stream.sources.tolist() == [0, 2, 0, 2] and stream.targets.tolist() == [1, 1, 3, 3]
    graph = load_dynamic_graph(str(path), snapshots=5, window=2, cache=tmp_path)
    assert graph.task == "classification" and graph.num_classes == 2
    # user 0 acts again in interval 3 (77 of 100), with label 1: the target of interval 2
    assert graph.targets[2].tolist() == [1, -1, -1, -1] and (graph.targets[4] == -1).all()
    assert graph.features[1, 2, 3:].tolist() == [1.5, 2.0]


def test_tgb_names_its_columns(tmp_path):
    path = written(tmp_path, "tgbl-coin.csv", TGB)
    assert recognise_stream(path) == "tgb"
    stream = read_stream("tgb", path)
    assert stream.n == 3 and stream.sources.tolist() == [0, 1, 2] and stream.targets.tolist() == [1, 2, 0]


def test_the_same_contacts_in_three_formats_are_one_graph(tmp_path):
    """SocioPatterns has the time first, and says what people are; without that its lines look like SNAP's."""
    rows = [line.split("\t")[:3] for line in CONTACTS.splitlines() if line]
    plain = "".join(f"{time} {first} {second}\n" for time, first, second in rows)
    files = {
        "sociopatterns": written(tmp_path, "ward.dat", CONTACTS),
        "snap-temporal": written(tmp_path, "ward.txt", "".join(f"{a} {b} {t}\n" for t, a, b in rows)),
        "tgb": written(tmp_path, "ward.csv", "ts,src,dst\n" + "".join(",".join(row) + "\n" for row in rows)),
    }
    assert [recognise_stream(path) for path in files.values()] == list(files)
    told = {kind: read_stream(kind, path) for kind, path in files.items()}
    told["forced"] = read_stream("sociopatterns", written(tmp_path, "tij.dat", plain))
    for stream in told.values():
        assert stream.n == 3 and stream.time.tolist() == [1291597340, 1291597360, 1291597700]
        assert stream.sources.tolist() == [0, 0, 2] and stream.targets.tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.dat", CONTACTS.replace("1291597360\t1157", "1291597360"), "not a csv of 5 columns"),
        ("a.txt", "", "no known edge stream"),
        ("a.txt", "1 2\n", "no known edge stream"),
        ("a.txt", "1 2 3\n4 5\n", "line 2"),
        ("a.txt", "1 2 3\n4 x 5\n", "line 2"),
        ("a.txt", "1 2 3\n4 5 3\n", "same time"),
        ("a.csv", "1,2,3,4\n1,2,x,4\n", "a.csv"),
        ("a.csv", "src,dst,time\n1,2,nan\n2,3,4\n", "no finite time"),
        ("a.csv", "src,dst,time\n1,,3\n2,3,4\n", "without a source or a target"),
        ("a.csv", "src,dst,time\n", "no interaction|a.csv"),
        ("a.csv", JODIE.replace("1,36.0,0", "1,36.0,7").replace("77.0,1", "77.0,5"), "state_label 5"),
        ("a.csv", JODIE.replace("1.5", "1e99"), "beyond float32"),
        ("a.csv", JODIE.replace(",1.5,2.0", ",1.5"), "not a csv"),
    ],
)
def test_bad_streams_are_one_line(tmp_path, name, text, told):
    path = written(tmp_path, name, text)
    with pytest.raises(InputError, match=told) as caught:
        load_dynamic_graph(str(path), snapshots=5, window=2, cache=tmp_path / "kept")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_any_bytes_give_a_stream_or_one_line(kind, data, tmp_path_factory):
    text = {"snap-temporal": SNAP, "sociopatterns": CONTACTS, "jodie": JODIE, "tgb": TGB}[kind].encode()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.binary(max_size=12)) + text[data.draw(st.integers(at, len(text))) :]
    else:
        text = data.draw(st.text(alphabet='0123456789,. \n-ex"#\tuserid', max_size=80)).encode()
    path = tmp_path_factory.getbasetemp() / f"{kind}.csv"
    path.write_bytes(text)
    try:
        stream = read_stream(kind, path)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert 0 < stream.n <= 2 * len(stream.sources) and np.isfinite(stream.time).all()
        assert stream.sources.max() < stream.n and stream.sources.min() >= 0


def stanza(name, depends=""):
    return f"Package: {name}\nVersion: 1\nDescription: {name} tool\n" + (
        f"Depends: {depends}\n" if depends else ""
    )


def test_debian_over_releases(tmp_path):
    releases = [
        stanza("a", "b") + "\n" + stanza("b"),
        stanza("a", "b, c") + "\n" + stanza("b") + "\n" + stanza("c"),
        stanza("a", "c") + "\n" + stanza("c", "d") + "\n" + stanza("d"),
        stanza("a") + "\n" + stanza("c", "a") + "\n" + stanza("d"),
    ]
    paths = [written(tmp_path, f"release{i}_Packages", text) for i, text in enumerate(releases)]
    graph = debian_releases(paths)
    arrivals = [[[0, 1]], [[0, 1], [0, 2]], [[0, 2], [2, 3]], [[0, 2]]]
    assert [edges.tolist() for edges in graph.arrivals] == arrivals
    assert graph.lifetime == 1 and graph.provenance.kind == "real"
    assert graph.features[:, :, -1].tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1], [1, 0, 1, 1]]
    assert [ends.tolist() for ends in make_task(graph, 1).windows] == [[0], [1], [2]]
    with pytest.raises(InputError, match="at least 4"):
        debian_releases(paths[:3])
