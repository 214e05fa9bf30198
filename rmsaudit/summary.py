"""The two sentences at the top of a record, and the sentences that state its limits."""

from rmsaudit import gate
from rmsaudit.record import AcceptanceRecord, CategoryResult, Finding

MANY = 6


def summarise(record: AcceptanceRecord) -> str:
    """First the verdict with its worst number, then the cause."""
    return f"{_verdict(record)} {_cause(record)}".strip()


def scope_of(categories: int, *kinds: str) -> str:
    """What a record does and does not show. kinds: of the reference and of the candidate."""
    declared = set(kinds) == {"spec"}
    sides = "two declared implementations" if declared else " against ".join(f"kind {kind}" for kind in reversed(kinds))
    return (
        f"One RMSNorm, {categories} categories of inputs, {sides}. The categories do not exhaust the inputs, and a"
        " local error of one norm says nothing about the quality of a model that contains it."
    )


def _verdict(record: AcceptanceRecord) -> str:
    results = record.results
    match record.outcome:
        case "could_not_run":
            return "One side could not be run, so nothing was judged."
        case "nothing_compared":
            return "No element was compared, so nothing was judged."
        case "not_judged":
            return f"No tolerance was given, so nothing was judged. {_largest(results)}"
        case "accepted":
            return f"All {len(results)} categories are within the tolerance. {_largest(results)}"
        case "accepted_with_waiver":
            waived = [name for name, result in results.items() if result.verdict == "accepted_with_waiver"]
            return f"Within the tolerance, except for {', '.join(waived)}, which a waiver excuses."
        case _:
            return _rejection(record)


def _rejection(record: AcceptanceRecord) -> str:
    rejected = {name: result for name, result in record.results.items() if result.verdict == "rejected"}
    name, worst = max(rejected.items(), key=lambda item: (item[1].nonfinite.mismatched, item[1].max_ulp))
    count = f"{len(rejected)} of {len(record.results)} categories {'is' if len(rejected) == 1 else 'are'} rejected"
    first = f"{count}, most of all {name}: {worst.because}."
    if record.outcome == "reference_suspect":
        first += (
            " The reference is the side that is farther from the exact result in every one of them: look there first."
        )
    return first


def _largest(results: dict[str, CategoryResult]) -> str:
    name, worst = max(results.items(), key=lambda item: (item[1].nonfinite.mismatched, item[1].max_ulp))
    if worst.nonfinite.mismatched:
        return f"In {name}, {worst.nonfinite.mismatched} outputs are NaN or infinite on one side only."
    if worst.max_ulp == 0 and all(result.differing_share == 0 for result in results.values()):
        return "The two sides return the same bits everywhere."
    return f"The largest difference is {worst.max_ulp} ulp of {worst.output_dtype}, in {name}."


def _cause(record: AcceptanceRecord) -> str:
    if record.outcome in ("could_not_run", "nothing_compared"):
        return ""
    parts = [said for finding in record.findings if (said := _said(finding, record))]
    enough = [rung.variable for rung in record.ladder if rung.alone and gate.enough_to_pass(record, rung)]
    if enough and record.outcome in ("rejected", "reference_suspect"):
        parts.append(f"setting {' or '.join(enough)} back is enough to pass")
    far = [name for name, result in record.results.items() if result.oracle and len(result.oracle.far) == 2]
    if far:
        parts.append(f"both sides are far from the exact result in {', '.join(far)}")
    for name, names in _broken(record).items():
        parts += [f"the {name} breaks the behaviour{'s' * (len(names) > 1)} {', '.join(names)}"] if names else []
    return f"In detail: {'; '.join(parts)}." if parts else ""


def _broken(record: AcceptanceRecord) -> dict[str, list[str]]:
    """The behaviours that each side breaks."""
    sides = {"reference": record.reference, "candidate": record.candidate}
    return {
        name: [behaviour for behaviour, seen in side.behaviours.items() if seen.verdict == "broken"]
        for name, side in sides.items()
    }


def _said(finding: Finding, record: AcceptanceRecord) -> str:
    """Which categories the variable decides, by up to how much."""
    rung = next((rung for rung in record.ladder if rung.variable == finding.variable), None)
    if rung is None:
        return ""
    if not rung.decides:
        return f"{finding.variable} matters, but decides no category alone"
    largest = max((rung.alone[name].max_ulp for name in rung.decides if name in rung.alone), default=0)
    far = f" (up to {largest} ulp)" if largest else ""  # signs of zero and non-finite values are no ulp apart
    return f"{finding.variable} decides {_listed(rung.decides, record)}{far}"


def _listed(names: tuple[str, ...], record: AcceptanceRecord) -> str:
    """The categories, worst first; many are counted instead of named."""
    inorder = [name for name in record.results if name in names]
    if len(inorder) == len(record.results):
        return "all categories"
    if len(inorder) > MANY:
        return f"{', '.join(inorder[: MANY - 2])} and {len(inorder) - MANY + 2} more"
    return ", ".join(inorder)
