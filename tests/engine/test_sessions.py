"""A session over tables in PostgreSQL or Spark plans, costs and answers as one over a frame does."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import EngineError, FrameChanged, SQLError
from dpnotebook.testing import exact_session

_spec = importlib.util.spec_from_file_location("everywhere", Path(__file__).parent / "everywhere.py")
everywhere = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(everywhere)

ROWS = everywhere.made()
FRAME = everywhere.frame(ROWS)
WARDS = pd.DataFrame({"ward": ["north", "east", "so'uth"], "beds": [10, 20, 5]})
DOMAIN = {
    "ward": ["north", "east", "so'uth"],
    "stay": dpn.Range(0, 40),
    "fee": dpn.Bins(0, 500, width=50),
    "since": dpn.Dates("2020-01-01", "2020-12-31"),
}
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 60)"
STATEMENTS = {
    "the planner's": "SELECT ward, COUNT(*) AS n, SUM(stay) AS s FROM visits GROUP BY ward",
    "filtered": "SELECT COUNT(*) AS n FROM visits WHERE stay >= 10 AND ward <> 'north'",
    "unknown groups": f"{PRIVATE} note, COUNT(*, contribution_bounds_per_group => (0, 50)) AS n, "
    "SUM(fee, contribution_bounds_per_group => (-100, 900)) AS s FROM visits GROUP BY note",
    "joined": f"{PRIVATE} beds, AVG(price, contribution_bounds_per_group => (0, 500)) AS a, COUNT(DISTINCT who) AS u "
    "FROM visits JOIN wards ON visits.ward = wards.ward GROUP BY beds",
    "groups by expressions": "SELECT upper(left(ward, 3)) AS w, stay // 7 * 7 AS k, COUNT(*) AS n, SUM(fee) AS s "
    "FROM visits GROUP BY w, k",
    # A person is in one group: who of several groups counts where is drawn by a secret.
    "different values": "SELECT low, COUNT(DISTINCT note) AS n FROM visits JOIN (SELECT who, MIN(stay) < 0 AS low "
    "FROM visits GROUP BY who) AS people USING (who) GROUP BY low",
    "different values of all": "SELECT COUNT(DISTINCT note) AS n, COUNT(DISTINCT stay) AS s FROM visits",
    "days": "SELECT since, COUNT(DISTINCT who) AS n FROM visits WHERE since <= '2020-03-31' GROUP BY since",
    "weeks": "SELECT DATE_TRUNC('week', since) AS w, SUM(fee) AS s FROM visits WHERE urgent GROUP BY w",
    "weeks between": "SELECT DATE_DIFF('week', since, seen) AS w, COUNT(*) AS n FROM visits WHERE note <> '' "
    "GROUP BY w",
    "of any row": "SELECT COUNT(*) AS n FROM (SELECT who FROM visits GROUP BY who HAVING BOOL_OR(urgent) AND NOT "
    "BOOL_AND(stay > 3))",
    "worked out": "SELECT urgent, s / n AS mean FROM (SELECT urgent, SUM(stay) AS s, COUNT(*) AS n FROM visits "
    "WHERE price > 100 GROUP BY urgent) AS t ORDER BY urgent",
}


@pytest.fixture(scope="module")
def here():
    """Return a function that makes a session over some data, and closes them all in the end."""
    made = []

    def open_session(data):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DPNOTEBOOK_UNSAFE", "1")
            session = exact_session(dpn.Budget(900, 1e-6))
        made.append(session)
        session.protect(data, "visits", unit="who", max_rows=100, domain=DOMAIN)
        session.register(WARDS, "wards", public=True)
        return session

    yield open_session
    for session in made:
        session.close()


@pytest.fixture(scope="module", params=["postgres", "spark"])
def both(request, here):
    """Return a session over a frame, and one over the same rows in another database."""
    there = request.getfixturevalue(request.param)
    if request.param == "postgres":
        return here(FRAME), here(everywhere.put_into_postgres(there, "Visits of all", ROWS))
    return here(FRAME), here(everywhere.put_into_spark(there, ROWS))


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_have_the_same_plans_and_answers(both, name):
    queries = [session.sql(STATEMENTS[name], epsilon=8) for session in both]
    plans = [query.plan for query in queries]
    assert plans[1].cost == plans[0].cost
    np.testing.assert_equal(plans[1].std_errors, plans[0].std_errors)
    answers = [query.run().frame for query in queries]
    pd.testing.assert_frame_equal(answers[1], answers[0], rtol=1e-12)
    assert len(answers[0]) > 0


def test_the_verbs_ask_too(both):
    answers = [
        session.table("visits").groupby("ward").count(where="fee < 200", epsilon=8).run().frame for session in both
    ]
    pd.testing.assert_frame_equal(answers[1], answers[0])


def test_what_is_missing_there_is_refused_before_it_is_paid(both):
    elsewhere = both[1]
    spent = elsewhere.spent
    elsewhere.protect(FRAME, "frames", unit="who", max_rows=3, domain=DOMAIN)
    statement = "SELECT COUNT(*) AS n FROM visits JOIN frames ON visits.who = frames.who"
    with pytest.raises(SQLError, match="units of visits and frames are of different kinds"):
        elsewhere.sql(statement, epsilon=1).run()
    assert elsewhere.spent == spent


class TestLostConnections:
    """PostgreSQL goes away before a statement is charged, or after."""

    @pytest.fixture
    def session(self, here, postgres):
        return here(everywhere.put_into_postgres(postgres, "goes away", ROWS))

    def drop(self, postgres):
        import psycopg

        with psycopg.connect(postgres, autocommit=True) as admin:
            there = "FROM pg_stat_activity WHERE application_name = 'dpnotebook'"
            admin.execute(f"SELECT pg_terminate_backend(pid) {there}").fetchall()

    @pytest.mark.parametrize("name", ["the planner's", "unknown groups"])
    def test_before_a_charge_it_is_made_again(self, session, postgres, name):
        self.drop(postgres)
        first = session.sql(STATEMENTS[name], epsilon=1).run()
        assert len(first.frame) > 0
        assert len(session.history()) == 1

    @pytest.mark.parametrize("name", ["the planner's", "unknown groups"])
    def test_after_a_charge_the_answer_is_completed_for_that_charge(self, session, postgres, monkeypatch, name):
        charge = session.ledger.charge

        def charge_and_drop(*arguments, **named):
            charged = charge(*arguments, **named)
            self.drop(postgres)
            return charged

        query = session.sql(STATEMENTS[name], epsilon=1)
        with monkeypatch.context() as patch:
            patch.setattr(session.ledger, "charge", charge_and_drop)
            with pytest.raises(EngineError, match=r"was charged, .* nothing of it was shown"):
                query.run()
        spent = session.spent
        assert spent.epsilon > 0
        assert len(query.run().frame) > 0
        assert session.spent == spent
        assert session.history()["state"].tolist() == ["recorded"]

    def test_a_table_that_changed_meanwhile_is_refused_before_a_charge(self, session, postgres):
        import psycopg

        with psycopg.connect(postgres, autocommit=True) as admin:
            admin.execute('DELETE FROM "goes away" WHERE who = 3')
        self.drop(postgres)
        for name in ("the planner's", "unknown groups"):
            with pytest.raises(FrameChanged, match="nothing was spent"):
                session.sql(STATEMENTS[name], epsilon=1).run()
        assert session.spent.epsilon == 0
