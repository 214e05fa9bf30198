"""Every file in ok/ is read in silence; every file in err/ is refused with exactly the lines beside it."""

from pathlib import Path
from types import ModuleType

import pytest

from rmsaudit import categories
from rmsaudit.documents.implementation import read_implementation
from rmsaudit.documents.tolerance import read_tolerance
from rmsaudit.errors import InputProblem

IMPLEMENTATIONS = Path(__file__).parents[2] / "fixtures" / "implementations"
OK = sorted(path.stem for path in (IMPLEMENTATIONS / "ok").glob("*.yaml"))
ERR = sorted(path.stem for path in (IMPLEMENTATIONS / "err").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_fixtures(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fixtures)  # so that the paths in messages are the same everywhere


@pytest.mark.parametrize("name", OK)
def test_ok_is_silent(name: str) -> None:
    read_implementation(Path(f"implementations/ok/{name}.yaml"), {})


@pytest.mark.parametrize("name", ERR)
def test_err_says_what_stands_beside_it(name: str) -> None:
    said = Path(f"implementations/err/{name}.out").read_text(encoding="utf-8")
    with pytest.raises(InputProblem) as caught:
        read_implementation(Path(f"implementations/err/{name}.yaml"), {})
    assert f"{caught.value}\n" == said


TOLERANCES = Path(__file__).parents[2] / "fixtures" / "tolerances"


@pytest.mark.parametrize("name", sorted(path.stem for path in (TOLERANCES / "ok").glob("*.yaml")))
def test_an_ok_tolerance_is_silent(name: str) -> None:
    read_tolerance(Path(f"tolerances/ok/{name}.yaml"), categories.names())


@pytest.mark.parametrize("name", sorted(path.stem for path in (TOLERANCES / "err").glob("*.yaml")))
def test_an_err_tolerance_says_what_stands_beside_it(name: str) -> None:
    with pytest.raises(InputProblem) as caught:
        read_tolerance(Path(f"tolerances/err/{name}.yaml"), categories.names())
    assert f"{caught.value}\n" == Path(f"tolerances/err/{name}.out").read_text(encoding="utf-8")


def test_every_pair_is_whole() -> None:
    assert len(list((TOLERANCES / "err").glob("*.out"))) == len(list((TOLERANCES / "err").glob("*.yaml"))) > 20
    assert sorted(path.stem for path in (IMPLEMENTATIONS / "err").glob("*.out")) == ERR
    assert len(OK) > 10
    assert len(ERR) > 90


NAMED = """unknown-key duplicate-key eps-zero eps-negative eps-nan eps-infinite eps-quoted eps-yes eps-base-60 eps-octal
eps-null eps-vanishes unknown-dtype width-zero width-of-gain gain-missing gain-file-short gain-file-length
gain-file-beyond alias-bomb tag two-documents empty not-utf8 eps-config-disagrees"""


def test_what_was_asked_to_be_refused_by_name_has_a_pair() -> None:
    """A directory, an unreadable file and a header of gigabytes cannot be stored: test_source.py, test_tensors.py."""
    assert set(NAMED.split()) <= set(ERR)


def test_the_files_they_point_to_are_what_the_script_makes(make_files: ModuleType) -> None:
    made = make_files.build()
    stored = {
        path.relative_to(IMPLEMENTATIONS / "files").as_posix(): path.read_bytes()
        for path in (IMPLEMENTATIONS / "files").rglob("*")
        if path.is_file()
    }
    assert stored == made
