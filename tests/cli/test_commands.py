"""The other commands, help, and what happens on a bug, an interruption and a closed pipe."""

import json
import subprocess
import sys

import click
import pytest

from rmsaudit import cli
from rmsaudit.cli import Commands, run

NAMES = cli.rmsaudit.list_commands(click.Context(cli.rmsaudit))


def test_every_file_is_a_command_and_every_command_has_an_example(rmsaudit):
    assert "compare" in NAMES
    for name in NAMES:
        ran = rmsaudit(name, "--help")
        assert ran.code == 0
        assert "Example: rmsaudit " in ran.out, name


def test_help_names_every_command_and_exit_code(rmsaudit):
    out = rmsaudit("--help").out
    assert all(name in out for name in NAMES)
    assert "4 nothing compared" in out


def test_an_unknown_command_gets_the_nearest_one(rmsaudit):
    ran = rmsaudit("compair")
    assert ran.code == 2
    assert "did you mean 'compare'?" in ran.err


def test_show_prints_what_compare_printed(rmsaudit, quickstart, tolerance, tmp_path):
    record = tmp_path / "record.yaml"
    compared = rmsaudit("compare", *quickstart, *tolerance, "--out", record)
    shown = rmsaudit("show", record)
    assert (shown.out, shown.code) == (compared.out, compared.code)


def test_resolve_gives_every_variable_its_value_and_source(rmsaudit):
    out = rmsaudit("resolve", "fixtures/quickstart/reference.yaml").out
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert "config.json: rms_norm_eps" in lines["eps"]
    assert "preset transformers-llama" in lines["cast_point"]
    assert "gain tensor" in lines["width"]
    assert "default" in lines["groups"]
    from rmsaudit.semantics import variables

    assert set(variables()) <= set(lines)


def test_resolve_takes_overrides(rmsaudit):
    out = rmsaudit("resolve", "fixtures/quickstart/reference.yaml", "--set", "eps=0.5").out
    assert any(line.split()[:3] == ["eps", "0.5", "--set"] for line in out.splitlines())


def test_attenuation_says_the_bound_and_draws_the_law(rmsaudit):
    out = rmsaudit("attenuation", "--eps", "1e-6", "--max-loss", "0.01").out
    assert "49.2512562814" in out
    assert "0.707107" in out  # the line q/eps = 1
    assert "enough from here" in out


@pytest.mark.parametrize("words", [["--eps", "0"], ["--eps", "nan"], ["--eps", "1e-6", "--max-loss", "1"],
                                   ["--eps", "1e-6", "--q-range", "2", "1"], ["--eps", "x"]])  # fmt: skip
def test_attenuation_refuses_what_makes_no_sense(rmsaudit, words):
    ran = rmsaudit("attenuation", *words)
    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_attenuation_over_a_range(rmsaudit):
    out = rmsaudit("attenuation", "--eps", "1e-5", "--q-range", "1e-5", "1e-3").out
    assert out.splitlines()[-1].split()[0] == "0.001"


@pytest.mark.parametrize("what", ["variables", "categories", "presets", "rules"])
def test_list_gives_a_line_each(rmsaudit, what):
    out = rmsaudit("list", what).out
    assert len(out.splitlines()) >= 6
    assert all(len(line.split(None, 1)) == 2 for line in out.splitlines())


def test_a_bug_gives_a_report_and_70(monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("seeded")

    monkeypatch.setattr(Commands, "get_command", broken)
    assert run(["compare"]) == 70
    err = capsys.readouterr().err
    assert "a bug in rmsaudit" in err
    assert "seeded" in err


def test_an_interruption_gives_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Commands, "get_command", interrupted)
    assert run(["compare"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error():
    line = f"{sys.executable} -m rmsaudit list variables | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_version(rmsaudit):
    from rmsaudit import __version__

    assert __version__ in rmsaudit("--version").out


def test_the_json_of_a_record_is_one_object(rmsaudit, quickstart, tmp_path):
    record = tmp_path / "record.yaml"
    rmsaudit("compare", *quickstart, "--category", "zero", "--out", record)
    assert json.loads(rmsaudit("show", record, "--format", "json").out)["schema"] == "rmsaudit/record/1"
