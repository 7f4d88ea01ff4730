"""What one dynamic training run is asked for, checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from workloads.errors import InputError
from workloads.training.options import DEVICES, PRECISIONS, check_choice, check_range

VERTEX_SYSTEMS = ("swash", "full", "dynagraph", "dynahb")
SYSTEM_NAMES = (*VERTEX_SYSTEMS, "snapshot", "chunk")
MODEL_NAMES = ("tgcn", "gclstm", "evolvegcn")
CHOICES = ("importance", "weight", "random")
TIMINGS = ("even", "first", "random")
INPUTS = ("once", "each")


@dataclass(frozen=True)
class DynamicOptions:
    """One run. Raises InputError for values outside their range.

    layers: blocks of the model, each with one propagation per snapshot. SWASH's knobs: interval k (epochs
    between those that communicate), windows s (that communicate in such an
    epoch; below 1 a share of all, 0 means all), share p (of a
    snapshot's boundary rows that a communicating window sends); choose: which rows; when: which windows.
    cache_windows: how many windows' sets of Ns matrices are kept; 0 turns the cache off. adaptive: k, s, p
    are the least communication that the scheduler may go down to; it starts at full. clock, link_gbps: what
    it takes as communication cost, as in `TrainOptions`. inputs: the boundary's input features are sent
    "once" or in "each" window. eval_every: epochs between evaluations (the last is always evaluated).
    """

    system: str = "swash"
    model: str = "tgcn"
    layers: int = 2
    hidden: int = 32
    lr: float = 0.01
    epochs: int = 20
    seed: int = 1
    k: int = 1
    s: float = 0.5
    p: float = 0.25
    choose: str = "importance"
    when: str = "even"
    cache_windows: int = 4
    adaptive: bool = False
    clock: str = "counted"
    link_gbps: float = 1.0
    inputs: str = "once"
    eval_every: int = 1
    precision: str = "float32"
    device: str = "auto"
    threads: int = 1
    timeout_s: float = 25.0

    def __post_init__(self) -> None:
        for name, allowed in (
            ("system", SYSTEM_NAMES),
            ("model", MODEL_NAMES),
            ("choose", CHOICES),
            ("when", TIMINGS),
            ("clock", ("counted", "measured")),
            ("inputs", INPUTS),
            ("precision", PRECISIONS),
            ("device", DEVICES),
        ):
            check_choice(name, getattr(self, name), allowed)
        if self.s >= 1 and self.s != int(self.s):
            raise InputError(f"s: {self.s} given; allowed: a share below 1, or a whole number of windows")
        for name, least, most in (
            ("layers", 1, 16),
            ("hidden", 1, 65_536),
            ("lr", 1e-12, 1e3),
            ("epochs", 1, 10_000_000),
            ("seed", 0, 2**40 - 1),
            ("k", 1, 10_000),
            ("s", 0, 1_000_000),
            ("p", 1e-6, 1),
            ("cache_windows", 0, 10_000),
            ("link_gbps", 1e-6, 1e6),
            ("eval_every", 1, 10_000_000),
            ("threads", 1, 1024),
            ("timeout_s", 1, 86_400),
        ):
            check_range(name, getattr(self, name), least, most)

    @property
    def flexible(self) -> bool:
        """Whether a window may use rows that were not sent in it."""
        return self.system == "swash"


# What a system fixes: see docs/swash.md for where each definition comes from.
_FIXED: dict[str, dict[str, Any]] = {
    "full": {"inputs": "each"},
    "dynagraph": {"inputs": "once"},
    "dynahb": {"inputs": "once"},
    "snapshot": {"inputs": "each"},
    "chunk": {"inputs": "each"},
}
_KNOBS = ("k", "s", "p", "choose", "when", "cache_windows", "adaptive")


def make_options(given: dict[str, Any]) -> DynamicOptions:
    """Options from what was given (None: not given). Raises InputError where a system has no such knob."""
    chosen = {name: value for name, value in given.items() if value is not None}
    system = chosen.get("system", DynamicOptions().system)
    if system in _FIXED:
        for name in _KNOBS:
            if name in chosen:
                raise InputError(f"{name}: given for system {system}; allowed with swash only")
        for name, value in _FIXED[system].items():
            if chosen.get(name, value) != value:
                raise InputError(f"{name}: {chosen[name]} given for system {system}; allowed: {value}")
        exact = {"k": 1, "s": 0, "p": 1.0, "cache_windows": 0}
        chosen = chosen | exact | _FIXED[system]
    known = {field.name for field in fields(DynamicOptions)}
    return DynamicOptions(**{name: value for name, value in chosen.items() if name in known})
