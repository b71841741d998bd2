"""A session: what it knows of its tables, its budget and its past, alone, with others, and from several threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DPError
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.session import histories

PURE, GAUSSIAN = dpn.Budget(1.0), dpn.Budget(1.0, 1e-6)
BOTH = pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])


def test_ten_queries_of_a_tenth_fit_and_the_eleventh_does_not(opened, people):
    """Decimal arithmetic: what a person adds up is what is charged."""
    session = opened(1.0)
    for n in range(10):
        assert session.remaining.epsilon == pytest.approx(1 - n / 10)
        release = people.dp.count(epsilon=0.1, fresh=True).run()
        assert (release.number, release.paid, release.epsilon) == (n + 1, 0.1, 0.1)
    assert (session.spent.epsilon, session.remaining.epsilon) == (1.0, 0.0)
    with pytest.raises(
        dpn.BudgetExceeded, match=r"needs 10% of the budget \(ε 0\.1\), but 0% \(ε 0\) is left; nothing was spent"
    ):
        people.dp.count(epsilon=0.1, fresh=True).run()
    with pytest.raises(dpn.BudgetExceeded):
        people.dp.count(epsilon=1e-9, fresh=True).run()
    assert session.spent.epsilon == 1.0
    assert len(session.history()) == 10
    assert session.audit().ok


def test_gaussian_costs_add_up_as_squares(opened, people):
    """A hundred and more queries at a tenth of the budget's epsilon fit: mu^2 adds up, and to the last unit."""
    session = opened(1.0, 1e-6)
    accountant = accountant_for(GAUSSIAN)
    each = accountant.units(0.1)
    fit = accountant.total // each
    assert 60 < fit < 130
    paid = 0
    for n in range(fit):
        paid += session.ledger.price("people", people.dp.count(epsilon=0.1, fresh=True).plan.cells)
        people.dp.count(epsilon=0.1, fresh=True).run()
        assert session.ledger.spent == paid
        assert session.spent.epsilon == pytest.approx(accountant.epsilon(paid), rel=1e-12)
        if n == 3:  # four times mu^2 is twice mu: a little more than twice epsilon
            assert 0.19 < session.spent.epsilon < 0.25
    assert session.spent.epsilon <= 1.0
    assert (session.spent.delta, session.spent.threshold_delta) == (9e-7, 0)  # a tenth is kept for thresholds
    with pytest.raises(dpn.BudgetExceeded):
        people.dp.count(epsilon=0.1, fresh=True).run()
    assert session.audit().ok


@BOTH
def test_what_remains_can_be_spent_to_the_last(opened, people, delta):
    session = opened(1.0, delta)
    people.dp.histogram("age", epsilon=0.37).run()
    left = session.remaining
    assert left.delta == delta
    assert people.dp.count(epsilon=left.epsilon * 1.001, fresh=True).plan.affordable is False
    last = people.dp.count(epsilon=left.epsilon, fresh=True)
    assert last.plan.affordable
    assert last.plan.budget.left_after == pytest.approx(0, abs=1e-5)
    last.run()
    assert session.remaining.epsilon == pytest.approx(0, abs=1e-5)
    assert session.spent.epsilon == pytest.approx(1.0, abs=1e-5)


@BOTH
def test_the_plan_says_what_the_run_does(opened, people, delta):
    """Cost, budget and error of the preview are those of the release."""
    session = opened(1.0, delta)
    people.dp.count(where="age < 50", epsilon=0.2).run()
    query = people.dp.groupby("sex").count(where="age >= 40", epsilon=0.3)
    plan = query.plan
    before = session.spent.epsilon
    release = query.run()
    assert plan.cost.epsilon == release.paid
    assert plan.budget.spent == before
    assert plan.budget.left_after == session.remaining.epsilon
    assert plan.epsilon == release.epsilon
    assert release.frame["std_error"].to_numpy() == pytest.approx(plan.std_errors)
    assert (release.frame["upper"] - release.frame["value"]).max() == pytest.approx(plan.error)
    assert plan.answers == len(release.frame) == 2
    assert release.delta == session.spent.delta == (9e-7 if delta else 0)


