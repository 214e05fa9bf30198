"""Placement read out of live transformers models with random parameters, as they are and with norms moved by hand."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
)

from rmsaudit.arrays import Array
from rmsaudit.documents.preset import read_preset
from rmsaudit.placement import Placement, place_sites, run_dtype
from rmsaudit.semantics.resolve import resolve

pytestmark = pytest.mark.frameworks

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "fixtures" / "models" / "make_placement.py"))
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 300,
    "pad_token_id": 0,
}
FromTorch = Callable[[Any], Array]


def model_of(kind: Any, config: Any, dtype: torch.dtype = torch.float32) -> Any:
    """A model whose gains are no longer what they were initialised to."""
    torch.manual_seed(0)
    model = kind(config).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(torch.randn_like(parameter) / 4)
            else:
                parameter.mul_(8)  # so that sublayers count beside the residual
    return model


def placed(model: Any, preset: str, recorded: dict[str, Array], from_torch: FromTorch) -> dict[str, Placement]:
    """Every norm of layer 1 under the end of its name."""
    word = run_dtype(list(recorded.values()))
    declared = {**read_preset(preset).values, "width": 64, "eps": 1e-6, "input_dtype": word, "gain_dtype": word}
    norms = {
        name: (resolve(declared), from_torch(module.weight))
        for name, module in model.named_modules()
        if name.startswith("model.layers.1.") and name.endswith("layernorm")
    }
    return {name.rpartition(".")[2]: each for name, each in place_sites("model.layers.1", norms, recorded).items()}


def taken(model: Any, moved: str | None = None) -> dict[str, Array]:
    recorded: dict[str, Array] = SCRIPT["record"](model, [7, 42, 99, 3], SCRIPT[moved] if moved else None)
    return recorded


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_llama_is_pre_norm(dtype: torch.dtype, from_torch: FromTorch) -> None:
    model = model_of(LlamaForCausalLM, LlamaConfig(**SIZES, rms_norm_eps=1e-6), dtype)
    found = placed(model, "transformers-llama", taken(model), from_torch)
    assert {name: each.says for name, each in found.items()} == {
        "input_layernorm": "before self_attn",
        "post_attention_layernorm": "before mlp",
    }


@pytest.mark.parametrize(
    ("moved", "says"),
    [
        ("after_attention", "after self_attn, before the residual addition"),
        ("after_addition", "after the residual addition of self_attn"),
        ("on_residual", "before mlp and on the residual beside mlp"),
    ],
)
def test_a_norm_of_llama_that_was_moved_is_found(moved: str, says: str, from_torch: FromTorch) -> None:
    model = model_of(LlamaForCausalLM, LlamaConfig(**SIZES, rms_norm_eps=1e-6))
    found = placed(model, "transformers-llama", taken(model, moved), from_torch)
    assert found["post_attention_layernorm"].says == says


def test_gemma2_is_a_sandwich(from_torch: FromTorch) -> None:
    model = model_of(Gemma2ForCausalLM, Gemma2Config(**SIZES, rms_norm_eps=1e-6))
    found = placed(model, "transformers-gemma", taken(model), from_torch)
    assert {name: each.says for name, each in found.items()} == {
        "input_layernorm": "before self_attn",
        "post_attention_layernorm": "after self_attn, before the residual addition",
        "pre_feedforward_layernorm": "before mlp",
        "post_feedforward_layernorm": "after mlp, before the residual addition",
    }


def test_olmo2_normalises_after_its_sublayers(from_torch: FromTorch) -> None:
    """Its post_attention_layernorm has the name of Llama's and sits elsewhere."""
    model = model_of(Olmo2ForCausalLM, Olmo2Config(**{k: v for k, v in SIZES.items() if k != "head_dim"}))
    recorded = taken(model)
    for layer in (0, 1):  # nothing is normalised between the sublayers
        recorded[f"model.layers.{layer}/after_attention"] = recorded[f"model.layers.{layer}.mlp/input"]
    found = placed(model, "transformers-olmo2", recorded, from_torch)
    assert {name: each.says for name, each in found.items()} == {
        "post_attention_layernorm": "after self_attn, before the residual addition",
        "post_feedforward_layernorm": "after mlp, before the residual addition",
    }
