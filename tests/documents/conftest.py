"""The fixtures folder, and the functions that made the files in it."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture(scope="session")
def make_files() -> ModuleType:
    """fixtures/implementations/make_files.py as a module: builders of safetensors and GGUF bytes."""
    spec = spec_from_file_location("make_files", FIXTURES / "implementations" / "make_files.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["make_files"] = module
    spec.loader.exec_module(module)
    return module
