"""What a battery is built for, and how what a category shapes becomes cases."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from rmsaudit.arrays import Array, dtype_of
from rmsaudit.battery._common import CommonFormat, common_format
from rmsaudit.battery._draw import Draw, powers_of_two
from rmsaudit.battery._gains import distinct_gains
from rmsaudit.case import Case
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import at_width, find_conflicts

ADDED_EXPONENT = -3
"""log2 of x over residual where a side adds one: deep in a network the residual stream is many times its increment."""


@dataclass(frozen=True)
class Skipped:
    """A category, or a part of one, that could not be built, and why."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup:
    """The two sides, how many rows and which seed.

    gain: the declared gains [width], used as they are in every category but `gains`; None: the battery draws its own.
    running: both sides run code, so that categories about behaviour can be built as well.
    only_width: why a side takes no other width, where that is so.
    Raises ValueError where the sides cannot be given the same input.
    """

    reference: NormSpec
    candidate: NormSpec
    rows: int = 16
    seed: int = 0
    gain: Array | None = None
    running: bool = False
    only_width: str | None = None

    def __post_init__(self) -> None:
        if self.reference.width != self.candidate.width:
            raise ValueError(
                f"the reference takes width {self.reference.width} and the candidate {self.candidate.width};"
                " no input fits both"
            )
        if self.rows < 1:
            raise ValueError(f"{self.rows} rows leave nothing to compare; use 1 or more")
        if self.gain is not None and self.gain.shape != (self.width,):
            raise ValueError(f"gains of shape {list(self.gain.shape)} do not fit width {self.width}")

    @property
    def width(self) -> int:
        return self.reference.width

    @property
    def sides(self) -> tuple[tuple[Literal["reference", "candidate"], NormSpec], ...]:
        return ("reference", self.reference), ("candidate", self.candidate)

    # A *line* is what a category shapes: the elements along the axes of the reference's statistic.

    @property
    def size(self) -> int:
        """Elements of a line: a row (with all its groups), a column for axes [-2], everything for axes [-2, -1]."""
        if self.reference.axes == (-1,):
            return self.width
        return self.rows if self.reference.axes == (-2,) else self.rows * self.width

    @property
    def lines_per_case(self) -> int:
        if self.reference.axes == (-1,):
            return self.rows
        return self.width if self.reference.axes == (-2,) else 1

    def lines(self, at_least: int = 1) -> int:
        """How many lines to shape: those of one case, or of as many cases as hold `at_least`."""
        return -(-at_least // self.lines_per_case) * self.lines_per_case

    # Formats

    @cached_property
    def x_format(self) -> CommonFormat:
        return common_format(self.reference.input_dtype, self.candidate.input_dtype)

    @cached_property
    def gain_format(self) -> CommonFormat:
        return common_format(self.reference.gain_dtype, self.candidate.gain_dtype)

    @cached_property
    def residual_format(self) -> CommonFormat:
        return common_format(self.reference.residual_dtype, self.candidate.residual_dtype)

    @cached_property
    def adds_residual(self) -> bool:
        return any(spec.residual == "add" for _, spec in self.sides)

    @cached_property
    def adds_bias(self) -> bool:
        return any(spec.bias for _, spec in self.sides)

    @cached_property
    def format(self) -> CommonFormat:
        """The format of what a category shapes: the residual where a side adds one, x where none does."""
        return self.residual_format if self.adds_residual else self.x_format

    # Operands

    def draw(self, category: str, stream: str = "lines") -> Draw:
        """A stream with all the bits that x and the residual have places for."""
        finest = max(self.format, self.x_format, key=lambda fmt: fmt.precision)
        return Draw(f"{self.seed}/{category}/{stream}", finest)

    def draw_gain(self, category: str, stream: str = "gain") -> Draw:
        return Draw(f"{self.seed}/{category}/{stream}", self.gain_format)

    @cached_property
    def gains(self) -> Array:
        """[width]: the declared gains, or drawn ones, of both signs and away from 1 (`distinct_gains`)."""
        if self.gain is not None:
            return self.gain
        return distinct_gains(self.width, self.gain_format, self.draw_gain("battery"))

    @cached_property
    def bias(self) -> Array:
        """[width], up to ±1; zeros that take no memory where no side adds a bias."""
        if not self.adds_bias:
            return _zeros((self.width,), self.gain_format)
        drawn = self.draw_gain("battery", "bias").bell(self.width)
        return self.gain_format.round(drawn * powers_of_two(-2, self.gain_format))

    def at_width(self, width: int) -> "Setup | str":
        """The same setup at another width, declared gains repeated as needed; or why a side does not take it."""
        if self.only_width and width != self.width:
            return f"width {width}: {self.only_width}"
        moved = []
        for side, spec in self.sides:
            other = at_width(spec, width)
            if other is None:
                return f"width {width}: the {side}'s {spec.groups} groups do not divide it"
            conflicts = find_conflicts(other)
            if conflicts:
                return f"width {width}: the {side}'s {conflicts[0].says}"
            moved.append(other)
        gain = None if self.gain is None else np.resize(self.gain, width)
        return replace(self, reference=moved[0], candidate=moved[1], gain=gain)


def cases(
    setup: Setup,
    category: str,
    lines: Array,
    *,
    label: str = "",
    gain: Array | None = None,
    added: Array | None = None,
) -> Iterator[Case]:
    """Cases from lines[count, size], where count is a multiple of `lines_per_case`; rounded here, once.

    Where a side adds a residual, the lines are the residual, so that the sum keeps what makes the category. x is then
    `added`, in the shape of `lines`, or else the lines moved on by one element and scaled by 2^ADDED_EXPONENT.
    """
    residuals = None
    if setup.adds_residual:
        residuals = setup.residual_format.round(lines)
        lines = _moved_on(lines, setup) if added is None else added
    xs = setup.x_format.round(lines)
    unread = _zeros((setup.rows, setup.width), setup.residual_format)
    count = len(xs) // setup.lines_per_case
    for index in range(count):
        block = slice(index * setup.lines_per_case, (index + 1) * setup.lines_per_case)
        yield Case(
            category=category,
            label=_label(label, index, count),
            x=_folded(xs[block], setup),
            gain=setup.gains if gain is None else gain,
            bias=setup.bias,
            residual=unread if residuals is None else _folded(residuals[block], setup),
        )


def _moved_on(lines: Array, setup: Setup) -> Array:
    small = np.roll(lines, 1, axis=-1) * powers_of_two(ADDED_EXPONENT, setup.format)
    limit = min(setup.x_format.max, float(np.finfo(small.dtype).max))
    clipped: Array = np.clip(small, -limit, limit)
    return clipped


def _folded(block: Array, setup: Setup) -> Array:
    """Lines as x[rows, width]."""
    if setup.reference.axes == (-2,):
        return np.ascontiguousarray(block.T)
    return block.reshape(setup.rows, setup.width)


def _zeros(shape: tuple[int, ...], fmt: CommonFormat) -> Array:
    return np.broadcast_to(np.zeros((), dtype=dtype_of(fmt.held)), shape)


def _label(label: str, index: int, count: int) -> str:
    part = f"part {index + 1} of {count}" if count > 1 else ""
    return ", ".join(word for word in (label, part) if word)
