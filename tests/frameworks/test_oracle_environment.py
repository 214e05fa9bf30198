"""A framework that sets flush-to-zero in the oracle's own thread, in a process that dies with it."""

import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.frameworks

PROGRAM = """
import numpy as np
import torch
from rmsaudit.errors import NotIeee
from rmsaudit.oracle import Operands, answer, formula
from rmsaudit.semantics.resolve import resolve

def ask():
    return answer(formula(resolve({"width": 2})), Operands(x=np.ones((1, 2)), gain=np.ones(2)), "float32")

ask()
torch.set_flush_denormal(True)
try:
    ask()
except NotIeee as refusal:
    print(refusal)
torch.set_flush_denormal(False)
ask()
"""


def test_flush_to_zero_is_noticed() -> None:
    assert torch.set_flush_denormal(False), "this processor cannot flush subnormals, so there is nothing to see"
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert "subnormal numbers are flushed to zero" in done.stdout
