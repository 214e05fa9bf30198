"""Models with norms that have no gain at all."""

from collections.abc import Mapping
from typing import Any

from rmsaudit.documents.sites.architecture import NO_GAIN, Architecture, Bare, Norm
from rmsaudit.documents.sites.known.pre_norm import AT_1E_5, INPUT, LAST, POST_ATTENTION

_Q_PROJ, _K_PROJ = "layers.{}.self_attn.q_proj.weight", "layers.{}.self_attn.k_proj.weight"


def _rotates(config: Mapping[str, Any], layer: int) -> bool:
    """Whether a layer of Llama 4 normalises queries and keys: if any does, those with rotary positions do."""
    listed, interval = config.get("no_rope_layers"), config.get("no_rope_layer_interval", 4)
    if isinstance(listed, list) and listed:
        rotates = layer < len(listed) and bool(listed[layer])
    else:
        rotates = not isinstance(interval, int) or interval < 1 or (layer + 1) % interval != 0
    return bool(config.get("use_qk_norm", True)) and rotates


_LLAMA4 = (
    INPUT,
    Norm(
        "layers.{}.self_attn.qk_norm",
        preset=NO_GAIN,
        bare=Bare(_K_PROJ, 0, "num_key_value_heads", "blk.{}.attn_k.weight"),
        there=_rotates,
        note="one module for queries and keys",
    ),
    POST_ATTENTION,
    LAST,
)
_NANOCHAT = (
    Norm("layers.{}.input_layernorm", bare=Bare(_Q_PROJ, 1)),
    Norm("layers.{}.self_attn.q_norm", bare=Bare(_Q_PROJ, 0, "num_attention_heads")),
    Norm("layers.{}.self_attn.k_norm", bare=Bare(_K_PROJ, 0, "num_key_value_heads")),
    Norm("layers.{}.post_attention_layernorm", bare=Bare(_Q_PROJ, 1)),
    Norm("norm", bare=Bare("embed_tokens.weight", 1), note="used before the first layer too"),
)

ARCHITECTURES = (
    Architecture("llama4_text", "Llama4TextConfig", _LLAMA4, "llama4", eps=AT_1E_5),
    Architecture("nanochat", "NanoChatConfig", _NANOCHAT, preset=NO_GAIN),
)
