"""The explainer through the command line, on code that really runs in a process of its own."""

import pytest
import yaml

from rmsaudit.cli import run

KERNEL = """
import numpy as np

def norm(x, gain, eps):
    wide = x.astype(np.float32)
    ms = (wide * wide).mean(-1, keepdims=True)
    return (wide * (np.float32(1) / (np.sqrt(ms) + np.float32(3e-6))) * gain).astype(x.dtype)
"""
REFERENCE = "{schema: rmsaudit/implementation/1, name: ours, kind: spec, norm: {width: 64, eps: 1e-5}}"
CANDIDATE = """
schema: rmsaudit/implementation/1
name: kernel
kind: python
python: {function: "kernel.py:norm"}
norm: {width: 64, eps: 1e-5}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in (("kernel.py", KERNEL), ("ref.yaml", REFERENCE), ("cand.yaml", CANDIDATE)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_compare_tells_the_cause_first_with_its_numbers(folder):
    command = ["compare", "--ref", "ref.yaml", "--cand", "cand.yaml", "--allow-code", "--out", "record.yaml"]
    assert run([*command, "--rows", "8"]) == 0
    found = yaml.safe_load((folder / "record.yaml").read_text())["findings"][0]
    assert found["cause"] == "eps-placement"
    assert found["candidate_value"] == "outside_sqrt"
    assert found["explains"] == 1.0
    assert "near-eps" in found["seen_in"]


def test_identify_prints_the_spec_and_the_nearest_presets(folder, capsys):
    assert run(["identify", "cand.yaml", "--allow-code", "--rows", "8"]) == 0
    printed = capsys.readouterr().out
    assert "eps_placement: outside_sqrt" in printed
    assert "eps: 3e-06" in printed
    assert "Nearest presets" in printed
