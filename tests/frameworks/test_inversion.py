"""Live torch as a black box: what is read of it, and that what is true of it is never excluded."""

from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from rmsaudit.arrays import Array
from rmsaudit.inversion import NotThisFamily, Reading, Run, Structure, read
from rmsaudit.inversion.box import Box
from rmsaudit.inversion.questions import at_width, read_structure
from rmsaudit.inversion.scale_law import ScaleLaw, View, read_scale_law

pytestmark = pytest.mark.frameworks

DTYPES = ("float32", "bfloat16", "float16")
Norm = Callable[[Tensor, Tensor, float], Tensor]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small calls: starting threads would cost more than they save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def to_torch(array: Array) -> Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_numpy(tensor: Tensor) -> Array:
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.contiguous().numpy()


def box(norm: Norm, own: float) -> Run:
    def run(x: Array, gain: Array, eps: float | None, /) -> Array:
        with torch.no_grad():
            return to_numpy(norm(to_torch(x), to_torch(gain), own if eps is None else eps))

    return run


# --- implementations as people write them ----------------------------------------------------------------------------


def rms_norm(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), g, eps)


def mean_square(x: Tensor) -> Tensor:
    return x.float().pow(2).mean(-1, keepdim=True)


def llama(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return g * (x.float() * torch.rsqrt(mean_square(x) + eps)).to(x.dtype)


def gemma(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() * torch.rsqrt(mean_square(x) + eps) * (1.0 + g.float())).to(x.dtype)


def gemma_in_16_bits(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() * torch.rsqrt(mean_square(x) + eps) * (1 + g).float()).to(x.dtype)


def t5(x: Tensor, g: Tensor, eps: float) -> Tensor:
    y = x * torch.rsqrt(mean_square(x) + eps)
    return g * (y.to(g.dtype) if g.dtype in (torch.float16, torch.bfloat16) else y)


def outside(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() / (mean_square(x).sqrt() + eps) * g.float()).to(x.dtype)


def outside_cast_first(x: Tensor, g: Tensor, eps: float) -> Tensor:
    norm = x.float().norm(dim=-1, keepdim=True) * x.shape[-1] ** -0.5
    return (x.float() / (norm + eps)).to(x.dtype) * g


def normalize(x: Tensor, g: Tensor, eps: float) -> Tensor:
    unit = torch.nn.functional.normalize(x.float(), dim=-1, eps=eps)
    return (unit * x.shape[-1] ** 0.5 * g.float()).to(x.dtype)


def floor_of_rms(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() / mean_square(x).sqrt().clamp_min(eps) * g.float()).to(x.dtype)


def floor_of_mean_square(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() * mean_square(x).clamp_min(eps).rsqrt() * g.float()).to(x.dtype)


def eps_on_the_sum(x: Tensor, g: Tensor, eps: float) -> Tensor:
    total = x.float().pow(2).sum(-1, keepdim=True)
    return (x.float() * torch.rsqrt((total + eps) / x.shape[-1]) * g.float()).to(x.dtype)


def layer_norm(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), g, None, eps)


