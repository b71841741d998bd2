"""Random statements over the worst values there are: what is accepted runs, whatever the rows hold."""

import importlib.util
import random
from pathlib import Path

import duckdb
import pytest

from dpnotebook.errors import DPError
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.statement import Relation

_spec = importlib.util.spec_from_file_location("totals", Path(__file__).parent / "test_total.py")
totals = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(totals)

COLUMNS = list(totals.KINDS)
PUBLIC = ["n", "x", "h", "f", "dc", "d", "ts", "bo"]
RELATIONS = {
    "h": Relation("h", {"u": "integer", **totals.KINDS}, unit="u", max_rows=3),
    "g": Relation("g", {"u": "integer", **totals.KINDS}, unit="u", max_rows=3),
    "pub": Relation("pub", {name: totals.KINDS[name] for name in PUBLIC}, private=False),
}
ONE, TWO = totals.each(totals.OF_ONE), totals.each(totals.OF_TWO)


@pytest.fixture(scope="module")
def connection():
    made = totals.database(totals.WORST)
    for name in ("h", "g"):
        made.execute(f"CREATE TABLE {name} AS SELECT row_number() OVER () % 4 AS u, * FROM t")
    made.execute(f"CREATE TABLE pub AS SELECT {', '.join(PUBLIC)} FROM t")
    return made


class Writer:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def column(self, names=COLUMNS):
        return self.rng.choice(names)

    def value(self, depth=2, table=""):
        form = self.rng.random()
        if depth == 0 or form < 0.25:
            return table + self.column()
        if form < 0.6:
            return f"({self.rng.choice(ONE).format(a=self.value(depth - 1, table))})"
        return f"({self.rng.choice(TWO).format(a=self.value(depth - 1, table), b=self.value(depth - 1, table))})"

    def statement(self):
        value, column, public = self.value, self.column, self.column(PUBLIC)
        forms = [
            lambda: f"SELECT {value()} AS k, SUM({value()}), COUNT({value(1)}) FROM h WHERE {value()} GROUP BY d, 1",
            lambda: f"SELECT k, AVG(z) FROM (SELECT u, {value()} AS k, {value()} AS z FROM h) q GROUP BY k",
            lambda: (
                f"SELECT COUNT(*), SUM(s) FROM (SELECT u, SUM({value(1)}) AS s, MAX({value(1)}) AS m, "
                f"STDDEV({value(0)}) FROM h GROUP BY u HAVING MIN({value(0)}) > 1) q WHERE s > 3 OR m IS NULL"
            ),
            lambda: f"SELECT SUM(h.f) FROM h JOIN pub ON h.{column()} = pub.{public} AND {value(1, 'h.')}",
            lambda: f"SELECT SUM(g.f) FROM h JOIN g ON h.u = g.u AND h.{column()} < g.{column()}",
            lambda: f"SELECT SUM(z) FROM (SELECT u, {value(1)} AS z FROM h UNION ALL SELECT u, {value(1)} FROM g) q",
            lambda: f"SELECT COUNT(k) FROM (SELECT u, {value(1)} k FROM h EXCEPT SELECT u, {value(0)} FROM g) q",
            lambda: f"SELECT COUNT(*) FROM h WHERE {value(1)} IN (SELECT {public} FROM pub)",
            lambda: f"SELECT COUNT(*) FROM h WHERE EXISTS (SELECT 1 FROM pub WHERE pub.{public} = h.{column()})",
            lambda: f"SELECT COUNT(*) FROM h WHERE x > (SELECT MAX(x) FROM pub WHERE pub.{public} = h.{column()})",
            lambda: f"SELECT tag, COUNT(*) FROM h, UNNEST(h.l) AS v(tag) WHERE {value(1, 'h.')} GROUP BY tag",
            lambda: f"SELECT h.n, SUM(h.f) FROM h LEFT JOIN pub USING ({public}) GROUP BY 1",
        ]
        return self.rng.choice(forms)()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_accepted_runs_whatever_the_rows_hold(connection, seed):
    writer, ran = Writer(seed), 0
    for _ in range(300):
        written = writer.statement()
        try:
            statement = analyse(written, RELATIONS)
        except DPError:
            continue
        for select in statement.selects:
            try:
                connection.execute(select.rows).fetchnumpy()
            except duckdb.Error as failure:
                pytest.fail(f"{written}\n{select.rows}\n{failure}")
            ran += 1
    assert ran > 40
