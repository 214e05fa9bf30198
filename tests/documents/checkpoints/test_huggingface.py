"""Folders of safetensors files: what is found, that hardly anything is read for it, and everything that is refused."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.errors import InputProblem

Write = Callable[..., None]
Problems = Callable[[Path], list[str]]
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edits a JSON file in place."""
    content = json.loads(path.read_text("utf-8"))
    edit(content)
    path.write_text(json.dumps(content), "utf-8")


def test_shards_are_one_checkpoint(sharded: Path) -> None:
    read = open_checkpoint(sharded)
    assert (read.path, read.format, read.notes) == (sharded, "huggingface", ())
    assert read.config == {"model_type": "llama", "rms_norm_eps": 1e-5}
    found = {name: (place.path.name, place.dtype, place.shape, place.length) for name, place in read.tensors.items()}
    assert found == {
        "embed": (FIRST, "float32", (8, 4), 128),
        "layers.0.norm": (FIRST, "bfloat16", (4,), 8),
        "layers.1.norm": (SECOND, "bfloat16", (4,), 8),
        "norm": (SECOND, "float32", (4,), 16),
    }
    digests = {name: hashlib.sha256((sharded / name).read_bytes()).hexdigest() for name in ("config.json", INDEX)}
    assert read.files == digests
    assert open_checkpoint(sharded / INDEX).tensors == read.tensors


def test_model_safetensors_comes_first(sharded: Path, write_shard: Write) -> None:
    """As transformers 5.24 chooses, in modeling_utils._get_resolved_checkpoint_files."""
    write_shard(sharded / "model.safetensors", {"norm": [4]})
    assert set(open_checkpoint(sharded).tensors) == {"norm"}


@pytest.mark.parametrize("name", ["consolidated.safetensors", "adapter.safetensors"])
def test_another_name_is_taken_where_it_is_the_only_one(tmp_path: Path, write_shard: Write, name: str) -> None:
    write_shard(tmp_path / name, {"norm": [4]})
    read = open_checkpoint(tmp_path)
    assert read.tensors["norm"].path == tmp_path / name
    assert (read.config, read.notes) == ({}, ("there is no config.json",))


def test_an_index_of_another_name(sharded: Path) -> None:
    (sharded / INDEX).rename(sharded / "consolidated.safetensors.index.json")
    assert len(open_checkpoint(sharded).tensors) == 4


def test_a_bare_file_and_the_config_beside_it(sharded: Path) -> None:
    read = open_checkpoint(sharded / FIRST)
    assert (read.format, set(read.tensors)) == ("safetensors", {"embed", "layers.0.norm"})
    assert read.config["rms_norm_eps"] == 1e-5
    assert read.notes == (f"config.json, which lies beside {FIRST}, is taken to be its own",)
    (sharded / "config.json").unlink()
    alone = open_checkpoint(sharded / FIRST)
    assert (alone.config, alone.files, alone.notes) == ({}, {}, ())


def test_a_bare_file_needs_no_suffix(sharded: Path) -> None:
    """The Hugging Face cache names files by their digest."""
    (sharded / FIRST).rename(sharded / "f3a1")
    assert set(open_checkpoint(sharded / "f3a1").tensors) == {"embed", "layers.0.norm"}


