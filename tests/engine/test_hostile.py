"""Nobody's value makes a query fail in PostgreSQL or Spark, where it would tell of that person after the charge."""

from collections import Counter
from fractions import Fraction

import numpy as np
import psycopg
import pytest

from dpnotebook.engine.source import source_of
from dpnotebook.engine.workspace import Workspace
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.statement import Relation

WHOLE = ["0", "1", "9223372036854775807", "4611686018427387904", "-9223372036854775808", "-1", "9007199254740993"]
FLOATS = ["0", "-0", "2.5", "1.7976931348623157e308", "-1.7e308", "5e-324", "inf", "-inf", "NaN", "1e16", "710", "-745"]
TEXTS = ["", "1", "1e400", "-1e400", "1e-400", "nan", "inf", "true", "2020-02-30", "24:00", "now", "infinity", "today"]
TEXTS += ["0001-01-01 BC", "294276-12-31 23:59:59", "'\"\\%_", "ŉİß\U0001f600", "9223372036854775807.5", "1e131072"]
TEXTS += ["2020-01-01 10:00:00 Europe/Paris", "1" * 400, "0." + "0" * 400 + "1"]
# Of every type what is at its ends, and beyond what another type can hold.
POSTGRES = {
    "i": ("integer", ["0", "2147483647", "-2147483648", "7"]),
    "b": ("bigint", WHOLE),
    "f": ("double precision", FLOATS),
    "r": ("real", ["0", "3.4e38", "1e-45", "inf", "NaN"]),
    "n": ("numeric", ["0", "1e400", "-1e1000", "1e-400", "NaN", "1e131071", "1e-16000", "Infinity", "0.1"]),
    "m": ("numeric(20, 4)", ["0", "9999999999999999.9999", "NaN"]),
    "t": ("text", TEXTS),
    "d": ("date", ["2020-02-29", "0001-01-01", "9999-12-31", "infinity", "-infinity", "4713-01-01 BC", "5874897-1-1"]),
    "s": ("timestamp", ["2020-02-29 10:00", "9999-12-31 23:59:59.999999", "-infinity", "294276-12-31 23:59:59"]),
    "z": ("timestamptz", ["2020-02-29 10:00+00", "0001-01-01 00:00+00", "infinity", "4713-01-01 00:00+00 BC"]),
    "q": ("boolean", ["true", "false"]),
    "o": ("time", ["24:00", "00:00", "23:59:59.999999"]),
    "p": ("daterange", ["empty", "[-infinity,infinity]", "(,)", "[,5874897-12-31)"]),
    "a": ("date[]", ["{infinity,-infinity}", "{5874897-12-31}", "{4713-01-01 BC}", "{}", "{NULL}"]),
    "j": ("jsonb", ['{"a": 1e1000}', '"\\\\"', "[]", "null"]),
}
SPARK = {
    "i": ("int", POSTGRES["i"][1]),
    "b": ("bigint", WHOLE),
    "f": ("double", FLOATS),
    "r": ("float", ["0", "3.4e38", "1e-45", "inf", "NaN"]),
    "n": ("decimal(38, 10)", ["0", "9999999999999999999999999999.9999999999", "0.0000000001"]),
    "m": ("decimal(20, 4)", ["0", "9999999999999999.9999"]),
    "t": ("string", TEXTS),
    "d": ("date", ["2020-02-29", "0001-01-01", "9999-12-31", "-4712-01-01", "+99999-12-31"]),
    "s": ("timestamp_ntz", ["2020-02-29 10:00:00", "9999-12-31 23:59:59.999999", "+99999-12-31 23:59:59"]),
    "z": ("timestamp", ["2020-02-29 10:00:00Z", "0001-01-01 00:00:00Z", "-4712-01-01 00:00:00Z"]),
    "q": ("boolean", ["true", "false"]),
    "o": ("interval day to second", ["-106751991 04:00:54.775808", "106751991 04:00:54.775807"]),
    "p": ("interval year to month", ["-178956970-8", "178956970-7"]),
    "a": ("array<date>", ["+99999-12-31", "-4712-01-01"]),
    "j": ("map<int, double>", ["NaN", "-0", "1e308"]),
}
EXPRESSIONS = [
    *("b + b", "b * b", "-b", "b - 1", "b % -1", "ABS(b)", "SIGN(b)", "CAST(b AS INTEGER)", "i * i", "i % 7"),
    *("f * f", "f / f", "f - f", "f % 2", "EXP(f)", "LN(f)", "LOG(f, f)", "SQRT(f)", "POWER(f, f)", "POWER(b, 3)"),
    *("ROUND(f, 5)", "ROUND(b, -2)", "FLOOR(f)", "TRUNC(f)", "CAST(f AS BIGINT)", "CAST(f AS VARCHAR)", "n * n"),
    *("n", "n / m", "CAST(n AS BIGINT)", "CAST(m AS VARCHAR)", "r * r", "CAST(r AS VARCHAR)", "GREATEST(b, f, n)"),
    *("CAST(t AS DOUBLE)", "CAST(t AS BIGINT)", "CAST(t AS DATE)", "CAST(t AS TIMESTAMP)", "CAST(t AS BOOLEAN)"),
    *("UPPER(t)", "LOWER(t)", "SUBSTR(t, 2, 3)", "LEFT(t, 5)", "RIGHT(t, 3)", "REPLACE(t, '1', '22')", "t || t"),
    *("STRPOS(t, t)", "CONTAINS(t, t)", "t LIKE '%_'", "CONCAT(t, b, f)", "LENGTH(t)", "t < CAST(f AS VARCHAR)"),
    *("YEAR(d)", "EXTRACT(DAY FROM s)", "EXTRACT(HOUR FROM z)", "QUARTER(d)", "(d - d) * 2", "1 + (s - d)"),
    *("d + INTERVAL 999 MONTH", "s - INTERVAL 999 YEAR", "z + INTERVAL 1 HOUR", "CAST(s AS DATE)", "z"),
    *("DATE_DIFF('day', d, s)", "DATE_TRUNC('month', z)", "DATE_TRUNC('year', t)", "CAST(d AS VARCHAR)", "d"),
    *("CAST(o AS VARCHAR)", "CAST(p AS VARCHAR)", "CAST(a AS VARCHAR)", "CAST(j AS VARCHAR)", "q OR b > f", "s > z"),
    "DATE_TRUNC('day', DATE '2020-02-29') < z",
]
UNITS = Component("units", None, Fraction(0), Fraction(1), Fraction(1), 1, ())
SIZE = max(len(values) for _, values in POSTGRES.values()) * 2


