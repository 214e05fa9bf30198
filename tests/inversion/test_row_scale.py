"""Outputs are made here, with numpy's casts and single products, for a factor that is known."""

import ml_dtypes
import numpy as np
import pytest

from rmsaudit.formats import FORMATS
from rmsaudit.inversion.row_scale import Allowance, row_scales

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64}
ONE = np.ones(1, np.float32)
RNG = np.random.default_rng(3)
FACTORS = np.exp2(RNG.uniform(-6, 6, 200))


def rows(word, width=256):
    return RNG.standard_normal((len(FACTORS), width)).astype(np.float32).astype(DTYPES[word])


def rounded(values, word):
    """Once, through float32 where numpy has no direct cast; the products here fit it."""
    return values.astype(DTYPES[word])


def scales(x, y, word, factor=ONE, **allowance):
    return row_scales(x, y, factor=factor, fmt=FORMATS[word], allowance=Allowance(**allowance))


def contain(found, factor):
    return bool(((found.scale.lo <= factor) & (found.scale.hi >= factor)).all())


@pytest.mark.parametrize("word", DTYPES)
def test_the_factor_is_always_inside(word):
    x = rows(word)
    factor = FACTORS.astype(np.float32).astype(np.float64)  # 24 bits: x · factor is exact in float64 below 64 bits
    y = rounded((x.astype(np.float64) * factor[:, None]).astype(np.float32 if word == "bfloat16" else np.float64), word)
    found = scales(x, y, word, relative=2.0**-24 if word == "bfloat16" else 0.0)
    assert not len(found.contradicted)
    assert contain(found, factor)


@pytest.mark.parametrize(("word", "bits"), [("float32", 29), ("float16", 15), ("bfloat16", 12)])
def test_a_row_of_256_elements_knows_its_factor_much_better_than_one_output_does(word, bits):
    x = rows(word)
    y = rounded((x.astype(np.float64) * FACTORS[:, None]).astype(np.float32), word)
    lo, hi = scales(x, y, word, relative=0.0 if word == "float32" else 2.0**-24).scale
    assert np.median((hi - lo) / (hi + lo)) < 2.0**-bits < FORMATS[word].machine_epsilon / 8


def test_gains_are_part_of_the_product():
    x, gain = rows("float32"), RNG.uniform(-2, 2, 256).astype(np.float32)
    y = (x.astype(np.float64) * gain * FACTORS[:, None]).astype(np.float32)
    found = scales(x, y, "float32", factor=gain)
    assert contain(found, FACTORS)


def test_a_cast_before_the_gain_needs_its_allowance():
    """Two roundings to bfloat16; without the allowance the rows would be called contradictory."""
    x, gain = rows("bfloat16"), RNG.uniform(0.5, 2, 256).astype(np.float32).astype(ml_dtypes.bfloat16)
    normalised = (x.astype(np.float32) * FACTORS[:, None].astype(np.float32)).astype(ml_dtypes.bfloat16)
    y = (normalised.astype(np.float32) * gain.astype(np.float32)).astype(ml_dtypes.bfloat16)
    allowed = scales(x, y, "bfloat16", factor=gain, relative=2.0**-8 + 2.0**-22)
    assert contain(allowed, FACTORS.astype(np.float32))
    assert len(scales(x, y, "bfloat16", factor=gain, relative=2.0**-22).contradicted) > 100


@pytest.mark.parametrize("change", ["larger", "negated", "NaN", "from zero"])
def test_one_strange_element_is_a_contradiction_and_is_named(change):
    x = rows("float32")
    x[:, 7] = 0 if change == "from zero" else x[:, 7]
    y = (x.astype(np.float64) * FACTORS[:, None]).astype(np.float32)
    y[5, 7] = {"larger": y[5, 7] * 1.001, "negated": -y[5, 7], "NaN": np.nan, "from zero": 1.0}[change]
    found = scales(x, y, "float32")
    assert found.contradicted.tolist() == [5]
    contradiction = found.contradiction(5)
    assert contradiction.columns == (7,)
    assert contradiction.lo <= FACTORS[5] <= contradiction.hi


def test_half_a_row_at_another_factor_names_the_smaller_half():
    x = rows("float16")
    other = np.where(np.arange(256) < 100, 2.0, 1.0)
    y = (x.astype(np.float64) * other).astype(np.float16)
    assert scales(x, y, "float16").contradiction(0).columns == tuple(range(100))


def test_what_says_nothing_leaves_the_factor_free():
    x = np.array([[0.0, np.inf, np.nan], [0.0, 0.0, 1.0]], dtype=np.float32)
    y = np.array([[0.0, np.inf, np.nan], [0.0, 0.0, 2.0]], dtype=np.float32)
    lo, hi = scales(x, np.nan_to_num(y, nan=3.0), "float32").scale
    assert (lo[0], hi[0]) == (0, np.inf)
    assert lo[1] <= 2 <= hi[1]


def test_an_infinite_output_bounds_the_factor_from_below_alone():
    x = np.array([[1.0, 1000.0]], dtype=np.float16)
    y = np.array([[100.0, np.inf]], dtype=np.float16)
    lo, hi = scales(x, y, "float16").scale
    assert lo[0] == pytest.approx(99.97, rel=1e-3)
    assert lo[0] <= 100 <= hi[0]
    assert len(scales(x, np.array([[10.0, np.inf]], dtype=np.float16), "float16").contradicted)


def test_an_absolute_allowance_lets_a_small_output_have_the_other_sign():
    x = np.array([[1.0, -1e-6]])
    y = np.array([[1.0, 1e-6]])
    assert len(scales(x, y, "float64").contradicted)
    assert not len(scales(x, y, "float64", absolute=3e-6).contradicted)


def test_flushed_outputs_do_not_contradict():
    x = np.array([[1.0, 2.0**-16]], dtype=np.float16)
    y = np.array([[1.0, 0.0]], dtype=np.float16)
    assert len(scales(x, y, "float16").contradicted)
    assert not len(scales(x, y, "float16", flushes=True).contradicted)


def test_toward_zero():
    x = rows("float32", 64)
    exact = x.astype(np.float64) * FACTORS[:, None]
    nearest = exact.astype(np.float32)
    y = np.where(np.abs(nearest.astype(np.float64)) > np.abs(exact), np.nextafter(nearest, np.float32(0)), nearest)
    found = scales(x, y, "float32", rounding="toward_zero")
    assert contain(found, FACTORS)
    assert len(scales(x, y, "float32").contradicted) > 100
