"""What training keeps in memory, measured: what autograd saves in a forward pass, and the process's peak."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def kept_for_backward(resident: Iterable[Tensor], *, measure: bool) -> Iterator[Callable[[], int]]:
    """Yields a function that tells how many bytes the forward pass inside saved for its backward pass.

    resident: tensors that are there anyway and do not count. Without `measure` nothing is watched, and it
    tells 0.
    """
    sizes: dict[int, int] = {}
    if not measure:
        yield lambda: 0
        return
    always = {tensor.untyped_storage().data_ptr() for tensor in resident}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in always:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # itself would be a circle of references

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        yield lambda: sum(sizes.values())


def peak_bytes(device: torch.device) -> int:
    """The most memory so far: what torch allocated on a CUDA device, else the process's resident set."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
