"""Rooms of the package have ranks: imports, also lazy ones and those for types, go down only; no circles of files."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "dpnotebook"
ROOMS = (  # from the lowest
    "errors",
    "progress",
    "views",
    "privacy",
    "workload",
    "domain",
    "ledger",
    "predicate",
    "query",
    "dialect",
    "inference",
    "strategy",
    "planner",
    "engine",
    "sql",
    "session",
    "testing",
    "notebook",
    "__init__",
    "__main__",
)
RANK = {name: rank for rank, name in enumerate(ROOMS)}
LOOSE = {"__init__.py", "__main__.py", "errors.py", "progress.py", "testing.py", "views.py"}
MATHEMATICS = ("privacy", "domain", "predicate", "workload", "strategy", "inference", "query", "planner")


def module_of(path):
    """Return the dotted name of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(source):
    """Return the modules of the package that a source imports, wherever in it: when it runs, later, or for types."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else node.module for name in inner}
    return {name for name in found if name.split(".")[0] == "dpnotebook"}


def room_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module):
    here = room_of(module)
    for name in imports(MODULES[module].read_text()):
        assert room_of(name) == here or RANK[room_of(name)] < RANK[here], f"{module} imports {name}"


def circle(graph):
    """Return the files of a circle of imports, none if there is no circle."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_no_files_are_in_a_circle():
    assert circle({module: imports(path.read_text()) - {module} for module, path in MODULES.items()}) is None


def test_what_would_be_noticed():
    lazy = "def f():\n    from dpnotebook.session.session import Session\n"
    typed = "if TYPE_CHECKING:\n    from dpnotebook.session.session import Session\n"
    assert imports(lazy) == imports(typed) == {"dpnotebook.session.session"}
    assert imports("from dpnotebook.planner import explain, nothing") == {
        "dpnotebook.planner.explain",
        "dpnotebook.planner",
    }
    assert circle({"a": {"b"}, "b": {"a"}}) is not None


def test_nothing_is_loose_at_the_top():
    assert {path.name for path in PACKAGE.glob("*.py")} == LOOSE
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} <= set(ROOMS)


def test_no_two_classes_have_one_name():
    found = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}


def test_the_map_names_every_room():
    text = (PACKAGE / "README.md").read_text()
    assert [room for room in ROOMS if "__" not in room and f"`{room}" not in text] == []


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
