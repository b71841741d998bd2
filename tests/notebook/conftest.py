"""Shared by the notebook tests: plans made by hand, a small real session, and a parser for the HTML of cards."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from IPython.core.error import StdinNotImplementedError
from IPython.testing.globalipapp import start_ipython

import dpnotebook as dpn
from dpnotebook.notebook.magics import ask
from dpnotebook.planner.plan import BudgetState

EVIL = "<script>alert('x')</script> & \"North\""


_spec = importlib.util.spec_from_file_location("reading", Path(__file__).parent / "reading.py")
reading = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reading)


@pytest.fixture
def page():
    """Return a function that parses HTML and holds it to what untrusted notebooks keep."""
    return reading.read


@pytest.fixture
def evil():
    """Return a text that would be a script if it were not escaped."""
    return EVIL


@pytest.fixture
def make_plan():
    """Return a function that makes a plan from plain values, as the planner would."""

    def make(**changes):
        alternatives = tuple(
            SimpleNamespace(epsilon=e, error=err, left_after=left, chosen=e == 0.1, affordable=left is not None)
            for e, err, left in [(0.05, 62.0, 0.55), (0.1, 31.0, 0.5), (0.2, 15.6, 0.4), (2.0, 1.9, None)]
        )
        values = {
            "title": "COUNT by ward",
            "table": "visits",
            "where": "",
            "answers": 12,
            "question": None,
            "cost": SimpleNamespace(epsilon=0.1, delta=0.0, units=10**11),
            "epsilon": 0.1,
            "budget": BudgetState(total=1.0, spent=0.4, left_after=0.5, spent_fraction=0.4, cost_fraction=0.1),
            "delta": 0.0,
            "std_error": 14.1,
            "std_errors": np.full(12, 14.1),
            "error": 31.0,
            "confidence": 0.95,
            "unit": "rows",
            "alternatives": alternatives,
            "reused": (),
            "picked": None,
            "afresh": None,
            "otherwise": None,
            "forecast": None,
            "rest": None,
            "free": False,
            "bought": False,
            "combined": False,
            "actions": (),
            "counted": "",
            "without_reuse": SimpleNamespace(epsilon=0.1, delta=0.0, units=10**11),
            "parts": (),
            "warnings": (),
            "steps": ("counts over ward (12)", "discrete Laplace noise of scale 10"),
            "code": "visits.dp.histogram('ward', epsilon=0.1)",
            "affordable": True,
            "forbidden": "",
            "assumption": "",
        }
        return SimpleNamespace(**(values | changes))

    return make


@pytest.fixture
def people():
    """Return a small table of made-up people."""
    rng = np.random.default_rng(7)
    n = 4000
    return pd.DataFrame(
        {
            "age": rng.integers(0, 30, n),
            "sex": rng.choice(["F", "M"], n),
            "region": rng.choice(["North", "South", EVIL], n),
            "income": rng.gamma(3.0, 15_000.0, n),
        }
    )


@pytest.fixture
def make_session(people):
    """Return a function that makes a session over the people, and closes it after the test."""
    made = []

    def make(**budget):
        session = dpn.Session(budget=dpn.Budget(**(budget or {"epsilon": 1.0})))
        domain = {
            "age": dpn.Range(0, 29),
            "sex": ["F", "M"],
            "region": ["North", "South", EVIL],
            "income": dpn.Bins(0, 100_000, width=10_000, nullable=True),
        }
        session.protect(people, "people", domain=domain, rows=4000)
        made.append(session)
        return session

    yield make
    for session in made:
        session.close()


@pytest.fixture
def session(make_session):
    """Return a session with a pure budget of 1."""
    return make_session()


@pytest.fixture(scope="session")
def started():
    """Return the one IPython shell that a process can have; hidden again at once, so that other tests see none."""
    shell = start_ipython()
    shell.colors = "nocolor"
    type(shell).clear_instance()
    return shell


@pytest.fixture
def ip(started, monkeypatch):
    """Return the shell with the extension loaded and a session in it whose input() nobody answers."""

    def nobody(prompt=""):
        raise StdinNotImplementedError("no stdin")

    monkeypatch.setattr("builtins.input", nobody)
    monkeypatch.delenv(ask.VARIABLE, raising=False)
    for kind in type(started)._walk_mro():
        kind._instance = started
    before = set(started.user_ns)
    started.run_line_magic("load_ext", "dpnotebook")
    yield started
    started.run_line_magic("unload_ext", "dpnotebook")
    started.config.pop("DPMagics", None)
    for name in set(started.user_ns) - before:
        del started.user_ns[name]
    type(started).clear_instance()
