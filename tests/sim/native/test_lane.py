"""netfold's event lane executes exactly what ns-3's DefaultSimulatorImpl would: same events, same order."""

from __future__ import annotations

import numpy as np
import pytest

from sim.scenario import BackgroundSection, LossSection, RunSection, SwitchSection
from workloads.systems import STATIC_SYSTEMS as SYSTEMS

CASES = {
    "plain": {},
    "loss and background": {"loss": LossSection(rate=0.02), "background": BackgroundSection(load=0.3)},
    "tofino, flow control": {
        "switch": SwitchSection(
            recirculation="tofino", buffer_bytes=400_000, pfc=True, pfc_xoff_bytes=4_000, pfc_xon_bytes=2_000
        )
    },
}


@pytest.mark.parametrize("sections", CASES.values(), ids=CASES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_same_run_on_ns3s_own_simulator(experiment, system, sections):
    case = experiment("les-miserables", topology="leaf-spine:2x2", aggregators=80)
    sections = {**sections, "run": RunSection(packet_sample=1)}
    ours = case.run(system, **sections)
    stock = case.run(system, stock=True, **sections)
    assert ours.summary["packet_hops"] > 100
    # ns-3's own count includes events that were cancelled and only skipped
    assert {**ours.summary, "events": 0} == {**stock.summary, "events": 0}
    for table, columns in ours.tables.items():
        for name, column in columns.items():
            np.testing.assert_array_equal(column, stock.tables[table][name], err_msg=f"{table}.{name}")
