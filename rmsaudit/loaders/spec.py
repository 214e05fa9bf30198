"""spec: a declared implementation, run by the emulator. No foreign code is involved."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.loaders import Observation, Ran
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import fitted


@dataclass(frozen=True, eq=False)
class Declared:
    """A side that is nothing but its spec."""

    declared: Mapping[str, Any]
    spec: NormSpec
    gain: Array | None

    def observe(self, case: Case) -> Observation:
        return Ran(emulate(fitted(self.spec, case.width), case))
