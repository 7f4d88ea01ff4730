"""A network's scenario file: what it may say, and one line for everything that it may not."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network.programs import load_programs
from sim.network.routes import expand
from sim.network.scenario import NetworkScenario
from sim.network.scenario_io import dump_network, is_network, load_network
from sim.network.topology import make_topology
from sim.network.traffic import expand_flows
from sim.scenario_io import load_scenario
from tests.sim.network.conftest import EXAMPLES, ROUTER
from workloads.errors import InputError

FLOW = '\n[[flow]]\nfrom = "h0"\nto = "h1"\n'


def load(tmp_path: Path, text: str, **overrides: object) -> NetworkScenario:
    path = tmp_path / "network.toml"
    path.write_text(text)
    return load_network(path, overrides)


def check(scenario: NetworkScenario) -> None:
    """Everything short of running it."""
    topology = make_topology(scenario)
    expand_flows(scenario, topology)
    load_programs(scenario, topology, lambda text: None)
    for number, fault in enumerate(scenario.fault, 1):
        topology.find_links(f"fault {number}: links", fault.links)


WRONG = [
    ("[network]\ntopologie = 1", "network: unknown key 'topologie'; the nearest is topology"),
    ("[network]\n[netwerk]", "'netwerk' has no place beside [network]; the nearest is network"),
    ("[network]\n[flow]", "flow: write [[flow]], once for each"),
    ("[network]\n[graph]", "has no place beside [network]"),
    ('[network]\nduration_ns = "soon"', "network.duration_ns: 'soon' given"),
    ('[network]\ntopology = "ring"', "network.topology: 'ring' given; allowed: \"star\""),
    ('[network]\ntopology = "leaf-spine:0x1"', "at least one of each"),
    ('[network]\ntopology = "leaf-spine:3x1"\nhosts = 4', "a multiple of the 3 leaves is needed"),
    ('[network]\ntopology = "fat-tree:3"', "K is an even number"),
    ('[network]\ntopology = "fat-tree:4"\nhosts = 15', "fat-tree:4 has 16"),
    ("[network]\nhosts = 600", "switch s0: 600 links; at most 511"),
    ('[network]\ntopology = "links"', "needs network.switches"),
    ('[network]\ntopology = "links"\nswitches = "s"\n[[link]]\na = "x"', "link 1: both ends"),
    ('[network]\ntopology = "links"\nswitches = "s"\n[[link]]\na = "x"\nb = "y"', "'s' has no [[link]]"),
    (
        '[network]\ntopology = "links"\nswitches = "s"\n' + 2 * '[[link]]\na = "x"\nb = "s"\n',
        "host x: 2 links given; a host has one",
    ),
    (
        '[network]\ntopology = "links"\nswitches = "s"\n'
        + "".join(f'[[link]]\na = "{x}"\nb = "s"\nport_b = 3\n' for x in "xy"),
        "switch s: port 3 is given to two links",
    ),
    ('[network]\n[[link]]\na = "h0"\nb = "s1"', "'h0-s1' matches no link; the first is h0-s0"),
    ('[network]\n[[address]]\nhost = "h0"\nip = "10.0.0.256"', "address 1: '10.0.0.256' is no IPv4 address"),
    ('[network]\n[[address]]\nhost = "h0"\nip = "224.0.0.1"', "a unicast one"),
    ('[network]\n[[address]]\nhost = "h0"\nip = "10.0.0.2"', "two hosts have the same address"),
    ('[network]\n[[address]]\nhost = "h0"\nmac = "03:00:00:00:00:01"', "expected a unicast MAC"),
    ("[network]" + FLOW, "switch s0: it has no program"),
    ('[network]\n[[switch]]\nprogram = "nowhere.p4"', "switch 1: program = 'nowhere.p4': no such file"),
    ('[network]\n[[switch]]\nprogram = "ipv4.p4"\ndefine = 3', "switch 1: define: 3 given"),
    ("[network]" + ROUTER + 'define = "A-B=1"', "switch 1: define = 'A-B=1' given; expected NAME"),
    ("[network]" + ROUTER + 'include = "none"', "switch 1: include = 'none': no such folder"),
    ("[network]" + ROUTER + "ecn_kmin_bytes = 2000", "ecn_kmin_bytes = 2000 given, but nothing is marked"),
    ("[network]" + ROUTER + "ecn_pmax = 0.5", "ecn_pmax = 0.5 given, but nothing is marked without"),
    ('[network]\n[[switch]]\nnodes = "leaf*"\nprogram = "ipv4.p4"', "'leaf*' is no switch; there are s0"),
    ("[network]" + ROUTER + 'entries = "add nothing k:1 drop()"', "switch s0: line:1: NOT_FOUND: "),
    ("[network]" + ROUTER + 'entries = "packet 1 00"', "packets come from [[flow]]"),
    ("[network]" + ROUTER + 'entries = "none.stf"', "switch s0: entries: none.stf: No such file"),
    ("[network]" + ROUTER.replace("{port}", "{prt}"), "routes: no placeholder {prt}; there are {host}"),
    ("[network]" + ROUTER + 'ecn_kmin_bytes = "2kB"\necn_kmax_bytes = "1kB"', "at most ecn_kmax_bytes"),
    ("[network]" + ROUTER + FLOW.replace("h1", "h8"), "flow 1: to: 'h8' is no host; there are h0 to h7"),
    ("[network]" + ROUTER + FLOW.replace("h1", "h0"), "flow 1: a host would send to itself"),
    ("[network]" + ROUTER + '[[flow]]\nto = "h1"', 'flow 1: no "from" given'),
    ("[network]" + ROUTER + FLOW + 'kind = "sctp"', "flow 1: kind: 'sctp' given; allowed: udp, echo"),
    ("[network]" + ROUTER + FLOW + 'pattern = "some"', "pattern = 'some' given; allowed: pairs"),
    ("[network]" + ROUTER + FLOW.replace('"h0"', '["h0", "h2"]').replace('"h1"', '["h3", "h4", "h5"]'),
     "flow 1: 2 sources and 3 destinations make no pairs"),
    ("[network]" + ROUTER + FLOW + "packet_bytes = 1473", "packet_bytes = 1473 given; 20 to 1472 for udp"),
    ("[network]" + ROUTER + FLOW + 'stop_ns = "11ms"', "end by network.duration_ns"),
    ("[network]" + ROUTER + FLOW + "ecn = 2", "flow 1: ecn: 2 given; expected true or false"),
    ("[network]" + ROUTER + FLOW.replace("h1", "192.0.2.1"), "flow 1: 192.0.2.1 is no host's address"),
    ("[network]" + ROUTER + FLOW + 'listen = "h1"', "listen goes with an address"),
    ("[network]" + ROUTER + "[[fault]]\nloss = 0.1", "fault 1: no links given"),
    ("[network]" + ROUTER + '[[fault]]\nlinks = "h9-s0"', "fault 1: links: 'h9-s0' matches no link"),
    ("[network]" + ROUTER + '[[fault]]\nlinks = "h1-s0"\nloss = 2', "fault 1: loss: 2.0 given; at most 1"),
    ("[network]" + ROUTER + '[[fault]]\nlinks = "h1-s0"\nfrom_ns = 9\nuntil_ns = 8', "after from_ns = 9"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named_in_one_line(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        check(load(tmp_path, text))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_program_that_does_not_compile_says_where(tmp_path: Path) -> None:
    (tmp_path / "bad.p4").write_text("#include <v1model.p4>\ncontrol {\n")
    with pytest.raises(InputError, match=r"switch 1: .*bad\.p4:2:\d+: error: "):
        check(load(tmp_path, '[network]\n[[switch]]\nprogram = "bad.p4"'))


def test_sections_tell_a_network_from_a_propagation(tmp_path: Path) -> None:
    for text, expected in (("[network]", True), ("[graph]\nsource = 'debian'", False), ("", False)):
        (tmp_path / "x.toml").write_text(text)
        assert is_network(tmp_path / "x.toml") is expected
    assert not is_network(None)


def test_commands_for_propagations_refuse_a_network(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[network]\n")
    with pytest.raises(InputError, match="describes a network; `netfold run` takes it"):
        load_scenario(tmp_path / "x.toml")


@pytest.mark.parametrize("name", ["router_128.toml", "load_balancer_128.toml"])
def test_a_resolved_scenario_reads_back_as_itself(tmp_path: Path, name: str) -> None:
    scenario = load_network(EXAMPLES / name, {"network.seed": "7", "links.delay_ns": "2us"})
    text = dump_network(scenario, {"version": "1"})
    again = load(tmp_path, text)
    assert again == scenario
    assert dump_network(again, {"version": "1"}) == text
    assert (again.network.seed, again.links.delay_ns) == (7, 2000)


def test_rules_add_up_and_one_with_a_program_starts_anew(tmp_path: Path) -> None:
    text = '[network]\ntopology = "leaf-spine:2x1"\nhosts = 2\n' + ROUTER + "queue_packets = 7\n"
    text += '[[switch]]\nnodes = "leaf0"\nentries = "add ipv4_lpm hdr.ipv4.dst:9.0.0.0/8 drop()"\n'
    text += f'[[switch]]\nnodes = "spine*"\nprogram = "{EXAMPLES / "l2_switch.p4"}"\n'
    scenario = load(tmp_path, text)
    topology = make_topology(scenario)
    leaf0, leaf1, spine = load_programs(scenario, topology, lambda text: None)
    assert len(leaf0.lines) == 3 and len(leaf1.lines) == 2 and spine.lines == []
    assert [p.path.name for p in (leaf0, leaf1, spine)] == ["ipv4.p4", "ipv4.p4", "l2_switch.p4"]
    assert [p.rule.queue_packets for p in (leaf0, leaf1, spine)] == [7, 7, 7]


def test_routes_take_every_shortest_path_in_turn_or_all_of_them(tmp_path: Path) -> None:
    topology = make_topology(load(tmp_path, '[network]\ntopology = "leaf-spine:2x2"\nhosts = 4'))
    assert topology.addresses == [0x0A000001, 0x0A000002, 0x0A000101, 0x0A000102]
    lines = expand("", ("to {host} {address} by {port} {mac}", "path {n}.{path}/{paths} {port}"), topology)
    assert lines[0] == [
        "to h0 10.0.0.1 by 0 0x20000000001", "path 0.0/1 0",
        "to h1 10.0.0.2 by 1 0x20000000002", "path 1.0/1 1",
        "to h2 10.0.1.1 by 2 0x20100000003", "path 2.0/2 2", "path 2.1/2 3",
        "to h3 10.0.1.2 by 3 0x20100000004", "path 3.0/2 2", "path 3.1/2 3",
    ]  # fmt: skip
    assert lines[3] == [
        "to h0 10.0.0.1 by 0 0x20100000001", "path 0.0/1 0",
        "to h1 10.0.0.2 by 0 0x20100000001", "path 1.0/1 0",
        "to h2 10.0.1.1 by 1 0x20100000002", "path 2.0/1 1",
        "to h3 10.0.1.2 by 1 0x20100000002", "path 3.0/1 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "pairs"),
    [("shift:1", {(0, 1), (1, 2), (2, 0)}), ("all", {(a, b) for a in range(3) for b in range(3) if a != b})],
)
def test_patterns_pair_hosts(tmp_path: Path, pattern: str, pairs: set[tuple[int, int]]) -> None:
    text = f'[network]\nhosts = 3\n[[flow]]\nfrom = "h*"\nto = "h*"\npattern = "{pattern}"'
    scenario = load(tmp_path, text)
    flows = expand_flows(scenario, make_topology(scenario))
    assert {(f.source, f.listeners[0]) for f in flows} == pairs
    assert len({f.port for f in flows}) == len(flows) == len(pairs)


@given(st.integers(2, 40), st.integers(1, 10**6))
@settings(max_examples=50, deadline=None)
def test_a_random_pattern_gives_everyone_one_partner(
    tmp_path_factory: pytest.TempPathFactory, n: int, seed: int
) -> None:
    text = f'[network]\nhosts = {n}\nseed = {seed}\n[[flow]]\nfrom = "h*"\nto = "h*"\npattern = "random"'
    scenario = load(tmp_path_factory.mktemp("x"), text)
    flows = expand_flows(scenario, make_topology(scenario))
    assert sorted(f.source for f in flows) == sorted(f.listeners[0] for f in flows) == list(range(n))
    assert all(f.source != f.listeners[0] for f in flows)


WORDS = st.sampled_from(
    [*'[]{}"=,#*-', "\n", " ", "network", "[network]", "hosts", "switch", "[[switch]]", "[[flow]]",
     "[[link]]", "from", "to", "h0", '"h*"', "true", "1e400", "9" * 30, "program", '"ipv4.p4"',
     '"auto"', "rate_bps", '"10Gbps"', "-1"]
)  # fmt: skip


@given(st.lists(WORDS, max_size=40).map("".join))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with contextlib.suppress(InputError):
        load(tmp_path_factory.mktemp("x"), "[network]\n" + text)


@given(st.dictionaries(st.sampled_from(["topology", "hosts", "duration_ns", "seed", "switches"]),
                       st.one_of(st.integers(-5, 50), st.text(max_size=12), st.booleans(), st.floats(),
                                 st.sampled_from(["star", "leaf-spine:2x3", "fat-tree:4"]))))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_any_values_make_a_topology_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("x") / "network.toml"
    path.write_text("[network]\n")
    with contextlib.suppress(InputError):
        make_topology(load_network(path, {f"network.{name}": value for name, value in values.items()}))
