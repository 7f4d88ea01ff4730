"""Partitions: which worker holds which vertex, by METIS, at random, or in runs of vertex ids."""

from __future__ import annotations

from workloads.partition.make import partition_graph
from workloads.partition.partition import Partition

__all__ = ["Partition", "partition_graph"]
