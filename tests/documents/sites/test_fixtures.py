"""Trained models in two formats: the same sites in both, and those that transformers recorded the inputs of."""

from pathlib import Path

import pytest

from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.documents.sites.find import find_sites

MODELS = Path(__file__).parents[3] / "fixtures" / "models"


@pytest.mark.parametrize(("model", "count"), [("llama-tiny", 9), ("gemma2-tiny", 17), ("qwen3-tiny", 17)])
def test_both_formats_have_the_same_sites(model: str, count: int) -> None:
    ours = find_sites(open_checkpoint(MODELS / model)).sites
    (file,) = (MODELS / model).glob("*.gguf")
    theirs = find_sites(open_checkpoint(file)).sites
    assert len(ours) == count
    for one, other in zip(ours, theirs, strict=True):
        assert (one.name, one.below, one.preset) == (other.name, other.below, other.preset)
        assert (one.declared["width"], one.eps.value) == (other.declared["width"], other.eps.value)
        offsets = one.declared.get("gain_offset"), other.declared.get("gain_offset")
        assert offsets == ((1, 0) if model == "gemma2-tiny" else (None, None))
