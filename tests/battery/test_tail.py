import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.battery import Skipped


def tail(setup):
    return list(battery.build(setup, ["tail"]))


def test_there_is_a_case_for_each_width(make_setup):
    ((_, cases),) = tail(make_setup(width=64))
    assert [case.label for case in cases] == [f"width {width}" for width in (64, 1, 31, 33, 513)]
    assert [case.width for case in cases] == [64, 1, 31, 33, 513]


def test_a_declared_width_that_is_one_of_them_comes_once(make_setup):
    ((_, cases),) = tail(make_setup(width=33))
    assert [case.width for case in cases] == [33, 1, 31, 513]


@pytest.mark.parametrize("width", [4096, 31])
def test_the_last_one_to_four_columns_hold_the_energy(make_setup, width):
    ((_, cases),) = tail(make_setup(width=width))
    for case in cases:
        squares = case.x.astype(np.float64) ** 2
        share = squares[:, -4:].sum(axis=1) / squares.sum(axis=1)
        assert share.min() > 0.98
    loud = (squares[:, -5:] > 30**2).sum(axis=1)
    assert loud.tolist() == [1, 2, 3, 4] * 4


@pytest.mark.parametrize("width", [1, 2, 3])
def test_rows_shorter_than_the_tail_are_loud_altogether_or_at_the_end(make_setup, width):
    ((_, (case, *_)),) = tail(make_setup(width=width))
    assert (np.abs(case.x[:, -1]) >= 64).all()


def test_widths_that_a_side_cannot_take_are_said_to_be_missing(make_setup):
    (_, cases), missing = tail(make_setup(candidate={"groups": 4}))
    assert [case.width for case in cases] == [64]
    says = "; ".join(f"width {width}: the candidate's 4 groups do not divide it" for width in (1, 31, 33, 513))
    assert missing == Skipped("tail", says)


def test_declared_gains_are_used_cyclically(make_setup):
    declared = np.arange(64, dtype=np.float32)
    ((_, cases),) = tail(make_setup(gain=declared))
    for case in cases:
        np.testing.assert_array_equal(case.gain, np.arange(case.width) % 64)
