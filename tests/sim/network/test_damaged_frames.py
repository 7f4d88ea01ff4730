"""A program may send a host anything: frames cut short and headers overwritten are lost, and end nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("udp", 'rate_bps = "1Gbps"\npacket_bytes = 200'),
        ("echo", 'interval_ns = "1us"\npacket_bytes = 200'),
        ("tcp", "bytes = 2000000"),
    ],
)
@pytest.mark.parametrize("arp", ["static", "real"])
def test_damaged_frames_are_lost_and_end_nothing(tmp_path: Path, kind: str, keys: str, arp: str) -> None:
    """A process of its own: ns-3's headers end it where they meet what they cannot read."""
    scenario = tmp_path / "damaged.toml"
    scenario.write_text(
        f'[network]\nhosts = 2\nduration_ns = "3ms"\narp = "{arp}"\n'
        f'[[switch]]\nprogram = "{Path(__file__).with_name("damaging.p4")}"\n'
        f'[[flow]]\nkind = "{kind}"\nfrom = "h0"\nto = "h1"\n{keys}\n'
    )
    command = [sys.executable, "-m", "netfold", "run", str(scenario), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ports = pd.read_parquet(tmp_path / "out" / "ports.parquet")
    assert ports["packets"].sum() > 20


def test_a_ping_answered_with_another_number_is_one_line(tmp_path: Path) -> None:
    scenario = tmp_path / "damaged.toml"
    scenario.write_text(
        '[network]\nhosts = 2\nduration_ns = "3ms"\n'
        f'[[switch]]\nprogram = "{Path(__file__).with_name("damaging.p4")}"\n'
        '[[flow]]\nkind = "ping"\nfrom = "h0"\nto = "h1"\ninterval_ns = "1us"\n'
    )
    command = [sys.executable, "-m", "netfold", "run", str(scenario), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr[-2000:]
    assert "sequence number that was never sent" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.toml"]
