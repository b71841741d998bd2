"""Slow servers are started once: what needs one runs in one worker."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("together", Path(__file__).parent / "together.py")
together = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(together)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("tests/a/test_b.py::test_c[1]", "tests/a/test_b.py::Test::test_d", True),
        ("tests/a/test_b.py::test_c", "tests/a/test_e.py::test_c", False),
        ("tests/a/test_b.py::test_c[spark-1]", "tests/test_f.py::TestSpark::test_c", True),
        ("tests/a/test_b.py::test_c[spark-1]", "tests/a/test_b.py::test_c[postgres-1]", False),
        ("tests/browser/test_b.py::test_c", "tests/browser/test_d.py::test_c", True),
        ("tests/test_tour.py::test_c", "tests/browser/test_tour.py::test_d", True),
        ("notebooks/tour.ipynb::Cell 1", "notebooks/sql.ipynb::Cell 1", False),
    ],
)
def test_who_runs_together(one, other, same):
    assert (together.scope_of(one) == together.scope_of(other)) is same


def test_what_needs_spark_says_so(request):
    """Of the tests that were collected with this one."""
    needs = [item.nodeid for item in request.session.items if "spark" in getattr(item, "fixturenames", ())]
    assert {together.scope_of(nodeid) for nodeid in needs} <= {"spark"}


def test_what_takes_longest_starts_first():
    """And everything else keeps its order."""
    asked = ["notebooks/tour.ipynb::Cell 1", "tests/a/test_b.py::test_c", "tests/browser/test_d.py::test_e"]
    assert sorted(asked, key=together.place_of) == [asked[2], *asked[:2]]
    files = [scope for scope in together.LONGEST if scope.endswith(".py")]
    assert all((Path(__file__).parents[1] / scope).is_file() for scope in files)
