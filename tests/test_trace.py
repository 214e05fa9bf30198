"""The trace of a row that can be worked out by hand, and of sides whose inside cannot be seen."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.errors import CouldNotRun
from rmsaudit.loaders import Failed, Ran
from rmsaudit.loaders.spec import Declared
from rmsaudit.oracle import oracle
from rmsaudit.oracle.steps import nearest, watch_exactly
from rmsaudit.semantics.resolve import resolve
from rmsaudit.trace import RETURNED, Fed, Place, Trace, trace

EPS = 11.0  # of [1, 7]: mean square 25, with eps 36, root 6


def case(x: Any = ((1, 7), (0, 0)), label: str = "") -> Case:
    rows = np.asarray(x, dtype=np.float32)
    gain = np.asarray([3.0, 0.5] * (rows.shape[1] // 2), dtype=np.float32)
    return Case(
        category="ordinary", label=label, x=rows, gain=gain, bias=np.zeros_like(gain), residual=np.zeros_like(rows)
    )


def side(**declared: Any) -> Declared:
    words = {"width": 2, "eps": EPS, **declared}
    return Declared(words, resolve(words), None)


def traced(candidate: Any = None, reference: Any = None, x: Any = ((1, 7), (0, 0)), **at: Any) -> Trace:
    fed = [Fed(reference=case(x), candidate=case(x))]
    return trace(reference or side(), candidate, fed, Place(**{"row": 0, "column": 1, **at}))


def by_name(found: Trace, whose: str = "reference") -> dict[str, float | None]:
    values = {step.name: getattr(step, whose) for step in found.steps}
    return {name: None if value is None else value.value for name, value in values.items()}


def test_a_row_worked_out_by_hand() -> None:
    assert by_name(traced()) == {
        "x": 7.0,
        "squares": 49.0,
        "sum": 50.0,
        "mean square": 25.0,
        "mean square and eps": 36.0,
        "root": 6.0,
        "inverse": float(np.float32(1 / 6)),
        "normalised": float(np.float32(7) * np.float32(1 / 6)),
        "gain": 0.5,
        "output": float(np.float32(7) * np.float32(1 / 6) * np.float32(0.5)),
    }


def test_the_oracle_has_it_without_rounding() -> None:
    exact = by_name(traced(), "oracle")
    assert exact["inverse"] == 1 / 6
    assert exact["normalised"] == 7 / 6
    assert exact["output"] == float(np.float32(7 / 12))


def test_the_first_step_that_departs_is_where_eps_acts() -> None:
    found = traced(side(eps_placement="outside_sqrt", inverse="divide_by_sqrt"))
    assert [step.name for step in found.steps if step.departs] == ["mean square and eps"]
    candidate = by_name(found, "candidate")
    assert candidate["root"] == 5.0
    assert candidate["root and eps"] == 16.0
    assert candidate["inverse"] is None
    assert candidate["output"] == 7 / 32


def test_equal_sides_depart_nowhere() -> None:
    assert not any(step.departs or step.differing for step in traced(side()).steps)


def test_a_dtype_alone_is_no_departure() -> None:
    found = traced(side(compute_dtype="float64"), x=((1, 7), (0, 0)))
    assert [step.name for step in found.steps if step.departs] == ["inverse"]  # 1/6 is the first inexact number
    squares = next(step for step in found.steps if step.name == "squares")
    assert squares.candidate is not None
    assert squares.candidate.dtype == "float64"


@pytest.mark.parametrize(
    ("variable", "step", "rounded"), [("square_dtype", "squares", 66048.0), ("mean_dtype", "mean square", 33024.0)]
)
def test_a_square_and_a_mean_in_bfloat16_show_where_they_are_rounded(variable: str, step: str, rounded: float) -> None:
    """257² = 66049 lies between 66048 and 66560, its mean with 1² between 33024 and 33280; both have 8 bits there."""
    found = traced(side(**{variable: "bfloat16"}), x=((257, 1), (0, 0)), column=0)
    assert [each.name for each in found.steps if each.departs] == [step]
    departing = next(each for each in found.steps if each.departs)
    assert departing.candidate is not None
    assert (departing.candidate.value, departing.candidate.dtype) == (rounded, "bfloat16")


def test_what_is_not_in_the_statistic_counts_nothing() -> None:
    found = traced(side(statistic_width=1))
    assert by_name(found, "candidate")["squares"] == 0.0
    assert by_name(found, "candidate")["mean square"] == 1.0
    assert [step.name for step in found.steps if step.departs] == ["squares"]


def test_the_farthest_element_is_chosen() -> None:
    found = traced(side(eps=12.0), x=((1e4, 7e4), (1, 7), (1e4, 7e4)), row=None, column=None)
    assert found.row == 1  # at 1e4, eps is lost


def test_groups_have_their_own_statistic() -> None:
    words = {"width": 4, "eps": EPS, "groups": 2}
    grouped = Declared(words, resolve(words), None)
    found = traced(grouped, reference=side(width=4), x=((1, 7, 0, 0),), column=3)
    assert by_name(found)["sum"] == 50.0
    assert by_name(found, "candidate")["sum"] == 0.0
    assert next(step.differing for step in found.steps if step.name == "sum") == 2  # only the second group's is another


class Code:
    """A side that only has an output."""

    def __init__(self, answer: Array | None) -> None:
        self.declared = {"width": 2, "eps": EPS}
        self.spec = resolve(self.declared)
        self.gain = None
        self.answer = answer

    def observe(self, case: Case) -> Ran | Failed:  # noqa: ARG002
        return Failed("no device") if self.answer is None else Ran(self.answer)


def test_a_side_that_runs_code_shows_its_output_beside_its_belief() -> None:
    answer = emulate(resolve({"width": 2, "eps": EPS}), case())
    answer[0, 1] = 5.0
    found = traced(Code(answer))
    assert by_name(found, "candidate")["output"] == by_name(found)["output"]
    assert by_name(found, "candidate")[RETURNED] == 5.0
    assert [step.name for step in found.steps if step.departs] == [RETURNED]


def test_a_side_that_fails_says_why() -> None:
    with pytest.raises(CouldNotRun, match="no device"):
        traced(Code(None))


@pytest.mark.parametrize("at", [{"row": 2}, {"column": 2}, {"label": "other"}])
def test_a_place_that_is_not_there_is_refused(at: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"there is no|has no case"):
        traced(**at)


@pytest.mark.parametrize("x", [((0, 0),), ((np.inf, 1),), ((np.nan, 1),)])
def test_without_numbers_the_oracle_still_has_its_output(x: Any) -> None:
    found = traced(reference=side(eps_placement="none"), x=x)
    assert found.steps[-1].oracle is not None
    assert next(step.oracle for step in found.steps if step.name == "inverse") is None


SPECS = (
    {},
    {"center": True},
    {"statistic": "variance"},
    {"eps_placement": "inside_sum"},
    {"eps_placement": "outside_sqrt"},
    {"eps_placement": "floor_rms"},
    {"eps_placement": "floor_norm"},
    {"eps_placement": "floor_sum"},
    {"gain_offset": 1.0, "bias": True, "residual": "add"},
    {"axes": (-2,)},
    {"axes": (-2, -1), "association": "x*(i*g)"},
    {"groups": 3, "statistic_width": 0.5, "post_scale": "sqrt_width"},
    {"prescale": "max_abs", "gain_position": "before_statistic", "input_clamp": 1.5},
    {"statistic_algorithm": "max_scaled", "inverse": "rsqrt"},
    {"statistic_algorithm": "variance_plus_mean_square"},
    {"mean_scaling": "after_root", "eps_placement": "none", "inverse": "divide_by_sqrt"},
)


@pytest.mark.parametrize("words", SPECS)
def test_the_last_exact_step_is_what_the_oracle_proves(words: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    spec = resolve({"width": 12, "eps": 0.5, **words})
    drawn = rng.standard_normal((2, 4, 12)).astype(np.float32)
    vectors = rng.standard_normal((2, 12)).astype(np.float32)
    one = Case(category="c", label="", x=drawn[0], residual=drawn[1], gain=vectors[0], bias=vectors[1])
    seen: dict[str, Array] = {}
    watch_exactly(spec, one, lambda name, value: seen.update({name: value}))
    assert isinstance(seen["output"].flat[0], Fraction)
    answer = oracle(spec, one).values.T if spec.axes == (-2,) else oracle(spec, one).values
    np.testing.assert_array_equal(nearest(seen["output"]).astype(np.float32).reshape(answer.shape), answer)