@pytest.mark.one_in(2)
@BOTH
def test_an_error_holds_for_every_measure(opened, people, delta):
    """A sum needs more of the budget than a mean for the same error: each gets what it needs, not an even share."""
    session = opened(900.0, delta, rows=400)
    for columns in ("SUM(age) AS s, AVG(age) AS m", "AVG(age) AS m, SUM(age) AS s"):
        for where in ("", " WHERE sex = 'F'"):
            query = session.sql(f"SELECT {columns} FROM people{where}", error=40)
            assert query.plan.error <= 40 * (1 + 1e-12)  # but for rounding
            release = query.run()
            half = (release.frame["s_upper"] - release.frame["s_lower"]) / 2
            assert 39 < half.iloc[0] <= 40
            assert query.plan.free
    counted = session.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS m FROM people GROUP BY sex", epsilon=1.0)
    counted.run()
    with pytest.raises(dpn.AccuracyError, match="at once; give epsilon="):
        _ = counted.at(error=1e6).plan  # also where a recorded release would do


def test_history_is_every_charge_in_order(opened, people):
    session = opened(1.0)
    assert session.history().empty
    told = ["number", "time", "table", "question", "percent", "epsilon", "paid", "alone", "how", "state"]
    assert session.history().columns.tolist() == told
    people.dp.count(where="age >= 65", epsilon=0.1).run()
    people.dp.count(where="age >= 65", epsilon=0.1).run()  # free: no new line
    people.dp.count(where="age < 65", epsilon=0.1).run()  # disjoint: paid with the first
    with pytest.raises(dpn.BudgetExceeded):
        people.dp.count(epsilon=5).run()
    people.dp.groupby("sex").mean("income", epsilon=0.2).run()
    history = session.history()
    assert history["number"].tolist() == [1, 2, 3]
    assert history["epsilon"].tolist() == [0.1, 0.1, 0.2]
    assert history["paid"].tolist() == [0.1, 0.0, 0.2]
    assert history["state"].tolist() == ["recorded"] * 3
    assert history["table"].tolist() == ["people"] * 3
    assert history["question"].tolist() == [
        "COUNT where age >= 65",
        "COUNT where age <= 64",
        "MEAN of income by sex",
    ]
    assert history["time"].is_monotonic_increasing
    assert str(history["time"].dt.tz) == "UTC"
    assert session.spent.epsilon == pytest.approx(history["paid"].sum())


RELEASES = {
    "count": lambda frame: frame.dp.count(where="smokes", epsilon=0.1),
    "crosstab": lambda frame: frame.dp.crosstab("region", "sex", epsilon=0.1),
    "sum": lambda frame: frame.dp.groupby("smokes").sum("income", epsilon=0.1),
    "mean": lambda frame: frame.dp.mean("age", epsilon=0.1),
    "cdf": lambda frame: frame.dp.groupby("sex").cdf("income", epsilon=0.1),
    "quantile": lambda frame: frame.dp.quantile("age", 0.25, epsilon=0.1),
    "ranges": lambda frame: frame.dp.answer(dpn.workload.AllRange(10), "income", epsilon=0.1),
}


@pytest.mark.one_in(2)
@BOTH
def test_every_release_is_shown_again_as_it_was(opened, people, tmp_path, delta):
    """By number, in this session and in another on the same ledger, at no cost."""
    path = tmp_path / "a.ledger"
    session = opened(1.0, delta, ledger=path)
    first = [ask(people).run() for ask in RELEASES.values()]
    sql = session.sql("SELECT region, COUNT(*) AS n, SUM(age) AS years FROM people GROUP BY region", epsilon=0.1).run()
    spent = session.spent
    other = opened(1.0, delta, ledger=path)
    for again in (session, other):
        for release in [*first, sql]:
            shown = again.release(release.number)
            pd.testing.assert_frame_equal(shown.frame, release.frame)
            assert (shown.paid, shown.epsilon, shown.title) == (0.0, release.epsilon, release.title)
            assert (shown.names, shown.keys, shown.unit) == (release.names, release.keys, release.unit)
        assert again.spent == spent


