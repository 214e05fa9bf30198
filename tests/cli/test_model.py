"""`rmsaudit model` on real small models: each against its own conversion, and against conversions that went wrong."""

import json
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from rmsaudit.cli import run
from rmsaudit.documents.record import read_record
from rmsaudit.reports import Style
from rmsaudit.reports.text import render

MODELS = Path(__file__).parents[2] / "fixtures" / "models"
ULP = (MODELS / "tolerance.yaml").read_text()
BFLOAT16 = (MODELS / "tolerance-bfloat16.yaml").read_text()


@pytest.fixture
def audit(tmp_path, capsys):
    """Runs the command under a tolerance; gives its exit code, its record and what it printed."""

    def go(reference, candidate, *options, tolerance=ULP):
        (tmp_path / "t.yaml").write_text(tolerance)
        out = tmp_path / "record.yaml"
        out.unlink(missing_ok=True)
        paths = ["--ref", str(MODELS / reference), "--cand", str(MODELS / candidate)]
        code = run(["model", *paths, "--tolerance", str(tmp_path / "t.yaml"), "--out", str(out), *options])
        return code, read_record(out), capsys.readouterr().out

    return go


@pytest.mark.parametrize(
    ("model", "file", "norms"), [("llama-tiny", "llama", 9), ("gemma2-tiny", "gemma2", 17), ("qwen3-tiny", "qwen3", 17)]
)
def test_each_model_is_its_own_conversion_with_zero_error(audit, model, file, norms):
    code, record, text = audit(model, f"{model}/{file}.gguf")
    assert (code, record.outcome) == (0, "accepted")
    assert all(result.differing_share == 0 for result in record.results.values())
    assert sum(row.count for row in record.sites) == norms
    assert not record.findings
    assert len(text.splitlines()) < 25  # what there is to say fits a screen


LAYERS = "model.layers.{0-3}"
EVERY_GEMMA = (
    f"{LAYERS}.input_layernorm",
    f"{LAYERS}.post_attention_layernorm",
    f"{LAYERS}.pre_feedforward_layernorm",
    f"{LAYERS}.post_feedforward_layernorm",
    "model.norm",
)


@pytest.mark.parametrize(
    ("model", "broken", "cause", "sites"),
    [
        (
            "llama-tiny",
            "llama-eps.gguf",
            "eps-value",
            (f"{LAYERS}.input_layernorm", f"{LAYERS}.post_attention_layernorm", "model.norm"),
        ),
        ("gemma2-tiny", "gemma2-offset-missing.gguf", "gain-offset", EVERY_GEMMA),
        ("gemma2-tiny", "gemma2-offset-twice.gguf", "gain-offset", EVERY_GEMMA),
        ("gemma2-tiny", "gemma2-rounded", "gain-rounded", EVERY_GEMMA),
        (
            "qwen3-tiny",
            "qwen3-q-and-k-swapped.gguf",
            "gain-values",
            (f"{LAYERS}.self_attn.q_norm", f"{LAYERS}.self_attn.k_norm"),
        ),
        (
            "qwen3-tiny",
            "qwen3-layers-swapped.gguf",
            "gain-values",
            tuple(
                f"model.layers.{{1-2}}.{name}"
                for name in ("input_layernorm", "self_attn.q_norm", "self_attn.k_norm", "post_attention_layernorm")
            ),
        ),
        ("qwen3-tiny", "qwen3-q-over-all-heads.gguf", "groups", (f"{LAYERS}.self_attn.q_norm",)),
        ("llama-tiny", "llama-tensor-missing.gguf", "site-missing", ("model.layers.2.post_attention_layernorm",)),
        (
            "llama-tiny",
            "llama-eps-keys-disagree",
            "settings-disagree",
            (f"{LAYERS}.input_layernorm", f"{LAYERS}.post_attention_layernorm", "model.norm"),
        ),
    ],
)
def test_a_broken_conversion_is_rejected_with_its_cause_and_sites(audit, model, broken, cause, sites):
    code, record, text = audit(model, f"broken/{broken}")
    assert (code, record.outcome) == (1, "rejected")
    (finding,) = record.findings
    assert (finding.cause, set(finding.sites)) == (cause, set(sites))
    assert f"{cause}: " in text


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("llama-shard-missing", "names the shard `model-00002-of-00002.safetensors`, which does not exist"),
        ("llama-truncated.gguf", "ends in the middle of `blk.3.ffn_norm.weight`"),
    ],
)
def test_what_is_cut_short_is_said_before_anything_runs(broken, says, capsys):
    assert run(["model", "--ref", str(MODELS / "llama-tiny"), "--cand", str(MODELS / "broken" / broken)]) == 2
    assert says in capsys.readouterr().err


