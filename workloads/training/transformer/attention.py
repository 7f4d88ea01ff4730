"""The attention kinds on one interface: (q, k, v, which pairs, bias table) -> values.

q: float[h, r, w], r queries of h heads; k, v: float[h, n, w]; table: float[h, CLASSES], a learned bias for
each structural class of a pair, or None; result float[h, r, w]. `structure` says what the classes are.

- dense (GP-RAW): all pairs, an r x n matrix of scores per head; any N x N classes.
- flash (GP-FLASH): all pairs by torch's scaled_dot_product_attention, memory linear in n, no bias.
- sparse (GP-SPARSE): the pairs of a `PairLayout`, memory linear in n and pairs.
- cluster (TorchGT): a `ClusterLayout`'s tiles and its other pairs.
- full: all pairs, biased where a `PairLayout` has the pair; memory linear in n and pairs. TorchGT's
  interleaved fully connected layer.

Sparse, cluster and full run on one of these kernels:

- native (CPU): C++ that keeps nothing but its result and a number per query and head for the backward pass;
  bfloat16 states stay so in memory and are computed in float32.
- flex (CUDA): torch's FlexAttention, see `flex`; on a CPU forward alone, unfused.
- triton (CUDA): pairs one by one, see `triton_pairs`; not full attention, which is flex's.
- plain: torch operations on any device; memory grows with pairs times width.

auto is native on a CPU; on CUDA flex for cluster and full, triton for sparse where it is installed, else
flex, and plain for float64.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from workloads.errors import InputError
from workloads.training.transformer import flex, native, plain
from workloads.training.transformer.clusters import ClusterLayout
from workloads.training.transformer.layout import PairLayout


def dense(
    q: Tensor, k: Tensor, v: Tensor, classes: Tensor | None = None, table: Tensor | None = None
) -> Tensor:
    """classes: int64[r, n], 0 where a pair must not attend; None: all pairs without bias."""
    return plain.dense(q, k, v, classes, table)


def flash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """All pairs without bias."""
    return scaled_dot_product_attention(q[None], k[None], v[None])[0]


def sparse(
    q: Tensor, k: Tensor, v: Tensor, layout: PairLayout, table: Tensor | None = None, *, kernel: str = "auto"
) -> Tensor:
    """The layout's pairs; a query without any gets zeros."""
    return _attend((q, k, v), layout, table, kernel, full=False)


def cluster(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: ClusterLayout,
    table: Tensor | None = None,
    *,
    kernel: str = "auto",
) -> Tensor:
    """The tiles and the rest of a layout, one softmax over both."""
    return _attend((q, k, v), layout, table, kernel, full=False)


def full(
    q: Tensor, k: Tensor, v: Tensor, layout: PairLayout, table: Tensor | None = None, *, kernel: str = "auto"
) -> Tensor:
    """All pairs, biased by class where the layout has the pair, as OUTSIDE elsewhere."""
    return _attend((q, k, v), layout, table, kernel, full=True)


def kernel_of(kernel: str, device: torch.device, dtype: torch.dtype, *, scattered: bool = False) -> str:
    """native, flex, triton or plain. scattered: pairs in no order that blocks could use. Raises InputError
    for a kernel that cannot train on the device.
    """
    if kernel == "auto":
        if device.type == "cpu":
            return "native"
        if device.type != "cuda" or dtype == torch.float64:
            return "plain"
        return "triton" if scattered and find_spec("triton") else "flex"
    if kernel == "native" and device.type != "cpu":
        raise InputError(f"kernel: native on {device.type}; allowed there: flex, triton, plain")
    if kernel in ("flex", "triton") and device.type == "cpu":
        why = ", where torch gives it no gradients" if kernel == "flex" else ""
        raise InputError(f"kernel: {kernel} on a CPU{why}; allowed there: native, plain")
    if kernel in ("flex", "triton") and dtype == torch.float64:
        raise InputError(f"kernel: {kernel} with float64; allowed: float32, bfloat16, or --kernel plain")
    return kernel


def _attend(
    states: tuple[Tensor, Tensor, Tensor],
    layout: PairLayout | ClusterLayout,
    table: Tensor | None,
    kernel: str,
    *,
    full: bool,
) -> Tensor:
    q, k, v = states
    if kernel == "auto":
        scattered = isinstance(layout, PairLayout) and not full
        kernel = kernel_of(kernel, q.device, q.dtype, scattered=scattered)
    if kernel == "native":
        return native.attend(q, k, v, layout, table, full=full)
    if kernel == "flex" or (kernel == "triton" and full):
        return flex.attend(q, k, v, layout, table, full=full)
    pairs = layout.as_pairs() if isinstance(layout, ClusterLayout) else layout
    if kernel == "triton":
        from workloads.training.transformer import triton_pairs  # noqa: PLC0415  # only CUDA's torch has triton

        return triton_pairs.attend(q, k, v, pairs, table)
    if q.dtype == torch.bfloat16:
        q, k, v = (part.float() for part in states)
    return (plain.full if full else plain.pairs)(q, k, v, pairs, table).to(states[0].dtype)
