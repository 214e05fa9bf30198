"""The gate: judges a record by a tolerance policy. A stored record and a fresh one go through the same code.

Non-finite values are judged first, then output dtypes, then numbers. Numbers are compared as exact rationals, so a
verdict never depends on how a limit rounds. What no row covers, and what no element was compared for, is not a pass.
"""

from collections.abc import Iterable
from datetime import date
from fractions import Fraction
from math import inf, isfinite
from typing import TYPE_CHECKING, Literal, TypeVar

from rmsaudit.measure import limits
from rmsaudit.record import (
    AcceptanceRecord,
    CategoryResult,
    Gate,
    OracleResult,
    Outcome,
    Rung,
    RungErrors,
)
from rmsaudit.tolerance import Either, Exact, Limit, Max, Policy, Ratio, Sum, Ulp, Waiver, When

if TYPE_CHECKING:
    from rmsaudit.model_record import ModelRecord

Judged = TypeVar("Judged", AcceptanceRecord, "ModelRecord")
Closer = Literal["reference", "candidate", "alike"]
FARTHER = 4  # one side is `farther` from the oracle at four times the other's distance: two binary digits
NONFINITE_BY_DESIGN = "nonfinite"  # the category that feeds NaN and infinities


def judge(record: Judged, policy: Policy | None, *, digest: str | None, today: date) -> Judged:
    """The record, of a pair or of a model, with a verdict in every category, the gate as used, and the outcome.
    `policy` None judges nothing.

    digest: sha256 of the tolerance file. today: the day on which waivers are looked at.
    """
    if policy is None:
        results = {name: _unjudged(result) for name, result in record.results.items()}
        return _with_outcome(record, results, None)
    judged = {name: _judged(name, result, record.output_dtypes, policy) for name, result in record.results.items()}
    used, notes, results = _waived(judged, record, policy, today)
    gate = Gate(
        tolerance=digest,
        rules=policy.rules,
        nonfinite=policy.nonfinite,
        output_dtypes=policy.output_dtypes,
        waivers_used=tuple(used),
        notes=tuple(notes),
    )
    return _with_outcome(record, results, gate)


def _with_outcome(record: Judged, results: dict[str, CategoryResult], gate: Gate | None) -> Judged:
    results = dict(sorted(results.items(), key=_severity))
    could_run = record.outcome != "could_not_run"
    outcome = outcome_of(results.values(), judged=gate is not None, could_run=could_run)
    if record.broken and could_run:
        outcome = "rejected"
    return record.model_copy(update={"results": results, "gate": gate, "outcome": outcome})


def _severity(item: tuple[str, CategoryResult]) -> tuple[int, int, int, float, float]:
    """Sorts the worst first: by verdict, then by non-finite mismatches, ulp, share and size of d."""
    result = item[1]
    rank = {"rejected": 0, "accepted_with_waiver": 1}.get(result.verdict, 2)
    return rank, -result.nonfinite.mismatched, -result.max_ulp, -result.differing_share, -result.max_abs_error


def outcome_of(results: Iterable[CategoryResult], *, judged: bool, could_run: bool) -> Outcome:
    """One word for all categories together."""
    results = list(results)
    if not could_run:
        return "could_not_run"
    if not any(result.elements for result in results):
        return "nothing_compared"
    rejected = [result for result in results if result.verdict == "rejected"]
    if not judged and not rejected:
        return "not_judged"
    if rejected:
        suspect = all(_reference_is_farther(result.oracle) for result in rejected)
        return "reference_suspect" if suspect else "rejected"
    waived = any(result.verdict == "accepted_with_waiver" for result in results)
    return "accepted_with_waiver" if waived else "accepted"


def _reference_is_farther(oracle: OracleResult | None) -> bool:
    return oracle is not None and oracle.closer == "candidate"


def closer_side(reference_ulp: int, candidate_ulp: int, reference_lost: int, candidate_lost: int) -> Closer:
    """Which side is closer to the oracle: `reference`, `candidate` or `alike`. `lost`: non-finite mismatches with
    it."""
    if (reference_lost > 0) != (candidate_lost > 0):
        return "candidate" if reference_lost else "reference"
    if reference_ulp >= FARTHER * max(candidate_ulp, 1):
        return "candidate"
    return "reference" if candidate_ulp >= FARTHER * max(reference_ulp, 1) else "alike"


