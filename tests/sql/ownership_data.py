"""Tables with every kind of awkward value, what is declared of them, and the test of ownership itself."""

import datetime as dt
from collections import Counter

import duckdb

from dpnotebook.domain import Bins, Boolean, Categories, Domain, Range
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.statement import Relation

RELATIONS = {
    relation.name: relation
    for relation in (
        Relation(
            "visits",
            {
                "uid": "integer",
                "age": "integer",
                "region": "text",
                "cost": "number",
                "day": "time",
                "tags": "other",
                "ok": "boolean",
                "n": "integer",
            },
            unit="uid",
            population="person",
            max_rows=8,
            elements={"tags": "text"},
            domain=Domain({"age": Range(0, 115), "region": Categories(["N", "S"], other="other", nullable=True)}),
        ),
        Relation(
            "users",
            {"uid": "integer", "name": "text", "region": "text", "income": "number", "boss": "integer"},
            unit="uid",
            population="person",
            max_rows=1,
            domain=Domain({"income": Bins(0, 100_000, width=10_000)}),
        ),
        Relation("clients", {"uid": "text", "x": "number"}, unit="uid", population="person", max_rows=2),
        Relation(
            "people",
            {"age": "integer", "sex": "text", "ok": "boolean"},
            unit=None,
            domain=Domain({"age": Range(0, 115), "sex": ["F", "M"], "ok": Boolean()}),
        ),
        Relation("animals", {"age": "integer", "sex": "text"}, unit=None),
        Relation("regions", {"region": "text", "pop": "integer", "boss": "integer"}, private=False),
        Relation("days", {"day": "time", "uid": "integer"}, private=False),
    )
}
UNITS = {"visits": "uid", "users": "uid", "clients": "uid", "people": "__row__", "animals": "__row__"}
TYPES = {
    "visits": "uid BIGINT, age BIGINT, region VARCHAR, cost DOUBLE, day DATE, tags VARCHAR[], ok BOOLEAN, n BIGINT",
    "users": "uid BIGINT, name VARCHAR, region VARCHAR, income DOUBLE, boss BIGINT",
    "clients": "uid VARCHAR, x DOUBLE",
    "people": "__row__ BIGINT, age BIGINT, sex VARCHAR, ok BOOLEAN",
    "animals": "__row__ BIGINT, age BIGINT, sex VARCHAR",
    "regions": "region VARCHAR, pop BIGINT, boss BIGINT",
    "days": "day DATE, uid BIGINT",
}
INTEGERS = [None, 0, 1, 2, 3, 4, 1, 2, 30, -5, 2**62, -(2**63)]
REALS = [None, 0.0, -1.5, 2.0, 2.0, 1e308, float("inf"), float("-inf"), 1e-300]
TEXTS = [None, "N", "S", "", "1", "abc", "it's", "2024-01-01"]
DAYS = [None, dt.date(2024, 1, 1), dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
TAGS = [None, [], ["a"], ["a", "b", "a"], ["1", None]]
UIDS = [1, 1, 2, 2, 3, 4, None]


def tables(rng):
    """Return random tables: lists of rows by name."""

    def some(values):
        return values[rng.integers(len(values))]

    def rows(count, *columns):
        return [tuple(some(values) for values in columns) for _ in range(count)]

    ages, sexes, truths = [None, 5, 30, 200], ["F", "M", "X", None], [True, False, None]
    numbered = [(number, some(ages), some(sexes), some(truths)) for number in range(5)]
    return {
        "visits": rows(12, UIDS, INTEGERS, TEXTS, REALS, DAYS, TAGS, [True, False, None], INTEGERS),
        "users": rows(7, UIDS, TEXTS, TEXTS, REALS, UIDS),
        "clients": rows(5, ["1", "2", "a", None], REALS),
        "people": numbered,
        "animals": [row[:3] for row in numbered],
        "regions": [("N", 5, 1), ("N", 7, 2), ("S", 30, 3), (None, None, None), ("x", -1, 4)],
        "days": [(dt.date(2024, 1, 1), 1), (dt.date(2024, 2, 29), 2), (None, 7)],
    }


def connect(data):
    """Return a connection with tables."""
    connection = duckdb.connect()
    for name, rows in data.items():
        connection.execute(f"CREATE TABLE {name} ({TYPES[name]})")
        if rows:
            connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' for _ in rows[0])})", rows)
    return connection


def run(connection, query):
    """Return rows of a query as a multiset of texts, the unit apart: a bag whose items are (unit, rest)."""
    found = connection.execute(query).fetchall()
    return Counter((str(row[0]), repr(row[1:])) for row in found)


def is_owned(connection, query, names):
    """Whether every row that a query gives depends on public tables and on rows of its own unit only.

    Each unit in turn is taken out of all private tables; everybody else's rows must be the same as before.
    """
    before = run(connection, query)
    units = {unit for unit, _ in before}
    for name in names:
        found = connection.execute(f"SELECT DISTINCT CAST({UNITS[name]} AS VARCHAR) FROM {name}").fetchall()
        units |= {row[0] for row in found if row[0] is not None}
    for unit in units:
        connection.execute("BEGIN")
        for name in names:
            connection.execute(f"DELETE FROM {name} WHERE CAST({UNITS[name]} AS VARCHAR) = ?", [unit])
        after = run(connection, query)
        connection.execute("ROLLBACK")
        if after != Counter({key: count for key, count in before.items() if key[0] != unit}):
            return False
    return True


def most_rows(connection, query):
    """Return the most rows of one unit that a query gives."""
    return connection.execute(
        f"SELECT COALESCE(MAX(n), 0) FROM (SELECT COUNT(*) AS n FROM ({query}) GROUP BY u)"
    ).fetchone()[0]


def selects(statement, contribution=None):
    """Return the private selects of a statement."""
    return analyse(statement, RELATIONS, {}, contribution).selects
