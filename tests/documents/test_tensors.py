"""The safetensors header: what it says where it is sound, and that nothing hostile in it gets through."""

import hashlib
import json
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmsaudit.documents.problems import Refused
from rmsaudit.documents.tensors import MOST_HEADER_BYTES, digest_of, find_tensor, tensors_in

GAIN: dict[str, Any] = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}


def test_places_are_those_of_the_safetensors_package(fixtures: Path) -> None:
    for path in (
        fixtures / "quickstart" / "model.safetensors",
        fixtures / "implementations" / "files" / "gains.safetensors",
    ):
        data = path.read_bytes()
        theirs = dict(safetensors.deserialize(data))
        ours = tensors_in(path)
        assert set(ours) == set(theirs)
        for name, place in ours.items():
            assert list(place.shape) == theirs[name]["shape"]
            assert data[place.offset : place.offset + place.length] == bytes(theirs[name]["data"])
            assert digest_of(place) == hashlib.sha256(bytes(theirs[name]["data"])).hexdigest()


def test_dtypes_by_our_words(fixtures: Path) -> None:
    places = tensors_in(fixtures / "implementations" / "files" / "gains.safetensors")
    words = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    assert [place.dtype for place in places.values()] == words
    assert tensors_in(fixtures / "implementations" / "files" / "odd.safetensors")["counts"].dtype == "I32"


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "t.safetensors"
    path.write_bytes(data)
    return path


def refusal(path: Path, name: str = "gain") -> str:
    with pytest.raises(Refused) as caught:
        find_tensor(path, name)
    return caught.value.says


def test_a_header_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", MOST_HEADER_BYTES + 1))
        file.truncate(2**33)  # sparse: the announced header is there, all zeros
    assert refusal(path).startswith("has a header of 100000001 bytes, and the format allows 100000000")
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 2**32))
        file.truncate(2**20)
    assert "has 1048576 bytes, and its first 8 announce 4294967296 of header" in refusal(path)


@pytest.mark.parametrize("length", [0, 1, 7])
def test_a_file_too_short_for_a_length(tmp_path: Path, length: int) -> None:
    assert "is no safetensors file, or cut short" in refusal(write(tmp_path, b"\1" * length))


def test_every_cut_is_noticed(tmp_path: Path, make_files: ModuleType) -> None:
    whole = make_files.safetensors({"gain": GAIN}, bytes(16))
    for length in range(len(whole)):
        refusal(write(tmp_path, whole[:length]))
    assert find_tensor(write(tmp_path, whole), "gain").length == 16
    assert "its tensors end at" in refusal(write(tmp_path, whole + b"\0"))


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [4.0]},
        {"shape": [True, 4]},
        {"shape": [2**64]},
        {"shape": [1] * 100},
        {"shape": "4"},
        {"dtype": 32},
        {"data_offsets": [0]},
        {"data_offsets": [0, 16, 32]},
        {"data_offsets": [-16, 0]},
        {"data_offsets": {"0": 16}},
        {"shape": [2**62, 2**62]},
        {"dtype": "F16"},
    ],
    ids=json.dumps,
)
def test_descriptions_that_make_no_sense(tmp_path: Path, make_files: ModuleType, change: dict[str, Any]) -> None:
    refusal(write(tmp_path, make_files.safetensors({"gain": GAIN | change}, bytes(16))))


@pytest.mark.parametrize("entry", [None, [], "F32", 3])
def test_a_description_that_is_none(tmp_path: Path, make_files: ModuleType, entry: Any) -> None:
    assert refusal(write(tmp_path, make_files.safetensors({"gain": entry}, b""))).startswith("describes `gain` without")


def test_a_name_that_is_not_there_gets_its_nearest(fixtures: Path) -> None:
    path = fixtures / "quickstart" / "model.safetensors"
    assert "nearest: `model.layers.0.input_layernorm.weight`" in refusal(path, "model.layer.0.input_layernorm.weight")


def test_a_dtype_of_a_later_version_only_matters_where_it_is_asked_for(tmp_path: Path, make_files: ModuleType) -> None:
    later = {"dtype": "F3", "shape": [7], "data_offsets": [16, 19]}
    path = write(tmp_path, make_files.safetensors({"gain": GAIN, "later": later}, bytes(19)))
    assert find_tensor(path, "gain").shape == (4,)
    assert refusal(path, "later").startswith("holds `later` as `F3`; a gain has one of float64")


def test_a_file_that_shrinks_is_noticed(tmp_path: Path, make_files: ModuleType) -> None:
    whole = make_files.safetensors({"gain": GAIN}, bytes(16))
    path = write(tmp_path, whole)
    place = find_tensor(path, "gain")
    path.write_bytes(whole[:-1])
    with pytest.raises(Refused, match="became shorter"):
        digest_of(place)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["F32", "BF16", "I8"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
entries = values | st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F8_E5M2", "F4"]),
        "shape": st.lists(st.integers(-1, 5), max_size=3),
        "data_offsets": st.lists(st.integers(-1, 20), min_size=1, max_size=3),
    }
)


headers = st.dictionaries(st.sampled_from(["gain", "other", "__metadata__"]), entries, max_size=3)


def whole_file(header: dict[str, Any], rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + rest


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=40) | st.builds(whole_file, headers, st.binary(max_size=20)))
def test_any_bytes_give_places_inside_the_file_or_a_refusal(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path, data)
    try:
        places = tensors_in(path)
    except Refused:
        return
    for place in places.values():
        assert 8 <= place.offset <= place.offset + place.length <= len(data)
