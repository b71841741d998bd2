"""The digest that tells whether the rows of a DuckDB table are still those that were protected."""

import itertools
import shutil
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.engine import digests
from dpnotebook.engine.duckdb_source import SUMS, DuckDBSource
from dpnotebook.engine.row_digest import FORMLESS
from dpnotebook.engine.source import source_of
from dpnotebook.errors import DomainError, FrameChanged, LedgerMismatch

KEY = bytes(range(32))

# Written at commit 9e1b884, where a row's digest was the MD5 of its text: a histogram by sex, and a sum over a column
# that is not declared, joined with a public table.
BEFORE_SUMS = Path(__file__).parents[1] / "data" / "ledger_before_sums.sqlite"
VISITS = """CREATE TABLE visits AS SELECT range AS id, range * 7 % 50 AS age,
    CASE WHEN range % 3 = 0 THEN 'F' ELSE 'M' END AS sex, DATE '2024-01-01' + (range % 200)::INTEGER AS day,
    CASE WHEN range % 11 > 0 THEN (range % 40) / 4 END AS cost FROM range(600)"""
REGIONS = """CREATE TABLE regions AS
    SELECT range AS age, CASE WHEN range < 25 THEN 'north' ELSE 'south' END AS region FROM range(50)"""
JOINED = (
    "SELECT regions.region, ANON_SUM(visits.cost, 0, 10) AS n FROM visits JOIN regions ON visits.age = regions.age "
    "GROUP BY regions.region"
)

# Of each type values that are all distinct: neighbours, ends, and what is easily taken for NULL or for zero.
VALUES = {
    "BOOLEAN": ["NULL", "true", "false"],
    "TINYINT": ["NULL", "0", "1", "-128", "127"],
    "UINTEGER": ["NULL", "0", "4294967295"],
    "BIGINT": ["NULL", "0", "1", "-1", "9007199254740993", "9007199254740992", "-9223372036854775808"],
    "UBIGINT": ["NULL", "0", "18446744073709551615", "18446744073709551614"],
    "HUGEINT": ["NULL", "0", "18446744073709551616", "170141183460469231731687303715884105727"],
    "DOUBLE": ["NULL", "0", "'nan'", "'infinity'", "'-infinity'", "0.1", "0.10000000000000002", "1e-320"],
    "FLOAT": ["NULL", "0", "1e-45", "'nan'"],
    "DECIMAL(38, 3)": ["NULL", "0", "0.001", "99999999999999999999999999999999999.999"],
    "VARCHAR": ["NULL", "''", "'0'", "'a'", "'A'", "'a '", "'null'", "'é'", "chr(101) || chr(769)", "'NULL'"],
    "VARCHAR COLLATE NOCASE": ["NULL", "'a'", "'A'"],
    "BLOB": ["NULL", "''::BLOB", "'\\x00'::BLOB", "'\\x00\\x00'::BLOB"],
    "DATE": ["NULL", "'1970-01-01'", "'infinity'", "'-infinity'", "'5877642-06-24'", "'1969-12-31'"],
    "TIME": ["NULL", "'00:00'", "'24:00'", "'00:00:00.000001'"],
    "TIMESTAMP": ["NULL", "'1970-01-01'", "'infinity'", "'-infinity'", "'1970-01-01 00:00:00.000001'"],
    "TIMESTAMP WITH TIME ZONE": ["NULL", "'1970-01-01 00:00:00+00'", "'infinity'", "'-infinity'"],
    "TIMESTAMP_NS": ["NULL", "'1970-01-01'", "'1970-01-01 00:00:00.000000001'"],
    "INTERVAL": ["NULL", "INTERVAL 1 month", "INTERVAL 30 days", "INTERVAL 0 days"],
    "UUID": ["NULL", "'00000000-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"],
    "INTEGER[]": ["NULL", "[]", "[NULL]", "[1, 2]", "[12]"],
    "STRUCT(a INTEGER)": ["NULL", "{'a': NULL}", "{'a': 0}"],
    "ENUM('x', 'y')": ["NULL", "'x'", "'y'"],
}

SCRATCH = duckdb.connect()


