"""Layered drawings of small directed graphs, side by side in one picture (Sugiyama's layers)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

# Inches: a character's width and a line's height at the font's size, the space between boxes and layers.
_CHARACTER, _LINE, _GAP, _LAYER_GAP, _PAD = 0.072, 0.15, 0.35, 0.55, 0.08
_FONT = 8
_BOX = {"start": "#dfeaf5", "end": "#eeeeee", "accept": "#e2f0d9", "reject": "#f8dcd6"}


@dataclass
class Panel:
    """One graph: its nodes with the lines of text in their boxes, and edges (from, label, to)."""

    title: str
    nodes: dict[str, list[str]]
    edges: list[tuple[str, str, str]]
    place: dict[str, tuple[float, float]] = field(default_factory=dict)
    size: tuple[float, float] = (0.0, 0.0)
    routes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    half: dict[str, float] = field(default_factory=dict)  # half the height of a node's layer

    def box(self, node: str) -> tuple[float, float]:
        """Width and height of a node's box; of a bend in a long edge, next to nothing."""
        lines = self.nodes.get(node)
        if lines is None:
            return 0.2, 0.0
        return max(map(len, lines)) * _CHARACTER + 2 * _PAD, len(lines) * _LINE + 2 * _PAD

    def merged(self) -> dict[tuple[str, str], str]:
        """Each pair of nodes once, their labels under one another; more than four are counted."""
        labels: dict[tuple[str, str], list[str]] = {}
        for source, label, to in self.edges:
            labels.setdefault((source, to), []).append(label)
        out = {}
        for pair, texts in labels.items():
            shown = [t for t in dict.fromkeys(texts) if t]
            more = [f"and {len(shown) - 3} more"] if len(shown) > 4 else []
            out[pair] = "\n".join([*shown[: 3 if more else 4], *more])
        return out


def layers_of(panel: Panel) -> list[list[str]]:
    """Nodes by layer, every edge but those that lead back going down; long edges get bends in between."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(panel.nodes)
    for source, to in panel.merged():
        if source != to:
            graph.add_edge(source, to)
            if not nx.is_directed_acyclic_graph(graph):
                graph.remove_edge(source, to)
    depth: dict[str, int] = {}
    for node in nx.topological_sort(graph):
        depth[node] = max((depth[p] + 1 for p in graph.predecessors(node)), default=0)
    last = max(depth.values(), default=0)
    for node in ("accept", "reject", "end"):
        if node in depth:
            depth[node] = last
    layers: list[list[str]] = [[] for _ in range(last + 1)]
    for node in panel.nodes:
        layers[depth[node]].append(node)
    links: nx.DiGraph[str] = nx.DiGraph()
    for source, to in graph.edges:
        chain = [source]
        for level in range(depth[source] + 1, depth[to]):
            chain.append(f"{source}\0{to}\0{level}")
            layers[level].append(chain[-1])
        chain.append(to)
        panel.routes[source, to] = chain
        nx.add_path(links, chain)
    for sweep in range(8):
        downwards = sweep % 2 == 0
        for level in range(len(layers)) if downwards else reversed(range(len(layers))):
            _order(layers, level, links, downwards=downwards)
    return layers


def _order(layers: list[list[str]], level: int, links: nx.DiGraph[str], *, downwards: bool) -> None:
    """One layer by the mean position of its neighbours above (or below)."""
    other = level - 1 if downwards else level + 1
    if not 0 <= other < len(layers):
        return
    at = {node: i / max(1, len(layers[other]) - 1) for i, node in enumerate(layers[other])}
    here = {node: i / max(1, len(layers[level]) - 1) for i, node in enumerate(layers[level])}

    def middle(node: str) -> float:
        if node not in links:
            return here[node]
        near = [at[n] for n in (links.predecessors(node) if downwards else links.successors(node)) if n in at]
        return sum(near) / len(near) if near else here[node]

    layers[level].sort(key=middle)


def place(panel: Panel) -> None:
    """Every node's middle in inches, the first layer at the top, room for the labels below each layer."""
    layers = layers_of(panel)
    widths = [sum(panel.box(n)[0] for n in layer) + _GAP * (len(layer) - 1) for layer in layers]
    labels = max((len(line) for label in panel.merged().values() for line in label.split("\n")), default=0)
    breadth = max([*widths, len(panel.title) * _CHARACTER * 1.3, labels * _CHARACTER])
    y = 0.0
    tallest = [max(panel.box(n)[1] for n in layer) for layer in layers]
    rows = [0] * len(layers)  # lines of labels below each layer
    for level, layer in enumerate(layers):
        for node in layer:
            leaving = [
                x for (a, b), x in panel.merged().items() if a == node and (a, b) in panel.routes and x
            ]
            rows[level] = max(rows[level], sum(x.count("\n") + 1 for x in leaving))
    for level, layer in enumerate(layers):
        x = (breadth - widths[level]) / 2
        y -= tallest[level] / 2
        for node in layer:
            width = panel.box(node)[0]
            panel.place[node] = (x + width / 2, y)
            panel.half[node] = tallest[level] / 2
            x += width + _GAP
        y -= tallest[level] / 2 + _LAYER_GAP + rows[level] * _LINE
    panel.size = (breadth + 0.6, -y)


