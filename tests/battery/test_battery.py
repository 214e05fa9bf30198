"""What every category owes."""

import subprocess
import sys
from itertools import product
from types import GeneratorType

import numpy as np
import pytest

from rmsaudit import battery, categories
from rmsaudit.arrays import bits, round_to
from rmsaudit.battery import Category, Skipped
from rmsaudit.formats import FORMATS
from rmsaudit.semantics import variables

NAMES = battery.names()
DECLARED_IN_DESIGN = (
    "zero", "tiny", "near-eps", "ordinary", "constant", "large", "edge", "mixed-scale", "spike", "offset", "blocks",
    "tail", "exact-sum", "sign", "scale", "nonfinite", "gains",
)  # fmt: skip


def built(setup, names=None):
    """Name to cases, without what was skipped."""
    return {part[0].name: part[1] for part in battery.build(setup, names) if not isinstance(part, Skipped)}


def skipped(setup, names=None):
    return {part.name: part.reason for part in battery.build(setup, names) if isinstance(part, Skipped)}


def same_bytes(first, second):
    return [case.digest() for case in first] == [case.digest() for case in second]


def test_names_are_those_of_the_design_in_its_order():
    assert NAMES == DECLARED_IN_DESIGN
    assert set(categories.READING_ORDER) == set(NAMES)  # a name there without a file, or a file without a place, shows


def test_a_file_without_a_place_in_the_reading_order_comes_last(monkeypatch):
    monkeypatch.setattr(categories, "READING_ORDER", ("zero", "tiny"))
    battery.names.cache_clear()
    try:
        assert battery.names()[:2] == ("zero", "tiny")
        assert list(battery.names()[2:]) == sorted(set(DECLARED_IN_DESIGN) - {"zero", "tiny"})
    finally:
        battery.names.cache_clear()


def test_listing_the_names_imports_no_category():
    code = (
        "import sys; from rmsaudit import battery; battery.names();"
        " print(sorted(m for m in sys.modules if m.startswith('rmsaudit.battery.') and '._' not in m))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_a_category_describes_itself(name):
    category = battery.describe(name)
    assert isinstance(category, Category)
    assert category.name == name
    assert 20 < len(category.summary) < 120
    assert category.summary.endswith(".")
    assert not category.summary.startswith(f"{name}:")
    assert category.version >= 1
    assert category.sides == "any"
    assert category.reveals
    assert set(category.reveals) <= set(variables())
    assert len(set(category.reveals)) == len(category.reveals)
    member = battery._member(name)
    assert member.__doc__.startswith(f"{name}: ")
    assert member.build.__doc__


def test_an_unknown_name_is_answered_with_the_nearest_before_anything_is_built(make_setup):
    with pytest.raises(ValueError, match="no category 'near_eps'; the nearest is 'near-eps'"):
        battery.build(make_setup(), ["zero", "near_eps"])
    with pytest.raises(ValueError, match="no category 'setup'"):
        battery.describe("setup")


def test_categories_are_built_one_at_a_time(make_setup, monkeypatch):
    asked = []
    real = battery._build

    def watched(category, setup):
        asked.append(category.name)
        return real(category, setup)

    monkeypatch.setattr(battery, "_build", watched)
    parts = battery.build(make_setup())
    assert isinstance(parts, GeneratorType)
    assert asked == []
    next(parts)
    assert asked == ["zero"]


def test_names_are_built_in_reading_order_whatever_order_they_are_asked_in(make_setup):
    assert list(built(make_setup(), ["gains", "zero", "spike", "zero"])) == ["zero", "spike", "gains"]


@pytest.mark.parametrize("name", NAMES)
def test_narrowing_and_building_again_change_no_byte(make_setup, name):
    setup = make_setup("bfloat16", reference={"residual": "add", "bias": True})
    whole = built(setup)
    assert same_bytes(
        built(make_setup("bfloat16", reference={"residual": "add", "bias": True}), [name])[name], whole[name]
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name != "zero"])
def test_another_seed_gives_other_numbers(make_setup, name):
    assert not same_bytes(built(make_setup(seed=0), [name])[name], built(make_setup(seed=1), [name])[name])


@pytest.mark.parametrize(("first", "second"), list(product(FORMATS, repeat=2)))
def test_every_operand_is_representable_in_the_dtypes_of_both_sides(make_setup, make_spec, first, second):
    adds = {"residual": "add", "bias": True}
    setup = battery.Setup(reference=make_spec(first, 24, **adds), candidate=make_spec(second, 24, **adds), rows=3)
    for name, cases in built(setup).items():
        for case in cases:
            for operand in (case.x, case.gain, case.bias, case.residual):
                wide = operand.astype(np.float64)
                for word in (first, second):
                    there = round_to(operand, word)
                    np.testing.assert_array_equal(there.astype(np.float64), wide, err_msg=f"{name} {case.label}")
                assert name == "nonfinite" or np.isfinite(wide).all(), (name, case.label)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (1, 7), (2, 1), (5, 64), (33, 3)])
def test_any_rows_and_widths_work(make_setup, dtype, rows, width):
    setup = make_setup(dtype, width, rows=rows)
    cases_by_name = built(setup)
    missing = set(NAMES) - set(cases_by_name)
    assert missing <= {"blocks"} if width == 1 else not missing
    for name, cases in cases_by_name.items():
        for case in cases:
            assert case.category == name
            assert case.x.shape == case.residual.shape
            assert case.gain.shape == case.bias.shape == (case.width,)
            assert case.x.shape[0] <= rows
            if name != "tail":
                assert case.width == width
        labels = [case.label for case in cases]
        assert len(set(labels)) == len(labels), name


@pytest.mark.parametrize("axes", [(-2,), (-2, -1)])
@pytest.mark.parametrize("rows", [1, 6])
def test_other_axes_work(make_setup, axes, rows):
    over = {"axes": axes, "residual": "add"}
    setup = make_setup("float16", 10, reference=over, candidate={**over, "eps": 1e-4}, rows=rows)
    cases_by_name = built(setup)
    assert set(NAMES) - set(cases_by_name) <= {"blocks"}
    for name, cases in cases_by_name.items():
        for case in cases:
            if name not in ("tail", "gains"):
                assert case.x.shape == (rows, 10)
            assert case.x.flags.c_contiguous


def test_skips_have_a_reason(make_setup):
    assert skipped(make_setup(width=1), ["blocks"]) == {"blocks": "a row of one element has no parts"}
    assert skipped(make_setup()) == {}


def test_no_two_lines_repeat_but_those_that_should(make_setup):
    """A category whose rows were all alike would pass for one row."""
    for name, cases in built(make_setup(width=64)).items():
        rows = np.concatenate(
            [bits(case.x) for case in cases if case.width == 64 and case.label in ("", "width 64")]
            or [bits(cases[0].x)]
        )
        distinct = len(np.unique(rows, axis=0))
        assert distinct == (3 if name == "zero" else 4 if name == "gains" else 16), name
