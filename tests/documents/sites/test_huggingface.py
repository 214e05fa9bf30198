"""The norms of published kinds of models, written down by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from rmsaudit.documents.sites import Sites
from rmsaudit.errors import InputProblem

Find = Callable[..., Sites]

LLAMA = {
    "model.embed_tokens.weight": (256, 64),
    "model.norm.weight": 64,
    **{f"model.layers.{layer}.post_attention_layernorm.weight": 64 for layer in (10, 9, 1, 0)},
    **{f"model.layers.{layer}.input_layernorm.weight": 64 for layer in (10, 9, 1, 0)},
    "model.layers.0.self_attn.q_proj.weight": (64, 64),
}


def eps_by_name(sites: Sites) -> dict[str, float]:
    return {site.name: site.eps.value for site in sites.sites}


def test_llama(of_config: Find) -> None:
    sites = of_config({"model_type": "llama", "rms_norm_eps": 1e-5}, LLAMA)
    assert [site.name for site in sites.sites] == [
        *(
            f"model.layers.{n}.{name}"
            for n in (0, 1, 9, 10)
            for name in ("input_layernorm", "post_attention_layernorm")
        ),
        "model.norm",
    ]
    first = sites.sites[0]
    assert first.preset == "transformers-llama"
    assert first.declared == {"width": 64, "eps": 1e-5, "gain_dtype": "float32"}
    assert first.source == {
        "width": "model.safetensors: model.layers.0.input_layernorm.weight, 64 elements",
        "eps": "config.json: rms_norm_eps",
        "gain_dtype": "model.safetensors: model.layers.0.input_layernorm.weight",
    }
    assert first.below == "layers.0.input_layernorm"
    assert (sites.architecture, sites.disagreements, sites.notes) == ("llama", (), ())


def test_a_model_without_its_head_keeps_its_names(of_config: Find) -> None:
    sites = of_config(
        {"model_type": "llama", "rms_norm_eps": 1e-5}, {"layers.0.input_layernorm.weight": 8, "norm.weight": 8}
    )
    assert [(site.name, site.below) for site in sites.sites] == [
        ("layers.0.input_layernorm", "layers.0.input_layernorm"),
        ("norm", "norm"),
    ]


@pytest.mark.parametrize(
    ("model_type", "config", "default"),
    [
        ("llama", "LlamaConfig", 1e-6),
        ("mixtral", "MixtralConfig", 1e-5),
        ("phi3", "Phi3Config", 1e-5),
        ("glm", "GlmConfig", 1.5625e-7),
        ("helium", "HeliumConfig", 1e-8),
    ],
)
def test_a_missing_key_is_the_default_of_its_class(
    of_config: Find, model_type: str, config: str, default: float
) -> None:
    (site,) = of_config({"model_type": model_type}, {"model.norm.weight": 64}).sites
    assert site.eps.value == default
    assert site.eps.source == (
        f"default of {config}.rms_norm_eps (transformers 5.24); rms_norm_eps is missing in config.json"
    )


def test_the_class_of_deepseek_gives_two_norms_an_eps_of_its_own(of_config: Find) -> None:
    names = ("input_layernorm", "self_attn.q_a_layernorm", "self_attn.kv_a_layernorm", "post_attention_layernorm")
    shapes = {f"model.layers.0.{name}.weight": width for name, width in zip(names, (64, 12, 20, 64), strict=True)}
    sites = of_config({"model_type": "deepseek_v3", "rms_norm_eps": 3e-5}, shapes).sites
    assert [(site.declared["width"], site.eps.value) for site in sites] == [
        (64, 3e-5),
        (12, 1e-6),
        (20, 1e-6),
        (64, 3e-5),
    ]
    assert sites[1].eps.source == (
        "written into the model class of deepseek_v3, which reads no key for it (transformers 5.24)"
    )


def test_qwen3_next_has_two_conventions_in_one_model(of_config: Find) -> None:
    shapes = {
        "model.layers.0.input_layernorm.weight": 64,
        "model.layers.0.linear_attn.norm.weight": 16,
        "model.layers.1.self_attn.q_norm.weight": 8,
        "model.norm.weight": 64,
    }
    sites = of_config({"model_type": "qwen3_next", "rms_norm_eps": 1e-6}, shapes).sites
    assert [(site.preset, site.declared.get("gain_offset")) for site in sites] == [
        ("transformers-gemma", 1),
        ("transformers-llama", None),
        ("transformers-gemma", 1),
        ("transformers-gemma", 1),
    ]
    assert sites[1].note == "its output is multiplied by silu(gate) in float32"


def test_heads_are_normalised_apart_or_together_as_the_width_says(of_config: Find) -> None:
    shapes = {"model.layers.0.self_attn.q_norm.weight": 8}
    (apart,) = of_config({"model_type": "qwen3", "head_dim": 8}, shapes).sites
    (together,) = of_config(
        {"model_type": "olmo2", "head_dim": 8}, {"model.layers.0.self_attn.q_norm.weight": 64}
    ).sites
    assert (apart.declared["width"], apart.preset) == (8, "transformers-llama")
    assert (together.declared["width"], together.preset) == (64, "transformers-olmo2")


@pytest.mark.parametrize(("config", "groups"), [({"n_groups": 4}, 4), ({}, 8), ({"n_groups": 1}, None)])
def test_groups_of_mamba_2(of_config: Find, config: dict[str, Any], groups: int | None) -> None:
    sites = of_config({"model_type": "mamba2", **config}, {"backbone.layers.0.mixer.norm.weight": 64}).sites
    assert sites[0].declared.get("groups") == groups
    assert sites[0].note == "its input is x·silu(gate), in float32"


def test_t5_calls_its_norm_a_layer_norm(of_config: Find) -> None:
    shapes = {
        "decoder.final_layer_norm.weight": 8,
        "decoder.block.0.layer.2.layer_norm.weight": 8,
        "decoder.block.0.layer.0.layer_norm.weight": 8,
        "encoder.block.0.layer.1.layer_norm.weight": 8,
    }
    sites = of_config({"model_type": "t5", "layer_norm_epsilon": 3e-6}, shapes).sites
    assert [site.name for site in sites] == [
        "encoder.block.0.layer.1.layer_norm",
        "decoder.block.0.layer.0.layer_norm",
        "decoder.block.0.layer.2.layer_norm",
        "decoder.final_layer_norm",
    ]
    assert {(site.preset, site.eps.source) for site in sites} == {
        ("transformers-t5", "config.json: layer_norm_epsilon")
    }


GEMMA_3 = {
    "model_type": "gemma3",
    "text_config": {"model_type": "gemma3_text", "rms_norm_eps": 2e-6},
    "vision_config": {"model_type": "siglip_vision_model", "layer_norm_eps": 3e-6},
}


@pytest.mark.parametrize("root", ["language_model.model", "model.language_model"])
def test_towers_have_their_own_section_under_either_name(of_config: Find, root: str) -> None:
    """Published files have the names of transformers 4; those that transformers 5 saves have them too."""
    shapes = {
        f"{root}.norm.weight": 64,
        f"{root}.layers.0.pre_feedforward_layernorm.weight": 64,
        "multi_modal_projector.mm_soft_emb_norm.weight": 32,
        "vision_tower.vision_model.post_layernorm.weight": 32,
        "vision_tower.vision_model.post_layernorm.bias": 32,
    }
    sites = of_config(GEMMA_3, shapes)
    assert [(site.name, site.eps.value, site.eps.source, site.below) for site in sites.sites] == [
        (
            "model.multi_modal_projector.mm_soft_emb_norm",
            3e-6,
            "config.json: vision_config.layer_norm_eps",
            "multi_modal_projector.mm_soft_emb_norm",
        ),
        (
            "model.language_model.layers.0.pre_feedforward_layernorm",
            2e-6,
            "config.json: text_config.rms_norm_eps",
            "layers.0.pre_feedforward_layernorm",
        ),
        ("model.language_model.norm", 2e-6, "config.json: text_config.rms_norm_eps", "norm"),
    ]
    assert not sites.disagreements


def test_llama_4_has_norms_without_gains(of_config: Find) -> None:
    """One in each layer with rotary positions; as wide as a head, which its keys show."""
    config = {"model_type": "llama4_text", "num_key_value_heads": 2, "no_rope_layers": [1, 0], "rms_norm_eps": 1e-5}
    shapes = {f"model.layers.{layer}.self_attn.k_proj.weight": (16, 64) for layer in (0, 1)}
    (site,) = of_config(config, shapes).sites
    assert (site.name, site.tensor) == ("model.layers.0.self_attn.qk_norm", None)
    assert site.declared == {"width": 8, "eps": 1e-5, "gain_applied": False}
    assert site.source["width"] == "model.safetensors: model.layers.0.self_attn.k_proj.weight, [16, 64]"
    assert of_config({**config, "use_qk_norm": False}, shapes).sites == ()


@pytest.mark.parametrize(
    ("config", "value", "key"),
    [
        ({"rms_norm_eps": 1e-5}, 1e-5, "rms_norm_eps"),
        ({"layer_norm_epsilon": 2e-5}, 2e-5, "layer_norm_epsilon"),
        ({"layer_norm_epsilon": 2e-5, "rms_norm_eps": 1e-5}, 2e-5, "layer_norm_epsilon"),
    ],
)
def test_a_class_with_two_names_for_its_key(of_config: Find, config: dict[str, Any], value: float, key: str) -> None:
    """EXAONE's configuration class takes the second for the first, and lets it win."""
    sites = of_config({"model_type": "exaone", **config}, {"transformer.ln_f.weight": 8})
    assert [(s.name, s.eps.value, s.eps.source) for s in sites.sites] == [("model.norm", value, f"config.json: {key}")]
    assert len(sites.disagreements) == len(config) - 1


