"""From the ladder to findings: which variable did it, where, and how much of the difference it re-creates.

Both sides are declared, so the differing variables are known; what is found is which of them matter. No side is called
wrong: the finding says what each one declares, where, and what follows.
"""

from collections.abc import Mapping

from rmsaudit import causes
from rmsaudit.belief import BEYOND
from rmsaudit.ladder import GAIN, Climb, RungPlan
from rmsaudit.measure.measurement import Measurement
from rmsaudit.record import Finding, Pair, Rung, RungErrors, Scalar, SideName, SideRecord
from rmsaudit.results import shortened

QUARTER = 4  # as `gate.FARTHER`: two binary digits


def rung(plan: RungPlan, climbs: Mapping[str, Climb], *, first: bool) -> Rung:
    """The rung as the record holds it. climbs: by category. Categories without a difference are left out.

    first: its cumulative errors are those of `alone`, and are not written twice."""
    return Rung(
        variable=plan.variable,
        from_=plan.from_,
        to=plan.to,
        decides=tuple(name for name, climb in climbs.items() if _decides(climb)),
        alone=_errors({name: climb.alone for name, climb in climbs.items()}),
        cumulative={} if first else _errors({name: climb.cumulative for name, climb in climbs.items()}),
        reverted=_errors({name: climb.reverted for name, climb in climbs.items()}),
        recreates=tuple(
            name for name, climb in climbs.items() if climb.alone is not None and climb.differing and not climb.left
        ),
        impossible=plan.impossible,
    )


def _decides(climb: Climb) -> bool:
    """True where setting only this variable back leaves a quarter or less: of the distance, or of the elements."""
    if climb.reverted is None or not climb.differing:
        return False
    if climb.full_mismatched and not climb.reverted.nonfinite.mismatched:
        return True
    closer = QUARTER * climb.reverted.max_ulp <= climb.full_ulp and climb.full_ulp > 0
    return closer or QUARTER * climb.reverted.differing <= climb.differing


def _errors(measured: Mapping[str, Measurement | None]) -> dict[str, RungErrors]:
    return {
        name: RungErrors(
            max_abs_error=found.max_abs_error,
            max_rel_error=found.max_rel_error,
            max_ulp=found.max_ulp,
            share=shortened(found.differing_share),
            zero_reference=found.zero_reference,
            nonfinite_mismatched=found.nonfinite.mismatched,
        )
        for name, found in measured.items()
        if found is not None and (found.differing or found.nonfinite.mismatched)
    }


def finding(climbed: Rung, climbs: Mapping[str, Climb], declared_at: Pair) -> Finding | None:
    """What this variable did, or None where it changes nothing that the battery can see.

    declared_at: where each side's value came from: `file:line:column`, or the words for another source.
    """
    if not climbed.alone and not _acts_with_others(climbs):
        return None
    differing = sum(climb.differing for climb in climbs.values())
    left = sum(min(climb.left, climb.differing) for climb in climbs.values())
    return Finding(
        cause=causes.of_variable(climbed.variable),
        variable=climbed.variable,
        reference_value=climbed.from_,
        candidate_value=climbed.to,
        claim=_claim(climbed),
        evidence=_evidence(climbed),
        explains=shortened(1.0 - left / differing) if differing else 0.0,
        residual_max_ulp=None if climbed.impossible else max((climb.left_ulp for climb in climbs.values()), default=0),
        seen_in=tuple(sorted(climbed.alone, key=lambda name: -climbed.alone[name].max_ulp)),
        declared_at=declared_at,
        next_step=_next_step(climbed, declared_at),
    )


def _acts_with_others(climbs: Mapping[str, Climb]) -> bool:
    """True where setting the variable back changes the difference although it does nothing alone."""
    return any(
        climb.reverted is not None and climb.cumulative is not None and climb.alone is not None
        and climb.reverted.differing < climb.differing
        for climb in climbs.values()
    )  # fmt: skip


def _claim(climbed: Rung) -> str:
    if climbed.variable == GAIN:
        return "The two sides carry different gain tensors."
    return f"The candidate has {climbed.variable} = {shown(climbed.to)}; the reference has {shown(climbed.from_)}."


def _evidence(climbed: Rung) -> str:
    if climbed.impossible:
        return f"It cannot be changed alone ({climbed.impossible})."
    if not climbed.alone:
        return "Alone it changes nothing here; together with the other differing variables it does."
    name, worst = max(climbed.alone.items(), key=lambda item: (item[1].nonfinite_mismatched, item[1].max_ulp))
    parts = [
        f"Changed alone, it moves {_count(len(climbed.alone), 'category', 'categories')}, most of all {name}:"
        f" {_far(worst)}, {percent(worst.share)} of the elements."
    ]
    if climbed.recreates:
        everywhere = set(climbed.alone) <= set(climbed.recreates)
        where = "" if everywhere else f" in {', '.join(climbed.recreates)}"
        parts.append(f"It alone re-creates the candidate bit for bit{where}.")
    parts.append(_after_reverting(climbed))
    return " ".join(parts)


