import numpy as np
import pytest

from rmsaudit.battery import common_format
from rmsaudit.battery._draw import Draw
from rmsaudit.battery._gains import distinct_gains
from rmsaudit.formats import FORMATS


def gains(width, word, key="gains"):
    fmt = common_format(word, word)
    return distinct_gains(width, fmt, Draw(key, fmt)).astype(np.float64)


@pytest.mark.parametrize("word", FORMATS)
@pytest.mark.parametrize("width", [1, 7, 512, 5000])
def test_gains_lie_within_a_quarter_and_two_on_both_sides_of_zero(word, width):
    drawn = gains(width, word)
    assert drawn.shape == (width,)
    assert np.abs(drawn).min() >= 0.25
    assert np.abs(drawn).max() < 2
    if width > 8:
        assert {-1.0, 1.0} == set(np.sign(drawn))


@pytest.mark.parametrize(("word", "enough_for"), [("bfloat16", 768), ("float16", 6144), ("float32", 20000)])
def test_no_two_gains_are_alike_where_the_format_has_enough_values(word, enough_for):
    assert np.unique(gains(enough_for, word)).size == enough_for


def test_where_it_has_not_they_are_used_equally_often():
    _, counts = np.unique(gains(4096, "bfloat16"), return_counts=True)
    assert counts.size == 768  # 2 signs · 3 binades · 128 mantissas
    assert counts.max() - counts.min() <= 1


def test_float64_gains_have_bits_that_float32_has_not():
    drawn = gains(256, "float64")
    assert (drawn != drawn.astype(np.float32)).mean() > 0.9


def test_columns_are_shuffled():
    drawn = np.abs(gains(512, "float32"))
    assert abs(np.corrcoef(drawn, np.arange(512))[0, 1]) < 0.2  # a standard error is 0.044
