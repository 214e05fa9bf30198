"""The folder of causes: every file is a cause, every variable belongs to one, every page is fit to be read."""

import pytest

from rmsaudit import causes
from rmsaudit.causes import GAIN_VALUES
from rmsaudit.semantics import variables

NOT_A_CAUSE = {"width"}  # sides of different widths are not compared


@pytest.mark.parametrize("name", causes.names())
def test_a_cause_has_a_summary_a_page_and_a_next_step(name):
    cause = causes.describe(name)
    assert cause.summary.endswith(".")
    assert "\n" not in cause.summary
    assert "How it shows:" in cause.page
    assert "What to check:" in cause.page
    assert cause.next_step.endswith((".", "?"))


@pytest.mark.parametrize("name", causes.names())
def test_no_cause_judges_or_asks_for_a_larger_eps(name):
    cause = causes.describe(name)
    text = f"{cause.summary} {cause.page} {cause.next_step}".lower()
    assert "wrong" not in text
    assert "raise eps" not in text
    assert "increase eps" not in text


def test_every_variable_belongs_to_one_cause():
    listed = [variable for name in causes.names() for variable in causes.describe(name).variables]
    assert len(listed) == len(set(listed))
    assert set(listed) | NOT_A_CAUSE == {*variables(), GAIN_VALUES}


def test_an_unknown_cause_names_the_nearest():
    with pytest.raises(ValueError, match="eps-placement"):
        causes.describe("eps-placment")
