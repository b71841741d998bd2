"""Gives the tests of planted bugs their tables, and prints what became of each bug."""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOMS = (
    *("noise", "spend", "ledger", "extensions", "failures", "engine", "bounding", "thresholds", "ownership"),
    *("openness", "growth"),
)


def _load(name, folder=HERE):
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


for _name in ("mutant", *(f"planted_{room}" for room in ROOMS), "planted"):
    _load(_name)

ROWS = []


def pytest_runtest_logreport(report):
    """Keep what became of a bug, also where another process planted it."""
    if report.when == "call":
        ROWS.extend(value for name, value in report.user_properties if name == "planted")


def pytest_terminal_summary(terminalreporter):
    """Print the table."""
    if ROWS:
        terminalreporter.section("planted bugs")
        for line in sys.modules["mutant"].table(ROWS):
            terminalreporter.write_line(line)
