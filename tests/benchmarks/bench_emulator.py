"""Packets a second of the emulator: `python tests/benchmarks/bench_emulator.py` prints a table.

Rates are packets over wall time, all processes started and waiting before the clock starts; beside them the
CPU time of each packet over all processes, which other load on the machine disturbs less. What is counted is
what arrived, and that it is right is checked. The veth rows need root; without it they are left out.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from emulator.cluster.faults import parse_faults
from emulator.cluster.processes import ProcessCluster
from emulator.cluster.settings import Settings
from emulator.cluster.topology import Topology
from emulator.host import BURST, EthDev, Lcore, Mempool, PacketEthDev, ShmEthDev, ShmLink, wait
from emulator.host.veth import make_veth, own_namespace
from emulator.protocol.dcqcn import DcqcnConfig
from emulator.protocol.endpoint import Timing
from emulator.switch import engine_switch
from emulator.wire import BYPASS, FRAME, FRAME_BYTES, VALUES_PER_PACKET, PacketType, blank, seal
from p4.programs import SWITCHGNN
from p4.targets import Target
from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.oracle import cross_matrix
from workloads.partition import partition_graph
from workloads.plan import make_plan

WORKERS = 8
SLOTS = 65536  # sums in the switch, one contribution to each from every worker
FIRST_IP = 0x0A000001
LINK_PACKETS = 62500 * BURST
VETH_PACKETS = 6250 * BURST
BMV2_PACKETS = 256 * BURST
SCAPY_PACKETS = 125 * BURST  # it is slow
PROPAGATIONS = 20
WINDOW = 512  # packets on their way where nothing says that a queue is full
FULL_S = 200e-6  # until the next look whether a full ring has room


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def frames_of(worker: int, kind: PacketType) -> np.ndarray:
    """A burst of one worker's packets."""
    frames = blank(BURST)
    agg = frames["agg"]
    agg["type"], agg["job"], agg["worker"], agg["count"], agg["round"] = kind, 1, worker, 1, 1
    frames["values"] = worker + 1
    frames["ethernet"]["dst"] = [2, 0, 0, 0, 0, (worker + 1) % WORKERS]
    frames["ipv4"]["src"] = FIRST_IP + worker
    frames["ipv4"]["dst"] = FIRST_IP + (worker + 1) % WORKERS
    if kind == PacketType.DIRECT:
        agg["flags"] = BYPASS
    seal(frames)
    return frames


def exchange(
    port: EthDev,
    barrier: Barrier,
    *,
    worker: int,
    kind: PacketType = PacketType.DIRECT,
    send: int = 0,
    receive: int = 0,
    mine: Any = None,
    theirs: Any = None,
) -> float:
    """Sends `send` packets for slots 0, 1, ... and takes in `receive`, checking each. CPU seconds.

    ``mine``, ``theirs``: shared numbers, how many this side and the one it sends to have received: no more
    than WINDOW are on their way.
    """
    pool = Mempool(4096, data_room=256)
    port.configure(pool)
    port.start()
    frames = frames_of(worker, kind)
    view = pool.view(FRAME)
    numbers = np.arange(BURST, dtype=np.uint32)
    wanted = WORKERS * (WORKERS + 1) // 2 if kind == PacketType.PARTIAL else (worker - 1) % WORKERS + 1
    seen = np.zeros(max(send, receive, SLOTS), bool)
    barrier.wait()
    start = cpu_s()
    sent = received = 0
    left = pool.alloc(0)
    while sent < send or len(left) or received < receive:
        if mine is not None:
            mine.value = received
        may = theirs is None or sent - theirs.value < WINDOW
        if sent < send and not len(left) and may:
            frames["agg"]["vertex"] = sent + numbers
            left = pool.alloc(BURST)
            pool.write(left, frames)
            sent += BURST
        taken = port.tx_burst(left) if len(left) else 0
        left = left[taken:]
        got = port.rx_burst(BURST)
        if len(got):
            assert (view["values"][got] == wanted).all()
            seen[view["agg"]["vertex"][got]] = True
            pool.free(got)
            received += len(got)
        elif not taken:
            wait([port], FULL_S if sent < send or len(left) else 5)
    assert received == receive == seen.sum(), (worker, received, receive)
    if mine is not None:
        mine.value = received
    used = cpu_s() - start
    barrier.wait()
    return used


