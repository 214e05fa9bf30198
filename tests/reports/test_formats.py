"""Every format on one record: text that ends in a newline, colour only where asked for, nothing lost or invented."""

import json
from importlib import import_module

import pytest

from rmsaudit.record import Difference, NonFinite, Range
from rmsaudit.reports import FORMATS, Style
from rmsaudit.reports.text import number, render


@pytest.fixture
def rejected(record, category, rung):
    over = category(
        verdict="rejected", because="5 ulp where 1 are allowed", max_ulp=5, q_over_eps=Range(min=1e-3, max=2)
    )
    lost = category(
        verdict="rejected",
        because="2 outputs are NaN or infinite on one side only, or differently",
        nonfinite=NonFinite(reference=0, candidate=2, mismatched=2),
    )
    made = record({"near-eps": over, "edge": lost, "zero": category(max_ulp=0, differing_share=0.0)}, ladder=(rung(),))
    return made.model_copy(
        update={
            "outcome": "rejected",
            "summary": "Two of three.",
            "differing": {"eps": Difference(reference=1e-5, candidate=1e-6)},
        }
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_text_without_colour(rejected, name):
    text = import_module(f"rmsaudit.reports.{name}").render(rejected, Style())
    assert text.endswith("\n")
    assert "\x1b" not in text
    assert "near-eps" in text


def test_json_and_yaml_hold_the_same_outcome(rejected):
    assert json.loads(import_module("rmsaudit.reports.json").render(rejected, Style()))["outcome"] == "rejected"


def test_text_says_the_verdict_first_and_its_limits_last(rejected):
    lines = render(rejected, Style()).splitlines()
    assert lines[0].startswith("REJECTED")
    assert lines[1] == "Two of three."


def test_text_keeps_to_its_width(rejected):
    assert max(map(len, render(rejected, Style(width=100)).splitlines())) <= 100


def test_colour_where_it_is_asked_for(rejected):
    assert "\x1b[" in render(rejected, Style(color=True))


def test_reasons_that_no_number_shows_are_spelled_out(rejected):
    assert "edge: 2 outputs are NaN or infinite" in render(rejected, Style())


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1e-5, "1e-05"), (True, "true"), ((-2, -1), "[-2, -1]"), (None, "none"), ("inside_sqrt", "inside_sqrt"), (3, "3")],
)
def test_values_are_shown_as_they_would_be_written(value, shown):
    assert number(value) == shown
