"""Results as tidy pandas: one folder (`load_records`), or every run below some folders (`load_runs`)."""

from analysis.records.collection import Runs, damage, load_runs
from analysis.records.folder import Records, load_records

__all__ = ["Records", "Runs", "damage", "load_records", "load_runs"]
