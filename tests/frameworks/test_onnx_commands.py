"""The commands that read a file of kind onnx: each goes by what the graph states, and asks it once."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from rmsaudit.cli import _sides, run
from rmsaudit.loaders import onnx as loader

pytestmark = pytest.mark.frameworks

EPS = 3e-4  # no default of anything


@pytest.fixture
def side(tmp_path: Path) -> Path:
    """A file that leaves to its graph what the graph states: width, dtypes, eps."""
    node = helper.make_node("SimplifiedLayerNormalization", ["x", "gain"], ["y"], "norm", axis=-1, epsilon=EPS)
    graph = helper.make_graph(
        [node],
        "norm",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["rows", 64]),
            helper.make_tensor_value_info("gain", TensorProto.FLOAT16, [64]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["rows", 64])],
    )
    opsets = [helper.make_opsetid("", 23)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "norm.onnx")
    path = tmp_path / "side.yaml"
    path.write_text(
        "schema: rmsaudit/implementation/1\nname: a graph\nkind: onnx\n"
        "preset: onnxruntime-simplified-layer-normalization\nonnx: {model: norm.onnx}\n"
    )
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The models that were inspected, each time they were."""
    seen: list[Path] = []
    inspect = loader.inspect

    def counting(section: loader.OnnxSection, home: Path) -> loader.Facts:
        seen.append(section.model)
        return inspect(section, home)

    monkeypatch.setattr(loader, "inspect", counting)
    _sides._inspect.cache_clear()
    return seen


def test_resolve_shows_what_the_graph_states(side: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["resolve", str(side)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert "0.0003" in lines["eps"]
    assert "epsilon" in lines["eps"]
    assert "float16" in lines["input_dtype"]
    assert "tensor 'x'" in lines["input_dtype"]
    assert "the shape of tensor 'x'" in lines["width"]


def test_identify_goes_by_it_too(side: Path, capsys: pytest.CaptureFixture[str], asked: list[Path]) -> None:
    assert run(["identify", str(side), "--rows", "4"]) == 0
    out = capsys.readouterr().out
    assert "at width 64" in out
    assert "eps: 0.0003" in out
    assert asked == [Path("norm.onnx")]


def test_compare_asks_each_graph_once(side: Path, asked: list[Path]) -> None:
    words = ["--ref", str(side), "--cand", str(side), "--category", "exact-sum", "--no-behaviours"]
    assert run(["compare", *words]) == 0
    assert asked == [Path("norm.onnx")]


def test_another_file_of_the_same_name_is_asked_again(side: Path, asked: list[Path]) -> None:
    """The twin: only what has not been touched is known already."""
    model = side.parent / "norm.onnx"
    for _ in range(2):
        assert run(["resolve", str(side)]) == 0
    assert len(asked) == 1
    proto = onnx.load(model)
    proto.graph.node[0].attribute[1].f = 0.5
    onnx.save(proto, model)
    assert run(["resolve", str(side)]) == 0
    assert len(asked) == 2
