"""The record as text: read back it is the same, written again it is the same text, and nothing is lost on the way."""

import pytest
import yaml

from rmsaudit.documents.record import (
    float_text,
    read_record,
    refuse_to_overwrite_a_decision,
    to_text,
    write_record,
)
from rmsaudit.errors import InputProblem
from rmsaudit.record import Review


@pytest.fixture
def written(record, category, rung):
    results = {
        "near-eps": category(max_ulp=5, because="a: colon, and 'quotes'", margin=5.0, points=((1e-300, 5e-324),)),
        "zero": category(elements=0, points=()),
    }
    return record(results, ladder=(rung(),))


def test_write_read_write_is_identical(written, tmp_path):
    path = tmp_path / "record.yaml"
    write_record(path, written)
    back = read_record(path)
    assert back == written
    assert to_text(back) == path.read_text()


def test_the_text_reads_from_the_top(written):
    keys = [line.partition(":")[0] for line in to_text(written).splitlines()[1:] if line[0] not in " -#"]
    assert keys[:5] == ["schema", "tool", "outcome", "summary", "scope"]
    assert keys[-1] == "review"


def test_another_yaml_reader_gets_the_same_numbers(written):
    """PyYAML follows YAML 1.1, where 1e-06 without a dot would be text."""
    read = yaml.safe_load(to_text(written))
    assert read["results"]["near-eps"]["points"] == [[1e-300, 5e-324]]
    assert read["results"]["near-eps"]["because"] == "a: colon, and 'quotes'"
    assert read["ladder"][0]["to"] == 1e-6


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-6, "1.0e-06"),
        (1.5e-7, "1.5e-07"),
        (0.1, "0.1"),
        (1.0, "1.0"),
        (1e22, "1.0e+22"),
        (-2.5e300, "-2.5e+300"),
        (5e-324, "5.0e-324"),
        (0.0, "0.0"),
    ],
)
def test_floats_are_shortest_and_read_as_floats_by_every_yaml(value, text):
    assert float_text(value) == text
    assert float(text) == value
    assert yaml.safe_load(text) == value


@pytest.mark.parametrize(
    "word", ["1e-6", "1.0e6", "12e03", "0o17", "0x1f", "yes", "null", "2026-11-29", "1:30", "", "~"]
)
def test_words_that_look_like_something_else_stay_words(written, tmp_path, word):
    path = tmp_path / "record.yaml"
    write_record(path, written.model_copy(update={"summary": word}))
    assert read_record(path).summary == word
    assert yaml.safe_load(path.read_text())["summary"] == word


def test_a_reviewed_record_is_not_overwritten_and_its_twin_is(written, tmp_path):
    path = tmp_path / "record.yaml"
    write_record(path, written)
    refuse_to_overwrite_a_decision(path)
    write_record(path, written.model_copy(update={"review": Review(decision="accept for canary", reviewer="r")}))
    with pytest.raises(InputProblem, match="accept for canary"):
        refuse_to_overwrite_a_decision(path)


@pytest.mark.parametrize("content", ["", "hello", "schema: other/1\n", "a: [", "\x00"])
def test_what_is_no_record_is_not_overwritten(content, tmp_path):
    path = tmp_path / "notes.yaml"
    path.write_text(content)
    with pytest.raises(InputProblem, match="no record"):
        refuse_to_overwrite_a_decision(path)
    assert path.read_text() == content


def test_a_failed_write_leaves_the_old_file(written, tmp_path):
    path = tmp_path / "missing" / "record.yaml"
    with pytest.raises(InputProblem, match="nothing was changed"):
        write_record(path, written)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_beside_the_file(written, tmp_path):
    write_record(tmp_path / "record.yaml", written)
    assert [p.name for p in tmp_path.iterdir()] == ["record.yaml"]


def test_a_person_fills_the_review_by_hand(written, tmp_path):
    path = tmp_path / "record.yaml"
    write_record(path, written)
    blank = "review: {decision: null, reviewer: null, date: null, notes: null}"
    assert blank in path.read_text()
    path.write_text(path.read_text().replace(blank, "review: {decision: accepted, reviewer: A. B., date: 2026-11-29}"))
    assert read_record(path).review.decision == "accepted"
