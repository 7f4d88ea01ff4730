# ruff: noqa: E501 - the frame's parts stay on one line
"""`p4 trace`: what it says about a packet's path is what the engine does."""

from __future__ import annotations

import ctypes
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from netfold import main
from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import check_text, load_program
from p4.programs import IPV4, SWITCHGNN
from p4.targets import TargetError
from p4.targets.pcap import Record, write_pcap
from p4.targets.trace import MAX_PASSES, TracedEngine
from p4.trace_text import render
from tests.p4.conftest import v1model
from tests.p4.programs import switchgnn_net as net

Step = dict[str, object]


@pytest.fixture
def traced(libraries: Path) -> Callable[..., TracedEngine]:
    return lambda **parts: TracedEngine(check_text(v1model(**parts)), folder=libraries)


def steps(trace: dict, kind: str, number: int = 1) -> list[Step]:
    """A pass's steps of one kind, without the kind."""
    found = trace["passes"][number - 1]["steps"]
    return [{k: v for k, v in s.items() if k not in ("step", "bits")} for s in found if s["step"] == kind]


# ---- switchgnn.p4: an upload that completes one sum and goes round for another neighbour


@pytest.fixture(scope="module")
def upload(libraries: Path) -> dict:
    engine = TracedEngine(load_program(SWITCHGNN, defines=net.DEFINES), folder=libraries)
    engine.clone_session(1, port=net.RECIRCULATE_PORT)
    net.add_job(engine, 1, net.Memory(), 4)
    net.load_blocks(engine, [net.Block([0, 1, 2], [[1, 2], [0, 2], [0, 1]])])
    engine.send(1, net.Frame(net.UPLOAD, vertex=1, worker=1, values=[-5] * 30).encode())
    engine.receive()
    trace = engine.trace(1, net.Frame(net.UPLOAD, vertex=2, worker=2, values=[7] * 30).encode())
    engine.close()
    return trace


def test_the_passes_of_an_upload(upload: dict) -> None:
    assert [(p["pipeline"], p["port"], p["why"], p["next"]) for p in upload["passes"]] == [
        ("ingress", 1, "received", ["to egress of port 510", "to egress of port 10"]),
        ("egress", 510, "clone from ingress", ["recirculated from port 510"]),
        ("egress", 10, "unicast", ["out of port 10"]),
        ("ingress", 510, "recirculated", ["dropped"]),
    ]
    assert upload["stopped"] is False


def test_states_and_headers(upload: dict) -> None:
    visited = [s["state"] for s in steps(upload, "state")]
    assert visited[:4] == ["start", "ipv4", "udp", "aggregation"]
    extracted = {s["header"]: s["fields"] for s in steps(upload, "extract")}
    assert extracted["hdr.ipv4"]["src"] == 0x0A000001
    assert (extracted["hdr.agg"]["type"], extracted["hdr.agg"]["vertex"]) == ("upload", 2)
    assert extracted["hdr.values"]["v29"] == 7


def test_tables_with_key_action_and_data(upload: dict) -> None:
    tables = {s["table"]: s for s in steps(upload, "table")}
    assert tables["SwitchIngress.job"] == {
        "table": "SwitchIngress.job", "key": {"hdr.agg.job": 1}, "hit": True, "action": "SwitchIngress.set_job",
        "data": {"chunks": 2, "workers": 4, "group": 4},
    }  # fmt: skip
    assert steps(upload, "table", 3) == [
        {"table": "SwitchEgress.ecn", "key": {}, "hit": False, "action": "NoAction", "data": {}}
    ]
    # What a table called is its step's; what the program called itself is a step of its own.
    assert steps(upload, "action") == []
    assert steps(upload, "action", 4) == [{"action": "SwitchIngress.drop"}]


