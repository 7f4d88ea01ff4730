"""Ctrl-C works in the tests' children, also where the tests were started in the background.

A shell without job control starts background commands with SIGINT ignored, and what they start inherits that;
a test that interrupts a command would wait for it for ever.
"""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
