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
    _, record, _ = audit("llama-tiny", "broken/llama-eps.gguf", "--activations", str(tmp_path / "rows.safetensors"))
    assert record.real_rows.passed_over == (
        "lm_head is the path of no norm of both models",
        "model.norm has shape [2, 96], and this norm takes rows of width 128",
    )
