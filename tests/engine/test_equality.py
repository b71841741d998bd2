"""What is distinct in DuckDB is distinct in an answer, and what is equal is equal: as keys, as levels and as units."""

import datetime
from collections import Counter
from decimal import Decimal

import duckdb
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DPError
from dpnotebook.testing import exact_session

NFC, NFD = "\u00e9", "e\u0301"
# Of every type: literals of values that differ, each in the spellings that mean the same, and what is shown of them.
ACCEPTED = {
    "BOOLEAN": [(["TRUE"], True), (["FALSE"], False)],
    "TINYINT": [(["1"], 1), (["-128"], -128)],
    "SMALLINT": [(["1"], 1), (["-32768"], -32768)],
    "INTEGER": [(["1"], 1), (["2147483647"], 2147483647)],
    "BIGINT": [([f"{2**53}"], 2**53), ([f"{2**53 + 1}"], 2**53 + 1), ([f"{-(2**63)}"], -(2**63))],
    "UTINYINT": [(["1"], 1), (["255"], 255)],
    "USMALLINT": [(["1"], 1), (["65535"], 65535)],
    "UINTEGER": [(["1"], 1), (["4294967295"], 4294967295)],
    "UBIGINT": [([f"{2**64 - 1}"], 2**64 - 1), ([f"{2**64 - 2}"], 2**64 - 2)],
    "HUGEINT": [([f"{2**100}"], 2**100), ([f"{2**100 + 1}"], 2**100 + 1), (["7"], 7)],
    "FLOAT": [(["0.1"], 0.1), (["0.0", "-0.0"], 0), (["1.5"], 1.5), (["'inf'"], float("inf"))],
    "DOUBLE": [
        (["0.1"], 0.1),
        (["0.0", "'-0.0'"], 0),
        (["0.30000000000000004"], 0.1 + 0.2),
        (["0.3"], 0.3),
        (["1e300"], 1e300),
    ],
    "DECIMAL(9,2)": [(["1.10", "1.1"], 1.1), (["1.11"], 1.11), (["30"], 30)],
    "DECIMAL(18,0)": [([f"{2**53}"], 2**53), ([f"{2**53 + 1}"], 2**53 + 1)],
    "DECIMAL(38,20)": [
        (["0.10000000000000000001"], Decimal("0.10000000000000000001")),
        (["0.10000000000000000002"], Decimal("0.10000000000000000002")),
    ],
    "VARCHAR": [
        *(([f"'{text}'"], text) for text in ("a", "A", "a ", "", "1", "1.0", "ss", "ß", NFC, NFD, "x" * 5000)),
        (["chr(0)"], "\0"),
        (["'a' || chr(0)"], "a\0"),
    ],
    "ENUM('a', 'A', 'b')": [(["'a'"], "a"), (["'A'"], "A"), (["'b'"], "b")],
    "UUID": [
        (["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}'"], None),
        (["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'"], "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"),
    ],
    "DATE": [(["'2024-02-29'"], datetime.datetime(2024, 2, 29)), (["'0001-01-01'"], datetime.datetime(1, 1, 1))],
    "TIMESTAMP": [
        (["'2024-02-29 12:00:00.000001'"], datetime.datetime(2024, 2, 29, 12, 0, 0, 1)),
        (["'2024-02-29 12:00:00.000002'"], datetime.datetime(2024, 2, 29, 12, 0, 0, 2)),
    ],
    "TIMESTAMP_S": [(["'2024-02-29 12:00:00'"], datetime.datetime(2024, 2, 29, 12))],
    "TIMESTAMP_MS": [(["'2024-02-29 12:00:00.001'"], datetime.datetime(2024, 2, 29, 12, 0, 0, 1000))],
    "TIMESTAMP_NS": [
        (["'2024-02-29 12:00:00.000001000'"], datetime.datetime(2024, 2, 29, 12, 0, 0, 1)),
        # Finer than what is shown: one key, in the engine too.
        (["'2024-02-29 12:00:00.000003000'", "'2024-02-29 12:00:00.000003001'"], None),
    ],
    "TIMESTAMP WITH TIME ZONE": [
        (["'2024-02-29 12:00:00+02'", "'2024-02-29 10:00:00+00'"], datetime.datetime(2024, 2, 29, 10)),
        (["'2024-02-29 12:00:00+00'"], datetime.datetime(2024, 2, 29, 12)),
    ],
}
NEWER = {"TIMESTAMPTZ_NS": [(["'2024-02-29 12:00:00+02'", "'2024-02-29 10:00:00+00'"], None)]}
REFUSED = {
    "BLOB": ["'a'::BLOB", r"'\xFF'::BLOB"],
    "BIT": ["'101'"],
    "INTERVAL": ["INTERVAL 1 MONTH", "INTERVAL 30 DAY", "INTERVAL 178000000 YEAR"],
    "TIME": ["'10:00'", "'24:00:00'"],
    "TIME WITH TIME ZONE": ["'10:00:00+01'", "'09:00:00+00'"],
    "TIME_NS": ["'10:00'"],
    "UHUGEINT": [f"'{2**128 - 1}'"],
    "BIGNUM": [f"'{2**200}'"],
    "JSON": ["'{\"a\": 1}'", "'{\"a\":1}'"],
    "DOUBLE[]": ["[0.123456789]", "[0.123456788]"],
    "DOUBLE[2]": ["[0.123456789, 1]", "[0.123456788, 1]"],
    "DATE[]": ["['infinity'::DATE]"],
    "STRUCT(a DOUBLE)": ["{'a': 0.123456789}", "{'a': 0.123456788}"],
    "MAP(INTEGER, INTEGER)": ["MAP {1: 2}"],
    "UNION(a DOUBLE, b VARCHAR)": ["union_value(a := 0.123456789)", "union_value(a := 0.123456788)"],
    "VARIANT": ["42", "'42'"],
    "GEOMETRY": ["'POINT(1 2)'"],
    "TUPLE(INTEGER, INTEGER)": ["row(1, 2)"],
}
ELSEWHERE = {"LIST": "DOUBLE[]", "ARRAY": "DOUBLE[2]", "TYPE": None, "NULL": None}


