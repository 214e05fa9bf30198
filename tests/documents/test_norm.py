"""The `norm:` section: one key per variable, typed as the variable says."""

from dataclasses import fields
from typing import Any, get_args

import pytest

from rmsaudit.documents.binding import read_model
from rmsaudit.documents.eps import FromConfig
from rmsaudit.documents.norm import ABOVE_ZERO, EXAMPLES, norm_section, preset_section
from rmsaudit.documents.source import parse
from rmsaudit.errors import InputProblem
from rmsaudit.formats import ALIASES, FORMATS
from rmsaudit.semantics import NormSpec, variables


def read(text: str) -> dict[str, Any]:
    return read_model(norm_section(), parse(text.encode(), "f.yaml")).declared()


def problem(text: str) -> str:
    with pytest.raises(InputProblem) as caught:
        read(text)
    return str(caught.value)


@pytest.mark.parametrize("section", [norm_section, preset_section])
def test_the_keys_are_the_variables(section: Any) -> None:
    assert list(section().model_fields) == list(variables())
    assert ABOVE_ZERO | EXAMPLES.keys() <= variables().keys()
    assert [f.name for f in fields(NormSpec) if f.name not in variables()] == []


@pytest.mark.parametrize("name", [v.name for v in variables().values() if v.words])
def test_every_word_of_every_variable_is_read(name: str) -> None:
    for word in variables()[name].words:
        assert read(f"{name}: {word}") == {name: word}


@pytest.mark.parametrize("name", [v.name for v in variables().values() if v.default is not None])
def test_every_default_can_be_written_down(name: str) -> None:
    default = variables()[name].default
    written = {"flag": str(default).lower(), "axes": "[-1]"}.get(variables()[name].kind, default)
    assert read(f"{name}: {written}") == {name: default}


@pytest.mark.parametrize("name", [v.name for v in variables().values() if v.kind == "dtype"])
def test_dtypes_are_read_by_every_name_and_kept_by_one(name: str) -> None:
    for dtype in FORMATS:
        assert read(f"{name}: {dtype}") == {name: dtype}
    for alias, dtype in ALIASES.items():
        assert read(f"{name}: {alias}") == {name: dtype}
    assert "is no dtype" in problem(f"{name}: int8")
    assert "stands as a list" in problem(f"{name}: [float32]")


@pytest.mark.parametrize("name", [v.name for v in variables().values() if v.kind == "number"])
def test_numbers_are_refused_by_name(name: str) -> None:
    for text in ("yes", "017", "1:30", ".nan", ".inf", "'1'", "null", "1_000", "0x10", "2026-08-22", "", "[1]"):
        column = len(name) + (3 if text else 2)  # behind the blank, or where the colon ends
        assert problem(f"{name}: {text}").startswith(f"f.yaml:1:{column}: {name} must be a number")


@pytest.mark.parametrize("name", sorted(ABOVE_ZERO))
@pytest.mark.parametrize("text", ["0", "-0.0", "-1e-6"])
def test_what_must_be_above_zero(name: str, text: str) -> None:
    assert f"{name} must be above 0, and it is `{text}`" in problem(f"{name}: {text}")


def test_a_share_and_a_count_are_told_apart_by_how_they_are_written() -> None:
    assert [type(read(f"statistic_width: {text}")["statistic_width"]) for text in ("1", "1.0", "0.25", "all")] == [
        int, float, float, str,
    ]  # fmt: skip
    kept_apart = [f.name for f in fields(NormSpec) if {int, float} <= {*get_args(f.type)}]
    assert kept_apart == ["statistic_width"]  # the only number whose spec keeps int and float apart
    assert "must be at least 1" in problem("statistic_width: 0")
    assert "must be at most 1" in problem("statistic_width: 1.5")


@pytest.mark.parametrize(
    ("text", "axes"), [("[-1]", (-1,)), ("[-2]", (-2,)), ("[-2, -1]", (-2, -1)), ("[-1, -2]", (-2, -1))]
)
def test_axes(text: str, axes: tuple[int, ...]) -> None:
    assert read(f"axes: {text}") == {"axes": axes}


@pytest.mark.parametrize("text", ["[1]", "[]", "[-1, -1]", "-1", "[-1, -2, -3]", "{a: -1}"])
def test_no_axes(text: str) -> None:
    assert "axes must be [-1] (each row), [-2] (each column) or [-2, -1] (all rows together)" in problem(
        f"axes: {text}"
    )


@pytest.mark.parametrize("order", ["pairwise", "sequential", "torch_cpu", "exact", "lanes:1", "lanes:32", "blocks:128"])
def test_orders(order: str) -> None:
    assert read(f"accumulate_order: {order}") == {"accumulate_order": order}


@pytest.mark.parametrize(
    "order",
    [
        "lanes",
        "lanes:",
        "lanes:0",
        "lanes:-1",
        "lanes:08",
        "lanes:1.5",
        "blocks:x",
        "pairwise:2",
        "lanes: 8",
        "[exact]",
    ],
)
def test_no_orders(order: str) -> None:
    problem(f"accumulate_order: {order}")


def test_eps_may_be_read_from_elsewhere_but_not_be_null() -> None:
    assert read("eps: {config: ./config.json}") == {"eps": FromConfig(config="./config.json")}
    assert problem("eps: null") == (
        "f.yaml:1:6: eps must be a number, and `null` stands for no value; write the number, or name a preset whose"
        " eps is null, such as torch-rms-norm [not-a-number]"
    )
    assert read_model(preset_section(), parse(b"eps: null", "f.yaml")).declared() == {"eps": None}
    with pytest.raises(InputProblem):
        read_model(preset_section(), parse(b"eps: {config: ./config.json}", "f.yaml"))
