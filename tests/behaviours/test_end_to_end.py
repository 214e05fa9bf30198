"""`rmsaudit compare --allow-code` with a pair of files: what the record, the summary and the exit code say."""

import shutil
from pathlib import Path

import pytest

from rmsaudit import behaviours
from rmsaudit.cli import run
from rmsaudit.documents.record import read_record

SIDE = """\
schema: rmsaudit/implementation/1
name: {name}
kind: python
python: {{function: 'sides.py:{name}'}}
norm: {{width: 64, eps: 1.0e-6}}
"""
DECLARED = """\
schema: rmsaudit/implementation/1
name: declared
kind: spec
norm: {width: 64, eps: 1.0e-6}
"""
LOOSE = """\
schema: rmsaudit/tolerance/1
rules:
  - {rule: ulp, max_ulp: 100, reason: this test is about what no tolerance looks at}
"""
WITHIN = "Rounding can explain what differs."  # the only finding of a side that keeps everything


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(Path(__file__).with_name("sides.py"), tmp_path)
    for name in ("honest", "normalises_in_place", "sums_in_blocks_by_load"):
        (tmp_path / f"{name}.yaml").write_text(SIDE.format(name=name))
    (tmp_path / "declared.yaml").write_text(DECLARED)
    (tmp_path / "loose.yaml").write_text(LOOSE)
    return tmp_path


def compare(reference, candidate, *words):
    fast = ["--category", "ordinary", "--rows", "2", "--no-ladder", "--allow-code", "--out", "record.yaml"]
    code = run(["compare", "--ref", f"{reference}.yaml", "--cand", f"{candidate}.yaml", *fast, *words])
    return code, read_record(Path("record.yaml"))


def test_either_side_is_told_and_the_outcome_stays_the_gates(folder, capsys):
    code, record = compare("normalises_in_place", "sums_in_blocks_by_load", "--tolerance", "loose.yaml")
    assert code == 0
    assert record.outcome == "accepted"
    found = {finding.cause: finding for finding in record.findings}
    assert found["input-changed"].claim == "The reference changes its input."
    assert found["input-changed"].declared_at.reference == "normalises_in_place"
    assert found["row-dependence"].claim.startswith("The candidate gives a row other bits")
    assert "ulp of float32" in found["row-dependence"].evidence
    assert found["row-dependence"].next_step
    for side in (record.reference, record.candidate):
        assert tuple(side.behaviours) == behaviours.names()
    assert record.reference.behaviours["rows"].verdict == "kept"
    assert record.candidate.behaviours["rows"].says + "." == found["row-dependence"].evidence
    assert "the reference breaks the behaviour untouched; the candidate breaks the behaviour rows" in record.summary
    printed = capsys.readouterr().out
    assert "row-dependence: The candidate gives a row other bits" in printed

    assert run(["gate", "record.yaml", "--tolerance", "loose.yaml"]) == 0
    assert "the candidate breaks the behaviour rows" in " ".join(capsys.readouterr().out.split())


def test_the_honest_side_has_no_finding_and_a_declared_one_is_not_asked(folder):
    code, record = compare("declared", "honest")
    assert code == 0
    assert {finding.claim for finding in record.findings} <= {WITHIN}
    assert record.reference.behaviours == {}
    assert tuple(record.candidate.behaviours) == behaviours.names()


def test_it_can_be_left_out(folder):
    _, record = compare("declared", "sums_in_blocks_by_load", "--no-behaviours")
    assert {finding.claim for finding in record.findings} <= {WITHIN}
    assert record.candidate.behaviours == {}