def test_rounded_gains_are_accepted_at_a_tolerance_of_bfloat16_and_said(audit):
    code, record, _ = audit("gemma2-tiny", "broken/gemma2-rounded", tolerance=BFLOAT16)
    assert (code, record.outcome) == (0, "accepted")
    assert [finding.cause for finding in record.findings] == ["gain-rounded"]


def test_swapped_gains_name_the_site_that_they_belong_to(audit):
    _, record, _ = audit("qwen3-tiny", "broken/qwen3-q-and-k-swapped.gguf")
    assert (
        "model.layers.0.self_attn.q_norm carries those of model.layers.0.self_attn.k_norm" in record.findings[0].claim
    )


def test_the_record_does_not_depend_on_the_number_of_processes(audit):
    records = [audit("qwen3-tiny", "broken/qwen3-layers-swapped.gguf", "--jobs", jobs)[1] for jobs in ("1", "2")]
    replay = records[0].replay
    assert records[0] == records[1].model_copy(update={"replay": replay})


def test_a_stored_record_is_shown_and_judged_again(audit, tmp_path, capsys):
    audit("gemma2-tiny", "broken/gemma2-rounded")
    (tmp_path / "bfloat16.yaml").write_text(BFLOAT16)
    record = str(tmp_path / "record.yaml")
    assert (
        run(["gate", record, "--tolerance", str(tmp_path / "bfloat16.yaml"), "--out", str(tmp_path / "again.yaml")])
        == 0
    )
    again = read_record(tmp_path / "again.yaml")
    assert (again.outcome, {row.verdict for row in again.sites}) == ("accepted", {"accepted"})
    assert run(["gate", record, "--tolerance", str(tmp_path / "t.yaml")]) == 1
    assert run(["show", record]) == 1
    assert "gain-rounded, 17 of 17 sites" in " ".join(capsys.readouterr().out.split())


def test_a_missing_norm_stays_rejected_under_any_tolerance(audit, tmp_path):
    audit("llama-tiny", "broken/llama-tensor-missing.gguf")
    (tmp_path / "loose.yaml").write_text(BFLOAT16)
    assert run(["gate", str(tmp_path / "record.yaml"), "--tolerance", str(tmp_path / "loose.yaml")]) == 1


def test_json_has_the_keys_of_the_yaml(audit, tmp_path):
    _, _, text = audit("llama-tiny", "llama-tiny/llama.gguf", "--format", "json")
    stored = yaml.safe_load((tmp_path / "record.yaml").read_text())
    assert set(stored) <= set(json.loads(text))


def test_a_reviewed_record_is_never_overwritten(audit, tmp_path, capsys):
    audit("llama-tiny", "llama-tiny/llama.gguf")
    record = tmp_path / "record.yaml"
    record.write_text(record.read_text().replace("decision: null", "decision: approved"))
    paths = ["--ref", str(MODELS / "llama-tiny"), "--cand", str(MODELS / "llama-tiny" / "llama.gguf")]
    assert run(["model", *paths, "--out", str(record)]) == 2
    assert "has been reviewed" in capsys.readouterr().err


