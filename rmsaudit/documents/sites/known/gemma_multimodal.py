"""Gemma 3n and 4 with eyes and ears: an RMSNorm is the only norm in any of their towers."""

from rmsaudit.documents.sites.architecture import GEMMA3N, Architecture, Bare, Key, Norm, Tower
from rmsaudit.documents.sites.known.around import POST_FEEDFORWARD, PRE_FEEDFORWARD
from rmsaudit.documents.sites.known.composite import text_tower
from rmsaudit.documents.sites.known.pre_norm import INPUT, K_NORM, POST_ATTENTION, Q_NORM

_VISION_EPS, _AUDIO_EPS = Key("vision_config.rms_norm_eps", 1e-6), Key("audio_config.rms_norm_eps", 1e-6)

_GEMMA_3N_AUDIO = (  # where the class passes no eps, its norm has its own
    Norm("conformer.{}.ffw_layer_start.pre_layer_norm", eps=1e-6),
    Norm("conformer.{}.ffw_layer_start.post_layer_norm", eps=1e-6),
    Norm("conformer.{}.attention.pre_attn_norm", eps=1e-6),
    Norm("conformer.{}.attention.post_norm", eps=1e-6),
    Norm("conformer.{}.lconv1d.pre_layer_norm"),
    Norm("conformer.{}.lconv1d.conv_norm"),
    Norm("conformer.{}.ffw_layer_end.pre_layer_norm", eps=1e-6),
    Norm("conformer.{}.ffw_layer_end.post_layer_norm", eps=1e-6),
    Norm("conformer.{}.norm", eps=1e-6),
)
_GEMMA_4_AUDIO = (
    Norm("layers.{}.feed_forward1.pre_layer_norm", eps=1e-6),
    Norm("layers.{}.feed_forward1.post_layer_norm", eps=1e-6),
    Norm("layers.{}.norm_pre_attn", eps=1e-6),
    Norm("layers.{}.norm_post_attn", eps=1e-6),
    Norm("layers.{}.lconv1d.pre_layer_norm"),
    Norm("layers.{}.lconv1d.conv_norm"),
    Norm("layers.{}.feed_forward2.pre_layer_norm", eps=1e-6),
    Norm("layers.{}.feed_forward2.post_layer_norm", eps=1e-6),
    Norm("layers.{}.norm_out", eps=1e-6),
)
_GEMMA_4_VISION = (
    INPUT,
    Q_NORM,
    K_NORM,
    Norm("layers.{}.self_attn.v_norm", bare=Bare("layers.{}.self_attn.k_norm.weight")),
    POST_ATTENTION,
    PRE_FEEDFORWARD,
    POST_FEEDFORWARD,
)


def _embedder_3n(name: str, eps: Key) -> tuple[Norm, ...]:
    return (
        Norm(f"{name}.hard_embedding_norm", eps=eps),
        Norm(f"{name}.soft_embedding_norm", eps=eps),
        Norm(
            f"{name}.embedding_post_projection_norm", eps=eps, bare=Bare(f"{name}.embedding_projection.weight", axis=0)
        ),
    )


def _embedder_4(name: str, eps: Key) -> Norm:
    beside = Bare(f"{name}.embedding_projection.weight", axis=1)
    return Norm(f"{name}.embedding_pre_projection_norm", eps=eps, bare=beside)


ARCHITECTURES = (
    Architecture(
        "gemma3n_audio",
        "Gemma3nAudioConfig",
        _GEMMA_3N_AUDIO,
        preset=GEMMA3N,
        other_norms=("subsample_conv_projection.conv_0.norm", "subsample_conv_projection.conv_1.norm"),
    ),
    Architecture(
        "gemma4_audio",
        "Gemma4AudioConfig",
        _GEMMA_4_AUDIO,
        preset=GEMMA3N,
        other_norms=("subsample_conv_projection.layer0.norm", "subsample_conv_projection.layer1.norm"),
    ),
    Architecture("gemma4_vision", "Gemma4VisionConfig", _GEMMA_4_VISION, preset=GEMMA3N, root="encoder"),
    Architecture(
        "gemma3n",
        "Gemma3nConfig",
        (*_embedder_3n("embed_vision", _VISION_EPS), *_embedder_3n("embed_audio", _AUDIO_EPS)),
        preset=GEMMA3N,
        towers=(
            Tower("model.audio_tower", "audio_config", "gemma3n_audio", ("audio_tower",)),
            text_tower("gemma3n_text"),
        ),
    ),
    Architecture(
        "gemma4",
        "Gemma4Config",
        (_embedder_4("embed_vision", _VISION_EPS), _embedder_4("embed_audio", _AUDIO_EPS)),
        preset=GEMMA3N,
        towers=(
            Tower("model.vision_tower.encoder", "vision_config", "gemma4_vision", ("vision_tower.encoder",)),
            Tower("model.audio_tower", "audio_config", "gemma4_audio", ("audio_tower",)),
            text_tower("gemma4_text"),
        ),
    ),
)
