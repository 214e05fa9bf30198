"""battery export, the outputs computed by plain numpy somewhere else, and compare against those."""

import json
from pathlib import Path

import ml_dtypes  # noqa: F401  makes bfloat16 known to numpy
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

WIDTH = 48
EPS = 1e-5
DECLARED = """\
schema: rmsaudit/implementation/1
name: {name}
kind: {kind}
norm: {{width: {width}, eps: {eps}, input_dtype: {dtype}, gain_dtype: {dtype}, accumulate_order: pairwise}}
{more}"""
RECORDED = "recorded: {file: outputs.safetensors}\n"


@pytest.fixture
def pair(tmp_path):
    """Writes both files, returns them as arguments."""

    def write(dtype="float32", kinds=("spec", "recorded"), width=WIDTH):
        for name, kind in zip(("a", "b"), kinds, strict=True):
            more = RECORDED if kind == "recorded" else ""
            text = DECLARED.format(name=name, kind=kind, width=width, eps=EPS, dtype=dtype, more=more)
            (tmp_path / f"{name}.yaml").write_text(text)
        return "--ref", tmp_path / "a.yaml", "--cand", tmp_path / "b.yaml"

    return write


def run_elsewhere(folder: Path, spoil=lambda *_: None) -> list[dict]:
    """As docs/commands.md does it: numpy, safetensors, and nothing of rmsaudit. The cases, as the file lists them."""
    outputs, digests = {}, {}
    with safe_open(folder / "inputs.safetensors", framework="np") as inputs:
        about = inputs.metadata()
        cases = json.loads(about["rmsaudit.cases"])
        assert float(about["rmsaudit.eps.candidate"]) == EPS
        for case in cases:
            x, gain = inputs.get_tensor(case["x"]), inputs.get_tensor(case["gain"])
            wide = x.astype(np.float32)
            with np.errstate(all="ignore"):
                mean_square = np.mean(wide * wide, axis=-1, keepdims=True)
                inverse = 1 / np.sqrt(mean_square + np.float32(EPS))
                outputs[case["name"]] = (wide * inverse * gain.astype(np.float32)).astype(x.dtype)
            digests[case["name"]] = case["digest"]
    spoil(outputs, digests)
    metadata = {f"rmsaudit.digest.{name}": digest for name, digest in digests.items()}
    save_file(outputs, folder / "outputs.safetensors", metadata=metadata)
    return cases


def compared(rmsaudit, files, *words, code=0):
    ran = rmsaudit("compare", *files, "--format", "json", *words)
    assert ran.code == code, ran.err
    return json.loads(ran.out)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_there_and_back_again(rmsaudit, pair, tmp_path, dtype):
    files = pair(dtype)
    ran = rmsaudit("battery", "export", *files, "--out", tmp_path / "inputs.safetensors")
    assert ran.code == 0
    cases = run_elsewhere(tmp_path)
    assert ran.out.startswith(f"{len(cases)} inputs for b, width {WIDTH}")
    record = compared(rmsaudit, files)
    assert all(not result["failures"] for result in record["results"].values())
    assert {case["category"] for case in cases} == set(record["results"])
    assert record["candidate"]["belief"]["holds"] in ("bit_equal", "up_to_order")
    assert record["candidate"]["notes"] == []
    assert record["results"]["exact-sum"]["max_ulp"] == 0


def test_the_options_of_compare_choose_the_inputs(rmsaudit, pair, tmp_path):
    files = pair()
    chosen = ["--category", "ordinary", "--category", "tail", "--rows", "3", "--seed", "5", "--set", "ref.eps=1e-3"]
    ran = rmsaudit("battery", "export", *files, *chosen, "--out", tmp_path / "inputs.safetensors")
    assert ran.code == 0
    run_elsewhere(tmp_path)
    assert not any(result["failures"] for result in compared(rmsaudit, files, *chosen)["results"].values())


def test_the_recorded_side_may_be_the_reference(rmsaudit, pair, tmp_path):
    files = pair(kinds=("recorded", "spec"))
    out = tmp_path / "inputs.safetensors"
    ran = rmsaudit("battery", "export", *files, "--category", "ordinary", "--out", out)
    assert "inputs for a," in ran.out
    ran = rmsaudit("battery", "export", *files, "--category", "ordinary", "--out", out, "--for", "cand")
    assert "inputs for b," in ran.out


def test_equal_requests_give_equal_bytes(rmsaudit, pair, tmp_path):
    files = pair()
    for name in ("one", "other"):
        assert rmsaudit("battery", "export", *files, "--out", tmp_path / name).code == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.fixture
def recorded(rmsaudit, pair, tmp_path):
    """Exports two categories, spoils what comes back, and compares: (spoil, exit code, *words) -> record."""

    def compare(spoil, code, *words):
        files = pair()
        few = ("--category", "ordinary", "--category", "scale")
        rmsaudit("battery", "export", *files, *few, "--out", tmp_path / "inputs.safetensors")
        run_elsewhere(tmp_path, spoil)
        return compared(rmsaudit, files, *few, *words, "--no-ladder", code=code)

    return compare


LIMITS = "fixtures/quickstart/tolerance.yaml"


def test_a_missing_output_is_named_and_rejects_its_category(recorded):
    def lose(outputs, digests):
        del outputs["ordinary/0"]

    record = recorded(lose, 1, "--tolerance", LIMITS)
    (failure,) = record["results"]["ordinary"]["failures"]
    assert "does not hold 'ordinary/0'" in failure
    assert record["results"]["ordinary"]["verdict"] == "rejected"
    assert record["results"]["scale"]["verdict"] == "accepted"


def test_an_output_nobody_asked_for_is_named(recorded):
    def add(outputs, digests):
        outputs["leftover"] = np.zeros(3, np.float32)

    assert any("holds 'leftover' without a digest" in note for note in recorded(add, 0)["candidate"]["notes"])


def test_an_output_for_another_input_is_named(recorded):
    def add(outputs, digests):
        outputs["foreign"] = outputs["ordinary/0"]
        digests["foreign"] = "0" * 64

    assert any("'foreign' for inputs that were not" in note for note in recorded(add, 0)["candidate"]["notes"])


@pytest.mark.parametrize("words", [("--seed", "1"), ("--rows", "5"), ("--width", "32")], ids=" ".join)
def test_a_recording_of_another_battery_is_refused_by_its_digests(recorded, words):
    record = recorded(lambda *_: None, 3, *words)
    assert record["outcome"] == "could_not_run"
    for result in record["results"].values():
        assert all("has no output for this input (digest " in failure for failure in result["failures"])
        assert result["failures"]


def test_the_exported_inputs_are_no_outputs(rmsaudit, pair, tmp_path):
    files = pair()
    rmsaudit("battery", "export", *files, "--category", "ordinary", "--out", tmp_path / "outputs.safetensors")
    ran = rmsaudit("compare", *files)
    assert ran.code == 2
    assert "holds the inputs of an exported battery" in ran.err


def test_what_cannot_be_written_is_said(rmsaudit, pair, tmp_path):
    ran = rmsaudit("battery", "export", *pair(), "--out", tmp_path / "nowhere" / "inputs.safetensors")
    assert ran.code == 2
    assert "cannot be written" in ran.err


def test_the_problems_of_both_files_come_together(rmsaudit, pair, tmp_path):
    files = pair(width=0)
    ran = rmsaudit("battery", "export", *files, "--out", tmp_path / "inputs.safetensors")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 2
    assert not (tmp_path / "inputs.safetensors").exists()
