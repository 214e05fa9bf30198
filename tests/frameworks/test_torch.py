"""torch's own RMSNorm on CPU: its bits, its order of addition, and what it does at the edges."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from rmsaudit.arrays import Array, dtype_of, round_to
from rmsaudit.semantics.arithmetic import Arithmetic
from rmsaudit.semantics.orders import sum_last_axis

pytestmark = pytest.mark.frameworks

PAIRS = [
    ("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"),
    ("bfloat16", "float32"), ("float16", "float32"), ("float32", "bfloat16"), ("float16", "bfloat16"),
]  # fmt: skip

To, From = Callable[[Array], Any], Callable[[Any], Array]


@pytest.fixture(autouse=True)
def _one_thread(recwarn: pytest.WarningsRecorder) -> Any:
    """Fewer threads are quicker here. torch warns of mixed dtypes, which are wanted."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def rms_norm(to: To, back: From, eps: float | None) -> Callable[[Array, Array], Array]:
    return lambda x, gain: back(functional.rms_norm(to(x), (x.shape[1],), to(gain), eps))


def rms_norm_module(to: To, back: From) -> Callable[[Array, Array], Array]:
    def live(x: Array, gain: Array) -> Array:
        module = torch.nn.RMSNorm(x.shape[1])
        module.weight.data = to(gain)
        return back(module(to(x)))

    return live


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("dtypes", PAIRS, ids="-".join)
@pytest.mark.parametrize("eps", [None, 1e-5])
def test_rms_norm(
    agrees_on_hard_rows: Any,
    agrees_on_exact_rows: Any,
    to_torch: To,
    from_torch: From,
    eps: float | None,
    dtypes: tuple[str, str],
) -> None:
    live = rms_norm(to_torch, from_torch, eps)
    agrees_on_hard_rows("torch-rms-norm", live, dtypes, "torch_cpu", eps=eps)
    agrees_on_exact_rows("torch-rms-norm", live, dtypes, eps=eps)


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("dtypes", PAIRS, ids="-".join)
def test_the_module(agrees_on_hard_rows: Any, to_torch: To, from_torch: From, dtypes: tuple[str, str]) -> None:
    agrees_on_hard_rows("torch-rms-norm", rms_norm_module(to_torch, from_torch), dtypes, "torch_cpu")


@pytest.mark.parametrize("word", ["float32", "float16", "bfloat16"])
def test_without_gain(agrees_on_hard_rows: Any, to_torch: To, from_torch: From, word: str) -> None:
    def live(x: Array, gain: Array) -> Array:
        return from_torch(functional.rms_norm(to_torch(x), (x.shape[1],)))

    agrees_on_hard_rows("nanochat", live, (word, word), "torch_cpu")


def test_float64_is_computed_in_float64(agrees_on_exact_rows: Any, to_torch: To, from_torch: From) -> None:
    live = rms_norm(to_torch, from_torch, None)
    agrees_on_exact_rows("torch-rms-norm", live, ("float64", "float64"), compute_dtype="float64")


@pytest.mark.parametrize("order", ["pairwise", "sequential", "lanes:8"])
def test_another_order_of_addition_is_noticed(
    agrees_on_hard_rows: Any, to_torch: To, from_torch: From, order: str
) -> None:
    """The twin: on rows whose sums round, float32 bits depend on the order."""
    with pytest.raises(AssertionError, match="differ"):
        agrees_on_hard_rows("torch-rms-norm", rms_norm(to_torch, from_torch, None), ("float32", "float32"), order)


@pytest.mark.parametrize("changes", [{"cast_point": "before_gain"}, {"eps": 1.1e-7}, {"inverse_dtype": "input"}])
def test_another_norm_is_noticed(agrees_on_exact_rows: Any, to_torch: To, from_torch: From, changes: Any) -> None:
    """The twin: exact rows hide the order and nothing else."""
    live = rms_norm(to_torch, from_torch, None)
    with pytest.raises(AssertionError, match="differ"):
        agrees_on_exact_rows("torch-rms-norm", live, ("bfloat16", "bfloat16"), **changes)


