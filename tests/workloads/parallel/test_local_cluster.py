"""Workers of a local cluster when the fork server that starts them is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from workloads.parallel.cluster import run_workers
from workloads.training.launch import LostServerError


def end_server(flag: str, rank: int, workers: int, report: Any) -> int:
    """Worker 0 ends its fork server the first time, or, with a flag that is never there, each time."""
    path = Path(flag)
    if rank == 0 and not path.exists():
        if path.parent.exists():
            path.touch()
        else:
            report({"epoch": 0})
        os.kill(os.getppid(), signal.SIGKILL)
    return workers


def test_a_lost_fork_server_is_started_again_where_nothing_was_reported(tmp_path):
    assert run_workers(end_server, 2, str(tmp_path / "flag")) == 2
    assert (tmp_path / "flag").exists()


def test_work_that_was_under_way_is_not_begun_again_and_says_why(tmp_path):
    rows: list[dict[str, Any]] = []
    with pytest.raises(LostServerError, match="lost with the process that starts workers"):
        run_workers(end_server, 2, str(tmp_path / "none" / "flag"), rows.append)
    assert rows == [{"epoch": 0}]
