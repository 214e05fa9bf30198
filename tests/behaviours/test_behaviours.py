"""Each behaviour: the side that keeps it, and its twins that do not. What is said is what was planted."""

import numpy as np
import pytest

from rmsaudit import behaviours
from rmsaudit.behaviours import describe, look_at, names
from rmsaudit.behaviours._asking import apart


def test_the_honest_side_keeps_every_behaviour(side):
    seen = dict(look_at(side("honest")))
    assert list(seen) == list(names())
    assert {name: one.verdict for name, one in seen.items()} == {
        **dict.fromkeys(names(), "kept"),
        "threads": "not_observable",  # numpy has no number of threads; tests/frameworks has a side with one
    }


@pytest.mark.parametrize(
    ("behaviour", "twin", "says"),
    [
        ("repeat", "differs_from_call_to_call", "2 of 2 repeated calls differ from the first: 1 of 16 rows"),
        ("repeat", "leaves_the_last_column_of_its_buffer", "1 of 2 repeated calls differ from the first: 16 of 16"),
        ("untouched", "normalises_in_place", "x: other bytes after a call than before; the output lies in the memory"),
        ("rows", "sums_in_blocks_by_load", "row 0 alone and among 256 rows: it differs by up to"),
        ("rows", "spills_into_the_next_row", "row 256 alone and among 257 rows: it differs by up to"),
        (
            "rows",
            "raises_on_many_rows",
            "fails for 256 rows, 257 rows (sides.py:raises_on_many_rows raised RuntimeError",
        ),
        ("rows", "raises_on_many_rows", ") and answers for 255 rows, row 0 alone, row 256 alone"),
        ("rows", "dies_on_a_row_alone", "fails for row 0 alone, row 256 alone ("),
        ("views", "reads_memory_as_if_contiguous", "strided: 17 of 17 rows differ, and 1088 values are NaN"),
        (
            "views",
            "does_not_survive_strides",
            "transposed, strided, broadcast: fatal (sides.py:does_not_survive_strides died",
        ),
        ("nonfinite-rows", "spreads_nan", "NaN in row 5 changes 15 of the 15 others, first row 0"),
        ("nonfinite-rows", "spills_into_the_next_row", "NaN in row 5 changes 1 of the 15 others, first row 6"),
        ("eps-used", "ignores_eps", "eps has no effect: the same bits under 0.001, 1e-06, 1e-08, 1e-12"),
        ("eps-used", "clamps_eps", "eps below 1e-06 has no effect (it is clamped)"),
        ("eps-used", "loses_eps_in_float16", "eps below 1e-08 has no effect (it becomes 0)"),
        ("eps-used", "squares_eps", "a row grows by a factor 1; as believed, by"),
        ("eps-used", "adds_eps_outside", "as believed, by"),
    ],
)
def test_a_twin_that_breaks_it_is_told(seen, behaviour, twin, says):
    one = seen(behaviour, twin)
    assert one.verdict == "broken"
    assert says in one.says


@pytest.mark.parametrize(
    ("behaviour", "twin", "verdict", "says"),
    [
        ("untouched", "returns_its_input", "kept", "the output lies in the memory of x"),
        ("views", "sums_along_memory", "kept", "no more than another order of the sum gives"),
        ("views", "wants_contiguous", "not_observable", "transposed, strided, broadcast: refused ("),
        ("nonfinite-rows", "swallows_nan", "kept", "NaN makes its own row all zero"),
        ("eps-used", "adds_one_to_the_gain", "kept", "moves as believed"),
        ("eps-used", "takes_no_eps", "not_observable", "takes_no_eps(x, gain=gain) is not given eps"),
        ("output-dtype", "takes_one_dtype", "kept", "float32 × bfloat16 is refused"),
        ("output-dtype", "promotes", "kept", "bfloat16 × float32 → float32 (believed: bfloat16)"),
    ],
)
def test_what_is_no_fault_is_said_and_not_blamed(seen, behaviour, twin, verdict, says):
    one = seen(behaviour, twin)
    assert one.verdict == verdict
    assert says in one.says


