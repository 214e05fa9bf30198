"""Checkpoints as others write and read them: the gguf package, safetensors, transformers."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from rmsaudit.arrays import bits, dtype_of
from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.documents.gguf import MOST_KEPT
from rmsaudit.documents.tensors import digest_of
from rmsaudit.loaders.tensors import load

pytestmark = pytest.mark.frameworks

GGML = {
    "float32": gguf.GGMLQuantizationType.F32,
    "float16": gguf.GGMLQuantizationType.F16,
    "bfloat16": gguf.GGMLQuantizationType.BF16,
    "float64": gguf.GGMLQuantizationType.F64,
}


def write_gguf(path: Path, *, eps: float = 1e-5, parts: int = 0) -> None:
    """A file with every dtype of ours, a quantised matrix, and metadata of every shape."""
    writer = gguf.GGUFWriter(path, "llama", split_max_tensors=parts)
    writer.add_layer_norm_rms_eps(eps)
    writer.add_head_count_kv([8, 8, 4])
    writer.add_tags(["small", "made by hand"])
    writer.add_rope_freq_base(10_000.0)
    writer.add_causal_attention(True)
    writer.add_token_list([f"token {index}" for index in range(5_000)])
    writer.add_token_scores([0.5] * 5_000)
    draw = np.random.default_rng(5)
    for word, kind in GGML.items():
        values = draw.standard_normal((3, 32)).astype(dtype_of(word))
        raw = bits(values).view(np.uint8) if word == "bfloat16" else values
        writer.add_tensor(f"{word}.weight", raw, raw_dtype=kind)
        writer.add_tensor(f"{word}.gain", raw[0], raw_dtype=kind)
    blocks = gguf.quants.quantize(draw.standard_normal((2, 64)).astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("matrix.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf_as_the_gguf_package_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path)
    theirs = gguf.GGUFReader(path)
    ours = open_checkpoint(path)
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    data = path.read_bytes()
    for tensor in theirs.tensors:
        place = ours.tensors[tensor.name]
        assert place.shape == tuple(reversed(tensor.shape.tolist()))
        assert (place.offset, place.length) == (tensor.data_offset, tensor.n_bytes)
        assert data[place.offset : place.offset + place.length] == tensor.data.tobytes()
        assert place.dtype == {kind: word for word, kind in GGML.items()}.get(tensor.tensor_type, "Q8_0")
    fields = {name: field.contents() for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
    short = {name: held for name, held in fields.items() if not isinstance(held, list) or len(held) <= MOST_KEPT}
    assert ours.metadata == short
    assert set(fields) - set(short) == {"tokenizer.ggml.tokens", "tokenizer.ggml.scores"}


def test_values_of_gguf_tensors(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path)
    theirs = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}
    for word in GGML:
        for name, shape in ((f"{word}.weight", (3, 32)), (f"{word}.gain", (32,))):
            values = load(open_checkpoint(path).tensors[name])
            assert (values.dtype, values.shape) == (dtype_of(word), shape)
            assert values.tobytes() == theirs[name].tobytes()


def test_parts_as_the_gguf_package_splits_them(tmp_path: Path) -> None:
    write_gguf(tmp_path / "whole.gguf")
    write_gguf(tmp_path / "part.gguf", parts=4)
    parts = sorted(tmp_path.glob("part-*.gguf"))
    assert len(parts) == 3
    whole, joined = open_checkpoint(tmp_path / "whole.gguf"), open_checkpoint(parts[1])
    assert list(joined.tensors) == list(whole.tensors)
    assert {name: digest_of(place) for name, place in joined.tensors.items()} == {
        name: digest_of(place) for name, place in whole.tensors.items()
    }
    own = {key: value for key, value in joined.metadata.items() if not key.startswith("split.")}
    assert own == whole.metadata


def test_big_endian_gguf_is_told(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "big.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(Exception, match="is GGUF for big-endian machines"):
        open_checkpoint(tmp_path / "big.gguf")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    """A tiny Llama as save_pretrained shards it, and its tensors by name."""
    torch.manual_seed(5)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=2,
        vocab_size=64,
        rms_norm_eps=1e-5,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    folder = tmp_path_factory.mktemp("saved")
    model.save_pretrained(folder, max_shard_size="20KB")
    return folder, dict(model.state_dict())


def test_a_folder_as_transformers_saves_it(saved: tuple[Path, dict[str, torch.Tensor]]) -> None:
    folder, tensors = saved
    assert len(list(folder.glob("*.safetensors"))) > 1
    read = open_checkpoint(folder)
    assert read.config == json.loads((folder / "config.json").read_text("utf-8"))
    assert set(read.tensors) == set(tensors)
    for name, place in read.tensors.items():
        values = load(place)
        assert values.shape == tuple(tensors[name].shape)
        assert values.tobytes() == tensors[name].view(torch.int16).numpy().tobytes()


def test_every_dtype_as_safetensors_reads_it(tmp_path: Path) -> None:
    words = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
    saved = {str(word): torch.linspace(-2, 2, 24).reshape(2, 3, 4).to(word) for word in words}
    save_file(saved | {"empty": torch.zeros(0, 4)}, tmp_path / "model.safetensors")
    theirs = load_file(tmp_path / "model.safetensors")
    ours = open_checkpoint(tmp_path / "model.safetensors").tensors
    assert set(ours) == set(theirs)
    for name, tensor in theirs.items():
        values = load(ours[name])
        assert values.shape == tuple(tensor.shape)
        assert values.astype(np.float64).tolist() == tensor.double().tolist()