def test_keys_that_disagree_are_told_and_which_one_acts(of_config: Find) -> None:
    config = {"model_type": "llama", "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "norm_eps": 1e-6}
    (found,) = of_config(config, LLAMA).disagreements
    assert found.used == "config.json: rms_norm_eps"
    assert found.says == (
        "config.json gives layer_norm_eps as 1e-05, which `llama` does not read; its norms use 1e-06: "
        "config.json: rms_norm_eps"
    )
    agreeing = {"model_type": "llama", "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-6, "norm_eps": None}
    assert of_config(agreeing, LLAMA).disagreements == ()


def test_a_key_at_the_top_that_no_tower_reads_disagrees(of_config: Find) -> None:
    config = {"model_type": "llava", "rms_norm_eps": 1e-5, "text_config": {"model_type": "llama", "rms_norm_eps": 1e-6}}
    sites = of_config(config, {"language_model.model.norm.weight": 8})
    assert eps_by_name(sites) == {"model.language_model.norm": 1e-6}
    assert [found.says for found in sites.disagreements] == [
        "config.json gives rms_norm_eps as 1e-05, which `llava` does not read; its norms use 1e-06: "
        "config.json: text_config.rms_norm_eps"
    ]


def test_qwen2_vl_takes_flat_settings_and_others_do_not(of_config: Find) -> None:
    shapes = {"model.norm.weight": 8}
    assert eps_by_name(of_config({"model_type": "qwen2_vl", "rms_norm_eps": 3e-5}, shapes)) == {
        "model.language_model.norm": 3e-5
    }
    assert eps_by_name(of_config({"model_type": "qwen3_vl", "rms_norm_eps": 3e-5}, shapes)) == {
        "model.language_model.norm": 1e-6
    }


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("1e-6", "m/config.json: gives rms_norm_eps as `'1e-6'`, which is no number; mend it there [not-a-number]"),
        (True, "m/config.json: gives rms_norm_eps as `True`, which is no number; mend it there [not-a-number]"),
        (0, "m/config.json: gives rms_norm_eps as `0`; eps must be a finite number above 0 [out-of-range]"),
        (
            float("nan"),
            "m/config.json: gives rms_norm_eps as `nan`; eps must be a finite number above 0 [out-of-range]",
        ),
        (
            None,
            "m/config.json: gives rms_norm_eps as null, which LlamaConfig does not take;"
            " write the number that is used [not-a-number]",
        ),
    ],
)
def test_what_is_no_eps_is_refused(of_config: Find, value: object, says: str) -> None:
    with pytest.raises(InputProblem) as refused:
        of_config({"model_type": "llama", "rms_norm_eps": value}, LLAMA)
    assert str(refused.value) == says