def _after_reverting(climbed: Rung) -> str:
    if not climbed.reverted:
        return "With only it set back, nothing differs."
    name, worst = max(climbed.reverted.items(), key=lambda item: (item[1].nonfinite_mismatched, item[1].max_ulp))
    return f"With only it set back, at most {_far(worst)} remain ({name})."


def _far(errors: RungErrors) -> str:
    """How far a rung is off, where ulp alone may say nothing."""
    strange = errors.nonfinite_mismatched
    if not strange:
        return f"{errors.max_ulp} ulp"
    outputs = f"{strange} output{'s' * (strange > 1)} NaN or infinite on one side only"
    return f"{errors.max_ulp} ulp and {outputs}" if errors.max_ulp else outputs


def _next_step(climbed: Rung, declared_at: Pair) -> str:
    if climbed.variable == GAIN:
        return "Compare the two gain tensors: the same layer, the same convention (plain or offset), the same rounding?"
    source = declared_at.reference or "its declaration"
    if "config.json" in source or "gguf" in source.lower():
        return f"Read {climbed.variable} from the same place in the candidate: {source} has {shown(climbed.from_)}."
    return (
        f"Decide which {climbed.variable} the model was trained and evaluated with ({shown(climbed.from_)} by {source},"
        f" {shown(climbed.to)} by {declared_at.candidate or 'the candidate'}) and declare that on both sides."
    )


def shown(value: Scalar) -> str:
    """A value as it would be written in YAML, for a sentence."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, tuple) else str(value)


def percent(share: float) -> str:
    """A share in percent, three digits; never 0 % or 100 % for something that is not."""
    if 0 < share < 0.0005:
        return "under 0.05 %"
    if 0.9995 < share < 1:
        return "over 99.95 %"
    return f"{100 * share:.3g} %"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


# --- sides that run code ---------------------------------------------------------------------------------------------


def of_the_side(side: SideName, paper: SideRecord) -> list[Finding]:
    """What is to be said of one side by itself, whatever the other side does: what is seen directly comes first."""
    broken = _broken_belief(side, paper)
    return [*_broken_behaviours(side, paper), *_other_than_stated(side, paper), *([broken] if broken else [])]


def _broken_belief(side: SideName, paper: SideRecord) -> Finding | None:
    """The finding that the side does not compute what its `norm:` says, or None."""
    belief = paper.belief
    if belief is None or belief.holds != "broken":
        return None
    far = (
        "differs in dtype or in non-finite values" if belief.max_ulp == BEYOND else f"is up to {belief.max_ulp} ulp off"
    )
    return Finding(
        cause="belief-broken",
        claim=f"The {side} does not compute what its `norm:` declares.",
        evidence=(
            f"Beside the emulated declaration, on the same inputs, it {far} in {belief.worst}; other orders of"
            f" summation account for {belief.order_ulp} ulp there."
        ),
        explains=0.0,
        seen_in=(belief.worst,) if belief.worst else (),
        declared_at=Pair(**{side: paper.name}),
        next_step=(
            f"Correct the {side}'s `norm:` until the belief holds, or find out why the code does something else: the"
            " ladder and the oracle go by what is declared."
        ),
    )


def _other_than_stated(side: SideName, paper: SideRecord) -> list[Finding]:
    """Variables that the file declares otherwise than the thing itself states them."""
    return [
        Finding(
            cause="declared-otherwise",
            variable=name,
            reference_value=stated.value if side == "reference" else None,
            candidate_value=stated.value if side == "candidate" else None,
            claim=(
                f"The {side} is declared with {name} = {shown(paper.resolved[name].value)},"
                f" and states {shown(stated.value)}."
            ),
            evidence=f"{stated.source}, against {paper.resolved[name].source}.",
            explains=0.0,
            declared_at=Pair(**{side: paper.resolved[name].source.removeprefix("declared at ")}),
            next_step=f"Leave {name} out of `norm:`, so that it is read where it is stated.",
        )
        for name, stated in paper.stated.items()
        if stated.value != paper.resolved[name].value
    ]


def _broken_behaviours(side: SideName, paper: SideRecord) -> list[Finding]:
    """A finding for each behaviour that the side breaks, whatever its numbers are."""
    broken = [name for name, seen in paper.behaviours.items() if seen.verdict == "broken"]
    if not broken:
        return []
    from rmsaudit import behaviours

    known = {name: behaviours.describe(name) for name in broken}
    return [
        Finding(
            cause=behaviour.cause,
            claim=f"The {side} {behaviour.claim}.",
            evidence=f"{paper.behaviours[name].says}.",
            explains=0.0,
            declared_at=Pair(**{side: paper.name}),
            next_step=behaviour.next_step,
        )
        for name, behaviour in known.items()
    ]
