"""Each question, put to declared norms that differ in the one thing that it asks about."""

import numpy as np
import pytest

from rmsaudit.inversion import NotThisFamily, Structure
from rmsaudit.inversion.box import Box
from rmsaudit.inversion.questions import at_width, read_structure
from rmsaudit.inversion.scope import read_scope


def structure(run, dtype="float32", *, width=64, gain_dtype=None):
    found = read_structure(Box(run, width, dtype, gain_dtype or dtype))
    assert isinstance(found, Structure), found
    return found


def refused(run, dtype="float32", width=64):
    found = read_structure(Box(run, width, dtype, dtype))
    assert isinstance(found, NotThisFamily), found
    return found.says


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
@pytest.mark.parametrize("center", [False, True])
def test_groups_and_centring(box, dtype, groups, center):
    found = structure(box(dtype, groups=groups, center=center), dtype)
    assert found.groups == groups
    assert all(found.counted)
    assert found.centred == ("yes" if center else "no")


def test_groups_of_a_few_elements_confine_no_factor(box):
    assert "groups of 4 elements" in refused(box(groups=16))


@pytest.mark.parametrize("center", [False, True])
def test_odd_groups(box, center):
    """Neighbours that cancel fall into two groups there, so the groups have means."""
    assert structure(box(width=100, groups=4, center=center), width=100).groups == 4


def test_a_mean_that_only_the_statistic_leaves_out(box):
    assert structure(box(statistic="variance")).centred == "statistic only"


@pytest.mark.parametrize(("width", "counts"), [(64, 63), (64, 16), (64, 1), (1000, 997), (1000, 333), (1000, 999)])
def test_elements_that_do_not_count_to_the_column(box, width, counts):
    """Above 256 columns the blocks are of several; the boundary is found within one all the same."""
    run = box(width=width, statistic_width=counts)
    found = read_scope(Box(run, width, "float32", "float32"))
    assert (found.groups, found.counted) == (1, tuple(column < counts for column in range(width)))


def test_elements_left_out_of_every_group(box):
    found = read_scope(Box(box(groups=2, statistic_width=10), 64, "bfloat16", "bfloat16"))
    assert (found.groups, sum(found.counted)) == (2, 10)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("offset", [0.0, 1.0, 0.5])
def test_what_is_added_to_the_gain(box, dtype, offset):
    assert structure(box(dtype, gain_offset=offset), dtype).gain_offset == offset


@pytest.mark.parametrize("rounded", ["float32", "float16", "bfloat16"])
def test_where_gain_and_offset_are_rounded(box, rounded):
    found = structure(box("bfloat16", gain_offset=1.0, gain_offset_dtype=rounded), "bfloat16")
    assert found.gain_offset_dtypes == (rounded,)


def test_a_gain_that_is_ignored(box):
    found = structure(box(gain_applied=False))
    assert not found.gain_applied
    assert found.associations == ()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("cast_point", ["before_gain", "after_gain"])
def test_where_the_normalised_row_is_rounded(box, dtype, cast_point):
    found = structure(box(dtype, cast_point=cast_point), dtype)
    assert found.cast_point == cast_point
    assert found.product_is_wide == (cast_point == "after_gain")


def test_a_rounding_that_a_float32_output_still_shows(box):
    """A float32 gain makes the output float32; the grid of the normalised row is bfloat16 all the same."""
    run = box("bfloat16", gain_dtype="float32", cast_point="before_gain", output_dtype="promote")
    found = structure(run, "bfloat16", gain_dtype="float32")
    assert (found.cast_point, found.grid, found.output_dtype) == ("before_gain", "bfloat16", "float32")


@pytest.mark.parametrize("association", ["(x*i)*g", "(x*g)*i", "x*(i*g)"])
@pytest.mark.parametrize("inverse", ["rsqrt", "divide_by_sqrt"])
def test_the_order_of_the_products_in_float32(box, association, inverse):
    found = structure(box(association=association, inverse=inverse))
    assert found.associations == (association,)
    assert found.cast_point == "not observable"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_product_with_the_gain_that_is_rounded_to_16_bits_first(box, dtype):
    found = structure(box(dtype, association="(x*g)*i", compute_dtype="float32", gain_product_dtype=dtype), dtype)
    assert "(x*g)*i" in found.associations
    run = box(dtype, association="(x*g)*i", compute_dtype=dtype, accumulate_dtype="float32", statistic_dtype="float32")
    assert structure(run, dtype).associations == ("(x*g)*i",)


def test_a_row_of_zeros(box):
    assert structure(box(eps_placement="none")).zero_row == "NaN"
    assert structure(box()).zero_row == "zeros"


def test_another_width_keeps_what_was_read_of_the_gain(box):
    run = box("bfloat16", groups=4, gain_offset=1.0)
    found = at_width(structure(run, "bfloat16"), Box(run, 128, "bfloat16", "bfloat16"))
    assert (found.groups, len(found.counted), found.gain_offset) == (4, 32, 1.0)


# --- what is no answer -----------------------------------------------------------------------------------------------


def test_two_calls_that_differ(box):
    run, count = box(), iter(range(100))
    assert "two calls" in refused(lambda x, gain, eps: run(x, gain, eps) * np.float32(1 + next(count)))


@pytest.mark.parametrize("axes", [(-2,), (-2, -1)])
def test_rows_that_depend_on_each_other(box, axes):
    assert "scaling row 0 alone changes row" in refused(box(axes=axes))


def test_a_bias(box):
    run = box()
    assert "a row of zeros gives 0.5 in column 3" in refused(
        lambda x, gain, eps: run(x, gain, eps) + np.float32(0.5) * (np.arange(x.shape[-1]) == 3).astype(np.float32)
    )


def test_an_elementwise_function():
    assert "nothing is normalised" in refused(lambda x, gain, _: np.tanh(x) * gain)


def test_columns_that_form_no_groups(box):
    """A running norm: each column is normalised with those before it."""

    def running(x, gain, eps):
        squares = np.cumsum(x.astype(np.float64) ** 2, axis=-1) / np.arange(1, x.shape[-1] + 1)
        return (x / np.sqrt(squares + 1e-6) * gain).astype(np.float32)

    assert "no equal parts" in refused(running)


def test_a_gain_of_another_column(box):
    run = box()
    assert "does not act as a factor of its own column" in refused(lambda x, gain, eps: run(x, np.roll(gain, 1), eps))


def test_a_gain_with_another_offset_in_every_column(box):
    run = box()
    shares = np.linspace(0.5, 1.5, 64, dtype=np.float32)
    assert "gains of 0 give neither zeros" in refused(lambda x, gain, eps: run(x, gain + (1 - gain) * shares, eps))


def test_outputs_of_another_shape_cannot_be_judged(box):
    from rmsaudit.inversion import CannotAsk

    run = box()
    with pytest.raises(CannotAsk, match=r"it answers \[8, 64\] with \[8, 32\]"):
        read_structure(Box(lambda x, gain, eps: run(x, gain, eps)[:, :32], 64, "float32", "float32"))


def test_inputs_are_copies(box):
    """A box that works in place must not spoil what its output is compared with."""
    run = box()

    def in_place(x, gain, eps):
        y = run(x, gain, eps)
        x[:] = 0
        return y

    assert structure(in_place).groups == 1
