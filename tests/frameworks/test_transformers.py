"""transformers' norm classes, each against the preset that stands for it."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
import transformers

from rmsaudit.arrays import Array
from rmsaudit.documents.preset import read_preset

pytestmark = pytest.mark.frameworks

To, From = Callable[[Array], Any], Callable[[Any], Array]

SAME = [("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16")]
MIXED = [("bfloat16", "float32"), ("float16", "float32"), ("float32", "bfloat16"), ("float16", "bfloat16")]

WITH_GAIN = [
    ("llama.LlamaRMSNorm", "transformers-llama"),
    ("qwen3.Qwen3RMSNorm", "transformers-llama"),
    ("phi3.Phi3RMSNorm", "transformers-llama"),
    ("deepseek_v3.DeepseekV3RMSNorm", "transformers-llama"),
    ("gemma.GemmaRMSNorm", "transformers-gemma"),
    ("gemma2.Gemma2RMSNorm", "transformers-gemma"),
    ("olmo2.Olmo2RMSNorm", "transformers-olmo2"),
    ("gpt_oss.GptOssRMSNorm", "transformers-olmo2"),
    ("nemotron_h.NemotronHRMSNorm", "transformers-olmo2"),
    ("helium.HeliumRMSNorm", "transformers-olmo2"),
    ("t5.T5LayerNorm", "transformers-t5"),
    ("gemma3n.Gemma3nRMSNorm", "transformers-gemma3n"),
    ("cohere.CohereLayerNorm", "transformers-cohere-layer-norm"),
]
WITHOUT_GAIN = [
    ("deepseek_v4.DeepseekV4UnweightedRMSNorm", "transformers-deepseek-v4-unweighted"),
    ("llama4.Llama4TextL2Norm", "transformers-llama4-l2-norm"),
]


def live_class(path: str, to: To, back: From) -> Callable[[Array, Array], Array]:
    """The class as a function: built from the width, its gain set, called once."""
    model, name = path.split(".")
    cls = getattr(import_module(f"transformers.models.{model}.modeling_{model}"), name)

    def live(x: Array, gain: Array) -> Array:
        module = cls(x.shape[1])
        module.weight.data = to(gain)
        with torch.no_grad():
            return back(module(to(x)))

    return live


def live_class_without_gain(path: str, to: To, back: From) -> Callable[[Array, Array], Array]:
    model, name = path.split(".")
    module = getattr(import_module(f"transformers.models.{model}.modeling_{model}"), name)()
    return lambda x, _: back(module(to(x)))


def test_the_version_that_the_presets_name() -> None:
    assert read_preset("transformers-llama").source.version == transformers.__version__


@pytest.mark.parametrize("dtypes", SAME, ids="-".join)
@pytest.mark.parametrize(("path", "preset"), WITH_GAIN, ids=[path.split(".")[0] for path, _ in WITH_GAIN])
def test_hard_rows(
    agrees_on_hard_rows: Any, to_torch: To, from_torch: From, path: str, preset: str, dtypes: tuple[str, str]
) -> None:
    agrees_on_hard_rows(preset, live_class(path, to_torch, from_torch), dtypes, "torch_cpu")


@pytest.mark.parametrize("word", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("path", "preset"), WITHOUT_GAIN, ids=[path.split(".")[0] for path, _ in WITHOUT_GAIN])
def test_hard_rows_without_gain(
    agrees_on_hard_rows: Any, to_torch: To, from_torch: From, path: str, preset: str, word: str
) -> None:
    live = live_class_without_gain(path, to_torch, from_torch)
    agrees_on_hard_rows(preset, live, (word, word), "torch_cpu")


@pytest.mark.parametrize("dtypes", [*SAME, *MIXED], ids="-".join)
@pytest.mark.parametrize(("path", "preset"), WITH_GAIN[:-1], ids=[path.split(".")[0] for path, _ in WITH_GAIN[:-1]])
def test_exact_rows(
    agrees_on_exact_rows: Any, to_torch: To, from_torch: From, path: str, preset: str, dtypes: tuple[str, str]
) -> None:
    """All but the LayerNorm, whose deviations from the mean have no exact squares."""
    agrees_on_exact_rows(preset, live_class(path, to_torch, from_torch), dtypes)


@pytest.mark.parametrize("dtypes", [p for p in (*SAME, *MIXED) if p[0] != "float32"], ids="-".join)
def test_imagegpt_in_half_precision(
    agrees_on_exact_rows: Any, to_torch: To, from_torch: From, dtypes: tuple[str, str]
) -> None:
    """Not in float32, where torch's CPU square root is off by an ulp now and then, and varies with the machine."""
    live = live_class("imagegpt.ImageGPTLayerNorm", to_torch, from_torch)
    agrees_on_exact_rows("transformers-imagegpt", live, dtypes)


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("llama.LlamaRMSNorm", "transformers-olmo2"),
        ("olmo2.Olmo2RMSNorm", "transformers-llama"),
        ("gemma.GemmaRMSNorm", "litgpt-unit-offset"),
        ("t5.T5LayerNorm", "transformers-olmo2"),
        ("cohere.CohereLayerNorm", "transformers-olmo2"),
    ],
)
def test_the_preset_of_another_class_is_noticed(
    agrees_on_hard_rows: Any, to_torch: To, from_torch: From, path: str, other: str
) -> None:
    live = live_class(path, to_torch, from_torch)
    with pytest.raises(AssertionError, match="differ"):
        agrees_on_hard_rows(other, live, ("bfloat16", "bfloat16"), "torch_cpu")


def test_output_dtypes_follow_the_gain_where_they_do(to_torch: To, from_torch: From) -> None:
    from_gain = {"llama.LlamaRMSNorm": "float32", "t5.T5LayerNorm": "float32", "olmo2.Olmo2RMSNorm": "bfloat16"}
    x, gain = torch.ones(1, 8, dtype=torch.bfloat16), torch.ones(8)
    for path, word in from_gain.items():
        y = live_class(path, lambda a: a, lambda a: a)(x, gain)  # type: ignore[arg-type]
        assert str(y.dtype) == f"torch.{word}"
