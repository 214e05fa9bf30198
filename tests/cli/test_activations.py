"""rmsaudit activations: real rows beside eps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rmsaudit.arrays import Array
from rmsaudit.loaders.exchange import write_tensors

Rmsaudit = Callable[..., Any]


@pytest.fixture
def acts(tmp_path: Path) -> Callable[..., Path]:
    """Three layers, of which layer 0 has one row of four at q = 2^-20; and what a test adds."""

    def write(**more: Array) -> Path:
        tensors = {f"model.layers.{at}.input_layernorm": np.ones((4, 64), np.float32) for at in range(3)}
        tensors["model.layers.0.input_layernorm"][2] = 2.0**-10
        tensors["model.norm"] = np.full((2, 2, 64), 2, np.float32)
        path = tmp_path / "acts.safetensors"
        write_tensors(path, tensors | more, {})
        return path

    return write


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text('{"rms_norm_eps": 1e-6}')
    return path


def test_the_sites_near_eps_come_first_and_the_others_together(
    rmsaudit: Rmsaudit, acts: Callable[..., Path], config: Path
) -> None:
    ran = rmsaudit("activations", acts(), "--eps-from", config)
    assert ran.code == 0
    head, _, titles, first, *rest = ran.out.splitlines()
    assert head == "acts.safetensors: 16 rows at 4 sites; eps 1e-06 from config.json: rms_norm_eps"
    assert titles.split()[:8] == ["site", "rows", "q/eps<49.25", "min", "p1", "p50", "p99", "max"]
    # p1 is the middle of its bin
    assert first.split()[:7] == ["model.layers.0.input_layernorm", "4", "25", "%", "0.95", "0.96", "1.0e6"]
    assert rest[0].split()[0] == "model.layers.{1-2}.input_layernorm"
    assert rest[1].split()[0] == "model.norm"
    says = "1 of 16 rows (6.25 %) is attenuated by more than 1 %, all in layer 0; largest attenuation 30.1 %."
    assert rest[3] == says  # 1 − √(2^-20 / (2^-20 + 1e-6))


def test_the_stroke_of_a_picture_is_the_limit(rmsaudit: Rmsaudit, acts: Callable[..., Path]) -> None:
    """q of 2^-20 and of 1, eps of 2^-20: 5.6 octaves below q/eps = 49.25, and 14.4 above."""
    out = rmsaudit("activations", acts(), "--eps", 2.0**-20).out.splitlines()
    before, after = out[3].split("│")
    assert before.endswith("▃     ")
    assert after == " " * 14 + "█"


def test_all_has_a_line_for_every_site(rmsaudit: Rmsaudit, acts: Callable[..., Path]) -> None:
    out = rmsaudit("activations", acts(), "--eps", 1e-6, "--all").out
    assert all(f"model.layers.{at}.input_layernorm " in out for at in range(3))


def test_many_sites_fit_a_screen(rmsaudit: Rmsaudit, acts: Callable[..., Path]) -> None:
    rows = np.full((1, 8), 2.0**-10, np.float32)
    path = acts(**{f"layers.{at}.norm": rows for at in range(300)})
    out = rmsaudit("activations", path, "--eps", 1e-6).out.splitlines()
    assert len(out) < 40
    assert any(line.startswith("and 279 lines more") for line in out)
    assert len(rmsaudit("activations", path, "--eps", 1e-6, "--all").out.splitlines()) > 300


def test_another_eps_is_weighed(rmsaudit: Rmsaudit, acts: Callable[..., Path]) -> None:
    out = rmsaudit("activations", acts(), "--eps", 1e-5, "--other-eps", 1e-6, "--dtype", "bfloat16").out
    says = (
        "eps 1e-06 for 1e-05 touches 1 of 16 rows (6.25 %) by more than half an ulp of bfloat16, all in layer 0,"
        " 1 by more than 1 %; largest change 137 %."  # √((2^-20 + 1e-5) / (2^-20 + 1e-6)) − 1
    )
    assert out.splitlines()[-1] == says


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_same_as_data(
    form: str, parse: Callable[[str], Any], rmsaudit: Rmsaudit, acts: Callable[..., Path], config: Path
) -> None:
    read = parse(rmsaudit("activations", acts(), "--eps-from", config, "--other-eps", 1e-5, "--format", form).out)
    site = read["sites"]["model.layers.0.input_layernorm"]
    assert (site["rows"], site["below"], site["below_share"], site["zero"]) == (4, 1, 0.25, 0)
    assert site["eps"] == float(np.float32(1e-6))
    assert site["q_over_eps"]["min"] == pytest.approx(0.953674, abs=1e-6)
    assert site["other_eps"]["largest_change"] == pytest.approx(-0.577676, abs=1e-6)


def test_what_is_no_input_of_a_norm_is_named(rmsaudit: Rmsaudit, acts: Callable[..., Path]) -> None:
    more = {"model.layers.0/input": np.ones((4, 64), np.float32), "gain": np.ones(64, np.float32)}
    out = rmsaudit("activations", acts(**more), "--eps", 1e-6).out
    assert "Not counted: model.layers.0/input is no input of a norm; see `rmsaudit placement`." in out
    assert "Not counted: gain has shape [64]; rows that enter a norm come as [..., width]" in out


def test_unusual_rows_are_told(rmsaudit: Rmsaudit, acts: Callable[..., Path]) -> None:
    rows = np.ones((5, 64), np.float32)
    rows[0], rows[1], rows[2, 2] = 0, 0, np.nan
    out = rmsaudit("activations", acts(**{"layers.7.norm": rows}), "--eps", 1e-6).out
    assert "Apart from these: 2 rows of zeros, in layer 7.\nApart from these: 1 row with NaN, in layer 7." in out


@pytest.mark.parametrize("source", ["llama-tiny", "llama-tiny/llama.gguf"])
def test_a_checkpoint_gives_each_norm_its_eps(source: str, rmsaudit: Rmsaudit) -> None:
    rows = "fixtures/models/activations/llama.safetensors"
    ran = rmsaudit("activations", rows, "--eps-from", f"fixtures/models/{source}", "--format", "json")
    sites = json.loads(ran.out)["sites"]
    assert len(sites) == 9
    assert {site["eps"] for site in sites.values()} == {float(np.float32(1e-5))}


def test_rows_that_no_norm_of_the_checkpoint_takes_are_named(rmsaudit: Rmsaudit, tmp_path: Path) -> None:
    """Another width (heads laid side by side), and a name that the checkpoint does not have."""
    write_tensors(
        tmp_path / "acts.safetensors",
        {
            "model.layers.0.self_attn.q_norm": np.ones((4, 128), np.float32),
            "model.layers.0.input_layernorm": np.ones((4, 128), np.float32),
            "encoder.norm": np.ones((4, 128), np.float32),
        },
        {},
    )
    ran = rmsaudit("activations", tmp_path / "acts.safetensors", "--eps-from", "fixtures/models/qwen3-tiny")
    assert ran.out.startswith("acts.safetensors: 4 rows at 1 site; qwen3-tiny\n")
    assert "self_attn.q_norm has shape [4, 128], and this norm takes rows of width 32." in ran.out
    assert "encoder.norm is the name of no norm in qwen3-tiny." in ran.out


def test_flags_that_contradict_or_lack_are_refused(rmsaudit: Rmsaudit, acts: Callable[..., Path]) -> None:
    for flags in ((), ("--eps", 1e-6, "--eps-from", "config.json")):
        ran = rmsaudit("activations", acts(), *flags)
        assert ran.code == 2
        assert "either --eps-from PATH or --eps NUMBER" in ran.err


def test_files_that_cannot_be_used_are_told(rmsaudit: Rmsaudit, acts: Callable[..., Path], tmp_path: Path) -> None:
    missing = rmsaudit("activations", tmp_path / "none.safetensors", "--eps", 1e-6)
    assert (missing.code, missing.err.endswith("does not exist; check the path [no-such-file]\n")) == (2, True)
    without = rmsaudit("activations", acts(), "--eps-from", tmp_path / "none.json")
    assert (without.code, "none.json does not exist" in without.err) == (2, True)
    write_tensors(tmp_path / "empty.safetensors", {"gain": np.ones(64, np.float32)}, {})
    empty = rmsaudit("activations", tmp_path / "empty.safetensors", "--eps", 1e-6)
    assert (empty.code, "holds no rows of a norm: gain has shape [64]" in empty.err) == (2, True)


def test_colour_is_for_terminals(
    rmsaudit: Rmsaudit, acts: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in rmsaudit("activations", acts(), "--eps", 1e-6).out


def test_an_eps_that_is_lost_is_told_once_and_where_it_is_from(
    rmsaudit: Rmsaudit, acts: Callable[..., Path], config: Path
) -> None:
    ran = rmsaudit("activations", acts(), "--eps", 1e-50)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert ran.err.startswith("--eps: model.layers.0.input_layernorm enters a norm that cannot be computed: eps 1e-50")
    config.write_text('{"rms_norm_eps": 1e-50}')
    assert rmsaudit("activations", acts(), "--eps-from", config).err.startswith(f"{config}: model.layers.0")


def test_long_numbers_do_not_touch(rmsaudit: Rmsaudit, acts: Callable[..., Path]) -> None:
    faint = np.full((2, 64), 1e-150)  # a sum of squares below 1e-290 counts as that: q/eps is 1e-290 / 64 / 1e-6
    (line,) = [
        line
        for line in rmsaudit("activations", acts(**{"a.norm": faint}), "--eps", 1e-6).out.splitlines()
        if line.startswith("a.norm")
    ]
    assert line.split()[4:9] == ["1.6e-286"] * 5


def test_all_reasons_are_counted_where_nothing_can_be_used(rmsaudit: Rmsaudit, tmp_path: Path) -> None:
    write_tensors(tmp_path / "odd.safetensors", {f"gain{n}": np.ones(8, np.float32) for n in range(8)}, {})
    ran = rmsaudit("activations", tmp_path / "odd.safetensors", "--eps", 1e-6)
    assert ran.err.endswith("; and 3 more [no-rows]\n")
