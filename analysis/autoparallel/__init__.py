"""Choosing how to divide a training over devices: clusters, predictions in a ranked table, and why."""
