"""What a scalar means: YAML 1.2's numbers and nothing that only looks like one."""

import math
import re
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rmsaudit.documents import scalars
from rmsaudit.documents.nodes import Entry, Mapping, Node, Scalar, Sequence
from rmsaudit.documents.problems import Refused

# YAML 1.2.2, section 10.3.2, tag resolution of the core schema: the rows for int and float
SPEC_INT = re.compile(r"[-+]? [0-9]+", re.VERBOSE)
SPEC_FLOAT = re.compile(r"[-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?", re.VERBOSE)


def plain(text: str) -> Scalar:
    return Scalar(text, plain=True, mark=None)


def refusal(read: Callable[[Node], Any], node: Node) -> str:
    with pytest.raises(Refused) as caught:
        read(node)
    return f"{caught.value.says} [{caught.value.kind}]"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", Fraction(1, 10**6)),
        ("1E-6", Fraction(1, 10**6)),
        ("1e-06", Fraction(1, 10**6)),
        ("1.0e6", Fraction(10**6)),
        ("1.e-6", Fraction(1, 10**6)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("-.5e+1", Fraction(-5)),
        ("+3", Fraction(3)),
        ("0", Fraction(0)),
        ("-0.0", Fraction(0)),
        ("0.000001", Fraction(1, 10**6)),
        ("12e03", Fraction(12000)),
        ("5E+3", Fraction(5000)),
    ],
)
def test_numbers(text: str, value: Fraction) -> None:
    nearest = value.numerator / value.denominator  # int / int is correctly rounded in Python
    assert scalars.number(plain(text)) == nearest


SUCH_AS = "write a number such as 1e-6"


@pytest.mark.parametrize(
    ("text", "means", "remedy"),
    [
        ("1_000", "is 1000 to YAML 1.1 parsers and text to YAML 1.2 parsers", "write 1000"),
        ("1_0.5_0", "is 10.50 to YAML 1.1 parsers and text to YAML 1.2 parsers", "write 10.50"),
        ("0x_1F", "is a number to YAML 1.1 parsers and text to YAML 1.2 parsers", "write 31"),
        ("_1", "is text", SUCH_AS),
        ("017", "is 15 to YAML 1.1 parsers and 17 to YAML 1.2 parsers", "write 17 or 15"),
        ("-017", "is -15 to YAML 1.1 parsers and -17 to YAML 1.2 parsers", "write -17 or -15"),
        ("089", "is text to YAML 1.1 parsers and 89 to YAML 1.2 parsers", "write 89"),
        ("00.5", "is a number with leading zeros, which is text to some parsers", "write 0.5"),
        ("0o17", "is 15 in octal, and text to some parsers", "write 15"),
        ("0x10", "is 16 in hexadecimal, and text to some parsers", "write 16"),
        ("0b101", "is 5 in binary, and text to some parsers", "write 5"),
        ("1:30", "is 90 to YAML 1.1 parsers (base 60) and text to YAML 1.2 parsers", "write 90"),
        ("-1:00:30.5", "is -3630.5 to YAML 1.1 parsers (base 60) and text to YAML 1.2 parsers", "write -3630.5"),
        ("yes", "is a truth value to YAML 1.1 parsers", SUCH_AS),
        ("On", "is a truth value to YAML 1.1 parsers", SUCH_AS),
        ("true", "is a truth value", SUCH_AS),
        (".nan", "is NaN, which is none", SUCH_AS),
        ("nan", "is NaN, which is none", SUCH_AS),
        ("-.inf", "is infinity", SUCH_AS),
        ("Infinity", "is infinity", SUCH_AS),
        ("null", "stands for no value", SUCH_AS),
        ("~", "stands for no value", SUCH_AS),
        ("2026-08-22", "is a date to YAML 1.1 parsers", SUCH_AS),
        ("2026-08-22 10:00:00", "is a date to YAML 1.1 parsers", SUCH_AS),
        ("0x1p-20", "is a hexadecimal float, which YAML does not have", "write 9.5367431640625e-07"),
        ("0x1p9999", "is beyond float64", SUCH_AS),
        ("1e999", "is beyond float64, which ends at 1.797e308", SUCH_AS),
        ("1e-999", "becomes 0 in float64, which ends at 4.9e-324", SUCH_AS),
        ("tiny", "is text", SUCH_AS),
        ("1,5", "is text", SUCH_AS),
        ("1e", "is text", SUCH_AS),
        ("٣", "is text", SUCH_AS),  # a digit to str.isdigit
    ],
)
def test_no_numbers(text: str, means: str, remedy: str) -> None:
    assert refusal(scalars.number, plain(text)) == f"must be a number, and `{text}` {means}; {remedy} [not-a-number]"


