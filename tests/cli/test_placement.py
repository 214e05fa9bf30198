"""rmsaudit placement: where the norms of recorded layers sit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rmsaudit.loaders.exchange import write_tensors

Rmsaudit = Callable[..., Any]
RECORDED = "fixtures/models/placement"
LLAMA = ("--model", "fixtures/models/llama-tiny")


def test_a_norm_that_was_moved_is_named_first(rmsaudit: Rmsaudit) -> None:
    ran = rmsaudit("placement", f"{RECORDED}/llama.safetensors", f"{RECORDED}/llama-after-addition.safetensors", *LLAMA)
    assert ran.code == 1
    assert [line.split("  ")[0] for line in ran.out.splitlines()] == [
        "llama.safetensors beside llama-after-addition.safetensors; norms of llama-tiny",
        "",
        "site",
        "model.layers.{0-1}.post_attention_layernorm",
        "model.layers.{0-1}.input_layernorm",
        "",
        "2 of 4 sites sit at another boundary.",
    ]
    moved = ran.out.splitlines()[3].split("  ", 1)[1].strip()
    assert moved == "before mlp        after the residual addition of self_attn"


def test_the_same_placement_is_accepted(rmsaudit: Rmsaudit) -> None:
    ran = rmsaudit("placement", f"{RECORDED}/llama.safetensors", f"{RECORDED}/llama.safetensors", *LLAMA)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "0 of 4 sites sit at another boundary.")


def test_one_file_is_read_by_itself(rmsaudit: Rmsaudit) -> None:
    ran = rmsaudit("placement", f"{RECORDED}/gemma2.safetensors", "--model", "fixtures/models/gemma2-tiny/gemma2.gguf")
    assert ran.code == 0
    assert "after self_attn, before the residual addition" in ran.out


def test_norms_of_another_model_explain_nothing(rmsaudit: Rmsaudit) -> None:
    """qwen3-tiny has norms of the same names and width."""
    ran = rmsaudit("placement", f"{RECORDED}/llama.safetensors", "--model", "fixtures/models/qwen3-tiny")
    assert ran.code == 0
    last = "4 of 4 norms explain nothing in this file: gains, eps or the boundary are others there."
    assert ran.out.splitlines()[-1] == last


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_same_as_data(form: str, parse: Callable[[str], Any], rmsaudit: Rmsaudit) -> None:
    files = [f"{RECORDED}/{name}.safetensors" for name in ("llama", "llama-on-residual")]
    read = parse(rmsaudit("placement", *files, *LLAMA, "--format", form).out)
    assert read["apart"]["model.layers.0.input_layernorm"] == (
        "reference: before self_attn; candidate: before self_attn and on the residual beside self_attn"
    )
    trials = read["sites"]["model.layers.1.input_layernorm"]["reference"]["trials"]
    assert trials["self_attn/input: before self_attn"]["of_rounding"] < 1
    assert trials["self_attn/input: no norm at self_attn"]["of_rounding"] > 1000


def test_files_that_record_nothing_of_use_are_told(rmsaudit: Rmsaudit, tmp_path: Path) -> None:
    other = tmp_path / "acts.safetensors"
    write_tensors(other, {"model.norm": np.ones((2, 8), np.float32)}, {})
    ran = rmsaudit("placement", other, *LLAMA)
    assert (ran.code, "records nothing around a layer of this model" in ran.err) == (2, True)
    write_tensors(other, {"model.layers.0/input": np.ones(8, np.float32)}, {})
    ran = rmsaudit("placement", other, *LLAMA)
    assert (ran.code, "model.layers.0/input has shape [8]" in ran.err) == (2, True)
