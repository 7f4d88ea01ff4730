"""Stochastic quantisation: unbiased, bounded variance, exact ranges; packing and messages round trip."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from workloads.training.message import decode, encode, message_size
from workloads.training.quantise import (
    WIDTHS,
    NotFiniteError,
    dequantise,
    pack,
    packed_width,
    quantise,
    unpack,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draws(vector: torch.Tensor, bits: int, count: int, seed: int) -> torch.Tensor:
    """float64[count, D]: the vector quantised and restored, independently each time."""
    levels, meta = quantise(vector.repeat(count, 1), bits, generator(seed))
    return dequantise(levels, meta)


@pytest.mark.parametrize("bits", WIDTHS)
def test_restored_values_are_unbiased(bits):
    vector = torch.rand(64, generator=generator(3), dtype=torch.float64) * 5 - 2
    count = 20_000
    got = draws(vector, bits, count, seed=bits)
    error = got.std(0) / count**0.5
    random = error > 0  # minimum and maximum are restored exactly
    assert int(random.sum()) >= 62
    # 64 z-scores of a fair quantiser: beyond 4.5 with a probability of 64 * 7e-6.
    z = ((got.mean(0) - vector)[random] / error[random]).abs()
    assert float(z.max()) < 4.5
    # Rounding to the nearest instead would be off by whole fractions of a step: far beyond.
    step = (vector.max() - vector.min()) / (2**bits - 1)
    nearest = vector.min() + step * torch.round((vector - vector.min()) / step)
    assert float(((nearest - vector)[random] / error[random]).abs().max()) > 4.5


@pytest.mark.parametrize("bits", WIDTHS)
def test_variance_is_that_of_the_paper_for_evenly_spread_values(bits):
    width = 4096
    vector = torch.rand(width, generator=generator(8), dtype=torch.float64)
    scale = float((vector.max() - vector.min()) / (2**bits - 1))
    variance = float(draws(vector, bits, 400, seed=bits + 10).var(0).sum())
    assert variance == pytest.approx(width * scale**2 / 6, rel=0.04)
    assert variance < width * scale**2 / 4


@pytest.mark.parametrize("bits", WIDTHS)
def test_range_meta_order_and_extremes(bits):
    rows = torch.tensor([[-3.0, 5.0, 1.0, 0.0], [7.0, 7.0, 7.0, 7.0]])
    levels, meta = quantise(rows, bits, generator())
    assert levels.dtype == torch.uint8
    assert levels[0, 0] == 0 and levels[0, 1] == 2**bits - 1
    assert meta[0].tolist() == pytest.approx([-3.0, 8 / (2**bits - 1)])  # the minimum, then the scale
    assert meta[1].tolist() == [7.0, 0.0]
    restored = dequantise(levels, meta)
    assert restored[1].tolist() == rows[1].tolist()
    assert float((restored - rows).abs().max()) <= float(meta[0, 1]) * (1 + 1e-6)
    big = torch.rand(200, 50, generator=generator(1))
    assert int(quantise(big, bits, generator())[0].max()) == 2**bits - 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused(bad):
    rows = torch.ones(3, 4)
    rows[1, 2] = bad
    with pytest.raises(NotFiniteError):
        quantise(rows, 4, generator())


def test_a_range_that_overflows_is_refused():
    with pytest.raises(NotFiniteError):
        quantise(torch.tensor([[-3e38, 3e38]]), 1, generator())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WIDTHS), st.integers(0, 6), st.integers(1, 40), st.integers(0, 2**31))
def test_packing_round_trips(bits, rows, width, seed):
    levels = torch.from_numpy(np.random.default_rng(seed).integers(0, 2**bits, (rows, width), dtype=np.uint8))
    packed = pack(levels, bits)
    assert packed.shape == (rows, packed_width(width, bits))
    assert torch.equal(unpack(packed, bits, width), levels)


def test_packed_size_and_layout():
    assert [packed_width(256, bits) for bits in WIDTHS] == [32, 64, 128, 256]
    assert pack(torch.tensor([[1, 0, 0, 1, 0, 0, 0, 0, 1]], dtype=torch.uint8), 1).tolist() == [[9, 1]]
    assert pack(torch.tensor([[1, 2, 3]], dtype=torch.uint8), 4).tolist() == [[0x21, 0x03]]


finite = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, st.tuples(st.integers(0, 8), st.integers(1, 9)), elements=finite),
    st.integers(0, 2**31),
)
def test_messages_round_trip_within_a_step_of_each_row(values, seed):
    rows = torch.from_numpy(values)
    bits = torch.from_numpy(np.random.default_rng(seed).choice(WIDTHS, len(values)).astype(np.uint8))
    message = encode(rows, bits, generator(seed))
    size = message_size(*rows.shape, bits, rows.dtype)
    assert len(message) == size.total
    assert size.main_bytes == sum(-(-rows.shape[1] * int(b) // 8) for b in bits)
    assert size.scale_bytes == 8 * len(rows)
    back = decode(message, *rows.shape, bits, rows.dtype)
    for row, restored, b in zip(rows.double(), back.double(), bits.tolist(), strict=True):
        spread = float(row.max() - row.min())
        # relative rounding, and the absolute rounding of a scale near the smallest subnormal float32
        slack = 1e-6 * (float(row.abs().max()) + spread) + 255 * 1.5e-45
        assert float((row - restored).abs().max()) <= spread / (2**b - 1) + slack


@settings(max_examples=30, deadline=None)
@given(arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(1, 5)), elements=st.floats(width=32)))
def test_exact_messages_keep_every_bit(values):
    rows = torch.from_numpy(values)
    message = encode(rows, None, generator())
    assert len(message) == message_size(*rows.shape, None, rows.dtype).total == 4 * rows.numel()
    back = decode(message, *rows.shape, None, rows.dtype)
    assert back.numpy().tobytes() == values.tobytes()
