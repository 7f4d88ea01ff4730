"""Plans already made, kept in the cache folder by content, since a large one takes METIS tens of seconds."""

from __future__ import annotations

import hashlib
from pathlib import Path

from workloads.cache import cache_root
from workloads.errors import InputError
from workloads.plan.files import load_plan, save_plan
from workloads.plan.plan import Plan

MAKER_VERSION = 1
"""Raise it whenever the same arguments give another plan: cached plans are then made anew."""

WORTH_KEEPING_EDGES = 500_000
"""Cross edges from which a plan takes longer to make than to read."""


def plan_folder(cache: Path | None, recipe: str) -> Path:
    """Where the plan made by these arguments is kept. `recipe` names all of them, graph and partition by
    digest.
    """
    key = hashlib.sha256(f"netfold-plan-maker-{MAKER_VERSION} {recipe}".encode()).hexdigest()[:32]
    return cache_root(cache) / "plans" / key


def kept_plan(folder: Path) -> Plan | None:
    """The plan kept there; None when there is none or it is damaged, so that it is made again."""
    if not folder.is_dir():
        return None
    try:
        return load_plan(folder)
    except InputError:
        return None


def keep_plan(folder: Path, plan: Plan) -> None:
    """Keep a plan that is worth it. A cache that cannot be written is no reason to fail."""
    if len(plan.adj) < WORTH_KEEPING_EDGES:
        return
    try:
        save_plan(plan, folder)
    except InputError:
        return
