"""State spaces and linear attention, alone or between layers of attention: Mamba, Jamba, Nemotron-H, Qwen3-Next."""

from rmsaudit.documents.sites.architecture import (
    GEMMA,
    LLAMA,
    NO_GAIN,
    OLMO2,
    Architecture,
    Bare,
    Groups,
    Key,
    Norm,
)
from rmsaudit.documents.sites.known.pre_norm import (
    AT_1E_5,
    INPUT,
    K_NORM,
    LAST,
    POST_ATTENTION,
    POST_ATTENTION_BY_NAME,
    Q_NORM,
)

GATED_BEFORE = "its input is x·silu(gate), in float32"
GATED_AFTER = "its output is multiplied by silu(gate) in float32"

_EPSILON = Key("layer_norm_epsilon", 1e-5)
_MIXER_EPS = Key("mixer_rms_eps", 1e-6)
_GROUPS = Groups(("mamba_n_groups",), 1)
_MAMBA2_GROUPS = Groups(("n_groups",), 8)
_NEMOTRON_GROUPS = Groups(("mamba_n_groups", "n_groups"), 8)
_LAYER, _FINAL = Norm("layers.{}.norm", "blk.{}.attn_norm"), Norm("norm_f", "output_norm")
_PRE_FF = Norm("layers.{}.pre_ff_layernorm", "blk.{}.ffn_norm")
_FINAL_LAYERNORM = Norm("final_layernorm", "output_norm")

_STATE = Bare("layers.{}.mixer.A_log", 1, gguf="blk.{}.ssm_a")
_FALCON_MAMBA = (
    _LAYER,
    Norm(
        "layers.{}.mixer.dt_layernorm",
        preset=NO_GAIN,
        eps=_MIXER_EPS,
        bare=Bare("layers.{}.mixer.dt_proj.weight", 1, gguf="blk.{}.ssm_dt.weight"),
    ),
    Norm("layers.{}.mixer.b_layernorm", preset=NO_GAIN, eps=_MIXER_EPS, bare=_STATE),
    Norm("layers.{}.mixer.c_layernorm", preset=NO_GAIN, eps=_MIXER_EPS, bare=_STATE),
    _FINAL,
)
_JAMBA = (
    INPUT,
    Norm("layers.{}.mamba.dt_layernorm", "blk.{}.ssm_dt_norm"),
    Norm("layers.{}.mamba.b_layernorm", "blk.{}.ssm_b_norm"),
    Norm("layers.{}.mamba.c_layernorm", "blk.{}.ssm_c_norm"),
    _PRE_FF,
    _FINAL_LAYERNORM,
)
_QWEN3_NEXT = (
    INPUT,
    Q_NORM,
    K_NORM,
    Norm("layers.{}.linear_attn.norm", "blk.{}.ssm_norm", LLAMA, note=GATED_AFTER),  # the one that adds no 1
    POST_ATTENTION_BY_NAME,
    LAST,
)
_RECURRENT_GEMMA = (Norm("layers.{}.temporal_pre_norm"), Norm("layers.{}.channel_pre_norm"), Norm("final_norm"))


def _gated(at: str, groups: Groups, preset: str = LLAMA) -> Norm:
    return Norm(at, "blk.{}.ssm_norm", preset, groups=groups, note=GATED_BEFORE)


ARCHITECTURES = (
    Architecture("mamba", "MambaConfig", (_LAYER, _FINAL), "mamba", eps=_EPSILON, root="backbone"),
    Architecture("falcon_mamba", "FalconMambaConfig", _FALCON_MAMBA, "mamba", eps=_EPSILON, root="backbone"),
    Architecture(
        "mamba2",
        "Mamba2Config",
        (_LAYER, _gated("layers.{}.mixer.norm", _MAMBA2_GROUPS), _FINAL),
        "mamba2",
        eps=_EPSILON,
        root="backbone",
    ),
    Architecture("jamba", "JambaConfig", _JAMBA, "jamba"),
    Architecture(
        "nemotron_h",
        "NemotronHConfig",
        (_LAYER, _gated("layers.{}.mixer.norm", _NEMOTRON_GROUPS), _FINAL),
        "nemotron_h",
        OLMO2,
        _EPSILON,
        stored=("backbone",),
    ),
    Architecture(
        "bamba",
        "BambaConfig",
        (INPUT, _gated("layers.{}.mamba.norm", _GROUPS), _PRE_FF, _FINAL_LAYERNORM),
        eps=AT_1E_5,
    ),
    Architecture(
        "granitemoehybrid",
        "GraniteMoeHybridConfig",
        (INPUT, _gated("layers.{}.mamba.norm", _GROUPS), POST_ATTENTION, LAST),
        "granitehybrid",
    ),
    Architecture(
        "falcon_h1",
        "FalconH1Config",
        (INPUT, _gated("layers.{}.mamba.norm", _GROUPS, OLMO2), _PRE_FF, _FINAL_LAYERNORM),
        "falcon-h1",
        eps=AT_1E_5,
    ),
    Architecture("qwen3_next", "Qwen3NextConfig", _QWEN3_NEXT, "qwen3next", GEMMA),
    Architecture("qwen3_5_text", "Qwen3_5TextConfig", _QWEN3_NEXT, "qwen35", GEMMA),
    Architecture("qwen3_5_moe_text", "Qwen3_5MoeTextConfig", _QWEN3_NEXT, "qwen35moe", GEMMA),
    Architecture("recurrent_gemma", "RecurrentGemmaConfig", _RECURRENT_GEMMA, preset=GEMMA),
)
