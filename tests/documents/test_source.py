"""YAML to nodes: positions, and everything that is refused before a value is looked at."""

import re
from pathlib import Path

import pytest
import yaml

from rmsaudit.documents import source
from rmsaudit.documents.files import MOST_BYTES
from rmsaudit.documents.implementation import read_implementation
from rmsaudit.documents.nodes import Mapping, Mark, Scalar, Sequence
from rmsaudit.documents.source import parse, parse_flag, read_source
from rmsaudit.errors import InputProblem


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def _each_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML with libyaml, and the pure Python one that is there where libyaml is not."""
    monkeypatch.setattr(source, "_LOADER", getattr(yaml, request.param))


def kinds(data: bytes | str) -> list[tuple[int | None, int | None, str]]:
    """Line, column and kind of every problem; those that do not stop the reading included."""
    try:
        problems = parse(data.encode() if isinstance(data, str) else data, "f.yaml").problems
    except InputProblem as refused:
        problems = refused.problems
    return [(p.line, p.column, p.kind) for p in problems]


@pytest.mark.usefixtures("_each_parser")
class TestBothParsers:
    def test_every_value_knows_its_place(self) -> None:
        tree = parse("# é\na: 1e-6\nb:\n  - 'x'\n  - {c: y}\n".encode(), "f")
        assert tree.at("a") == Scalar("1e-6", plain=True, mark=Mark(2, 4))
        assert tree.at("b", 0) == Scalar("x", plain=False, mark=Mark(4, 5))
        assert tree.at("b", 1, "c") == Scalar("y", plain=True, mark=Mark(5, 9))
        assert tree.mark_of("b") == Mark(4, 3)

    def test_columns_count_characters(self) -> None:
        assert parse("{é: ü, a: b}".encode(), "f").mark_of("a") == Mark(1, 11)

    def test_a_byte_order_mark_takes_no_column(self) -> None:
        assert parse("\ufeffa: b".encode(), "f").mark_of("a") == Mark(1, 4)

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("", [(None, None, "empty-file")]),
            ("# only a comment\n", [(None, None, "empty-file")]),
            ("---\n...\n", [(None, None, "empty-file")]),
            ("- a\n", [(1, 1, "wrong-shape")]),
            ("just text\n", [(1, 1, "wrong-shape")]),
            ("a: 1\nb: 2\na: 3\n", [(3, 1, "duplicate-key")]),
            ("a: 1\n'a': 3\n", [(2, 1, "duplicate-key")]),
            ("a: !!str 1\n", [(1, 4, "tag")]),
            ("a: !x [1]\n", [(1, 4, "tag")]),
            ("!x\na: 1\n", [(1, 1, "tag")]),
            ("a: &x 1\nb: *x\n", [(2, 4, "alias")]),
            ("a: &x {b: *x}\n", [(1, 11, "alias")]),
            ("<<: {a: 1}\n", [(1, 1, "merge-key")]),
            ("a: 1\n---\nb: 2\n", [(2, 1, "several-documents")]),
            ("a: 1\n---\n---\n", [(2, 1, "several-documents")]),
            ("a: [1\n", [(2, 1, "syntax")]),
            ("a: b: c\n", [(1, 5, "syntax")]),
            ("a: 'b\n", [(2, 1, "syntax")]),
            ("%YAML 3.0\n---\na: 1\n", [(1, 1, "syntax")]),
            ("a: \x07\n", [(1, 4, "bad-character")]),
            ("? [a]\n: 1\n", [(1, 3, "bad-key")]),
            ("{a: b}: 1\n", [(1, 1, "bad-key")]),
        ],
    )
    def test_refused(self, text: str, found: list[tuple[int | None, int | None, str]]) -> None:
        assert kinds(text) == found

    @pytest.mark.parametrize(
        "key",
        [
            "yes",
            "No",
            "ON",
            "off",
            "y",
            "true",
            "null",
            "~",
            "1",
            "1e5",
            ".5",
            "017",
            "1:30",
            "2026-01-01",
            ".nan",
            "-.inf",
        ],
    )
    def test_a_key_that_is_not_text_everywhere(self, key: str) -> None:
        assert kinds(f"{key}: 1\n") == [(1, 1, "bad-key")]
        assert kinds(f"'{key}': 1\n") == []

    def test_everything_is_said_at_once(self) -> None:
        text = "a: !t 1\na: 2\nyes: 3\n<<: 4\nb: *x\nc: [\n"
        assert [kind for _, _, kind in kinds(text)] == [
            "tag",
            "duplicate-key",
            "bad-key",
            "merge-key",
            "alias",
            "syntax",
        ]

    @pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
    def test_deep_nesting_ends_at_a_limit(self, opening: str) -> None:
        assert [kind for _, _, kind in kinds("a:\n  " + opening * 100_000)] == ["too-deep"]

    def test_nesting_up_to_the_limit_is_read(self) -> None:
        depth = source.DEEPEST - 1  # the document's own mapping is the first level
        assert kinds("a: " + "[" * depth + "]" * depth) == []
        assert kinds("a: " + "[" * (depth + 1) + "]" * (depth + 1)) == [(1, 4 + depth, "too-deep")]

    def test_a_bomb_of_aliases_costs_nothing(self) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
        assert [kind for _, _, kind in kinds("\n".join(lines))] == ["alias"] * 90

    def test_problems_end_somewhere(self) -> None:
        found = kinds("a: [" + "*x, " * 5000)
        assert len(found) == 101
        assert found[-1][2] == "too-many"


def test_a_repeated_key_says_where_the_first_one_stood() -> None:
    (problem,) = parse(b"a: 1\nb: 2\na: 3\n", "f.yaml").problems
    assert str(problem) == "f.yaml:3:1: `a` is given twice; first on line 1; keep one of them [duplicate-key]"
    assert parse(b"a: 1\nb: 2\na: 3\n", "f.yaml").at("a") == Scalar("1", plain=True, mark=Mark(1, 4))


def test_bytes_that_are_not_utf8_are_shown_where_they_are() -> None:
    assert kinds(b"a: 1\nb: caf\xe9\n") == [(2, 7, "not-utf8")]
    assert kinds("a: 1\n".encode("utf-16")) == [(1, 1, "not-utf8")]


def test_a_flag_has_no_places() -> None:
    tree = parse_flag("{config: ./config.json}", "--set cand.eps")
    assert isinstance(tree.root, Mapping)
    assert tree.mark_of("config") is None
    assert parse_flag("[-2, -1]", "f").root == Sequence(
        (Scalar("-2", plain=True, mark=None), Scalar("-1", plain=True, mark=None)), None
    )
    assert parse_flag("", "f").root == Scalar("", plain=True, mark=None)


@pytest.mark.parametrize("text", ["[", "a: b: c", "!t 1", "*x", "\x00", "---\na\n---\nb"])
def test_a_flag_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InputProblem, match=r"^--set cand\.eps: "):
        parse_flag(text, "--set cand.eps")


def refusal(path: Path) -> str:
    with pytest.raises(InputProblem) as caught:
        read_source(path)
    return str(caught.value)


def test_what_cannot_be_read_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")  # unreadable for everyone, root included
    assert refusal(Path("folder")) == "folder: is a directory; name a file in it [directory]"
    assert refusal(Path("no.yaml")) == "no.yaml: does not exist; check the path [no-such-file]"
    assert re.fullmatch(
        r"loop: cannot be read \(.+\); check the path and its permissions \[unreadable\]", refusal(Path("loop"))
    )
    assert refusal(Path("a\0b")).endswith("is no path a system could have; check it [unreadable]")


def test_a_huge_file_is_not_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse
    assert "larger than 8 MiB" in refusal(path)
    with path.open("wb") as file:
        file.write(b"a: b #")
        file.truncate(MOST_BYTES)
    assert "[bad-character]" in refusal(path)  # of the largest size, so it is read; and then it holds NULs


def test_the_digest_is_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1\r\n")
    assert read_source(path).digest == (  # sha256sum
        "db9bda4272ee21cda5ff1d213fa8366a2cca3143c5a795bdcd5f75a85106033d"
    )


@pytest.mark.usefixtures("_each_parser")
@pytest.mark.parametrize("escape", [r"\e", r"\0", r"\x9b", r"\a"])
def test_what_cannot_stand_in_a_document_cannot_come_by_an_escape(escape: str) -> None:
    assert kinds(f'a: "b{escape}[31m"\n') == [(1, 4, "bad-character")]


def test_a_broken_path_cannot_forge_a_line(tmp_path: Path) -> None:
    eps = r'{config: "no\nb.yaml:1:1: forged"}'
    text = f"schema: rmsaudit/implementation/1\nname: x\nkind: spec\nnorm: {{width: 4, eps: {eps}}}\n"
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputProblem) as caught:
        read_implementation(tmp_path / "a.yaml", {})
    assert str(caught.value).endswith(r"no\nb.yaml:1:1: forged does not exist; check the path [no-such-file]")
