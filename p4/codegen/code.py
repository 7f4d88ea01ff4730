"""Source text as lines with indentation, and names that C++ accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from p4.lang.diagnostics import Diagnostic, P4Error, Span

# C++ keywords that are ordinary names in P4, and names that the generated code uses itself.
_RESERVED_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const_cast consteval constexpr constinit decltype delete
    do double dynamic_cast explicit export float friend goto inline long mutable namespace new noexcept
    not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    short signed sizeof static static_assert static_cast template this thread_local throw try typeid
    typename union unsigned using virtual volatile wchar_t while xor xor_eq const break continue else
    enum extern false for if int return struct switch true void default main f bit sint number varbit
    Stack Table Register Counter Meter Context Frame Program p4 std cast slice concat shl shr read write
    valid_ set_valid size_bits fixed_bits varbit_bits only apply error assert errno NULL EOF stdin stdout
    stderr linux unix Algorithm ActionCall BitWriter Digest Engine Entry Kind KeyField Meta Headers StdMeta
    Packed PacketIn PacketOut ParserError RegisterView State TableResult ValueSet Wide data_param
    Rehearsal RegisterArray RegisterMemory InternetSum InstantPorts Bytes Uncleared Item Pool Pipeline
    Switch Replica CloneSession Next InstanceType EgressQueue EgressQueues MeterState KeyMap Status Indirect
    append record_bytes rounded_up element_alignment swap_run swapped offsetof
    error_t key_field load load_at max_parser_steps no_error no_field_list no_match ones parser_timeout
    rep resize sat_add sat_sub set_slice set_slice_at
    to_text shift_amount slice_at store store_at u128 uint8_t uint16_t uint32_t uint64_t int64_t
    size_t std_meta
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())


def cpp_name(name: str) -> str:
    """A P4 name as a C++ name; distinct names stay distinct."""
    clean = re.sub(r"\W", "_", name)
    if clean in _RESERVED or clean.endswith("_") or "__" in clean or clean.startswith("_"):
        # Names with these shapes are the generated code's own or the compiler's.
        return "p_" + clean.replace("_", "_u") + "_p"
    return clean


def cpp_string(text: str) -> str:
    """A P4 string (its escapes as written) as a C++ literal."""
    plain = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text, flags=re.DOTALL)
    kept = (chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in plain.encode())
    return f'"{"".join(kept)}"'


def unsupported(span: Span | None, what: str, instead: str = "") -> P4Error:
    """The engine's refusal of a correct program's construct."""
    return P4Error([Diagnostic(span, f"{what} is not supported by the engine", instead)])


class Code:
    """Lines of source."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def line(self, text: str = "") -> None:
        self.lines.append("  " * self.indent + text if text else "")

    def add(self, other: Code) -> None:
        self.lines.extend("  " * self.indent + line if line else "" for line in other.lines)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self.line(f"{head} {{" if head else "{")
        self.indent += 1
        yield
        self.indent -= 1
        self.line(tail)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
