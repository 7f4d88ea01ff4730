"""Stochastic quantisation: unbiased, bounded variance, exact ranges; packing and messages round trip.

Twice: the native quantiser that a CPU uses, and the tensor operations that an accelerator uses.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from workloads import _kernels
from workloads.training.message import check, decode, encode, message_size
from workloads.training.quantise import (
    WIDTHS,
    NotFiniteError,
    dequantise,
    finite,
    pack,
    packed_width,
    quantise,
    unpack,
)

SETS = ("baseline", "avx2", "avx512")
WAYS = ("native", "tensors")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def native(rows: torch.Tensor, bits: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(levels: uint8[n, D], meta: float[n, 2]) as a message carries them."""
    widths = torch.full((len(rows),), bits, dtype=torch.uint8)
    message = encode(rows, widths, seed)
    meta_bytes = 2 * rows.dtype.itemsize * len(rows)
    packed = message[meta_bytes:].reshape(len(rows), packed_width(rows.shape[1], bits))
    return unpack(packed, bits, rows.shape[1]), message[:meta_bytes].view(rows.dtype).reshape(len(rows), 2)


def quantised(way: str, rows: torch.Tensor, bits: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return native(rows, bits, seed) if way == "native" else quantise(rows, bits, generator(seed))


def draws(way: str, vector: torch.Tensor, bits: int, count: int, seed: int) -> torch.Tensor:
    """float64[count, D]: the vector quantised and restored, independently each time."""
    return dequantise(*quantised(way, vector.repeat(count, 1), bits, seed))


@pytest.fixture(params=SETS)
def instructions(request):
    """Each instruction set that this processor has."""
    best = _kernels.quantiser()
    try:
        _kernels.use_quantiser(request.param)
    except ValueError:
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    _kernels.use_quantiser(best)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("way", WAYS)
def test_restored_values_are_unbiased(way, bits, dtype):
    vector = (torch.rand(64, generator=generator(3), dtype=torch.float64) * 5 - 2).to(dtype)
    count = 20_000
    got = draws(way, vector, bits, count, seed=bits).double()
    vector = vector.double()
    error = got.std(0) / count**0.5
    random = error > 1e-6  # minimum and maximum are restored exactly
    assert int(random.sum()) >= 60
    # 64 z-scores of a fair quantiser: beyond 4.5 with a probability of 64 * 7e-6.
    z = ((got.mean(0) - vector)[random] / error[random]).abs()
    assert float(z.max()) < 4.5
    # Rounding to the nearest instead would be off by whole fractions of a step: far beyond.
    step = (vector.max() - vector.min()) / (2**bits - 1)
    nearest = vector.min() + step * torch.round((vector - vector.min()) / step)
    assert float(((nearest - vector)[random] / error[random]).abs().max()) > 4.5


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("way", WAYS)
def test_variance_is_that_of_the_paper_for_evenly_spread_values(way, bits):
    width = 4096
    vector = torch.rand(width, generator=generator(8), dtype=torch.float64)
    scale = float((vector.max() - vector.min()) / (2**bits - 1))
    got = draws(way, vector, bits, 400, seed=bits + 10)
    variance = float(got.var(0).sum())
    assert variance == pytest.approx(width * scale**2 / 6, rel=0.04)
    assert variance < width * scale**2 / 4
    # Values are rounded independently of their neighbours, and rows of each other.
    noise = (got - vector) / scale
    for other in (noise.roll(1, 0), noise.roll(1, 1), noise.roll(8, 1), noise.roll(16, 1), noise.roll(32, 1)):
        correlation = float((noise * other).mean() / noise.square().mean())
        assert abs(correlation) < 5 / noise.numel() ** 0.5


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("way", WAYS)
def test_range_meta_order_and_extremes(way, bits):
    rows = torch.tensor([[-3.0, 5.0, 1.0, 0.0], [7.0, 7.0, 7.0, 7.0]])
    levels, meta = quantised(way, rows, bits)
    assert levels.dtype == torch.uint8
    assert levels[0, 0] == 0 and levels[0, 1] == 2**bits - 1
    assert meta[0].tolist() == pytest.approx([-3.0, 8 / (2**bits - 1)])  # the minimum, then the scale
    assert meta[1].tolist() == [7.0, 0.0]
    restored = dequantise(levels, meta)
    assert restored[1].tolist() == rows[1].tolist()
    assert float((restored - rows).abs().max()) <= float(meta[0, 1]) * (1 + 1e-6)
    big = quantised(way, torch.rand(200, 50, generator=generator(1)), bits)[0]
    assert int(big.max()) == 2**bits - 1
    assert sorted(set(big.flatten().tolist())) == list(range(2**bits))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("column", [0, 3, 31, 32, 39])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_that_are_not_finite_are_refused(bad, column, dtype):
    rows = torch.ones(3, 40, dtype=dtype)
    rows[1, column] = bad
    for bits in WIDTHS:
        with pytest.raises(NotFiniteError, match="NaN, infinity or an overflowing range"):
            encode(rows, torch.full((3,), bits, dtype=torch.uint8), 1)
        assert not finite(quantise(rows, bits, generator())[1])
    with pytest.raises(NotFiniteError):
        check([torch.tensor(True), torch.tensor(False)])
    check([torch.tensor(True)])


def test_a_range_that_overflows_is_refused():
    rows = torch.tensor([[-3e38, 3e38]])
    with pytest.raises(NotFiniteError):
        encode(rows, torch.ones(1, dtype=torch.uint8), 1)
    assert not finite(quantise(rows, 1, generator())[1])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WIDTHS), st.integers(0, 6), st.integers(1, 40), st.integers(0, 2**31))
