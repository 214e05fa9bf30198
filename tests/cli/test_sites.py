"""rmsaudit sites: a table of the norms of a checkpoint."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from rmsaudit.loaders.exchange import write_tensors

Rmsaudit = Callable[..., Any]


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """A folder with a config.json and gains: zeros, unless other values are given."""

    def write(config: dict[str, Any], **gains: float) -> Path:
        folder = tmp_path / "tiny"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
        names = [f"model.layers.{n}.{kind}" for n in (0, 1) for kind in ("input_layernorm", "post_attention_layernorm")]
        tensors = {
            f"{name}.weight": np.full(8, gains.get(name.rpartition(".")[2], 1.0), np.float32)
            for name in (*names, "model.norm")
        }
        write_tensors(folder / "model.safetensors", tensors, {})
        return folder

    return write


def test_layers_that_are_alike_share_a_line(rmsaudit: Rmsaudit, model: Callable[..., Path]) -> None:
    ran = rmsaudit("sites", model({"model_type": "llama", "rms_norm_eps": 1e-5}, norm=-0.5))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "tiny: 5 RMSNorms of llama, huggingface\n"
        "\n"
        "site                                         width    dtype    eps  gains: min  mean   max  rms  below 0\n"
        "model.layers.{0-1}.input_layernorm               8  float32  1e-05           1     1     1    1\n"
        "model.layers.{0-1}.post_attention_layernorm      8  float32  1e-05           1     1     1    1\n"
        "model.norm                                       8  float32  1e-05        -0.5  -0.5  -0.5  0.5    100 %\n"
        "\n"
        "eps 1e-05: config.json: rms_norm_eps (5 sites)\n"
        "computed as transformers-llama (5 sites)\n"
    )


def test_a_line_each(rmsaudit: Rmsaudit, model: Callable[..., Path]) -> None:
    ran = rmsaudit("sites", model({"model_type": "llama"}), "--all")
    names = [line.split()[0] for line in ran.out.splitlines()[3:8]]
    assert names == [
        "model.layers.0.input_layernorm",
        "model.layers.0.post_attention_layernorm",
        "model.layers.1.input_layernorm",
        "model.layers.1.post_attention_layernorm",
        "model.norm",
    ]
    assert "default of LlamaConfig.rms_norm_eps (transformers 5.24)" in ran.out


def test_warnings(rmsaudit: Rmsaudit, model: Callable[..., Path]) -> None:
    """Keys that disagree, and gains that look as if the offset had been added before."""
    ran = rmsaudit("sites", model({"model_type": "gemma", "rms_norm_eps": 1e-6, "norm_eps": 1e-5}, norm=0.25))
    warnings = [line for line in ran.out.splitlines() if line.startswith("warning")]
    assert warnings == [
        "warning: config.json gives norm_eps as 1e-05, which `gemma` does not read; its norms use 1e-06:"
        " config.json: rms_norm_eps",
        "warning: the stored gains of 4 of 5 sites look as if 1 had been added before, in layers 0 and 1",
    ]


@pytest.mark.parametrize(("word", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_as_data(rmsaudit: Rmsaudit, model: Callable[..., Path], word: str, read: Callable[[str], Any]) -> None:
    ran = rmsaudit("sites", model({"model_type": "gemma", "rms_norm_eps": 1e-6}, norm=0.25), "--format", word)
    found = read(ran.out)
    assert {key: found[key] for key in ("schema", "checkpoint", "format", "architecture")} == {
        "schema": "rmsaudit/sites/1",
        "checkpoint": "tiny",
        "format": "huggingface",
        "architecture": "gemma",
    }
    assert list(found["sites"])[-1] == "model.norm"
    assert found["sites"]["model.norm"] == {
        "tensor": "model.norm.weight",
        "file": "model.safetensors",
        "dtype": "float32",
        "preset": "transformers-gemma",
        "declared": {
            "width": {"value": 8, "source": "model.safetensors: model.norm.weight, 8 elements"},
            "eps": {"value": 1e-6, "source": "config.json: rms_norm_eps"},
            "gain_dtype": {"value": "float32", "source": "model.safetensors: model.norm.weight"},
            "gain_offset": {"value": 1.0, "source": "preset transformers-gemma"},
        },
        "gains": {"min": 0.25, "mean": 0.25, "max": 0.25, "rms": 0.25, "zeros": 0, "negatives": 0, "nonfinite": 0},
    }
    assert "warning" in found["sites"]["model.layers.0.input_layernorm"]


def test_nothing_to_list(rmsaudit: Rmsaudit, model: Callable[..., Path]) -> None:
    ran = rmsaudit("sites", model({"model_type": "cohere"}))
    assert ran.out.splitlines() == [
        "tiny: 0 RMSNorms of cohere, huggingface",
        "note: its norms are LayerNorms without a bias: they subtract the mean of the row, so they are no RMSNorms",
    ]


def test_a_path_that_is_not_there(rmsaudit: Rmsaudit, tmp_path: Path) -> None:
    ran = rmsaudit("sites", tmp_path / "none")
    assert ran.code == 2
    assert ran.err == f"{tmp_path}/none: does not exist; check the path [no-such-file]\n"


def test_gains_that_cannot_be_read_and_such_as_are_no_numbers(rmsaudit: Rmsaudit, model: Callable[..., Path]) -> None:
    folder = model({"model_type": "llama", "rms_norm_eps": 1e-5})
    odd = {
        "model.layers.0.input_layernorm.weight": np.ones(8, np.int32),
        "model.norm.weight": np.array([1, np.nan], np.float32),
    }
    save_file(odd, folder / "model.safetensors")
    warnings = [line for line in rmsaudit("sites", folder).out.splitlines() if line.startswith("warning")]
    assert warnings == [
        "warning: 1 site has gains in I32, of which no values are read",
        "warning: 1 gain is infinite or NaN, in model.norm",
    ]
