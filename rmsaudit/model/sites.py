"""One norm on both sides, and how the candidate's is restated in the reference's words.

A conversion may store the same norm otherwise: with 1 folded into the gains, with one gain for each of several heads.
What is applied decides, so the candidate is restated with the reference's gains wherever a change of a variable turns
them into what the candidate applies, bit for bit. Then the ladder sees that variable and no strange tensor.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, bits, dtype_of, round_to, word_of
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.arithmetic import Arithmetic
from rmsaudit.semantics.eps import effective
from rmsaudit.semantics.gain import factor
from rmsaudit.semantics.resolve import CannotResolve, resolve

OFFSETS = (0.0, 1.0, 2.0)
"""Offsets under which stored gains are met: plain, around 0, and around 0 where 1 is added once too often."""
ROUNDED_TO = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteSide:
    """A site on one side. declared: every variable in words. gain: as stored, [width]; None where it has none.

    stored: the dtype of the gains in the file. source: where each of the site's own words came from. below: its path
    below the root of its model, by which it is matched where the roots differ; empty where it has none.
    """

    declared: Mapping[str, Any]
    gain: Array | None
    stored: str | None
    source: Mapping[str, str]
    below: str = ""

    @cached_property
    def spec(self) -> NormSpec:
        return resolve(self.declared)

    @cached_property
    def applied(self) -> Array:
        """What the normalised row is multiplied by, [width] in the dtype of the gain after its offset."""
        if self.gain is None:
            return np.ones(self.spec.width, dtype=dtype_of(self.spec.compute_dtype))
        with np.errstate(all="ignore"):
            return factor(self.gain, self.spec, Arithmetic(self.spec.subnormals, self.spec.rounding))

    def as_applied(self) -> "SiteSide":
        """The same with its offset in its gains; itself where that cannot be said in words."""
        if self.gain is None:
            return self
        word = word_of(self.applied)
        stated = replace(self, gain=self.applied).changed(gain_offset=0.0, gain_cast="none", gain_dtype=word)
        return self if stated is None or stated.spec.gain_product_dtype != self.spec.gain_product_dtype else stated

    def changed(self, **words: Any) -> "SiteSide | None":
        """The same with other words, or None where they do not hold together."""
        other = replace(self, declared={**self.declared, **words})
        try:
            resolve(other.declared)
        except CannotResolve:
            return None
        return other


@dataclass(frozen=True, eq=False, kw_only=True)
class SitePair:
    """A site that both models have. note: how one side had to be read to be comparable, where it had to."""

    name: str
    reference: SiteSide
    candidate: SiteSide
    note: str | None = None

    @cached_property
    def restated(self) -> "SitePair":
        """The pair in the same words as far as it goes.

        The candidate in the reference's gains, where a variable accounts for its own; else both as they are applied,
        where their offsets differ; and in the reference's eps, where both are equal in the dtype that they act in.
        """
        pair = self if self.reference.declared["eps"] == self.candidate.declared["eps"] else self._with_one_eps()
        return pair._in_reference_gains()

    def _with_one_eps(self) -> "SitePair":
        used = [eps_in_use(side.spec) for side in (self.reference, self.candidate)]
        other = self.candidate.changed(eps=self.reference.declared["eps"])
        return replace(self, candidate=other) if other is not None and same(*used) else self

    def _in_reference_gains(self) -> "SitePair":
        for words in _restatements(self.reference, self.candidate):
            other = replace(self.reference, declared={**self.candidate.declared, **words})
            if _applies_the_same(other, self.candidate):
                return replace(self, candidate=replace(other, source=self.candidate.source))
        if self.reference.declared["gain_offset"] == self.candidate.declared["gain_offset"]:
            return self
        return replace(self, reference=self.reference.as_applied(), candidate=self.candidate.as_applied())

    @property
    def has_one_gain(self) -> bool:
        """Whether both sides carry the same gains, as this pair states them."""
        return self.reference.gain is self.candidate.gain

    @property
    def is_same(self) -> bool:
        """Whether both sides are one function: the same spec on the same gains. Nothing needs to be run to know it."""
        both = self.restated
        return both.reference.spec == both.candidate.spec and same(both.reference.applied, both.candidate.applied)


def _applies_the_same(one: SiteSide, other: SiteSide) -> bool:
    """Whether both multiply by the same values, rounded afterwards to the same dtype."""
    try:
        products = one.spec.gain_product_dtype, other.spec.gain_product_dtype
    except CannotResolve:
        return False
    return products[0] == products[1] and equal(one.applied, other.applied)


def equal(one: Array, other: Array) -> bool:
    """Whether two arrays hold the same values, whatever their dtypes; NaN is NaN."""
    return one.shape == other.shape and bool(
        np.array_equal(one.astype(np.float64), other.astype(np.float64), equal_nan=True)
    )


def same(one: Array, other: Array) -> bool:
    """Whether two arrays hold the same bits in the same dtype."""
    return one.dtype == other.dtype and one.shape == other.shape and bool(np.array_equal(bits(one), bits(other)))


def eps_in_use(spec: NormSpec) -> Array:
    """eps as it acts: at least eps_min, rounded to eps_dtype."""
    with np.errstate(over="ignore"):  # 1e300 is infinite in float32, and so it acts
        return round_to(np.asarray(effective(spec)), spec.eps_dtype)


def _restatements(reference: SiteSide, candidate: SiteSide) -> Iterator[dict[str, Any]]:
    """Words under which the reference's gains may be what the candidate applies, the plainest first."""
    if reference.gain is None or candidate.gain is None or reference.gain.shape != candidate.gain.shape:
        return
    stored = {"gain_dtype": reference.declared["gain_dtype"]}
    own = reference.declared["gain_offset"]
    offsets = dict.fromkeys((own, *OFFSETS))
    yield from ({**stored, "gain_offset": offset} for offset in offsets)
    if _is_constant(candidate.gain) and not _is_constant(reference.gain):
        return  # ones, say: a short dtype may round everything to them, but that is not what happened
    yield from ({**stored, "gain_offset": own, "gain_cast": word} for word in ROUNDED_TO)


def _is_constant(gain: Array) -> bool:
    return bool((gain == gain[0]).all())


def over_heads(reference: SiteSide, candidate: SiteSide) -> tuple[SiteSide, SiteSide] | None:
    """Both sides at one width, where one normalises each head and the other all heads together; None otherwise.

    The narrower side becomes groups of a row as wide as the other's, with its gains repeated.
    """
    widths = reference.spec.width, candidate.spec.width
    narrow, wide = (reference, candidate) if widths[0] < widths[1] else (candidate, reference)
    heads, left = divmod(max(widths), min(widths))
    if left or widths[0] == widths[1] or narrow.spec.groups != 1:
        return None
    gain = None if narrow.gain is None else np.tile(narrow.gain, heads)
    spread = replace(narrow, gain=gain).changed(width=max(widths), groups=heads)
    if spread is None:
        return None
    return (spread, wide) if narrow is reference else (wide, spread)
