"""What one run of a graph transformer is asked for, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workloads.errors import InputError
from workloads.training.options import CLOCKS, DEVICES, check_choice, check_range
from workloads.training.transformer.names import (
    EXCHANGES,
    INTERLEAVES,
    KERNELS,
    MODEL_NAMES,
    ORDERS,
    PATTERNS,
    PRECISIONS,
    SIDES,
    SYSTEM_NAMES,
)
from workloads.training.transformer.shapes import Shape, shape_of


@dataclass(frozen=True)
class TransformerOptions:
    """One run. Raises InputError for values outside their range; None asks for the system's or model's own.

    pattern, order, exchange, reform, interleave: TorchGT's ingredients, each of which can be switched off
    alone: which pairs attend, the tokens' order, the exchange around attention, whether sparse clusters are
    reformed, and whether fully connected layers are interleaved (auto: where the conditions are not shown to
    hold). dense_every: one layer is fully connected every so many epochs. clusters (k), sub_block (d_b): 0 is
    what measuring on this device chooses. beta: a fixed threshold in multiples of the graph's density, or
    None for the auto tuner. batch: graphs of a step where a data set consists of many (None: BATCH). kernel:
    what computes attention (see `attention`). bias_lr: B's learning rate over the other weights': Adam moves
    a weight by about lr a step, and to see 20 neighbours among 2,000 keys a bias must get to ln(100).
    """

    system: str = "torchgt"
    model: str = "graphormer-slim"
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    dropout: float = 0.0
    lr: float = 0.001
    bias_lr: float = 30.0
    epochs: int = 50
    seed: int = 1
    pattern: str | None = None
    order: str | None = None
    exchange: str | None = None
    reform: bool = True
    interleave: str = "auto"
    dense_every: int = 10
    clusters: int = 0
    sub_block: int = 0
    beta: float | None = None
    batch: int | None = None
    smoothing: float = 0.9
    gap: int = 5
    clock: str = "counted"
    eval_every: int = 1
    precision: str = "float32"
    kernel: str = "auto"
    device: str = "auto"
    threads: int = 1
    timeout_s: float = 25.0

    def __post_init__(self) -> None:
        for name, allowed in (
            ("system", SYSTEM_NAMES),
            ("model", MODEL_NAMES),
            ("pattern", (None, *PATTERNS)),
            ("order", (None, *ORDERS)),
            ("exchange", (None, *EXCHANGES)),
            ("interleave", INTERLEAVES),
            ("clock", CLOCKS),
            ("precision", PRECISIONS),
            ("kernel", KERNELS),
            ("device", DEVICES),
            ("sub_block", (0, *SIDES)),
        ):
            check_choice(_flag(name), getattr(self, name), allowed)
        for name, least, most in (
            ("layers", 1, 256),
            ("hidden", 1, 65_536),
            ("heads", 1, 1024),
            ("epochs", 1, 10_000_000),
            ("seed", 0, 2**40 - 1),
            ("dense_every", 1, 1_000_000),
            ("clusters", 0, 1024),
            ("beta", 0, 1e9),
            ("batch", 1, 100_000),
            ("gap", 1, 10_000),
            ("eval_every", 1, 10_000_000),
            ("threads", 1, 1024),
            ("dropout", 0, 0.99),
            ("lr", 1e-12, 1e3),
            ("bias_lr", 0, 1e6),
            ("smoothing", 0, 0.9999),
            ("timeout_s", 1, 86_400),
        ):
            check_range(_flag(name), getattr(self, name), least, most)
        if self.system != "torchgt":
            for name in ("pattern", "beta"):
                if getattr(self, name) is not None:
                    raise InputError(f"{_flag(name)}: given with system {self.system}; allowed with torchgt")
        shape = self.shape
        if shape.hidden % shape.heads:
            raise InputError(f"heads: {shape.heads} do not divide a hidden width of {shape.hidden}")

    @property
    def shape(self) -> Shape:
        """The model's shape with what was given instead."""
        shape = shape_of(self.model)
        given = {name: getattr(self, name) for name in ("layers", "hidden", "heads")}
        chosen = {name: value for name, value in given.items() if value is not None}
        if "hidden" in chosen:
            chosen["ffn"] = chosen["hidden"] * shape.ffn // shape.hidden
        return replace(shape, **chosen)

    @property
    def ordering(self) -> str:
        """The tokens' order: METIS for TorchGT; the baselines take the graph as it is numbered."""
        return self.order or ("metis" if self.system == "torchgt" else "natural")

    @property
    def exchanging(self) -> str:
        """The exchange around attention: the baselines' graph parallelism copies the whole sequence."""
        return self.exchange or ("all-to-all" if self.system == "torchgt" else "all-gather")

    @property
    def attention(self) -> str:
        """What most layers compute: cluster, full, dense, flash or sparse (see `attention`)."""
        own = {"gp-raw": "dense", "gp-flash": "flash", "gp-sparse": "sparse"}
        return own.get(self.system) or ("full" if self.pattern == "full" else "cluster")


def _flag(name: str) -> str:
    return {"timeout_s": "timeout", "smoothing": "lambda", "gap": "delta"}.get(name, name.replace("_", "-"))
