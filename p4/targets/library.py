"""The C ABI of a generated library (p4/runtime/netfold_p4/abi.h) as ctypes declarations."""

from __future__ import annotations

import ctypes as c
from pathlib import Path

_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "nf_abi_version": (c.c_int, []),
    "nf_create": (c.c_void_p, [c.c_uint64]),
    "nf_destroy": (None, [c.c_void_p]),
    "nf_receive": (
        None,
        [c.c_void_p, c.c_uint64, c.c_void_p, c.c_void_p, c.c_void_p, c.c_uint64, c.c_uint64],
    ),
    "nf_advance": (None, [c.c_void_p, c.c_uint64]),
    "nf_next_due": (c.c_uint64, [c.c_void_p]),
    "nf_ingress": (
        c.c_uint64,
        [c.c_void_p, c.c_uint32, c.c_char_p, c.c_uint64, c.c_uint64, c.c_uint32, c.POINTER(c.c_void_p)],
    ),
    "nf_pass": (
        c.c_uint64,
        [c.c_void_p, c.c_uint64, c.c_uint64, c.c_uint64, c.c_uint32, c.c_uint32, c.POINTER(c.c_void_p)],
    ),
    "nf_pass_at_once": (None, [c.c_void_p, c.c_uint32, c.c_int]),
    "nf_pass_ahead": (None, [c.c_void_p, c.c_uint32, c.c_int]),
    "nf_turns": (None, [c.c_void_p, c.c_uint32, c.POINTER(c.c_uint64)]),
    "nf_announce": (None, [c.c_void_p, c.c_uint32, c.c_char_p, c.c_uint64]),
    "nf_prefetch": (None, [c.c_void_p, c.c_uint64]),
    "nf_discard": (None, [c.c_void_p, c.c_uint64]),
    "nf_queue": (None, [c.c_void_p, c.c_uint32, c.c_int, c.c_uint64, c.c_uint64]),
    "nf_queue_state": (c.c_int, [c.c_void_p, c.c_uint32, c.c_uint32, c.POINTER(c.c_uint64)]),
    "nf_output": (c.c_uint64, [c.c_void_p] + [c.POINTER(c.c_void_p)] * 5),
    "nf_clear_output": (None, [c.c_void_p]),
    "nf_statistics": (c.POINTER(c.c_uint64), [c.c_void_p]),
    "nf_table_insert": (
        c.c_int,
        [
            *(c.c_void_p, c.c_int, c.c_char_p, c.c_char_p, c.c_int, c.c_int64, c.c_int, c.c_char_p),
            *(c.c_int, c.c_int, c.c_int),
        ],
    ),
    "nf_table_find": (c.c_int, [c.c_void_p, c.c_int, c.c_char_p, c.c_char_p, c.c_int, c.c_int64]),
    "nf_table_modify": (
        c.c_int,
        [c.c_void_p, c.c_int, c.c_int, c.c_int, c.c_char_p, c.c_int, c.c_int, c.c_int],
    ),
    "nf_table_uses": (c.c_int, [c.c_void_p, c.c_int, c.c_int, c.c_int]),
    "nf_member_add": (c.c_int, [c.c_void_p, c.c_int, c.c_int, c.c_char_p, c.c_int]),
    "nf_member_modify": (c.c_int, [c.c_void_p, c.c_int, c.c_int, c.c_int, c.c_char_p, c.c_int]),
    "nf_member_erase": (c.c_int, [c.c_void_p, c.c_int, c.c_int]),
    "nf_group_set": (c.c_int, [c.c_void_p, c.c_int, c.c_int, c.c_uint64, c.c_void_p]),
    "nf_group_erase": (c.c_int, [c.c_void_p, c.c_int, c.c_int]),
    "nf_profile_has": (c.c_int, [c.c_void_p, c.c_int, c.c_int, c.c_int]),
    "nf_table_erase": (c.c_int, [c.c_void_p, c.c_int, c.c_int]),
    "nf_table_default": (None, [c.c_void_p, c.c_int, c.c_int, c.c_char_p, c.c_int]),
    "nf_entry_counters": (c.c_int, [c.c_void_p, c.c_int, c.c_int, c.POINTER(c.c_uint64)]),
    "nf_value_set_insert": (c.c_int, [c.c_void_p, c.c_int, c.c_char_p, c.c_char_p]),
    "nf_value_set_clear": (None, [c.c_void_p, c.c_int]),
    "nf_register": (
        c.c_uint64,
        [c.c_void_p, c.c_int, c.POINTER(c.c_void_p), c.POINTER(c.c_int), c.POINTER(c.c_uint64)],
    ),
    "nf_counter": (c.c_uint64, [c.c_void_p, c.c_int, c.POINTER(c.c_void_p), c.POINTER(c.c_void_p)]),
    "nf_meter_configure": (
        c.c_int,
        [c.c_void_p, c.c_int, c.c_uint64, c.c_double, c.c_double, c.c_double, c.c_double, c.c_uint64],
    ),
    "nf_multicast_group": (None, [c.c_void_p, c.c_uint32, c.c_uint64, c.c_void_p, c.c_void_p]),
    "nf_clone_session": (None, [c.c_void_p, c.c_uint32, c.c_int64, c.c_uint32, c.c_uint32]),
    "nf_digest_count": (c.c_uint64, [c.c_void_p]),
    "nf_digest": (c.c_uint64, [c.c_void_p, c.c_uint64, c.POINTER(c.c_int), c.POINTER(c.c_void_p)]),
    "nf_log_count": (c.c_uint64, [c.c_void_p]),
    "nf_log": (c.c_uint64, [c.c_void_p, c.c_uint64, c.POINTER(c.c_void_p)]),
    "nf_log_clear": (c.c_uint64, [c.c_void_p]),
    "nf_digest_clear": (None, [c.c_void_p]),
}

ABI_VERSION = 7


def open_library(path: Path) -> c.CDLL:
    """The library with its functions typed. Raises OSError if it cannot be loaded."""
    library = c.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    version = library.nf_abi_version()
    if version != ABI_VERSION:
        raise OSError(f"{path}: ABI version {version}, this netfold speaks {ABI_VERSION}")
    return library
