from dataclasses import replace

import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.battery import Setup, Skipped
from rmsaudit.emulator import emulate
from rmsaudit.inversion import read_declared
from rmsaudit.semantics.resolve import fitted, resolve


def on_the_battery(declared, true):
    """What `true` gives on the battery that is built for `declared`."""
    built = battery.build(Setup(reference=declared, candidate=declared, rows=8))
    cases = [case for part in built if not isinstance(part, Skipped) for case in part[1]]
    return [(case, emulate(fitted(true, case.width), case)) for case in cases]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("placement", "eps"),
    [("inside_sqrt", 1e-5), ("inside_sqrt", 3.3e-6), ("outside_sqrt", 1e-4), ("floor_rms", 2e-3), ("inside_sum", 1e-4)],
)
def test_the_eps_that_really_acts(dtype, placement, eps):
    """The side declares 1e-6 inside the root; its outputs say otherwise."""
    words = {"width": 64, "input_dtype": dtype, "gain_dtype": dtype, "eps": 1e-6, "cast_point": "before_gain"}
    declared = resolve({**words, "accumulate_order": "torch_cpu"})
    found = read_declared(declared, on_the_battery(declared, replace(declared, eps=eps, eps_placement=placement)))
    assert found.placed(placement).contains(eps)
    assert found.placed(placement).digits > 2.5
    assert not any(placed.placement == "inside_sqrt" and placed.contains(1e-6) for placed in found.standing)


def test_what_is_declared_is_confirmed():
    declared = resolve({"width": 64, "eps": 1e-6})
    found = read_declared(declared, on_the_battery(declared, declared))
    assert found.placed("inside_sqrt").contains(1e-6)
    assert found.placed("inside_sqrt").digits > 5


def test_no_eps_explains_a_side_that_differs_in_something_else():
    declared = resolve({"width": 64, "eps": 1e-6})
    found = read_declared(declared, on_the_battery(declared, replace(declared, statistic_width=32)))
    assert not found.standing


@pytest.mark.parametrize("words", [{"center": True}, {"bias": True}])
def test_nothing_without_a_bound(words):
    declared = resolve({"width": 64, **words})
    assert read_declared(declared, on_the_battery(declared, declared)[:2]) is None


def test_nothing_without_a_row_to_go_by():
    declared = resolve({"width": 64})
    case, output = on_the_battery(declared, declared)[0]
    zeros = replace(case, x=np.zeros_like(case.x))
    assert read_declared(declared, [(zeros, np.zeros_like(output))]) is None
    assert read_declared(declared, []) is None
