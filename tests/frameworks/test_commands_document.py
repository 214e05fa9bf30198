"""The script that docs/commands.md has for a machine with PyTorch, run as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rmsaudit.arrays import bits, dtype_of
from rmsaudit.case import Case
from rmsaudit.loaders import Ran
from rmsaudit.loaders.recorded import Origin, RecordedSection, export_cases, load
from rmsaudit.semantics.resolve import resolve

pytestmark = pytest.mark.frameworks

DOCUMENT = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()


def a_case(word: str, seed: int) -> Case:
    drawn = np.random.default_rng(seed)
    x, gain = (drawn.normal(size=shape).astype(np.float32).astype(dtype_of(word)) for shape in ((3, 64), (64,)))
    zero = np.broadcast_to(x.dtype.type(0), x.shape)
    return Case(category="ordinary", label=str(seed), x=x, gain=gain, bias=zero[0], residual=zero)


@pytest.mark.parametrize("word", ["float32", "float16", "bfloat16"])
def test_the_torch_script_makes_outputs_that_are_found(word: str, tmp_path: Path) -> None:
    script = re.search(r"```python\n(# run_torch\.py.*?)```", DOCUMENT, re.DOTALL)
    assert script is not None
    cases = [a_case(word, seed) for seed in range(3)]
    export_cases(cases, tmp_path / "inputs.safetensors", Origin(battery=1, seed=0, eps={"candidate": 1e-5}))
    subprocess.run([sys.executable, "-c", script[1]], cwd=tmp_path, check=True)
    declared = {"width": 64, "eps": 1e-5, "input_dtype": word}
    section = RecordedSection(file=Path("outputs.safetensors"))
    recorded = load(section, declared=declared, spec=resolve(declared), gain=None, home=tmp_path)
    for case in cases:
        seen = recorded.observe(case)
        assert isinstance(seen, Ran)
        x, gain = (torch.from_numpy(array.astype(np.float32)).to(getattr(torch, word)) for array in (case.x, case.gain))
        live = torch.nn.functional.rms_norm(x, (64,), gain, 1e-5)
        # the script ran where a GPU may be: its last bit may differ there, and only there
        assert torch.cuda.is_available() or np.array_equal(
            bits(seen.output),
            live.view(getattr(torch, f"int{8 * case.x.dtype.itemsize}")).numpy().view(bits(seen.output).dtype),
        )
    assert recorded.notes == ()
