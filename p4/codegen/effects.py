"""Which calls of externs do more than change the packet in hand."""

from __future__ import annotations

from p4.lang import ir
from p4.lang.walk import walk

# What these do stays with the packet, or is asked for and seen by the pipeline.
_OF_THE_PACKET = (
    "mark_to_drop",
    "clone",
    "clone3",
    "clone_preserving_field_list",
    "recirculate",
    "recirculate_preserving_field_list",
    "resubmit",
    "resubmit_preserving_field_list",
    "truncate",
    "hash",
)


def has_effect(call: ir.Call) -> bool:
    """Whether an extern's call does more than change the packet in hand. (Reading a register does not.)"""
    match call.target:
        case ir.ExternFunction(name):
            return draws(call) or name not in _OF_THE_PACKET
        case ir.Method() as method:
            called = (method.extern.name, method.name)
            return called not in (("register", "read"), ("direct_counter", "count"))
    return False


def draws(call: ir.Call) -> bool:
    """Whether it takes a random number in place of a hash."""
    return any(isinstance(n, ir.Const) and n.value == "random" for n in walk(call))
