import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.arrays import word_of
from rmsaudit.battery import Skipped


def only(setup, name):
    (part,) = battery.build(setup, [name])
    return part[1]


def test_sides_of_different_widths_cannot_be_given_one_input(make_setup, make_spec):
    with pytest.raises(ValueError, match="the reference takes width 64 and the candidate 32; no input fits both"):
        battery.Setup(reference=make_spec(width=64), candidate=make_spec(width=32))


def test_no_rows_and_gains_of_another_width_are_refused(make_setup):
    with pytest.raises(ValueError, match="0 rows leave nothing to compare; use 1 or more"):
        make_setup(rows=0)
    with pytest.raises(ValueError, match=r"gains of shape \[63\] do not fit width 64"):
        make_setup(gain=np.ones(63))


def test_declared_gains_are_the_very_array_and_hold_their_own_dtype(make_setup):
    declared = np.linspace(-1, 1, 64, dtype=np.float64)
    setup = make_setup("bfloat16", gain=declared)
    for category, cases in battery.build(setup):
        for case in cases:
            if category.name != "gains" and case.width == 64:
                assert case.gain is declared


def test_operands_that_no_side_reads_are_zeros_that_take_no_memory(make_setup):
    (case,) = only(make_setup(), "ordinary")
    for operand in (case.bias, case.residual):
        assert not operand.any()
        assert set(operand.strides) == {0}
    assert case.residual.shape == case.x.shape
    assert case.bias.shape == case.gain.shape


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_one_side_that_reads_them_is_enough_for_bias_and_residual_to_be_drawn(make_setup, side):
    setup = make_setup(**{side: {"residual": "add", "bias": True}})
    (case,) = only(setup, "ordinary")
    assert np.abs(case.bias).max() <= 1
    assert np.unique(case.bias).size == 64
    # the residual is 8 times as large as x; both are 1024 draws, so the ratio of their rms is within a few per cent
    assert np.std(case.residual) / np.std(case.x) == pytest.approx(8, rel=0.1)


def test_the_digest_says_that_an_unread_operand_is_zeros_however_it_is_stored(make_setup):
    from dataclasses import replace

    (case,) = only(make_setup(), "ordinary")
    stored = replace(case, residual=np.zeros(case.x.shape, dtype=np.float32))
    assert stored.digest() == case.digest()
    negative = replace(case, residual=-stored.residual)
    assert negative.digest() != case.digest()  # −0 is not what was given


def test_each_operand_is_held_in_the_format_common_to_its_own_dtypes(make_setup):
    setup = make_setup(
        reference={"gain_dtype": "bfloat16", "residual": "add", "residual_dtype": "float32", "input_dtype": "bfloat16"},
        candidate={"gain_dtype": "float32", "residual_dtype": "float16", "input_dtype": "float16"},
    )
    (case,) = only(setup, "ordinary")
    assert [word_of(array) for array in (case.x, case.gain, case.residual)] == ["float32", "bfloat16", "float16"]


def test_x_has_its_own_bits_where_the_residual_is_coarser(make_setup):
    coarse = {"residual": "add", "residual_dtype": "bfloat16"}
    (case,) = only(make_setup(reference=coarse, candidate=coarse), "ordinary")
    assert (case.x != case.x.astype(case.residual.dtype)).any()


@pytest.mark.parametrize(
    ("axes", "size", "per_case"),
    [((-1,), 64, 16), ((-2,), 16, 64), ((-2, -1), 1024, 1)],
    ids=["rows", "columns", "all"],
)
def test_a_line_runs_along_the_axes_of_the_statistic(make_setup, axes, size, per_case):
    setup = make_setup(reference={"axes": axes}, candidate={"axes": axes, "eps": 1e-5})
    assert (setup.size, setup.lines_per_case) == (size, per_case)
    along = tuple(axis for axis in axes)
    for case in only(setup, "constant"):
        assert case.x.shape == (16, 64)
        spread_along = np.ptp(case.x, axis=along)
        assert not spread_along.any()  # one value in each line


def test_a_category_gets_as_many_cases_as_its_lines_need(make_setup):
    whole = {"axes": (-2, -1)}
    labels = [case.label for case in only(make_setup(reference=whole, candidate=whole), "near-eps")]
    assert labels == [f"part {n} of 8" for n in range(1, 9)]
    assert len(only(make_setup(rows=1), "near-eps")) == 8
    assert len(only(make_setup(rows=16), "near-eps")) == 1


def test_declared_gains_are_repeated_at_another_width_and_cut_at_a_narrower_one(make_setup):
    declared = np.arange(64, dtype=np.float32)
    setup = make_setup(gain=declared)
    wider, narrower = setup.at_width(100), setup.at_width(31)
    np.testing.assert_array_equal(wider.gain, np.concatenate([declared, declared[:36]]))
    np.testing.assert_array_equal(narrower.gain, declared[:31])


def test_a_width_that_a_side_cannot_take_is_said_with_the_side(make_setup):
    grouped = make_setup(candidate={"groups": 4})
    assert grouped.at_width(33) == "width 33: the candidate's 4 groups do not divide it"
    partial = make_setup(reference={"statistic_width": 40})
    assert partial.at_width(31).startswith("width 31: the reference's statistic_width 40 is more than")


def test_a_category_for_sides_that_run_code_is_skipped_for_declared_ones(make_setup, monkeypatch):
    class Rows:
        """rows: a stand-in for a category about behaviour."""

        VERSION, REVEALS, SIDES = 1, ("width",), "running"

        @staticmethod
        def build(setup):
            yield from only(setup, "zero")

    monkeypatch.setattr(battery, "names", lambda: ("zero", "rows"))
    real = battery._member
    monkeypatch.setattr(battery, "_member", lambda name: Rows if name == "rows" else real(name))
    assert list(battery.build(make_setup(), ["rows"])) == [
        Skipped("rows", "it shows something only where both sides run code")
    ]
    ((category, cases),) = battery.build(make_setup(running=True), ["rows"])
    assert category.sides == "running"
    assert len(cases) == 1
