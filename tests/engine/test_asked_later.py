"""What `protect` leaves for later: what SQL needs to know of a frame is found out when a statement asks."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.dialect.types import FLOATING, INTEGERS, keeps_type, plain_value

ROWS = np.arange(40)
FRAME = pd.DataFrame({"age": ROWS, "sex": np.where(ROWS % 2, "F", "M"), "note": ROWS / 7, "person": ROWS // 2})
DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"]}


@pytest.fixture
def session():
    with dpn.Session(budget=dpn.Budget(epsilon=5.0, delta=1e-6), ledger=":memory:") as session:
        yield session


@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATING, "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR", "TIME", "INTERVAL"])
@pytest.mark.parametrize("unit", [False, True])
def test_types_that_plain_values_keep(kind, unit):
    """As DuckDB itself says."""
    value = plain_value("x", kind, unit)
    described = duckdb.execute(f"DESCRIBE SELECT {value} AS y FROM (SELECT CAST(NULL AS {kind}) AS x)").fetchall()
    assert not keeps_type(kind) or described[0][1] == kind


def test_no_connection_for_statements_is_opened_before_one_asks(session):
    workspace = session._statements.relations.workspace
    for name in ("first", "second"):
        session.protect(FRAME.copy(), name, domain=DOMAIN)
    assert not workspace._lent
    query = session.sql("SELECT sex, AVG(note) FROM first WHERE note BETWEEN 0 AND 9 GROUP BY sex", epsilon=1.0)
    assert query.plan.answers == 2
    assert workspace._lent
    assert list(session.relations) == ["first", "second"]
    assert dict(session.relations["second"].columns) == {
        "age": "number", "sex": "text", "note": "number", "person": "number"
    }  # fmt: skip


def test_a_table_with_a_unit_is_looked_at_at_once(session):
    session.protect(FRAME.copy(), "visits", domain=DOMAIN, unit="person", max_rows=2)
    assert session._statements.relations.workspace._lent


@pytest.mark.filterwarnings("ignore:the domain of")
def test_protected_again_the_table_is_the_new_one(session):
    """The same rows with another declaration, before any statement and after one."""
    frame = FRAME.copy()
    session.protect(frame, "visits", domain={"age": dpn.Range(0, 99)})
    session.protect(frame, "visits", domain=DOMAIN)
    assert list(session.relations["visits"].domain) == ["age", "sex"]
    session.protect(frame, "visits", domain={**DOMAIN, "note": dpn.Range(0, 5)})
    assert list(session.relations["visits"].domain) == ["age", "sex", "note"]
