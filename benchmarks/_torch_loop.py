"""The audit that one would write by hand: every site through torch on the battery's inputs. Run by models.py.

Prints the seconds and the largest differences. The float64 results stand in for the oracle; nothing is certified,
explained or recorded.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

import torch
from safetensors import safe_open
from torch.nn.functional import rms_norm

from rmsaudit import battery
from rmsaudit.battery import Setup, Skipped
from rmsaudit.semantics import variables
from rmsaudit.semantics.resolve import resolve

torch.set_num_threads(1)
reference, candidate = map(Path, sys.argv[1:])
start = perf_counter()
eps = [json.loads((side / "config.json").read_text())["rms_norm_eps"] for side in (reference, candidate)]
with safe_open(reference / "model.safetensors", "pt") as file:
    gains = {name: file.get_tensor(name) for name in file.keys() if "norm" in name}  # noqa: SIM118
width = next(iter(gains.values())).numel()
words = {name: variable.default for name, variable in variables().items()} | {"width": width, "eps": 1e-5}
spec = resolve(words | {"input_dtype": "float32"})
inputs = [
    torch.from_numpy(case.x.copy())
    for built in battery.build(
        Setup(reference=spec, candidate=spec, rows=4), [n for n in battery.names() if n != "gains"]
    )
    if not isinstance(built, Skipped)
    for case in built[1]
    if case.width == width
]
worst = [0.0] * 4
for gain in gains.values():
    for x in inputs:
        sides = [rms_norm(x, (width,), gain, each) for each in eps]
        exact = rms_norm(x.double(), (width,), gain.double(), eps[0]).float()
        d = (sides[1] - sides[0]).abs()
        worst[0] = max(worst[0], torch.nan_to_num(d).max().item())
        worst[1] = max(worst[1], torch.nan_to_num(d / sides[0].abs()).max().item())
        for place, side in enumerate(sides):
            steps = (side.view(torch.int32) - exact.view(torch.int32)).abs()
            worst[2 + place] = max(worst[2 + place], steps.max().item())
print(f"{perf_counter() - start:.2f} ({len(inputs)} inputs of 4 rows)")
