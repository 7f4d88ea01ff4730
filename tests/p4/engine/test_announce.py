# ruff: noqa: E501 - programs stay on one line a statement
"""Rehearsals of ingress: whatever is announced, nothing changes but how fast it goes."""

import ctypes as c
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4.codegen import generate
from p4.codegen.build import build
from p4.lang import check_text, load_program
from p4.programs import SWITCHGNN
from p4.targets import Engine
from tests.p4.conftest import v1model
from tests.p4.passes import Descriptor, Left, Passes
from tests.p4.programs import switchgnn_net as net

# Everything that has an effect, before and after the first read of memory.
PARTS = {
    "types": "header k_t { bit<8> op; bit<8> at; bit<16> value; } header y_t { bit<8> y; } struct note_t { bit<8> at; }",
    "headers": "k_t k; y_t[3] y;",
    "meta": "bit<32> index;",
    "parser": "state start { p.extract(h.k); transition select(h.k.op) { 9: more; 10: wrong; default: accept; } } state more { p.extract(h.y.next); p.extract(h.y.next); transition accept; } state wrong { verify(false, error.HeaderTooShort); transition accept; }",
    "deparser": "p.emit(h.k); p.emit(h.y);",
    "locals": """
        register<bit<32>>(256) next; register<bit<64>>(4194304) sums; register<bit<16>>(256) small;
        counter(256, CounterType.packets) seen; meter(256, MeterType.packets) rate;
        action add(bit<16> n) { h.k.value = h.k.value + n; small.write((bit<32>)h.k.at, n); }
        direct_counter(CounterType.packets) hits;
        table more { key = { h.k.at: exact; } actions = { add; NoAction; } default_action = NoAction; counters = hits; }
    """,
    "ingress": """
        bit<64> sum; bit<16> kept; bit<32> colour;
        s.egress_spec = 1;
        if (h.k.op == 1) { seen.count((bit<32>)h.k.at); }
        if (h.k.op == 2) { small.write((bit<32>)h.k.at, h.k.value); }
        if (h.k.op == 3) { log_msg("at {}", { h.k.at }); }
        if (h.k.op == 4) { random(h.k.value, 16w0, 16w999); }
        if (h.k.op == 5) { digest<note_t>(1, { h.k.at }); }
        if (h.k.op == 6) { rate.execute_meter(5, colour); h.k.value = (bit<16>)colour; }
        if (h.k.op == 7) { assert(h.k.at < 128); }
        if (h.k.op == 8) { for (bit<16> i in 16w0 .. h.k.value) { m.index = m.index + 1; } }
        more.apply();
        next.read(m.index, (bit<32>)h.k.at);
        sums.read(sum, m.index);
        sums.write(m.index, sum + (bit<64>)h.k.value);
        next.write((bit<32>)h.k.at, m.index + 1);
        h.k.value = sum[15:0];
    """,
}


def make(library: Path) -> Passes:
    switch = Engine(library)
    for at in range(0, 256, 3):
        switch.insert("more", {"at": at}, "add", [at])
    rate = {"committed_rate": 1.0, "committed_burst": 2, "peak_rate": 2.0, "peak_burst": 4}
    switch.meter_configure("ingress.rate", 5, **rate)
    return Passes(switch)


@pytest.fixture(scope="module")
def library(libraries: Path) -> Path:
    return build(generate(check_text(v1model(**PARTS))), folder=libraries)


def state(passes: Passes) -> list[object]:
    switch = passes.switch
    return [
        *(switch.register_array(f"ingress.{name}").tobytes() for name in ("next", "small")),
        switch.register_array("ingress.sums")[:1024].tobytes(),
        [switch.counter_read("ingress.seen", i) for i in range(0, 256, 17)],
        [switch.entry_counters("more", {"at": at}) for at in range(0, 256, 3)],
        switch.log(),
        switch.digests(),
        switch.statistics(),
    ]


