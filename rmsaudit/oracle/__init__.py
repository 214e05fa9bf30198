"""The second instrument: what a declared RMSNorm is in real numbers, rounded once, correctly, with a proof.

`formula` drops from a spec all that is only about rounding; `oracle` answers that formula. Three tiers, each with its
proof beside the code: float64 with an order-free bound (`float64_tier`), double-double with a radius
(`double_double_tier`), whole numbers (`integer_tier`). What follows from IEEE 754 alone, NaN and infinities among it,
is in `rules`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rmsaudit.arrays import Array, dtype_of, round_to
from rmsaudit.case import Case
from rmsaudit.oracle import float64_tier, output_clamp
from rmsaudit.oracle.double_double_tier import factors
from rmsaudit.oracle.environment import require_ieee
from rmsaudit.oracle.float64_tier import Block, Prepared
from rmsaudit.oracle.formulas import Formula, formula
from rmsaudit.oracle.leftovers import settle
from rmsaudit.oracle.rows import Rows
from rmsaudit.oracle.tiers import Tiers
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.scope import fold, unfold, unfold_feature

__all__ = ["Answer", "Formula", "Tiers", "answer", "formula", "oracle", "oracle_each"]

BLOCK_ELEMENTS = 1 << 16  # 512 KiB in float64: a block and its temporaries stay in the L2 cache


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """values[rows, width]: the exact results rounded once to the output dtype. tiers: who decided how many of them.

    approx[rows, width]: float64 before that rounding, for distances in fractions of an ulp of a narrower dtype; None
    if not asked for. Relative error below 2^-40 (widths up to 16384; where x − mean or + bias cancels, that of the
    terms).
    """

    values: Array
    tiers: Tiers
    approx: Array | None


def oracle(spec: NormSpec, case: Case, *, dtype: str | None = None, with_approx: bool = False) -> Answer:
    """The answer of the formula of `spec` on a case, in `dtype` (spec.output_dtype if it is not given).

    The operands are taken in the dtypes that `spec` stores them in. Raises NotIeee.
    """
    operands = Operands(x=case.x, gain=case.gain, bias=case.bias, residual=case.residual)
    return answer(formula(spec), operands, dtype or spec.output_dtype, with_approx=with_approx)


def oracle_each(spec: NormSpec, case: Case, gains: Iterable[Array], *, dtype: str | None = None) -> list[Answer]:
    """As `oracle` on the case under each of several gains [width]; what does not depend on them is worked out once.

    Raises NotIeee.
    """
    question = formula(spec)
    shared: _Shared | None = None if question.gain_first else {}
    require_ieee("before")
    found = []
    with np.errstate(all="ignore"):
        for gain in gains:
            operands = Operands(x=case.x, gain=gain, bias=case.bias, residual=case.residual)
            found.append(_Pass(question, operands, dtype or spec.output_dtype, False, shared).run())
    require_ieee("after")
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Operands:
    """x, residual: [rows, width]; gain, bias: [width]. Those that a formula does not use may be None."""

    x: Array
    gain: Array | None = None
    bias: Array | None = None
    residual: Array | None = None


def answer(
    question: Formula,
    operands: Operands,
    dtype: str,
    *,
    with_approx: bool = False,
) -> Answer:
    """As `oracle`, on bare arrays. Raises NotIeee, and ValueError where an operand is missing."""
    require_ieee("before")
    with np.errstate(all="ignore"):
        result = _Pass(question, operands, dtype, with_approx, None).run()
    require_ieee("after")
    return result


class _Pass:
    """One answer in the making: the operands unfolded to [outer, groups, size], and the results in that shape."""

    def __init__(
        self, question: Formula, operands: Operands, dtype: str, with_approx: bool, shared: "_Shared | None"
    ) -> None:
        self.question, self.dtype, self.shared = question, dtype, shared
        self.shape = operands.x.shape
        self.x = unfold(round_to(operands.x, question.input_dtype), question)
        residual = _stored("residual", operands.residual, question.residual_dtype)
        self.residual = None if residual is None else unfold(residual, question)
        gain = _widened(_stored("gain", operands.gain, question.gain_dtype))
        bias = _widened(_stored("bias", operands.bias, question.bias_dtype))
        factor = None if gain is None else _factor(question, gain)
        self.gain, self.bias, self.factor = self._feature(gain), self._feature(bias), self._feature(factor)
        self.out_of_range = self._feature(float64_tier.is_out_of_range(factor, bias))
        self.values = np.zeros(self.x.shape, dtype=dtype_of(dtype))
        self.approx = np.zeros(self.x.shape) if with_approx else None
        self.edge = output_clamp.edge_of(question, dtype)

    def _feature(self, values: Array | None) -> Array | None:
        return None if values is None else unfold_feature(values, self.shape[0], self.question)

    def run(self) -> Answer:
        screens = float64_tier.applies(self.question, self.x.shape[-1], self.dtype)
        tiers = Tiers()
        for place in _blocks(self.x.shape):
            open_ = self._screen(place) if screens else np.ones(self.x[place].shape, dtype=bool)
            tiers += Tiers(float64=open_.size - int(np.count_nonzero(open_)))
            if open_.any():
                tiers += self._settle(place, open_)
        approx = None if self.approx is None else fold(self._clamped(self.approx), self.shape, self.question)
        return Answer(values=fold(self.values, self.shape, self.question), tiers=tiers, approx=approx)

    def _screen(self, place: "_Place") -> Array:
        """Tier 1 on a block; gives back what it left open."""
        residual = None if self.residual is None else self.residual[place]
        factor, bias = _at(self.factor, place), _at(self.bias, place)
        block = Block(x=self.x[place], residual=residual, factor=factor, bias=bias)
        prepared = self._prepared(place, block)
        screened = float64_tier.screen(self.question, block, prepared, self.dtype, with_approx=self.approx is not None)
        self.values[place] = output_clamp.limited(screened.values, self.edge)
        if self.approx is not None:
            self.approx[place] = screened.approx
        out_of_range = _at(self.out_of_range, place)
        return screened.open_ if out_of_range is None else screened.open_ | out_of_range

    def _prepared(self, place: "_Place", block: Block) -> Prepared:
        if self.shared is None:
            return float64_tier.prepare(self.question, block)
        key = place[0].start, place[1].start
        if key not in self.shared:
            self.shared[key] = float64_tier.prepare(self.question, block)
        return self.shared[key]

    def _settle(self, place: "_Place", open_: Array) -> Tiers:
        """The later tiers on those rows of a block that have something open."""
        at = np.nonzero(open_.any(axis=-1))
        x, residual = self.x[place][at], None if self.residual is None else self.residual[place][at]
        rows = Rows(
            x=x.astype(np.float64),
            gain=_of_rows(_at(self.gain, place), at),
            bias=_of_rows(_at(self.bias, place), at),
            residual=None if residual is None else residual.astype(np.float64),
        )
        wanted = open_[at]
        settled = settle(self.question, rows, wanted, self.dtype)
        self.values[place][at] = np.where(wanted, settled.values, self.values[place][at])
        if self.approx is not None:
            self.approx[place][at] = np.where(wanted, settled.approx, self.approx[place][at])
        return settled.tiers

    def _clamped(self, approx: Array) -> Array:
        limit = self.question.output_clamp
        return approx if limit is None else np.clip(approx, -float(limit), float(limit))


_Place = tuple[slice, slice]
_Shared = dict[tuple[int, int], Prepared]


def _blocks(shape: tuple[int, ...]) -> Iterator[_Place]:
    """Blocks of whole rows, of about BLOCK_ELEMENTS."""
    outer, groups, size = shape
    group_step = max(1, BLOCK_ELEMENTS // max(size, 1))
    outer_step = max(1, group_step // max(groups, 1))
    for start in range(0, outer, outer_step):
        for first in range(0, groups, group_step):
            yield slice(start, start + outer_step), slice(first, first + group_step)


def _stored(name: str, values: Array | None, dtype: str | None) -> Array | None:
    """An operand in the dtype that it is stored in; None if the formula does not use it."""
    if dtype is None:
        return None
    if values is None:
        raise ValueError(f"the formula uses a {name}, and none is given")
    return round_to(values, dtype)


def _widened(values: Array | None) -> Array | None:
    return None if values is None else values.astype(np.float64)


def _factor(question: Formula, gain: Array) -> Array:
    """gain + offset in float64, [width]; what is not finite stays so."""
    if not question.gain_offset:
        return gain
    finite = np.isfinite(gain)
    return np.where(finite, factors(question, np.where(finite, gain, 0.0)[None]).as_float64()[0], gain)


def _at(feature: Array | None, place: _Place) -> Array | None:
    """The part of a per-feature operand that belongs to a block; it has one group where all groups share it."""
    if feature is None or feature.shape[1] == 1:
        return feature
    part: Array = feature[:, place[1]]
    return part


def _of_rows(feature: Array | None, at: tuple[Array, ...]) -> Array | None:
    if feature is None:
        return None
    groups: Array = feature[0]
    return groups if len(groups) == 1 else groups[at[1]]
