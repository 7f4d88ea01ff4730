# ruff: noqa: E501 - programs stay on one line
"""What the engine refuses, which names it survives, and programs at the edges."""

from collections.abc import Callable

import pytest

from p4.lang import P4Error
from p4.targets import Engine, TargetError

REFUSED = [
    (
        {
            "types": "header h_t { bit<12> a; }",
            "headers": "h_t h;",
            "parser": "state start { p.extract(h.h); transition accept; }",
        },
        "header h_t of 12 bits",
    ),
    (
        {"types": "header h_t { bit<12> a; }", "headers": "h_t h;", "deparser": "p.emit(h);"},
        "header h_t of 12 bits",
    ),
    ({"locals": "register<bool>(4) r;"}, "a register of bool"),
    ({"ingress": "bit<8> a = 1; resubmit({ a });"}, "resubmit with data that is not a field"),
    ({"types": "extern void mine(in bit<8> a);", "ingress": "mine(1);"}, "extern function 'mine'"),
    ({"types": "extern Mine { Mine(); }", "locals": "Mine() mine;"}, "extern 'Mine'"),
    ({"meta": "bit<8> a;", "ingress": "m.a = " + "m.a + " * 3000 + "1;"}, "an expression this long"),
]


@pytest.mark.parametrize(("parts", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_is_not_supported_is_named(
    engine: Callable[..., Engine], parts: dict[str, str], message: str
) -> None:
    with pytest.raises(P4Error, match="is not supported by the engine") as caught:
        engine(**parts)
    assert message in str(caught.value)


def test_state_beyond_the_memory_is_refused(engine: Callable[..., Engine]) -> None:
    with pytest.raises(TargetError, match="RESOURCE_EXHAUSTED"):
        engine(
            locals="register<bit<2048>>(0xFFFFFFFF) huge;",
            ingress="bit<2048> v; huge.read(v, 0); huge.write(1, v);",
        )


def test_a_port_beyond_nine_bits_is_refused(engine: Callable[..., Engine]) -> None:
    switch = engine(ingress="s.egress_spec = s.ingress_port;")
    with pytest.raises(TargetError, match="INVALID_ARGUMENT"):
        switch.send(512, b"")
    switch.send(511 - 1, b"x")
    assert [p.port for p in switch.receive()] == [510]


def test_names_that_cpp_or_the_runtime_uses(engine: Callable[..., Engine]) -> None:
    names = [
        "class",
        "load",
        "store",
        "read",
        "p",
        "f",
        "Table",
        "valid_",
        "other_",
        "register_",
        "new",
        "o",
        "varbits",
        "this_",
        "bits",
        "std",
    ]
    fields = " ".join(f"bit<8> {n};" for n in names)
    switch = engine(
        types=f"header Stack {{ {fields} }} struct Context {{ bit<8> namespace; }} const bit<8> union = 3; bit<8> slice(in bit<8> cast) {{ return cast + 1; }}",
        headers="Stack double;",
        meta="Context Frame;",
        parser="state start { p.extract(h.double); transition accept; }",
        locals="action delete(bit<8> operator) { h.double.class = operator; } table template { actions = { delete; } default_action = delete(9); }",
        ingress="s.egress_spec = 1; template.apply(); m.Frame.namespace = slice(union); h.double.std = m.Frame.namespace; bit<8> auto = 1; h.double.new = h.double.new + auto;",
        deparser="p.emit(h.double);",
    )
    switch.send(0, bytes(range(len(names))))
    [packet] = switch.receive()
    wanted = list(range(len(names)))
    wanted[0], wanted[names.index("std")], wanted[names.index("new")] = 9, 4, names.index("new") + 1
    assert list(packet.data) == wanted
