"""What is distinct in DuckDB is distinct in an answer, and what is equal is equal: as keys, as levels and as units."""

import contextlib
import datetime
from collections import Counter

import duckdb
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DPError, EngineError
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
UNITS_ONLY = {
    "DECIMAL(38,20)": [
        (["0.10000000000000000001"], None),
        (["0.10000000000000000002"], None),
        (["0.5", "0.50", "0.500000000000000000000"], None),
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


def known(kinds):
    """Return those that this DuckDB has."""
    found = {}
    with duckdb.connect() as connection:
        for kind, values in kinds.items():
            with contextlib.suppress(duckdb.Error):
                connection.execute(f"CREATE OR REPLACE TABLE t (v {kind})")
                connection.execute("CREATE OR REPLACE TABLE made AS SELECT * FROM t")
                found[kind] = values
    return found


ACCEPTED |= known(NEWER)
REFUSED = known(REFUSED)


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


def number(session, statement):
    return round(session.sql(statement, epsilon=1.0).run().frame["n"][0])


@pytest.mark.one_in(4)
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


@pytest.mark.one_in(11)
@pytest.mark.parametrize("kind", [*ACCEPTED, *UNITS_ONLY])
def test_units_are_told_apart_as_keys_are(kind):
    values = (ACCEPTED | UNITS_ONLY)[kind]
    spellings = [spelling for spellings, _ in values for spelling in spellings]
    session = opened((table(kind, spellings), "t"), unit="v", max_rows=1)
    for asked in ("COUNT(DISTINCT v)", "COUNT(*)"):
        found = session.sql(f"SELECT {asked} AS n FROM t", epsilon=1.0).run().frame
        assert round(found["n"][0]) == len(values)


@pytest.mark.parametrize("kind", UNITS_ONLY)
def test_numbers_that_are_rounded_are_no_keys(kind):
    session = opened((table(kind, ["0.5"]), "t"))
    for rows in ("t", "(SELECT v FROM t)", "(SELECT v FROM t UNION ALL SELECT v FROM t)"):
        with pytest.raises(DPError, match=r"CAST\(v AS DOUBLE\)"):
            session.sql(f"SELECT v, COUNT(*) AS n FROM {rows} AS q GROUP BY v", epsilon=1.0)
    assert counted(session, "SELECT CAST(v AS DOUBLE) AS v, COUNT(*) AS n FROM t GROUP BY CAST(v AS DOUBLE)")
    assert session.sql("SELECT SUM(v) AS n FROM t WHERE v < 3", epsilon=1.0).plan.cost.units > 0


@pytest.mark.one_in(4)
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


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", REFUSED)
def test_no_type_keeps_the_other_columns_from_being_asked(kind):
    connection = table(kind, REFUSED[kind])
    connection.execute("ALTER TABLE t ADD COLUMN g INTEGER DEFAULT 3")
    assert counted(opened((connection, "t")), "SELECT g, COUNT(*) AS n FROM t GROUP BY g")[0][0] == 3


# Lists of scalars can be unnested, and their elements are keys as scalars are.

LISTS = {
    "VARCHAR[]": (["['a', 'A', NULL]", "['a', 'é', 'é', '']"], ["a", "A", None, "a", "é", "é", ""]),
    "DOUBLE[]": (
        ["[0.123456789, 0.123456788]", "['0.0', '-0.0', 'nan']", "[]", "NULL"],
        [0.123456789, 0.123456788, 0, 0, None],
    ),
    "BIGINT[2]": ([f"[{2**53}, {2**53 + 1}]"], [2**53, 2**53 + 1]),
    "HUGEINT[]": ([f"[{2**100}, {2**100 + 1}]"], [2**100, 2**100 + 1]),
    "DECIMAL(9,2)[]": (["[1.10, 1.11]"], [1.1, 1.11]),
    "BOOLEAN[]": (["[TRUE, NULL]"], [True, None]),
    "DATE[]": (["['2024-02-29', 'infinity', '-infinity']"], [datetime.datetime(2024, 2, 29), None, None]),
    "TIMESTAMP[]": (["['2024-02-29', '294000-01-01']"], [datetime.datetime(2024, 2, 29), None]),
    "UUID[]": (["['A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11']"], ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
}


@pytest.mark.one_in(11)
@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("where", ["connection", "file"])
def test_elements_are_keys_as_scalars_are(kind, where, tmp_path):
    connection = duckdb.connect() if where == "connection" else duckdb.connect(str(tmp_path / "t.duckdb"))
    connection.execute(f"CREATE TABLE t (v {kind}, id INTEGER)")
    for literal in LISTS[kind][0]:
        connection.execute(f"INSERT INTO t SELECT CAST({literal} AS {kind}), 1")
    place = connection
    if where == "file":
        connection.close()
        place = tmp_path / "t.duckdb"
    session = opened((place, "t"), unit="id", max_rows=50)
    found = counted(session, "SELECT x, COUNT(*) AS n FROM t, UNNEST(v) AS q(x) GROUP BY x")
    assert Counter({None if k is None or k != k else k: n for k, n in found}) == Counter(LISTS[kind][1])


@pytest.mark.parametrize("kind", ["DECIMAL(38,20)[]", "INTERVAL[]", "BLOB[]", "INTEGER[][]", "STRUCT(a INTEGER)[]"])
def test_other_elements_are_no_keys(kind):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (v {kind})")
    session = opened((connection, "t"))
    with pytest.raises(DPError, match=r"CAST|array"):
        session.sql("SELECT x, COUNT(*) AS n FROM t, UNNEST(v) AS q(x) GROUP BY x", epsilon=1.0).run()
    assert session.spent.epsilon == 0


# Texts are their bytes, whatever collation a column, a database or a connection has.

SPELLED = ["a", "A", "á", "ä", "é", "é", "ss", "ß"]
COLLATIONS = ["NOCASE", "NOCASE.NOACCENT", "NFC"]


def collated(collation, connection=None):
    """Return a table `t` with columns of every way to a collation: rows of each text, one more than of the last."""
    connection = connection or duckdb.connect()
    connection.execute(f"CREATE TABLE t (v VARCHAR COLLATE {collation}, plain VARCHAR, l VARCHAR[])")
    for i, text in enumerate(SPELLED):
        connection.execute("INSERT INTO t SELECT $1, $1, [$1] FROM range($2)", [text, i + 1])
    connection.execute("CREATE VIEW seen AS SELECT v, CAST(v AS VARCHAR) AS plain, l FROM t")
    connection.execute("CREATE TABLE made AS SELECT v, plain, [v] AS l FROM t")
    return connection


@pytest.mark.one_in(10)
@pytest.mark.parametrize("collation", COLLATIONS)
@pytest.mark.parametrize("where", ["connection", "file", "default"])
def test_no_collation_makes_two_texts_one(collation, where, tmp_path):
    if where == "file":
        connection = collated(collation, duckdb.connect(str(tmp_path / "t.duckdb")))
        connection.close()
        place = tmp_path / "t.duckdb"
    else:
        place = collated(collation if where == "connection" else '"binary"')
        if where == "default":
            place.execute(f"SET GLOBAL default_collation = '{collation}'")
    expected = {text: i + 1 for i, text in enumerate(SPELLED)}
    for name in ("t", "seen", "made"):
        session = opened((place, name))
        for column in ("v", "plain"):
            assert dict(counted(session, f"SELECT {column}, COUNT(*) AS n FROM t GROUP BY {column}")) == expected
        found = counted(session, "SELECT x, COUNT(*) AS n FROM t, UNNEST(l) AS q(x) GROUP BY x")
        assert dict(found) == expected
        assert number(session, "SELECT COUNT(*) AS n FROM t WHERE v = 'a'") == 1
        assert number(session, "SELECT COUNT(*) AS n FROM t WHERE lower(plain) IN ('a', 'ß')") == 1 + 2 + 8
    session = opened((place, "t"), unit="v", max_rows=1)
    assert number(session, "SELECT COUNT(DISTINCT v) AS n FROM t") == len(SPELLED)
    declared = opened((place, "t"), domain={"v": SPELLED})
    frame = declared.table("t").groupby("v").count(epsilon=1.0).run().frame
    assert dict(zip(frame["v"], frame["value"], strict=True)) == expected
    for i, text in enumerate(SPELLED):
        assert declared.table("t").count(where=f"v == {text!r}", epsilon=1.0).run().frame["value"][0] == i + 1


def test_groups_that_meet_in_python_show_nothing(monkeypatch):
    """Neither which, nor that it is for this that there is no answer: it is what any failure after a charge says."""
    connection = table("VARCHAR", ["'Zebulon'", "'Ada'"])
    session = dpn.Session(budget=dpn.Budget(epsilon=8.0, delta=1e-3), confirm="never")
    session.protect((connection, "t"), "t")
    query = session.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY v", epsilon=4.0)
    workspace, said = session._statements.relations.workspace, set()
    run = workspace.run

    def one_key(*args, **how):
        found = run(*args, **how)
        return found | {name: values[[0] * len(values)] for name, values in found.items() if name.startswith("k")}

    def broken(*args, **how):
        raise EngineError("the connection is gone")

    for patch in (one_key, broken):
        monkeypatch.setattr(workspace, "run", patch)
        with pytest.raises(EngineError) as caught:
            query.run()
        said.add(str(caught.value))
    (text,) = said
    assert "Zebulon" not in text
    assert "told apart" not in text
    monkeypatch.setattr(workspace, "run", run)
    assert query.run().paid == 0
    session.close()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("where", ["frame", "connection", "list", "json", "parquet"])
def test_no_text_is_so_long_that_what_is_made_of_it_fills_the_memory(where, tmp_path):
    """Beyond a megabyte it is missing, as on servers: replaced and put together it would be gigabytes."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i AS id, repeat('a', 1000000 + i::INT) AS v FROM range(-1, 3) AS q(i)")
    data, rows, column = (connection, "t"), "t", "v"
    if where == "frame":
        data = connection.execute("SELECT * FROM t").df().astype({"v": object})
    elif where == "parquet":
        connection.execute(f"COPY t TO '{tmp_path / 't.parquet'}'")
        data = tmp_path / "t.parquet"
    elif where == "list":
        connection.execute("CREATE TABLE l AS SELECT id, [v] AS l FROM t")
        data, rows = (connection, "l"), "t, UNNEST(l) AS q(v)"
    elif where == "json":
        connection.execute("CREATE TABLE j AS SELECT id, to_json(v[3:]) AS v FROM t")  # which adds two quotes
        data, column = (connection, "j"), "CAST(v AS VARCHAR)"
    session = opened(data)
    longer = f"REPLACE({column}, 'a', '{'b' * 40}')"
    asked = f"SELECT COUNT(*) AS n FROM {rows} WHERE LENGTH({longer}) > 39000000"
    assert number(session, asked) == 2
    assert number(session, f"SELECT COUNT(*) AS n FROM {rows} WHERE {column} IS NULL") == 2