def test_every_problem_of_both_sides_is_told_at_once(tmp_path, capsys):
    copytree(MODELS / "llama-tiny", tmp_path / "bad")
    (tmp_path / "bad" / "config.json").write_text("{")
    code = run(
        ["model", "--ref", str(tmp_path / "bad"), "--cand", str(tmp_path / "none"), "--tolerance", str(tmp_path / "t")]
    )
    lines = capsys.readouterr().err.splitlines()
    assert code == 2
    assert len(lines) == 3
    assert all(line.endswith("]") for line in lines)


def test_two_models_without_a_common_norm_are_nothing_to_compare(tmp_path, capsys):
    copytree(MODELS / "llama-tiny", tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    assert config["model_type"] == "llama"
    code = run(
        ["model", "--ref", str(MODELS / "llama-tiny"), "--cand", str(MODELS / "gemma2-tiny"), "--category", "tail"]
    )
    assert code == 1  # some names are shared, the others are told
    assert "in the candidate only" in capsys.readouterr().out


ROWS = MODELS / "activations" / "llama.safetensors"


def test_real_rows_are_a_category_of_their_own_and_are_judged(audit, tmp_path):
    code, record, text = audit("llama-tiny", "broken/llama-eps.gguf", "--activations", str(ROWS))
    assert code == 1
    result = record.results["activations"]
    assert (result.verdict, result.elements) == ("rejected", 144 * 128)
    assert result.oracle.closer == "reference"
    assert "eps 1e-06 for 1e-05 touches 144 of 144 rows" in record.real_rows.says[1]
    assert "Real rows" in text


def test_the_share_of_rows_below_is_a_direct_count(audit, tmp_path):
    """q/eps under 9801/199, counted in float64 on the whole array: no row of this file is within rounding of it."""
    copytree(MODELS / "llama-tiny", tmp_path / "ref")
    config = json.loads((tmp_path / "ref" / "config.json").read_text())
    (tmp_path / "ref" / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-4}))
    _, record, _ = audit(tmp_path / "ref", "llama-tiny/llama.gguf", "--activations", str(ROWS), "--category", "zero")
    rows = load_file(ROWS)
    q = {name: np.mean(values.astype(np.float64) ** 2, axis=-1) for name, values in rows.items()}
    below = {name: np.mean(each / np.float32(1e-4) < 9801 / 199) for name, each in q.items()}
    found = {
        row.sites[0]: row.below for row in record.real_rows.sites if len(row.sites) == 1 and "{" not in row.sites[0]
    }
    assert found["model.layers.0.input_layernorm"] == below["model.layers.0.input_layernorm"] > 0
    assert all(found[name] == pytest.approx(below[name], abs=1e-6) for name in found)


def test_rows_of_sites_that_are_the_same_are_weighed_and_not_run(audit):
    code, record, _ = audit("llama-tiny", "llama-tiny/llama.gguf", "--activations", str(ROWS))
    assert code == 0
    assert "activations" not in record.results
    assert record.real_rows.rows == 144
    assert record.real_rows.says == ("No row of 144 is attenuated by more than 1 %; largest attenuation 0.13 %.",)


def test_tensors_that_are_no_rows_are_named(audit, tmp_path):
    rows = load_file(ROWS)
    rows["lm_head"] = rows["model.norm"]
    rows["model.norm"] = np.ones((2, 96), np.float32)
    save_file(rows, tmp_path / "rows.safetensors")
    _, record, text = audit("llama-tiny", "broken/llama-eps.gguf", "--activations", str(tmp_path / "rows.safetensors"))
    assert record.real_rows.passed_over == (
        "lm_head is the path of no norm of both models",
        "model.norm has shape [2, 96], and this norm takes rows of width 128",
    )
    assert "Not counted: lm_head is the path of no norm of both models." in text


@pytest.fixture
def llama(tmp_path):
    """A copy of llama-tiny under other settings, or with its gains put through a function of name and values."""

    def write(gains=None, **config):
        folder = tmp_path / "other"
        copytree(MODELS / "llama-tiny", folder)
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(settings | config))
        if gains is not None:
            stored = load_file(folder / "model.safetensors")
            save_file({name: gains(name, values) for name, values in stored.items()}, folder / "model.safetensors")
        return folder

    return write


