"""Everything that can be read of a black box: its structure, its eps and where that acts, and what cannot be seen.

The structure comes first (`structure.py`), then how the factor of a row follows its scale (`scale_law.py`), then what
becomes of an eps that is asked for. What is claimed is what every row leaves; what does not stand is not claimed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Any

from rmsaudit.inversion.black_box import CannotAsk, Run
from rmsaudit.inversion.box import Box, NotThisFamily
from rmsaudit.inversion.decimals import Written, simplest, written
from rmsaudit.inversion.divisors import Divisor
from rmsaudit.inversion.eps_argument import EpsArgument, compare
from rmsaudit.inversion.eps_reading import UNSEEN, EpsReading, Placed, equivalences
from rmsaudit.inversion.questions import at_width, read_structure
from rmsaudit.inversion.scale_law import Prescale, ScaleLaw, View, read_scale_law
from rmsaudit.inversion.structure import ONE_ROUNDING, Structure

WIDTHS = (256, 64)  # powers of four: n, 1/n and √n are exact


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a black box was found to be. structures: at each of `widths`.

    eps: the placements that stand, with the interval of eps for each; any of them explains every row. argument: what
    happens to an eps that is asked for; None where none was. not_observable: what these inputs cannot show, each with
    its reason.
    """

    input_dtype: str
    widths: tuple[int, ...]
    structures: tuple[Structure, ...]
    divisor: Divisor
    prescale: Prescale
    eps: EpsReading
    argument: EpsArgument | None
    not_observable: tuple[str, ...]

    @property
    def structure(self) -> Structure:
        """At the first width, where every question was asked."""
        return self.structures[0]

    @cached_property
    def likeliest(self) -> Placed:
        """Of the placements that stand, the one whose eps is the shortest decimal; of equal ones the first."""
        return min(self.eps.standing, key=self._digits)

    def number(self, placed: Placed) -> Written | None:
        """The eps that somebody probably wrote, under this placement; None where no eps at all would do."""
        return written(placed.lo, placed.hi, narrow=self.narrow, squared=placed.placement.startswith("floor"))

    @property
    def statistic_precision(self) -> str:
        """Of what dtype the statistic is, in words: the rung of `eps_reading.ladder_for` that explains the rows."""
        return "" if self.eps.rung is None else self.eps.rung.precision

    @property
    def equivalences(self) -> tuple[str, ...]:
        """Why some of the placements that stand cannot be told apart."""
        return equivalences(self.eps.standing)

    @property
    def narrow(self) -> tuple[str, ...]:
        """The 16-bit dtypes, the one that the rows had first."""
        return ("float16", "bfloat16") if self.input_dtype == "float16" else ("bfloat16", "float16")

    def _digits(self, placed: Placed) -> int:
        number = self.number(placed)
        return number.digits if number else 0

    def variants(self) -> Iterator[Mapping[str, Any]]:
        """The declarations that stand, likeliest first: the variables of a `NormSpec` that were read, by name."""
        rest = [placed for placed in self.eps.standing if placed is not self.likeliest]
        for placed in (self.likeliest, *rest):
            yield {**self._structure_words(), **self._eps_words(placed)}

    @property
    def _left_out(self) -> float:
        """n/k where k elements enter the sum and n are counted; else 1. A `NormSpec` says that as a mean over k, with
        eps and result scaled."""
        count = self.divisor.count(self.structure)
        return count / sum(self.structure.counted) if self.divisor.over == "all" else 1.0

    def _eps_words(self, placed: Placed) -> dict[str, Any]:
        number, scaled = self.number(placed), self._left_out
        if number is None:
            return {"eps_placement": "none", "eps": 0.0}
        beside = placed.placement in ("outside_sqrt", "floor_rms")
        scale = sqrt(scaled) if beside else scaled if placed.placement == "inside_sqrt" else 1.0
        words: dict[str, Any] = {"eps_placement": placed.placement, "eps": number.value * scale}
        return words if number.dtype is None else {**words, "eps_dtype": number.dtype}

    def _structure_words(self) -> dict[str, Any]:
        structure = self.structure
        words: dict[str, Any] = {
            "groups": structure.groups,
            "statistic_width": _statistic_width(self.structures),
            "prescale": self.prescale,
            "center": structure.centred == "yes",
            "statistic": "variance" if structure.centred == "statistic only" else self.divisor.statistic,
            "gain_applied": structure.gain_applied,
            "gain_offset": structure.gain_offset,
            "post_scale": self.divisor.post_scale if self._left_out == 1.0 else sqrt(self._left_out),
            "output_dtype": structure.output_dtype,
        }
        if structure.cast_point == "before_gain":
            words |= {"cast_point": "before_gain", "normalized_dtype": structure.grid}
        if structure.associations:
            words["association"] = structure.associations[0]
        if structure.gain_offset_dtypes:
            words["gain_offset_dtype"] = structure.gain_offset_dtypes[0]
        return words


