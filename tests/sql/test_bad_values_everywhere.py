"""Values as messy databases have them, in PostgreSQL and Spark: finite answers, NULL with a reason, or no charge."""

from typing import ClassVar

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DPError, EngineError, FrameChanged, SQLError

ROWS = 240
LEAST, MOST = -(2**63), 2**63 - 1
NUMBERS = ["COUNT(x)", "SUM(x)", "AVG(x)", "STDDEV(x)", "MEDIAN(x)", "MAX(x)"]
BOUNDED = ["ANON_SUM(x CLAMPED BETWEEN 0 AND 100)", "ANON_AVG(x CLAMPED BETWEEN 0 AND 100)"]
# Kind and values of a column; those of 64 bits, of any size, and such as are no numbers.
COLUMNS = {
    "equal": ("double", [7.0]),
    "nothing": ("double", [None]),
    "mixed": ("double", [float("nan"), float("inf"), -float("inf"), None, 5.0]),
    "huge": ("double", [float(np.finfo(float).max), -float(np.finfo(float).max)]),
    "ends": ("bigint", [LEAST, MOST]),
    "wide": ("numeric", [10**30, -(10**30)]),
}
ENGINES = [pytest.param("postgres"), pytest.param("spark", marks=pytest.mark.slow)]


def made(values, people=2):
    """Return rows of people, so many of each."""
    return [(i // people, values[i % len(values)]) for i in range(ROWS)]


class Postgres:
    """A table in PostgreSQL."""

    KINDS: ClassVar = {"double": "double precision", "bigint": "bigint", "numeric": "numeric", "text": "text"}

    def __init__(self, address):
        import psycopg

        self.address = address
        self.connection = psycopg.connect(address, autocommit=True)

    def table(self, kind, rows):
        """Put rows into the table, and return what `protect` takes."""
        self.connection.execute("DROP TABLE IF EXISTS bad")
        self.connection.execute(f"CREATE TABLE bad (pid int, x {self.KINDS[kind]})")
        with self.connection.cursor().copy("COPY bad FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return self.address, "bad"


class Spark:
    """A table in Spark."""

    KINDS: ClassVar = {"double": "double", "bigint": "bigint", "numeric": "decimal(38, 0)", "text": "string"}

    def __init__(self, session):
        self.session = session

    def table(self, kind, rows):
        """Return what `protect` takes."""
        import decimal

        rows = [(i, None if x is None else decimal.Decimal(x) if kind == "numeric" else x) for i, x in rows]
        return self.session.createDataFrame(rows, f"pid int, x {self.KINDS[kind]}")


@pytest.fixture
def engine(request):
    name = request.param
    found = {"postgres": Postgres, "spark": Spark}[name](request.getfixturevalue(name))
    yield found
    if name == "postgres":
        found.connection.close()


def opened(delta=1e-6):
    return dpn.Session(dpn.Budget(1_000.0, delta), confirm="never")


def check(session, asked):
    """Ask for several aggregates, and hold what comes back to what a user may expect."""
    spent = session.spent.epsilon
    listed = ", ".join(f"{one} AS a{i}" for i, one in enumerate(asked))
    try:
        release = session.sql(f"SELECT {listed} FROM t", epsilon=20.0).run()
    except SQLError:
        assert session.spent.epsilon == spent
        return None
    for i, one in enumerate(asked):
        columns = [f"a{i}{end}" for end in ("", "_std_error", "_lower", "_upper")]
        value, error, lower, upper = release.frame[columns].to_numpy(dtype=float)[0]
        if np.isnan(value):
            assert np.isnan(error)
            assert any(one.split("(")[0] in note for note in release.notes), one
        else:
            ends = {"MIN": [upper], "MAX": [lower]}.get(
                one[:3], [lower, upper]
            )  # the other one may lie anywhere beyond
            assert np.isfinite([value, error, *ends]).all(), one
            assert error > 0
            assert lower <= value <= upper
    return release


@pytest.mark.one_in(2)
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("name", COLUMNS)
def test_an_answer_is_finite_or_null_with_a_reason(engine, name):
    kind, values = COLUMNS[name]
    with opened() as session:
        session.protect(engine.table(kind, made(values)), "t", unit="pid", max_rows=2)
        found = check(session, NUMBERS)
        check(session, BOUNDED)
        if name == "equal":
            assert found.frame["a2"][0] == pytest.approx(7, abs=0.5)
        if name == "nothing":
            assert found.frame[["a1", "a2"]].isna().all(axis=None)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("delta", [1e-6, 0.0], ids=["gaussian", "laplace"])
def test_one_unit_has_no_more_than_noise(engine, delta):
    with opened(delta) as session:
        session.protect(engine.table("double", made([3.0, 900.0], people=ROWS)), "t", unit="pid", max_rows=5)
        release = session.sql("SELECT SUM(x) AS s, AVG(x) AS m FROM t", epsilon=0.5).run()
        assert release.frame[["s", "m"]].isna().all(axis=None)
        assert "not found" in " ".join(release.notes)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_text_is_refused_before_a_charge_and_cast_it_is_numbers(engine):
    """Also where some of it is no number: that is no value then."""
    with opened() as session:
        session.protect(engine.table("text", made(["12", "oops", None, "nan"])), "t", unit="pid", max_rows=2)
        for asked in (*NUMBERS[1:], *BOUNDED):
            with pytest.raises(DPError, match="text"):
                session.sql(f"SELECT {asked} FROM t", epsilon=1.0).run()
        assert session.spent.epsilon == 0
        found = session.sql("SELECT AVG(TRY_CAST(x AS DOUBLE)) AS m FROM t", epsilon=20.0).run()
        assert found.value == pytest.approx(12, abs=1)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_a_profile_is_not_used_for_rows_that_changed(engine):
    with opened() as session:
        session.protect(engine.table("double", made([3.0, 9.0, 4.0])), "t", unit="pid")
        session.sql("SELECT SUM(x) AS s FROM t", epsilon=5.0).run()
        again = engine.table("double", made([3_000.0, 9_000.0, 4_000.0]))
        spent = session.spent.epsilon
        session.protect(again, "t", unit="pid")
        for more in ({}, {"fresh": True}):
            with pytest.raises(FrameChanged, match="nothing was spent"):
                session.sql("SELECT SUM(x) AS s FROM t", epsilon=9.0, **more).run()
        assert session.spent.epsilon == spent


@pytest.mark.one_in(3)
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_profile_that_is_interrupted_is_paid_for_once(engine, failing, monkeypatch):
    """Wherever it is: at its first query, or at a later one."""
    with opened() as session:
        session.protect(engine.table("double", made([3.0, 9.0, 4.0])), "t", unit="pid")
        query = session.sql("SELECT AVG(x) AS m FROM t", epsilon=20.0)
        workspace = session._statements.relations.workspace
        run, calls = workspace.run, []

        def interrupted(text, tables):
            calls.append(text)
            if len(calls) == failing:
                raise RuntimeError("Ms Doe, 84")
            return run(text, tables)

        with monkeypatch.context() as patched:
            patched.setattr(workspace, "run", interrupted)
            with pytest.raises(EngineError) as told:
                query.run()
        assert "Doe" not in str(told.value)
        assert len(calls) == failing
        spent = session.spent.epsilon
        assert spent > 0
        release = query.run()
        assert (release.number, session.spent.epsilon) == (1, spent)
        assert release.value == pytest.approx(16 / 3, abs=1)