def timed(
    jobs: list[Callable[[Barrier], Lcore]], extra_cpu: Callable[[], float] = lambda: 0.0
) -> tuple[float, float]:
    """Wall and CPU seconds between the barrier that starts the jobs and the one that ends them."""
    barrier = get_context("fork").Barrier(len(jobs) + 1)
    lcores = [job(barrier) for job in jobs]
    barrier.wait(60)
    start, before = time.perf_counter(), extra_cpu()
    barrier.wait(300)
    wall, after = time.perf_counter() - start, extra_cpu()
    return wall, sum(lcore.join(60) for lcore in lcores) + after - before


def row(name: str, packets: int, wall_s: float, used_s: float | None) -> None:
    each = f"{used_s / packets * 1e6:>12.2f}" if used_s is not None else f"{'':>12}"
    print(f"{name:44} {packets:>9} {packets / wall_s / 1e3:>10.0f} {each}", flush=True)


def process_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_way(name: str, ends: list[tuple[EthDev, list[Any]]], count: int, arrived: Any = None) -> None:
    """The first port sends, the second receives, each in its own process, on its own CPU if there are two."""
    (a, ours), (b, theirs) = ends
    send = partial(exchange, a, worker=0, send=count, theirs=arrived)
    receive = partial(exchange, b, worker=1, receive=count, mine=arrived)
    wall, used = timed(
        [lambda go: Lcore(send, go, keep=ours, cpu=0), lambda go: Lcore(receive, go, keep=theirs, cpu=1)]
    )
    row(name, count, wall, used)


def endpoint_alone() -> None:
    """One process has both ends: what an endpoint does for a packet it sends and one it receives."""
    a, b = ShmLink().ends
    pool = Mempool(4096, data_room=256)
    ports = [ShmEthDev("net_shm0", a), ShmEthDev("net_shm1", b)]
    for port in ports:
        port.configure(pool)
        port.start()
    frames = frames_of(0, PacketType.DIRECT)
    view = pool.view(FRAME)
    wanted = frames["values"][0]
    start, before = time.perf_counter(), cpu_s()
    for first in range(0, LINK_PACKETS, BURST):
        frames["agg"]["vertex"] = np.arange(first, first + BURST)
        mbufs = pool.alloc(BURST)
        pool.write(mbufs, frames)
        assert ports[0].tx_burst(mbufs) == BURST
        got = ports[1].rx_burst(BURST)
        assert (view["values"][got] == wanted).all() and view["agg"]["vertex"][got[0]] == first
        pool.free(got)
    row(
        "net_shm: an endpoint to itself, one process",
        LINK_PACKETS,
        time.perf_counter() - start,
        cpu_s() - before,
    )
    for port in ports:
        port.close()


def one_link() -> None:
    a, b = ShmLink().ends
    ends = [(ShmEthDev("net_shm0", a), [a]), (ShmEthDev("net_shm1", b), [b])]
    one_way("net_shm: endpoint to endpoint", ends, LINK_PACKETS)


def control(target: Target) -> None:
    """A star of 8 workers; every slot expects a contribution from each, and belongs to worker slot % 8."""
    memory = {
        "blocks_at": 0, "blocks": 1, "entries_at": 0, "entries": SLOTS, "edges_at": 0, "edges": 1,
        "aggregators_at": 0, "aggregators": SLOTS, "workers_at": 0,
    }  # fmt: skip
    target.insert("job", {"job": 1}, "set_job", {"chunks": 1, "workers": WORKERS, "group": 1})
    target.insert("memory", {"job": 1}, "set_memory", memory)
    for worker in range(WORKERS):
        to = {"port": worker, "mac": 0x020000000000 + worker}
        target.insert("ipv4_lpm", {"dst": (FIRST_IP + worker, 32)}, "forward", to)
        ip = {"ip": FIRST_IP + worker}
        target.insert("worker", {"job": 1, "worker": worker}, "to_worker", to | ip)
    target.register_array("block_size")[0] = SLOTS
    target.register_array("entry_expected")[:SLOTS] = WORKERS
    target.register_array("entry_owner")[:SLOTS] = np.arange(SLOTS) % WORKERS


