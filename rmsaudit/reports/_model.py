"""The record of a model as text: its sites first, its results only where something differs."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from rmsaudit.model_record import ModelRecord, RealRowsRecord, SiteEps, SiteFinding, SiteRow
from rmsaudit.reports._drawing import finding, heading, indented, not_run, number, outcome, results, table, worst

_COLORS = {"rejected": "red", "unpaired": "red", "accepted_with_waiver": "yellow", "accepted": "green"}
MOST_PATTERNS = 6  # a row shows so many lines of sites, and counts the rest


def parts(record: ModelRecord) -> Iterator[RenderableType]:
    """What is drawn, from top to bottom."""
    norms = f"{record.reference.norms} norms in {record.dtype}"
    yield outcome(record.outcome).append(
        f"  {record.candidate.name} against {record.reference.name}, {norms}", style=""
    )
    yield Text(record.summary)
    if record.findings:
        yield ""
    yield from map(_finding, record.findings)
    if record.broken:
        yield heading("Before any number")
        yield from (indented(Text(line)) for line in record.broken)
    yield heading("Sites, largest first")
    yield _sites(record)
    if record.real_rows:
        yield heading("Real rows")
        yield from (indented(Text(line)) for line in record.real_rows.says)
        yield _real_rows(record.real_rows)
    if any(result.differing_share or result.signed_zero for result in record.results.values()):
        yield heading("Results over all sites, largest first")
        yield results(record)
        yield from worst(record)
    yield from not_run(record)
    notes = [f"{side.name}: {note}" for side in (record.reference, record.candidate) for note in side.notes]
    if notes:
        yield heading("Notes")
        yield from (indented(Text(note)) for note in notes)
    yield ""
    yield Text(record.scope, style="dim")


def _finding(found: SiteFinding) -> RenderableType:
    sites = f"sites: {found.count} of {found.of}: {', '.join(found.sites)}"
    return Group(finding(found), indented(Text(sites)))


def _sites(record: ModelRecord) -> RenderableType:
    """What differs between the sides stands on two lines: the reference's, and below it the candidate's."""
    found = table(
        ("site", "whole"), ("", "right"), ("width", "right"), ("stored", "whole"), ("eps", "whole"), ("gains", ""),
        ("ulp", "whole"), ("verdict", "whole"),
    )  # fmt: skip
    for row in record.sites:
        color = _COLORS.get(row.verdict, "")
        found.add_row(
            Text("\n".join(_shown(row)), style=color),
            str(row.count),
            f"{row.groups}×{(row.width or 0) // row.groups}" if row.groups else number(row.width),
            _both(*row.stored),
            _eps(row.eps),
            row.gains,
            _farthest(row),
            Text(row.verdict.replace("_", " "), style=color),
        )
    return indented(found)


def _shown(row: SiteRow) -> list[str]:
    lines = list(row.sites)
    if len(lines) <= MOST_PATTERNS:
        return lines
    return [*lines[: MOST_PATTERNS - 1], f"and {len(lines) - MOST_PATTERNS + 1} more"]


def _both(reference: str | None, candidate: str | None) -> str:
    if reference == candidate:
        return reference or "no gains"
    return f"{reference or 'none'}\n{candidate or 'none'}"


def _eps(eps: SiteEps) -> str:
    if eps.reference is None:
        return ""
    if eps.reference_hex is None:
        return number(eps.reference)
    return f"{number(eps.reference)}\n{number(eps.candidate)}"


def _farthest(row: SiteRow) -> str:
    if row.worst is None:
        return "" if row.compared == "not_run" else "0"
    return f"{row.worst.max_ulp}\n{row.worst.category}"


def _real_rows(record: RealRowsRecord) -> RenderableType:
    found = table(
        ("site", "whole"), ("rows", "right"), ("q/eps", "whole"), ("under 49.25", "right"), ("touched", "right"),
        ("largest change", "right"),
    )  # fmt: skip
    for row in record.sites:
        span = "" if row.q_over_eps is None else f"{row.q_over_eps.min:.2g} … {row.q_over_eps.max:.2g}"
        found.add_row(
            "\n".join(row.sites), str(row.rows), span, _percent(row.below), _percent(row.touched),
            _percent(abs(row.largest_change)),
        )  # fmt: skip
    return indented(found)


def _percent(share: float) -> str:
    return "0" if not share else f"{100 * share:.3g} %"
