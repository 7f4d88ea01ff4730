"""Objects that a block uses without holding them: top-level ones, and those passed to its constructor."""

from __future__ import annotations

from dataclasses import dataclass

from p4.lang import ir


@dataclass(frozen=True, eq=False)
class ObjectRef(ir.Expr):
    """An object by its place in the program. ``access``: as C++, from the Program struct; `cpp`: its type."""

    instance: ir.Instance
    access: str
    cpp: str
    exits: bool = False  # of a control: its apply() may exit


class Objects:
    """The places that are reached from elsewhere: their numbers in Context::objects."""

    def __init__(self) -> None:
        self.top: dict[ir.Instance, ObjectRef] = {}  # the program's top-level objects
        self.accesses: list[str] = []
        self.types: list[str] = []

    def text(self, ref: ObjectRef, context: str) -> str:
        """The object as C++, wherever the code stands."""
        if ref.access not in self.accesses:
            self.accesses.append(ref.access)
            self.types.append(ref.cpp)
        return f"object<{ref.cpp}>({context}, {self.accesses.index(ref.access)})"