def test_registers_and_counters_before_and_after(upload: dict) -> None:
    written = {s["register"]: s for s in steps(upload, "write")}
    assert written["SwitchIngress.value3"] == {
        "register": "SwitchIngress.value3",
        "index": 0,
        "before": 2**32 - 5,
        "after": 2,
    }
    assert (written["SwitchIngress.seen"]["before"], written["SwitchIngress.seen"]["after"]) == (0, 1)
    assert {"register": "SwitchIngress.adjacency.edge_slot", "index": 4, "value": 0} in steps(upload, "read")
    assert steps(upload, "count") == [
        {"counter": "SwitchIngress.events", "index": 0, "before": 2, "after": 3},
        {"counter": "SwitchIngress.events", "index": 1, "before": 0, "after": 1},
    ]


def test_the_packet_that_comes_out_by_header_fields(upload: dict) -> None:
    [packet] = upload["out"]
    assert (packet["pass"], packet["port"], packet["bytes"], packet["payload"]) == (3, 10, 182, "")
    headers = {h["header"]: h["fields"] for h in packet["headers"]}
    assert list(headers) == ["hdr.ethernet", "hdr.ipv4", "hdr.udp", "hdr.agg", "hdr.values"]
    assert (headers["hdr.agg"]["type"], headers["hdr.agg"]["count"], headers["hdr.values"]["v0"]) == (
        "result",
        2,
        2,
    )
    assert net.Frame.decode(bytes.fromhex(packet["data"])).values == [2] * 30


def test_as_text(upload: dict) -> None:
    text = render(upload)
    assert "pass 2: egress, port 510, clone from ingress\n  -> recirculated from port 510" in text
    assert (
        "table SwitchIngress.job  [hdr.agg.job=1]  hit: SwitchIngress.set_job(chunks=2 workers=4 group=4)"
        in text
    )
    assert "register SwitchIngress.value0[0]  0xfffffffb -> 2" in text
    assert "parser Parse, for the clone" in text
    assert "extracts hdr.ethernet  dst=00:00:00:00:00:fe src=00:00:00:00:00:01 type=2048" in text
    assert max(map(len, text.splitlines())) <= 110


# ---- single constructs

STACK = {
    "types": "header top_t { bit<8> left; bit<8> what; } header tag_t { bit<16> id; } header tail_t { varbit<64> rest; int<8> low; }",
    "headers": "top_t top; tag_t[3] tags; tail_t tail;",
    "parser": """
        state start { p.extract(h.top); transition select(h.top.left) { 0: last; default: more; } }
        state more { p.extract(h.tags.next); h.top.left = h.top.left - 1;
            transition select(h.top.left) { 0: last; default: more; } }
        state last { p.extract(h.tail, 16); transition accept; }""",
    "ingress": "s.egress_spec = 5; if (s.parser_error == error.StackOutOfBounds) { mark_to_drop(s); }",
    "deparser": "p.emit(h);",
}
LOOP = {"ingress": "s.egress_spec = 4;", "egress": "recirculate_preserving_field_list(1);"}


def test_stacks_and_varbits(traced: Callable[..., TracedEngine]) -> None:
    with traced(**STACK) as engine:
        trace = engine.trace(1, bytes.fromhex("0200 0102 0304 abcd ff 99"))
    assert [(s["header"], s["fields"]) for s in steps(trace, "extract")] == [
        ("h.top", {"left": 2, "what": 0}),
        ("h.tags.next", {"id": 0x0102}),
        ("h.tags.next", {"id": 0x0304}),
        ("h.tail", {"rest": "abcd", "low": -1}),
    ]
    assert [s["state"] for s in steps(trace, "state")] == ["start", "more", "more", "last"]
    [packet] = trace["out"]
    assert [h["header"] for h in packet["headers"]] == ["h.top", "h.tags[0]", "h.tags[1]", "h.tail"]
    assert packet["payload"] == "99"


def test_a_parser_error(traced: Callable[..., TracedEngine]) -> None:
    with traced(**STACK) as engine:
        trace = engine.trace(1, bytes.fromhex("0900 0102 0304 0506 0708 090a"))
    assert steps(trace, "parser error") == [{"error": "StackOutOfBounds"}]
    assert (trace["passes"][0]["next"], trace["out"]) == (["dropped"], [])
    assert "error: StackOutOfBounds" in render(trace)
    assert "nothing comes out" in render(trace)


