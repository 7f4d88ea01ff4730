"""What a RegisterAction asks of its stateful ALU: width, comparisons, packet fields, updates, results."""

from __future__ import annotations

from p4.lang import ir
from p4.lang import types as ty
from p4.lang.diagnostics import Diagnostic
from p4.lang.walk import places, root, walk
from p4.tofino.chip import Chip

_COMPARE = ("==", "!=", "<", ">", "<=", ">=")


def element_bits(register: ir.Instance) -> int:
    """Of a Register or DirectRegister, both words of a pair together."""
    assert isinstance(register.type, ty.Extern)
    return ty.bit_width(register.type.args[0]) or 0


def check_register(register: ir.Instance, chip: Chip) -> list[Diagnostic]:
    """Whether its elements have a width that a stateful ALU has."""
    assert isinstance(register.type, ty.Extern)
    bits, element = element_bits(register), register.type.args[0]
    pair = isinstance(element, ty.Record)
    word = bits // 2 if pair else bits
    fits = bits <= chip.register_bits and word in (1, 8, 16, 32, *((64,) if chip.register_bits > 64 else ()))
    if pair and isinstance(element, ty.Record):
        fits = fits and len(element.fields) == 2 and word > 1
    if fits:
        return []
    what = f"register '{register.name}' has elements of {bits} bits"
    return [
        Diagnostic(register.span, what, f"1, 8, 16 or 32, or a pair of these: {chip.register_bits} at most")
    ]


def check_action(action: ir.Instance, chip: Chip) -> tuple[dict[str, int], list[Diagnostic]]:
    """(comparisons, inputs, updates of a word, result bits) of a RegisterAction, and what is too much."""
    apply = action.methods["apply"]
    value = apply.params[0]
    problems: list[Diagnostic] = []
    conditions, inputs = set(), set()
    updates: dict[str, set[str]] = {}
    for node in walk(apply.body):
        if isinstance(node, ir.Binary):
            if node.op in _COMPARE:
                conditions.add(_text(node))
            elif node.op in ("*", "/", "%") or (
                node.op in ("<<", ">>") and not isinstance(node.right, ir.Const)
            ):
                problems.append(Diagnostic(node.span, f"'{node.op}': a stateful ALU has none", "a MathUnit"))
        changes = isinstance(node, ir.Assign) and root(node.target) is value
        if isinstance(node, ir.Assign) and changes and _text(node.target) != _text(node.value):
            updates.setdefault(_text(node.target), set()).add(_text(node.value))
        if isinstance(node, (ir.For, ir.ForRange, ir.Switch)):
            problems.append(Diagnostic(node.span, "a loop or switch in a RegisterAction"))
    for place in places(apply.body):
        variable = root(place)
        if variable is not None and variable not in apply.params and variable.kind not in ("ctor", "const"):
            inputs.add(_text(place))
    returns = ty.bit_width(apply.params[1].type) or 0 if len(apply.params) > 1 else 0
    used = {
        "comparisons": len(conditions),
        "inputs": len(inputs),
        "updates": max(map(len, updates.values()), default=0),
        "result_bits": returns,
    }
    name = action.name
    for key, limit, what in (
        ("comparisons", chip.comparisons, "comparisons"),
        ("inputs", chip.inputs, "packet fields"),
        ("updates", chip.updates, "ways to update one word"),
        ("result_bits", 32 * chip.outputs, "bits of result"),
    ):
        if used[key] > limit:
            text = f"RegisterAction '{name}' needs {used[key]} {what}"
            problems.append(Diagnostic(action.span, text, f"{limit} at most"))
    return used, problems


def _text(e: ir.Expr) -> str:
    """An expression in a form in which equal ones are alike."""
    match e:
        case ir.Const():
            return str(e.value)
        case ir.Var():
            return e.variable.name
        case ir.Field():
            return f"{_text(e.base)}.{e.name}"
        case ir.Slice():
            return f"{_text(e.base)}[{e.high}:{e.low}]"
        case ir.Unary():
            return f"{e.op}({_text(e.operand)})"
        case ir.Cast():
            return _text(e.operand)
        case ir.Binary():
            return f"({_text(e.left)} {e.op} {_text(e.right)})"
    return str(e.span)