def test_layers_beyond_the_last_one_are_left_out(of_config: Find) -> None:
    """DeepSeek-V3 publishes weights of a layer that predicts further tokens, which the model itself does not run."""
    shapes = {
        "model.layers.1.input_layernorm.weight": 8,
        "model.layers.2.input_layernorm.weight": 8,
        "model.layers.2.enorm.weight": 8,
    }
    sites = of_config({"model_type": "deepseek_v3", "num_hidden_layers": 2}, shapes)
    assert list(eps_by_name(sites)) == ["model.layers.1.input_layernorm"]
    assert sites.notes == (
        "left out: 1 norm in layers beyond the model's last: `2`; it does not run them (they predict further tokens)",
    )


def test_tensors_named_like_gains_are_not_passed_over_in_silence(of_config: Find) -> None:
    shapes = {"model.norm.weight": 8, "model.layers.0.self_attn.q_norm.weight": 8}
    sites = of_config({"model_type": "llama", "rms_norm_eps": 1e-6}, shapes)
    assert list(eps_by_name(sites)) == ["model.norm"]
    assert sites.notes == (
        "not audited: `model.layers.0.self_attn.q_norm.weight`; the name is like a norm's, and this model is not known"
        " to have it there",
    )


def test_a_table_is_no_row_of_gains(of_config: Find) -> None:
    shapes = {"model.norm.weight": (8, 2), "model.layers.0.input_layernorm.weight": (1, 8)}
    sites = of_config({"model_type": "llama", "rms_norm_eps": 1e-6}, shapes)
    assert [(site.name, site.declared["width"]) for site in sites.sites] == [("model.layers.0.input_layernorm", 8)]
    assert sites.notes == ("left out: `model.norm.weight`; gains are a row of numbers",)


