"""A side from `sides.py`, run as kind python runs everything: in a process of its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rmsaudit.behaviours import Inputs, Observed, look
from rmsaudit.loaders.python import PythonSection, PythonSide, load
from rmsaudit.semantics.resolve import resolve

HOME = Path(__file__).parent
USUAL = {"width": 64, "eps": 1e-6}
PATIENT = 30.0  # seconds; no test waits for it
MOST = 4  # processes at a time


@pytest.fixture(scope="package")
def running() -> Iterator[Callable[[str], PythonSide]]:
    """A process for each function, whatever is believed of it: starting one costs an import. A few stay at a time."""
    started: dict[str, PythonSide] = {}
    with ExitStack() as stack:

        def start(name: str) -> PythonSide:
            found = started.pop(name, None)
            if found is None:
                section = PythonSection(function=f"sides.py:{name}", timeout=PATIENT)
                made = load(section, declared=USUAL, spec=resolve(USUAL), gain=None, home=HOME, allow_code=True)
                found = stack.enter_context(made)
            started[name] = found
            for other in list(started)[:-MOST]:
                started[other].close()  # it would start again when called
            return found

        yield start


@pytest.fixture
def side(running: Callable[[str], PythonSide]) -> Callable[..., PythonSide]:
    """A side that runs one function, with the words that are declared of it."""

    def build(name: str, **declared: Any) -> PythonSide:
        first, declared = running(name), {**USUAL, **declared}
        return PythonSide(first._section, first._runner, declared=declared, spec=resolve(declared), gain=None)

    return build


@pytest.fixture
def seen(side: Callable[..., PythonSide]) -> Callable[..., Observed]:
    """What is seen of one behaviour of a function: `seen("rows", "honest")`."""

    def observed(behaviour: str, name: str, **declared: Any) -> Observed:
        one = side(name, **declared)
        inputs = Inputs(spec=one.spec, gain=None)
        one.observe(inputs.ordinary("first", 2))
        return look(behaviour, one, inputs)

    return observed
