"""What a Dask worker does for a sweep: start the process that works, listen to it, and tell how it ended."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from analysis.sweep.child import LENGTH, PrepareRequest, RunRequest

ROOT = Path(__file__).resolve().parents[2]  # a checkout's root, or site-packages
_running: set[subprocess.Popen[bytes]] = set()
_guard = threading.Lock()
_stopping = threading.Event()


def carry_out(request: PrepareRequest | RunRequest) -> dict[str, Any]:
    """Run a request in a process of its own. The process's answer, or one of these in its place:

    {"outcome": "unreachable"} where this machine does not see the sweep's folder, "stopped" after `stop_all`,
    "killed" with the signal's number.
    """
    if not request.root.is_dir():
        return {"outcome": "unreachable"}
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with _guard:
        if _stopping.is_set():
            return {"outcome": "stopped"}
        process = subprocess.Popen(
            [sys.executable, "-m", "analysis.sweep"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        _running.add(process)
    try:
        return _converse(process, request)
    finally:
        process.kill()
        process.wait()
        with _guard:
            _running.discard(process)


def _converse(process: subprocess.Popen[bytes], request: PrepareRequest | RunRequest) -> dict[str, Any]:
    assert process.stdin and process.stdout and process.stderr
    errors: list[bytes] = []
    listener = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)  # type: ignore[union-attr]
    listener.start()
    answer: dict[str, Any] | None = None
    try:
        content = pickle.dumps(request)
        process.stdin.write(LENGTH.pack(len(content)) + content)
        process.stdin.flush()
        for line in process.stdout:
            try:
                message = json.loads(line)
            except ValueError:  # a library's own print
                continue
            if isinstance(message, dict):
                answer = message.get("answer", answer)
    except BrokenPipeError:
        pass  # it ended before it had heard all
    code = process.wait()
    listener.join(timeout=5)
    if answer is not None:
        return answer
    if _stopping.is_set():
        return {"outcome": "stopped"}
    if code < 0:
        return {"outcome": "killed", "signal": -code}
    said = b"".join(errors).decode(errors="replace").strip()
    last = said.splitlines()[-1][:200] if said else "no message"
    return {"outcome": "failed", "reason": f"its process ended with status {code}: {last}", "trace": said}


def stop_all() -> None:
    """End all processes of this machine's tasks; what they were at is left undone."""
    with _guard:
        _stopping.set()
        for process in _running:
            process.kill()


def allow() -> None:
    """Let tasks run (again)."""
    _stopping.clear()
