"""Norms that others wrote in torch, as their torch operations: each written out here, and against its preset.

The packages themselves are not installed for this: it shows that a preset and the formula, as torch runs it, agree.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from rmsaudit.arrays import Array

pytestmark = pytest.mark.frameworks

To, From = Callable[[Array], Any], Callable[[Any], Array]
Formula = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

SAME = [("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float16")]
MIXED = [("bfloat16", "float32"), ("float16", "float32"), ("float32", "bfloat16"), ("float16", "bfloat16")]


def in_float32(x: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)


def meta_llama(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return in_float32(x, 1e-5).to(x.dtype) * gain


def vllm_native(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return (in_float32(x, 1e-6).to(gain.dtype) * gain).to(x.dtype)


def litgpt(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return (in_float32(x, 1e-6) * gain.float()).to(x.dtype)


def litgpt_unit_offset(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return (in_float32(x, 1e-6) * (gain + 1).float()).to(x.dtype)


def torchtune(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x.float(), gain.shape, gain.float(), 1e-6).to(x.dtype)


def rms_norm_paper(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    root = torch.linalg.vector_norm(x, dim=-1, keepdim=True) * x.shape[-1] ** -0.5
    return gain * (x / (root + 1e-8))


def rms_norm_paper_first_quarter(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    kept = int(x.shape[-1] * 0.25)
    root = torch.linalg.vector_norm(x[..., :kept], dim=-1, keepdim=True) * kept**-0.5
    return gain * (x / (root + 1e-8))


def x_transformers(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return functional.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * gain


def x_transformers_unit_offset(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return functional.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * (gain + 1)


FORMULAS: dict[str, Formula] = {
    "meta-llama": meta_llama,
    "vllm-native": vllm_native,
    "litgpt": litgpt,
    "litgpt-unit-offset": litgpt_unit_offset,
    "torchtune": torchtune,
    "bzhangGo-torch": rms_norm_paper,
    "x-transformers": x_transformers,
    "x-transformers-unit-offset": x_transformers_unit_offset,
}
OF_THE_NORM = {"bzhangGo-torch", "x-transformers", "x-transformers-unit-offset"}  # torch adds these up in its own way


def live(formula: Formula, to: To, back: From) -> Callable[[Array, Array], Array]:
    return lambda x, gain: back(formula(to(x), to(gain)))


def lost_eps(preset: str, dtypes: tuple[str, str]) -> dict[str, Any]:
    """float16 has no number as small as these eps, so they act nowhere."""
    return {"eps_placement": "none"} if preset in OF_THE_NORM and dtypes[0] == "float16" else {}


@pytest.mark.parametrize("dtypes", [*SAME, *MIXED], ids="-".join)
@pytest.mark.parametrize("preset", FORMULAS)
def test_exact_rows(
    agrees_on_exact_rows: Any, to_torch: To, from_torch: From, preset: str, dtypes: tuple[str, str]
) -> None:
    formula = live(FORMULAS[preset], to_torch, from_torch)
    agrees_on_exact_rows(preset, formula, dtypes, **lost_eps(preset, dtypes))


@pytest.mark.parametrize("dtypes", SAME, ids="-".join)
@pytest.mark.parametrize("preset", [name for name in FORMULAS if name not in OF_THE_NORM])
def test_hard_rows(
    agrees_on_hard_rows: Any, to_torch: To, from_torch: From, preset: str, dtypes: tuple[str, str]
) -> None:
    agrees_on_hard_rows(preset, live(FORMULAS[preset], to_torch, from_torch), dtypes, "torch_cpu")


@pytest.mark.parametrize("word", ["float32", "bfloat16"])
def test_a_partial_norm(agrees_on_exact_rows: Any, to_torch: To, from_torch: From, word: str) -> None:
    formula = live(rms_norm_paper_first_quarter, to_torch, from_torch)
    agrees_on_exact_rows("bzhangGo-torch", formula, (word, word), statistic_width=0.25)


@pytest.mark.parametrize("preset", ["x-transformers", "bzhangGo-torch"])
def test_a_float16_row_of_zeros_gives_nan_where_eps_is_lost(to_torch: To, from_torch: From, preset: str) -> None:
    zeros, gain = torch.zeros(1, 8, dtype=torch.float16), torch.ones(8, dtype=torch.float16)
    assert torch.isnan(FORMULAS[preset](zeros, gain)).all()
    assert (FORMULAS[preset](zeros.float(), gain.float()) == 0).all()
