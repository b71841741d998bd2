"""Lets the tests of this folder import the modules beside them as `golden.cases` and so on."""

import sys
import types
from pathlib import Path

if "golden" not in sys.modules:
    _package = types.ModuleType("golden")
    _package.__path__ = [str(Path(__file__).parent)]
    sys.modules["golden"] = _package