def test_nothing_is_no_number() -> None:
    assert refusal(scalars.number, plain("")) == f"must be a number, and nothing stands there; {SUCH_AS} [not-a-number]"


def test_quoted_text_is_no_number() -> None:
    quoted = Scalar("1e-6", plain=False, mark=None)
    assert refusal(scalars.number, quoted) == (
        "must be a number, and `1e-6` is quoted text; remove the quotes [not-a-number]"
    )
    other = Scalar("017", plain=False, mark=None)
    assert refusal(scalars.number, other).endswith("is quoted text; write a number such as 1e-6 [not-a-number]")


def test_lists_and_mappings_are_no_scalars() -> None:
    assert refusal(scalars.number, Sequence((), None)).startswith("must be a number, and stands as a list")
    assert refusal(scalars.text, Mapping({}, None)).startswith("must be text, and stands as a mapping")


@given(st.from_regex(SPEC_FLOAT, fullmatch=True))
def test_the_grammar_is_that_of_yaml_1_2_but_for_leading_zeros_and_range(text: str) -> None:
    value = float(text)
    becomes_zero = value == 0 and any(digit in "123456789" for digit in text.lower().split("e")[0])
    if re.match(r"[-+]?0[0-9]", text) or math.isinf(value) or becomes_zero:
        refusal(scalars.number, plain(text))
    else:
        assert scalars.number(plain(text)) == value


@given(st.text(alphabet="0123456789+-._eExXobynaif:", max_size=8))
@example("1__0")
@example("0x_")
def test_what_is_no_yaml_1_2_number_is_refused(text: str) -> None:
    if not SPEC_FLOAT.fullmatch(text):
        refusal(scalars.number, plain(text))
    if not SPEC_INT.fullmatch(text):
        refusal(scalars.integer, plain(text))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_prints_is_read_back(value: float) -> None:
    assert scalars.number(plain(repr(value))) == value


@given(
    st.text(alphabet="0123456789+-._eExob:TZ ", min_size=1, max_size=12)
    | st.sampled_from(["yes", "NO", "null", "~", ".NaN"])
)
def test_text_to_all_is_text_to_pyyaml(text: str) -> None:
    """An independent judge of YAML 1.1: what its resolver types as anything but text is not text to all."""
    assume(not re.fullmatch(r"[-+]?0[bx]_+", text))  # which PyYAML takes for a number, and then cannot read as one
    resolver = yaml.SafeLoader("")
    if resolver.resolve(yaml.ScalarNode, text, (True, False)) != "tag:yaml.org,2002:str":
        assert not scalars.is_text_to_all(text)


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("-7", -7), ("+12", 12), ("9" * 18, int("9" * 18))])
def test_integers(text: str, value: int) -> None:
    assert scalars.integer(plain(text)) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1e3", "must be a whole number, and `1e3` has a fraction or an exponent; write 1000"),
        ("128.0", "must be a whole number, and `128.0` has a fraction or an exponent; write 128"),
        ("1.5", "must be a whole number, and `1.5` has a fraction or an exponent; write digits alone, such as 128"),
        ("1e999", "must be a whole number, and `1e999` has a fraction or an exponent; write digits alone, such as 128"),
        ("9" * 19, f"must be a whole number, and `{'9' * 19}` is too large; write at most 18 digits"),
        ("010", "must be a whole number, and `010` is 8 to YAML 1.1 parsers and 10 to YAML 1.2 parsers; write 10 or 8"),
        ("1_0", "must be a whole number, and `1_0` is 10 to YAML 1.1 parsers and text to YAML 1.2 parsers; write 10"),
        (
            "no",
            "must be a whole number, and `no` is a truth value to YAML 1.1 parsers; write digits alone, such as 128",
        ),
    ],
)
def test_no_integers(text: str, says: str) -> None:
    assert refusal(scalars.integer, plain(text)) == f"{says} [not-an-integer]"


