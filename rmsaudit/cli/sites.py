"""rmsaudit sites: every norm of a checkpoint, what it computes with, and what its gains look like."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rmsaudit.cli._options import output_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmsaudit.documents.checkpoints import Checkpoint
    from rmsaudit.documents.sites import Site, Sites
    from rmsaudit.gain_statistics import GainStatistics


@click.command(name="sites")
@click.argument("checkpoint")
@click.option("--all", "all_sites", is_flag=True, help="A line for every site, not one for all layers that are alike.")
@output_format
def command(checkpoint: str, all_sites: bool, output_format: str) -> None:
    """List every RMSNorm of a checkpoint: name, width, dtype, eps and where it is from, and its stored gains.

    CHECKPOINT is a folder of Hugging Face, a .safetensors, .gguf or .onnx file, or a URL of one. Only headers and the
    gains are read.

    \b
    Example: rmsaudit sites llama-tiny/
    """
    import os

    from rmsaudit.documents.checkpoints.opening import open_checkpoint
    from rmsaudit.documents.sites.find import find_sites
    from rmsaudit.storage import path_of

    opened = open_checkpoint(path_of(checkpoint))
    sites = find_sites(opened)
    rows = _rows(sites)
    if output_format != "text":
        click.echo(_document(opened, sites, rows, output_format), nl=False)
        return
    for line in _lines(opened, sites, rows, rows if all_sites else _grouped(rows)):
        click.echo(line, color=False if os.environ.get("NO_COLOR") else None)


# --- gains -----------------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """One line: a site, or several that are alike, under a name for all of them.

    gains: None where there are none, or where they are in no dtype of ours.
    """

    name: str
    sites: "tuple[Site, ...]"
    gains: "GainStatistics | None"

    @property
    def doubt(self) -> str | None:
        """What the gains look like, if an offset seems to be in them twice, or not at all."""
        from rmsaudit.gain_statistics import doubt_about

        offset = self.sites[0].declared.get("gain_offset")
        return None if self.gains is None or offset is None else doubt_about(self.gains, offset)


def _rows(sites: "Sites") -> list[_Row]:
    from rmsaudit.cli._progress import progress

    rows = []
    with progress() as notify:
        for number, site in enumerate(sites.sites):
            notify(f"{number} of {len(sites.sites)} sites, {site.name}")
            rows.append(_row(site))
    return rows


def _row(site: "Site") -> _Row:
    from rmsaudit.formats import FORMATS
    from rmsaudit.gain_statistics import statistics
    from rmsaudit.loaders import tensors

    if site.tensor is None or site.tensor.dtype not in FORMATS:
        return _Row(site.name, (site,), None)
    return _Row(site.name, (site,), statistics(tensors.load(site.tensor)))


def _grouped(rows: list[_Row]) -> list[_Row]:
    """Sites that differ in the number of their layer only, together."""
    from functools import reduce

    from rmsaudit.activations.layers import without_layer
    from rmsaudit.gain_statistics import GainStatistics
    from rmsaudit.model.names import compact

    groups: dict[Any, list[_Row]] = {}
    for row in rows:
        key = without_layer(row.name), _facts(row.sites[0]), row.gains is None
        groups.setdefault(key, []).append(row)
    merged = []
    for members in groups.values():
        gains = [row.gains for row in members if row.gains is not None]
        merged.append(
            _Row(
                name=" ".join(compact(row.name for row in members)),
                sites=tuple(site for row in members for site in row.sites),
                gains=reduce(GainStatistics.merge, gains) if gains else None,
            )
        )
    return merged


def _facts(site: "Site") -> tuple[object, ...]:
    dtype = None if site.tensor is None else site.tensor.dtype
    return (*sorted(site.declared.items()), site.preset, site.eps, site.note, dtype)


# --- text ------------------------------------------------------------------------------------------------------------


def _lines(checkpoint: "Checkpoint", sites: "Sites", rows: list[_Row], shown: list[_Row]) -> "Iterator[str]":
    """shown: the lines of the table."""
    from rmsaudit.documents.problems import printable

    name = printable(checkpoint.path.name or str(checkpoint.path))
    of = f" of {printable(sites.architecture)}" if sites.architecture else ""
    yield f"{name}: {_counted(len(sites.sites), 'RMSNorm')}{of}, {checkpoint.format}"
    if rows:
        yield ""
        yield from _table(shown)
        yield ""
        yield from _said("eps ", ((f"{site.eps.value:g}: {site.eps.source}", site) for site in sites.sites))
        yield from _said("computed as ", ((site.preset, site) for site in sites.sites))
        yield from _said("", ((site.note, site) for site in sites.sites if site.note))
    for warning in _warnings(sites, rows):
        yield f"{click.style('warning', fg='yellow')}: {warning}"
    for note in (*checkpoint.notes, *sites.notes):
        yield f"note: {note}"


def _said(before: str, facts: "Iterable[tuple[str, Site]]") -> "Iterator[str]":
    """Each fact once, with the number of sites that it holds of; the most frequent first."""
    counts: dict[str, int] = {}
    for fact, _ in facts:
        counts[fact] = counts.get(fact, 0) + 1
    for fact, count in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"{before}{fact} ({_counted(count, 'site')})"


def _warnings(sites: "Sites", rows: list[_Row]) -> "Iterator[str]":
    """Of all rows, one for each site."""
    from rmsaudit.activations.layers import where
    from rmsaudit.documents.problems import printable

    yield from (each.says for each in sites.disagreements)
    for doubt in dict.fromkeys(row.doubt for row in rows if row.doubt):
        doubtful = [row for row in rows if row.doubt == doubt]
        of_all = f"{len(doubtful)} of {_counted(len(rows), 'site')}"
        yield f"the stored gains of {of_all} look {doubt}, in {where(row.name for row in doubtful)}"
    unread = [row.sites[0].tensor.dtype for row in rows if row.gains is None and row.sites[0].tensor]
    if unread:
        dtypes = printable(", ".join(dict.fromkeys(unread)))
        has = "has" if len(unread) == 1 else "have"
        yield f"{_counted(len(unread), 'site')} {has} gains in {dtypes}, of which no values are read"
    odd = [row for row in rows if row.gains and row.gains.nonfinite]
    if odd:
        count = sum(row.gains.nonfinite for row in odd if row.gains)
        are = "is" if count == 1 else "are"
        yield f"{_counted(count, 'gain')} {are} infinite or NaN, in {where(row.name for row in odd)}"


_HEADS = ("width", "dtype", "eps", "offset", "gains: min", "mean", "max", "rms", "zero", "below 0")


def _table(rows: list[_Row]) -> "Iterator[str]":
    """A line for each row, under a line of titles; a column that says nothing is left out."""
    from rmsaudit.documents.problems import printable

    cells = [_cells(row) for row in rows]
    columns = [
        [head, *column] for head, column in zip(_HEADS, zip(*cells, strict=True), strict=True) if any(map(bool, column))
    ]
    widths = [max(map(len, column)) for column in columns]
    names = ["site", *(printable(row.name) for row in rows)]
    longest = max(map(len, names))
    for number, line in enumerate(zip(*columns, strict=True)):
        aligned = [cell.rjust(size) for cell, size in zip(line, widths, strict=True)]
        text = "  ".join([names[number].ljust(longest), *aligned])
        yield text.rstrip() if number else click.style(text, bold=True)


def _cells(row: _Row) -> tuple[str, ...]:
    declared, tensor, gains = row.sites[0].declared, row.sites[0].tensor, row.gains
    groups = f"{declared['groups']}×" if "groups" in declared else ""
    width = f"{groups}{declared['width'] // declared.get('groups', 1)}"
    dtype = "no gain" if tensor is None else tensor.dtype
    offset = f"{declared['gain_offset']:g}" if "gain_offset" in declared else ""
    facts = (width, dtype, f"{declared['eps']:g}", offset)
    if gains is None or gains.count == gains.nonfinite:
        return (*facts, *("" for _ in _HEADS[len(facts) :]))
    numbers = (gains.smallest, gains.mean, gains.largest, gains.rms)
    shares = (gains.zeros / gains.count, gains.negatives / gains.count)
    return (*facts, *(f"{number:.3g}" for number in numbers), *map(_percent, shares))


def _percent(share: float) -> str:
    from rmsaudit.activations.words import percent

    return percent(share) if share else ""


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# --- documents -------------------------------------------------------------------------------------------------------


def _document(checkpoint: "Checkpoint", sites: "Sites", rows: list[_Row], output_format: str) -> str:
    """The same as data, every site by itself. Statistics have six digits; counts are exact."""
    document = {
        "schema": "rmsaudit/sites/1",
        "checkpoint": checkpoint.path.name,
        "format": checkpoint.format,
        "architecture": sites.architecture,
        "sites": {row.name: _site(row) for row in rows},
        "disagreements": [{"used": each.used, "says": each.says} for each in sites.disagreements],
        "notes": [*checkpoint.notes, *sites.notes],
    }
    if output_format == "json":
        import json

        return json.dumps(document, indent=2) + "\n"
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
    return text


def _site(row: _Row) -> dict[str, Any]:
    (site,) = row.sites
    told: dict[str, Any] = {
        "tensor": site.tensor and site.tensor.name,
        "file": site.tensor and site.tensor.path.name,
        "dtype": site.tensor and site.tensor.dtype,
        "preset": site.preset,
        "declared": {name: {"value": value, "source": site.source[name]} for name, value in site.declared.items()},
    }
    if site.note:
        told["note"] = site.note
    if row.gains is not None:
        told["gains"] = _gains(row.gains)
    if row.doubt:
        told["warning"] = f"stored gains look {row.doubt}"
    return told


def _gains(gains: "GainStatistics") -> dict[str, Any]:
    found = {"min": gains.smallest, "mean": gains.mean, "max": gains.largest, "rms": gains.rms}
    finite = {name: float(f"{value:.6g}") for name, value in found.items()} if gains.count > gains.nonfinite else {}
    return {**finite, "zeros": gains.zeros, "negatives": gains.negatives, "nonfinite": gains.nonfinite}
