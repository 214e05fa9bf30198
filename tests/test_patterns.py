"""What is said of a difference that nothing re-creates: each sentence where it is true, and not where it is not."""

from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import Array, round_to
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.evidence import Evidence, Sample
from rmsaudit.patterns import Ask, Head, describe, heads
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import fitted, resolve

WIDTH = 64


def a_case(sizes: list[float], word: str = "float32", *, uniform: bool = False, width: int = WIDTH) -> Case:
    rng = np.random.default_rng(1)
    rows = np.sign(rng.standard_normal((len(sizes), width))) if uniform else rng.standard_normal((len(sizes), width))
    x = round_to(rows * np.array(sizes)[:, None], word)
    gain = round_to(1 + rng.random(width), word)
    return Case(category="ordinary", label="", x=x, gain=gain, bias=gain * 0, residual=x * 0)


def spec(word: str = "float32", **words: Any) -> NormSpec:
    return resolve({"width": WIDTH, "input_dtype": word, **words})


def evidence(case: Case, reference: Array, candidate: Array) -> Evidence:
    rows = len(case.x)
    sample = Sample(
        case=case, reference=reference, candidate=candidate, category=("ordinary",) * rows, number=tuple(range(rows))
    )
    return Evidence((sample,), (), (sample,))


def told(case: Case, candidate: Array, ask: Ask | None = None) -> str:
    return " ".join(describe(evidence(case, emulate(spec(), case), candidate), ask))


# --- by size ----------------------------------------------------------------------------------------------------------

SIZES = [2.0**exponent for exponent in range(-14, 14, 2)]


def test_only_small_rows() -> None:
    case = a_case(SIZES)
    said = told(case, emulate(spec(eps=1e-5), case))
    assert "Only small rows differ: up to max|x| = " in said
    assert "look at eps first" in said


def overflowing(case: Case) -> Array:
    """As float32, but a row in which a square leaves float16 is lost: 255.9² is the last that does not."""
    output = emulate(spec(), case)
    output[(case.x * case.x > 65504).any(axis=-1)] = 0
    return output


def test_only_large_rows_and_where_they_begin() -> None:
    case = a_case(SIZES, uniform=True)
    calls = 0

    def ask(more: Case) -> tuple[Array, Array]:
        nonlocal calls
        calls += 1
        return emulate(spec(), more), overflowing(more)

    said = told(case, overflowing(case), ask=ask)
    assert "Only large rows differ: from max|x| = 256 on, not up to 64." in said
    assert f"on and not at 255.31 (bisected, {calls} calls): squares in float16 end at 255.9." in said
    assert calls < 12


def test_a_sum_that_leaves_float16() -> None:
    """64 squares of one size: from √(65504 / 64) = 31.99 on."""
    case = a_case(SIZES, uniform=True)
    output = emulate(spec(), case)
    output[(case.x * case.x).sum(axis=-1) > 65504] = 0
    assert "sums of squares in float16 end at 31.99" in told(case, output)


@pytest.mark.parametrize("ask", [None, lambda _: None])
def test_without_an_answer_the_rows_at_hand_have_to_do(ask: Ask | None) -> None:
    case = a_case(SIZES, uniform=True)
    said = told(case, overflowing(case), ask=ask)
    assert "bisected" not in said
    assert "Between the two, squares in float16 end at 255.9" in said


def test_a_row_that_differs_at_the_lower_amplitude_too_is_not_bisected() -> None:
    """It may be the row's shape, not its size."""
    case = a_case(SIZES, uniform=True)

    def ask(more: Case) -> tuple[Array, Array]:
        return emulate(spec(), more), emulate(spec(), more) * 2

    assert "bisected" not in told(case, overflowing(case), ask=ask)


def test_an_order_is_no_size() -> None:
    """The twin of all of these: every row differs, and by what an order does."""
    case = a_case(SIZES)
    said = told(case, emulate(spec(accumulate_order="sequential"), case))
    assert said
    assert "rows differ" not in said


