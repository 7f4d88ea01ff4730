"""The names that a command line needs before torch is loaded."""

from __future__ import annotations

SYSTEM_NAMES = ("torchgt", "gp-raw", "gp-flash", "gp-sparse")
MODEL_NAMES = ("graphormer-slim", "graphormer-large", "gt")
PATTERNS = ("topology", "full")
INTERLEAVES = ("auto", "always", "never")
ORDERS = ("metis", "natural", "random")
EXCHANGES = ("all-to-all", "all-gather")
KERNELS = ("auto", "native", "plain", "flex", "triton")
PRECISIONS = ("float32", "float64", "bfloat16")
SIDES = (8, 16, 32)
SET_PREFIX = "families:"
BATCH = 32
"""Graphs of a step, where nothing else is said."""

OWN_FLAGS = (
    "heads",
    "pattern",
    "order",
    "exchange",
    "reform",
    "interleave",
    "dense_every",
    "clusters",
    "sub_block",
    "beta",
    "batch",
    "kernel",
    "bias_lr",
)
"""Options of graph transformers alone, which are refused for other systems."""
