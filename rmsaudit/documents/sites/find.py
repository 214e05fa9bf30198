"""The norms of a checkpoint, whatever its format."""

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.sites import Sites
from rmsaudit.documents.sites.gguf import sites_of_gguf
from rmsaudit.documents.sites.huggingface import sites_of_model
from rmsaudit.documents.sites.onnx import sites_of_onnx


def find_sites(checkpoint: Checkpoint) -> Sites:
    """Every RMSNorm of a checkpoint. Raises InputProblem where its eps cannot be told."""
    match checkpoint.format:
        case "gguf":
            return sites_of_gguf(checkpoint)
        case "onnx":
            return sites_of_onnx(checkpoint)
        case _:
            return sites_of_model(checkpoint)
