"""Models that are not known: by the names of their tensors, and the nearest eps."""

from collections.abc import Callable

import pytest

from rmsaudit.documents.sites import Sites
from rmsaudit.errors import InputProblem

Find = Callable[..., Sites]
NOTE = "norms were found by their names, and are taken for transformers-llama; check eps and the gains' convention"


def test_gains_are_known_by_their_names(of_config: Find) -> None:
    shapes = {
        "net.blocks.10.ln_1.weight": 8,
        "net.blocks.2.ln_1.weight": 8,
        "net.blocks.2.attn.q_norm.weight": 4,
        "net.final_norm.weight": 8,
        "net.blocks.2.pre.scale_norm.gamma": 8,
        "net.blocks.2.layer_norm.weight": 8,
        "net.blocks.2.layer_norm.bias": 8,  # so that the one above is a LayerNorm
        "net.blocks.2.normalize_proj.weight": (8, 8),
        "net.enormous.weight": 8,
        "net.plain.weight": 8,
    }
    sites = of_config({"model_type": "novel", "norm_eps": 1e-5}, shapes)
    assert sites.architecture is None
    assert [site.name for site in sites.sites] == [
        "net.blocks.2.attn.q_norm",
        "net.blocks.2.ln_1",
        "net.blocks.2.pre.scale_norm",
        "net.blocks.10.ln_1",
        "net.final_norm",
    ]
    assert {site.eps.source for site in sites.sites} == {"config.json: norm_eps, the nearest key"}
    assert sites.notes == (f"the model_type `novel` is not known: {NOTE}",)


def test_the_nearest_section_gives_eps(of_config: Find) -> None:
    config = {
        "rms_norm_eps": 1e-3,
        "text_config": {"rms_norm_eps": 1e-5},
        "vision_config": {"layer_norm_eps": 1e-6},
        "model_type": "novel",
    }
    shapes = {"vision_tower.norm.weight": 8, "decoder.norm.weight": 8}
    sites = of_config(config, shapes)
    assert {site.name: (site.eps.value, site.eps.source) for site in sites.sites} == {
        "decoder.norm": (1e-5, "config.json: text_config.rms_norm_eps, the nearest key"),
        "vision_tower.norm": (1e-6, "config.json: vision_config.layer_norm_eps, the nearest key"),
    }


def test_without_any_eps_there_is_nothing_to_go_by(of_config: Find) -> None:
    with pytest.raises(InputProblem, match=r"m/config.json: gives no eps for net.norm.weight; looked for rms_norm_eps"):
        of_config({"model_type": "novel"}, {"net.norm.weight": 8})


def test_an_unknown_model_inside_a_known_one(of_config: Find) -> None:
    config = {"model_type": "llava", "text_config": {"model_type": "novel", "rms_norm_eps": 1e-5}}
    sites = of_config(config, {"language_model.model.norm.weight": 8})
    assert [(site.name, site.eps.value) for site in sites.sites] == [("language_model.model.norm", 1e-5)]
    assert sites.notes == (f"text_config.model_type is 'novel', which is not known: {NOTE}",)


def test_nothing_named_like_a_norm(of_config: Find) -> None:
    sites = of_config({}, {"w": 8})
    assert sites.notes == ("there is no model_type, and no tensor is named like a norm's gains",)


def test_hostile_values_of_known_keys(of_config: Find) -> None:
    """What a config.json may hold in place of what is expected: another type."""
    for model_type in (7, ["llama"], {"a": 1}):
        assert (
            of_config({"model_type": model_type, "rms_norm_eps": 1e-5}, {"model.norm.weight": 8}).architecture is None
        )
    sites = of_config({"model_type": "gemma3", "text_config": [1], "vision_config": 3}, {"model.norm.weight": 8})
    assert [site.eps.value for site in sites.sites] == [1e-6]
    llama_4 = {"model_type": "llama4_text", "num_key_value_heads": "two", "num_hidden_layers": None}
    assert of_config(llama_4, {"model.layers.0.self_attn.k_proj.weight": (16, 8)}).sites == ()


def test_keys_that_disagree(of_config: Find) -> None:
    config = {"model_type": "novel", "text_config": {"norm_eps": 1e-5, "rms_norm_eps": 1e-6, "layer_norm_eps": 1e-6}}
    (found,) = of_config(config, {"net.norm.weight": 8}).disagreements
    assert found.used == "config.json: text_config.rms_norm_eps"
    assert found.says == (
        "config.json gives text_config.rms_norm_eps as 1e-06 and text_config.layer_norm_eps as 1e-06 and"
        " text_config.norm_eps as 1e-05; which of them acts is not known, and"
        " config.json: text_config.rms_norm_eps is used"
    )
    agreeing = {"model_type": "novel", "norm_eps": 1e-5, "rms_norm_eps": 1e-5}
    assert of_config(agreeing, {"net.norm.weight": 8}).disagreements == ()


def test_no_config(of_config: Find) -> None:
    with pytest.raises(InputProblem, match=r"m/config.json: says nothing, or is not there, and so there is no eps"):
        of_config({}, {"net.norm.weight": 8})
