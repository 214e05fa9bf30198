"""compare, as a person meets it."""

import json

import pytest
import yaml


def test_the_readmes_first_command_finds_explains_judges_and_records(rmsaudit, quickstart, tolerance, tmp_path):
    record = tmp_path / "record.yaml"
    ran = rmsaudit("compare", *quickstart, *tolerance, "--out", record)
    assert ran.code == 1
    assert ran.err == ""
    assert ran.out.startswith("REJECTED")
    assert "eps decides" in ran.out
    read = yaml.safe_load(record.read_text())
    assert read["outcome"] == "rejected"
    assert {finding["variable"] for finding in read["findings"]} == {"eps", "cast_point"}
    assert read["differing"]["eps"]["reference"] == 1e-5  # from config.json
    assert read["reference"]["resolved"]["eps"]["source"] == "config.json: rms_norm_eps"


def test_setting_the_variable_back_passes(rmsaudit, quickstart, tolerance):
    assert rmsaudit("compare", *quickstart, *tolerance, "--set", "cand.eps=1e-5").code == 0


def test_without_a_tolerance_the_smallest_limits_are_printed(rmsaudit, quickstart):
    ran = rmsaudit("compare", *quickstart)
    assert ran.code == 0
    assert ran.out.startswith("NOT JUDGED")
    assert "smallest limit that would pass" in ran.out


@pytest.mark.parametrize(("words", "format_reads"), [(["yaml"], yaml.safe_load), (["json"], json.loads)])
def test_machine_formats_hold_the_same_record(rmsaudit, quickstart, tolerance, words, format_reads):
    ran = rmsaudit("compare", *quickstart, *tolerance, "--format", *words)
    assert format_reads(ran.out)["outcome"] == "rejected"


def test_the_record_is_the_same_wherever_it_is_written(rmsaudit, quickstart, tolerance, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    one, other = tmp_path / "a.yaml", tmp_path / "elsewhere" / "b.yaml"
    rmsaudit("compare", *quickstart, *tolerance, "--out", one)
    rmsaudit("compare", *quickstart, *tolerance, "--out", other)
    assert one.read_bytes() == other.read_bytes()
    assert str(tmp_path) not in one.read_text()


def test_inputs_can_be_narrowed_and_moved(rmsaudit, quickstart, tolerance):
    def results(*more):
        ran = rmsaudit("compare", *quickstart, *tolerance, "--format", "json", *more)
        return json.loads(ran.out)

    narrowed = results("--category", "near-eps", "--category", "ordinary", "--rows", "3", "--battery", "1")
    assert set(narrowed["results"]) == {"near-eps", "ordinary"}
    assert narrowed["battery"]["rows"] == 3
    moved = results("--category", "ordinary", "--seed", "7")
    assert (
        moved["battery"]["categories"]["ordinary"]["digest"] != narrowed["battery"]["categories"]["ordinary"]["digest"]
    )
    assert results("--no-ladder")["ladder"] == []


def test_nothing_compared_has_its_own_exit_code(rmsaudit, quickstart, tolerance):
    none = ["--set", "ref.eps_placement=none", "--set", "cand.eps_placement=none"]
    assert rmsaudit("compare", *quickstart, *tolerance, *none, "--category", "near-eps").code == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "eps=1"], "SIDE.VARIABLE=VALUE"),
        (["--set", "cand.epz=1"], "did you mean"),
        (["--set", "cand.eps=yes"], "--set cand.eps"),
        (["--set", "cand.eps=1e-6", "--set", "cand.eps=1e-5"], "set twice"),
        (["--category", "near"], "did you mean near-eps?"),
        (["--rows", "0"], "--rows"),
        (["--width", "64"], "width"),
        (["--tolerance", "missing.yaml"], "missing.yaml"),
        (["--seed", "-1"], "--seed"),
        (["--format", "xml"], "xml"),
    ],
)
def test_unusable_flags_are_named_and_exit_with_2(rmsaudit, quickstart, words, says):
    ran = rmsaudit("compare", *quickstart, *words)
    assert ran.code == 2
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_the_problems_of_all_files_come_together(rmsaudit, tmp_path):
    one, other, limits = (tmp_path / name for name in ("a.yaml", "b.yaml", "t.yaml"))
    one.write_text("schema: rmsaudit/implementation/1\nname: a\nkind: spec\nnorm: {width: 0}\n")
    other.write_text("schema: rmsaudit/implementation/1\nname: b\nkind: spec\nnorm: {width: 8, eps: yes}\n")
    limits.write_text("schema: rmsaudit/tolerance/1\nrules: [{rule: ulp, max_ulp: -1}]\n")
    ran = rmsaudit("compare", "--ref", one, "--cand", other, "--tolerance", limits)
    assert ran.code == 2
    assert [line.split(":")[0] for line in ran.err.splitlines()] == [str(one), str(other), str(limits)]


def test_a_reviewed_record_is_not_overwritten(rmsaudit, quickstart, tolerance, tmp_path):
    record = tmp_path / "record.yaml"
    rmsaudit("compare", *quickstart, *tolerance, "--out", record)
    record.write_text(record.read_text().replace("decision: null", "decision: accepted"))
    reviewed = record.read_bytes()
    ran = rmsaudit("compare", *quickstart, *tolerance, "--out", record)
    assert ran.code == 2
    assert "has been reviewed" in ran.err
    assert record.read_bytes() == reviewed


def test_no_colour_without_a_terminal(rmsaudit, quickstart, tolerance):
    assert "\x1b" not in rmsaudit("compare", *quickstart, *tolerance).out
