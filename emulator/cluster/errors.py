"""The one error of a run that cannot go on."""

from __future__ import annotations

from workloads.errors import InputError


class ClusterError(InputError):
    """A run was ended: one line that names who is missing."""
