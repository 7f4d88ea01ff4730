"""The scenario: defaults with their sources, limits, and reading from TOML and --set."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.quantities import parse_quantity
from sim.scenario import ClusterSection, CongestionSection, Scenario, SwitchSection
from sim.scenario_io import dump_scenario, find_key, load_scenario, parse_overrides
from workloads.errors import InputError


def from_text(tmp_path: Path, text: str) -> Scenario:
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    return load_scenario(path)


def test_defaults_are_the_papers_cluster() -> None:
    scenario = Scenario()
    assert scenario.cluster.workers == 128
    assert (scenario.cluster.leaves, scenario.cluster.spines, scenario.cluster.hosts_per_leaf) == (8, 8, 16)
    assert scenario.switch.values_per_packet == 30
    assert scenario.switch.aggregators == 100_000_000 // 128
    assert scenario.congestion.ecn_kmin_bytes == 400_000
    assert scenario.congestion.ecn_kmax_bytes == 1_600_000


def test_congestion_scales_with_the_link() -> None:
    scenario = load_scenario(overrides={"cluster.host_link_bps": "25Gbps"})
    assert scenario.congestion.ecn_kmin_bytes == 100_000
    assert scenario.congestion.dcqcn_rai_bps == 5_000_000


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("100MB", "bytes", 100_000_000),
        ("64 KiB", "bytes", 65_536),
        ("1.5us", "ns", 1500),
        ("100Gbps", "bps", 10**11),
        ("25 Gb/s", "bps", 25 * 10**9),
        ("1.2Gpps", "pps", 1_200_000_000),
        ("1e9", "bps", 10**9),
        (250, "ns", 250),
        (1e6, "bytes", 1_000_000),
    ],
)
def test_quantities(text: object, unit: str, expected: int) -> None:
    assert parse_quantity(text, unit, "x") == expected


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("100Mb", "bps"), ("100 parsecs", "ns"), ("1.5ns", "ns"), ("nan", "bytes"), ("inf", "bps"),
        ("", "bytes"), (float("nan"), "bytes"), (float("inf"), "bps"), (True, "bytes"), (None, "ns"),
        ([1], "ns"), ("1e99", "bps"),
        ("9" * 100, "bytes"), ("1MB1", "bytes"), ("٣MB", "bytes"),
    ],
)  # fmt: skip
def test_bad_quantities_are_one_line(text: object, unit: str) -> None:
    with pytest.raises(InputError) as error:
        parse_quantity(text, unit, "section.key")
    assert str(error.value).startswith("section.key: ")
    assert "\n" not in str(error.value)


@given(st.one_of(st.text(max_size=30), st.integers(), st.floats(), st.booleans(), st.binary(max_size=5)))
def test_any_value_is_a_whole_number_or_an_input_error(value: object) -> None:
    for unit in ("bytes", "bps", "ns", "pps"):
        try:
            assert isinstance(parse_quantity(value, unit, "k"), int)
        except InputError as error:
            assert "\n" not in str(error)


@given(st.integers(min_value=0, max_value=10**12))
def test_whole_numbers_survive(value: int) -> None:
    assert parse_quantity(str(value), "bytes", "k") == parse_quantity(value, "bytes", "k") == value


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("cluster.host_link_bps=0", "cluster.host_link_bps"),
        ("cluster.host_link_bps=-1Gbps", "cluster.host_link_bps"),
        ("cluster.host_link_bps=1e30", "cluster.host_link_bps"),
        ("cluster.workers=1", "at least 2"),
        ("cluster.workers=65536", "at most 65535"),
        ("cluster.workers=127", "multiple of the leaves"),
        ("cluster.workers=many", "whole number"),
        ("cluster.topology=torus", "leaf-spine"),
        ("cluster.topology=leaf-spine:0x4", "at least one leaf"),
        ("cluster.topology=leaf-spine:9999x1", "4096"),
        ("loss.rate=1.5", "at most 0.5"),
        ("loss.rate=-0.1", "at least 0"),
        ("loss.rate=nan", "finite"),
        ("loss.mean_burst=0", "at least 1"),
        ("background.load=0.95", "at most 0.9"),
        ("switch.memory_bytes=0", "unlimited"),
        ("switch.memory_bytes=100", "hold no aggregator"),
        ("switch.memory_bytes=-1", "at least 1"),
        ("switch.recirculation=sometimes", "free, tofino"),
        ("switch.aggregator_bytes=1024", None),
        ("cluster.mtu_bytes=128", "mtu"),
        ("switch.pfc_xon_bytes=10MB", "pfc_xoff"),
        ("congestion.ecn_kmin_bytes=2MB", "ecn_kmax_bytes"),
        ("congestion.dcqcn_g=0", "at least"),
        ("switch.pfc=perhaps", "true or false"),
        ("switch.program=mine.p4", 'runs on P4 switches only; set switch.model = "p4"'),
        ("switch.spine_program=mine.p4", "switch.spine_program: 'mine.p4' given, which runs on P4"),
        ("model.layers=0", "at least 1"),
        ("graph.scale=0", "at least"),
        ("run.seed=-1", "at least 0"),
        ("graph.source=a\nb", "printable"),
    ],
)
def test_values_out_of_range(setting: str, named: str | None) -> None:
    name, _, value = setting.partition("=")
    if named is None:
        load_scenario(overrides={name: value})
        return
    with pytest.raises(InputError, match=r".") as error:
        load_scenario(overrides={name: value})
    assert named in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("switch.memory", "switch.memory_bytes"),
        ("cluster.worker", "cluster.workers"),
        ("congestion.ecn_kmin", "congestion.ecn_kmin_bytes"),
        ("memory_bytes", "switch.memory_bytes"),
        ("graph.workers", "cluster.workers"),
    ],
)
def test_unknown_keys_name_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(InputError, match=f"nearest is {nearest}$"):
        find_key(key)


def test_toml_and_overrides(tmp_path: Path) -> None:
    scenario = from_text(
        tmp_path,
        '[graph]\nsource = "ring:100"\n[cluster]\nworkers = 8\ntopology = "star"\nhost_link_bps = "10Gbps"\n'
        "[loss]\nrate = 0\n[switch]\npfc = true\n",
    )
    assert (scenario.graph.source, scenario.cluster.workers) == ("ring:100", 8)
    assert scenario.cluster.host_link_bps == 10**10
    assert scenario.loss.rate == 0.0
    assert scenario.switch.pfc is True
    path = tmp_path / "scenario.toml"
    assert load_scenario(path, parse_overrides(["cluster.workers=4"])).cluster.workers == 4


@pytest.mark.parametrize(
    "text",
    [
        "[graph", "x = 1", "[graph]\nsource = 3", "[grap]\nsource = 'debian'", "[graph]\nsorce = 'debian'",
        "[cluster]\nworkers = 8.0", "[cluster]\nworkers = [8]", "[cluster]\nworkers = true",
        "[[graph]]\nsource = 'a'",
        "[loss]\nrate = nan", "[switch]\npfc = 1", "graph = 'debian'", "\x00", "[graph.source]\na = 1",
    ],
)  # fmt: skip
def test_bad_files_are_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as error:
        from_text(tmp_path, text)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such scenario file"):
        load_scenario(tmp_path / "missing.toml")
    with pytest.raises(InputError, match="cannot be read"):
        load_scenario(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"[graph]\nsource = '\xff'\n")
    with pytest.raises(InputError, match="not valid TOML"):
        load_scenario(tmp_path / "latin.toml")
    (tmp_path / "long.toml").write_bytes(b"#" * 2_000_000)
    with pytest.raises(InputError, match="this is no scenario"):
        load_scenario(tmp_path / "long.toml")


@given(st.binary(max_size=200))
def test_any_bytes_as_a_file(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "scenario.toml"
    path.write_bytes(data)
    try:
        load_scenario(path)
    except InputError as error:
        assert "\n" not in str(error)


KEYS = [f"{part.name}.{item.name}" for part in fields(Scenario) for item in fields(type(part.default))]


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.text(max_size=12) | st.integers().map(str)), max_size=3))
def test_any_settings(settings_given: list[tuple[str, str]]) -> None:
    try:
        load_scenario(overrides=parse_overrides([f"{name}={value}" for name, value in settings_given]))
    except InputError as error:
        assert "\n" not in str(error)


@given(st.text(max_size=40))
def test_any_setting_text(setting: str) -> None:
    try:
        parse_overrides([setting])
    except InputError as error:
        assert "\n" not in str(error)


def varied() -> st.SearchStrategy[Scenario]:
    return st.builds(
        lambda leaves, hosts, memory, load, rate, source: replace(
            Scenario(),
            cluster=ClusterSection(workers=leaves * hosts, topology=f"leaf-spine:{leaves}x3"),
            switch=SwitchSection(memory_bytes=memory, pfc=load > 0.4),
            background=replace(Scenario().background, load=load),
            loss=replace(Scenario().loss, rate=rate),
            graph=replace(Scenario().graph, source=source),
        ),
        st.integers(1, 50),
        st.integers(2, 50),
        st.just(0) | st.integers(128, 10**12),
        st.floats(0, 0.9),
        st.floats(0, 0.5),
        st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=20),
    )


@given(varied())
def test_a_written_scenario_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, scenario: Scenario
) -> None:
    path = tmp_path_factory.mktemp("round") / "scenario.toml"
    path.write_text(dump_scenario(scenario, {"version": "1"}), encoding="utf-8")
    assert load_scenario(path) == scenario


def test_direct_construction_is_checked_too() -> None:
    with pytest.raises(InputError, match="expected int, float given"):
        Scenario(cluster=ClusterSection(workers=8.0))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ecn_pmax"):
        Scenario(congestion=CongestionSection(ecn_pmax=float("nan")))


def test_automatic_pause_threshold_fits_a_small_buffer():
    switch = Scenario(switch=SwitchSection(pfc=True, buffer_bytes=20_000)).switch
    assert switch.pfc_xoff_bytes == 10_000
    tofino = Scenario(switch=SwitchSection(pfc=True, buffer_bytes=22_000_000)).switch
    assert tofino.pfc_xoff_bytes == 3_200_000
