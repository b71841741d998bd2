"""Expressions that no row can make fail, in PostgreSQL and in Spark: there too no value stops them."""

import importlib.util
import itertools
from pathlib import Path

import pytest

from dpnotebook.engine.source import source_of
from dpnotebook.engine.workspace import Workspace
from dpnotebook.errors import SQLError

_spec = importlib.util.spec_from_file_location("totals", Path(__file__).parent / "test_total.py")
totals = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(totals)

COLUMNS = [name for name in totals.KINDS if name != "l"]
PAIRED = ("n", "b", "f", "d", "bo")
POSTGRES = """
    ('abc', 1, 9223372036854775807, 170141183460469231731687303715884105727, 18446744073709551615, 1.25, 'inf',
     '5874897-12-31', '2020-01-01', true),
    ('5', 0, -9223372036854775808, -170141183460469231731687303715884105728, 0, -1e300, '-inf', 'infinity',
     'infinity', false),
    ('nan', -5, 0, 0, 5, 0, 1e308, '-infinity', '-infinity', NULL),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    ('1e999', 2147483647, 5, 7, 5, 1e-300, -1e-320, '0001-01-01', '294246-01-10 04:00:54', true),
    ('2020-01-05', -2147483648, 5, 7, 5, 'NaN', -0.5, '4713-01-01 BC', '4713-01-01 00:00:00 BC', true)
"""
SPARK = """
    ('abc', 1, 9223372036854775807L, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)),
     CAST('18446744073709551615' AS DECIMAL(20, 0)), CAST(1.25 AS DECIMAL(38, 10)), DOUBLE('inf'), DATE '9999-12-31',
     TIMESTAMP_NTZ '9999-12-31 23:59:59', true),
    ('5', 0, -9223372036854775807L - 1, CAST(0 AS DECIMAL(38, 0)), CAST(0 AS DECIMAL(20, 0)),
     CAST('-9999999999999999999999999999.9999999999' AS DECIMAL(38, 10)), DOUBLE('-inf'), DATE '0001-01-01',
     TIMESTAMP_NTZ '0001-01-01 00:00:00', false),
    ('nan', -5, 0L, CAST(0 AS DECIMAL(38, 0)), CAST(5 AS DECIMAL(20, 0)), CAST(0 AS DECIMAL(38, 10)), 1e308D,
     DATE '1970-01-01', TIMESTAMP_NTZ '1970-01-01 00:00:00', NULL),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    ('1e999', 2147483647, 5L, CAST(7 AS DECIMAL(38, 0)), CAST(5 AS DECIMAL(20, 0)), CAST(0.5 AS DECIMAL(38, 10)),
     DOUBLE('nan'), DATE '2020-02-29', TIMESTAMP_NTZ '2020-02-29 12:00:00', true)
"""


def queries(of_two, size):
    """Return queries of many expressions each, made total."""
    written = [form.format(a=a) for form, a in itertools.product(totals.each(totals.OF_ONE), COLUMNS)]
    if of_two:
        pairs = itertools.product(PAIRED, PAIRED)
        written += [form.format(a=a, b=b) for form, (a, b) in itertools.product(totals.each(totals.OF_TWO), pairs)]
    made = []
    for expression in written:
        try:
            made.append(totals.total(expression).sql("duckdb"))
        except SQLError:  # of dates where numbers belong, and the other way round
            continue
    assert len(made) > 600
    for start in range(0, len(made), size):
        listed = ", ".join(f"{one} AS e{i}" for i, one in enumerate(made[start : start + size]))
        yield f'SELECT {listed} FROM "hostile"'


def test_no_row_makes_an_expression_fail_in_postgresql(postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS hostile")
        connection.execute(
            "CREATE TABLE hostile (n text, x int, b bigint, h numeric, ub numeric(20), dc numeric, f float8, d date, "
            "ts timestamp, bo boolean)"
        )
        connection.execute(f"INSERT INTO hostile VALUES {POSTGRES}")
    workspace = Workspace()
    workspace.add("hostile", source_of((postgres, "hostile")), None, private=True)
    for query in queries(True, 50):
        assert all(len(column) == 6 for column in workspace.run(query, ["hostile"]).values())
    workspace.close()


@pytest.mark.slow
def test_no_row_makes_an_expression_fail_in_spark(spark):
    frame = spark.sql(f"SELECT * FROM VALUES {SPARK} AS t(n, x, b, h, ub, dc, f, d, ts, bo)")
    workspace = Workspace()
    workspace.add("hostile", source_of(frame), None, private=True)
    for query in queries(False, 40):
        assert all(len(column) == 5 for column in workspace.run(query, ["hostile"]).values())
    workspace.close()
