"""The sites of a checkpoint against the modules that transformers builds from it, and against gguf's own tables.

The judge shares no knowledge with us: a model is built by transformers from a small configuration and saved by it; its
norms are the modules that have an eps; their paths, widths and eps must be what is read from the files alone.
"""

import dataclasses
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import onnx
import pytest
import torch
import transformers
import yaml
from gguf.constants import MODEL_ARCH_NAMES
from transformers.models.auto import configuration_auto, modeling_auto

from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.documents.config import EPS_KEYS
from rmsaudit.documents.preset import read_preset
from rmsaudit.documents.sites import Sites
from rmsaudit.documents.sites.architecture import OFFSETS, Architecture, Key
from rmsaudit.documents.sites.find import find_sites
from rmsaudit.documents.sites.known import ARCHITECTURES, BY_GGUF, BY_MODEL_TYPE
from rmsaudit.errors import InputProblem

pytestmark = pytest.mark.frameworks
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 0,
    "eos_token_id": 0, "moe_intermediate_size": 16, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "q_lora_rank": 12, "kv_lora_rank": 20, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "n_group": 1, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1, "d_model": 32,
    "shared_expert_intermediate_size": 16, "shared_intermediate_size": 16, "d_kv": 8, "d_ff": 48, "num_layers": 2,
    "num_decoder_layers": 2, "num_heads": 4, "state_size": 8, "time_step_rank": 5, "mamba_d_state": 8,
    "mamba_dt_rank": 5, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_num_heads": 8,
    "mamba_head_dim": 8, "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "num_nextn_predict_layers": 0, "lru_width": 32, "ffn_hidden_size": 48,
    "expert_ffn_hidden_size": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 16,
}  # fmt: skip
VISION: dict[str, Any] = {
    **SMALL, "hidden_size": 16, "num_attention_heads": 2, "image_size": 16, "patch_size": 8, "depth": 2,
    "embed_dim": 16, "num_heads": 2, "out_hidden_size": 32, "num_position_embeddings": 16, "spatial_merge_size": 2,
    "deepstack_visual_indexes": [], "vision_output_dim": 32, "projector_input_dim": 16, "projector_output_dim": 16,
    "num_global_layers": 1, "attention_heads": 2, "intermediate_layers_indices": [0], "pixel_shuffle_ratio": 0.5,
}  # fmt: skip
LINEAR_FIRST = {"layer_types": ["linear_attention", "full_attention"]}
PARTICULAR: dict[str, dict[str, Any]] = {
    "mamba2": {"num_heads": 8, "n_groups": 2},
    "nemotron_h": {"n_groups": 2, "layers_block_type": ["mamba", "attention", "mlp"]},
    "bamba": {"attn_layer_indices": [1]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "falcon_h1": {"mamba_rms_norm": True, "mamba_d_ssm": 64},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
    "minimax": LINEAR_FIRST,
    "qwen3_next": LINEAR_FIRST,
    "qwen3_5_text": LINEAR_FIRST,
    "qwen3_5_moe_text": LINEAR_FIRST,
    "glm4_moe": {"use_qk_norm": True},
    "hyperclovax": {"use_post_norm": True},
    "hunyuan_v1_moe": {"moe_topk": [2] * 2},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "llama4_text": {"intermediate_size_mlp": 48, "no_rope_layers": [1, 0]},
    "mllama_text_model": {"cross_attention_layers": [1]},
    "mllama_vision_model": {"image_size": 16, "max_num_tiles": 4},
    "gemma3n_text": {
        "num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        "num_kv_shared_layers": 1, "hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 64,
        "laurel_rank": 4, "intermediate_size": [48] * 3, "activation_sparsity_pattern": [0.0] * 3,
    },
    "gemma4_text": {
        "layer_types": ["sliding_attention", "full_attention"], "hidden_size_per_layer_input": 6,
        "vocab_size_per_layer_input": 64, "global_head_dim": 16, "enable_moe_block": True, "top_k_experts": 2,
        "num_kv_shared_layers": 0,
    },
    "pix2struct": {
        "text_config": {**SMALL, "hidden_size": 32}, "vision_config": {**SMALL, "hidden_size": 32},
    },
    "gemma3n_audio": {"hidden_size": 16, "conf_num_hidden_layers": 1, "conf_num_attention_heads": 2},
    "gemma4_audio": {"hidden_size": 16, "output_proj_dims": 24},
}  # fmt: skip
INSIDE_ANOTHER = {"t5_gemma_module", "idefics2_perceiver", "mllama_text_model", "gemma3n_audio", "gemma4_audio"}
INSIDE_ANOTHER |= {"gemma4_vision"}
"""No class of transformers has only these; they are tested as what they are a part of."""
EPS_ATTRIBUTES = "variance_epsilon", "eps"

WITH_NORMS = [a.model_type for a in ARCHITECTURES if not a.remark and a.model_type not in INSIDE_ANOTHER]
WITHOUT = [a.model_type for a in ARCHITECTURES if a.remark and a.model_type != "dbrx"]  # fails to build by itself


@dataclasses.dataclass(frozen=True)
class Module:
    """What transformers has built: the class, the eps it uses, its width (None without gains), its groups."""

    kind: str
    eps: float
    width: int | None
    groups: int


def settings(model_type: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """As much of `sizes` as a configuration knows, and what it needs of its own."""
    kind = configuration_auto.CONFIG_MAPPING[model_type]
    known = {field.name for field in dataclasses.fields(kind)} | set(kind.attribute_map)
    return {key: value for key, value in {**sizes, **PARTICULAR.get(model_type, {})}.items() if key in known}


def small_config(model_type: str) -> Any:
    """A configuration of the smallest sizes, its sections included."""
    kind = configuration_auto.CONFIG_MAPPING[model_type]
    given = settings(model_type, SMALL)
    for section in BY_MODEL_TYPE[model_type].towers and kind.sub_configs:
        inner = getattr(kind(), section, None)
        name = inner.model_type if inner is not None else f"{model_type}_{section.removesuffix('_config')}"
        if name in configuration_auto.CONFIG_MAPPING and not name.startswith("gemma3n_vision"):
            sizes = SMALL if section in ("text_config", "encoder", "decoder", "perceiver_config") else VISION
            given[section] = {"model_type": name, **settings(name, sizes)}
    return kind(**given)


def class_of(config: Any) -> Any:
    """The class with a head that makes most of a configuration."""
    pictures, text = modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING
    first, second = (pictures, text) if config.sub_configs else (text, pictures)
    others = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING
    for table in (first, second, *others, modeling_auto.MODEL_MAPPING):
        if type(config) in table:
            found = table[type(config)]
            return found[0] if isinstance(found, tuple) else found
    raise LookupError(config.model_type)


def is_rms_norm(module: torch.nn.Module) -> bool:
    """By its class's name; T5 and its kin call theirs LayerNorm, and give it no bias."""
    kind = type(module).__name__
    of_t5 = kind.endswith("LayerNorm") and hasattr(module, "variance_epsilon") and not kind.startswith("Cohere")
    return "RMSNorm" in kind or "L2Norm" in kind or of_t5


def modules_of(model: torch.nn.Module) -> dict[str, Module]:
    """Every RMSNorm by path."""
    found = {}
    for path, module in model.named_modules():
        if is_rms_norm(module):
            eps = next(getattr(module, name) for name in EPS_ATTRIBUTES if hasattr(module, name))
            gains = dict(module.named_parameters(recurse=False)).get("weight")
            width = None if gains is None else gains.numel()
            groups = getattr(module, "n_groups", (width or 1) // getattr(module, "group_size", width or 1))
            found[path] = Module(type(module).__name__, eps, width, groups)
    return found


def as_read(sites: Sites) -> dict[str, tuple[float, int | None, int]]:
    """What both sides can say of a site."""
    return {
        site.name: (site.eps.value, site.declared["width"] if site.tensor else None, site.declared.get("groups", 1))
        for site in sites.sites
    }


def as_built(modules: Mapping[str, Module]) -> dict[str, tuple[float, int | None, int]]:
    """The same, of what was built."""
    return {path: (module.eps, module.width, module.groups) for path, module in modules.items()}


@pytest.fixture(scope="module", params=WITH_NORMS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.nn.Module]:
    """A folder as transformers saves it, and the model that it saved."""
    with pytest.MonkeyPatch.context() as patch:
        without_timm(patch)
        config = small_config(request.param)
        model = class_of(config)(config)
    folder = tmp_path_factory.mktemp(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers' own, about what it saves
        model.save_pretrained(folder)
    return folder, model


def without_timm(patch: pytest.MonkeyPatch) -> None:
    """Gemma 3n's eyes are a network of timm's, without an RMSNorm; anything else can stand for it."""
    from transformers.models.gemma3n import modeling_gemma3n

    real = transformers.AutoModel.from_config

    class WithoutEyes:
        @staticmethod
        def from_config(config: Any) -> Any:
            return torch.nn.Identity() if "vision" in config.model_type else real(config)

    patch.setattr(modeling_gemma3n, "AutoModel", WithoutEyes)


def rebuilt(folder: Path) -> dict[str, Module]:
    """The norms of the model that a config.json makes now."""
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"), pytest.MonkeyPatch.context() as patch:
        without_timm(patch)
        return modules_of(class_of(config)(config))


def eps_keys(config: Mapping[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """Where a config.json has something like an eps, sections included."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from eps_keys(value, *path, key)
        elif "eps" in key and isinstance(value, float):
            yield *path, key


def edited(folder: Path, into: Path, change: Any) -> Path:
    """The folder with another config.json; the tensors stay where they are."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    for number, path in enumerate(list(eps_keys(config))):
        section = config
        for step in path[:-1]:
            section = section[step]
        change(section, path[-1], number)
    (into / "model.safetensors").symlink_to(folder / "model.safetensors")
    (into / "config.json").write_text(json.dumps(config), "utf-8")
    return into


def test_every_norm_of_a_saved_model_is_found(saved: tuple[Path, torch.nn.Module]) -> None:
    folder, model = saved
    sites = find_sites(open_checkpoint(folder))
    assert as_read(sites) == as_built(modules_of(model))
    assert not sites.disagreements
    assert not sites.notes


def test_a_changed_eps_is_followed(saved: tuple[Path, torch.nn.Module], tmp_path: Path) -> None:
    folder = edited(saved[0], tmp_path, lambda section, key, number: section.update({key: (number + 3) * 1e-5}))
    assert as_read(find_sites(open_checkpoint(folder))) == as_built(rebuilt(folder))


def test_another_default_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the next test that must fail: as if our table had a wrong number."""
    config = small_config("qwen3")
    config.save_pretrained(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", ["model.norm.weight"])
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}', "utf-8")
    wanted = {"model.norm": (rebuilt(tmp_path)["model.norm"].eps, 8, 1)}
    assert as_read(find_sites(open_checkpoint(tmp_path))) == wanted
    wrong = dataclasses.replace(BY_MODEL_TYPE["qwen3"], eps=Key("rms_norm_eps", 1e-5))
    monkeypatch.setitem(BY_MODEL_TYPE, "qwen3", wrong)
    assert as_read(find_sites(open_checkpoint(tmp_path))) != wanted


def test_a_missing_eps_is_the_default(saved: tuple[Path, torch.nn.Module], tmp_path: Path) -> None:
    folder = edited(saved[0], tmp_path, lambda section, key, _: section.pop(key))
    assert as_read(find_sites(open_checkpoint(folder))) == as_built(rebuilt(folder))


def test_gains_are_applied_as_the_preset_says(saved: tuple[Path, torch.nn.Module]) -> None:
    """Gains of 0 give 0 unless something is added to them; and where the class was measured, it is that preset."""
    folder, model = saved
    classes = yaml.safe_load((Path(__file__).parents[2] / "fixtures/frameworks/transformers-classes.yaml").read_text())
    presets = {name.split(".")[1]: preset for preset, names in classes["presets"].items() for name in names}
    for site in find_sites(open_checkpoint(folder)).sites:
        module = model.get_submodule(site.name)
        measured = presets.get(type(module).__name__, site.preset).split(", ")
        assert site.preset in measured or (site.tensor is None and site.preset == "transformers-gemma3n")
        if site.tensor is not None:
            assert site.declared.get("gain_offset", 0) == (1 if adds_to_its_gains(module) else 0)


def adds_to_its_gains(module: Any) -> bool:
    """Whether gains of 0 give something else than 0."""
    with torch.no_grad():
        before = module.weight.clone()
        module.weight.zero_()
        row = torch.ones(1, 1, before.numel())
        output = module(row, gate=torch.ones_like(row)) if "Gated" in type(module).__name__ else module(row)
        module.weight.copy_(before)
    return bool(output.abs().max() > 0)


@pytest.mark.parametrize("model_type", WITHOUT)
def test_models_without_an_rms_norm_have_no_site(model_type: str, tmp_path: Path) -> None:
    config = small_config(model_type)
    with torch.device("meta"):
        assert not modules_of(class_of(config)(config))
    config.save_pretrained(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", ["model.norm.weight", "model.layers.0.input_layernorm.weight"])
    sites = find_sites(open_checkpoint(tmp_path))
    assert sites.sites == ()
    assert sites.notes == (BY_MODEL_TYPE[model_type].remark,)


def write_safetensors(path: Path, names: list[str]) -> None:
    """A file with these tensors, eight float32 zeros each."""
    header = {n: {"dtype": "F32", "shape": [8], "data_offsets": [32 * i, 32 * i + 32]} for i, n in enumerate(names)}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(32 * len(names)))


def test_null_is_refused_as_transformers_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "rms_norm_eps": null}', "utf-8")
    write_safetensors(tmp_path / "model.safetensors", ["model.norm.weight"])
    with pytest.raises(Exception, match="expected float, got NoneType"):
        transformers.AutoConfig.from_pretrained(tmp_path)
    with pytest.raises(InputProblem, match="rms_norm_eps as null, which LlamaConfig does not take"):
        find_sites(open_checkpoint(tmp_path))


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen2_5_vl", "llava", "qwen3_vl"])
def test_sections_that_are_not_there(model_type: str, tmp_path: Path) -> None:
    """Qwen2-VL takes its language model's settings from the top then; others take their defaults."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type, "rms_norm_eps": 3e-5}), "utf-8")
    write_safetensors(tmp_path / "model.safetensors", ["model.norm.weight"])
    wanted = transformers.AutoConfig.from_pretrained(tmp_path).text_config.rms_norm_eps
    sites = find_sites(open_checkpoint(tmp_path))
    assert [site.eps.value for site in sites.sites] == [wanted]
    assert bool(sites.disagreements) == (wanted != 3e-5)


@pytest.mark.parametrize("model_type", ["mistral3", "idefics3", "smolvlm", "voxtral", "llama4", "gemma3", "internvl"])
def test_the_default_of_a_missing_section(model_type: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}), "utf-8")
    write_safetensors(tmp_path / "model.safetensors", ["model.norm.weight"])
    wanted = transformers.AutoConfig.from_pretrained(tmp_path).text_config.rms_norm_eps
    assert [site.eps.value for site in find_sites(open_checkpoint(tmp_path)).sites] == [wanted]


NOT_IN_ITS_TABLE = {
    "blk.{}.attn_sub_norm": "bitnet: the table has the names of another repository for the same tensors",
    "blk.{}.ffn_sub_norm": "bitnet, as above",
}


NAMED = [*((a.gguf, a) for a in ARCHITECTURES if a.norms and a.gguf), *((n, a) for n, a in BY_GGUF.items() if a.norms)]


@pytest.mark.parametrize(("name", "known"), NAMED, ids=lambda each: getattr(each, "model_type", each))
def test_names_are_those_of_ggufs_own_table(name: str, known: Architecture) -> None:
    architecture = {written: value for value, written in MODEL_ARCH_NAMES.items()}[name]
    table = gguf.get_tensor_name_map(architecture, 4)
    for norm in known.norms:
        if norm.bare or norm.gguf is None or norm.gguf in NOT_IN_ITS_TABLE:
            continue
        paths = [f"{root}.{norm.at.format(2)}".removeprefix(".") for root in (known.root, *known.stored, "model")]
        found = {table.get_name(f"{path}.weight", try_suffixes=(".weight",)) for path in paths}
        names = {each.removesuffix(".weight") for each in found if each}  # some entries of the table have the suffix
        assert norm.gguf.format(2) in names


@pytest.mark.parametrize("name", [name for name, known in BY_GGUF.items() if known.norms])
def test_files_written_by_gguf_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    norms = [norm.gguf for norm in BY_GGUF[name].norms if norm.gguf]
    width = {norm.format(layer): 4 + i for i, norm in enumerate(norms) for layer in (0, 1)}
    write_gguf(path, name, width)
    sites = find_sites(open_checkpoint(path))
    reader = gguf.GGUFReader(path)
    stored = np.float32(reader.fields[f"{name}.attention.layer_norm_rms_epsilon"].contents())
    assert {site.tensor.name: site.declared["width"] for site in sites.sites if site.tensor} == {
        f"{tensor}.weight": count for tensor, count in width.items()
    }
    assert sites.architecture == name
    for site in sites.sites:
        assert np.float32(site.eps.value) == stored
        assert site.declared.get("gain_offset", 0) == 0


def write_gguf(path: Path, architecture: str, width: Mapping[str, int]) -> None:
    """A file with these norms, of gains 1, and an odd eps."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_layer_norm_rms_eps(3e-5)
    writer.add_block_count(2)
    for name, count in width.items():
        writer.add_tensor(f"{name}.weight", np.ones(count, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_presets_that_add_to_the_gains_are_all_named() -> None:
    used = {norm.preset or known.preset for known in ARCHITECTURES for norm in known.norms}
    offsets = {preset: read_preset(preset).values.get("gain_offset", 0) for preset in used}
    assert {preset: offset for preset, offset in offsets.items() if offset} == OFFSETS


def test_every_eps_spelling_of_a_norm_is_looked_for() -> None:
    """The keys that our own table names are among those that an unknown model's norm is given."""
    named = {known.eps.name for known in ARCHITECTURES}
    assert {name.rpartition(".")[2] for name in named} <= set(EPS_KEYS)


def test_a_graph_that_onnx_writes(tmp_path: Path) -> None:
    gain = onnx.numpy_helper.from_array(np.full(8, 1.5, np.float32), "model.norm.weight")
    node = onnx.helper.make_node("RMSNormalization", ["x", "model.norm.weight"], ["y"], epsilon=3e-5)
    shape = onnx.helper.make_tensor_value_info("x", 1, ["rows", 8]), onnx.helper.make_tensor_value_info("y", 1, None)
    graph = onnx.helper.make_graph([node], "g", [shape[0]], [shape[1]], [gain])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)]), tmp_path / "m.onnx")
    (site,) = find_sites(open_checkpoint(tmp_path / "m.onnx")).sites
    assert (site.name, site.declared["width"], np.float32(site.eps.value)) == ("model.norm", 8, np.float32(3e-5))
