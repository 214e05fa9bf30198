"""Tensor files: every bit crosses, the library reads what we write and the other way round, and no file harms us."""

import json
import os
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from rmsaudit.arrays import bits, bits_of, dtype_of
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS
from rmsaudit.loaders import Failed, Ran
from rmsaudit.loaders.exchange import (
    CODES,
    MOST_HEADER_BYTES,
    UnusableTensors,
    exactly,
    fed,
    listed,
    observed,
    open_tensors,
    operands,
    write_tensors,
)
from rmsaudit.semantics.resolve import resolve


def every_pattern(word: str) -> np.ndarray:
    """All bit patterns of a format of at most 16 bits, some of a wider one; NaN payloads and both zeros among them."""
    size = FORMATS[word].bits
    if size <= 16:
        return np.arange(1 << size, dtype=bits_of(word)).view(dtype_of(word)).reshape(16, -1)
    drawn = np.random.default_rng(1).integers(0, 1 << size, (5, 7), dtype=bits_of(word))
    return drawn.view(dtype_of(word))


def file_of(header: object, body: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


# --- both ways -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", FORMATS)
def test_every_pattern_of_every_dtype_comes_back(word: str, tmp_path: Path) -> None:
    array = every_pattern(word)
    write_tensors(tmp_path / "t", {"a": array, "empty": array[:0]}, {"k": "v"})
    file = open_tensors(tmp_path / "t")
    back = file.read("a")
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert np.array_equal(bits(back), bits(array))
    assert back.flags.writeable
    assert file.read("empty").shape == (0, array.shape[1])
    assert dict(file.metadata) == {"k": "v"}


def test_the_library_reads_what_we_write(tmp_path: Path) -> None:
    written = {word: every_pattern(word) for word in FORMATS}
    write_tensors(tmp_path / "t", written, {"eps": "1e-05", "label": "breite 33 · größer"})
    found = dict(safetensors.deserialize((tmp_path / "t").read_bytes()))
    assert set(found) == set(written)
    for word, array in written.items():
        assert found[word]["dtype"] == CODES[word]
        assert found[word]["shape"] == list(array.shape)
        assert bytes(found[word]["data"]) == array.tobytes()
    with safetensors.safe_open(tmp_path / "t", framework="np") as file:
        assert file.metadata() == {"eps": "1e-05", "label": "breite 33 · größer"}


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    arrays = {word: every_pattern(word) for word in FORMATS}
    safetensors.numpy.save_file(arrays, tmp_path / "t", metadata={"a": "1", "b": "2"})
    file = open_tensors(tmp_path / "t")
    for word, array in arrays.items():
        assert np.array_equal(bits(file.read(word)), bits(array))
    assert dict(file.metadata) == {"a": "1", "b": "2"}


def test_equal_contents_give_equal_bytes_in_whatever_order_they_come(tmp_path: Path) -> None:
    a, b = every_pattern("float8_e5m2"), every_pattern("float64")
    write_tensors(tmp_path / "1", {"a": a, "b": b}, {"k": "1", "j": "2"})
    write_tensors(tmp_path / "2", {"b": b, "a": a}, {"j": "2", "k": "1"})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    entries = open_tensors(tmp_path / "1").entries
    assert entries["b"].begin == 0  # the wide dtype first, so that nothing lies askew
    assert open_tensors(tmp_path / "1").body % 8 == 0


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2], lambda a: np.broadcast_to(a[0, 0], (3, 4))])
def test_views_are_written_as_what_they_show(view, tmp_path: Path) -> None:
    shown = view(np.arange(12, dtype=np.float32).reshape(3, 4))
    write_tensors(tmp_path / "t", {"a": shown}, {})
    assert np.array_equal(open_tensors(tmp_path / "t").read("a"), shown)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "t"
    target.write_bytes(b"old")
    with pytest.raises(KeyError):  # int64 is none of the formats: refused in the middle of the work
        write_tensors(target, {"a": np.arange(3)}, {})
    target.unlink()
    target.mkdir()
    with pytest.raises(OSError, match="irectory"):
        write_tensors(target, {"a": np.zeros(3)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


# --- hostile files ---------------------------------------------------------------------------------------------------

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BODY = bytes(8)

BROKEN = {
    "empty": (b"", "has 0 bytes"),
    "shorter than its length": (b"\x01\x02", "has 2 bytes"),
    "a header beyond the end": (file_of({"a": ENTRY}, BODY, length=500), "claims a header of 500 bytes and ends"),
    "a header of gigabytes": (file_of(b"{}", length=1 << 62), "claims a header of 4611686018427387904 bytes"),
    "a header just over the limit": (file_of(b"{}", length=MOST_HEADER_BYTES + 1), "more than 32 MiB"),
    "not JSON": (file_of(b"not json"), "is not JSON"),
    "not UTF-8": (file_of(b'{"\xff": 1}'), "is not JSON"),
    "deep JSON": (file_of(b"[" * 100_000), "is not JSON"),
    "a number of 5000 digits": (file_of(b'{"a":' + b"9" * 5000 + b"}"), "is not JSON"),
    "a list": (file_of([1]), "not a JSON object"),
    "a name twice": (file_of(b'{"a":{},"a":{}}'), "has 'a' twice"),
    "a key twice": (file_of(b'{"a":{"dtype":"F32","dtype":"F64"}}', BODY), "'dtype' twice"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "not text to text"),
    "metadata of a list": (file_of({"__metadata__": []}), "not text to text"),
    "a missing key": (file_of({"a": {"dtype": "F32", "shape": [2]}}, BODY), "otherwise than by"),
    "a key too many": (file_of({"a": {**ENTRY, "extra": 1}}, BODY), "otherwise than by"),
    "a negative size": (file_of({"a": {**ENTRY, "shape": [-2]}}, BODY), "no usable shape"),
    "a size of true": (file_of({"a": {**ENTRY, "shape": [2, True]}}, BODY), "no usable shape"),
    "a size of 2.0": (file_of({"a": {**ENTRY, "shape": [2.0]}}, BODY), "no usable shape"),
    "a hundred axes": (file_of({"a": {**ENTRY, "shape": [1] * 100}}, BODY), "no usable shape"),
    "a shape beyond memory": (file_of({"a": {**ENTRY, "shape": [1 << 60, 1 << 60]}}, BODY), "gives 8 bytes"),
    "a shape of too few bytes": (file_of({"a": {**ENTRY, "shape": [3]}}, BODY), "gives 8 bytes to tensor 'a'"),
    "offsets backwards": (file_of({"a": {**ENTRY, "data_offsets": [8, 0]}}, BODY), "gives -8 bytes"),
    "offsets out of range": (file_of({"a": {**ENTRY, "data_offsets": [0, 8]}}, bytes(4)), "is cut short: 4 of 8"),
    "a gap": (file_of({"a": {**ENTRY, "data_offsets": [4, 12]}}, bytes(12)), "a gap or an overlap before tensor 'a'"),
    "an overlap": (file_of({"a": ENTRY, "b": ENTRY}, BODY), "a gap or an overlap before tensor"),
    "bytes left over": (file_of({"a": ENTRY}, bytes(9)), "holds 1 bytes after its last tensor"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "says"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused_in_words(data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(UnusableTensors) as refused:
        open_tensors(tmp_path / "t")
    assert says in refused.value.says
    assert str(tmp_path) not in refused.value.says


def test_the_file_that_the_broken_ones_are_made_from_is_read(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(file_of({"a": ENTRY}, BODY))
    assert np.array_equal(open_tensors(tmp_path / "t").read("a"), np.zeros(2, np.float32))


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, says in (
        ("none", "does not exist"),
        ("", "not an ordinary file"),
        ("pipe", "not an ordinary file"),
        ("a\0", "no system"),
    ):
        with pytest.raises(UnusableTensors) as refused:
            open_tensors(tmp_path / name)
        assert says in refused.value.says


def test_a_file_that_shrinks_after_it_was_looked_at_is_noticed(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", {"a": np.zeros(100)}, {})
    file = open_tensors(tmp_path / "t")
    os.truncate(tmp_path / "t", 200)
    with pytest.raises(UnusableTensors, match="cut short inside tensor 'a'"):
        file.read("a")


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    with NamedTemporaryFile() as file:
        for content in (data, file_of(data), file_of({"a": ENTRY}, BODY)[: len(data)]):
            Path(file.name).write_bytes(content)
            with suppress(UnusableTensors):
                open_tensors(Path(file.name))


# --- operands and outputs --------------------------------------------------------------------------------------------


def a_case(dtype: str = "bfloat16") -> Case:
    kind = dtype_of(dtype)
    x = np.arange(8, dtype=np.float32).reshape(2, 4).astype(kind)
    return Case(
        category="c", label="", x=x, gain=x[0], bias=x[0] * kind.type(0), residual=np.broadcast_to(kind.type(0), (2, 4))
    )


def test_a_case_is_fed_in_the_dtypes_of_the_side() -> None:
    spec = resolve({"width": 4, "input_dtype": "float32", "gain_dtype": "float16"})
    given_ = fed(a_case(), spec)
    assert given_.x.dtype == np.float32
    assert given_.gain.dtype == np.float16
    assert given_.bias.dtype == np.float16
    assert given_.digest() != a_case().digest()
    assert fed(given_, spec).digest() == given_.digest()


def test_a_value_that_a_side_cannot_hold_is_not_rounded_behind_its_back() -> None:
    case = replace(a_case("float32"), x=np.full((2, 4), 1 + 2.0**-20, np.float32))
    with pytest.raises(UnusableTensors, match="x is given in float32, and not all of its values exist in float16"):
        fed(case, resolve({"width": 4, "input_dtype": "float16"}))


@pytest.mark.parametrize(
    ("value", "word", "exact"),
    [
        (65504.0, "float16", True),
        (65520.0, "float16", False),  # would become infinite
        (2.0**-24, "float16", True),
        (2.0**-25, "float16", False),  # would become zero
        (-0.0, "bfloat16", True),
        (np.nan, "float8_e4m3fn", True),
        (np.inf, "float8_e5m2", True),
        (np.inf, "float8_e4m3fn", False),  # would become NaN
        (448.0, "float8_e4m3fn", True),
        (1 + 2.0**-8 + 2.0**-40, "bfloat16", False),
    ],
)
def test_exactly_converts_only_what_stays_itself(value: float, word: str, exact: bool) -> None:
    converted = exactly(np.array([value]), word)
    assert (converted is not None) is exact
    if converted is not None:
        assert np.array_equal(converted.astype(np.float64), [value], equal_nan=True)
        assert np.signbit(converted.astype(np.float64))[0] == np.signbit(value)


def test_only_operands_that_the_spec_reads_are_handed_over() -> None:
    assert set(operands(a_case(), resolve({"width": 4}))) == {"x", "gain"}
    everything = resolve({"width": 4, "residual": "add", "bias": True})
    assert set(operands(a_case(), everything)) == {"x", "gain", "residual", "bias"}
    assert set(operands(a_case(), resolve({"width": 4, "gain_applied": False}))) == {"x"}


def test_an_output_is_taken_in_whatever_of_the_formats_it_has(tmp_path: Path) -> None:
    case = a_case()
    write_tensors(tmp_path / "t", {"y": case.x, "short": case.x[:, :3]}, {})
    file = open_tensors(tmp_path / "t")
    seen = observed(file, "y", case)
    assert isinstance(seen, Ran)
    assert seen.output.dtype == ml_dtypes.bfloat16
    short = observed(file, "short", case)
    assert short == Failed("'short' has shape [2, 3]; the input has [2, 4]")


def test_an_output_of_integers_is_refused(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"y": np.zeros((2, 4), np.int32)}, tmp_path / "t")
    file = open_tensors(tmp_path / "t")
    seen = observed(file, "y", a_case())
    assert isinstance(seen, Failed)
    assert seen.says.startswith("'y' has dtype I32; what is compared is one of float64, float32")
    with pytest.raises(UnusableTensors, match="dtype I32"):
        file.read("y")


def test_names_in_a_sentence_are_few_and_short() -> None:
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed("abcdefg") == "'a', 'b', 'c', 'd', 'e' and 2 more"
    assert len(listed(["x" * 10_000])) < 70
    assert "\n" not in listed(["a\nb"])
