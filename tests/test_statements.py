"""Statements through a session: plan, charge, measure, record, reveal; and what happens when that is interrupted."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import dpnotebook as dpn
from dpnotebook.errors import (
    AccuracyError,
    BudgetExceeded,
    DomainError,
    EngineError,
    FrameChanged,
    NotProtected,
    SQLError,
)
from dpnotebook.testing import exact_session

DOMAIN = {"ward": ["A", "B", "C"], "age": dpn.Range(0, 99)}
BY_DRUG = "SELECT drug, COUNT(*) AS n FROM visits GROUP BY drug"
BIGQUERY = """
SELECT WITH DIFFERENTIAL_PRIVACY
  OPTIONS(epsilon = 0.5, delta = 1e-7, max_groups_contributed = 2, privacy_unit_column = patient)
  drug, SUM(cost, contribution_bounds_per_group => (0, 100)) AS total
FROM visits GROUP BY drug
"""


def visits(people=400):
    rng = np.random.default_rng(7)
    patient = np.repeat(np.arange(people), rng.integers(1, 9, people))
    size = patient.size
    return pd.DataFrame(
        {
            "patient": patient,
            "ward": rng.choice(["A", "B", "C"], size),
            "drug": rng.choice(["aspirin", "statin", "insulin"], size, p=[0.6, 0.3, 0.1]),
            "age": rng.integers(20, 90, size),
            "cost": np.round(rng.gamma(2, 20, size), 2),
        }
    )


def protected(make, data=None, budget=None, **options):
    session = make(budget or dpn.Budget(epsilon=4.0, delta=1e-5), **options)
    session.protect(visits() if data is None else data, "visits", unit="patient", max_rows=8, domain=DOMAIN, rows=1800)
    return session


@pytest.fixture
def exact(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session = protected(exact_session)
    yield session
    session.close()


@pytest.fixture
def session():
    session = protected(dpn.Session)
    yield session
    session.close()


def broken(*arguments):
    raise RuntimeError("the value 17 cannot be read")


class TestOrder:
    def test_a_plan_reads_nothing_and_spends_nothing(self, session, monkeypatch):
        monkeypatch.setattr(session._statements.relations.workspace, "run", broken)
        plan = session.sql(BY_DRUG, epsilon=0.5).plan
        assert plan.cost.epsilon == pytest.approx(0.5, rel=1e-6)
        assert plan.std_error > 0
        assert session.spent.epsilon == 0

    def test_an_engine_that_dies_has_charged_once_and_shown_nothing(self, session, monkeypatch):
        query = session.sql(BY_DRUG, epsilon=0.5)
        with monkeypatch.context() as patched:
            patched.setattr(session._statements.relations.workspace, "run", broken)
            with pytest.raises(EngineError) as caught:
                query.run()
        assert "17" not in str(caught.value)
        assert list(session.history()["state"]) == ["charged"]
        spent = session.spent.epsilon
        release = query.run()
        assert session.spent.epsilon == spent
        assert release.paid == 0
        assert list(session.history()["state"]) == ["recorded"]
        pd.testing.assert_frame_equal(query.run().frame, release.frame)

    def test_a_later_session_completes_a_charge_when_it_is_asked_again(self, tmp_path, monkeypatch):
        ledger = tmp_path / "clinic.ledger"
        first = protected(dpn.Session, ledger=ledger)
        monkeypatch.setattr(first._statements.relations.workspace, "run", broken)
        with pytest.raises(EngineError):
            first.sql(BY_DRUG, epsilon=0.5).run()
        first.close()
        second = protected(dpn.Session, ledger=ledger)
        spent = second.spent.epsilon
        assert second.sql(BY_DRUG, epsilon=0.5).run().paid == 0
        assert second.spent.epsilon == spent > 0
        second.close()

    def test_the_record_is_there_before_anything_is_shown(self, session, monkeypatch):
        def refuse(*arguments):
            raise OSError("the disk is full")

        query = session.sql(BY_DRUG, epsilon=0.5)
        monkeypatch.setattr(session.ledger, "record", refuse)
        with pytest.raises(EngineError, match="nothing of it was shown"):
            query.run()

    def test_more_than_is_left_is_refused_and_nothing_is_spent(self, session):
        with pytest.raises(BudgetExceeded, match="nothing was spent"):
            session.sql(BY_DRUG, epsilon=40).run()
        assert session.spent.epsilon == 0

    def test_what_the_table_costs_is_what_its_cells_cost(self, session):
        session.sql(BY_DRUG, epsilon=0.5).run()
        spend = session.ledger.spend("visits")
        assert spend.maximum == session.ledger.spent == session.ledger.accountant.units(0.5)


class TestAgain:
    def test_the_same_statement_is_free_however_it_is_written(self, session):
        first = session.sql(BY_DRUG, epsilon=0.5).run()
        again = session.sql("select v.drug, count(1) as many from visits v group by 1", epsilon=0.5)
        assert again.plan.free
        release = again.run()
        assert release.paid == 0
        assert release.number == first.number
        np.testing.assert_array_equal(release.frame["many"], first.frame["n"])

    def test_a_later_session_shows_the_same_numbers(self, tmp_path):
        ledger = tmp_path / "clinic.ledger"
        first = protected(dpn.Session, ledger=ledger)
        before = first.sql(BIGQUERY).run()
        first.close()
        second = protected(dpn.Session, ledger=ledger)
        after = second.sql(BIGQUERY).run()
        assert after.paid == 0
        pd.testing.assert_frame_equal(before.frame, after.frame)
        pd.testing.assert_frame_equal(second.release(before.number).frame, after.frame)
        second.close()

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("accuracy", [{"epsilon": 0.1}, {"epsilon": 0.37}, {"epsilon": 0.4171}, {"error": 300}])
    def test_a_price_that_several_queries_cannot_share_evenly_is_paid_once(self, session, accuracy):
        parts = [f"(SELECT COUNT(*) AS n{i} FROM visits WHERE age > {i}0) AS q{i}" for i in range(3)]
        query = session.sql(f"SELECT * FROM {' CROSS JOIN '.join(parts)}", **accuracy)
        query.run()
        spent = session.spent
        assert query.plan.free
        assert query.run().paid == 0
        assert session.spent == spent

    def test_a_better_answer_is_used_and_a_worse_one_is_not(self, session):
        session.sql(BY_DRUG, epsilon=0.5).run()
        assert session.sql(BY_DRUG, epsilon=0.2).plan.free
        assert not session.sql(BY_DRUG, epsilon=0.8).plan.free
        assert not session.sql(BY_DRUG, epsilon=0.5, fresh=True).plan.free

    def test_other_bounds_or_another_filter_are_another_statement(self, session):
        session.sql(BIGQUERY).run()
        assert not session.sql(BIGQUERY.replace("100", "200")).plan.free
        assert not session.sql(BIGQUERY.replace("GROUP BY", "WHERE cost > 3 GROUP BY")).plan.free

    def test_a_changed_column_that_was_not_declared_is_noticed(self, tmp_path):
        ledger, data = tmp_path / "clinic.ledger", visits()
        first = protected(dpn.Session, data, ledger=ledger)
        first.sql(BY_DRUG, epsilon=0.5).run()
        spent = first.spent
        first.close()
        second = protected(dpn.Session, data.assign(drug="aspirin"), ledger=ledger)
        for fresh in (False, True):  # what one unit adds was found in the other rows
            with pytest.raises(FrameChanged, match="protect it under a new name"):
                second.sql(BY_DRUG, epsilon=0.5, fresh=fresh).run()
        assert second.spent == spent
        second.close()

    def test_a_changed_column_whose_bounds_were_written_can_be_asked_about_anew(self, tmp_path):
        ledger, data = tmp_path / "clinic.ledger", visits()
        first = protected(dpn.Session, data, ledger=ledger)
        first.sql(BIGQUERY).run()
        first.close()
        second = protected(dpn.Session, data.assign(drug="aspirin"), ledger=ledger)
        with pytest.raises(FrameChanged, match="fresh=True"):
            second.sql(BIGQUERY).run()
        assert second.sql(BIGQUERY, fresh=True).run().paid > 0
        second.close()


class TestRoutes:
    def test_declared_columns_go_to_the_planner(self, session):
        plan = session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=0.5).plan
        assert plan.measurements
        assert "so the planner answers it" in plan.steps[0]
        release = session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=0.5).run()
        total = session.sql("SELECT COUNT(*) AS n FROM visits", error=500)
        assert total.plan.free, "the planner answers from what it has"
        assert list(release.frame["ward"]) == ["A", "B", "C"]

    def test_what_is_worked_out_afterwards_is_free_on_both_routes(self, exact):
        data = visits()
        found = exact.sql(
            "SELECT ward, SUM(age) / COUNT(*) AS mean FROM visits GROUP BY ward ORDER BY ward DESC LIMIT 2", epsilon=1
        )
        wanted = data.groupby("ward")["age"].mean().sort_index(ascending=False)[:2]
        np.testing.assert_allclose(found.run().frame["mean"], wanted)
        found = exact.sql(
            "WITH t AS (SELECT drug, COUNT(*) AS n FROM visits GROUP BY drug) SELECT drug, 2 * n AS twice FROM t "
            "WHERE n > 200 ORDER BY n",
            epsilon=1,
            contribution="rows",
        )
        counts = data["drug"].value_counts()
        counts = counts[counts > 200].sort_values()
        frame = found.run().frame
        assert list(frame["drug"]) == list(counts.index)
        np.testing.assert_allclose(frame["twice"], 2 * counts)

    def test_having_keeps_the_intervals(self, exact):
        frame = exact.sql(BY_DRUG + " HAVING COUNT(*) > 300", epsilon=1).run().frame
        assert {"n", "n_lower", "n_upper", "n_std_error"} <= set(frame.columns)

    def test_several_private_queries_share_the_price(self, exact):
        query = exact.sql(
            "SELECT 'a' AS what, n FROM (SELECT COUNT(*) AS n FROM visits WHERE drug = 'aspirin') "
            "UNION ALL SELECT 'b', n FROM (SELECT COUNT(*) AS n FROM visits WHERE drug = 'statin')",
            epsilon=1,
            contribution="rows",
        )
        assert query.plan.cost.epsilon == pytest.approx(1, rel=1e-6)
        counts = visits()["drug"].value_counts()
        frame = query.run().frame.set_index("what")
        assert frame["n"].to_dict() == {"a": counts["aspirin"], "b": counts["statin"]}

    def test_a_join_with_a_public_table(self, exact):
        exact.register(pd.DataFrame({"drug": ["aspirin", "statin"], "price": [2, 5]}), "drugs", public=True)
        query = "SELECT price, COUNT(*) AS n FROM visits JOIN drugs USING (drug) GROUP BY price"
        frame = exact.sql(query, epsilon=1, contribution="rows").run().frame.set_index("price")
        counts = visits()["drug"].value_counts()
        assert frame["n"].to_dict() == {2: counts["aspirin"], 5: counts["statin"]}

    def test_a_join_of_two_protected_tables(self, exact):
        people = pd.DataFrame({"id": np.arange(400), "city": np.where(np.arange(400) % 3, "Ulm", "Bonn")})
        exact.protect(people, "people", unit="id", max_rows=1)
        query = "SELECT city, COUNT(*) AS n FROM people p JOIN visits v ON p.id = v.patient GROUP BY city"
        frame = exact.sql(query, epsilon=1, contribution="rows").run().frame.set_index("city")
        cities = people.set_index("id")["city"].loc[visits()["patient"]].value_counts()
        assert frame["n"].to_dict() == cities.to_dict()

    def test_a_table_without_declared_columns(self, exact):
        exact.protect(visits()[["drug", "cost"]], "rows")
        frame = exact.sql("SELECT drug, COUNT(*) AS n FROM rows GROUP BY drug", epsilon=1).run().frame
        assert frame.set_index("drug")["n"].to_dict() == visits()["drug"].value_counts().to_dict()
        assert exact.sql("SELECT COUNT(*) AS n FROM rows", epsilon=1).run().value == len(visits())


class TestAccuracy:
    def test_the_statement_may_say_its_epsilon(self, session):
        query = session.sql(BIGQUERY)
        assert query.plan.cost.epsilon == pytest.approx(0.5, rel=1e-6)
        with pytest.raises(AccuracyError, match="leave one of them out"):
            session.sql(BIGQUERY, epsilon=0.3)
        with pytest.raises(AccuracyError, match="exactly one of"):
            session.sql(BY_DRUG)

    def test_an_error_is_kept_at_the_least_price(self, session):
        plan = session.sql(BY_DRUG, error=100).plan
        assert 99 < plan.error <= 100

    def test_errors_of_unlike_units_are_refused(self, session):
        query = BIGQUERY.replace("epsilon = 0.5, ", "").replace("FROM visits", ", COUNT(*) AS n FROM visits")
        with pytest.raises(AccuracyError, match="give epsilon="):
            _ = session.sql(query, error=100).plan

    def test_a_relative_error_looks_first(self, session):
        plan = session.sql(BY_DRUG, error="5%").plan
        assert plan.rest.asked == "error='5%'"
        assert plan.cost.epsilon < plan.rest.epsilon

    @pytest.mark.statistical
    def test_the_spread_of_answers_is_the_one_announced(self):
        groups, each, runs = 500, 100, 13
        drugs = [f"drug {i}" for i in range(groups)]
        data = pd.DataFrame({"patient": range(groups * each), "ward": "A", "age": 50, "cost": 20.0})
        data["drug"] = np.repeat(drugs, each)
        session = protected(dpn.Session, data, budget=dpn.Budget(epsilon=900.0, delta=1e-5))
        # Everybody has a single row: nobody's are sampled, so that noise is all that differs from run to run.
        query = session.sql(BIGQUERY.replace("contributed = 2", "contributed = 1"), fresh=True).at(epsilon=2)
        frames = [query.run().frame.set_index("drug").loc[drugs] for _ in range(runs)]
        session.close()
        announced = frames[0]["total_std_error"].to_numpy()
        found = np.var([frame["total"] for frame in frames], axis=0, ddof=1)
        # Normal draws of each group around their own mean: sums of squares are chi-squared, which these ends miss with
        # a probability of 1e-7; a tenth too little noise is at 0.81, and misses the lower one as surely.
        free = groups * (runs - 1)
        low, high = chi2.ppf([5e-8, 1 - 5e-8], free) / free
        assert 0.87 < low < (found / announced**2).mean() < high


class TestUnknownGroups:
    def test_the_groups_of_a_single_person_stay_hidden(self):
        data = pd.concat([visits(), pd.DataFrame({"patient": [9999], "drug": ["secret"], "ward": ["A"], "age": [50]})])
        # All fifty runs together show it with at most the delta of the budget.
        session = protected(dpn.Session, data, budget=dpn.Budget(epsilon=900.0, delta=1e-9))
        query = session.sql(BY_DRUG, epsilon=2.0, fresh=True)
        seen = {drug for _ in range(50) for drug in query.run().frame["drug"]}
        assert "secret" not in seen
        assert {"aspirin", "statin"} <= seen
        session.close()

    def test_a_pure_budget_has_no_delta_for_them(self):
        session = protected(dpn.Session, budget=dpn.Budget(epsilon=4.0))
        with pytest.raises(SQLError, match="delta"):
            _ = session.sql(BY_DRUG, epsilon=1).plan
        assert session.sql("SELECT COUNT(*) AS n FROM visits WHERE drug = 'statin'", epsilon=1).run().value > 0
        session.close()

    def test_their_delta_adds_up_and_never_passes_what_is_kept(self):
        session = protected(dpn.Session, budget=dpn.Budget(epsilon=2.0, delta=1e-5))
        for _ in range(3):
            session.sql(BY_DRUG, epsilon=0.9, fresh=True).run()
        assert 0 < session.ledger.delta_spent <= session.ledger.threshold_delta
        session.close()

    def test_all_queries_of_a_statement_are_paid_for(self, session):
        text = (
            "SELECT a.drug, a.n, b.m FROM (SELECT drug, COUNT(*) AS n FROM visits GROUP BY drug) AS a "
            "JOIN (SELECT drug, COUNT(*) AS m FROM visits WHERE age > 30 GROUP BY drug) AS b ON a.drug = b.drug"
        )
        query = session.sql(text, epsilon=1.0)
        shares, deltas = query.plan.shares, query.plan.deltas
        assert len(shares) == len(deltas) == 2
        assert min(shares) > 0 < min(deltas)
        query.run()
        assert sum(shares) <= session.ledger.spent == query.plan.units
        assert session.ledger.delta_spent == sum(deltas)

    def test_laplace_noise_with_delta_for_groups_alone(self):
        session = protected(dpn.Session, budget=dpn.Budget(epsilon=4.0, delta=1e-5, noise="laplace"))
        release = session.sql(BY_DRUG, epsilon=2).run()
        assert session.spent.epsilon == pytest.approx(2)
        assert set(release.frame["drug"]) <= {"aspirin", "statin", "insulin"}
        session.close()


class TestTables:
    def test_a_name_that_is_neither_protected_nor_public_fails_closed(self, session):
        with pytest.raises((SQLError, NotProtected), match="visit"):
            session.sql("SELECT COUNT(*) FROM visit", epsilon=1)

    def test_what_is_registered_must_be_said_to_be_public(self, session):
        with pytest.raises(DomainError, match="public=True"):
            session.register(pd.DataFrame({"a": [1]}), "extra")
        with pytest.raises(DomainError, match="protected"):
            session.register(pd.DataFrame({"a": [1]}), "visits", public=True)

    def test_a_public_table_alone_is_no_private_question(self, session):
        session.register(pd.DataFrame({"a": [1]}), "extra", public=True)
        with pytest.raises(SQLError, match=r"private|protected"):
            session.sql("SELECT COUNT(*) FROM extra", epsilon=1)

    def test_rows_without_a_unit_are_left_out_and_their_number_is_not_shown(self):
        data = visits()
        data["patient"] = data["patient"].astype("float")
        data.loc[:4, "patient"] = np.nan
        session = protected(dpn.Session, data)
        plan = session.sql(BY_DRUG, epsilon=1).plan
        assert "rows of visits without a patient belong to nobody and are left out" in plan.steps
        everyone = protected(dpn.Session, visits())
        assert everyone.sql(BY_DRUG, epsilon=1).plan.warnings == plan.warnings
        assert everyone.sql(BY_DRUG, epsilon=1).plan.steps == plan.steps
        session.close()

    def test_a_closed_session_says_so(self):
        session = protected(dpn.Session)
        query = session.sql(BY_DRUG, epsilon=1)
        session.close()
        for ask in (query.run, lambda: query.plan):
            with pytest.raises(NotProtected, match="session was closed"):
                ask()
