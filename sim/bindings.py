"""netfold's C++ classes beside ns-3's own Python bindings: `from sim.bindings import netfold, ns`.

`netfold.P4Switch`, `netfold.P4SwitchHelper`, `netfold.EthernetLinkDevice`, `netfold.EthernetLinkHelper`
and what else sim/native/stock/*.h have, as cppyy shows them. Importing takes as long as `from ns import
ns` does, about ten seconds. It sets ns-3's time resolution to picoseconds, which P4Switch needs, and
which must come before anything else of ns-3.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cppyy
from ns import ns

from p4.targets.engine import Engine

__all__ = ["install_switch", "netfold", "ns"]

_HEADERS = ("ethernet-link.h", "p4-switch.h")


def _load() -> Any:
    native = find_spec("sim._native")  # beside it, wherever the build put it
    if native is None or native.origin is None:
        raise ImportError("sim._native is not built")
    built = Path(native.origin).parent
    sources = Path(__file__).parent / "native" / "stock"
    cppyy.add_include_path(str(sources if sources.is_dir() else built / "include" / "netfold"))
    cppyy.load_library(str(built / "libnetfold-sim.so"))
    for header in _HEADERS:
        cppyy.include(header)
    ns.Time.SetResolution(ns.Time.PS)
    return cppyy.gbl.netfold


netfold: Any = _load()
# Engines with their switches: the C++ side runs them as long as the simulation lives.
_engines: list[tuple[Any, Engine]] = []


def install_switch(
    node: Any, devices: Iterable[Any], engine: Engine, helper: Any = None, name: str = ""
) -> Any:
    """Make `node` a P4 switch whose ports 0, 1, ... are `devices` (NetDevices); the netfold.P4Switch.

    `engine` is filled through the Target interface before or while the simulation runs. `helper`: a
    netfold.P4SwitchHelper with attributes set.
    """
    ports = ns.NetDeviceContainer()
    for device in devices:
        ports.Add(device)
    made = (helper or netfold.P4SwitchHelper()).Install(
        node, ports, str(engine.library_path), engine.address, name or engine.library_path.parent.name
    )
    _engines.append((made, engine))
    return made
