"""Models without an RMSNorm, whose tensors look as if they had some."""

from rmsaudit.documents.sites.architecture import Architecture

_MEAN = "its norms are LayerNorms without a bias: they subtract the mean of the row, so they are no RMSNorms"
_OTHER = "its norms are LayerNorms: they subtract the mean of the row, so they are no RMSNorms"
_ONE_P = "its norms are LayerNorms whose gains are stored around 0; they subtract the mean, so they are no RMSNorms"

ARCHITECTURES = (
    Architecture("cohere", "CohereConfig", gguf="command-r", remark=_MEAN),
    Architecture("cohere2", "Cohere2Config", gguf="cohere2", remark=_MEAN),
    Architecture("nemotron", "NemotronConfig", gguf="nemotron", remark=_ONE_P),
    Architecture("dbrx", "DbrxConfig", gguf="dbrx", remark=_MEAN),
    Architecture("phimoe", "PhimoeConfig", gguf="phimoe", remark=_OTHER),
    Architecture("phi", "PhiConfig", gguf="phi2", remark=_OTHER),
    Architecture("stablelm", "StableLmConfig", gguf="stablelm", remark=_OTHER),
    Architecture("starcoder2", "Starcoder2Config", gguf="starcoder2", remark=_OTHER),
    Architecture("gpt_neox", "GPTNeoXConfig", gguf="gptneox", remark=_OTHER),
    Architecture("gpt2", "GPT2Config", gguf="gpt2", remark=_OTHER),
    Architecture("falcon", "FalconConfig", gguf="falcon", remark=_OTHER),
    Architecture("bloom", "BloomConfig", gguf="bloom", remark=_OTHER),
    Architecture("bert", "BertConfig", gguf="bert", remark=_OTHER),
    Architecture(
        "olmo", "OlmoConfig", gguf="olmo", remark="its norms are LayerNorms without gains: no tensors, and no RMSNorms"
    ),
)
