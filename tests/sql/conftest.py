"""Gives the tests of SQL what several of them use: private aggregations, and tables with awkward values."""

import importlib.util
import sys
from pathlib import Path

for _name in (
    "added_up",
    "private_selects",
    "strange_units",
    "ownership_data",
    "random_statements",
    "joined_tables",
    "reused_visits",
    "noise_studies",
    "messy_tables",
    "skewed_people",
):
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).parent / f"{_name}.py")
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_name] = _module
    _spec.loader.exec_module(_module)
