"""text: the tables and sentences that a person reads in a terminal."""

from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from rmsaudit.record import AcceptanceRecord, Rung
from rmsaudit.reports import Style
from rmsaudit.reports._drawing import drawn, finding, heading, indented, not_run, number, outcome, results, table, worst

if TYPE_CHECKING:
    from rmsaudit.model_record import ModelRecord


def render(record: "AcceptanceRecord | ModelRecord", style: Style) -> str:
    """The record as text; ANSI colour only where `style.color`."""
    if isinstance(record, AcceptanceRecord):
        return drawn(_parts(record), style)
    from rmsaudit.reports._model import parts

    return drawn(parts(record), style)


def _parts(record: AcceptanceRecord) -> list[RenderableType]:
    parts: list[RenderableType] = [_outcome(record), Text(record.summary), ""]
    if record.findings:
        parts += [*map(finding, record.findings)]
    if record.differing:
        parts += [heading("What differs"), _differing(record)]
    if record.results:
        parts += [heading("Results, largest first"), results(record), *worst(record)]
    if record.ladder:
        parts += [heading("One variable at a time"), _ladder(record)]
    parts += not_run(record)
    return [*parts, "", Text(record.scope, style="dim")]


def _outcome(record: AcceptanceRecord) -> Text:
    line = outcome(record.outcome)
    return line.append(f"  {record.candidate.name} against {record.reference.name}, width {record.dimension}", style="")


def _differing(record: AcceptanceRecord) -> RenderableType:
    found = table(("variable", "whole"), ("reference", ""), ("candidate", ""), ("declared at", ""))
    for name, difference in record.differing.items():
        hexes = difference.reference_hex, difference.candidate_hex
        values = [
            f"{number(value)} ({as_hex})" if as_hex else number(value)
            for value, as_hex in zip((difference.reference, difference.candidate), hexes, strict=True)
        ]
        sources = [side.resolved[name].source for side in (record.reference, record.candidate) if name in side.resolved]
        place = f"follows {difference.follows}" if difference.follows else " / ".join(sources)
        found.add_row(name, *values, place)
    return indented(found)


def _ladder(record: AcceptanceRecord) -> RenderableType:
    found = table(("variable", "whole"), ("from → to", ""), ("alone", ""), ("set back", ""), ("decides", ""))
    for rung in record.ladder:
        found.add_row(
            rung.variable,
            f"{number(rung.from_)} → {number(rung.to)}",
            rung.impossible or _largest(rung, "alone"),
            _largest(rung, "reverted"),
            _named(rung.decides, len(record.results)),
        )
    return indented(found)


def _largest(rung: Rung, kind: str) -> str:
    errors = getattr(rung, kind)
    if not errors:
        return "no difference"
    name, worst = max(errors.items(), key=lambda item: (item[1].nonfinite_mismatched, item[1].max_ulp))
    more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{worst.max_ulp} ulp in {name}{more}"


def _named(names: tuple[str, ...], total: int) -> str:
    if len(names) == total:
        return "all categories"
    return ", ".join(names) if names else "none"
