"""The exact divisor of each row under a declared formula, enclosed."""

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.inversion.interval import Interval, add, divide, exactly, root
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.eps import effective


def divisor(spec: NormSpec, squares: Interval, size: int) -> Interval:
    """D of y = x / D, [rows], from Σ x² of the `size` elements that enter the statistic.

    Everything that is only about rounding is left out; eps is the number that was declared.
    """
    count = 1 if spec.statistic == "sum_square" else size
    n, eps = exactly(np.asarray(float(count))), _eps(spec)
    match spec.eps_placement:
        case "inside_sqrt":
            return root(add(divide(squares, n), eps))
        case "inside_sum":
            return root(divide(add(squares, eps), n))
        case "outside_sqrt":
            return add(root(divide(squares, n)), eps)
        case "floor_rms":
            return _larger(root(divide(squares, n)), eps)
        case "floor_norm" | "floor_sum":
            return divide(_larger(root(squares), eps), root(n))
    return root(divide(squares, n))


def eps_share(spec: NormSpec, squares: Interval, size: int, off: float) -> Array:
    """How much of a change of log eps by up to `off` reaches log D, at most, [rows]: between 0 and 1."""
    if spec.eps_placement == "none":
        return np.zeros_like(squares.hi)
    count = 1 if spec.statistic == "sum_square" else size
    eps, lo = float(_eps(spec).hi * np.exp(min(off, 100.0))), divisor(spec, squares, size).lo
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        match spec.eps_placement:
            case "inside_sqrt":
                share = eps / lo**2 / 2
            case "inside_sum":
                share = eps / count / lo**2 / 2
            case "outside_sqrt":
                share = eps / lo
            case "floor_rms":
                share = np.where(np.sqrt(squares.lo / count) > 2 * eps, 0.0, 1.0)
            case _:
                share = np.where(np.sqrt(squares.lo) > 2 * eps, 0.0, 1.0)
    return np.minimum(np.where(np.isnan(share), 1.0, share) * (1 + 2.0**-40), 1.0)


def _eps(spec: NormSpec) -> Interval:
    """The declared eps: a decimal within half a unit in the last place of the float64 that it was read as."""
    value = np.asarray(effective(spec) if spec.eps_placement != "none" else 0.0)
    return Interval(np.nextafter(value, 0.0), np.nextafter(value, np.inf))


def _larger(one: Interval, other: Interval) -> Interval:
    return Interval(np.maximum(one.lo, other.lo), np.maximum(one.hi, other.hi))
