"""`netfold train`: train a model on a partitioned graph with one of the training systems."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from workloads.errors import InputError
from workloads.graphs import load_graph
from workloads.partition import partition_graph
from workloads.partition.make import METHODS
from workloads.terminal import plain_console
from workloads.training.around import folders, size, trained_and_told
from workloads.training.data import training_data
from workloads.training.display import training_progress
from workloads.training.options import (
    BITS,
    CLOCKS,
    DEVICES,
    MASKS,
    MODEL_NAMES,
    MODES,
    PRECISIONS,
    SYSTEM_NAMES,
    TrainOptions,
)
from workloads.training.presets import DATA_SETS, preset
from workloads.training.require import require_torch
from workloads.training.transformer import names
from workloads.training.transformer.arguments import add_transformer_arguments, is_transformer

if TYPE_CHECKING:
    from workloads.training.job import Trained


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `netfold train`."""
    train = subparsers.add_parser(
        "train", help="train a graph neural network on workers of this machine, every byte counted"
    )
    base = TrainOptions()
    train.add_argument(
        "--system",
        choices=(*SYSTEM_NAMES, *names.SYSTEM_NAMES),
        default=base.system,
        help="default: %(default)s",
    )
    models = (*MODEL_NAMES, *names.MODEL_NAMES)
    train.add_argument(
        "--model",
        choices=models,
        help=f"default: {base.model}, graphormer-slim for graph transformers",
    )
    train.add_argument("--graph", default="debian", help="name, shape or path (default: %(default)s)")
    train.add_argument("--scale", type=float, default=1.0, help="share of a stand-in's vertices (default 1)")
    train.add_argument("--workers", type=int, default=4, help="worker processes (default: %(default)s)")
    train.add_argument("--partition", choices=METHODS, default="metis", help="default: %(default)s")
    train.add_argument(
        "--preset",
        choices=DATA_SETS,
        help="layers, hidden, epochs, dropout as SYLVIE's paper has them on this",
    )
    for flag, kind, what in (
        ("--layers", int, "propagations of the model"),
        ("--hidden", int, "hidden width"),
        ("--epochs", int, "epochs"),
        ("--dropout", float, "share of values dropped in training"),
    ):
        standard = getattr(base, flag.removeprefix("--"))
        help_text = f"{what} (default {standard}, or the preset's)"
        train.add_argument(flag, type=kind, metavar="N", help=help_text)
    train.add_argument(
        "--lr",
        type=float,
        metavar="N",
        help=f"Adam's learning rate (default {base.lr}, 0.001 for graph transformers)",
    )
    _number(train, "--seed", base.seed, "seed of split, weights, dropout, sampling and rounding")
    _number(train, "--eval-every", base.eval_every, "epochs between evaluations")
    _number(train, "--threads", base.threads, "torch threads of a worker")
    _number(train, "--timeout", base.timeout_s, "seconds a worker waits for another", dest="timeout_s")
    train.add_argument(
        "--precision",
        choices=(*PRECISIONS, "bfloat16"),
        default=base.precision,
        help="float64 shows exactness to the digit",
    )
    train.add_argument(
        "--device", choices=DEVICES, default=base.device, help="auto: CUDA where each worker finds a device"
    )
    train.add_argument(
        "--checkpoint-every",
        type=int,
        default=0,
        metavar="N",
        help="epochs between checkpoints, beside the results folder (default 0: only when interrupted)",
    )
    train.add_argument(
        "--resume", action="store_true", help="the same command again: go on from its newest checkpoint"
    )
    train.add_argument("-o", "--output", type=Path, help="results folder (default: results/train-...)")
    train.add_argument(
        "--json", action="store_true", help="print settings, summary and every epoch's log as one JSON object"
    )
    sampling = train.add_argument_group("bns-gcn")
    _number(sampling, "--share", base.share, "share of the halo that takes part in an epoch")
    sylvie = train.add_argument_group("sylvie", "each of its dimensions can be fixed or turned off alone")
    sylvie.add_argument("--bits", choices=BITS, default=base.bits, help="base width; 32 sends exact values")
    sylvie.add_argument("--mask", choices=MASKS, default=base.mask, help="which vertices get more bits")
    sylvie.add_argument("--mode", choices=MODES, default=base.mode, help="synchronous or one epoch stale")
    _number(sylvie, "--lambda", base.smoothing, "smoothing of the loss", dest="smoothing")
    _number(sylvie, "--delta", base.gap, "epochs back that the loss descent rate is compared", dest="gap")
    _number(sylvie, "--warmup", base.warmup, "epochs before which width and mode stay as they begin")
    sylvie.add_argument(
        "--clock",
        choices=CLOCKS,
        default=base.clock,
        help="epoch time for the controller (default: counted)",
    )
    _number(sylvie, "--link-gbps", base.link_gbps, "link rate of the counted clock")
    add_transformer_arguments(train)
    train.set_defaults(run=_train)


