"""Programs whose memory a packet's ingress can be asked for before the packet has its turn.

Register arrays that outgrow the caches make every pass wait for memory. Where the next packet is known, its
ingress is rehearsed first: the same code, compiled a second time without effects, up to the first read
whose value leads to no further address. That one is only begun (a prefetch), and so are the reads that
the program does for nothing (records.py). A rehearsal may be wrong in any way, as the pass itself does
everything again.
"""

from __future__ import annotations

from p4.lang import ir
from p4.lang import types as ty
from p4.lang.walk import Node, applied, reached, root, walk

LARGE_BYTES = 1 << 23  # of registers; less stays in the caches


def followed(ingress: ir.Control) -> frozenset[ir.Instance] | None:
    """The register arrays whose values lead to other addresses; None if rehearsing is not worth it.

    Not where everything fits the caches, nor where a function or an action selector has effects.
    """
    nodes = list(reached(ingress))
    for control in applied(ingress):
        if any(isinstance(t, ir.Table) and "implementation" in t.properties for t in control.locals):
            return None
    for node in nodes:
        if isinstance(node, ir.Call):
            match node.target:
                case ir.FunctionTarget(function):
                    if any(isinstance(n, ir.Call) for n in walk(function.body)):
                        return None
                case ir.ApplyBlock(instance):
                    if instance.declaration is None:
                        return None
    reads = _reads(nodes)
    wanted = {key for _, _, index in reads for key in _keys(index)}
    found: set[ir.Instance] = set()
    known = -1
    while known != len(wanted) + len(found):
        known = len(wanted) + len(found)
        for node in nodes:
            match node:
                case ir.Assign():
                    if _key(node.target) in wanted:
                        wanted |= _keys(node.value)
                case ir.VarDecl() if node.init is not None:
                    if node.variable in wanted:
                        wanted |= _keys(node.init)
                case ir.Call(target=ir.ActionTarget(action)):
                    for parameter, argument in zip(action.params, node.args, strict=False):
                        if parameter in wanted and argument.value is not None:
                            wanted |= _keys(argument.value)
        for array, into, _ in reads:
            if _key(into) in wanted:
                found.add(array)
    arrays = {array for array, _, _ in reads}
    return frozenset(found) if sum(map(_bytes, arrays - found)) >= LARGE_BYTES else None


def sees_bytes_only(parser: ir.Parser) -> bool:
    """Whether all that a parser does is to make headers, and these depend on the packet's bytes alone."""
    if any(isinstance(local, (ir.Instance, ir.ValueSet)) for local in parser.locals):
        return False
    metadata = set(parser.params[2:])
    return not any(isinstance(n, ir.Var) and n.variable in metadata for n in reached(parser))


def _reads(nodes: list[Node]) -> list[tuple[ir.Instance, ir.Expr, ir.Expr]]:
    """(array, where to, index) of every read of a register array."""
    found = []
    for node in nodes:
        if isinstance(node, ir.Call) and isinstance(node.target, ir.Method):
            target, args = node.target, [a.value for a in node.args]
            if (target.extern.name, target.name) == ("register", "read"):
                assert args[0] is not None and args[1] is not None
                if isinstance(target.object, ir.InstanceRef):
                    found.append((target.object.instance, args[0], args[1]))
    return found


def _key(e: ir.Expr) -> object:
    """A place: a variable, or a field of whatever record of its type, as records are passed by many names."""
    while isinstance(e, (ir.Slice, ir.SliceAt, ir.Item, ir.StackPart)):
        e = e.base
    if isinstance(e, ir.Field) and isinstance(e.base.type, ty.Record):
        return (e.base.type.name, e.name)
    return root(e)


def _keys(e: ir.Expr) -> set[object]:
    return {_key(n) for n in walk(e) if isinstance(n, (ir.Var, ir.Field))}


def _bytes(array: ir.Instance) -> int:
    assert isinstance(array.type, ty.Extern)
    size = array.args[0].value
    bits = ty.bit_width(array.type.args[0]) or 0
    return size.value * bits // 8 if isinstance(size, ir.Const) and isinstance(size.value, int) else 0
