"""Which register arrays lie interleaved, and reads that nothing uses."""

import re
from collections.abc import Callable

from p4.codegen import generate
from p4.lang import check_text, load_program
from p4.programs import SWITCHGNN
from p4.targets import Engine
from tests.p4.conftest import v1model

PARTS = {
    "types": "header k_t { bit<32> at; bit<32> other; bit<32> found; }",
    "headers": "k_t k;",
    "parser": "state start { p.extract(h.k); transition accept; }",
    "deparser": "p.emit(h.k);",
}


def records(source: str) -> dict[str, int]:
    """The record of each register array."""
    found = re.findall(r"RegisterArray<\S+ \d+u, record_(\d+)_bytes_> (\w+)", source)
    return {name: int(record) for record, name in found}


def of(registers: str, ingress: str) -> dict[str, int]:
    return records(generate(check_text(v1model(**PARTS, locals=registers, ingress=ingress))).source)


def declared(*names: str, size: int = 100, width: int = 32) -> str:
    return " ".join(f"register<bit<{width}>>({size}) {name};" for name in names)


def read(name: str, index: str) -> str:
    return f"{name}.read(h.k.found, {index});"


def test_arrays_that_are_read_at_one_index_lie_together() -> None:
    found = of(
        declared("a", "b", "d"), read("a", "h.k.at") + read("b", "h.k.other") + read("d", "h.k.at + 0")
    )
    assert len(set(found.values())) == 3
    found = of(declared("a", "b", "d"), read("a", "h.k.at") + read("b", "h.k.other") + read("d", "h.k.at"))
    assert found["a"] == found["d"] != found["b"]


def test_what_is_read_at_two_indices_joins_both() -> None:
    indices = [("a", "h.k.at"), ("b", "h.k.at"), ("b", "h.k.other"), ("d", "h.k.other")]
    assert len(set(of(declared("a", "b", "d"), "".join(read(*i) for i in indices)).values())) == 1


def test_arrays_of_other_sizes_lie_apart() -> None:
    both = declared("a") + declared("b", size=99)
    found = of(both, read("a", "h.k.at") + read("b", "h.k.at"))
    assert found["a"] != found["b"]


def test_a_record_a_little_longer_than_its_cache_lines_leaves_its_first_array_apart() -> None:
    names = [f"r{n}" for n in range(17)]
    found = of(declared(*names), "".join(read(n, "h.k.at") for n in names))
    assert found["r0"] not in [found[n] for n in names[1:]] and len({found[n] for n in names[1:]}) == 1
    names = names[:13]  # no more than a line
    assert len(set(of(declared(*names), "".join(read(n, "h.k.at") for n in names)).values())) == 1


def test_an_aggregator_of_switchgnn_fills_two_cache_lines() -> None:
    found = records(generate(load_program(SWITCHGNN)).source)
    values = {found[f"value{n}"] for n in range(30)}
    assert values == {found["tag"]} == {found["count"]}
    assert len([name for name, record in found.items() if record == found["tag"]]) == 32
    assert found["entry_owner"] == found["entry_expected"] == found["entry_degree"] == found["entry_edge"]


def test_every_array_keeps_its_elements_wherever_they_lie(engine: Callable[..., Engine]) -> None:
    names = [f"r{n}" for n in range(18)]
    reads = "".join(f"{n}.read(x, h.k.at); {n}.write(h.k.at, x + {i}); " for i, n in enumerate(names, 1))
    switch = engine(
        **PARTS, locals=declared(*names), ingress=f"bit<32> x; {reads} h.k.found = x; s.egress_spec = 1;"
    )
    for at in (0, 99, 99, 100):
        switch.send(0, at.to_bytes(4, "big") + bytes(8))
    assert [int.from_bytes(p.data[8:12], "big") for p in switch.receive()] == [0, 0, 18, 0]
    for n, name in enumerate(names, 1):
        assert switch.register_array(f"ingress.{name}").tolist() == [n, *[0] * 98, 2 * n]


def test_a_read_that_nothing_uses_only_says_what_will_be_wanted(engine: Callable[..., Engine]) -> None:
    ahead = "bit<32> unused; a.read(unused, h.k.other); a.read(h.k.found, h.k.at); s.egress_spec = 1;"
    parts = {**PARTS, "locals": declared("a"), "ingress": ahead}
    assert "a.prefetch(" in generate(check_text(v1model(**parts))).source
    switch = engine(**parts)
    switch.register_write("ingress.a", 5, 1234)
    for other in (5, 7, 2**32 - 1):
        switch.send(0, (5).to_bytes(4, "big") + other.to_bytes(4, "big") + bytes(4))
    assert [int.from_bytes(p.data[8:12], "big") for p in switch.receive()] == [1234] * 3
    for used in ("h.k.found = unused;", "a.write(0, unused);", "if (unused == 1) { s.egress_spec = 2; }"):
        parts["ingress"] = "bit<32> unused; a.read(unused, h.k.other); " + used
        assert "a.prefetch(" not in generate(check_text(v1model(**parts))).source


def test_the_control_plane_reads_a_digests_fields_by_their_names_in_the_program() -> None:
    parts = {**PARTS, "types": PARTS["types"] + "struct told_t { bit<32> number; bit<8> __odd; }"}
    source = v1model(**parts, ingress="digest<told_t>(1, { h.k.at, 8w3 });")
    [digest] = generate(check_text(source)).schema.digests
    assert [field.name for field in digest.fields] == ["number", "__odd"]
