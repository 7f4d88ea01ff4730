"""EAL arguments, and the ports on files and on network interfaces that they name."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap, wrpcap

from emulator.host import Capture, FaultEthDev, Mempool, PcapEthDev, ShmEthDev, ShmLink, eal_init
from emulator.host.eal import DRIVERS
from emulator.wire import FRAME, Netfold, blank, seal
from workloads.errors import InputError


def test_defaults_and_what_arguments_set():
    with eal_init([]) as eal:
        assert (len(eal.lcores), eal.ports, eal.prefix, eal.huge, eal.rest) == (1, {}, "netfold", True, [])
    with eal_init(["-l", "3,0-2,1", "--no-huge", "--file-prefix=me", "--", "-x", "7"]) as eal:
        assert (eal.lcores, eal.prefix, eal.huge, eal.rest) == ([3, 0, 1, 2], "me", False, ["-x", "7"])


def test_ports_by_name_and_number(tmp_path):
    rx = tmp_path / "in.pcap"
    wrpcap(str(rx), [Ether() / b"x"])
    args = ["--vdev", f"net_pcap0,rx_pcap={rx}", f"--vdev=net_pcap1,tx_pcap={tmp_path / 'out.pcap'}"]
    args += ["--vdev", "net_fault0,port=net_pcap1,tx_loss=0.5,rx_delay_ns=3,seed=9"]
    args += ["--vdev", f"net_capture0,port=net_fault0,file={tmp_path / 'seen.pcap'}"]
    with eal_init(args) as eal:
        assert {name: port.port_id for name, port in eal.ports.items()} == {"net_pcap0": 0, "net_capture0": 1}
        capture = eal.ports["net_capture0"]
        assert isinstance(capture, Capture) and isinstance(capture.inner, FaultEthDev)
        assert capture.inner.directions["tx"].faults.loss == 0.5
        assert capture.inner.directions["rx"].faults.delay_ns == 3
        extra = ShmEthDev("mine", ShmLink().ends[0])
        eal.add_port(extra)
        assert extra.port_id == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--socket-mem", "1"], "eal: '--socket-mem': unknown; allowed are -l LCORES, --vdev DEVICE"),
        (["eth0"], "eal: 'eth0': unknown"),
        (["-l"], "eal: -l: its value is missing"),
        (["-l", "2-1"], "-l 2-1: allowed are numbers and ranges from 0 to 127"),
        (["-l", "0,128"], "-l 0,128: allowed"),
        (["-l", ""], "-l : allowed"),
        (["--file-prefix", "a/b"], "eal: --file-prefix 'a/b': allowed are"),
        (["--vdev", "net_null0"], "--vdev net_null0: no such driver; allowed are net_af_packetN, net_shmN"),
        (["--vdev", "net_shm"], "--vdev net_shm: no such driver"),
        (["--vdev", "net_pcap0"], "--vdev net_pcap0: rx_pcap= or tx_pcap= is needed"),
        (["--vdev", "net_pcap0,rx=1"], "--vdev net_pcap0: 'rx=1'; allowed, once each: rx_pcap=, tx_pcap="),
        (["--vdev", "net_pcap0,tx_pcap="], "--vdev net_pcap0: 'tx_pcap='; allowed"),
        (["--vdev", "net_pcap0,tx_pcap=a,tx_pcap=b"], "--vdev net_pcap0: 'tx_pcap=b'; allowed, once each"),
        (["--vdev", "net_shm0,socket=x"], "--vdev net_shm0: role= is needed"),
        (["--vdev", "net_shm0,socket=x,role=king"], "--vdev net_shm0: role=king: allowed are server, client"),
        (["--vdev", "net_shm0,socket=x,role=server,slots=3"], "--vdev net_shm0: slots=3: allowed is a power"),
        (["--vdev", "net_shm0,socket=x,role=server,slots=x"], "--vdev net_shm0: slots=x: a number is needed"),
        (["--vdev", "net_shm0,socket=x,role=server,mtu=9"], "net_shm0: mtu 9, allowed 68 to 65521"),
        (["--vdev", "net_shm0,socket=x,role=server,mac=1"], "--vdev net_shm0: mac=1: allowed is"),
        (
            ["--vdev", "net_fault0,port=net_shm0"],
            "--vdev net_fault0: port=net_shm0: no such port before it; there are: none",
        ),
        (["--vdev", "net_af_packet0"], "--vdev net_af_packet0: iface= is needed"),
        (
            ["--vdev", "net_af_packet0,iface=nope0"],
            "net_af_packet0: iface=nope0: no such interface; there are lo",
        ),
        (["--vdev", "net_pcap0,tx_pcap=a", "--vdev", "net_pcap0,tx_pcap=a"], "--vdev net_pcap0: given twice"),
        (
            ["--vdev", "net_pcap0,tx_pcap=a", "--vdev", "net_fault0,port=net_pcap0,tx_loss=2"],
            "fault loss: 2.0, allowed 0 to 1",
        ),
    ],
)
def test_wrong_arguments_are_one_clear_line(args, said):
    with pytest.raises(InputError) as error:
        eal_init(args)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(["-l", "--vdev", "--", "--no-huge", *DRIVERS]), st.text(max_size=20)))
)
def test_any_arguments_end_well_or_in_one_line(args):
    try:
        eal_init(args).cleanup()
    except InputError as error:
        assert "\n" not in str(error)


def test_lcores_are_launched_once_and_results_come_back():
    with eal_init(["-l", "0,1,2"]) as eal:
        eal.remote_launch(divmod, 1, 7, 2)
        with pytest.raises(RuntimeError, match="lcore 1 is busy"):
            eal.remote_launch(divmod, 1, 7, 2)
        assert eal.wait_lcore(1, 30) == (3, 1)
        eal.remote_launch(divmod, 1, 9, 2)
        assert eal.wait_lcore(1, 30) == (4, 1)
        with pytest.raises(InputError, match="lcore 5: to launch on are 1, 2"):
            eal.remote_launch(divmod, 5, 7, 2)


def test_leaked_mbufs_are_found_at_the_end():
    with pytest.raises(RuntimeError, match="2 mbufs were never freed"), eal_init([]) as eal:
        eal.pktmbuf_pool_create("pool", 16).alloc(2)
    with eal_init([]) as eal:
        pool = eal.pktmbuf_pool_create("pool", 16)
        pool.free(pool.alloc(2))
        assert eal.ring_create("ring", 16).size == 16


# ---- net_pcap


def frames_of(count: int) -> np.ndarray:
    frames = blank(count)
    frames["agg"]["vertex"] = np.arange(count)
    frames["ethernet"]["dst"][:, 5] = 1
    seal(frames)
    return frames


def opened(port, pool):
    port.configure(pool)
    port.start()
    return port


def test_what_net_pcap_writes_scapy_reads_and_back(tmp_path):
    pool = Mempool(128)
    path = tmp_path / "out.pcap"
    port = opened(PcapEthDev("net_pcap0", tx_file=path), pool)
    mbufs = pool.alloc(100)
    pool.write(mbufs, frames_of(100))
    assert port.tx_burst(mbufs) == 100
    port.close()
    packets = rdpcap(str(path))
    assert [p[Netfold].vertex for p in packets] == list(range(100))
    assert abs(float(packets[0].time) - os.path.getmtime(path)) < 60
    reader = opened(PcapEthDev("net_pcap1", rx_file=path), pool)
    got = np.concatenate([reader.rx_burst(32) for _ in range(5)])
    assert (pool.read(got, FRAME) == frames_of(100)).all() and not reader.link().up
    pool.free(got)
    assert (reader.stats()["ipackets"], port.stats()["opackets"], pool.in_use) == (100, 100, 0)
    reader.stop()
    reader.start()  # from the start again
    again = reader.rx_burst(1)
    assert pool.read(again, FRAME)["agg"]["vertex"].tolist() == [0]


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_every_kind_of_pcap_is_read(tmp_path, endian, nano):
    path = tmp_path / "in.pcap"
    frames = frames_of(3)
    wrpcap(str(path), [Ether(f.tobytes()) for f in frames], endianness=endian, nano=nano)
    pool = Mempool(8)
    got = opened(PcapEthDev("p", rx_file=path), pool).rx_burst()
    assert (pool.read(got, FRAME) == frames).all()


def test_damaged_files(tmp_path):
    path = tmp_path / "in.pcap"
    wrpcap(str(path), [Ether(f.tobytes()) for f in frames_of(3)])
    whole = path.read_bytes()
    pool = Mempool(8)
    for cut in (1, 150, 182, 190):
        path.write_bytes(whole[:-cut])
        port = opened(PcapEthDev("p", rx_file=path), pool)
        got = port.rx_burst()
        assert len(got) == (2 if cut < 198 else 1) and not len(port.rx_burst())
        pool.free(got)
        assert (port.stats()["ierrors"], pool.in_use) == (1, 0)
    for content, said in [
        (b"", "no pcap file"),
        (b"\n\r\r\n" + bytes(40), "pcapng is not read"),
        (whole[:20] + b"\x65" + whole[21:], "not of Ethernet"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=said):
            opened(PcapEthDev("p", rx_file=path), pool)
    for path in (tmp_path / "missing" / "x", tmp_path):
        with pytest.raises(InputError, match=r"No such file|Is a directory"):
            opened(PcapEthDev("p", rx_file=path), pool)
        with pytest.raises(InputError, match=r"No such file|Is a directory"):
            opened(PcapEthDev("p", tx_file=path), pool)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_pcap(tmp_path_factory, raw):
    path = tmp_path_factory.mktemp("pcap") / "x"
    path.write_bytes((b"\xd4\xc3\xb2\xa1" + bytes(16) + b"\x01\0\0\0" + raw) if raw[:1] > b"\x40" else raw)
    pool = Mempool(64)
    try:
        port = opened(PcapEthDev("p", rx_file=path), pool)
    except InputError:
        return
    pool.free(port.rx_burst())
    assert pool.in_use == 0


def test_capture_writes_both_directions(tmp_path):
    pool = Mempool(64)
    link = ShmLink(slots=4)
    far = opened(ShmEthDev("far", link.ends[1]), pool)
    port = opened(Capture("net_capture0", ShmEthDev("near", link.ends[0]), tmp_path / "seen.pcap"), pool)
    mbufs = pool.alloc(6)
    pool.write(mbufs, frames_of(6))
    assert port.tx_burst(mbufs) == 4  # what did not go is not written down, and still ours
    pool.free(mbufs[4:])
    back = far.rx_burst()
    far.tx_burst(back[:2])
    pool.free(back[2:])
    pool.free(port.rx_burst())
    port.close()
    assert [p[Netfold].vertex for p in rdpcap(str(tmp_path / "seen.pcap"))] == [0, 1, 2, 3, 0, 1]
    assert pool.in_use == 0
