"""One pass over the rows of a site. `survey_tensor` is the unit of work that a pool of processes is given."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from rmsaudit.activations.change import Change, usual_bounds
from rmsaudit.activations.distribution import MAX_LOSS, Distribution
from rmsaudit.activations.law import law_of, pair_of
from rmsaudit.activations.rows import blocks
from rmsaudit.activations.sums import sums_of
from rmsaudit.arrays import Array
from rmsaudit.semantics import NormSpec

if TYPE_CHECKING:
    from rmsaudit.documents.tensors import TensorPlace


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What is known of some rows: how they lie to the reference's eps, and what the candidate's changes in them."""

    distribution: Distribution
    change: Change | None = None

    def merge(self, other: Self) -> "Survey":
        """Of both together, exactly. Raises ValueError where they were taken under different eps."""
        if (self.change is None) != (other.change is None):
            raise ValueError("a survey with a candidate and one without do not merge")
        change = self.change.merge(other.change) if self.change and other.change else None
        return Survey(distribution=self.distribution.merge(other.distribution), change=change)


def unread(size: int) -> None:
    """Nobody waits."""


def survey(
    rows: Iterable[Array],
    reference: NormSpec,
    candidate: NormSpec | None = None,
    *,
    max_loss: Fraction = MAX_LOSS,
    bounds: tuple[Fraction, ...] | None = None,
    notify: Callable[[int], None] = unread,
) -> Survey:
    """Looks once at blocks [rows, width], as `rows.blocks` reads them; memory does not grow with their number.

    max_loss: see `Distribution`. bounds: see `Change`; `usual_bounds` where none are given. notify: called with the
    bytes of each block that is done. Raises ValueError, with the reason, where eps cannot be weighed for such a norm
    (`law_of`, `pair_of`).
    """
    law, pair = law_of(reference), None
    found = Survey(distribution=Distribution(law=law, max_loss=max_loss))
    if candidate is not None:
        pair = pair_of(reference, candidate)
        bounds = usual_bounds(reference, candidate) if bounds is None else bounds
        found = Survey(distribution=found.distribution, change=Change.none(bounds))
    for block in rows:
        sums = sums_of(block, reference)
        change = Change.of(sums, pair, bounds) if pair and bounds is not None else None
        found = found.merge(Survey(distribution=Distribution.of(sums, law, max_loss), change=change))
        notify(block.nbytes)
    return found


def survey_tensor(
    place: "TensorPlace",
    reference: NormSpec,
    candidate: NormSpec | None = None,
    *,
    max_loss: Fraction = MAX_LOSS,
    bounds: tuple[Fraction, ...] | None = None,
) -> Survey:
    """`survey` of all rows of a tensor, read here. Raises what `survey` and `rows.blocks` raise."""
    return survey(blocks(place, reference.width), reference, candidate, max_loss=max_loss, bounds=bounds)
