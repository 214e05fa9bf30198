"""Whatever the bytes are: a document, or InputProblem with at least one problem; never another exception."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rmsaudit.documents import source
from rmsaudit.documents.binding import read_model
from rmsaudit.documents.implementation import read_implementation
from rmsaudit.documents.schema import DOCUMENTS
from rmsaudit.documents.source import parse, parse_flag
from rmsaudit.errors import InputProblem
from rmsaudit.semantics import variables

PIECES = [
    *("schema: rmsaudit/implementation/1\n", "name: x\n", "kind: spec\n", "norm:\n", "gain:", "preset: "),
    *(f"  {name}: " for name in variables()),
    *("  width: 4\n", "1e-6", " {file: a, tensor: b}\n", "null", "yes", "0x1p-2", "1:30", "017", "<<"),
    *(
        "- ",
        "? ",
        ": ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&a ",
        "*a",
        "!!t ",
        "!",
        "|\n",
        ">\n",
        "'",
        '"',
        "#",
        "\n",
        "  ",
        "\t",
    ),
    *("---\n", "...\n", "%YAML 1.2\n", "%TAG ! x\n", "\\x", "\\U0010ffff", "\\ud800"),
    *("\u2028", "\x85", "\ufeff", "é", "𝛾", "\0"),
]
yaml_like = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def _each_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_LOADER", getattr(yaml, request.param))


def refusal(read: Callable[..., object], *arguments: object) -> InputProblem | None:
    """What `read` refused with, or None where it gave something; every other exception is the failure looked for."""
    try:
        read(*arguments)
    except InputProblem as refused:
        str(refused).encode()  # lone surrogates could not be printed
        return refused
    return None


def says_something(refused: InputProblem | None) -> bool:
    return refused is None or len(refused.problems) > 0


@pytest.mark.usefixtures("_each_parser")
@shared_folder
@given(st.binary(max_size=60) | yaml_like.map(lambda text: text.encode()))
@example(b'a: "\\ud800"')
@example(b'"\\ud800": 1')
@example(b'a: "\\U99999999"')
@example(b"%YAML " + b"9" * 5000 + b".1\n---\na: 1")
@example(b"a: !<\xc3\xa9> 1")
@example(b"%TAG !e! tag:x,2000:\n---\n!e!x a: 1")
def test_any_bytes(data: bytes) -> None:
    refused = refusal(parse, data, "f.yaml")
    assert says_something(refused)
    if refused is None:
        tree = parse(data, "f.yaml")
        assert all(says_something(refusal(read_model, model(), tree)) for model in DOCUMENTS.values())


@shared_folder
@given(yaml_like)
def test_any_value_of_a_flag(text: str) -> None:
    assert says_something(refusal(parse_flag, text, "--set cand.eps"))


overrides = st.dictionaries(st.sampled_from(["cand.eps", "ref.width", "x", "a.b.groups"]), yaml_like, max_size=2)


@shared_folder
@given(yaml_like, overrides)
def test_any_implementation(tmp_path: Path, text: str, flags: dict[str, str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(f"schema: rmsaudit/implementation/1\nname: x\nkind: spec\nnorm:\n  width: 8\n{text}".encode())
    assert says_something(refusal(read_implementation, path, flags))


def test_the_twin_that_must_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that leaks another exception would be seen above."""
    monkeypatch.setattr(source, "_LOADER", None)
    with pytest.raises(TypeError):
        refusal(parse, b"a: 1", "f.yaml")
