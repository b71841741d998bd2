"""A statement over declared columns is measured by itself where one unit may have many rows, and few do."""

from contextlib import closing
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.query.question import Question
from dpnotebook.session.statements import Statements

CITIES = [f"city {i}" for i in range(12)]
GAUSSIAN, PURE = dpn.Budget(1.0, 1e-6), dpn.Budget(1.0)
MANY, FEW = 130, 2


def visits(units=4_000, seed=3):
    """Return rows of units of which most have a few, and some more than a hundred; a unit keeps to its city."""
    random = np.random.default_rng(seed)
    sizes = np.clip(np.round(random.lognormal(1.0, 1.0, units)), 1, MANY).astype(int)
    unit = np.repeat(np.arange(units), sizes)
    city = np.array(CITIES)[random.integers(len(CITIES), size=units)[unit]]
    return pd.DataFrame({"who": unit, "city": city, "cost": np.clip(random.gamma(4, 10, unit.size), 0, 200)})


@pytest.fixture(scope="module")
def frame():
    """Return such rows."""
    return visits()


def opened(frame, budget, most, rows=None):
    """Return a session in which everything that is asked for is declared."""
    session = dpn.Session(budget, ":memory:", confirm="never")
    domain = {"city": CITIES, "cost": dpn.Bins(0, 200, width=5)}
    session.protect(frame, "visits", unit="who", max_rows=most, domain=domain, rows=rows)
    return session


def by_city(session, what, **given):
    """Return a query for an aggregate by city."""
    return session.sql(f"SELECT city, {what} AS x FROM visits GROUP BY city", **{"epsilon": 0.3} | given)


def is_planned(query):
    """Return whether the planner answers it."""
    return isinstance(query.question, Question)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("budget", "what"),
    [
        *((GAUSSIAN, what) for what in ("COUNT(*)", "SUM(cost)", "AVG(cost)", "MEDIAN(cost)", "COUNT(*), SUM(cost)")),
        *((PURE, what) for what in ("COUNT(*)", "SUM(cost)", "AVG(cost)", "MEDIAN(cost)")),
    ],
    ids=lambda one: getattr(one, "accountant", None) or str(one).split("(", maxsplit=1)[0],
)
def test_what_is_delivered_is_twice_as_close(frame, budget, what, same_noise):
    """By the standard errors of the releases: the one that is chosen, beside the one with all rows that may be."""
    with closing(opened(frame, budget, MANY)) as session:
        chosen, declared = by_city(session, what), by_city(session, what, contribution="rows")
        assert (is_planned(chosen), is_planned(declared)) == (False, True)
        by_itself, as_declared = chosen.run().frame, declared.run().frame
    errors = [name for name in by_itself if name.endswith("std_error")]
    assert errors == [name for name in as_declared if name.endswith("std_error")]
    for name in errors:
        assert np.nanmedian(by_itself[name]) * 2 < as_declared[name].fillna(np.inf).median()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(cost)", "AVG(cost)", "MEDIAN(cost)"])
@pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
def test_where_units_have_few_rows_the_planner_answers(frame, budget, what):
    """Nothing is much closer than as many rows as are declared."""
    with closing(opened(frame, budget, FEW)) as session:
        assert is_planned(by_city(session, what))


@pytest.mark.one_in(2)
def test_a_count_that_gains_little_does_not_hold_back_a_mean(frame, same_noise):
    """Beside a mean that is many times closer a count need not be twice as close: ±880 was said, ±190 beside a sum."""
    asked = {"avg": ("cost", "mean"), "n": ("cost", "count")}
    with closing(opened(frame, dpn.Budget(4.0, 1e-6), 20)) as session:
        assert is_planned(by_city(session, "COUNT(*)", epsilon=1.0))
        query = session.table("visits").groupby("city").agg(**asked, epsilon=1.0)
        assert not is_planned(query)
        mine = query.run().frame
        text = "AVG(cost) AS avg, COUNT(cost)"
        declared = by_city(session, text, epsilon=1.0, contribution="rows", fresh=True).run().frame
    for name, other, times in (("avg", "avg", 3.0), ("n", "x", 1.0)):
        assert np.median(mine[f"{name}_std_error"]) * times < np.median(declared[f"{other}_std_error"])
    truth = frame.groupby("city")["cost"].mean().reindex(mine["city"]).to_numpy()
    assert (np.abs(mine["avg"] - truth) < 5.5 * (mine["avg_upper"] - mine["avg_lower"]) / 4).all()


