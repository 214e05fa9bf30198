"""eps in GGUF metadata. tests/frameworks/test_gguf.py compares with the gguf package."""

import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmsaudit.documents.gguf import eps_of_gguf, shortest_decimal
from rmsaudit.documents.problems import Refused

EpsOf = Callable[[bytes], tuple[float, str]]
KEY = "llama.attention.layer_norm_rms_epsilon"


@pytest.fixture
def eps_of(tmp_path: Path) -> EpsOf:
    def read(data: bytes) -> tuple[float, str]:
        path = tmp_path / "model.gguf"
        path.write_bytes(data)
        return eps_of_gguf(path)

    return read


def test_eps_is_the_decimal_that_was_written(eps_of: EpsOf, make_files: ModuleType) -> None:
    named = ("general.architecture", 8, make_files.string("llama"))
    for eps in (1e-5, 1e-6, 1e-12, 1.5625e-7, 0.1):
        stored = struct.pack("<f", eps)
        assert eps_of(make_files.gguf([named, (KEY, 6, stored)])) == (eps, KEY)
    assert eps_of(make_files.gguf([named, (KEY, 12, struct.pack("<d", 0.1))])) == (0.1, KEY)


def test_other_values_are_passed_over(eps_of: EpsOf, make_files: ModuleType) -> None:
    pairs = [
        ("u8", 0, b"\1"), ("i8", 1, b"\1"), ("u16", 2, bytes(2)), ("i16", 3, bytes(2)), ("u32", 4, bytes(4)),
        ("i32", 5, bytes(4)), ("f32", 6, bytes(4)), ("flag", 7, b"\1"), ("text", 8, make_files.string("x" * 70_000)),
        ("numbers", 9, struct.pack("<IQ", 3, 3) + bytes(6)),
        ("texts", 9, struct.pack("<IQ", 8, 2) + make_files.string("a") + make_files.string("")),
        ("u64", 10, bytes(8)), ("i64", 11, bytes(8)), ("f64", 12, bytes(8)),
        ("bert.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1)),
        (KEY, 6, struct.pack("<f", 1e-6)),
        ("general.architecture", 8, make_files.string("llama")),
    ]  # fmt: skip
    assert eps_of(make_files.gguf(pairs)) == (1e-6, KEY)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends in the middle"),
        (b"GGUF", "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "has a key of"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IQ", 8, 2**62), "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 10, 2**61), "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 8, 2**61), "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 1), "has an array of type 9"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 99), "has a value of type 99"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is GGUF for big-endian machines"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "gives no eps; looked for `<architecture>"),
        (b"\x80\x02}q", "is not GGUF"),
    ],
)
def test_refused(eps_of: EpsOf, data: bytes, says: str) -> None:
    with pytest.raises(Refused, match=says):
        eps_of(data)


def test_an_eps_that_is_no_float_is_refused(eps_of: EpsOf, make_files: ModuleType) -> None:
    named = ("general.architecture", 8, make_files.string("llama"))
    for kind, value in (
        (4, struct.pack("<I", 1)),
        (8, make_files.string("1e-5")),
        (6, struct.pack("<f", float("nan"))),
    ):
        with pytest.raises(Refused, match="eps must be a float above 0"):
            eps_of(make_files.gguf([named, (KEY, kind, value)]))


@given(st.floats(width=32, min_value=0, exclude_min=True, allow_infinity=False))
def test_the_shortest_decimal_rounds_to_the_stored_value_and_none_is_shorter(value: float) -> None:
    found = shortest_decimal(value)
    assert struct.pack("<f", found) == struct.pack("<f", value)
    digits = len(repr(found).split("e")[0].replace(".", "").strip("0"))
    for fewer in range(1, digits):
        try:
            assert struct.pack("<f", float(f"{value:.{fewer}g}")) != struct.pack("<f", value)
        except OverflowError:  # rounded up beyond float32
            continue
