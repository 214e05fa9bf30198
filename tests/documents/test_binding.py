"""Nodes to models: every annotation that is understood, and every problem at its own place."""

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rmsaudit.documents.binding import Absent, ReadBy, read_model
from rmsaudit.documents.nodes import Node, Scalar
from rmsaudit.documents.problems import Refused
from rmsaudit.documents.source import parse
from rmsaudit.errors import InputProblem


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Scalars(Strict):
    number: float = 0.5
    count: int = 1
    flag: bool = False
    text: str = ""
    day: date = date(2026, 1, 1)
    word: Literal["near", "far"] = "near"
    anything: Any = None


class Sum(Strict):
    rule: Literal["sum"]
    atol: float = Field(ge=0)


class Ulp(Strict):
    rule: Literal["ulp"]
    max_ulp: int = Field(ge=0)


class When(Strict):
    category: str | None = None


class ByName(Strict):
    name: str


class ByPlace(Strict):
    place: str


class Waiver(Strict):
    owner: str = Field(min_length=1)
    expires: date


class Policy(Strict):
    schema_: Literal["test/policy/1"] = Field(alias="schema")
    rules: tuple[Annotated[Sum | Ulp, Field(discriminator="rule")], ...] = Field((), min_length=1)
    when: When = When()
    waivers: tuple[Waiver, ...] = ()


def read(model: type[BaseModel], text: str) -> Any:
    return read_model(model, parse(text.encode(), "f.yaml"))


def problems(model: type[BaseModel], text: str) -> list[str]:
    with pytest.raises(InputProblem) as caught:
        read(model, text)
    return [str(problem).removeprefix("f.yaml:") for problem in caught.value.problems]


def test_each_field_is_read_as_its_annotation_says() -> None:
    text = "number: 1e-6\ncount: 3\nflag: true\ntext: 1e-6\nday: 2027-03-01\nword: far\nanything: {a: [1, 1e-6, yes]}\n"
    assert read(Scalars, text) == Scalars(
        number=1e-6,
        count=3,
        flag=True,
        text="1e-6",
        day=date(2027, 3, 1),
        word="far",
        anything={"a": [1, 1e-6, "yes"]},
    )


def test_a_whole_number_is_a_number() -> None:
    value = read(Scalars, "number: 3\n").number
    assert (value, type(value)) == (3.0, float)


def test_every_problem_of_a_file_is_reported_at_its_place() -> None:
    text = "number: yes\ncount: 1.5\nflag: 1\nday: soon\nword: fa\ntext:\nnumbr: 1\ncount: 2\n"
    assert problems(Scalars, text) == [
        "1:9: number must be a number, and `yes` is a truth value to YAML 1.1 parsers; write a number such as 1e-6"
        " [not-a-number]",
        "2:8: count must be a whole number, and `1.5` has a fraction or an exponent; write digits alone, such as 128"
        " [not-an-integer]",
        "3:7: flag must be true or false, and `1` is a number; write true or false [not-a-flag]",
        "4:6: day must be a date, and `soon` is text; write a day such as 2027-03-01 [not-a-date]",
        "5:7: word cannot be `fa`; did you mean `far`? one of near, far [unknown-word]",
        "6:6: text must be text, and nothing stands there; write it, or leave the key out [not-text]",
        "7:1: unknown key `numbr`; did you mean `number`? [unknown-key]",
        "8:1: `count` is given twice; first on line 2; keep one of them [duplicate-key]",
    ]


def test_rules_are_told_apart_by_their_word() -> None:
    policy = read(Policy, "schema: test/policy/1\nrules:\n  - {rule: sum, atol: 1e-6}\n  - {rule: ulp, max_ulp: 1}\n")
    assert policy.rules == (Sum(rule="sum", atol=1e-6), Ulp(rule="ulp", max_ulp=1))