def all_in_the_input_dtype(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * g


def four_heads(x: Tensor, g: Tensor, eps: float) -> Tensor:
    parts = x.reshape(len(x), 4, -1)
    return rms_norm(parts, None, eps).reshape(x.shape) * g  # type: ignore[arg-type]


def first_quarter(x: Tensor, g: Tensor, eps: float) -> Tensor:
    ms = mean_square(x[:, : x.shape[-1] // 4])
    return (x.float() * torch.rsqrt(ms + eps) * g.float()).to(x.dtype)


def no_eps(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() * torch.rsqrt(mean_square(x)) * g.float()).to(x.dtype)


def its_own_eps(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return rms_norm(x, g, 1e-6)


def hidden_minimum(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return rms_norm(x, g, max(eps, 1e-7))


# --- eps -------------------------------------------------------------------------------------------------------------

PLACED = {
    rms_norm: "inside_sqrt",
    llama: "inside_sqrt",
    gemma: "inside_sqrt",
    t5: "inside_sqrt",
    outside: "outside_sqrt",
    outside_cast_first: "outside_sqrt",
    normalize: "floor_norm",
    floor_of_rms: "floor_rms",
    floor_of_mean_square: "floor_rms",
    eps_on_the_sum: "inside_sum",
}
LEAST_DIGITS = {"float32": 5.0, "bfloat16": 4.0}
SMALLEST_ROW = 2.0**-27.5  # rms of one pair of float16's smallest values at width 256


def views(norm: Norm, dtype: str) -> list[View]:
    """Both widths; the structure, which eps does not change, is read once."""
    box_256 = Box(box(norm, 1e-3), 256, dtype, dtype)
    box_64 = replace(box_256, width=64)
    structure = read_structure(box_256)
    assert isinstance(structure, Structure), structure
    other = at_width(structure, box_64)
    assert isinstance(other, Structure), other
    return [View(box_256, structure), View(box_64, other)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", PLACED, ids=lambda norm: norm.__name__)
def test_300_random_eps(norm: Norm, dtype: str) -> None:
    """Ten for each norm and dtype. The true one is never excluded, no other placement stands beside its own unless
    nothing can be seen, and its digits are stated."""
    rng = np.random.default_rng(sum(map(ord, norm.__name__ + dtype)))
    asked = views(norm, dtype)
    placement = PLACED[norm]
    for exponent in rng.uniform(-12, -1, 10):
        eps = float(10**exponent)
        law = read_scale_law([replace(view, box=replace(view.box, eps=eps)) for view in asked])
        assert isinstance(law, ScaleLaw), law
        assert law.eps.rung is not None
        assert law.eps.rung.precision == "float32"
        acting = eps**0.5 if norm is floor_of_mean_square else eps
        placed = law.eps.placed(placement)
        assert placed is not None, (eps, law.eps)
        assert placed.contains(acting), (eps, placed)
        assert isfinite(placed.digits)
        if law.eps.acts:
            assert {p.placement for p in law.eps.standing} - {"floor_sum"} == {placement}
            assert placed.digits >= LEAST_DIGITS.get(dtype, 0.0), (eps, placed)
        else:
            assert dtype == "float16"
            assert acting * (1 / 16 if norm is normalize else 1) < SMALLEST_ROW


def test_what_float16_shows_and_what_not() -> None:
    """Inside the root even 1e-12 acts on the smallest rows; a floor of 1e-9 is below all of them."""
    (inside,), (floor,) = (
        [read(box(norm, eps), input_dtype="float16", gain_dtype="float16")]
        for norm, eps in ((rms_norm, 1e-12), (floor_of_rms, 1e-9))
    )
    assert isinstance(inside, Reading)
    assert isinstance(floor, Reading)
    assert inside.eps.placed("inside_sqrt").digits > 3  # type: ignore[union-attr]
    assert not floor.eps.acts
    assert any("the smallest that were asked about (float16)" in note for note in floor.not_observable)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eps_that_is_ignored_missing_raised_or_left_to_torch(dtype: str) -> None:
    def use(norm: Norm) -> tuple[str, str]:
        found = read(box(norm, 0.0), input_dtype=dtype, gain_dtype=dtype, asked=(1e-5, 1e-3, 1e-12))
        assert isinstance(found, Reading), found
        assert found.argument is not None
        return found.argument.use, str(found.argument.value)

    assert use(rms_norm) == ("used", "None")
    assert use(its_own_eps) == ("ignored", "1e-06")
    assert use(no_eps) == ("ignored", "None")
    assert use(hidden_minimum) == ("minimum", "1e-07")
    unset = read(box(lambda x, g, _: rms_norm(x, g, None), 0.0), input_dtype=dtype, gain_dtype=dtype)  # type: ignore[arg-type]
    assert isinstance(unset, Reading)
    assert unset.number(unset.likeliest).story == "machine epsilon of float32"  # type: ignore[union-attr]


# --- structure -------------------------------------------------------------------------------------------------------

STRUCTURES: dict[Norm, dict[str, Any]] = {
    rms_norm: {"cast_point": "after_gain"},
    llama: {"cast_point": "before_gain"},
    gemma: {"cast_point": "after_gain", "gain_offset": 1.0, "gain_offset_dtypes": ("float32",)},
    gemma_in_16_bits: {"cast_point": "after_gain", "gain_offset": 1.0, "gain_offset_dtypes": ("its own",)},
    t5: {"cast_point": "before_gain"},
    outside: {"cast_point": "after_gain"},
    outside_cast_first: {"cast_point": "before_gain"},
    normalize: {"cast_point": "after_gain"},
    floor_of_rms: {"cast_point": "after_gain"},
    eps_on_the_sum: {"cast_point": "after_gain"},
    layer_norm: {"cast_point": "after_gain", "centred": "yes"},
    all_in_the_input_dtype: {"cast_point": "before_gain", "precision": "its own"},
    four_heads: {"cast_point": "before_gain", "groups": 4},
    first_quarter: {"cast_point": "after_gain", "counted": 1 / 4},
    no_eps: {"cast_point": "after_gain", "zero_row": "NaN"},
}


@pytest.mark.parametrize("eps", [1e-3, 1e-5])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", STRUCTURES, ids=lambda norm: norm.__name__)
def test_structure(norm: Norm, dtype: str, eps: float) -> None:
    known = {word: dtype if value == "its own" else value for word, value in STRUCTURES[norm].items()}
    offset_dtypes = STRUCTURES[norm].get("gain_offset_dtypes", ())
    found = read(box(norm, eps), input_dtype=dtype, gain_dtype=dtype)
    assert isinstance(found, Reading), found
    seen = found.structure
    assert seen.groups == known.get("groups", 1)
    assert sum(seen.counted) == len(seen.counted) * known.get("counted", 1)
    assert seen.centred == known.get("centred", "no")
    assert seen.gain_applied
    assert seen.gain_offset == known.get("gain_offset", 0.0)
    assert seen.gain_offset_dtypes == ((dtype,) if offset_dtypes == ("its own",) else offset_dtypes)
    assert seen.cast_point == ("not observable" if dtype == "float32" else known["cast_point"])
    assert seen.associations[0] == "(x*i)*g"
    assert found.statistic_precision == known.get("precision", "float32")
    assert seen.zero_row == known.get("zero_row", "zeros")
    assert found.divisor.statistic == "mean_square"


def test_a_float32_gain_in_front_of_16_bit_rows() -> None:
    """transformers' order gives float32 then, whose rows still lie on the grid of bfloat16; T5's rounds nothing."""
    by_llama = read(box(llama, 1e-6), input_dtype="bfloat16", gain_dtype="float32", output_dtype="bfloat16")
    by_t5 = read(box(t5, 1e-6), input_dtype="bfloat16", gain_dtype="float32")
    assert isinstance(by_llama, Reading)
    assert isinstance(by_t5, Reading)
    assert (by_llama.structure.grid, by_llama.structure.output_dtype) == ("bfloat16", "float32")
    assert "output_dtype: it is float32; bfloat16 was declared" in by_llama.not_observable
    assert by_t5.structure.grid == "float32"


# --- abstention ------------------------------------------------------------------------------------------------------


def softmax(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return torch.softmax(x.float(), -1).to(x.dtype) * g


def learned_exponent(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() / (mean_square(x) + eps) ** 0.497 * g.float()).to(x.dtype)


def random_outputs(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return torch.randn_like(x.float()).to(x.dtype) * g


def layer_norm_with_bias(x: Tensor, g: Tensor, eps: float) -> Tensor:
    bias = torch.linspace(-0.1, 0.1, x.shape[-1]).to(x.dtype)
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), g, bias, eps)


def quantised(x: Tensor, g: Tensor, eps: float) -> Tensor:
    y = rms_norm(x, g, eps).float()
    step = y.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127
    return (torch.round(y / step) * step).to(x.dtype)


def scaled_float8(x: Tensor, g: Tensor, eps: float) -> Tensor:
    y = rms_norm(x, g, eps).float()
    scale = y.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 448
    return ((y / scale).to(torch.float8_e4m3fn).float() * scale).to(x.dtype)


def noisy(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (rms_norm(x, g, eps).float() * (1 + 0.01 * torch.randn(x.shape))).to(x.dtype)


def over_rows(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(0, keepdim=True) + eps) * g.float()).to(x.dtype)


def over_everything(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() * torch.rsqrt(x.float().pow(2).mean() + eps) * g.float()).to(x.dtype)


def mean_of_magnitudes(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return (x.float() / (x.float().abs().mean(-1, keepdim=True) + eps) * g.float()).to(x.dtype)


def gated(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return rms_norm(x, g, eps) * torch.sigmoid(x)


def tanh(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return torch.tanh(x / 2) * g


def running(x: Tensor, g: Tensor, eps: float) -> Tensor:
    count = torch.arange(1, x.shape[-1] + 1)
    return (x.float() * torch.rsqrt(x.float().pow(2).cumsum(-1) / count + eps) * g.float()).to(x.dtype)


DECOYS = (
    softmax, learned_exponent, random_outputs, layer_norm_with_bias, quantised, scaled_float8, noisy, over_rows,
    over_everything, mean_of_magnitudes, gated, tanh, running,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("decoy", DECOYS, ids=lambda decoy: decoy.__name__)
def test_decoys(decoy: Norm, dtype: str) -> None:
    found = read(box(decoy, 1e-6), input_dtype=dtype, gain_dtype=dtype)
    assert isinstance(found, NotThisFamily), found
    assert found.says
