"""A TNA program on Intel's tofino-model, where its tools are: compile, start, fill tables, send, receive.

tofino-model runs the compiler's output and has a virtual interface for each port; bf_switchd drives it, and
is driven through bfshell. All three come with the SDE and are looked for on PATH, as is the compiler
(bf-p4c). Written from their public documentation and tested against stand-ins only: no SDE was at hand.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from p4.codegen import generate
from p4.codegen.build import BuildError
from p4.lang import load_program
from p4.targets.bmv2.ports import Ports, VethPorts
from p4.targets.child import Child
from p4.targets.names import checked, find
from p4.targets.target import MatchValue, Packet, Target, TargetError
from p4.tofino import shell

TOOLS = ("tofino-model", "bf_switchd", "bfshell")
COMPILER = "bf-p4c"
_START_S, _CALL_S = 120.0, 120.0


def missing_tools(*, compile_too: bool = True) -> str:
    """What is not on PATH, as a reason to skip; "" if all of it is there."""
    missing = [t for t in (*((COMPILER,) if compile_too else ()), *TOOLS) if not shutil.which(t)]
    return f"tofino-model is not installed: no {' and no '.join(missing)} on PATH" if missing else ""


def compile_tofino(
    program: Path,
    folder: Path,
    *,
    chip: str = "tofino",
    include: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
) -> Path:
    """The compiler's configuration file for a TNA program, in `folder`. Raises BuildError."""
    if not shutil.which(COMPILER):
        raise BuildError(f"no {COMPILER} on PATH: it compiles for {chip}")
    command = [COMPILER, "--std", "p4-16", "--target", chip, "--arch", "tna", "-o", str(folder)]
    command += [f"-I{path}" for path in include]
    command += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True, check=False)
    config = folder / f"{program.stem}.conf"
    if done.returncode or not config.exists():
        raise BuildError(f"{COMPILER} refused {program}:\n{(done.stderr or done.stdout).strip()}")
    return config


