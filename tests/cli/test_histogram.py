"""Histograms in a line of text."""

import click
import numpy as np
import pytest

from rmsaudit.activations.distribution import Distribution
from rmsaudit.activations.survey import survey
from rmsaudit.cli._histogram import MOST_COLUMNS, Histogram, power
from rmsaudit.semantics.resolve import resolve


def distribution(octaves: dict[int, int], placement: str = "floor_rms") -> Distribution:
    """So many rows in the middle of each octave of q, counted from the limit. A floor of 1 has its limit at 0.9801."""
    spec = resolve({"width": 1, "eps": 1.0, "eps_placement": placement})
    q = np.repeat([1.5 * 2.0**octave for octave in octaves], list(octaves.values())) * 0.9801
    return survey([np.sqrt(q)[:, None]], spec).distribution


def test_bars_are_shares_of_the_fullest_column() -> None:
    found = distribution({-2: 1, -1: 50, 0: 100, 2: 25})
    picture = Histogram.over([found])
    assert click.unstyle(picture.draw(found)) == "▁▄│█ ▂"
    assert (picture.first, picture.last, picture.step) == (-2, 2, 1)


def test_one_row_of_many_leaves_a_trace() -> None:
    found = distribution({-1: 1, 3: 100000})
    assert click.unstyle(Histogram.over([found]).draw(found)) == "▁│   █"


def test_several_octaves_share_a_column_where_there_are_too_many() -> None:
    found = distribution({-40: 3, 0: 3, 20: 6})
    picture = Histogram.over([found])
    drawn = click.unstyle(picture.draw(found))
    assert picture.step == 3
    assert len(drawn) <= MOST_COLUMNS + 1
    assert [drawn.index("▄"), drawn.index("│"), drawn.index("█")] == [0, 14, 21]  # -40 // 3 = -14, 20 // 3 = 6


def test_the_limit_is_there_where_no_row_is_near_it() -> None:
    found = distribution({4: 1})
    assert click.unstyle(Histogram.over([found]).draw(found)) == " │    █"


def test_the_axis_has_its_ends_where_they_fit() -> None:
    assert Histogram(-4, 5, 1, 49.25).axis == "3.1 │ 3.2e3"
    assert Histogram(-1, 0, 1, 49.25).axis == " │ "  # neither 25 nor 98 fits


def test_what_lies_below_is_red() -> None:
    below, above = distribution({-1: 1}), distribution({1: 1})
    picture = Histogram.over([below, above])
    assert "\x1b[31m" in picture.draw(below)
    assert "\x1b" not in picture.draw(above)


def test_without_an_eps_there_is_nothing_to_draw() -> None:
    found = distribution({0: 1}, placement="none")
    picture = Histogram.over([found])
    assert (picture.axis, picture.draw(found)) == ("", "")


@pytest.mark.parametrize(
    ("value", "says"), [(0, "0"), (0.17, "0.17"), (96.2, "96"), (430, "430"), (1732, "1.7e3"), (2e-7, "2.0e-7")]
)
def test_power(value: float, says: str) -> None:
    assert power(value) == says