def _unjudged(result: CategoryResult) -> CategoryResult:
    """Without a policy nothing is judged, but a case that a side could not run is rejected all the same."""
    failed = _failure(result)
    verdict = "rejected" if failed else "not_judged"
    return result.model_copy(update={"verdict": verdict, "because": failed, "limit": None, "margin": None})


def _failure(result: CategoryResult) -> str | None:
    return f"a side failed: {result.failures[0]}" if result.failures else None


def _judged(name: str, result: CategoryResult, output_dtypes: tuple[str, str], policy: Policy) -> CategoryResult:
    """One category with its verdict. output_dtypes: of both sides."""
    limit = policy.row_for(name, result.output_dtype)
    because = _reason_to_reject(name, result, output_dtypes, policy, limit)
    counted = result.limit is None or _same_numbers(limit, result.limit)  # fresh from the audit, or judged so before
    return result.model_copy(
        update={
            "verdict": "rejected" if because else "accepted",
            "because": because,
            "limit": limit and limit.model_copy(update={"when": When(), "reason": None}),
            "margin": None if limit is None else margin(result, limit),
            "violations": result.violations if counted else None,
        }
    )


def _same_numbers(one: Limit | None, other: Limit | None) -> bool:
    return one is not None and other is not None and elementwise(one) == elementwise(other) is not None


def _reason_to_reject(
    name: str, result: CategoryResult, dtypes: tuple[str, str], policy: Policy, limit: Limit | None
) -> str | None:
    if failed := _failure(result):
        return failed
    if not result.elements:
        return "nothing was compared"
    if result.nonfinite.mismatched:
        return f"{result.nonfinite.mismatched} outputs are NaN or infinite on one side only, or differently"
    if policy.nonfinite == "forbid" and name != NONFINITE_BY_DESIGN:
        count = max(result.nonfinite.reference, result.nonfinite.candidate)
        if count:
            return f"{count} outputs are NaN or infinite, and the tolerance forbids them"
    if policy.output_dtypes == "match" and dtypes[0] != dtypes[1]:
        return f"the candidate returns {dtypes[1]}, the reference {dtypes[0]}"
    if limit is None:
        return f"no row of the tolerance file covers category {name} with output dtype {result.output_dtype}"
    return None if passes(result, limit) else _excess(result, limit)


def passes(result: CategoryResult, limit: Limit) -> bool:
    """True where every finite element of the category is within the limit."""
    match limit:
        case Sum() | Either() | Max():
            return _worst_quotient(result, limit) <= 1
        case Ulp():
            return result.max_ulp <= limit.max_ulp
        case Ratio():
            return _ratio_passes(result, limit)
        case Exact():
            return result.differing_share == 0 and result.signed_zero == 0


def elementwise(limit: Limit) -> limits.Limit | None:
    """The limit as it is asked of each element; None for `ratio`, which is asked of a whole category."""
    match limit:
        case Sum() | Either() | Max():
            return limits.Limit(rule=limit.rule, atol=limit.atol, rtol=limit.rtol)
        case Ulp():
            return limits.Limit(rule="ulp", max_ulp=limit.max_ulp)
        case Exact():
            return limits.Limit(rule="exact")
        case Ratio():
            return None


def _worst_quotient(result: CategoryResult, limit: Sum | Either | Max) -> float:
    """d ÷ bound where it is largest; at most 1 exactly where every element is within (see `limits.margin`)."""
    bound = limits.Limit(rule=limit.rule, atol=limit.atol, rtol=limit.rtol)
    return limits.margin(bound, [limits.Point(*point) for point in result.points])


def _ratio_passes(result: CategoryResult, limit: Ratio) -> bool:
    oracle = result.oracle
    if oracle is None or oracle.candidate_lost > oracle.reference_lost:
        return False  # nothing to measure the ratio by is not a pass
    return within_ratio(limit, oracle.reference_ulp, oracle.candidate_ulp)


def within_ratio(limit: Ratio, reference_ulp: int, candidate_ulp: int) -> bool:
    """Whether the candidate's distance to the oracle is small enough beside the reference's."""
    return candidate_ulp <= _ratio_allows(reference_ulp, limit)


def _ratio_allows(reference_ulp: int, limit: Ratio) -> Fraction:
    return Fraction(limit.ratio) * max(reference_ulp, limit.floor_ulp)


