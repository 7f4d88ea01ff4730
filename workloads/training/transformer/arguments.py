"""The flags of graph transformers in `netfold train`; nothing here loads torch."""

from __future__ import annotations

import argparse

from workloads.errors import InputError
from workloads.training.options import TrainOptions
from workloads.training.transformer.names import (
    EXCHANGES,
    INTERLEAVES,
    ORDERS,
    OWN_FLAGS,
    PATTERNS,
    SIDES,
    SYSTEM_NAMES,
)

_OTHERS = ("share", "bits", "mask", "mode", "link_gbps")


def add_transformer_arguments(train: argparse.ArgumentParser) -> None:
    """Flags that other systems refuse; None where not given."""
    group = train.add_argument_group(
        "graph transformers (torchgt, gp-raw, gp-flash, gp-sparse)",
        "each of TorchGT's ingredients can be switched off alone; example: netfold train --system torchgt "
        "--model graphormer-slim --graph planted:3000 --workers 2",
    )
    add = group.add_argument
    add("--heads", type=int, metavar="N", help="attention heads (default: the model's)")
    add("--pattern", choices=PATTERNS, help="topology, or full: every layer fully connected")
    add("--order", choices=ORDERS, help="tokens' order (default: metis; the graph's own for gp-*)")
    add("--exchange", choices=EXCHANGES, help="around attention (default: all-to-all; all-gather for gp-*)")
    add("--reform", choices=("on", "off"), help="collect sparse clusters in compact tiles (default on)")
    add("--interleave", choices=INTERLEAVES, help="fully connected layers (auto: where conditions fail)")
    add("--dense-every", type=int, metavar="N", help="epochs from one such layer to the next (default 10)")
    add("--clusters", type=int, metavar="K", help="clusters k (default: measured on this device)")
    add("--sub-block", type=int, choices=SIDES, help="tile side d_b (default: measured on this device)")
    add("--beta", type=float, metavar="X", help="fixed threshold, times the graph's density (default: tuned)")
    add("--batch", type=int, metavar="N", help="graphs of a step, for families:COUNT (default 32)")


def is_transformer(args: argparse.Namespace) -> bool:
    """Whether the command is for a graph transformer. Raises InputError for a flag of the other kind."""
    if args.system not in SYSTEM_NAMES:
        for name in OWN_FLAGS:
            if getattr(args, name) is not None:
                flag = name.replace("_", "-")
                raise InputError(
                    f"{flag}: given with system {args.system}; allowed with {', '.join(SYSTEM_NAMES)}"
                )
        return False
    base = TrainOptions()
    for name in _OTHERS:
        if getattr(args, name) != getattr(base, name):
            flag = name.replace("_", "-")
            raise InputError(
                f"{flag}: given with system {args.system}; allowed with dgl, sylvie and the like"
            )
    if args.preset:
        raise InputError(
            f"preset: given with system {args.system}; a graph transformer's shape is its --model"
        )
    if args.partition != "metis":
        raise InputError(f"partition: given with system {args.system}; --order orders its tokens")
    return True
