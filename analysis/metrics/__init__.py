"""Figures computed from records. Every function says what it computes, over what, and in which unit."""

from analysis.metrics.comparison import cell, change, comparison, memory_sweep
from analysis.metrics.intervals import Estimate, bootstrap_interval, permutation_p
from analysis.metrics.measure import measure, measure_all
from analysis.metrics.network import aggregation_ratio, bypass_share, link_utilisation, utilisation
from analysis.metrics.queues import backlog_area, backlog_over_time, backlog_percentiles
from analysis.metrics.summary import summarise
from analysis.metrics.times import block_times, communication_fairness, completion_times, jain

__all__ = [
    "Estimate",
    "aggregation_ratio",
    "backlog_area",
    "backlog_over_time",
    "backlog_percentiles",
    "block_times",
    "bootstrap_interval",
    "bypass_share",
    "cell",
    "change",
    "communication_fairness",
    "comparison",
    "completion_times",
    "jain",
    "link_utilisation",
    "measure",
    "measure_all",
    "memory_sweep",
    "permutation_p",
    "summarise",
    "utilisation",
]
