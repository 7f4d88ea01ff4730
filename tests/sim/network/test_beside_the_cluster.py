"""Both extension modules in one process: ns-3's clock stays in picoseconds, whichever comes first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_RUN = """
import sys
import netfold

CLUSTER = ["run", "--graph", "karate", "--workers", "4", "--topology", "star", "--system", "switchgnn",
           "--recirculation", "free", "--no-plots", "--json", "-o"]
NETWORK = ["run", "docs/examples/router_128.toml", "--json", "-o"]
for turn, what in enumerate(sys.argv[2]):
    given = CLUSTER if what == "c" else NETWORK
    assert netfold.main([*given, f"{sys.argv[1]}/{turn}"]) == 0
"""


@pytest.mark.parametrize("order", ["cnc", "ncn"])
def test_a_cluster_and_a_network_by_turns(order: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(tmp_path), order],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    first, last = (sorted((tmp_path / str(turn)).rglob("*.parquet")) for turn in (0, 2))
    assert [path.name for path in first] == [path.name for path in last] != []
    for one, other in zip(first, last, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
