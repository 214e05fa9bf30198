"""From explanations to findings: what each change means, how much of the difference it re-creates, what to do next."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rmsaudit import causes, patterns
from rmsaudit.causes import GAIN_VALUES, Words
from rmsaudit.evidence import Evidence
from rmsaudit.explain import Alone, Effort, Explanation, Explanations, Starts, explain
from rmsaudit.findings import percent, shown
from rmsaudit.matching import met
from rmsaudit.record import Finding, Pair, Scalar, SideName, SideRecord
from rmsaudit.results import shortened
from rmsaudit.semantics.resolve import resolve

LEADS = ("eps_placement", "compute_dtype", "cast_point", "statistic", "eps", "accumulate_dtype", "gain_offset")
"""Of several variables that one cause or proposal changes together, the one that the finding is about."""
FOLLOWS = {
    "eps_placement": ("eps", "eps_dtype"),
    "eps": ("eps_dtype",),
    "compute_dtype": ("accumulate_order", "accumulate_dtype"),
    "accumulate_dtype": ("accumulate_order",),
    "cast_point": ("normalized_dtype", "association"),
    "gain_offset": ("gain_offset_dtype",),
}
"""Variables that are told along with another one where both change."""
MOST_PRESETS = 4
ENOUGH = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class Observed:
    """One side as the explainer needs it. broken: it was seen not to compute `words`. ask: both sides once more."""

    name: SideName
    words: Words
    paper: SideRecord
    broken: bool
    ask: patterns.Ask | None = None


def findings(
    reference: Observed, candidate: Observed, evidence: Evidence, presets: Callable[[], Starts], effort: Effort
) -> list[Finding]:
    """What explains the sides that do not compute what they declare; [] where both do.

    A reference that breaks its own belief is explained by itself first; the candidate is then explained from what the
    reference was found to be.
    """
    found: list[Finding] = []
    base = reference.words
    if reference.broken:
        explanations = explain(reference.words, evidence.turned(), starts=presets, effort=effort)
        found += _of(explanations, reference, reference, evidence.turned(), presets)
        if explanations.found:
            base = explanations.found.words
    if candidate.broken:
        explanations = explain(base, evidence, starts=lambda: {BELIEF: candidate.words, **presets()}, effort=effort)
        found += _of(explanations, reference, candidate, evidence, presets)
    return found


BELIEF = "its own declaration"


def _of(
    explanations: Explanations, reference: Observed, side: Observed, evidence: Evidence, presets: Callable[[], Starts]
) -> list[Finding]:
    if explanations.nothing_to_explain:
        return []
    best = explanations.found or _worth_telling(explanations)
    if best is None:
        return [*_partial_statistic(reference, side, evidence), _unexplained(side, evidence, None)]
    told = list(_changes(best, explanations, reference, side, presets))
    if explanations.found is None:
        told.append(_unexplained(side, evidence, best))
    return told


def _worth_telling(explanations: Explanations) -> Explanation | None:
    """The incomplete explanation without the changes that do little; None where it does little itself.

    A change does enough where it re-creates half of what differs without it. The share alone says nothing: where most
    of what differs is the order of the sum, a change that changes nothing has a large one.
    """
    best = explanations.partial
    root = explanations.search.root
    if best is None or root is None:
        return None
    by_order = met(root.held.by, explanations.search.evidence.told(root.spec.axes)).match().share
    if not _does_enough(best.match.share, by_order):
        return None
    for change in grouped(best.changes).values():
        others = {name: value for name, value in best.changes.items() if name not in change}
        without = explanations.alone(others).match
        if others and not _does_enough(best.match.share, without.share):
            best = replace(best, changes=others, words={**explanations.base, **others}, match=without, same=())
    return best


def _does_enough(with_it: float, without: float) -> bool:
    return with_it - without >= ENOUGH * (1 - without)


def _changes(
    best: Explanation, explanations: Explanations, reference: Observed, side: Observed, presets: Callable[[], Starts]
) -> Iterator[Finding]:
    """A finding for each cause that the explanation changes."""
    groups = grouped(best.changes)
    for variable, change in groups.items():
        by_itself = explanations.alone(change)
        yield _finding(variable, change, best, explanations.base, reference, side, by_itself, len(groups), presets)


def grouped(changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The changes by the variable that a finding is about, each with those that are told along with it."""
    left = dict(changes)
    groups: dict[str, dict[str, Any]] = {}
    for variable in sorted(changes, key=lambda name: LEADS.index(name) if name in LEADS else len(LEADS)):
        if variable not in left:
            continue
        members = (variable, *(name for name in FOLLOWS.get(variable, ()) if name in left))
        groups[variable] = {name: left.pop(name) for name in members}
    return groups


def _finding(
    variable: str,
    change: Words,
    best: Explanation,
    base: Words,
    reference: Observed,
    side: Observed,
    by_itself: Alone,
    count: int,
    presets: Callable[[], Starts],
) -> Finding:
    cause = causes.describe(causes.of_variable(variable))
    before, after = _values(base), _values({**base, **change})
    return Finding(
        cause=cause.name,
        variable=None if variable == GAIN_VALUES else variable,
        reference_value=_scalar(before.get(variable)),
        candidate_value=_scalar(after.get(variable)),
        claim=_claim(cause, variable, before, after, reference, side),
        evidence=" ".join(_evidence(change, best, side, by_itself, count, presets)),
        explains=shortened(by_itself.match.share),
        residual_max_ulp=by_itself.match.worst,
        seen_in=by_itself.seen_in,
        declared_at=Pair(reference=_source(reference, variable), candidate=f"{side.paper.name}: seen in its outputs"),
        next_step=cause.next_step,
    )


