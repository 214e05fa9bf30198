"""The acceptance record, version 1: the types of the document that a reviewer reads, a gate judges and a diff compares.

These are wire types, apart from the tool's inner ones: they change only with `SCHEMA`. Every number a later judgement
needs is in here; nothing in here depends on the clock or on where files lie.
"""

from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from rmsaudit.tolerance import Limit, Part, Waiver

if TYPE_CHECKING:
    from rmsaudit.model_record import ModelRecord

SCHEMA: Literal["rmsaudit/record/1"] = "rmsaudit/record/1"

Scalar = bool | int | float | str | None | tuple[int, ...]
Outcome = Literal[
    "accepted",
    "accepted_with_waiver",
    "rejected",
    "reference_suspect",
    "not_judged",
    "nothing_compared",
    "could_not_run",
]
Verdict = Literal["accepted", "accepted_with_waiver", "rejected", "not_judged", "skipped"]
Kept = Literal["kept", "broken", "not_observable"]
SideName = Literal["reference", "candidate"]


class Tool(Part):
    """What wrote the record."""

    name: str
    version: str


class Pair(Part):
    """One thing, on both sides."""

    reference: str | None = None
    candidate: str | None = None


class Finding(Part):
    """A claim that a cause acted here, with its evidence."""

    cause: str = Field(description="a known mechanism, by the name that `rmsaudit list causes` has for it")
    variable: str | None = Field(None, description="the variable it is about")
    reference_value: Scalar = None
    candidate_value: Scalar = None
    claim: str
    evidence: str
    explains: float = Field(ge=0, le=1, description="share of the differing elements that this alone re-creates")
    residual_max_ulp: int | None = Field(
        None, description="largest distance left when this alone is applied to the reference"
    )
    seen_in: tuple[str, ...] = ()
    declared_at: Pair
    next_step: str


class Dtypes(Part):
    """The dtypes that matter most, of one side."""

    input: str
    gain: str
    compute: str
    accumulate: str
    output: str


class DtypesOfBoth(Part):
    """Dtypes of both sides."""

    reference: Dtypes
    candidate: Dtypes


class Difference(Part):
    """A variable that is not equal; hex values as really used, where they decide."""

    reference: Scalar = None
    candidate: Scalar = None
    reference_hex: str | None = None
    candidate_hex: str | None = None
    follows: str | None = Field(None, description="the variable that this one merely follows")


class RungErrors(Part):
    """How far a rung's output is from the reference's, in one category."""

    max_abs_error: float
    max_rel_error: float
    max_ulp: int
    share: float = Field(description="share of elements that differ")
    zero_reference: int = 0
    nonfinite_mismatched: int = 0


class Rung(Part):
    """One differing variable: with only it changed, with all up to it changed, with only it set back in the
    candidate."""

    variable: str
    from_: Scalar = Field(None, alias="from")
    to: Scalar = None
    decides: tuple[str, ...] = Field(
        (),
        description="categories in which setting only it back leaves a quarter or less, of the ulp or of the elements",
    )
    recreates: tuple[str, ...] = Field(
        (), description="categories in which it alone re-creates the candidate bit for bit"
    )
    impossible: str | None = Field(None, description="why it cannot be changed alone, where it cannot")
    alone: dict[str, RungErrors] = {}
    cumulative: dict[str, RungErrors] = {}
    reverted: dict[str, RungErrors] = {}


class NonFinite(Part):
    """NaN and infinities among the outputs. `mismatched`: places where the two sides differ in class."""

    reference: int = 0
    candidate: int = 0
    mismatched: int = 0


class Range(Part):
    """Smallest and largest."""

    min: float
    max: float


class RowFactor(Part):
    """candidate ÷ reference, as the median of each row, and how far single elements stray from it."""

    min: float
    median: float
    max: float
    spread: float


class Worst(Part):
    """One of the elements that differ most: in ulp, in d, or in d/|reference|; a non-finite mismatch comes first."""

    case: str = ""
    row: int
    column: int
    q_over_eps: float | None = None
    input: float | str
    reference: float | str
    candidate: float | str
    oracle: float | str | None = None
    reference_hex: str | None = None
    candidate_hex: str | None = None


class OracleResult(Part):
    """Both sides against the correctly rounded result, in ulp of their output dtype.

    rounded: the share of elements that are correctly rounded. lost: elements that are NaN or infinite where the oracle
    is not, or the other way. far: sides that lost more than half of the format's digits.
    """

    reference_ulp: int
    candidate_ulp: int
    reference_rounded: float
    candidate_rounded: float
    reference_lost: int = 0
    candidate_lost: int = 0
    closer: Literal["reference", "candidate", "alike"]
    far: tuple[SideName, ...] = ()


class SmallestPassing(Part):
    """The smallest limits under which this category would pass; null where none would."""

    max_ulp: int | None = None
    atol_at_rtol_0: float | None = None
    rtol_at_atol_0: float | None = None