def test_problems_of_rules() -> None:
    text = """schema: test/policy/1
rules:
  - {rule: sun, atol: 1}
  - {atol: 1}
  - {rule: ulp, atol: 1}
  - {rule: sum, atol: -1}
  - ulp
when: {category: null}
waivers:
  - {owner: "", expires: 2027-13-01}
  - {owner: me, expires: 2027-03-01}
"""
    assert problems(Policy, text) == [
        "3:12: rule cannot be `sun`; did you mean `sum`? one of sum, ulp [unknown-word]",
        "4:5: rule is missing; add one of sum, ulp [missing-key]",
        "5:5: max_ulp is missing; add it [missing-key]",
        "5:17: unknown key `atol`; remove it, or use one of rule, max_ulp [unknown-key]",
        "6:23: atol must be at least 0, and it is `-1`; write another number [out-of-range]",
        "7:5: rules[4] must be a mapping with the keys atol, max_ulp, rule, and `ulp` stands here; write it out,"
        " or leave the key out [wrong-shape]",
        "10:13: owner is empty; fill it in [too-short]",
        "10:26: expires must be a date, and `2027-13-01` is in no calendar; write a day such as 2027-03-01"
        " [not-a-date]",
    ]


def test_a_document_of_another_type_is_reported_as_that_alone() -> None:
    assert problems(Policy, "schema: test/other/1\nnonsense: 1\n") == [
        "1:9: schema is `test/other/1`, and test/policy/1 is read here; name another file, or write that [other-schema]"
    ]
    assert problems(Policy, "rules: []\n") == [
        "1:1: schema is missing; add `schema: test/policy/1` [missing-key]",
        "1:8: rules is empty; fill it in [too-short]",
    ]


class Unions(Strict):
    limit: float | Literal["none", "all"] = "none"
    count_or_share: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)] | None = None
    source: Annotated[float, Field(gt=0)] | ByName | ByPlace = 1.0
    value: bool | int | float | str | tuple[int, ...] | None = None
    day: date | str | None = None
    absent: str | Absent = None
    part: ByName | Absent = None
    words: Literal["a", "b"] | None = None
    table: dict[str, float] | None = None


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("limit: 2", "limit", 2.0),
        ("limit: all", "limit", "all"),
        ("count_or_share: 4", "count_or_share", 4),
        ("count_or_share: 1.0", "count_or_share", 1.0),
        ("count_or_share: null", "count_or_share", None),
        ("source: {place: here}", "source", ByPlace(place="here")),
        ("value: true", "value", True),
        ("value: 12", "value", 12),
        ("value: 1e-6", "value", 1e-6),
        ("value: '12'", "value", "12"),
        ("value: yes", "value", "yes"),
        ("value: ~", "value", None),
        ("value: [-2, -1]", "value", (-2, -1)),
        ("day: 2027-03-01", "day", date(2027, 3, 1)),
        ("day: soon", "day", "soon"),
        ("absent: here", "absent", "here"),
        ("words: b", "words", "b"),
        ("table: {x: 1, z: .5}", "table", {"x": 1.0, "z": 0.5}),
    ],
)
def test_unions(text: str, name: str, value: Any) -> None:
    found = getattr(read(Unions, text), name)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limit: 017", "1:8: limit must be a number, and `017` is 15 to YAML 1.1"),
        ("limit: nome", "`nome` is text; write a number such as 1e-6, or none or all [not-a-number]"),
        ("count_or_share: 0", "1:17: count_or_share must be at least 1, and it is `0`; write another number"),
        ("count_or_share: 1.5", "1:17: count_or_share must be at most 1, and it is `1.5`; write another number"),
        ("source: -1", "1:9: source must be above 0, and it is `-1`; write another number [out-of-range]"),
        ("source: {plase: here}", "1:10: unknown key `plase`; did you mean `place`? [unknown-key]"),
        ("source: {}", "1:9: source is empty; write one of name, place [missing-key]"),
        ("source: {place: 1, name: 2}", "1:10: unknown key `place`; remove it, or use one of name [unknown-key]"),
        ("source: [1]", "1:9: source must be a number, and stands as a list; write a number such as 1e-6"),
        ("absent: null", "1:9: absent must be text, and `null` stands for no value; write it, or leave"),
        ("part: null", "1:7: part must be a mapping with the keys name, and `null` stands here; write it out"),
        ("part:", "1:6: part must be a mapping with the keys name, and nothing stands here; write it out"),
        ("words: c", "1:8: words cannot be `c`; one of a, b [unknown-word]"),
        ("table: {x: no}", "1:12: `x` must be a number, and `no` is a truth value to YAML 1.1 parsers"),
        ("table: [1]", "1:8: table must be a mapping, and a list stands here; write it out, or leave the key out"),
        ("value: [a]", "1:9: value[0] must be a whole number, and `a` is text; write digits alone"),
    ],
)
def test_problems_of_unions(text: str, said: str) -> None:
    (found,) = problems(Unions, text)
    assert said in found


