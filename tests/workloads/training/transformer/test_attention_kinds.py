"""Dense masked, sparse and cluster-sparse attention agree, forward and in every gradient."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import _kernels
from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.training.transformer import attention, flex, plain
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


def scattered(rows: int, columns: int) -> PairLayout:
    """Pairs over more than a block of `flex`, a row without any, blocks without any."""
    random = np.random.default_rng(5)
    chosen = np.flatnonzero(random.random(rows * columns) < 0.02)
    row, column = chosen // columns, chosen % columns
    kept = (row != 7) & ~((row < 128) & (column >= 128))
    classes = random.integers(1, CLASSES, int(kept.sum())).astype(np.uint8)
    return from_pairs(rows, columns, (row[kept], column[kept]), classes)


def flex_layouts(karate) -> list:
    order = make_order(karate, "metis", 4, 1)
    layout = permuted(topology(karate), order.order)
    reached = reformed(layout, order.starts, side=8, beta=1.0, least=4)
    assert reached.moved > 0
    return [layout, reached, tiled(scattered(200, 300), 16, 2)]


def flex_agrees(layouts: list, width: int, *, full: bool) -> None:
    native = attention.full if full else attention.sparse
    for layout in layouts:
        pairs = layout if isinstance(layout, PairLayout) else layout.as_pairs()
        parts = states(pairs, 2, width, torch.float32)
        right = outcome(lambda q, k, v, t, x=pairs: native(q, k, v, x, t), parts)
        agree(outcome(lambda q, k, v, t, x=layout: flex.attend(q, k, v, x, t, full=full), parts), right, 1e-5)


@pytest.fixture
def flex_gradients(monkeypatch) -> None:
    """torch refuses FlexAttention's gradients on a CPU, though its reference of the operator has them."""
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *states: None)


@pytest.mark.usefixtures("flex_gradients")
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_equals_the_native_kernels_on_a_reformed_layout(karate):
    """Unfused on a CPU: the same mask, lookup and padding as on CUDA."""
    flex_agrees(flex_layouts(karate)[1:2], 5, full=False)


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 24])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.usefixtures("flex_gradients")
@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_equals_the_native_kernels_on_all_layouts(karate, width, full):
    flex_agrees(flex_layouts(karate), width, full=full)


def test_flex_attention_skips_blocks_without_a_pair():
    layout = scattered(200, 300)
    blocks = flex.blocks_of(layout, torch.device("cpu"))
    assert blocks.slots.tolist() == [[1, 0, 0], [2, 3, 4]]
    assert blocks.mask.kv_num_blocks.tolist() == [[[1, 3]]]
    assert blocks.classes.shape[0] - 1 <= layout.pairs and blocks is flex.blocks_of(
        layout, torch.device("cpu")
    )


@pytest.mark.slow
def test_flex_attention_is_compiled_once_for_all_layouts_of_a_shape(karate):
    """On a CPU the compiler makes C++ of it: what it is on CUDA, but for the language."""
    order = make_order(karate, "metis", 4, 1)
    layout = permuted(topology(karate), order.order)
    torch._dynamo.reset()
    stats = torch._dynamo.utils.counters["stats"]
    before = stats["unique_graphs"]
    for beta in (0.0, 0.2, 1.0):
        tiles = reformed(layout, order.starts, side=8, beta=beta, least=4)
        parts = [part.detach() for part in states(tiles.as_pairs(), 2, 8, torch.float32)]
        ours = flex.attend(*parts[:3], tiles, parts[3], full=False, fused=True)
        assert torch.allclose(ours, attention.cluster(*parts[:3], tiles, parts[3]), atol=1e-5)
    assert stats["unique_graphs"] - before == 1


def test_triton_equals_the_native_kernels(tmp_path):
    """In Triton's interpreter, which must be asked for before it is loaded."""
    if find_spec("triton") is None:
        pytest.skip("CUDA: its builds of torch bring triton")
    done = subprocess.run(
        [sys.executable, "-c", TRITON], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


ROOT = Path(__file__).resolve().parents[4]
TRITON = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import importlib.util, sys
import torch
place = "tests/workloads/training/transformer/test_attention_kinds.py"
spec = importlib.util.spec_from_file_location("kinds", place)
kinds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kinds)
from workloads.training.transformer import attention, triton_pairs
for layout in (kinds.topology(kinds.load_graph("karate")), kinds.scattered(20, 150)):
    for width in (5, 8, 24):
        parts = kinds.states(layout, 2, width, torch.float32)
        ours = kinds.outcome(lambda q, k, v, t: triton_pairs.attend(q, k, v, layout, t), parts)
        kinds.agree(ours, kinds.outcome(lambda q, k, v, t: attention.sparse(q, k, v, layout, t), parts), 1e-5)
    half = [part.detach().to(torch.bfloat16) for part in parts[:3]]
    ours = triton_pairs.attend(*half, layout, parts[3].detach())
    right = attention.sparse(*half, layout, parts[3].detach())
    assert ours.dtype == torch.bfloat16 and torch.allclose(ours.float(), right.float(), atol=0.02)
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA")
@pytest.mark.parametrize("kernel", ["flex", "triton"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cuda_kernels_equal_plain_torch(karate, kernel, dtype):
    for layout in flex_layouts(karate):
        pairs = layout if isinstance(layout, PairLayout) else layout.as_pairs()
        parts = [part.detach().cuda().requires_grad_() for part in states(pairs, 4, 8, torch.float32)]
        half = [part.detach().to(dtype).requires_grad_() for part in parts[:3]] + parts[3:]
        kind = attention.sparse if isinstance(layout, PairLayout) else attention.cluster
        ours = outcome(lambda q, k, v, t, x=layout, f=kind: f(q, k, v, x, t, kernel=kernel), half)
        right = outcome(lambda q, k, v, t, x=layout, f=kind: f(q, k, v, x, t, kernel="plain"), half)
        agree(ours, right, 1e-3 if dtype == torch.float32 else 0.05)


@pytest.mark.parametrize(
    ("kernel", "device", "dtype", "found"),
    [
        ("auto", "cpu", torch.float64, "native"),
        ("auto", "cuda", torch.bfloat16, "flex"),
        ("auto", "cuda", torch.float64, "plain"),
        ("plain", "cuda", torch.float64, "plain"),
        ("native", "cuda", torch.float32, None),
        ("flex", "cpu", torch.float32, None),
        ("triton", "cpu", torch.float32, None),
        ("flex", "cuda", torch.float64, None),
    ],
)
def test_each_device_has_its_kernels(kernel, device, dtype, found):
    if found is None:
        with pytest.raises(InputError, match=f"kernel: {kernel} "):
            attention.kernel_of(kernel, torch.device(device), dtype)
    else:
        assert attention.kernel_of(kernel, torch.device(device), dtype) == found


def test_bfloat16_keeps_half_the_bytes_for_the_backward_pass():
    layout = topology(load_graph("karate"))
    kept = {}
    for dtype in (torch.float32, torch.bfloat16):
        q, k, v, table = (part.detach() for part in states(layout, 4, 8, torch.float32))
        given = [part.to(dtype).requires_grad_() for part in (q, k, v)]
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda part, sizes=sizes: sizes.append(part.nbytes) or part, lambda part: part
        ):
            result = attention.sparse(*given, layout, table)
        result.sum().backward()
        assert given[0].grad.dtype == dtype
        kept[dtype] = sum(sizes) - table.nbytes - 4 * 34 * 4  # less the table and a number a query and head
    assert kept[torch.bfloat16] * 2 == kept[torch.float32]


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
