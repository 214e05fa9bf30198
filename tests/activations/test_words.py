"""What is said of surveys."""

from collections.abc import Callable

import numpy as np
import pytest

from rmsaudit.activations.layers import layer_of, where, without_layer
from rmsaudit.activations.survey import Survey, survey
from rmsaudit.activations.words import percent, said_of_change, said_of_eps
from rmsaudit.semantics import NormSpec

Norm = Callable[..., NormSpec]


@pytest.mark.parametrize(
    ("sites", "says"),
    [
        (["model.layers.3.input_layernorm"], "layer 3"),
        (["model.layers.1.a", "model.layers.0.a", "model.layers.0.b"], "layers 0 and 1"),
        ([f"model.layers.{at}.a" for at in (0, 1, 5, 6, 7, 9)], "layers 0, 1, 5 to 7 and 9"),
        (["model.layers.0.a", "model.norm"], "layer 0 and model.norm"),
        (["vision.blocks.0.a", "text.layers.0.a", "text.layers.1.a"], "layer 0 of vision.blocks and layers 0 and 1 of"
         " text.layers"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)  # fmt: skip
def test_where_sites_lie(sites: list[str], says: str) -> None:
    assert where(sites) == says


def test_layers_of_names() -> None:
    assert layer_of("model.layers.12.self_attn.q_norm") == ("model.layers", 12)
    assert layer_of("model.norm") is None
    assert without_layer("model.layers.12.self_attn.q_norm") == "model.layers.{}.self_attn.q_norm"
    assert without_layer("model.norm") == "model.norm"


@pytest.mark.parametrize(
    ("share", "says"), [(0.0, "0 %"), (0.0003, "0.03 %"), (0.99999, "over 99.9 %"), (1.0, "100 %"), (0.5, "50 %")]
)
def test_percent_does_not_round_something_to_nothing_or_all(share: float, says: str) -> None:
    assert percent(share) == says


def three_layers(norm: Norm, **words: object) -> dict[str, Survey]:
    """Layer 0: one row of 64 at q = eps; the others far above."""
    rows = np.ones((64, 64), np.float32)
    low = rows.copy()
    low[7] = 2.0**-10
    pair = norm(eps=2.0**-20, **words), norm(eps=2.0**-21, **words)
    return {f"model.layers.{at}.norm": survey([rows if at else low], *pair) for at in range(3)}


def test_said_of_eps(norm: Norm) -> None:
    found = {name: each.distribution for name, each in three_layers(norm).items()}
    says = "1 of 192 rows (0.521 %) is attenuated by more than 1 %, all in layer 0; largest attenuation 29.3 %."
    assert said_of_eps(found) == says  # 1 − √(1/2)
    found.pop("model.layers.0.norm")
    assert said_of_eps(found) == (
        "No row of 128 is attenuated by more than 1 %; largest attenuation 4.77e-05 %."  # 2^-21
    )


def test_said_of_change(norm: Norm) -> None:
    found = {name: each.change for name, each in three_layers(norm, output_dtype="bfloat16").items() if each.change}
    says = (
        "eps 4.76837e-07 for 9.53674e-07 touches 1 of 192 rows (0.521 %) by more than half an ulp of bfloat16, all in"
        " layer 0, 1 by more than 1 %; largest change 15.5 %."  # √(2/1.5) − 1
    )
    assert said_of_change(found, "eps 4.76837e-07 for 9.53674e-07", "bfloat16") == says
    found.pop("model.layers.0.norm")
    assert said_of_change(found, "This", "bfloat16") == (
        "This moves no row of 128 by half an ulp of bfloat16; largest change 2.38e-05 %."
    )
