"""Which conditions follow from others: by what is written, and against rows of every kind."""

import itertools

import duckdb
import pytest
from sqlglot import parse_one

from dpnotebook.sql.analysis.implied import follows

CONDITIONS = [
    *("q = 4", "q IN (4, 5)", "q IN (4, NULL)", "NOT q IN (4, 5)", "q BETWEEN 2 AND 5", "q >= 4", "q < 99", "q <> 3"),
    *("q <> 4", "q IS NOT NULL", "q IS NULL", "q <= 5", "q > -1", "q = 4 AND a = 'x'", "a = 'x'", "a IS NOT NULL"),
    *("a IN ('x', 'y')", "a LIKE 'x%'", "NOT a LIKE 'x%'", "f", "NOT f", "f IS NOT NULL", "q = 4 OR a = 'x'", "TRUE"),
    *("q BETWEEN 0 AND 9", "COALESCE(q, 4) = 4", "q IS NOT DISTINCT FROM 4", "q + 1 = 5", "a = 'x' AND f", "q > r"),
    *("r IS NOT NULL", "q = -4", "q BETWEEN -9 AND 9"),
]


@pytest.fixture(scope="module")
def holds():
    """Return for each condition of which of many rows it is true."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT * FROM (SELECT UNNEST([NULL, -4, 0, 2, 3, 4, 5, 99]) AS q), "
        "(SELECT UNNEST([NULL, 'x', 'y', 'xy']) AS a), (SELECT UNNEST([NULL, TRUE, FALSE]) AS f), "
        "(SELECT UNNEST([NULL, 1, 50]) AS r)"
    )
    items = ", ".join(f"COALESCE({one}, FALSE)" for one in CONDITIONS)
    found = connection.execute(f"SELECT {items} FROM t").fetchall()
    return dict(zip(CONDITIONS, zip(*found, strict=True), strict=True))


def test_what_is_said_to_follow_does(holds):
    said = 0
    for given, condition in itertools.product(CONDITIONS, repeat=2):
        if follows(parse_one(condition, read="duckdb"), parse_one(given, read="duckdb")):
            said += 1
            assert all(then for when, then in zip(holds[given], holds[condition], strict=True) if when), (
                given,
                condition,
            )
    assert said > 60


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ("q IN (4, 5)", "q < 99"),
        ("q IN (4, 5)", "q IS NOT NULL"),
        ("q = 4", "q BETWEEN 1 AND 5"),
        ("q BETWEEN 4 AND 5", "q < 99"),
        ("a IN ('x', 'y')", "a IS NOT NULL"),
        ("f", "f IS NOT NULL"),
        ("q = 4 AND a = 'x'", "a IS NOT NULL AND q < 9"),
    ],
)
def test_what_people_write_follows(given, condition):
    assert follows(parse_one(condition, read="duckdb"), parse_one(given, read="duckdb"))
