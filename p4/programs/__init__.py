"""The switch programs, as P4 source, and where to find them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

FOLDER = Path(str(files("p4.programs").joinpath("")))
SWITCHGNN = FOLDER / "switchgnn.p4"
TNA_SWITCHGNN = FOLDER / "tna" / "switchgnn.p4"
IPV4 = FOLDER / "ipv4.p4"
ATP = FOLDER / "atp.p4"
SWITCHML = FOLDER / "switchml.p4"