def through_the_switch(kind: PacketType, receive: int, name: str) -> None:
    """8 workers, each with its link to the engine."""
    links = [ShmLink() for _ in range(WORKERS)]
    arrived = [get_context("fork").RawValue("q") for _ in range(WORKERS)]
    ports = {worker: link.ends[1] for worker, link in enumerate(links)}

    def host(worker: int) -> Callable[[Barrier], Lcore]:
        end = links[worker].ends[0]
        port = ShmEthDev(f"net_shm{worker}", end)
        run = partial(exchange, port, worker=worker, kind=kind, send=SLOTS, receive=receive)
        if kind == PacketType.DIRECT:
            run = partial(run, mine=arrived[worker], theirs=arrived[(worker + 1) % WORKERS])
        return lambda go: Lcore(run, go, keep=[end])

    with engine_switch(SWITCHGNN, ports, control) as switch:
        wall, used = timed([host(w) for w in range(WORKERS)], lambda: process_cpu_s(switch.pid))
        counted = switch.statistics()
    packets = WORKERS * SLOTS
    assert counted["packets_in"] == packets and counted["packets_out"] == WORKERS * receive
    row(name, packets, wall, used)
    print(f"{'':44} {packets / counted['batches']:.0f} packets a batch", flush=True)
    for link in links:
        link.close()


def whole_protocol(name: str) -> None:
    """Propagations as `netfold emulate` sends them: 8 state machines, reports and completions included.

    A packet is one that leaves a host or reaches one, as a tester counts at the ports of a device under test
    (RFC 2544): here uploads and results. What the switch does between them is passes.
    """
    try:
        graph = load_graph(name)
    except InputError as error:
        print(f"whole protocol: left out: {error}")
        return
    partition = partition_graph(graph, WORKERS)
    plan = make_plan(graph, partition, width=VALUES_PER_PACKET, memory_bytes=None)
    topology = Topology(WORKERS)
    settings = Settings(Timing(1_000_000, 1_000_000_000, 60_000_000_000), DcqcnConfig(), burst=BURST)
    cross = cross_matrix(graph, partition)
    values = np.random.default_rng(1).integers(-1000, 1000, (plan.num_boundary, plan.width), dtype=np.int32)
    wanted = cross @ values.astype(np.int64)
    with ProcessCluster(topology, {1: plan}, parse_faults([], topology), settings) as cluster:
        cluster.load()
        assert (cluster.propagate(1, values) == wanted).all()  # memory is touched for the first time
        pids = [node.pid for node in (*cluster.workers, *cluster.switches.values())]
        start, before = time.perf_counter(), sum(map(process_cpu_s, pids))
        for _ in range(PROPAGATIONS):
            assert (cluster.propagate(1, values) == wanted).all()
        wall, used = time.perf_counter() - start, sum(map(process_cpu_s, pids)) - before
    row(f"8 workers, the whole protocol, {name}", 2 * plan.num_uploads * PROPAGATIONS, wall, used)
    uploads, passes = plan.num_uploads * PROPAGATIONS / wall, len(plan.adj) * PROPAGATIONS / wall
    each = len(plan.adj) / plan.num_uploads
    told = f"{uploads / 1e3:.0f} k uploads/s of {each:.1f} passes: {passes / 1e6:.2f} M passes/s"
    print(f"{'':44} {told}", flush=True)


