"""The frontier of arrays: of many elements, those that no other stands for (see `frontier`).

float64 division is monotone: fl(d_i/r_i) < fl(d_j/r_j) proves d_i/r_i < d_j/r_j. Only equal quotients prove nothing;
they are compared again by exact products.
"""

from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.double_double import two_product
from rmsaudit.measure.frontier import MOST, exceeds, thinned
from rmsaudit.measure.limits import Point

_FEW = 256  # so many elements are sorted right away


class Contenders(NamedTuple):
    """Elements: d and |reference|, both positive, fl(d/|reference|), flat index; arrays, or scalars for one element."""

    error: Array
    magnitude: Array
    quotient: Array
    at: Array

    def take(self, which: Array | slice) -> "Contenders":
        return Contenders(*(field[which] for field in self))

    def points(self) -> tuple[Point, ...]:
        return tuple(map(Point, self.magnitude.tolist(), self.error.tolist()))


class Prefilter:
    """Of the elements offered so far, those on the frontier, by falling d and rising quotient.

    exact: False where they were too many, and some were joined. steepest: the one with the largest quotient, itself.
    """

    def __init__(self) -> None:
        nothing = np.empty(0)
        self.kept = Contenders(nothing, nothing, nothing, np.empty(0, dtype=np.int64))
        self.steepest = self.kept
        self.exact = True

    def offer(self, error: Array, magnitude: Array, at: Array) -> None:
        """Takes in elements: float64, float64, int64. Of equal ones the smallest index is kept."""
        with np.errstate(all="ignore"):  # quotients beyond float64 in either direction compare like any others
            offered = Contenders(error, magnitude, error / magnitude, at)
            while (size := offered.at.size) > _FEW:
                offered = self._beyond_a_sample(offered)
                if 2 * offered.at.size > size:
                    break
            self._take_in(offered)

    def corner(self, errors: Array, quotients: Array) -> Contenders:
        """The element kept that stands for the most of a sample. Some element must have been kept."""
        stood_for = (errors <= self.kept.error[:, None]) & (quotients <= self.kept.quotient[:, None])
        return self.kept.take(stood_for.sum(axis=1).argmax())

    def _beyond_a_sample(self, offered: Contenders) -> Contenders:
        """Takes in a sample, and gives back what nothing kept then stands for."""
        sample = offered.take(slice(None, None, offered.at.size // _FEW))
        self._take_in(sample)
        offered = offered.take(~_stands_for(self.corner(sample.error, sample.quotient), offered))
        steepest = np.searchsorted(-self.kept.error, -offered.error, side="right") - 1  # of those with no smaller d
        return offered.take(~_stands_for(self.kept.take(steepest), offered))  # −1, the last, stands for no larger d

    def _take_in(self, elements: Contenders) -> None:
        kept = _sweep(_joined(self.kept, elements))
        self.steepest = (kept if self.exact else _sweep(_joined(self.steepest, elements))).take(slice(-1, None))
        if kept.at.size > MOST:
            kept, self.exact = _thinned(kept), False
        if not np.array_equal(kept.at, self.kept.at):
            self.kept = kept


def _joined(some: Contenders, others: Contenders) -> Contenders:
    return Contenders(*map(np.concatenate, zip(some, others, strict=True)))


def _sweep(elements: Contenders) -> Contenders:
    """By falling d, those whose quotient rises."""
    falling = elements.take(np.lexsort((elements.at, elements.magnitude, -elements.error)))
    rising = falling.take(falling.quotient == np.maximum.accumulate(falling.quotient))
    first = np.append(True, rising.quotient[1:] > rising.quotient[:-1])[: rising.at.size]
    if first.all():
        return rising
    heads = rising.take(np.flatnonzero(first)[np.cumsum(first) - 1])
    return _settled(rising.take(first | ~_stands_for(heads, rising)))


def _settled(rising: Contenders) -> Contenders:
    """Without those whose quotient, though it rounds alike, is not larger than that of the one kept before."""
    points = rising.points()
    kept = [0]
    for index in range(1, len(points)):
        if exceeds(points[index], points[kept[-1]]):
            kept.append(index)
    return rising.take(np.array(kept))


def _thinned(rising: Contenders) -> Contenders:
    """A quarter of MOST points at most, so that the next ones do not have to be thinned again."""
    points, indices = zip(*thinned(rising.points(), MOST // 4), strict=True)
    magnitude, error = np.array(points).T
    return Contenders(error, magnitude, error / magnitude, rising.at[np.array(indices)])


def _stands_for(corner: Contenders, elements: Contenders) -> Array:
    """Where the corner (one for all, or one each) certainly stands for the element; for its own index it does."""
    no_larger = elements.error <= corner.error
    covered = no_larger & (elements.quotient < corner.quotient)
    tied = np.flatnonzero(no_larger & (elements.quotient == corner.quotient))
    if tied.size:
        its = corner.take(tied) if corner.at.ndim else corner
        covered[tied] = _covers_tied(its, elements.take(tied))
    return covered


def _covers_tied(corner: Contenders, elements: Contenders) -> Array:
    """For a d that is no larger and a quotient that rounds alike: whether the exact quotient is no larger either."""
    twin = (elements.error == corner.error) & (elements.magnitude == corner.magnitude)
    covered = np.where(twin, elements.at >= corner.at, True)
    rounded = np.flatnonzero(~twin & ~(_is_exact(elements) & _is_exact(corner)))
    if rounded.size:
        its = corner.take(rounded) if corner.at.ndim else corner
        covered[rounded] = _quotient_at_most(elements.take(rounded), its)
    return covered


def _is_exact(elements: Contenders) -> Array:
    """Where the quotient is certainly not rounded: its product with |reference| is exact for 24 bits each, and is d."""
    short = (elements.quotient.astype(np.float32) == elements.quotient) & (
        elements.magnitude.astype(np.float32) == elements.magnitude
    )
    exact: Array = short & (elements.quotient * elements.magnitude == elements.error)
    return exact


def _quotient_at_most(elements: Contenders, corner: Contenders) -> Array:
    """Whether d/|reference| is at most the corner's, exactly, by the products across as double-doubles.

    The significands lie in [1/2, 1), so beyond a shift of 4 the power of two alone decides; the limit changes nothing.
    """
    (error, error_exponent), (magnitude, magnitude_exponent) = np.frexp(elements.error), np.frexp(elements.magnitude)
    (its_error, its_error_exponent), (its_magnitude, its_exponent) = np.frexp(corner.error), np.frexp(corner.magnitude)
    shift = (error_exponent - magnitude_exponent) - (its_error_exponent - its_exponent)
    one = two_product(np.ldexp(error, np.clip(shift, -4, 4)), its_magnitude)
    other = two_product(magnitude, its_error)
    at_most: Array = (one.hi < other.hi) | ((one.hi == other.hi) & (one.lo <= other.lo))
    return at_most
