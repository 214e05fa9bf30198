"""Programs as sides: the documented ones run, and none of the ways to fail gets past its own case."""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from rmsaudit.arrays import bits, dtype_of
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.errors import InputProblem
from rmsaudit.formats import FORMATS
from rmsaudit.loaders import Failed, Ran
from rmsaudit.loaders.command import CommandSection, CommandSide, load
from rmsaudit.loaders.recorded import Origin, RecordedSection, export_cases
from rmsaudit.loaders.recorded import load as load_recorded
from rmsaudit.semantics.resolve import resolve

ROOT = Path(__file__).parents[2]
COMMANDS = ROOT / "fixtures" / "commands"
DOCUMENT = (ROOT / "docs" / "commands.md").read_text()

# Hands x back as y: the header's first "x" becomes "y". Needs no package.
ECHO = """
import sys
data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(data.replace(b'"x":{', b'"y":{', 1))
"""


def a_case(dtype: str = "float32", rows: int = 3, width: int = 64, *, seed: int = 0) -> Case:
    drawn = np.random.default_rng(seed)
    kind = dtype_of(dtype)
    x = drawn.normal(size=(rows, width)).astype(np.float32).astype(kind)
    gain = drawn.normal(size=width).astype(np.float32).astype(kind)
    zeros = np.broadcast_to(kind.type(0), x.shape)
    return Case(category="ordinary", label="a b; c", x=x, gain=gain, bias=zeros[0], residual=zeros)


def side(home: Path, *argv: str, declared: dict[str, Any] | None = None, **section: Any) -> CommandSide:
    declared = {"width": 64, **(declared or {})}
    return load(
        CommandSection(argv=argv, **section),
        declared=declared,
        spec=resolve(declared),
        gain=None,
        home=home,
        allow_code=True,
    )


def shell(home: Path, script: str, **section: Any) -> CommandSide:
    """A side whose program is a shell script: $1 is the input, $2 the output."""
    return side(home, "sh", "-c", script, "sh", "{input}", "{output}", **section)


def fails(observed: object) -> str:
    assert isinstance(observed, Failed)
    return observed.says


# --- what the documentation shows ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the C program, built as its first comment says."""
    folder = tmp_path_factory.mktemp("built")
    source = COMMANDS / "rms_norm.c"
    build = re.search(r"Build: (.*) \*/", source.read_text())
    assert build is not None
    command = build[1].replace("rms_norm.c", str(source)).split()
    subprocess.run([*command, "-Wall", "-Wextra", "-Werror"], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("name", ["rms_norm.c", "over_ssh.sh", "c.yaml", "over_ssh.yaml"])
def test_the_document_shows_the_files_that_are_run(name: str) -> None:
    assert (COMMANDS / name).read_text() in DOCUMENT


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 64), (257, 33)])
def test_the_c_program_is_its_declared_spec_bit_for_bit(rows: int, width: int, built: Path) -> None:
    declared = {"width": width, "eps": 1e-6, "input_dtype": "float32", "accumulate_order": "sequential"}
    program = side(built, "./rms_norm", "{input}", "{output}", "{eps}", declared=declared)
    case = a_case(rows=rows, width=width)
    seen = program.observe(case)
    assert isinstance(seen, Ran)
    assert np.array_equal(bits(seen.output), bits(emulate(program.spec, case)))


def test_the_c_program_uses_the_eps_that_it_is_given(built: Path) -> None:
    program = side(built, "./rms_norm", "{input}", "{output}", "{eps}", declared={"accumulate_order": "sequential"})
    case = replace(a_case(), x=np.full((1, 64), 1e-3, np.float32), gain=np.ones(64, np.float32))
    seen = [program.call(case, eps=eps) for eps in (1e-6, 1e-4)]
    assert [float(one.output[0, 0]) for one in seen if isinstance(one, Ran)] == pytest.approx([2**-0.5, 101**-0.5])


