"""Writing a file whole or not at all: under another name beside it, then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from workloads.errors import InputError


def write_whole(path: Path, writer: Callable[[Path], object], *, what: str = "output") -> None:
    """Let `writer` write the file to the path that it is given; the file then takes the name `path`.

    The temporary name begins with a dot and ends as `path` does, so that writers which go by the suffix do
    what they would. The file's mode is the writer's, which is what the umask leaves when it simply opens it.
    Folders on the way are made. Whatever goes wrong, neither half a file nor the temporary one stays, and an
    older `path` remains. Raises InputError, in one line that begins with `what`, where the place cannot be
    written; other errors of `writer` pass.
    """
    temporary = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        # Where a parent is a file or may not be entered, there is nothing to remove.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"{what}: {path} cannot be written: {error.strerror or error}") from error
        raise
