"""Rows that several queries of one statement read are kept meanwhile, and some for the next: the same answers.

What is left behind is no sample, nobody can name it, it has an end, and it goes with the session.
"""

import contextlib

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.engine.duckdb_home import KEPT, DuckDBHome
from dpnotebook.errors import EngineError
from dpnotebook.testing import exact_session

TEXT = "SELECT g, AVG(x) AS m, COUNT(*) AS n FROM visits GROUP BY g ORDER BY g"
pytestmark = pytest.mark.usefixtures("same_noise")


def rows():
    random = np.random.default_rng(3)
    return pd.DataFrame({
        "who": random.integers(0, 900, 4_000), "g": random.choice(["a", "b", None], 4_000),
        "x": np.where(random.random(4_000) < 0.1, np.nan, random.normal(50, 20, 4_000)),
        "y": random.integers(0, 300, 4_000),
    })  # fmt: skip


def asked(name="visits", text=TEXT, delta=1e-5, **options):
    """Return what a first statement answers in a new session, without noise."""
    with contextlib.closing(exact_session(dpn.Budget(9.0, delta), ":memory:", confirm="never")) as session:
        session.protect(rows(), name, unit="who", max_rows=12, **options)
        frame = session.sql(text.replace("visits", name), epsilon=5).run().frame
        select = session.ledger.get(1).plan["statement"]["selects"][0]
        here = {"kept", "grouped", "kept_rows", "coded", "sampled", "inputs_sampled", "shared", "vectors"}
        assert not here & set(select)
        left = home_of(session)
        assert not left._kept
        assert not any("md5" in query for query in left._spare)  # no sample is left
        assert tables_of(left) == {kept for kept, _ in left._spare.values()}
    return frame


def home_of(session):
    """Return the sealed connection of a session."""
    (home,) = session._statements.relations.workspace._lent.values()
    return home


def tables_of(home):
    """Return the names of all temporary tables of a connection."""
    found = home._executor.columns("SELECT table_name FROM duckdb_tables() WHERE temporary")
    return set(found["table_name"])


@pytest.fixture
def same_sample(monkeypatch):
    """Draw the same rows in every session: exact answers of two sessions can be compared then."""
    monkeypatch.setattr("dpnotebook.session.relations.Relations.sample_secret", lambda self, select: "ab" * 16)
    monkeypatch.setattr("dpnotebook.privacy.randomness.Randomness.secret", lambda self, *label: "cd" * 16)


def test_answers_are_those_of_reading_the_table_each_time(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    kept, keep = [], DuckDBHome.keep
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: kept.append(keep(self, query)) or kept[-1])
    first = asked()
    assert kept == [KEPT, f"{KEPT}_1", f"{KEPT}_2"]  # groups, what units have in them, values with their parts of one
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: None)
    pd.testing.assert_frame_equal(asked(), first)


STATEMENTS = {
    "sums": "SELECT g, SUM(x) AS a, COUNT(x) AS n, COUNT(DISTINCT who) AS p FROM visits GROUP BY g",
    "spreads": "SELECT g, STDDEV(x) AS a, AVG(y) AS b FROM visits GROUP BY g",
    "medians": "SELECT g, MEDIAN(x) AS a, QUANTILE_CONT(y, 0.9) AS b FROM visits GROUP BY g",
    "a median beside": "SELECT g, MEDIAN(x) AS a, AVG(x) AS b, COUNT(*) AS n FROM visits GROUP BY g",
    "pairs": "SELECT g, CORR(x, y) AS a FROM visits GROUP BY g",
    "none": "SELECT AVG(x) AS a, MEDIAN(x) AS b FROM visits",
    "numbers": "SELECT y % 3 AS g, SUM(x) AS a, COUNT(x) AS n FROM visits GROUP BY 1",
    "two keys": "SELECT g, y % 3 AS h, SUM(x) AS a, AVG(y) AS b, COUNT(g) AS n FROM visits GROUP BY 1, 2",
    "different values": "SELECT g, COUNT(DISTINCT y) AS a, SUM(x) AS b FROM visits GROUP BY g",
    "a join": "SELECT a.g AS g, SUM(a.x) AS s FROM visits a "
    "JOIN (SELECT who, COUNT(*) AS n FROM visits GROUP BY who) b ON a.who = b.who WHERE b.n > 2 GROUP BY a.g",
}


UNDECLARED = {"numbers", "two keys"}  # groups that only a threshold can hide


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("name", "delta"), [
    (name, delta) for name in STATEMENTS for delta in (0.0, 1e-5) if delta or name not in UNDECLARED
])  # fmt: skip
def test_no_number_depends_on_what_is_kept(name, delta, monkeypatch, same_sample):
    """Rows are drawn once, values are shared and listed once: answers and bounds are those of doing so each time."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    domain = {} if delta else {"domain": {"g": ["a", "b"]}}
    kept, keep = [], DuckDBHome.keep
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: kept.append(keep(self, query)) or kept[-1])
    first = asked(text=STATEMENTS[name], delta=delta, **domain)
    assert kept
    assert None not in kept
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: None)
    pd.testing.assert_frame_equal(asked(text=STATEMENTS[name], delta=delta, **domain), first, check_exact=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "reads", "queries"),
    [("SUM(x)", 2, 5), ("COUNT(*)", 2, 5), ("AVG(x)", 2, 9), ("STDDEV(x)", 2, 9), ("MEDIAN(x)", 2, 10)],
)
def test_a_first_statement_reads_the_table_no_more_than_it_must(name, reads, queries, monkeypatch):
    """It numbers the groups, adds up what units have in each, and reads all else, bounds with it, off that."""
    asked_for, keep, run = [], DuckDBHome.keep, DuckDBHome.run
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: asked_for.append(query) or keep(self, query))
    monkeypatch.setattr(DuckDBHome, "run", lambda self, query: asked_for.append(query) or run(self, query))
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, 1e-5), ":memory:", confirm="never")) as session:
        session.protect(rows(), "visits", unit="who")
        session.sql(f"SELECT g, {name} AS a FROM visits GROUP BY g", epsilon=5).run()
    assert sum(query.count('"visits"') for query in asked_for) <= reads
    assert len(asked_for) <= queries


def test_histograms_of_one_column_are_asked_once(monkeypatch):
    """Each aggregate finds its bounds with noise of its own; the exact counts of values are the same for all."""
    kept, asked_for, keep, run = [], [], DuckDBHome.keep, DuckDBHome.run
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: kept.append(query) or keep(self, query))
    monkeypatch.setattr(DuckDBHome, "run", lambda self, query: asked_for.append(query) or run(self, query))
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, 1e-5), ":memory:", confirm="never")) as session:
        session.protect(rows(), "visits", unit="who", max_rows=12)
        text = "SELECT g, AVG(x) AS a, STDDEV(x) AS b, MEDIAN(x) AS c FROM visits GROUP BY g"
        release = session.sql(text, epsilon=5).run()
    # Groups, rows with their numbers, what units have in them, places, the sample, values with their parts of a unit.
    assert len({*kept}) == len(kept) == 6
    assert len({*asked_for}) == len(asked_for)
    assert release.frame[["a", "b", "c"]].notna().all(axis=None)


def test_rows_of_a_join_are_found_once(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    asked_for, keep, run = [], DuckDBHome.keep, DuckDBHome.run
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: asked_for.append(query) or keep(self, query))
    monkeypatch.setattr(DuckDBHome, "run", lambda self, query: asked_for.append(query) or run(self, query))
    for text in (STATEMENTS["a join"], STATEMENTS["different values"]):
        asked(text=text)
        once = 2 if "JOIN" in text else 1
        assert sum(query.count('"visits"') for query in asked_for) == once
        asked_for.clear()


def test_rows_that_are_drawn_once_are_those_that_each_query_draws(monkeypatch, same_sample):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    drawn, keep = [], DuckDBHome.keep
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: drawn.append("md5" in query) or keep(self, query))
    text = STATEMENTS["medians"]
    first = asked(text=text)
    assert drawn.count(True) == 1
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: None if "md5" in query else keep(self, query))
    pd.testing.assert_frame_equal(asked(text=text), first, check_exact=True)


def test_a_table_that_has_the_name_is_asked_itself(monkeypatch):
    kept, keep = [], DuckDBHome.keep
    monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: kept.append(keep(self, query)) or kept[-1])
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, 1e-5), ":memory:", confirm="never")) as session:
        session.protect(rows(), KEPT, unit="who", max_rows=12)
        for _ in range(2):
            frame = session.sql(TEXT.replace("visits", KEPT), epsilon=4, fresh=True).run().frame
            assert frame["n"].between(1_000, 1_700).all()
    assert set(kept) == {None}


def test_nothing_is_kept_where_measuring_fails(monkeypatch):
    dropped, drop = [], DuckDBHome.drop
    monkeypatch.setattr(DuckDBHome, "drop", lambda self, kept: dropped.append(kept) or drop(self, kept))
    with contextlib.closing(dpn.Session(dpn.Budget(9.0, 1e-5), ":memory:", confirm="never")) as session:
        session.protect(rows(), "visits", unit="who", max_rows=12)
        with monkeypatch.context() as patch:
            patch.setattr("dpnotebook.session.statement_answers.totals", lambda *told: 1 / 0)
            with pytest.raises(EngineError, match="charged"):
                session.sql(TEXT, epsilon=5).run()
        assert dropped == [f"{KEPT}_1", KEPT]
        assert not home_of(session)._spare
        assert len(session.sql(TEXT, epsilon=5).run().frame) == 3
        assert len(session.ledger.history()) == 1


AGAIN = ["COUNT(*)", "SUM(x)", "AVG(x)", "VAR_POP(x)", "MEDIAN(x)", "MEDIAN(x) AS b, AVG(x)"]


@pytest.mark.one_in(20)
@pytest.mark.parametrize("asked_for", AGAIN)
def test_the_next_statement_reads_what_is_kept_and_finds_the_same(asked_for, monkeypatch, same_sample):
    """A second statement of the same rows names no table, and answers what one that finds all anew answers."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    text = f"SELECT g, {asked_for} AS a FROM visits GROUP BY g ORDER BY g"
    frames, queries, run = [], [], DuckDBHome.run
    monkeypatch.setattr(DuckDBHome, "run", lambda self, query: queries.append(query) or run(self, query))
    for spares in (True, False):
        if not spares:
            monkeypatch.setattr(DuckDBHome, "keep", lambda self, query: None)
            monkeypatch.setattr(DuckDBHome, "spared", lambda self, query: None)
        with contextlib.closing(exact_session(dpn.Budget(9.0, 1e-5), ":memory:", confirm="never")) as session:
            session.protect(rows(), "visits", unit="who", max_rows=12)
            session.sql(text, epsilon=2).run()
            queries.clear()
            frames.append(session.sql(text, epsilon=2, fresh=True).run().frame)
            assert spares != any('"visits"' in query for query in queries)
    pd.testing.assert_frame_equal(*frames, check_exact=True)


