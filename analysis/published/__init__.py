"""The papers' numbers as data, and what of them stands beside a run.

<paper>.csv has every number that a seed text states, with the table or section where it stands; `values`
reads them. switchgnn.toml says which of them one results folder can be compared with; `claims` compares.
"""

from analysis.published.claims import Finding, findings, load_claims
from analysis.published.values import PAPERS, Number, published_frame, published_values

__all__ = [
    "PAPERS",
    "Finding",
    "Number",
    "findings",
    "load_claims",
    "published_frame",
    "published_values",
]
