"""Switches as processes: the P4 engine between shared-memory links."""

from emulator.switch.engine import Call, Control, EngineSwitch, engine_switch

__all__ = ["Call", "Control", "EngineSwitch", "engine_switch"]
