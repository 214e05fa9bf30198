"""A side that computes exactly what it is believed to keeps every behaviour, whatever the belief is."""

import pytest

from rmsaudit.behaviours import look_at
from rmsaudit.documents.preset import preset_names, read_preset
from rmsaudit.emulator import emulate
from rmsaudit.loaders.python import Notes, PythonSide, Returned
from rmsaudit.loaders.spec import Declared
from rmsaudit.semantics import variables
from rmsaudit.semantics.resolve import resolve


class Emulated(PythonSide):
    """The emulator in the place of the process."""

    layouts = ("contiguous",)
    threads = None
    takes_eps = True
    notes = Notes(called="emulated(x, gain, eps)")

    def __init__(self, **declared):
        self.declared, self.spec, self.gain = declared, resolve(declared), None

    def call(self, case, *, eps=None, spec=None, **_):
        words = {**self.declared, "input_dtype": (spec or self.spec).input_dtype}
        words |= {"gain_dtype": (spec or self.spec).gain_dtype, "eps": self.spec.eps}
        varied = resolve(words)
        if eps is not None:
            object.__setattr__(varied, "eps", eps)  # resolve refuses an eps that a dtype loses; a call does not
        return Returned(emulate(varied, case), (), (), None)


def declared_by(preset):
    words = {name: v.default for name, v in variables().items()} | read_preset(preset).values
    return {**words, "width": 64}


@pytest.mark.parametrize("preset", preset_names())
def test_what_a_preset_declares_is_what_it_keeps(preset):
    side = Emulated(**declared_by(preset))
    assert not {name: one.says for name, one in look_at(side) if one.verdict == "broken"}


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("words", [{}, {"axes": (-2,)}, {"axes": (-2, -1)}, {"residual": "add"}, {"groups": 4}])
def test_every_dtype_and_scope(dtype, words):
    side = Emulated(width=64, eps=1e-6, input_dtype=dtype, **words)
    assert not {name: one.says for name, one in look_at(side) if one.verdict == "broken"}


def test_the_emulator_is_a_side_like_any_other():
    declared = {"width": 64, "eps": 1e-6}
    side = Declared(declared=declared, spec=resolve(declared), gain=None)
    seen = {name: one.verdict for name, one in look_at(side)}
    assert seen["rows"] == seen["repeat"] == seen["nonfinite-rows"] == seen["output-dtype"] == "kept"
