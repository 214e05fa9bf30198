"""Live implementations as sides, each beside its preset: the values and dtypes that docs/implementations.md says."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.frameworks

FOLDER = Path(__file__).parents[2] / "fixtures" / "frameworks"
WITHIN = re.compile(r"within (\d+) ulp")
BITS = "bit for bit"
UP_TO_ORDER = "bit for bit on exact sums, else up to order"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MEASURE = loaded("measure")
STORED: dict[str, Any] = yaml.safe_load((FOLDER / "results.yaml").read_text("utf-8"))
BOUNDED = {
    "flax-linen": "JAX's rsqrt on the CPU is not correctly rounded",
    "keras-jax": "JAX's rsqrt on the CPU is not correctly rounded",
}


def holds(found: str, stored: str) -> bool:
    """True where an implementation does what is stored, or comes closer: bounds may be lower on another processor."""
    if found in (BITS, stored):
        return True
    bounds = [WITHIN.fullmatch(verdict) for verdict in (found, stored)]
    return all(bounds) and int(bounds[0][1]) <= int(bounds[1][1])  # type: ignore[index]


@pytest.mark.parametrize("name", MEASURE.names())
def test_it_does_what_is_stored(name: str) -> None:
    found, stored = MEASURE.measure(name), STORED[name]
    assert {key: found[key] for key in ("name", "preset")} == {key: stored[key] for key in ("name", "preset")}
    assert found["version"] == stored["version"], "run fixtures/frameworks/measure.py, then .ci/generated.py"
    assert found["pairs"].keys() == stored["pairs"].keys()
    for pair, verdict in found["pairs"].items():
        assert holds(verdict, stored["pairs"][pair]), (pair, verdict)


@pytest.mark.parametrize("name", STORED)
def test_what_is_stored_is_bit_for_bit_or_has_a_reason(name: str) -> None:
    """On exact sums, in every pair that is accepted; where only an inverse's accuracy differs, within 4 ulp: an ulp for
    the inverse, one for each of the two products after it, and one between neighbouring binades."""
    for pair, verdict in STORED[name]["pairs"].items():
        bound = WITHIN.fullmatch(verdict)
        if bound:
            assert name in BOUNDED
            assert int(bound[1]) <= 4, pair
        elif not verdict.startswith("left out: "):
            assert verdict in (BITS, UP_TO_ORDER), pair


def test_everything_that_is_stored_is_there() -> None:
    assert list(STORED) == MEASURE.names()


@pytest.mark.parametrize(("line", "found"), [("preset: transformers-olmo2", "within"), ("  eps: 1.1e-6", "within")])
def test_another_norm_is_noticed(line: str, found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The twin: the class beside the preset of another one, and beside another eps than it is constructed with."""
    text = (FOLDER / "transformers-llama.yaml").read_text("utf-8")
    if line.startswith("preset"):
        text = re.sub("preset: .*", line, text)
    else:
        text = text.replace('"$eps"', "1.0e-6").replace("norm:\n", f"norm:\n{line}\n")
    (tmp_path / "transformers-llama.yaml").write_text(text)
    monkeypatch.setattr(MEASURE, "HERE", tmp_path)
    monkeypatch.setattr(
        MEASURE, "PAIRS", [("bfloat16", "bfloat16")] if line.startswith("preset") else [("float32",) * 2]
    )
    (verdict,) = MEASURE.measure("transformers-llama")["pairs"].values()
    assert verdict.startswith(found)
