"""Seeded rewrites: presets, and the same computed with another reduction, which must yield no cause but the reduction.

python tests/rewrites.py 500 [first]      how many of 500 get another cause

Two of three are written out here in plain numpy and share no code with the emulator; the others are presets whose
formula is not written out here, run by the emulator with another order or a float64 sum.
"""

import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from composites import DEFAULTS, WIDTHS, fed, presets

from rmsaudit.arrays import Array
from rmsaudit.emulator import emulate
from rmsaudit.evidence import Evidence, Gathering
from rmsaudit.explain import Explanations, explain
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import CannotResolve, fitted, resolve

REDUCTION = {"accumulate_order", "accumulate_dtype"}
DTYPES = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
Total = Callable[[Array], Array]  # squares [rows, width] in float32 to their sum [rows, 1]
Box = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Rewrite:
    """words: the reference's. label: which reduction the candidate has. box: x, gain to its output."""

    words: dict[str, Any]
    label: str
    box: Box


def draw(seed: str) -> Rewrite:
    """A preset with random inputs, and a reduction that it does not declare."""
    rng, known = random.Random(seed), presets()
    written_out = rng.random() < 2 / 3
    while True:
        name = rng.choice(list(known))
        held = rng.choice(("float32", "bfloat16", "float16"))
        gain = held if rng.random() < 0.7 else "float32"
        operands = {"width": rng.choice(WIDTHS), "input_dtype": held, "gain_dtype": gain, "residual_dtype": held}
        words = {**DEFAULTS, **known[name], **operands}
        try:
            spec = resolve(words)
        except CannotResolve:
            continue
        if written_out and is_written_out(spec):
            label, total = reduction(rng)
            return Rewrite(words, f"{name}, {held}: {label}", partial(norm, spec, total=total))
        if not written_out and spec.accumulate_dtype == "float32" and spec.residual == "none":
            change = rng.choice(ORDERS)
            return Rewrite(words, f"{name}, {held}: {change}", emulated({**words, **change}))


# --- written out -----------------------------------------------------------------------------------------------------


def is_written_out(spec: NormSpec) -> bool:
    """Whether `norm` computes what the spec declares."""
    inner = {spec.compute_dtype, spec.square_dtype, spec.accumulate_dtype, spec.mean_dtype, spec.statistic_dtype}
    plain = {
        spec.input_clamp, spec.output_clamp, spec.prescale, spec.residual, spec.post_scale, spec.gain_cast
    } == {"none"}  # fmt: skip
    return (
        inner | {spec.inverse_dtype, spec.eps_dtype, spec.gain_offset_dtype} == {"float32"}
        and plain
        and not (spec.center or spec.bias)
        and spec.axes == (-1,)
        and spec.groups == 1
        and spec.statistic_width == "all"
        and (spec.statistic, spec.statistic_algorithm) == ("mean_square", "direct")
        and spec.mean_scaling in ("divide_by_n", "multiply_by_reciprocal")
        and spec.eps_placement in ("inside_sqrt", "outside_sqrt", "floor_rms", "none")
        and spec.gain_position == "after_normalize"
        and spec.association == "(x*i)*g"
        and (spec.subnormals, spec.rounding) == ("keep", "nearest_even")
    )


def norm(spec: NormSpec, x: Array, gain: Array, *, total: Total) -> Array:
    """The norm of x[rows, width] in float32 with casts to 16 bits, its sum of squares formed by `total`."""
    one, eps = np.float32(1), np.float32(spec.eps)
    wide = x.astype(np.float32)
    count = np.float32(x.shape[-1])
    mean: Array = total(wide * wide).astype(np.float32)
    mean = mean / count if spec.mean_scaling == "divide_by_n" else mean * (one / count)
    if spec.eps_placement == "inside_sqrt":
        mean = mean + eps
    root = np.sqrt(mean)
    if spec.eps_placement == "outside_sqrt":
        root = root + eps
    if spec.eps_placement == "floor_rms":
        root = np.maximum(root, eps)
    if spec.inverse == "divide_by_sqrt":
        y = wide / root
    elif spec.inverse == "rsqrt" and spec.eps_placement in ("inside_sqrt", "none"):
        y = wide * (1.0 / np.sqrt(mean.astype(np.float64))).astype(np.float32)
    else:
        y = wide * (one / root)
    return _with_gain(spec, y, gain).astype(DTYPES[spec.output_dtype])


def _with_gain(spec: NormSpec, y: Array, gain: Array) -> Array:
    before = spec.cast_point == "before_gain"
    if spec.cast_point == "weight_if_half" and gain.dtype.itemsize == 2:
        y = y.astype(gain.dtype)
    elif before:
        y = y.astype(DTYPES[spec.normalized_dtype])
    if not spec.gain_applied:
        return y
    factor = gain.astype(np.float32)
    if spec.gain_offset:
        factor = factor + np.float32(spec.gain_offset)
    return (y.astype(np.float32) * factor).astype(DTYPES[spec.gain_product_dtype])


