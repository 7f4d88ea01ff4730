"""The commands of the workloads rooms, for the front door."""

from __future__ import annotations

import argparse

from workloads.graphs import cli as graph_cli
from workloads.partition import dynamic_cli
from workloads.plan import cli as plan_cli
from workloads.traces import cli as trace_cli
from workloads.training import cli as training_cli
from workloads.training.dynamic import cli as dynamic_training_cli


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `netfold graph`, `netfold plan`, `netfold train` and `netfold trace`."""
    graph_cli.add_commands(subparsers)
    dynamic_cli.add_commands(subparsers)
    plan_cli.add_commands(subparsers)
    training_cli.add_commands(subparsers)
    dynamic_training_cli.add_commands(subparsers)
    trace_cli.add_commands(subparsers)
