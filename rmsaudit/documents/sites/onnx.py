"""The norms of an ONNX file: its graph shows them, whatever they are called."""

import re
from collections.abc import Iterable, Iterator

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.checkpoints.onnx import OnnxNorm
from rmsaudit.documents.eps import FoundEps
from rmsaudit.documents.problems import printable
from rmsaudit.documents.sites import Site, Sites
from rmsaudit.documents.sites.architecture import LLAMA
from rmsaudit.documents.sites.declaring import Said, is_vector, listed, said_by
from rmsaudit.documents.tensors import TensorPlace

DECOMPOSED = "decomposed"
_GAINS = re.compile(r"(.+)\.(?:weight|scale|gamma)")
_ROUNDING = "computed as transformers rounds a plain RMSNorm; the operators of the graph may round elsewhere"


def sites_of_onnx(checkpoint: Checkpoint) -> Sites:
    """Every RMSNorm of a graph that has gains and an eps. Those of LayerNorms and of computed operands are noted."""
    norms: tuple[OnnxNorm, ...] = checkpoint.metadata["norms"]
    sites: list[Site] = []
    reasons: dict[str, list[str]] = {}
    for norm, name in zip(norms, _unique(map(name_of, norms)), strict=True):
        tensor = None if norm.gain is None else checkpoint.tensors.get(norm.gain)
        reason = _why_not(norm, tensor)
        if reason is None and tensor is not None:
            sites.append(_said(norm, tensor, checkpoint).site(name, name.removeprefix("model."), _note(norm)))
        else:
            reasons.setdefault(reason or "", []).append(name)
    notes = [f"left out: {listed(names)}; {reason}" for reason, names in reasons.items()]
    return Sites(sites=tuple(sites), architecture=None, notes=(*([_ROUNDING] if sites else []), *notes))


def name_of(norm: OnnxNorm) -> str:
    """The module's path, as exporters leave it: in the name of the gains, else in that of the node; else the output."""
    if norm.gain and (path := _GAINS.fullmatch(norm.gain)):
        return path[1]
    if "/" in norm.node:  # "/model/layers.0/input_layernorm/Mul"
        return norm.node.strip("/").rpartition("/")[0].replace("/", ".") or norm.output
    return norm.node or norm.output


def _unique(names: Iterable[str]) -> Iterator[str]:
    """The names, with a number behind each that was there before: one module may be run in several places."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}#{seen[name]}"


def _why_not(norm: OnnxNorm, tensor: TensorPlace | None) -> str | None:
    """Why a norm is no site; None where it is one."""
    if norm.center:
        return "a LayerNorm subtracts the mean, and is no RMSNorm"
    if norm.eps is None:
        return "its eps is computed in the graph"
    if tensor is None:
        return (
            "its gains are fed, or computed in the graph"
            if norm.computed_gain
            else "without gains, its width is not stated"
        )
    if not is_vector(tensor):
        return "its gains are no single row"
    return None


def _said(norm: OnnxNorm, tensor: TensorPlace, checkpoint: Checkpoint) -> Said:
    assert norm.eps is not None
    trail = ", ".join(norm.eps.trail)
    eps = FoundEps(norm.eps.value, printable(f"{checkpoint.path.name}: {trail} ({norm.eps.dtype})"))
    said = said_by(tensor, eps, LLAMA)
    if norm.eps.placement not in (None, "inside_sqrt"):
        said = said.also("eps_placement", norm.eps.placement, eps.source)
    if norm.gain_offset:
        said = said.also("gain_offset", norm.gain_offset, printable(f"{checkpoint.path.name}: added in the graph"))
    return said


def _note(norm: OnnxNorm) -> str:
    says = [] if norm.operator == DECOMPOSED else [norm.operator]
    says += ["the operator adds a residual to its input"] if norm.residual else []
    says += ["a bias is added to its output"] if norm.bias else []
    return "; ".join(says)
