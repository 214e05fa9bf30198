"""The implementation file: layers of values, where each came from, and what points where when they do not fit."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from rmsaudit.documents.implementation import Implementation, Resolved, Stated, read_implementation
from rmsaudit.errors import InputProblem
from rmsaudit.semantics import variables
from rmsaudit.semantics.resolve import resolve

HEAD = "schema: rmsaudit/implementation/1\nname: by hand\nkind: spec\n"
GAIN = "gain: {file: gains.safetensors, tensor: layers.3.norm.weight}\n"  # bfloat16, 4 elements


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("gains.safetensors", "agrees.json", "disagrees.json", "model.gguf"):
        (tmp_path / name).write_bytes((fixtures / "implementations" / "files" / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(text: str, **overrides: str) -> Implementation:
    Path("a.yaml").write_text(HEAD + text)
    return read_implementation(Path("a.yaml"), {f"cand.{name}": value for name, value in overrides.items()})


def problems(text: str, **overrides: str) -> list[str]:
    with pytest.raises(InputProblem) as caught:
        read(text, **overrides)
    return [str(problem) for problem in caught.value.problems]


def test_every_variable_is_resolved_with_its_source() -> None:
    side = read("norm:\n  width: 8\n  compute_dtype: f64\n")
    assert list(side.resolved) == list(variables())
    assert side.resolved["width"] == Resolved(8, "declared at a.yaml:5:10")
    assert side.resolved["compute_dtype"] == Resolved("float64", "declared at a.yaml:6:18")
    assert side.resolved["accumulate_dtype"] == Resolved("float64", "default", written="compute")
    assert side.resolved["eps"] == Resolved(1e-6, "default")
    assert {name: found.value for name, found in side.resolved.items()} == vars(side.spec)
    assert side.digest == hashlib.sha256(Path("a.yaml").read_bytes()).hexdigest()
    assert (side.name, side.kind, side.preset, side.gain) == ("by hand", "spec", None, None)


def test_what_is_declared_resolves_to_the_spec_again() -> None:
    side = read("preset: transformers-llama\nnorm: {width: 8, input_dtype: bf16}\n")
    assert side.declared["normalized_dtype"] == "input"
    assert resolve(side.declared) == side.spec


def test_the_layers_from_weak_to_strong() -> None:
    """Default, gain tensor, preset, file, --set: each hides the ones before it."""
    assert read("norm: {width: 4}\n").resolved["gain_dtype"] == Resolved("float32", "default", written="input")
    assert read(GAIN).resolved["gain_dtype"] == Resolved("bfloat16", "gain tensor dtype")
    exllama = "preset: exllamav2\n" + GAIN
    assert read(exllama).resolved["gain_dtype"] == Resolved("float16", "preset exllamav2")
    declared = exllama + "norm: {gain_dtype: float64}\n"
    assert read(declared).resolved["gain_dtype"] == Resolved("float64", "declared at a.yaml:6:20")
    assert read(declared, gain_dtype="input").resolved["gain_dtype"] == Resolved("float32", "--set", written="input")


def test_the_gain_gives_the_width_and_says_where_it_lies() -> None:
    side = read(GAIN)
    assert side.resolved["width"] == Resolved(4, "gain tensor shape")
    assert side.gain is not None
    stored = Path("gains.safetensors").read_bytes()
    place = side.gain.place
    assert stored[place.offset : place.offset + place.length] == bytes.fromhex("003f803fc03f0040")
    assert side.gain.digest == hashlib.sha256(bytes.fromhex("003f803fc03f0040")).hexdigest()
    assert (place.path, place.name, place.shape) == (Path("gains.safetensors"), "layers.3.norm.weight", (4,))


def test_paths_are_relative_to_the_file_they_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read("norm: {eps: {config: agrees.json}}\n" + GAIN)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    side = read_implementation(Path("../a.yaml"), {})
    assert side.resolved["eps"] == Resolved(1e-6, "agrees.json: rms_norm_eps")
    with pytest.raises(InputProblem) as caught:
        read_implementation(Path("../a.yaml"), {"ref.eps": "{config: agrees.json}"})  # a flag stands where we are
    assert str(caught.value) == "--set ref.eps: agrees.json does not exist; check the path [no-such-file]"


def test_eps_of_a_gguf_keeps_the_decimal_and_says_so() -> None:
    assert read("norm: {width: 4, eps: {gguf: model.gguf}}\n").resolved["eps"] == Resolved(
        1e-5, "model.gguf: llama.attention.layer_norm_rms_epsilon (shortest decimal of the stored float32)"
    )


def test_only_the_eps_that_wins_is_looked_up() -> None:
    assert read("norm: {width: 4, eps: {config: disagrees.json}}\n", eps="1e-4").spec.eps == 1e-4


@pytest.mark.parametrize(("dtype", "eps"), [("float32", 2.0**-23), ("float64", 2.0**-52), ("bfloat16", 2.0**-7)])
def test_a_null_eps_of_a_preset_is_the_machine_epsilon(dtype: str, eps: float) -> None:
    found = read(f"preset: torch-rms-norm\nnorm: {{width: 4, compute_dtype: {dtype}}}\n").resolved["eps"]
    assert found == Resolved(eps, "preset torch-rms-norm", written="null")


def test_overrides_are_read_like_the_file() -> None:
    side = read("norm: {width: 4}\n", axes="[-2]", eps="1e-5", bias="true", accumulate_order="lanes:8")
    assert (side.spec.axes, side.spec.eps, side.spec.bias, side.spec.accumulate_order) == ((-2,), 1e-5, True, "lanes:8")
    assert side.resolved["eps"] == Resolved(1e-5, "--set")


def test_problems_of_the_file_and_of_every_flag_come_together() -> None:
    assert problems("norm:\n  width: x\n", eps="yes", epz="1", groups="[", bias="", input_dtype="bf61") == [
        "--set cand.bias: bias must be true or false, and nothing stands there; write true or false [not-a-flag]",
        "--set cand.eps: eps must be a number, and `yes` is a truth value to YAML 1.1 parsers; write a number such as"
        " 1e-6 [not-a-number]",
        "--set cand.epz: `epz` is no variable; did you mean `eps`? [unknown-variable]",
        "--set cand.groups: this is not YAML: did not find expected node content; mend the text here or just above it"
        " [syntax]",
        "--set cand.input_dtype: input_dtype cannot be `bf61`, which is no dtype; did you mean `bf16`? [unknown-dtype]",
        "a.yaml:5:10: width must be a whole number, and `x` is text; write digits alone, such as 128 [not-an-integer]",
    ]


def test_problems_of_everything_a_file_points_to_come_together() -> None:
    text = "preset: nothing-like-it\nnorm: {eps: {config: disagrees.json}}\ngain: {file: no.safetensors, tensor: x}\n"
    assert [line.split(":")[1] + line[line.rindex(" ") :] for line in problems(text)] == [
        "4 [unknown-preset]",
        "5 [eps-disagrees]",
        "6 [no-such-file]",
    ]


def test_a_conflict_points_to_the_value_that_makes_it() -> None:
    lost = "eps 1e-08 becomes 0 in eps_dtype float16"
    (in_file,) = problems("norm:\n  width: 4\n  eps: 1e-8\n  eps_dtype: float16\n")
    assert in_file.startswith(f"a.yaml:6:8: {lost}")
    assert "5.96e-08" in in_file
    (by_flag,) = problems("norm:\n  width: 4\n  eps_dtype: float16\n", eps="1e-8")
    assert by_flag.startswith(f"--set cand.eps: {lost}")
    (by_preset,) = problems("preset: transformers-llama\nnorm: {width: 4, association: x*(i*g)}\n")
    assert by_preset.startswith("a.yaml:4:9: cast_point before_gain rounds")
    assert by_preset.endswith("(from preset transformers-llama) [conflict]")
    (nowhere,) = problems("norm: {eps: 1e-6}\n")
    assert nowhere.startswith("a.yaml:4:7: width is not given")


def test_a_width_that_is_not_the_gains_is_refused_where_it_stands() -> None:
    said = "width 8 does not match the gain `layers.3.norm.weight`, which has 4 elements"
    (in_file,) = problems("norm: {width: 8}\n" + GAIN)
    assert in_file.startswith(f"a.yaml:4:15: {said}")
    (by_flag,) = problems(GAIN, width="8")
    assert by_flag.startswith(f"--set cand.width: {said}")
    assert read("norm: {width: 4}\n" + GAIN).resolved["width"] == Resolved(4, "declared at a.yaml:4:15")


def test_another_kind_brings_a_section_of_its_own_name() -> None:
    Path("a.yaml").write_text(HEAD.replace("spec", "command") + "norm: {width: 4}\ncommand: {argv: [./norm]}\n")
    read = read_implementation(Path("a.yaml"), {})
    assert (read.kind, read.section.argv) == ("command", ("./norm",))
    Path("a.yaml").write_text(HEAD.replace("spec", "command") + "norm: {width: 4}\n")
    with pytest.raises(InputProblem, match=r"^a\.yaml:3:7: kind command needs a section of that name; add it"):
        read_implementation(Path("a.yaml"), {})
    (said,) = problems("norm: {width: 4}\ncommand: {argv: [./norm]}\n")
    assert said == "a.yaml:5:10: section command is for kind: command; remove it, or change the kind [section]"


def test_what_the_thing_itself_states_stands_below_norm_and_is_kept() -> None:
    Path("a.yaml").write_text(HEAD.replace("spec", "onnx") + "norm: {eps: 1e-6}\nonnx: {model: m.onnx}\n")
    stated = {"eps": Stated(1e-5, "node rms"), "width": Stated(8, "the shape of x")}
    read = read_implementation(Path("a.yaml"), {}, lambda *_: stated)
    assert (read.spec.eps, read.spec.width) == (1e-6, 8)
    assert read.resolved["width"].source == "the shape of x"
    assert read.stated["eps"].value == 1e-5


def test_reading_takes_no_numpy() -> None:
    """In a process of its own; the twin imports the loader, and numpy with it."""
    paper = "import sys; import rmsaudit.documents.implementation, rmsaudit.documents.schema"
    bench = "import sys; import rmsaudit.loaders.tensors"
    for code, loaded in ((paper, b"False"), (bench, b"True")):
        ran = subprocess.run(
            [sys.executable, "-c", f"{code}; print('numpy' in sys.modules)"], capture_output=True, check=True
        )
        assert ran.stdout.strip() == loaded


def test_yaml_to_nodes_takes_no_pydantic() -> None:
    code = "import sys; import rmsaudit.documents.source; print('pydantic' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ran.stdout.strip() == b"False"