def test_what_is_spared_has_an_end_and_goes_where_tables_change(monkeypatch):
    text = "SELECT g, {} AS a FROM visits GROUP BY g"
    with contextlib.closing(dpn.Session(dpn.Budget(90.0, 1e-5), ":memory:", confirm="never")) as session:
        session.protect(rows(), "visits", unit="who", max_rows=12)
        session.sql(text.format("SUM(x)"), epsilon=2).run()
        home = home_of(session)
        assert home._spare
        monkeypatch.setattr("dpnotebook.engine.duckdb_home.MOST_SPARE", 5_000)
        for asked_for in ("AVG(x)", "SUM(y)", "COUNT(*)", "MEDIAN(y)"):
            session.sql(text.format(asked_for), epsilon=2).run()
            assert sum(size for _, size in home._spare.values()) <= 5_000
            assert tables_of(home) == {kept for kept, _ in home._spare.values()}
        monkeypatch.setattr("dpnotebook.engine.duckdb_home.MOST_SPARE", 0)
        session.sql(text.format("AVG(y)"), epsilon=2).run()
        assert not tables_of(home)
        monkeypatch.undo()
        session.sql(text.format("STDDEV(x)"), epsilon=2).run()
        (name, _), *_ = home._spare.values()
        with pytest.raises(dpn.DPError):
            session.sql(f"SELECT COUNT(*) AS n FROM {name}", epsilon=1)
        # Another table of that name, with other rows: it is asked, and the first is read anew.
        other = rows().head(1_000)
        session.protect(other, name, unit="who", max_rows=12)
        assert session.sql(f"SELECT COUNT(*) AS n FROM {name}", epsilon=8).run().frame["n"][0] < 2_000
        frame = session.sql(text.format("COUNT(x)"), epsilon=8).run().frame
        assert frame["a"].sum() > 3_000
