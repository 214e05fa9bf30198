"""kind: python with torch and transformers: across the process border, every bit is that of a direct call."""

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.models.llama import modeling_llama

from rmsaudit.arrays import Array, bits, bits_of, dtype_of, round_to
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS
from rmsaudit.loaders import Failed
from rmsaudit.loaders.python import PythonSection, PythonSide, Returned, load
from rmsaudit.semantics.resolve import resolve

pytestmark = pytest.mark.frameworks

WIDTH = 64
EPS = 1e-5
DTYPES = [("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float16"), ("bfloat16", "float32")]

CODE = """
import torch
import torch.nn.functional as F

def norm(x, gain, eps):
    return F.rms_norm(x, (x.shape[-1],), gain, eps)

def from_dlpack(x, gain, eps):
    return norm(torch.from_dlpack(x), torch.from_dlpack(gain), eps)

def same(x):
    return x

def acts_by_eps(x, gain, eps):
    if eps == 1:
        facts = [torch.get_num_threads(), torch.is_grad_enabled(), gain.requires_grad, x.data_ptr() % 64]
        return torch.tensor(facts + [0] * (x.shape[1] - 4), dtype=torch.float32).expand(x.shape)
    if eps == 2:
        return x.mul_(2)
    if eps == 3:
        return x.to(torch.complex64)
    if eps == 4:
        return x @ x
    if eps == 5:
        return x + torch.ones(1 << 30).sum()
    return x.numpy()
"""


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CASE = Case(
    category="ordinary",
    label="",
    x=normal(1, 6, WIDTH),
    gain=normal(2, WIDTH),
    bias=normal(3, WIDTH),
    residual=normal(4, 6, WIDTH),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("declared")
    (folder / "kernels.py").write_text(CODE)
    return folder


def a_side(home: Path, **section: Any) -> PythonSide:
    declared = {"width": WIDTH, "eps": EPS}
    section = {"arrays": "torch", **section}
    spec = resolve(declared)
    return load(PythonSection(**section), declared=declared, spec=spec, gain=None, home=home, allow_code=True)


def returned(side: PythonSide, input_dtype: str = "float32", gain_dtype: str = "float32", **options: Any) -> Returned:
    """One call on CASE, or on options["case"], in these dtypes."""
    side.spec = replace(side.spec, input_dtype=input_dtype, gain_dtype=gain_dtype)
    got = side.call(options.pop("case", CASE), **options)
    assert isinstance(got, Returned), got
    return got


def says(side: PythonSide, **options: Any) -> str:
    failed = side.call(CASE, **options)
    assert isinstance(failed, Failed), failed
    return failed.says


def tensor(array: Array, dtype: str) -> torch.Tensor:
    return torch.from_numpy(array).to(getattr(torch, dtype))


def assert_same(output: Array, direct: torch.Tensor) -> None:
    """Equal dtype and bits."""
    assert str(direct.dtype) == f"torch.{output.dtype.name}"
    as_bits = direct.detach().contiguous().view(getattr(torch, f"uint{8 * direct.element_size()}"))
    np.testing.assert_array_equal(bits(output), as_bits.numpy())


@pytest.fixture(scope="module")
def acting(home: Path) -> Iterator[PythonSide]:
    """Leaves torch 1 GiB of memory to work in."""
    with a_side(home, function="kernels.py:acts_by_eps", memory_mib=1024) as side:
        yield side


@pytest.fixture(scope="module")
def echo(home: Path) -> Iterator[PythonSide]:
    with a_side(home, function="kernels.py:same") as side:
        yield side


@pytest.mark.parametrize("word", FORMATS)
def test_every_bit_pattern_comes_back_in_every_layout(word: str, echo: PythonSide) -> None:
    size = FORMATS[word].bits
    patterns = (
        np.arange(1 << size, dtype=bits_of(word))
        if size <= 16
        else np.random.default_rng(6).integers(0, 1 << size, 1 << 14, dtype=bits_of(word))
    )
    x = patterns.view(dtype_of(word)).reshape(-1, 32)
    case = replace(CASE, x=x)
    for layout in ("contiguous", "transposed", "strided"):
        got = returned(echo, word, case=case, layout=layout)
        assert got.output.dtype == x.dtype
        np.testing.assert_array_equal(bits(got.output), bits(x))
        assert got.shares == ("x",)  # so no copy was made on the way to the function
    spread = returned(echo, word, case=case, layout="broadcast").output
    np.testing.assert_array_equal(bits(spread), np.broadcast_to(bits(x)[:1], x.shape))


MLX_HAS = ("float64", "float32", "float16", "bfloat16")


@pytest.mark.parametrize(
    ("arrays", "word"), [*(("jax", word) for word in FORMATS), *(("mlx", word) for word in MLX_HAS)]
)
def test_every_bit_pattern_comes_back_from_other_frameworks(
    arrays: str, word: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    (home / "plain.py").write_text("def same(x):\n    return x\n")
    size = FORMATS[word].bits
    patterns = np.random.default_rng(6).integers(0, 1 << size, 1 << 14, dtype=bits_of(word))
    x = patterns.view(dtype_of(word)).reshape(-1, 32)
    with a_side(home, function="plain.py:same", arrays=arrays) as side:
        got = returned(side, word, case=replace(CASE, x=x))
    assert got.output.dtype == x.dtype
    np.testing.assert_array_equal(bits(got.output), bits(x))


@pytest.mark.parametrize("word", sorted(set(FORMATS) - set(MLX_HAS)))
def test_a_dtype_that_mlx_does_not_have_is_told(word: str, home: Path) -> None:
    (home / "plain.py").write_text("def same(x):\n    return x\n")
    with a_side(home, function="plain.py:same", arrays="mlx") as side:
        side.spec = replace(side.spec, input_dtype=word)
        assert f"takes {word}, which MLX does not have" in says(side)


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's, about another kernel for mixed dtypes
@pytest.mark.parametrize("target", ["kernels.py:norm", "torch.nn.functional:rms_norm"])
def test_functional_rms_norm(target: str, home: Path) -> None:
    with a_side(home, function=target) as side:
        for input_dtype, gain_dtype in DTYPES:
            x, gain = tensor(CASE.x, input_dtype), tensor(CASE.gain, gain_dtype)
            direct = torch.nn.functional.rms_norm(x, (WIDTH,), gain, EPS)
            assert_same(returned(side, input_dtype, gain_dtype).output, direct)
    assert side.versions["torch"] == torch.__version__
    if target.startswith("torch"):
        assert side.notes.called == "rms_norm(x, normalized_shape=[width], weight=gain, eps=eps)"


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
def test_torchs_layer(home: Path) -> None:
    init = {"normalized_shape": ["$width"], "eps": "$eps"}
    with a_side(home, module="torch.nn:RMSNorm", init=init, gain="weight") as side:
        for input_dtype, gain_dtype in DTYPES:
            layer = torch.nn.RMSNorm(WIDTH, EPS)
            layer.weight.data = tensor(CASE.gain, gain_dtype)
            with torch.no_grad():
                direct = layer(tensor(CASE.x, input_dtype))
            assert_same(returned(side, input_dtype, gain_dtype).output, direct)
            assert_same(returned(side, input_dtype, gain_dtype).output, direct)  # nothing stays from the first call


def test_transformers_layer(home: Path) -> None:
    target = f"{modeling_llama.__name__}:LlamaRMSNorm"
    with a_side(home, module=target, init=("$width", "$eps"), gain="weight") as side:
        for input_dtype, gain_dtype in DTYPES:
            layer = modeling_llama.LlamaRMSNorm(WIDTH, EPS)
            layer.weight.data = tensor(CASE.gain, gain_dtype)
            with torch.no_grad():
                direct = layer(tensor(CASE.x, input_dtype))
            assert_same(returned(side, input_dtype, gain_dtype).output, direct)
    assert side.versions["transformers"] == transformers.__version__
    source = Path(modeling_llama.__file__).read_bytes()
    assert side.digests == {modeling_llama.__name__: hashlib.sha256(source).hexdigest()}


def test_dlpack_carries_bfloat16(home: Path) -> None:
    with a_side(home, function="kernels.py:from_dlpack", arrays="dlpack") as side:
        x, gain = tensor(CASE.x, "bfloat16"), tensor(CASE.gain, "bfloat16")
        direct = torch.nn.functional.rms_norm(x, (WIDTH,), gain, EPS)
        for layout in ("contiguous", "transposed", "strided"):
            got = returned(side, "bfloat16", "bfloat16", layout=layout)
            np.testing.assert_allclose(
                got.output.astype(np.float32),
                direct.to(torch.float32).numpy(),
                rtol=2**-7,  # one ulp of bfloat16: another layout may add in another order
            )


def test_the_circumstances_of_a_call(acting: PythonSide) -> None:
    """Threads as asked for, no gradients, memory as aligned as torch's own."""
    default = torch.get_num_threads()
    for threads, in_force in ((None, default), (1, 1), (2, 2), (None, default)):
        got = returned(acting, eps=1, threads=threads)
        assert (got.threads, *got.output[0, :4]) == (in_force, in_force, 0, 0, 0)
    assert acting.threads == default


def test_in_place_work_is_noted_and_does_no_harm(acting: PythonSide) -> None:
    digest = CASE.digest()
    for _ in range(2):
        got = returned(acting, eps=2)
        np.testing.assert_array_equal(got.output, 2 * CASE.x)
        assert (got.changed, got.shares) == (("x",), ("x",))
    assert CASE.digest() == digest


@pytest.mark.parametrize(
    ("eps", "told"),
    [
        (3, "returned complex64; what is compared is one of"),
        (4, "raised RuntimeError: mat1 and mat2 shapes cannot be multiplied (6x64 and 6x64) (kernels.py:"),
        (5, "raised RuntimeError: "),
        (6, "returned a numpy.ndarray, not an array of torch"),
    ],
)
def test_faults_are_told(eps: float, told: str, acting: PythonSide) -> None:
    got = says(acting, eps=eps)
    assert got.startswith(f"kernels.py:acts_by_eps {told}")
    if eps == 5 and sys.platform.startswith("linux"):
        assert got.endswith("; its limit is memory_mib: 1024")


def test_a_parameter_or_device_that_is_not_there(home: Path) -> None:
    with a_side(home, module="torch.nn:RMSNorm", init=("$width",), gain="gamma") as side:
        assert says(side) == "torch.nn:RMSNorm has no parameter gamma; there are weight"
    with a_side(home, function="kernels.py:same", device="cuda:99") as side:
        assert says(side).startswith("kernels.py:same cannot use device: cuda:99: ")


def test_an_environment_with_torch_and_neither_rmsaudit_nor_numpy(home: Path) -> None:
    site = Path(torch.__file__).parents[1]
    packages = home / "packages"
    packages.mkdir()
    for entry in site.iterdir():
        if not entry.name.startswith(("numpy", "rmsaudit", "__editable__")) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    python = home / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    (home / "bare.py").write_text(
        "import importlib.util\n"
        "def norm(x):\n"
        "    found = [name for name in ('rmsaudit', 'numpy') if importlib.util.find_spec(name)]\n"
        "    assert not found, found\n"
        "    return x\n"
    )
    with a_side(home, function="bare.py:norm", interpreter=Path("python")) as side:
        got = returned(side, "float8_e4m3fn")
    np.testing.assert_array_equal(bits(got.output), bits(round_to(CASE.x, "float8_e4m3fn")))
    assert "numpy" not in side.versions
