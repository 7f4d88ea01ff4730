"""Epoch time of training systems: compute from traces or the roofline, communication from a simulation or
from counted bytes over a link model, overlapped as each system allows.
"""
