"""Readers of the graph files people have, one file per format."""
