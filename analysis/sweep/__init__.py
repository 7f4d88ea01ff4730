"""Sweeps: many runs over scenario keys and seeds, each run once, on this machine or on a Dask cluster.

spec: what a sweep file says, as units, one simulation each. address: a unit's name, from everything that
decides its result. folder: where units lie, finished, failed or in the making, and the locks between sweeps.
memory: what a unit needs. child: the process that prepares or simulates. task: what a Dask worker does,
supervise such a process. cluster: this machine, or a running Dask scheduler. drive: all of it (`run_sweep`).
"""
