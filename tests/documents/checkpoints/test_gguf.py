"""GGUF files and their parts, written by hand. tests/frameworks/test_checkpoints.py compares with the gguf package."""

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.documents.gguf import MOST_KEPT, eps_of_gguf, read_gguf, shortest_decimal
from rmsaudit.documents.problems import Refused

Build = Callable[..., bytes]
Problems = Callable[[Path], list[str]]
U16, U32, F32, TEXT, ARRAY = 2, 4, 6, 8, 9
TWO = [("blk.0.attn_norm.weight", [4], 0, 0), ("blk.0.attn_q.weight", [64, 2], 8, 32)]  # float32, Q8_0
EPS_KEY = "llama.attention.layer_norm_rms_epsilon"


def u16(key: str, value: int) -> tuple[str, int, bytes]:
    return key, U16, struct.pack("<H", value)


@pytest.fixture
def whole(make_files: ModuleType, gguf_bytes: Build) -> bytes:
    pairs = [
        ("general.architecture", TEXT, make_files.string("llama")),
        (EPS_KEY, F32, struct.pack("<f", 1e-5)),
        ("llama.attention.head_count_kv", ARRAY, struct.pack("<IQ3I", U32, 3, 8, 8, 4)),
        ("names", ARRAY, struct.pack("<IQ", TEXT, 2) + make_files.string("a") + struct.pack("<Q", 2) + "ü".encode()),
    ]
    return gguf_bytes(pairs, TWO, struct.pack("<4f", 1, 2, 3, 4) + bytes(16) + bytes(2 * 2 * 34))


def refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(Refused) as caught:
        read_gguf(path)
    return caught.value.says


def test_what_it_holds(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(whole)
    read = open_checkpoint(path)
    assert (read.path, read.format, read.config) == (path, "gguf", {})
    assert read.metadata == {
        "general.architecture": "llama",
        EPS_KEY: struct.unpack("<f", struct.pack("<f", 1e-5))[0],
        "llama.attention.head_count_kv": [8, 8, 4],
        "names": ["a", "ü"],
    }
    assert shortest_decimal(read.metadata[EPS_KEY]) == 1e-5
    assert eps_of_gguf(path) == (1e-5, EPS_KEY)
    norm, matrix = read.tensors.values()
    assert (norm.name, norm.dtype, norm.shape, norm.length) == ("blk.0.attn_norm.weight", "float32", (4,), 16)
    assert whole[norm.offset : norm.offset + norm.length] == struct.pack("<4f", 1, 2, 3, 4)
    assert (matrix.dtype, matrix.shape, matrix.length) == ("Q8_0", (2, 64), 136)
    assert matrix.offset + matrix.length == len(whole)


def test_the_suffix_is_not_needed(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "f3a1").write_bytes(whole)
    assert open_checkpoint(tmp_path / "f3a1").format == "gguf"


def test_every_cut_is_noticed_and_told_where(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "model.gguf"
    says = [refusal(path, whole[:length]) for length in range(4, len(whole))]
    starts = [text.split(";")[0].split(":")[0] for text in dict.fromkeys(says)]
    assert list(dict.fromkeys(starts)) == [
        "ends in the middle of its metadata",
        "ends in the middle of its list of tensors",
        "ends in the middle of `blk.0.attn_norm.weight`",
        "ends in the middle of `blk.0.attn_q.weight`",
    ]
    end = len(whole)
    assert says[-1] == (
        f"ends in the middle of `blk.0.attn_q.weight`: that goes to byte {end} of {end - 1}; fetch it again"
    )


def test_another_alignment(tmp_path: Path, gguf_bytes: Build) -> None:
    path = tmp_path / "model.gguf"
    pairs = [("general.alignment", U32, struct.pack("<I", 256))]
    path.write_bytes(gguf_bytes(pairs, [("norm", [2], 0, 0)], struct.pack("<2f", 1, 2), padded=256))
    assert read_gguf(path).tensors["norm"].offset % 256 == 0
    for wrong in (0, 24):
        pairs = [("general.alignment", U32, struct.pack("<I", wrong))]
        says = f"gives general.alignment as `{wrong}`, which is no power of two; it is damaged"
        assert refusal(path, gguf_bytes(pairs, [("norm", [2], 0, 0)], bytes(8))) == says


def test_long_values_are_passed_over(tmp_path: Path, make_files: ModuleType, gguf_bytes: Build) -> None:
    count = MOST_KEPT + 1
    tokens = b"".join(make_files.string("x" * (index % 50)) for index in range(100_000))
    pairs = [
        ("numbers", ARRAY, struct.pack("<IQ", U32, count) + bytes(4 * count)),
        ("tokens", ARRAY, struct.pack("<IQ", TEXT, 100_000) + tokens),
        ("one long", ARRAY, struct.pack("<IQ", TEXT, count) + make_files.string("y" * 10**6) + bytes(8 * (count - 1))),
        ("text", TEXT, make_files.string("z" * 70_000)),
        ("kept", ARRAY, struct.pack("<IQ", U32, MOST_KEPT) + bytes(4 * MOST_KEPT)),
        ("last", U32, struct.pack("<I", 7)),
    ]
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes(pairs, [("norm", [2], 0, 0)], bytes(8)))
    read = read_gguf(path)
    assert read.metadata == {"kept": [0] * MOST_KEPT, "last": 7}
    assert set(read.types) == {key for key, *_ in pairs}
    assert read.tensors["norm"].offset + 8 == path.stat().st_size


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ([("a", [4], 0, 0), ("a", [4], 0, 32)], "holds `a` twice; it is damaged"),
        ([("a", [4], 0, 8)], "gives `a` a place inside another tensor"),
        ([("a", [16], 0, 0), ("b", [4], 0, 32)], "gives `b` a place inside another tensor"),
        ([("a", [1] * 5, 0, 0)], "gives `a` 5 axes, and GGUF has up to 4; it is damaged"),
        ([("a", [33], 8, 0)], "holds `a` as Q8_0 with rows of 33; it is damaged"),
        ([("a", [2**63, 2**63, 2**63], 0, 0)], "ends in the middle of `a`"),
        ([("a", [4], 0, 2**63)], "ends in the middle of `a`"),
    ],
)
def test_tensors_that_make_no_sense(
    tmp_path: Path, gguf_bytes: Build, tensors: list[tuple[str, list[int], int, int]], says: str
) -> None:
    assert refusal(tmp_path / "model.gguf", gguf_bytes([], tensors, bytes(96))).startswith(says)


def test_a_type_of_a_later_version_reaches_to_the_next_tensor(tmp_path: Path, gguf_bytes: Build) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes([], [("new", [4], 99, 0), ("norm", [4], 0, 64)], bytes(80)))
    tensors = read_gguf(path).tensors
    assert (tensors["new"].dtype, tensors["new"].length) == ("type 99", 64)
    assert tensors["norm"].length == 16


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (struct.pack("<Q", 1) + b"k" + bytes(5)), "gives `k` twice"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is GGUF for big-endian machines; convert it with gguf-py's"),
        (b"GGUF" + struct.pack("<III", 1, 0, 0), "is GGUF version 1; versions 2 and 3, little-endian, are read"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "is GGUF version 4; versions 2 and 3"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the file itself; fetch it with"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, data: bytes, says: str) -> None:
    assert refusal(tmp_path / "model.gguf", data).startswith(says)


@pytest.mark.parametrize(
    "head",
    [
        struct.pack("<QQ", 2**40, 0),  # tensors
        struct.pack("<QQ", 0, 2**40),  # pairs
        struct.pack("<QQ", 2**28, 0),  # as many as a file of this size has room for, all of them nameless
        struct.pack("<QQQ", 0, 1, 1) + b"k" + struct.pack("<IIQ", ARRAY, TEXT, 2**29),  # strings
        struct.pack("<QQQ", 0, 1, 1) + b"k" + struct.pack("<IIQ", ARRAY, ARRAY, 2**29),
    ],
    ids=["tensors", "pairs", "nameless tensors", "strings", "arrays"],
)
def test_counts_that_a_hostile_file_announces_cost_nothing(tmp_path: Path, head: bytes) -> None:
    """The file is as large as it has to be, and sparse. Reading what it announces would take minutes, and gigabytes."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + head)
    with path.open("r+b") as file:
        file.truncate(2**33)
    tracemalloc.start()
    with pytest.raises(Refused):
        read_gguf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.data())
def test_damaged_bytes_give_places_inside_the_file_or_a_refusal(
    tmp_path: Path, whole: bytes, data: st.DataObject
) -> None:
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.gguf"
    path.write_bytes(changed)
    try:
        tensors = read_gguf(path).tensors
    except Refused:
        return
    for place in tensors.values():
        assert 0 < place.offset <= place.offset + place.length <= len(whole)


# --- parts -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def split(tmp_path: Path, make_files: ModuleType, gguf_bytes: Build) -> list[Path]:
    """Three parts, as `llama-gguf-split --no-tensor-first-split` writes them: no tensor in the first."""
    paths = [tmp_path / f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    named = ("general.architecture", TEXT, make_files.string("llama"))
    tensors: list[list[tuple[str, list[int], int, int]]] = [
        [],
        [("a", [4], 0, 0)],
        [("b", [4], 0, 0), ("c", [4], 0, 32)],
    ]
    for number, (path, held) in enumerate(zip(paths, tensors, strict=True)):
        pairs = [u16("split.no", number), u16("split.count", 3), u16("split.tensors.count", 3)]
        path.write_bytes(
            gguf_bytes(
                [*([named] if number == 0 else []), *pairs], held, bytes(16 + 32 * (len(held) - 1)) if held else b""
            )
        )
    return paths


def test_parts_are_one_checkpoint_whichever_is_named(split: list[Path]) -> None:
    for path in split:
        read = open_checkpoint(path)
        assert read.path == path
        assert read.metadata["general.architecture"] == "llama"
        assert {name: place.path for name, place in read.tensors.items()} == {
            "a": split[1],
            "b": split[2],
            "c": split[2],
        }


def test_parts_that_are_missing_or_cut(split: list[Path], problems: Problems) -> None:
    split[1].unlink()
    split[2].write_bytes(split[2].read_bytes()[:-1])
    size = split[2].stat().st_size
    assert problems(split[0]) == [
        "m-00002-of-00003.gguf: is part 2 of 3 of m-00001-of-00003.gguf, and does not exist; fetch it [no-such-file]",
        f"m-00003-of-00003.gguf: ends in the middle of `c`: that goes to byte {size + 1} of {size}; "
        "fetch it again [bad-gguf]",
    ]


def test_a_part_that_is_another_one(split: list[Path], problems: Problems) -> None:
    split[2].write_bytes(split[1].read_bytes())
    assert problems(split[0]) == [
        "m-00003-of-00003.gguf: says of itself that it has split.no 1 and split.count 3, "
        "and by its name it has 2 and 3; fetch it again [bad-gguf]",
    ]


def test_a_tensor_in_two_parts(split: list[Path], gguf_bytes: Build, problems: Problems) -> None:
    pairs = [u16("split.no", 2), u16("split.count", 3)]
    split[2].write_bytes(gguf_bytes(pairs, [("a", [4], 0, 0)], bytes(16)))
    assert problems(split[0]) == [
        "m-00003-of-00003.gguf: holds `a`, and so does m-00002-of-00003.gguf; fetch both again [duplicate-tensor]",
    ]


def test_parts_with_fewer_tensors_than_announced(split: list[Path], gguf_bytes: Build, problems: Problems) -> None:
    pairs = [u16("split.no", 2), u16("split.count", 3)]
    split[2].write_bytes(gguf_bytes(pairs, [("b", [4], 0, 0)], bytes(16)))
    assert problems(split[0]) == [
        "m-00001-of-00003.gguf: announces 3 tensors, and its 3 parts hold 2; fetch them again [bad-gguf]",
    ]


def test_a_part_whose_name_does_not_lead_to_the_others(split: list[Path], problems: Problems) -> None:
    split[0].rename(split[0].with_name("m.gguf"))
    assert problems(split[0].with_name("m.gguf")) == [
        "m.gguf: is one of 3 parts, and its name does not say how the others are called; "
        "name it as NAME-00001-of-00003.gguf [bad-gguf]",
    ]
