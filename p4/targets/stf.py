"""STF, p4c's simple test format: control commands, packets in, packets expected, against any Target.

add ipv4_lpm hdr.ipv4.dst:10.0.0.0/8 forward(port:2)   # table, match (a priority before it), action
packet 1 0a000001 ff                                     # port, hex
expect 2 0a00**** $                                      # '*' any digit; '$' the packet ends here
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from p4.targets.target import MatchValue, Packet, Target, TargetError

_CALL = re.compile(r"^(?P<name>[\w.$]+)\s*\((?P<args>.*)\)\s*(?:=\s*\w+)?$")
_COMMANDS = (
    "add, setdefault, packet, expect, no_packet, wait, register_write, register_read, "
    "mirroring_add, mirroring_add_mc, mc_mgrp_create, mc_node_create, mc_node_associate"
)


_PACKET_COMMANDS = ("packet", "expect", "no_packet")


class StfError(Exception):
    """A line that is not STF, or a command that the switch refused: ``file:line: what``."""


@dataclass
class Failure:
    """One expectation not met; ``expected`` and ``got`` are hex, "" for no packet."""

    line: int
    port: int
    message: str
    expected: str = ""
    got: str = ""


@dataclass
class Report:
    """What a run sent and saw."""

    sent: int = 0
    matched: int = 0
    failures: list[Failure] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)  # all that came out


@dataclass
class _Expectation:
    line: int
    pattern: str  # hex digits and '*'; None-like "" accepts anything
    exact: bool

    def accepts(self, data: bytes) -> bool:
        got = data.hex()
        if len(got) < len(self.pattern) or (self.exact and len(got) != len(self.pattern)):
            return False
        return all(p in ("*", g) for p, g in zip(self.pattern, got, strict=False))


class _Run:
    def __init__(self, target: Target, path: str) -> None:
        self.target = target
        self.path = path
        self.report = Report()
        self.under_way = False  # packets were sent, and what comes of them was not taken yet
        self.expected: dict[int, list[_Expectation]] = defaultdict(list)
        self.got: dict[int, list[Packet]] = defaultdict(list)
        self.nodes: list[tuple[int, list[int]]] = []
        self.groups: dict[int, list[tuple[int, int]]] = {}

    def error(self, number: int, message: str) -> StfError:
        return StfError(f"{self.path}:{number}: {message}")

    def line(self, number: int, text: str) -> None:
        text = text.split("#", 1)[0].strip()
        if not text:
            return
        word, _, rest = text.partition(" ")
        rest = rest.strip()
        handler = getattr(self, f"do_{word.lower()}", None)
        if handler is None:
            raise self.error(number, f"unknown command '{word}'; there are: {_COMMANDS}")
        try:
            if word.lower() not in _PACKET_COMMANDS:
                self.collect()  # the packets before a command have left the switch when it comes
            handler(number, rest)
        except TargetError as error:
            raise self.error(number, str(error)) from None
        except (ValueError, IndexError):
            raise self.error(number, f"malformed '{word}': {rest}") from None

    # ---- packets

    def do_packet(self, number: int, rest: str) -> None:
        port, _, data = rest.partition(" ")
        if self.under_way:
            self.target.settle()  # one packet after the other, as they are in the file
        self.target.send(int(port), bytes.fromhex(re.sub(r"\s", "", data)))
        self.report.sent += 1
        self.under_way = True

    def collect(self) -> None:
        """Takes what has come out since the last packet went in."""
        if not self.under_way:
            return
        self.under_way = False
        outstanding = sum(len(w) for w in self.expected.values()) - sum(len(g) for g in self.got.values())
        for packet in self.target.receive(max(0, outstanding)):
            self.got[packet.port].append(packet)
            self.report.packets.append(packet)

    def do_expect(self, number: int, rest: str) -> None:
        port, _, data = rest.partition(" ")
        pattern = re.sub(r"\s", "", data).lower()
        exact = pattern.endswith("$")
        pattern = pattern.removesuffix("$")
        if re.search(r"[^0-9a-f*]", pattern):
            raise self.error(number, f"malformed packet: {data}")
        if not port.isdecimal():
            raise ValueError(port)
        self.expected[int(port)].append(_Expectation(number, pattern, exact))

    def do_no_packet(self, number: int, rest: str) -> None:
        pass  # packets that nobody expects fail anyway

    def do_wait(self, number: int, rest: str) -> None:
        pass  # every command but a packet waits for the packets before it

    # ---- tables

    def do_add(self, number: int, rest: str) -> None:
        head, call = self._split_action(number, rest)
        words = head.split()
        table, words = words[0], words[1:]
        priority = 0
        if words and ":" not in words[0]:
            priority, words = int(words[0], 0), words[1:]
        match: dict[str, MatchValue] = {}
        for word in words:
            name, _, value = word.rpartition(":")
            if _key_name(name) in match:
                raise self.error(number, f"key '{_key_name(name)}' is given twice")
            match[_key_name(name)] = _match_value(value)
        action, data = self._action(number, call)
        insert(self.target, table, match, action, data, priority=priority)

    def do_setdefault(self, number: int, rest: str) -> None:
        head, call = self._split_action(number, rest)
        action, data = self._action(number, call)
        self.target.set_default(head.strip(), action, data)

    def _split_action(self, number: int, rest: str) -> tuple[str, str]:
        at = re.search(r"[\w.$]+\s*\([^()]*\)\s*(=\s*\w+\s*)?$", rest)
        if at is None:
            raise self.error(number, "no action: 'name(param:value, ...)' at the end")
        return rest[: at.start()], rest[at.start() :]

    def _action(self, number: int, text: str) -> tuple[str, dict[str, int]]:
        match = _CALL.match(text.strip())
        if match is None:
            raise self.error(number, f"malformed action '{text}'")
        data = {}
        for part in filter(None, (p.strip() for p in match["args"].split(","))):
            name, _, value = part.rpartition(":")
            if name.strip() in data:
                raise self.error(number, f"parameter '{name.strip()}' is given twice")
            data[name.strip()] = int(value.strip(), 0)
        name = match["name"]
        return ("NoAction" if name in ("_NoAction", ".NoAction") else name), data

    # ---- state and replication

    def do_register_write(self, number: int, rest: str) -> None:
        name, index, value = rest.split()
        self.target.register_write(name, int(index, 0), int(value, 0))

    def do_register_read(self, number: int, rest: str) -> None:
        name, index = rest.split()[:2]
        self.target.register_read(name, int(index, 0))

    def do_mirroring_add(self, number: int, rest: str) -> None:
        session, port = (int(w, 0) for w in rest.split())
        self.target.clone_session(session, port=port)

    def do_mirroring_add_mc(self, number: int, rest: str) -> None:
        session, group = (int(w, 0) for w in rest.split())
        self.target.clone_session(session, group=group)

    def do_mirroring_get(self, number: int, rest: str) -> None:
        pass  # prints the session in BMv2's CLI

    def do_mc_mgrp_create(self, number: int, rest: str) -> None:
        self.groups[int(rest, 0)] = []

    def do_mc_node_create(self, number: int, rest: str) -> None:
        rid, *ports = (int(w, 0) for w in rest.split())
        self.nodes.append((rid, ports))

    def do_mc_node_associate(self, number: int, rest: str) -> None:
        group, node = (int(w, 0) for w in rest.split())
        rid, ports = self.nodes[node]
        if group not in self.groups:
            raise self.error(number, f"multicast group {group} was not created")
        self.groups[group] += [(port, rid) for port in ports]
        self.target.multicast_group(group, self.groups[group])

    # ---- the verdict

    def finish(self) -> Report:
        self.collect()
        for port in sorted(set(self.expected) | set(self.got)):
            wanted, got = self.expected[port], self.got[port]
            for expectation, packet in zip(wanted, got, strict=False):
                if expectation.accepts(packet.data):
                    self.report.matched += 1
                else:
                    self._fail(expectation, port, "another packet came out", packet.data.hex())
            for expectation in wanted[len(got) :]:
                self._fail(expectation, port, "no packet came out", "")
            for packet in got[len(wanted) :]:
                failure = Failure(0, port, "a packet came out that nobody expects", "", packet.data.hex())
                self.report.failures.append(failure)
        return self.report

    def _fail(self, expectation: _Expectation, port: int, message: str, got: str) -> None:
        shown = expectation.pattern + ("$" if expectation.exact else "")
        self.report.failures.append(Failure(expectation.line, port, message, shown, got))


def insert(
    target: Target,
    table: str,
    match: dict[str, MatchValue],
    action: str,
    data: dict[str, int],
    *,
    priority: int,
) -> None:
    """An entry whose priority may be missing or superfluous, as STF allows both."""
    try:
        target.insert(table, match, action, data, priority=priority)
    except TargetError as error:
        if "takes no priority" in str(error):
            target.insert(table, match, action, data)
        elif "needs one above 0" in str(error):
            target.insert(table, match, action, data, priority=1)
        else:
            raise


def _key_name(name: str) -> str:
    """``extra$0.h`` is BMv2's name for ``extra[0].h``; ``h.$valid$`` for ``h.isValid()``."""
    return re.sub(r"\$(\d+)", r"[\1]", name.replace("$valid$", "isValid()"))


def _match_value(text: str) -> MatchValue:
    """A number, ``value/prefix``, ``value&&&mask``, ``low->high``, or digits with '*' for a mask."""
    if "->" in text:
        low, high = text.split("->")
        return int(low, 0), int(high, 0)
    if "&&&" in text:
        given, mask = (int(part, 0) for part in text.split("&&&"))
        return given & mask, mask
    if "/" in text:
        address, _, prefix = text.partition("/")
        return _address(address), int(prefix)
    if "*" in text:
        radix, top = (16, "f") if text.startswith("0x") else (2, "1")
        given_bits = "".join("0" if digit == "*" else top for digit in text[2:])
        return int(text[2:].replace("*", "0"), radix), int(given_bits, radix)
    return _address(text)


def _address(text: str) -> int:
    """A number; dotted IPv4 and colon-free hex are numbers too."""
    if text.count(".") == 3:
        return int.from_bytes(bytes(int(p) for p in text.split(".")), "big")
    return int(text, 0)


def ports_named(text: str) -> set[int]:
    """The ports that an STF file sends packets to, expects them from, or replicates them to."""
    ports: set[int] = set()
    for line in text.splitlines():
        word, *rest = line.split("#", 1)[0].lower().split()[:3] or [""]
        where = {"mirroring_add": 1, "mc_node_create": 1}.get(word, 0)
        if word in (*_PACKET_COMMANDS, "mirroring_add", "mc_node_create") and len(rest) > where:
            ports |= {int(rest[where], 0)} if rest[where].isdigit() else set()
    return ports


def read_stf(path: Path) -> str:
    """An STF file's text. Raises StfError if it is none; OSError."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StfError(f"{path}: not a text in UTF-8 (byte {error.start})") from None


def run_stf(target: Target, path: Path) -> Report:
    """Run the commands of a file. Raises StfError for a bad line or a refused command; OSError."""
    return run_stf_text(target, read_stf(path), str(path))


def run_stf_text(target: Target, text: str, path: str = "<stf>") -> Report:
    run = _Run(target, path)
    for number, line in enumerate(text.splitlines(), 1):
        run.line(number, line)
    return run.finish()
