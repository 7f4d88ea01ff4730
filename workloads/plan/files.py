"""A plan on disk: plan.json and one .npy per array; written whole, memory-mapped and checked when read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.cache import new_folder
from workloads.errors import InputError
from workloads.plan.plan import ARRAYS, SCALARS, Plan, plan_digest

FORMAT = "netfold-plan"
FORMAT_VERSION = 1


def check_plan_target(folder: Path) -> None:
    """Raise InputError when a plan must not be saved there: something other than a plan would be replaced."""
    folder = Path(folder)
    if not os.path.lexists(folder):
        return
    ours = {"plan.json", *(f"{name}.npy" for name in ARRAYS)}
    if folder.is_symlink() or not folder.is_dir() or not ours.issuperset(os.listdir(folder)):
        raise InputError(f"plan folder: {folder} is not a plan; allowed: a new name, or a plan to replace")


def save_plan(plan: Plan, folder: Path) -> None:
    """Write the plan to `folder`, replacing a plan that is there; the folder appears whole or not at all.

    Raises InputError when the folder cannot be written or holds something other than a plan.
    """
    folder = Path(folder)
    check_plan_target(folder)
    head = {"format": FORMAT, "version": FORMAT_VERSION, "digest": plan.digest}
    head["scalars"] = {name: getattr(plan, name) for name in SCALARS}
    head["arrays"] = {name: len(getattr(plan, name)) for name in ARRAYS}
    with new_folder(folder) as work:
        for name, dtype in ARRAYS.items():
            np.save(work / f"{name}.npy", getattr(plan, name).astype(dtype, copy=False), allow_pickle=False)
        (work / "plan.json").write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")


def load_plan(folder: Path) -> Plan:
    """Read a plan. The whole content is checked against the digest (~1 s per GB), so a damaged plan never
    runs.

    Raises InputError when the folder is no plan, of another format version, or damaged.
    """
    folder = Path(folder)
    head = _read_head(folder)
    values: dict[str, Any] = {}
    for name, kind in SCALARS.items():
        value = head["scalars"].get(name)
        if type(value) is not kind:
            raise InputError(
                f"plan {folder}: plan.json: {name} is {value!r}; allowed: a value of type {kind.__name__}"
            )
        values[name] = value
    for name, dtype in ARRAYS.items():
        values[name] = _map_array(folder, name, dtype, head["arrays"].get(name))
    if plan_digest(values) != head["digest"]:
        raise InputError(
            f"plan {folder}: its content does not match its digest; it is damaged, make it again"
        )
    return Plan(**values, digest=head["digest"])


def _read_head(folder: Path) -> dict[str, Any]:
    file = folder / "plan.json"
    try:
        head = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"plan {folder}: there is no plan.json in it, so it is not a plan") from None
    except NotADirectoryError:
        raise InputError(
            f"plan {folder}: it is a file; allowed: a folder written by `netfold plan`"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"plan {folder}: plan.json cannot be read: {error}") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise InputError(f"plan {folder}: plan.json is not a netfold plan's")
    if head.get("version") != FORMAT_VERSION:
        raise InputError(f"plan {folder}: format version {head.get('version')!r}; allowed: {FORMAT_VERSION}")
    if not isinstance(head.get("scalars"), dict) or not isinstance(head.get("arrays"), dict):
        raise InputError(f"plan {folder}: plan.json lacks its scalars or arrays")
    return head


def _map_array(folder: Path, name: str, dtype: str, length: object) -> npt.NDArray[np.generic]:
    file = folder / f"{name}.npy"
    try:
        # An empty array cannot be mapped.
        array = np.load(file, mmap_mode="r" if length else None, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"plan {folder}: {name}.npy is missing") from None
    except Exception as error:
        # A damaged header makes numpy's parser raise almost anything, TokenError for one.
        raise InputError(f"plan {folder}: {name}.npy cannot be read: {error}") from None
    if array.ndim != 1 or array.dtype != np.dtype(dtype) or len(array) != length:
        raise InputError(
            f"plan {folder}: {name}.npy is {array.dtype} {array.shape}; plan.json says {dtype} ({length},)"
        )
    array.flags.writeable = False
    return array