def test_a_release_of_a_table_that_is_not_protected_here(opened, people, tmp_path):
    path = tmp_path / "a.ledger"
    opened(1.0, ledger=path)
    number = people.dp.count(epsilon=0.1).run().number
    alone = dpn.Session(PURE, path)
    assert alone.history()["question"].tolist() == ["COUNT"]
    known = r"no table 'people' is protected in this session .*: session\.protect\(data, 'people'\) is enough"
    for look in (alone.release, alone.code, alone.retry):
        with pytest.raises(dpn.NotProtected, match=known):
            look(number)
    with pytest.raises(dpn.NotProtected, match=r"\(protected: none so far\)$"):
        alone.table("nobody")
    alone.protect(people, "people")
    assert alone.release(number).number == number
    alone.close()


def test_tables_lists_what_is_protected(opened, people):
    session = opened(1.0)
    visits = pd.DataFrame({"who": [1, 1, 2], "kind": ["a", "b", "a"]})
    session.protect(visits, "visits", domain={"kind": ["a", "b"]}, unit="who", max_rows=2)
    tables = session.tables()
    assert tables["table"].tolist() == ["people", "visits"]
    assert tables["cells"].tolist() == [100 * 2 * 4 * 10 * 2, 2]
    assert tables["unit"].tolist() == ["row", "who"]
    assert tables["max_rows"].tolist() == [1, 2]
    assert tables["attributes"].tolist() == ["age, sex, region, income, smokes", "kind"]
    assert session.table("visits").session is session
    assert "<protected table 'visits': kind; privacy unit: one who, up to 2 rows;" in repr(session.table("visits"))


def test_a_table_says_which_rows_are_not_counted(opened):
    """A row without a place among the declared levels is in no count, whatever is asked: it is said, not how many."""
    session = opened(9.0)
    people = pd.DataFrame({"sex": ["F", "M", "D", None] * 500, "age": [30, 40, 500, 60] * 500})
    table = session.protect(people, "declared", domain={"sex": ["F", "M"], "age": dpn.Range(0, 99)})
    assert "rows with no sex or age, or with an undeclared sex, are left out" in repr(table)
    assert table.count(epsilon=5).run().value == pytest.approx(1000, abs=20)
    everybody = {
        "sex": dpn.Categories(["F", "M"], other="other", nullable=True),
        "age": dpn.Range(0, 99, nullable=True),
    }
    table = session.protect(people.copy(), "everybody", domain=everybody)
    assert "left out" not in repr(table)
    assert table.count(epsilon=3).run().value == pytest.approx(2000, abs=20)


def test_times_and_truth_values_have_no_undeclared_ones(opened):
    """Every time of day is in a level, and there are two truth values: only a missing one has no place."""
    seen = pd.DataFrame({"hour": pd.to_datetime(["2024-01-01 10:00", None]), "smokes": [True, None]})
    table = opened(1.0).protect(seen, "seen", domain={"hour": dpn.Times(), "smokes": [False, True]})
    assert repr(table).endswith("\n rows with no hour or smokes are left out; nullable=True counts missing values>")


def test_tables_add_up(opened, people):
    """The same person may be in two tables: what one costs does not hide what the other costs."""
    session = opened(1.0)
    twin = people.copy()
    session.protect(twin, "twin", domain={"sex": ["F", "M"], "age": dpn.Range(0, 99)})
    people.dp.count(where="sex == 'F'", epsilon=0.3).run()
    assert people.dp.count(where="sex == 'M'", epsilon=0.3).plan.cost.epsilon == 0.0
    assert twin.dp.count(where="sex == 'M'", epsilon=0.3).plan.cost.epsilon == 0.3
    twin.dp.count(where="sex == 'M'", epsilon=0.3).run()
    assert session.spent.epsilon == pytest.approx(0.6)
    with pytest.raises(dpn.BudgetExceeded):
        twin.dp.count(where="sex == 'M'", epsilon=0.8).run()
    spend = session.spend_by_column()
    assert spend["people", "sex"].tolist() == [0.3, 0.0]
    assert spend["twin", "sex"].tolist() == [0.0, 0.3]
    assert spend["people", "age"].tolist() == [0.3] * 100


