"""Tables of one population and of several in PostgreSQL and Spark: joined as in DuckDB, and within what is paid for."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

TABLES = {
    "users": (["uid", "sex"], [(1, "F"), (2, "M"), (3, None), (4, "M"), (None, "F")]),
    "visits": (["pid", "kind"], [(1, "a"), (2, "b"), (5, "a"), (6, None), (None, "b")]),
}
STATEMENTS = [
    "SELECT sex, COUNT(*) AS n FROM visits LEFT JOIN users ON pid = uid GROUP BY sex",
    "SELECT COALESCE(sex, kind) AS g, COUNT(*) AS n FROM users FULL JOIN visits ON uid = pid GROUP BY g",
    "SELECT g, COUNT(*) AS n FROM (SELECT uid, MAX(g) AS g FROM (SELECT uid, sex AS g FROM users UNION ALL "
    "SELECT pid, kind FROM visits) AS s GROUP BY uid) AS t GROUP BY g",
]
JOIN = "SELECT sex, COUNT(*) AS n FROM visits JOIN users ON pid = uid GROUP BY sex"


def frame(name, gone=None):
    columns, rows = TABLES[name]
    kept = pd.DataFrame([row for row in rows if gone is None or row[0] != gone], columns=columns)
    return kept.astype({columns[0]: "Int64"})


def in_postgres(address, name, gone=None):
    import psycopg

    (unit, key), rows = TABLES[name]
    table = f"{name} without {gone}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{table}"')
        connection.execute(f'CREATE TABLE "{table}" ({unit} {"bigint" if name == "users" else "integer"}, {key} text)')
        for row in rows:
            if gone is None or row[0] != gone:
                connection.execute(f'INSERT INTO "{table}" VALUES (%s, %s)', row)
    return address, table


def in_spark(session, name, gone=None):
    (unit, key), rows = TABLES[name]
    kept = [row for row in rows if gone is None or row[0] != gone]
    return session.createDataFrame(kept, f"{unit} {'bigint' if name == 'users' else 'int'}, {key} string")


@pytest.fixture(params=["postgres", "spark"])
def put(request):
    server = request.getfixturevalue(request.param)
    place = in_postgres if request.param == "postgres" else in_spark
    return lambda name, gone=None: place(server, name, gone)


@pytest.fixture
def opened(monkeypatch):
    """Return a function that opens a session without noise over both tables."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    sessions = []

    def opened(users, visits, unit):
        session = exact_session(dpn.Budget(4.0, 1e-6))
        sessions.append(session)
        session.protect(users, "users", unit=unit("uid"), max_rows=1)
        session.protect(visits, "visits", unit=unit("pid"), max_rows=1)
        return session

    yield opened
    for session in sessions:
        session.close()


def patient(column):
    return dpn.Unit("patient", column=column)


def ask(session, statement):
    """Return the answer of a statement, by group."""
    found = session.sql(statement, epsilon=0.5).run().frame
    return found.set_index(found.iloc[:, 0].fillna("NULL"))["n"]


def test_one_population_is_put_together(put, opened):
    session = opened(put("users"), put("visits"), patient)
    assert ask(session, STATEMENTS[1]).to_dict() == {"F": 1, "M": 2, "a": 1, "NULL": 2}


@pytest.mark.slow
def test_it_is_put_together_as_in_duckdb_and_whoever_leaves_changes_one_answer(put, opened):
    here, there = opened(frame("users"), frame("visits"), patient), opened(put("users"), put("visits"), patient)
    without = [opened(put("users", unit), put("visits", unit), patient) for unit in (1, 2, 5)]
    for statement in STATEMENTS:
        whole = ask(there, statement)
        pd.testing.assert_series_equal(whole.sort_index(), ask(here, statement).sort_index())
        for session in without:
            assert np.abs(whole.sub(ask(session, statement), fill_value=0)).sum() == 1


def test_two_populations_are_joined_on_their_units_only(put, opened):
    session = opened(put("users"), put("visits"), str)
    for statement in STATEMENTS:
        with pytest.raises(SQLError, match="needs tables of one population"):
            session.sql(statement, epsilon=0.5)
    assert ask(session, JOIN).to_dict() == {"F": 1, "M": 1}
    assert ask(opened(put("users", 1), put("visits"), str), JOIN).to_dict() == {"M": 1}
