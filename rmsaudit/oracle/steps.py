"""The intermediate values of one line without any rounding: `semantics.evaluate` with fractions for numbers.

For a person to look at beside what both sides have there, so only whole lines and no speed. It shares the formula with
the emulator; the last step, the output, is checked against the oracle proper in the tests.
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, round_to
from rmsaudit.case import Case
from rmsaudit.oracle.formulas import decimal
from rmsaudit.semantics import NormSpec, evaluate
from rmsaudit.semantics.arithmetic import Arithmetic
from rmsaudit.semantics.steps import Watch

DIGITS = 60  # of a root: far beyond float64's 17, so that rounding the result to float64 is all that shows


def watch_exactly(spec: NormSpec, case: Case, watch: Watch) -> None:
    """Hands `watch` the steps of `spec` on `case`, in arrays of Fraction, as far as they are numbers.

    A declared number is the decimal that was written; 1/√n and √n, where a spec has one as a constant, are the float64
    next to it. Stops before the first step that divides by zero; without any step for operands that are not finite.
    """
    operands = (
        round_to(case.x, spec.input_dtype),
        round_to(case.gain, spec.gain_dtype),
        round_to(case.bias, spec.gain_dtype),
        round_to(case.residual, spec.residual_dtype),
    )
    if not all(np.isfinite(operand.astype(np.float64)).all() for operand in operands):
        return
    x, gain, bias, residual = map(_fractions, operands)
    try:
        evaluate(spec, x, gain, bias, residual, _Exact(), watch)
    except ZeroDivisionError:
        return


def nearest(values: Array) -> Array:
    """Fractions as float64, each rounded once; infinite beyond its range."""
    return np.asarray(np.frompyfunc(_float, 1, 1)(values), dtype=np.float64)


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _fractions(operand: Array) -> Array:
    return np.asarray(np.frompyfunc(Fraction, 1, 1)(operand.astype(np.float64)), dtype=object)


def _root(value: Fraction) -> Fraction:
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())


@dataclass(frozen=True)
class _Exact(Arithmetic):
    """The arithmetic in which nothing is rounded, whatever dtype an operation names."""

    def constant(self, value: float, dtype: str | None = None) -> Array:  # noqa: ARG002
        return np.asarray(decimal(value), dtype=object)

    def cast(self, values: Array, dtype: str) -> Array:  # noqa: ARG002
        return values

    def sqrt(self, a: Array, dtype: str) -> Array:  # noqa: ARG002
        return np.asarray(np.frompyfunc(_root, 1, 1)(a), dtype=object)

    def rsqrt(self, a: Array, dtype: str) -> Array:
        return self.div(self.constant(1), self.sqrt(a, dtype), dtype)

    def clamp(self, values: Array, limit: float) -> Array:
        edge = self.constant(limit)
        return np.asarray(np.minimum(np.maximum(values, -edge), edge), dtype=object)

    def zero_to_one(self, values: Array) -> Array:
        return np.where(values == 0, self.constant(1), values)

    def sum(self, terms: Array, order: str, dtype: str) -> Array:  # noqa: ARG002
        total: Array = np.add.reduce(terms, axis=-1, keepdims=True)
        return total

    def _operate(self, operation: Any, a: Array, b: Array, dtype: str) -> Array:  # noqa: ARG002
        return np.asarray(operation(a, b), dtype=object)
