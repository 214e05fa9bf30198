"""rmsaudit placement: where the norms of recorded layers sit."""

import json
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

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
    assert (ran.code, "records too little around the layers of" in ran.err) == (2, True)
    write_tensors(other, {"model.layers.0/input": np.ones(8, np.float32)}, {})
    ran = rmsaudit("placement", other, *LLAMA)
    assert (ran.code, "model.layers.0/input has shape [8]" in ran.err) == (2, True)


def test_norms_without_a_place_on_one_side_are_not_compared(rmsaudit: Rmsaudit, tmp_path: Path) -> None:
    """Nothing compared is no pass."""
    ran = rmsaudit("placement", f"{RECORDED}/llama.safetensors", f"{RECORDED}/gemma2.safetensors", *LLAMA)
    assert ran.code == 4
    assert "No norm has a place in both files, so nothing was compared." in ran.out
    recorded = load_file(f"{RECORDED}/llama.safetensors")
    part = tmp_path / "part.safetensors"
    write_tensors(part, {name: rows for name, rows in recorded.items() if ".0" in name and "after" not in name}, {})
    ran = rmsaudit("placement", f"{RECORDED}/llama.safetensors", part, *LLAMA)
    assert ran.code == 0
    assert ran.out.splitlines()[-2:] == [
        "0 of 1 site sits at another boundary.",
        "3 of 4 sites have no place in one of the files, and were not compared.",
    ]
    assert "not observable (nothing was recorded around its sublayers)" in ran.out


def test_models_whose_norms_cannot_be_computed_are_refused(rmsaudit: Rmsaudit, tmp_path: Path) -> None:
    copytree("fixtures/models/llama-tiny", tmp_path / "tiny")
    config = tmp_path / "tiny" / "config.json"
    config.write_text(config.read_text().replace("1e-05", "1e-320"))
    ran = rmsaudit("placement", f"{RECORDED}/llama.safetensors", "--model", tmp_path / "tiny")
    assert (ran.code, "cannot be computed: eps" in ran.err) == (2, True)
    write_tensors(tmp_path / "tiny" / "model.safetensors", {"lm_head.weight": np.ones((2, 2), np.float32)}, {})
    ran = rmsaudit("placement", f"{RECORDED}/llama.safetensors", "--model", tmp_path / "tiny")
    assert (ran.code, "has no norm of llama; name another checkpoint [no-norms]" in ran.err) == (2, True)