def test_a_layer_norm_is_no_site(of_config: Find) -> None:
    sites = of_config({"model_type": "cohere", "layer_norm_eps": 1e-5}, LLAMA)
    assert (sites.sites, sites.architecture) == ((), "cohere")
    assert sites.notes == (
        "its norms are LayerNorms without a bias: they subtract the mean of the row, so they are no RMSNorms",
    )


def test_one_norm_under_two_names(of_config: Find) -> None:
    config = {"model_type": "llava", "text_config": {"model_type": "llama"}}
    sites = of_config(config, {"language_model.model.norm.weight": 8, "model.language_model.norm.weight": 8})
    assert [site.name for site in sites.sites] == ["model.language_model.norm"]
    assert sites.notes == (
        "left out: `model.language_model.norm.weight`; another tensor has the same norm's gains under another name",
    )


def test_published_norms_that_no_layer_runs(of_config: Find) -> None:
    """Gemma 3n's last layers take keys and values of earlier ones, and its files have norms for them all the same."""
    config = {"model_type": "gemma3n_text", "num_hidden_layers": 2, "num_kv_shared_layers": 1}
    sites = of_config(config, {f"model.layers.{layer}.self_attn.k_norm.weight": 8 for layer in (0, 1)})
    assert [(site.below, site.preset, site.declared.get("gain_applied")) for site in sites.sites] == [
        ("layers.0.self_attn.k_norm", "transformers-gemma3n", None),
        ("layers.0.self_attn.v_norm", "transformers-gemma3n", False),
    ]
    assert sites.notes == ("left out: `model.layers.1.self_attn.k_norm.weight`; their layers do not run them",)


def test_a_key_beside_a_constant_disagrees(of_config: Find) -> None:
    """The eyes of Qwen2.5-VL have 1e-6 whatever their section says; what says the same contradicts nothing."""
    vision = {"model_type": "qwen2_5_vl_vision", "rms_norm_eps": 1e-5}
    config = {"model_type": "qwen2_5_vl", "vision_config": vision, "text_config": {"rms_norm_eps": 1e-6}}
    shapes = {"visual.blocks.0.norm1.weight": 8, "model.norm.weight": 8}
    assert [found.says.partition("; ")[0] for found in of_config(config, shapes).disagreements] == [
        "config.json gives vision_config.rms_norm_eps as 1e-05, which `qwen2_5_vl_vision` does not read"
    ]
    same = {**config, "vision_config": {**vision, "rms_norm_eps": 1e-6}}
    assert of_config(same, shapes).disagreements == ()


def test_the_projector_of_gemma_3_reads_its_own_key(of_config: Find) -> None:
    config = {**GEMMA_3, "rms_norm_eps": 5e-6}
    sites = of_config(config, {"language_model.model.norm.weight": 8})
    assert [found.used for found in sites.disagreements] == ["config.json: text_config.rms_norm_eps"]
