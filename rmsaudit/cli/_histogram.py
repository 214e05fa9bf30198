"""Small histograms in a line of text: how rows lie to a limit, an octave or more a character."""

from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Collection

    from rmsaudit.activations.distribution import Distribution

MOST_COLUMNS = 24
LEVELS = " ▁▂▃▄▅▆▇█"


class Histogram(NamedTuple):
    """Bars over log2 q, counted from the limit: column c holds the q from limit · 2^(c·step) on. A stroke is the limit.

    unit: q/eps at the limit; 0 where there is no eps, and so nothing to draw.
    """

    first: int
    last: int
    step: int
    unit: float

    @classmethod
    def over(cls, found: "Collection[Distribution]") -> "Histogram":
        """One that all of them fit into, and the limit as well."""
        octaves = [octave for each in found if each.limit for octave in each.octaves(each.limit)]
        first, last = min([*octaves, -1]), max([*octaves, 0])
        step = -(-(last - first + 1) // MOST_COLUMNS)
        unit = next((each.limit / each.law.knee for each in found if each.limit), 0.0)
        return cls(first // step, last // step, step, unit)

    @property
    def axis(self) -> str:
        """q/eps where the picture begins and ends, around the stroke, as far as there is room."""
        if not self.unit:
            return ""
        low, high = (power(self.unit * 2.0 ** (at * self.step)) for at in (self.first, self.last + 1))
        before, after = -self.first, self.last + 1
        return f"{low if len(low) <= before else '':<{before}}│{high if len(high) <= after else '':>{after}}"

    def draw(self, each: "Distribution") -> str:
        """The bars of one distribution; the fullest column has the full height, and no row is without a trace."""
        if not each.limit or not each.rows:
            return ""
        counts: dict[int, int] = {}
        for octave, count in each.octaves(each.limit).items():
            counts[octave // self.step] = counts.get(octave // self.step, 0) + count
        most = max(counts.values())
        bars = [LEVELS[-(-8 * counts.get(at, 0) // most)] for at in range(self.first, self.last + 1)]
        below = "".join(bars[: -self.first])
        return f"{click.style(below, fg='red') if below.strip() else below}│{''.join(bars[-self.first :])}"


def power(value: float) -> str:
    """Two digits and a short exponent: 0.17, 96, 430, 1.7e3."""
    if value == 0 or 0.01 <= value < 1000:
        return f"{value:.2g}" if value < 100 else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa
