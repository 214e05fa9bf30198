"""The inverse instruments: a black-box RMSNorm, read from its outputs.

read            everything about something that can be asked (`reading`); of_side makes a loaded side askable
read_declared   eps and its placement, from outputs that are there already (`known_rows`)
explainable     whether rounding can be why two outputs differ (`explainable`), from deterministic bounds (`bounds`)
row_scales      the one factor of each row, as an interval that is a proof (`row_scale`)

Nothing here guesses: an answer is what all observed rows leave, and where they leave several, all are given.
"""

from rmsaudit.inversion.black_box import CannotAsk, Run, of_side
from rmsaudit.inversion.bounds import Bound, bound
from rmsaudit.inversion.box import NotThisFamily
from rmsaudit.inversion.eps_reading import EpsReading, Placed
from rmsaudit.inversion.explainable import Explained, Observed, explainable
from rmsaudit.inversion.known_rows import read_declared
from rmsaudit.inversion.reading import Reading, read
from rmsaudit.inversion.row_scale import Allowance, row_scales
from rmsaudit.inversion.structure import Structure

__all__ = [
    "Allowance",
    "Bound",
    "CannotAsk",
    "EpsReading",
    "Explained",
    "NotThisFamily",
    "Observed",
    "Placed",
    "Reading",
    "Run",
    "Structure",
    "bound",
    "explainable",
    "of_side",
    "read",
    "read_declared",
    "row_scales",
]