def test_a_count_that_may_lose_holds_back_a_mean(frame):
    """Where rows are drawn, without a delta, counts are about as close as the planner has them, or farther off."""
    with closing(opened(frame, PURE, 20)) as session:
        assert is_planned(by_city(session, "AVG(cost) AS a, COUNT(*)"))
        assert not is_planned(by_city(session, "AVG(cost)"))


def test_what_is_known_stays_free(frame):
    """A table of counts that `df.dp` has bought answers the statement, and nothing is paid for it again.

    So it does at an epsilon by which the statement itself would not tell them much more closely.
    """
    with closing(opened(frame, dpn.Budget(40.0, 1e-6), MANY)) as session:
        assert not is_planned(by_city(session, "COUNT(*)"))
        session.table("visits").groupby("city").count(epsilon=10.0).run()
        again = by_city(session, "COUNT(*)")
        assert is_planned(again)
        assert again.plan.free
        assert by_city(session, "COUNT(*)", epsilon=0.3).run().paid == 0


def test_a_kept_query_is_answered_by_what_was_bought_meanwhile(frame):
    """A query that was written, and looked at, before `df.dp` bought its answer costs what it costs written now."""
    with closing(opened(frame, dpn.Budget(40.0, 1e-6), MANY)) as session:
        kept, other = by_city(session, "COUNT(*)"), by_city(session, "AVG(cost)")
        assert not kept.plan.free
        session.table("visits").groupby("city").count(epsilon=10.0).run()
        assert kept.plan.free
        assert kept.plan is kept.plan
        assert kept.plan.cost == by_city(session, "COUNT(*)").plan.cost
        assert other.plan.units == by_city(session, "AVG(cost)").plan.units > 0  # of which nothing was bought
        spent = session.ledger.spent
        release = kept.run()
        assert (release.paid, session.ledger.spent) == (0, spent)
        assert list(release.frame) == list(by_city(session, "COUNT(*)").run().frame)
        assert list(release.frame)[:2] == ["city", "x"]


def test_plans_do_not_depend_on_what_was_looked_at_before(frame):
    """Two queries of the same statement, in either order, beside one that is written last."""
    costs = []
    for looked in (0, 1, 2):
        with closing(opened(frame, GAUSSIAN, MANY)) as session:
            queries = [by_city(session, "COUNT(*)"), by_city(session, "COUNT(*)")]
            for query in queries[:looked]:
                _ = query.plan
            session.table("visits").groupby("city").count(epsilon=0.2).run()
            costs.append({query.plan.units for query in [*queries[::-1], by_city(session, "COUNT(*)")]})
    assert costs[0] == costs[1] == costs[2]
    assert len(costs[0]) == 1


def test_what_was_paid_for_by_itself_stays_free(frame, same_noise):
    """Whatever the ways are worth now: neither the query that was kept nor the same words cost anything again."""
    with closing(opened(frame, GAUSSIAN, MANY)) as session:
        kept = by_city(session, "COUNT(*)")
        assert kept.run().paid > 0
        assert kept.run().paid == by_city(session, "COUNT(*)").run().paid == 0


def test_an_error_is_had_for_less(frame):
    """Where an error is asked for, the price decides."""
    with closing(opened(frame, PURE, MANY, rows=18_000)) as session:
        asked = by_city(session, "AVG(cost)", epsilon=None, error=10)
        declared = by_city(session, "AVG(cost)", epsilon=None, error=10, contribution="rows")
        assert not is_planned(asked)
        assert asked.plan.error <= 10
        assert asked.plan.cost.epsilon * 2 <= declared.plan.cost.epsilon


def test_looking_reads_nothing_and_asks_for_nothing(frame):
    """Both ways are planned from what is declared."""
    with closing(opened(frame, GAUSSIAN, MANY)) as session:
        before = session.ledger.head
        query = by_city(session, "COUNT(*)")
        assert query.plan.parts[0].between[1] < by_city(session, "COUNT(*)", contribution="rows").plan.error / 2
        assert "±53 to ±530 rows" in str(session.budget_planner(by_city(session, "COUNT(*)", epsilon=0.2)))
        assert session.ledger.head == before
        assert not session.history().shape[0]


