"""Whether dense attention fits, said before it is tried: N x N matrices do not fail gently."""

from __future__ import annotations

import psutil
import torch

from workloads.errors import InputError
from workloads.training.transformer.options import TransformerOptions


def less_memory(options: TransformerOptions) -> str:
    """What to change where memory ran out, for a command that asked for this."""
    ways = ["a smaller --hidden", "fewer --layers"]
    if options.attention == "dense" or (options.attention == "flash" and options.precision != "bfloat16"):
        ways.insert(0, "--system torchgt or gp-sparse, whose memory grows with edges")
    if options.batch is not None:
        ways.insert(0, "a smaller --batch")
    if options.precision != "bfloat16":
        ways.append("--precision bfloat16")
    return f"use {', '.join(ways)}, or more --workers on more machines"


_COPIES = 3
"""Matrices per head that a layer has at a time, forward and backward: scores, weights, a gradient."""


def dense_bytes(options: TransformerOptions, tokens: int, workers: int) -> int:
    """Memory of a dense attention's matrices, of all workers: every layer keeps its weights for the backward
    pass. Queries or heads are shared out, the classes of pairs with all-gather alone.
    """
    size = {"float32": 4, "float64": 8, "bfloat16": 2}[options.precision]
    shape = options.shape
    kept = (shape.layers + _COPIES) * shape.heads * size
    classes = 4 * (workers if options.exchanging == "all-to-all" else 1)
    return tokens**2 * (kept + classes)


def check_fits(options: TransformerOptions, tokens: int, workers: int, device: torch.device) -> None:
    """Raises InputError where a dense attention needs more than is free now."""
    if options.attention != "dense":
        return
    needed = dense_bytes(options, tokens, workers)
    free = torch.cuda.mem_get_info(device)[0] * workers if device.type == "cuda" else _free()
    if needed > free:
        raise InputError(
            f"system: gp-raw needs about {needed / 1e9:.1f} GB for the matrices of {tokens:,} tokens, "
            f"{free / 1e9:.1f} GB are free; {less_memory(options)}"
        )


def _free() -> int:
    return int(psutil.virtual_memory().available)
