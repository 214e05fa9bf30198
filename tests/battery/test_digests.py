"""The bytes of the battery, pinned: `digests.txt` holds one digest a setup and category.

After a change that is meant (raise the VERSION of the category), `python tests/battery/test_digests.py` writes the file
again; read its diff.
"""

import hashlib
from pathlib import Path

import pytest

from rmsaudit import battery
from rmsaudit.battery import Setup, Skipped
from rmsaudit.semantics.resolve import resolve

FILE = Path(__file__).with_name("digests.txt")
SETUPS = {
    "float32": {"width": 64, "input_dtype": "float32"},
    "bfloat16": {"width": 48, "input_dtype": "bfloat16", "gain_dtype": "float32", "groups": 3},
    "float16": {"width": 96, "input_dtype": "float16", "residual": "add", "bias": True},
    "float64": {"width": 33, "input_dtype": "float64", "compute_dtype": "float64"},
}


def lines_of(name):
    """`setup category cases sha256`, a line a category; the candidate differs from the reference by eps."""
    reference, candidate = resolve(SETUPS[name]), resolve({**SETUPS[name], "eps": 1e-5})
    for part in battery.build(Setup(reference=reference, candidate=candidate, rows=10)):
        if isinstance(part, Skipped):
            continue
        category, cases = part
        says = "".join(f"{case.label}: {case.digest()}\n" for case in cases)
        yield f"{name} {category.name} {len(cases)} {hashlib.sha256(says.encode()).hexdigest()}"


@pytest.mark.parametrize("name", SETUPS)
def test_every_byte_is_as_pinned(name):
    pinned = [line for line in FILE.read_text().splitlines() if line.startswith(f"{name} ")]
    assert list(lines_of(name)) == pinned
    assert len(pinned) == len(battery.names())


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for name in SETUPS for line in lines_of(name)))
