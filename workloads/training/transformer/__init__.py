"""Graph transformers on torch workers: TorchGT with its baselines GP-RAW, GP-FLASH and GP-SPARSE.

The order of reading: `structure` (classes of pairs), `layout` and `clusters` (which pairs attend),
`attention` (every kind on one interface), `shapes` (models and what they cost), `model`, `worker`.
"""
