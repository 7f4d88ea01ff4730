"""Parallelism that fits graph, model and machine: schemes, trainers, profile, prediction, re-planning.

The order of reading: `scheme` (what can be chosen), `grid` and `ops` (who talks to whom), `gnn` and
`transformer` (the models, divided), `training` (one step of any scheme), `profile` and `costs` (this device),
`predict` (time, traffic and memory of a scheme), `replan` (measured against predicted).
"""
