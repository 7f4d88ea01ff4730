"""What one training run is asked for, checked."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.errors import InputError

SYSTEM_NAMES = ("dgl", "sar", "pipegcn", "bns-gcn", "sylvie")
MODEL_NAMES = ("gcn", "sage", "gat", "gcnii", "dagnn", "sgc", "jknet")
BITS = ("adaptive", "32", "8", "4", "2", "1")
MASKS = ("degree", "uniform", "shuffled")
MODES = ("adaptive", "sync", "async")
CLOCKS = ("counted", "measured")
PRECISIONS = ("float32", "float64")
DEVICES = ("auto", "cpu", "cuda")


def check_choice(name: str, given: object, allowed: tuple[object, ...]) -> None:
    """Raises InputError unless `given` is one of those allowed; None, where it is one, is not named."""
    if given not in allowed:
        told = ", ".join(str(value) for value in allowed if value is not None)
        raise InputError(f"{name}: {str(given)[:40]!r} given; allowed: {told}")


def check_range(name: str, given: float | None, least: float, most: float) -> None:
    """Raises InputError unless `given` is None or in the range."""
    if given is not None and not least <= given <= most:  # also false for NaN
        raise InputError(f"{name}: {given} given; allowed: {least} to {most}")


@dataclass(frozen=True)
class TrainOptions:
    """One run. Raises InputError for values outside their range.

    share: of the halo that takes part in an epoch (bns-gcn). bits, mask, mode: SYLVIE's time, data and
    execution dimensions; "32" sends exact values. smoothing, gap: its lambda, and its delta in epochs.
    warmup: epochs before which its controller decides nothing. clock: the epoch time that it divides by:
    "counted" is the busiest worker's bytes over link_gbps, the same in every run; "measured" is this
    machine's wall time. eval_every: epochs between evaluations (the last is always evaluated). device: "auto"
    is CUDA where every worker finds a device of its own, else the CPU. timeout_s: how long a worker waits for
    another.
    """

    system: str = "dgl"
    model: str = "gcn"
    layers: int = 2
    hidden: int = 64
    dropout: float = 0.0
    lr: float = 0.01
    epochs: int = 50
    seed: int = 1
    share: float = 0.1
    bits: str = "adaptive"
    mask: str = "degree"
    mode: str = "adaptive"
    smoothing: float = 0.9
    gap: int = 5
    warmup: int = 0
    clock: str = "counted"
    link_gbps: float = 1.0
    eval_every: int = 1
    precision: str = "float32"
    device: str = "auto"
    threads: int = 1
    timeout_s: float = 25.0

    def __post_init__(self) -> None:
        for name, allowed in (
            ("system", SYSTEM_NAMES),
            ("model", MODEL_NAMES),
            ("bits", BITS),
            ("mask", MASKS),
            ("mode", MODES),
            ("clock", CLOCKS),
            ("precision", PRECISIONS),
            ("device", DEVICES),
        ):
            check_choice(name, getattr(self, name), allowed)
        for name, least, most in (
            ("layers", 1, 256),
            ("hidden", 1, 65_536),
            ("epochs", 1, 10_000_000),
            ("seed", 0, 2**40 - 1),
            ("gap", 1, 10_000),
            ("warmup", 0, 10_000_000),
            ("eval_every", 1, 10_000_000),
            ("threads", 1, 1024),
            ("dropout", 0, 0.99),
            ("lr", 1e-12, 1e3),
            ("share", 1e-6, 1),
            ("smoothing", 0, 0.9999),
            ("link_gbps", 1e-6, 1e6),
            ("timeout_s", 1, 86_400),
        ):
            check_range(name, getattr(self, name), least, most)
        if self.system == "bns-gcn" and self.model == "gat" and self.share < 1:
            raise InputError("model: gat with bns-gcn; allowed at share 1 only: a softmax cannot be rescaled")
