"""eps in a config.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmsaudit.documents.config import EPS_KEYS, eps_of_config
from rmsaudit.documents.problems import Refused


def eps_of(tmp_path: Path, config: dict[str, Any]) -> tuple[float, str]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return eps_of_config(path)


@pytest.mark.parametrize("key", EPS_KEYS)
def test_every_name_is_found_also_nested(tmp_path: Path, key: str) -> None:
    assert eps_of(tmp_path, {"x": 1, key: 1e-5}) == (1e-5, key)
    assert eps_of(tmp_path, {"text_config": {key: 1e-5}}) == (1e-5, f"text_config.{key}")


def test_more_than_twenty_spellings_and_those_of_the_first_issue_among_them() -> None:
    assert len(set(EPS_KEYS)) == len(EPS_KEYS) > 20
    assert set(EPS_KEYS) >= {
        "rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "layernorm_epsilon", "norm_eps", "norm_epsilon",
        "layer_norm_rms_epsilon",
    }  # fmt: skip


def test_keys_that_agree_are_fine(tmp_path: Path) -> None:
    assert eps_of(tmp_path, {"norm_eps": 1e-6, "rms_norm_eps": 0.000001, "text_config": {"norm_eps": 1e-6}}) == (
        1e-6,
        "rms_norm_eps",
    )
    assert eps_of(tmp_path, {"rms_norm_eps": None, "norm_eps": 1, "text_config": "no section"}) == (1.0, "norm_eps")


def test_keys_that_disagree_are_named_with_their_values(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"layer_norm_eps is 1e-12 and text_config\.rms_norm_eps is 1e-06"):
        eps_of(tmp_path, {"layer_norm_eps": 1e-12, "text_config": {"rms_norm_eps": 1e-6}})


@pytest.mark.parametrize(
    "value", [0, -1e-6, float("nan"), float("inf"), True, "1e-6", [1e-6], {}, 10**400, "\n" * 9], ids=repr
)
def test_what_is_no_eps_is_refused_by_its_key(tmp_path: Path, value: Any) -> None:
    with pytest.raises(Refused, match="gives rms_norm_eps as"):
        eps_of(tmp_path, {"rms_norm_eps": value})


def test_the_tiny_models(fixtures: Path) -> None:
    """config.json as `transformers` 5.24 writes it."""
    assert eps_of_config(fixtures / "quickstart" / "config.json") == (1e-5, "rms_norm_eps")
