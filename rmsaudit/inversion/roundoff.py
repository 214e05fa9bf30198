"""What one rounding of a declared step can do, as a number that adds up.

A rounding to a format of precision p multiplies by 1 + δ with |δ| <= u = 2^-p (2u toward zero), unless the result is
subnormal. 1 + δ lies between 1 − u and 1/(1 − u), so a product of such factors to the powers ±w lies within
exp(± Σ w · −log(1 − u)) of 1. The terms here are −log(1 − u).
"""

from math import log1p

from rmsaudit.formats import FORMATS, Format, opmath
from rmsaudit.semantics import NormSpec


def term(u: float) -> float:
    """−log(1 − u)."""
    return -log1p(-u)


def unit(dtype: str) -> float:
    """u of rounding to nearest."""
    return float(2.0 ** -FORMATS[dtype].precision)


def operation(dtype: str) -> float:
    """One operation in `dtype`; below 32 bits it is carried out in float32 and rounded again."""
    own = term(unit(dtype))
    return own if FORMATS[dtype].bits >= 32 else own + term(unit("float32"))


def entering(held: str, dtype: str) -> float:
    """An operand held in `held` that enters an operation in `dtype`."""
    inner = opmath(dtype)
    return term(unit(inner)) if FORMATS[inner].precision < FORMATS[held].precision else 0.0


def cast(held: str, dtype: str, spec: NormSpec) -> float:
    """A value held in `held` that is rounded to `dtype`; 0 where the latter holds all of the former's values."""
    if holds(FORMATS[dtype], FORMATS[held]):
        return 0.0
    return term(2 * unit(dtype) if spec.rounding == "toward_zero" else unit(dtype))


def holds(outer: Format, inner: Format) -> bool:
    """Whether every value of `inner` that does not overflow is one of `outer`."""
    return outer.precision >= inner.precision and outer.min_exponent <= inner.min_exponent


def tiny(dtype: str, spec: NormSpec) -> float:
    """How far a rounding to `dtype` can move a result that is subnormal there."""
    fmt = FORMATS[dtype]
    if spec.subnormals == "flush":
        return fmt.smallest_normal
    return fmt.smallest_subnormal if spec.rounding == "toward_zero" else fmt.smallest_subnormal / 2