def test_what_the_c_program_says_comes_through(built: Path) -> None:
    says = fails(side(built, "./rms_norm", "{input}", "{output}").observe(a_case()))
    assert "exit code 2" in says
    assert "usage: rms_norm INPUT OUTPUT EPS" in says
    says = fails(
        side(built, "./rms_norm", "{input}", "{output}", "{eps}", declared={"input_dtype": "float16"}).observe(
            a_case("float16")
        )
    )
    assert "no float32 tensor x" in says


def test_the_ssh_script_carries_both_files_and_the_exit_code(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ssh` here is a script that runs the remote command by a shell, in a home folder of its own."""
    (built / "home").mkdir()
    (built / "home" / "rms_norm").symlink_to(built / "rms_norm")
    fake = built / "bin" / "ssh"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n[ "$3" = build-box ] || exit 9\ncd {built}/home\nexec sh -c "$4"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    script = str(COMMANDS / "over_ssh.sh")
    declared = {"accumulate_order": "sequential"}
    program = side(built, script, "build-box", "{input}", "{output}", "{eps}", declared=declared)
    case = a_case()
    seen = program.observe(case)
    assert isinstance(seen, Ran)
    assert np.array_equal(seen.output, emulate(program.spec, case))
    assert [path.name for path in (built / "home").iterdir()] == ["rms_norm"]
    (built / "home" / "rms_norm").unlink()
    assert "exit code 127" in fails(program.observe(case))
    assert "exit code 9" in fails(side(built, script, "other", "{input}", "{output}", "{eps}").observe(case))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_numpy_script_makes_outputs_that_are_found(dtype: str, tmp_path: Path) -> None:
    script = re.search(r"```python\n(# run_numpy\.py.*?)```", DOCUMENT, re.DOTALL)
    assert script is not None
    cases = [a_case(dtype, seed=seed) for seed in range(3)]
    export_cases(cases, tmp_path / "inputs.safetensors", Origin(battery=1, seed=0, eps={"candidate": 1e-5}))
    subprocess.run([sys.executable, "-c", script[1]], cwd=tmp_path, check=True)
    declared = {"width": 64, "eps": 1e-5, "input_dtype": dtype}
    recorded = load_recorded(
        RecordedSection(file=Path("outputs.safetensors")),
        declared=declared,
        spec=resolve(declared),
        gain=None,
        home=tmp_path,
    )
    for case in cases:
        seen = recorded.observe(case)
        assert isinstance(seen, Ran)
        want = emulate(recorded.spec, case).astype(np.float64)
        # the script divides by the root and sums in numpy's order: a few float32 roundings, or one step of bfloat16
        assert np.allclose(seen.output.astype(np.float64), want, rtol=2.0**-7 if dtype == "bfloat16" else 1e-6, atol=0)
    assert recorded.notes == ()


# --- what crosses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_dtype_crosses_both_ways(dtype: str, tmp_path: Path) -> None:
    case = a_case(dtype)
    seen = side(tmp_path, sys.executable, "-c", ECHO, "{input}", "{output}", declared={"input_dtype": dtype}).observe(
        case
    )
    assert isinstance(seen, Ran)
    assert seen.output.dtype == case.x.dtype
    assert np.array_equal(bits(seen.output), bits(case.x))


def test_operands_come_in_the_dtypes_of_the_spec_with_what_they_are(tmp_path: Path) -> None:
    declared = {"input_dtype": "float32", "gain_dtype": "float16", "residual": "add", "bias": True, "eps": 1e-5}
    program = shell(tmp_path, 'cp "$1" kept; exit 1', declared=declared)
    case = a_case("bfloat16")
    case = replace(case, gain=np.full(64, 0.5, dtype_of("bfloat16")))
    fails(program.observe(case))
    with safe_open(tmp_path / "kept", framework="np") as file:
        assert {name: str(file.get_tensor(name).dtype) for name in file.keys()} == {  # noqa: SIM118  no mapping
            "x": "float32", "gain": "float16", "bias": "float16", "residual": "float32",
        }  # fmt: skip
        metadata = file.metadata()
    assert metadata["rmsaudit.category"] == "ordinary"
    assert metadata["rmsaudit.label"] == "a b; c"
    assert metadata["rmsaudit.eps"] == "1e-05"
    assert len(metadata["rmsaudit.digest"]) == 64


def test_a_placeholder_stays_one_argument_and_no_shell_looks_at_it(tmp_path: Path) -> None:
    told = "import sys; print(repr(sys.argv[1:]), file=sys.stderr); sys.exit(1)"
    program = side(
        tmp_path, sys.executable, "-c", told, "--eps={eps}", "{width}", "$HOME; `ls` *", "{{x}} {", "{input}{output}",
        declared={"eps": 1e-5},
    )  # fmt: skip
    says = fails(program.observe(a_case()))
    assert "['--eps=1e-05', '64', '$HOME; `ls` *', '{x} {', '/" in says


def test_a_value_that_does_not_exist_in_the_dtype_is_not_rounded(tmp_path: Path) -> None:
    program = shell(tmp_path, "exit 0", declared={"input_dtype": "float16"})
    case = replace(a_case(), x=np.full((1, 64), 1 + 2.0**-20, np.float32))
    assert "not all of its values exist in float16" in fails(program.observe(case))
    assert program.notes == []


def test_every_call_is_noted(tmp_path: Path) -> None:
    program = shell(tmp_path, "echo one two >&2; exit 3")
    program.observe(a_case())
    (note,) = program.notes
    assert (note.case, note.exit_code) == ("ordinary, a b; c", 3)
    assert note.stderr == "one two\n"
    assert note.seconds > 0


def test_the_digest_of_every_file_that_argv_names_is_known(tmp_path: Path) -> None:
    (tmp_path / "norm.sh").write_text("exit 1\n")
    digests = side(tmp_path, "sh", "norm.sh", "-x", "{input}", "{output}").digests
    assert set(digests) == {"sh", "norm.sh"}
    assert digests["norm.sh"] == hashlib.sha256(b"exit 1\n").hexdigest()


# --- what fails ------------------------------------------------------------------------------------------------------

GOOD = 'cp "$1" "$2"'  # a safetensors file, but with x in place of y

FAULTS = {
    "exit code": ("echo out of order >&2; exit 3", ("exit code 3", "out of order")),
    "no output": ("exit 0", ("sh ended with exit code 0 and wrote no {output}",)),
    "another name": (GOOD, ("sh wrote no tensor 'y'; its {output} holds 'gain', 'x'",)),
    "cut short": ('head -c 200 "$1" > "$2"', ("wrote an {output} that",)),
    "no safetensors": ('echo hello there > "$2"', ("wrote an {output} that claims a header",)),
    "an empty file": (': > "$2"', ("wrote an {output} that has 0 bytes",)),
    "a folder": ('mkdir "$2"', ("wrote an {output} that is not an ordinary file",)),
    "a pipe": ('mkfifo "$2"', ("wrote an {output} that is not an ordinary file",)),
    "a signal": ("kill -SEGV $$", ("SIGSEGV",)),
    "its own kill": ("kill -KILL $$", ("SIGKILL",)),
    "a missing program inside": ("no-such-program-at-all", ("exit code 127", "no-such-program-at-all")),
}


@pytest.mark.parametrize(("script", "told"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_in_words(script: str, told: tuple[str, ...], tmp_path: Path) -> None:
    says = fails(shell(tmp_path, script).observe(a_case()))
    for words in told:
        assert words in says
    assert len(says) < 1000


def test_a_wrong_shape_is_told(tmp_path: Path) -> None:
    one_row_short = ECHO.replace("1))", "1).replace(b'[3,64]', b'[64,3]'))")
    says = fails(side(tmp_path, sys.executable, "-c", one_row_short, "{input}", "{output}").observe(a_case()))
    assert says == "'y' has shape [64, 3]; the input has [3, 64]"


def test_a_hang_is_ended(tmp_path: Path) -> None:
    says = fails(shell(tmp_path, "echo waiting >&2; sleep 600", timeout=0.5).observe(a_case()))
    assert "still running after 0.5 s" in says
    assert "waiting" in says


def test_a_flood_is_read_and_forgotten(tmp_path: Path) -> None:
    says = fails(shell(tmp_path, "head -c 50000000 /dev/zero | tr '\\0' x >&2; exit 4", timeout=60).observe(a_case()))
    assert "exit code 4" in says
    assert len(says) < 1000


def test_what_the_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    program = shell(tmp_path, "sleep 600 & echo $! > pid; (setsid sleep 600 & echo $! > pid2); exit 5")
    fails(program.observe(a_case()))
    for name in ("pid", "pid2"):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / name).read_text()), 0)


def test_the_folder_of_a_call_is_gone_afterwards(tmp_path: Path) -> None:
    program = shell(tmp_path, 'dirname "$2" > where; exit 1')
    fails(program.observe(a_case()))
    assert not Path((tmp_path / "where").read_text().strip()).exists()


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("no-such-program-at-all", "no-such-program-at-all is not installed: no folder of PATH has it"),
        ("./norm", "./norm does not exist; it is looked for in the folder of the declaring file"),
        ("./text", "./text is not executable; chmod +x makes it so"),
    ],
)
def test_a_missing_program_is_a_failure_with_a_way_out(program: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    assert side(tmp_path, program, "{input}", "{output}").observe(a_case()) == Failed(says)


# --- before anything runs --------------------------------------------------------------------------------------------


def test_without_consent_it_is_said_what_would_have_been_run(tmp_path: Path) -> None:
    section = CommandSection(argv=("./norm", "a b", "{input}", "{output}"))
    spec = resolve({"width": 64})
    with pytest.raises(InputProblem) as raised:
        load(section, declared={}, spec=spec, gain=None, home=tmp_path, allow_code=False)
    (problem,) = raised.value.problems
    assert problem.says == "this would run `./norm 'a b' '{input}' '{output}'`; if you trust it, add --allow-code"
    assert problem.kind == "code-not-allowed"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((), ["`argv:` is empty"]),
        (("",), ["`argv:` is empty"]),
        (("norm",), ["no {input}", "no {output}"]),
        (("norm", "{input}"), ["no {output}, so the program would not learn where to write; add it"]),
        (("norm", "{input}", "{outptu}"), ["{outptu}, which stands for nothing; there are {input}", "no {output}"]),
        (("norm", "{{input}}", "{output}"), ["no {input}"]),
        (("norm", "{input}", "{output}", "a\0b"), ["NUL"]),
    ],
)
def test_an_argv_that_cannot_work_is_refused_whole(argv: tuple[str, ...], says: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputProblem) as raised:
        side(tmp_path, *argv)
    problems = [problem.says for problem in raised.value.problems]
    assert len(problems) == len(says)
    for words in says:
        assert any(words in problem for problem in problems)


def test_what_calls_said_is_kept_once_and_short(tmp_path):
    from rmsaudit.loaders.command import MOST_SENTENCES, Call, CommandSection, CommandSide
    from rmsaudit.semantics.resolve import resolve

    section = CommandSection(argv=("norm", "{input}", "{output}"))
    side = CommandSide(section, tmp_path, declared={}, spec=resolve({"width": 4}), gain=None)
    side.notes += [Call(case="tiny", exit_code=0, seconds=0.5, stderr="")]
    side.notes += [Call(case="edge", exit_code=0, seconds=0.25, stderr="warning")] * 3
    side.notes += [Call(case=f"case {n}", exit_code=3, seconds=0.0, stderr="") for n in range(50)]
    assert side.sentences[0] == "edge: exit code 0, standard error: warning"
    assert side.sentences[1] == "case 0: exit code 3"
    assert len(side.sentences) == MOST_SENTENCES
    assert side.seconds == 1.25