def test_rows_of_a_unit_cost_together(opened):
    """A unit of up to three rows: noise three times as wide for the same epsilon, and one epsilon charged."""
    frame = pd.DataFrame({"who": np.repeat(np.arange(50), 4), "age": np.arange(200) % 100})
    one = opened(1.0, frame=frame, domain={"age": dpn.Range(0, 99)})
    three = opened(1.0, frame=frame, domain={"age": dpn.Range(0, 99)}, unit="who", max_rows=3)
    for session, factor in ((one, 1), (three, 3)):
        query = session.table("people").histogram("age", epsilon=0.5)
        assert query.plan.measurements[0].scale == 2 * factor
        assert query.run().paid == 0.5
    gaussian = [
        opened(1.0, 1e-6, frame=frame, domain={"age": dpn.Range(0, 99)}, **unit).table("people").count(epsilon=0.5)
        for unit in ({}, {"unit": "who", "max_rows": 3})
    ]
    few, many = (float(query.plan.measurements[0].scale) for query in gaussian)
    assert many / few == pytest.approx(3, rel=1e-6)


def test_bounding_is_the_same_in_every_session(tmp_path):
    """Which rows of a unit count is decided once for a ledger: the same question, measured twice, counts the same."""
    frame = pd.DataFrame({"who": np.repeat(np.arange(200), 5), "age": np.arange(1000) % 100})
    path = tmp_path / "a.ledger"
    counts = []
    for _ in range(2):
        session = dpn.Session(dpn.Budget(900.0), path)
        table = session.protect(frame.copy(), "t", domain={"age": dpn.Range(0, 99)}, unit="who", max_rows=2)
        counts.append(table.histogram("age", epsilon=200.0, fresh=True).run().frame["value"].round().tolist())
        session.close()
    assert sum(counts[0]) == 400
    assert counts[0] == counts[1]  # noise of scale 1/100 is zero but once in 10^43


@BOTH
def test_threads_never_overspend(opened, delta):
    """Eight threads ask until nothing is left: what was granted is the budget, to the last query that fits."""
    frame = pd.DataFrame({"age": np.arange(100)})
    session = opened(1.0, delta, frame=frame, domain={"age": dpn.Range(0, 99)})
    epsilon = 0.02 if delta == 0 else 0.15
    query = session.table("people").count(epsilon=epsilon, fresh=True)
    each = query.plan.cost.units
    fits = session.ledger.total // each
    start = threading.Barrier(8)

    def ask(_):
        start.wait()
        granted = refused = 0
        while not refused:
            assert query.plan.cost.units == each
            try:
                granted += query.run().paid > 0
            except dpn.BudgetExceeded:
                refused += 1
        return granted

    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(ask, range(8)))
    assert sum(granted) == fits
    assert session.ledger.spent == fits * each <= session.ledger.total
    assert session.history()["state"].tolist() == ["recorded"] * fits
    assert session.audit().ok


def test_threads_pay_the_same_question_once(opened, people, tmp_path):
    """Also through two sessions on one ledger file: one charge at most each way round, one answer for all."""
    session = opened(1.0, ledger=tmp_path / "a.ledger")
    query = session.table("people").histogram("region", epsilon=0.5)
    start = threading.Barrier(8)

    def ask(_):
        start.wait()
        return query.run()

    with ThreadPoolExecutor(8) as pool:
        releases = list(pool.map(ask, range(8)))
    assert sorted(release.paid for release in releases) == [0.0] * 7 + [0.5]
    assert len({tuple(release.frame["value"]) for release in releases}) == 1
    assert session.spent.epsilon == 0.5


def test_what_watches_a_session_is_told_of_every_release(opened, people):
    session = opened(1.0)
    seen = []
    stop = session.on_change(lambda: seen.append(session.spent.epsilon))
    people.dp.count(epsilon=0.1).run()
    people.dp.count(where="age > 5", epsilon=0.2).run()
    assert seen == [0.1, pytest.approx(0.3)]
    with pytest.raises(dpn.BudgetExceeded):
        people.dp.count(epsilon=3).run()
    assert people.dp.count(epsilon=0.1).plan.free
    assert len(seen) == 2
    stop()
    stop()
    people.dp.count(where="age > 6", epsilon=0.1).run()
    assert len(seen) == 2