def test_verbs_say_what_sql_does_better(frame):
    """The card of a verb says it where noise hides many rows, and not where it does not help or costs nothing."""

    def said(query):
        return [line for line in query.plan.warnings if "SQL" in line]

    with closing(opened(frame, GAUSSIAN, MANY)) as session:
        table = session.table("visits")
        (line,) = said(table.groupby("city").count(epsilon=0.2))
        assert "one who with 130 rows" in line
        assert said(table.mean("cost", epsilon=0.2, bounds=(0, 200)))
        assert not is_planned(table.mean("cost", epsilon=0.2))  # it is what SQL does
        assert not said(table.histogram("cost", epsilon=0.2))  # of bins, which SQL has not
        table.groupby("city").count(epsilon=0.5).run()
        assert not said(table.groupby("city").count(epsilon=0.2))
    with closing(opened(frame, PURE, MANY)) as session:
        (line,) = said(session.table("visits").count(epsilon=0.2))
        assert "the rows that each who really has" in line
        assert not said(session.table("visits").histogram("cost", epsilon=0.2))
        assert said(session.table("visits").median("cost", epsilon=0.2))
    with closing(opened(frame, GAUSSIAN, FEW)) as session:
        assert not said(session.table("visits").mean("cost", epsilon=0.2))


@pytest.mark.parametrize("most", [20, MANY])
@pytest.mark.parametrize("budget", [dpn.Budget(40.0, 1e-6), dpn.Budget(40.0)], ids=["gaussian", "pure"])
def test_counts_by_month_say_what_is_closer(budget, most, same_noise):
    """The card names what is closer, and it is: where few rows are declared the planner answers plain SQL too."""
    random = np.random.default_rng(7)
    units = np.repeat(np.arange(6_000), 1 + random.poisson(3, 6_000))
    days = np.datetime64("2024-01-01") + random.integers(0, 366, units.size).astype("timedelta64[D]")
    frame, domain = pd.DataFrame({"who": units, "day": days}), {"day": dpn.Dates("2024-01-01", "2024-12-31")}
    text = "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS x FROM visits GROUP BY m"

    def protected(session, **given):
        session.protect(frame, "visits", unit="who", domain=domain, **given)
        return session

    with closing(dpn.Session(budget, ":memory:", confirm="never")) as session:
        query = protected(session, max_rows=most).table("visits").groupby({"day": "month"}).count(epsilon=1.0)
        (line,) = (one for one in query.plan.warnings if "noise hides one who" in one)
        if most == 20 and not budget.delta:
            assert "without max_rows=" in line
            with closing(dpn.Session(budget, ":memory:", confirm="never")) as other:
                closer = protected(other).sql(text, epsilon=1.0).run().frame
        else:
            given = {"contribution": "l2"} if most == 20 else {}
            assert ("session.sql(..., contribution='l2')" if given else "The same in SQL") in line
            closer = session.sql(text, epsilon=1.0, fresh=True, **given).run().frame
        assert closer["x_std_error"].median() * 1.4 < query.run().frame["std_error"].median()


def test_what_earlier_versions_measured_stays_free(frame):
    """They drew as many rows as were declared, also for a mean: who paid for that does not pay again."""
    with closing(dpn.Session(PURE, ":memory:", confirm="never")) as session:
        session.protect(frame, "visits", unit="who", max_rows=MANY, domain={"city": CITIES})
        before = by_city(session, "AVG(cost * 1)", contribution="rows").run()
        again = by_city(session, "AVG(cost * 1)")
        assert again.plan.free
        pd.testing.assert_frame_equal(again.run().frame, before.frame)
        other = by_city(session, "AVG(cost + 1)")
        assert not other.plan.free
        assert other.question.selects[0].rows_if_hidden == 5  # as many as suit it are found


def test_an_error_that_is_dear_says_what_is_closer(frame):
    """What an error costs is known for the rows that are declared; an epsilon finds out about those that there are."""
    with closing(opened(frame, GAUSSIAN, MANY)) as session:
        for what in ("COUNT(*)", "COUNT(who)"):
            dear, near = (
                by_city(session, what, **{"epsilon": None} | given)
                for given in ({"error": 3_000, "fresh": True}, {"epsilon": 0.1})
            )
            assert any("epsilon= in place of error=" in line for line in dear.plan.warnings)
            assert by_city(session, what, epsilon=None, error=3_000).plan.rest is not None  # a look finds it by itself
            assert not any("epsilon= in place of error=" in line for line in near.plan.warnings)
    with closing(opened(frame, PURE, MANY)) as session:
        asked = by_city(session, "COUNT(*)", epsilon=None, error=200)
        assert not any("in place of error=" in line for line in asked.plan.warnings)


