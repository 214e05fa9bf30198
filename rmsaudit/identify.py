"""What is this? The spec that re-creates a side, how far it is from that, and the presets that are nearest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rmsaudit import battery
from rmsaudit.battery import Setup, Skipped
from rmsaudit.emulator import emulate
from rmsaudit.evidence import Evidence, Gathering
from rmsaudit.explain import OPERANDS, Explanations, Near, Starts, Word, explain, rank
from rmsaudit.inversion.black_box import CannotAsk, of_side
from rmsaudit.inversion.box import NotThisFamily
from rmsaudit.inversion.reading import Reading, read
from rmsaudit.loaders import Ran, Side
from rmsaudit.semantics import variables
from rmsaudit.semantics.resolve import fitted

READING = "what its outputs show"


@dataclass(frozen=True, eq=False, kw_only=True)
class Identity:
    """What a side was found to be.

    words: the declaration that re-creates it, or None. same: changes to it that these inputs cannot tell from it. word,
    worst: how it is met. nearest: presets, best first. told: what its outputs show by themselves, or why nothing.
    failures: why it could not be run, case by case.
    """

    words: Mapping[str, Any] | None
    word: Word | None
    worst: int
    same: tuple[Mapping[str, Any], ...]
    nearest: tuple[Near, ...]
    told: str
    failures: tuple[str, ...]
    patterns: tuple[str, ...] = ()


def identify(side: Side, presets: Starts, *, rows: int = 16, seed: int = 0) -> Identity:
    """Runs the battery and searches from the default, the declaration, the presets and what the outputs show."""
    evidence, failures = _observed(side, rows, seed)
    if not evidence.guide:
        return Identity(words=None, word=None, worst=0, same=(), nearest=(), told="", failures=failures)
    reading = _reading(side)
    default = _default(side)
    found = explain(default, evidence, starts=lambda: {"declared": side.declared, **_variants(reading), **presets})
    return Identity(
        words=_words(found),
        word=_word(found),
        worst=found.found.match.worst if found.found else found.unchanged.worst,
        same=found.found.same if found.found else (),
        nearest=rank(default, evidence, presets),
        told=_told(reading),
        failures=failures,
    )


def _words(found: Explanations) -> Mapping[str, Any] | None:
    if found.nothing_to_explain:
        return found.base
    return found.found.words if found.found else None


def _word(found: Explanations) -> Word | None:
    return found.found.match.word if found.found else found.unchanged.word


def _default(side: Side) -> dict[str, Any]:
    """Every variable at its default, with the side's own inputs."""
    kept = {name: side.declared[name] for name in OPERANDS}
    return {**{name: variable.default for name, variable in variables().items()}, **kept}


def _observed(side: Side, rows: int, seed: int) -> tuple[Evidence, tuple[str, ...]]:
    """What the side gave on the battery, beside what its declaration gives."""
    gathering = Gathering(side.spec.width)
    failures: dict[str, None] = {}
    setup = Setup(reference=side.spec, candidate=side.spec, rows=rows, seed=seed, gain=side.gain)
    for built in battery.build(setup):
        if isinstance(built, Skipped):
            continue
        for case in built[1]:
            seen = side.observe(case)
            if isinstance(seen, Ran):
                gathering.add(case, emulate(fitted(side.spec, case.width), case), seen.output)
            else:
                failures[f"{case.category}: {seen.says}"] = None
    return gathering.evidence(), tuple(failures)


def _reading(side: Side) -> Reading | NotThisFamily | str:
    try:
        return read(of_side(side), input_dtype=side.spec.input_dtype, gain_dtype=side.spec.gain_dtype)
    except (CannotAsk, ValueError) as refused:
        return str(refused)


def _variants(reading: Reading | NotThisFamily | str) -> Starts:
    if not isinstance(reading, Reading):
        return {}
    return {f"{READING} ({index})": words for index, words in enumerate(reading.variants())}


def _told(reading: Reading | NotThisFamily | str) -> str:
    match reading:
        case Reading():
            return "; ".join(_shown(reading))
        case NotThisFamily(says):
            return f"not read by itself: {says}"
    return f"not read by itself: {reading}"


def _shown(reading: Reading) -> Iterator[str]:
    number = reading.number(reading.likeliest)
    yield f"eps {number if number else 'none'}, {reading.likeliest.placement}"
    yield f"statistic of {reading.statistic_precision} precision"
    yield from reading.not_observable
