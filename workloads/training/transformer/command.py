"""`netfold train` for graph transformers: the run, and what people read of it."""

from __future__ import annotations

import argparse
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from workloads.errors import InputError
from workloads.graphs import Graph, load_graph
from workloads.terminal import plain_console
from workloads.training.around import folders, plain, trained_and_told
from workloads.training.data import TrainingData, training_data
from workloads.training.device import choose_device
from workloads.training.display import training_progress
from workloads.training.failure import LESS_MEMORY, out_of_memory
from workloads.training.job import Trained
from workloads.training.launch import WorkerError, run_cluster
from workloads.training.member import Member, join_torchrun
from workloads.training.prepare import Keeping
from workloads.training.transformer.fits import less_memory
from workloads.training.transformer.graph_set import GraphSet, families
from workloads.training.transformer.names import SET_PREFIX
from workloads.training.transformer.options import TransformerOptions
from workloads.training.transformer.prepare import Prepared, prepare_graph, prepare_set
from workloads.training.transformer.records import settings, write_run
from workloads.training.transformer.worker import train_transformer


def train_graph_transformer(args: argparse.Namespace) -> int:
    """Run what `netfold train` was asked for."""
    options = _options(args)
    places = folders(args, "train", options.system, options.model)
    known: dict[str, Any] = {}

    def train() -> tuple[dict[str, Any], Trained | None]:
        about, run, known["prepared"], known["data"] = _trained(args, options, places[1])
        return about, run

    def write(folder: Path, about: dict[str, Any], run: Trained) -> dict[str, Any]:
        return write_run(folder, about, run, options=options, **known)

    def show(about: dict[str, Any], figures: dict[str, Any], folder: Path) -> None:
        _show(about, figures, known["prepared"], folder)

    def more() -> dict[str, Any]:
        return {"reformations": [plain(row) for row in known["prepared"].reformations]}

    return trained_and_told(args, places, train, write, show, more=more)


def _trained(
    args: argparse.Namespace, options: TransformerOptions, checkpoints: Path
) -> tuple[dict[str, Any], Trained | None, Prepared, TrainingData | None]:
    """(settings, the run or None where another worker has it, what was prepared, a single graph's data)."""
    keeping = Keeping(checkpoints, args.checkpoint_every, args.resume)
    member = join_torchrun(options, args.workers)
    run: Trained | None
    try:
        graph, data, prepared = _prepared(args, options, keeping, member)
        about = settings(graph, data, prepared, options)
        with training_progress(f"{options.system} {options.model}", options.epochs, _told) as on_epoch:
            if member is None:
                run = run_cluster(prepared.jobs, on_epoch, train_transformer)
            else:
                run = member.run(prepared.jobs[member.rank], on_epoch, train_transformer)
    except WorkerError as error:
        # The launcher knows what graph neural networks can do about it.
        told = str(error).replace(LESS_MEMORY, less_memory(options))
        raise WorkerError(told, error.report) from None
    except Exception as error:
        if not isinstance(error, InputError) and out_of_memory(error):
            error = InputError(f"train: out of memory; {less_memory(options)}")
        if member is not None:
            member.fail(error)
        raise error from None
    return about, run, prepared, data


def _options(args: argparse.Namespace) -> TransformerOptions:
    given = {field.name: getattr(args, field.name, None) for field in fields(TransformerOptions)}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if "reform" in chosen:
        chosen["reform"] = chosen["reform"] == "on"
    if args.graph.startswith(SET_PREFIX) and args.exchange is None:
        chosen["exchange"] = "all-to-all"  # the only one for a set
    return TransformerOptions(**chosen)