class CategoryResult(Part):
    """One category: what was measured, and the verdict. `elements` 0 means that nothing was compared."""

    verdict: Verdict
    because: str | None = None
    output_dtype: str
    elements: int
    max_abs_error: float
    max_rel_error: float
    max_ulp: int
    differing_share: float
    zero_reference: int = Field(
        0, description="differing elements whose reference is zero; they have no relative error"
    )
    signed_zero: int = Field(0, description="elements that are -0 on one side and +0 on the other")
    violations: int | None = Field(
        None, description="elements beyond the limit; null where only the points were judged"
    )
    nonfinite: NonFinite = NonFinite()
    q_over_eps: Range | None = None
    attenuation: Range | None = None
    row_factor: RowFactor | None = None
    worst: tuple[Worst, ...] = ()
    oracle: OracleResult | None = None
    limit: Limit | None = None
    margin: float | None = Field(
        None, description="measured / limit; null where the limit is zero or nothing was judged"
    )
    smallest_passing: SmallestPassing = SmallestPassing()
    points: tuple[tuple[float, float], ...] = Field(
        (), description="[|reference|, |d|] of the few elements that decide every sum, either and max limit exactly"
    )
    points_exact: bool = Field(
        True, description="false: neighbouring points were joined, and a limit a hair above the truth may be refused"
    )
    failures: tuple[str, ...] = ()


class Gate(Part):
    """The rules as used, with their reasons."""

    tolerance: str | None = Field(None, description="sha256 of the tolerance file")
    rules: tuple[Limit, ...]
    nonfinite: Literal["match", "forbid"]
    output_dtypes: Literal["match", "any"]
    waivers_used: tuple[Waiver, ...] = ()
    notes: tuple[str, ...] = ()


class Resolved(Part):
    """A variable's value and where it came from."""

    value: Scalar = None
    source: str


class GainPlace(Part):
    """Where a side's gains came from."""

    tensor: str
    dtype: str
    digest: str


class Belief(Part):
    """Does a side that runs code compute what its `norm:` says? Judged by the emulator on the same inputs.

    holds: bit_equal in every category; up_to_order where a difference is no larger than what other orders of summation
    give; broken otherwise. worst: the category that is farthest off, in ulp of the output dtype.
    """

    holds: Literal["bit_equal", "up_to_order", "broken", "not_run"]
    worst: str | None = None
    max_ulp: int = 0
    order_ulp: int = Field(0, description="how far apart orders of summation are in that category")


class Behaviour(Part):
    """How a side that runs code behaves beside its numbers. A broken one is a finding; the outcome is the gate's."""

    verdict: Kept
    says: str = Field(description="what was seen, with numbers, or why nothing could be")


class SideRecord(Part):
    """One implementation, as it was really run."""

    name: str
    kind: str
    digest: str = Field(description="sha256 of the declaring file")
    gain: GainPlace | None = None
    section: dict[str, Scalar] = Field({}, description="how it was run, for kinds that run something")
    code: dict[str, str] = Field({}, description="sha256 of the code and model files, by the name they were given")
    versions: dict[str, str] = {}
    stated: dict[str, Resolved] = Field({}, description="what the thing itself states of its variables")
    belief: Belief | None = None
    behaviours: dict[str, Behaviour] = Field({}, description="every behaviour that was looked at, by name")
    notes: tuple[str, ...] = ()
    seconds: float | None = Field(None, description="wall time of a command's calls; never compared")
    resolved: dict[str, Resolved] = {}


class BatteryCategory(Part):
    """What one category fed, or why it did not."""

    rows: int = 0
    digest: str | None = None
    reveals: tuple[str, ...] = ()
    skipped: str | None = None


class Battery(Part):
    """The inputs, so that they can be made again."""

    version: int
    seed: int
    rows: int
    categories: dict[str, BatteryCategory] = {}


class OracleWork(Part):
    """How many outputs each tier of the oracle decided."""

    float64: int
    double_double: int
    integers: int
    by_rule: int


class Environment(Part):
    """Facts that can change numbers, apart from those that cannot."""

    changes_numbers: dict[str, str] = {}
    informative: dict[str, str] = {}


class Replay(Part):
    """How to derive the record again."""

    command: str
    inputs: dict[str, str] = Field({}, description="sha256 of every file that was read, by the name it was given")


class Review(Part):
    """Filled by a person; a record whose decision is filled is never overwritten."""

    decision: str | None = None
    reviewer: str | None = None
    date: date | str | None = None
    notes: str | None = None


class AcceptanceRecord(Part):
    """The whole record; the keys stand in the order in which it should be read."""

    schema_: Literal["rmsaudit/record/1"] = Field(SCHEMA, alias="schema")
    tool: Tool
    outcome: Outcome
    summary: str
    scope: str
    findings: tuple[Finding, ...] = ()
    dimension: int
    axes: tuple[int, ...]
    dtypes: DtypesOfBoth
    differing: dict[str, Difference] = {}
    error_definition: dict[str, str]
    ladder: tuple[Rung, ...] = ()
    results: dict[str, CategoryResult] = {}
    gate: Gate | None = None
    reference: SideRecord
    candidate: SideRecord
    battery: Battery
    oracle: OracleWork
    environment: Environment
    replay: Replay
    review: Review = Review()

    @property
    def output_dtypes(self) -> tuple[str, str]:
        """Of the reference and of the candidate."""
        return self.dtypes.reference.output, self.dtypes.candidate.output

    @property
    def broken(self) -> tuple[str, ...]:
        """What no number can mend; in the record of one pair, nothing."""
        return ()


def plain(record: "AcceptanceRecord | ModelRecord") -> dict[str, Any]:
    """A record as plain mappings, lists and scalars, in reading order, under its written key names.

    Inside the parts, what has its default (null, empty, 0 of something rare) is left out; the review keeps its nulls,
    which a person is to fill.
    """
    parts = record.model_dump(by_alias=True, exclude_defaults=True, exclude={"schema_", "review"})
    return {"schema": record.schema_, **parts, "review": record.review.model_dump()}
