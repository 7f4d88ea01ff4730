"""p4c and simple_switch_grpc as child processes: compile a program, start a switch, stop it, keep its log."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from p4.codegen.build import BuildError
from p4.targets.child import Child
from p4.targets.target import TargetError

COMPILERS = ("p4c-bm2-ss", "p4c")
SWITCH = "simple_switch_grpc"
LOG_LEVELS = ("trace", "debug", "info", "warn", "error", "off")
_START_S = 60.0


def missing_tools() -> str:
    """What of BMv2 is not on PATH, as a reason to skip; "" if all of it is there."""
    missing = [] if any(map(shutil.which, COMPILERS)) else [COMPILERS[0]]
    missing += [] if shutil.which(SWITCH) else [SWITCH]
    return f"BMv2 is not installed: no {' and no '.join(missing)} on PATH" if missing else ""


def compile_program(
    program: Path, folder: Path, *, include: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> tuple[Path, Path]:
    """(BMv2's JSON, P4Info in text form) of a v1model program, made by p4c in `folder`.

    Raises BuildError with p4c's messages.
    """
    config, p4info = folder / "program.json", folder / "p4info.txtpb"
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise BuildError(missing_tools())
    command = [compiler, "--std", "p4-16", "--arch", "v1model", "--p4runtime-files", str(p4info)]
    if Path(compiler).name == COMPILERS[0]:
        command += ["-o", str(config)]
    else:
        command += ["--target", "bmv2", "-o", str(folder)]
        config = folder / f"{program.stem}.json"
    command += [f"-I{path}" for path in include]
    command += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    alone = ["setpriv", "--pdeathsig", "KILL"]  # it ends with us, as the switch does (Child)
    done = subprocess.run([*alone, *command, str(program)], capture_output=True, text=True, check=False)
    if done.returncode or not config.exists():
        raise BuildError(f"p4c refused {program}:\n{(done.stderr or done.stdout).strip()}")
    return config, p4info


class SwitchProcess:
    """A running simple_switch_grpc. It dies with its parent."""

    def __init__(
        self, folder: Path, interfaces: Sequence[str], wrapper: Sequence[str], *, log_level: str
    ) -> None:
        """`interfaces`: the arguments that name the ports; `wrapper`: a command that the switch is run by."""
        self.address = f"unix:{folder / 'p4runtime.sock'}"
        self.log = folder / "switch.txt"  # simple_switch names it so
        command = [*wrapper, SWITCH, *interfaces, "--no-p4", "--device-id", "0"]
        if log_level != "off":
            command += ["--log-file", str(self.log.with_suffix("")), "--log-flush"]
        command += ["--log-level", log_level, "--", "--grpc-server-addr", self.address]
        self._child = Child(command, folder / "console.log")
        self.process = self._child.process
        self._wait_for_socket(folder / "p4runtime.sock")

    def _wait_for_socket(self, socket: Path) -> None:
        end = time.monotonic() + _START_S
        while not socket.exists():
            self.check()
            if time.monotonic() > end:
                self.stop()
                raise TargetError("UNAVAILABLE", f"{SWITCH} did not start in {_START_S:.0f} s")
            time.sleep(0.02)

    def check(self) -> None:
        """Raises TargetError if the switch has ended."""
        status = self.process.poll()
        if status is None:
            return
        why = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        raise TargetError("UNAVAILABLE", f"{SWITCH} ended ({why}){self._child.last_words()}")

    def stop(self) -> None:
        self._child.stop()


def may_make_networks() -> bool:
    """Whether this process may make network namespaces and virtual interfaces."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0
