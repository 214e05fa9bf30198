"""The law of eps against its definition at 60 digits, against the emulator, and at exact ties."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from rmsaudit.activations.law import Law, Pair, law_of, pair_of
from rmsaudit.emulator import emulate_arrays
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.eps import PLACEMENTS, knee

Norm = Callable[..., NormSpec]
SIZE = 64
TOTALS = np.exp2(np.random.default_rng(5).uniform(-60, 30, 40))
mpmath.mp.dps = 60


def divisor(law: Law, placement: str, total: mpmath.mpf) -> mpmath.mpf:
    """√n times what a row is divided by, out of the words of `eps_placement`."""
    eps, n = mpmath.mpf(law.eps.numerator) / law.eps.denominator, SIZE
    rms, root = mpmath.sqrt(total / n), mpmath.sqrt(total)
    return {
        "inside_sqrt": mpmath.sqrt(n) * mpmath.sqrt(total / n + eps),
        "inside_sum": mpmath.sqrt(total + eps),
        "outside_sqrt": mpmath.sqrt(n) * (rms + eps),
        "floor_rms": mpmath.sqrt(n) * max(rms, eps),
        "floor_norm": max(root, eps),
        "floor_sum": mpmath.sqrt(max(total, eps**2)),
        "none": root,
    }[placement]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_loss_is_that_of_the_definition(placement: str, norm: Norm) -> None:
    law = law_of(norm(eps_placement=placement, eps=2e-3))
    for total, loss in zip(TOTALS, law.loss_of(TOTALS), strict=True):
        exact = 1 - mpmath.sqrt(total) / divisor(law, placement, mpmath.mpf(float(total)))
        # float64 roundings of E and of three roots, none of which cancels; a floor cancels where it lets go
        assert abs(loss - exact) <= 1e-15 * exact + (1e-15 if placement.startswith("floor") else 0)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("statistic", ["mean_square", "sum_square"])
def test_knee_is_that_of_the_semantics(placement: str, statistic: str, norm: Norm) -> None:
    spec = norm(eps_placement=placement, statistic=statistic, eps=2.0**-10)  # the same number in float32
    assert law_of(spec).knee == pytest.approx(knee(spec, SIZE, statistic == "sum_square"), rel=1e-15)


@pytest.mark.parametrize("placement", PLACEMENTS[:-1])
def test_limit_is_where_the_loss_is_reached(placement: str, norm: Norm) -> None:
    law = law_of(norm(eps_placement=placement, eps=2e-3))
    limit = law.limit(Fraction(1, 100))
    at = mpmath.mpf(limit.numerator) / limit.denominator
    kept = mpmath.sqrt(at) / divisor(law, placement, at)
    assert abs(kept - mpmath.mpf(99) / 100) < mpmath.mpf(10) ** -55


def test_limit_inside_the_root_is_the_published_ratio(norm: Norm) -> None:
    law = law_of(norm(eps=2.0**-20))
    assert law.limit(Fraction(1, 100)) / SIZE * 2**20 == Fraction(9801, 199)  # 49.25...


@pytest.mark.parametrize(("one", "other"), list(product(PLACEMENTS, PLACEMENTS)))
def test_changes_are_those_of_the_definition(one: str, other: str, norm: Norm) -> None:
    pair = pair_of(norm(eps_placement=one, eps=3e-3), norm(eps_placement=other, eps=2e-4))
    changes, errors = pair.changes_of(TOTALS), pair.errors_of(TOTALS)
    for total, change, error in zip(TOTALS, changes, errors, strict=True):
        exact_total = mpmath.mpf(float(total))
        exact = divisor(pair.reference, one, exact_total) / divisor(pair.candidate, other, exact_total) - 1
        assert abs(change - exact) <= error
        assert error <= 1e-13 * (2 + abs(change))  # a bound that says something
        for bound in (Fraction(1, 2**24), Fraction(1, 100), Fraction(1, 2), Fraction(3)):
            assert pair.changes_more(Fraction(float(total)), bound) == (abs(exact) > mpmath.mpf(float(bound)))


def test_an_exact_tie_is_no_more_than_the_bound() -> None:
    """Inside: (S + 8)/(S + 3) = (5/4)² where S = 53/9... in whole numbers: S = 1, E = 24 and 15, D/d = 5/4."""
    pair = Pair(law("inside", 24), law("inside", 15))
    assert not pair.changes_more(Fraction(1), Fraction(1, 4))
    assert pair.changes_more(Fraction(1), Fraction(1, 4) - Fraction(1, 10**30))
    assert pair.changes_more(Fraction(1) - Fraction(1, 10**30), Fraction(1, 4))


def test_an_exact_tie_with_roots() -> None:
    """Outside with eps 1 at S = 9 divides by 4; inside with eps 16 by 5: 4/5 is a change of −1/5."""
    pair = Pair(law("outside", 1), law("inside", 16))
    assert not pair.changes_more(Fraction(9), Fraction(1, 5))
    assert pair.changes_more(Fraction(9), Fraction(1, 5) - Fraction(1, 10**30))
    assert not pair.changes_more(Fraction(9) + Fraction(1, 10**30), Fraction(1, 5))
    assert pair.changes_more(Fraction(9) - Fraction(1, 10**30), Fraction(1, 5))


def law(guard: str, eps: int) -> Law:
    return Law(guard=guard, eps=Fraction(eps), times=1, size=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_emulator_obeys_the_law(placement: str, norm: Norm) -> None:
    wide = {"input_dtype": "float64", "compute_dtype": "float64", "gain_dtype": "float64", "output_dtype": "float64"}
    reference = norm(**wide, eps=1e-3)
    candidate = norm(**wide, eps=4e-3, eps_placement=placement)
    x = np.random.default_rng(1).standard_normal((30, SIZE)) * np.exp2(np.arange(-15, 15))[:, None]
    one, other = (emulate_arrays(s, x, np.ones(SIZE), np.zeros(SIZE), np.zeros_like(x)) for s in (reference, candidate))
    changes = pair_of(reference, candidate).changes_of((x * x).sum(axis=-1))
    # a dozen float64 roundings on either side
    np.testing.assert_allclose(other / one, np.broadcast_to(1 + changes[:, None], x.shape), rtol=1e-14)


def test_eps_is_the_one_that_is_computed_with(norm: Norm) -> None:
    assert law_of(norm(eps=1e-5)).eps == Fraction(float(np.float32(1e-5)))
    assert law_of(norm(eps=1e-6, eps_dtype="float16")).eps == Fraction(17, 2**24)  # its 17th subnormal
    assert law_of(norm(eps=1e-8, eps_min=1e-6)).eps == Fraction(float(np.float32(1e-6)))
    assert law_of(norm(eps_placement="none")).knee == 0


def test_groups_and_partial_rows_have_their_own_size(norm: Norm) -> None:
    assert law_of(norm(groups=4)).size == 16
    assert law_of(norm(statistic_width=0.25)).size == 16


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"center": True}, "subtracts the mean"),
        ({"statistic": "variance"}, "subtracts the mean"),
        ({"prescale": "max_abs"}, "largest magnitude"),
        ({"gain_position": "before_statistic"}, "by its gain before"),
        ({"axes": (-2,)}, "across rows"),
        ({"eps": 1e300}, r"eps of 1e\+300, which float32 cannot hold"),
    ],
)
def test_a_norm_without_a_law_is_refused(words: dict[str, object], says: str, norm: Norm) -> None:
    with pytest.raises(ValueError, match=says):
        law_of(norm(**words))


def test_a_pair_of_other_sums_is_refused(norm: Norm) -> None:
    with pytest.raises(ValueError, match="64 squares and the candidate 16"):
        pair_of(norm(), norm(groups=4))
    with pytest.raises(ValueError, match="root of the mean"):
        pair_of(norm(), norm(statistic="sum_square"))
