"""The same question in other words costs nothing, and one that only looks alike is paid for."""

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot
from reused_visits import MUCH, assert_same, protected

import dpnotebook as dpn
from dpnotebook.dialect.text import DIALECT
from dpnotebook.sql import profile_keys
from dpnotebook.sql.reuse import rows
from dpnotebook.sql.reuse.rows import read_rows, relation_key
from dpnotebook.sql.reuse.spelling import all_of
from dpnotebook.testing import exact_session

HALLS = pd.DataFrame({"room": [f"r{i}" for i in range(30)], "wing": list("abc") * 10})
COUNT = "SELECT room, COUNT(*) AS n FROM visits WHERE {} GROUP BY room"
WINGS = "SELECT wing, COUNT(*) AS n FROM visits {} GROUP BY wing"
USING = WINGS.format("JOIN halls USING (room)")
OLDER = COUNT.format("age > 1 AND floor > 0")

# What was asked first, and the same in other words.
THE_SAME = [
    (OLDER, COUNT.format("floor > 0 AND age > 1")),
    (OLDER, COUNT.format("((age > 1) AND (floor > 0))")),
    (OLDER, COUNT.format("1 < age AND 0 < floor")),
    (OLDER, COUNT.format("NOT age <= 1 AND NOT NOT floor > 0")),
    (OLDER, OLDER.lower().replace(" as n", " as many")),
    (OLDER, 'SELECT "room", COUNT(*) AS "n" FROM "visits" WHERE "age" > 1 AND "floor" > 0 GROUP BY "room"'),
    (OLDER, "SELECT v.room AS place, COUNT(*) FROM visits AS v WHERE v.age > 1 AND v.floor > 0 GROUP BY v.room"),
    (OLDER, "SELECT room, COUNT(*) AS n FROM visits WHERE age > 1 AND floor > 0 GROUP BY 1 ORDER BY 2 DESC"),
    (OLDER, "SELECT room, COUNT(1) AS n FROM visits WHERE age > 1 AND floor > 0 GROUP BY ALL"),
    (OLDER, "WITH a AS (SELECT * FROM visits WHERE age > 1) SELECT room, COUNT(*) FROM a WHERE floor > 0 GROUP BY 1"),
    (OLDER, "SELECT room, COUNT(*) FROM (SELECT floor, room FROM visits WHERE age > 1) WHERE floor > 0 GROUP BY room"),
    (OLDER, "WITH a AS (SELECT * FROM visits WHERE age > 1), b AS (SELECT room AS r FROM a WHERE floor > 0) "
            "SELECT r, COUNT(*) FROM b GROUP BY r"),
    (OLDER, f"SELECT * FROM ({OLDER}) WHERE n > 3"),
    (OLDER, f"WITH counted AS ({OLDER}) SELECT MAX(n) AS most FROM counted"),
    (COUNT.format("floor BETWEEN 0 AND 1"), COUNT.format("floor >= 0 AND floor <= 1")),
    (COUNT.format("floor BETWEEN 0 AND 1"), COUNT.format("1 >= floor AND floor >= 0")),
    (COUNT.format("floor IN (1, 2)"), COUNT.format("floor = 1 OR floor = 2")),
    (COUNT.format("floor IN (1, 2)"), COUNT.format("floor IN (2, 1, 2)")),
    (COUNT.format("floor IN (1, 2)"), COUNT.format("(2 = floor OR floor IN (1))")),
    (COUNT.format("town IN ('B')"), COUNT.format("'B' = town")),
    (COUNT.format("town <> 'B' AND floor = 1"), COUNT.format("NOT town = 'B' AND floor = 1")),
    (COUNT.format("town != 'B'"), COUNT.format("NOT (town = 'B')")),
    (COUNT.format("town NOT IN ('B', 'a')"), COUNT.format("NOT town IN ('B', 'a')")),
    (COUNT.format("cost IS NOT NULL"), COUNT.format("NOT cost IS NULL")),
    (USING, WINGS.format("JOIN halls ON visits.room = halls.room")),
    (USING, WINGS.format("INNER JOIN halls ON halls.room = visits.room")),
    (USING, "SELECT h.wing, COUNT(*) AS n FROM visits AS v JOIN halls AS h ON v.room = h.room GROUP BY h.wing"),
    (USING, WINGS.format(", halls WHERE visits.room = halls.room")),
    (USING, WINGS.format("CROSS JOIN halls WHERE halls.room = visits.room")),
    (USING, "WITH v AS (SELECT room FROM visits) SELECT wing, COUNT(*) AS n FROM v JOIN halls USING (room) GROUP BY 1"),
    (WINGS.format("JOIN halls USING (room) WHERE age > 1"),
     "SELECT wing, COUNT(*) AS n FROM (SELECT * FROM visits WHERE 1 < age) JOIN halls USING (room) GROUP BY wing"),
    ("SELECT room, AVG(cost) AS m FROM visits WHERE floor > 0 GROUP BY room",
     "SELECT room, MEAN(cost) AS m FROM (SELECT * FROM visits WHERE 0 < floor) GROUP BY room"),
    ("SELECT room, SUM(cost) AS s FROM visits WHERE floor IN (1, 2) GROUP BY room",
     "WITH paid AS (SELECT cost AS c, room FROM visits WHERE floor = 2 OR floor = 1) "
     "SELECT room, SUM(c) AS s FROM paid GROUP BY room"),
]  # fmt: skip
# What was asked first, and what is something else.
ANOTHER = [
    (COUNT.format("floor BETWEEN 0 AND 1"), COUNT.format("floor > 0 AND floor <= 1")),
    (COUNT.format("floor BETWEEN 0 AND 1"), COUNT.format("NOT floor BETWEEN 0 AND 1")),
    (COUNT.format("floor BETWEEN 0 AND 1"), COUNT.format("floor >= 0 OR floor <= 1")),
    (COUNT.format("floor IN (1, 2)"), COUNT.format("floor = 1 OR age = 2")),
    (COUNT.format("floor IN (1, 2)"), COUNT.format("floor = 1 OR floor > 2")),
    (COUNT.format("floor IN (1, 2)"), COUNT.format("floor NOT IN (1, 2)")),
    (OLDER, COUNT.format("NOT (age > 1 AND floor > 0)")),
    (OLDER, COUNT.format("age < 1 AND floor > 0")),
    (OLDER, COUNT.format("1 > age AND floor > 0")),
    (OLDER, COUNT.format("NOT age > 1 AND floor > 0")),
    (COUNT.format("town <> 'B'"), COUNT.format("town <> 'B' OR town IS NULL")),
    (COUNT.format("NOT urgent AND floor > 0"), COUNT.format("urgent IS NOT TRUE AND floor > 0")),
    (WINGS.format("JOIN halls USING (room) WHERE wing = 'a'"),
     "SELECT wing, COUNT(*) AS n FROM visits LEFT JOIN (SELECT * FROM halls WHERE wing = 'a') USING (room) GROUP BY 1"),
    ("SELECT wing, COUNT(*) AS n FROM visits LEFT JOIN halls USING (room) WHERE age > 1 GROUP BY wing",
     "SELECT wing, COUNT(*) AS n FROM visits LEFT JOIN halls ON visits.room = halls.room AND age > 1 GROUP BY wing"),
    ("SELECT room, SUM(cost) AS s FROM visits WHERE floor > 0 GROUP BY room",
     "SELECT room, SUM(c) AS s FROM (SELECT room, cost * 2 AS c FROM visits WHERE floor > 0) GROUP BY room"),
]  # fmt: skip


