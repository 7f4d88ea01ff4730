"""BMv2 as a `Target`: programs compiled by p4c, control through P4Runtime, packets at its ports' far ends."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from p4.config.v1 import p4info_pb2
from p4.targets.bmv2.control import Control
from p4.targets.bmv2.legacy import LegacyControl
from p4.targets.bmv2.ports import PcapPorts, VethPorts
from p4.targets.bmv2.process import SwitchProcess, compile_program, may_make_networks
from p4.targets.bmv2.tables import TableControl
from p4.targets.target import QUEUE_DEPTH, DigestMessage, Packet, TargetError
from p4.v1 import p4runtime_pb2

_THRIFT_PORT = 9090
_DIGEST_WAIT_S = 0.5


class Bmv2(TableControl):
    """A program on a simple_switch_grpc of its own.

    ``folder`` has its files, ``log`` among them; close() removes it unless ``keep_log()`` was called.
    """

    def __init__(
        self,
        program: Path,
        *,
        ports: Sequence[int] = tuple(range(8)),
        kind: str | None = None,
        include: Sequence[Path] = (),
        defines: Mapping[str, str] | None = None,
        log_level: str = "debug",
        quiet_s: float = 0.02,
    ) -> None:
        """`kind`: "veth" (packets any time; needs root) or "pcap" (all packets before the first comes out);
        None: veth where that is allowed. When nothing came out for `quiet_s` and none of its threads has work
        the switch counts as done with what it was sent; at 0 receive() takes what is there.

        Raises BuildError (p4c refused the program, or is not there), TargetError (the switch did not start).
        """
        kind = kind or ("veth" if may_make_networks() else "pcap")
        if kind == "veth" and not may_make_networks():
            raise TargetError(
                "PERMISSION_DENIED",
                "ports of kind veth need root (CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW) and iproute2; "
                "ports of kind pcap do without",
            )
        self.folder = Path(tempfile.mkdtemp(prefix="netfold-bmv2-"))
        self._keep = False
        try:
            config, p4info = compile_program(program, self.folder, include=include, defines=defines)
            self._ports = (VethPorts if kind == "veth" else PcapPorts)(self.folder, ports)
            self._ports.quiet_s = quiet_s
            thrift_port = _THRIFT_PORT if kind == "veth" else _free_port()
            self._process = SwitchProcess(
                self.folder,
                [*self._ports.arguments(), "--thrift-port", str(thrift_port)],
                self._ports.wrapper,
                log_level=log_level,
            )
            self._ports.connect(self.pid)
            self._control = Control(self._process.address, config, p4info)
            inside = ["nsenter", f"--net=/proc/{self.pid}/ns/net"] if kind == "veth" else []
            self._legacy = LegacyControl(inside, thrift_port)
            self.p4info = text_format.Parse(p4info.read_text(), p4info_pb2.P4Info(), allow_unknown_field=True)
            for digest in self.p4info.digests:
                self._enable_digest(digest)
        except BaseException:
            self.close()
            raise
        self._groups: dict[int, list[tuple[int, int]]] = {}
        self._sessions: set[int] = set()

    def __enter__(self) -> Bmv2:
        return self

    @property
    def log(self) -> Path:
        """The switch's log; there is none at log level "off"."""
        assert self._process is not None
        return self._process.log

    @property
    def pid(self) -> int:
        """The switch's process."""
        assert self._process is not None
        return self._process.process.pid

    def keep_log(self) -> Path:
        """Lets the log outlive the switch; where it is."""
        self._keep = True
        return self.log

    def close(self) -> None:
        for part in (self._control, self._ports):
            if part is not None:
                part.close()
        if self._process is not None:
            self._process.stop()
        self._control = self._ports = None
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- packets

    def send(self, port: int, data: bytes) -> None:
        self._alive()[1].send(port, data)

    def settle(self) -> None:
        self._alive()[1].settle()

    def receive(self, expected: int = 0) -> list[Packet]:
        return self._alive()[1].receive(expected)

    # ---- replication

    def multicast_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        entity = p4runtime_pb2.Entity()
        entry = entity.packet_replication_engine_entry.multicast_group_entry
        entry.multicast_group_id = group
        _add_replicas(entry, replicas)
        self._write("MODIFY" if group in self._groups else "INSERT", entity)
        self._groups[group] = list(replicas)

    def clone_session(
        self, session: int, *, port: int | None = None, group: int = 0, truncate: int = 0
    ) -> None:
        entity = p4runtime_pb2.Entity()
        entry = entity.packet_replication_engine_entry.clone_session_entry
        entry.session_id = session
        if truncate:
            raise TargetError("UNIMPLEMENTED", "BMv2's P4Runtime does not truncate clones")
        # P4Runtime's sessions have replicas of their own; one that points to a group gets the group's.
        replicas = list(self._groups.get(group, ())) if group else []
        _add_replicas(entry, replicas + ([] if port is None else [(port, 0)]))
        self._write("MODIFY" if session in self._sessions else "INSERT", entity)
        self._sessions.add(session)

    def egress_queue(
        self, port: int, *, rate_pps: int = 0, depth: int = QUEUE_DEPTH, priority: int | None = None
    ) -> None:
        self._alive()
        self._legacy.queue(port, rate_pps, depth, priority)

    # ---- state

    def register_read(self, name: str, index: int) -> int:
        bits, full = self._register(name, index)
        return self._legacy.register_read(full, index) & ((1 << bits) - 1)

    def register_write(self, name: str, index: int, value: int) -> None:
        bits, full = self._register(name, index)
        if not 0 <= value < 1 << bits:
            raise TargetError("INVALID_ARGUMENT", f"register '{full}': {value:#x} does not fit {bits} bits")
        self._legacy.register_write(full, index, value)

    def _register(self, name: str, index: int) -> tuple[int, str]:
        self._alive()
        info = self._named("register", self.p4info.registers, name).message
        if not 0 <= index < info.size:
            raise TargetError(
                "INVALID_ARGUMENT",
                f"register '{info.preamble.name}': index {index}, allowed 0 to {info.size - 1}",
            )
        element = info.type_spec.bitstring
        bits = element.bit.bitwidth or element.int.bitwidth
        return bits, info.preamble.name

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        info = self._named("counter", self.p4info.counters, name)
        entity = p4runtime_pb2.Entity()
        entity.counter_entry.counter_id = info.id
        entity.counter_entry.index.index = index
        for answer in self._alive()[0].read(entity):
            counted = answer.counter_entry.data
            return counted.packet_count, counted.byte_count
        raise TargetError("NOT_FOUND", f"counter '{info.name}': nothing at index {index}")

    def meter_configure(
        self,
        name: str,
        index: int,
        *,
        committed_rate: float,
        committed_burst: float,
        peak_rate: float,
        peak_burst: float,
    ) -> None:
        info = self._named("meter", self.p4info.meters, name)
        entity = p4runtime_pb2.Entity()
        entry = entity.meter_entry
        entry.meter_id = info.id
        entry.index.index = index
        entry.config.cir, entry.config.cburst = round(committed_rate), round(committed_burst)
        entry.config.pir, entry.config.pburst = round(peak_rate), round(peak_burst)
        self._write("MODIFY", entity)

    # ---- digests

    def _enable_digest(self, digest: Any) -> None:
        entity = p4runtime_pb2.Entity()
        entity.digest_entry.digest_id = digest.preamble.id
        entity.digest_entry.config.max_list_size = 1
        try:
            self._write("INSERT", entity)
        except TargetError as error:
            what = f"digest '{digest.preamble.name}': {error}; BMv2 sends digests of a struct with a name"
            raise TargetError(error.code, what) from None

    def digests(self) -> list[DigestMessage]:
        control, _ = self._alive()
        by_id = {d.preamble.id: d for d in self.p4info.digests}
        messages = []
        for batch in control.digests(_DIGEST_WAIT_S):
            info = by_id[batch.digest_id]
            messages += [DigestMessage(info.preamble.name, self._fields(info, data)) for data in batch.data]
        return messages

    def _fields(self, info: Any, data: Any) -> dict[str, int]:
        if info.type_spec.HasField("struct"):
            kind = self.p4info.type_info.structs[info.type_spec.struct.name]
            values = [int.from_bytes(m.bitstring, "big") for m in data.struct.members]
            return dict(zip((m.name for m in kind.members), values, strict=True))
        return {info.preamble.name: int.from_bytes(data.bitstring, "big")}


def _add_replicas(entry: Any, replicas: Sequence[tuple[int, int]]) -> None:
    for port, rid in replicas:
        replica = entry.replicas.add()
        replica.egress_port = port
        replica.instance = rid


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