def test_a_wrong_checksum(libraries: Path) -> None:
    with TracedEngine(load_program(IPV4), folder=libraries) as engine:
        trace = engine.trace(
            1, bytes.fromhex("0000000000fe000000000001080045000016000000004011ffff0a0000010a0000026869")
        )
    assert steps(trace, "checksum error") == [{}]
    assert "the checksum is wrong" in render(trace)


def test_out_of_bounds_meters_and_direct_actions(traced: Callable[..., TracedEngine]) -> None:
    parts = {
        "locals": """register<int<12>>(4) r; counter(2, CounterType.bytes) n; meter(2, MeterType.packets) q;
            action mine(bit<8> x) { r.write((bit<32>)x, -12s1348); }""",
        "ingress": """int<12> v; bit<2> colour; r.read(v, 9); r.write(9, 1); n.count(7); mine(3); n.count(1);
            q.execute_meter<bit<2>>(1, colour); s.egress_spec = 2;""",
    }
    with traced(**parts) as engine:
        trace = engine.trace(1, b"12345678")
    assert steps(trace, "read") == [{"register": "ingress.r", "index": 9, "out_of_bounds": 4}]
    assert steps(trace, "write") == [
        {"register": "ingress.r", "index": 9, "out_of_bounds": 4},
        {"register": "ingress.r", "index": 3, "before": 0, "after": -1348},
    ]
    assert steps(trace, "count") == [
        {"counter": "ingress.n", "index": 7, "out_of_bounds": 2},
        {"counter": "ingress.n", "index": 1, "before": 0, "after": 1},
    ]
    assert steps(trace, "meter") == [{"meter": "ingress.q", "index": 1, "colour": "green"}]
    assert steps(trace, "action") == [{"action": "ingress.mine"}]
    assert "register ingress.r[9]  read out of bounds: it has 4" in render(trace)


def test_multicast_resubmit_and_egress_clones(traced: Callable[..., TracedEngine]) -> None:
    parts = {
        "meta": "@field_list(1) bit<8> times;",
        "ingress": "m.times = m.times + 1; if (m.times == 1) { resubmit_preserving_field_list(1); } s.mcast_grp = 7;",
        "egress": "if (s.egress_rid == 2) { clone(CloneType.E2E, 3); }",
    }
    with traced(**parts) as engine:
        engine.multicast_group(7, [(4, 1), (5, 2)])
        engine.clone_session(3, port=9)
        trace = engine.trace(1, b"abc")
    assert [(p["pipeline"], p["port"], p["why"]) for p in trace["passes"]] == [
        ("ingress", 1, "received"),
        ("ingress", 0, "resubmitted"),
        ("egress", 4, "multicast copy"),
        ("egress", 5, "multicast copy"),
        ("egress", 9, "clone from egress"),
    ]
    assert [(p["port"], p["payload"]) for p in trace["out"]] == [
        (4, b"abc".hex()),
        (5, b"abc".hex()),
        (9, b"abc".hex()),
    ]


def test_a_packet_that_goes_round_for_ever_is_stopped(traced: Callable[..., TracedEngine]) -> None:
    with traced(**LOOP) as engine:
        trace = engine.trace(1, b"x")
        assert (len(trace["passes"]), trace["stopped"], trace["out"]) == (MAX_PASSES, True, [])
        assert f"stopped after {MAX_PASSES} passes" in render(trace)
        assert len(engine.trace(1, b"x")["passes"]) == MAX_PASSES  # nothing of the first is left


def test_a_port_that_is_not(traced: Callable[..., TracedEngine]) -> None:
    with traced(**LOOP) as engine, pytest.raises(TargetError, match="port"):
        engine.trace(512, b"x")


# ---- what tracing does not change