def _prepared(
    args: argparse.Namespace, options: TransformerOptions, keeping: Keeping, member: Member | None
) -> tuple[Graph | GraphSet, TrainingData | None, Prepared]:
    device = choose_device(options.device, 0, args.workers) if member is None else member.device(options)
    kept = _kept_choice(keeping) if keeping.resume else None
    graph: Graph | GraphSet
    data: TrainingData | None = None
    if args.graph.startswith(SET_PREFIX):
        graph = families(args.graph, options.seed)
    else:
        graph = load_graph(args.graph, scale=args.scale, seed=options.seed, features=True)
        data = training_data(graph, options.seed)

    def prepare(kept: tuple[int, int, int] | None) -> Prepared:
        if isinstance(graph, GraphSet):
            return prepare_set(graph, options, args.workers, device, keeping=keeping, kept=kept)
        assert data is not None
        return prepare_graph(graph, data, options, args.workers, device, keeping=keeping, kept=kept)

    if member is None:
        return graph, data, prepare(kept)
    # Workers that measured each for itself could choose different layouts: worker 0's holds for all.
    if member.rank != 0:
        clusters, side, least = (int(number) for number in member.told("layout").split())
        return graph, data, prepare((clusters, side, least))
    prepared = prepare(kept)
    chosen = (prepared.order.clusters, prepared.tiling.side, prepared.tiling.least)
    member.tell("layout", " ".join(map(str, chosen)))
    return graph, data, prepared


def _kept_choice(keeping: Keeping) -> tuple[int, int, int] | None:
    """(k, d_b, pairs of a tile) of the newest checkpoint; None where it is unreadable: its worker says so."""
    files = sorted(keeping.folder.glob("worker-0-*.pt"), key=lambda path: path.stat().st_mtime)
    try:
        clusters, side, least = torch.load(files[-1], weights_only=True)["choice"]
        return int(clusters), int(side), int(least)
    except Exception:  # a damaged file may raise anything
        return None


def _told(row: dict[str, Any]) -> str:
    score = row["validation_score"]
    scored = "" if math.isnan(score) else f"validation {100 * score:.2f} %, "
    dense = ", a full layer" if row["dense_layers"] else ""
    return f"loss {row['loss']:.4f}, {scored}{row['epoch_s']:.2f} s, beta {row['beta_multiple']:g}{dense}"


def _show(about: dict[str, Any], figures: dict[str, Any], prepared: Prepared, folder: Path) -> None:
    title = f"{about['system']}, {about['model']} on {about['graph']}, {about['workers']} workers"
    table = Table(show_header=False, box=None, title=title, title_justify="left", title_style="bold")
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("loss", f"{figures['final_loss']:.4f} after {figures['epochs']} epochs")
    table.add_row(
        about["score"],
        f"test {100 * figures['test_score']:.2f} %, validation {100 * figures['validation_score']:.2f} % "
        f"(best, epoch {figures['best_epoch']}); {about['precision']}",
    )
    if about["attention"] == "cluster":
        conditions = prepared.conditions
        held = (
            f"self attention {_yes(conditions.self_attention)}, Hamiltonian path (Dirac) "
            f"{_yes(conditions.hamiltonian_path)}, reach in {about['shape']['layers']} layers "
            f"{_yes(conditions.all_pairs_reach)} ({conditions.reach})"
        )
        table.add_row("conditions", held)
        table.add_row(
            "dense layers", f"{100 * figures['dense_layer_share']:.2f} % of all layers run in training"
        )
        table.add_row(
            "layout",
            f"k {about['clusters']}, d_b {about['sub_block']}, "
            f"tiles from {about['tile_pays_from_pairs']} pairs on; "
            f"{100 * figures['mean_moved_share']:.1f} % of the pairs moved in the mean epoch",
        )
    sent = figures["forward_bytes"] + figures["backward_bytes"]
    table.add_row(
        "exchanged",
        f"{figures['handed_values']:,.0f} values a worker and layer forward, by formula "
        f"{figures['formula_values']:,.0f}; {sent / 1e6:.2f} MB sent in all, {about['exchange']}",
    )
    table.add_row("epoch", f"{figures['epoch_s']:.3f} s, measured on this machine ({figures['device']})")
    table.add_row(
        "preparation",
        f"{figures['preparation_s']:.2f} s, {100 * figures['preparation_share']:.1f} % of the whole run",
    )
    table.add_row(
        "memory",
        f"{figures['saved_bytes'] / 1e6:.1f} MB kept for backward, "
        f"{figures['topology_bytes'] / 1e6:.1f} MB of topology, {figures['peak_bytes'] / 1e6:.0f} MB in all",
    )
    if about["made_up"]:
        table.add_row("made up", about["made_up"])
    table.add_row("records", str(folder))
    plain_console().print(table)


def _yes(holds: bool) -> str:
    return "holds" if holds else "not shown"
