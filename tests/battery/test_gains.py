import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.arrays import round_to
from rmsaudit.formats import FORMATS


def gains_of(setup):
    ((_, cases),) = battery.build(setup, ["gains"])
    return {case.label: case.gain.astype(np.float64) for case in cases}


@pytest.fixture
def gains(make_setup):
    return gains_of(make_setup("bfloat16", 256))


def test_each_kind_has_a_case_of_its_own(gains):
    assert list(gains) == ["zero", "negative", "near 0", "near 1", "above 16", "all different", "lost beside 1"]
    assert not gains["zero"].any()
    assert (gains["negative"] < 0).all()
    assert np.abs(gains["near 0"]).max() <= 0.25
    assert np.abs(gains["near 1"] - 1).max() <= 2**-4
    assert (gains["near 1"] == 1).any()
    assert (gains["near 1"] != 1).any()
    assert np.unique(gains["all different"]).size == 256


def test_above_16_straddles_it_where_adding_1_needs_a_bit_that_is_not_there(gains):
    drawn = gains["above 16"]
    assert np.abs(drawn).max() > 16
    assert 15.8125 in drawn  # + 1 = 16.8125, which lies between two bfloat16 values
    rounded = round_to(1 + drawn, "bfloat16").astype(np.float64)
    assert (rounded != 1 + drawn).any()


@pytest.mark.parametrize("dtype", FORMATS)
def test_gains_lost_beside_1_are_there_and_are_lost(make_setup, dtype):
    drawn = gains_of(make_setup(dtype, 256))["lost beside 1"]
    assert drawn.all()
    lost = round_to(1 + drawn, dtype).astype(np.float64) == 1
    assert lost.any()
    assert np.abs(drawn).min() >= FORMATS[dtype].smallest_subnormal


def test_declared_gains_do_not_enter(make_setup):
    own = gains_of(make_setup())
    declared = gains_of(make_setup(gain=np.ones(64, dtype=np.float32)))
    for label, drawn in own.items():
        np.testing.assert_array_equal(drawn, declared[label])


def test_all_have_the_same_few_rows(make_setup):
    ((_, cases),) = battery.build(make_setup(rows=16), ["gains"])
    for case in cases:
        assert case.x.shape == (4, 64)
        np.testing.assert_array_equal(case.x, cases[0].x)
