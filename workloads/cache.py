"""Where computed values are kept between runs, and how they get there whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from workloads.errors import InputError
from workloads.files import write_whole


def cache_root(cache: Path | None = None) -> Path:
    """The cache folder: the argument, else $NETFOLD_CACHE, else ~/.cache/netfold. It need not exist yet."""
    if cache is not None:
        return Path(cache)
    named = os.environ.get("NETFOLD_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "netfold"


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder` that takes its name when the block ends well, and is removed
    otherwise.

    An existing `folder` is replaced. Raises InputError where the place cannot be written.
    """
    folder = Path(os.path.abspath(folder))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise InputError(f"output folder: {folder} cannot be written: {error.strerror or error}") from error
    aside: list[Path] = []
    try:
        yield work
        work.chmod(0o755)
        while True:
            try:
                os.replace(work, folder)
                break
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            # A folder with content cannot be renamed over: step it aside. Another writer may do the same at
            # the same moment, and may have put its own in place by the time we try again.
            aside.append(Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent)))
            with suppress(FileNotFoundError):
                os.replace(folder, aside[-1])
    except OSError as error:
        if aside and not folder.exists():
            with suppress(OSError):
                os.replace(aside[-1], folder)
        raise InputError(f"output folder: {folder} cannot be written: {error.strerror or error}") from error
    finally:
        for left in (work, *aside):
            shutil.rmtree(left, ignore_errors=True)


def load_cached_array(file: Path) -> npt.NDArray[np.generic] | None:
    """An array kept by `store_array`, or None when there is none or it is damaged (it is then computed
    again).
    """
    try:
        return np.load(file, allow_pickle=False)
    except Exception:  # numpy's header parser raises almost anything on a damaged file
        return None


def store_array(file: Path, array: npt.NDArray[np.generic]) -> None:
    """Keep an array in the cache; `file` ends in .npy. A cache that cannot be written is no reason to fail:
    the value is just not kept.
    """
    with suppress(InputError):
        write_whole(file, lambda path: np.save(path, array, allow_pickle=False))
