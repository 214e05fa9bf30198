from fractions import Fraction

import numpy as np
import pytest

from rmsaudit.arrays import word_of
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.probes import Probes, octaves, odd_sixteenths

DTYPES = ("float32", "float16", "bfloat16", "float64")
WIDTHS = (8, 33, 64, 100, 256, 4096, 16384)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_squares_add_up_exactly_in_float32_in_every_order(dtype, width):
    """Whole numbers in one unit, with a sum of squares below 2^24 units²: every partial sum has 24 bits."""
    x = Probes(width, dtype).balanced(np.array([-8.0, -2.5, 0.0, 3.3]), "any").astype(np.float64)
    for row in x:
        values, counts = np.unique(np.abs(row), return_counts=True)
        unit = Fraction(1, max(Fraction(value).denominator for value in values.tolist()))
        whole = [Fraction(value) / unit for value in values.tolist()]
        assert all(value.denominator == 1 for value in whole)
        assert sum(value**2 * count for value, count in zip(whole, counts.tolist(), strict=True)) < 2**24


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_neighbours_cancel_so_the_mean_is_0_in_every_even_group(dtype, width):
    x = Probes(width, dtype).balanced(octaves(-12.0, 3.0, 1.0), "any").astype(np.float64)
    even = width - width % 2
    np.testing.assert_array_equal(x[:, 0:even:2], -x[:, 1:even:2])
    assert not x[:, even:].any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("width", [33, 256, 4096])
def test_the_rms_is_the_one_that_was_asked_for_within_an_octave(dtype, width):
    scales = octaves(-50.0, 6.0, 0.5)
    x = Probes(width, dtype).balanced(scales, "any").astype(np.float64)
    assert (np.abs(np.log2(np.sqrt((x**2).mean(axis=-1))) - scales) < 1).all()


def test_below_the_smallest_value_rows_get_sparse_instead_of_vanishing():
    probes = Probes(256, "float16")
    x = probes.balanced(octaves(probes.lowest, -20.0, 1.0), "any").astype(np.float64)
    assert np.count_nonzero(x, axis=-1)[0] == 2
    assert (np.diff(np.sqrt((x**2).mean(axis=-1))) > 0).all()
    assert np.abs(x[0]).max() == FORMATS["float16"].smallest_subnormal


@pytest.mark.parametrize("width", WIDTHS)
def test_wide_rows_keep_some_elements_of_many_bits(width):
    """An output of 8 bits confines the factor by the mantissas that it is a multiple of, so there must be many."""
    x = np.abs(Probes(width, "bfloat16").balanced(np.zeros(1), "any").astype(np.float64))
    mantissas = np.frexp(x[x > 0])[0]
    assert len(np.unique(mantissas)) >= min(width // 4, 50)


def test_the_same_at_each_call_and_different_between_streams():
    probes = Probes(64, "bfloat16")
    one, again = probes.balanced(np.zeros(3), "any"), probes.balanced(np.zeros(3), "any")
    np.testing.assert_array_equal(one, again)
    assert (one != probes.balanced(np.zeros(3), "another")).any()
    assert word_of(one) == "bfloat16"


@pytest.mark.parametrize("dtype", DTYPES)
def test_shifted_rows_differ_by_a_constant_exactly(dtype):
    rows, shifted = (x.astype(np.float64) for x in Probes(65, dtype).shifted(4))
    np.testing.assert_array_equal(shifted - rows, 8)
    assert not rows.sum(axis=-1).any()


@pytest.mark.parametrize("width", [8, 65, 256, 1000, 4096])
def test_blocks_cover_the_row_once_and_the_last_column_again(width):
    blocks = Probes(width, "float32").blocks()
    assert (blocks[:-1].sum(axis=0) == 1).all()
    assert np.flatnonzero(blocks[-1]).tolist() == [width - 1]
    assert blocks.sum(axis=-1).max() <= Probes(width, "float32").block_size


@pytest.mark.parametrize("width", [8, 256, 4096])
def test_a_loud_block_outweighs_its_row(width):
    probes = Probes(width, "float16")
    loud = probes.blocks()
    x = probes.influence(loud).astype(np.float64)
    quiet, louder, negated = x[0], x[1 : 1 + len(loud)], x[1 + len(loud) :]
    assert ((louder**2).sum(axis=-1) > 4 * (quiet**2).sum()).all()
    np.testing.assert_array_equal(np.where(loud, -louder, louder), negated)
    np.testing.assert_array_equal(np.where(loud, 0, louder - quiet), 0)


def test_factors_that_no_16_bit_gain_rounds():
    factors = odd_sixteenths(500)
    assert (np.abs(factors) >= 3 / 16).all()
    assert (factors * 16 % 2 == 1).all()
    for dtype in (np.float16, np.float32):
        np.testing.assert_array_equal((factors - 1).astype(dtype).astype(np.float64), factors - 1)


def test_one_element_is_no_row():
    with pytest.raises(ValueError, match="width 1 leaves no pair"):
        Probes(1, "float32")