def margin(result: CategoryResult, limit: Limit) -> float | None:
    """Measured ÷ limit, at the element where it is largest; over 1 fails. None where the limit there is zero."""
    match limit:
        case Sum() | Either() | Max():
            worst = _worst_quotient(result, limit)
        case Ulp():
            worst = _quotient(result.max_ulp, limit.max_ulp)
        case Exact():
            worst = _quotient(result.differing_share, 0)
        case Ratio():
            if result.oracle is None:
                return None
            worst = _quotient(result.oracle.candidate_ulp, float(_ratio_allows(result.oracle.reference_ulp, limit)))
    return worst if isfinite(worst) else None


def _quotient(measured: float, allowed: float) -> float:
    if not measured:
        return 0.0
    return measured / allowed if allowed else inf


def _excess(result: CategoryResult, limit: Limit) -> str:
    match limit:
        case Ulp():
            return f"{result.max_ulp} ulp where {limit.max_ulp} are allowed"
        case Exact():
            share = (
                f"{result.differing_share:.3g} of the elements differ"
                if result.differing_share
                else "signs of zero differ"
            )
            return f"{share} where the same bits are demanded"
        case Ratio():
            return (
                f"the candidate is farther from the oracle than {limit.ratio:g} times the reference's distance allows"
            )
        case _:
            worst = margin(result, limit)
            times = "the limit is 0" if worst is None else f"{worst:.3g} times the limit"
            return f"the largest error is {times} (rule {limit.rule})"


# --- waivers ---------------------------------------------------------------------------------------------------------


def _waived(
    results: dict[str, CategoryResult], record: "AcceptanceRecord | ModelRecord", policy: Policy, today: date
) -> tuple[list[Waiver], list[str], dict[str, CategoryResult]]:
    used: list[Waiver] = []
    notes: list[str] = []
    after = dict(results)
    for name, result in results.items():
        if result.verdict != "rejected" or result.limit is None or result.failures:
            continue
        ours = [waiver for waiver in policy.waivers if waiver.category == name]
        valid = [waiver for waiver in ours if waiver.expires >= today]
        notes += [
            f"the waiver for {name} and {w.variable} expired on {w.expires}: it no longer excuses anything"
            for w in ours
            if w not in valid
        ]
        if valid and not record.ladder:
            notes.append(f"the waiver for {name} does not apply: this record has no ladder to say which variable acts")
        elif valid and _only_waived_variables(name, record.ladder, {w.variable for w in valid}, result.limit):
            used += valid
            reason = f"{result.because}; waived: " + ", ".join(f"{w.variable} ({w.reason})" for w in valid)
            after[name] = result.model_copy(update={"verdict": "accepted_with_waiver", "because": reason})
        elif valid:
            notes.append(f"the waiver for {name} does not apply: variables that it does not name matter there too")
    idle = [w for w in policy.waivers if w not in used and w.expires >= today and w.category not in results]
    notes += [f"the waiver for {w.category} matches no category of this record" for w in idle]
    return used, notes, after


def _only_waived_variables(name: str, ladder: tuple[Rung, ...], waived: set[str], limit: Limit) -> bool:
    """True where a waived variable acts in the category, and each one that is not waived would pass alone.

    A stored rung has maxima, not points, so `sum` is judged by what is sufficient: all within atol, or all within rtol.
    """
    if not any(rung.variable in waived and name in rung.alone for rung in ladder):
        return False
    others = [rung for rung in ladder if rung.variable not in waived]
    return all(rung.impossible is None and _rung_passes(rung.alone.get(name), limit) for rung in others)


def enough_to_pass(record: AcceptanceRecord, rung: Rung) -> bool:
    """True where setting only this variable back in the candidate would surely pass every category."""
    if rung.impossible is not None or record.gate is None:
        return False
    limits_of = {name: result.limit for name, result in record.results.items()}
    return all(
        (limit := limits_of.get(name)) is not None and _rung_passes(errors, limit)
        for name, errors in rung.reverted.items()
    )


def _rung_passes(errors: RungErrors | None, limit: Limit) -> bool:
    if errors is None:
        return True
    if errors.nonfinite_mismatched:
        return False
    match limit:
        case Ulp():
            return errors.max_ulp <= limit.max_ulp
        case Sum() | Either() | Max():
            within_rtol = errors.max_rel_error <= limit.rtol and not errors.zero_reference
            return errors.max_abs_error <= limit.atol or within_rtol
        case _:
            return False
