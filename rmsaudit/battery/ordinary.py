"""ordinary: bell-shaped rows of rms 1.15, as activations mostly are.

Nothing over- or underflows and eps is far below, so what differs here are rounding points, orders and the gain.
"""

from collections.abc import Iterator

from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case

VERSION = 1
REVEALS = (
    "axes",
    "input_dtype",
    "residual",
    "statistic_source",
    "numerator_source",
    "residual_out_dtype",
    "gain_position",
    "statistic",
    "compute_dtype",
    "accumulate_order",
    "mean_scaling",
    "inverse",
    "inverse_dtype",
    "gain_applied",
    "gain_dtype",
    "association",
    "cast_point",
    "normalized_dtype",
    "gain_product_dtype",
    "bias",
    "post_scale",
    "output_dtype",
    "output_clamp",
    "rounding",
)


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows as `Draw.bell` gives them."""
    yield from cases(setup, "ordinary", setup.draw("ordinary").bell(setup.lines(), setup.size))
