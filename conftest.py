"""Read before all else: nbval runs notebooks, but need not import what takes a second and nothing here asks for."""

import sys
from types import ModuleType

# Checks IRIs for jsonschema, where there is one; 38 grammars are compiled as it is imported.
sys.modules.setdefault("rfc3987_syntax", ModuleType("rfc3987_syntax"))

pytest_plugins = ["nbval.plugin"]  # as an entry point it would come before this file
