"""Numbers in a graph's source, such as the 100 of `star:100`."""

from __future__ import annotations

from workloads.errors import InputError


def whole_number(source: str, what: str, text: str, least: int, most: int) -> int:
    """The whole number that `text` is. Raises InputError, which says what of which source it is."""
    value = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
    if not least <= value <= most:
        raise InputError(
            f"graph {source[:80]!r}: {what} {text[:40]!r}, allowed is a whole number {least}..{most}"
        )
    return value
