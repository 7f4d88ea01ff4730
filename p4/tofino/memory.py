"""What tables and arrays take of a stage's memory: blocks of SRAM and TCAM, map RAMs, crossbar bytes.

Estimates: an exact entry is its key (ten bits of it are the address), sixteen bits of overhead, and action
data up to 32 bits; wider action data has a table of its own. Hash tables are filled to nine tenths. A
ternary entry has its key, rounded up to 44 bits, and an SRAM word of 64 bits that points to its action.
Arrays have one block to spare, as stateful memory does on the chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from p4.lang import ir
from p4.lang import types as ty
from p4.tofino.salu import element_bits
from p4.tofino.units import COUNTING, STATEFUL, Array

SRAM_BITS, SRAM_WORDS = 128 * 1024, 1024
TCAM_WIDTH, TCAM_WORDS = 44, 512


@dataclass(frozen=True)
class Need:
    """Of a unit in its stage. `table_sram` and `tcam` may be spread over stages, the rest may not."""

    table_sram: int = 0
    tcam: int = 0
    exact_bytes: int = 0
    ternary_bytes: int = 0
    map_rams: int = 0
    stateful: int = 0
    counting: int = 0
    hash_slices: int = 0


def table_need(table: ir.Table, size: int) -> Need:
    """Of a table without its arrays."""
    if not table.keys:
        return Need()
    size = max(size, len(table.entries))
    if table.entries_are_const:
        size = max(1, len(table.entries))
    # A range takes two TCAM bits for each of its own (four bits in a nibble's encoding).
    widths = [(k.match_kind, ty.bit_width(k.expr.type) or 1) for k in table.keys]
    key = sum(w * (2 if kind == "range" else 1) for kind, w in widths)
    data = max(
        (sum(ty.bit_width(p.type) or 1 for p in u.action.data_params) for u in table.actions), default=0
    )
    immediate = data if data <= 32 else 0
    own = 0 if data <= 32 else ceil(size * _rounded(data) / SRAM_BITS)
    bytes_ = ceil(sum(w for _, w in widths) / 8)
    if any(kind != "exact" for kind, _ in widths):
        blocks = ceil(key / TCAM_WIDTH) * ceil(size / TCAM_WORDS)
        return Need(ceil(size * 64 / SRAM_BITS) + own, blocks, 0, max(bytes_, ceil(key / 8)))
    entry = max(1, key - 10) + 16 + immediate
    entries_of_word, words_of_entry = max(1, 128 // entry), ceil(entry / 128)
    filled = size if size <= SRAM_WORDS else ceil(size / 0.9)
    blocks = words_of_entry * ceil(filled / (SRAM_WORDS * entries_of_word))
    return Need(blocks + own, 0, bytes_, 0)


def _rounded(bits: int) -> int:
    """To a width that action memory has."""
    size = 8
    while size < bits:
        size *= 2
    return size


def array_need(array: Array, index_bits: int, size: int) -> Need:
    """Of a register, counter or meter with `size` elements."""
    kind = array.kind
    bits = max(1, element_bits(array.instance)) if kind in ("Register", "DirectRegister") else 64
    blocks = ceil(size * bits / SRAM_BITS) + 1
    address = max(1, (size - 1).bit_length()) if index_bits else 0
    slices = 0 if kind.startswith("Direct") else ceil(min(address, 23) / 16)
    return Need(
        map_rams=blocks, stateful=int(kind in STATEFUL), counting=int(kind in COUNTING), hash_slices=slices
    )
