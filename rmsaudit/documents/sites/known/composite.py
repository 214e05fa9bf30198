"""Models made of models: a language model with eyes or ears, each part with its own section of config.json."""

from rmsaudit.documents.sites.architecture import GEMMA, Architecture, Key, Norm, Tower
from rmsaudit.documents.sites.known.pre_norm import AT_1E_5, INPUT, LAST, POST_ATTENTION

_IN_FILES = ("language_model.model", "language_model", "model", "")
"""Where releases of transformers before 5 kept a language model: that is how published files have it."""

_NORM_1, _NORM_2 = Norm("blocks.{}.norm1", eps=1e-6), Norm("blocks.{}.norm2", eps=1e-6)
_BLOCKS = (Norm("blocks.{}.norm1"), Norm("blocks.{}.norm2"))
_PIXTRAL = (
    Norm("ln_pre", eps=1e-5),
    Norm("transformer.layers.{}.attention_norm", eps=1e-5),
    Norm("transformer.layers.{}.ffn_norm", eps=1e-5),
)
_PERCEIVER = (
    Norm("layers.{}.input_latents_norm"),
    Norm("layers.{}.input_context_norm"),
    Norm("layers.{}.post_attention_layernorm"),
    LAST,
)
_MLLAMA = (
    INPUT,
    Norm("layers.{}.cross_attn.q_norm"),
    Norm("layers.{}.cross_attn.k_norm"),
    POST_ATTENTION,
    LAST,
)
_GLM4V_VISION = (Norm("post_conv_layernorm"), *_BLOCKS, Norm("post_layernorm"))


def text_tower(
    model_type: str,
    *,
    at: str = "model.language_model",
    default: float | None = None,
    fills: bool = False,
    flat: bool = False,
) -> Tower:
    """The language model of a model."""
    return Tower(at, "text_config", model_type, _IN_FILES, default, fills, flat)


def _vision(model_type: str, at: str = "model.visual", *stored: str) -> Tower:
    return Tower(at, "vision_config", model_type, stored or (at.removeprefix("model."),))


def _with_text(model_type: str, config: str, text: str) -> Architecture:
    """A model whose only RMSNorms are its language model's."""
    return Architecture(model_type, config, towers=(text_tower(text),))


PARTS = (
    Architecture("qwen2_5_vl_vision", "Qwen2_5_VLVisionConfig", (_NORM_1, _NORM_2, Norm("merger.ln_q", eps=1e-6))),
    Architecture("pixtral", "PixtralVisionConfig", _PIXTRAL, root=""),
    Architecture("idefics2_perceiver", "Idefics2PerceiverConfig", _PERCEIVER),
    Architecture("mllama_text_model", "MllamaTextConfig", _MLLAMA, eps=AT_1E_5),
    Architecture("glm4v_vision", "Glm4vVisionConfig", _GLM4V_VISION, eps=AT_1E_5),
)

ARCHITECTURES = (
    *PARTS,
    _with_text("llava", "LlavaConfig", "llama"),
    _with_text("llava_next", "LlavaNextConfig", "llama"),
    _with_text("llava_onevision", "LlavaOnevisionConfig", "qwen2"),
    _with_text("vipllava", "VipLlavaConfig", "llama"),
    _with_text("internvl", "InternVLConfig", "qwen2"),
    _with_text("paligemma", "PaliGemmaConfig", "gemma"),
    _with_text("qwen2_audio", "Qwen2AudioConfig", "qwen2"),
    Architecture("voxtral", "VoxtralConfig", towers=(text_tower("llama", default=1e-5, fills=True),)),
    _with_text("granite_speech", "GraniteSpeechConfig", "granite"),
    _with_text("mllama", "MllamaConfig", "mllama_text_model"),
    _with_text("qwen3_vl", "Qwen3VLConfig", "qwen3_vl_text"),
    _with_text("qwen3_vl_moe", "Qwen3VLMoeConfig", "qwen3_vl_moe_text"),
    _with_text("qwen3_5", "Qwen3_5Config", "qwen3_5_text"),
    _with_text("qwen3_5_moe", "Qwen3_5MoeConfig", "qwen3_5_moe_text"),
    _with_text("minimax_m3_vl", "MiniMaxM3VLConfig", "minimax_m3_vl_text"),
    Architecture("llama4", "Llama4Config", towers=(text_tower("llama4_text", at="language_model.model"),)),
    Architecture("idefics3", "Idefics3Config", towers=(text_tower("llama", at="model.text_model", default=1e-5),)),
    Architecture("smolvlm", "SmolVLMConfig", towers=(text_tower("llama", at="model.text_model", default=1e-5),)),
    Architecture("qwen2_vl", "Qwen2VLConfig", towers=(text_tower("qwen2_vl_text", flat=True),)),
    Architecture(
        "qwen2_5_vl",
        "Qwen2_5_VLConfig",
        towers=(_vision("qwen2_5_vl_vision"), text_tower("qwen2_5_vl_text", flat=True)),
    ),
    Architecture("glm4v", "Glm4vConfig", towers=(_vision("glm4v_vision"), text_tower("glm4v_text"))),
    Architecture(
        "gemma3",
        "Gemma3Config",
        (Norm("multi_modal_projector.mm_soft_emb_norm", eps=Key("vision_config.layer_norm_eps", 1e-6)),),
        preset=GEMMA,
        towers=(text_tower("gemma3_text"),),
    ),
    Architecture(
        "mistral3",
        "Mistral3Config",
        (Norm("multi_modal_projector.norm", eps=Key("text_config.rms_norm_eps", 1e-6, without_section=1e-5)),),
        towers=(_vision("pixtral", "model.vision_tower"), text_tower("mistral", default=1e-5)),
    ),
    Architecture(
        "t5gemma",
        "T5GemmaConfig",
        towers=(
            Tower("model.encoder", "encoder", "t5_gemma_module", ("encoder",)),
            Tower("model.decoder", "decoder", "t5_gemma_module", ("decoder",)),
        ),
    ),
    Architecture(
        "idefics2",
        "Idefics2Config",
        towers=(
            Tower(
                "model.connector.perceiver_resampler",
                "perceiver_config",
                "idefics2_perceiver",
            ),
            text_tower("mistral", at="model.text_model", default=1e-5),
        ),
    ),
)