def table(connection, columns, rows):
    """Return a table in DuckDB, of these types, with these rows of SQL expressions."""
    connection.execute(f"CREATE OR REPLACE TABLE t ({', '.join(f'c{i} {kind}' for i, kind in enumerate(columns))})")
    texts = [f"({', '.join(row)})" for row in rows]
    if texts:
        connection.execute(f"INSERT INTO t VALUES {', '.join(texts)}")
    return source_of((connection, "t"))


def digest(columns, rows):
    return table(SCRATCH, columns, rows).fingerprint([f"c{i}" for i in range(len(columns))], KEY)


@pytest.mark.one_in(22)
@pytest.mark.parametrize("kind", VALUES)
def test_what_is_distinct_is_told_apart(kind):
    """Tables of one or two values of a type have as many digests as there are multisets."""
    values = VALUES[kind]
    alone = {digest([kind], [[value]]) for value in values}
    pairs = {digest([kind], [[one], [other]]) for one, other in itertools.combinations_with_replacement(values, 2)}
    assert len(alone) == len(values)
    assert len(pairs) == len(values) * (len(values) + 1) // 2
    assert digest([kind], [[value] for value in values]) == digest([kind], [[value] for value in values[::-1]])


def test_values_that_trade_places_are_noticed():
    """Every value stays in its column and every column keeps its values: only the rows are others."""
    rows = [["1", "'a'", "0.5"], ["2", "'b'", "NULL"], ["1", "'a'", "0.5"], ["NULL", "'b'", "0.5"]]
    kinds, seen = ["INTEGER", "VARCHAR", "DOUBLE"], set()
    for middle in set(itertools.permutations(row[1] for row in rows)):
        for last in set(itertools.permutations(row[2] for row in rows)):
            traded = [[row[0], b, c] for row, b, c in zip(rows, middle, last, strict=True)]
            seen.add((tuple(sorted(map(tuple, traded))), digest(kinds, traded)))
    assert len({multiset for multiset, _ in seen}) == len({found for _, found in seen}) == len(seen) > 5


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=6),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=6),
)
def test_equal_digests_are_equal_multisets(one, other):
    made = [digest(["INTEGER", "VARCHAR"], [[str(n), f"'{text}'"] for n, text in rows]) for rows in (one, other)]
    assert (made[0] == made[1]) == (sorted(one) == sorted(other))


def test_columns_do_not_take_each_others_place():
    assert digest(["INTEGER", "INTEGER"], [["1", "2"]]) != digest(["INTEGER", "INTEGER"], [["2", "1"]])
    assert digest(["INTEGER", "INTEGER"], [["NULL", "0"]]) != digest(["INTEGER", "INTEGER"], [["0", "NULL"]])
    wide = ["TINYINT"] * 130  # which of them are NULL fills three numbers
    rows = [["NULL" if i == j else "0" for i in range(130)] for j in (0, 61, 62, 63, 129)]
    assert len({digest(wide, [row]) for row in rows}) == len(rows)


def test_the_width_of_a_number_does_not_count():
    assert digest(["TINYINT"], [["5"], ["NULL"]]) == digest(["BIGINT"], [["NULL"], ["5"]])
    assert digest(["FLOAT"], [["0.5"]]) == digest(["DOUBLE"], [["0.5"]])


def test_the_digest_does_not_depend_on_how_it_is_worked_out(monkeypatch):
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t AS SELECT range AS n, 'v' || (range % 700) AS few, 'é' || range AS many, "
        "CASE WHEN range % 5 > 0 THEN range % 3 END AS some FROM range(200000)"
    )
    names, found = ["n", "few", "many", "some"], set()
    for few, sample, vectors in [(1000, 100_000, 64), (0, 1, 1), (10**9, 10, 500)]:
        monkeypatch.setattr(digests, "FEW", few)
        monkeypatch.setattr(digests, "SAMPLE", sample)
        monkeypatch.setattr(digests, "VECTORS", vectors)
        found.add(source_of((connection, "t")).fingerprint(names, KEY))
    connection.execute("PRAGMA threads = 1")
    found.add(source_of((connection, "t")).fingerprint(names, KEY))
    assert len(found) == 1
    connection.execute("UPDATE t SET many = many || ' ' WHERE n = 123456")
    assert source_of((connection, "t")).fingerprint(names, KEY) not in found


