"""Whether a spec is the candidate: what other orders of the sum may do, and no more than that."""

import numpy as np
import pytest

from rmsaudit.arrays import round_to
from rmsaudit.case import Case
from rmsaudit.evidence import Sample
from rmsaudit.matching import Emulated, Meeting, contradicted, met
from rmsaudit.semantics.resolve import resolve

WIDTH = 256


def sample(spec, candidate_order="pairwise", x=None, rows=8, seed=0):
    """Ordinary rows; the candidate is the same spec in another order."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((rows, WIDTH)) if x is None else x
    gain = round_to(1 + draw.standard_normal(WIDTH) / 8, spec.gain_dtype)
    case = Case(
        category="ordinary", label="", x=round_to(x, spec.input_dtype), gain=gain, bias=np.zeros_like(gain),
        residual=np.zeros_like(round_to(x, spec.input_dtype)),
    )  # fmt: skip
    shape = Sample(
        case=case, reference=case.x, candidate=case.x, category=("ordinary",) * len(x), number=tuple(range(len(x)))
    )
    reference, candidate = (Emulated(spec).summed(order).on(shape) for order in ("pairwise", candidate_order))
    return Sample(case=case, reference=reference, candidate=candidate, category=shape.category, number=shape.number)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("order", ["sequential", "lanes:5", "blocks:7", "lanes:64"])
def test_another_order_is_explainable_by_rounding(dtype, order):
    spec = resolve({"width": WIDTH, "input_dtype": dtype})
    given = sample(spec, order)
    assert met(Emulated(spec), [given]).word in ("bit-equal", "explainable by rounding")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_factor_that_no_order_makes_is_not(dtype):
    spec = resolve({"width": WIDTH, "input_dtype": dtype})
    far = resolve({"width": WIDTH, "input_dtype": dtype, "post_scale": 1 + 2.0**-10})
    meeting = met(Emulated(far), [sample(spec)])
    assert meeting.word is None
    assert meeting.match().left_in == ("ordinary",)


def test_a_running_sum_that_absorbs_small_terms_is_put_down_to_order():
    spec = resolve({"width": WIDTH})
    x = np.full((4, WIDTH), 2.0**-5)  # squares of a quarter of an ulp of the sum each
    x[:, -100] = 255.875
    given = sample(spec, x=x)
    first = sample(spec, "sequential", x=np.concatenate([x[:, -100:], x[:, :-100]], axis=1))  # the large one first
    apart = Sample(
        case=given.case,
        reference=given.reference,
        candidate=given.reference * np.float32(1 - 2.0**-20),  # half of what is absorbed where the large one is first
        category=given.category,
        number=given.number,
    )
    assert met(Emulated(spec), [first]).word == "explainable by rounding"
    assert met(Emulated(spec), [apart]).word == "explainable by rounding"
    wide = np.random.default_rng(1).standard_normal((4, WIDTH))  # the twin: nothing is absorbed here
    plain = sample(spec, x=wide)
    off = Sample(
        case=plain.case,
        reference=plain.reference,
        candidate=plain.reference * np.float32(1 - 2.0**-16),
        category=plain.category,
        number=plain.number,
    )
    assert met(Emulated(spec), [off]).word is None


def test_rows_that_contradict_a_spec_are_handed_back():
    spec = resolve({"width": WIDTH, "input_dtype": "bfloat16"})
    given = sample(spec)
    candidate = given.candidate.copy()
    candidate[5] = candidate[5] * round_to(np.asarray(2.0), "bfloat16")
    changed = Sample(
        case=given.case, reference=given.reference, candidate=candidate, category=given.category, number=given.number
    )
    contrary = contradicted(Meeting(Emulated(spec)), [given, changed])
    assert contrary is not None
    assert contrary.number[0] == 5
    assert contradicted(Meeting(Emulated(spec)), [given]) is None


def test_on_rows_whose_sums_are_exact_nothing_is_put_down_to_order():
    spec = resolve({"width": WIDTH})
    draw = np.random.default_rng(0)
    x = draw.integers(-8, 8, (6, WIDTH)).astype(np.float64)
    given = sample(spec, x=x)
    exact = Sample(
        case=given.case,
        reference=given.reference,
        candidate=np.nextafter(given.reference, np.float32(np.inf)),
        category=("exact-sum",) * 6,
        number=given.number,
    )
    assert met(Emulated(spec), [exact]).word is None
    elsewhere = Sample(
        case=exact.case,
        reference=exact.reference,
        candidate=exact.candidate,
        category=("ordinary",) * 6,
        number=exact.number,
    )
    assert met(Emulated(spec), [elsewhere]).word == "explainable by rounding"
