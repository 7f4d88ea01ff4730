"""BMv2's simple_switch_grpc as a `Target`, where p4c and it are installed."""

from p4.targets.bmv2.process import missing_tools
from p4.targets.bmv2.target import Bmv2

__all__ = ["Bmv2", "missing_tools"]
