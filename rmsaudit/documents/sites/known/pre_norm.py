"""Decoders with a norm before attention and one before the MLP: Llama and its many descendants."""

from rmsaudit.documents.sites.architecture import GEMMA, OLMO2, Architecture, Key, Norm

INPUT = Norm("layers.{}.input_layernorm", "blk.{}.attn_norm")
POST_ATTENTION = Norm("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm")
POST_ATTENTION_BY_NAME = Norm("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm")
Q_NORM = Norm("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm")
K_NORM = Norm("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm")
LAST = Norm("norm", "output_norm")

PLAIN = (INPUT, POST_ATTENTION, LAST)
WITH_HEADS = (INPUT, Q_NORM, K_NORM, POST_ATTENTION, LAST)
"""Qwen 3, and others that normalise queries and keys: each head apart, or all heads together; the width tells which."""
_RENAMED = (INPUT, POST_ATTENTION_BY_NAME, LAST)
_RENAMED_WITH_HEADS = (INPUT, Q_NORM, K_NORM, POST_ATTENTION_BY_NAME, LAST)

AT_1E_5 = Key("rms_norm_eps", 1e-5)
GLM_EPS = Key("rms_norm_eps", 1.5625e-7)
HELIUM_EPS = Key("rms_norm_eps", 1e-8)
LFM2_EPS = Key("norm_eps", 1e-5)

_APERTUS = (
    Norm("layers.{}.attention_layernorm", "blk.{}.attn_norm"),
    Q_NORM,
    K_NORM,
    Norm("layers.{}.feedforward_layernorm", "blk.{}.ffn_norm"),
    LAST,
)
_BITNET = (
    INPUT,
    Norm("layers.{}.self_attn.attn_sub_norm", "blk.{}.attn_sub_norm"),
    POST_ATTENTION,
    Norm("layers.{}.mlp.ffn_sub_norm", "blk.{}.ffn_sub_norm"),
    LAST,
)
_EXAONE_EPS = Key("rms_norm_eps", 1e-5, ("layer_norm_epsilon",))
_EXAONE = (
    Norm("layers.{}.input_layernorm", "blk.{}.attn_norm", stored="h.{}.ln_1"),
    Norm("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", stored="h.{}.ln_2"),
    Norm("norm", "output_norm", stored="ln_f"),
)
_HYPERCLOVAX = (
    INPUT,
    Norm("layers.{}.post_norm1"),
    POST_ATTENTION,
    Norm("layers.{}.post_norm2"),
    LAST,
)
_HUNYUAN = (
    INPUT,
    Norm("layers.{}.self_attn.query_layernorm", "blk.{}.attn_q_norm"),
    Norm("layers.{}.self_attn.key_layernorm", "blk.{}.attn_k_norm"),
    POST_ATTENTION,
    LAST,
)
_LFM2 = (
    Norm("layers.{}.operator_norm", "blk.{}.attn_norm"),
    Norm("layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm"),
    Norm("layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm"),
    Norm("layers.{}.ffn_norm", "blk.{}.ffn_norm"),
    Norm("embedding_norm", "token_embd_norm"),  # after the last layer, in spite of both names
)
_JETMOE = (  # only the last norm is given the configured eps
    Norm("layers.{}.input_layernorm", eps=1e-6),
    Norm("layers.{}.post_attention_layernorm", eps=1e-6),
    LAST,
)
_MINIMAX = (INPUT, Norm("layers.{}.self_attn.norm", eps=1e-6), POST_ATTENTION, LAST)

