"""What is generated is what is checked in: schemas, tables, and every command in the docs with exactly its output."""

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
SCRIPT = TOP / ".ci" / "generated.py"


def test_schemas_tables_and_shown_outputs_are_true() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_a_stale_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the same check, on a README with another number in it, fails."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("generated", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    generated = module_from_spec(spec)
    spec.loader.exec_module(generated)
    monkeypatch.chdir(TOP)
    text = "```console\n$ rmsaudit attenuation --eps 1e-6\nnothing\n```\n"
    assert "49.2512562814" in generated.fresh(text)
    assert generated.fresh(generated.fresh(text)) == generated.fresh(text) != text
