"""output-dtype: returns the dtype that its `norm:` says, for each dtype of input and gain.

Judged are the declared input dtype under every gain dtype, because gains are often kept in another one than declared;
the other inputs are told. A pair that is refused is no fault.
"""

from collections.abc import Iterator

from rmsaudit.arrays import word_of
from rmsaudit.behaviours._asking import Inputs, Observed, Unanswered, answered, broken, kept
from rmsaudit.loaders import Failed, Side
from rmsaudit.loaders.python import PythonSide
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import CannotResolve, resolve

CAUSE = "output-dtype"
CLAIM = "returns another dtype than its `norm:` says"
NEXT_STEP = (
    "Declare the output_dtype that is meant (`promote`, where the gain's dtype decides too), or cast before returning."
)
REPEATABLE = False
TRIED = ("float32", "bfloat16", "float16")
MOST_REFUSALS = 2  # each of them costs the process, and the next one the import
ROWS = 4


def look(side: Side, inputs: Inputs) -> Observed:
    """One call for each pair of dtypes: up to seven."""
    if not isinstance(side, PythonSide):
        output = answered(side.observe(inputs.ordinary("output-dtype", ROWS))).output
        told, holds = _told(side.spec, word_of(output))
        says = f"{told}; kind python alone can be asked for other dtypes"
        return kept(says) if holds else broken(says)
    told_of_all, holds_all, refused = [], True, 0
    for spec in _pairs(side):
        seen = _returned(side, spec, inputs.seed)
        if isinstance(seen, Failed):
            refused += 1
            told_of_all.append(f"{_operands(spec)} is refused")
            if refused == MOST_REFUSALS:
                told_of_all.append("others were not tried")
                break
            continue
        told, holds = _told(spec, seen)
        told_of_all.append(told)
        holds_all &= holds or spec.input_dtype != side.spec.input_dtype
    says = ", ".join(told_of_all)
    return kept(says) if holds_all else broken(says)


def _returned(side: PythonSide, spec: NormSpec, seed: int) -> str | Failed:
    """The dtype that comes out for the operands' dtypes of `spec`. Raises Unanswered for the declared ones."""
    seen = side.call(Inputs(spec=spec, gain=None, seed=seed).ordinary("output-dtype", ROWS), spec=spec)
    if isinstance(seen, Failed):
        if spec is side.spec:
            raise Unanswered(seen.says)
        return seen
    return word_of(seen.output)


def _told(spec: NormSpec, seen: str) -> tuple[str, bool]:
    """`bfloat16 × float32 → float32 (believed: bfloat16)`, and whether it is as believed."""
    holds = seen == spec.output_dtype
    return f"{_operands(spec)} → {seen}{'' if holds else f' (believed: {spec.output_dtype})'}", holds


def _operands(spec: NormSpec) -> str:
    return f"{spec.input_dtype} × {spec.gain_dtype}" if spec.gain_applied else spec.input_dtype


def _pairs(side: PythonSide) -> Iterator[NormSpec]:
    """The declared spec, then the same declaration under other dtypes of input × gain where it has a meaning."""
    yield side.spec
    own, gain = side.spec.input_dtype, side.spec.gain_dtype
    gains = [word for word in TRIED if word != gain] if side.spec.gain_applied else []
    others = [word for word in TRIED if word != own]
    pairs = [(own, word) for word in gains]
    for word in others:
        pairs += [(word, word), *([(word, "float32")] if gains and word != "float32" else [])]
    for x, g in pairs:
        try:
            yield resolve({**side.declared, "input_dtype": x, "gain_dtype": g})
        except CannotResolve:
            continue