packets = st.tuples(st.integers(0, 10), st.integers(0, 255), st.integers(0, 2000), st.binary(max_size=4)).map(
    lambda t: bytes([t[0], t[1]]) + t[2].to_bytes(2, "big") + t[3]
)
announced = st.one_of(st.none(), packets, st.binary(max_size=300), st.just(b"same"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(packets, st.lists(announced, max_size=3)), max_size=10))
def test_announcements_change_nothing(
    library: Path, drawn: list[tuple[bytes, list[bytes | None]]]
) -> None:
    found = []
    for announces in (False, True):
        passes = make(library)
        left = []
        for data, others in drawn:
            for other in others if announces else []:
                if other is not None:
                    passes.announce(3, data if other == b"same" else other)
            left.append(passes.run(3, data)[0])
        found.append([left, *state(passes)])
        passes.switch.close()
    assert found[0] == found[1]


def test_a_packet_in_the_place_of_the_announced_one_is_parsed(library: Path) -> None:
    passes = make(library)
    place = c.create_string_buffer(6)
    place.raw = bytes([0, 1, 0, 7, 0, 0])
    passes.announce(3, place)
    place.raw = bytes([0, 2, 0, 9, 0, 0])
    passes.ingress(3, place)
    assert passes.switch.register_array("ingress.next")[:3].tolist() == [0, 0, 1]
    passes.switch.close()


def test_only_programs_with_much_memory_are_rehearsed() -> None:
    assert "is_announced = true" in generate(check_text(v1model(**PARTS))).source
    small = {**PARTS, "locals": PARTS["locals"].replace("4194304", "65536")}
    assert "is_announced = false" in generate(check_text(v1model(**small))).source


def test_memory_that_only_leads_on_is_no_reason() -> None:
    """Every value that is read is the index of the next read: nothing could be asked for in time."""
    chain = "bit<32> at = (bit<32>)h.k.at; n.read(at, at); n.read(at, at); s.egress_spec = 1;"
    source = generate(
        check_text(v1model(**{**PARTS, "locals": "register<bit<32>>(8388608) n;", "ingress": chain}))
    ).source
    assert "is_announced = false" in source


@pytest.fixture(scope="module")
def switchgnn_pair(libraries: Path) -> Iterator[Callable[[], list[Passes]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("p4.codegen.announce.LARGE_BYTES", 0)
        generated = generate(load_program(SWITCHGNN, defines=net.DEFINES))
    assert "is_announced = true" in generated.source
    library = build(generated, folder=libraries)
    made: list[Engine] = []

    def make_pair() -> list[Passes]:
        pair = [net.make_star(library), net.make_star(library)]
        made.extend(pair)
        return [Passes(switch) for switch in pair]

    yield make_pair
    for switch in made:
        switch.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False))
def test_switchgnn_adds_alike(switchgnn_pair: Callable[[], list[Passes]], rng) -> None:
    """Uploads in any order with copies and damage, each announced, or another in its place."""
    block = net.Block.draw(rng, 4, 12)
    frames = [f.encode() for f in block.uploads(block.draw_features(rng))]
    sent = [rng.choice(frames) for _ in range(3 * len(frames))] + frames
    rng.shuffle(sent)
    found = []
    at_once = rng.random() < 0.5
    for passes, announces in zip(switchgnn_pair(), (False, True), strict=True):
        net.load_blocks(passes.switch, [block])
        passes.pass_at_once(net.RECIRCULATE_PORT, yes=at_once)
        left: list[Left] = []
        waiting: list[Descriptor] = []
        choice, order = np.random.default_rng(1), np.random.default_rng(2)
        for data in sent:
            kind = choice.integers(4)
            if announces and kind:
                other = bytearray(data if kind != 2 else frames[choice.integers(len(frames))])
                if kind == 3:
                    other[choice.integers(len(other))] ^= 1 << int(choice.integers(8))
                passes.announce(1, bytes(other))
            for _ in range(order.integers(3)):  # others' passes come between
                if waiting:
                    waiting += passes.next_pass(waiting.pop(order.integers(len(waiting))).item)
            waiting += passes.ingress(1, data)
            left += passes.output()
        while waiting:
            waiting += passes.next_pass(waiting.pop(0).item)
        left += passes.output()
        found.append((left, net.state(passes.switch)))
    assert found[0][0] == found[1][0]
    assert net.same_state(found[0][1], found[1][1])
    assert found[0][0]  # sums came out
