"""Bounds are found from the same histograms on DuckDB, PostgreSQL and Spark, and awkward values fail nowhere."""

import importlib.util
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpnotebook.engine.source import source_of
from dpnotebook.engine.spark import first_held
from dpnotebook.engine.workspace import Workspace
from dpnotebook.sql.aggregates.bounds import PARTS_OF_UNIT
from dpnotebook.sql.aggregates.norms import norm_edges
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.rewrite.bounded_aggregation import all_magnitudes, totals
from dpnotebook.sql.rewrite.profiles import norms, values
from dpnotebook.sql.select import Aggregate, Contribution, Key, PrivateSelect

_spec = importlib.util.spec_from_file_location("everywhere", Path(__file__).parent / "everywhere.py")
everywhere = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(everywhere)

ROWS = everywhere.made(400, seed=8)
TINY = [5e-324, -5e-324, 1e-310, 1e-160, -1e-160, 2.0**-46, 1e-300, 0.0, -0.0]
HUGE = [1.7e308, -1.7e308, math.inf, -math.inf, math.nan, 1e154, -1e200, 2.0**70, 1e15 + 0.5]
for _number, _value in enumerate([*TINY, *HUGE]):
    ROWS[_number] = ROWS[_number] | {"who": 1 + _number % 3, "fee": _value}


@pytest.fixture(scope="module", params=["postgres", "spark"])
def both(request):
    """Return two workspaces with the same table: a frame, and one in another database."""
    there = request.getfixturevalue(request.param)
    if request.param == "postgres":
        elsewhere = everywhere.put_into_postgres(there, "awkward", ROWS)
    else:
        elsewhere = everywhere.put_into_spark(there, ROWS)
    made = []
    for data in (everywhere.frame(ROWS), elsewhere):
        tables = Workspace()
        tables.add("visits", source_of(data), "who", private=True)
        made.append(lambda query, tables=tables: tables.run(query, ["visits"]))
    return made


def select(kind, most):
    return PrivateSelect(
        'SELECT "who" AS u, "ward" AS k0, "fee" AS x0, "stay" AS x1 FROM "visits" WHERE "who" IS NOT NULL',
        ("visits",), (), (Key("ward"),), (), 2, Contribution(kind, most), "threshold",
    )  # fmt: skip


def test_vectors_have_the_same_norms(both):
    kinds = [("count", None), ("units", None), ("sum", 0), ("average", 0), ("variance", 0), ("sum", 1)]
    asked = [(Aggregate(kind, kind, column), (Fraction(-5), Fraction(200))) for kind, column in kinds]
    here, there = (norms(select("l2", 1), asked, run) for run in both)
    assert [one.counts.tolist() for one in here] == [one.counts.tolist() for one in there]
    assert all(one.counts.sum() > 10 for one in here)
    for one, other in zip(here, there, strict=True):  # where two engines round to other steps, each unit by one
        for sums, others in zip(one.sums or (), other.sums or (), strict=True):
            assert (np.abs(sums - others) <= one.counts).all()


def test_norms_of_counts_are_exact_at_the_edges_of_bins():
    """Powers of two and what is next to them: of one group, of two alike, and of two unlike ones."""
    near = [2**i + more for i in range(11) for more in (-1, 0, 1) if 2**i + more > 0]
    sizes = [*((n, 0) for n in near), *((n, n) for n in near), *((n, 3) for n in near)]
    rows = [{"who": who, "ward": "AB"[k]} for who, pair in enumerate(sizes) for k in (0, 1) for _ in range(pair[k])]
    tables = Workspace()
    tables.add("visits", source_of(pd.DataFrame(rows)), "who", private=True)
    asked = select("l2", 1)
    asked = replace(asked, rows='SELECT "who" AS u, "ward" AS k0 FROM "visits"', inputs=0)
    for kind, each in (("count", np.array(sizes)), ("units", np.array(sizes) > 0)):
        (found,) = norms(asked, [(Aggregate(kind, kind), None)], lambda query: tables.run(query, ["visits"]))
        lengths = np.sqrt((each.astype(np.int64) ** 2).sum(axis=1))
        wanted, _ = np.histogram(lengths, norm_edges())
        assert found.counts.tolist() == wanted.tolist()
        assert found.counts.sum() == len(sizes)


def test_values_are_in_the_same_bins(both):
    for between in (None, (-3.0, 40.0)):
        here, there = (values(select("l2", 1), 1, 207, between, run) for run in both)
        assert here.tolist() == there.tolist()
        assert here.sum() > 10 * (PARTS_OF_UNIT - 400)
    even = tuple((-3.0 + 43.0 * (np.arange(129) / 128)).tolist())  # worked out, not searched
    here, there = (values(select("l2", 1), 1, 128, even, run) for run in both)
    assert here.tolist() == there.tolist()
    assert here.sum() > 10 * (PARTS_OF_UNIT - 400)


