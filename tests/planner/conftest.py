"""Gives the tests of reuse the modules that stand beside them."""

import importlib.util
import sys
from pathlib import Path

import pytest

for _name in ("sequences", "run_states", "literal_pioneer"):
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).parent / f"{_name}.py")
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_name] = _module
    _spec.loader.exec_module(_module)


@pytest.fixture(scope="session")
def sequences():
    """The module of generators."""
    return sys.modules["sequences"]
