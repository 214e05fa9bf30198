"""Sites made by hand."""

import numpy as np
import pytest

from rmsaudit.arrays import dtype_of, word_of
from rmsaudit.model.sites import SitePair, SiteSide
from rmsaudit.semantics import variables


def make_side(gain, **words):
    """A site of float32, Llama's arithmetic; `gain` as a list or an array."""
    gain = None if gain is None else np.asarray(gain, dtype=getattr(gain, "dtype", dtype_of("float32")))
    declared = {name: v.default for name, v in variables().items()}
    declared |= {"eps": 1e-5, "cast_point": "before_gain", "gain_dtype": "float32"}
    declared |= {"width": 8 if gain is None else gain.size, "gain_applied": gain is not None}
    return SiteSide(
        declared=declared | words,
        gain=gain,
        stored=None if gain is None else word_of(gain),
        source={"eps": "by hand", "gain": "by hand: g"},
    )


@pytest.fixture
def site():
    return make_side


@pytest.fixture
def pair():
    def make(reference, candidate, name="model.layers.0.input_layernorm"):
        return SitePair(name=name, reference=reference, candidate=candidate)

    return make


@pytest.fixture
def drawn():
    """Gains like trained ones, [16] in float32, without a value that a shorter format holds."""
    return (np.random.default_rng(5).normal(1.0, 0.2, 16)).astype(np.float32)
