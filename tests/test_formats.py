"""The six formats against numpy's and ml_dtypes' own tables, and the two rules of promotion against what torch does."""

import ml_dtypes
import numpy as np
import pytest

from rmsaudit.arrays import dtype_of
from rmsaudit.formats import ALIASES, FORMATS, canonical, opmath, promote

WORDS = tuple(FORMATS)


@pytest.mark.parametrize("word", WORDS)
def test_a_format_agrees_with_the_library_that_stores_it(word: str) -> None:
    ours, theirs = FORMATS[word], ml_dtypes.finfo(dtype_of(word))
    assert ours.bits == theirs.bits == 8 * dtype_of(word).itemsize
    assert ours.precision == theirs.nmant + 1
    assert ours.max == float(theirs.max)
    assert ours.smallest_normal == float(theirs.smallest_normal)
    assert ours.smallest_subnormal == float(theirs.smallest_subnormal)
    assert ours.machine_epsilon == float(theirs.eps)


@pytest.mark.parametrize("word", WORDS)
def test_only_e4m3fn_has_no_infinity(word: str) -> None:
    with np.errstate(all="ignore"):
        assert FORMATS[word].has_infinity == bool(np.isinf(np.array([np.inf]).astype(dtype_of(word))[0]))
    assert FORMATS[word].has_infinity == (word != "float8_e4m3fn")


@pytest.mark.parametrize("word", ["float64", "float32", "float16"])
def test_ulp_is_the_gap_to_the_next_value(word: str) -> None:
    dtype = dtype_of(word)
    fmt = FORMATS[word]
    for value in (1.0, 1.5, 0.1, 3.0, 1e-3, 1000.0, fmt.smallest_normal, fmt.smallest_subnormal, -2.0):
        stored = dtype.type(value)
        assert fmt.ulp(float(stored)) == float(np.spacing(abs(stored)))
    assert fmt.ulp(0.0) == fmt.smallest_subnormal
    assert fmt.ulp(fmt.max) == fmt.max - float(np.nextafter(dtype.type(fmt.max), dtype.type(0)))


def test_ulp_above_the_largest_value_is_that_of_the_top_binade() -> None:
    assert FORMATS["float16"].ulp(1e6) == 32
    assert FORMATS["float8_e4m3fn"].ulp(448) == 32


def test_half_means_sixteen_bits() -> None:
    assert {word for word, fmt in FORMATS.items() if fmt.is_half} == {"float16", "bfloat16"}


@pytest.mark.parametrize(("word", "full"), [*ALIASES.items(), *((word, word) for word in WORDS)])
def test_every_alias_names_a_format(word: str, full: str) -> None:
    assert canonical(word) == full
    assert full in FORMATS


@pytest.mark.parametrize("word", ["", "int8", "Float32", "float", "tf32", "promote", "float8"])
def test_other_words_name_none(word: str) -> None:
    assert canonical(word) == ("float32" if word == "float" else None)


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("float16", "float16", "float16"),
        ("bfloat16", "bfloat16", "bfloat16"),
        ("float16", "bfloat16", "float32"),
        ("float16", "float32", "float32"),
        ("bfloat16", "float32", "float32"),
        ("bfloat16", "float64", "float64"),
        ("float32", "float64", "float64"),
        ("float8_e4m3fn", "float16", "float16"),
        ("float8_e4m3fn", "bfloat16", "bfloat16"),
        ("float8_e5m2", "float16", "float16"),
        ("float8_e5m2", "bfloat16", "bfloat16"),
        ("float8_e4m3fn", "float8_e5m2", "float32"),
    ],
)
def test_promotion_in_either_order(first: str, second: str, result: str) -> None:
    assert promote(first, second) == promote(second, first) == result


@pytest.mark.parametrize("first", WORDS)
@pytest.mark.parametrize("second", WORDS)
def test_the_promoted_format_holds_both(first: str, second: str) -> None:
    result = FORMATS[promote(first, second)]
    for operand in (FORMATS[first], FORMATS[second]):
        assert result.precision >= operand.precision
        assert result.min_exponent <= operand.min_exponent
        assert result.max_exponent >= operand.max_exponent


def test_narrow_formats_are_worked_on_in_float32() -> None:
    assert {word: opmath(word) for word in WORDS} == {
        "float64": "float64",
        "float32": "float32",
        "float16": "float32",
        "bfloat16": "float32",
        "float8_e4m3fn": "float32",
        "float8_e5m2": "float32",
    }
