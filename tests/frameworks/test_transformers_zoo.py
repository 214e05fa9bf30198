"""All of transformers' norms that are made from a width and an eps, by behaviour: each has its preset, or none."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

from rmsaudit.documents.preset import preset_names

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore"),  # importing 190 modeling files warns of things that are not ours
]

FOLDER = Path(__file__).parents[2] / "fixtures" / "frameworks"
STORED: dict[str, Any] = yaml.safe_load((FOLDER / "transformers-classes.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("measure_classes", FOLDER / "measure_classes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.groups())


def test_the_groups_are_those_that_are_stored(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\ntransformers: {found['classes']} norm classes behave in {found['groups']} ways")  # noqa: T201
    assert found["version"] == STORED["version"], "run fixtures/frameworks/measure_classes.py"
    assert found == STORED


def test_every_class_is_in_one_place(found: dict[str, Any]) -> None:
    matched = [name for names in found["presets"].values() for name in names]
    others = [name for names in found["none of these"] for name in names]
    assert len(set(matched + others)) == found["classes"] == len(matched) + len(others)
    assert found["groups"] == len(found["presets"]) + len(found["none of these"])


def test_every_group_has_presets_that_exist(found: dict[str, Any]) -> None:
    named = {name for names in found["presets"] for name in names.split(", ")}
    assert named <= set(preset_names())


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("llama.LlamaRMSNorm", "transformers-llama"),
        ("qwen3_next.Qwen3NextRMSNorm", "transformers-gemma"),
        ("olmo2.Olmo2RMSNorm", "transformers-olmo2"),
        ("t5.T5LayerNorm", "transformers-t5"),
        ("cohere.CohereLayerNorm", "transformers-cohere-layer-norm"),
    ],
)
def test_known_classes_lie_where_their_source_says(found: dict[str, Any], name: str, preset: str) -> None:
    (group,) = (presets for presets, names in found["presets"].items() if name in names)
    assert preset in group.split(", ")
