"""Our GGUF reader against the gguf package, which llama.cpp's converter writes with."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from rmsaudit.documents.gguf import eps_of_gguf

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize("eps", [1e-5, 1e-6, 1.5625e-7, 1e-12])
@pytest.mark.parametrize("architecture", ["llama", "gemma2", "qwen3"])
def test_eps_as_the_converter_writes_it(tmp_path: Path, architecture: str, eps: float) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_token_list(["a", "b", "c"])
    writer.add_token_scores([0.0, 1.0, 2.0])
    writer.add_layer_norm_rms_eps(eps)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    key = f"{architecture}.attention.layer_norm_rms_epsilon"
    assert eps_of_gguf(path) == (eps, key)
    theirs = gguf.GGUFReader(path).fields[key]
    assert theirs.parts[theirs.data[0]][0] == np.float32(eps)
