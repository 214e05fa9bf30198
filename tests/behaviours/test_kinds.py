"""What a kind cannot be asked, it is not asked: the reason stands in its place."""

from pathlib import Path

import numpy as np
import pytest

from rmsaudit.behaviours import Inputs, look, look_at
from rmsaudit.emulator import emulate
from rmsaudit.loaders import Ran
from rmsaudit.loaders.command import CommandSection, CommandSide
from rmsaudit.loaders.python import PythonSide, Returned
from rmsaudit.loaders.recorded import RecordedSide
from rmsaudit.semantics.resolve import resolve

DECLARED = {"width": 64, "eps": 1e-6}
SPEC = resolve(DECLARED)


class Program(CommandSide):
    """A command without its process."""

    def __init__(self, *, reads_eps):
        section = CommandSection(argv=("norm", "{input}", "{output}"))
        super().__init__(section, Path(), declared=DECLARED, spec=SPEC, gain=None)
        self.reads_eps = reads_eps

    def call(self, case, *, eps=None):
        used = SPEC.eps if eps is None or not self.reads_eps else eps
        return Ran(emulate(resolve({**DECLARED, "eps": used}), case))


class TestCommand:
    def test_it_is_asked_what_a_program_can_be_asked(self):
        seen = {name: one.verdict for name, one in look_at(Program(reads_eps=True))}
        asked = ("repeat", "rows", "nonfinite-rows", "eps-used", "output-dtype")
        assert seen == {name: "kept" if name in asked else "not_observable" for name in seen}

    def test_a_program_with_an_eps_of_its_own_is_found(self):
        seen = dict(look_at(Program(reads_eps=False)))
        assert seen["eps-used"].verdict == "broken"
        assert "no effect" in seen["eps-used"].says


def test_recorded_outputs_are_asked_nothing():
    side = RecordedSide(None, {}, declared=DECLARED, spec=SPEC, gain=None)  # a file would not be opened either
    assert {(one.verdict, one.says) for _, one in look_at(side)} == {
        ("not_observable", "recorded outputs cannot be asked for others")
    }


class Threaded(PythonSide):
    """Numpy's arrays have no number of threads; here is a side that has one, and adds an ulp with the second."""

    def __init__(self, threads, *, careless):
        self.declared, self.spec, self.gain = DECLARED, SPEC, None
        self.count, self.careless = threads, careless

    @property
    def threads(self):
        return self.count

    def call(self, case, *, threads=None, **_):
        output = emulate(SPEC, case)
        if self.careless and threads != 1:
            output = np.nextafter(output, np.float32(np.inf))
        return Returned(output, (), (), threads)


@pytest.mark.parametrize(
    ("threads", "careless", "verdict", "says"),
    [
        (4, False, "kept", "1 thread and 4, 4096 rows: the same bits"),
        (4, True, "broken", "1 thread and 4: 4096 of 4096 rows differ by up to 1 ulp of float32"),
        (1, True, "not_observable", "one thread"),
        (None, True, "not_observable", "does not tell"),
    ],
)
def test_threads(threads, careless, verdict, says):
    one = look("threads", Threaded(threads, careless=careless), Inputs(spec=SPEC, gain=None))
    assert one.verdict == verdict
    assert says in one.says
