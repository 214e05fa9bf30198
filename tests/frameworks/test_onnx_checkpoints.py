"""ONNX files as checkpoints: every norm with its eps, and where its gains lie, without reading anything large."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.errors import CouldNotRun, InputProblem
from rmsaudit.loaders import onnx_model
from rmsaudit.loaders.onnx_child import ELEMENT_TYPES, BadModel
from rmsaudit.loaders.onnx_model import LOOSE, without_values
from rmsaudit.loaders.tensors import load

pytestmark = pytest.mark.frameworks

WIDTH = 64
DRAW = np.random.default_rng(7)


def describe(text: str) -> dict[str, Any]:
    """The child's half, in this process."""
    with TemporaryDirectory() as folder:
        answer = onnx_model.describe(text, Path(folder))
        assert (Path(folder) / LOOSE).is_file()
    return answer


def drawn_gain(dtype: type = np.float32) -> Array:
    return DRAW.standard_normal(WIDTH).astype(dtype)


GAINS = {
    "layers.0.norm.weight": drawn_gain(),
    "layers.1.norm.weight": drawn_gain(np.float16),
    "layers.2.norm.weight": drawn_gain(),
    "layers.3.norm.weight": drawn_gain(),
    "layers.4.norm.weight": drawn_gain(),
}


def whole_model() -> onnx.ModelProto:
    """Five norms behind one another, each in another form, and a large matrix."""
    held = {
        **GAINS,
        "eps": np.array(1e-6, np.float32),
        "one": np.array(1, np.float32),
        "two": np.array(2, np.float32),
        "last": np.array([-1], np.int64),
        "matrix": DRAW.standard_normal((WIDTH, 1000)).astype(np.float32),
        "flags": np.array([True, False]),
    }
    node = helper.make_node
    nodes = [
        node("RMSNormalization", ["x", "layers.0.norm.weight"], ["h0"], name="layers.0/norm", epsilon=1e-5, axis=-1),
        node("Cast", ["layers.1.norm.weight"], ["wide"], to=TensorProto.FLOAT),
        node("SimplifiedLayerNormalization", ["h0", "wide"], ["h1"], epsilon=1e-12, axis=1),
        node("SkipSimplifiedLayerNormalization", ["h1", "x", "layers.2.norm.weight"], ["h2"], domain="com.microsoft"),
        *chain("h2", "h3", "layers.3.norm.weight"),
        node("Add", ["layers.4.norm.weight", "one"], ["shifted"]),
        *chain("h3", "h4", "shifted"),
        node("MatMul", ["h4", "matrix"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 1000])],
        [numpy_helper.from_array(values, name) for name, values in held.items()],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="by hand")


def chain(x: str, y: str, gain: str) -> list[onnx.NodeProto]:
    """A norm of single operators, as exporters write it."""
    node = helper.make_node
    return [
        node("Pow", [x, "two"], [f"{y}.square"]),
        node("ReduceMean", [f"{y}.square", "last"], [f"{y}.mean"]),
        node("Add", [f"{y}.mean", "eps"], [f"{y}.more"]),
        node("Sqrt", [f"{y}.more"], [f"{y}.root"]),
        node("Reciprocal", [f"{y}.root"], [f"{y}.inverse"]),
        node("Mul", [x, f"{y}.inverse"], [f"{y}.normalized"]),
        node("Mul", [gain, f"{y}.normalized"], [y], name=f"{y}/gain"),
    ]


def check_whole(read: Checkpoint) -> None:
    norms = read.metadata["norms"]
    assert [norm.operator for norm in norms] == [
        "RMSNormalization",
        "SimplifiedLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "decomposed",
        "decomposed",
    ]
    assert [norm.gain for norm in norms] == list(GAINS)
    assert [norm.gain_offset for norm in norms] == [0, 0, 0, 0, 1]
    assert [norm.axis for norm in norms] == [-1, 1, -1, -1, -1]
    assert [norm.eps.value for norm in norms if norm.eps] == [1e-5, 1e-12, 1e-12, 1e-6, 1e-6]
    assert [norm.residual for norm in norms] == [False, False, True, False, False]
    assert not any(norm.center or norm.bias or norm.computed_gain for norm in norms)
    assert norms[0].eps is not None
    assert norms[0].eps.trail == ("attribute epsilon of node 'layers.0/norm' (RMSNormalization)",)
    assert norms[0].node == "layers.0/norm"
    assert [norm.output for norm in norms] == ["h0", "h1", "h2", "h3", "h4"]
    for name, gain in GAINS.items():
        place = read.tensors[name]
        assert (place.dtype, place.shape) == (word_of(gain), (WIDTH,))
        assert load(place).tobytes() == gain.tobytes()
    assert read.tensors["matrix"].shape == (WIDTH, 1000)
    assert (read.tensors["flags"].dtype, read.tensors["flags"].length) == ("bool", 2)
    assert (read.metadata["producer"], read.metadata["opsets"]) == ("by hand", {"": 23, "com.microsoft": 1})


