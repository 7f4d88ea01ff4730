"""A control as what a pipeline of match-action stages runs: tables and statements, what they read and write.

A unit is a table with its actions, or a statement or action called on its own. Two units exclude each other
when they stand in different branches of one `if` or `switch`; all others may run in one pass, in the order
of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from p4.lang import ir
from p4.lang import types as ty
from p4.lang.diagnostics import Span

STATEFUL = ("Register", "DirectRegister", "Meter", "DirectMeter", "Lpf", "Wred")
COUNTING = ("Counter", "DirectCounter")


@dataclass(frozen=True)
class Array:
    """A register, counter or meter; `path` are the objects of controls that it is inside of."""

    path: tuple[ir.Instance, ...]
    instance: ir.Instance

    @property
    def name(self) -> str:
        return self.instance.name

    @property
    def kind(self) -> str:
        assert isinstance(self.instance.type, ty.Extern)
        return self.instance.type.name


@dataclass(frozen=True)
class TableAt:
    """A table; `path` as of an Array."""

    path: tuple[ir.Instance, ...]
    table: ir.Table


@dataclass(frozen=True)
class Guard:
    """A branch: of which condition, which one."""

    condition: object
    branch: int


@dataclass(eq=False)
class Unit:
    """``match``: fields that decide (keys, conditions around it); ``reads``, ``writes``: of its actions."""

    name: str
    span: Span
    gress: str
    table: TableAt | None = None
    guards: tuple[Guard, ...] = ()
    match: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    arrays: dict[Array, Span] = field(default_factory=dict)
    sizes: dict[Array, int] = field(default_factory=dict)
    table_size: int = 0
    index_bits: int = 0
    follows: set[Unit] = field(default_factory=set)  # whose hit or miss decides whether this one runs

    def excludes(self, other: Unit) -> bool:
        mine = {g.condition: g.branch for g in self.guards}
        return any(mine.get(g.condition, g.branch) != g.branch for g in other.guards)


def leaves(path: str, type_: ty.Type) -> set[str]:
    """The scalar fields of a value."""
    while isinstance(type_, ty.NewType):
        type_ = type_.base
    if isinstance(type_, ty.Record):
        out = {f"{path}.$valid"} if type_.kind == "header" else set()
        return out.union(*(leaves(f"{path}.{n}", t) for n, t in type_.fields))
    if isinstance(type_, ty.Stack):
        return set().union(*(leaves(f"{path}[{i}]", type_.element) for i in range(type_.size)))
    return {path}


def array_of(instance: ir.Instance) -> ir.Instance | None:
    """The register, meter or counter that an object is or acts on; None for other objects."""
    if not isinstance(instance.type, ty.Extern):
        return None
    if instance.type.name in ("RegisterAction", "DirectRegisterAction"):
        register = instance.args[0].value
        return register.instance if isinstance(register, ir.InstanceRef) else None
    return instance if instance.type.name in (*STATEFUL, *COUNTING) else None
