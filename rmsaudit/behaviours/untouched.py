"""untouched: leaves the bytes of its inputs as they were.

An output that lies in the memory of an input is no fault by itself, and said: who writes into one, changes the other.
"""

from rmsaudit.behaviours._asking import Inputs, Observed, answered, broken, kept, not_observable
from rmsaudit.loaders import Side
from rmsaudit.loaders.python import PythonSide

CAUSE = "input-changed"
CLAIM = "changes its input"
NEXT_STEP = "Work on a copy; or, where it is meant to work in place, make sure that nobody reads the input afterwards."
REPEATABLE = False
ROWS = 16


def look(side: Side, inputs: Inputs) -> Observed:
    """One call, and what is known of those before."""
    if not isinstance(side, PythonSide):
        return not_observable("only kind python is handed memory; other kinds get a file or a copy of their own")
    answered(side.call(inputs.ordinary("untouched", ROWS)))
    notes = side.notes  # over every call so far, those of the battery included
    shares = f"; the output lies in the memory of {_listed(notes.shares)}" if notes.shares else ""
    if notes.changed:
        return broken(f"{_listed(notes.changed)}: other bytes after a call than before{shares}")
    return kept(f"the same bytes after every call as before{shares}")


def _listed(names: frozenset[str]) -> str:
    return " and ".join(sorted(names))
