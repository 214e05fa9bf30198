"""Whether rounding can explain what differs: asked of a few rows of every case, told in one finding with its proof."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import NamedTuple

from rmsaudit.arrays import Array, word_of
from rmsaudit.inversion.explainable import ElementWitness, Explained, Observed, RowWitness, Verdict, explainable
from rmsaudit.kept_rows import Kept
from rmsaudit.record import Finding, Pair
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import fitted

CAUSE = "rounding"
WORDS: tuple[Verdict, ...] = ("not explainable by rounding", "explainable by rounding", "bit-equal", "not observable")
WEIGHTIEST_FIRST: tuple[Verdict, ...] = (
    "not explainable by rounding", "not observable", "explainable by rounding", "bit-equal",
)  # fmt: skip
MOST_NAMED = 6


class _Answer(NamedTuple):
    kept: Kept
    found: Explained


@dataclass(frozen=True, eq=False)
class Question:
    """Whether rounding explains how the candidate differs from the reference in the rows that were kept.

    any_order: of the reference and of the candidate, whether nothing is known of its order of the sum, as of a side
    that runs code; then no order is assumed.
    """

    reference: NormSpec
    candidate: NormSpec
    any_order: tuple[bool, bool]
    kept: Sequence[Kept]

    def finding(self) -> Finding | None:
        """The four words by category; None where nothing differs."""
        answers: dict[str, list[_Answer]] = {}
        for kept in self.kept:
            answers.setdefault(kept.case.category, []).append(_Answer(kept, self._answer(kept)))
        words = {name: _weightiest(told) for name, told in answers.items()}
        by_word = {word: tuple(name for name, own in words.items() if own == word) for word in WORDS}
        if len(by_word["bit-equal"]) == len(words):
            return None
        beyond, within = by_word["not explainable by rounding"], by_word["explainable by rounding"]
        everything = [answer for told in answers.values() for answer in told]
        return Finding(
            cause=CAUSE,
            claim=_claim(by_word),
            evidence=" ".join((*_evidence(by_word, everything), self._looked_at(everything))),
            explains=0.0,
            seen_in=beyond or within or by_word["not observable"],
            declared_at=Pair(),
            next_step=_next_step(by_word),
        )

    def _answer(self, kept: Kept) -> Explained:
        if not len(kept.numbers):
            return Explained(equal=1, explainable=0, not_explainable=0, not_observable=0)
        sides = (
            _observed(spec, kept.case.width, output, any_order=any_order)
            for spec, output, any_order in zip(
                (self.reference, self.candidate), (kept.reference, kept.candidate), self.any_order, strict=True
            )
        )
        return explainable(kept.case, *sides)

    def _looked_at(self, answers: list[_Answer]) -> str:
        count = sum(len(answer.kept.numbers) for answer in answers)
        order = ", in any order of the sum" if any(self.any_order) else ""
        return f"Asked of {count} rows, each side with the roundings that it declares{order}."


def _observed(spec: NormSpec, width: int, output: Array, *, any_order: bool) -> Observed:
    """A side as it is judged: by the dtype that it returned, and by the order that no other one exceeds."""
    as_seen = replace(fitted(spec, width), output_dtype=word_of(output))
    return Observed(replace(as_seen, accumulate_order="sequential") if any_order else as_seen, output)


def _weightiest(answers: list[_Answer]) -> Verdict:
    own = {answer.found.verdict for answer in answers}
    return next(word for word in WEIGHTIEST_FIRST if word in own)


def _claim(by_word: dict[Verdict, tuple[str, ...]]) -> str:
    if by_word["not explainable by rounding"]:
        return "Rounding cannot explain what differs."
    if not by_word["explainable by rounding"]:
        return "Whether rounding explains what differs is not observable with these inputs."
    return f"Rounding can explain what differs{', where that can be seen' if by_word['not observable'] else ''}."


def _next_step(by_word: dict[Verdict, tuple[str, ...]]) -> str:
    if by_word["not explainable by rounding"]:
        return "Look for another formula, other values or a damaged row: no limit can be chosen for rounding here."
    if by_word["explainable by rounding"]:
        return "Choose limits for what orders and roundings differ by; that they alone differ is possible, not proven."
    return "Ask with inputs that stay within the range of every declared dtype."


def _evidence(by_word: dict[Verdict, tuple[str, ...]], answers: list[_Answer]) -> Iterator[str]:
    proofs = {
        "not explainable by rounding": _beyond(answers),
        "explainable by rounding": _share(answers),
        "bit-equal": "",
        "not observable": _reasons(answers),
    }
    for word, names in by_word.items():
        if names:
            proof = proofs[word]
            yield f"{word.capitalize()}: {_named(names)}{f' ({proof})' if proof else ''}."


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"


def _beyond(answers: list[_Answer]) -> str:
    """The element that is farthest beyond what rounding reaches, or else a row whose two factors are apart."""
    witnesses = [(answer.kept, witness) for answer in answers if (witness := answer.found.witness) is not None]
    if not witnesses:
        return ""
    kept, witness = max(witnesses, key=lambda found: _how_far(found[1]))
    place = ", ".join(filter(None, (kept.case.category, kept.case.label, f"row {kept.numbers[witness.row]}")))
    if isinstance(witness, ElementWitness):
        apart = f"{witness.apart:.4g} apart" if isfinite(witness.apart) else "finite on one side only"
        return f"{place}, column {witness.column}: {apart}, and rounding on both sides reaches {witness.reach:.4g}"
    ours, theirs = (_interval(factor) for factor in (witness.reference, witness.candidate))
    return f"{place}: its factor is within {ours} by the reference's outputs, within {theirs} by the candidate's"


def _how_far(witness: ElementWitness | RowWitness) -> tuple[bool, float]:
    if isinstance(witness, ElementWitness):
        return True, witness.apart / witness.reach if witness.reach and isfinite(witness.apart) else inf
    gap = max(witness.reference[0], witness.candidate[0]) / max(min(witness.reference[1], witness.candidate[1]), 5e-324)
    return False, float(gap)


def _interval(factor: tuple[float, float]) -> str:
    lo, hi = factor
    return f"[{lo:.9g}, {hi:.9g}]" if lo <= hi else "no interval at all"


def _share(answers: list[_Answer]) -> str:
    within = [each.found for each in answers if each.found.explainable and not each.found.not_explainable]
    return f"up to {max((found.largest_share for found in within), default=0.0):.2g} of what rounding can reach"


def _reasons(answers: list[_Answer]) -> str:
    reasons = sorted({reason for answer in answers for reason in answer.found.reasons})
    return "; ".join(reasons[:2]) + (f"; and {len(reasons) - 2} more" if len(reasons) > 2 else "")
