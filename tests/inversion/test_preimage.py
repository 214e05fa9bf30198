"""Every value of the 16-bit formats against its neighbours by bit pattern; float32 against numpy's own casts."""

import ml_dtypes
import numpy as np
import pytest

from rmsaudit.formats import FORMATS
from rmsaudit.inversion.preimage import preimage

DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def every_magnitude(word):
    """All finite values that are not negative, in order."""
    patterns = np.arange(1 << 15, dtype=np.uint16).view(DTYPES[word])
    with np.errstate(invalid="ignore"):
        values = patterns.astype(np.float64)
    return values[np.isfinite(values)]


@pytest.mark.parametrize("word", DTYPES)
def test_ends_are_the_midpoints_to_both_neighbours(word):
    values = every_magnitude(word)
    found = preimage(values, FORMATS[word])
    midpoints = (values[1:] + values[:-1]) / 2
    np.testing.assert_array_equal(found.lo[1:], midpoints)
    np.testing.assert_array_equal(found.hi[:-1], midpoints)
    assert found.lo[0] == 0


@pytest.mark.parametrize("word", DTYPES)
def test_toward_zero_from_the_value_to_the_next(word):
    values = every_magnitude(word)
    found = preimage(values, FORMATS[word], rounding="toward_zero")
    np.testing.assert_array_equal(found.lo, values)
    np.testing.assert_array_equal(found.hi[:-1], values[1:])


def test_float32_by_numpys_own_cast():
    """Just inside an end numpy rounds to the value, just outside to another one."""
    values = np.abs(np.random.default_rng(0).standard_normal(2000)).astype(np.float32).astype(np.float64)
    values = np.concatenate([values, np.exp2(np.arange(-149.0, 127.0)), [1e-40]])
    values = values.astype(np.float32).astype(np.float64)
    lo, hi = preimage(values, FORMATS["float32"])
    for end, outward in ((lo, -np.inf), (hi, np.inf)):
        inside, outside = np.nextafter(end, -outward), np.nextafter(end, outward)
        np.testing.assert_array_equal(inside.astype(np.float32).astype(np.float64), values)
        assert (outside.astype(np.float32).astype(np.float64) != values).all()


def test_float64_reaches_to_its_neighbours():
    lo, hi = preimage(np.array([1.0, 1.5]), FORMATS["float64"])
    assert lo.tolist() == [1 - 2.0**-53, 1.5 - 2.0**-52]
    assert hi.tolist() == [1 + 2.0**-52, 1.5 + 2.0**-52]


@pytest.mark.parametrize(("word", "edge"), [("float16", 65520.0), ("bfloat16", 2.0**128 - 2.0**119)])
def test_infinity_reaches_down_to_the_limit_of_overflow(word, edge):
    lo, hi = preimage(np.array([np.inf]), FORMATS[word])
    assert (lo[0], hi[0]) == (edge, np.inf)
    assert preimage(np.array([FORMATS[word].max]), FORMATS[word]).hi[0] == edge


def test_what_is_flushed_may_have_been_anything_subnormal():
    fmt = FORMATS["float16"]
    lo, hi = preimage(np.array([0.0, 2.0**-24, 2.0**-14]), fmt, flushes=True)
    assert lo.tolist() == [0.0, 0.0, 2.0**-14 - 2.0**-25]
    assert (hi >= 2.0**-14).all()


def test_nan_stays_nan():
    assert np.isnan(preimage(np.array([np.nan]), FORMATS["float16"]).hi[0])
