"""What a scalar means, decided only when someone asks: the grammar of YAML 1.2's core schema, minus its traps.

Text that one YAML parser takes for a number and another one for something else is refused, and the message says what
each makes of it. `1e-6`, `1E-6`, `1e-06`, `1.0e6`, `.5` and `5.` are numbers (YAML 1.2.2, section 10.3.2); quoted text
is none. Everything here raises Refused, worded to follow a name: "must be a number, and …; write …".
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from math import isinf
from typing import Any

from rmsaudit.documents.nodes import Mapping, Node, Scalar, Sequence
from rmsaudit.documents.problems import Refused, did_you_mean, quoted

NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
MOST_DIGITS = 18  # of an integer: every such one fits in 64 bits
LONGEST_LITERAL = 40  # characters of text that is worth explaining as a number in another notation
FEW_CHOICES = 12  # words that may be listed in a message

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
TRUE_WORDS = frozenset({"true", "yes", "on", "y"})
FALSE_WORDS = frozenset({"false", "no", "off", "n"})
TRUTH_WORDS = TRUE_WORDS | FALSE_WORDS


@dataclass(frozen=True)
class _Want:
    """What a reader is after: in words, the kind of the problem when it is not there, and what to do then."""

    name: str
    kind: str
    remedy: str
    pattern: re.Pattern[str] | None = None

    def refusal(self, because: str, remedy: str | None = None) -> Refused:
        return Refused(f"must be {self.name}, and {because}; {remedy or self.remedy}", self.kind)


_NUMBER = _Want("a number", "not-a-number", "write a number such as 1e-6", NUMBER)
_INTEGER = _Want("a whole number", "not-an-integer", "write digits alone, such as 128", INTEGER)
_FLAG = _Want("true or false", "not-a-flag", "write true or false", re.compile("true|false"))
_TEXT = _Want("text", "not-text", "write it, or leave the key out")
_DAY = _Want("a date", "not-a-date", "write a day such as 2027-03-01", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"))
_WORD = _Want("a word", "unknown-word", "write a word")


def number(node: Node) -> float:
    """A finite float64."""
    scalar = _scalar(node, _NUMBER)
    if not scalar.plain or not NUMBER.fullmatch(scalar.text):
        raise _mistaken(scalar, _NUMBER)
    value = float(scalar.text)
    if isinf(value):
        raise _NUMBER.refusal(f"{quoted(scalar.text)} is beyond float64, which ends at 1.797e308")
    if value == 0 and re.match(r"[^eE]*[1-9]", scalar.text):
        raise _NUMBER.refusal(f"{quoted(scalar.text)} becomes 0 in float64, which ends at 4.9e-324")
    return value


def integer(node: Node) -> int:
    """An int of at most 18 digits."""
    scalar = _scalar(node, _INTEGER)
    if not scalar.plain or not NUMBER.fullmatch(scalar.text):
        raise _mistaken(scalar, _INTEGER)
    if not INTEGER.fullmatch(scalar.text):
        value = float(scalar.text)
        whole = value.is_integer() and abs(value) < 10**MOST_DIGITS
        raise _INTEGER.refusal(
            f"{quoted(scalar.text)} has a fraction or an exponent", f"write {int(value)}" if whole else None
        )
    if len(scalar.text) > MOST_DIGITS:
        raise _INTEGER.refusal(f"{quoted(scalar.text)} is too large", f"write at most {MOST_DIGITS} digits")
    return int(scalar.text)


def flag(node: Node) -> bool:
    """true or false, spelled so."""
    scalar = _scalar(node, _FLAG)
    if scalar.plain and scalar.text in ("true", "false"):
        return scalar.text == "true"
    lowered = scalar.text.lower()
    if scalar.plain and lowered in TRUTH_WORDS:
        means = "true" if lowered in TRUE_WORDS else "false"
        raise _FLAG.refusal(f"{quoted(scalar.text)} is not read the same way by every parser", f"write {means}")
    raise _mistaken(scalar, _FLAG)


def text(node: Node) -> str:
    """The text as it stands, whatever a YAML parser would take it for; only null and nothing at all are refused."""
    scalar = _scalar(node, _TEXT)
    if scalar.plain and scalar.text in NULLS:
        raise _mistaken(scalar, _TEXT)
    return scalar.text


def day(node: Node) -> date:
    """A calendar day, written YYYY-MM-DD."""
    scalar = _scalar(node, _DAY)
    if not scalar.plain or not _matches(_DAY, scalar.text):
        raise _mistaken(scalar, _DAY)
    try:
        return date.fromisoformat(scalar.text)
    except ValueError:
        raise _DAY.refusal(f"{quoted(scalar.text)} is in no calendar") from None


def word(node: Node, choices: Iterable[str]) -> str:
    """One of `choices`, quoted or not."""
    known = tuple(choices)
    scalar = _scalar(node, _WORD)
    if scalar.text in known:
        return scalar.text
    says = f"cannot be {quoted(scalar.text)}" if scalar.text else "is empty"
    if len(known) == 1:
        raise Refused(f"{says}; write {known[0]}", _WORD.kind)
    advice = did_you_mean(scalar.text, known), f"one of {', '.join(known)}" if len(known) <= FEW_CHOICES else ""
    raise Refused(f"{says}; {' '.join(filter(None, advice)) or 'write another word'}", _WORD.kind)


def plain_value(node: Node) -> Any:
    """The node as Python values by YAML 1.2's core schema, for places that take anything."""
    match node:
        case Mapping():
            return {key: plain_value(entry.value) for key, entry in node.entries.items()}
        case Sequence():
            return [plain_value(item) for item in node.items]
    if not node.plain:
        return node.text
    if node.text in NULLS:
        return None
    if node.text in ("true", "false"):
        return node.text == "true"
    if INTEGER.fullmatch(node.text) and len(node.text) <= MOST_DIGITS:
        return int(node.text)
    return float(node.text) if NUMBER.fullmatch(node.text) else node.text


