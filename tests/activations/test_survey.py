"""Distribution and change of real rows against direct counts, on whole arrays and in exact numbers."""

import pickle
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rmsaudit.activations.distribution import RESOLUTION
from rmsaudit.activations.law import law_of
from rmsaudit.activations.sums import sums_of
from rmsaudit.activations.survey import Survey, survey, survey_tensor
from rmsaudit.arrays import Array, dtype_of, round_to
from rmsaudit.documents.tensors import tensors_in
from rmsaudit.loaders.exchange import write_tensors
from rmsaudit.semantics import NormSpec

Norm = Callable[..., NormSpec]
WIDTH = 64
DTYPES = ("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2")


def real_rows(word: str, seed: int = 0, rows: int = 3000) -> Array:
    """Rows with q/eps from 2^-10 to 2^24 or so for eps 1e-5, as far as the dtype reaches."""
    rng = np.random.default_rng(seed)
    scale = np.exp2(rng.uniform(-13, 4, rows))[:, None]
    return round_to(rng.standard_normal((rows, WIDTH)) * scale, word)


def squares_of(rows: Array) -> list[Fraction]:
    """The exact mean square of each row."""
    return [sum(Fraction(float(v)) ** 2 for v in row) / len(row) for row in rows]


@pytest.mark.parametrize("word", DTYPES)
def test_below_is_a_direct_count(word: str, norm: Norm) -> None:
    rows = real_rows(word, rows=200)
    eps = Fraction(float(np.float32(1e-5)))
    exact = [square for square in squares_of(rows) if square]
    found = survey([rows], norm()).distribution
    assert found.below == sum(square / eps < Fraction(9801, 199) for square in exact)
    assert found.rows == len(exact)
    assert found.zero == len(rows) - len(exact)


def test_below_is_numpys_count_on_the_whole_array(norm: Norm) -> None:
    rows = real_rows("float32", rows=20000)
    squares = (rows.astype(np.float64) ** 2).mean(axis=-1)
    found = survey(np.array_split(rows, 7), norm()).distribution
    assert found.below == np.count_nonzero(squares / float(np.float32(1e-5)) < 9801 / 199)
    assert 1000 < found.below < 19000
    assert found.smallest == squares.min()
    assert found.largest == squares.max()


def test_a_row_at_the_limit_is_not_below_it_and_its_neighbour_is(norm: Norm) -> None:
    """eps = 199·2^-26 and x = 99·2^-13 throughout: q/eps = 99²/199, and A = 0.99 exactly."""
    spec = norm(eps=199 * 2.0**-26)
    rows = np.full((3, WIDTH), 99 * 2.0**-13, np.float32)
    rows[1, 5] = np.nextafter(rows[1, 5], np.float32(0))
    rows[2, 5] = np.nextafter(rows[2, 5], np.float32(1))
    assert survey([rows], spec).distribution.below == 1
    assert [survey([row[None]], spec).distribution.below for row in rows] == [0, 1, 0]


def test_the_last_bit_of_a_wide_row_decides(norm: Norm) -> None:
    """A square of 2^-80 beside a sum of 2^-10: no float64 sum shows it."""
    spec = norm(eps=199 * 2.0**-26)
    row = np.full((1, WIDTH), 99 * 2.0**-13)
    rows = np.concatenate([row, row])
    rows[1, :2] = 99 * 2.0**-13 * np.array([1 - 2.0**-52, 1 + 2.0**-52])  # together 2^-103·q more
    rows[1, 2] = np.nextafter(rows[1, 2], 0)
    exact = squares_of(rows)
    limit = law_of(spec).limit(Fraction(1, 100)) / WIDTH
    assert exact[0] == limit
    assert 0 < limit - exact[1] < limit / 2**50
    assert survey([rows], spec).distribution.below == 1


