"""What a worker says when it fails: one line, with what to change where memory ran out."""

from __future__ import annotations

import traceback
from pathlib import Path

LESS_MEMORY = (
    "use a smaller --hidden, fewer --layers, more --workers on more machines, or --system sar, which never "
    "holds a whole halo"
)


def out_of_memory(error: BaseException) -> bool:
    """Whether it is a host's or a CUDA device's lack of memory."""
    told = str(error)
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in told
        or "CUDA out of memory" in told
    )


def describe(error: BaseException) -> str:
    """Kind, message and place, in one line."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    told = str(error).partition("\n")[0][:200]
    if out_of_memory(error):
        told = f"out of memory: {LESS_MEMORY}"
    return f"{type(error).__name__}: {told} ({Path(where.filename).name}:{where.lineno})"
