"""The names of the battery's categories, for the half that does not load the battery itself."""

from functools import cache
from pathlib import Path
from pkgutil import iter_modules

READING_ORDER = (
    "zero", "tiny", "near-eps", "ordinary", "constant", "large", "edge",
    "mixed-scale", "spike", "offset", "blocks", "tail",
    "exact-sum", "sign", "scale", "nonfinite", "gains",
)  # fmt: skip

REAL_ROWS = "activations"
"""Rows that entered the norms of a real run: a category of models, which the battery does not draw."""


@cache
def names() -> tuple[str, ...]:
    """Every category, in reading order; one that READING_ORDER does not name comes last. Imports none of them."""
    folder = Path(__file__).parent / "battery"
    modules = [module.name for module in iter_modules([str(folder)])]
    found = {name.replace("_", "-") for name in modules if not name.startswith("_")}
    return (*(name for name in READING_ORDER if name in found), *sorted(found.difference(READING_ORDER)))
