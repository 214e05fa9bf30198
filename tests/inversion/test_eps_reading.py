"""Factors are made here from the formulas, at 50 digits, and disturbed by a known amount."""

import mpmath
import numpy as np
import pytest

from rmsaudit.inversion.eps_reading import (
    BRAIN,
    HALF,
    SINGLE,
    UNSEEN,
    Placed,
    Rows,
    Rung,
    equivalences,
    ladder_for,
    read_eps,
    together,
)
from rmsaudit.inversion.interval import Interval
from rmsaudit.inversion.sum_of_squares import sum_of_squares

mpmath.mp.dps = 50
RNG = np.random.default_rng(4)
LADDER = ladder_for("float32", "float32")
FORMULAS = {
    "inside_sqrt": lambda total, n, eps: mpmath.sqrt(total / n + eps),
    "inside_sum": lambda total, n, eps: mpmath.sqrt((total + eps) / n),
    "outside_sqrt": lambda total, n, eps: mpmath.sqrt(total / n) + eps,
    "floor_rms": lambda total, n, eps: max(mpmath.sqrt(total / n), eps),
    "floor_norm": lambda total, n, eps: max(mpmath.sqrt(total), eps) / mpmath.sqrt(n),
    "floor_sum": lambda total, n, eps: mpmath.sqrt(max(total, eps**2) / n),
    "none": lambda total, n, _: mpmath.sqrt(total / n),
}


def rows(placement, eps, *, widths=(64, 256), off=2.0**-23, known=2.0**-26, lowest=-45):
    """One row an octave, at each width, of whole numbers times 2^scale; D is off by up to `off`, r known to `known`."""
    parts = []
    for n in widths:
        scales = np.linspace(lowest - 8, -2, 50).astype(int)
        whole = RNG.integers(1, 256, (50, n))
        exact = [
            mpmath.mpf(int(total)) * mpmath.mpf(4) ** int(scale)
            for total, scale in zip((whole**2).sum(axis=-1), scales, strict=True)
        ]
        divisor = np.array([float(FORMULAS[placement](total, n, mpmath.mpf(eps))) for total in exact])
        scale = 1 / (divisor * (1 + off * RNG.uniform(-1, 1, 50)))
        x = np.ldexp(whole.astype(np.float64), scales[:, None])
        parts.append(
            Rows(
                scale=Interval(scale * (1 - known), scale * (1 + known)),
                squares=sum_of_squares(x),
                count=np.full(50, float(n)),
                smallest=np.abs(x).min(axis=-1),
            )
        )
    return together(parts)


EQUAL = {"floor_norm": {"floor_norm", "floor_sum"}, "floor_sum": {"floor_norm", "floor_sum"}}


@pytest.mark.parametrize("placement", [name for name in FORMULAS if name != "none"])
@pytest.mark.parametrize("eps", [1e-1, 3.7e-4, 1e-6, 2.5e-9, 1e-12])
def test_each_placement_is_read_alone_and_its_eps_kept(placement, eps):
    found = read_eps(rows(placement, eps), LADDER)
    assert {placed.placement for placed in found.standing} == EQUAL.get(placement, {placement})
    placed = found.placed(placement)
    assert placed.contains(eps)
    assert placed.digits > 5
    assert found.rung.precision == "float32"
    assert found.acts


def test_every_placement_that_fell_names_two_rows_that_contradict():
    seen = rows("inside_sqrt", 1e-6)
    for excluded in read_eps(seen, LADDER).excluded:
        assert excluded.at_least > excluded.at_most or excluded.placement == "none"
        assert 0 <= excluded.asks < 100
        assert 0 <= excluded.allows < 100


def test_without_eps_everything_stands_below_a_bound():
    found = read_eps(rows("none", 0.0), LADDER)
    assert not found.acts
    assert {placed.placement for placed in found.standing} == set(FORMULAS)
    assert all(placed.lo == 0 for placed in found.standing)
    assert found.placed("inside_sqrt").hi < 1e-30  # about 2^-20 of the smallest mean square, 2^-92


def test_an_eps_below_what_rows_reach_is_not_told_from_none():
    found = read_eps(rows("outside_sqrt", 1e-12, lowest=-10), LADDER)
    assert not found.acts
    assert found.placed("outside_sqrt").contains(1e-12)


