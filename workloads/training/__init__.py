"""Partition-parallel full-graph training in torch: workers, boundary exchange, models and training systems.

torch is optional (`pip install 'netfold[train]'`): nothing here imports it before a command needs it; modules
that do import it are only reached through `workloads.training.require.require_torch`.
"""