@pytest.fixture
def exact(monkeypatch):
    """Return a session whose answers have no noise."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(dpn.Budget(1e6, 1e-6), confirm="never") as session:
        session.register(HALLS, "halls", public=True)
        yield protected(session)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("before", "then"), THE_SAME)
def test_the_same_in_other_words_is_free_and_right(exact, before, then):
    exact.sql(before, epsilon=MUCH).run()
    spent, asked = exact.ledger.spent, exact.sql(then, epsilon=MUCH)
    assert asked.plan.free
    answer = asked.run()
    assert (exact.ledger.spent, answer.sources) == (spent, (1,))
    assert_same(answer, exact.sql(then, epsilon=MUCH, fresh=True).run())


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("before", "then"), THE_SAME)
def test_the_same_in_other_words_becomes_sharper(before, then, same_noise):
    with dpn.Session(dpn.Budget(40.0, 1e-6), confirm="never") as session:
        session.register(HALLS, "halls", public=True)
        protected(session, max_rows=8)
        session.sql(before, epsilon=3.0, contribution="rows").run()
        spent, query = session.ledger.spent, session.sql(then, epsilon=6.0, contribution="rows")
        asked, whole = query.plan, session.sql(then, epsilon=6.0, contribution="rows", fresh=True).plan.cost.units
        query.run()
        assert session.ledger.spent - spent == asked.cost.units
        assert asked.sharper is not None
        assert asked.cost.units <= (whole - spent) * 1.01


@pytest.mark.one_in(11)
@pytest.mark.parametrize(("before", "then"), ANOTHER)
def test_what_only_looks_alike_is_paid_for(exact, before, then):
    exact.sql(before, epsilon=MUCH).run()
    asked, alone = exact.sql(then, epsilon=MUCH), exact.sql(then, epsilon=MUCH, fresh=True)
    assert not asked.plan.free
    assert asked.plan.sharper is None
    assert asked.plan.cost.units == alone.plan.cost.units


def conditions(random, count):
    """Return conditions made by chance, as people write them and as nobody does."""

    def value():
        return random.choice(["1", "2", "-1", "0.5", "'1'", "3000000000"], p=[0.3, 0.2, 0.15, 0.15, 0.05, 0.15])

    def made(depth):
        column = random.choice(["a", "b", "f"])
        kind = random.integers(0, 9 if depth else 5)
        compare = random.choice(["=", "<>", "<", "<=", ">", ">="])
        match int(kind):
            case 0:
                return f"{column} {compare} {value()}"
            case 1:
                return f"{value()} {compare} {column}"
            case 2:
                return f"{column} BETWEEN {value()} AND {value()}"
            case 3:
                return f"{column} IN ({', '.join(value() for _ in range(random.integers(1, 4)))})"
            case 4:
                return random.choice([f"{column} IS NULL", f"a {compare} b", f"f {compare} a"])
            case 5 | 6:
                return f"NOT ({made(depth - 1)})"
            case 7:
                return f"(({made(depth - 1)}) AND {made(depth - 1)})"
            case _:
                return f"({made(depth - 1)} OR {made(depth - 1)})"

    return [made(3) for _ in range(count)]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(4))
def test_one_spelling_selects_the_same_rows(seed):
    """Of conditions made by chance, on rows with missing values, NaN and infinities, as DuckDB understands them."""
    random = np.random.default_rng(seed)
    ends = [None, -3, -1, 0, 1, 2, 3, 2_147_483_647]
    floats = [None, float("nan"), float("inf"), -float("inf"), 0.5, 1.0, -0.0, 3e9]
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE t (a INTEGER, b BIGINT, f DOUBLE)")
        rows_ = [(a, b, f) for a in ends for b in (*ends, 3_000_000_000) for f in floats]
        engine.executemany("INSERT INTO t VALUES (?, ?, ?)", rows_)
        changed = 0
        for written in conditions(random, 60):
            node = sqlglot.parse_one(f"SELECT 1 FROM t WHERE {written}", read=DIALECT).args["where"].this
            spelled = " AND ".join(f"({one.sql(DIALECT)})" for one in all_of(node))
            changed += spelled != f"({written})"
            differing = f"SELECT COUNT(*) FROM t WHERE (({written}) IS TRUE) <> (({spelled}) IS TRUE)"
            assert engine.execute(differing).fetchone() == (0,), (written, spelled)
        assert changed > 20


def test_a_query_put_into_another_has_the_same_rows():
    """What it is compared by is never run; if it were, it would give the same rows."""
    text = (
        "SELECT s2.u AS u, s2.c1 AS k0, s3.c AS k1, s2.c2 + 1 AS x0 "
        "FROM (SELECT s1.u AS u, s1.c1 AS c1, s1.c2 * 2 AS c2 "
        "FROM (SELECT s0.who AS u, s0.a AS c1, s0.b - 1 AS c2 FROM t AS s0 WHERE s0.b < 3 OR s0.a = 1) AS s1 "
        "WHERE s1.c2 > 0) AS s2 LEFT JOIN p AS s3 ON s2.c1 = s3.a WHERE NOT s2.u IS NULL AND (s3.c IS NULL OR s3.c > 0)"
    )
    found = read_rows(text)
    assert "(SELECT" not in found.source
    inputs = [f"{key.sql(DIALECT)} AS k{i}" for i, key in enumerate(found.keys)]
    again = f"SELECT s0.who AS u, {', '.join(inputs)}, {found.inputs[0]} AS x0{found.source.partition(' AS u')[2]}"
    again += f" WHERE {' AND '.join(f'({one})' for one in found.conditions)}"
    random = np.random.default_rng(2)
    with duckdb.connect() as engine:
        drawn = random.integers(0, 6, (3, 300)).astype(float)
        drawn[random.random(drawn.shape) < 0.1] = np.nan
        frames = {"t": pd.DataFrame(dict(zip(("who", "a", "b"), drawn, strict=True))).astype("Int64")}
        frames["p"] = pd.DataFrame({"a": pd.array([1, 2, 2, None], dtype="Int64"), "c": [1, 0, 5, 3]})
        for name, frame in frames.items():
            engine.register(name, frame)
        one, other = (engine.execute(f"{query} ORDER BY ALL").fetchall() for query in (text, again))
    assert len(one) > 50
    assert one == other


def test_releases_that_earlier_versions_recorded_are_found(monkeypatch):
    """They were recorded by their very spelling."""
    written = "WITH v AS (SELECT * FROM visits WHERE 0 < floor) SELECT room, AVG(cost) AS m FROM v GROUP BY room"
    with dpn.Session(dpn.Budget(400.0, 1e-6), confirm="never") as session:
        protected(session)

        def as_written(text, **_):
            return read_rows(text, as_written=True)

        with monkeypatch.context() as patch:
            for module in (rows, profile_keys):
                patch.setattr(module, "read_rows", as_written)
            session.sql(written, epsilon=20.0).run()
            recorded = session.ledger.get(1).plan["relations"]
        assert recorded != [relation_key(session.sql(written, epsilon=20.0).question.selects[0])]
        assert session.sql(
            f"{written} HAVING COUNT(*) > 0".replace(" HAVING COUNT(*) > 0", " ORDER BY m"), epsilon=20.0
        ).plan.free
