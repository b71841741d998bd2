"""Gives the tests of reuse the generators of `sequences.py`."""

import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("sequences", Path(__file__).parent / "sequences.py")
_sequences = importlib.util.module_from_spec(_spec)
sys.modules["sequences"] = _sequences
_spec.loader.exec_module(_sequences)


@pytest.fixture(scope="session")
def sequences():
    """The module of generators."""
    return _sequences
