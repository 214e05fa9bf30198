"""Why sites differ: one finding for each way in which they do, with the sites where it holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from rmsaudit import audit, causes
from rmsaudit.ladder import GAIN
from rmsaudit.loaders.spec import Declared
from rmsaudit.model.names import compact
from rmsaudit.model.relation import Relation, by_how_much
from rmsaudit.model.sites import SitePair, SiteSide
from rmsaudit.model_record import SiteFinding
from rmsaudit.record import Environment, Finding, GainPlace, Pair, Replay, Resolved, SideRecord
from rmsaudit.semantics import variables

if TYPE_CHECKING:
    from rmsaudit.model.matched import Matched

MANY = 4
OFFSET_SAYS = "by 1 in every column"  # as `gains.compare` puts it
OF_GAINS = (GAIN, "gain_offset", "gain_cast")
"""Variables that are not declared anywhere but read off the gains themselves."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """A pair that differs, to be taken from one side to the other one variable at a time. sites: how many it stands
    for, itself included."""

    pair: SitePair
    sites: int
    rows: int
    seed: int
    categories: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of its one site."""
        return (self.pair.name,)


def answer(question: Question) -> tuple[Finding, ...]:
    """What the audit of this one pair finds; where it stands for others, which one it was."""
    pair = question.pair
    chosen = audit.Plan(
        rows=question.rows, seed=question.seed, categories=question.categories, behaviours=False, explain=False
    )
    facts = audit.Facts(version="", today=date.min, environment=Environment(), replay=Replay(command=""))
    record = audit.run(
        _party(pair.name, pair.reference),
        _party(pair.name, pair.candidate),
        chosen,
        facts=facts,
        judgement=audit.Judgement(),
    )
    if question.sites == 1:
        return record.findings
    where = f" Taken apart at {pair.name}, the farthest off of {question.sites} sites."
    return tuple(each.model_copy(update={"evidence": each.evidence + where}) for each in record.findings)


def _party(name: str, site: SiteSide) -> audit.Party:
    side = Declared(declared=site.declared, spec=site.spec, gain=site.gain)
    gain = (
        None if site.stored is None else GainPlace(tensor=site.source.get("gain", name), dtype=site.stored, digest="")
    )
    paper = SideRecord(
        name=name,
        kind="spec",
        digest="",
        gain=gain,
        resolved={
            variable: Resolved(value=getattr(site.spec, variable), source=site.source.get(variable, "the architecture"))
            for variable in variables()
        },
    )
    return audit.Party(side=side, describe=lambda: paper)


def gathered(kinds: Sequence[tuple[list[SitePair], Sequence[Finding]]], matched: "Matched") -> list[SiteFinding]:
    """The findings of all kinds, one for each cause and pair of values, that of most sites first."""
    together: dict[Any, tuple[Finding, list[str]]] = {}
    for pairs, found in kinds:
        names = [pair.name for pair in pairs]
        for finding in found:
            told = _told(finding, pairs, matched)
            key = (told.cause, told.variable, told.reference_value, told.candidate_value, told.claim)
            together.setdefault(key, (told, []))[1].extend(names)
    ordered = sorted(together.values(), key=lambda item: (-len(item[1]), -item[0].explains))
    return [with_sites(finding, names, matched.total) for finding, names in ordered]


def _told(finding: Finding, pairs: Sequence[SitePair], matched: "Matched") -> Finding:
    if finding.variable in OF_GAINS:
        return _about_gains(finding, pairs, matched)
    if finding.variable == "groups" and pairs[0].note:
        return _about_heads(finding, pairs[0])
    return finding


def _about_heads(finding: Finding, pair: SitePair) -> Finding:
    """Gains of another width: one side normalises each head by itself, the other all of them together."""
    each, together = ("reference", "candidate") if pair.reference.spec.groups > 1 else ("candidate", "reference")
    heads = max(pair.reference.spec.groups, pair.candidate.spec.groups)
    return finding.model_copy(
        update={
            "claim": f"The {together}'s gains span {heads} times the {each}'s width: the {each} normalises each of"
            f" {heads} heads by itself, the {together} all of them together.",
            "declared_at": _tensors(pair),
            "next_step": causes.describe(finding.cause).next_step,
        }
    )


def _about_gains(finding: Finding, pairs: Sequence[SitePair], matched: "Matched") -> Finding:
    """The same, told by what the tensors are: the reference's after a change, those of another site, or others."""
    finding = finding.model_copy(update={"declared_at": _tensors(pairs[0])})
    relations = [(pair.name, matched.relations[pair.name]) for pair in pairs]
    elsewhere = [(name, relation.site) for name, relation in relations if relation.site]
    if elsewhere:
        swaps = "; ".join(f"{name} carries those of {site}" for name, site in elsewhere[:MANY])
        more = f"; and {len(elsewhere) - MANY} more" if len(elsewhere) > MANY else ""
        return finding.model_copy(
            update={
                "claim": f"The candidate carries the gains of other sites: {swaps}{more}.",
                "next_step": "Check the table that maps the names of one side to those of the other: two entries are"
                " exchanged, or layers are counted differently.",
            }
        )
    says = dict.fromkeys(relation.says for _, relation in relations)
    shown = next(iter(says)) if len(says) == 1 else _by_site(relations)
    shown += by_how_much(relation for _, relation in relations)
    cause = "gain-offset" if all(OFFSET_SAYS in words for words in says) else finding.cause
    told = {"claim": f"The candidate's gains, as they are applied, are not the reference's: {shown}.", "cause": cause}
    if finding.variable != GAIN or cause != finding.cause:
        told["next_step"] = causes.describe(cause).next_step
    return finding.model_copy(update=told)


def _by_site(relations: Sequence[tuple[str, Relation]]) -> str:
    """What the gains of the first few sites are, each under its name."""
    shown = "; ".join(f"{relation.says} ({name})" for name, relation in relations[:MANY])
    return f"{shown}; and {len(relations) - MANY} more sites" if len(relations) > MANY else shown


def _tensors(pair: SitePair) -> Pair:
    return Pair(reference=pair.reference.source.get("gain"), candidate=pair.candidate.source.get("gain"))


def with_sites(finding: Finding, names: Sequence[str], total: int) -> SiteFinding:
    """The finding with the sites where it holds, out of `total`."""
    return SiteFinding(**dict(finding), sites=compact(names), count=len(names), of=total)
