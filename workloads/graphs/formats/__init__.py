"""Readers of the graph files people have, one file per format; registry.py recognises which one to use."""
