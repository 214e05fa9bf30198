"""Seeded composites: two presets on the same inputs, with one or two random changes of the second.

python tests/composites.py 500 [first]      how many of 500 are recovered, half of them of one preset
"""

import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rmsaudit import battery
from rmsaudit.battery import Setup, Skipped
from rmsaudit.case import Case
from rmsaudit.causes import GAIN_VALUES
from rmsaudit.documents.preset import preset_names, read_preset
from rmsaudit.emulator import emulate
from rmsaudit.evidence import Evidence, Gathering, steps
from rmsaudit.explain import Explanations, explain
from rmsaudit.formats import FORMATS
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import CannotResolve, fitted, resolve

DEFAULTS = {name: variable.default for name, variable in variables().items()}
WIDTHS = (64, 96, 128, 256, 384)
SHARE_16_BITS, ULP_32_BITS = 2e-3, 16
"""How far a recovered spec may be from the truth on rows that it was not searched on: what another order of the sum
gives. In 16 bits that is a rounding boundary now and then, in float32 a few ulp at these widths."""
OTHER_SEED = 7  # of the battery on which a recovered spec is checked: no row of it was searched on


def presets() -> dict[str, Mapping[str, Any]]:
    return {name: read_preset(name).values for name in preset_names()}


@dataclass(frozen=True)
class Composite:
    """reference and candidate: all declared words. changed: what was changed at random in the candidate."""

    names: tuple[str, str]
    changed: Mapping[str, Any]
    reference: dict[str, Any]
    candidate: dict[str, Any]


def draw(seed: str, one_preset: bool) -> Composite:
    """A pair that resolves and is not the same twice. one_preset: both sides are the same preset."""
    rng, known = random.Random(seed), presets()
    while True:
        first, second = rng.choice(list(known)), rng.choice(list(known))
        if one_preset:
            second = first
        operands = _operands(rng)
        reference = {**DEFAULTS, **known[first], **operands}
        candidate = {**DEFAULTS, **known[second], **operands}
        changed = dict(_change(rng, candidate) for _ in range(rng.choice((1, 2))))
        candidate |= changed
        try:
            if resolve(reference) != resolve(candidate):
                return Composite((first, second), changed, reference, candidate)
        except CannotResolve:
            continue


def _operands(rng: random.Random) -> dict[str, Any]:
    held = rng.choice(("float32", "bfloat16", "float16", "bfloat16"))
    gain = held if rng.random() < 0.7 else "float32"
    return {"width": rng.choice(WIDTHS), "input_dtype": held, "gain_dtype": gain, "residual_dtype": held}


CHANGED = (
    "eps", "eps", "eps", "eps_placement", "cast_point", "gain_offset", "groups", "center", "compute_dtype",
    "inverse_dtype", "statistic_dtype", "gain_applied", "statistic", "post_scale", "statistic_width", "input_clamp",
    "output_clamp", "prescale", "subnormals", "rounding", "gain_cast", "gain_offset_dtype", "association", "inverse",
    "mean_scaling", "accumulate_dtype", "output_dtype", "axes", "square_dtype", "mean_dtype",
)  # fmt: skip


def _change(rng: random.Random, words: Mapping[str, Any]) -> tuple[str, Any]:
    name = rng.choice(CHANGED)
    width = words["width"]
    drawn: dict[str, list[Any]] = {
        "eps": [float(f"{10 ** rng.uniform(-8, -2):.{rng.choice((1, 1, 2, 3))}g}")],
        "groups": [2, 4, 8, 16],
        "post_scale": ["sqrt_width", 0.5, 0.0625, 1.7],
        "statistic_width": [width - 1, width // 2, width - 16],
        "input_clamp": [100.0, 1000.0, 65504.0],
        "output_clamp": [2.0, 5.0, 10.0],
        "axes": [(-2,), (-2, -1)],
        "gain_offset": [0.0, 1.0, 2.0],
    }
    variable = variables()[name]
    if name in drawn:
        return name, rng.choice(drawn[name])
    if variable.kind == "flag":
        return name, not words[name]
    return name, rng.choice(("bfloat16", "float16", "float32") if variable.kind == "dtype" else variable.words)


def fed(reference: NormSpec, candidate: NormSpec, *, seed: int = 0, rows: int = 16) -> Iterator[Case]:
    """The battery's cases at every width that both take."""
    setup = Setup(reference=reference, candidate=candidate, rows=rows, seed=seed)
    for built in battery.build(setup):
        if not isinstance(built, Skipped):
            yield from built[1]


def evidence(reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> Evidence:
    """What the explainer would see of two declared sides."""
    one, other = resolve(reference), resolve(candidate)
    gathering = Gathering(one.width)
    for case in fed(one, other):
        gathering.add(case, emulate(fitted(one, case.width), case), emulate(fitted(other, case.width), case))
    return gathering.evidence()


def differing(found: NormSpec, truth: NormSpec) -> tuple[float, float]:
    """The share of outputs that differ on another battery, and the largest distance in ulp of the output dtype."""
    different = total = 0
    worst = 0.0
    for case in fed(truth, truth, seed=OTHER_SEED):
        one, other = (emulate(fitted(spec, case.width), case) for spec in (found, truth))
        if one.dtype != other.dtype:
            return 1.0, np.inf
        apart = np.abs(steps(one, other))
        different, total = different + int((apart != 0).sum()), total + apart.size
        worst = max(worst, float(apart.max(initial=0.0)))
    return different / total, worst


def recovered(composite: Composite) -> bool:
    """Whether the reference with the changes that were found is the candidate, on rows that were not searched on.

    Where several explanations are told as equal on these inputs, one of them has to be.
    """
    found = explain(composite.reference, evidence(composite.reference, composite.candidate), starts=presets)
    truth = resolve(composite.candidate)
    return any(is_same(spec, truth) for spec in told(composite.reference, found))


def told(reference: Mapping[str, Any], found: Explanations) -> Iterator[NormSpec]:
    """What the explainer says the candidate is: the best explanation first, then those that these inputs cannot tell
    from it."""
    if found.nothing_to_explain:
        yield resolve(reference)
    elif found.found is not None:
        for changes in (found.found.changes, *found.found.same):
            if GAIN_VALUES not in changes:
                yield resolve({**reference, **changes})


def is_same(spec: NormSpec, truth: NormSpec) -> bool:
    """Whether they are the same up to the order of the sum, which is not told where the sum has at least 24 bits."""
    if all(FORMATS[each.accumulate_dtype].precision >= 24 for each in (spec, truth)):
        spec = replace(spec, accumulate_order=truth.accumulate_order)
    share, worst = differing(spec, truth)
    return worst <= ULP_32_BITS if truth.output_dtype in ("float32", "float64") else share <= SHARE_16_BITS


def main(count: int, first: int) -> None:
    good = 0
    for number in range(first, first + count):
        composite = draw(f"many/{number}", bool(number % 2))
        fine = recovered(composite)
        good += fine
        if not fine:
            print(number, *composite.names, dict(composite.changed), flush=True)  # noqa: T201  a script
    print(f"{good} of {count} recovered")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
