"""One compared element, with its place."""

from dataclasses import dataclass
from sys import float_info

from rmsaudit.measure.limits import Point


@dataclass(frozen=True, kw_only=True)
class Element:
    """Where it is, and what both sides have there, exactly. `case` is the caller's label; rows count from 0."""

    case: str
    row: int
    column: int
    reference: float
    candidate: float
    input: float | None = None

    @property
    def place(self) -> tuple[str, int, int]:
        return self.case, self.row, self.column

    @property
    def abs_error(self) -> float:
        """d = |candidate − reference| correctly rounded to float64; what exceeds its range is its largest value.

        Exact unless the two magnitudes are more than 2^29 apart (values up to float32) or both sides are float64.
        """
        return min(abs(self.candidate - self.reference), float_info.max)

    @property
    def point(self) -> Point:
        return Point(abs(self.reference), self.abs_error)
