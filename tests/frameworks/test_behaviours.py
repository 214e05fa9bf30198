"""Behaviours of real layers: PyTorch's rms_norm keeps them all, and what is planted in it is found."""

from pathlib import Path

import pytest
import torch

from rmsaudit.behaviours import look_at
from rmsaudit.loaders.python import PythonSection, load
from rmsaudit.semantics.resolve import resolve

pytestmark = pytest.mark.frameworks

SOURCE = '''
import torch


def rms_norm(x, gain, eps):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], gain, eps)


def careless(x, gain, eps):
    """Another last bit with more than one thread; rows are read as if they lay one after the other; eps is constant."""
    x = torch.as_strided(x, x.shape, (x.shape[1], 1)) if x.stride(0) == 2 * x.shape[1] else x
    y = rms_norm(x, gain, 1e-6)
    return y if torch.get_num_threads() == 1 else y * (1 + 2**-20)
'''


@pytest.fixture
def seen(tmp_path: Path):
    (tmp_path / "kernels.py").write_text(SOURCE)

    def look(section: PythonSection, **words):
        declared = {"width": 64, "eps": 1e-6, **words}
        made = load(section, declared=declared, spec=resolve(declared), gain=None, home=tmp_path, allow_code=True)
        with made as side:
            return dict(look_at(side))

    return look


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rms_norm_keeps_every_behaviour(seen, dtype):
    found = seen(PythonSection(function="kernels.py:rms_norm", arrays="torch"), input_dtype=dtype)
    assert not {name: one.says for name, one in found.items() if one.verdict == "broken"}
    assert found["threads"].verdict == ("not_observable" if torch.get_num_threads() == 1 else "kept")
    assert found["eps-used"].verdict == found["views"].verdict == found["rows"].verdict == "kept"


def test_what_is_planted_is_found(seen):
    found = seen(PythonSection(function="kernels.py:careless", arrays="torch"))
    broken = {name for name, one in found.items() if one.verdict == "broken"}
    assert broken == {"views", "eps-used"} | ({"threads"} if torch.get_num_threads() > 1 else set())
    assert found["views"].says.startswith("strided: ")


def test_a_gain_in_float32_promotes_the_output_of_llamas_layer(seen):
    """B71: `weight * x.to(input_dtype)` comes out in float32 where the gain is float32."""
    section = PythonSection(
        module="transformers.models.llama.modeling_llama:LlamaRMSNorm",
        init=["$width", "$eps"],
        gain="weight",
        arrays="torch",
    )
    found = seen(section, input_dtype="bfloat16", cast_point="before_gain")
    assert found["output-dtype"].verdict == "broken"
    assert "bfloat16 × float32 → float32 (believed: bfloat16)" in found["output-dtype"].says
