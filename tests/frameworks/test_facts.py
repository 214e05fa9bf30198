"""Facts about live implementations that a user meets through compare."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmsaudit.cli import run

pytestmark = pytest.mark.frameworks

FOLDER = Path(__file__).parents[2] / "fixtures" / "frameworks"
LIMITS = """\
schema: rmsaudit/tolerance/1
rules: [{rule: ulp, max_ulp: 4, reason: orders of summation of short rows}]
"""
QUICK = ("--no-ladder", "--no-behaviours")
Compare = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    """(reference, candidate, *words) -> exit code and record, of two files or names in the fixtures' folder."""

    def running(reference: Path | str, candidate: Path | str, *words: str) -> tuple[int, dict[str, Any]]:
        files = [str(side if isinstance(side, Path) else FOLDER / side) for side in (reference, candidate)]
        given = ["--ref", files[0], "--cand", files[1], "--allow-code", "--format", "json", *words]
        code = run(["compare", *given])
        printed = capsys.readouterr()
        assert printed.err == ""
        return code, json.loads(printed.out)

    return running


def with_float16(name: str, folder: Path) -> Path:
    """The ONNX fixture whose graph takes float16."""
    text = (FOLDER / name).read_text("utf-8").replace("model: ", f"model: {FOLDER}/")
    (folder / name).write_text(text.replace("float32-float32", "float16-float16"))
    return folder / name


@pytest.mark.parametrize("suspect", ["reference", "candidate"])
def test_squares_of_256_overflow_in_onnxs_evaluator_and_the_record_suspects_it(
    compare: Compare, tmp_path: Path, suspect: str
) -> None:
    """onnx 1.23.2 gives 0 for float16 (256, 256), ONNX Runtime 1. As the candidate, it is simply rejected."""
    (tmp_path / "limits.yaml").write_text(LIMITS)
    evaluator = with_float16("onnx-reference-evaluator.yaml", tmp_path)
    runtime = with_float16("onnxruntime-rms-normalization.yaml", tmp_path)
    sides = (evaluator, runtime) if suspect == "reference" else (runtime, evaluator)
    words = ("--width", "2", "--category", "edge", "--tolerance", str(tmp_path / "limits.yaml"), *QUICK)
    code, record = compare(*sides, *words)
    assert code == 1
    assert record["outcome"] == ("reference_suspect" if suspect == "reference" else "rejected")
    edge = record["results"]["edge"]
    worst = edge["worst"][0]
    assert (abs(worst["input"]), worst[suspect]) == (256.0, 0.0)
    assert edge["oracle"]["far"] == [suspect]
    if suspect == "reference":
        assert "The reference is the side that is farther from the exact result" in record["summary"]


@pytest.mark.parametrize(("eps", "holds"), [(None, "bit_equal"), ("0.0078125", "broken")])
def test_no_eps_in_torch_is_that_of_float32_even_for_bfloat16(compare: Compare, eps: str | None, holds: str) -> None:
    """torch 2.13. The twin declares bfloat16's own machine epsilon for a side that is called without one."""
    dtypes = ("--set", "ref.input_dtype=bfloat16", "--set", "cand.input_dtype=bfloat16")
    name = "torch-without-eps.yaml"
    words = ("--category", "near-eps", "--category", "exact-sum", *dtypes, *QUICK)
    _, record = compare(name, name, *words, *(() if eps is None else ("--set", f"ref.eps={eps}")))
    reference = record["reference"]
    assert reference["belief"]["holds"] == holds
    if eps is None:
        assert reference["resolved"]["eps"]["value"] == float(np.finfo(np.float32).eps)
        assert "null" in reference["resolved"]["eps"]["source"]


def test_a_float32_row_of_3e38_is_lost_on_both_sides_and_the_summary_says_so(compare: Compare) -> None:
    code, record = compare(
        "torch-functional.yaml", "torch-module.yaml", "--set", "ref.eps=1e-5", "--category", "edge", *QUICK
    )
    assert code == 0
    assert record["results"]["edge"]["max_ulp"] == 0  # they agree, and both are wrong
    assert sorted(record["results"]["edge"]["oracle"]["far"]) == ["candidate", "reference"]
    assert "both sides are far from the exact result in edge" in record["summary"]


