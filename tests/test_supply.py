"""What users install: the wheel in a clean environment, and the oldest and the newest versions that it allows.

Packages are downloaded from where this machine says; some minutes, so these run under the marker `slow` only.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fresh import build

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]
NEEDED = {"lab": OPTIONAL["lab"], "": PROJECT["dependencies"], "test": OPTIONAL["test"]}
# Tools that read or build the code: no version of them changes what the package does.
TOOLS = ("hatchling", "mypy", "playwright", "ruff")
# The tests that are run with them: all of SQL, of the engine of a notebook, of what is shown, and the privacy part.
QUICK = ("tests/sql", "tests/domain", "tests/predicate", "tests/notebook", "tests/engine/test_duckdb.py")
QUICK += ("tests/engine/test_workspace.py", "tests/ledger/test_earlier.py", "tests/test_release.py")

# A first use of what the package is for, by somebody who has nothing but the wheel.
USE = """
import sys
import pandas as pd
import dpnotebook as dpn

frame = pd.DataFrame({"age": [30, 40, 50] * 100, "who": range(300)})
with dpn.Session(dpn.Budget(2.0, 1e-6), ledger="one.ledger") as session:
    session.protect(frame, "people", domain={"age": dpn.Range(0, 99)}, unit="who", max_rows=1)
    query = frame.dp.histogram("age", epsilon=0.5)
    assert "0.5" in query._repr_mimebundle_()["text/html"]
    assert len(query.run().frame) == 100
    statement = "SELECT age, COUNT(*) AS n FROM people GROUP BY age"
    assert session.sql(statement, epsilon=0.5).run().frame["n"].notna().all()
    assert session.audit().ok
print(dpn.__file__)
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""

pytestmark = pytest.mark.slow


def environment(folder, *requirements):
    """Make an environment with what is asked for, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin/python")
    subprocess.run([python, "-m", "pip", "install", "-q", *requirements], check=True)
    subprocess.run([python, "-m", "pip", "check"], check=True)
    return python


def oldest(requirement):
    """Return a requirement of the oldest version that another one allows."""
    return requirement.split(",")[0].replace(">=", "==")


def test_what_the_wheel_needs_is_what_it_says(tmp_path):
    """In an environment with nothing else, and not one package of the tests."""
    wheel = build(tmp_path)
    python = environment(tmp_path / "clean", str(wheel))
    found = subprocess.run([python, "-I", "-c", USE], cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    place, modules = found.stdout.splitlines()
    assert Path(place).is_relative_to(tmp_path / "clean")
    assert not {"opendp", "pytest", "hypothesis", "pyspark", "psycopg", "jupyterlab"} & set(modules.split())


def test_every_requirement_says_its_oldest_version():
    for requirement in [*PROJECT["dependencies"], *(one for extra in OPTIONAL.values() for one in extra)]:
        assert re.fullmatch(r"[\w-]+(\[\w+\])?>=[\d.]+(,<\d+)?", requirement), requirement


@pytest.mark.parametrize("versions", ["oldest", "newest"])
def test_all_allowed_versions_pass_the_quick_suite(tmp_path, versions):
    """The newest are those that pip finds today."""
    named = [one for extra in NEEDED.values() for one in extra if not one.startswith(TOOLS)]
    chosen = dict.fromkeys(oldest(one) if versions == "oldest" else one for one in named)
    python = environment(tmp_path / versions, *chosen)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    seen = os.environ | {"PYTHONPATH": str(ROOT)}  # by the kernels that tests start, too
    privacy = subprocess.run([*command, "-m", "privacy"], cwd=ROOT, env=seen, capture_output=True, text=True)
    assert privacy.returncode == 0, privacy.stdout[-5000:]
    quick = subprocess.run([*command, *QUICK], cwd=ROOT, env=seen, capture_output=True, text=True)
    assert quick.returncode == 0, quick.stdout[-5000:]
