"""What the presets promise: those that people ask for, the user's choices left to the user, and values that resolve."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import dtype_of
from rmsaudit.documents.preset import preset_names, read_preset
from rmsaudit.emulator import emulate_arrays
from rmsaudit.semantics.resolve import CannotResolve, resolve

NAMES = preset_names()
WORDS = ("float32", "bfloat16", "float16")

ASKED_FOR = {
    "transformers-llama", "transformers-gemma", "transformers-olmo2", "transformers-t5", "transformers-gemma3n",
    "transformers-deepseek-v4-unweighted", "torch-rms-norm", "onnx-rms-normalization-23", "onnx-reference-evaluator",
    "onnxruntime-simplified-layer-normalization", "onnxruntime-skip-simplified-layer-normalization", "ggml-cpu",
    "vllm-native", "vllm-native-fused-add", "vllm-cuda-fused-add", "tensorrt-llm-cuda", "tensorrt-llm-functional",
    "mlx-fast", "keras-rms-normalization", "flax-rms-norm", "haiku", "apex-cuda", "transformer-engine",
    "transformer-engine-zero-centered", "bzhangGo-torch", "x-transformers", "meta-llama", "litgpt",
    "litgpt-unit-offset", "flashinfer", "liger-llama", "liger-gemma", "liger-none", "layer-norm-no-bias",
}  # fmt: skip

FORCED = {  # the dtypes that an implementation leaves no choice about
    "ggml-cpu": {"input_dtype": "float32", "gain_dtype": "float32"},
    "ggml-cuda": {"input_dtype": "float32", "gain_dtype": "float32"},
    "llama2-c": {"input_dtype": "float32", "gain_dtype": "float32"},
    "ncnn": {"input_dtype": "float32", "gain_dtype": "float32"},
    "exllamav2": {"gain_dtype": "float16"},
}

EPS_IS_LOST_IN_FLOAT16 = {"bzhangGo-torch", "gpt-neox", "x-transformers", "x-transformers-unit-offset"}
SUBTRACTS_THE_MEAN = {"layer-norm-no-bias", "transformers-cohere-layer-norm"}


def test_the_presets_that_people_ask_for() -> None:
    assert set(NAMES) >= ASKED_FOR


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_leaves_width_and_dtypes_to_the_user(name: str) -> None:
    values = read_preset(name).values
    assert "width" not in values
    assert {key: values[key] for key in ("input_dtype", "gain_dtype") if key in values} == FORCED.get(name, {})


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_says_what_a_reader_looks_for_first(name: str) -> None:
    values = read_preset(name).values
    assert values["compute_dtype"]
    assert values["output_dtype"]
    if values.get("association", "(x*i)*g") == "(x*i)*g" and values.get("gain_applied", True):
        assert "cast_point" in values or name in FORCED


@pytest.mark.parametrize("name", NAMES)
def test_its_sentence_is_one(name: str) -> None:
    about = read_preset(name).about
    assert not about.endswith(".")
    assert ". " not in about.replace("llama.cpp", "")


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_resolves_for_every_pair_of_dtypes(name: str) -> None:
    values = read_preset(name).values
    for input_word, gain_word in product(WORDS, WORDS):
        declared = {"width": 64, "input_dtype": input_word, "gain_dtype": gain_word, **values}
        if name in EPS_IS_LOST_IN_FLOAT16 and input_word == "float16":
            with pytest.raises(CannotResolve, match="becomes 0 in eps_dtype float16"):
                resolve(declared)
            declared["eps_placement"] = "none"  # as the file advises
        assert resolve(declared).width == 64


@pytest.mark.parametrize("name", NAMES)
def test_only_a_layer_norm_subtracts_the_mean(name: str) -> None:
    assert read_preset(name).values.get("center", False) == (name in SUBTRACTS_THE_MEAN)


def norm(name: str, row: list[float], word: str, **changes: Any) -> list[float]:
    declared = {"width": len(row), "input_dtype": word, "gain_dtype": word, **read_preset(name).values, **changes}
    spec = resolve(declared)
    offset = 1 - spec.gain_offset
    gain = np.full(len(row), offset).astype(dtype_of(word))
    x = np.array([row]).astype(dtype_of(word))
    return emulate_arrays(spec, x, gain, gain, np.zeros_like(x)).astype(float)[0].tolist()


OVERFLOWS_AT_256 = {
    "onnx-reference-evaluator", "onnx-reference-evaluator-bfloat16", "haiku", "deepmind-gemma", "transformers-imagegpt",
    "liger-none",
    "onnxruntime-cuda-skip-simplified-layer-normalization",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(NAMES) - SUBTRACTS_THE_MEAN - EPS_IS_LOST_IN_FLOAT16))
def test_which_of_them_lose_a_float16_row_of_300(name: str) -> None:
    """A mean square of 90000 overflows in float16 wherever it is rounded to that; the norm is 1 elsewhere."""
    rounds_the_mean = read_preset(name).values.get("statistic_dtype") == "input"
    lost = name in OVERFLOWS_AT_256 or rounds_the_mean
    ones = norm(name, [300.0, -300.0], "float16")
    assert ones == ([0.0, -0.0] if lost else pytest.approx([1.0, -1.0], abs=2.0**-10))


@pytest.mark.parametrize("name", sorted(set(NAMES) - SUBTRACTS_THE_MEAN))
def test_all_agree_on_an_easy_row(name: str) -> None:
    """Far from eps and from every limit, any RMSNorm gives x over its root mean square, up to a few bfloat16 ulp."""
    row = [0.5, -1.0, 2.0, 4.0]
    wanted = np.array(row) / np.sqrt(np.mean(np.square(row)))
    np.testing.assert_allclose(norm(name, row, "bfloat16"), wanted, rtol=3 * 2.0**-8)
