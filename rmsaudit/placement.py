"""At which boundary of a layer a norm sits, from what was recorded around its sublayers.

A sublayer f (attention, feed-forward) reads s and adds its output to the residual stream h, which becomes y. With N the
norm of a site, each recorded tensor is held against everything that could have made it:

    s = h                  no norm                       y = h + f              no norm
    s = N(h)               before the sublayer           y = h + N(f)           after it, before the addition
                                                         y = N(h + f)           after the addition
                                                         y = N(h) + f           on the residual

A formula explains a tensor where every element lies within what rounding can do: the bound of `inversion.bounds` for
the slowest order of the sum, and a rounding for each addition. A norm is said to sit where its formula is the only one
that explains; where several do (gains of 1 on rows of rms 1), or nothing was recorded, it is not observable there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from rmsaudit.arrays import Array, round_to
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.bounds import bound
from rmsaudit.oracle import oracle
from rmsaudit.semantics import NormSpec

Boundary = Literal["before", "after", "after_addition", "on_residual"]
Tensor = tuple[str, Literal["input", "after"]]
"""A sublayer's name, and which of its tensors: what it reads, or the stream behind its addition."""
WORDS: Mapping[Boundary | None, str] = {
    "before": "before {}",
    "after": "after {}, before the residual addition",
    "after_addition": "after the residual addition of {}",
    "on_residual": "on the residual beside {}",
    None: "no norm at {}",
}
_ORACLE = 2.0**-39  # of a value: twice what the oracle's float64 results may be off by