def draw(panels: Sequence[Panel], notes: Sequence[str], path: Path) -> None:
    """The panels beside one another and the notes below, as SVG or PNG by the file's name."""
    for panel in panels:
        place(panel)
    width = sum(p.size[0] for p in panels) + 0.5 * (len(panels) + 1)
    tallest = max(p.size[1] for p in panels)
    note_height = len(notes) * _LINE + 0.2
    height = tallest + 0.8 + note_height
    width = max(width, max((len(n) for n in notes), default=0) * _CHARACTER + 1)
    with mpl.rc_context(
        {
            "svg.hashsalt": "netfold",
            "svg.fonttype": "none",
            "font.family": "DejaVu Sans Mono",
            "font.size": _FONT,
        }
    ):
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, width)
        axes.set_ylim(-height, 0)
        axes.axis("off")
        left = 0.5
        for panel in panels:
            axes.text(left, -0.3, panel.title, weight="bold", va="center")
            _draw_panel(axes, panel, left, -0.6)
            left += panel.size[0] + 0.5
        for number, note in enumerate(notes):
            axes.text(0.5, -(tallest + 0.8) - number * _LINE, note, va="center")
        metadata = {"Date": None} if path.suffix == ".svg" else None
        temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
        figure.savefig(temporary, dpi=150, metadata=metadata)
        temporary.replace(path)


def _heading(panel: Panel, edge: tuple[str, str]) -> float:
    route = panel.routes.get(edge)
    return panel.place[route[1]][0] if route else 0.0


def _draw_panel(axes: Axes, panel: Panel, left: float, top: float) -> None:
    def spot(node: str) -> tuple[float, float]:
        return panel.place[node][0] + left, panel.place[node][1] + top

    right = left + panel.size[0] - 0.45
    rows: dict[str, int] = {}  # lines of labels that stand below a node already
    # By where an edge leads, so that labels below one another come from left to right.
    merged = sorted(panel.merged().items(), key=lambda e: _heading(panel, e[0]))
    for (source, to), label in merged:
        (x0, y0), (x1, y1) = spot(source), spot(to)
        half0, half1 = panel.box(source)[1] / 2, panel.box(to)[1] / 2
        if (source, to) in panel.routes:
            points = [(x0, y0 - half0)]
            for bend in panel.routes[source, to][1:-1]:
                (x, y), half = spot(bend), panel.half[bend]
                points += [(x, y + half), (x, y - half)]
            points.append((x1, y1 + half1))
            # The label stands on the edge, in a row of its own among the node's.
            (ax, ay), (bx, by) = points[0], points[1]
            lines_here = label.count("\n") + 1
            row = rows.get(source, 0)
            rows[source] = row + (lines_here if label else 0)
            at = y0 - panel.half[source] - 0.2 - (row + lines_here / 2) * _LINE
            where = (ax + (bx - ax) * min(1.0, (ay - at) / (ay - by)), at)
        else:  # back, or to itself: round the right side
            w0, w1 = panel.box(source)[0] / 2, panel.box(to)[0] / 2
            points = [(x0 + w0, y0), (right, y0), (right, y1 + half1 * 0.5), (x1 + w1, y1 + half1 * 0.5)]
            where = (right, (y0 + y1) / 2)
        xs, ys = zip(*points[:-1], strict=True) if len(points) > 2 else ((), ())
        axes.plot(xs, ys, color="#555555", lw=0.9, solid_joinstyle="round")
        arrow = {"arrowstyle": "-|>", "color": "#555555", "lw": 0.9, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", xy=points[-1], xytext=points[-2], arrowprops=arrow)
        if label:
            frame = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.9}
            axes.text(
                *where, label, ha="center", va="center", fontsize=_FONT - 1, color="#333399", bbox=frame
            )
    for node, lines in panel.nodes.items():
        (x, y), (width, height) = spot(node), panel.box(node)
        colour = _BOX.get(node, "#fff7e0")
        corner = (x - width / 2, y - height / 2)
        style = "round,pad=0,rounding_size=0.06"
        axes.add_patch(
            FancyBboxPatch(corner, width, height, boxstyle=style, fc=colour, ec="#555555", zorder=3)
        )
        for number, line in enumerate(lines):
            at = y + height / 2 - _PAD - _LINE * (number + 0.5)
            weight = "bold" if number == 0 else "normal"
            axes.text(x, at, line, ha="center", va="center", weight=weight, zorder=4)
