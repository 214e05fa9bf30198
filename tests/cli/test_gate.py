"""gate: the same verdict as compare's, from the record alone."""

import subprocess
import sys

import pytest

LIMITS = [
    "{rule: ulp, max_ulp: 222}",
    "{rule: ulp, max_ulp: 223}",
    "{rule: sum, atol: 2, rtol: 0}",
    "{rule: sum, atol: 0.5, rtol: 0.5}",
    "{rule: either, atol: 0.001, rtol: 2.2}",
    "{rule: either, atol: 0.001, rtol: 2.1}",
    "{rule: max, atol: 0.7, rtol: 0.0079}",
    "{rule: ratio, ratio: 300, floor_ulp: 1}",
    "{rule: exact}",
]


@pytest.fixture
def record(rmsaudit, quickstart, tolerance, tmp_path):
    path = tmp_path / "record.yaml"
    rmsaudit("compare", *quickstart, *tolerance, "--out", path)
    return path


@pytest.mark.parametrize("limit", LIMITS)
def test_gate_on_a_stored_record_is_compare_under_the_same_limit(rmsaudit, quickstart, record, tmp_path, limit):
    other = tmp_path / "other.yaml"
    other.write_text(f"schema: rmsaudit/tolerance/1\nrules: [{limit}]\n")
    assert (
        rmsaudit("gate", record, "--tolerance", other).code
        == rmsaudit("compare", *quickstart, "--tolerance", other).code
    )


def test_judging_again_by_the_same_file_changes_nothing(rmsaudit, record, tolerance, tmp_path):
    again = tmp_path / "again.yaml"
    assert rmsaudit("gate", record, *tolerance, "--out", again).code == 1
    assert again.read_bytes() == record.read_bytes()


def test_a_limit_below_the_formats_resolution_is_refused_where_it_stands(rmsaudit, record, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("schema: rmsaudit/tolerance/1\nrules:\n  - {rule: sum, atol: 0, rtol: 1e-5}\n")
    ran = rmsaudit("gate", record, "--tolerance", other)
    assert ran.code == 2
    assert ran.err.startswith(f"{other}:3:")
    assert "0.00390625" in ran.err


def test_a_row_for_an_unknown_category_is_refused(rmsaudit, record, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(
        "schema: rmsaudit/tolerance/1\nrules:\n  - {rule: exact}\n  - {when: {category: near-epz}, rule: exact}\n"
    )
    ran = rmsaudit("gate", record, "--tolerance", other)
    assert ran.code == 2
    assert "near-eps" in ran.err


CHILD = """
import sys
from rmsaudit.cli import run
code = run({arguments!r})
print("numpy" in sys.modules, code, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("command", "loads_numpy"),
    [("gate", "False"), ("show", "False"), ("resolve", "False"), ("--help", "False"), ("compare", "True")],
)
def test_the_paper_half_does_without_numpy_and_its_twin_does_not(record, tolerance, quickstart, command, loads_numpy):
    arguments = {
        "gate": ["gate", str(record), *tolerance],
        "show": ["show", str(record)],
        "resolve": ["resolve", quickstart[1]],
        "--help": ["--help"],
        "compare": ["compare", *quickstart, "--category", "zero"],
    }[command]
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(arguments=arguments)], capture_output=True, text=True, check=True
    )
    assert done.stderr.split()[-2] == loads_numpy