def test_packing_round_trips(bits, rows, width, seed):
    levels = torch.from_numpy(np.random.default_rng(seed).integers(0, 2**bits, (rows, width), dtype=np.uint8))
    packed = pack(levels, bits)
    assert packed.shape == (rows, packed_width(width, bits))
    assert torch.equal(unpack(packed, bits, width), levels)


def test_packed_size_is_exact_and_padded_with_zero_bits_to_whole_bytes():
    assert [packed_width(256, bits) for bits in WIDTHS] == [32, 64, 128, 256]
    for width in range(1, 70):
        for bits in WIDTHS:
            exact = width * bits / 8
            assert (
                packed_width(width, bits) == exact
                if width * bits % 8 == 0
                else exact < packed_width(width, bits) < exact + 1
            )
    assert pack(torch.tensor([[1, 0, 0, 1, 0, 0, 0, 0, 1]], dtype=torch.uint8), 1).tolist() == [[9, 1]]
    assert pack(torch.tensor([[1, 2, 3]], dtype=torch.uint8), 4).tolist() == [[0x21, 0x03]]
    ends = torch.zeros(5, 9)
    ends[:, ::2] = 1  # ones and zeros are the ends of the range: no chance in it
    assert encode(ends, torch.ones(5, dtype=torch.uint8), 3)[40:].tolist() == [0x55, 1] * 5
    assert encode(ends[:, :3], torch.full((5,), 4, dtype=torch.uint8), 3)[40:].tolist() == [0x0F, 0x0F] * 5


finite_values = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, st.tuples(st.integers(0, 8), st.integers(1, 9)), elements=finite_values),
    st.integers(0, 2**31),
)
def test_messages_round_trip_within_a_step_of_each_row(values, seed):
    rows = torch.from_numpy(values)
    bits = torch.from_numpy(np.random.default_rng(seed).choice(WIDTHS, len(values)).astype(np.uint8))
    message = encode(rows, bits, seed)
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


@pytest.mark.parametrize("width", [1, 31, 32, 127, 128, 129, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_instruction_set_writes_and_reads_the_same_bytes(instructions, width, dtype):
    rows = torch.randn(50, width, generator=generator(width), dtype=dtype)
    bits = torch.from_numpy(np.random.default_rng(width).choice(WIDTHS, 50).astype(np.uint8))
    message = encode(rows, bits, 99)
    back = decode(message, 50, width, bits, dtype)
    _kernels.use_quantiser("baseline")
    assert encode(rows, bits, 99).tolist() == message.tolist()
    assert torch.equal(decode(message, 50, width, bits, dtype), back)
    other = encode(rows, bits, 100)
    assert other.tolist() != message.tolist() or width == 1


def test_a_message_reads_alike_natively_and_by_tensor_operations():
    rows = torch.randn(40, 77, generator=generator(5))
    bits = torch.from_numpy(np.random.default_rng(5).choice(WIDTHS, 40).astype(np.uint8))
    message, at = encode(rows, bits, 12), 320
    back, metas, first = decode(message, 40, 77, bits, rows.dtype), message[:320].view(rows.dtype), 0
    for width in WIDTHS:
        chosen = torch.nonzero(bits == width).flatten()
        size = len(chosen) * packed_width(77, width)
        packed = message[at : at + size].reshape(len(chosen), -1)
        meta = metas.reshape(40, 2)[first : first + len(chosen)]
        torch.testing.assert_close(dequantise(unpack(packed, width, 77), meta), back[chosen])
        at, first = at + size, first + len(chosen)


@pytest.mark.parametrize(
    ("bits", "size", "told"),
    [([3], 9, "3 given; allowed: 1, 2, 4, 8"), ([1, 1], 9, "one width per row"), ([1], 10, "message's size")],
)
def test_the_kernel_refuses_what_does_not_fit(bits, size, told):
    rows = np.zeros((1, 8), np.float32)
    with pytest.raises(ValueError, match=told):
        _kernels.quantise_message(rows, np.array(bits, np.uint8), 1, np.zeros(size, np.uint8))


@settings(max_examples=30, deadline=None)
@given(arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(1, 5)), elements=st.floats(width=32)))
def test_exact_messages_keep_every_bit(values):
    rows = torch.from_numpy(values)
    message = encode(rows, None, 0)
    assert len(message) == message_size(*rows.shape, None, rows.dtype).total == 4 * rows.numel()
    back = decode(message, *rows.shape, None, rows.dtype)
    assert back.numpy().tobytes() == values.tobytes()
