"""What a column holds is public: it follows from dtypes, types and declarations, and one row changes nothing of it."""

import dataclasses
import os
import stat
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.engine import sealed
from dpnotebook.errors import DPError
from dpnotebook.testing import exact_session

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "smokes": bool, "income": dpn.Bins(0, 100, count=10)}


@pytest.fixture(autouse=True)
def _unsafe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def rows(n=40):
    return {
        "id": list(range(n)),
        "age": [30 + i % 5 for i in range(n)],
        "sex": ["F" if i % 3 else "M" for i in range(n)],
        "smokes": [i % 2 == 0 for i in range(n)],
        "income": [float(i) for i in range(n)],
        "ward": ["a", "b"] * (n // 2),
        "score": [i % 7 for i in range(n)],
        "mixed": [1, "x"] * (n // 2),
    }


TYPES = {"sex": "str", "ward": "str", "mixed": object, "smokes": object}
STATEMENTS = [
    "SELECT COUNT(*) AS n FROM t",
    "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward",
    "SELECT score, COUNT(*) AS n FROM t GROUP BY score",
    "SELECT mixed, COUNT(*) AS n FROM t GROUP BY mixed",
    "SELECT smokes, COUNT(*) AS n FROM t WHERE score > 2 GROUP BY smokes",
    "SELECT SUM(score) AS s, AVG(age) AS a, MEDIAN(income) AS m FROM t",
    "SELECT SUM(mixed) AS s FROM t",
    "SELECT SUM(ward) AS s FROM t",
    "SELECT score % 3 AS k, COUNT(*) AS n FROM t WHERE age = 30 OR score IN (1, 2) GROUP BY 1",
    "SELECT COUNT(*) AS n FROM t WHERE mixed = 1",
    "SELECT COUNT(*) AS n FROM t WHERE mixed = '1' AND smokes",
    "SELECT ward, SUM(age) AS s FROM t WHERE score IS NULL GROUP BY ward HAVING COUNT(*) > 3",
    "SELECT COUNT(*) AS n FROM t, UNNEST(mixed) AS q(x)",
]


def seen(frame, **how):
    """Return all that planning shows of a table: kinds, plans, cards, and what is refused."""
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0, delta=1e-6), confirm="never")
    session.protect(frame, "t", domain=DOMAIN, **how)
    told = [dataclasses.asdict(session.relations["t"]) | {"domain": None}]
    asked = [lambda s=statement: session.sql(s, epsilon=0.1) for statement in STATEMENTS]
    table = session.table("t")
    asked += [
        lambda: table.histogram("age", epsilon=0.1),
        lambda: table.groupby(["sex", "smokes"]).count(error=10),
        lambda: table.mean("income", epsilon=0.1),
        lambda: table.sum("score", epsilon=0.1),
    ]
    for ask in asked:
        try:
            query = ask()
            told.append((repr(query), query._repr_mimebundle_()["text/html"], query.plan.cost))
        except DPError as error:
            told.append((type(error).__name__, str(error)))
    assert session.spent.epsilon == 0
    session.close()
    return told


def frame_of(columns, types=TYPES):
    return pd.DataFrame({name: pd.Series(values, dtype=types.get(name)) for name, values in columns.items()})


ONE_PERSON = {
    "nothing at all": [None] * 8,
    "no numbers": [1, None, "F", True, None, "a", None, 1],
    "another truth": [1, 3, "F", None, 1.0, "a", 1, "x"],
    "fractions": [1, 3.5, "F", True, 1.0, "a", 0.5, "x"],
    "large": [2**62, 2**62, "F", True, 1e300, "a", 2**62, 2**62],
    "other things": [1, 3, "x", "maybe", 1.0, "a", 1, [1, {"a": 2}, b"\xff", object()]],
    "decimals": [1, 3, "x", Decimal("0.1"), 1.0, "a", 1, Decimal("NaN")],
}


@pytest.mark.one_in(30)
@pytest.mark.parametrize("how", ONE_PERSON)
def test_nobody_changes_what_planning_shows_of_a_frame(how):
    columns = rows()
    more = {name: [*values, value] for (name, values), value in zip(columns.items(), ONE_PERSON[how], strict=True)}
    for unit in ({}, {"unit": "id", "max_rows": 2}):
        assert seen(frame_of(more), **unit) == seen(frame_of(columns), **unit)


def test_a_frame_without_rows_or_values_is_planned_alike():
    usual = frame_of(rows())
    nothing = usual.copy()
    for name in nothing:
        nothing[name] = pd.Series([None] * len(nothing), dtype=nothing[name].dtype if name in TYPES else "float64")
    assert seen(usual) == seen(usual.iloc[:0]) == seen(nothing)


def test_nobody_changes_what_planning_shows_of_a_parquet_file(tmp_path):
    usual = frame_of(rows()).drop(columns=["mixed", "smokes"]).assign(mixed="x", smokes=True)
    usual.to_parquet(tmp_path / "usual.parquet")
    gone = usual.astype({"age": "Int64", "score": "float64"})
    gone.loc[0, ["age", "score"]] = None
    gone.to_parquet(tmp_path / "gone.parquet")
    assert seen(tmp_path / "usual.parquet") == seen(tmp_path / "gone.parquet")