def test_one_exception_among_several() -> None:
    case = a_case(SIZES)
    candidate = emulate(spec(), case)
    candidate[-4:] *= np.float32(1.5)
    candidate[2] *= np.float32(1.5)
    assert "Nearly only large rows differ: from max|x| = " in told(case, candidate)
    candidate[4] *= np.float32(1.5)
    assert "large rows differ" not in told(case, candidate)


# --- by place ---------------------------------------------------------------------------------------------------------


def changed(rows: Any, columns: Any) -> str:
    case = a_case([1.0] * 12)
    candidate = emulate(spec(), case)
    candidate[rows, columns] = 0
    return told(case, candidate)


def test_particular_columns() -> None:
    said = changed(slice(None), slice(60, 64))
    assert "At width 64 only columns 60, 61, 62, 63 differ (4 of 64): gain, broadcasting or the tail." in said
    assert "columns or single elements are" in said


def test_particular_rows() -> None:
    assert "Only odd rows differ" in changed(slice(1, None, 2), slice(None))
    assert "Only even rows differ" in changed(slice(0, None, 2), slice(None))
    assert "Only rows from 3 on differ" in changed(slice(3, None), slice(None))
    assert "rows" not in changed([1, 2, 7], slice(None)).replace("row is", "").replace("Rows are", "")


def test_one_factor_a_row() -> None:
    case = a_case([1.0] * 8)
    candidate = emulate(spec(), case) * np.float32(1.25)
    said = told(case, candidate)
    assert "Each row is off by one common factor, from 1.25 to 1.25: a statistic, not single elements." in said
    assert "The candidate is larger in 1 of what differs." in said


def test_other_widths_are_told_apart() -> None:
    case = a_case([1.0] * 4, width=33)
    reference = emulate(fitted(spec(), 33), case)
    candidate = reference.copy()
    candidate[1:, 0] = 0
    said = " ".join(describe(evidence(case, reference, candidate)))
    assert "At width 33 only columns 0 differ (1 of 33)" in said
    assert "Only rows from 1 on differ" in said
    assert "common factor, from" not in said


def test_nothing_differs() -> None:
    case = a_case([1.0])
    assert told(case, emulate(spec(), case)) == ""


# --- a head -----------------------------------------------------------------------------------------------------------


def of_head(case: Case, first: int, over: int) -> Array:
    """float64 inside: the statistic is of the first elements only."""
    x = case.x.astype(np.float64)
    mean_square = (x[:, :first] ** 2).sum(axis=-1, keepdims=True) / over
    return round_to(x / np.sqrt(mean_square + 1e-6) * case.gain.astype(np.float64), "float32")


@pytest.mark.parametrize(("first", "over"), [(32, 33), (32, 32), (8, 33), (30, 33)])
def test_the_elements_that_are_counted_are_read_from_the_factors(first: int, over: int) -> None:
    case = a_case([1.0, 2.0, 30.0, 1.0], width=33)
    assert heads(evidence(case, emulate(fitted(spec(), 33), case), of_head(case, first, over))) == {
        33: Head(first, over)
    }


def test_every_width_has_to_agree() -> None:
    parts = []
    for width, first in ((33, 32), (48, 32), (64, 64)):
        case = a_case([1.0] * 4, width=width)
        parts.append(evidence(case, emulate(fitted(spec(), width), case), of_head(case, first, width)).cases[0])
    assert heads(Evidence((), (), tuple(parts))) == {33: Head(32, 33), 48: Head(32, 48)}  # at 64 nothing differs
    case = a_case([1.0] * 4, width=40)
    reference = emulate(fitted(spec(), 40), case)
    off = evidence(case, reference, reference * np.float32(1.01)).cases[0]
    assert heads(Evidence((), (), (*parts, off))) == {}


@pytest.mark.parametrize("factor", [1.01, [[1.1], [0.9], [1.2], [1.0]], np.linspace(1, 1.1, 33)])
def test_other_factors_are_no_heads(factor: Any) -> None:
    case = a_case([1.0] * 4, width=33)
    reference = emulate(fitted(spec(), 33), case)
    assert heads(evidence(case, reference, (reference * np.asarray(factor)).astype(np.float32))) == {}
