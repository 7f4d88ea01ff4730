"""Our C++ under AddressSanitizer, UBSan and LeakSanitizer: a second build of the extension modules, and runs
on it (sanitized/sitecustomize.py). ns-3, Python and numpy are as ever: of leaks only ours are told."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.p4.engine.test_sanitized import preloads

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "sanitized"  # kept: ninja builds what has changed
FLAGS = (
    "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr "
    "-fno-sanitize-recover=undefined"
)
_OURS = re.compile(r"/sim/native/|netfold_p4/|engine\.so|program\.cpp")


def build_modules() -> Path:
    """The folder of sanitized sim._native and sim._network; minutes the first time."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        configure = [
            "cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
            f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_CXX_FLAGS={FLAGS}",
        ]  # fmt: skip
        for command in (configure, ["ninja", "-C", str(BUILD), "_native", "_network"]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return BUILD / "sim" / "native"


def run_sanitized(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `python command...` from the checkout with the sanitized modules; `folder` takes their reports.

    AssertionError with the first report: an error, undefined behaviour, or memory of ours that was not freed.
    """
    reports = folder / "reports"
    reports.mkdir()
    environment = {
        **os.environ,
        "NETFOLD_SANITIZED": str(build_modules()),
        "PYTHONPATH": f"{Path(__file__).with_name('sanitized')}{os.pathsep}{ROOT}",
        "LD_PRELOAD": preloads(),
        # Python and its modules keep memory to the end: leaks do not decide the status, _problem() does.
        "ASAN_OPTIONS": f"detect_leaks=1:log_path={reports}/asan",
        "LSAN_OPTIONS": "exitcode=0",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}/ubsan",
    }
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    for report in sorted(reports.iterdir()):
        text = report.read_text(errors="replace")
        problem = _problem(text)
        assert problem is None, problem
    return done


def _problem(report: str) -> str | None:
    """What of a report concerns us: all but other people's leaks."""
    if "LeakSanitizer: detected memory leaks" not in report:
        return report[:6000]
    leaks = re.split(r"\n(?=(?:Direct|Indirect) leak of )", report)[1:]
    ours = [leak for leak in leaks if leak.startswith("Direct") and _OURS.search(leak)]
    return "\n".join(ours)[:6000] or None
