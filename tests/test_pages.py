"""Pages about causes: every cause that a finding can name has one, and every page says where it was seen."""

import re
from pathlib import Path

import pytest

from rmsaudit import behaviours, causes, pages, rounding
from rmsaudit.semantics import variables

FILES = sorted(path.stem for path in Path(pages.__file__).parent.glob("*.md"))


def test_every_cause_has_a_page_that_begins_with_its_sentence() -> None:
    for name in pages.names():
        summary = pages.summary(name)
        assert summary.endswith("."), name
        assert pages.page(name).startswith(summary), name


def test_what_findings_name_is_known() -> None:
    named = {causes.of_variable(variable) for variable in (*variables(), causes.GAIN_VALUES)}
    named |= {behaviours.describe(name).cause for name in behaviours.names()}
    named |= {"belief-broken", "declared-otherwise", rounding.CAUSE}
    assert named - {"width"} <= set(pages.names())  # sides of two widths are refused


@pytest.mark.parametrize("name", FILES)
def test_links_are_to_issues_and_pull_requests_and_each_says_something(name: str) -> None:
    text = pages.page(name)
    links = re.findall(r"^- (\S+)\n  \S", text, re.MULTILINE)
    assert len(links) == text.count("https://")
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", link) for link in links)
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("eps", "eps-value"),
        ("compute_dtype", "statistic-dtype"),
        ("compute-dtype", "statistic-dtype"),
        ("nothing", None),
    ],
)
def test_variables_are_understood(word: str, cause: str | None) -> None:
    assert pages.of_word(word) == cause


def test_an_unknown_page_is_an_error() -> None:
    with pytest.raises(KeyError):
        pages.summary("nothing")
