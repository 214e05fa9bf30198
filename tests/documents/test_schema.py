"""JSON Schemas: what our reader takes, an editor takes; and what is plainly wrong, an editor sees too."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rmsaudit.documents import preset, schema
from rmsaudit.documents.implementation import implementation_model
from rmsaudit.documents.preset import preset_model
from rmsaudit.documents.record import to_text
from rmsaudit.documents.scalars import plain_value
from rmsaudit.documents.source import parse
from rmsaudit.semantics import variables

FIXTURES = Path(__file__).parents[2] / "fixtures"
IMPLEMENTATIONS = sorted(
    [*(FIXTURES / "implementations" / "ok").glob("*.yaml"), *FIXTURES.glob("quickstart/[rc]*.yaml")]
)
PRESETS = sorted((Path(preset.__file__).parents[1] / "presets").glob("*.yaml"))
IMPLEMENTATION = Draft202012Validator(schema.schema_of(implementation_model()))
PRESET = Draft202012Validator(schema.schema_of(preset_model()))


def value_of(text: str | bytes) -> Any:
    """YAML 1.2 values, as an editor has them; PyYAML's would be YAML 1.1's."""
    return plain_value(parse(text.encode() if isinstance(text, str) else text, "f.yaml").root)


@pytest.mark.parametrize("path", IMPLEMENTATIONS, ids=lambda path: path.stem)
def test_implementations_that_are_read_satisfy_the_schema(path: Path) -> None:
    assert [error.message for error in IMPLEMENTATION.iter_errors(value_of(path.read_bytes()))] == []


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_presets_satisfy_the_schema(path: Path) -> None:
    assert [error.message for error in PRESET.iter_errors(value_of(path.read_bytes()))] == []


@pytest.mark.parametrize(
    "norm",
    [
        "{epsilon: 1e-6}",
        "{eps: 0}",
        "{eps: -1e-6}",
        "{eps: '1e-6'}",
        "{eps: yes}",
        "{eps: null}",
        "{eps: {confg: x}}",
        "{eps: {config: x, gguf: x}}",
        "{width: 0}",
        "{width: 1.5}",
        "{width: true}",
        "{compute_dtype: bf61}",
        "{cast_point: never}",
        "{axes: [1]}",
        "{accumulate_order: lanes:0}",
        "{accumulate_order: lanes}",
        "{gain_applied: yes}",
        "{statistic_width: 1.5}",
        "[]",
    ],
)
def test_what_is_wrong_is_seen_by_an_editor_too(norm: str) -> None:
    good = "schema: rmsaudit/implementation/1\nname: x\nkind: spec\nnorm: "
    assert IMPLEMENTATION.is_valid(value_of(good + "{}"))
    assert not IMPLEMENTATION.is_valid(value_of(good + norm))


def test_the_schemas_are_valid_and_describe_every_variable() -> None:
    for name, text in schema.schemas().items():
        document = json.loads(text)
        Draft202012Validator.check_schema(document)
        assert document["title"]
        assert document["description"]
        assert document["additionalProperties"] is False
        assert '"default": null' not in text, name
    norm = schema.schema_of(implementation_model())["$defs"]["NormOfImplementation"]["properties"]
    assert {name: entry["description"] for name, entry in norm.items()} == {
        v.name: v.means for v in variables().values()
    }
    assert all(norm[v.name].get("default", "none") in (v.default, list(v.default) if v.kind == "axes" else v.default)
               for v in variables().values() if v.default is not None)  # fmt: skip


TOLERANCE = Draft202012Validator(json.loads(schema.schemas()["tolerance.schema.json"]))
RECORD = Draft202012Validator(json.loads(schema.schemas()["record.schema.json"]))
UNSEEN = {
    "below-resolution",
    "waiver-date",
    "tie",
    "tie-of-two-keys",
    "unknown-category",
    "unknown-dtype",
    "waiver-variable",
}
"""Refusals that a schema cannot know: rows against each other, words of the program, the format of a date."""


@pytest.mark.parametrize("path", sorted((FIXTURES / "tolerances" / "ok").glob("*.yaml")), ids=lambda path: path.stem)
def test_tolerances_that_are_read_satisfy_the_schema(path: Path) -> None:
    assert [error.message for error in TOLERANCE.iter_errors(value_of(path.read_bytes()))] == []


@pytest.mark.parametrize("path", sorted((FIXTURES / "tolerances" / "err").glob("*.yaml")), ids=lambda path: path.stem)
def test_tolerances_that_are_refused_fail_the_schema_where_it_can_know(path: Path) -> None:
    assert TOLERANCE.is_valid(value_of(path.read_bytes())) == (path.stem in UNSEEN)


def test_a_written_record_satisfies_the_schema(record: Any, category: Any, rung: Any) -> None:
    written = to_text(record({"near-eps": category(max_ulp=5), "zero": category()}, ladder=(rung(),)))
    assert [error.message for error in RECORD.iter_errors(value_of(written))] == []
    assert not RECORD.is_valid(value_of(written.replace("outcome: not_judged", "outcome: fine")))
