"""What two gain tensors say by themselves, before anything is run: findings about them."""

from collections.abc import Sequence

from rmsaudit import gains
from rmsaudit.arrays import Array
from rmsaudit.record import Finding, Pair, SideName, SideRecord


def with_gains(found: Sequence[Finding], reference: Array | None, candidate: Array | None) -> list[Finding]:
    """The findings, the one about gain tensors with what the one tensor is of the other."""
    if reference is None or candidate is None:
        return list(found)
    relation = gains.compare(reference, candidate)
    if relation in (None, "equal"):
        return list(found)
    return [
        each.model_copy(update={"claim": f"The two sides carry different gain tensors: the candidate's is {relation}."})
        if each.cause == "gain-values"
        else each
        for each in found
    ]


def looks_shifted(side: SideName, paper: SideRecord, gain: Array | None, offset: float) -> list[Finding]:
    """The finding that stored gains look as if the offset had been added to them before; [] where they do not."""
    says = None if gain is None else gains.looks_shifted(gain, offset)
    if says is None:
        return []
    return [
        Finding(
            cause="gain-offset",
            variable="gain_offset",
            claim=f"The {side}'s gains may have their offset twice.",
            evidence=f"{says[0].upper()}{says[1:]}.",
            explains=0.0,
            declared_at=Pair(**{side: paper.gain.tensor if paper.gain else paper.name}),
            next_step="Check where these gains come from: a converted file often has the 1 in it already.",
        )
    ]