def scapy_source(barrier: Barrier, done: Event) -> tuple[float, float]:
    """Wall and CPU seconds."""
    from scapy.layers.l2 import Ether
    from scapy.sendrecv import sendp

    packets = [Ether(frame.tobytes()) for frame in frames_of(0, PacketType.DIRECT)] * (SCAPY_PACKETS // BURST)
    barrier.wait()
    start, before = time.perf_counter(), cpu_s()
    sendp(packets, iface="veth0", verbose=False)
    used = time.perf_counter() - start, cpu_s() - before
    done.set()
    return used


def scapy_sink(barrier: Barrier, done: Event) -> tuple[int, float, float]:
    """Packets that it kept up with, wall seconds from the first to the last, CPU seconds."""
    from scapy.sendrecv import AsyncSniffer

    sniffer = AsyncSniffer(iface="veth1", started_callback=barrier.wait)
    before = cpu_s()
    sniffer.start()
    done.wait(120)
    time.sleep(1)  # what is in its socket's buffer
    got = [float(packet.time) for packet in sniffer.stop() if len(packet) == FRAME_BYTES]
    return len(got), max(got) - min(got), cpu_s() - before


def on_a_veth() -> None:
    """In a process of its own, whose network goes with it."""
    own_namespace()
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    make_veth("veth0", "veth1")
    ends: list[tuple[EthDev, list[Any]]] = []
    for interface in ("veth0", "veth1"):
        port = PacketEthDev(f"net_af_packet{len(ends)}", interface)
        port.promiscuous = True  # the frames' addresses are not the interfaces'
        ends.append((port, []))
    arrived = get_context("fork").RawValue("q")
    one_way("net_af_packet: endpoint to endpoint on a veth", ends, VETH_PACKETS, arrived)
    barrier, done = get_context("fork").Barrier(2), get_context("fork").Event()
    receiver, sender = Lcore(scapy_sink, barrier, done), Lcore(scapy_source, barrier, done)
    row("scapy sendp on the same veth", SCAPY_PACKETS, *sender.join(180))
    row("scapy sniff of those, as many as it got", *receiver.join(60))


def through_bmv2() -> None:
    """BMv2 forwards what the engine forwards above, a burst at a time: its egress queues hold few packets."""
    from p4.targets.bmv2.process import missing_tools

    missing = missing_tools()
    if missing:
        print(f"left out: {missing}")
        return
    from p4.targets.bmv2 import Bmv2

    frames = [frame.tobytes() for frame in frames_of(0, PacketType.DIRECT)]
    small = {"AGGREGATORS": "64", "BLOCKS": "64", "ENTRIES": "64", "EDGES": "64", "WORKERS": "64"}
    with Bmv2(SWITCHGNN, ports=(0, 1), defines=small, log_level="off", quiet_s=0) as switch:
        switch.insert("ipv4_lpm", {"dst": (FIRST_IP + 1, 32)}, "forward", {"port": 1, "mac": 1})
        start = time.perf_counter()
        for _ in range(BMV2_PACKETS // BURST):
            for frame in frames:
                switch.send(0, frame)
            assert len(switch.receive(BURST)) == BURST
        row("BMv2 forwarding, the same program, on veths", BMV2_PACKETS, time.perf_counter() - start, None)


def main() -> None:
    """One row for each way a packet can go."""
    if sys.argv[1:] == ["veth"]:
        on_a_veth()
        return
    machine = platform.processor() or platform.machine()
    cpus = len(os.sched_getaffinity(0))
    print(f"{machine}, {cpus} CPUs, load {os.getloadavg()[0]:.1f}; frames of 182 bytes, bursts of {BURST}")
    print(f"{'way':44} {'packets':>9} {'k/s':>10} {'CPU us each':>12}")
    endpoint_alone()
    one_link()
    through_the_switch(PacketType.PARTIAL, SLOTS // WORKERS, "8 workers, engine switch adding up 8 to 1")
    through_the_switch(PacketType.DIRECT, SLOTS, "8 workers, engine switch forwarding")
    for graph in ("rmat:13:8", "debian"):
        whole_protocol(graph)
    veth = subprocess.run([sys.executable, __file__, "veth"], check=False, stderr=subprocess.PIPE, text=True)
    if veth.returncode:
        print(f"veth: left out: {veth.stderr.strip().splitlines()[-1]}")
    through_bmv2()


if __name__ == "__main__":
    main()
