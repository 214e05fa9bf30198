"""The sections of the kinds that run something: `python:`, `onnx:`, `command:`, `recorded:`.

Paths are relative to the file that they stand in. What a section means is written beside its loader, in
`rmsaudit/loaders/<kind>.py`; here is what may be written.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from rmsaudit.tolerance import Part

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Limited(Part):
    """Limits of a side that runs code."""

    timeout: Seconds = Field(60.0, description="seconds one call may take")
    memory_mib: int | None = Field(None, ge=1, description="memory the process may take, where the system has a limit")


class PythonPart(Limited):
    """A function or a layer of an array framework, run in a process of its own; needs --allow-code."""

    function: str | None = Field(None, description="called with the operands", examples=["kernels.py:rms_norm"])
    module: str | None = Field(None, description="a class, constructed from `init`", examples=["torch.nn:RMSNorm"])
    init: tuple[Any, ...] | dict[str, Any] = Field(
        (), description="arguments of the class; `$width` and `$eps` stand for values", examples=[["$width", "$eps"]]
    )
    gain: str | None = Field(None, description="the layer's parameter that is the gain", examples=["weight"])
    bias: str | None = Field(None, description="the layer's parameter that is the bias")
    call: tuple[Any, ...] | dict[str, Any] | None = Field(
        None,
        description="arguments of the call, where they are not x, gain and eps",
        examples=[["$x", "$residual", "$gain", "$eps"]],
    )
    output: int | None = Field(None, ge=0, description="which of several results counts")
    arrays: Literal["numpy", "torch", "jax", "mlx", "tensorflow", "dlpack"] = Field(
        "numpy", description="the framework whose arrays it takes"
    )
    device: str = Field("cpu", description="passed on where the framework has devices", examples=["cuda:0"])
    interpreter: str | None = Field(
        None, description="the Python of another environment", examples=["../venv-b/bin/python"]
    )


class OnnxPart(Limited):
    """A norm in an ONNX file. A graph is data, so it needs no consent."""

    model: str = Field(min_length=1, description="the file", examples=["model.onnx"])
    engine: Literal["onnxruntime", "reference"] = Field("onnxruntime", description="what runs it")
    optimization: Literal["none", "basic", "extended", "all"] = Field("all", description="ONNX Runtime's level")
    node: str | None = Field(None, description="which norm, where the file holds several")
    output: str | None = Field(None, description="which norm, by its output")
    x: str | None = Field(None, description="the tensor that is the input, where it is not found")
    gain: str | None = Field(None, description="the tensor that is the gain, where it is not found")
    residual: str | None = Field(None, description="the tensor that is the residual, where it is not found")
    bias: str | None = Field(None, description="the tensor that is the bias, where it is not found")
    threads: int = Field(1, ge=0, description="0: as many as ONNX Runtime likes")


class CommandPart(Limited):
    """A program that reads and writes safetensors files; needs --allow-code. No shell is involved."""

    argv: tuple[str, ...] = Field(
        min_length=1,
        description="program and arguments; {input}, {output}, {eps} and {width} stand for values",
        examples=[["./rms_norm", "{input}", "{output}", "{eps}"]],
    )


class RecordedPart(Part):
    """Outputs that were computed elsewhere on an exported battery, found by the digest of their inputs."""

    file: str = Field(min_length=1, description="a safetensors file", examples=["outputs.safetensors"])
    sidecar: str | None = Field(None, description="JSON with the digests, in place of the file's metadata")
