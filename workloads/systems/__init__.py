"""The compared systems, one small file each: every module here that defines `SYSTEM` is found by itself."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from workloads.errors import InputError
from workloads.systems.system import System

__all__ = ["STATIC_SYSTEMS", "SYSTEMS", "System", "find_systems"]


def _discover() -> dict[str, System]:
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    found = [module.SYSTEM for module in modules if hasattr(module, "SYSTEM")]
    systems = {system.name: system for system in sorted(found, key=lambda one: (one.position, one.name))}
    if len(systems) != len(found):
        raise RuntimeError("two files in workloads/systems define a system of the same name")
    return systems


SYSTEMS: dict[str, System] = _discover()
STATIC_SYSTEMS = {name: system for name, system in SYSTEMS.items() if not system.dynamic}
"""Those that train a static graph: what is compared unless dynamic ones are asked for."""


def find_systems(names: list[str], *, static: bool = False) -> list[System]:
    """The systems of these names (each may be a comma-separated list), in listing order, each once.

    static: only those that train a static graph. Raises InputError for an unknown name.
    """
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    for name in wanted:
        if name not in SYSTEMS:
            raise InputError(f"--system: {name[:40]!r} given; known are {', '.join(SYSTEMS)}")
    if not wanted:
        raise InputError(f"--system: no name given; known are {', '.join(SYSTEMS)}")
    found = [system for name, system in SYSTEMS.items() if name in wanted]
    for system in found:
        if static and system.dynamic:
            raise InputError(
                f"--system: {system.name} trains a dynamic graph, for `netfold run`; allowed "
                f"here are {', '.join(STATIC_SYSTEMS)}"
            )
    return found