def refused(capsys, *options):
    """What is said, and that it was the user's input."""
    assert run(["model", "--ref", str(MODELS / "llama-tiny"), *map(str, options)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.mark.parametrize(
    ("eps", "says"), [(1e-320, "becomes 0 in eps_dtype float32"), (1e300, "eps of 1e+300, which float32 cannot hold")]
)
def test_an_eps_that_its_dtype_cannot_hold_is_refused(eps, says, llama, capsys):
    error = refused(capsys, "--cand", llama(rms_norm_eps=eps))
    assert says in error
    assert "(at model.layers.{0-3}.input_layernorm, " in error
    assert error.count("[cannot-resolve]") == 1  # one line for all sites


def test_gains_in_a_dtype_without_values_are_refused(llama, capsys):
    error = refused(capsys, "--cand", llama(lambda _, values: np.ones(values.shape, np.int32)))
    assert "stores gains as I32, of which no values are read" in error


def test_a_checkpoint_without_norms_is_refused(llama, capsys):
    error = refused(capsys, "--cand", llama(lambda *_: np.ones((2, 3), np.float32)))
    assert "has no norm of llama (left out: " in error
    assert "[no-norms]" in error


@pytest.mark.parametrize(
    ("word", "stored", "more"), [("float32", "float64", 2.0**-26 / 3), ("bfloat16", "float32", 2.0**-20 / 3)]
)
def test_outputs_are_of_the_dtype_that_was_asked_for_whatever_the_gains_are(word, stored, more, audit, llama):
    """Gains that the dtype does not hold stay as they are; Llama's own class would promote its outputs to theirs."""
    wide = np.dtype(stored)
    other = llama(lambda _, values: values.astype(wide) * wide.type(1 + more))  # far below an ulp of the outputs
    code, record, _ = audit("llama-tiny", other, "--dtype", word, "--category", "ordinary")
    assert code == 0
    assert {result.output_dtype for result in record.results.values()} == {word}
    assert record.sites[0].stored == ("bfloat16", stored)


def test_names_of_a_map_are_checked_and_taken(audit, tmp_path, capsys):
    names = tmp_path / "names.yaml"
    candidate = MODELS / "llama-tiny" / "llama.gguf"
    names.write_text("output_norm: model.norm\n")
    assert "names.yaml:1:1: no norm of the candidate is called" in refused(capsys, "--cand", candidate, "--map", names)
    one, other = (f"model.layers.{n}.input_layernorm" for n in (0, 1))
    names.write_text(f"{one}: {other}\n{other}: {one}\n")
    code, record, _ = audit("llama-tiny", "llama-tiny/llama.gguf", "--map", str(names), "--category", "ordinary")
    assert (code, record.findings[0].sites) == (1, ("model.layers.{0-1}.input_layernorm",))


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({"lm_head": (2, 128)}, "lm_head is the path of no norm of both models"),
        ({"model.norm": (128,)}, "model.norm has shape [128]; rows that enter a norm come as"),
        ({"model.layers.0/input": (2, 128)}, "holds no rows of a norm, but 1 tensors of placements"),
    ],
)
def test_a_file_without_any_row_is_refused_before_anything_runs(tensors, says, tmp_path, capsys):
    rows = tmp_path / "rows.safetensors"
    save_file({name: np.ones(shape, np.float32) for name, shape in tensors.items()}, rows)
    error = refused(capsys, "--cand", MODELS / "llama-tiny", "--activations", rows)
    assert says in error
    assert "[no-rows]" in error


def test_rows_that_are_in_no_share_are_counted(audit, tmp_path):
    values = load_file(ROWS)["model.norm"].astype(np.float32)
    values[0, 3] = np.nan
    save_file({"model.norm": values}, tmp_path / "rows.safetensors")
    _, record, text = audit("llama-tiny", "llama-tiny/llama.gguf", "--activations", str(tmp_path / "rows.safetensors"))
    assert record.real_rows.says[-1] == "Apart from these: 1 row of zeros, or with NaN or an infinity."
    assert record.real_rows.says[-1] in text


