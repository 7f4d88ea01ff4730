"""The registry of systems: found by itself, consistent, and one small file each."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workloads.systems
from workloads.errors import InputError
from workloads.systems import SYSTEMS, find_systems


def test_the_compared_systems_in_order() -> None:
    assert list(SYSTEMS) == [
        "host", "g3", "strawman", "strawman-ul", "presum", "switchgnn", "switchgnn-residual",
        "switchgnn-no-gamr", "switchgnn-no-blocks",
        "swash", "swash-presum", "full", "full-presum", "dynagraph", "dynahb", "snapshot", "chunk",
    ]  # fmt: skip


def test_every_file_is_one_system() -> None:
    folder = Path(workloads.systems.__file__).parent
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "system"}
    assert names == {name.replace("-", "_") for name in SYSTEMS}


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=list(SYSTEMS))
def test_recipes_are_consistent(system: workloads.systems.System) -> None:
    assert system.blocks in ("multilevel", "single", "none")
    assert system.order in ("gamr", "random", "degree")
    assert system.switching in ("forward", "reserved", "fcfs")
    assert system.in_network == (system.blocks != "none") == (system.cross_sum != "receiver")
    assert (system.switching == "reserved") == (system.blocks == "multilevel")
    assert system.presum == system.name.endswith("presum")
    assert system.source


def test_ablations_differ_in_what_they_ablate() -> None:
    full, no_gamr = SYSTEMS["switchgnn"], SYSTEMS["switchgnn-no-gamr"]
    assert (full.order, no_gamr.order) == ("gamr", "random")
    assert (full.blocks, full.switching, full.residual) == (
        no_gamr.blocks,
        no_gamr.switching,
        no_gamr.residual,
    )


def test_g3_pipelines_in_bins_of_a_thousand_vertices() -> None:
    g3 = SYSTEMS["g3"]
    assert g3.bins_for(2_449_029, 16) == 154
    assert g3.bins_for(60_000, 128) == 5
    assert SYSTEMS["host"].bins_for(2_449_029, 16) == 1


def test_names_may_be_lists_and_repeat() -> None:
    assert [one.name for one in find_systems(["switchgnn, host", "host"])] == ["host", "switchgnn"]


@pytest.mark.parametrize("names", [[""], [], ["hots"], ["host,"], ["host", "x\ny"]])
def test_unknown_names(names: list[str]) -> None:
    if names == ["host,"]:
        assert find_systems(names)
        return
    with pytest.raises(InputError, match="known are host"):
        find_systems(names)


@given(st.lists(st.text(max_size=12) | st.sampled_from(sorted(SYSTEMS)), max_size=4))
def test_any_names(names: list[str]) -> None:
    try:
        assert set(find_systems(names)) <= set(SYSTEMS.values())
    except InputError as error:
        assert "\n" not in str(error)


def test_dynamic_systems_are_refused_where_graphs_are_static() -> None:
    assert [one.name for one in find_systems(["swash,host"])] == ["host", "swash"]
    with pytest.raises(InputError, match="swash trains a dynamic graph") as caught:
        find_systems(["host,swash"], static=True)
    assert "\n" not in str(caught.value)