def test_numbers_of_objects_can_be_added_up():
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0), confirm="never")
    numbers = pd.Series([1.0, 2.0, None], dtype=object)
    session.protect(
        pd.DataFrame({"x": numbers, "y": numbers, "z": numbers.astype(float)}), "t", domain={"y": dpn.Range(0, 9)}
    )
    for column in ("x", "y", "z", "CAST(x AS DOUBLE)"):
        assert session.sql(f"SELECT SUM({column}) AS s FROM t", epsilon=0.1).plan.cost.units > 0
    session.close()


OBJECTS = pd.Series(
    [True, False, None, "True", 1, 0, 2, "yes", 30.9, "31", Decimal(31), [1], "F", b"F", "f"], dtype=object
)
READ = {
    "truth": (bool, {True: 3, False: 2}),
    "maybe": (dpn.Boolean(nullable=True), {True: 3, False: 2, None: 10}),
    "whole": (dpn.Range(0, 99), {0: 2, 1: 3, 2: 1, 30: 1, 31: 2}),
    "other": (dpn.Categories([31, 2], other="other", nullable=True), {31: 2, 2: 1, "other": 6, None: 6}),
    "text": (["F", "True"], {"F": 1, "True": 2}),
    "rest": (dpn.Categories(["F"], other="other", nullable=True), {"F": 1, "other": 13, None: 1}),
}


@pytest.mark.parametrize("name", READ)
def test_a_declaration_says_how_objects_are_read(name):
    declared, expected = READ[name]
    session = exact_session(budget=dpn.Budget(epsilon=100.0, delta=1e-3), confirm="never")
    session.protect(pd.DataFrame({"v": OBJECTS, "w": range(len(OBJECTS))}), "t", domain={"v": declared})
    for frame in (
        session.table("t").groupby("v").count(epsilon=1.0).run().frame,
        session.sql("SELECT v, COUNT(*) AS value FROM t WHERE w >= 0 GROUP BY v", epsilon=1.0).run().frame,
    ):
        found = {k if k == k else None: round(n) for k, n in zip(frame["v"], frame["value"], strict=True) if round(n)}
        assert found == expected


def test_whole_numbers_are_shown_as_whole_numbers():
    session = exact_session(budget=dpn.Budget(epsilon=100.0, delta=1e-3), confirm="never")
    session.protect(pd.DataFrame({"v": [30.0, 31.0, 30.0], "w": [30.0, 0.5, None]}), "t")
    frame = session.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY v", epsilon=1.0).run().frame
    assert frame["v"].dtype == np.int64
    assert frame["v"].tolist() == [30, 31]
    frame = session.sql("SELECT w, COUNT(*) AS n FROM t GROUP BY w", epsilon=1.0).run().frame
    assert [value for value in frame["w"] if value is not None] == [0.5, 30]


# Rows that do not fit into memory.


def spilling():
    """Return a sealed connection with little memory."""
    connection = duckdb.connect()
    connection.execute("SET memory_limit = '60MB'")
    sealed.seal(connection)
    return connection


def test_rows_that_do_not_fit_go_where_nobody_else_looks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connection = spilling()
    (place,) = connection.execute("SELECT current_setting('temp_directory')").fetchone()
    parent = Path(place).parent
    assert stat.S_IMODE(parent.stat().st_mode) == 0o700
    assert parent.stat().st_uid == os.getuid()
    connection.execute("CREATE TEMP TABLE z AS SELECT range AS i, md5(range::VARCHAR) AS s FROM range(3000000)")
    assert [path for path in Path(place).iterdir() if path.stat().st_size > 0]
    assert list(tmp_path.iterdir()) == []
    connection.close()
    assert not Path(place).exists()


def test_every_connection_is_sealed(tmp_path):
    """Those of the planner, of statements, of what is worked out, and of what is tried on empty tables."""
    frame = pd.DataFrame({"v": [1, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS v")
    before = sealed_connections()
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0), confirm="never")
    for i, data in enumerate((frame, tmp_path / "t.parquet", (tmp_path / "t.duckdb", "t"))):
        session.protect(data, f"t{i}", domain={"v": [1, 2]})
        session.sql(f"SELECT COUNT(*) AS n FROM t{i} WHERE v + 0 > 1", epsilon=0.01).run()
    found = [connection for connection in sealed_connections() if not any(connection is one for one in before)]
    assert len(found) >= 4
    for connection in found:
        settings = "current_setting('enable_external_access'), current_setting('lock_configuration')"
        place, access, locked = connection.execute(f"SELECT current_setting('temp_directory'), {settings}").fetchone()
        assert (access, locked) == (False, True)
        assert "dpnotebook-" in place
    session.close()


def sealed_connections():
    from dpnotebook.engine.executor import _open

    return [executor.connection for executor in list(_open) if executor.connection is not None]
