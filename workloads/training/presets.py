"""The models' shapes of SYLVIE's evaluation, by data set and model, as far as the seed gives them.

It gives none for DAGNN and SGC: only that SGC and GAT ran on all four, DAGNN not on Yelp.
"""

from __future__ import annotations

from workloads.errors import InputError

_Shapes = dict[str, dict[str, float]]

_SHALLOW: _Shapes = {
    "reddit": {"layers": 4, "hidden": 256, "epochs": 2000, "dropout": 0.5},
    "yelp": {"layers": 4, "hidden": 512, "epochs": 2000, "dropout": 0.1},
    "ogbn-products": {"layers": 3, "hidden": 128, "epochs": 500, "dropout": 0.3},
    "amazon": {"layers": 4, "hidden": 128, "epochs": 2000, "dropout": 0.1},
}
# The seed gives no epochs or dropout for GCNII.
_GCNII: _Shapes = {
    "reddit": {"layers": 8, "hidden": 256},
    "yelp": {"layers": 8, "hidden": 512},
    "ogbn-products": {"layers": 8, "hidden": 128},
    "amazon": {"layers": 6, "hidden": 128},
}
# Section 3's table of bytes; no epochs or dropout either.
_GAT: _Shapes = {"ogbn-products": {"layers": 3, "hidden": 256}}
_JKNET: _Shapes = {"reddit": {"layers": 8, "hidden": 128, "epochs": 800, "dropout": 0.5}}
_MODELS: dict[str, _Shapes] = {
    "gcn": _SHALLOW,
    "sage": _SHALLOW,
    "gat": _GAT,
    "gcnii": _GCNII,
    "jknet": _JKNET,
}
DATA_SETS = tuple(_SHALLOW)


def preset(data_set: str, model: str) -> dict[str, float]:
    """Options of a run as the paper has them. Raises InputError for a model without any on this data set."""
    found = _MODELS.get(model, {}).get(data_set)
    if found is None:
        known = ", ".join(name for name, shapes in _MODELS.items() if data_set in shapes)
        raise InputError(f"preset: {data_set} with model {model}; allowed models: {known}")
    return found