def read(
    run: Run,
    *,
    input_dtype: str,
    gain_dtype: str,
    output_dtype: str | None = None,
    widths: Sequence[int] = WIDTHS,
    asked: Sequence[float] = (),
) -> Reading | NotThisFamily:
    """What `run` is, as far as its outputs show.

    output_dtype: the declared one; an output of another is noted. widths: the structure is read at the first; a second
    one tells eps on the sum from eps on the mean. asked: eps to ask for; without any, the box's own is read. Raises
    CannotAsk where the box does not answer at the first width, ValueError for a width below 8.
    """
    if min(widths) < 8:
        raise ValueError(f"width {min(widths)} has too few elements to confine a factor; use 8 or more")
    box = Box(run, widths[0], input_dtype, gain_dtype, asked[0] if asked else None)
    structure = read_structure(box)
    if isinstance(structure, NotThisFamily):
        return structure
    views, notes = _views(box, structure, widths[1:])
    law = read_scale_law(views)
    if isinstance(law, NotThisFamily):
        return law
    reading = Reading(
        input_dtype=input_dtype,
        widths=tuple(view.box.width for view in views),
        structures=tuple(view.structure for view in views),
        divisor=law.divisor,
        prescale=law.prescale,
        eps=law.eps,
        argument=None,
        not_observable=(*_structure_notes(structure, output_dtype), *notes, *_eps_notes(law, views)),
    )
    return replace(reading, argument=_argument(reading, views[0], asked)) if asked else reading


def _views(box: Box, structure: Structure, widths: Sequence[int]) -> tuple[list[View], list[str]]:
    """The box at every width that it takes, and why not at the others."""
    views, notes = [View(box, structure)], []
    for width in widths:
        other = replace(box, width=width)
        try:
            there = at_width(structure, other)
        except CannotAsk as refused:
            notes.append(f"width {width}: {refused}")
            continue
        if isinstance(there, NotThisFamily):
            notes.append(f"width {width}: {there.says}")
        else:
            views.append(View(other, there))
    return views, notes


def _argument(reading: Reading, view: View, asked: Sequence[float]) -> EpsArgument:
    """What became of each eps that was asked for, under the placements that stand for all of them.

    Under the likeliest, unless another one explains it more simply: that every eps was used.
    """
    laws = [(eps, read_scale_law([View(replace(view.box, eps=eps), view.structure)])) for eps in asked[1:]]
    found = [(asked[0], reading.eps), *((eps, law.eps) for eps, law in laws if isinstance(law, ScaleLaw))]
    answers = []
    for placement in (reading.likeliest, *reading.eps.standing):
        placed = [(eps, at) for eps, read in found if (at := read.placed(placement.placement)) is not None]
        if len(placed) == len(found):
            answers.append(compare(placed, reading.narrow))
    simple = [answer for answer in answers if answer.use in ("used", "not observable")]
    return (simple or answers or [compare([(asked[0], reading.likeliest)], reading.narrow)])[0]


# --- in words --------------------------------------------------------------------------------------------------------


def _statistic_width(structures: Sequence[Structure]) -> int | float | str:
    """How many leading elements count: a number, a share where it grows with the width, or all.

    "all" as well where those that count are not the leading ones, which no `NormSpec` says.
    """
    counts = [sum(structure.counted) for structure in structures]
    sizes = [len(structure.counted) for structure in structures]
    leading = all(list(structure.counted) == sorted(structure.counted, reverse=True) for structure in structures)
    if counts == sizes or not leading:
        return "all"
    share = simplest(
        max(count / size for count, size in zip(counts, sizes, strict=True)),
        min((count + 1) / size for count, size in zip(counts, sizes, strict=True)) * (1 - 2.0**-50),
    )
    return counts[0] if len(set(counts)) == 1 or share is None else share.value


def _structure_notes(structure: Structure, output_dtype: str | None) -> Iterator[str]:
    if output_dtype not in (None, structure.output_dtype):
        yield f"output_dtype: it is {structure.output_dtype}; {output_dtype} was declared"
    if structure.gain_applied and structure.cast_point == "not observable":
        once = structure.allowance.relative in (ONE_ROUNDING, 2.0**-52)
        held = f"the normalised row is held in {structure.grid}, as the output is, either way"
        yield f"cast_point: {held if once else 'the outputs are rounded more than once'}"


def _eps_notes(law: ScaleLaw, views: Sequence[View]) -> Iterator[str]:
    eps, box = law.eps, views[0].box
    if any(view.flushes_inputs for view in views):
        yield f"eps: subnormal {box.input_dtype} inputs come out as zeros, so no smaller rows were asked about"
    if eps.rung is not None and eps.rung.precision == UNSEEN:
        yield "statistic_dtype: outputs confine their rows too little to tell a statistic in 16 bits from a finer one"
    if not eps.acts:
        smallest = min(view.smallest for view in views)
        bounds = ", ".join(f"{placed.placement} {placed.hi:.3g}" for placed in eps.standing)
        yield (
            f"eps: none needs to act on rows down to rms 2^{smallest:.4g}, the smallest that were asked about"
            f" ({box.input_dtype}); at most: {bounds}"
        )
        yield "prescale: with no eps that acts, dividing rows by their largest magnitude first changes nothing"
    if eps.acts and len(views) == 1 and eps.placed("inside_sqrt") and eps.placed("inside_sum"):
        yield "eps_placement: one width cannot tell eps on the mean from width times that eps on the sum"
