"""Recorded outputs count by the digest of their inputs, and by nothing else."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import dtype_of
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.errors import InputProblem
from rmsaudit.loaders import Failed, Ran
from rmsaudit.loaders.exchange import fed, open_tensors, write_tensors
from rmsaudit.loaders.recorded import Origin, RecordedSection, RecordedSide, export_cases, load
from rmsaudit.semantics.resolve import resolve

WIDTH = 8
ORIGIN = Origin(battery=1, seed=0, eps={"reference": 1e-6, "candidate": 1e-5})
DECLARED = {"width": WIDTH, "input_dtype": "bfloat16", "eps": 1e-5}
SPEC = resolve(DECLARED)


def a_case(number: int, category: str = "ordinary", **changes: Any) -> Case:
    kind = dtype_of("bfloat16")
    x = (np.arange(2 * WIDTH).reshape(2, WIDTH) + number).astype(kind)
    case = Case(
        category=category,
        label=f"part {number}",
        x=x,
        gain=np.ones(WIDTH, kind),
        bias=np.zeros(WIDTH, kind),
        residual=np.broadcast_to(kind.type(0), x.shape),
    )
    return replace(case, **changes)


CASES = [a_case(1), a_case(2), a_case(3, "tail")]


def run_elsewhere(folder: Path, change: Callable[[dict, dict], object] = lambda *_: None) -> None:
    """inputs.safetensors, and outputs.safetensors as another machine writes them; `change` may spoil the latter."""
    export_cases(CASES, folder / "inputs.safetensors", ORIGIN)
    inputs = open_tensors(folder / "inputs.safetensors")
    tensors, metadata = {}, {}
    for case in json.loads(inputs.metadata["rmsaudit.cases"]):
        operands = {name: inputs.read(case[name]) for name in ("x", "gain", "bias", "residual")}
        tensors[case["name"]] = emulate(SPEC, Case(category="", label="", **operands))
        metadata[f"rmsaudit.digest.{case['name']}"] = case["digest"]
    change(tensors, metadata)
    write_tensors(folder / "outputs.safetensors", tensors, metadata)


def side(folder: Path, declared: dict[str, Any] = DECLARED, **section: Any) -> RecordedSide:
    section = {"file": Path("outputs.safetensors"), **section}
    return load(RecordedSection(**section), declared=declared, spec=resolve(declared), gain=None, home=folder)


def test_every_case_finds_its_own_output(tmp_path: Path) -> None:
    run_elsewhere(tmp_path)
    recorded = side(tmp_path)
    for case in CASES:
        seen = recorded.observe(case)
        assert isinstance(seen, Ran)
        assert np.array_equal(seen.output, emulate(SPEC, case))
    assert recorded.notes == ()


def test_names_mean_nothing(tmp_path: Path) -> None:
    def swap_names(tensors: dict, metadata: dict) -> None:
        first, second = "ordinary/0", "ordinary/1"
        tensors[first], tensors[second] = tensors[second], tensors[first]
        for name in (first, second):
            metadata[f"rmsaudit.digest.{name}"] = metadata.pop(f"rmsaudit.digest.{name}")
        keys = [f"rmsaudit.digest.{name}" for name in (first, second)]
        metadata[keys[0]], metadata[keys[1]] = metadata[keys[1]], metadata[keys[0]]

    run_elsewhere(tmp_path, swap_names)
    seen = side(tmp_path).observe(CASES[0])
    assert isinstance(seen, Ran)
    assert np.array_equal(seen.output, emulate(SPEC, CASES[0]))


def test_a_side_of_a_wider_dtype_finds_outputs_of_the_widened_inputs(tmp_path: Path) -> None:
    """A battery for bfloat16 against float32 holds bfloat16; the float32 side is exported and looked up so."""
    declared = {"width": WIDTH, "input_dtype": "float32"}
    wide = [fed(case, resolve(declared)) for case in CASES]
    export_cases(wide, tmp_path / "inputs.safetensors", ORIGIN)
    cases = json.loads(open_tensors(tmp_path / "inputs.safetensors").metadata["rmsaudit.cases"])
    metadata = {f"rmsaudit.digest.{case['name']}": case["digest"] for case in cases}
    outputs = {case["name"]: fed_case.x for case, fed_case in zip(cases, wide, strict=True)}
    write_tensors(tmp_path / "outputs.safetensors", outputs, metadata)
    assert isinstance(side(tmp_path, declared).observe(CASES[0]), Ran)
    assert isinstance(side(tmp_path).observe(CASES[0]), Failed)  # the twin: as bfloat16 these inputs were never run


@pytest.mark.parametrize("operand", ["x", "gain", "bias", "residual"])
def test_one_bit_in_any_operand_is_another_input(operand: str, tmp_path: Path) -> None:
    run_elsewhere(tmp_path)
    values = np.array(getattr(CASES[0], operand))
    values.flat[3] = np.nextafter(values.flat[3], np.array(9, values.dtype))
    seen = side(tmp_path).observe(replace(CASES[0], **{operand: values}))
    assert isinstance(seen, Failed)
    assert seen.says.startswith("outputs.safetensors has no output for this input (digest ")
    assert "and 3 for others; was it made for another battery version, seed, width" in seen.says


# --- what is missing, extra, foreign ---------------------------------------------------------------------------------


def test_a_missing_output_is_a_failure_of_its_case_alone(tmp_path: Path) -> None:
    run_elsewhere(tmp_path, lambda tensors, metadata: (tensors.pop("tail/0"), metadata.pop("rmsaudit.digest.tail/0")))
    recorded = side(tmp_path)
    assert isinstance(recorded.observe(CASES[2]), Failed)
    assert isinstance(recorded.observe(CASES[0]), Ran)


def test_an_output_that_is_promised_and_not_there_is_named(tmp_path: Path) -> None:
    run_elsewhere(tmp_path, lambda tensors, _: tensors.pop("tail/0"))
    seen = side(tmp_path).observe(CASES[2])
    assert seen == Failed("outputs.safetensors does not hold 'tail/0', which is listed as the output for this input")


def test_two_outputs_for_one_input_are_named(tmp_path: Path) -> None:
    def double(tensors: dict, metadata: dict) -> None:
        tensors["again"] = tensors["tail/0"]
        metadata["rmsaudit.digest.again"] = metadata["rmsaudit.digest.tail/0"]

    run_elsewhere(tmp_path, double)
    seen = side(tmp_path).observe(CASES[2])
    assert isinstance(seen, Failed)
    assert seen.says == "outputs.safetensors has 2 outputs for this input: 'again', 'tail/0'; keep one of them"


def test_extra_and_foreign_tensors_are_noted(tmp_path: Path) -> None:
    def add(tensors: dict, metadata: dict) -> None:
        tensors["scratch"] = np.zeros(3)
        tensors["of another battery"] = tensors["tail/0"]
        metadata["rmsaudit.digest.of another battery"] = "0" * 64

    run_elsewhere(tmp_path, add)
    recorded = side(tmp_path)
    for case in CASES:
        assert isinstance(recorded.observe(case), Ran)
    assert recorded.notes == (
        "outputs.safetensors holds 'scratch' without a digest; not used",
        "outputs.safetensors holds 'of another battery' for inputs that were not among those compared; not used",
    )


def test_a_wrong_shape_is_a_failure(tmp_path: Path) -> None:
    run_elsewhere(tmp_path, lambda tensors, _: tensors.update({"tail/0": tensors["tail/0"][:, 1:]}))
    assert side(tmp_path).observe(CASES[2]) == Failed("'tail/0' has shape [2, 7]; the input has [2, 8]")


def test_a_battery_of_another_seed_matches_nothing(tmp_path: Path) -> None:
    run_elsewhere(tmp_path)
    recorded = side(tmp_path)
    assert isinstance(recorded.observe(a_case(77)), Failed)
    assert len(recorded.notes) == 1


# --- digests ---------------------------------------------------------------------------------------------------------


def test_a_sidecar_takes_the_place_of_metadata(tmp_path: Path) -> None:
    run_elsewhere(tmp_path)
    file = open_tensors(tmp_path / "outputs.safetensors")
    digests = {key.removeprefix("rmsaudit.digest."): value for key, value in file.metadata.items()}
    write_tensors(tmp_path / "outputs.safetensors", {name: file.read(name) for name in file.entries}, {})
    with pytest.raises(InputProblem, match=r"has no digests in its metadata; write rmsaudit\.digest\.NAME for each"):
        side(tmp_path)
    (tmp_path / "digests.json").write_text(json.dumps({"schema": "rmsaudit/outputs/1", "digests": digests}))
    assert isinstance(side(tmp_path, sidecar=Path("digests.json")).observe(CASES[1]), Ran)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "is not a sidecar: that is"),
        ("[]", "is not a sidecar: that is"),
        ('{"schema": "rmsaudit/outputs/2", "digests": {"a": "b"}}', "is not a sidecar"),
        ('{"schema": "rmsaudit/outputs/1", "digests": {}}', "is not a sidecar"),
        ('{"schema": "rmsaudit/outputs/1", "digests": {"a": 1}}', "gives 'a' a digest that is not 64 of 0-9a-f"),
        ('{"schema": "rmsaudit/outputs/1", "digests": {"a": "ABC"}}', "gives 'a' a digest that is not 64 of 0-9a-f"),
        ("{", "is not JSON"),
        (None, "does not exist"),
    ],
)
def test_a_broken_sidecar_is_a_problem_that_names_it(text: str | None, says: str, tmp_path: Path) -> None:
    run_elsewhere(tmp_path)
    if text is not None:
        (tmp_path / "digests.json").write_text(text)
    with pytest.raises(InputProblem) as raised:
        side(tmp_path, sidecar=Path("digests.json"))
    (problem,) = raised.value.problems
    assert problem.path == "digests.json"
    assert says in problem.says


def test_inputs_in_place_of_outputs_are_recognised(tmp_path: Path) -> None:
    run_elsewhere(tmp_path)
    with pytest.raises(
        InputProblem, match=r"inputs\.safetensors: holds the inputs of an exported battery; .* \[not-outputs\]"
    ):
        side(tmp_path, file=Path("inputs.safetensors"))


@pytest.mark.parametrize("name", ["none.safetensors", "broken.safetensors"])
def test_a_file_that_cannot_be_used_is_a_problem(name: str, tmp_path: Path) -> None:
    (tmp_path / "broken.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(InputProblem) as raised:
        side(tmp_path, file=Path(name))
    assert raised.value.problems[0].path == name


# --- export ----------------------------------------------------------------------------------------------------------


def test_an_export_holds_every_operand_once_and_tells_where_it_comes_from(tmp_path: Path) -> None:
    assert export_cases(CASES, tmp_path / "i", ORIGIN) == 3
    file = open_tensors(tmp_path / "i")
    assert sorted(file.entries) == ["bias/0", "gain/0", "residual/0", "x/0", "x/1", "x/2"]
    about = dict(file.metadata)
    cases = json.loads(about.pop("rmsaudit.cases"))
    assert about == {
        "rmsaudit.schema": "rmsaudit/inputs/1",
        "rmsaudit.battery": "1",
        "rmsaudit.seed": "0",
        "rmsaudit.eps.reference": "1e-06",
        "rmsaudit.eps.candidate": "1e-05",
    }
    assert [case["name"] for case in cases] == ["ordinary/0", "ordinary/1", "tail/0"]
    for case, listed in zip(CASES, cases, strict=True):
        assert (listed["category"], listed["label"], listed["digest"]) == (case.category, case.label, case.digest())
        for operand in ("x", "gain", "bias", "residual"):
            assert np.array_equal(file.read(listed[operand]), getattr(case, operand))


def test_the_digest_of_what_was_read_back_is_the_digest_in_the_list(tmp_path: Path) -> None:
    export_cases(CASES, tmp_path / "i", ORIGIN)
    file = open_tensors(tmp_path / "i")
    for listed in json.loads(file.metadata["rmsaudit.cases"]):
        operands = {name: file.read(listed[name]) for name in ("x", "gain", "bias", "residual")}
        assert Case(category="", label="", **operands).digest() == listed["digest"]


def test_an_export_is_the_same_bytes_every_time_and_holds_equal_cases_once(tmp_path: Path) -> None:
    export_cases(CASES, tmp_path / "1", ORIGIN)
    assert export_cases([*CASES, a_case(1, "another name")], tmp_path / "2", ORIGIN) == 3
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    export_cases(CASES[:2], tmp_path / "3", ORIGIN)
    assert (tmp_path / "1").read_bytes() != (tmp_path / "3").read_bytes()


def test_nothing_to_export_and_nowhere_to_write(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no case"):
        export_cases([], tmp_path / "i", ORIGIN)
    with pytest.raises(InputProblem, match="cannot be written: No such file or directory; nothing was changed"):
        export_cases(CASES, tmp_path / "none" / "i", ORIGIN)
