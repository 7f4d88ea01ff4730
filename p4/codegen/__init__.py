"""The typed program as C++: one readable source file, and a schema of what the control plane can reach."""

from __future__ import annotations

from p4.codegen.code import unsupported
from p4.codegen.tna import generate_tna
from p4.codegen.v1model import Generated, generate_v1model
from p4.lang import ir
from p4.lang import types as ty

__all__ = ["Generated", "generate"]


def generate(program: ir.Program) -> Generated:
    """C++ for a checked v1model or TNA program. Raises P4Error for what the engine does not support."""
    main = program.main
    if main is None:
        raise unsupported(None, f"{program.path}: a program without 'main'", "V1Switch(...) main;")
    assert isinstance(main.type, ty.Block)
    architectures = {"V1Switch": generate_v1model, "Switch": generate_tna, "MultiParserSwitch": generate_tna}
    if main.type.name not in architectures:
        wanted = "v1model's V1Switch(...) main; or TNA's Switch(...) main;"
        raise unsupported(main.span, f"architecture '{main.type.name}'", wanted)
    try:
        return architectures[main.type.name](program)
    except RecursionError:
        raise unsupported(
            None, f"{program.path}: an expression this long", "parts of it in variables"
        ) from None