def test_one_width_does_not_tell_the_mean_from_the_sum():
    found = read_eps(rows("inside_sqrt", 1e-6, widths=(64,)), LADDER)
    assert {placed.placement for placed in found.standing} == {"inside_sqrt", "inside_sum"}
    assert found.placed("inside_sum").contains(64e-6)


def test_where_the_sum_is_the_statistic_there_are_no_two_names_for_it():
    seen = rows("inside_sqrt", 1e-6, widths=(1,), off=0.0)
    assert {placed.placement for placed in read_eps(seen, LADDER).standing} == {"inside_sqrt"}


@pytest.mark.parametrize(
    ("off", "precision"),
    [
        (2.0**-24, "float32"),
        (2.0**-18, "somewhat less than float32"),
        (2.0**-14, "much less than float32"),
        (2.0**-8, "bfloat16"),
    ],
)
def test_the_rung_names_the_precision_and_still_contains_eps(off, precision):
    found = read_eps(rows("inside_sqrt", 1e-6, off=off), LADDER)
    assert found.rung.precision == precision
    assert found.placed("inside_sqrt").contains(1e-6)


def test_rows_that_know_little_are_not_taken_for_a_precise_statistic():
    seen = rows("inside_sqrt", 1e-6, off=2.0**-9, known=2.0**-8)
    assert read_eps(seen, [SINGLE[0]]).rung is SINGLE[0]  # it would fit
    found = read_eps(seen, LADDER)
    assert (found.rung.slack, found.rung.precision) == (BRAIN.slack, UNSEEN)


def test_no_rung_no_placement():
    seen = rows("inside_sqrt", 1e-6)
    other_power = Interval(seen.scale.lo**0.9, seen.scale.hi**0.9)
    found = read_eps(Rows(scale=other_power, squares=seen.squares, count=seen.count, smallest=seen.smallest), LADDER)
    assert found.rung is None
    assert not found.standing
    assert len(found.excluded) == len(FORMULAS)


def test_float16_allows_for_its_underflow():
    """A mean square of 1e-6 is 17 units of 2^-24 there, give or take half a one, and its root is as coarse."""
    seen = rows("inside_sqrt", 1e-6, lowest=-20, off=0.0)
    statistic = np.rint(1 / seen.scale.lo**2 * 2.0**24) / 2.0**24
    usable = statistic > 0
    coarse = 1 / np.sqrt(statistic[usable])
    disturbed = Rows(
        scale=Interval(coarse * (1 - 2.0**-14), coarse * (1 + 2.0**-14)),
        squares=seen.squares.at(usable),
        count=seen.count[usable],
        smallest=seen.smallest[usable],
    )
    found = read_eps(disturbed, ladder_for("float16", "float16"))
    assert found.rung is HALF
    assert found.placed("inside_sqrt").contains(1e-6)
    without = HALF._replace(absolute=0.0, reach="float32")
    assert not any(placed.contains(1e-6) for placed in read_eps(disturbed, [without]).standing)


def test_float64_only_for_outputs_that_have_its_bits():
    assert "float64" in [rung.precision for rung in ladder_for("float64", "float64")]
    assert "float64" not in [rung.precision for rung in ladder_for("float64", "float32")]


def test_an_unknown_placement_is_refused():
    from rmsaudit.inversion.eps_reading import implied_eps

    seen = rows("none", 0.0, widths=(4,))
    with pytest.raises(ValueError, match="no eps placement 'elsewhere'"):
        implied_eps("elsewhere", seen.scale, seen)


def test_equivalences_are_said():
    both = [Placed("floor_norm", 1e-6, 2e-6), Placed("floor_sum", 1e-6, 2e-6)]
    assert "the same number" in equivalences(both)[0]
    assert "a floor of ms" in equivalences([Placed("floor_rms", 1e-3, 1e-3)])[0]
    assert equivalences([Placed("inside_sqrt", 1e-6, 1e-6)]) == ()


def test_a_rung_is_for_rows_within_its_reach():
    seen = rows("inside_sqrt", 1e-6)
    assert read_eps(seen, [Rung(2.0**-5, 2.0**-5, "float16", reach="float16")]).rung is not None
    huge = Rows(
        scale=seen.scale,
        squares=Interval(seen.squares.lo + 1e6, seen.squares.hi + 1e6),
        count=seen.count,
        smallest=seen.smallest,
    )
    assert read_eps(huge, [Rung(2.0**-5, 2.0**-5, "float16", reach="float16")]).rung is None