def test_names_of_a_file_do_not_reach_into_the_terminal(audit, tmp_path):
    tensors = {"model.\x1b[31mlast.norm.weight": np.ones(8, np.float32)}
    for eps in (1e-5, 1e-3):
        folder = tmp_path / f"{eps}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": "none known", "rms_norm_eps": eps}))
        save_file(tensors, folder / "model.safetensors")
    _, record, text = audit(tmp_path / "1e-05", tmp_path / "0.001", "--category", "ordinary")
    assert record.sites[0].sites == (r"model.\x1b[31mlast.norm",)
    assert r"\x1b[31mlast" in text
    assert "\x1b" not in text + record.findings[0].declared_at.reference


def test_a_folder_that_is_not_there_is_told_before_anything_runs(tmp_path, capsys):
    error = refused(capsys, "--cand", MODELS / "llama-tiny", "--out", tmp_path / "none" / "record.yaml")
    assert error.endswith("its folder does not exist; give another --out [not-writable]\n")


def test_another_judgement_says_why_it_rejects(audit, tmp_path, capsys):
    audit("llama-tiny", "broken/llama-eps.gguf", "--category", "ordinary")
    other = tmp_path / "other.yaml"
    other.write_text(ULP.replace("reason:", "when: {output_dtype: bfloat16}\n    reason:"))
    assert run(["gate", str(tmp_path / "record.yaml"), "--tolerance", str(other)]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "1 of 1 category is rejected, first of all ordinary: no row of the tolerance file covers" in text


def test_a_record_of_equal_models_is_short_and_reads_back(audit, tmp_path):
    """A category without a difference takes a few lines, not one for each of its numbers."""
    _, record, _ = audit("llama-tiny", "llama-tiny/llama.gguf")
    lines = (tmp_path / "record.yaml").read_text().splitlines()
    assert len(lines) < 200
    assert len(record.results) == 16
    assert record.results["zero"].limit.max_ulp == 1


def test_outputs_that_are_infinite_on_one_side_stand_in_the_table(audit, llama):
    def spoiled(name, values):
        return np.full(values.shape, np.inf, np.float32) if name == "model.norm.weight" else values.astype(np.float32)

    _, record, text = audit("llama-tiny", llama(spoiled), "--category", "ordinary")
    assert record.sites[0].worst.nonfinite_mismatched == 512
    assert "512 nonfinite" in text
    assert "candidate, other: gains with NaN or an infinity: model.norm" in text


def test_a_record_of_another_version_is_told_apart_from_that_of_a_pair(audit, tmp_path, capsys):
    audit("llama-tiny", "llama-tiny/llama.gguf", "--category", "zero")
    record = tmp_path / "record.yaml"
    record.write_text(record.read_text().replace("model-record/1\n", "model-record/2\n"))
    assert run(["show", str(record)]) == 2
    error = capsys.readouterr().err
    assert "schema is `rmsaudit/model-record/2`, and rmsaudit/model-record/1 is read here" in error


@pytest.mark.parametrize("width", [80, 100, 110, 140])
def test_no_number_is_cut_off_in_a_narrow_terminal(width, audit):
    """A table that does not fit gives up columns or becomes paragraphs, and never becomes dots."""
    _, record, _ = audit("llama-tiny", "broken/llama-eps.gguf", "--activations", str(ROWS), "--category", "scale")
    lines = render(record, Style(color=False, width=width)).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line.replace(" … ", "") for line in lines)  # between two numbers it is a range
    text = "\n".join(lines)
    assert ("9 sites rejected: width 128, stored as bfloat16, float32; eps 1e-05, 1e-06;" in text) == (width < 110)
    (titles,) = [line for line in lines if line.startswith("  category ")]
    assert ("q/eps" in titles) == (width >= 110)
    assert all(title in titles for title in ("verdict", "ulp", "differ", "limit", "margin"))
