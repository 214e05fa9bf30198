"""Every architecture whose norms are known, read off transformers 5.24 and llama.cpp; one family a file."""

from collections.abc import Mapping

from rmsaudit.documents.sites.architecture import Architecture
from rmsaudit.documents.sites.known import (
    around,
    composite,
    encoder_decoder,
    gemma_multimodal,
    latent,
    other_norms,
    pre_norm,
    recurrent,
    without_gain,
)

ARCHITECTURES: tuple[Architecture, ...] = (
    *pre_norm.ARCHITECTURES,
    *around.ARCHITECTURES,
    *latent.ARCHITECTURES,
    *recurrent.ARCHITECTURES,
    *without_gain.ARCHITECTURES,
    *encoder_decoder.ARCHITECTURES,
    *composite.ARCHITECTURES,
    *gemma_multimodal.ARCHITECTURES,
    *other_norms.ARCHITECTURES,
)

BY_MODEL_TYPE: Mapping[str, Architecture] = {known.model_type: known for known in ARCHITECTURES}
BY_GGUF: Mapping[str, Architecture] = {
    **{known.gguf: known for known in reversed(ARCHITECTURES) if known.gguf},
    "gemma-embedding": BY_MODEL_TYPE["gemma3_text"],
    "nemotron_h_moe": BY_MODEL_TYPE["nemotron_h"],
}
"""Several model types share a GGUF architecture, and then their norms have the same names: the first one stands."""
