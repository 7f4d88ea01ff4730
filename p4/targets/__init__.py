"""Switches that run a P4 program: one interface, the embedded engine behind it."""

from p4.targets.engine import Engine
from p4.targets.target import Packet, Target, TargetError

__all__ = ["Engine", "Packet", "Target", "TargetError"]
