# ruff: noqa: E501 - programs stay on few lines
"""The tofino-model driver against stand-ins of the SDE's tools (fake_sde.py): no SDE was at hand."""

from __future__ import annotations

import json
import os
import random
import select
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from p4.codegen.build import BuildError
from p4.programs import TNA_SWITCHGNN
from p4.targets import Packet, TargetError
from p4.targets.bmv2.ports import Ports
from p4.tofino import shell
from p4.tofino.model import TofinoModel, missing_tools
from tests.p4.programs import tna_net
from tests.p4.programs.switchgnn_net import CHUNKS, DUPLICATES, GROUP, LOAD, Block, Frame, results
from tests.p4.tofino import fake_sde
from tests.p4.tofino.tna_frame import tna


class SocketPorts(Ports):
    """Datagram sockets in a folder for veth interfaces in a namespace."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self._folder, self._ports = folder, ports
        self._sockets: dict[int, socket.socket] = {}

    def arguments(self) -> list[str]:
        return [word for port in self._ports for word in ("-i", f"{port}@{self._folder / f's{port}'}")]

    def connect(self, pid: int) -> None:
        assert pid > 0
        for port in self._ports:
            self._sockets[port] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sockets[port].bind(str(self._folder / f"h{port}"))

    def send(self, port: int, data: bytes) -> None:
        self._sockets[port].sendto(data, str(self._folder / f"s{port}"))

    def settle(self) -> None:
        pass  # the stand-in takes its sockets in turn

    def receive(self, expected: int) -> list[Packet]:
        packets: list[Packet] = []
        end = time.monotonic() + (10 if expected else 0.3)
        by_number = {s.fileno(): port for port, s in self._sockets.items()}
        while len(packets) < expected or not expected:
            ready, _, _ = select.select(list(by_number), [], [], max(0.0, end - time.monotonic()))
            if not ready:
                break
            for number in ready:
                port = by_number[number]
                packets.append(Packet(port, self._sockets[port].recv(65536)))
        return packets

    def close(self) -> None:
        for opened in self._sockets.values():
            opened.close()


@pytest.fixture
def sde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-ins on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake_sde.install(folder)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    def write(**parts: str) -> Path:
        path = tmp_path / "program.p4"
        path.write_text(tna(**parts))
        return path

    return write


REFLECT = {
    "locals": """
    Register<bit<32>, bit<32>>(4) last;
    RegisterAction<bit<32>, bit<32>, bit<32>>(last) swap = {
        void apply(inout bit<32> value, out bit<32> old) { old = value; value = hdr.h.x; }
    };
    Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS) seen;
    action out_by(bit<9> port) { tm.ucast_egress_port = port; }
    table route { key = { hdr.h.k: exact; hdr.h.y: ternary; hdr.h.z: range; } actions = { out_by; } size = 8; }
    """,
    "ingress": "hdr.h.x = swap.execute(1); seen.count(2); route.apply();",
}


def packet(k: int, x: int = 5, y: int = 0, z: int = 0) -> bytes:
    return b"".join(v.to_bytes(4, "big") for v in (x, y, z)) + bytes([k]) + b"payload"


def test_a_program_is_compiled_started_filled_and_sent_through(
    sde: Path, program: Callable[..., Path]
) -> None:
    with TofinoModel(program(**REFLECT), [1, 2], make_ports=SocketPorts) as model:
        folder = model.folder
        listed = json.loads((folder / "ports.json").read_text())
        assert [e["device_port"] for e in listed["PortToIf"]] == [1, 2]
        model.insert("route", {"k": 7, "y": (0x10, 0xF0), "z": (3, 9)}, "out_by", {"port": 2}, priority=1)
        model.register_write("last", 1, 0xABCD)
        model.send(1, packet(7, y=0x1F, z=4))
        model.send(1, packet(7, y=0x2F, z=4))  # not in the mask
        model.send(1, packet(7, y=0x1F, z=10))  # not in the range
        [got] = model.receive(1)
        assert got == Packet(2, packet(7, x=0xABCD, y=0x1F, z=4))
        assert model.receive() == []
        assert model.register_read("last", 1) == 5
        assert model.counter_read("seen", 2)[0] == 3
        model.modify("route", {"k": 7, "y": (0x10, 0xF0), "z": (3, 9)}, "out_by", {"port": 1}, priority=1)
        model.send(2, packet(7, y=0x1F, z=4))
        assert [p.port for p in model.receive(1)] == [1]
        model.delete("route", {"k": 7, "y": (0x10, 0xF0), "z": (3, 9)}, priority=1)
        model.send(2, packet(7, y=0x1F, z=4))
        assert model.receive() == []
    assert not folder.exists()


def test_switchgnn_adds_up_through_the_driver(sde: Path) -> None:
    rng = random.Random(3)
    block = Block.draw(rng, 3, 6)
    x = block.draw_features(rng)
    ports = [1, 7, *(10 + w for w in range(3))]
    with TofinoModel(TNA_SWITCHGNN, ports, defines=tna_net.DEFINES, make_ports=SocketPorts) as model:
        model.clone_session(tna_net.MIRROR_SESSION, port=tna_net.RECIRCULATE_PORT)
        for chunk in range(CHUNKS):
            model.insert("chunk", {"job": 1, "chunk": chunk}, "set_chunk", {"base": tna_net.SLOTS * chunk})
        model.insert("job", {"job": 1}, "set_job", {"workers": 3, "group": GROUP})
        for w in range(3):
            sender = {"number": w, "one_bit": 1 << w}
            model.insert("source", {"job": 1, "level": 0, "worker": w}, "set_source", sender)
            where = {"port": 10 + w, "mac": 0x100 + w, "ip": 0x0A000100 + w}
            model.insert("worker", {"job": 1, "worker": w}, "to_worker", where)
        model.multicast_group(GROUP, [(10 + w, w) for w in range(3)])
        degrees = [len(n) for n in block.neighbours]
        for array, words in {
            0: [0],
            6: [len(degrees)],
            1: [sum(degrees[:i]) for i in range(len(degrees))],
            2: degrees,
            3: degrees,
            4: block.owners,
            5: [v for n in block.neighbours for v in n],
        }.items():
            for at in range(0, len(words), 30):
                part = words[at : at + 30]
                values = part + [0] * (30 - len(part))
                model.send(7, Frame(LOAD, vertex=at, chunk=array, count=len(part), values=values).encode())
                assert [p.port for p in model.receive(1)] == [7]
        for frame in [*block.uploads(x), block.uploads(x)[0]]:
            model.send(1, frame.encode())
        got = results(block, model.receive(len(block.sums(x))))
        assert {k: f.values for k, f in got.items()} == block.sums(x)
        assert model.counter_read("events", DUPLICATES)[0] == 1


def test_wrong_calls_are_refused_before_they_are_sent(sde: Path, program: Callable[..., Path]) -> None:
    with TofinoModel(program(**REFLECT), [1], make_ports=SocketPorts) as model:
        with pytest.raises(TargetError, match="NOT_FOUND"):
            model.insert("nothing", {}, "out_by")
        with pytest.raises(TargetError, match="does not fit 8 bits"):
            model.insert("route", {"k": 256, "y": 0, "z": 0}, "out_by", {"port": 1}, priority=1)
        with pytest.raises(TargetError, match="takes"):
            model.insert("route", {"k": 2, "y": 0, "z": 0}, "out_by", {"gate": 1}, priority=1)
        with pytest.raises(TargetError, match="groups begin at 1"):
            model.multicast_group(0, [])


def test_a_call_that_the_switch_refuses_is_told(sde: Path, program: Callable[..., Path]) -> None:
    with TofinoModel(program(**REFLECT), [1], make_ports=SocketPorts) as model:
        model.delete("route", {"k": 1, "y": 0, "z": 0}, priority=1)
        with pytest.raises(TargetError, match="INTERNAL: bfshell stopped: RuntimeError: NOT_FOUND"):
            model.receive()


def test_without_the_tools_it_says_which_are_missing(
    program: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_tools() == (
        "tofino-model is not installed: "
        "no bf-p4c and no tofino-model and no bf_switchd and no bfshell on PATH"
    )
    with pytest.raises(TargetError, match="UNAVAILABLE: tofino-model is not installed"):
        TofinoModel(program(), [1])


def test_a_program_that_the_compiler_refuses(sde: Path, program: Callable[..., Path]) -> None:
    with pytest.raises(BuildError, match="this program is refused"):
        TofinoModel(program(types="// no such chip"), [1], make_ports=SocketPorts)


@pytest.mark.parametrize("tool", ["tofino-model", "bf_switchd"])
def test_a_tool_that_ends_is_told_with_its_last_words(
    sde: Path, program: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setenv("NETFOLD_FAKE_BROKEN", tool)
    with pytest.raises(TargetError, match=f"{tool} ended .*no licence"):
        TofinoModel(program(), [1], make_ports=SocketPorts)


def test_scripts_are_bf_runtime_python() -> None:
    assert shell.call("bfrt.p.pipe.In.t", "add_with_go", {"a": 1, "b_mask": 2}) == (
        "bfrt.p.pipe.In.t.add_with_go(a=1, b_mask=2)"
    )
    lines, nodes = shell.group_lines(3, [(10, 0), (11, 1)], [])
    assert nodes == [3000, 3001]
    assert lines[0] == (
        "bfrt.pre.node.add(MULTICAST_NODE_ID=3000, MULTICAST_RID=0, MULTICAST_LAG_ID=[], DEV_PORT=[10])"
    )
    again, _ = shell.group_lines(3, [(10, 0)], nodes)
    assert again[0] == "bfrt.pre.mgid.delete(MGID=3)"
