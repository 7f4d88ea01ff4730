"""A cluster on this machine: topology, faults, switches and workers, and the runs of a scenario on it."""
