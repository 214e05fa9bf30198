"""Presets: packaged files, each readable, named as its file, and able to become a spec."""

from pathlib import Path

import pytest

from rmsaudit.documents import preset
from rmsaudit.documents.preset import preset_names, read_preset
from rmsaudit.errors import InputProblem
from rmsaudit.semantics.resolve import resolve

PRESETS = Path(preset.__file__).parents[1] / "presets"


def test_every_file_is_a_preset() -> None:
    assert preset_names() == sorted(path.stem for path in PRESETS.iterdir())
    assert "transformers-llama" in preset_names()


@pytest.mark.parametrize("name", preset_names())
def test_each_preset_resolves(name: str) -> None:
    found = read_preset(name)
    assert found.name == name
    assert found.about
    assert found.source.project
    resolve({"width": 64, **found.values})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(preset, "_folder", lambda: tmp_path)
    return tmp_path


GOOD = """schema: rmsaudit/preset/1
name: here
about: A norm for a test.
source: {project: p/q, version: "1", file: f.py}
norm: {eps: null, compute_dtype: f32}
"""


def test_values_are_as_written_and_eps_may_be_null(folder: Path) -> None:
    (folder / "here.yaml").write_text(GOOD)
    (folder / "README").write_text("no preset")
    assert preset_names() == ["here"]
    assert read_preset("here").values == {"eps": None, "compute_dtype": "float32"}


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("name: here", "name: there", "2:7: name must be that of the file; write here [other-name]"),
        ('version: "1"', "release: 1", "4:9: version is missing; add `version: 5.24.0` [missing-key]"),
        ("eps: null", "eps: {config: x}", "5:13: eps must be a number, and stands as a mapping"),
        ("about: A norm for a test.", "about: ''", "3:8: about is empty; fill it in [too-short]"),
    ],
)  # fmt: skip
def test_a_broken_preset_is_told_like_any_document(folder: Path, was: str, becomes: str, said: str) -> None:
    (folder / "here.yaml").write_text(GOOD.replace(was, becomes))
    with pytest.raises(InputProblem) as caught:
        read_preset("here")
    assert f"presets/here.yaml:{said}" in str(caught.value)
