"""Gives the tests of promises the modules beside them."""

import importlib.util
import sys
from pathlib import Path

import pytest


def _loaded(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_sessions, _delivered, _whole = _loaded("sessions"), _loaded("delivered"), _loaded("whole")
_expected_free = _loaded("expected_free")
_messy = _loaded("messy")
_mixed = _loaded("mixed")


@pytest.fixture(scope="session")
def sessions():
    """The module of random sessions."""
    return _sessions


@pytest.fixture(scope="session")
def delivered():
    """The module that holds a session against what it promised."""
    return _delivered


@pytest.fixture(scope="session")
def whole():
    """The module of whole sessions over few cells, held against dense least squares."""
    return _whole


@pytest.fixture(scope="session")
def expected_free():
    """The module that asks what is expected for nothing, and notes what is charged."""
    return _expected_free


@pytest.fixture(scope="session")
def messy():
    """The module of random questions over a messy table."""
    return _messy


@pytest.fixture(scope="session")
def mixed():
    """The module of random sessions over a messy table that grows, with restarts and previews in between."""
    return _mixed
