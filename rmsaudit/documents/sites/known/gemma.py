"""Gemma and its kin: gains stored around 0, to which the class adds 1."""

from rmsaudit.documents.sites.architecture import GEMMA, Architecture, Norm
from rmsaudit.documents.sites.known.pre_norm import INPUT, LAST

AROUND_BOTH = (
    INPUT,
    Norm("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"),
    Norm("layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"),
    Norm("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"),
    LAST,
)

ARCHITECTURES = (Architecture("gemma2", "Gemma2Config", AROUND_BOTH, "gemma2", GEMMA),)
