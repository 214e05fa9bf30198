import numpy as np
import pytest

from rmsaudit.inversion import CannotAsk, of_side
from rmsaudit.loaders import Failed
from rmsaudit.loaders.spec import Declared

X = np.array([[1.0, -2.0, 3.0, -4.0] * 16], dtype=np.float32)
GAIN = np.ones(64, dtype=np.float32)


def declared(spec, **words):
    return Declared({}, spec(**words), None)


def test_a_spec_answers_under_its_own_eps_and_under_another(spec):
    run = of_side(declared(spec, eps=1.0))
    np.testing.assert_allclose(run(X, GAIN, None), X / np.sqrt(7.5 + 1.0), rtol=1e-6)
    np.testing.assert_allclose(run(X, GAIN, 0.5), X / np.sqrt(7.5 + 0.5), rtol=1e-6)


def test_a_width_that_groups_do_not_divide_cannot_be_asked(spec):
    run = of_side(declared(spec, groups=16))
    with pytest.raises(CannotAsk, match="width 40 does not hold its 16 groups"):
        run(X[:, :40], GAIN[:40], None)


class Broken:
    """A side that fails, and whose eps nobody can set."""

    def observe(self, case):
        return Failed(f"no GPU for {case.label!r}")


def test_what_a_side_says_when_it_fails_is_handed_on():
    with pytest.raises(CannotAsk, match="no GPU for ''"):
        of_side(Broken())(X, GAIN, None)


def test_an_eps_that_cannot_be_set_cannot_be_asked_for():
    with pytest.raises(CannotAsk, match="cannot be set"):
        of_side(Broken())(X, GAIN, 1e-6)
