"""simple_switch's own control channel, for what BMv2's P4Runtime lacks: registers and egress queues."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from p4.targets.target import TargetError

_TOOL = "simple_switch_CLI"
_TIMEOUT_S = 30


class LegacyControl:
    """Commands to the Thrift server of a switch, by simple_switch_CLI in the switch's network namespace."""

    def __init__(self, wrapper: Sequence[str], thrift_port: int) -> None:
        self._command = [*wrapper, _TOOL, "--thrift-port", str(thrift_port)]

    def register_read(self, name: str, index: int) -> int:
        said = self._run(f"register_read {name} {index}")
        found = re.search(rf"{re.escape(name)}\[{index}\]\s*=\s*(-?\d+)", said)
        if found is None:
            raise _refusal(said, f"register '{name}', index {index}")
        return int(found[1])

    def register_write(self, name: str, index: int, value: int) -> None:
        said = self._run(f"register_write {name} {index} {value}")
        if "Error" in said or "Invalid" in said:
            raise _refusal(said, f"register '{name}', index {index}")

    def queue(self, port: int, rate_pps: int, depth: int, priority: int | None) -> None:
        level = "" if priority is None else f" {priority}"
        # There is no command for "no rate": this one is beyond what BMv2 can send.
        commands = [
            f"set_queue_depth {depth} {port}{level}",
            f"set_queue_rate {rate_pps or 10**9} {port}{level}",
        ]
        said = self._run("\n".join(commands))
        if "Error" in said or "Invalid" in said:
            raise _refusal(said, f"queues of port {port}")

    def _run(self, commands: str) -> str:
        if not shutil.which(_TOOL):
            raise TargetError(
                "UNIMPLEMENTED",
                f"BMv2's P4Runtime has no registers and no queues, and {_TOOL}, which has, is not on PATH",
            )
        try:
            done = subprocess.run(
                self._command,
                input=commands + "\n",
                capture_output=True,
                text=True,
                check=False,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise TargetError("UNAVAILABLE", f"{_TOOL} did not answer in {_TIMEOUT_S} s") from None
        if done.returncode:
            raise TargetError("UNAVAILABLE", f"{_TOOL}: {(done.stderr or done.stdout).strip()}")
        return done.stdout


def _refusal(said: str, what: str) -> TargetError:
    lines = [line.removeprefix("RuntimeCmd: ").strip() for line in said.splitlines()]
    told = [line for line in lines if line.startswith(("Error", "Invalid"))]
    return TargetError("INVALID_ARGUMENT", f"{what}: {told[0] if told else 'refused by simple_switch'}")
