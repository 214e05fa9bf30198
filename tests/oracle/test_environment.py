import numpy as np
import pytest

from rmsaudit.errors import Exit, NotIeee
from rmsaudit.oracle import Operands, answer, environment, formula
from rmsaudit.semantics.resolve import resolve


def pass_of_the_oracle() -> None:
    answer(formula(resolve({"width": 2})), Operands(x=np.ones((1, 2)), gain=np.ones(2)), "float32")


def test_this_environment_is_ieee() -> None:
    environment.require_ieee("before")


@pytest.mark.parametrize("broken", environment.PROBES)
def test_a_broken_environment_is_refused(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(environment.PROBES, broken, lambda: False)
    with pytest.raises(NotIeee, match=f"before its pass .*{broken}") as caught:
        pass_of_the_oracle()
    assert caught.value.exit_code is Exit.COULD_NOT_RUN


def test_a_change_during_the_pass_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([True, False])
    name = "subnormal numbers are flushed to zero"
    monkeypatch.setitem(environment.PROBES, name, lambda: next(answers))
    with pytest.raises(NotIeee, match="after its pass"):
        pass_of_the_oracle()


class Flushing(np.ndarray):  # type: ignore[type-arg]
    """float64 whose products and subnormal operands become zero, as on a processor set to do so."""

    def __mul__(self, other: object) -> np.ndarray:  # type: ignore[type-arg]
        product = np.asarray(self) * np.asarray(other)
        return np.where(np.abs(product) < np.finfo(product.dtype).smallest_normal, 0, product).astype(product.dtype)


def test_the_probe_itself_sees_flushed_products(monkeypatch: pytest.MonkeyPatch) -> None:
    keeps = environment.PROBES["subnormal numbers are flushed to zero"]
    assert keeps()
    monkeypatch.setattr(environment, "_SMALLEST", environment._SMALLEST.view(Flushing))
    assert not keeps()