def test_groups_have_the_same_magnitudes(both):
    asked = [Aggregate("count", "n"), Aggregate("sum", "s", 0), Aggregate("average", "a", 0), Aggregate("sum", "t", 1)]
    here, there = (all_magnitudes(select("groups", 2), asked, run) for run in both)
    for aggregate in asked:
        assert here[aggregate].tolist() == there[aggregate].tolist()
        assert here[aggregate].sum() > 10


def test_rows_have_the_same_magnitudes(both):
    asked = [Aggregate("quantiles", "q", 0), Aggregate("variance", "v", 1)]
    here, there = (all_magnitudes(select("groups", 2), asked, run) for run in both)
    for aggregate in asked:
        assert here[aggregate].tolist() == there[aggregate].tolist()
        assert here[aggregate].sum() > 10 * (PARTS_OF_UNIT - 400)


def test_a_part_that_is_worked_out_once_is_a_query_of_its_own():
    query = (
        'WITH "a" AS (SELECT 1 AS x), b AS MATERIALIZED (SELECT x FROM a), '
        "c AS MATERIALIZED (SELECT x + 1 AS y FROM b), "
        "d AS (SELECT y FROM c UNION ALL SELECT y FROM c) SELECT count(*) AS n, sum(y) AS s FROM d JOIN c USING (y)"
    )
    with duckdb.connect() as connection:
        expected = connection.execute(query).fetchall()
        for name in ("held 1", "held 2"):
            part, query = first_held(query, name)
            connection.execute(f'CREATE TABLE "{name}" AS {part}')
        assert first_held(query, "held 3") is None
        assert connection.execute(query).fetchall() == expected == [(2, 4)]
    assert first_held("SELECT ' AS MATERIALIZED ' AS x", "held") is None


def test_nothing_stays_in_spark(spark):
    tables = Workspace()
    tables.add("visits", source_of(everywhere.put_into_spark(spark, ROWS)), "who", private=True)
    tables.run('SELECT count(*) AS n FROM "visits"', ["visits"])
    before = {row.tableName for row in spark.sql("SHOW TABLES").collect()}
    room = spark.sparkContext._jsc.getPersistentRDDs().size()
    wanted = [component("sum", -1, 1, Fraction(1, 4), 4)]
    found = totals(select("groups", 2), wanted, lambda query: tables.run(query, ["visits"]), "5f" * 16)
    assert found.numbers.any()
    assert {row.tableName for row in spark.sql("SHOW TABLES").collect()} == before
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == room > 0
    tables.close()


def component(statistic, low, high, step, largest, edges=()):
    return Component(statistic, 0, Fraction(low), Fraction(high), Fraction(step), largest, edges)


SCALES = [Fraction(1, 2**30), 1, 2**40]
WAYS = [Contribution("groups", 3), Contribution("rows", 50), Contribution("l2")]
# Spark takes its time to plan: each way with a scale of its own, and the others by hand.
AWKWARD = [
    pytest.param(place, way, scale, marks=[pytest.mark.slow] if place == "spark" and i != j else [])
    for place in ("postgres", "spark")
    for i, way in enumerate(WAYS)
    for j, scale in enumerate(SCALES)
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("both", "contribution", "high"), AWKWARD, indirect=["both"])
def test_awkward_values_fail_nowhere(both, contribution, high):
    """Numbers too small to be squared or divided, and too large to be added up."""
    steps = 2**20
    step = Fraction(high) / steps
    if contribution.kind == "l2":
        wanted = [component("sum", 0, high, step, steps), component("groups", 0, high, step, steps)]
        # Of values between -2 and 2 the squares of half-widths; the largest have a norm that is clipped.
        wanted += [
            replace(component(name, -2, 2, Fraction(worth, 2**10), 2**11), together=1)
            for name, worth in (("values", 1), ("centred", 2), ("square", 4))
        ]
    else:
        rows = 1 if contribution.kind == "rows" else 5
        squares = Fraction(high) ** 2 / steps
        wanted = [
            component("sum", -high, high, step, steps),
            component("centred", -high, high, step, rows * steps),
            component("square", -high, high, squares, rows * steps),
            component("values", -high, high, 1, rows),
            component("bins", -high, high, 1, rows, (-float(high), 0.0, float(high))),
        ]
        if contribution.kind == "groups":
            wanted.append(component("average", -high, high, step, steps))
    here, there = (totals(select(contribution.kind, contribution.most), wanted, run, "5f" * 16) for run in both)
    assert here.keys == there.keys
    assert here.numbers.tolist() == there.numbers.tolist()
    assert here.numbers.any()