# --- the order of addition --------------------------------------------------------------------------------------------

SUM_WIDTHS = [
    *range(1, 10),
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    100,
    127,
    255,
    513,
    768,
    1000,
    2047,
    2048,
    5000,
    16384,
    20000,
]


@pytest.mark.parametrize("width", SUM_WIDTHS)
def test_torch_cpu_is_the_order_of_torch_on_contiguous_rows(width: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.standard_normal((21, width)) * np.exp2(rng.integers(-8, 8, size=(21, width)))
    terms = np.square(x).astype(np.float32)
    got = sum_last_axis(terms, "torch_cpu")
    np.testing.assert_array_equal(got, torch.from_numpy(terms).sum(-1, keepdim=True).numpy())
    np.testing.assert_array_equal(got / np.float32(width), torch.from_numpy(terms).mean(-1, keepdim=True).numpy())


def test_the_number_of_threads_does_not_matter() -> None:
    terms = np.random.default_rng(0).random((64, 5000), dtype=np.float32)
    torch.set_num_threads(2)
    np.testing.assert_array_equal(
        sum_last_axis(terms, "torch_cpu"), torch.from_numpy(terms).sum(-1, keepdim=True).numpy()
    )


def test_a_transposed_input_is_added_in_another_order() -> None:
    terms = np.random.default_rng(0).random((64, 768), dtype=np.float32)
    transposed = torch.from_numpy(np.ascontiguousarray(terms.T)).T
    assert (sum_last_axis(terms, "torch_cpu") != transposed.sum(-1, keepdim=True).numpy()).any()


# --- arithmetic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["float16", "bfloat16"])
def test_sixteen_bit_operations_round_as_torch_rounds_them(to_torch: To, from_torch: From, word: str) -> None:
    """float32 inside, then one rounding: every operation of `Arithmetic` on pairs of random bit patterns."""
    patterns = np.random.default_rng(0).integers(0, 1 << 16, size=(2, 100_000)).astype(np.uint16)
    a, b = patterns.view(dtype_of(word))
    arithmetic = Arithmetic()
    pairs = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
    with np.errstate(all="ignore"):
        for name, live in pairs.items():
            want = from_torch(live(to_torch(a), to_torch(b))).astype(np.float64)
            np.testing.assert_array_equal(getattr(arithmetic, name)(a, b, word).astype(np.float64), want)


def test_a_reciprocal_root_in_torch_is_rounded_twice() -> None:
    a = np.random.default_rng(0).random(200_000, dtype=np.float32) * 3 + 1
    live = torch.rsqrt(torch.from_numpy(a)).numpy()
    np.testing.assert_array_equal(live, np.float32(1) / np.sqrt(a))
    np.testing.assert_array_equal(torch.pow(torch.from_numpy(a), -0.5).numpy(), live)
    assert (live != Arithmetic().rsqrt(a, "float32")).mean() > 0.2


# --- facts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["bfloat16", "float16", "float32"])
def test_no_eps_means_the_machine_epsilon_of_float32(to_torch: To, from_torch: From, word: str) -> None:
    """Read off rows whose mean square is eps itself: 1/√2 of what a row far above eps gives."""
    x = round_to(np.full((1, 64), 2.0**-12), word)  # squares are 2^-24, half of 2^-23
    y = from_torch(functional.rms_norm(to_torch(x), (64,))).astype(np.float64)
    assert y[0, 0] == pytest.approx(1 / np.sqrt(3), rel=2.0**-8)
    np.testing.assert_array_equal(
        from_torch(functional.rms_norm(to_torch(x), (64,), eps=1.1920929e-07)).astype(np.float64), y
    )


def test_a_half_precision_row_of_256_is_normalised() -> None:
    y = functional.rms_norm(torch.full((1, 2), 256.0, dtype=torch.float16), (2,), eps=1e-5)
    assert y.tolist() == [[1.0, 1.0]]


def test_a_float32_row_of_3e38_comes_out_as_zero() -> None:
    assert functional.rms_norm(torch.full((1, 4), 3e38), (4,)).tolist() == [[0.0] * 4]
