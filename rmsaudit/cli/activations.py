"""rmsaudit activations: how near to eps the rows lie that entered the norms of a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rmsaudit.cli._histogram import Histogram, power
from rmsaudit.cli._options import MODEL_DTYPES, output_format
from rmsaudit.cli.attenuation import PositiveNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from fractions import Fraction

    from rmsaudit.activations.change import Change
    from rmsaudit.activations.distribution import Distribution
    from rmsaudit.activations.survey import Survey
    from rmsaudit.documents.tensors import TensorPlace
    from rmsaudit.semantics import NormSpec

BAR = 20
MOST_LINES = 24  # of the table, unless --all
MOST_TOLD = 5
QUANTILES = {"p1": 0.01, "p50": 0.5, "p99": 0.99}


@click.command(name="activations")
@click.argument("activations", metavar="FILE")
@click.option(
    "--eps-from", metavar="PATH", help="A config.json, a GGUF file or a checkpoint folder, whose eps is used."
)
@click.option("--eps", type=PositiveNumber(), help="The eps of every site, in place of --eps-from.")
@click.option("--other-eps", type=PositiveNumber(), help="Also say what this eps would change.")
@click.option(
    "--max-loss", type=PositiveNumber(below=1), default=0.01, show_default=True, help="Attenuation that is still fine."
)
@click.option(
    "--dtype",
    type=click.Choice(MODEL_DTYPES),
    default="float32",
    show_default=True,
    help="Of the outputs, for --other-eps.",
)
@click.option("--all", "all_sites", is_flag=True, help="A line for every site, however many there are.")
@output_format
def command(
    activations: str,
    eps_from: str | None,
    eps: float | None,
    other_eps: float | None,
    max_loss: float,
    dtype: str,
    all_sites: bool,
    output_format: str,
) -> None:
    """Say how the mean squares q of real rows lie to eps, site by site: those that eps attenuates come first.

    FILE is safetensors: for each norm a tensor [..., width] of its inputs, under the path of its module. It is read in
    blocks, whatever its size; a URL will do.

    \b
    Example: rmsaudit activations acts.safetensors --eps-from config.json
    """
    import os
    from fractions import Fraction

    from rmsaudit.storage import path_of

    if (eps is None) == (eps_from is None):
        raise click.UsageError("give either --eps-from PATH or --eps NUMBER")
    read = _read(path_of(activations), eps_from, eps, dtype)
    found = _survey(read, other_eps, Fraction(str(max_loss)))
    if output_format == "text":
        for line in _lines(read, found, other_eps, all_sites=all_sites):
            click.echo(line, color=False if os.environ.get("NO_COLOR") else None)
    else:
        click.echo(_document(read, found, output_format), nl=False)


# --- reading ---------------------------------------------------------------------------------------------------------


class _Site(NamedTuple):
    place: "TensorPlace"
    spec: "NormSpec"


class _Read(NamedTuple):
    """sites: those with rows. source: where eps is from. passed_over: why tensors of the file are not among them."""

    path: Path
    sites: "Mapping[str, _Site]"
    source: str
    passed_over: list[str]


def _read(path: Path, eps_from: str | None, eps: float | None, dtype: str) -> _Read:
    """Raises InputProblem."""
    from rmsaudit.documents.problems import printable
    from rmsaudit.documents.tensors import read_tensors
    from rmsaudit.errors import InputProblem, Problem

    tensors = read_tensors(path)
    spec_of, source = _specs(eps_from, eps, dtype)
    sites, passed_over = {}, []
    for name, place in tensors.items():
        found = _site_of(place, spec_of, source, eps_from or "--eps")
        if isinstance(found, _Site):
            sites[name] = found
        else:
            passed_over.append(f"{printable(name)} {found}")
    if not sites:
        more = f"; and {len(passed_over) - MOST_TOLD} more" if len(passed_over) > MOST_TOLD else ""
        says = f"holds no rows of a norm: {'; '.join(passed_over[:MOST_TOLD]) or 'it is empty'}{more}"
        raise InputProblem([Problem(path=str(path), says=says, kind="no-rows")])
    return _Read(path, sites, source, passed_over)


def _site_of(
    place: "TensorPlace", spec_of: "Callable[[TensorPlace], NormSpec | None]", source: str, given: str
) -> _Site | str:
    """The norm that a tensor's rows enter, or why there is none. given: the path or flag that eps is from.

    Raises InputProblem where it cannot be computed.
    """
    from rmsaudit.activations.rows import why_no_rows
    from rmsaudit.documents.problems import printable
    from rmsaudit.errors import InputProblem, Problem

    if "/" in place.name:
        return "is no input of a norm; see `rmsaudit placement`"
    reason = why_no_rows(place)
    if reason:
        return reason
    try:
        spec = spec_of(place)
    except ValueError as problem:  # values that cannot hold together
        says = f"{printable(place.name)} enters a norm that cannot be computed: {problem}"
        raise InputProblem([Problem(path=given, says=says, kind="cannot-resolve")]) from None
    if spec is None:
        return f"is the name of no norm in {source}"
    return why_no_rows(place, spec.width) or _Site(place, spec)


def _specs(
    eps_from: str | None, eps: float | None, dtype: str
) -> "tuple[Callable[[TensorPlace], NormSpec | None], str]":
    """From a tensor to the norm that it enters (None where no norm has its name), and where the eps is from."""
    from dataclasses import replace

    from rmsaudit.semantics.resolve import resolve
    from rmsaudit.storage import path_of

    if eps_from is None:
        return (lambda place: _plain(place, eps, dtype)), f"eps {eps:g}"
    path = path_of(eps_from)
    if path.suffix == ".json":
        value, source = _of_config(path)
        return (lambda place: _plain(place, value, dtype)), source
    from rmsaudit.documents.checkpoints.opening import open_checkpoint
    from rmsaudit.documents.preset import read_preset
    from rmsaudit.documents.sites.find import find_sites

    sites = {site.name: site for site in find_sites(open_checkpoint(path)).sites}

    def spec_of(place: "TensorPlace") -> "NormSpec | None":
        site = sites.get(place.name)
        if site is None:
            return None
        spec = resolve({**read_preset(site.preset).values, **site.declared})
        return replace(spec, output_dtype=dtype)

    return spec_of, path.name


def _plain(place: "TensorPlace", eps: float | None, dtype: str) -> "NormSpec | None":
    from rmsaudit.semantics.resolve import resolve

    return resolve({"width": place.shape[-1], "eps": eps, "input_dtype": dtype}) if place.shape else None


def _of_config(path: Path) -> tuple[float, str]:
    from rmsaudit.documents.eps import FromConfig, find_eps
    from rmsaudit.documents.problems import Refused
    from rmsaudit.errors import InputProblem, Problem

    try:
        found = find_eps(FromConfig(config=path.name), path.parent)
    except Refused as refused:
        raise InputProblem([Problem(path="--eps-from", says=refused.says, kind=refused.kind)]) from None
    return found.value, f"eps {found.value:g} from {found.source}"


def _survey(read: _Read, other_eps: float | None, max_loss: Any) -> "dict[str, Survey]":
    """Every site, read once. Raises InputProblem for a norm whose eps cannot be weighed."""
    from dataclasses import replace

    from rmsaudit.activations.rows import blocks
    from rmsaudit.activations.survey import survey
    from rmsaudit.cli._progress import progress
    from rmsaudit.documents.problems import printable
    from rmsaudit.errors import InputProblem, Problem

    total = sum(site.place.length for site in read.sites.values())
    done = 0
    found = {}
    with progress() as notify:
        for name, (place, spec) in read.sites.items():
            other = None if other_eps is None else replace(spec, eps=other_eps)

            def advance(size: int, name: str = name) -> None:
                nonlocal done
                done += size
                notify(f"{_bar(done / total)} {printable(name)}")

            try:
                rows = blocks(place, spec.width)
                found[name] = survey(rows, spec, other, max_loss=max_loss, notify=advance)
            except ValueError as problem:
                says = f"{printable(name)}: {problem}"
                raise InputProblem([Problem(path=str(read.path), says=says, kind="no-law")]) from None
    return found


def _bar(share: float) -> str:
    full = min(BAR, int(BAR * share))
    return f"{'█' * full}{'░' * (BAR - full)} {100 * share:3.0f} %"


# --- text ------------------------------------------------------------------------------------------------------------


def _lines(read: _Read, found: "dict[str, Survey]", other_eps: float | None, *, all_sites: bool) -> "Iterator[str]":
    from rmsaudit.activations.words import said_of_eps
    from rmsaudit.documents.problems import printable

    distributions = {printable(name): each.distribution for name, each in found.items()}
    rows = sum(each.rows + each.unusual for each in distributions.values())
    yield f"{printable(read.path.name)}: {rows} rows at {_counted(len(found), 'site')}; {read.source}"
    yield ""
    yield from _table(distributions, all_sites=all_sites)
    yield ""
    yield said_of_eps(distributions)
    yield from _said_of_unusual(distributions)
    if other_eps is not None:
        yield _said_of_change(read, found, other_eps)
    for says in read.passed_over[:MOST_TOLD]:
        yield f"Not counted: {says}."
    if len(read.passed_over) > MOST_TOLD:
        yield f"Not counted: {_counted(len(read.passed_over) - MOST_TOLD, 'more tensor')}."


def _said_of_change(read: _Read, found: "dict[str, Survey]", other_eps: float) -> str:
    from rmsaudit.activations.words import said_of_change

    values = sorted({site.spec.eps for site in read.sites.values()})
    what = f"eps {other_eps:g} for {' and '.join(f'{value:g}' for value in values)}"
    changes = {name: each.change for name, each in found.items() if each.change}
    return said_of_change(changes, what, next(iter(read.sites.values())).spec.output_dtype)


def _said_of_unusual(found: "dict[str, Distribution]") -> "Iterator[str]":
    from rmsaudit.activations.layers import where

    for kind, what in (("zero", "of zeros"), ("infinite", "with an infinity"), ("nan", "with NaN")):
        at = [name for name, each in found.items() if getattr(each, kind)]
        if at:
            count = sum(getattr(each, kind) for each in found.values())
            yield f"Apart from these: {_counted(count, 'row')} {what}, in {where(at)}."


def _table(found: "dict[str, Distribution]", *, all_sites: bool) -> "Iterator[str]":
    """One line for each site, or for sites alike in different layers without a row below the limit; worst first."""
    lines = found if all_sites else _grouped(found)
    ordered = sorted(lines.items(), key=lambda item: (-item[1].below_share, item[1].smallest_ratio))
    shown = ordered if all_sites else ordered[:MOST_LINES]
    name_width = max(len(name) for name, _ in shown)
    picture = Histogram.over([each for _, each in shown])
    limit = next(iter(found.values()))
    below = f"q/eps<{limit.limit / limit.law.knee:.4g}" if limit.law.knee else ""
    heads = ["rows", below, *_COLUMNS, "loss"]
    yield click.style(_row("site".ljust(name_width), heads, picture.axis), bold=True)
    for name, each in shown:
        yield _row(name.ljust(name_width), _cells(each), picture.draw(each))
    if len(ordered) > len(shown):
        yield f"and {_counted(len(ordered) - len(shown), 'line')} more, farther from eps; --all shows them"


def _cells(each: "Distribution") -> list[str]:
    from rmsaudit.activations.words import percent

    if not each.rows:
        return [str(each.rows), "", *("" for _ in _COLUMNS), ""]
    ratios = (each.smallest_ratio, *(each.quantile_ratio(share) for share in QUANTILES.values()), each.largest_ratio)
    return [str(each.rows), percent(each.below_share), *map(power, ratios), percent(each.largest_loss)]


_COLUMNS = ("min", *QUANTILES, "max")  # of q/eps
_WIDTHS = (9, 13, *(8 for _ in _COLUMNS), 13)


def _row(name: str, cells: list[str], picture: str) -> str:
    """A line of the table; a cell that is too long moves the others, and does not touch them."""
    aligned = (f" {cell}".rjust(size) for cell, size in zip(cells, _WIDTHS, strict=True))
    return f"{name}{''.join(aligned)}  {picture}".rstrip()


def _grouped(found: "dict[str, Distribution]") -> "dict[str, Distribution]":
    """Sites that differ in their layer only, and have no row below the limit, together under one name."""
    from functools import reduce

    from rmsaudit.activations.distribution import Distribution
    from rmsaudit.activations.layers import without_layer
    from rmsaudit.model.names import compact

    groups: dict[Any, list[str]] = {}
    for name, each in found.items():
        key = name if each.below else (without_layer(name), each.law)
        groups.setdefault(key, []).append(name)
    return {compact(names)[0]: reduce(Distribution.merge, (found[name] for name in names)) for names in groups.values()}


# --- documents -------------------------------------------------------------------------------------------------------


def _document(read: _Read, found: "dict[str, Survey]", output_format: str) -> str:
    """The same as data, every site by itself. Numbers that help a reader have six digits; counts are exact."""
    sites = {name: _site(each) for name, each in found.items()}
    document = {
        "schema": "rmsaudit/activations/1",
        "file": read.path.name,
        "source": read.source,
        "max_loss": float(next(iter(found.values())).distribution.max_loss),
        "sites": sites,
        "passed_over": read.passed_over,
    }
    if output_format == "json":
        import json

        return json.dumps(document, indent=2) + "\n"
    import yaml

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def _site(survey: "Survey") -> dict[str, Any]:
    each = survey.distribution
    told: dict[str, Any] = {
        "rows": each.rows,
        "zero": each.zero,
        "infinite": each.infinite,
        "nan": each.nan,
        "eps": float(each.law.eps),
        "below": each.below,
        "below_share": each.below_share,
    }
    if each.rows and each.law.knee:
        ratios = {name: each.quantile_ratio(share) for name, share in QUANTILES.items()}
        told["q_over_eps"] = {"min": each.smallest_ratio, **ratios, "max": each.largest_ratio}
        told["q_over_eps"] = {name: _six(value) for name, value in told["q_over_eps"].items()}
        told["largest_loss"] = _six(each.largest_loss)
    if survey.change:
        told["other_eps"] = {
            "changed": {f"more than {float(b):.3g}": n for b, n in _asked(survey.change)},
            "largest_change": _six(survey.change.largest),
        }
    return told


def _asked(change: "Change") -> "Iterator[tuple[Fraction, int]]":
    """Each bound, and how many rows change by more."""
    return zip(change.bounds, change.changed, strict=True)


def _six(value: float) -> float:
    return float(f"{value:.6g}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