SAID_OF_CUTS = ("beside the noise", "noise hides how much that takes")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(cost)", "AVG(cost)"])
def test_a_repeat_says_what_the_release_was_cut_by(frame, what, same_noise):
    """Asked anew it would be cut elsewhere, as more is known by then: the card is about the answer that is there."""
    with closing(opened(frame, GAUSSIAN, MANY)) as session:
        release = by_city(session, what).run()
        again = by_city(session, what).plan
        assert again.free
        told = [note.split(": ", 1)[1] for note in release.notes if any(said in note for said in SAID_OF_CUTS)]
        assert told
        assert [line for line in again.warnings if any(said in line for said in SAID_OF_CUTS)] == told


def test_whoever_has_more_rows_than_count_is_said_to_be_left_out(frame):
    """An error is about the rows that count: the card and the answer say which, where not all of them do."""
    with closing(opened(frame, GAUSSIAN, FEW)) as session:
        asked = session.table("visits").groupby("city").count(epsilon=0.2)
        release = asked.run()
        far = (release.frame.set_index("city")["value"] - frame.groupby("city").size()).abs()
        assert far.min() > asked.plan.error  # no interval holds what is left out
        assert "close to the exact count over at most 2 rows of each who" in str(asked.plan)
        assert any("at most 2 rows of each who count" in note for note in release.notes)
    with closing(opened(frame.drop(columns="who").assign(who=range(len(frame))), GAUSSIAN, 1)) as session:
        asked = session.table("visits").groupby("city").count(epsilon=0.2)
        assert "rows of each" not in str(asked.plan)
        assert not asked.run().notes


@pytest.mark.one_in(2)
@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(cost)"])
def test_without_delta_the_card_says_how_fewer_rows_count(frame, what, same_noise):
    """Where all that are declared count, as somebody says so: who follows the card has a tenth of the noise."""
    with closing(opened(frame, PURE, MANY)) as session:
        plain = by_city(session, what, contribution="rows")
        (text,) = [said for said in plain.plan.warnings if "let fewer of each count" in said]
        assert f"with {MANY} rows" in text
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 8)"
        assert clause in text
        fewer = session.sql(f"{clause} city, {what} AS x FROM visits GROUP BY city", epsilon=0.3)
        assert not fewer.plan.warnings or all("let fewer" not in said for said in fewer.plan.warnings)
        assert fewer.run().frame["x_std_error"].max() * 10 < plain.run().frame["x_std_error"].min()
        known = by_city(session, what, contribution="rows")
        assert "let fewer" not in str(known.plan)  # what is known costs nothing
    for budget, most in ((GAUSSIAN, MANY), (PURE, FEW)):
        with closing(opened(frame, budget, most)) as session:
            assert "let fewer" not in str(by_city(session, what).plan)


def test_what_is_planned_to_choose_a_way_is_not_planned_again(frame, monkeypatch):
    """The plan that the choice looked at is that of the query."""
    planned, plan = [], Statements.plan
    monkeypatch.setattr(Statements, "plan", lambda *given: planned.append(1) or plan(*given))
    with closing(opened(frame, GAUSSIAN, MANY)) as session:
        query = by_city(session, "COUNT(*)")
        assert not is_planned(query)
        assert query.plan is query.plan
        assert len(planned) == 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("what", "verb"), [("COUNT(*)", "count"), ("SUM(cost)", "sum"), ("AVG(cost)", "mean")])
def test_what_the_planner_measured_for_many_rows_is_no_answer_to_the_same_epsilon(frame, what, verb, same_noise):
    """It would cost nothing, and be as far off as before: by that epsilon the statement by itself is much closer."""
    with closing(opened(frame, dpn.Budget(30.0, 1e-6), MANY)) as session:
        asked = getattr(session.table("visits").groupby("city"), verb)
        columns = [] if verb == "count" else ["cost"]
        all_values = {} if verb == "count" else {"bounds": (0, 200)}  # so that it goes by what is declared
        query = asked(*columns, epsilon=0.3, **all_values)
        far, first = query.plan.error, query.run()
        plan = by_city(session, what).plan
        assert plan.cost.units > 0
        second = by_city(session, what).run().frame
        assert second.x_std_error.median() * 2 < first.frame.iloc[:, 2].median()
        again = by_city(session, what)
        assert again.plan.free
        assert again.run().frame.x_std_error.to_list() == second.x_std_error.to_list()
        assert by_city(session, what, epsilon=None, error=far * 1.5).plan.free  # an error is kept by either


