"""The two sentences at the top of a model's record, and those that state its limits."""

from rmsaudit.model_record import ModelRecord, SiteRow


def summarise(record: ModelRecord) -> str:
    """First the verdict with its worst number, then the causes."""
    numbers, broken = _verdict(record), _broken(record)
    first = (numbers, broken) if any(row.verdict == "rejected" for row in record.sites) else (broken, numbers)
    return " ".join(part for part in (*first, _causes(record)) if part)


def rows_judged_again(record: ModelRecord) -> tuple[SiteRow, ...]:
    """The table after another judgement of the categories, as far as it follows from them.

    Where every category passes over all sites, each site passes. A row keeps no points of its own, so where one does
    not, nothing is said of single sites.
    """
    verdict = "accepted" if all(result.verdict == "accepted" for result in record.results.values()) else "not_judged"
    again = {"verdict": verdict, "because": None, "rejected_in": ()}
    return tuple(row if row.verdict == "unpaired" else row.model_copy(update=again) for row in record.sites)


def scope_of(sites: int, run: int, categories: int) -> str:
    """What a record of a model does and does not show. run: how many of the sites were."""
    inputs = f"{categories} categor{'y' if categories == 1 else 'ies'} of inputs"
    if run == sites:
        counterparts = "its counterpart" if sites == 1 else "their counterparts"
        what = f"{_norms(sites)}, run beside {counterparts} in {inputs}, computed"
    else:
        what = (
            f"{_norms(sites)}, of which {run} {'was' if run == 1 else 'were'} run in {inputs}; at the others both sides"
            " are one function, or the same two as at one that was run. All are computed"
        )
    return (
        f"{what} as the architecture declares them: what the runtimes themselves do with these settings was not run."
        " The categories do not exhaust the inputs, and local errors of norms say nothing about the quality of the"
        " model."
    )


def _verdict(record: ModelRecord) -> str:
    paired = [row for row in record.sites if row.compared != "not_run"]
    total = sum(row.count for row in paired)
    off = [row for row in paired if row.worst]
    match record.outcome:
        case "could_not_run" | "nothing_compared":
            return "No norm was compared, so nothing was judged."
        case "not_judged":
            return f"No tolerance was given, so nothing was judged. {_differ(off, total)}"
        case "accepted":
            within = "The norm is" if total == 1 else f"All {_norms(total)} are"
            return f"{within} within the tolerance. {_differ(off, total)}"
    return " ".join(part for part in (_rejected(record, paired) or _differ(off, total), _suspect(record)) if part)


def _rejected(record: ModelRecord, paired: list[SiteRow]) -> str:
    """How many sites are rejected, and why; after another judgement, how many categories. Empty where none is."""
    rejected = [row for row in paired if row.verdict == "rejected"]
    if rejected:
        worst = max(rejected, key=_how_far)
        count, total = (sum(row.count for row in rows) for rows in (rejected, paired))
        where = f", most of all {worst.worst.site} in" if worst.worst else ", in"
        return f"{count} of {_norms(total)} {'is' if count == 1 else 'are'} rejected{where} {worst.because}."
    because = [f"{name}: {result.because}" for name, result in record.results.items() if result.verdict == "rejected"]
    if not because:
        return ""
    of_all = f"{len(because)} of {len(record.results)} categor{'y' if len(record.results) == 1 else 'ies'}"
    return f"{of_all} {'is' if len(because) == 1 else 'are'} rejected, first of all {because[0]}."


def _suspect(record: ModelRecord) -> str:
    if record.outcome != "reference_suspect":
        return ""
    return "Wherever it is rejected, the reference is farther from the exact result than the candidate."


def _norms(count: int) -> str:
    return f"{count} norm{'s' * (count != 1)}"


def _how_far(row: SiteRow) -> tuple[int, int]:
    return (row.worst.nonfinite_mismatched, row.worst.max_ulp) if row.worst else (-1, -1)


def _differ(off: list[SiteRow], total: int) -> str:
    if not off:
        return f"Both models return the same bits at {'all ' if total > 1 else ''}{_norms(total)}."
    row = max(off, key=_how_far)
    count = sum(each.count for each in off)
    assert row.worst is not None
    if row.worst.nonfinite_mismatched:
        far = f"{row.worst.nonfinite_mismatched} outputs are NaN or infinite on one side only"
    else:
        far = f"up to {row.worst.max_ulp} ulp"
    verb = "differs" if count == 1 else "differ"
    return f"{count} of {_norms(total)} {verb}: {far} ({row.worst.site}, {row.worst.category})."


def _broken(record: ModelRecord) -> str:
    if not record.broken:
        return ""
    more = f", and {len(record.broken) - 1} more" if len(record.broken) > 1 else ""
    return f"Before any number: {record.broken[0]}{more}."


def _causes(record: ModelRecord) -> str:
    said = [
        f"{found.cause}, {found.count} of {found.of} site{'s' * (found.of != 1)}"
        for found in record.findings
        if found.variable
    ]
    return f"In detail: {'; '.join(dict.fromkeys(said))}." if said else ""
