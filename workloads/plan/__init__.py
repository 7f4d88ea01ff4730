"""Propagation plans: which boundary vertices meet in which block, in what upload order, and what stays
host-based.
"""

from __future__ import annotations

from workloads.plan.make import make_plan
from workloads.plan.plan import Plan

__all__ = ["Plan", "make_plan"]
