"""Ledgers that earlier versions wrote, the tables that they are of, and what they say when they are opened."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from golden import shown
from golden.seam import fixed_randomness

import dpnotebook as dpn

PLANNED = (
    *("free", "recorded", "reused", "actions", "cost", "units", "error", "std_errors", "combined", "known"),
    *("affordable", "measurements", "warnings"),
)
KEPT = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class Earlier:
    """A ledger, and how it is opened.

    Parameters
    ----------
    name
        Of its file under tests/data.
    budget
        That it was made for.
    protect
        Protects its tables in a session.
    asked
        What is asked of it again, by name: takes the session and returns a query.
    """

    name: str
    budget: dpn.Budget
    protect: Callable[[dpn.Session], Any]
    asked: dict[str, Callable[[dpn.Session], Any]] = field(default_factory=dict)


def _few(session):
    rows = pd.DataFrame({"age": [n * 7 % 50 for n in range(60)], "sex": ["F", "M"] * 30})
    session.protect(rows, "people", domain={"age": dpn.Range(0, 49), "sex": ["F", "M"]})


def _many(session):
    rng, rows = np.random.default_rng(11), 8_000
    frame = {"age": rng.integers(0, 100, rows), "sex": rng.choice(["F", "M"], rows)}
    frame = pd.DataFrame(frame | {"income": rng.integers(0, 200_000, rows)})
    domain = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "income": dpn.Bins(0, 200_000, count=40)}
    session.protect(frame, "people", domain=domain)


def _users(session):
    users = pd.DataFrame({"uid": [1, 2, 3, 4, 5, 6], "sex": ["F", "M"] * 3})
    visits = pd.DataFrame({"uid": [1, 1, 2, 2, 3, 3, 7, 7, 8, 9], "kind": ["a", "b"] * 5})
    session.protect(users, "users", unit="uid", max_rows=1, domain={"sex": ["F", "M"]})
    session.protect(visits, "visits", unit="uid", max_rows=2, domain={"kind": ["a", "b"]})


def _in_duckdb(session):
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE visits AS SELECT range AS id, range * 7 % 50 AS age, "
        "CASE WHEN range % 3 = 0 THEN 'F' ELSE 'M' END AS sex, DATE '2024-01-01' + (range % 200)::INTEGER AS day, "
        "CASE WHEN range % 11 > 0 THEN (range % 40) / 4 END AS cost FROM range(600)"
    )
    connection.execute(
        "CREATE TABLE regions AS "
        "SELECT range AS age, CASE WHEN range < 25 THEN 'north' ELSE 'south' END AS region FROM range(50)"
    )
    session.protect((connection, "visits"), "visits", domain={"age": dpn.Range(0, 49), "sex": ["F", "M"]})
    session.register((connection, "regions"), "regions", public=True)


_COUNTS = {
    "count": lambda s: s.table("people").count(epsilon=0.5),
    "ages": lambda s: s.table("people").histogram("age", epsilon=0.25),
    "women": lambda s: s.table("people").count(where="sex == 'F'", variance=40),
}
_JOINED = (
    "SELECT regions.region, ANON_SUM(visits.cost, 0, 10) AS n FROM visits JOIN regions ON visits.age = regions.age "
    "GROUP BY regions.region"
)
BEFORE = [
    Earlier("ledger_before_reuse", dpn.Budget(2.0), _few, _COUNTS),
    Earlier("ledger_before_thresholds", dpn.Budget(2.0, 1e-6), _few, _COUNTS),
    Earlier(
        "ledger_before_limits",
        dpn.Budget(20.0),
        _many,
        {
            "histogram": lambda s: s.table("people").histogram("income", where="age >= 2", epsilon=0.1),
            "by error": lambda s: s.table("people").histogram("income", where="age >= 2", error=31),
            "median": lambda s: s.table("people").quantile("income", 0.5, where="age >= 2", epsilon=0.1),
        },
    ),
    Earlier(
        "ledger_before_populations",
        dpn.Budget(4.0, 1e-6),
        _users,
        {
            "join": lambda s: s.sql(
                "SELECT kind, COUNT(*) AS n FROM visits JOIN users USING (uid) GROUP BY kind", epsilon=0.5
            )
        },
    ),
    Earlier(
        "ledger_before_sums",
        dpn.Budget(4.0, 1e-6, noise="laplace"),
        _in_duckdb,
        {
            "histogram": lambda s: s.table("visits").histogram("sex", epsilon=0.25),
            "join": lambda s: s.sql(_JOINED, epsilon=0.5),
        },
    ),
]


def opened(ledger):
    """Return what a copy of an earlier ledger says: at its opening, of every release, and to what is asked again."""
    with tempfile.TemporaryDirectory(prefix="golden") as folder, fixed_randomness(ledger.name):
        path = Path(folder) / f"{ledger.name}.sqlite"
        for file in KEPT.glob(f"{path.name}*"):
            copied = Path(shutil.copy(file, folder))
            copied.chmod(0o600)
        with contextlib.closing(dpn.Session(ledger.budget, ledger=path)) as session:
            return dict(_said(session, ledger, path, folder))


def _said(session, ledger, path, folder):
    yield "audit", _audit(session)
    yield "refusals", shown.refusals(path)
    yield "budgets", shown.values(session.budgets().drop(columns="time"))
    ledger.protect(session)
    history = session.history().drop(columns="time")
    yield "history", [shown.values(row) for row in history.to_dict("records")]
    for number in history["number"][history["state"] == "charged"]:
        yield f"retry {number}", _release(lambda number=number: session.retry(int(number)), folder)
    for number in history["number"]:
        yield f"release {number}", _release(lambda number=number: session.release(int(number)), folder)
    for name, ask in ledger.asked.items():
        query = ask(session)
        plan = shown.plan(query.plan)
        yield f"asked: {name}", {key: plan[key] for key in PLANNED} | {"card": shown.card(query, html=False)}
        if query.plan.free:
            yield f"answered: {name}", _release(query.run, folder)
    yield "spent", [str(session.spent), str(session.remaining), str(session.budget)]
    yield "ok", session.audit().ok


def _audit(session):
    found = session.audit()
    names = ("ok", "entries", "releases", "pending", "spent", "delta", "head", "problems", "summary")
    return {name: shown.values(getattr(found, name)) for name in names}


def _release(get, folder):
    try:
        found = get()
    except dpn.DPError as error:
        return shown.error(error, folder)
    return {"release": shown.release(found), "shown": shown.card(found, html=False)}