def is_text_to_all(plain_text: str) -> bool:
    """True where no YAML parser takes this plain text for anything but text."""
    if plain_text[:1].isalpha():  # every other notation begins with a digit, a sign or a dot
        return (lowered := plain_text.lower()) not in TRUTH_WORDS and lowered != "null"
    return not NUMBER.fullmatch(plain_text) and other_meaning(plain_text) is None


@dataclass(frozen=True)
class Meaning:
    """What some parser takes a text for, as a sentence that names the text; and the number to write instead, if any."""

    says: str
    instead: str = ""


def other_meaning(plain_text: str) -> Meaning | None:
    """What some YAML parser takes a plain text for that is no number of ours; None if it is text to all of them."""
    if plain_text in NULLS:
        return Meaning(f"{quoted(plain_text)} stands for no value" if plain_text else "nothing stands there")
    if plain_text.lower() in TRUTH_WORDS and plain_text in _spellings(plain_text):
        version = "" if plain_text.lower() in ("true", "false") else " to YAML 1.1 parsers"
        return Meaning(f"{quoted(plain_text)} is a truth value{version}")
    if len(plain_text) > LONGEST_LITERAL:
        return None
    if "_" in plain_text and re.match(r"[-+]?\.?[0-9]", plain_text):
        return _underscored(plain_text)
    for pattern, explain in _NOTATIONS:
        if pattern.fullmatch(plain_text):
            meaning = explain(plain_text)
            return Meaning(f"{quoted(plain_text)} is {meaning.says}", meaning.instead)
    return None


def _spellings(text: str) -> tuple[str, str, str]:
    """The three that YAML knows of a word: yes, Yes, YES."""
    return text.lower(), text.capitalize(), text.upper()


# --- notations that parsers disagree about; each `says` continues "`…` is" -------------------------------------------


def _leading_zero(text: str) -> Meaning:
    sign, digits = _split_sign(text)
    decimal = f"{sign}{int(digits)}"
    if any(digit in "89" for digit in digits):
        return Meaning(f"text to YAML 1.1 parsers and {decimal} to YAML 1.2 parsers", decimal)
    octal = f"{sign}{int(digits, 8)}"
    return Meaning(f"{octal} to YAML 1.1 parsers and {decimal} to YAML 1.2 parsers", f"{decimal} or {octal}")


def _padded_decimal(text: str) -> Meaning:
    return Meaning("a number with leading zeros, which is text to some parsers", f"{float(text)!r}")


