"""Compute traces: how long one epoch's local work takes on this machine, measured on the real partitions."""
