"""The probe gives what the emulator gives, in the columns that it looks at."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from rmsaudit.arrays import bits
from rmsaudit.evidence import Gathering, distance
from rmsaudit.matching import Emulated
from rmsaudit.probing import COLUMNS, probe
from rmsaudit.semantics.resolve import resolve

_SPEC = spec_from_file_location("composites", Path(__file__).with_name("composites.py"))
composites = sys.modules.setdefault("composites", module_from_spec(_SPEC))
_SPEC.loader.exec_module(composites)

WORDS = {**composites.DEFAULTS, "width": 2048, "input_dtype": "bfloat16", "gain_dtype": "bfloat16"}


@pytest.fixture(scope="module")
def guides():
    return composites.evidence(WORDS, {**WORDS, "eps": 1e-3}).guide


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"groups": 8},
        {"post_scale": "sqrt_width"},
        {"groups": 4, "post_scale": "sqrt_width"},
        {"statistic_width": 100},
        {"center": True},
        {"gain_position": "before_statistic"},
        {"inverse": "divide_by_sqrt"},
        {"association": "x*(i*g)"},
        {"association": "(x*g)*i", "groups": 2},
        {"bias": True},
        {"gain_applied": False},
        {"cast_point": "before_gain", "gain_offset": 1.0},
        {"output_clamp": 1.0},
        {"eps_placement": "floor_norm"},
        {"prescale": "max_abs", "compute_dtype": "bfloat16"},
        {"subnormals": "flush", "rounding": "toward_zero"},
        {"axes": (-2,)},
    ],
    ids=str,
)
def test_outputs_of_the_probe_are_those_of_the_emulator_bit_for_bit(guides, change):
    by = Emulated(resolve({**WORDS, **change}), "absolute values" if change == {"center": True} else None)
    (part,) = probe(guides, rows_alone=True).parts
    assert part.columns is not None
    assert COLUMNS <= len(part.columns) < 2048
    whole = by.on(part.sample)[:, part.columns]
    assert np.array_equal(bits(part.output(by)), bits(np.ascontiguousarray(whole)))


def test_what_does_not_depend_on_the_gain_is_worked_out_once(guides):
    (part,) = probe(guides, rows_alone=True).parts
    for change in ({}, {"gain_offset": 1.0}, {"cast_point": "before_gain"}, {"output_dtype": "float32"}):
        part.output(Emulated(resolve({**WORDS, **change})))
    assert len(part.begun) == 1
    part.output(Emulated(resolve({**WORDS, "eps": 1e-3})))
    assert len(part.begun) == 2


def test_rows_that_join_are_looked_at_in_all_columns(guides):
    probed = probe(guides, rows_alone=True)
    before = len(probed.names)
    joined = guides[0].taken(np.array([0, 1]))
    probed.join(joined)
    assert len(probed.names) == before + 2
    assert probed.joined == (joined,)
    assert abs(probed.weights.sum() - 1) < 1e-12  # a sum of some shares in float64
    by = Emulated(resolve(WORDS))
    (_, far), *rest = probed.distances(by, 1)
    assert not rest
    assert np.array_equal(far, distance(by.on(joined), joined.candidate))


def test_nothing_gathered_gives_an_empty_probe():
    assert not probe(Gathering(64).evidence().guide, rows_alone=True).parts
