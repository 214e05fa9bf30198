"""What the texts of a pair and of a model are drawn with: the console, headings, tables, findings, results."""

from collections.abc import Iterable
from decimal import ROUND_CEILING, Context
from io import StringIO
from itertools import compress
from math import log2
from typing import TYPE_CHECKING, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rmsaudit.formats import FORMATS
from rmsaudit.record import AcceptanceRecord, CategoryResult, Finding, Range
from rmsaudit.reports import Style
from rmsaudit.tolerance import Either, Limit, Max, Ratio, Sum, Ulp

if TYPE_CHECKING:
    from rmsaudit.model_record import ModelRecord

Record: TypeAlias = "AcceptanceRecord | ModelRecord"
BAR = 12
GIVEN_UP = (("q/eps",), ("q/eps", ""), ("q/eps", "", "max rel"), ("q/eps", "", "max rel", "max abs"))
"""Columns of the results that a console goes without, the narrower the more; "" is the bar."""
ENDLESS = 400  # columns: no table is as wide
_COLORS = {
    "accepted": "green",
    "accepted_with_waiver": "yellow",
    "rejected": "red",
    "reference_suspect": "red",
    "not_judged": "cyan",
    "nothing_compared": "red",
    "could_not_run": "red",
}


def drawn(parts: Iterable[RenderableType], style: Style) -> str:
    """The parts as text; ANSI colour only where `style.color`."""
    out = StringIO()
    console = Console(
        file=out,
        width=style.width,
        force_terminal=style.color,
        no_color=not style.color,
        color_system="standard" if style.color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def heading(words: str) -> Text:
    """A line in bold, after an empty one."""
    return Text(f"\n{words}", style="bold")


def indented(part: RenderableType) -> Padding:
    """Two columns to the right."""
    return Padding(part, (0, 0, 0, 2))


def outcome(word: str) -> Text:
    """An outcome in capitals and in its colour."""
    return Text(word.replace("_", " ").upper(), style=f"bold {_COLORS[word]}")


def finding(found: Finding) -> RenderableType:
    """What, why it is believed, where it is declared and what to do."""
    where = [
        f"{side} at {place}"
        for side, place in (("reference", found.declared_at.reference), ("candidate", found.declared_at.candidate))
        if place
    ]
    lines: list[RenderableType] = [
        Text.assemble((f"{found.cause}: ", "bold"), found.claim),
        indented(Text(found.evidence)),
        *([indented(Text("declared: " + ", ".join(where)))] if where else []),
        indented(Text("next: " + found.next_step)),
    ]
    return Group(*lines)


def table(*columns: tuple[str, str]) -> Table:
    """A table of columns (title, how): `right`, `whole` (never broken over lines), or plain."""
    found = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for title, how in columns:
        found.add_column(title, justify="right" if how == "right" else "left", no_wrap=how != "")
    return found


class Fitting:
    """The first of several forms of the same that is not cut off by the width of the console, else the last."""

    def __init__(self, *forms: RenderableType) -> None:
        self.forms = forms

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for form in self.forms[:-1]:
            if _dots(form, console, options) == _dots(form, console, options.update(width=ENDLESS)):
                yield form
                return
        yield self.forms[-1]


def _dots(form: RenderableType, console: Console, options: ConsoleOptions) -> int:
    """How many … are drawn: those of the form itself, and one for each cell that is cut off."""
    return sum(segment.text.count("…") for line in console.render_lines(form, options) for segment in line)


def results(record: Record) -> RenderableType:
    """A row a category; limits where the record was judged, else what would pass. Narrow consoles see less of it."""
    full = _results(record)
    return indented(Fitting(full, *(_results(record, without) for without in GIVEN_UP)))


def _results(record: Record, without: tuple[str, ...] = ()) -> Table:
    """without: titles of columns that are left out."""
    judged = record.gate is not None
    verdict = (("verdict", "whole"),) if judged else ()
    last = (("limit", "whole"), ("margin", "right")) if judged else (("smallest limit that would pass", ""),)
    columns = (
        ("category", "whole"),
        *verdict,
        ("max abs", "right"),
        ("max rel", "right"),
        ("ulp", "right"),
        ("", "whole"),
        ("differ", "right"),
        ("q/eps", "whole"),
        *last,
    )
    kept = [title not in without for title, _ in columns]
    found = table(*compress(columns, kept))
    for name, result in record.results.items():
        color = {"rejected": "red", "accepted_with_waiver": "yellow"}.get(result.verdict, "")
        margin = "" if result.margin is None else f"{result.margin:.3g}"
        row: tuple[RenderableType, ...] = (
            Text(name, style=color),
            *([Text(result.verdict.replace("_", " "), style=color)] if judged else []),
            f"{result.max_abs_error:.3g}",
            f"{result.max_rel_error:.3g}",
            str(result.max_ulp),
            _bar(result.max_ulp, result.output_dtype),
            f"{100 * result.differing_share:.3g} %",
            _range(result.q_over_eps),
            *([_limit(result.limit), margin] if judged else [_smallest(result)]),
        )
        found.add_row(*compress(row, kept))
    return found


def _bar(ulp: int, dtype: str) -> str:
    """log2 of the distance, out of all the steps between 1 and 2 and a few binades beyond."""
    if ulp == 0:
        return "·"
    full = FORMATS[dtype].precision + 4
    return "█" * max(1, min(BAR, round(BAR * log2(ulp + 1) / full)))


def _range(found: Range | None) -> str:
    return "" if found is None else f"{_power(found.min)} … {_power(found.max)}"


def _power(value: float) -> str:
    """Two digits and a short exponent: 1.4e-5, 3.7e3, 0."""
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return mantissa if int(exponent) == 0 else f"{mantissa}e{int(exponent)}"


def _limit(limit: Limit | None) -> str:
    match limit:
        case None:
            return "none"
        case Ulp():
            return f"{limit.max_ulp} ulp"
        case Ratio():
            return f"{limit.ratio:g} × reference, floor {limit.floor_ulp} ulp"
        case Sum() | Either() | Max():
            return f"{limit.rule}: {limit.atol:g}, {limit.rtol:g}"
        case _:
            return limit.rule


def _smallest(result: CategoryResult) -> str:
    """The smallest limits that pass, each alone, rounded up to three digits so that what is shown passes as well."""
    smallest = result.smallest_passing
    if smallest.max_ulp == 0:
        return "exact"
    known = {"ulp": smallest.max_ulp, "atol": smallest.atol_at_rtol_0, "rtol": smallest.rtol_at_atol_0}
    return ", ".join(f"{name} {_rounded_up(value)}" for name, value in known.items() if value is not None) or "none"


def _rounded_up(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    up = Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(up):g}"


def worst(record: Record) -> list[RenderableType]:
    """The reasons that no number in the table shows, and the one element to look at first."""
    lines: list[RenderableType] = []
    for name, result in record.results.items():
        shown_in_the_table = result.margin is not None and result.margin > 1
        if result.verdict == "rejected" and result.because and not shown_in_the_table:
            lines.append(indented(Text(f"{name}: {result.because}")))
    name, first = next(((name, r.worst[0]) for name, r in record.results.items() if r.worst), ("", None))
    if first is not None:
        case = f", {first.case}" if first.case else ""
        values = {
            "input": first.input,
            "reference": first.reference,
            "candidate": first.candidate,
            "oracle": first.oracle,
        }
        shown = ", ".join(f"{what} {number(value)}" for what, value in values.items())
        where = f"worst element: {name}{case}, row {first.row}, column {first.column}: {shown}"
        lines.append(indented(Text(where)))
    return lines


def not_run(record: Record) -> list[RenderableType]:
    """Categories that were skipped, and why; then what the gate notes."""
    skipped = [f"{name}: {c.skipped}" for name, c in record.battery.categories.items() if c.skipped]
    parts: list[RenderableType] = []
    if skipped:
        parts += [heading("Not run"), *(indented(Text(line)) for line in skipped)]
    if record.gate and record.gate.notes:
        parts += [heading("Gate"), *(indented(Text(line)) for line in record.gate.notes)]
    return parts


def number(value: object) -> str:
    """A value for people: floats to six significant digits, everything else as written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return "none" if value is None else str(value)