def test_rows_that_are_no_rows_are_counted_apart(norm: Norm) -> None:
    rows = np.ones((7, WIDTH), np.float32)
    rows[1] = 0
    rows[2] = -0.0
    rows[3, 3] = np.nan
    rows[4, 3] = -np.inf
    rows[5, 3], rows[5, 4] = np.inf, np.nan
    found = survey([rows], norm(), norm(eps=1e-6))
    each = found.distribution
    assert (each.rows, each.zero, each.infinite, each.nan, each.unusual) == (2, 2, 1, 2, 5)
    assert (each.smallest, each.largest, each.below) == (1, 1, 0)
    assert found.change is not None
    assert found.change.rows == 2


def test_rows_of_nothing_but_zeros_have_no_numbers(norm: Norm) -> None:
    each = survey([np.zeros((4, WIDTH), np.float32)], norm(), norm(eps=1e-6)).distribution
    assert (each.rows, each.below_share, each.largest_loss) == (0, 0.0, 0.0)
    assert np.isnan(each.quantile(0.5))


def test_float64_rows_beyond_every_square_are_rows(norm: Norm) -> None:
    rows = np.ones((4, WIDTH)) * np.array([1e-200, 1e200, 5e-324, 1.7e308])[:, None]
    found = survey([rows], norm(), norm(eps=1e-6))
    assert (found.distribution.rows, found.distribution.below, found.distribution.unusual) == (4, 2, 0)
    assert found.change is not None
    assert found.change.changed == (2, 2)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_quantiles_are_within_their_resolution(share: float, norm: Norm) -> None:
    rows = real_rows("float32")
    squares = (rows.astype(np.float64) ** 2).mean(axis=-1)
    wanted = float(np.quantile(squares, share, method="inverted_cdf"))
    assert abs(survey([rows], norm()).distribution.quantile(share) - wanted) <= RESOLUTION * wanted


def test_octaves_are_a_direct_count(norm: Norm) -> None:
    rows = np.exp2(np.repeat([-3.0, -2.0, 0.0], [1, 2, 5]))[:, None] * np.ones((8, WIDTH)) * 1.25
    each = survey([rows.astype(np.float32)], norm()).distribution
    assert each.octaves(1.0) == {-6: 1, -4: 2, 0: 5}


@pytest.mark.parametrize("words", [{"groups": 4}, {"statistic_width": 16}, {"statistic": "sum_square"}])
def test_other_scopes_are_counted_by_their_own_sums(words: dict[str, object], norm: Norm) -> None:
    spec = norm(**words, eps=2.0**-15)
    rows = real_rows("float32", rows=300)
    parts = rows.reshape(-1, 16) if "groups" in words else rows[:, :16] if "statistic_width" in words else rows
    squares = (parts.astype(np.float64) ** 2).mean(axis=-1)
    knee = 2.0**-15 / (WIDTH if "statistic" in words else 1)
    each = survey([rows], spec).distribution
    assert each.rows == len(parts)
    assert each.below == np.count_nonzero(squares / knee < 9801 / 199)
    assert each.smallest_ratio == pytest.approx(squares.min() / knee, rel=1e-14)


@pytest.mark.parametrize("placement", ["inside_sqrt", "inside_sum", "outside_sqrt", "floor_rms", "floor_norm", "none"])
@pytest.mark.parametrize("output", ["bfloat16", "float32"])
def test_changed_is_a_direct_count(placement: str, output: str, norm: Norm) -> None:
    """The change in long numbers, straight from the definition; no row lies within 1e-9 of a bound by chance."""
    reference, candidate = norm(output_dtype=output), norm(output_dtype=output, eps=1e-3, eps_placement=placement)
    rows = real_rows("float32", seed=3)
    q = (rows.astype(np.longdouble) ** 2).mean(axis=-1)
    eps = np.longdouble(np.float32(1e-3))
    root = {
        "inside_sqrt": np.sqrt(q + eps),
        "inside_sum": np.sqrt(q + eps / WIDTH),
        "outside_sqrt": np.sqrt(q) + eps,
        "floor_rms": np.maximum(np.sqrt(q), eps),
        "floor_norm": np.maximum(np.sqrt(q), eps / np.sqrt(np.longdouble(WIDTH))),
        "none": np.sqrt(q),
    }[placement]
    changes = np.sqrt(q + np.longdouble(np.float32(1e-5))) / root - 1
    found = survey(np.array_split(rows, 3), reference, candidate).change
    assert found is not None
    bounds = [2.0 ** -(8 if output == "bfloat16" else 24), 0.01]
    assert found.changed == tuple(np.count_nonzero(np.abs(changes) > bound) for bound in bounds)
    assert found.largest == pytest.approx(float(changes[np.abs(changes).argmax()]), rel=1e-10)