def test_every_norm_and_its_gains(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(whole_model(), path)
    read = open_checkpoint(path)
    assert (read.path, read.format) == (path, "onnx")
    assert {place.path for place in read.tensors.values()} == {path}
    check_whole(read)


def test_gains_in_a_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(whole_model(), path, save_as_external_data=True, location="model.data", size_threshold=0)
    read = open_checkpoint(path)
    assert {place.path for place in read.tensors.values()} == {tmp_path / "model.data"}
    check_whole(read)


def one_norm(gain: onnx.TensorProto) -> onnx.ModelProto:
    nodes = [helper.make_node("RMSNormalization", ["x", "gain"], ["y"])]
    infos = [helper.make_tensor_value_info(name, gain.data_type, ["rows", WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "model", infos[:1], infos[1:], [gain])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


@pytest.mark.parametrize("word", ELEMENT_TYPES)
@pytest.mark.parametrize("raw", [True, False])
def test_every_dtype_raw_and_typed(tmp_path: Path, word: str, raw: bool) -> None:
    """float_data and double_data lie in the file as in memory; int32_data, which holds the shorter ones, does not."""
    values = np.linspace(-2, 2, WIDTH)
    gain = helper.make_tensor("gain", ELEMENT_TYPES[word], [WIDTH], values)
    if raw:
        gain = numpy_helper.from_array(numpy_helper.to_array(gain), "gain")
    path = tmp_path / "model.onnx"
    onnx.save(one_norm(gain), path)
    answer = describe(str(path))
    in_place = raw or word in ("float32", "float64")
    assert set(answer["tensors"]) == ({"gain"} if in_place else set())
    if in_place:
        place = answer["tensors"]["gain"]
        theirs = numpy_helper.to_array(gain).tobytes()
        assert path.read_bytes()[place["offset"] :][: place["length"]] == theirs
        assert (place["dtype"], place["shape"]) == (word, [WIDTH])


@pytest.mark.parametrize("word", ["float16", "bfloat16"])
def test_gains_that_do_not_lie_in_the_file_as_in_memory(tmp_path: Path, word: str) -> None:
    """In int32_data, as ONNX Runtime's converter to float16 leaves them, and in a Constant node."""
    gain = helper.make_tensor("gain", ELEMENT_TYPES[word], [WIDTH], np.linspace(-2, 2, WIDTH))
    assert gain.int32_data
    values = numpy_helper.to_array(gain).tobytes()
    model = one_norm(gain)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    from_integers = open_checkpoint(path)
    del model.graph.initializer[:]
    model.graph.node.insert(0, helper.make_node("Constant", [], ["gain"], value=gain))
    onnx.save(model, path)
    for read in (from_integers, open_checkpoint(path)):
        (norm,) = read.metadata["norms"]
        assert (norm.gain, norm.computed_gain) == ("gain", False)
        assert (read.tensors["gain"].dtype, read.tensors["gain"].shape) == (word, (WIDTH,))
        assert load(read.tensors["gain"]).tobytes() == values


def test_gains_that_are_fed(tmp_path: Path) -> None:
    model = one_norm(helper.make_tensor("gain", TensorProto.FLOAT16, [WIDTH], np.ones(WIDTH)))
    del model.graph.initializer[:]
    model.graph.input.append(helper.make_tensor_value_info("gain", TensorProto.FLOAT16, [WIDTH]))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    (norm,) = open_checkpoint(path).metadata["norms"]
    assert (norm.gain, norm.computed_gain) == (None, True)


def test_norms_inside_local_functions(tmp_path: Path) -> None:
    """As torch's exporter once wrote a module: a function of its own domain, called with its gains."""
    body = helper.make_function(
        "own",
        "Norm",
        ["x", "g"],
        ["y"],
        [helper.make_node("RMSNormalization", ["x", "g"], ["y"])],
        [helper.make_opsetid("", 23)],
    )
    model = one_norm(numpy_helper.from_array(GAINS["layers.0.norm.weight"], "gain"))
    model.graph.node[0].op_type, model.graph.node[0].domain = "Norm", "own"
    model.functions.append(body)
    model.opset_import.append(helper.make_opsetid("own", 1))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    read = open_checkpoint(path)
    (norm,) = read.metadata["norms"]
    assert norm.gain == "gain"
    assert load(read.tensors["gain"]).tobytes() == GAINS["layers.0.norm.weight"].tobytes()


# --- the graph without its values ------------------------------------------------------------------------------------


def test_all_but_the_values_is_passed_on(tmp_path: Path) -> None:
    """What is left out and put back gives the model again, field by field."""
    model = whole_model()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    with path.open("rb") as file:
        skeleton = onnx.ModelProto.FromString(without_values(file, path.name))
    assert skeleton.ByteSize() < 6000  # the matrix alone has 256000
    data = path.read_bytes()
    for tensor in skeleton.graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        assert entries.pop("location") == path.name
        start, length = int(entries.pop("offset")), int(entries.pop("length"))
        assert not entries
        tensor.raw_data = data[start : start + length]
        del tensor.external_data[:]
        tensor.ClearField("data_location")
    assert skeleton == model


def test_a_large_model_takes_no_memory(tmp_path: Path) -> None:
    """A matrix of one GiB inside the file, sparse. Protobuf merges the two graphs that follow one another."""
    path = tmp_path / "model.onnx"
    size = 2**30
    dims = b"".join(b"\x08" + onnx_model._varint(each) for each in (2**14, 2**14))
    tensor = dims + b"\x10\x01" + b"\x42\x05large" + b"\x4a" + onnx_model._varint(size)  # data_type, name, raw_data
    inner = b"\x2a" + onnx_model._varint(len(tensor) + size) + tensor
    graph = b"\x3a" + onnx_model._varint(len(inner) + size) + inner
    path.write_bytes(whole_model().SerializeToString() + graph)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + size)
    tracemalloc.start()
    answer = describe(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer["tensors"]["large"]["length"] == size
    assert answer["tensors"]["large"]["offset"] + size == path.stat().st_size
    assert len(answer["norms"]) == 5
    assert peak < 30 * 2**20


def test_behind_a_url(tmp_path: Path) -> None:
    """In this process: the memory of another one is not its own."""
    system = fsspec.filesystem("memory")
    onnx.save(
        whole_model(), tmp_path / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0
    )
    try:
        for name in ("model.onnx", "model.data"):
            system.pipe(f"/m/{name}", (tmp_path / name).read_bytes())
        assert describe("memory://m/model.onnx") == describe(str(tmp_path / "model.onnx"))
    finally:
        system.store.clear()


# --- refused ---------------------------------------------------------------------------------------------------------


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    whole = whole_model().SerializeToString()
    path = tmp_path / "model.onnx"
    for length in [*range(0, 2000, 7), *range(2000, len(whole), 9973), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(BadModel):
            describe(str(path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(st.data())
def test_damaged_bytes_give_places_inside_the_file_or_a_refusal(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(one_norm(numpy_helper.from_array(GAINS["layers.0.norm.weight"], "gain")).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.onnx"
    path.write_bytes(whole)
    try:
        answer = describe(str(path))
    except Exception:  # whatever it is, it ends the child's process at most, and open_checkpoint tells it
        return
    for place in answer["tensors"].values():
        assert 0 <= place["offset"] <= place["offset"] + place["length"] <= len(whole)


def refusal(path: Path) -> str:
    with pytest.raises(BadModel) as caught:
        describe(str(path))
    return str(caught.value)


def test_what_is_told_of_files_that_cannot_be_used(tmp_path: Path, write_model: Callable[..., Path]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert refusal(path) == "is a Git LFS pointer, not the model itself; fetch it with `git lfs pull`"
    path.write_bytes(whole_model().SerializeToString()[:-1])
    assert refusal(path) == "ends in the middle of its graph, or is not an ONNX model; fetch it again"
    path.write_bytes(b"<html>not found</html>")
    assert refusal(path) == "is not an ONNX model: its bytes do not follow the format"
    write_model(path, offset="10")
    assert refusal(path) == "keeps tensor 'gain' beyond the end of 'gain.data'; that file is cut short"
    write_model(path, location="../gain.data")
    assert refusal(path) == "keeps tensor 'gain' in '../gain.data', outside its own folder; that is not read"
    write_model(path, length="100")
    assert refusal(path) == "gives initialiser 'gain' 100 bytes, and float32 [64] has 256; it is damaged"


def test_a_refusal_comes_from_the_process_as_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(InputProblem) as caught:
        open_checkpoint(path)
    says = "is not an ONNX model: its bytes do not follow the format"
    assert str(caught.value) == f"{path}: {says} [onnx-model]"


def test_a_crash_of_the_process_is_told(tmp_path: Path) -> None:
    """A norm without an output: protobuf has nothing against it."""
    model = one_norm(numpy_helper.from_array(GAINS["layers.0.norm.weight"], "gain"))
    del model.graph.node[0].output[:]
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CouldNotRun, match="reading it ended with exit code 1: IndexError"):
        open_checkpoint(path)


@pytest.fixture
def write_model() -> Callable[..., Path]:
    """A model whose gain lies in gain.data beside it; entries of its place may be changed."""

    def write(path: Path, **changes: str) -> Path:
        gain = numpy_helper.from_array(GAINS["layers.0.norm.weight"], "gain")
        (path.parent / "gain.data").write_bytes(gain.raw_data)
        place = {"location": "gain.data", "offset": "0"} | changes
        gain.ClearField("raw_data")
        gain.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            gain.external_data.add(key=key, value=value)
        path.write_bytes(one_norm(gain).SerializeToString())
        return path

    return write


def test_an_external_gain_without_a_length(tmp_path: Path, write_model: Callable[..., Path]) -> None:
    read = open_checkpoint(write_model(tmp_path / "model.onnx"))
    assert load(read.tensors["gain"]).tobytes() == bits(GAINS["layers.0.norm.weight"]).tobytes()


def test_a_missing_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        return None

    monkeypatch.setattr("importlib.util.find_spec", absent)
    with pytest.raises(BadModel, match=r"needs onnx, which this Python does not have: pip install 'rmsaudit\[onnx\]'"):
        describe(str(tmp_path / "model.onnx"))
