"""Whether a side that runs code computes what its `norm:` says: the emulator runs the same cases beside it."""

from dataclasses import dataclass, field

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.measure.orders import Spread, order_spread
from rmsaudit.measure.statistics import measure
from rmsaudit.record import Belief
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import fitted

BEYOND = 2**63 - 1
"""The distance of what cannot be measured in ulp: another output dtype, or a non-finite value on one side only."""
MORE = 4
"""An order that was not tried may differ in more elements than those that were, but not in this many times as many."""
NOTHING = Spread(0, 0)


@dataclass
class BeliefTally:
    """What was seen of one side so far, by category: how far from its belief, and how far orders are apart."""

    spec: NormSpec
    distance: dict[str, Spread] = field(default_factory=dict)
    orders: dict[str, Spread] = field(default_factory=dict)

    def add(self, case: Case, output: Array) -> None:
        """Adds one case. Other orders are only run where the declared one does not give the same bits."""
        spec = fitted(self.spec, case.width)
        believed = emulate(spec, case)
        found = measure(believed, output)
        other_kind = found.nonfinite.mismatched or believed.dtype != output.dtype
        seen = Spread(BEYOND if other_kind else found.max_ulp, found.differing)
        _add(self.distance, case.category, seen)
        if seen != NOTHING:
            _add(self.orders, case.category, order_spread(spec, case, believed))

    def result(self) -> Belief:
        """The verdict over every category that ran."""
        if not self.distance:
            return Belief(holds="not_run")
        if all(seen == NOTHING for seen in self.distance.values()):
            return Belief(holds="bit_equal")
        worst = max(self.distance, key=self._excess)
        order = self.orders.get(worst, NOTHING)
        far = self.distance[worst].ulp
        if self._is_broken(worst):
            return Belief(holds="broken", worst=worst, max_ulp=far, order_ulp=order.ulp)
        return Belief(holds="up_to_order", worst=worst, max_ulp=far, order_ulp=order.ulp)

    def _is_broken(self, category: str) -> bool:
        seen, order = self.distance[category], self.orders.get(category, NOTHING)
        return seen.ulp > order.ulp or seen.differing > MORE * order.differing

    def _excess(self, category: str) -> tuple[bool, int, int]:
        seen, order = self.distance[category], self.orders.get(category, NOTHING)
        return self._is_broken(category), seen.ulp - order.ulp, seen.differing - order.differing


def _add(known: dict[str, Spread], category: str, seen: Spread) -> None:
    """The larger distance, and the sum of the counts, over the cases of a category."""
    before = known.get(category, NOTHING)
    known[category] = Spread(max(before.ulp, seen.ulp), before.differing + seen.differing)
