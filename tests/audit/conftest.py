"""What the audits share: their helpers by name, and the table that they end with."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

for _name, _path in {
    "everywhere": HERE.parent / "engine" / "everywhere.py",
    "neighbours": HERE / "neighbours.py",
    "random_sessions": HERE / "random_sessions.py",
}.items():
    _spec = importlib.util.spec_from_file_location(_name, _path)
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_name] = _module
    _spec.loader.exec_module(_module)


@pytest.fixture
def audited(record_property):
    """Return a function that adds a row to the table: mechanism, claim, what was measured, the planted bug's result."""
    return lambda *row: record_property("audited", row)


def pytest_terminal_summary(terminalreporter):
    """Print what the audits found."""
    rows = sorted(
        tuple(value)
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "audited"
    )
    if not rows:
        return
    table = [("mechanism", "claim", "measured: at least", "planted bug"), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    terminalreporter.section("privacy audits")
    for row in table:
        terminalreporter.line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
