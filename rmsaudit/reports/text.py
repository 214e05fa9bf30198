"""text: the tables and sentences that a person reads in a terminal."""

from decimal import ROUND_CEILING, Context
from io import StringIO
from math import log2

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rmsaudit.formats import FORMATS
from rmsaudit.record import AcceptanceRecord, CategoryResult, Finding, Range, Rung
from rmsaudit.reports import Style
from rmsaudit.tolerance import Either, Limit, Max, Ratio, Sum, Ulp

BAR = 12
_COLORS = {
    "accepted": "green",
    "accepted_with_waiver": "yellow",
    "rejected": "red",
    "reference_suspect": "red",
    "not_judged": "cyan",
    "nothing_compared": "red",
    "could_not_run": "red",
}


def render(record: AcceptanceRecord, style: Style) -> str:
    """The record as text; ANSI colour only where `style.color`."""
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
    for part in _parts(record):
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _parts(record: AcceptanceRecord) -> list[RenderableType]:
    parts: list[RenderableType] = [_outcome(record), Text(record.summary), ""]
    if record.findings:
        parts += [*map(_finding, record.findings)]
    if record.differing:
        parts += [_heading("What differs"), _differing(record)]
    if record.results:
        parts += [_heading("Results, largest first"), _results(record), *_worst(record)]
    if record.ladder:
        parts += [_heading("One variable at a time"), _ladder(record)]
    skipped = [f"{name}: {c.skipped}" for name, c in record.battery.categories.items() if c.skipped]
    if skipped:
        parts += [_heading("Not run"), *(Padding(Text(line), (0, 0, 0, 2)) for line in skipped)]
    if record.gate and record.gate.notes:
        parts += [_heading("Gate"), *(Padding(Text(line), (0, 0, 0, 2)) for line in record.gate.notes)]
    return [*parts, "", Text(record.scope, style="dim")]


def _heading(words: str) -> Text:
    return Text(f"\n{words}", style="bold")


def _outcome(record: AcceptanceRecord) -> Text:
    word = record.outcome.replace("_", " ").upper()
    line = Text(word, style=f"bold {_COLORS[record.outcome]}")
    return line.append(f"  {record.candidate.name} against {record.reference.name}, width {record.dimension}", style="")


def _finding(finding: Finding) -> RenderableType:
    where = [
        f"{side} at {place}"
        for side, place in (("reference", finding.declared_at.reference), ("candidate", finding.declared_at.candidate))
        if place
    ]
    lines: list[RenderableType] = [
        Text.assemble((f"{finding.cause}: ", "bold"), finding.claim),
        Padding(Text(finding.evidence), (0, 0, 0, 2)),
        Padding(Text("declared: " + ", ".join(where)), (0, 0, 0, 2)),
        Padding(Text("next: " + finding.next_step), (0, 0, 0, 2)),
    ]
    return Group(*lines)


def _table(*columns: tuple[str, str]) -> Table:
    """A table of columns (title, how): `right`, `whole` (never broken over lines), or plain."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for title, how in columns:
        table.add_column(title, justify="right" if how == "right" else "left", no_wrap=how != "")
    return table


def _differing(record: AcceptanceRecord) -> RenderableType:
    table = _table(("variable", "whole"), ("reference", ""), ("candidate", ""), ("declared at", ""))
    for name, difference in record.differing.items():
        hexes = difference.reference_hex, difference.candidate_hex
        values = [
            f"{number(value)} ({as_hex})" if as_hex else number(value)
            for value, as_hex in zip((difference.reference, difference.candidate), hexes, strict=True)
        ]
        sources = [side.resolved[name].source for side in (record.reference, record.candidate) if name in side.resolved]
        place = f"follows {difference.follows}" if difference.follows else " / ".join(sources)
        table.add_row(name, *values, place)
    return Padding(table, (0, 0, 0, 2))


def _results(record: AcceptanceRecord) -> RenderableType:
    judged = record.gate is not None
    verdict = (("verdict", "whole"),) if judged else ()
    last = (("limit", "whole"), ("margin", "right")) if judged else (("smallest limit that would pass", ""),)
    table = _table(
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
    for name, result in record.results.items():
        color = {"rejected": "red", "accepted_with_waiver": "yellow"}.get(result.verdict, "")
        margin = "" if result.margin is None else f"{result.margin:.3g}"
        table.add_row(
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
    return Padding(table, (0, 0, 0, 2))


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


def _worst(record: AcceptanceRecord) -> list[RenderableType]:
    """The reasons that no number in the table shows, and the one element to look at first."""
    lines: list[RenderableType] = []
    for name, result in record.results.items():
        shown_in_the_table = result.margin is not None and result.margin > 1
        if result.verdict == "rejected" and result.because and not shown_in_the_table:
            lines.append(Padding(Text(f"{name}: {result.because}"), (0, 0, 0, 2)))
    name, worst = next(((name, r.worst[0]) for name, r in record.results.items() if r.worst), ("", None))
    if worst is not None:
        case = f", {worst.case}" if worst.case else ""
        values = {
            "input": worst.input,
            "reference": worst.reference,
            "candidate": worst.candidate,
            "oracle": worst.oracle,
        }
        shown = ", ".join(f"{what} {number(value)}" for what, value in values.items())
        where = f"worst element: {name}{case}, row {worst.row}, column {worst.column}: {shown}"
        lines.append(Padding(Text(where), (0, 0, 0, 2)))
    return lines


def _ladder(record: AcceptanceRecord) -> RenderableType:
    table = _table(("variable", "whole"), ("from → to", ""), ("alone", ""), ("set back", ""), ("decides", ""))
    for rung in record.ladder:
        table.add_row(
            rung.variable,
            f"{number(rung.from_)} → {number(rung.to)}",
            rung.impossible or _largest(rung, "alone"),
            _largest(rung, "reverted"),
            _named(rung.decides, len(record.results)),
        )
    return Padding(table, (0, 0, 0, 2))


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


def number(value: object) -> str:
    """A value for people: floats to six significant digits, everything else as written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return "none" if value is None else str(value)
