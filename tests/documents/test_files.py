"""Bytes, or why there are none."""

import os
from pathlib import Path

import pytest

from rmsaudit.documents.files import opened, read_bytes
from rmsaudit.documents.problems import Refused


def test_a_file_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 2**20)
    assert len(read_bytes(path, most=2**20)) == 2**20
    path.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(Refused, match="is larger than 1 MiB"):
        read_bytes(path, most=2**20)


def test_a_pipe_is_as_good_as_a_file(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a: 1\n")
    os.close(writer)
    assert read_bytes(Path(f"/dev/fd/{reader}")) == b"a: 1\n"
    os.close(reader)


def test_an_endless_file_is_not_taken_in() -> None:
    with pytest.raises(Refused, match="is larger than 8 MiB"):
        read_bytes(Path("/dev/zero"))


def test_an_error_while_reading_is_told_like_one_while_opening(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    with pytest.raises(Refused, match=r"cannot be read \(worn out\)"), opened(path):
        raise OSError(5, "worn out")


@pytest.mark.parametrize(
    ("name", "kind"), [(".", "directory"), ("no", "no-such-file"), ("file/x", "no-such-file"), ("a\0b", "unreadable")]
)
def test_refused(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused) as caught:
        read_bytes(tmp_path / name)
    assert caught.value.kind == kind