def _in_base(base: int, name: str) -> Callable[[str], Meaning]:
    def explain(text: str) -> Meaning:
        value = str(int(text, base))
        return Meaning(f"{value} in {name}, and text to some parsers", value)

    return explain


def _underscored(text: str) -> Meaning | None:
    """YAML 1.1 allows underscores in all of its numbers."""
    clean = text.replace("_", "")
    if NUMBER.fullmatch(clean):
        return Meaning(f"{quoted(text)} is {clean} to YAML 1.1 parsers and text to YAML 1.2 parsers", clean)
    other = other_meaning(clean)
    return other and Meaning(
        f"{quoted(text)} is a number to YAML 1.1 parsers and text to YAML 1.2 parsers", other.instead
    )


def _base_60(text: str) -> Meaning:
    sign, digits = _split_sign(text)
    value = 0.0
    for part in digits.split(":"):
        value = value * 60 + float(part)
    shown = f"{sign}{value:.17g}"
    return Meaning(f"{shown} to YAML 1.1 parsers (base 60) and text to YAML 1.2 parsers", shown)


def _split_sign(text: str) -> tuple[str, str]:
    return "-" if text.startswith("-") else "", text.lstrip("-+")


_NOTATIONS: tuple[tuple[re.Pattern[str], Callable[[str], Meaning]], ...] = (
    (re.compile(r"\.(?:nan|NaN|NAN)"), lambda _: Meaning("NaN, which is none")),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)"), lambda _: Meaning("infinity")),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?"), lambda _: Meaning("a date to YAML 1.1 parsers")),
    (re.compile(r"[-+]?0[0-9]+"), _leading_zero),
    (re.compile(r"[-+]?0[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?"), _padded_decimal),
    (re.compile(r"[-+]?0o[0-7]+"), _in_base(8, "octal")),
    (re.compile(r"[-+]?0x[0-9a-fA-F]+"), _in_base(16, "hexadecimal")),
    (re.compile(r"[-+]?0b[01]+"), _in_base(2, "binary")),
    (re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"), _base_60),
)


# --- wording ---------------------------------------------------------------------------------------------------------

_NO_YAML_NUMBER: tuple[tuple[re.Pattern[str], Callable[[str], Meaning]], ...] = (
    (re.compile(r"nan|NaN|NAN"), lambda text: Meaning(f"{quoted(text)} is NaN, which is none")),
    (re.compile(r"[-+]?(?:[Ii]nf|INF|[Ii]nfinity)"), lambda text: Meaning(f"{quoted(text)} is infinity")),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?[pP][-+]?[0-9]{1,4}"), lambda text: _hex_float(text)),
)


def _hex_float(text: str) -> Meaning:
    try:
        value = f"{float.fromhex(text)!r}"
    except OverflowError:
        return Meaning(f"{quoted(text)} is beyond float64")
    return Meaning(f"{quoted(text)} is a hexadecimal float, which YAML does not have", value)


def _mistaken(scalar: Scalar, want: _Want) -> Refused:
    """Why a scalar is not what was wanted, what it was taken for, and what to write."""
    if not scalar.plain:
        fits = _matches(want, scalar.text)
        return want.refusal(f"{quoted(scalar.text)} is quoted text", "remove the quotes" if fits else None)
    meaning = other_meaning(scalar.text)
    if meaning is None and want in (_NUMBER, _INTEGER):
        meaning = next((tell(scalar.text) for form, tell in _NO_YAML_NUMBER if form.fullmatch(scalar.text)), None)
    if meaning is None:
        shape = "a number" if NUMBER.fullmatch(scalar.text) else "text"
        return want.refusal(f"{quoted(scalar.text)} is {shape}")
    helps = meaning.instead and want in (_NUMBER, _INTEGER)
    return want.refusal(meaning.says, f"write {meaning.instead}" if helps else None)


def _matches(want: _Want, text: str) -> bool:
    return want.pattern is not None and want.pattern.fullmatch(text) is not None


def _scalar(node: Node, want: _Want) -> Scalar:
    if isinstance(node, Scalar):
        return node
    shape = "a mapping" if isinstance(node, Mapping) else "a list"
    raise Refused(f"must be {want.name}, and stands as {shape}; {want.remedy}", "wrong-shape")