def _values(words: Words) -> dict[str, Any]:
    """Resolved values by variable, with the form of the gains beside them."""
    spec = resolve({name: value for name, value in words.items() if name != GAIN_VALUES})
    return {**vars(spec), GAIN_VALUES: words.get(GAIN_VALUES, "as stored")}


def _scalar(value: Any) -> Scalar:
    return tuple(value) if isinstance(value, tuple | list) else value


def _claim(cause: causes.Cause, variable: str, before: Words, after: Words, reference: Observed, side: Observed) -> str:
    own = cause.claim(before, after)
    claim = own or (
        f"The candidate computes with {variable} = {shown(after[variable])};"
        f" the reference with {shown(before[variable])}."
    )
    if side.name == "reference":  # the reference against what it declares
        return claim.replace("the reference", "its declaration").replace("The candidate", "The reference")
    return claim if not reference.broken else f"{claim} (The reference as it was found to be.)"


def _evidence(
    change: Words, best: Explanation, side: Observed, by_itself: Alone, count: int,
    presets: Callable[[], Starts],
) -> Iterator[str]:  # fmt: skip
    others = count - 1
    together = f"with {others} other change{'s' * (others > 1)} " if others else ""
    base = "what was declared" if side.name == "reference" else "the reference"
    if best.match.word == "bit-equal":
        yield f"Applied to {base} {together}it re-creates every bit that was looked at (bit-equal)."
    elif best.match.word is not None:
        yield (
            f"Applied to {base} {together}it re-creates the {side.name}; what is left, up to {best.match.worst} ulp, is"
            " what the order of the sum can do (explainable by rounding)."
        )
    else:
        yield (
            f"Applied to {base} {together}it re-creates {percent(best.match.share)} of what differs; not in"
            f" {', '.join(best.match.left_in)}."
        )
    if others:
        yield f"Alone it re-creates {percent(by_itself.match.share)}."
    yield from _same(best)
    yield from _followed(change, presets)


def _same(best: Explanation) -> Iterator[str]:
    if best.same:
        shown_ = "; or ".join(_written(changes) for changes in best.same[:3])
        more = f" (and {len(best.same) - 3} more)" if len(best.same) > 3 else ""
        yield f"These inputs cannot tell it from {shown_}{more}."


def _written(changes: Words) -> str:
    return ", ".join(f"{name} {shown(_scalar(value))}" for name, value in changes.items())


def _followed(change: Words, presets: Callable[[], Starts]) -> Iterator[str]:
    """Which presets declare the same, where projects differ by design."""
    if not {"cast_point", "statistic_source", "numerator_source", "gain_offset_dtype"} & set(change):
        return
    names = [name for name, words in presets().items() if all(words.get(n) == v for n, v in change.items())]
    if names:
        more = f" and {len(names) - MOST_PRESETS} more" if len(names) > MOST_PRESETS else ""
        yield f"Presets that do the same: {', '.join(names[:MOST_PRESETS])}{more}."


def _partial_statistic(reference: Observed, side: Observed, evidence: Evidence) -> Iterator[Finding]:
    """Where the count of elements that enter the statistic differs from width to width, no one spec says it."""
    found = patterns.heads(evidence)
    if not found:
        return
    cause = causes.describe("partial-statistic")
    told = "; ".join(f"at width {width} of its first {head.first}, over {head.over}" for width, head in found.items())
    yield Finding(
        cause=cause.name,
        variable="statistic_width",
        claim=f"Only the first elements of a row enter the statistic of the {side.name}.",
        evidence=f"The factor that each row is off by is that of a mean square {told}. No one spec re-creates it.",
        explains=0.0,
        seen_in=evidence.categories,
        declared_at=Pair(
            reference=_source(reference, "statistic_width"), candidate=f"{side.paper.name}: seen in its outputs"
        ),
        next_step=cause.next_step,
    )


def _unexplained(side: Observed, evidence: Evidence, partial: Explanation | None) -> Finding:
    """What is known where nothing, or not everything, is explained."""
    cause = causes.describe("unexplained")
    what = "A part of what the" if partial else "What the"
    return Finding(
        cause=cause.name,
        claim=(
            f"{what} {side.name} computes is unexplained: no known change of variables re-creates it"
            f"{' in ' + ', '.join(partial.match.left_in) if partial else ''}."
        ),
        evidence=" ".join(patterns.describe(evidence, side.ask)),
        explains=0.0,
        seen_in=partial.match.left_in if partial else evidence.categories,
        declared_at=Pair(**{side.name: side.paper.name}),
        next_step=cause.next_step,
    )


def _source(side: Observed, variable: str) -> str | None:
    if variable == GAIN_VALUES:
        return side.paper.gain.tensor if side.paper.gain else None
    found = side.paper.resolved.get(variable)
    return found.source.removeprefix("declared at ") if found else None
