"""In which layers some sites lie, in words."""

import re
from collections.abc import Iterable

_LAYER = re.compile(r"^(.*?)\.(\d+)(?:\.|$)")
MOST_NAMED = 3


def layer_of(site: str) -> tuple[str, int] | None:
    """The path of the list that holds a site's layer, and its number there; None outside of any."""
    found = _LAYER.match(site)
    return (found[1], int(found[2])) if found else None


def without_layer(site: str) -> str:
    """The same for the sites that differ in the number of their layer only."""
    found = _LAYER.match(site)
    return f"{found[1]}.{{}}{site[found.end(2) :]}" if found else site


def where(sites: Iterable[str]) -> str:
    """Where these sites lie: "layers 0, 1 and 4 to 7", "layer 3 and model.norm".

    Layers of several lists (a vision tower beside a text model) are told apart by the path of the list.
    """
    named = list(dict.fromkeys(sites))
    found = {site: layer_of(site) for site in named}
    lists = dict.fromkeys(layer[0] for layer in found.values() if layer)
    parts = []
    for path in lists:
        numbers = sorted({layer[1] for layer in found.values() if layer and layer[0] == path})
        parts.append(numbered(numbers) + (f" of {path}" if len(lists) > 1 else ""))
    alone = [site for site, layer in found.items() if layer is None]
    parts += alone if len(alone) <= MOST_NAMED else [*alone[:MOST_NAMED], f"{len(alone) - MOST_NAMED} more"]
    return listed(parts)


def numbered(numbers: list[int]) -> str:
    """Rising numbers of layers: "layer 3", "layers 0, 1 and 4 to 7"."""
    words: list[str] = []
    for run in runs_of(numbers):
        words += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return f"{'layers' if len(numbers) > 1 else 'layer'} {listed(words)}"


def runs_of(numbers: list[int]) -> list[list[int]]:
    """Rising numbers cut where one is left out: [[0, 1, 2], [5]]."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def listed(words: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
