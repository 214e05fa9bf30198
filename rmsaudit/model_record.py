"""The record of a whole model, version 1: every norm of a checkpoint beside the one of its conversion.

As `record.AcceptanceRecord`, whose parts it shares, with one table of sites in place of one dimension. Sites that are
alike share a row, so that a model of hundreds of norms stays as short as what there is to say about it.
"""

from typing import Literal

from pydantic import Field

from rmsaudit.record import (
    Battery,
    CategoryResult,
    Environment,
    Finding,
    Gate,
    OracleWork,
    Outcome,
    Range,
    Replay,
    Review,
    Rung,
    Tool,
    Verdict,
)
from rmsaudit.tolerance import Part

SCHEMA: Literal["rmsaudit/model-record/1"] = "rmsaudit/model-record/1"


class SiteFinding(Finding):
    """A finding with the sites where it holds."""

    sites: tuple[str, ...] = Field((), description="compact: model.layers.{0-3}.input_layernorm")
    count: int = Field(description="how many sites that is")
    of: int = Field(description="how many sites the two models have together")


class SiteEps(Part):
    """eps of both sides as each will be used, and where it was found; hex where the two differ."""

    reference: float | None = None
    candidate: float | None = None
    reference_hex: str | None = None
    candidate_hex: str | None = None
    reference_source: str | None = None
    candidate_source: str | None = None


class SiteWorst(Part):
    """The site and the category that are farthest off, among the sites of a row."""

    site: str
    category: str
    max_abs_error: float
    max_rel_error: float
    max_ulp: int
    nonfinite_mismatched: int = 0


class SiteRow(Part):
    """Sites that are alike on both sides: same width, same words, same relation of gains, same verdict."""

    sites: tuple[str, ...] = Field(description="compact: model.layers.{0-3}.input_layernorm")
    count: int
    verdict: Verdict | Literal["unpaired"]
    because: str | None = None
    width: int | None = None
    groups: int | None = Field(None, description="where the rows of a site are normalised in groups")
    stored: tuple[str | None, str | None] = Field(description="dtype in which the reference and the candidate store it")
    eps: SiteEps
    gains: str = Field(description="what the candidate's gains, as they are applied, are of the reference's")
    compared: Literal["run", "same", "not_run"] = Field(
        description="run: through the battery, itself or a site with the same words and gains; same: both sides are one"
        " function, and one site with these words was run"
    )
    worst: SiteWorst | None = Field(None, description="null where no bit differs")
    rejected_in: tuple[str, ...] = ()


class ModelSide(Part):
    """One model, as it lay on disk."""

    name: str
    format: str
    architecture: str | None = Field(None, description="null: unknown, its norms were found by their names")
    norms: int
    files: dict[str, str] = Field({}, description="sha256 of what says something beside tensors, by name")
    gains: str = Field(description="sha256 over the gains of all its sites, in order")
    notes: tuple[str, ...] = ()


class ActivationRow(Part):
    """Real rows that entered some sites, and how the difference weighs on them."""

    sites: tuple[str, ...]
    rows: int
    unusual: int = Field(0, description="rows of zeros, or with NaN or an infinity; they are in no share")
    q_over_eps: Range | None = None
    below: float = Field(
        description="share of rows with q/eps under 49.25, which the reference's eps attenuates by 1 %"
    )
    touched: float = Field(0.0, description="share of rows that the difference of eps moves by more than half an ulp")
    largest_change: float = Field(0.0, description="largest relative change of a row by the difference of eps")


class RealRowsRecord(Part):
    """Rows that entered the norms of a real run. passed_over: tensors of the file that are no such rows, and why."""

    says: tuple[str, ...] = Field(description="how the rows lie to eps, and what a difference of eps changes in them")
    rows: int
    sites: tuple[ActivationRow, ...] = ()
    passed_over: tuple[str, ...] = ()


class ModelRecord(Part):
    """The whole record; the keys stand in the order in which it should be read."""

    schema_: Literal["rmsaudit/model-record/1"] = Field(SCHEMA, alias="schema")
    tool: Tool
    outcome: Outcome
    summary: str
    scope: str
    findings: tuple[SiteFinding, ...] = ()
    broken: tuple[str, ...] = Field(
        (), description="what is wrong before any number: sites of one side only, settings that contradict each other"
    )
    dtype: str = Field(description="dtype of the inputs and outputs of every norm in this audit")
    sites: tuple[SiteRow, ...] = ()
    real_rows: RealRowsRecord | None = None
    error_definition: dict[str, str]
    results: dict[str, CategoryResult] = Field({}, description="each category over all sites that were run")
    gate: Gate | None = None
    reference: ModelSide
    candidate: ModelSide
    battery: Battery
    oracle: OracleWork
    environment: Environment
    replay: Replay
    review: Review = Review()

    @property
    def output_dtypes(self) -> tuple[str, str]:
        """Of the reference and of the candidate."""
        return self.dtype, self.dtype

    @property
    def ladder(self) -> tuple[Rung, ...]:
        """None: rungs are climbed for one site of each kind, and say nothing sure about the others."""
        return ()
