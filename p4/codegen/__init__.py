"""The typed program as C++: one readable source file, and a schema of what the control plane can reach."""

from p4.codegen.v1model import Generated, generate

__all__ = ["Generated", "generate"]