def test_a_watcher_may_stop_itself_and_may_ask(opened, people):
    session = opened(1.0)
    seen = []

    def once():
        stop()
        seen.append(people.dp.count(where="age > 50", epsilon=0.1).run().number)

    stop = session.on_change(once)
    assert people.dp.count(epsilon=0.1).run().number == 1
    assert seen == [2]


def test_progress_runs_from_nothing_to_done(opened, people):
    opened(1.0)
    told = []
    people.dp.histogram("age", epsilon=0.1).run(progress=lambda fraction, doing: told.append((fraction, doing)))
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert (fractions[0], told[-1]) == (0.0, (1.0, "done"))
    assert "charging the ledger" in [doing for _, doing in told]


def test_the_active_session_is_the_latest_that_is_open():
    one = dpn.Session(PURE)
    assert dpn.active_session() is one
    two = dpn.Session(GAUSSIAN)
    assert dpn.active_session() is two
    frame = pd.DataFrame({"age": [1, 2]})
    table = frame.dp.protect("t", domain={"age": dpn.Range(0, 9)})
    assert table.session is two
    assert frame.dp.session is two
    frame.dp.protect("t", domain={"age": dpn.Range(0, 9)}, session=one)
    assert frame.dp.session is one
    two.close()
    with pytest.raises(dpn.NotProtected, match="no session"):
        dpn.active_session()
    one.close()


def test_a_closed_session_is_opened_again(opened, people, tmp_path):
    path = tmp_path / "a.ledger"
    session = opened(1.0, ledger=path)
    value = people.dp.count(epsilon=0.5).run().value
    session.close()
    session.close()
    with pytest.raises(dpn.DPError, match="closed"):
        people.dp.count(epsilon=0.5).run()
    opened(1.0, ledger=path)
    release = people.dp.count(epsilon=0.5).run()
    assert (release.value, release.paid) == (value, 0.0)


def test_a_head_that_was_noted_proves_what_came_before(opened, people):
    session = opened(1.0)
    people.dp.count(epsilon=0.1).run()
    head = session.audit().head
    people.dp.count(epsilon=0.2).run()
    assert session.audit(head).ok
    found = session.audit("0" * 64)
    assert not found.ok
    assert "noted head" in str(found)


def test_options_that_are_none():
    for options in ({"planner": "magic"}, {"confirm": "maybe"}, {"confirm_above": -1}, {"confirm_above": "all"}):
        with pytest.raises(ValueError, match=r"planner|confirm"):
            dpn.Session(PURE, **options)
    session = dpn.Session(dpn.Budget(2.0))
    assert (session.confirm, session.confirm_above) == ("auto", 0.1)
    session.close()


def test_what_is_not_as_precise_as_its_plan_says_is_no_free_plan(opened, people, monkeypatch):
    """What does not stand the whole test is planned, and paid for, as a measurement: never free and then charged."""
    session = opened(epsilon=5.0)
    people.dp.crosstab("sex", "region", epsilon=1.0).run()
    asked = people.dp.histogram("sex", error=200)
    assert asked.plan.free
    session.table("people").count(epsilon=0.1).run()
    monkeypatch.setattr(histories, "details_of", lambda *args: None)
    plan, spent = asked.plan, session.spent.epsilon
    assert not plan.free
    monkeypatch.undo()
    monkeypatch.setattr(histories.Histories, "free", lambda *args: None)
    assert asked.run().paid == plan.cost.epsilon == pytest.approx(session.spent.epsilon - spent)


