"""Imports go one way: no module imports from a layer above its own, and the mathematics knows no pandas or database."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "dpnotebook"
LAYERS = [
    {"errors", "progress", "forks", "arguments"},
    {"privacy", "domain", "predicate"},
    {"workload"},
    {"question"},
    {"measurement", "strategy", "inference"},
    {"sql", "reuse", "engine", "ledger"},
    {
        "spreadsheet",
        "answer_labels",
        "scans",
        "release",
        "query",
        "offer",
        "histories",
        "verbs",
        "protected",
        "statement_answers",
        "statements",
        "answering",
        "session",
        "testing",
    },
    {"notebook"},
    {"public"},
    {"__init__", "__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MATHEMATICS = (
    "privacy",
    "domain",
    "predicate",
    "workload",
    "strategy",
    "inference",
    "question",
    "measurement",
    "reuse",
)


def imports(path):
    """Return what a module imports when it is run, leaving out what only type checkers see."""
    for node in ast.parse(path.read_text()).body:
        for inner in [node] if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ast.walk(node):
            if isinstance(inner, ast.Import):
                yield from (alias.name for alias in inner.names)
            elif isinstance(inner, ast.ImportFrom) and inner.module:
                yield inner.module
                if inner.module == "dpnotebook":
                    yield from (f"dpnotebook.{alias.name}" for alias in inner.names)


def room(path):
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_imported_from_above(path):
    # A release is drawn, a session has a dashboard, a domain is asked for workloads by the layer above: imported when
    # the user asks.
    drawn = {("release", "notebook"), ("session", "notebook"), ("domain", "workload")}
    for name in imports(path):
        if name.startswith("dpnotebook."):
            there = name.split(".")[1]
            assert RANK[there] <= RANK[room(path)] or (room(path), there) in drawn, f"{path} imports {name}"


@pytest.mark.parametrize("name", MATHEMATICS)
def test_the_mathematics_stands_alone(name):
    """Importing it brings in no pandas, no database, no Jupyter, and nothing heavy."""
    heavy = ["pandas", "duckdb", "sqlite3", "sqlglot", "IPython", "ipywidgets", "plotly", "opendp"]
    heavy += ["scipy.special", "scipy.optimize"]
    code = (
        "import sys, types\n"
        f"package = types.ModuleType('dpnotebook'); package.__path__ = [{str(PACKAGE)!r}]\n"
        "sys.modules['dpnotebook'] = package\n"
        f"import dpnotebook.{name}\n"
        f"print(sorted(set({heavy!r}) & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
