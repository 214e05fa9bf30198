"""Decoders with norms behind a sublayer too, or there only: Gemma 2 to 4, OLMo 2 and 3, GLM-4, EXAONE 4."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rmsaudit.documents.sites.architecture import GEMMA, GEMMA3N, OLMO2, Architecture, Bare, Norm
from rmsaudit.documents.sites.known.pre_norm import (
    AT_1E_5,
    GLM_EPS,
    INPUT,
    K_NORM,
    LAST,
    POST_ATTENTION,
    POST_ATTENTION_BY_NAME,
    Q_NORM,
)

PRE_FEEDFORWARD = Norm("layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm")
POST_FEEDFORWARD = Norm("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm")

GEMMA_2 = (INPUT, POST_ATTENTION_BY_NAME, PRE_FEEDFORWARD, POST_FEEDFORWARD, LAST)
GEMMA_3 = (INPUT, Q_NORM, K_NORM, POST_ATTENTION_BY_NAME, PRE_FEEDFORWARD, POST_FEEDFORWARD, LAST)


def _has_keys(config: Mapping[str, Any], layer: int) -> bool:
    """Whether a layer of Gemma 3n or 4 has keys and values of its own: the last ones take those of an earlier layer.

    Published files hold theirs all the same.
    """
    layers, shared = config.get("num_hidden_layers"), config.get("num_kv_shared_layers")
    return not isinstance(layers, int) or not isinstance(shared, int) or layer < layers - shared


_OWN_K_NORM = replace(K_NORM, there=_has_keys)
_V_NORM = Norm(
    "layers.{}.self_attn.v_norm",
    bare=Bare("layers.{}.self_attn.k_norm.weight", gguf="blk.{}.attn_k_norm.weight"),
    there=_has_keys,
)
_GEMMA_3N = (
    Norm("per_layer_projection_norm", "per_layer_proj_norm"),
    Norm("layers.{}.altup.router_norm", "blk.{}.altup_router_norm"),
    INPUT,
    Norm("layers.{}.laurel.post_laurel_norm", "blk.{}.laurel_post_norm"),
    Q_NORM,
    _OWN_K_NORM,
    _V_NORM,
    POST_ATTENTION_BY_NAME,
    PRE_FEEDFORWARD,
    POST_FEEDFORWARD,
    Norm("layers.{}.post_per_layer_input_norm", "blk.{}.post_norm"),
    LAST,
)
_GEMMA_4 = (
    Norm("per_layer_projection_norm", "per_layer_proj_norm"),
    INPUT,
    Q_NORM,
    _OWN_K_NORM,
    _V_NORM,
    POST_ATTENTION_BY_NAME,
    PRE_FEEDFORWARD,
    Norm("layers.{}.router.norm", bare=Bare("layers.{}.router.proj.weight", 1, gguf="blk.{}.ffn_gate_inp.weight")),
    Norm("layers.{}.pre_feedforward_layernorm_2", "blk.{}.pre_ffw_norm_2"),
    Norm("layers.{}.post_feedforward_layernorm_1", "blk.{}.post_ffw_norm_1"),
    Norm("layers.{}.post_feedforward_layernorm_2", "blk.{}.post_ffw_norm_2"),
    POST_FEEDFORWARD,
    Norm("layers.{}.post_per_layer_input_norm", "blk.{}.post_norm"),
    LAST,
)
OLMO_2 = (Q_NORM, K_NORM, POST_ATTENTION_BY_NAME, POST_FEEDFORWARD, LAST)
GLM_4 = (
    INPUT,
    Norm("layers.{}.post_self_attn_layernorm", "blk.{}.post_attention_norm"),
    POST_ATTENTION,
    Norm("layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm"),
    LAST,
)
_AFMOE = (
    INPUT,
    Q_NORM,
    K_NORM,
    POST_ATTENTION_BY_NAME,
    Norm("layers.{}.pre_mlp_layernorm", "blk.{}.ffn_norm"),
    Norm("layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm"),
    LAST,
)
_T5GEMMA_LAYER = (
    "pre_self_attn_layernorm",
    "post_self_attn_layernorm",
    "pre_cross_attn_layernorm",
    "post_cross_attn_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)

ARCHITECTURES = (
    Architecture("gemma2", "Gemma2Config", GEMMA_2, "gemma2", GEMMA),
    Architecture("gemma3_text", "Gemma3TextConfig", GEMMA_3, "gemma3", GEMMA),
    Architecture("vaultgemma", "VaultGemmaConfig", (INPUT, PRE_FEEDFORWARD, LAST), preset=GEMMA),
    Architecture("gemma3n_text", "Gemma3nTextConfig", _GEMMA_3N, "gemma3n", GEMMA3N),
    Architecture("gemma4_text", "Gemma4TextConfig", _GEMMA_4, "gemma4", GEMMA3N),
    Architecture("olmo2", "Olmo2Config", OLMO_2, "olmo2", OLMO2, AT_1E_5),
    Architecture("olmo3", "Olmo3Config", OLMO_2, "olmo2", OLMO2, AT_1E_5),
    Architecture("flex_olmo", "FlexOlmoConfig", OLMO_2, preset=OLMO2),
    Architecture("exaone4", "Exaone4Config", OLMO_2, "exaone4", eps=AT_1E_5),
    Architecture("glm4", "Glm4Config", GLM_4, "glm4", eps=GLM_EPS),
    Architecture("glm4v_text", "Glm4vTextConfig", GLM_4, eps=AT_1E_5),
    Architecture("afmoe", "AfmoeConfig", _AFMOE, "afmoe", OLMO2, AT_1E_5),
    Architecture(
        "t5_gemma_module",
        "T5GemmaModuleConfig",
        (*(Norm(f"layers.{{}}.{name}") for name in _T5GEMMA_LAYER), LAST),
        preset=GEMMA,
    ),
)
