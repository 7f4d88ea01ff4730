"""The same test of invalid headers as on the engine."""

from __future__ import annotations

from collections.abc import Callable

from p4.targets.bmv2 import Bmv2
from p4.targets.stf import run_stf_text
from tests.p4.engine.test_invalid_headers import LEFT, PROGRAM, stf


def test_invalid_headers(bmv2: Callable[..., Bmv2]) -> None:
    report = run_stf_text(bmv2(PROGRAM, ports=[1, 2], kind="veth"), stf())
    assert (report.matched, report.failures) == (len(LEFT), [])
