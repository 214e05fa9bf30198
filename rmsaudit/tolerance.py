"""The tolerance file's types: rules with their limits, and waivers. Who is judged by which row; not the judging itself.

The most specific row judges a cell (category × output dtype). Two rows that claim a cell with equal right are refused.
"""

from collections.abc import Iterable
from datetime import date
from itertools import combinations
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rmsaudit.formats import FORMATS, canonical

SCHEMA: Literal["rmsaudit/tolerance/1"] = "rmsaudit/tolerance/1"


class Part(BaseModel):
    """Base of every part of a document: frozen, strict, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


DtypeWord = Annotated[str, AfterValidator(lambda word: canonical(word) or word)]  # bf16 is read as bfloat16
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class When(Part):
    """The cells a row is for; a key that is left out matches every cell."""

    category: str | None = None
    output_dtype: DtypeWord | None = None

    def specificity(self) -> int:
        return (self.category is not None) + (self.output_dtype is not None)

    def covers(self, other: "When") -> bool:
        """True where every cell of `other` is one of ours."""
        return all(mine in (None, theirs) for mine, theirs in zip(self.key(), other.key(), strict=True))

    def overlap(self, other: "When") -> "When | None":
        """The cells both match, or None where there are none."""
        merged = []
        for mine, theirs in zip(self.key(), other.key(), strict=True):
            if mine is not None and theirs is not None and mine != theirs:
                return None
            merged.append(mine if mine is not None else theirs)
        return When(category=merged[0], output_dtype=merged[1])

    def key(self) -> tuple[str | None, str | None]:
        return self.category, self.output_dtype

    def __str__(self) -> str:
        named = [f"{k}: {v}" for k, v in (("category", self.category), ("output_dtype", self.output_dtype)) if v]
        return "{" + ", ".join(named) + "}" if named else "every cell"


class Row(Part):
    """What every rule has beside its numbers."""

    when: When = When()
    reason: str | None = Field(None, description="why this limit; who agreed, and when")


class Sum(Row):
    """|d| <= atol + rtol · |reference|, for every element (numpy, torch)."""

    rule: Literal["sum"]
    atol: NonNegative
    rtol: NonNegative


class Either(Row):
    """|d| <= atol or |d| <= rtol · |reference|, for every element (Polygraphy, XLA)."""

    rule: Literal["either"]
    atol: NonNegative
    rtol: NonNegative


class Max(Row):
    """|d| <= max(atol, rtol · |reference|), for every element (StableHLO); the same elements pass as under `either`."""

    rule: Literal["max"]
    atol: NonNegative
    rtol: NonNegative


class Ulp(Row):
    """At most max_ulp steps along the ordered values of the output dtype."""

    rule: Literal["ulp"]
    max_ulp: int = Field(ge=0)


class Ratio(Row):
    """The candidate's largest distance to the oracle is at most `ratio` times the reference's, which counts as at least
    `floor_ulp`: both in ulp of the output dtype."""

    rule: Literal["ratio"]
    ratio: float = Field(gt=0, allow_inf_nan=False)
    floor_ulp: int = Field(ge=1, description="a reference that is exact leaves no room otherwise")


class Exact(Row):
    """The same bits, signs of zero included; NaN equals NaN."""

    rule: Literal["exact"]


Limit = Sum | Either | Max | Ulp | Ratio | Exact
RULES: dict[str, type[Row]] = {"sum": Sum, "either": Either, "max": Max, "ulp": Ulp, "ratio": Ratio, "exact": Exact}


class Waiver(Part):
    """A named exception: this category may fail because of this variable, until that day."""

    category: str
    variable: str
    reason: str = Field(min_length=1)
    owner: str = Field(min_length=1)
    expires: date


class Policy(Part):
    """A tolerance file."""

    schema_: Literal["rmsaudit/tolerance/1"] = Field(SCHEMA, alias="schema")
    rules: tuple[Annotated[Limit, Field(discriminator="rule")], ...] = Field(min_length=1)
    nonfinite: Literal["match", "forbid"] = Field(
        "match", description="match: the same class in the same place; forbid: none at all for finite inputs"
    )
    output_dtypes: Literal["match", "any"] = Field("match", description="match: both sides return the same dtype")
    waivers: tuple[Waiver, ...] = ()

    def row_for(self, category: str, output_dtype: str) -> Limit | None:
        """The most specific row that matches the cell, or None."""
        cell = When(category=category, output_dtype=output_dtype)
        matching = [row for row in self.rules if row.when.covers(cell)]
        return max(matching, key=lambda row: row.when.specificity(), default=None)


def ties(rules: Iterable[Row]) -> list[tuple[int, int]]:
    """Index pairs of rows that claim a common cell with equal specificity, where no more specific row decides it."""
    rows = list(enumerate(rules))
    found = []
    for (i, first), (j, second) in combinations(rows, 2):
        common = first.when.overlap(second.when)
        if common is None or first.when.specificity() != second.when.specificity():
            continue
        decided = any(r.when.specificity() > first.when.specificity() and r.when.covers(common) for _, r in rows)
        if not decided:
            found.append((i, j))
    return found


def inexpressible(row: Row, output_dtype: str) -> str | None:
    """Why this row's relative limit makes no sense for the dtype, with the smallest that does; None if it does.

    Neighbours of a format with p bits are at least 2^-p of their size apart, so a smaller rtol lets only equal bits
    pass.
    """
    rtol = getattr(row, "rtol", 0.0)
    smallest = 2.0 ** -FORMATS[output_dtype].precision
    if not 0 < rtol < smallest:
        return None
    return (
        f"rtol {rtol:g} is below what {output_dtype} can express: neighbours are at least {smallest:.3g} of their size"
        f" apart; the smallest that makes sense is {smallest!r} (or `rule: ulp`, or rtol 0 for equal bits)"
    )
