"""The flags of graph transformers in `netfold train`; nothing here loads torch."""

from __future__ import annotations

import argparse

from workloads.errors import InputError
from workloads.training.options import TrainOptions
from workloads.training.transformer.names import (
    BATCH,
    EXCHANGES,
    INTERLEAVES,
    KERNELS,
    ORDERS,
    OWN_FLAGS,
    PATTERNS,
    SIDES,
    SYSTEM_NAMES,
)

TILES = ("reform", "interleave", "dense_every", "sub_block")
"""Ingredients that the baselines have not; their options refuse pattern and beta."""
WITHOUT = {
    "beta": (("reform", "off"), ("pattern", "full")),
    "dense_every": (("interleave", "never"), ("pattern", "full")),
    "interleave": (("pattern", "full"),),
    "sub_block": (("pattern", "full"),),
    "reform": (("pattern", "full"),),
}
"""Options without effect where another has this value."""
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
    add("--batch", type=int, metavar="N", help=f"graphs of a step, for families:COUNT (default {BATCH})")
    add("--bias-lr", type=float, metavar="N", help="learning rate of B, times --lr (default 30)")
    add(
        "--kernel",
        choices=KERNELS,
        help="native on a CPU, flex or triton on CUDA, plain: torch operations; auto: the device's",
    )


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
    _check_ingredients(args)
    if args.partition != "metis":
        raise InputError(f"partition: given with system {args.system}; --order orders its tokens")
    return True


def _check_ingredients(args: argparse.Namespace) -> None:
    """Raises InputError for a flag that what else was asked for leaves without effect."""
    for name in TILES if args.system != "torchgt" else ():
        if getattr(args, name) is not None:
            flag = name.replace("_", "-")
            raise InputError(f"{flag}: given with system {args.system}; allowed with torchgt")
    for name, others in WITHOUT.items():
        for other, off in others:
            if getattr(args, name) is not None and getattr(args, other) == off:
                given = f"{name.replace('_', '-')}: {getattr(args, name)} given"
                raise InputError(f"{given}, but with --{other} {off} it has no effect; leave one of them out")
