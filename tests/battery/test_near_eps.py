"""Mean squares are worked out here from the input, and knees by hand, not through `semantics.eps.knee`."""

import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.battery import Skipped

WIDTH = 64
KNEES = {  # √(ms + e), √((Σ + e)/n), √ms + e, max(√ms, e), max(√Σ, e), max(Σ, e²): where the two are equal
    "inside_sqrt": lambda eps: eps,
    "inside_sum": lambda eps: eps / WIDTH,
    "outside_sqrt": lambda eps: eps**2,
    "floor_rms": lambda eps: eps**2,
    "floor_norm": lambda eps: eps**2 / WIDTH,
    "floor_sum": lambda eps: eps**2 / WIDTH,
}


def mean_squares(setup, axis=-1):
    ((_, cases),) = battery.build(setup, ["near-eps"])
    return np.concatenate([np.mean(case.x.astype(np.float64) ** 2, axis=axis).ravel() for case in cases])


def covers(ratios, most=2**12):
    """From 2^-11 or less to 2^11 or more, with a row within a factor 4 of the knee; a power of two of x is 4 here."""
    inside = np.abs(np.log2(ratios))
    return ratios.min() <= 2**-11 and ratios.max() >= most / 2 and inside.min() <= 2 and inside.max() <= 14


@pytest.mark.parametrize("placement", KNEES)
@pytest.mark.parametrize("eps", [1e-5, 1e-6, 1.5625e-7, 3e-3])
def test_rows_cover_the_knee_of_every_placement(make_setup, placement, eps):
    same = {"eps": eps, "eps_placement": placement}
    ratios = mean_squares(make_setup(reference=same, candidate=same)) / KNEES[placement](eps)
    assert covers(ratios)


def test_ordinary_rows_do_not(make_setup):
    """The twin: what `covers` asks is not true of any rows."""
    ((_, (case,)),) = battery.build(make_setup(), ["ordinary"])
    assert not covers(np.mean(case.x.astype(np.float64) ** 2, axis=-1) / 1e-6)


def test_half_of_the_rows_are_for_each_side_where_their_knees_differ(make_setup):
    setup = make_setup(reference={"eps": 1e-5}, candidate={"eps": 1e-6, "eps_placement": "outside_sqrt"})
    found = mean_squares(setup)
    assert covers(found[:8] / 1e-5)
    assert covers(found[8:] / 1e-12)


def test_a_sum_of_squares_has_its_knee_at_eps_over_the_size(make_setup):
    same = {"eps": 1e-6, "statistic": "sum_square"}
    assert covers(mean_squares(make_setup(reference=same, candidate=same)) * 64 / 1e-6)


def test_the_size_is_that_of_the_group_or_of_the_part_that_enters(make_setup):
    grouped = {"eps": 1e-6, "eps_placement": "inside_sum", "groups": 4}
    assert covers(mean_squares(make_setup(reference=grouped, candidate=grouped)) * 16 / 1e-6)
    partial = {"eps": 1e-6, "eps_placement": "inside_sum", "statistic_width": 16}
    assert covers(mean_squares(make_setup(reference=partial, candidate=partial)) * 16 / 1e-6)


@pytest.mark.parametrize(("axes", "axis"), [((-2,), 0), ((-2, -1), None)])
def test_columns_and_whole_inputs_cover_it_too(make_setup, axes, axis):
    same = {"axes": axes}
    assert covers(mean_squares(make_setup(reference=same, candidate=same), axis=axis) / 1e-6)


def test_one_row_at_a_time_covers_it_in_several_cases(make_setup):
    assert covers(mean_squares(make_setup(rows=1, width=1, candidate={})) / 1e-6)


def test_the_eps_of_one_side_is_enough(make_setup):
    setup = make_setup(reference={"eps_placement": "none"}, candidate={"eps": 1e-4})
    assert covers(mean_squares(setup) / 1e-4)


@pytest.mark.parametrize(
    "side", [{"eps_placement": "none"}, {"prescale": "max_abs"}], ids=["no eps", "eps relative to the row"]
)
def test_without_an_eps_to_come_near_to_it_is_skipped(make_setup, side):
    setup = make_setup(reference=side, candidate=side)
    assert list(battery.build(setup, ["near-eps"])) == [
        Skipped("near-eps", "neither side has an eps that the scale of a row can come near to")
    ]


def test_float16_keeps_the_rows_that_it_can_hold(make_setup):
    same = {"eps": 1e-12}
    ratios = mean_squares(make_setup("float16", reference=same, candidate=same)) / 1e-12  # rms 1e-6 is a subnormal
    assert ratios.min() < 1
    assert ratios.max() >= 2**11
    assert (ratios > 0).all()


def test_an_eps_below_every_input_is_skipped_and_said_to_be(make_setup):
    same = {"eps": 1e-12, "eps_placement": "outside_sqrt"}
    (part,) = battery.build(make_setup("float16", reference=same, candidate=same), ["near-eps"])
    reason = "eps 1e-12 (outside_sqrt) acts on values around 2^-40; the input has 2^-24 to 2^15"
    assert part == Skipped("near-eps", f"the reference's {reason}; the candidate's {reason}")


def test_where_only_one_side_is_out_of_reach_its_part_is_said_to_be_missing(make_setup):
    setup = make_setup("float16", candidate={"eps": 1e-12, "eps_placement": "outside_sqrt"})
    (category, _), missing = battery.build(setup, ["near-eps"])
    assert category.name == missing.name == "near-eps"
    assert missing.reason.startswith("the candidate's eps 1e-12 (outside_sqrt) acts on values around 2^-40;")