@pytest.mark.parametrize(("what", "verb"), [("COUNT(*)", "count"), ("AVG(cost)", "mean")])
def test_what_the_planner_measured_much_more_closely_is_free(frame, what, verb):
    with closing(opened(frame, dpn.Budget(60.0, 1e-6), MANY)) as session:
        columns = [] if verb == "count" else ["cost"]
        all_values = {} if verb == "count" else {"bounds": (0, 200)}
        getattr(session.table("visits").groupby("city"), verb)(*columns, epsilon=30.0, **all_values).run()
        assert by_city(session, what, epsilon=0.03).plan.free


@pytest.mark.parametrize("most", [3, 6])
@pytest.mark.parametrize("verb", [False, True], ids=["statement", "verb"])
@pytest.mark.parametrize(("what", "written"), [("mean", "AVG"), ("sum", "SUM")])
def test_a_mean_or_a_sum_of_amounts_goes_by_where_they_lie(most, verb, what, written, same_noise):
    # A norm goes by where values lie; noise of the planner by what is declared, which of amounts is far more.
    random = np.random.default_rng(most)
    unit = np.repeat(np.arange(4_000), random.integers(1, most + 1, 4_000))
    rows = pd.DataFrame(
        {"who": unit, "cost": random.gamma(2, 400, unit.size), "score": random.integers(1, 6, unit.size)}
    )
    domain = {"cost": dpn.Bins(0, 20_000, width=100), "score": dpn.Range(1, 5)}
    errors = {}
    for way in ("as it is asked", "planned"):
        found = []
        for _ in range(8):
            with closing(dpn.Session(GAUSSIAN, ":memory:")) as session:
                table = session.protect(rows, "visits", unit="who", max_rows=most, domain=domain)
                planned = {"contribution": "rows"} if way == "planned" else {}
                text = f"SELECT {written}(cost) AS value FROM visits"
                as_verb, of = verb and not planned, partial(getattr(table, what), epsilon=0.1)
                query = of("cost") if as_verb else session.sql(text, epsilon=0.1, **planned)
                assert is_planned(query) is bool(planned)
                found.append(query.run().frame["value"].iloc[0] - getattr(rows["cost"], what)())
                assert is_planned(of("score"))  # which fill what is declared
        errors[way] = np.sqrt(np.mean(np.square(found)))
    assert 2 * errors["as it is asked"] < errors["planned"]


@pytest.mark.parametrize("what", ["COUNT(*)", "SUM(cost)", "COUNT(*), SUM(cost), AVG(cost)"])
@pytest.mark.parametrize("budget", [dpn.Budget(30.0, 1e-6), dpn.Budget(30.0)], ids=["gaussian", "laplace"])
def test_a_statement_that_the_planner_was_paid_to_answer_is_free(frame, budget, what, tmp_path):
    """In other words too, at less epsilon, after others told how many rows units have, and in another kernel."""
    domain = {"city": CITIES, "cost": dpn.Bins(0, 200, width=5)}

    def asked(session, epsilon=0.05, where="cost >= 40", **more):
        return session.sql(f"SELECT {what} FROM visits WHERE {where}", epsilon=epsilon, **more)

    def opened_again():
        session = dpn.Session(budget, tmp_path / "ledger", confirm="never")
        session.protect(frame, "visits", unit="who", max_rows=20, domain=domain)
        return session

    with closing(opened_again()) as session:
        planned = is_planned(asked(session))
        assert asked(session).run().paid > 0
        spent = session.ledger.spent
        for again in (asked(session), asked(session, 0.04), asked(session, where="NOT (cost < 40)")):
            assert is_planned(again) == planned
            assert again.run().paid == 0
        assert session.ledger.spent == spent
        for other in ("COUNT(*)", "AVG(cost)", "SUM(cost)"):
            session.sql(f"SELECT {other} FROM visits", epsilon=1.0).run()
        spent = session.ledger.spent
        assert asked(session).run().paid == 0
        assert asked(session, fresh=True).plan.cost.units > 0
    with closing(opened_again()) as session:
        assert asked(session).run().paid == 0
        assert session.ledger.spent == spent