def test_a_change_of_exactly_the_bound_is_not_counted(norm: Norm) -> None:
    """q = 2^-20, eps 24·q and 15·q: every output changes by 5/4 exactly."""
    rows = np.full((2, WIDTH), 2.0**-10, np.float32)
    rows[1, 0] = np.nextafter(rows[1, 0], np.float32(0))
    pair = norm(eps=24 * 2.0**-20), norm(eps=15 * 2.0**-20)
    found = survey([rows], *pair, bounds=(Fraction(1, 4),)).change
    assert found is not None
    assert found.changed == (1,)
    assert found.largest > 0.25


def test_equal_eps_changes_nothing(norm: Norm) -> None:
    wide = {"output_dtype": "float64"}
    found = survey([real_rows("float32")], norm(**wide), norm(**wide)).change
    assert found is not None
    assert (found.changed, found.largest) == ((0, 0), 0.0)


def test_blocks_in_any_order_give_what_one_pass_gives(norm: Norm) -> None:
    rows = real_rows("bfloat16")
    pair = norm(), norm(eps=1e-6)
    whole = survey([rows], *pair)
    parts = [survey([part], *pair) for part in np.array_split(rows, 11)]
    for order in (range(11), reversed(range(11))):
        merged = None
        for at in order:
            merged = parts[at] if merged is None else merged.merge(parts[at])
        assert merged == whole


def test_a_survey_can_cross_processes(norm: Norm) -> None:
    found = survey([real_rows("float16")], norm(), norm(eps=1e-6))
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_work_on_a_tensor_can_cross_processes_too(norm: Norm, tmp_path: Path) -> None:
    rows = real_rows("bfloat16", rows=300)
    write_tensors(tmp_path / "acts.safetensors", {"norm": rows}, {})
    place = tensors_in(tmp_path / "acts.safetensors")["norm"]
    work = pickle.loads(pickle.dumps(partial(survey_tensor, place, norm(), norm(eps=1e-6))))
    assert work() == survey([rows], norm(), norm(eps=1e-6))


def test_what_was_asked_differently_does_not_merge(norm: Norm) -> None:
    rows = [real_rows("float32", rows=4)]
    one = survey(rows, norm(), norm(eps=1e-6))
    with pytest.raises(ValueError, match="under different eps"):
        one.merge(survey(rows, norm(eps=1e-6), norm()))
    with pytest.raises(ValueError, match="different bounds"):
        one.merge(survey(rows, norm(), norm(eps=1e-6, output_dtype="bfloat16")))
    with pytest.raises(ValueError, match="without do not merge"):
        one.merge(survey(rows, norm()))


def test_the_bound_on_a_sum_holds(norm: Norm) -> None:
    """Sums of rows of very different elements, against exact ones."""
    rng = np.random.default_rng(2)
    rows = (rng.standard_normal((20, WIDTH)) * np.exp2(rng.integers(-30, 30, (20, WIDTH)))).astype(dtype_of("float32"))
    sums = sums_of(rows, norm())
    for at, exact in enumerate(squares_of(rows)):
        assert sums.exact(at) == exact * WIDTH
        assert abs(Fraction(float(sums.totals[at])) - exact * WIDTH) <= exact * WIDTH * Fraction(WIDTH, 2**53)


def test_merging_nothing_is_harmless(norm: Norm) -> None:
    empty, some = survey([], norm()), survey([real_rows("float32", rows=5)], norm())
    assert empty.merge(some) == some == some.merge(empty)
    assert isinstance(empty, Survey)
