# Types of the graph and plan kernels (workloads/native/); shapes and errors are documented beside the C++.
from typing import Any

def __getattr__(name: str) -> Any: ...
