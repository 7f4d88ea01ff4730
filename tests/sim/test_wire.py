"""The simulation's header sizes are those of the P4 headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from p4.lang.frontend import check_text
from p4.lang.types import bit_width
from sim import wire
from workloads.plan.traffic import ByteModel

INCLUDE = Path(__file__).parents[2] / "p4" / "programs" / "include"


@pytest.fixture(scope="module")
def header_bytes() -> dict[str, int]:
    """Header type -> bytes, from wire.p4."""
    program = check_text('#include "wire.p4"', include=[INCLUDE])
    widths = {name: bit_width(record) for name, record in program.record_types.items()}
    return {name: width // 8 for name, width in widths.items() if width is not None}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("ethernet_t", wire.ETHERNET_BYTES),
        ("ipv4_t", wire.IPV4_BYTES),
        ("udp_t", wire.UDP_BYTES),
        ("aggregation_t", wire.NETFOLD_BYTES),
        ("values_t", 4 * 30),
    ],
)
def test_header_sizes(header_bytes, header, expected):
    assert header_bytes[header] == expected


def test_the_planners_byte_model_counts_the_same_headers():
    model = ByteModel(width=256, values_per_packet=30)
    assert model.header_bytes == wire.FRAME_OVERHEAD_BYTES - wire.FCS_BYTES
