"""A unit's address: a digest of everything that decides its result, so that equal work is done once."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sim.job import Variant
from sim.scenario import Scenario
from workloads.graphs.dynamic.streams import READERS
from workloads.graphs.formats.registry import FORMATS
from workloads.graphs.sources import catalogue

DIGITS = 16


def absolute_inputs(scenario: Scenario) -> Scenario:
    """The scenario with the paths of its files made absolute: a cluster's workers stand elsewhere."""
    kind, path = _graph_path(scenario.graph.source)
    graph, compute = scenario.graph, scenario.compute
    if path is not None:
        graph = replace(graph, source=f"{kind}{os.path.abspath(path)}")
    if compute.table:
        compute = replace(compute, table=os.path.abspath(compute.table))
    return replace(scenario, graph=graph, compute=compute)


def unit_name(variant: Variant, known_files: dict[tuple[str, str], str]) -> str:
    """<label>-<digest> of a single variant. known_files: digests of input files, filled as they are read."""
    scenario = variant.scenario
    told: dict[str, Any] = {"netfold": version("netfold"), **_keys(scenario, known_files)}
    return f"{variant.label}-{_digest(told)}"


def group_name(variant: Variant, known_files: dict[tuple[str, str], str]) -> str:
    """The address of what units can be prepared with together: graph, partition and compute times."""
    keys = _keys(variant.scenario, known_files)
    told = {name: keys[name] for name in ("graph", "partition", "model", "compute", "cluster")}
    told |= {"value_mode": keys["run"]["value_mode"]}
    if keys["run"]["value_mode"]:  # the values are drawn from it
        told |= {"seed": keys["run"]["seed"]}
    if variant.system.dynamic:  # its plans are one epoch's, by all of these
        told |= {name: keys[name] for name in ("dynamic", "plan")}
        told |= {"seed": keys["run"]["seed"], "packet": variant.scenario.switch.aggregator_bytes}
    return _digest({"netfold": version("netfold"), **told})


def plan_name(variant: Variant, known_files: dict[tuple[str, str], str]) -> str:
    """The address of a unit's plans: its group, its system, and what the plan depends on besides."""
    switch = variant.scenario.switch
    told = {
        "group": group_name(variant, known_files),
        "plan": asdict(variant.scenario.plan),
        "system": variant.system.name,
        "switch": [switch.memory_bytes, switch.aggregator_bytes, switch.hierarchy],
    }
    return _digest(told)


def _keys(scenario: Scenario, known_files: dict[tuple[str, str], str]) -> dict[str, Any]:
    keys = asdict(scenario)
    _, path = _graph_path(scenario.graph.source)
    if path is not None:
        keys["graph"]["source"] = _file_digest(path, known_files)
    if scenario.compute.table:
        keys["compute"]["table"] = _file_digest(scenario.compute.table, known_files)
    return keys


def _graph_path(source: str) -> tuple[str, str | None]:
    """("format:" or "", path) of a graph that lies in a file or folder; path None for a name or shape."""
    kind, colon, rest = source.partition(":")
    if colon and (kind in FORMATS or kind in READERS):
        return f"{kind}:", rest
    named = {name for name, _, _ in catalogue()}
    return "", source if os.path.exists(source) and source not in named else None


def _file_digest(path: str, known: dict[tuple[str, str], str]) -> str:
    """A digest of a file's content, or of all files below a folder; the path where there is nothing."""
    key = ("file", path)
    if key not in known:
        whole = hashlib.sha256()
        root = Path(path)
        for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if file.is_file():
                whole.update(str(file.relative_to(root)).encode(errors="surrogateescape"))
                with file.open("rb") as stream:
                    whole.update(hashlib.file_digest(stream, "sha256").digest())
        known[key] = f"file:{whole.hexdigest()}" if root.exists() else path
    return known[key]


def _digest(told: dict[str, Any]) -> str:
    text = json.dumps(told, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
