"""T5 and its kin: their LayerNorm is an RMSNorm."""

from rmsaudit.documents.sites.architecture import T5, Architecture, Key, Norm

_EPSILON = Key("layer_norm_epsilon", 1e-6)

_T5 = (
    Norm("encoder.block.{}.layer.0.layer_norm", "enc.blk.{}.attn_norm"),
    Norm("encoder.block.{}.layer.1.layer_norm", "enc.blk.{}.ffn_norm"),
    Norm("encoder.final_layer_norm", "enc.output_norm"),
    Norm("decoder.block.{}.layer.0.layer_norm", "dec.blk.{}.attn_norm"),
    Norm("decoder.block.{}.layer.1.layer_norm", "dec.blk.{}.cross_attn_norm"),
    Norm("decoder.block.{}.layer.2.layer_norm", "dec.blk.{}.ffn_norm"),
    Norm("decoder.final_layer_norm", "dec.output_norm"),
)
_VISION_EPS = Key("vision_config.layer_norm_eps", 1e-6)
_TEXT_EPS = Key("text_config.layer_norm_epsilon", 1e-6)
_PIX2STRUCT = (
    Norm("encoder.encoder.layer.{}.pre_attention_layer_norm", eps=_VISION_EPS),
    Norm("encoder.encoder.layer.{}.pre_mlp_layer_norm", eps=_VISION_EPS),
    Norm("encoder.layernorm", eps=_VISION_EPS),
    Norm("decoder.layer.{}.self_attention.layer_norm", eps=_TEXT_EPS),
    Norm("decoder.layer.{}.encoder_decoder_attention.layer_norm", eps=_TEXT_EPS),
    Norm("decoder.layer.{}.mlp.layer_norm", eps=_TEXT_EPS),
    Norm("decoder.final_layer_norm", eps=_TEXT_EPS),
)

ARCHITECTURES = (
    Architecture("t5", "T5Config", _T5, "t5", T5, _EPSILON, root=""),
    Architecture("mt5", "MT5Config", _T5, "t5", T5, _EPSILON, root=""),
    Architecture("umt5", "UMT5Config", _T5, "t5", T5, _EPSILON, root=""),
    Architecture("longt5", "LongT5Config", _T5, None, T5, _EPSILON, root=""),
    Architecture("switch_transformers", "SwitchTransformersConfig", _T5, None, T5, _EPSILON, root=""),
    Architecture("udop", "UdopConfig", _T5, None, T5, _EPSILON, root=""),
    Architecture("pix2struct", "Pix2StructConfig", _PIX2STRUCT, None, T5, _TEXT_EPS, root=""),
)