@dataclass(frozen=True, eq=False, kw_only=True)
class Sublayer:
    """What was recorded around one sublayer, each [rows, width] of one dtype, or None.

    before, after: the residual stream in front of it and behind its addition. input, output: of the sublayer itself.
    """

    name: str
    before: Array | None = None
    input: Array | None = None
    output: Array | None = None
    after: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One formula for one recorded tensor. boundary: None for that without a norm.

    share: the largest distance of an element from it, as a part of what rounding can do there; the formula explains up
    to 1. relative: the largest distance ÷ the largest value of the tensor. says: why it could not be tried; "" if it
    was.
    """

    sublayer: str
    tensor: Literal["input", "after"]
    boundary: Boundary | None
    share: float = np.inf
    relative: float = np.inf
    says: str = ""

    @property
    def explains(self) -> bool:
        return not self.says and self.share <= 1


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the norm of one site sits: places in the order of the layer; several for a norm that acts twice.

    alike: other sites of the layer with the same spec and gains, which cannot be told from this one.
    """

    trials: tuple[Trial, ...]
    alike: tuple[str, ...] = ()

    @cached_property
    def judged(self) -> Mapping[Tensor, Boundary | None]:
        """For every tensor that was recorded and leaves no doubt: the boundary where it shows this norm, or None."""
        found: dict[Tensor, Boundary | None] = {}
        for tensor, trials in self._by_tensor().items():
            with_norm = [trial.boundary for trial in trials if trial.explains and trial.boundary]
            explained = sum(trial.explains for trial in trials)
            if not any(trial.says for trial in trials) and (explained < 2 or not with_norm):
                found[tensor] = with_norm[0] if with_norm else None
        return found

    @property
    def places(self) -> tuple[tuple[str, Boundary], ...]:
        """Sublayer and boundary of every formula with the norm that alone explains its tensor."""
        return tuple((sublayer, boundary) for (sublayer, _), boundary in self.judged.items() if boundary)

    @property
    def open_(self) -> tuple[str, ...]:
        """Why it may sit elsewhere too: tensors that several formulas explain, and those that were not recorded."""
        shared = []
        for (sublayer, _), trials in self._by_tensor().items():
            found = [trial for trial in trials if trial.explains]
            if len(found) > 1 and any(trial.boundary for trial in found):
                shared.append(f"{sublayer}: {' and '.join(map(_words, found))} explain the same")
        return (*shared, *dict.fromkeys(trial.says for trial in self.trials if trial.says))

    @property
    def is_unexplained(self) -> bool:
        """Whether all was recorded, and the norm as it is given explains nothing: it has other gains, another eps or
        another boundary there."""
        return not self.places and not self.open_ and bool(self.trials)

    @property
    def says(self) -> str:
        """In words: "before self_attn"; or that it is not observable, or nowhere, with the nearest formula."""
        if self.places:
            where = " and ".join(WORDS[boundary].format(sublayer) for sublayer, boundary in self.places)
            return f"{where} (or {' or '.join(self.alike)}, of equal gains)" if self.alike else where
        if self.open_:
            return f"not observable ({self.open_[0]})"
        tried = [trial for trial in self.trials if trial.boundary]
        if not tried:
            return "not observable (nothing was recorded around its sublayers)"
        nearest = min(tried, key=lambda trial: trial.relative)
        return f"at no boundary that was recorded; the nearest is {_words(nearest)}, {nearest.relative:.2g} off"

    def _by_tensor(self) -> dict[Tensor, list[Trial]]:
        found: dict[Tensor, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault((trial.sublayer, trial.tensor), []).append(trial)
        return found


def place_of(spec: NormSpec, gain: Array, sublayers: Sequence[Sublayer]) -> Placement:
    """Where the norm of `spec` and `gain` sits among what was recorded around the sublayers of its layer.

    spec: with the dtypes that the recorded run computed in (`run_dtype`). gain: [width], as it is stored; where its
    dtype holds more than spec.gain_dtype, either is thought possible.
    """
    norm = _Norm(replace(spec, residual="none", accumulate_order="sequential"), gain)
    with np.errstate(all="ignore"):
        return Placement(trials=tuple(trial for sublayer in sublayers for trial in _trials(norm, sublayer)))


def place_sites(
    layer: str, norms: Mapping[str, tuple[NormSpec, Array]], tensors: Mapping[str, Array]
) -> dict[str, Placement]:
    """Where each norm of one layer sits. norms: by site, as `place_of` takes them. tensors: by name (`names_around`).

    A site of another width than the residual stream (one over heads) is left out. Raises ValueError where what was
    recorded around the layer does not have one shape.
    """
    sublayers = [
        Sublayer(name=sublayer, **{field: tensors[name] for field, name in named.items()})
        for sublayer, named in names_around(layer, tensors).items()
    ]
    shapes = {name: tensors[name].shape for named in names_around(layer, tensors).values() for name in named.values()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"what was recorded around {layer} is of different shapes: {listed}")
    widths = {shape[-1] for shape in shapes.values()}
    placed = {site: place_of(*norm, sublayers) for site, norm in norms.items() if norm[0].width in widths}
    return {site: replace(each, alike=_alike(site, norms)) for site, each in placed.items()}


def _alike(site: str, norms: Mapping[str, tuple[NormSpec, Array]]) -> tuple[str, ...]:
    spec, gain = norms[site]
    return tuple(
        name
        for name, (other, other_gain) in norms.items()
        if name != site and other == spec and np.array_equal(other_gain, gain)
    )


def run_dtype(tensors: Collection[Array]) -> str:
    """The dtype that a run seems to have computed in: the narrowest one that holds every recorded value."""
    with np.errstate(over="ignore"):
        for word in ("bfloat16", "float16", "float32"):
            if all(np.array_equal(round_to(t, word).astype(t.dtype), t, equal_nan=True) for t in tensors):
                return word
    return "float64"


@dataclass(frozen=True, eq=False)
class _Formula:
    """What a formula gives, in float64, and how far off rounding can be; NaN where nothing is known."""

    values: Array
    reach: Array


@dataclass(frozen=True, eq=False)
class _Norm:
    spec: NormSpec
    stored_gain: Array

    @property
    def roundoff(self) -> float:
        """Half an ulp, as a part of a value, of the dtype that streams are held in."""
        return _roundoff(self.spec.input_dtype)

    @cached_property
    def gain(self) -> Array:
        return round_to(self.stored_gain, self.spec.gain_dtype)

    @cached_property
    def gain_slack(self) -> Array:
        """By how much of an output the gain's own rounding may move it, [width]; infinite where gain and offset
        cancel."""
        gain = self.gain.astype(np.float64)
        if np.array_equal(gain, self.stored_gain.astype(np.float64)):
            return np.zeros(gain.shape)
        slack: Array = _roundoff(self.spec.gain_dtype) * np.abs(gain) / np.abs(gain + self.spec.gain_offset)
        return np.where(np.isnan(slack), np.inf, slack)

    def of(self, x: Array) -> _Formula | str:
        """N(x), or why there is no bound for it."""
        x = round_to(x, self.spec.input_dtype)
        zeros = np.broadcast_to(np.zeros((), self.gain.dtype), self.gain.shape)
        unread = np.broadcast_to(np.zeros((), x.dtype), x.shape)
        case = Case(category="", label="", x=x, gain=self.gain, bias=zeros, residual=unread)
        limits = bound(self.spec, case)
        if isinstance(limits, str):
            return limits
        values = oracle(self.spec, case, with_approx=True).approx
        assert values is not None
        theta = np.broadcast_to(limits.theta, limits.alpha.shape).reshape(x.shape)
        void = np.array([bool(reason) for reason in limits.void]).reshape(len(x), self.spec.groups)
        reach = (theta + self.gain_slack + _ORACLE) * np.abs(values) + limits.alpha.reshape(x.shape)
        return _Formula(np.where(void.any(axis=1, keepdims=True), np.nan, values), reach)


def _roundoff(word: str) -> float:
    return 2.0 ** -FORMATS[word].precision


def _trials(norm: _Norm, sublayer: Sublayer) -> Iterator[Trial]:
    yield from _trials_of_input(norm, sublayer)
    yield from _trials_of_after(norm, sublayer)


def _trials_of_input(norm: _Norm, sublayer: Sublayer) -> Iterator[Trial]:
    stream, target, name = sublayer.before, sublayer.input, sublayer.name
    if stream is None or target is None:
        says = f"what enters {name} and the stream before it were not both recorded"
        yield Trial(sublayer=name, tensor="input", boundary="before", says=says)
        return
    h = stream.astype(np.float64)
    formulas: dict[Boundary | None, _Formula | str] = {
        None: _Formula(h, norm.roundoff * np.abs(h)),
        "before": norm.of(stream),
    }
    for boundary, formula in formulas.items():
        yield _trial(Trial(sublayer=name, tensor="input", boundary=boundary), formula, target)


def _trials_of_after(norm: _Norm, sublayer: Sublayer) -> Iterator[Trial]:
    stream, added, target, name = sublayer.before, sublayer.output, sublayer.after, sublayer.name
    if stream is None or added is None or target is None:
        says = f"what leaves {name} and the stream on both sides of it were not all recorded"
        yield Trial(sublayer=name, tensor="after", boundary="after", says=says)
        return
    h, f = (_Formula(part.astype(np.float64), np.zeros(part.shape)) for part in (stream, added))
    together = _sum(h, f, norm.roundoff)
    assert isinstance(together, _Formula)
    formulas: dict[Boundary | None, _Formula | str] = {
        None: together,
        "after": _sum(h, norm.of(added), norm.roundoff),
        "after_addition": _after_addition(norm, together.values),
        "on_residual": _sum(f, norm.of(stream), norm.roundoff),
    }
    for boundary, formula in formulas.items():
        yield _trial(Trial(sublayer=name, tensor="after", boundary=boundary), formula, target)


def _sum(one: _Formula, other: _Formula | str, roundoff: float) -> _Formula | str:
    """The sum, rounded once."""
    if isinstance(other, str):
        return other
    values, reach = one.values + other.values, one.reach + other.reach
    return _Formula(values, reach + roundoff * (np.abs(values) + reach))


def _after_addition(norm: _Norm, total: Array) -> _Formula | str:
    """N of a sum that may have been rounded before, or not: an element is off by half an ulp, and its row's rms too."""
    found = norm.of(total)
    if isinstance(found, str):
        return found
    return _Formula(found.values, found.reach + 3 * norm.roundoff * np.abs(found.values))


def _trial(about: Trial, formula: _Formula | str, target: Array) -> Trial:
    """How near the recorded tensor is to a formula, over the elements of which something is known."""
    if isinstance(formula, str):
        return replace(about, says=formula)
    recorded = target.astype(np.float64)
    known = np.isfinite(recorded) & np.isfinite(formula.values) & np.isfinite(formula.reach)
    if not known.any():
        return replace(about, says=f"no element of what was recorded at {about.sublayer} can be judged")
    apart = np.abs(recorded - formula.values)[known]
    reach = formula.reach[known]
    share = np.where(apart > 0, apart / reach, 0.0)
    largest = float(np.abs(recorded[known]).max())
    relative = float(apart.max()) / largest if largest else float(apart.max())
    return replace(about, share=float(share.max()), relative=relative)


def _words(trial: Trial) -> str:
    return WORDS[trial.boundary].format(trial.sublayer)


# --- names -----------------------------------------------------------------------------------------------------------


def sublayers_in(layer: str, names: Iterable[str]) -> tuple[str, ...]:
    """The sublayers of a layer around which something was recorded, as paths below it: attention first."""
    paths = (name.rpartition("/")[0] for name in names if "/" in name)
    found = {path.removeprefix(f"{layer}.") for path in paths if path.startswith(f"{layer}.")}
    return tuple(sorted(found, key=lambda name: (not _is_attention(name), name)))


def names_around(layer: str, names: Collection[str]) -> dict[str, dict[str, str]]:
    """For each sublayer of a layer, and each field of `Sublayer`, the name of the tensor that holds it, if it is there.

    Attention lies between LAYER/input and LAYER/after_attention, the other sublayer between that and LAYER/output; a
    sublayer that is alone between LAYER/input and LAYER/output. What leaves a layer may stand as what enters the next.
    """
    path, _, number = layer.rpartition(".")
    ends = [name for name in (f"{layer}/output", f"{path}.{int(number) + 1}/input") if name in names]
    between = f"{layer}/after_attention"
    sublayers = sublayers_in(layer, names)
    splits = between in names or any(map(_is_attention, sublayers))
    found = {}
    for sublayer in sublayers:
        first = _is_attention(sublayer) or not splits
        wanted = {
            "before": f"{layer}/input" if first else between,
            "input": f"{layer}.{sublayer}/input",
            "output": f"{layer}.{sublayer}/output",
            "after": between if first and splits else ends[0] if ends else "",
        }
        found[sublayer] = {field: name for field, name in wanted.items() if name in names}
    return found


def _is_attention(sublayer: str) -> bool:
    return "att" in sublayer.lower()


def disagreement(reference: Placement, candidate: Placement) -> str | None:
    """In a sentence, where a tensor that both leave no doubt about shows the norm on one side and not, or otherwise, on
    the other; else None. A norm that explains nothing on a side is another norm there, and no matter of placement."""
    if not reference.places or not candidate.places:
        return None
    both = reference.judged.keys() & candidate.judged.keys()
    if all(reference.judged[tensor] == candidate.judged[tensor] for tensor in both):
        return None
    return f"reference: {reference.says}; candidate: {candidate.says}"
