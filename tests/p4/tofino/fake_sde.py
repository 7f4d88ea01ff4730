"""Stand-ins for the SDE's tools, run under their names: netfold's engine is the model.

Ports are datagram sockets in place of veth interfaces, so that no privileges are needed. They stand for
what the driver relies on (arguments, files, BF Runtime Python), not for the chip.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any


def argument(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def bf_p4c() -> None:
    program = Path(sys.argv[-1])
    if "no such chip" in program.read_text():
        sys.exit("error: this program is refused")
    out = Path(argument("-o"))
    defines = [a[2:] for a in sys.argv if a.startswith("-D")]
    (out / f"{program.stem}.conf").write_text(json.dumps({"program": str(program), "defines": defines}))


class Model:
    """Packets from the ports' sockets through the engine; control calls are lines of JSON on another."""

    def __init__(self) -> None:
        from p4.targets import Engine

        config = json.loads(Path(argument("--p4-target-config")).read_text())
        defines = dict(d.split("=", 1) for d in config["defines"])
        self.engine = Engine.load(Path(config["program"]), defines=defines)
        self.groups: dict[int, tuple[int, int]] = {}
        self.folder = Path(argument("-l"))
        self.sockets = {}
        for entry in json.loads(Path(argument("-f")).read_text())["PortToIf"]:
            port = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            port.bind(entry["if"])
            self.sockets[entry["device_port"]] = port
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.bind(str(self.folder / "control"))
        self.control.listen()

    def run(self) -> None:
        chooser = selectors.DefaultSelector()
        chooser.register(self.control, selectors.EVENT_READ, None)
        for port, opened in self.sockets.items():
            chooser.register(opened, selectors.EVENT_READ, port)
        while True:
            for key, _ in chooser.select():
                if key.data is None:
                    with self.control.accept()[0] as connection, connection.makefile("rw") as lines:
                        request = json.loads(lines.readline())
                        lines.write(json.dumps(self.try_to(*request)) + "\n")
                    continue
                self.engine.send(key.data, key.fileobj.recv(65536))  # type: ignore[union-attr]
                for packet in self.engine.receive():
                    if packet.port in self.sockets:
                        far = str(self.folder / f"h{packet.port}")
                        self.sockets[packet.port].sendto(packet.data, far)

    def try_to(self, path: list[str], arguments: dict[str, Any]) -> Any:
        from p4.targets import TargetError

        try:
            return self.answer(path, arguments)
        except TargetError as error:
            return {"refused": str(error)}

    def answer(self, path: list[str], arguments: dict[str, Any]) -> Any:
        *parts, method = path
        engine = self.engine
        if parts[:2] == ["pre", "node"]:
            self.groups[arguments["MULTICAST_NODE_ID"]] = (
                arguments["DEV_PORT"][0],
                arguments["MULTICAST_RID"],
            )
            return None
        if parts[:2] == ["pre", "mgid"]:
            engine.multicast_group(
                arguments["MGID"], [self.groups[n] for n in arguments["MULTICAST_NODE_ID"]]
            )
            return None
        if parts[0] == "mirror":
            assert arguments["session_enable"] and arguments["ucast_egress_port_valid"]
            engine.clone_session(arguments["sid"], port=arguments["ucast_egress_port"])
            return None
        name = ".".join(parts[2:])
        if method == "get" and "REGISTER_INDEX" in arguments:
            return [[f"b'{name}.f1'", [engine.register_read(name, arguments["REGISTER_INDEX"]), 0]]]
        if method == "get":
            packets, size = engine.counter_read(name, arguments["COUNTER_INDEX"])
            return [["b'$COUNTER_SPEC_PKTS'", packets], ["b'$COUNTER_SPEC_BYTES'", size]]
        if method == "mod" and "REGISTER_INDEX" in arguments:
            engine.register_write(name, arguments["REGISTER_INDEX"], arguments["f1"])
            return None
        return self.table(name, method, arguments)

    def table(self, name: str, method: str, arguments: dict[str, Any]) -> None:
        info = next(t for t in self.engine.schema.tables if t.name == name)
        match: dict[str, Any] = {}
        for key in info.keys:
            short = key.name.rpartition(".")[2]
            second = {"lpm": "_p_length", "ternary": "_mask"}.get(key.match_kind)
            if method.startswith("set_default"):
                continue
            if key.match_kind == "range":
                match[key.name] = (arguments.pop(f"{short}_start"), arguments.pop(f"{short}_end"))
            else:
                value = arguments.pop(short)
                match[key.name] = (value, arguments.pop(short + second)) if second else value
        priority = arguments.pop("MATCH_PRIORITY", 0)
        what, _, action = method.partition("_with_")
        if what == "delete":
            self.engine.delete(name, match, priority=priority)
        elif what == "set_default":
            self.engine.set_default(name, action, arguments)
        else:
            change = {"add": self.engine.insert, "mod": self.engine.modify}[what]
            change(name, match, action, arguments, priority=priority)


class Bfrt:
    """`bfrt.a.b.method(k=v)` as a request to the model."""

    def __init__(self, control: Path, path: tuple[str, ...] = ()) -> None:
        self._control, self._path = control, path

    def __getattr__(self, name: str) -> Bfrt:
        return Bfrt(self._control, (*self._path, name))

    def __call__(self, **arguments: Any) -> Any:
        class Entry:
            data: dict[str, Any]

        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(self._control))
            with connection.makefile("rw") as lines:
                lines.write(json.dumps([self._path, arguments]) + "\n")
                lines.flush()
                got = json.loads(lines.readline() or "null")
        if isinstance(got, dict):
            raise RuntimeError(got["refused"])
        entry = Entry()
        entry.data = dict(got or [])
        return entry


def bfshell() -> None:
    path = Path(argument("-b"))
    control = path.parent / "control"
    if not control.exists() or not (path.parent / "switchd-ready").exists():
        print("cannot connect")  # as bfshell does, with status 0
        return
    try:
        exec(compile(path.read_text(), str(path), "exec"), {"bfrt": Bfrt(control)})
    except Exception as error:
        print(f"{type(error).__name__}: {error}")


def bf_switchd() -> None:
    config = Path(argument("--conf-file"))
    time.sleep(0.3)
    (config.parent / "switchd-ready").touch()
    while True:
        time.sleep(60)


def install(folder: Path) -> None:
    """The tools as executables in `folder`."""
    root = Path(__file__).resolve().parents[3]
    for name in ("bf-p4c", "tofino-model", "bf_switchd", "bfshell"):
        path = folder / name
        path.write_text(
            f"#!{shutil.which(sys.executable) or sys.executable}\n"
            f"import sys; sys.path.insert(0, {str(root)!r})\n"
            f"from tests.p4.tofino import fake_sde\n"
            f"fake_sde.main({name!r})\n"
        )
        path.chmod(0o755)


def main(name: str) -> None:
    if os.environ.get("NETFOLD_FAKE_BROKEN") == name:
        sys.exit(f"{name}: no licence")
    tools = {
        "bf-p4c": bf_p4c,
        "bf_switchd": bf_switchd,
        "bfshell": bfshell,
        "tofino-model": lambda: Model().run(),
    }
    tools[name]()
