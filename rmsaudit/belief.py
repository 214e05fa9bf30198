"""Whether a side that runs code computes what its `norm:` says: the emulator runs the same cases beside it."""

from dataclasses import dataclass, field

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.measure.orders import order_ulp
from rmsaudit.measure.statistics import measure
from rmsaudit.record import Belief
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import fitted


@dataclass
class BeliefTally:
    """What was seen of one side so far, by category: how far from its belief, and how far orders are apart."""

    spec: NormSpec
    distance: dict[str, int] = field(default_factory=dict)
    orders: dict[str, int] = field(default_factory=dict)

    def add(self, case: Case, output: Array) -> None:
        """Adds one case. Other orders are only run where the declared one does not give the same bits."""
        spec = fitted(self.spec, case.width)
        believed = emulate(spec, case)
        found = measure(believed, output)
        self.distance.setdefault(case.category, 0)
        if not found.differing and believed.dtype == output.dtype:
            return
        other_kind = found.nonfinite.mismatched or believed.dtype != output.dtype
        farther = BEYOND if other_kind else found.max_ulp
        self.distance[case.category] = max(self.distance[case.category], farther)
        envelope = order_ulp(spec, case, believed)
        self.orders[case.category] = max(self.orders.get(case.category, 0), envelope)

    def result(self) -> Belief:
        """The verdict over every category that ran."""
        if not self.distance:
            return Belief(holds="not_run")
        excess = {name: far - self.orders.get(name, 0) for name, far in self.distance.items()}
        worst = max(excess, key=lambda name: (excess[name], self.distance[name]))
        far = self.distance[worst]
        if not any(self.distance.values()):
            return Belief(holds="bit_equal")
        if excess[worst] <= 0:
            return Belief(holds="up_to_order", worst=worst, max_ulp=far, order_ulp=self.orders.get(worst, 0))
        return Belief(holds="broken", worst=worst, max_ulp=far, order_ulp=self.orders.get(worst, 0))


BEYOND = 2**63 - 1
"""The distance of what cannot be measured in ulp: another output dtype, or a non-finite value on one side only."""
