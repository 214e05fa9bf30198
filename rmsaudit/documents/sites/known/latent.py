"""Multi-head latent attention: two norms on its compressed rows, with the eps of the class, not the configured one."""

from rmsaudit.documents.sites.architecture import OLMO2, Architecture, Norm
from rmsaudit.documents.sites.known.pre_norm import AT_1E_5, INPUT, LAST, POST_ATTENTION

Q_A = Norm("layers.{}.self_attn.q_a_layernorm", "blk.{}.attn_q_a_norm", eps=1e-6)
KV_A = Norm("layers.{}.self_attn.kv_a_layernorm", "blk.{}.attn_kv_a_norm", eps=1e-6)
LATENT = (INPUT, Q_A, KV_A, POST_ATTENTION, LAST)

_LONGCAT = (
    Norm("layers.{}.input_layernorm.{}"),
    Norm("layers.{}.self_attn.{}.q_a_layernorm", eps=1e-6),
    Norm("layers.{}.self_attn.{}.kv_a_layernorm", eps=1e-6),
    Norm("layers.{}.post_attention_layernorm.{}"),
    LAST,
)
_KIMI = (
    INPUT,
    KV_A,
    Norm(
        "layers.{}.self_attn.o_norm",
        "blk.{}.ssm_norm",
        OLMO2,
        note="its output, in float32, is multiplied by sigmoid(gate)",
    ),
    POST_ATTENTION,
    LAST,
)

ARCHITECTURES = (
    Architecture("deepseek_v2", "DeepseekV2Config", LATENT, "deepseek2"),
    Architecture("deepseek_v3", "DeepseekV3Config", LATENT, "deepseek2"),
    Architecture("deepseek_v32", "DeepseekV32Config", LATENT),
    Architecture("glm4_moe_lite", "Glm4MoeLiteConfig", LATENT, "deepseek2", eps=AT_1E_5),
    Architecture("glm_moe_dsa", "GlmMoeDsaConfig", LATENT, "glm-dsa", eps=AT_1E_5),
    Architecture("minicpm3", "MiniCPM3Config", LATENT, "minicpm3", eps=AT_1E_5),
    Architecture("mistral4", "Mistral4Config", LATENT, "mistral4"),
    Architecture("youtu", "YoutuConfig", LATENT, "deepseek2"),
    Architecture("longcat_flash", "LongcatFlashConfig", _LONGCAT, eps=AT_1E_5),
    Architecture("kimi_linear", "KimiLinearConfig", _KIMI, "kimi-linear", eps=AT_1E_5),
)
