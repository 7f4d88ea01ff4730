"""The one exception for bad input; the front door turns it into one line and exit status 2."""

from __future__ import annotations


class InputError(Exception):
    """Bad input from the user: ``str(error)`` is one line that says what, where, and what is allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(str(message).split()))
