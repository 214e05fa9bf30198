"""The norms of GGUF files, written down by hand; tests/frameworks compares the names with gguf's own tables."""

from collections.abc import Callable
from typing import Any

import pytest

from rmsaudit.documents.sites import Sites
from rmsaudit.errors import InputProblem

Find = Callable[..., Sites]
AS_FLOAT32 = 9.999999747378752e-06  # 1e-5, rounded to float32


def metadata(architecture: str, **more: Any) -> dict[str, Any]:
    pairs = {"attention.layer_norm_rms_epsilon": AS_FLOAT32, **{k.replace("__", "."): v for k, v in more.items()}}
    return {"general.architecture": architecture, **{f"{architecture}.{key}": value for key, value in pairs.items()}}


def test_llama(of_gguf: Find) -> None:
    shapes = {
        "output_norm.weight": 8,
        "blk.1.attn_norm.weight": 8,
        "blk.0.ffn_norm.weight": 8,
        "blk.0.attn_q.weight": (8, 8),
    }
    sites = of_gguf(metadata("llama"), shapes)
    assert [(site.name, site.tensor and site.tensor.name) for site in sites.sites] == [
        ("model.layers.0.post_attention_layernorm", "blk.0.ffn_norm.weight"),
        ("model.layers.1.input_layernorm", "blk.1.attn_norm.weight"),
        ("model.norm", "output_norm.weight"),
    ]
    first = sites.sites[0]
    assert first.declared == {"width": 8, "eps": 1e-5, "gain_dtype": "float32"}
    assert first.eps.source == (
        "m.gguf: llama.attention.layer_norm_rms_epsilon (float32 9.999999747378752e-06; equal to 1e-05 in float32)"
    )
    assert first.below == "layers.0.post_attention_layernorm"


def test_the_same_tensor_is_another_norm_in_another_model(of_gguf: Find) -> None:
    shapes = {"blk.0.ffn_norm.weight": 8}
    names = {name: of_gguf(metadata(name), shapes).sites[0].name for name in ("llama", "gemma2", "afmoe", "jamba")}
    assert names == {
        "llama": "model.layers.0.post_attention_layernorm",
        "gemma2": "model.layers.0.pre_feedforward_layernorm",
        "afmoe": "model.layers.0.pre_mlp_layernorm",
        "jamba": "model.layers.0.pre_ff_layernorm",
    }


def test_the_conversion_adds_one_where_the_class_did(of_gguf: Find) -> None:
    shapes = {"blk.0.attn_norm.weight": 8, "blk.0.ssm_norm.weight": 4}
    sites = of_gguf(metadata("qwen3next"), shapes).sites
    assert [(site.preset, site.declared.get("gain_offset")) for site in sites] == [
        ("transformers-gemma", 0),
        ("transformers-llama", None),
    ]
    assert sites[0].source["gain_offset"] == "llama.cpp's conversion added 1 to the stored gains"


def test_all_norms_of_a_file_have_one_eps(of_gguf: Find) -> None:
    """transformers gives the latent norms of DeepSeek an eps of their own; llama.cpp does not."""
    shapes = {"blk.0.attn_norm.weight": 8, "blk.0.attn_q_a_norm.weight": 4}
    assert {site.eps.value for site in of_gguf(metadata("deepseek2"), shapes).sites} == {1e-5}


def test_groups(of_gguf: Find) -> None:
    (site,) = of_gguf(metadata("mamba2", ssm__group_count=4), {"blk.0.ssm_norm.weight": 64}).sites
    assert (site.declared["groups"], site.source["groups"]) == (4, "m.gguf: mamba2.ssm.group_count")


def test_layers_that_predict_further_tokens_are_left_out(of_gguf: Find) -> None:
    pairs = metadata("glm4moe", block_count=2, nextn_predict_layers=1)
    sites = of_gguf(pairs, {"blk.0.attn_norm.weight": 8, "blk.1.attn_norm.weight": 8})
    assert [site.name for site in sites.sites] == ["model.layers.0.input_layernorm"]
    assert sites.notes == ("left out: `blk.1.attn_norm.weight`; the layer only predicts further tokens",)


