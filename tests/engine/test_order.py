"""What a unit's rows add up to does not depend on the order in which a database meets them: others can change that."""

import itertools

import pandas as pd
import pytest

from dpnotebook.engine.source import source_of
from dpnotebook.engine.workspace import Workspace
from dpnotebook.sql.aggregates.catalogue import NAMES, PRIVATE
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.parse.calls import Call
from dpnotebook.sql.statement import Relation

# The same few values in every order, each order a unit of its own; sums in floating point are sensitive to it.
VALUES = [[1e18, 50.0, -1e18], [0.1, 0.2, 0.3, 1e7]]
INNER = [
    name
    for name, (function, spelling) in NAMES.items()
    if name not in PRIVATE and function.below(Call(function.kind, fractions=spelling.fractions))
]
AGGREGATES = ["SUM(x)", "AVG(x)", "VAR_POP(x)", "VAR_SAMP(x)", "STDDEV_POP(x)", "STDDEV(x)", "SUM(x * x)", "AVG(-x)"]


def _rows():
    orders = [(case, order) for case, values in enumerate(VALUES) for order in itertools.permutations(values)]
    return [(who, case, place % 2, x) for who, (case, order) in enumerate(orders) for place, x in enumerate(order)]


@pytest.fixture(params=["frame", "postgres", "spark"])
def put(request):
    """Return a function that puts rows into one of the databases, in their order."""
    there = None if request.param == "frame" else request.getfixturevalue(request.param)

    def put_rows(rows):
        if request.param == "frame":
            return pd.DataFrame(rows, columns=["who", "part", "k", "x"])
        if request.param == "spark":
            return there.createDataFrame(rows, "who bigint, part bigint, k bigint, x double").coalesce(1)
        import psycopg

        with psycopg.connect(there, autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS orders")
            connection.execute("CREATE TABLE orders (who bigint, part bigint, k bigint, x double precision)")
            with connection.cursor().copy("COPY orders FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        return there, "orders"

    return put_rows


@pytest.mark.one_in(4)
@pytest.mark.parametrize("beside", ["", ", COUNT(DISTINCT k) AS d"], ids=["alone", "distinct"])
def test_inner_aggregates_are_the_same_whatever_the_order_of_rows(put, beside):
    tables = Workspace()
    try:
        tables.add("orders", source_of(put(_rows())), "who", private=True)
        relation = Relation("orders", tables.kinds("orders"), unit="who", max_rows=10)
        columns = ", ".join(f"{aggregate} AS a{i}" for i, aggregate in enumerate(AGGREGATES))
        inner = f"SELECT who, part AS c, {columns}{beside} FROM orders GROUP BY who, part"
        names = ", ".join(f"a{i}" for i in range(len(AGGREGATES))) + (", d" if beside else "")
        statement = f"SELECT COUNT(*) FROM ({inner}) GROUP BY c, {names}"
        (select,) = analyse(statement, {"orders": relation}, {}).selects
        found = tables.run(select.rows, ["orders"])
        for case in range(len(VALUES)):
            for i, aggregate in enumerate(AGGREGATES):
                assert len(set(found[f"k{i + 1}"][found["k0"] == case].tolist())) == 1, (aggregate, case)
    finally:
        tables.close()


@pytest.mark.parametrize("name", INNER)
def test_what_an_inner_aggregate_holds_is_known(name):
    """Whoever groups by it need not CAST it, and no engine is asked what it made of it."""
    kinds = {"who": "integer", "x": "number", "n": "integer"}
    for column in ("x", "n", "x / n"):
        inner = f"SELECT who, {name}({column}) AS a FROM t GROUP BY who"
        relations = {"t": Relation("t", kinds, unit="who")}
        (select,) = analyse(f"SELECT COUNT(*) FROM ({inner}) GROUP BY a", relations, {}).selects
        expected = "integer" if name == "COUNT" or (name in ("SUM", "MIN", "MAX") and column == "n") else "number"
        assert select.keys[0].kind == expected