def test_one_bit_of_one_value_in_many_is_noticed():
    frame = pd.DataFrame({"n": np.arange(300_000), "x": np.random.default_rng(5).lognormal(10, 1, 300_000)})
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    source = source_of((connection, "t"))
    before = source.fingerprint(["n", "x"], KEY)
    assert before != source.fingerprint(["n", "x"], bytes(32))
    connection.execute("UPDATE t SET x = ? WHERE n = 77", [float(np.nextafter(frame["x"][77], np.inf))])
    assert source_of((connection, "t")).fingerprint(["n", "x"], KEY) != before
    connection.execute("UPDATE t SET x = ? WHERE n = 77", [float(frame["x"][77])])
    assert source_of((connection, "t")).fingerprint(["n", "x"], KEY) == before


def test_a_table_costs_what_a_frame_costs():
    """Processor time beside that of pandas' hashes in one run, the least of some; from the text of every row it was 29
    to 40 times."""
    random = np.random.default_rng(6)
    frame = pd.DataFrame({"age": random.integers(0, 116, 10**6), "income": random.lognormal(10, 1, 10**6)})
    frame["sex"] = pd.Categorical.from_codes(random.integers(0, 2, 10**6), ["F", "M"])
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT age, income, sex::VARCHAR AS sex FROM frame")
    times = {"frame": [], "table": []}
    for _ in range(5):
        hashes = source_of(frame).fingerprint_by_pandas
        for name, made in (("frame", hashes), ("table", source_of((connection, "t")).fingerprint)):
            started = time.process_time()
            made(["age", "income", "sex"], KEY)
            times[name].append(time.process_time() - started)
    assert min(times["table"]) < 8 * min(times["frame"])


def test_what_the_database_says_is_not_repeated():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 'Ada' AS name")
    connection.execute("CREATE VIEW v AS SELECT name::INTEGER AS n FROM t")
    with pytest.raises(DomainError, match="the rows of 'v' cannot be read") as caught:
        source_of((connection, "v"))
    assert "Ada" not in str(caught.value)


@pytest.fixture
def earlier(tmp_path):
    """Return a function that opens a session on a ledger of the version before, with the tables as they were."""
    path, sessions = tmp_path / "earlier.ledger", []
    shutil.copy(BEFORE_SUMS, path)

    def opened(*changes):
        connection = duckdb.connect()
        for statement in (VISITS, REGIONS, *changes):
            connection.execute(statement)
        session = dpn.Session(dpn.Budget(epsilon=4.0, delta=1e-6, noise="laplace"), ledger=path)
        sessions.append(session)
        session.protect((connection, "visits"), "visits", domain={"age": dpn.Range(0, 49), "sex": ["F", "M"]})
        session.register((connection, "regions"), "regions", public=True)
        return session

    yield opened
    for session in sessions:
        session.close()


def test_a_table_that_was_protected_by_an_earlier_version_is_known(earlier):
    session = earlier()
    assert session.table("visits").histogram("sex", epsilon=0.25).run().paid == 0
    release = session.sql(JOINED, epsilon=0.5).run()
    assert (release.number, release.paid) == (2, 0)
    assert not session.table("visits").fingerprint.startswith(SUMS)


def test_a_table_that_changed_since_an_earlier_version_is_another(earlier):
    with pytest.raises(LedgerMismatch, match="its data differ"):
        earlier("UPDATE visits SET age = 8 WHERE id = 1")
    for change, what in (
        ("UPDATE visits SET cost = cost + 1 WHERE id = 1", "a column that is not declared of visits"),
        ("UPDATE regions SET region = 'south' WHERE age = 3", "the public table regions"),
    ):
        with pytest.raises(FrameChanged, match=what):
            earlier(change).sql(JOINED, epsilon=0.5).run()


def test_a_new_table_in_an_earlier_ledger_has_a_digest_of_today(earlier):
    session = earlier("CREATE TABLE more AS SELECT * FROM visits")
    source = session.table("visits").source
    session.protect((source.database, "more"), "more", domain={"age": dpn.Range(0, 49)})
    known = session.ledger.tables()
    assert [known[name]["fingerprint"].startswith(FORMLESS) for name in ("visits", "more")] == [False, True]
    assert isinstance(source, DuckDBSource)