def known(kind):
    try:
        duckdb.connect().execute(f"SELECT CAST(NULL AS {kind})")
    except duckdb.Error:
        return False
    return True


ACCEPTED |= {kind: values for kind, values in NEWER.items() if known(kind)}
REFUSED = {kind: values for kind, values in REFUSED.items() if known(kind)}


def head(kind):
    return kind.split("(")[0]


def test_every_type_of_duckdb_is_here():
    found = {
        name for (name,) in duckdb.connect().execute("SELECT DISTINCT logical_type FROM duckdb_types()").fetchall()
    }
    assert found - {head(kind) for kind in (*ACCEPTED, *REFUSED)} - set(ELSEWHERE) == set()


@pytest.fixture(autouse=True)
def _unsafe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def opened(data, name="t", budget=None, **how):
    session = exact_session(budget=budget or dpn.Budget(epsilon=100.0, delta=1e-3), confirm="never")
    session.protect(data, name, **how)
    return session


def table(kind, literals, connection=None):
    """Return a table `t` with a column `v` of a type, the literal i standing i + 1 times in it."""
    connection = connection or duckdb.connect()
    connection.execute(f"CREATE TABLE t (v {kind})")
    for i, literal in enumerate(literals):
        connection.execute(f"INSERT INTO t SELECT CAST({literal} AS {kind}) FROM range({i + 1})")
    return connection


def counted(session, statement="SELECT v, COUNT(*) AS n FROM t GROUP BY v"):
    frame = session.sql(statement, epsilon=1.0).run().frame
    return list(zip(frame.iloc[:, 0], frame["n"].round().astype(int), strict=True))


@pytest.mark.parametrize("kind", ACCEPTED)
def test_keys_are_told_apart_as_duckdb_tells_them(kind):
    spellings = [spelling for spellings, _ in ACCEPTED[kind] for spelling in spellings]
    session = opened((table(kind, spellings), "t"))
    rows = iter(range(1, len(spellings) + 1))
    expected = [sum(next(rows) for _ in spelled) for spelled, _ in ACCEPTED[kind]]
    found = counted(session)
    assert sorted(n for _, n in found) == sorted(expected)
    for (_, shown), n in zip(ACCEPTED[kind], expected, strict=True):
        if shown is not None:
            assert (shown, n) in found


@pytest.mark.parametrize("kind", ACCEPTED)
def test_units_are_told_apart_as_keys_are(kind):
    spellings = [spelling for spellings, _ in ACCEPTED[kind] for spelling in spellings]
    session = opened((table(kind, spellings), "t"), unit="v", max_rows=1)
    for asked in ("COUNT(DISTINCT v)", "COUNT(*)"):
        found = session.sql(f"SELECT {asked} AS n FROM t", epsilon=1.0).run().frame
        assert round(found["n"][0]) == len(ACCEPTED[kind])


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_canonical_form_is_refused_before_the_charge(kind):
    connection = table(kind, REFUSED[kind])
    session = opened((connection, "t"))
    with pytest.raises(DPError, match="CAST"):
        session.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY v", epsilon=1.0)
    assert session.spent.epsilon == 0
    with pytest.raises(DPError, match="told apart"):
        opened((connection, "t"), unit="v", max_rows=1)
    cast = counted(session, "SELECT CAST(v AS VARCHAR) AS v, COUNT(*) AS n FROM t GROUP BY CAST(v AS VARCHAR)")
    texts = connection.execute("SELECT CAST(v AS VARCHAR), count(*) FROM t GROUP BY 1").fetchall()
    assert Counter(n for _, n in cast) == Counter(n for _, n in texts)


@pytest.mark.parametrize("kind", REFUSED)
def test_no_type_keeps_the_other_columns_from_being_asked(kind):
    connection = table(kind, REFUSED[kind])
    connection.execute("ALTER TABLE t ADD COLUMN g INTEGER DEFAULT 3")
    assert counted(opened((connection, "t")), "SELECT g, COUNT(*) AS n FROM t GROUP BY g")[0][0] == 3
