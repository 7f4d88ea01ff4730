"""Where a worker computes: on the CPU with gloo, or on a CUDA device of its own with NCCL."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from workloads.errors import InputError
from workloads.training.wire import LostWorkerError

START_S = 600  # for all workers to have loaded the graph


def choose_device(choice: str, local_rank: int, local_workers: int) -> torch.device:
    """The device of the `local_rank`-th of this machine's workers.

    choice: "cpu", "cuda", or "auto", which is CUDA where there are devices enough. Raises InputError where
    "cuda" has fewer devices than workers: NCCL needs one for each.
    """
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if choice == "cpu" or (choice == "auto" and devices < local_workers):
        return torch.device("cpu")
    if devices < local_workers:
        raise InputError(
            f"device: cuda for {local_workers} workers on a machine with {devices} CUDA devices; NCCL "
            "needs one for each; use fewer --workers, more machines or --device cpu"
        )
    return torch.device("cuda", local_rank)


def backend(device: torch.device) -> str:
    """The process group's backends: what the workers agree on lies on the CPU, even where they use CUDA."""
    return "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"


def join_group(
    device: torch.device,
    store: dist.Store,
    rank: int,
    workers: int,
    *,
    threads: int,
    patience_s: float = START_S,
) -> None:
    """Take the device and so many threads of torch, and join the process group that meets at `store`.

    Raises LostWorkerError when not all workers have joined in that time.
    """
    torch.set_num_threads(threads)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store.set(f"netfold-joining-{rank}", "")
    patience = timedelta(seconds=patience_s)
    try:
        dist.init_process_group(backend(device), store=store, rank=rank, world_size=workers, timeout=patience)
    except RuntimeError as error:  # torch's DistError is one
        absent = [other for other in range(workers) if not store.check([f"netfold-joining-{other}"])]
        whom = f"worker {absent[0]}" if absent else "a worker"
        told = (
            f"{whom} did not join within {patience_s:g} s; it hangs, or a slow start needs a longer --timeout"
        )
        raise LostWorkerError(told) from error
    # From here on this is the patience of barriers, which wait for slow disks.
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=START_S))
