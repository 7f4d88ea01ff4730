"""The engine as a process: packets through it, its counters, a restart in the middle, its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from emulator.host import BURST, FaultEthDev, Faults, LcoreError, Mempool, ShmEthDev, ShmLink, wait
from emulator.switch import Call, EngineSwitch, engine_switch
from emulator.wire import FRAME, blank, seal, valid
from p4.targets import TargetError

PORTS = 4
# Forwards by the destination's last byte, port 255 to all, and counts; 254 recirculates for ever.
PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t { }
parser Parse(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); transition accept; }
}
control Check(inout headers_t h, inout metadata_t m) { apply { } }
control In(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    counter(512, CounterType.packets) seen;
    register<bit<32>>(16) notes;
    action drop() { mark_to_drop(s); }
    action to(bit<9> port) { s.egress_spec = port; }
    action to_all(bit<16> group) { s.mcast_grp = group; }
    table hosts {
        key = { h.ethernet.dst: exact; }
        actions = { to; to_all; drop; }
        default_action = drop();
        size = 64;
    }
    apply {
        seen.count((bit<32>)s.ingress_port);
        hosts.apply();
    }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control Sum(inout headers_t h, inout metadata_t m) { apply { } }
control Deparse(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(Parse(), Check(), In(), Out(), Sum(), Deparse()) main;
"""
CONTROL = [
    *(Call("insert", ("hosts", {"dst": p}, "to", {"port": p})) for p in range(PORTS)),
    Call("insert", ("hosts", {"dst": 255}, "to_all", {"group": 1})),
    Call("insert", ("hosts", {"dst": 77}, "to", {"port": 77})),
    Call("multicast_group", (1, [(p, 0) for p in range(PORTS)])),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("p4") / "forward.p4"
    path.write_text(PROGRAM)
    return path


class Net:
    """A switch and a port on each of its links, in this process."""

    def __init__(self, program: Path, control=CONTROL, **more) -> None:
        self.links = [ShmLink(slots=256) for _ in range(PORTS)]
        self.pool = Mempool(4096)
        self.ports = [ShmEthDev(f"net_shm{i}", link.ends[0]) for i, link in enumerate(self.links)]
        for port in self.ports:
            port.configure(self.pool)
            port.start()
        self.switch = engine_switch(
            program, {i: link.ends[1] for i, link in enumerate(self.links)}, control, **more
        )

    def send(self, port: int, to: int, numbers: list[int]) -> None:
        for first in range(0, len(numbers), 1024):
            self._send(port, to, numbers[first : first + 1024])

    def _send(self, port: int, to: int, numbers: list[int]) -> None:
        frames = blank(len(numbers))
        frames["ethernet"]["dst"][:, 5] = to
        frames["agg"]["vertex"] = numbers
        seal(frames)
        mbufs = self.pool.alloc(len(numbers))
        self.pool.write(mbufs, frames)
        while len(mbufs):
            mbufs = mbufs[self.ports[port].tx_burst(mbufs) :]

    def receive(self, port: int, count: int, timeout_s: float = 20) -> list[int]:
        """The numbers of the next `count` packets, fewer if nothing more comes."""
        found: list[int] = []
        end = time.monotonic() + timeout_s
        while len(found) < count and time.monotonic() < end:
            mbufs = self.ports[port].rx_burst()
            frames = self.pool.read(mbufs, FRAME)
            assert valid(frames, self.pool.lengths(mbufs)).all()
            found += frames["agg"]["vertex"].tolist()
            self.pool.free(mbufs)
            if not len(mbufs):
                wait([self.ports[port]], 0.2)
        return found

    def close(self) -> None:
        self.switch.close()
        for link in self.links:
            link.close()


@pytest.fixture
def net(program) -> Iterator[Net]:
    made = Net(program)
    yield made
    made.close()
    assert made.pool.in_use == 0


def test_packets_go_where_the_tables_say_in_order(net):
    net.send(0, 1, list(range(500)))
    assert net.receive(1, 500) == list(range(500))
    net.send(2, 255, [7])
    assert [net.receive(p, 1) for p in range(PORTS)] == [[7]] * PORTS
    assert net.switch.ask("counter_read", "seen", 0)[0] == 500
    counted = net.switch.statistics()
    assert (counted["packets_in"], counted["packets_out"], counted["passes"] > 0) == (501, 504, True)
    assert net.switch.port_stats()[0]["ipackets"] == 500
    assert net.switch.port_stats()[3]["opackets"] == 1


def test_what_cannot_leave_is_dropped_and_counted(net):
    net.send(0, 9, [1])  # the program drops it
    net.send(0, 77, [2, 3])  # there is no port 77
    room = 256 + 4096  # the ring of port 1 and the queue behind it, and nobody takes them
    net.send(0, 1, list(range(room + 50)))
    assert until(lambda: net.switch.statistics()["packets_in"] == room + 53)
    counted = net.switch.statistics()
    assert (counted["no_port_drops"], counted["queue_full_drops"], counted["packets_out"]) == (2, 50, 256)
    net.send(0, 2, [8])  # others are not held up
    assert net.receive(2, 1) == [8]
    assert net.receive(1, room) == list(range(room))


def test_control_calls_while_it_runs(net):
    net.switch.ask("register_write", "notes", 3, 42)
    notes = net.switch.ask("register_array", "notes")
    assert notes[3] == 42
    notes[3] = 0  # a copy
    assert net.switch.ask("register_read", "notes", 3) == 42
    with pytest.raises(TargetError, match="NOT_FOUND"):
        net.switch.ask("delete", "hosts", {"dst": 12345})
    with pytest.raises(AttributeError):
        net.switch.ask("no_such_call")
    net.switch.ask("insert", "hosts", {"dst": 9}, "to", {"port": 3})
    net.send(0, 9, [5])
    assert net.receive(3, 1) == [5]


def test_restart_loses_state_and_what_was_waiting_and_keeps_the_tables(net):
    net.switch.ask("register_write", "notes", 0, 1)
    net.send(0, 1, [1])
    assert net.receive(1, 1) == [1]
    before = net.switch.pid
    net.switch.kill()
    assert not net.switch.alive
    net.send(0, 1, [2, 3])  # into the dark
    net.switch.restart()
    assert net.switch.pid != before
    net.send(0, 1, [4])
    assert net.receive(1, 1) == [4]
    assert net.switch.ask("register_read", "notes", 0) == 0
    assert net.switch.ask("counter_read", "seen", 0)[0] == 1


def test_restart_under_load_delivers_no_wrong_packet(net):
    sent = 0
    for _ in range(3):
        net.send(0, 1, list(range(sent, sent + 200)))
        sent += 200
        net.switch.restart()
    net.send(0, 1, [sent])
    got = net.receive(1, sent + 1, timeout_s=2)
    assert got == sorted(set(got)) and set(got) <= set(range(sent + 1)) and got[-1] == sent


def test_a_refused_control_call_is_the_callers_error(program):
    with pytest.raises(TargetError, match="no_such_table"):
        Net(program, [Call("insert", ("no_such_table", {}, "to", {"port": 1}))])
    with pytest.raises(ValueError, match="port 512, allowed 0 to 511"):
        engine_switch(program, {512: ShmLink().ends[1]})


def test_control_as_a_function_and_a_port_wrapped_in_the_switch(program):
    def fill(target) -> None:
        target.insert("hosts", {"dst": 1}, "to", {"port": 1})

    def lossy(number, port):
        return FaultEthDev(f"net_fault{number}", port, tx=Faults(duplicate=1.0)) if number == 1 else port

    net = Net(program, fill, wrap=lossy)
    net.send(0, 1, [1, 2])
    assert net.receive(1, 4) == [1, 1, 2, 2]
    assert net.switch.port_stats()[1]["tx_fault_duplicated"] == 2
    net.close()


def test_a_dead_switch_is_an_error_that_names_it(net):
    os.kill(net.switch.pid, signal.SIGKILL)
    with pytest.raises(LcoreError, match=r"switch: killed by SIGKILL"):
        net.switch.statistics()


PARENT = """
import sys, time
from pathlib import Path
from emulator.host import ShmLink
from emulator.switch import engine_switch
link = ShmLink()
switch = engine_switch(Path(sys.argv[1]), {0: link.ends[1]})
print(switch.pid, flush=True)
time.sleep(600)
"""


def gone(pid: int) -> bool:
    """Whether the process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_it_dies_with_a_killed_parent_and_leaves_nothing(program):
    there = set(os.listdir("/dev/shm"))
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(program)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        switch = int(parent.stdout.readline())
        assert not gone(switch)
        parent.kill()
    assert until(lambda: gone(switch))
    assert set(os.listdir("/dev/shm")) <= there


def test_an_idle_switch_uses_no_cpu(net):
    def cpu_ticks() -> int:
        fields = Path(f"/proc/{net.switch.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    net.switch.statistics()
    before = cpu_ticks()
    time.sleep(1.0)
    assert cpu_ticks() - before <= 5  # of 100 a second


def test_descriptors_do_not_grow_with_restarts(net):
    net.switch.restart()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        net.switch.restart()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_large_multicast_fits_into_the_pool(program):
    """32 packets from each of 4 ports, each to 4: more than half of the pool is never asked for at once."""
    net = Net(program)
    for _ in range(20):
        for port in range(PORTS):
            net.send(port, 255, [port] * BURST)
        for port in range(PORTS):
            assert np.bincount(net.receive(port, PORTS * BURST)).tolist() == [BURST] * PORTS
    assert net.switch.statistics()["no_buffer_drops"] == 0
    net.close()


def test_the_class_takes_a_built_library(program):
    from p4.codegen import generate
    from p4.codegen.build import build
    from p4.lang import load_program

    library = build(generate(load_program(program)))
    with EngineSwitch(library, {0: ShmLink().ends[1]}) as switch:
        assert switch.statistics()["packets_in"] == 0
