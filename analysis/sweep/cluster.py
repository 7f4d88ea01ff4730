"""Where a sweep's tasks run: this machine, or whatever a running Dask scheduler commands."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from analysis.sweep.memory import budget_bytes
from workloads.errors import InputError

CONNECT_S = 15


@dataclass(frozen=True)
class Cluster:
    """A Dask client, and the memory one worker has to promise; None: its workers declare none."""

    client: Any
    memory_bytes: int | None

    def needs(self, memory_bytes: int) -> dict[str, float] | None:
        """The resources of a task: what it needs, at most a worker's, so that it starts some time."""
        if self.memory_bytes is None:
            return None
        return {"memory": float(min(memory_bytes, self.memory_bytes))}


@contextmanager
def local_cluster(jobs: int | None, memory_bytes: int | None) -> Iterator[Cluster]:
    """Dask in this process: `jobs` at a time (default: the cores), as far as memory goes (default: 80 % of
    what is available). The work itself is in processes of its own, see `task`.
    """
    from distributed import Client, LocalCluster  # noqa: PLC0415  # takes a second

    memory = memory_bytes or budget_bytes()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=jobs or cores or 1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            resources={"memory": float(memory)},
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield Cluster(client, memory)


@contextmanager
def remote_cluster(address: str) -> Iterator[Cluster]:
    """A running scheduler. Raises InputError when it cannot be reached, or its workers' netfold differs."""
    from distributed import Client  # noqa: PLC0415  # takes a second

    try:
        client = Client(address, timeout=CONNECT_S)
    except (OSError, ValueError, TypeError, ImportError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"--scheduler: {address} cannot be reached ({reason})") from None
    with client:
        try:
            versions = client.run(_netfold_version) if client.scheduler_info()["workers"] else {}
        except Exception as error:  # the worker's own: it has no netfold to import
            reason = " ".join(str(error).split())[:120]
            raise InputError(f"--scheduler: the workers of {address} cannot run netfold ({reason})") from None
        wrong = {worker: found for worker, found in versions.items() if found != version("netfold")}
        if wrong:
            worker, found = next(iter(wrong.items()))
            raise InputError(f"--scheduler: {worker} has netfold {found}, here is {version('netfold')}")
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        declared = [worker["resources"].get("memory") for worker in workers]
        known = [int(memory) for memory in declared if memory]
        yield Cluster(client, max(known) if known else None)


def _netfold_version() -> str:
    return version("netfold")
