"""Workers of a local cluster when the fork server that starts them is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


def hang(_: None, rank: int, workers: int, report: Any) -> None:
    """Until it is ended."""
    report({"epoch": 0})
    time.sleep(600)


def test_a_lost_fork_server_is_started_again_where_nothing_was_reported(tmp_path):
    assert run_workers(end_server, 2, str(tmp_path / "flag")) == 2
    assert (tmp_path / "flag").exists()


def test_sigterm_to_all_processes_is_an_interrupt_and_no_failure_of_a_worker():
    """As `timeout` sends it: to the launcher, the fork server and the workers."""
    script = (
        "from tests.workloads.parallel.test_local_cluster import hang\n"
        "from workloads.parallel.cluster import run_workers\n"
        "if __name__ == '__main__':\n"
        "    try: run_workers(hang, 2, None, lambda row: print('under way', flush=True))\n"
        "    except KeyboardInterrupt: print('interrupted')\n"
    )
    command = [sys.executable, "-c", script]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert launcher.stdout is not None and launcher.stdout.readline() == "under way\n"
    os.killpg(launcher.pid, signal.SIGTERM)
    assert launcher.communicate(timeout=60)[0] == "interrupted\n"


@pytest.mark.slow
def test_work_that_was_under_way_is_not_begun_again_and_says_why(tmp_path):
    rows: list[dict[str, Any]] = []
    with pytest.raises(LostServerError, match="lost with the process that starts workers"):
        run_workers(end_server, 2, str(tmp_path / "none" / "flag"), rows.append)
    assert rows == [{"epoch": 0}]