def test_a_level_of_optimisation_is_a_difference_of_its_own(compare: Compare, tmp_path: Path) -> None:
    text = (FOLDER / "onnxruntime-rms-normalization.yaml").read_text("utf-8").replace("model: ", f"model: {FOLDER}/")
    levels = ("none", "all")
    for level in levels:
        (tmp_path / f"{level}.yaml").write_text(text.replace("onnx:\n", f"onnx:\n  optimization: {level}\n"))
    words = ("--category", "exact-sum", *QUICK)
    _, record = compare(tmp_path / "none.yaml", tmp_path / "all.yaml", *words)
    assert set(record["differing"]) == {"optimization"}
    found = record["differing"]["optimization"]
    assert (found["reference"], found["candidate"]) == levels
    _, same = compare(tmp_path / "all.yaml", tmp_path / "all.yaml", *words)
    assert same["differing"] == {}


# --- graphs that fix a size ------------------------------------------------------------------------------------------


def fixed(folder: Path, shape: list[int | str]) -> Path:
    """A graph for x of this shape, with an implementation file beside it."""
    from onnx import TensorProto, helper

    gain = helper.make_tensor_value_info("gain", TensorProto.FLOAT, shape[-1:])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    node = helper.make_node("RMSNormalization", ["x", "gain"], ["y"], epsilon=1e-5, axis=-1)
    graph = helper.make_graph([node], "norm", [x, gain], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    (folder / "fixed.onnx").write_bytes(model.SerializeToString())
    text = (FOLDER / "onnxruntime-rms-normalization.yaml").read_text("utf-8")
    (folder / "fixed.yaml").write_text(text.replace("rms-normalization-float32-float32.onnx", "fixed.onnx"))
    return folder / "fixed.yaml"


def test_other_widths_are_skipped_for_a_graph_that_takes_one(compare: Compare, tmp_path: Path) -> None:
    graph = fixed(tmp_path, ["rows", 64])
    _, record = compare(graph, "onnxruntime-rms-normalization.yaml", "--category", "tail", *QUICK)
    tail = record["results"]["tail"]
    assert tail["failures"] == []
    assert tail["elements"] == 16 * 64
    assert "width 33: the graph takes tensor 'x' of width 64 only" in record["battery"]["categories"]["tail"]["skipped"]


def test_a_graph_that_takes_any_width_skips_none(compare: Compare) -> None:
    name = "onnxruntime-rms-normalization.yaml"
    _, record = compare(name, name, "--category", "tail", *QUICK)
    assert record["results"]["tail"]["elements"] == 16 * (64 + 1 + 31 + 33 + 513)
    assert record["battery"]["categories"]["tail"]["skipped"] is None


@pytest.mark.parametrize(("rows", "code"), [("4", 0), ("16", 3)])
def test_a_graph_that_takes_so_many_rows_says_how_to_feed_it(
    compare: Compare, tmp_path: Path, rows: str, code: int
) -> None:
    graph = fixed(tmp_path, [2, 2, 64])
    words = ("--category", "ordinary", "--rows", rows, *QUICK)
    got, record = compare("onnxruntime-rms-normalization.yaml", graph, *words)
    assert got == code
    failures = record["results"]["ordinary"]["failures"]
    assert bool(failures) == (code == 3)
    assert all("use --rows 4" in failure for failure in failures)


@pytest.mark.parametrize(("shape", "verdict"), [([16, 64], "not_observable"), (["rows", 64], "kept")])
def test_a_graph_of_so_many_rows_is_not_blamed_for_refusing_others(
    compare: Compare, tmp_path: Path, shape: list[int | str], verdict: str
) -> None:
    graph = fixed(tmp_path, shape)
    _, record = compare(graph, graph, "--category", "ordinary", "--no-ladder")
    rows = record["candidate"]["behaviours"]["rows"]
    assert rows["verdict"] == verdict
    if verdict == "not_observable":
        assert rows["says"] == "the graph takes tensor 'x' in shape [16, 64] only"


# --- files that cannot be used ---------------------------------------------------------------------------------------


def test_a_file_that_is_no_onnx_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = fixed(tmp_path, ["rows", 64])
    (tmp_path / "fixed.onnx").write_bytes(b"not a model at all" * 20)
    code = run(["compare", "--ref", str(graph), "--cand", str(graph)])
    assert code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "fixed.onnx" in line
    assert line.endswith("[onnx-model]")


def test_tensors_outside_the_folder_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import onnx

    graph = fixed(tmp_path, ["rows", 64])
    model = onnx.load(tmp_path / "fixed.onnx")
    held = model.graph.initializer.add(name="gain", dims=[64], data_type=onnx.TensorProto.FLOAT)
    held.data_location = onnx.TensorProto.EXTERNAL
    held.external_data.add(key="location", value="../secret")
    del model.graph.input[1]
    (tmp_path / "fixed.onnx").write_bytes(model.SerializeToString())
    assert run(["compare", "--ref", str(graph), "--cand", str(graph)]) == 2
    assert "keeps tensor 'gain' in '../secret', outside its own folder; that is not read" in capsys.readouterr().err
