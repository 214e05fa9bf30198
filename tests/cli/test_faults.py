"""Sides that go wrong, through compare: what the record says, the exit code, and that nothing is left running."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
MISBEHAVING = HERE.parent / "loaders" / "misbehaving.py"
LIMIT_SECONDS = 30  # for a process that is expected at once; never reached unless something hangs

DECLARED = """\
schema: rmsaudit/implementation/1
name: declared
kind: spec
norm: {width: 16, eps: 1e-5, inverse: divide_by_sqrt, accumulate_order: pairwise}
"""
PYTHON = """\
schema: rmsaudit/implementation/1
name: foreign
kind: python
python: {{function: "{function}", timeout: {timeout}}}
norm: {{width: 16, eps: 1e-5, inverse: divide_by_sqrt, accumulate_order: pairwise}}
"""
LIMITS = """\
schema: rmsaudit/tolerance/1
rules: [{rule: ulp, max_ulp: 64, reason: orders of 16 terms differ by less}]
"""
CODE = {
    "broken.py": "def norm(x, gain, eps:\n    return x\n",
    "imports.py": "import torchh.nn\n\n\ndef norm(x):\n    return x\n",
    "leaves.py": "exit()\n",
    "some.py": (
        "from misbehaving import honest\n\n\n"
        "def fails_at_33(x, gain, eps):\n"
        "    if x.shape[-1] == 33:\n"
        "        raise ValueError('33 is odd')\n"
        "    return honest(x, gain, eps)\n"
    ),
}
FEW = ("--category", "ordinary", "--rows", "2", "--no-ladder", "--no-behaviours")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "declared.yaml").write_text(DECLARED)
    (tmp_path / "limits.yaml").write_text(LIMITS)
    shutil.copy(MISBEHAVING, tmp_path)
    for name, text in CODE.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture(autouse=True)
def _in_the_folder(folder, rmsaudit, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture
def compare(rmsaudit, folder):
    """(function, *words) -> exit code and the record that was written."""

    def run(function, *words, timeout=20, inputs=FEW):
        files = arguments(folder, function, timeout)
        record = folder / "record.yaml"
        ran = rmsaudit("compare", *files, *inputs, "--allow-code", "--out", record, *words)
        assert "Traceback" not in ran.err
        return ran.code, yaml.safe_load(record.read_text())

    return run


def arguments(folder: Path, function: str, timeout: float = 20) -> list[object]:
    (folder / "foreign.yaml").write_text(PYTHON.format(function=function, timeout=timeout))
    return ["--ref", folder / "declared.yaml", "--cand", folder / "foreign.yaml"]


# --- consent ---------------------------------------------------------------------------------------------------------


def test_without_consent_nothing_runs_and_it_is_said_what_would(rmsaudit, folder):
    ran = rmsaudit("compare", *arguments(folder, "leaves.py:norm"), "--out", folder / "record.yaml")
    assert ran.code == 2
    assert "this would run the function norm of leaves.py with the Python that runs rmsaudit" in ran.err
    assert "add --allow-code" in ran.err
    assert not (folder / "record.yaml").exists()


def test_a_program_needs_consent_as_well(rmsaudit, folder):
    text = DECLARED.replace("kind: spec", "kind: command\ncommand: {argv: [rm, '-r', '{input}', '{output}']}")
    (folder / "foreign.yaml").write_text(text)
    ran = rmsaudit("compare", "--ref", folder / "declared.yaml", "--cand", folder / "foreign.yaml")
    assert ran.code == 2
    assert "this would run `rm -r '{input}' '{output}'`; if you trust it, add --allow-code" in ran.err


@pytest.mark.parametrize(("value", "code"), [("1", 3), ("yes", 2)])
def test_consent_by_the_environment_is_the_digit_1(rmsaudit, folder, monkeypatch, value, code):
    monkeypatch.setenv("RMSAUDIT_ALLOW_CODE", value)
    assert rmsaudit("compare", *arguments(folder, "leaves.py:norm"), *FEW).code == code


# --- every call fails ------------------------------------------------------------------------------------------------

FAULTS = {
    "nowhere.py:norm": "there is no file nowhere.py",
    "misbehaving.py:honets": "misbehaving.py has no honets; did you mean honest?",
    "no_such_package.norms:norm": "python -m pip install no_such_package",
    "broken.py:norm": "cannot be read: broken.py:1:9: '(' was never closed",
    "imports.py:norm": "needs torchh, which its Python does not have (imports.py:1); if that is a package:"
    " python -m pip install torchh",
    "leaves.py:norm": "called exit() (leaves.py:1)",
    "misbehaving.py:raises": "raised ValueError: width 16 is not a multiple of 128",
    "misbehaving.py:exits": "called exit(3)",
    "misbehaving.py:segfaults": "died of SIGSEGV (segmentation fault)",
    "misbehaving.py:returns_one_short": "returned shape (2, 15); the input has (2, 16)",
    "misbehaving.py:returns_a_generator": "returned a generator, not an array of numpy",
    "misbehaving.py:returns_none": "returned None, not an array of numpy",
    "misbehaving.py:returns_complex": "returned complex64; what is compared is one of float64, float32",
}


@pytest.mark.parametrize("function", FAULTS)
def test_a_side_that_never_answers_could_not_run(compare, function):
    code, record = compare(function, "--tolerance", "limits.yaml")
    assert (code, record["outcome"]) == (3, "could_not_run")
    (failure,) = record["results"]["ordinary"]["failures"]
    assert failure.startswith(f"candidate, ordinary: {function} ")
    assert FAULTS[function] in failure
    assert record["reference"]["name"] == "declared"  # nothing else of the record is lost


def test_an_endless_loop_ends_at_its_limit(compare):
    code, record = compare("misbehaving.py:loops", timeout=1)
    assert code == 3
    assert "was still running after 1 s (misbehaving.py:" in record["results"]["ordinary"]["failures"][0]


def test_output_without_end_is_counted_and_not_kept(compare, folder):
    code, record = compare("misbehaving.py:floods_for_ever", timeout=1)
    assert code == 3
    (failure,) = record["results"]["ordinary"]["failures"]
    assert "bytes ...]" in failure
    assert (folder / "record.yaml").stat().st_size < 100_000


def test_half_a_gigabyte_of_output_changes_nothing(compare):
    code, record = compare("misbehaving.py:floods", "--tolerance", "limits.yaml")
    assert (code, record["outcome"]) == (0, "accepted")


def test_a_failing_reference_is_told_from_a_failing_candidate(rmsaudit, folder):
    _, reference, _, candidate = arguments(folder, "misbehaving.py:exits")
    ran = rmsaudit("compare", "--ref", candidate, "--cand", reference, *FEW, "--allow-code", "--format", "json")
    assert ran.code == 3
    assert json.loads(ran.out)["results"]["ordinary"]["failures"][0].startswith("reference, ordinary: ")


# --- some calls fail, or all come back with something else -----------------------------------------------------------


def test_the_cells_that_failed_are_rejected_and_the_others_judged(compare):
    inputs = (
        "--category",
        "ordinary",
        "--category",
        "tail",
        "--category",
        "scale",
        "--rows",
        "2",
        "--no-ladder",
        "--no-behaviours",
    )
    code, record = compare("some.py:fails_at_33", "--tolerance", "limits.yaml", inputs=inputs)
    assert (code, record["outcome"]) == (1, "rejected")
    verdicts = {name: result["verdict"] for name, result in record["results"].items()}
    assert verdicts == {"tail": "rejected", "ordinary": "accepted", "scale": "accepted"}
    tail = record["results"]["tail"]
    assert "33 is odd" in tail["because"]
    assert tail["elements"] > 0  # the other widths of the category were compared


def test_nan_everywhere_is_rejected_as_numbers_are(compare):
    code, record = compare("misbehaving.py:returns_nan", "--tolerance", "limits.yaml")
    assert (code, record["outcome"]) == (1, "rejected")
    assert "NaN or infinite on one side only" in record["results"]["ordinary"]["because"]


def test_an_honest_side_is_accepted(compare):
    """The twin of all of the above; its belief holds, and how it was called is noted."""
    code, record = compare("misbehaving.py:honest", "--tolerance", "limits.yaml")
    assert (code, record["outcome"]) == (0, "accepted")
    assert record["candidate"]["belief"]["holds"] in ("bit_equal", "up_to_order")
    assert any(note.startswith("called as ") for note in record["candidate"]["notes"])
    assert set(record["candidate"]["versions"]) >= {"python", "numpy"}
    assert set(record["candidate"]["code"]) == {"misbehaving.py"}


@pytest.mark.parametrize(
    ("function", "note"),
    [("changes_its_input", "changed gain and x in place"), ("returns_its_input", "returned memory of x")],
)
def test_what_is_no_fault_and_worth_knowing_is_a_note(compare, function, note):
    _, record = compare(f"misbehaving.py:{function}")
    assert any(note in said for said in record["candidate"]["notes"])


@pytest.mark.parametrize(("init", "skipped"), [("[16]", 4), ("[$width]", 0)])
def test_a_class_made_for_one_width_is_not_fed_another(rmsaudit, folder, init, skipped):
    text = PYTHON.format(function="x", timeout=20)
    section = f'module: "misbehaving.py:Layer", init: {init}, gain: weight'
    (folder / "foreign.yaml").write_text(text.replace('function: "x"', section))
    words = ["--ref", folder / "declared.yaml", "--cand", folder / "foreign.yaml", "--allow-code", *FEW]
    ran = rmsaudit("compare", *words, "--category", "tail", "--format", "json")
    assert ran.code == 0
    record = json.loads(ran.out)
    assert record["results"]["tail"]["failures"] == []
    reason = record["battery"]["categories"]["tail"]["skipped"] or ""
    assert reason.count("is constructed for one width; write $width in `init:` if it takes others") == skipped


# --- nothing is left -------------------------------------------------------------------------------------------------


def is_alive(process: int) -> bool:
    """False for a process that is gone, or dead and only not yet collected."""
    try:
        os.kill(process, 0)
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_for(condition) -> bool:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("function", ["leaves_a_daemon", "leaves_a_daemon_and_dies"])
def test_no_orphan_after_the_end(compare, folder, function):
    compare(f"misbehaving.py:{function}")
    assert not is_alive(int((folder / "daemon.pid").read_text()))


def test_no_orphan_and_no_record_after_an_interruption(folder):
    words = arguments(folder, "misbehaving.py:leaves_a_daemon_and_sleeps")
    command = [sys.executable, "-m", "rmsaudit", "compare", *words, *FEW, "--allow-code", "--out", "record.yaml"]
    before = set(folder.iterdir())
    ran = subprocess.Popen([str(word) for word in command], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert wait_for((folder / "daemon.pid").exists)
        ran.send_signal(signal.SIGINT)
        _, err = ran.communicate(timeout=LIMIT_SECONDS)
    finally:
        ran.kill()
    assert ran.returncode == 130
    assert err.strip() == "interrupted; nothing was written"
    assert wait_for(lambda: not is_alive(int((folder / "daemon.pid").read_text())))
    assert set(folder.iterdir()) - before == {folder / "daemon.pid"}