class Shapes(Strict):
    pairs: tuple[tuple[float, float], ...] = ()
    names: list[str] = []
    inner: dict[str, When] = {}


def test_shapes() -> None:
    assert read(Shapes, "pairs: [[1, .5], [2, 3]]\nnames: [a, 1]\ninner: {x: {category: y}}\n") == Shapes(
        pairs=((1.0, 0.5), (2.0, 3.0)), names=["a", "1"], inner={"x": When(category="y")}
    )
    assert problems(Shapes, "pairs: [[1], 2, [a, 1]]\nnames: {a: 1}\ninner: {x: {categry: y}}\n") == [
        "1:9: pairs[0] must have 2 items, and has 1; write as many [wrong-length]",
        "1:14: pairs[1] must be a list of 2, and `2` stands here; write it out, or leave the key out [wrong-shape]",
        "1:18: pairs[2][0] must be a number, and `a` is text; write a number such as 1e-6 [not-a-number]",
        "2:8: names must be a list, and a mapping stands here; write it out, or leave the key out [wrong-shape]",
        "3:13: unknown key `categry`; did you mean `category`? [unknown-key]",
    ]


def _shout(node: Node) -> str:
    if isinstance(node, Scalar) and node.text.isupper():
        return node.text
    raise Refused("must be loud; write it in capitals", "quiet")


class Validated(Strict):
    loud: Annotated[str, ReadBy(_shout)] = "A"
    low: int = 0
    high: int = 0

    @field_validator("low")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd; write an even number")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> "Validated":
        if self.low > self.high:
            raise ValueError("low is above high; swap them")
        return self


def test_a_field_may_bring_its_own_reader() -> None:
    assert read(Validated, "loud: HO").loud == "HO"
    assert problems(Validated, "loud: ho") == ["1:7: loud must be loud; write it in capitals [quiet]"]


def test_validators_speak_where_they_belong() -> None:
    assert problems(Validated, "low: 3\nhigh: 4") == ["1:6: low: odd; write an even number [value-error]"]
    assert problems(Validated, "# c\nlow: 4\nhigh: 2") == [
        "2:1: the document: low is above high; swap them [value-error]"
    ]


def test_a_check_of_the_whole_waits_until_the_parts_are_readable() -> None:
    assert problems(Validated, "low: 4\nhigh: x") == [
        "2:7: high must be a whole number, and `x` is text; write digits alone, such as 128 [not-an-integer]"
    ]


def test_an_annotation_nobody_can_read_is_our_own_mistake() -> None:
    class Odd(Strict):
        field: set[int] = set()

    with pytest.raises(TypeError, match="no reader for the annotation"):
        read(Odd, "field: [1]")


def test_text_from_a_file_cannot_forge_lines_or_colours() -> None:
    coloured, unknown = problems(Scalars, '"num\\nf.yaml:9:9: forged\\e[31m": 1')
    assert coloured == "1:1: character U+001B cannot stand in a document; remove it [bad-character]"
    assert unknown.startswith(r"1:1: unknown key `num\nf.yaml:9:9: forged\x1b[31m`; remove it")


def test_unknown_keys_by_the_thousand_are_cut_short() -> None:
    text = "".join(f"key{i}: 1\n" for i in range(5000))
    found = problems(Scalars, text)
    assert len(found) == 101
    assert found[-1].endswith("there is more; mend these first [too-many]")
