"""A black box: something that can be asked for the norm of any rows, under any gains, and perhaps under any eps."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.loaders import Observation, Ran, Side
from rmsaudit.loaders.python import PythonSide, Returned
from rmsaudit.loaders.spec import Declared
from rmsaudit.semantics.resolve import at_width


class Run(Protocol):
    """run(x[rows, width], gain[width], eps) is the output [rows, width]. eps None: the box's own.

    Arrays carry their dtypes. Raises CannotAsk for a question that the box does not take (a width, an eps).
    """

    def __call__(self, x: Array, gain: Array, eps: float | None, /) -> Array: ...


class CannotAsk(Exception):
    """The box has no answer to this question, and why."""


def of_side(side: Side) -> Run:
    """A loaded side as a black box; residual and bias are zeros. Only specs and Python code take another eps."""

    def run(x: Array, gain: Array, eps: float | None, /) -> Array:
        case = Case(category="probe", label="", x=x, gain=gain, bias=np.zeros_like(gain), residual=np.zeros_like(x))
        observed = _observe(side, case, eps)
        if isinstance(observed, Ran | Returned):
            return observed.output
        raise CannotAsk(observed.says)

    return run


def _observe(side: Side, case: Case, eps: float | None) -> Observation | Returned:
    match side:
        case Declared():
            spec = at_width(side.spec, case.width)
            if spec is None:
                raise CannotAsk(f"width {case.width} does not hold its {side.spec.groups} groups")
            return Ran(emulate(spec if eps is None else replace(spec, eps=eps), case))
        case _ if eps is None:
            return side.observe(case)
        case PythonSide():
            return side.call(case, eps=eps)
    raise CannotAsk("its eps cannot be set from outside")
