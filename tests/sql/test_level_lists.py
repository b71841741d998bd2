"""Statements with lists of thousands of levels are read as if the lists stood in them."""

import itertools

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.dialect.attributes import literal
from dpnotebook.dialect.text import DIALECT
from dpnotebook.sql.reuse import level_lists, rows
from dpnotebook.sql.reuse.level_lists import MARK, Shortened, shortened

STRANGE = ["it's", "''", "a\\b", "é\n\t", "(VALUES (", "x)", "'), ('a', 0)) AS l0(v, i)", '"', "--", "/* */", "$$", ""]
KEY = 'CASE WHEN s0."code" IS NULL THEN NULL ELSE COALESCE(l0.i, NULL) END AS k0'


def of_levels(levels, *, extra=""):
    listed = ", ".join(f"({literal(level)}, {place})" for place, level in enumerate(levels))
    join = f'(VALUES {listed}) AS l0(v, i) ON s0."code" = l0.v'
    return f'SELECT s0."person" AS u, {KEY} FROM "t" AS s0 LEFT JOIN {join} WHERE NOT s0."person" IS NULL{extra}'


def long_list(rng, kind):
    if kind == "texts":
        some = [STRANGE[i] for i in rng.permutation(len(STRANGE))]
        return [*some[: int(rng.integers(len(some)))], *(f"c{i}" for i in rng.permutation(300))]
    if kind == "whole":
        return rng.permutation(np.arange(-200, 200)).tolist()
    return [*(rng.integers(0, 10**4, 150) / 8).tolist(), *range(100)]


@pytest.mark.parametrize("kind", ["texts", "whole", "with halves"])
def test_rows_are_those_of_the_whole_text(kind):
    rng = np.random.default_rng(7)
    for _ in range(8):
        text = rows.sqlglot.parse_one(of_levels(long_list(rng, kind)), read=DIALECT).sql(DIALECT)
        short = shortened(text)
        assert len(short.rows) == 1
        assert short.whole(short.text) == text
        found, whole = rows._read_short(short), rows._read_short(Shortened(text, ()))
        assert found == whole
        assert (found[0].lists["l0"] is None) == (kind == "with halves")
        assert MARK not in repr(found)


def test_a_text_that_looks_like_a_list_is_left_as_it_is():
    listed = ", ".join(f"(''c{i}'', {i})" for i in range(500))
    text = of_levels(["a", "b"], extra=f" AND s0.\"name\" <> '(VALUES {listed}) AS l0(v, i)'")
    assert shortened(text).rows == ()


def test_a_list_that_is_more_than_looked_up_in_is_read_where_it_stands():
    inside = of_levels([f"c{i}" for i in range(300)])
    text = f"SELECT s0.u AS u, s0.k0 AS k0 FROM ({inside}) AS s0 WHERE s0.u IN (SELECT u FROM ({inside}) AS s1)"
    assert len(shortened(text).rows) == 2
    found = rows.read_rows(text)
    assert found == rows._read_short(Shortened(text, ()))[0]
    assert MARK not in repr(found)


def test_plans_beside_lists_that_stand_aside_are_the_same(monkeypatch, tmp_path):
    """Statements are planned beside one history, once with lists that stand aside, and once with all that are read."""
    rng = np.random.default_rng(3)
    levels = [f"c{i}" for i in range(400)]
    frame = pd.DataFrame({"person": rng.integers(0, 500, 3_000), "code": rng.choice(levels, 3_000)})
    frame["sex"], frame["cost"] = rng.choice(["F", "M"], 3_000), rng.uniform(0, 10, 3_000)
    by = ["code", "code, sex"]
    of = ["COUNT(*)", "AVG(cost)", "COUNT(*), SUM(cost)"]
    where = ["", " WHERE sex = 'F'", " WHERE code IN ('c1', 'c2')", " WHERE code <> 'c3'"]
    inside = ["visits", "(SELECT person, code, sex, cost FROM visits WHERE cost < 9) AS v"]
    every = [
        f"SELECT {keys}, {aggregates} FROM {source}{condition} GROUP BY {keys}"
        for keys, aggregates, condition, source in itertools.product(by, of, where, inside)
    ]

    def opened():
        session = dpn.Session(budget=dpn.Budget(epsilon=1e4, delta=1e-6), ledger=tmp_path / "ledger")
        session.protect(frame, "visits", unit="person", max_rows=1, domain={"code": levels, "sex": ["F", "M"]})
        return session

    def plans():
        rows._read.cache_clear()
        with opened() as session:
            found = [session.sql(every[place], epsilon=epsilon).plan for epsilon in (0.5, 4.0) for place in asked]
        rows._read.cache_clear()
        return [(plan.free, plan.cost.epsilon, plan.steps) for plan in found]

    with opened() as session:
        for statement in every:
            if statement.startswith("SELECT code, ") and "WHERE" not in statement and "sex" not in statement:
                session.sql(statement, epsilon=2.0).run()
            if "v GROUP BY code" in statement:
                session.sql(statement, epsilon=2.0).run()
    asked = rng.permutation(len(every))[:20]
    found = plans()
    monkeypatch.setattr(rows, "shortened", lambda text: Shortened(text, ()))
    assert plans() == found
    free = sum(one[0] for one in found)
    assert 5 <= free < len(found)


def test_levels_are_held_once():
    text = of_levels([f"c{i}" for i in range(300)])
    other = of_levels([f"c{i}" for i in range(300)], extra=' AND s0."cost" > 1')
    level_lists._levels.cache_clear()
    assert rows.read_rows(text).lists["l0"] is rows.read_rows(other).lists["l0"]
