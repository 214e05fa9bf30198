"""What surveys of the sites of a model come to, in a sentence each."""

from collections.abc import Mapping

from rmsaudit.activations.change import Change
from rmsaudit.activations.distribution import Distribution
from rmsaudit.activations.layers import where


def said_of_eps(found: Mapping[str, Distribution]) -> str:
    """How many rows of which sites lie so near to eps that it attenuates them by more than a limit."""
    total = sum(each.rows for each in found.values())
    if not total:
        return "No row has a mean square: all are zeros, or not finite."
    below = sum(each.below for each in found.values())
    loss = f"{100 * float(next(iter(found.values())).max_loss):g} %"
    largest = percent(max(each.largest_loss for each in found.values()))
    if not below:
        return f"No row of {total} is attenuated by more than {loss}; largest attenuation {largest}."
    sites = [site for site, each in found.items() if each.below]
    touched = f"{rows_of(below, total)} {'is' if below == 1 else 'are'} attenuated by more than {loss}"
    return f"{touched}, {_all_in(sites, found)}; largest attenuation {largest}."


def said_of_change(found: Mapping[str, Change], what: str, unit: str) -> str:
    """What a change of eps does: how many rows it moves by more than the first bound of the changes, half an ulp of the
    dtype `unit`, and by how much at most. what: the change itself, "eps 1e-06 for 1e-05"."""
    total = sum(each.rows for each in found.values())
    if not total:
        return f"{what} touches no row: none has a mean square."
    largest = max((each.largest for each in found.values()), key=abs)
    touched = sum(each.changed[0] for each in found.values())
    if not touched:
        return f"{what} moves no row of {total} by half an ulp of {unit}; largest change {percent(abs(largest))}."
    sites = [site for site, each in found.items() if each.changed[0]]
    told = f"{what} touches {rows_of(touched, total)} by more than half an ulp of {unit}, {_all_in(sites, found)}"
    strongly = sum(each.changed[-1] for each in found.values())
    bound = percent(float(next(iter(found.values())).bounds[-1]))
    more = f", {strongly} by more than {bound}" if strongly else ""
    return f"{told}{more}; largest change {percent(abs(largest))}."


def rows_of(some: int, total: int) -> str:
    """ "12 of 4096 rows (0.293 %)"."""
    return f"{some} of {total} rows ({percent(some / total)})"


def percent(share: float) -> str:
    """Three digits, and never 0 or 100 for what is not."""
    text = f"{100 * share:.3g}"
    if text == "100" and share < 1:
        text = "over 99.9"
    return f"{text} %"


def _all_in(sites: list[str], found: Mapping[str, object]) -> str:
    if len(sites) == len(found):
        return "at every site"
    return f"all in {where(sites)}"