class TofinoModel(Target):
    """A running model. Control calls wait until a packet or a read needs them, and go out in one script."""

    def __init__(
        self,
        program: Path,
        ports: Sequence[int],
        *,
        chip: str = "tofino",
        include: Sequence[Path] = (),
        defines: Mapping[str, str] | None = None,
        make_ports: Callable[[Path, Sequence[int]], Ports] = VethPorts,
    ) -> None:
        """`ports`: the device ports that have an interface. Raises P4Error, BuildError or TargetError."""
        missing = missing_tools()
        if missing:
            raise TargetError("UNAVAILABLE", missing)
        self.schema = generate(load_program(program, include=include, defines=defines)).schema
        self._pipe = f"bfrt.{program.stem}.pipe"
        self._waiting: list[str] = []
        self._nodes: dict[int, list[int]] = {}
        self._children: list[Child] = []
        self._folder = tempfile.TemporaryDirectory(prefix="netfold-tofino-")
        self.folder = Path(self._folder.name)
        self._ports: Ports | None = None
        self._inside: list[str] = []
        try:
            config = compile_tofino(program, self.folder, chip=chip, include=include, defines=defines)
            self._start(config, make_ports(self.folder, ports))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> TofinoModel:
        return self

    # ---- processes

    def _start(self, config: Path, ports: Ports) -> None:
        names = [word.partition("@") for word in ports.arguments() if "@" in word]
        listed = [{"device_port": int(port), "if": name} for port, _, name in names]
        (self.folder / "ports.json").write_text(json.dumps({"PortToIf": listed}))
        model = self._run(
            [
                *ports.wrapper,
                "tofino-model",
                "--p4-target-config",
                str(config),
                "-f",
                str(self.folder / "ports.json"),
                "-l",
                str(self.folder),
            ],
            "tofino-model",
        )
        if ports.wrapper:  # the others talk to the model by TCP, and must be in its network
            self._inside = ["nsenter", f"--net=/proc/{model.pid}/ns/net"]
        install = os.environ.get("SDE_INSTALL", "/usr/local")
        command = ["bf_switchd", "--install-dir", install, "--conf-file", str(config), "--skip-p4=false"]
        self._run([*self._inside, *command], "bf_switchd")
        end = time.monotonic() + _START_S
        while True:
            try:
                self._shell([])
                break
            except TargetError as error:
                self._check()
                if time.monotonic() > end:
                    raise TargetError("UNAVAILABLE", f"bf_switchd is not ready: {error}") from None
                time.sleep(0.2)
        ports.connect(model.pid)
        self._ports = ports

    def _run(self, command: Sequence[str], name: str) -> subprocess.Popen[bytes]:
        child = Child(command, self.folder / f"{name}.log", cwd=self.folder)
        self._children.append(child)
        return child.process

    def _check(self) -> None:
        for child, name in zip(self._children, TOOLS, strict=False):
            status = child.process.poll()
            if status is not None:
                raise TargetError("UNAVAILABLE", f"{name} ended (status {status}){child.last_words()}")

    def close(self) -> None:
        for child in reversed(self._children):
            child.stop()
        self._children.clear()
        if self._ports is not None:
            self._ports.close()
            self._ports = None
        self._folder.cleanup()

    # ---- control

    def _shell(self, lines: Sequence[str]) -> list[object]:
        path = self.folder / "calls.py"
        path.write_text(shell.script(lines))
        command = [*self._inside, "bfshell", "-b", str(path)]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=_CALL_S,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise TargetError("DEADLINE_EXCEEDED", f"bfshell did not answer in {_CALL_S:.0f} s") from None
        return shell.answers(done.stdout + done.stderr)

    def _flush(self, *reads: str) -> list[object]:
        lines, self._waiting = [*self._waiting, *reads], []
        return self._shell(lines) if lines else []

    def _table(
        self,
        method: str,
        table: str,
        match: Mapping[str, MatchValue] | None,
        action: str | None = None,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> None:
        info = self.schema.tables[find("table", self.schema.tables, table)]
        arguments = {} if match is None else shell.keys(info, match, priority)
        if action is not None:
            at = info.actions[find(f"action of table '{info.name}'", info.actions, action)]
            method = f"{method}_with_{shell.field(at.name)}"
            arguments.update(shell.data(at, data))
        self._waiting.append(shell.call(f"{self._pipe}.{info.name}", method, arguments))

    def insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> int:
        """As Target's; the number is only the call's."""
        self._table("add", table, match, action, data, priority=priority)
        return len(self._waiting)

    def modify(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        data: Mapping[str, int] | Sequence[int] = (),
        *,
        priority: int = 0,
    ) -> None:
        self._table("mod", table, match, action, data, priority=priority)

    def delete(self, table: str, match: Mapping[str, MatchValue], *, priority: int = 0) -> None:
        self._table("delete", table, match, priority=priority)

    def set_default(self, table: str, action: str, data: Mapping[str, int] | Sequence[int] = ()) -> None:
        self._table("set_default", table, None, action, data)

    def multicast_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        if checked("multicast group", group, 16) == 0:
            raise TargetError("INVALID_ARGUMENT", "multicast group 0 means none: groups begin at 1")
        for port, rid in replicas:
            checked("port", port, 9)
            checked("rid", rid, 16)
        lines, self._nodes[group] = shell.group_lines(group, replicas, self._nodes.get(group, []))
        self._waiting += lines

    def clone_session(
        self, session: int, *, port: int | None = None, group: int = 0, truncate: int = 0
    ) -> None:
        """A mirror session, in both directions."""
        arguments: dict[str, object] = {
            "sid": checked("mirror session", session, 10),
            "direction": "BOTH",
            "session_enable": True,
            "max_pkt_len": truncate or 16383,
        }
        if port is not None:
            arguments.update(ucast_egress_port=checked("port", port, 9), ucast_egress_port_valid=True)
        if group:
            arguments.update(mcast_grp_a=checked("group", group, 16), mcast_grp_a_valid=True)
        self._waiting.append(shell.call("bfrt.mirror.cfg", "add_with_normal", arguments))

    def register_read(self, name: str, index: int) -> int:
        """Of pipe 0; a pair with its first word in the low bits."""
        info = self.schema.registers[find("register", self.schema.registers, name)]
        [fields] = self._flush(shell.read_line(f"{self._pipe}.{info.name}", "REGISTER_INDEX", index))
        words = [int(per_pipe[0]) for _, per_pipe in fields]  # type: ignore[attr-defined]
        return sum(word << (info.bits // len(words) * at) for at, word in enumerate(words))

    def register_write(self, name: str, index: int, value: int) -> None:
        info = self.schema.registers[find("register", self.schema.registers, name)]
        given = {"REGISTER_INDEX": index, "f1": checked(f"register '{name}'", value, info.bits)}
        self._waiting.append(shell.call(f"{self._pipe}.{info.name}", "mod", given))

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        info = self.schema.counters[find("counter", self.schema.counters, name)]
        [fields] = self._flush(shell.read_line(f"{self._pipe}.{info.name}", "COUNTER_INDEX", index))
        counted = {str(k).strip("b'"): int(v) for k, v in fields}  # type: ignore[attr-defined]
        return counted.get("$COUNTER_SPEC_PKTS", 0), counted.get("$COUNTER_SPEC_BYTES", 0)

    # ---- packets

    def send(self, port: int, data: bytes) -> None:
        self._flush()
        assert self._ports is not None
        self._ports.send(port, data)

    def settle(self) -> None:
        self._flush()
        assert self._ports is not None
        self._ports.settle()

    def receive(self, expected: int = 0) -> list[Packet]:
        self._flush()
        assert self._ports is not None
        packets = self._ports.receive(expected)
        self._check()
        return packets
