"""One line for a command that needs torch where torch is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from workloads.errors import InputError


def require_torch(command: str) -> None:
    """Raises InputError when torch cannot be imported."""
    if find_spec("torch") is None:
        raise InputError(f"{command}: needs torch, which is not installed; pip install 'netfold[train]'")
