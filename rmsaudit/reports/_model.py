"""The record of a model as text: its sites first, its results only where something differs."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from rmsaudit.model_record import ActivationRow, ModelRecord, RealRowsRecord, SiteEps, SiteFinding, SiteRow
from rmsaudit.reports._drawing import (
    Fitting,
    finding,
    heading,
    indented,
    not_run,
    number,
    outcome,
    results,
    table,
    worst,
)

_COLORS = {"rejected": "red", "unpaired": "red", "accepted_with_waiver": "yellow", "accepted": "green"}
MOST_PASSED_OVER = 3  # tensors of a file of rows
MOST_PATTERNS = 6  # a row shows so many lines of sites, and counts the rest


def parts(record: ModelRecord) -> Iterator[RenderableType]:
    """What is drawn, from top to bottom."""
    count = record.reference.norms
    norms = f"{count} norm{'s' * (count != 1)} in {record.dtype}"
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
        yield from map(indented, _passed_over(record.real_rows))
    if any(result.differing_share or result.signed_zero for result in record.results.values()):
        yield heading("Results over all sites, largest first")
        yield results(record)
        yield from worst(record)
    yield from not_run(record)
    sides = {"reference": record.reference, "candidate": record.candidate}
    notes = [f"{word}, {side.name}: {note}" for word, side in sides.items() for note in side.notes]
    if notes:
        yield heading("Notes")
        yield from (indented(Text(note)) for note in notes)
    yield ""
    yield Text(record.scope, style="dim")


def _finding(found: SiteFinding) -> RenderableType:
    sites = f"sites: {found.count} of {found.of}: {', '.join(found.sites)}"
    return Group(finding(found), indented(Text(sites)))


def _sites(record: ModelRecord) -> RenderableType:
    """A table, or a paragraph for each of its rows where the console is too narrow for it."""
    return indented(Fitting(_table_of_sites(record), Group(*map(_paragraph, record.sites))))


def _paragraph(row: SiteRow) -> RenderableType:
    verdict = Text(row.verdict.replace("_", " "), style=_COLORS.get(row.verdict, ""))
    eps = _eps(row.eps).replace("\n", ", ")
    far, _, category = _farthest(row).partition("\n")
    said = (
        f"width {_width(row)}, stored as {_both(*row.stored).replace(chr(10), ', ')}",
        f"eps {eps}" if eps else "",
        f"gains {row.gains}",
        f"{far}{' ulp' * far.isdecimal()}{f' in {category}' * bool(category)}",
    )
    words = "; ".join(filter(None, said))
    count = f"{row.count} site{'s' * (row.count > 1)} "
    return Group(*map(Text, _shown(row)), indented(Text.assemble(count, verdict, f": {words}")))


def _width(row: SiteRow) -> str:
    return f"{row.groups}×{(row.width or 0) // row.groups}" if row.groups else number(row.width)


def _table_of_sites(record: ModelRecord) -> RenderableType:
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
            _width(row),
            _both(*row.stored),
            _eps(row.eps),
            row.gains,
            _farthest(row),
            Text(row.verdict.replace("_", " "), style=color),
        )
    return found


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
    mismatched = row.worst.nonfinite_mismatched
    return f"{f'{mismatched} nonfinite' if mismatched else row.worst.max_ulp}\n{row.worst.category}"


def _real_rows(record: RealRowsRecord) -> RenderableType:
    return indented(Fitting(_table_of_rows(record), Group(*map(_paragraph_of_rows, record.sites))))


def _paragraph_of_rows(row: ActivationRow) -> RenderableType:
    said = (
        f"{row.rows} row{'s' * (row.rows != 1)}; q/eps {_span(row) or 'none'}; {_percent(row.below)} under 49.25;"
        f" {_percent(row.touched)} touched, by up to {_percent(abs(row.largest_change))}"
    )
    return Group(*map(Text, row.sites), indented(Text(said)))


def _span(row: ActivationRow) -> str:
    return "" if row.q_over_eps is None else f"{row.q_over_eps.min:.2g} … {row.q_over_eps.max:.2g}"


def _table_of_rows(record: RealRowsRecord) -> RenderableType:
    found = table(
        ("site", "whole"), ("rows", "right"), ("q/eps", "whole"), ("under 49.25", "right"), ("touched", "right"),
        ("largest change", "right"),
    )  # fmt: skip
    for row in record.sites:
        found.add_row(
            "\n".join(row.sites), str(row.rows), _span(row), _percent(row.below), _percent(row.touched),
            _percent(abs(row.largest_change)),
        )  # fmt: skip
    return found


def _passed_over(record: RealRowsRecord) -> Iterator[Text]:
    for says in record.passed_over[:MOST_PASSED_OVER]:
        yield Text(f"Not counted: {says}.")
    more = len(record.passed_over) - MOST_PASSED_OVER
    if more > 0:
        yield Text(f"Not counted: {more} more tensor{'s' * (more > 1)}.")


def _percent(share: float) -> str:
    return "0" if not share else f"{100 * share:.3g} %"
