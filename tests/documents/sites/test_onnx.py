"""The norms of a graph, once its reader has found them; tests/frameworks reads files that the onnx package writes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.checkpoints.onnx import OnnxEps, OnnxNorm
from rmsaudit.documents.sites import Sites
from rmsaudit.documents.sites.find import find_sites
from rmsaudit.documents.sites.onnx import name_of
from rmsaudit.documents.tensors import TensorPlace

Find = Callable[..., Sites]


def norm(**differing: Any) -> OnnxNorm:
    usual: dict[str, Any] = {
        "node": "/model/norm/Mul",
        "operator": "RMSNormalization",
        "output": "y",
        "axis": -1,
        "eps": OnnxEps(value=1e-5, dtype="float32", placement="inside_sqrt", trail=("attribute epsilon of norm",)),
        "gain": "model.norm.weight",
        "gain_offset": 0.0,
        "computed_gain": False,
        "bias": None,
        "residual": False,
        "center": False,
    }
    return OnnxNorm(**{**usual, **differing})


@pytest.fixture
def of_norms() -> Find:
    def find(*norms: OnnxNorm) -> Sites:
        places = {
            name: TensorPlace(path=Path("m.onnx"), name=name, dtype="float32", shape=shape, offset=0, length=32)
            for name, shape in (("model.norm.weight", (8,)), ("onnx::Mul_7", (1, 1, 8)), ("table", (2, 8)))
        }
        return find_sites(Checkpoint(path=Path("m.onnx"), format="onnx", tensors=places, metadata={"norms": norms}))

    return find


def test_one_operator(of_norms: Find) -> None:
    (site,) = of_norms(norm()).sites
    assert (site.name, site.below, site.note) == ("model.norm", "norm", "RMSNormalization")
    assert site.declared == {"width": 8, "eps": 1e-5, "gain_dtype": "float32"}
    assert site.eps.source == "m.onnx: attribute epsilon of norm (float32)"


def test_what_the_graph_adds(of_norms: Find) -> None:
    eps = OnnxEps(value=1e-6, dtype="float32", placement="outside_sqrt", trail=("initialiser e", "added after /Sqrt"))
    site = of_norms(norm(operator="decomposed", gain="onnx::Mul_7", gain_offset=1.0, eps=eps)).sites[0]
    assert site.declared == {
        "width": 8,
        "eps": 1e-6,
        "gain_dtype": "float32",
        "eps_placement": "outside_sqrt",
        "gain_offset": 1.0,
    }
    assert site.source["eps_placement"] == "m.onnx: initialiser e, added after /Sqrt (float32)"


@pytest.mark.parametrize(
    ("differing", "name"),
    [
        ({}, "model.norm"),
        ({"gain": "onnx::Mul_7"}, "model.norm"),
        ({"gain": None, "node": "/model/layers.3/input_layernorm/Mul_1"}, "model.layers.3.input_layernorm"),
        ({"gain": "g", "node": "the_norm"}, "the_norm"),
        ({"gain": "g", "node": ""}, "y"),
        ({"gain": "g", "node": "/Mul"}, "y"),
    ],
)
def test_names(differing: dict[str, Any], name: str) -> None:
    assert name_of(norm(**differing)) == name


def test_a_module_that_runs_twice_is_two_sites(of_norms: Find) -> None:
    assert [site.name for site in of_norms(norm(), norm(), norm()).sites] == [
        "model.norm",
        "model.norm#2",
        "model.norm#3",
    ]


@pytest.mark.parametrize(
    ("differing", "reason"),
    [
        ({"center": True}, "a LayerNorm subtracts the mean, and is no RMSNorm"),
        ({"eps": None}, "its eps is computed in the graph"),
        ({"gain": None, "computed_gain": True}, "its gains are fed, or computed in the graph"),
        ({"gain": None}, "without gains, its width is not stated"),
        ({"gain": "table"}, "its gains are no single row"),
    ],
)
def test_what_is_no_site_is_noted(of_norms: Find, differing: dict[str, Any], reason: str) -> None:
    sites = of_norms(norm(**differing))
    assert (sites.sites, sites.notes) == ((), (f"left out: `model.norm`; {reason}",))
