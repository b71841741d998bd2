"""Columns that are neither numbers, texts nor dates, beside texts and in casts: as databases have it, or refused."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

pytestmark = pytest.mark.usefixtures("exact")
SIZE = 400
TIMES = [datetime.time(place % 24, place * 15 % 60) for place in range(SIZE)]
NOON = sum(time == datetime.time(12) for time in TIMES)


@pytest.fixture(scope="module")
def session(exact):
    place = np.arange(SIZE)
    rows = pd.DataFrame({"pid": place, "tm": pd.Series(TIMES, dtype=object), "tx": [str(time)[:5] for time in TIMES]})
    rows["tx"] = rows["tx"].astype(object)
    connection = duckdb.connect()
    connection.register("given", pd.DataFrame({"pid": place, "tm": [str(time) for time in TIMES]}))
    connection.execute(
        "CREATE TABLE t AS SELECT pid, CAST(tm AS TIME) AS tm, INTERVAL 1 MINUTE * pid AS stay FROM given"
    )
    session = exact_session(dpn.Budget(1e6, 1e-6))
    session.protect((connection, "t"), "t", unit="pid", max_rows=1)
    session.protect(rows, "f", unit="pid", max_rows=1)
    return session


def asked(session, text):
    return session.sql(text, epsilon=1.0).run().frame["n"][0]


@pytest.mark.parametrize("written", ["'12:00'", "'12:00:00'", "'12:00:00.000'"])
@pytest.mark.parametrize("column", ["t.tm", "f.tm"])
def test_a_time_of_a_day_is_the_same_however_it_is_written(session, column, written):
    table, name = column.split(".")
    count = f"SELECT COUNT(*) AS n FROM {table} WHERE"
    assert asked(session, f"{count} {name} = {written}") == NOON > 1
    assert asked(session, f"{count} {written} = {name}") == NOON
    assert asked(session, f"{count} {name} IN ({written}, '00:00')") == 2 * NOON
    assert asked(session, f"{count} {name} <> {written}") == SIZE - NOON
    assert asked(session, f"{count} {name} NOT IN ({written})") == SIZE - NOON


@pytest.mark.parametrize("column", ["tm", "tx"])
@pytest.mark.parametrize("sign", [">", ">=", "<", "<=", "=", "<>"])
def test_times_of_a_day_in_a_frame_are_in_order_of_time(session, column, sign):
    noon = datetime.time(12)
    true = {
        ">": noon.__lt__,
        ">=": noon.__le__,
        "<": noon.__gt__,
        "<=": noon.__ge__,
        "=": noon.__eq__,
        "<>": noon.__ne__,
    }
    assert asked(session, f"SELECT COUNT(*) AS n FROM f WHERE {column} {sign} '12:00'") == sum(map(true[sign], TIMES))
    turned = sign.translate(str.maketrans("<>", "><")) if len(sign) == 1 or "=" in sign else sign
    assert asked(session, f"SELECT COUNT(*) AS n FROM f WHERE '12:00' {turned} {column}") == sum(map(true[sign], TIMES))
    if sign == "<=":
        between = f"SELECT COUNT(*) AS n FROM f WHERE {column} BETWEEN '12:00' AND '12:00'"
        assert asked(session, between) == NOON


REFUSED = (
    "SELECT SUM(CAST(stay AS DOUBLE), contribution_bounds_per_group => (0, 9)) AS n FROM t",
    "SELECT COUNT(*) AS n FROM t WHERE CAST(stay AS INT) > 3",
    "SELECT COUNT(*) AS n FROM t WHERE TRY_CAST(tm AS DOUBLE) > 3",
    "SELECT COUNT(*) AS n FROM t WHERE CAST(stay AS BOOLEAN)",
    "SELECT COUNT(*) AS n FROM t WHERE CAST(stay AS DATE) > DATE '2020-01-01'",
    "SELECT COUNT(*) AS n FROM t WHERE stay > 3",
    "SELECT COUNT(*) AS n FROM t WHERE stay + 1 = 3",
)


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_be_missing_in_every_row_is_refused_before_it_is_paid(session, text):
    spent = session.spent.epsilon
    with pytest.raises(SQLError, match="would be NULL in every row"):
        session.sql(text, epsilon=1.0)
    assert session.spent.epsilon == spent


def test_what_is_said_to_write_is_answered(session):
    text = "SELECT COUNT(*) AS n FROM t WHERE CAST(LEFT(CAST(tm AS VARCHAR), 2) AS INT) >= 12"
    assert asked(session, text) == sum(time.hour >= 12 for time in TIMES)
    assert asked(session, "SELECT COUNT(*) AS n FROM t WHERE CAST(CAST(stay AS VARCHAR) AS DOUBLE) > 3") == 0


def test_money_is_not_a_number_in_postgresql(postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE paid_in_money AS SELECT g AS who, (g * 1.5)::numeric::money AS paid, "
            "TIME '00:00' + make_interval(mins => g * 15) AS tm FROM generate_series(1, 400) AS g"
        )
    with exact_session(dpn.Budget(1e6, 1e-6)) as session:
        session.protect((postgres, "paid_in_money"), "t", unit="who", max_rows=1)
        with pytest.raises(SQLError, match="would be NULL in every row"):
            session.sql("SELECT COUNT(*) AS n FROM t WHERE CAST(paid AS DOUBLE) > 3", epsilon=1.0)
        assert asked(session, "SELECT COUNT(*) AS n FROM t WHERE tm = '12:00'") == 4


def test_declared_times_of_a_day_are_compared_with_hours_and_are_texts_without_a_day():
    rows = pd.DataFrame({"pid": np.arange(SIZE), "tm": pd.Series(TIMES, dtype=object)})
    with exact_session(dpn.Budget(1e6, 1e-6)) as session:
        session.protect(rows, "t", unit="pid", max_rows=1, domain={"tm": dpn.Times()})
        count = "SELECT COUNT(*) AS n FROM t WHERE"
        assert asked(session, f"{count} tm = '12:00'") == NOON
        assert asked(session, f"{count} tm >= '9:30' AND tm < '12:00:00'") == sum(
            datetime.time(9, 30) <= time < datetime.time(12) for time in TIMES
        )
        assert asked(session, f"{count} CAST(tm AS VARCHAR) = '12:00:00'") == NOON
        keys = session.sql("SELECT CAST(tm AS VARCHAR) AS k, COUNT(*) AS n FROM t GROUP BY k", epsilon=1.0).run().frame
        assert sorted(keys["k"]) == sorted({str(time) for time in TIMES})


OF_SIZES = (
    "SELECT COUNT(*) AS n FROM {} WHERE size < 'medium'",
    "SELECT COUNT(*) AS n FROM {} WHERE 'medium' >= size",
    "SELECT COUNT(*) AS n FROM {} WHERE size BETWEEN 'small' AND 'medium'",
    "SELECT COUNT(*) AS n FROM (SELECT who, MAX(size) AS most FROM {} GROUP BY who) WHERE most = 'large'",
    "SELECT COUNT(*) AS n FROM (SELECT size, ROW_NUMBER() OVER (PARTITION BY who ORDER BY size) AS nth FROM {}) "
    "WHERE nth = 1 AND size = 'small'",
    "SELECT GREATEST(size, 'medium') AS k, COUNT(*) AS n FROM {} GROUP BY k",
    "SELECT COUNT(*) AS n FROM (SELECT size AS s FROM {}) WHERE s < 'medium'",
)


@pytest.fixture(scope="module")
def sizes(exact, postgres):
    import psycopg

    made = "{} AS SELECT g AS who, (ARRAY['small', 'medium', 'large'])[1 + g % 3]::{} AS size"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE TYPE size_of_all AS ENUM ('small', 'medium', 'large')")
        connection.execute(
            f"CREATE TABLE {made.format('sizes_of_all', 'size_of_all')}, ('k' || g % 3)::char(6) AS code, "
            "('k' || g % 3)::varchar(6) AS free FROM generate_series(1, 300) AS g"
        )
    local = duckdb.connect()
    local.execute("CREATE TYPE size_of_all AS ENUM ('small', 'medium', 'large')")
    local.execute(
        "CREATE TABLE sizes_of_all AS SELECT g AS who, ['small', 'medium', 'large'][1 + g % 3]::size_of_all AS size "
        "FROM range(1, 301) AS r(g)"
    )
    session = exact_session(dpn.Budget(1e6, 1e-6))
    session.protect((postgres, "sizes_of_all"), "there", unit="who", max_rows=1)
    session.protect((local, "sizes_of_all"), "here", unit="who", max_rows=1)
    return session


@pytest.mark.parametrize("table", ["here", "there"])
@pytest.mark.parametrize("text", OF_SIZES)
def test_an_enum_has_no_order_of_texts(sizes, table, text):
    spent = sizes.spent.epsilon
    with pytest.raises(SQLError, match="an order of their own"):
        sizes.sql(text.format(table), epsilon=1.0)
    assert sizes.spent.epsilon == spent


@pytest.mark.parametrize("table", ["here", "there"])
def test_enums_are_asked_as_is_said(sizes, table):
    written = "CASE size WHEN 'small' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END"
    count = f"SELECT COUNT(*) AS n FROM {table} WHERE"
    assert asked(sizes, f"{count} {written} < 2") == 100
    assert asked(sizes, f"{count} size = 'medium'") == 100
    assert asked(sizes, f"{count} size IN ('small', 'large')") == 200
    assert asked(sizes, f"{count} CAST(size AS VARCHAR) < 'medium'") == 100
    keys = sizes.sql(f"SELECT size, COUNT(*) AS n FROM {table} GROUP BY size ORDER BY size", epsilon=1.0).run().frame
    assert len(keys) == 3


def test_blanks_at_the_end_of_a_padded_text_do_not_count(sizes):
    count = "SELECT COUNT(*) AS n FROM there WHERE"
    for written in ("'k1'", "'k1    '", "'k1         '"):
        assert asked(sizes, f"{count} code = {written}") == 100
        assert asked(sizes, f"{count} {written} = code") == 100
        assert asked(sizes, f"{count} code IN ({written}, 'k2 ')") == 200
        assert asked(sizes, f"{count} code <> {written}") == 200
    assert asked(sizes, f"{count} free = 'k1   '") == 0