def test_flags() -> None:
    assert scalars.flag(plain("true")) is True
    assert scalars.flag(plain("false")) is False
    assert refusal(scalars.flag, plain("yes")).endswith("by every parser; write true [not-a-flag]")
    assert refusal(scalars.flag, plain("False")).endswith("by every parser; write false [not-a-flag]")
    assert (
        refusal(scalars.flag, plain("1"))
        == "must be true or false, and `1` is a number; write true or false [not-a-flag]"
    )
    assert refusal(scalars.flag, Scalar("true", plain=False, mark=None)).endswith("remove the quotes [not-a-flag]")
    assert "nothing stands there" in refusal(scalars.flag, plain(""))


@pytest.mark.parametrize("text", ["1e-6", "yes", "017", "2026-08-22", ".nan", "0x1.5p-3", "a: b"])
def test_text_stays_as_it_was_written(text: str) -> None:
    assert scalars.text(plain(text)) == text


def test_nothing_is_no_text() -> None:
    assert refusal(scalars.text, plain("null")).startswith("must be text, and `null` stands for no value")
    assert scalars.text(Scalar("", plain=False, mark=None)) == ""


def test_days() -> None:
    assert scalars.day(plain("2027-03-01")) == date(2027, 3, 1)
    assert refusal(scalars.day, plain("2027-02-29")).endswith(
        "is in no calendar; write a day such as 2027-03-01 [not-a-date]"
    )
    assert refusal(scalars.day, Scalar("2027-03-01", plain=False, mark=None)).endswith("remove the quotes [not-a-date]")
    assert "`2027-3-1` is a date to YAML 1.1" in refusal(scalars.day, plain("2027-3-1"))
    assert "`soon` is text" in refusal(scalars.day, plain("soon"))


def test_words() -> None:
    assert scalars.word(plain("none"), ["none", "add"]) == "none"
    assert scalars.word(Scalar("add", plain=False, mark=None), ["none", "add"]) == "add"
    assert refusal(lambda n: scalars.word(n, ["none", "add"]), plain("ad")) == (
        "cannot be `ad`; did you mean `add`? one of none, add [unknown-word]"
    )
    assert refusal(lambda n: scalars.word(n, ["none"]), plain("")) == "is empty; write none [unknown-word]"
    assert refusal(lambda n: scalars.word(n, [f"word{i}" for i in range(99)]), plain("zzz")) == (
        "cannot be `zzz`; write another word [unknown-word]"
    )


def test_plain_values_follow_the_core_schema() -> None:
    texts = {"n": "~", "t": "true", "i": "12", "f": "1e-6", "y": "yes", "z": "017", "d": "2026-08-22", "long": "9" * 30}
    node = Mapping({key: Entry(None, plain(text)) for key, text in texts.items()}, None)
    assert scalars.plain_value(node) == {
        "n": None, "t": True, "i": 12, "f": 1e-6, "y": "yes", "z": "017", "d": "2026-08-22", "long": 1e30,
    }  # fmt: skip
    assert scalars.plain_value(Sequence((Scalar("12", plain=False, mark=None),), None)) == ["12"]
