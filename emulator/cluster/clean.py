"""What a crash can leave: BMv2's working folders. Nothing of an engine run has a name, so nothing stays."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

PREFIX = "netfold-bmv2-"


def clean() -> int:
    """Remove working folders that no process refers to any more, and say which."""
    used = _command_lines()
    found = [folder for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if folder.is_dir()]
    left = [folder for folder in found if not any(str(folder) in line for line in used)]
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"removed {folder}")
    if not left:
        print("nothing was left behind")
    return 0


def _command_lines() -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended
            continue
    return lines
