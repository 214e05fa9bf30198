"""Which tier decided how many outputs."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tiers:
    """Counts of outputs by what decided them.

    by_rule: NaN, infinite and zero results (and biases alone) that follow without arithmetic; zeros that tier 1 meets
    on its way count there.
    """

    float64: int = 0
    double_double: int = 0
    integers: int = 0
    by_rule: int = 0

    def __add__(self, other: "Tiers") -> "Tiers":
        return Tiers(
            float64=self.float64 + other.float64,
            double_double=self.double_double + other.double_double,
            integers=self.integers + other.integers,
            by_rule=self.by_rule + other.by_rule,
        )

    @property
    def total(self) -> int:
        return self.float64 + self.double_double + self.integers + self.by_rule
