"""The law behind it all: with eps inside the root, a row of mean square q comes out multiplied by A = √(q / (q +
eps))."""

from math import inf, sqrt


def attenuation(ratio: float) -> float:
    """A at ratio = q / eps. 0 at 0, 1 at infinity."""
    return 1.0 if ratio == inf else sqrt(ratio / (ratio + 1.0))


def ratio_for_loss(max_loss: float) -> float:
    """The smallest q / eps at which A >= 1 − max_loss: from A² = r / (r + 1), r = A² / (1 − A²).

    1 − A² is taken as loss · (2 − loss), which does not cancel. For 0.01 this is 49.2512562814.
    """
    kept = 1.0 - max_loss
    return kept * kept / (max_loss * (2.0 - max_loss))
