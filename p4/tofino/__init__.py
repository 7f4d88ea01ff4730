"""Does a TNA program fit a Tofino? A model of the chip's limits, and a driver of tofino-model.

    from p4.tofino import TOFINO, check_fit
    report = check_fit(program, TOFINO)        # rows of used and limit, problems with the line they are in

The model is an estimate from public documents, not the vendor's compiler: what it accepts may still not
fit, what it refuses breaks a stated limit.
"""

from p4.tofino.chip import CHIPS, TOFINO, TOFINO2, Chip
from p4.tofino.fit import Report, Row, check_fit, is_tna, render_fit

__all__ = ["CHIPS", "TOFINO", "TOFINO2", "Chip", "Report", "Row", "check_fit", "is_tna", "render_fit"]
