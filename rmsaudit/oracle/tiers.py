"""Which tier decided how many outputs."""

from dataclasses import astuple, dataclass


@dataclass(frozen=True, kw_only=True)
class Tiers:
    """Counts of outputs by what decided them.

    by_rule: NaN, infinite and zero results (and biases alone) that follow without arithmetic; zeros that tier 1 meets on its
    way count there.
    """

    float64: int = 0
    double_double: int = 0
    integers: int = 0
    by_rule: int = 0

    def __add__(self, other: "Tiers") -> "Tiers":
        mine, others = astuple(self), astuple(other)
        float64, double_double, integers, by_rule = (x + y for x, y in zip(mine, others, strict=True))
        return Tiers(float64=float64, double_double=double_double, integers=integers, by_rule=by_rule)

    @property
    def total(self) -> int:
        return self.float64 + self.double_double + self.integers + self.by_rule