def test_what_reuse_spares_is_what_each_question_costs_alone(opened, people):
    session = opened(epsilon=5.0)
    histogram, count = people.dp.histogram("age", error=30), people.dp.count(where="age >= 65", error=200)
    each = [replace(query, fresh=True).plan.cost.epsilon for query in (histogram, count)]
    assert histogram.run().paid == pytest.approx(each[0])
    assert count.run().paid == 0
    assert count.run().paid == 0  # asked again it is no charge, and spares nothing more
    history, saved = session.history(), session.saved
    assert history["how"].tolist() == ["", "free"]
    assert history["alone"].tolist() == pytest.approx(each)
    assert saved.paid == pytest.approx(session.spent.epsilon) == pytest.approx(each[0])
    assert saved.alone == pytest.approx(sum(each))
    assert saved.share == pytest.approx(each[1] / sum(each))
    assert saved.how == {2: "free"}


def test_a_session_is_closed_at_the_end_of_a_with_block(tmp_path):
    with dpn.Session(budget=dpn.Budget(1.0), ledger=tmp_path / "one.ledger") as session:
        assert session.spent.epsilon == 0
    with pytest.raises(DPError, match="closed"):
        _ = session.spent


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_code_of_a_release_asks_for_it_again_and_pays_nothing(delta):
    frame = pd.DataFrame({"patient": [i // 2 for i in range(400)], "ward": ["a", "b"] * 200, "cost": [5.0] * 400})
    session = dpn.Session(dpn.Budget(epsilon=1.0, delta=delta), confirm="never")
    session.protect(frame, "stays", unit="patient", max_rows=2, domain={"ward": ["a", "b"], "cost": dpn.Range(0, 9)})
    stays = session.table("stays")
    stays.count(where="ward == 'a'", error=40).run()
    stays.groupby("ward").mean("cost", epsilon=0.1).run()
    stays.answer(dpn.marginals(1), epsilon=0.1).run()
    session.sql("SELECT ward, COUNT(DISTINCT patient) AS n FROM stays GROUP BY ward", epsilon=0.1).run()
    for number in session.history()["number"]:
        again = eval(session.code(number), {"session": session, "stays": frame, "dpn": dpn}).run()
        assert again.paid == 0, session.code(number)
    with pytest.raises(dpn.LedgerError):
        session.code(99)
    session.close()


class TestAnalyst:
    """Who asks is said by whoever opens a session, and is told to everybody on the ledger."""

    def test_the_history_says_who_asked_first(self, tmp_path):
        rows = pd.DataFrame({"sex": ["F", "M"] * 50, "cost": np.arange(100)})
        path, domain = tmp_path / "clinic.ledger", {"sex": ["F", "M"], "cost": dpn.Range(0, 99)}
        with closing(dpn.Session(dpn.Budget(4.0, 1e-6), path)) as steward:
            table = steward.protect(rows, "people", domain=domain)
            table.count(epsilon=0.5).run()
            assert "analyst" not in steward.history()
            with closing(dpn.Session(dpn.Budget(4.0, 1e-6), path, analyst="anna")) as anna:
                by_anna = anna.protect(rows.copy(), "people")
                by_anna.histogram("sex", epsilon=0.5).run()
                by_anna.count(where="sex == 'F'", error=50).run()  # follows, for nothing
                by_anna.std("cost", epsilon=0.5).run()
                anna.sql("SELECT SUM(cost) AS x FROM people", epsilon=0.5).run()
            with closing(dpn.Session(dpn.Budget(4.0, 1e-6), path, analyst="Bo M.")) as bo:
                bo.protect(rows.copy(), "people").histogram("sex", epsilon=0.5).run()  # anna's: no entry
                bo.table("people").histogram("cost", epsilon=0.25).run()
            history = steward.history()
            assert history["analyst"].tolist() == ["", "anna", "anna", "anna", "anna", "Bo M."]
            assert history.groupby("analyst")["percent"].sum().sum() == pytest.approx(
                100 * steward.ledger.spent / steward.ledger.accountant.total
            )
            assert steward.audit().ok

    @pytest.mark.parametrize("analyst", ["", " ", 3, "a\nb", "x" * 101, b"anna"])
    def test_what_is_no_name_is_refused(self, tmp_path, analyst):
        with pytest.raises(dpn.ArgumentError, match="analyst= is"):
            dpn.Session(dpn.Budget(1.0), tmp_path / "clinic.ledger", analyst=analyst)
        assert not list(tmp_path.iterdir())
