"""Where eps may be read from."""

from pathlib import Path

import pytest

from rmsaudit.documents.eps import EpsPlace, FoundEps, FromCheckpoint, FromConfig, FromGguf, find_eps
from rmsaudit.documents.problems import Refused


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (FromConfig(config="files/nested.json"), FoundEps(1e-6, "nested.json: text_config.rms_norm_eps")),
        (FromCheckpoint(checkpoint="files/checkpoint"), FoundEps(1e-5, "config.json: rms_norm_eps")),
        (FromCheckpoint(checkpoint="./files/checkpoint/"), FoundEps(1e-5, "config.json: rms_norm_eps")),
        (
            FromGguf(gguf="files/model.gguf"),
            FoundEps(
                1e-5, "model.gguf: llama.attention.layer_norm_rms_epsilon (shortest decimal of the stored float32)"
            ),
        ),
    ],
)
def test_found(fixtures: Path, place: EpsPlace, found: FoundEps) -> None:
    assert find_eps(place, fixtures / "implementations") == found


def test_a_refusal_names_the_path_as_it_was_written(tmp_path: Path) -> None:
    for place, named in (
        (FromConfig(config="./x.json"), "./x.json"),
        (FromCheckpoint(checkpoint="./x/"), "./x/config.json"),
        (FromGguf(gguf="x.gguf"), "x.gguf"),
    ):
        with pytest.raises(Refused) as caught:
            find_eps(place, tmp_path)
        assert caught.value.says == f"{named} does not exist; check the path"
