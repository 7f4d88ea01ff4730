"""Dense masked, sparse and cluster-sparse attention agree, forward and in every gradient."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import _kernels
from workloads.graphs import load_graph
from workloads.training.transformer import attention, plain
from workloads.training.transformer.clusters import tiled
from workloads.training.transformer.layout import PairLayout, from_pairs, permuted, topology
from workloads.training.transformer.order import make_order
from workloads.training.transformer.reform import reformed
from workloads.training.transformer.structure import CLASSES, OUTSIDE


def states(
    layout: PairLayout, heads: int, width: int, dtype: torch.dtype, seed: int = 0
) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((heads, layout.rows, width), (heads, layout.columns, width), (heads, layout.columns, width))
    made = [torch.randn(shape, generator=generator, dtype=dtype) for shape in (*shapes, (heads, CLASSES))]
    return [part.requires_grad_() for part in made]


def outcome(kind, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """The result and the gradients of q, k, v and the bias table, for a fixed direction."""
    for part in given:
        part.grad = None
    result = kind(*given)
    direction = torch.sin(torch.arange(result.numel(), dtype=result.dtype)).view_as(result)
    (result * direction).sum().backward()
    return [result.detach(), *(part.grad.clone() for part in given)]


def agree(left: list[torch.Tensor], right: list[torch.Tensor], most: float) -> None:
    for a, b in zip(left, right, strict=True):
        scale = b.abs().max().clamp_min(1e-2)  # a query of one pair has a gradient of zero
        assert ((a - b).abs().max() / scale).item() <= most


def matrix(layout: PairLayout, missing: int) -> torch.Tensor:
    result = torch.full((layout.rows, layout.columns), missing)
    row, column = layout.ends()
    result[row, column] = torch.from_numpy(layout.classes.astype(np.int64))
    return result


@st.composite
def layouts(draw) -> PairLayout:
    """Any pairs, rows without any among them, with any classes."""
    rows, columns = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    chosen = np.flatnonzero(random.random(rows * columns) < draw(st.floats(0.02, 1.0)))
    classes = random.integers(1, CLASSES, len(chosen)).astype(np.uint8)
    return from_pairs(rows, columns, (chosen // columns, chosen % columns), classes)


@pytest.mark.parametrize("width", [8, 16, 24, 5])
@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_dense_sparse_and_cluster_agree_on_a_real_graph(karate, width, dtype, most):
    order = make_order(karate, "metis", 4, 1)
    layout = permuted(topology(karate), order.order)
    parts = states(layout, 3, width, dtype)
    known = matrix(layout, 0)
    dense = outcome(lambda q, k, v, t: attention.dense(q, k, v, known, t), parts)
    agree(outcome(lambda q, k, v, t: attention.sparse(q, k, v, layout, t), parts), dense, most)
    agree(outcome(lambda q, k, v, t: plain.pairs(q, k, v, layout, t), parts), dense, most)
    for side in (8, 16, 32):
        for least in (1, 4, side * side + 1):
            tiles = reformed(layout, order.starts, side=side, beta=0.0, least=least)
            assert tiles.moved == 0 and tiles.pairs == layout.pairs
            agree(outcome(lambda q, k, v, t, x=tiles: attention.cluster(q, k, v, x, t), parts), dense, most)


@settings(max_examples=25, deadline=None)
@given(layouts(), st.sampled_from([1, 8, 16]), st.sampled_from([8, 16, 32]), st.integers(1, 6))
def test_any_layout_agrees_with_plain_torch(layout, width, side, least):
    parts = states(layout, 2, width, torch.float64)
    have = np.diff(layout.indptr) > 0
    native = outcome(lambda q, k, v, t: attention.sparse(q, k, v, layout, t), parts)
    assert not native[0][:, ~have].any()  # a query without pairs gets zeros
    tiles = tiled(layout, side, least)
    agree(outcome(lambda q, k, v, t: attention.cluster(q, k, v, tiles, t), parts), native, 1e-10)
    kept = from_pairs(
        int(have.sum()),
        layout.columns,
        (np.repeat(np.arange(have.sum()), np.diff(layout.indptr)[have]), layout.indices),
        layout.classes,
    )
    if kept.rows:
        some = [parts[0].detach()[:, have].clone().requires_grad_(), *parts[1:]]
        torch_only = outcome(lambda q, k, v, t: plain.pairs(q, k, v, kept, t), some)
        agree(outcome(lambda q, k, v, t: attention.sparse(q, k, v, kept, t), some), torch_only, 1e-10)


@settings(max_examples=25, deadline=None)
@given(layouts(), st.sampled_from([1, 8, 24]))
def test_full_attention_needs_no_matrix_to_know_the_classes(layout, width):
    parts = states(layout, 2, width, torch.float64)
    dense = outcome(lambda q, k, v, t: attention.dense(q, k, v, matrix(layout, OUTSIDE), t), parts)
    agree(outcome(lambda q, k, v, t: attention.full(q, k, v, layout, t), parts), dense, 1e-10)
    agree(outcome(lambda q, k, v, t: plain.full(q, k, v, layout, t), parts), dense, 1e-10)


def test_flash_is_dense_attention_without_bias():
    q, k, v = (torch.randn(2, 30, 8, dtype=torch.float64) for _ in range(3))
    assert torch.allclose(attention.flash(q, k, v), attention.dense(q, k, v), atol=1e-12)


def test_large_scores_neither_overflow_nor_vanish():
    layout = topology(load_graph("ring:64"))
    q, k, v, table = (part.detach() for part in states(layout, 1, 8, torch.float32))
    right = attention.sparse(100 * q.double(), 100 * k.double(), v.double(), layout, table.double())
    for tiles in (tiled(layout, 16, 1), tiled(layout, 16, 10**6)):
        ours = attention.cluster(100 * q, 100 * k, v, tiles, table)
        assert torch.isfinite(ours).all() and torch.allclose(ours.double(), right, atol=1e-3)


def test_bfloat16_rounds_the_exact_result():
    layout = topology(load_graph("karate"))
    q, k, v, table = (part.detach() for part in states(layout, 2, 8, torch.float32))
    half = [part.to(torch.bfloat16) for part in (q, k, v)]
    exact = attention.sparse(*(part.float() for part in half), layout, table)
    ours = attention.sparse(*half, layout, table)
    assert ours.dtype == torch.bfloat16 and torch.equal(ours, exact.to(torch.bfloat16))


def test_more_threads_give_the_same_bits():
    layout = topology(load_graph("karate"))
    parts = states(layout, 8, 8, torch.float32)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = outcome(lambda q, k, v, t: attention.sparse(q, k, v, layout, t), parts)
        torch.set_num_threads(3)
        three = outcome(lambda q, k, v, t: attention.sparse(q, k, v, layout, t), parts)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(one, three, strict=True))


def test_a_layout_crosses_processes_without_its_handles():
    layout = tiled(topology(load_graph("karate")), 8, 2)
    parts = [part.detach() for part in states(layout.as_pairs(), 1, 8, torch.float64)]
    first = attention.cluster(*parts[:3], layout, parts[3])
    again = pickle.loads(pickle.dumps(layout))
    assert not again.handles and torch.equal(attention.cluster(*parts[:3], again, parts[3]), first)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"indptr": [0, 3, 2]}, "falls"),
        ({"indptr": [0, 1, 3]}, "span"),
        ({"indices": [0, 9]}, "key is out of range"),
        ({"indices": [0, -1]}, "key is out of range"),
        ({"classes": [1, 200]}, "class is out of range"),
        ({"classes": [1]}, "belong together"),
        ({"tile_columns": [7]}, "tile is out of range"),
        ({"tile_ptr": [0, 2]}, "belong together"),
        ({"tile_classes": np.full((1, 8, 8), 200)}, "class is out of range"),
        ({"tile_classes": np.ones((1, 8, 8))}, "beyond the last key"),
    ],
)
def test_the_kernels_refuse_damaged_layouts(change, told):
    parts = {
        "indptr": [0, 1, 2],
        "indices": [0, 1],
        "classes": [1, 1],
        "tile_ptr": [0, 1],
        "tile_columns": [0],
    }
    tile = np.zeros((1, 8, 8))
    tile[0, :2, :2] = 1
    parts |= {"tile_classes": tile} | change
    types = (np.int64, np.int32, np.uint8, np.int64, np.int32, np.uint8)
    arrays = [np.asarray(part, dtype=kind) for part, kind in zip(parts.values(), types, strict=True)]
    with pytest.raises(ValueError, match=told):
        _kernels.AttentionLayout(*arrays, 2, False)