class TestEps:
    """The belief says what the output has to do under another eps; nothing else does."""

    def test_a_belief_without_eps_and_a_side_without_one_agree(self, seen):
        one = seen("eps-used", "ignores_eps", eps_placement="none")
        assert one.verdict == "kept"
        assert "no effect" in one.says

    def test_a_belief_without_eps_is_broken_by_a_side_that_has_one(self, seen):
        one = seen("eps-used", "honest", eps_placement="none")
        assert one.verdict == "broken"
        assert "as believed, by 1" in one.says

    def test_a_lower_bound_is_kept_where_it_is_believed(self, seen):
        assert seen("eps-used", "clamps_eps", eps_min=1e-6).verdict == "kept"

    def test_another_placement_is_kept_where_it_is_believed(self, seen):
        assert seen("eps-used", "adds_eps_outside", eps_placement="outside_sqrt").verdict == "kept"

    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    def test_sixteen_bits_are_enough_to_see_it(self, seen, dtype):
        assert seen("eps-used", "honest", input_dtype=dtype).verdict == "kept"
        assert seen("eps-used", "ignores_eps", input_dtype=dtype).verdict == "broken"


class TestOutputDtype:
    def test_the_declared_input_under_another_gain_is_judged(self, seen):
        one = seen("output-dtype", "promotes", input_dtype="bfloat16")
        assert one.verdict == "broken"
        assert one.says.startswith("bfloat16 × bfloat16 → bfloat16, bfloat16 × float32 → float32 (believed: bfloat16)")

    def test_promotion_is_kept_where_it_is_believed(self, seen):
        believed = {"input_dtype": "bfloat16", "output_dtype": "operands"}
        words = {**believed, "cast_point": "before_gain", "normalized_dtype": "input"}
        assert seen("output-dtype", "promotes", **words).verdict == "kept"

    def test_the_declared_pair_itself(self, seen):
        one = seen("output-dtype", "returns_float32", input_dtype="bfloat16")
        assert one.verdict == "broken"
        assert one.says.startswith("bfloat16 × bfloat16 → float32 (believed: bfloat16)")


class TestViews:
    """Which order a sum has is no matter of the layout's, whatever is believed of dtypes."""

    @pytest.mark.parametrize("words", [{}, {"compute_dtype": "float64"}, {"accumulate_order": "exact"}])
    def test_a_sum_in_float32_is_granted(self, seen, words):
        assert seen("views", "sums_along_memory", **words).verdict == "kept"

    def test_an_output_in_another_dtype_is_not_the_layouts_fault(self, seen):
        assert seen("views", "promotes", input_dtype="bfloat16", gain_dtype="float32").verdict == "kept"


def test_rows_that_share_a_statistic_are_not_asked_to_be_independent(seen):
    assert seen("rows", "honest", axes=(-2,)).verdict == "not_observable"
    assert seen("nonfinite-rows", "honest", axes=(-2,)).verdict == "not_observable"


def test_nothing_follows_from_a_side_that_does_not_repeat_itself(side):
    seen = dict(look_at(side("differs_from_call_to_call")))
    assert [name for name, one in seen.items() if one.verdict == "broken"] == ["repeat"]
    assert seen["rows"].verdict == "not_observable"
    assert "two equal calls differ already" in seen["rows"].says
    assert seen["untouched"].verdict == "kept"


def test_a_side_that_cannot_be_called_is_called_once(side):
    seen = dict(look_at(side("raises")))
    assert {one.verdict for one in seen.values()} == {"not_observable"}
    assert {one.says for one in seen.values()} == {seen["repeat"].says}
    assert "no device" in seen["repeat"].says


def test_every_behaviour_says_what_it_is_and_what_to_do():
    described = [describe(name) for name in names()]
    assert all(one.keeps and one.claim and one.next_step.endswith(".") for one in described)
    assert len({one.cause for one in described}) == len(described)
    assert names() == behaviours.READING_ORDER


def test_the_inputs_are_the_same_every_time(side):
    one, other = (behaviours.Inputs(spec=side("honest").spec, gain=None).ordinary("rows", 3) for _ in range(2))
    assert one.digest() == other.digest()


def test_apart_tells_bits_numbers_and_dtypes():
    one = np.array([[1.0, 2.0], [0.0, np.nan]], dtype=np.float32)
    assert apart(one, one.copy()) is None
    assert apart(one, np.nextafter(one, 9)) == "2 of 2 rows differ by up to 1 ulp of float32"
    assert apart(one[1:], -one[1:]) == "it differs in the sign of zeros"
    lost = "it differs, and 1 values are NaN or infinite in one only"
    assert apart(one[:1], np.array([[1.0, np.inf]], dtype=np.float32)) == lost
    assert apart(one, one.astype(np.float16)) == "one comes out as float32, the other as float16"