def _number(parser: Any, flag: str, default: float, what: str, dest: str | None = None) -> None:
    name = dest or flag.removeprefix("--").replace("-", "_")
    parser.add_argument(
        flag, dest=name, type=type(default), default=default, metavar="N", help=f"{what} (default {default})"
    )


def _train(args: argparse.Namespace) -> int:
    require_torch("train")
    if is_transformer(args):
        from workloads.training.transformer.command import train_graph_transformer  # noqa: PLC0415

        return train_graph_transformer(args)
    given = {field.name: getattr(args, field.name) for field in fields(TrainOptions)}
    chosen: dict[str, Any] = (
        dict(preset(args.preset, args.model or TrainOptions().model)) if args.preset else {}
    )
    options = TrainOptions(**(chosen | {name: value for name, value in given.items() if value is not None}))
    folder, checkpoints = folders(args, "train", options.system, options.model)
    from workloads.training.records import write_run  # noqa: PLC0415  # imports torch, which is optional

    def train() -> tuple[dict[str, Any], Trained | None]:
        return _trained(args, options, checkpoints)

    return trained_and_told(args, (folder, checkpoints), train, write_run, _show)


def _trained(
    args: argparse.Namespace, options: TrainOptions, checkpoints: Path
) -> tuple[dict[str, Any], Trained | None]:
    """(settings, what the run left), the latter on worker 0 only."""
    from workloads.training import launch  # noqa: PLC0415
    from workloads.training.checkpoint import refuse_other_run  # noqa: PLC0415
    from workloads.training.failure import LESS_MEMORY, out_of_memory  # noqa: PLC0415
    from workloads.training.member import join_torchrun  # noqa: PLC0415
    from workloads.training.prepare import Keeping, identity, make_jobs  # noqa: PLC0415
    from workloads.training.records import settings  # noqa: PLC0415

    member = join_torchrun(options, args.workers)
    try:
        graph = load_graph(args.graph, scale=args.scale, seed=args.seed, features=True)
        data = training_data(graph, args.seed)
        partition = partition_graph(graph, args.workers, method=args.partition, seed=args.seed)
        keeping = Keeping(checkpoints, args.checkpoint_every, args.resume)
        if args.resume and member is None:
            refuse_other_run(checkpoints, args.workers, identity(graph, partition, options))
        about = settings(graph, partition, data, options)
        with training_progress(f"{options.system} {options.model}", options.epochs) as on_epoch:
            if member is None:
                jobs = make_jobs(graph, partition, data, options, keeping=keeping)
                return about, launch.train_cluster(jobs, on_epoch)
            [job] = make_jobs(graph, partition, data, options, ranks=[member.rank], keeping=keeping)
            return about, member.train(job, on_epoch)
    except Exception as error:
        if member is not None:
            member.fail(error)
        if not isinstance(error, InputError) and out_of_memory(error):
            raise InputError(f"train: out of memory; {LESS_MEMORY}") from None
        raise


def _show(about: dict[str, Any], figures: dict[str, Any], folder: Path) -> None:
    title = f"{about['system']}, {about['model']} on {about['graph']}, {about['workers']} workers"
    table = Table(show_header=False, box=None, title=title, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    sizes = {kind: size(figures[f"{kind}_bytes"] / figures["epochs"]) for kind in _SHOWN}
    table.add_row("loss", f"{figures['final_loss']:.4f} after {figures['epochs']} epochs")
    table.add_row(
        about["score"],
        f"test {100 * figures['test_score']:.2f} %, validation {100 * figures['validation_score']:.2f} % "
        f"(best, epoch {figures['best_epoch']})",
    )
    bits = f", {figures['mean_bits']:.2f} bits a value" if about["system"] == "sylvie" else ""
    table.add_row("sent an epoch", ", ".join(f"{kind} {told}" for kind, told in sizes.items()) + bits)
    table.add_row(
        "kept, most",
        f"{size(figures['saved_bytes'])} for backward, {size(figures['halo_bytes'])} remote rows at once",
    )
    table.add_row("epoch", f"{figures['epoch_s']:.3f} s, measured on this machine ({figures['device']})")
    if about["made_up"]:
        table.add_row("made up", about["made_up"])
    table.add_row("records", str(folder))
    plain_console().print(table)


_SHOWN = ("embeddings", "gradients", "scales", "weights")
