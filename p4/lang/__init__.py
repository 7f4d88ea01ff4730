"""The P4_16 front end: source text in, a resolved and typed program out. Knows nothing of targets or of INA.

from p4.lang import load_program
program = load_program(Path("switch.p4"))      # raises P4Error with every diagnostic found
"""

from p4.lang.diagnostics import Collector, Diagnostic, P4Error
from p4.lang.frontend import check_text, load_program

__all__ = ["Collector", "Diagnostic", "P4Error", "check_text", "load_program"]