ARCHITECTURES = (
    Architecture("llama", "LlamaConfig", PLAIN, "llama"),
    Architecture("mistral", "MistralConfig", PLAIN, "llama"),
    Architecture("mixtral", "MixtralConfig", PLAIN, "llama", eps=AT_1E_5),
    Architecture("ministral", "MinistralConfig", PLAIN),
    Architecture("ministral3", "Ministral3Config", PLAIN, "mistral3", eps=AT_1E_5),
    Architecture("cwm", "CwmConfig", PLAIN, "llama", eps=AT_1E_5),
    Architecture("internlm3", "InternLM3Config", PLAIN, "llama", eps=AT_1E_5),
    Architecture("phi3", "Phi3Config", PLAIN, "phi3", eps=AT_1E_5),
    Architecture("qwen2", "Qwen2Config", PLAIN, "qwen2"),
    Architecture("qwen2_moe", "Qwen2MoeConfig", PLAIN, "qwen2moe"),
    Architecture("qwen2_vl_text", "Qwen2VLTextConfig", PLAIN, "qwen2vl", eps=AT_1E_5),
    Architecture("qwen2_5_vl_text", "Qwen2_5_VLTextConfig", PLAIN, eps=AT_1E_5),
    Architecture("qwen3", "Qwen3Config", WITH_HEADS, "qwen3"),
    Architecture("qwen3_moe", "Qwen3MoeConfig", WITH_HEADS, "qwen3moe"),
    Architecture("qwen3_vl_text", "Qwen3VLTextConfig", WITH_HEADS, "qwen3vl"),
    Architecture("qwen3_vl_moe_text", "Qwen3VLMoeTextConfig", WITH_HEADS, "qwen3vlmoe"),
    Architecture("arcee", "ArceeConfig", PLAIN, "arcee", eps=AT_1E_5),
    Architecture("ernie4_5", "Ernie4_5Config", PLAIN, "ernie4_5", eps=AT_1E_5),
    Architecture("ernie4_5_moe", "Ernie4_5_MoeConfig", PLAIN, "ernie4_5-moe", eps=AT_1E_5),
    Architecture("eurobert", "EuroBertConfig", PLAIN, "eurobert", eps=AT_1E_5),
    Architecture("exaone", "ExaoneConfig", _EXAONE, "exaone", eps=_EXAONE_EPS, stored=("transformer",)),
    Architecture("exaone_moe", "ExaoneMoeConfig", WITH_HEADS, "exaone-moe", eps=AT_1E_5),
    Architecture("glm", "GlmConfig", PLAIN, "chatglm", eps=GLM_EPS),
    Architecture("glm4_moe", "Glm4MoeConfig", _RENAMED_WITH_HEADS, "glm4moe", eps=AT_1E_5),
    Architecture("granite", "GraniteConfig", PLAIN, "granite"),
    Architecture("granitemoe", "GraniteMoeConfig", PLAIN, "granitemoe"),
    Architecture("granitemoeshared", "GraniteMoeSharedConfig", PLAIN, "granitemoe"),
    Architecture("seed_oss", "SeedOssConfig", _RENAMED, "seed_oss"),
    Architecture("smollm3", "SmolLM3Config", PLAIN, "smollm3"),
    Architecture("mimo_v2_flash", "MiMoV2FlashConfig", PLAIN, "mimo2", eps=AT_1E_5),
    Architecture("solar_open", "SolarOpenConfig", PLAIN, eps=AT_1E_5),
    Architecture("aria_text", "AriaTextConfig", PLAIN),
    Architecture("hyperclovax", "HyperCLOVAXConfig", _HYPERCLOVAX),
    Architecture("olmoe", "OlmoeConfig", WITH_HEADS, "olmoe", eps=AT_1E_5),
    Architecture("minimax_m2", "MiniMaxM2Config", WITH_HEADS, "minimax-m2"),
    Architecture("minimax", "MiniMaxConfig", _MINIMAX, eps=AT_1E_5),
    Architecture("dots1", "Dots1Config", WITH_HEADS, "dots1"),
    Architecture("hunyuan_v1_dense", "HunYuanDenseV1Config", _HUNYUAN, "hunyuan-dense", eps=AT_1E_5),
    Architecture("hunyuan_v1_moe", "HunYuanMoEV1Config", _HUNYUAN, "hunyuan-moe", eps=AT_1E_5),
    Architecture("apertus", "ApertusConfig", _APERTUS, "apertus", eps=AT_1E_5),
    Architecture("bitnet", "BitNetConfig", _BITNET, "bitnet", eps=AT_1E_5),
    Architecture("lfm2", "Lfm2Config", _LFM2, "lfm2", eps=LFM2_EPS),
    Architecture("lfm2_moe", "Lfm2MoeConfig", _LFM2, "lfm2moe", eps=LFM2_EPS),
    Architecture("jetmoe", "JetMoeConfig", _JETMOE),
    Architecture("gpt_oss", "GptOssConfig", _RENAMED, "gpt-oss", OLMO2, AT_1E_5),
    Architecture("helium", "HeliumConfig", PLAIN, preset=OLMO2, eps=HELIUM_EPS),
    Architecture("gemma", "GemmaConfig", PLAIN, "gemma", GEMMA),
    Architecture("minimax_m3_vl_text", "MiniMaxM3VLTextConfig", WITH_HEADS, preset=GEMMA),
)