def test_an_unknown_architecture_goes_by_names(of_gguf: Find) -> None:
    shapes = {"blk.10.attn_norm.weight": 8, "blk.2.attn_norm.weight": 8, "blk.2.ln.weight": 8, "blk.2.ln.bias": 8}
    sites = of_gguf(metadata("novel"), shapes)
    assert [site.name for site in sites.sites] == ["blk.2.attn_norm", "blk.10.attn_norm"]
    assert sites.architecture is None
    assert sites.notes[0].startswith("the GGUF architecture `novel` is not known: norms were found by their names")


def test_layer_norms_are_no_sites(of_gguf: Find) -> None:
    sites = of_gguf({"general.architecture": "nemotron"}, {"blk.0.attn_norm.weight": 8})
    assert (sites.sites, sites.architecture) == ((), "nemotron")
    assert "stored around 0" in sites.notes[0]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "gives no eps; looked for `llama.attention.layer_norm_rms_epsilon`; convert the model again [no-eps]"),
        (0.0, "gives `llama.attention.layer_norm_rms_epsilon` as `0.0`; eps must be a float above 0 [out-of-range]"),
        ("x", "gives `llama.attention.layer_norm_rms_epsilon` as `x`; eps must be a float above 0 [out-of-range]"),
    ],
)
def test_what_is_no_eps_is_refused(of_gguf: Find, value: object, says: str) -> None:
    pairs = {"general.architecture": "llama", "llama.attention.layer_norm_rms_epsilon": value}
    with pytest.raises(InputProblem) as refused:
        of_gguf(pairs, {"blk.0.attn_norm.weight": 8})
    assert str(refused.value) == f"m.gguf: {says}"


def test_a_value_that_is_no_rounded_decimal_stays_as_it_is(of_gguf: Find) -> None:
    pairs = {"general.architecture": "llama", "llama.attention.layer_norm_rms_epsilon": 0.5}
    (site,) = of_gguf(pairs, {"output_norm.weight": 8}).sites
    assert site.eps.source == "m.gguf: llama.attention.layer_norm_rms_epsilon (float32 0.5)"


def test_norms_without_gains_are_found_by_the_tensors_beside_them(of_gguf: Find) -> None:
    """Shapes have the outermost axis first: keys of 2 heads of 8, out of 64 columns."""
    shapes = {f"blk.{layer}.attn_k.weight": (16, 64) for layer in range(4)}
    sites = of_gguf(metadata("llama4", attention__head_count_kv=2, expert_count=16), shapes).sites
    assert [site.name for site in sites] == [f"model.layers.{layer}.self_attn.qk_norm" for layer in (0, 1, 2)]
    assert sites[0].declared == {"width": 8, "eps": 1e-5, "gain_applied": False}
    assert of_gguf(metadata("llama4", attention__head_count_kv=2, expert_count=128), shapes).sites == ()
    everywhere = metadata("llama4", attention__head_count_kv=[2, 2, 2, 4], attention__sliding_window=0)
    assert [site.declared["width"] for site in of_gguf(everywhere, shapes).sites] == [8, 8, 8, 4]


def test_layers_that_take_keys_from_another_have_no_norm_of_their_own(of_gguf: Find) -> None:
    shapes = {f"blk.{layer}.attn_{kind}_norm.weight": 8 for layer in (0, 1) for kind in "qk"}
    sites = of_gguf(metadata("gemma3n", block_count=2, attention__shared_kv_layers=1), shapes)
    assert [site.below for site in sites.sites] == [
        "layers.0.self_attn.q_norm",
        "layers.0.self_attn.k_norm",
        "layers.0.self_attn.v_norm",
        "layers.1.self_attn.q_norm",
    ]
    assert sites.notes == ("left out: `blk.1.attn_k_norm.weight`; their layers do not run them",)


def test_falcon_mamba_is_a_mamba_with_norms_inside(of_gguf: Find) -> None:
    """llama.cpp gives these the file's one eps; transformers has a key of its own for them."""
    shapes = {"blk.0.attn_norm.weight": 8, "blk.0.ssm_dt.weight": (16, 5), "blk.0.ssm_a": (16, 4)}
    assert len(of_gguf(metadata("mamba"), shapes).sites) == 1
    sites = of_gguf(metadata("mamba", ssm__dt_b_c_rms=True), shapes).sites
    assert [(site.below, site.declared["width"]) for site in sites] == [
        ("layers.0.norm", 8),
        ("layers.0.mixer.dt_layernorm", 5),
        ("layers.0.mixer.b_layernorm", 4),
        ("layers.0.mixer.c_layernorm", 4),
    ]
