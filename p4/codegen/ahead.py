"""Programs whose egress cannot tell when it runs: their packets may pass it before they wait in a queue.

What a packet's egress does depends on the packet, on the tables, and on what the program reads of queue
and clock. A program whose egress has no state of its own (registers, counters, meters, random numbers,
messages) and whose packets have one priority leaves the same packets whether egress runs before or after
the wait, except where it looks at the queue. Where it does is marked in the generated code; the pipeline
(v1model.h, egress_ahead) sees the mark and lets that packet wait first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from p4.codegen.effects import draws, has_effect
from p4.lang import ir
from p4.lang import types as ty
from p4.lang.walk import Node, applied, reached, walk

MARK = "saw_queue"  # the flag of context.h
_OF_QUEUE_AND_CLOCK = (
    "enq_timestamp",
    "enq_qdepth",
    "deq_timedelta",
    "deq_qdepth",
    "egress_global_timestamp",
)
_WITH_STATE = {"counters", "meters", "implementation"}  # a table with such a property
_CHECKSUMS = ("update_checksum", "update_checksum_with_payload")  # ... of the packet


def looks_at_queue(s: ir.Statement) -> bool:
    """Whether the statement itself, not one inside it, reads what depends on queue or clock."""
    parts = (getattr(s, f.name) for f in fields(s))
    return reads_queue(part for part in parts if isinstance(part, ir.Expr))


def reads_queue(expressions: Iterable[ir.Expr]) -> bool:
    """Whether one of the expressions does. Passing the whole metadata on is no reading."""
    for e in expressions:
        nodes = list(walk(e))
        if any(_is_field(n, _OF_QUEUE_AND_CLOCK) for n in nodes) or any(_wholes(nodes)):
            return True
    return False


def may_run_ahead(
    parser: ir.Parser, ingress: ir.Control, egress: ir.Control, compute: ir.Control, deparser: ir.Control
) -> bool:
    """Whether egress, checksums and deparser may run before a packet waits, unless it looks at the queue."""
    for block in (parser, ingress):
        nodes = list(reached(block))
        if any(_is_field(n, ("priority",)) for n in nodes) or any(_wholes(nodes)):
            return False
    return all(_stays_with_the_packet(block) for block in (egress, compute, deparser))


def _stays_with_the_packet(block: ir.Control) -> bool:
    for control in applied(block):
        for local in control.locals:
            if isinstance(local, ir.Instance) and local.declaration is None:
                return False
            if isinstance(local, ir.Table) and not _WITH_STATE.isdisjoint(local.properties):
                return False
    return all(_is_of_the_packet(node) for node in reached(block) if isinstance(node, ir.Call))


def _is_of_the_packet(call: ir.Call) -> bool:
    match call.target:
        case ir.ExternFunction(name):
            return not has_effect(call) or (name in _CHECKSUMS and not draws(call))
        case ir.Method() as method:
            return (method.extern.name, method.name) == ("packet_out", "emit")
        case ir.ApplyBlock(instance):
            return instance.declaration is not None
    return True


def _is_field(node: Node, names: tuple[str, ...]) -> bool:
    return isinstance(node, ir.Field) and _is_standard(node.base) and node.name in names


def _is_standard(e: ir.Expr) -> bool:
    return isinstance(e.type, ty.Record) and e.type.name == "standard_metadata_t"


def _wholes(nodes: list[Node]) -> Iterator[ir.Expr]:
    """The standard metadata where it stands as a value, not to have a field read or to be passed on."""
    bases = {id(n.base) for n in nodes if isinstance(n, ir.Field)}
    passed = {id(a.value) for n in nodes if isinstance(n, ir.Call) for a in n.args}
    for node in nodes:
        if isinstance(node, ir.Expr) and _is_standard(node) and id(node) not in bases | passed:
            yield node
