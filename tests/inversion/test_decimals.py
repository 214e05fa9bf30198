import pytest

from rmsaudit.inversion.decimals import Written, digits_known, simplest, written


@pytest.mark.parametrize(
    ("lo", "hi", "value", "digits"),
    [
        (9.99e-7, 1.01e-6, 1e-6, 1),
        (0.9999999e-5, 1.0000001e-5, 1e-5, 1),
        (1.49e-6, 1.51e-6, 1.5e-6, 2),
        (3.2e-6, 8e-6, 5e-6, 1),  # of 4 to 8 the one that people write
        (2.9e-6, 3.4e-6, 3e-6, 1),
        (1.192089e-7, 1.192094e-7, 1.19209e-7, 6),
        (0.0999, 0.1001, 0.1, 1),
        (1.0, 1.0, 1.0, 1),
    ],
)
def test_the_decimal_of_fewest_digits(lo, hi, value, digits):
    assert simplest(lo, hi) == Written(value, digits)


@pytest.mark.parametrize(("lo", "hi"), [(0.0, 1e-6), (1e-6, float("inf")), (2.0, 1.0)])
def test_no_number_without_both_ends(lo, hi):
    assert simplest(lo, hi) is None
    assert written(lo, hi) is None


def test_the_exact_ends_count():
    """1e-6 as a float64 is below one millionth, so an interval that ends on it holds no such decimal."""
    assert simplest(9.9999e-7, 1e-6) != Written(1e-6, 1)


def near(value, relative=1e-7):
    return value * (1 - relative), value * (1 + relative)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (2.0**-23, "1.19209e-07, machine epsilon of float32"),
        (9.98377799987793e-07, "1e-06 rounded to bfloat16"),  # by hand: 1e-6 = 1.048576 · 2^-20; 134/128 of that
        (1.0132789611816406e-06, "1e-06 rounded to float16"),  # 17 · 2^-24
        (3.4567891e-6, "3.456789e-06"),
    ],
)
def test_a_longer_story_where_it_saves_digits(value, says):
    assert str(written(*near(value), narrow=("float16", "bfloat16"))) == says


def test_the_dtype_that_is_named_first_is_told_of():
    """168 · 2^-24 is what both formats make of 1e-5."""
    value = 168 * 2.0**-24
    assert written(*near(value), narrow=("float16", "bfloat16")).dtype == "float16"
    assert written(*near(value), narrow=("bfloat16", "float16")).dtype == "bfloat16"


def test_no_story_where_none_is_asked_for_or_none_is_shorter():
    value = 9.98377799987793e-07
    assert written(*near(value)).dtype is None
    assert written(*near(1.5e-6), narrow=("float16",)) == Written(1.5e-6, 2)


def test_a_floor_may_be_the_root_of_what_was_written():
    found = written(*near(3e-6**0.5), squared=True)
    assert str(found) == "0.00173205, the root of 3e-06"
    assert written(*near(3e-6**0.5)).story is None


def test_digits():
    assert digits_known(1 - 1e-5, 1 + 1e-5) == pytest.approx(5)
    assert digits_known(0.0, 1.0) == 0
    assert digits_known(1.0, 1.0) == float("inf")
