"""The commands, as a user runs them: what they print, where, and their exit status."""

import json
import struct
from pathlib import Path

import pytest

from netfold import main
from p4.programs import IPV4
from p4.targets.pcap import PcapError, Record, read_pcap, write_pcap
from tests.p4.conftest import v1model

STF = """
add ipv4_lpm ipv4.dst:10.0.0.0/8 forward(port:3, mac:0x0000000000aa)
packet 1 0000000000fe 000000000001 0800 4500 0016 0000 0000 4011 66d5 0a000001 0a000002 6869
expect 3 0000000000aa 0000000000fe 0800 4500 0016 0000 0000 3f11 67d5 0a000001 0a000002 6869 $
packet 1 0000000000fe 000000000001 0800 4500 0016 0000 0000 4011 ffff 0a000001 0a000002 6869
"""


def test_check_a_correct_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["p4", "check", str(IPV4)]) == 0
    assert "correct" in capsys.readouterr().out


def test_check_reports_every_mistake_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.p4"
    bad.write_text("const bit<8> a = true;\nconst bit<8> b = c;\n")
    assert main(["p4", "check", str(bad)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{bad}:1:18: error" in shown.err
    assert f"{bad}:2:18: error: unknown name 'c'" in shown.err
    assert main(["p4", "check", str(bad), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)["errors"]
    assert [(e["line"], e["column"]) for e in found] == [(1, 18), (2, 18)]


def test_check_with_macros_and_include_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "width.p4").write_text("const bit<W> x = 1;\n")
    program = tmp_path / "p.p4"
    program.write_text("#include <width.p4>\n" + v1model())
    assert main(["p4", "check", str(program), "-I", str(tmp_path / "lib"), "-D", "W=8"]) == 0
    assert main(["p4", "check", str(program)]) == 2
    assert "cannot find include file" in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("check", "build", "show", "test"):
        assert main(["p4", command, "/nowhere/x.p4"]) == 2
        assert "cannot read '/nowhere/x.p4'" in capsys.readouterr().err


def test_what_the_engine_does_not_support_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "t.p4"
    program.write_text("#include <tna.p4>\n")
    assert main(["p4", "build", str(program)]) == 2
    assert "not supported by the engine" in capsys.readouterr().err


def test_build_prints_the_library_and_writes_the_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "program.cpp"
    assert main(["p4", "build", str(IPV4), "--source", str(source)]) == 0
    library = Path(capsys.readouterr().out.strip())
    assert library.exists()
    assert "struct SwitchIngress_block" in source.read_text()


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["p4", "show", str(IPV4)]) == 0
    text = capsys.readouterr().out
    assert "table SwitchIngress.ipv4_lpm   65536 entries" in text
    assert "start -> ipv4   [0x800]" in text
    assert main(["p4", "show", str(IPV4), "--dot"]) == 0
    assert '"Parse.start" -> "Parse.ipv4"' in capsys.readouterr().out
    assert main(["p4", "show", str(IPV4), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"]["tables"][0]["keys"][0]["match_kind"] == "lpm"


def test_stf_passes_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stf = tmp_path / "t.stf"
    stf.write_text(STF)
    assert main(["p4", "test", str(IPV4), "--stf", str(stf)]) == 0
    assert "passed: 2 packets sent, 1 as expected, 0 not" in capsys.readouterr().out
    stf.write_text(STF.replace("3f11 67d5", "4011 67d5") + "expect 5\n")
    assert main(["p4", "test", str(IPV4), "--stf", str(stf), "--json"]) == 1
    failures = json.loads(capsys.readouterr().out)["failures"]
    assert [(f["port"], f["message"]) for f in failures] == [
        (3, "another packet came out"), (5, "no packet came out"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("frobnicate", "unknown command 'frobnicate'"),
        ("add nope a:1 b()", "table 'nope' does not exist"),
        ("add ipv4_lpm ipv4.dst:10.0.0.0/8 drop", "no action"),
        ("add ipv4_lpm ipv4.dst:10.0.0.0/8 forward(port:1000, mac:1)", "does not fit 9 bits"),
        ("packet x 00", "malformed 'packet'"),
        ("expect -5 00", "malformed 'expect'"),
        ("add ipv4_lpm dst:1 dst:2 forward(port:1, mac:1)", "key 'dst' is given twice"),
        ("add ipv4_lpm dst:1 forward(port:1, port:2)", "parameter 'port' is given twice"),
        ("add ipv4_lpm src:1 forward(port:1, mac:2)", "has no key 'src'; its keys: hdr.ipv4.dst"),
        ("packet 1 0g", "malformed 'packet'"),
        ("expect 1 zz", "malformed packet"),
        ("mc_node_associate 1 1", "malformed 'mc_node_associate'"),
    ],
)
def test_a_bad_stf_line_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    stf = tmp_path / "t.stf"
    stf.write_text("# a comment\n" + line + "\n")
    assert main(["p4", "test", str(IPV4), "--stf", str(stf)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"netfold: error: {stf}:2: ")
    assert message in error


@pytest.mark.parametrize(
    "command",
    [
        ("test", "--stf"),
        ("run", "--in", "1=in.pcap", "--out", "out", "--control"),
        ("trace", "--port", "1", "--hex", "00", "--control"),
    ],
)
def test_an_stf_file_that_is_no_text(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bin.stf").write_bytes(b"# \xff\x00")
    write_pcap(Path("in.pcap"), [])
    name, *options = command
    assert main(["p4", name, str(IPV4), *options, "bin.stf"]) == 2
    assert capsys.readouterr().err == "netfold: error: bin.stf: not a text in UTF-8 (byte 2)\n"


def test_run_from_pcap_to_pcap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    control = tmp_path / "entries.stf"
    control.write_text(STF.splitlines()[1])
    packet = bytes.fromhex(STF.splitlines()[2].removeprefix("packet 1").replace(" ", ""))
    write_pcap(tmp_path / "in.pcap", [Record(1_000_001, packet), Record(2_000_002, packet)])
    out = tmp_path / "out"
    arguments = ["--in", f"1={tmp_path / 'in.pcap'}", "--out", str(out), "--control", str(control)]
    assert main(["p4", "run", str(IPV4), *arguments]) == 0
    assert "2 packets in; out: port 3: 2" in capsys.readouterr().out
    records = read_pcap(out / "port3.pcap")
    assert [r.time_us for r in records] == [1_000_001, 2_000_002]
    assert records[0].data[:6].hex() == "0000000000aa"
    for wrong in ("600=x", "²=x", "x"):
        assert main(["p4", "run", str(IPV4), "--in", wrong, "--out", str(out)]) == 2
    assert main(["p4", "run", str(IPV4), "--in", f"1={control}", "--out", str(out)]) == 2


def test_pcap_of_either_byte_order_and_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "big.pcap"
    path.write_bytes(
        struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
        + struct.pack(">IIII", 3, 5000, 2, 2)
        + b"hi"
    )
    assert read_pcap(path) == [Record(3_000_005, b"hi")]
    for broken in (b"", b"x" * 30, path.read_bytes()[:-1], path.read_bytes()[:30]):
        path.write_bytes(broken)
        with pytest.raises(PcapError):
            read_pcap(path)


def test_run_and_test_say_what_was_logged_and_what_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "endless.p4"
    program.write_text(
        v1model(
            locals="action again() { resubmit_preserving_field_list(1); }",
            ingress="""s.egress_spec = 2;
                if (s.instance_type == 0) { log_msg("on {}", { s.ingress_port }); }
                if (s.ingress_port == 3 || s.instance_type == 6) { again(); }""",
        )
    )
    stf = tmp_path / "endless.stf"
    stf.write_text("packet 1 aa\nexpect 2 aa $\n")
    assert main(["p4", "test", str(program)]) == 0
    shown = capsys.readouterr()
    assert "passed" in shown.out
    assert shown.err == "log: on 1\n"
    write_pcap(tmp_path / "in.pcap", [Record(0, b"\xaa")])
    arguments = ["p4", "run", str(program), "--in", f"3={tmp_path}/in.pcap", "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert "out: none" in shown.out
    assert shown.err.splitlines()[-1] == (
        "netfold: warning: packets recirculated, resubmitted or cloned without end, stopped and dropped: 1"
    )


@pytest.mark.parametrize("text", ["", "#include <v1model.p4>\n"])
def test_a_program_without_main_is_not_correct(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nothing.p4"
    path.write_text(text)
    assert main(["p4", "check", str(path)]) == 2
    assert "a program without 'main'" in capsys.readouterr().err