def rows_of(columns):
    """Return rows with every value of every column, NULL at times, each a unit's own or shared with another unit."""
    columns = {name: [*values, None] for name, (_, values) in columns.items()}
    return [[str(i // 2), *(values[i % len(values)] for values in columns.values())] for i in range(SIZE)]


def in_postgres(address, columns, rows, name="hostile"):
    listed = ", ".join(f"{column} {kind}" for column, (kind, _) in columns.items())
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} (who bigint, {listed})")
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    return address, name


def in_spark(session, columns, rows, name=None):
    def written(value, kind):
        if value is None:
            return "NULL"
        text = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if kind.startswith("interval"):
            return f"INTERVAL {text} {kind.removeprefix('interval ').upper()}"
        if kind.startswith("array"):
            return f"array(CAST({text} AS date), NULL)"
        return f"map(1, CAST({text} AS double))" if kind.startswith("map") else f"CAST({text} AS {kind})"

    kinds = ["bigint", *(kind for kind, _ in columns.values())]
    listed = [", ".join(written(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in rows]
    values = ", ".join(f"({row})" for row in listed)
    return session.sql(f"SELECT * FROM VALUES {values} AS t(who, {', '.join(columns)})")


@pytest.fixture(scope="module", params=["postgres", "spark"])
def place(request):
    """Return the name of a database, a table with the rows there, and what it is."""
    server = request.getfixturevalue(request.param)
    put, columns = (in_postgres, POSTGRES) if request.param == "postgres" else (in_spark, SPARK)
    rows, tables = rows_of(columns), Workspace()
    tables.add("t", source_of(put(server, columns, rows)), "who", private=True)
    yield request.param, tables, Relation("t", tables.kinds("t"), unit="who", max_rows=5), rows
    tables.close()


def run(tables, relation, statement):
    (select,) = analyse(statement, {"t": relation}, {}).selects
    tables.check(["t"], [select.rows])
    return tables.run(select.rows, ["t"])


def test_no_value_makes_an_expression_fail(place):
    """Every row has a key; on Spark in few statements, as it is planning that takes its time."""
    name, tables, relation, rows = place
    size = 1 if name == "postgres" else 24
    for first in range(0, len(EXPRESSIONS), size):
        some = EXPRESSIONS[first : first + size]
        found = run(tables, relation, f"SELECT COUNT(*) FROM t GROUP BY {', '.join(some)}")
        assert len(found["u"]) == len(rows), some


def test_sums_of_the_largest_whole_numbers_are_keys(place):
    """They leave the database, and meet in Python, as the numbers that they are."""
    _, tables, relation, rows = place
    statement = "SELECT s, a, COUNT(*) FROM (SELECT who, SUM(b) AS s, AVG(b) AS a FROM t GROUP BY who) GROUP BY s, a"
    (select,) = analyse(statement, {"t": relation}, {}).selects
    found = totals(select, [UNITS], lambda query: tables.run(query, ["t"]), "5f" * 16)
    expected = Counter()
    for who in {row[0] for row in rows}:
        values = sorted(float(row[2]) for row in rows if row[0] == who and row[2] is not None)
        total = sum(values) if values else None
        expected[total, None if total is None else total / len(values)] += 1
    assert dict(zip(found.keys, found.numbers[:, 0].tolist(), strict=True)) == expected
    assert max(total for total, _ in found.keys if total is not None) > 2**63


AGGREGATES = ["SUM(f)", "AVG(f * f)", "STDDEV(f)", "VAR_POP(n)", "MIN(d)", "MAX(s)", "MAX(t)", "COUNT(DISTINCT t)"]
AGGREGATES += ["MIN(CAST(o AS VARCHAR))", "COUNT(DISTINCT f)", "SUM(n)", "SUM(CAST(t AS DOUBLE))", "MAX(b * b)"]


def test_no_value_makes_an_inner_aggregate_fail(place):
    _, tables, relation, rows = place
    inner = ", ".join(f"{aggregate} AS a{i}" for i, aggregate in enumerate(AGGREGATES))
    names = ", ".join(f"a{i}" for i in range(len(AGGREGATES)))
    found = run(tables, relation, f"SELECT COUNT(*) FROM (SELECT who, {inner} FROM t GROUP BY who) GROUP BY {names}")
    assert len(found["u"]) == len({row[0] for row in rows})


WORDS = ["Élan", "ÜBER", "Ñandú", "ЯБЛОКО", "ΔΕΛΤΑ", "naïve", "Zürich", "", "ok"]
DATES = [
    "2020-02-29",
    "2020-2-9",
    "2020-01-01 10:00",
    "now",
    "today",
    "1/2/3",
    "20200101",
    "Jan 1 2020",
    "infinity",
    "no",
]


def test_letters_and_dates_in_texts_are_read_as_python_reads_them(place, request):
    """Of every language, and no date that depends on the day on which it is read."""
    server, columns = request.getfixturevalue(place[0]), {"t": ("text", WORDS), "d": ("text", DATES)}
    rows = [[str(i), WORDS[i % len(WORDS)], DATES[i]] for i in range(len(DATES))]
    put, tables = in_postgres if place[0] == "postgres" else in_spark, Workspace()
    columns = columns if place[0] == "postgres" else {name: ("string", values) for name, (_, values) in columns.items()}
    tables.add("t", source_of(put(server, columns, rows, "letters")), "who", private=True)
    relation = Relation("t", tables.kinds("t"), unit="who", max_rows=5)
    keys = "LOWER(t), UPPER(t), t ILIKE '%é%', CAST(d AS DATE)"
    found = run(tables, relation, f"SELECT COUNT(*) FROM t GROUP BY {keys}")
    tables.close()
    shown = {u: key for u, *key in zip(*(found[name].tolist() for name in ("u", "k0", "k1", "k2", "k3")), strict=True)}
    for who, word, text in rows:
        low, up, accented, day = shown[int(who)]
        assert (low, up, accented) == (word.lower(), word.upper(), "é" in word.lower())
        assert (day is None) == (not text.startswith("2020-")), text


# A gigabyte is the most that PostgreSQL holds of a value.
@pytest.mark.parametrize(
    ("kind", "value", "expression"),
    [
        ("text", "repeat('a', 30000000)", f"REPLACE(v, 'a', '{'b' * 40}')"),
        pytest.param("text", "repeat('a', 400000000)", "v || v || v", marks=pytest.mark.slow),
        # A few bytes of a number are 100,000 digits.
        pytest.param("numeric[]", "array_fill(1e131071, ARRAY[9000])", "CAST(v AS VARCHAR)", marks=pytest.mark.slow),
    ],
)
def test_a_value_too_long_for_what_is_made_of_it_is_null(postgres, kind, value, expression):
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("DROP TABLE IF EXISTS long")
        admin.execute(f"CREATE TABLE long (who bigint, v {kind})")
        admin.execute(f"INSERT INTO long SELECT 1, {value}")
        admin.execute("INSERT INTO long SELECT 2, (SELECT v FROM long LIMIT 0)")
        admin.execute("INSERT INTO long VALUES (3, '{1}')")
        tables = Workspace()
        try:
            tables.add("t", source_of((postgres, "long")), "who", private=True)
            relation = Relation("t", tables.kinds("t"), unit="who", max_rows=5)
            found = run(tables, relation, f"SELECT COUNT(*) FROM t GROUP BY {expression}")
            missing = np.ma.getmaskarray(found["k0"])
            assert {who for who, gone in zip(found["u"].tolist(), missing, strict=True) if gone} == {1, 2}
        finally:
            tables.close()
            admin.execute("DROP TABLE long")
