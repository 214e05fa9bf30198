"""Real rows at a site: how far both sides are apart on them, and how much a difference of eps weighs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmsaudit.activations.change import Change
from rmsaudit.activations.layers import without_layer
from rmsaudit.activations.rows import RealRows, rows_in, why_no_rows
from rmsaudit.activations.survey import Survey, survey_tensor
from rmsaudit.activations.words import said_of_change, said_of_eps
from rmsaudit.categories import REAL_ROWS
from rmsaudit.model.names import compact
from rmsaudit.model.work import Measured, Portion, run_case
from rmsaudit.model_record import ActivationRow, RealRowsRecord
from rmsaudit.record import Range
from rmsaudit.results import shortened

if TYPE_CHECKING:
    from fractions import Fraction

    from rmsaudit.documents.tensors import TensorPlace


MOST_ROWS = 6  # sites that get a row of their own


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """One site, as a portion of its own, and the tensor of rows that entered it. compared: whether its sides differ."""

    portion: Portion
    place: "TensorPlace"
    compared: bool

    @property
    def name(self) -> str:
        return self.portion.sites[0].name

    @property
    def names(self) -> tuple[str, ...]:
        """Of its one site."""
        return self.portion.names


@dataclass(frozen=True, eq=False, kw_only=True)
class Weighed:
    """What a task gave. survey: or why eps cannot be weighed there. says: what was read, in words."""

    measured: Measured
    survey: Survey | str
    rows: int
    says: str


def run(task: Task) -> Weighed:
    """Reads the rows in blocks: once for the survey, and once more where both sides are run on them."""
    portion, site = task.portion, task.portion.sites[0]
    measured = Measured(cells={site.name: {}} if task.compared else {})
    says = ""
    if task.compared:
        gain = site.candidate if site.reference is None else site.reference
        assert gain is not None  # a pair without any gains is the same on both sides, or differs in its words
        rows = RealRows(task.place, (portion.reference, portion.candidate), gain)
        for case in rows:
            run_case(portion, case, measured)
        measured.fed[REAL_ROWS] = rows.rows
        says = rows.says
    return Weighed(measured=measured, survey=_surveyed(task), rows=rows_in(task.place), says=says)


def _surveyed(task: Task) -> Survey | str:
    portion = task.portion
    candidate = portion.candidate if task.compared else None
    try:
        return survey_tensor(task.place, portion.reference, candidate)
    except ValueError as reason:  # the norm has no law that eps could be weighed by
        return str(reason)


def unfit(place: "TensorPlace", width: int) -> str | None:
    """Why the tensor holds no rows of a norm of this width; None where it does."""
    return why_no_rows(place, width)


def recorded(weighed: Mapping[str, Weighed], what: str, dtype: str, passed_over: Sequence[str]) -> RealRowsRecord:
    """What the record says of real rows. what: the change of eps, in words; dtype: of the outputs."""
    surveys = {name: each.survey for name, each in weighed.items() if isinstance(each.survey, Survey)}
    changes = {name: each.change for name, each in surveys.items() if each.change is not None}
    says = [said_of_eps({name: each.distribution for name, each in surveys.items()})] if surveys else []
    if any(change.largest for change in changes.values()):
        says.append(said_of_change({**_unchanged(surveys), **changes}, what, dtype))
    unusual = sum(each.distribution.unusual for each in surveys.values())
    if unusual:
        says.append(f"Apart from these: {unusual} row{'s' * (unusual > 1)} of zeros, or with NaN or an infinity.")
    says += [f"{name}: {each.survey}." for name, each in weighed.items() if isinstance(each.survey, str)]
    return RealRowsRecord(
        says=tuple(says),
        rows=sum(each.rows for each in weighed.values()),
        sites=tuple(_rows(surveys)),
        passed_over=tuple(passed_over),
    )


def _unchanged(surveys: Mapping[str, Survey]) -> dict[str, Change]:
    """Sites that are the same on both sides: their rows count, and none of them changes."""
    bounds: tuple[Fraction, ...] = next(each.change.bounds for each in surveys.values() if each.change)
    return {
        name: Change(bounds=bounds, rows=each.distribution.rows, changed=(0,) * len(bounds))
        for name, each in surveys.items()
    }


def _rows(surveys: Mapping[str, Survey]) -> list[ActivationRow]:
    """A row for each of the sites where eps and its change act most; the others share one over all layers."""
    first = sorted(surveys, key=lambda name: _weight(surveys[name]), reverse=True)[:MOST_ROWS]
    alike: dict[str, list[str]] = {}
    for name, each in surveys.items():
        stands_out = name in first and any(_weight(each))
        alike.setdefault(name if stands_out else without_layer(name), []).append(name)
    rows = [_row(names, [surveys[name] for name in names]) for names in alike.values()]
    return sorted(rows, key=lambda row: (-row.below, -abs(row.largest_change)))


def _weight(found: Survey) -> tuple[float, float]:
    touched = found.change is not None and found.change.changed[0] > 0
    return found.distribution.below_share, abs(found.change.largest) if touched and found.change else 0.0


def _row(names: Sequence[str], found: Sequence[Survey]) -> ActivationRow:
    together = [each.distribution for each in found]
    changes = [each.change for each in found if each.change]
    rows = sum(each.rows for each in together)
    largest = max((change.largest for change in changes), key=abs, default=0.0)
    ratios = [each for each in together if each.rows]
    return ActivationRow(
        sites=compact(names),
        rows=rows,
        unusual=sum(each.unusual for each in together),
        q_over_eps=None
        if not ratios
        else Range(
            min=shortened(min(each.smallest_ratio for each in ratios)),
            max=shortened(max(each.largest_ratio for each in ratios)),
        ),
        below=sum(each.below for each in together) / rows if rows else 0.0,
        touched=sum(change.changed[0] for change in changes) / rows if rows else 0.0,
        largest_change=shortened(largest),
    )
