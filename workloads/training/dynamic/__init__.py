"""Sliding-window training of dynamic graph networks, distributed over vertices (SWASH), and its rivals.

As in workloads/training, nothing here imports torch before a command needs it: options, placement, routes,
the schedule and the traffic plan are numpy alone.
"""
