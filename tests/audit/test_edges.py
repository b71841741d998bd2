"""One person with a value that is hard to tell from others, to show or to compute with: whether they are there shows
nowhere but in what is paid for."""

import datetime
import decimal

import duckdb
import pandas as pd
import pytest
from neighbours import loss, play, told_apart

import dpnotebook as dpn

pytestmark = pytest.mark.audit

# Of a type: what the others have, and what somebody has.
VALUES = {
    "VARCHAR": (["'a'", "'b'"], "'A'"),
    "VARCHAR COLLATE NOCASE": (["'a'", "'b'"], "'A'"),
    "VARCHAR COLLATE NOACCENT": (["'e'", "'b'"], "'é'"),
    "DOUBLE": (["0.0", "1.5"], "-0.0"),
    "FLOAT": (["1.5", "2.5"], "'nan'"),
    "DECIMAL(30, 12)": (["123456789012.5", "1.5"], "123456789012.500000000001"),
    "HUGEINT": (["1", "9007199254740993"], "170141183460469231731687303715884105727"),
    "UBIGINT": (["1", "2"], "18446744073709551615"),
    "BOOLEAN": (["TRUE", "FALSE"], "NULL"),
    "BLOB": (["'ab'", "'cd'"], r"'\xFF\x00'"),
    "BIT": (["'101'", "'1'"], "'0101'"),
    "UUID": (["'00000000-0000-0000-0000-000000000001'"], "'00000000-0000-0000-0000-00000000000f'"),
    "DATE": (["'2020-01-01'", "'2021-01-01'"], "'infinity'"),
    "TIMESTAMP": (["'2020-01-01'", "'2021-01-01'"], "'-infinity'"),
    "TIMESTAMPTZ": (["'2020-01-01'", "'2021-01-01'"], "'290309-12-22 (BC) 00:00:00'"),
    "TIME": (["'10:00'", "'11:00'"], "'24:00:00'"),
    "TIMETZ": (["'10:00:00+00'", "'11:00:00+00'"], "'12:00:00+01'"),
    "INTERVAL": (["'1 day'", "'1 month'"], "'30 days'"),
    "INTEGER[]": (["[1, 2]", "[3]"], "[1, NULL]"),
    "DOUBLE[]": (["[0.1]", "[0.2]"], "[0.1000000000000000055]"),
    "DATE[]": (["['2020-01-01']", "[]"], "['infinity']"),
    "DECIMAL(20, 10)[]": (["[1.5]", "[2.5]"], "[1.5000000001]"),
    "STRUCT(a INTEGER, b VARCHAR)": (["{'a': 1, 'b': 'x'}"], "{'a': NULL, 'b': 'X'}"),
    "MAP(INTEGER, VARCHAR)": (["MAP {1: 'x'}"], "MAP {1: 'x', 2: NULL}"),
    "UNION(n INTEGER, t VARCHAR)": (["union_value(n := 1)", "union_value(n := 2)"], "union_value(t := '1')"),
    "JSON": (["""'{"a": 1}'""", "'[1]'"], """'{"a":  1}'"""),
    "ENUM('x', 'y', 'Y')": (["'x'", "'y'"], "'Y'"),
}
OBJECTS = {
    "numbers and a text": ([1, 2, 3], "three"),
    "texts and a number": (["1", "2", "3"], 3),
    "texts and nothing": (["a", "b"], None),
    "texts and bytes": (["a", "b"], b"a"),
    "truth values and a number": ([True, False], 1),
    "decimals": ([decimal.Decimal("1.5"), decimal.Decimal("2")], decimal.Decimal("NaN")),
    "dates and a text": ([datetime.date(2020, 1, 1)], "2020-01-01"),
    "dates and a time": ([datetime.date(2020, 1, 1)], datetime.datetime(2020, 1, 1, 12)),
    "lists": ([[1], [2]], [1, [2]]),
    "huge numbers": ([1, 2], 10**40),
    "half a character": (["a", "b"], "\ud800"),
}
STATEMENTS = [
    "SELECT c AS g, COUNT(*) AS n FROM t GROUP BY c",
    "SELECT CAST(c AS VARCHAR) AS g, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT g, COUNT(*) AS n FROM (SELECT who, MAX(c) AS g FROM t GROUP BY who) AS q GROUP BY g",
    "SELECT SUM(c) AS s FROM t",
    "SELECT COUNT(c) AS n, AVG(x) AS a FROM t WHERE c IS NOT NULL",
    "SELECT COUNT(*) AS n FROM t WHERE c = (SELECT MIN(level) FROM levels)",
    "SELECT c AS g, SUM(x) AS s FROM t GROUP BY c",
    "SELECT SUM(x * 1e300) AS s, COUNT(*) AS n FROM t",
    "SELECT UNNEST(c) AS g, COUNT(*) AS n FROM t GROUP BY g",
]
PEOPLE = 6
SOMEBODY = PEOPLE - 1


def asked(accuracy):
    def asking(statement):
        def ask(session):
            return session.sql(statement, **accuracy)

        ask.text = statement
        return ask

    return [asking(statement) for statement in STATEMENTS]


def declare(source):
    def protect(session):
        session.protect(source, "t", unit="who", max_rows=1)
        session.register(pd.DataFrame({"level": ["a", "b"]}), "levels", public=True)

    return protect


def check(everybody, without, monkeypatch, budget=None):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    budget = budget or dpn.Budget(100.0, 1e-4)
    one, two = (play(declare(source), asked({"epsilon": 1.0}), budget) for source in (everybody, without))
    assert told_apart(one, two) is None
    assert loss(one, two) <= 1


@pytest.mark.one_in(40)
@pytest.mark.parametrize("kind", VALUES)
def test_types_of_duckdb(kind, monkeypatch):
    usual, odd = VALUES[kind]

    def table(people):
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE t (who INTEGER, c {kind}, x DOUBLE)")
        for who in people:
            value = odd if who == SOMEBODY else usual[who % len(usual)]
            connection.execute(f"INSERT INTO t VALUES ({who}, {value}, {'1e308' if who == SOMEBODY else who})")
        return connection, "t"

    check(table(range(PEOPLE)), table(range(PEOPLE - 1)), monkeypatch)


@pytest.mark.one_in(20)
@pytest.mark.parametrize("kind", OBJECTS)
def test_columns_of_objects(kind, monkeypatch):
    usual, odd = OBJECTS[kind]

    def frame(people):
        values = [odd if who == SOMEBODY else usual[who % len(usual)] for who in people]
        return pd.DataFrame({"who": list(people), "c": pd.Series(values, dtype=object), "x": 1.0})

    check(frame(range(PEOPLE)), frame(range(PEOPLE - 1)), monkeypatch)


def test_rows_of_nobody_change_nothing(monkeypatch):
    """Rows without a unit are left out, and their number is nobody's business."""
    frame = pd.DataFrame({"who": pd.array([0, 1, 2, None, None], dtype="Int64"), "c": list("abcde"), "x": 1.0})
    check(frame, frame.iloc[:3], monkeypatch)
    check(frame, frame.iloc[[0, 1, 2, 4]].reset_index(drop=True), monkeypatch)