def test_a_traced_packet_comes_out_as_it_would_untraced(libraries: Path) -> None:
    rng = random.Random(3)
    program = load_program(SWITCHGNN, defines=net.DEFINES)
    plain = net.make_star(build(generate(program), folder=libraries))
    traced = TracedEngine(program, folder=libraries)
    traced.clone_session(1, port=net.RECIRCULATE_PORT)
    net.add_job(traced, 1, net.Memory(), 4)
    net.add_routes(traced, lambda w: 10 + w, 4)
    block = net.Block.draw(rng, 4, 12)
    for switch in (plain, traced):
        net.load_blocks(switch, [block])
    frames = block.uploads(block.draw_features(rng)) + [net.Frame(net.DONE, worker=w) for w in range(4)]
    for frame in [*frames, *frames[:5]]:
        plain.send(1, frame.encode())
        want = [(p.port, p.data.hex()) for p in plain.receive()]
        got = [(p["port"], p["data"]) for p in traced.trace(1, frame.encode())["out"]]
        assert sorted(got) == sorted(want)
    assert net.same_state(net.state(plain), net.state(traced))
    plain.close()
    traced.close()


def test_a_program_that_is_not_traced_is_free_of_it(libraries: Path) -> None:
    made = generate(load_program(IPV4))
    assert "trace" not in made.source
    library = build(made, folder=libraries)
    assert not hasattr(ctypes.CDLL(str(library)), "nf_trace")
    assert b"trace" not in library.read_bytes().lower().replace(b"backtrace", b"")


# ---- the command

PACKET = "0000000000fe 000000000001 0800 4500 0016 0000 0000 4011 66d5 0a000001 0a000002 6869"
ENTRY = "add ipv4_lpm ipv4.dst:10.0.0.0/8 forward(port:3, mac:0x0000000000aa)\n"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    control = tmp_path / "entries.stf"
    control.write_text(ENTRY)
    arguments = ["p4", "trace", str(IPV4), "--port", "1", "--control", str(control)]
    assert main([*arguments, "--hex", PACKET]) == 0
    text = capsys.readouterr().out
    assert (
        "table SwitchIngress.ipv4_lpm  [hdr.ipv4.dst=0xa000002]  hit: SwitchIngress.forward(port=3 mac=170)"
        in text
    )
    assert "out of port 3 in pass 2: 36 bytes" in text
    assert "payload  6869" in text
    assert main([*arguments, "--hex", PACKET, "--json"]) == 0
    trace = json.loads(capsys.readouterr().out)
    [out] = trace["out"]
    assert out["headers"][1]["fields"]["ttl"] == 63
    records = [Record(0, b"short"), Record(5, bytes.fromhex(PACKET.replace(" ", "")))]
    write_pcap(tmp_path / "in.pcap", records)
    assert main([*arguments, "--pcap", str(tmp_path / "in.pcap"), "--packet", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == trace


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "512", "--hex", "00"], "--port 512: a port is 0 to 511"),
        (["--port", "1", "--hex", "0"], "--hex 0: pairs of hexadecimal digits are needed"),
        (["--port", "1", "--hex", "xy"], "pairs of hexadecimal digits"),
        (["--port", "1", "--pcap", "/nowhere.pcap"], "/nowhere.pcap: No such file"),
        (["--port", "1"], "--hex"),
        (["--port", "1", "--hex", "00", "--pcap", "x"], "not allowed with"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["p4", "trace", str(IPV4), *arguments])
    except SystemExit as leaving:  # argparse's
        status = int(leaving.code or 0)
    assert status == 2
    assert message in capsys.readouterr().err


def test_a_packet_that_the_file_has_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pcap(tmp_path / "in.pcap", [Record(0, b"one")])
    for number in ("0", "2"):
        arguments = ["--port", "1", "--pcap", str(tmp_path / "in.pcap"), "--packet", number]
        assert main(["p4", "trace", str(IPV4), *arguments]) == 2
        assert "has packets 1 to 1" in capsys.readouterr().err