def test_links_are_followed(sharded: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The Hugging Face cache consists of links out of the folder."""
    outside = tmp_path_factory.mktemp("blobs") / "f3a1"
    (sharded / FIRST).rename(outside)
    (sharded / FIRST).symlink_to(outside)
    assert len(open_checkpoint(sharded).tensors) == 4


def test_a_tensor_beside_the_index_is_noted(sharded: Path) -> None:
    """transformers loads every tensor of every shard."""
    change(sharded / INDEX, lambda index: index["weight_map"].pop("embed"))
    read = open_checkpoint(sharded)
    assert "embed" in read.tensors
    assert read.notes == (f"the shards also hold `embed`, which {INDEX} does not name",)


# --- refused ---------------------------------------------------------------------------------------------------------


def test_a_missing_shard(sharded: Path, problems: Problems) -> None:
    (sharded / SECOND).unlink()
    assert problems(sharded) == [
        f"{INDEX}: names the shard `{SECOND}`, which does not exist; fetch it [no-such-shard]",
    ]


def test_a_tensor_that_is_not_where_the_index_places_it(sharded: Path, problems: Problems) -> None:
    change(sharded / INDEX, lambda index: index["weight_map"].update(norm=FIRST, **{f"n{i}": FIRST for i in range(9)}))
    assert problems(sharded) == [
        f"{FIRST}: does not hold `norm`, `n0`, `n1` and 7 more, which {INDEX} places in it; "
        "fetch both again [no-such-tensor]",
    ]


def test_a_tensor_in_two_shards(sharded: Path, write_shard: Write, problems: Problems) -> None:
    write_shard(sharded / SECOND, {"layers.1.norm": [4], "norm": [4], "embed": [8, 4]})
    assert problems(sharded) == [f"{SECOND}: holds `embed`, and so does {FIRST}; keep one of them [duplicate-tensor]"]


@pytest.mark.parametrize("shard", ["../a.safetensors", "/etc/a", "a/../../b", "C:\\a", "..\\a", "s3://b/a", ""])
def test_an_index_that_leaves_the_folder(sharded: Path, problems: Problems, shard: str) -> None:
    change(sharded / INDEX, lambda index: index["weight_map"].update(norm=shard))
    assert problems(sharded) == [
        f"{INDEX}: places tensors in `{shard}`, outside its own folder, where nothing is read; mend it there "
        "[outside-folder]",
    ]


def test_a_shard_in_a_folder_below_is_inside(sharded: Path) -> None:
    (sharded / "below").mkdir()
    (sharded / SECOND).rename(sharded / "below" / SECOND)
    moved = {"layers.1.norm": f"below/{SECOND}", "norm": f"below/{SECOND}"}
    change(sharded / INDEX, lambda index: index["weight_map"].update(moved))
    assert len(open_checkpoint(sharded).tensors) == 4


def test_a_truncated_shard(sharded: Path, problems: Problems) -> None:
    whole = (sharded / SECOND).read_bytes()
    (sharded / SECOND).write_bytes(whole[:-1])
    assert problems(sharded) == [
        f"{SECOND}: is damaged or cut short: it has {len(whole) - 1} bytes, and its tensors end at {len(whole)} "
        "[bad-safetensors]",
    ]


def test_a_shard_that_was_not_fetched(sharded: Path, problems: Problems) -> None:
    (sharded / SECOND).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n")
    assert problems(sharded) == [
        f"{SECOND}: is a Git LFS pointer, not the file itself; fetch it with `git lfs pull` [git-lfs]",
    ]


def test_json_that_is_none(sharded: Path, problems: Problems) -> None:
    for name in ("config.json", INDEX):
        (sharded / name).write_text('{"a": 1,}', "utf-8")
    says = "is not JSON at 1:9 (Illegal trailing comma before end of object); mend it there [bad-json]"
    if sys.version_info < (3, 13):
        says = "is not JSON at 1:9 (Expecting property name enclosed in double quotes); mend it there [bad-json]"
    assert problems(sharded) == [f"config.json: {says}", f"{INDEX}: {says}"]


@pytest.mark.parametrize("content", [{}, {"weight_map": {}}, {"weight_map": []}, {"weight_map": {"norm": 1}}], ids=str)
def test_an_index_without_a_map(sharded: Path, problems: Problems, content: object) -> None:
    (sharded / INDEX).write_text(json.dumps(content), "utf-8")
    says = f"{INDEX}: has no `weight_map` from tensors to shards; fetch it again [bad-index]"
    assert problems(sharded) == [says]


def test_everything_at_once(sharded: Path, problems: Problems) -> None:
    (sharded / "config.json").write_text("[]", "utf-8")
    (sharded / FIRST).write_bytes((sharded / FIRST).read_bytes()[:20])
    change(sharded / INDEX, lambda index: index["weight_map"].update(a="../a", b="b.safetensors", c=SECOND))
    kinds = [problem.rpartition(" ")[2] for problem in problems(sharded)]
    assert sorted(kinds) == sorted(
        ["[bad-json]", "[bad-safetensors]", "[outside-folder]", "[no-such-shard]", "[no-such-tensor]"]
    )


def test_a_hundred_problems_are_enough(sharded: Path, problems: Problems) -> None:
    more = {f"t{i}": f"shard{i}.safetensors" for i in range(500)}
    change(sharded / INDEX, lambda index: index["weight_map"].update(more))
    found = problems(sharded)
    assert len(found) == 101
    assert any("and 400 more problems; mend these first [too-many]" in problem for problem in found)


def test_a_folder_with_neither(tmp_path: Path, problems: Problems) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert problems(tmp_path) == [
        f"FOLDER: holds neither model.safetensors nor {INDEX}; name another folder, or fetch them [no-tensors]",
    ]
    (tmp_path / "llama.gguf").write_bytes(b"GGUF")
    assert problems(tmp_path) == ["FOLDER: holds no safetensors file; name `llama.gguf` itself [no-tensors]"]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth", "model.pt", "model.ckpt"])
def test_a_folder_of_pickles_is_not_touched(tmp_path: Path, problems: Problems, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04c__main__\nboom\n.")
    assert problems(tmp_path) == [
        f"FOLDER: holds `{name}` and no safetensors file; a pickle runs code when it is loaded, and is not read; "
        "load it where you trust it, and save it with save_pretrained(), which writes safetensors [pickle]",
    ]
    assert problems(tmp_path / name) == [
        f"{name}: is a pickle, which runs code when it is loaded, and is not read; "
        "load it where you trust it, and save it with save_pretrained(), which writes safetensors [pickle]",
    ]


def test_files_between_which_nothing_chooses(sharded: Path, problems: Problems) -> None:
    (sharded / INDEX).unlink()
    assert problems(sharded) == [
        f"FOLDER: holds `{FIRST}`, `{SECOND}`, and nothing says which of them are the model; "
        f"name one of them, or fetch {INDEX} [unclear-checkpoint]",
    ]


def test_no_checkpoint_at_all(tmp_path: Path, problems: Problems) -> None:
    (tmp_path / "notes.txt").write_text("remember the eps")
    assert problems(tmp_path / "notes.txt") == [
        "notes.txt: is no checkpoint that is known; name a folder, a .safetensors file, a .gguf file or an .onnx file "
        "[unknown-format]",
    ]
    assert problems(tmp_path / "gone") == ["gone: does not exist; check the path [no-such-file]"]


# --- how much is read ------------------------------------------------------------------------------------------------

LAYERS, WIDTH = 24, 4096
MEASURED = """
import re, sys
from pathlib import Path
from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.loaders.tensors import load

def read_so_far():
    return int(Path("/proc/self/io").read_text("ascii").split()[1])

before = read_so_far()
places = open_checkpoint(Path(sys.argv[1])).tensors
headers = read_so_far() - before
before = read_so_far()
gains = [load(place) for name, place in places.items() if name.endswith("norm.weight")]
print(headers, read_so_far() - before, len(gains), sum(gain.nbytes for gain in gains))
# not getrusage: that counts what the process was before it became this one, a copy of the test's own
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text("ascii"))[1]) * 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells how many bytes were read")
def test_of_many_gigabytes_headers_and_norms_are_read(tmp_path: Path, write_shard: Write) -> None:
    placed = {}
    for layer in range(LAYERS):
        shard = f"model-{layer:05}.safetensors"
        large = {f"layers.{layer}.mlp.weight": ("BF16", [2**16, 2**15])}  # 4 GiB
        norm = {f"layers.{layer}.norm.weight": ("BF16", [WIDTH])}
        write_shard(tmp_path / shard, large | norm)
        placed |= dict.fromkeys(large | norm, shard)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": placed}), "utf-8")
    ran = subprocess.run([sys.executable, "-c", MEASURED, str(tmp_path)], capture_output=True, check=True, text=True)
    headers, norms, count, gain_bytes, peak = map(int, ran.stdout.split())
    assert (count, gain_bytes) == (LAYERS, LAYERS * WIDTH * 2)
    # Python's own buffer takes up to 128 KiB of a file in one piece, and reading /proc counts itself
    assert headers <= (LAYERS + 2) * 2**17 + 4096
    # C's buffer takes up to a page before and behind
    assert gain_bytes <= norms <= gain_bytes + LAYERS * 2 * 4096 + 4096
    assert peak < 300 * 2**20


def test_the_twin_that_reads_everything_is_noticed(tmp_path: Path, write_shard: Write) -> None:
    """Each of the numbers above would be larger by gigabytes; here by one MiB, in one file."""
    write_shard(tmp_path / "model.safetensors", {"mlp.weight": [2**18], "norm.weight": [WIDTH]})
    greedy = MEASURED.replace('name.endswith("norm.weight")', "True")
    ran = subprocess.run([sys.executable, "-c", greedy, str(tmp_path)], capture_output=True, check=True, text=True)
    _, norms, count, *_ = map(int, ran.stdout.split())
    assert count == 2
    assert norms >= 2**20 + WIDTH * 4


def test_opening_takes_no_numpy() -> None:
    code = "import sys; import rmsaudit.documents.checkpoints.opening; print('numpy' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ran.stdout.strip() == b"False"


def test_problems_carry_the_exit_code_of_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputProblem) as caught:
        open_checkpoint(tmp_path)
    assert caught.value.exit_code == 2
