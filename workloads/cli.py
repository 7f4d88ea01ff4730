"""The commands of the workloads rooms, for the front door."""

from __future__ import annotations

import argparse

from workloads.graphs import cli as graph_cli
from workloads.plan import cli as plan_cli


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add `netfold graph` and `netfold plan`."""
    graph_cli.add_commands(subparsers)
    plan_cli.add_commands(subparsers)
