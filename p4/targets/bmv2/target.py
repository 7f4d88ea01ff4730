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
from p4.targets.bmv2.control import Control, as_bytes
from p4.targets.bmv2.legacy import LegacyControl
from p4.targets.bmv2.ports import PcapPorts, Ports, VethPorts
from p4.targets.bmv2.process import SwitchProcess, compile_program, may_make_networks
from p4.targets.names import find, take
from p4.targets.target import QUEUE_DEPTH, DigestMessage, MatchValue, Packet, Target, TargetError
from p4.v1 import p4runtime_pb2

PORT_KINDS = ("veth", "pcap")
_THRIFT_PORT = 9090
_DIGEST_WAIT_S = 0.5
_GROUP_SIZE = 128  # members that a selector's group may grow to


class _Item:
    """A part of the P4Info by its name."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.name: str = message.preamble.name
        self.id: int = message.preamble.id


class Bmv2(Target):
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
        quiet_s: float = 0.1,
    ) -> None:
        """`kind`: "veth" (packets any time; needs root) or "pcap" (all packets before the first comes out);
        None: veth where that is allowed. When nothing came out of it for `quiet_s`, the switch counts as done
        with what it was sent: programs that send packets round, and logs, need time.

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
        self._process: SwitchProcess | None = None
        self._control: Control | None = None
        self._ports: Ports | None = None
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
        except BaseException:
            self.close()
            raise
        self._groups: dict[int, list[tuple[int, int]]] = {}
        self._sessions: set[int] = set()
        # What P4Runtime leaves to the controller to number.
        self._entries = self._members = self._member_groups = 0
        for digest in self.p4info.digests:
            self._enable_digest(digest.preamble.id)

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

    def _alive(self) -> tuple[Control, Ports]:
        if self._control is None or self._ports is None or self._process is None:
            raise TargetError("FAILED_PRECONDITION", "the switch is closed")
        self._process.check()
        return self._control, self._ports

    def send(self, port: int, data: bytes) -> None:
        self._alive()[1].send(port, data)

    def receive(self, expected: int = 0) -> list[Packet]:
        return self._alive()[1].receive(expected)

    # ---- tables

    def insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> int:
        return self._add(self._entry(table, match, priority, (action, data)))

    def modify(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> None:
        self._write("MODIFY", self._entry(table, match, priority, (action, data)))

    def delete(self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0) -> None:
        self._write("DELETE", self._entry(table, match, priority, None))

    def set_default(self, table: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> None:
        entity = p4runtime_pb2.Entity()
        info = self._table(table)
        entity.table_entry.table_id = info.preamble.id
        entity.table_entry.is_default_action = True
        self._set_action(entity.table_entry, info, action, data)
        self._write("MODIFY", entity)

    def entry_counters(
        self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0
    ) -> tuple[int, int]:
        entity = p4runtime_pb2.Entity()
        entry = self._entry(table, match, priority, None).table_entry
        entity.direct_counter_entry.table_entry.CopyFrom(entry)
        for answer in self._alive()[0].read(entity):
            counted = answer.direct_counter_entry.data
            return counted.packet_count, counted.byte_count
        raise TargetError("NOT_FOUND", f"table '{table}': no entry with this match")

    def _add(self, entity: p4runtime_pb2.Entity) -> int:
        """A new entry. BMv2 says UNKNOWN of a full table, where P4Runtime has RESOURCE_EXHAUSTED."""
        try:
            self._write("INSERT", entity)
        except TargetError as error:
            number = entity.table_entry.table_id
            info = next(t for t in self.p4info.tables if t.preamble.id == number)
            wanted = p4runtime_pb2.Entity()
            wanted.table_entry.table_id = number
            if error.code == "UNKNOWN" and sum(1 for _ in self._alive()[0].read(wanted)) >= info.size:
                raise TargetError(
                    "RESOURCE_EXHAUSTED", f"table '{info.preamble.name}': it is full ({info.size} entries)"
                ) from None
            raise
        self._entries += 1
        return self._entries - 1

    def _write(self, kind: str, entity: p4runtime_pb2.Entity) -> None:
        self._alive()[0].write(kind, entity)

    def _table(self, name: str) -> Any:
        return self._named("table", self.p4info.tables, name).message

    @staticmethod
    def _named(kind: str, messages: Any, name: str) -> _Item:
        items = [_Item(m) for m in messages]
        return items[find(kind, items, name)]

    def _entry(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        priority: int,
        action: tuple[str, Mapping[str, int] | Sequence[int]] | None,
    ) -> p4runtime_pb2.Entity:
        info = self._table(table)
        entity = p4runtime_pb2.Entity()
        entry = entity.table_entry
        entry.table_id = info.preamble.id
        entry.priority = priority
        left = dict(match)
        for field in info.match_fields:
            value = take(key_name(field.name), left)
            if value is not None:
                _set_match(entry.match, field, value)
        if left:
            names = ", ".join(key_name(f.name) for f in info.match_fields)
            raise TargetError(
                "INVALID_ARGUMENT",
                f"table '{info.preamble.name}' has no key '{next(iter(left))}'; its keys: {names}",
            )
        if action is not None:
            self._set_action(entry, info, *action)
        return entity

    def _set_action(self, entry: Any, table: Any, name: str, data: Mapping[str, int] | Sequence[int]) -> None:
        allowed = {ref.id for ref in table.action_refs}
        self._fill_action(
            entry.action.action, allowed, f"action of table '{table.preamble.name}'", name, data
        )

    def _fill_action(
        self, message: Any, allowed: set[int], kind: str, name: str, data: Mapping[str, int] | Sequence[int]
    ) -> None:
        actions = [a for a in self.p4info.actions if a.preamble.id in allowed]
        info = self._named(kind, actions, name).message
        names = [p.name for p in info.params]
        given = list(data.items()) if isinstance(data, Mapping) else list(zip(names, data, strict=False))
        if {n for n, _ in given} != set(names) or len(data) != len(names):
            raise TargetError(
                "INVALID_ARGUMENT", f"action '{info.preamble.name}' takes {names}, given {list(data)}"
            )
        message.action_id = info.preamble.id
        ids = {p.name: p.id for p in info.params}
        for parameter, value in given:
            added = message.params.add()
            added.param_id = ids[parameter]
            added.value = as_bytes(_unsigned(f"parameter '{parameter}' of action '{name}'", value))

    # ---- action profiles and selectors

    def add_member(self, profile: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> int:
        self._members += 1
        self._write("INSERT", self._member(profile, self._members, (action, data)))
        return self._members

    def modify_member(
        self, profile: str, member: int, action: str, data: Mapping[str, int] | Sequence[int] = ()
    ) -> None:
        self._write("MODIFY", self._member(profile, member, (action, data)))

    def delete_member(self, profile: str, member: int) -> None:
        self._write("DELETE", self._member(profile, member, None))

    def set_group(self, profile: str, members: Sequence[int], *, group: int | None = None) -> int:
        entity = p4runtime_pb2.Entity()
        entry = entity.action_profile_group
        entry.action_profile_id = self._profile(profile).preamble.id
        if group is None:
            self._member_groups += 1
        entry.group_id = self._member_groups if group is None else group
        entry.max_size = max(len(members), _GROUP_SIZE)
        for member in members:
            added = entry.members.add()
            added.member_id, added.weight = member, 1
        self._write("INSERT" if group is None else "MODIFY", entity)
        return int(entry.group_id)

    def delete_group(self, profile: str, group: int) -> None:
        entity = p4runtime_pb2.Entity()
        entity.action_profile_group.action_profile_id = self._profile(profile).preamble.id
        entity.action_profile_group.group_id = group
        self._write("DELETE", entity)

    def insert_indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int = 0,
    ) -> int:
        return self._add(self._indirect(table, match, member, group, priority))

    def modify_indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int = 0,
    ) -> None:
        self._write("MODIFY", self._indirect(table, match, member, group, priority))

    def _indirect(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        member: int | None,
        group: int | None,
        priority: int,
    ) -> p4runtime_pb2.Entity:
        if (member is None) == (group is None):
            raise TargetError("INVALID_ARGUMENT", f"table '{table}': an entry has a member or a group")
        entity = self._entry(table, match, priority, None)
        if member is None:
            entity.table_entry.action.action_profile_group_id = group
        else:
            entity.table_entry.action.action_profile_member_id = member
        return entity

    def _profile(self, name: str) -> Any:
        return self._named("action profile", self.p4info.action_profiles, name).message

    def _member(
        self, profile: str, member: int, action: tuple[str, Mapping[str, int] | Sequence[int]] | None
    ) -> p4runtime_pb2.Entity:
        info = self._profile(profile)
        entity = p4runtime_pb2.Entity()
        entry = entity.action_profile_member
        entry.action_profile_id, entry.member_id = info.preamble.id, member
        if action is not None:
            users = set(info.table_ids)
            allowed = {r.id for t in self.p4info.tables if t.preamble.id in users for r in t.action_refs}
            self._fill_action(entry.action, allowed, f"action of profile '{info.preamble.name}'", *action)
        return entity

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

    def _enable_digest(self, digest_id: int) -> None:
        entity = p4runtime_pb2.Entity()
        entity.digest_entry.digest_id = digest_id
        entity.digest_entry.config.max_list_size = 1
        self._write("INSERT", entity)

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


def key_name(name: str) -> str:
    """A key's name in the P4Info as the program has it: ``h.isValid()`` for ``h.$valid$``."""
    return name.replace("$valid$", "isValid()")


def _unsigned(what: str, value: object) -> int:
    if isinstance(value, bool) or (isinstance(value, int) and value >= 0):
        return int(value)
    raise TargetError("INVALID_ARGUMENT", f"{what}: {value!r} is not an unsigned integer")


def _set_match(fields: Any, info: Any, value: int | tuple[int, int]) -> None:
    """One key's value. A key that matches anything is left out, as P4Runtime wants it."""
    kind = p4info_pb2.MatchField.MatchType.Name(info.match_type)
    what = f"key '{key_name(info.name)}'"
    ones = (1 << info.bitwidth) - 1
    if isinstance(value, tuple) and (kind in ("EXACT", "OPTIONAL") or len(value) != 2):
        raise TargetError("INVALID_ARGUMENT", f"{what} is {kind.lower()}: it takes one value")
    first, second = value if isinstance(value, tuple) else (value, None)
    first = _unsigned(what, first)
    any_match = {"LPM": second == 0, "TERNARY": second == 0, "RANGE": (first, second) == (0, ones)}
    if any_match.get(kind, False):
        return
    field = fields.add()
    field.field_id = info.id
    if kind == "EXACT":
        field.exact.value = as_bytes(first)
    elif kind == "OPTIONAL":
        field.optional.value = as_bytes(first)
    elif kind == "LPM":
        field.lpm.value = as_bytes(first)
        field.lpm.prefix_len = info.bitwidth if second is None else second
    elif kind == "TERNARY":
        field.ternary.value = as_bytes(first)
        field.ternary.mask = as_bytes(ones if second is None else _unsigned(what, second))
    else:
        field.range.low = as_bytes(first)
        field.range.high = as_bytes(first if second is None else _unsigned(what, second))


def _add_replicas(entry: Any, replicas: Sequence[tuple[int, int]]) -> None:
    for port, rid in replicas:
        replica = entry.replicas.add()
        replica.egress_port = port
        replica.instance = rid


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
