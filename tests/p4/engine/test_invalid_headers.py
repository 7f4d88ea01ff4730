# ruff: noqa: E501 - each operation stays on one line
"""setValid() of an invalid header zeroes it, a checksum leaves invalid headers out: as BMv2 does."""

from __future__ import annotations

from collections.abc import Callable

from p4.targets import Engine
from p4.targets.stf import run_stf_text
from tests.p4.conftest import v1model

PROGRAM = v1model(
    types="header k_t { bit<8> op; } header a_t { bit<16> x; bit<16> y; } header v_t { varbit<64> v; } header r_t { bit<16> sum; }",
    headers="k_t k; a_t a; v_t v; r_t r;",
    parser="state start { p.extract(h.k); p.extract(h.a); p.extract(h.v, 16); transition accept; }",
    ingress="""
        s.egress_spec = 2; h.r.setValid();
        if (h.k.op == 1) { h.a.setInvalid(); h.a.setValid(); }
        if (h.k.op == 2) { h.a.setInvalid(); h.a.x = 5; h.a.setValid(); h.a.y = 6; }
        if (h.k.op == 3) { h.a.setValid(); }
        if (h.k.op == 4) { h.a.setInvalid(); }
        if (h.k.op == 5) { h.v.setInvalid(); }
        if (h.k.op == 6) { h.v.setInvalid(); h.v.setValid(); }
        if (h.k.op == 7) { a_t z; z.x = 7; h.a = z; }
        if (h.k.op == 8) { h.a.setInvalid(); h.v.setInvalid(); }""",
    compute="update_checksum(true, { h.k.op, h.v.v, h.a.x, 8w0, h.a.y }, h.r.sum, HashAlgorithm.csum16);",
    deparser="p.emit(h);",
)
# op: the bytes of a, of v, and what the checksum is over
LEFT = {
    0: ("11112222", "aabb", "00 aabb 1111 00 2222"),
    1: ("00000000", "aabb", "01 aabb 0000 00 0000"),
    2: ("00000006", "aabb", "02 aabb 0000 00 0006"),
    3: ("11112222", "aabb", "03 aabb 1111 00 2222"),
    4: ("", "aabb", "04 aabb 00"),
    5: ("11112222", "", "05 1111 00 2222"),
    6: ("11112222", "0000", "06 0000 1111 00 2222"),
    7: ("", "aabb", "07 aabb 00"),
    8: ("", "", "08 00"),
}


REST = "ee" * 14  # as short as a veth pair carries


def internet_sum(data: bytes) -> int:
    total = sum(int.from_bytes(data[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def stf() -> str:
    lines = []
    for op, (a, v, summed) in LEFT.items():
        lines.append(f"packet 1 {op:02x} 11112222 aabb {REST}")
        lines.append(f"expect 2 {op:02x} {a} {v} {internet_sum(bytes.fromhex(summed)):04x} {REST} $")
    return "\n".join(lines)


def test_on_the_engine(engine: Callable[..., Engine]) -> None:
    report = run_stf_text(engine(PROGRAM), stf())
    assert (report.matched, report.failures) == (len(LEFT), [])