def reduction(rng: random.Random) -> tuple[str, Total]:
    """A way to add up a row, with a label."""
    size = rng.choice((3, 5, 7, 8, 16, 24, 32, 48, 64, 100))
    kind, seed = rng.choice(tuple(KINDS)), rng.randrange(1 << 30)
    return f"{kind} {size}", partial(KINDS[kind], size=size, seed=seed)


def _in_chunks(squares: Array, size: int, seed: int) -> Array:
    parts = [squares[:, at : at + size].sum(axis=-1, keepdims=True) for at in range(0, squares.shape[-1], size)]
    return _one_by_one(np.concatenate(parts, axis=-1))


def _in_chunks_of_float64(squares: Array, size: int, seed: int) -> Array:
    parts = [squares[:, at : at + size].sum(axis=-1, keepdims=True) for at in range(0, squares.shape[-1], size)]
    found: Array = np.concatenate(parts, axis=-1).astype(np.float64).sum(axis=-1, keepdims=True)
    return found


def _shuffled(squares: Array, size: int, seed: int) -> Array:
    return _one_by_one(squares[:, np.random.default_rng(seed).permutation(squares.shape[-1])])


def _backwards(squares: Array, size: int, seed: int) -> Array:
    return _one_by_one(squares[:, ::-1])


def _strided(squares: Array, size: int, seed: int) -> Array:
    lanes = [_one_by_one(squares[:, lane::size]) for lane in range(min(size, squares.shape[-1]))]
    return _one_by_one(np.concatenate(lanes, axis=-1))


def _in_float64(squares: Array, size: int, seed: int) -> Array:
    found: Array = squares.astype(np.float64).sum(axis=-1, keepdims=True)
    return found


def _compensated(squares: Array, size: int, seed: int) -> Array:
    """Kahan's running sum, where it stays finite: inf − inf is no rounding."""
    total = np.zeros_like(squares[:, :1])
    carried = np.zeros_like(total)
    for column in range(squares.shape[-1]):
        term = squares[:, column : column + 1] - carried
        grown = total + term
        carried = (grown - total) - term
        total = grown
    return np.where(np.isfinite(total), total, _one_by_one(squares))


def _smallest_first(squares: Array, size: int, seed: int) -> Array:
    return _one_by_one(np.sort(squares, axis=-1))


def _one_by_one(terms: Array) -> Array:
    return np.add.accumulate(terms, axis=-1)[:, -1:]


KINDS: dict[str, Callable[..., Array]] = {
    "in chunks of": _in_chunks,
    "in chunks, added in float64, of": _in_chunks_of_float64,
    "shuffled": _shuffled,
    "backwards": _backwards,
    "strided by": _strided,
    "in float64": _in_float64,
    "compensated": _compensated,
    "smallest first": _smallest_first,
}

# --- by the emulator -------------------------------------------------------------------------------------------------

ORDERS: tuple[dict[str, str], ...] = (
    *({"accumulate_order": f"blocks:{size}"} for size in (3, 8, 17, 32)),
    *({"accumulate_order": f"lanes:{count}"} for count in (2, 5, 16, 32)),
    {"accumulate_order": "sequential"},
    {"accumulate_dtype": "float64"},
)


def emulated(words: Mapping[str, Any]) -> Box:
    """The declared norm, on bare arrays."""
    from rmsaudit.case import Case

    spec = resolve(words)

    def box(x: Array, gain: Array) -> Array:
        nothing = np.zeros_like(x)
        case = Case(category="", label="", x=x, gain=gain, bias=np.zeros_like(gain), residual=nothing)
        return emulate(fitted(spec, x.shape[-1]), case)

    return box


# --- what comes of it ------------------------------------------------------------------------------------------------


def evidence(rewrite: Rewrite) -> Evidence:
    """What the explainer sees of it."""
    spec = resolve(rewrite.words)
    gathering = Gathering(spec.width)
    with np.errstate(all="ignore"):
        for case in fed(spec, spec):
            gathering.add(case, emulate(fitted(spec, case.width), case), rewrite.box(case.x, case.gain))
    return gathering.evidence()


def false_causes(found: Explanations) -> set[str]:
    """The variables that are named and are not the reduction's."""
    if found.nothing_to_explain:
        return set()
    told = [each for each in (found.found, found.partial) if each is not None]
    return {name for each in told for name in each.changes} - REDUCTION


def main(count: int, first: int) -> None:
    unexplained = wrong = 0
    for number in range(first, first + count):
        rewrite = draw(f"rewrite/{number}")
        found = explain(rewrite.words, evidence(rewrite), starts=presets)
        named = false_causes(found)
        nothing = not found.nothing_to_explain and found.found is None
        wrong, unexplained = wrong + bool(named), unexplained + nothing
        if named or nothing:
            print(number, rewrite.label, named or "unexplained", flush=True)  # noqa: T201  a script
    print(f"{wrong} of {count} got a cause that is not there; {unexplained} were called unexplained")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
