"""Where a column is declared far wider than its values lie, noise need not be for all of what is declared."""

import re
from contextlib import closing
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, DomainError, SQLError
from dpnotebook.privacy.laws import law_of
from dpnotebook.query.question import Question
from dpnotebook.sql.aggregates.lost_values import lost_between
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram
from dpnotebook.sql.aggregates.value_range import found_bins

WARDS = [f"ward {i}" for i in range(4)]
WIDE = 1_000_000
GAUSSIAN, PURE = dpn.Budget(4.0, 1e-6), dpn.Budget(4.0)
BUDGETS = pytest.mark.parametrize("budget", [GAUSSIAN, PURE], ids=["gaussian", "pure"])
MEANS = "SELECT ward, AVG(cost) AS x FROM visits GROUP BY ward"


def visits(size=20_000, most=12, seed=5):
    """Return rows whose costs are mostly below 10,000; a unit has one to twelve of them, or each is one."""
    random = np.random.default_rng(seed)
    unit = np.repeat(np.arange(size), np.minimum(random.geometric(0.4, size), most))[:size]
    cost = np.round(np.exp(random.normal(6, 1.3, size)), 2)
    return pd.DataFrame({"who": unit, "ward": random.choice(WARDS, size), "age": random.integers(0, 100, size)}).assign(
        cost=cost, other=random.normal(50, 10, size)
    )


def opened(frame, budget=GAUSSIAN, most=None, **domain):
    """Return a session in which costs are declared wide; with `most` rows of each unit, if that is said."""
    session = dpn.Session(budget, ":memory:", confirm="never")
    declared = {"ward": WARDS, "age": dpn.Range(0, 115), "cost": dpn.Bins(0, WIDE, width=1_000, unit="dollars")}
    unit = {} if most is None else {"unit": "who", "max_rows": most}
    session.protect(frame, "visits", domain=declared | domain, **unit)
    return session


def is_planned(query):
    """Return whether the planner answers it."""
    return isinstance(query.question, Question)


def within(query):
    """Return inside what the bounds of a statement's aggregate are to be found; None where they are declared."""
    return None if is_planned(query) else query.question.selects[0].aggregates[0].within


def found_between(session):
    """Return between which values rows were found to lie."""
    found = session.profile()
    return float(found["low"].iloc[-1]), float(found["high"].iloc[-1])


@pytest.mark.one_in(6)
@BUDGETS
@pytest.mark.parametrize("what", ["AVG", "SUM"])
def test_noise_is_for_where_values_lie(what, budget, same_noise):
    """Five times closer than for all that is declared, or thirty: and right, but for what the bounds take."""
    frame = visits()
    text = f"SELECT ward, {what}(cost) AS x FROM visits GROUP BY ward"
    with closing(opened(frame, budget)) as session:
        auto, declared = session.sql(text, epsilon=0.5, bounds="auto"), session.sql(text, epsilon=0.5)
        assert (is_planned(auto), is_planned(declared)) == (False, True)
        whole, inside = declared.run().frame, auto.run().frame
        low, high = found_between(session)
    assert 0 <= low < high < WIDE / 10
    assert inside["x_std_error"].max() * 5 < whole["x_std_error"].min()
    clipped = frame.assign(cost=frame["cost"].clip(low, high)).groupby("ward")["cost"]
    exact = clipped.mean() if what == "AVG" else clipped.sum()
    assert (np.abs(inside["x"] - exact.to_numpy()) < 5.5 * inside["x_std_error"]).all()


@pytest.mark.one_in(2)
@BUDGETS
def test_of_many_rows_that_is_found_without_being_asked(budget, same_noise):
    """As the statement is measured by itself there anyway; of ages, which are not so wide, for a centre."""
    frame = visits()
    with closing(opened(frame, budget, 12)) as session:
        amounts, ages = (session.sql(MEANS.replace("cost", of), epsilon=0.5) for of in ("cost", "age"))
        declared = session.sql(MEANS, epsilon=0.5, bounds="declared")
        assert within(amounts) == (0, WIDE)
        assert within(ages) == ((0, 115) if budget.delta else None)
        inside = amounts.run().frame
        low, high = found_between(session)
        assert (low, high) == (0, WIDE) if budget.delta else high < WIDE / 10  # noise on vectors is of their length
        whole = declared.run().frame
    assert inside["x_std_error"].max() * 10 < whole["x_std_error"].min()
    assert (np.abs(inside["x"] - frame.groupby("ward")["cost"].mean().to_numpy()) < 0.4 * frame["cost"].mean()).all()


@pytest.mark.one_in(8)
@BUDGETS
@pytest.mark.parametrize(("most", "what"), [(None, "AVG"), (12, "AVG"), (None, "SUM")])
def test_the_error_is_in_proportion_as_the_card_says(budget, most, what, same_noise):
    """To how far values lie apart, or reach from 0, or are spread; groups are of 5,000 rows, a card says 1,000."""
    clipped, frame = most is not None and budget.delta > 0, visits()
    with closing(opened(frame, budget, most)) as session:
        query = session.sql(f"SELECT ward, {what}(cost) AS x FROM visits GROUP BY ward", epsilon=0.5, bounds="auto")
        (part,) = query.plan.parts
        error = 1.96 * query.run().frame["x_std_error"].max()
        low, high = found_between(session)
    reach = high - low if what == "AVG" else high
    declared = WIDE, "that values lie apart" if what == "AVG" else "that values reach from 0"
    if clipped:
        reach, declared = frame["cost"].std(), (WIDE / 2, "of their standard deviation")
    assert part.reach == declared
    assert error < 1.3 * part.between[1] / declared[0] * reach
    assert error > part.between[0] / declared[0] * reach / 10


@pytest.mark.one_in(4)
@BUDGETS
@pytest.mark.parametrize("most", [None, 12], ids=["one row", "several"])
def test_of_all_rows_too_where_noise_hides_the_tails(budget, most, same_noise):
    """As far as tails are looked at is a tenth of what is declared: it held as a whole, four to twenty times wider."""
    frame = visits()
    with closing(opened(frame, budget, most)) as session:
        answers = [
            session.sql("SELECT AVG(cost) AS x FROM visits", epsilon=0.1, bounds=bounds).run().frame
            for bounds in ("auto", "declared")
        ]
    error, whole = (answer["x_std_error"][0] for answer in answers)
    assert error * 4 < whole
    assert abs(answers[0]["x"][0] - frame["cost"].mean()) < 5.5 * error + 0.05 * frame["cost"].mean()


@BUDGETS
def test_bounds_stay_inside_what_is_declared(budget, same_noise):
    """Also where most values do not: these count as the nearest bound, as they do for the planner."""
    with closing(opened(visits(), budget, cost=dpn.Bins(100, 400, width=1))) as session:
        answer = session.sql("SELECT AVG(cost) AS x FROM visits", epsilon=1.0, bounds="auto").run().frame
        low, high = found_between(session)
    assert 100 <= low < high <= 400
    exact = visits()["cost"].clip(low, high).mean()
    assert abs(answer["x"][0] - exact) < 5.5 * answer["x_std_error"][0]


@BUDGETS
@pytest.mark.parametrize("most", [None, 12], ids=["one row", "several"])
def test_where_noise_hides_them_all_that_is_declared_holds(budget, most, same_noise):
    """Twenty rows at epsilon 0.01 tell nothing: the answer has the noise of the whole, and is there."""
    with closing(opened(visits(20), budget, most)) as session:
        query = session.sql("SELECT AVG(cost) AS x FROM visits", epsilon=0.01, bounds="auto")
        assert any("with fewer those that are declared hold" in said for said in query.plan.warnings) == (
            most is None or budget is PURE
        )
        answer = query.run().frame
    assert np.isfinite(answer[["x", "x_std_error"]].to_numpy()).all()
    assert answer["x_std_error"][0] > WIDE / 10


def test_before_it_runs_the_error_is_at_most_that_of_the_whole():
    """A preview has read nothing: it says what it would be at worst, and that it is mostly less."""
    with closing(opened(visits())) as session:
        auto, declared = (session.sql(MEANS, epsilon=0.5, bounds=bounds).plan for bounds in ("auto", "declared"))
        (part,) = auto.parts
        assert part.may_be_less
        assert part.between[1] == pytest.approx(declared.error, rel=0.2)
        assert "dollars for each 10,000 that values lie apart" in str(auto)
        assert "between which values they lie is found at the first run: at most ±" in str(auto)


def test_an_error_is_planned_for_once_they_are_known(same_noise):
    """Before that a small first look is offered, as its price is not known."""
    with closing(opened(visits(), GAUSSIAN, 12)) as session:
        assert session.sql(MEANS, error=200).plan.rest is not None
        with pytest.raises(AccuracyError, match="number of rows"):
            _ = session.sql(MEANS, error=200, fresh=True).plan
        session.sql(MEANS, epsilon=0.2).run()
        after = session.sql(MEANS, error=200)
        assert within(after) == (0, WIDE)
        assert after.plan.cost.epsilon < 0.5
        assert after.run().frame["x_std_error"].max() * 1.96 < 200 * 1.03  # sizes of groups are known to 1 or 2%


def test_what_was_paid_for_with_declared_bounds_stays_free(same_noise):
    """As earlier versions recorded it; asked with more, it is found where the values are."""
    with closing(opened(visits(), GAUSSIAN, 12)) as session:
        paid = session.sql(MEANS, epsilon=0.2, bounds="declared").run()
        again = session.sql(MEANS, epsilon=0.2)
        assert again.plan.free
        pd.testing.assert_frame_equal(again.run().frame, paid.frame)
        assert within(session.sql(MEANS, epsilon=0.3)) == (0, WIDE)


class TestVerbs:
    """`bounds="auto"` of sums and means of `df.dp`."""

    @BUDGETS
    def test_they_ask_the_same(self, budget, same_noise):
        """One release answers the verb and the statement."""
        frame = visits()
        with closing(opened(frame, budget)) as session:
            query = frame.dp.groupby("ward").mean("cost", bounds="auto", epsilon=0.5)
            release = query.run()
            assert list(release.frame) == ["ward", "value", "std_error", "lower", "upper"]
            assert session.sql(MEANS, epsilon=0.5, bounds="auto").plan.free
            code = session.code(release.number)
            assert "bounds='auto'" in code
            assert eval(code, {"session": session}).plan.free
            total = frame.dp.sum("cost", bounds="auto", where="ward == 'ward 1'", epsilon=0.5).run()
        exact = frame.loc[frame["ward"] == "ward 1", "cost"].sum()
        assert abs(total.value - exact) < 0.2 * exact
        assert (np.abs(release["value"] - frame.groupby("ward")["cost"].mean().to_numpy()) < 200).all()

    def test_a_column_need_not_be_declared(self, same_noise):
        """Its bounds are found then as in SQL."""
        frame = visits()
        with closing(opened(frame)):
            assert abs(frame.dp.mean("other", bounds="auto", epsilon=0.5).run().value - 50) < 1

    def test_what_does_not_go_together_is_said(self):
        """And nothing is spent."""
        frame = visits(100)
        with closing(opened(frame)) as session:
            with pytest.raises(DomainError, match="has no granularity="):
                frame.dp.sum("cost", bounds="auto", granularity=1, epsilon=0.1)
            with pytest.raises(DomainError, match="has no objective="):
                frame.dp.mean("cost", bounds="auto", objective="worst", epsilon=0.1)
            with pytest.raises(DomainError, match="of numbers"):
                frame.dp.mean("ward", bounds="auto", epsilon=0.1)
            with pytest.raises(SQLError, match="bounds= is 'auto', 'declared' or left out"):
                session.sql(MEANS, epsilon=0.1, bounds=(0, 100))
            assert session.spent.epsilon == 0


class TestHint:
    """The card of a sum or a mean says that there are closer bounds, where there may be."""

    HINT = "If most lie well inside"

    def said(self, query):
        """Return the warnings with the hint."""
        return [text for text in query.plan.warnings if self.HINT in text]

    def test_where_there_may_be(self):
        """In pandas and in SQL; not of groups that SQL does not have."""
        frame = visits(1_000)
        with closing(opened(frame)) as session:
            for query in (
                frame.dp.mean("cost", epsilon=0.1),
                frame.dp.sum("cost", epsilon=0.1),
                session.sql(MEANS, epsilon=0.1),
            ):
                (text,) = self.said(query)
                assert "from 0 to 1,000,000 dollars" in text
                assert "bounds='auto'" in text
            (text,) = self.said(frame.dp.groupby("cost").mean("cost", epsilon=0.1))
            assert "auto" not in text

    def test_where_there_are_none(self):
        """Of ages, of bounds that were given, of noise that is nothing, and of what is free."""
        frame = visits(1_000)
        with closing(opened(frame)):
            assert not self.said(frame.dp.mean("age", epsilon=0.1))
            assert not self.said(frame.dp.mean("cost", bounds=(0, 10_000), epsilon=0.1))
            assert not self.said(frame.dp.count(epsilon=0.1))
            assert not self.said(frame.dp.mean("cost", epsilon=0.1).assuming(rows=10**9))
            frame.dp.mean("cost", epsilon=0.1).run()
            assert not self.said(frame.dp.mean("cost", epsilon=0.1))

    def test_where_a_release_tells_it_has_a_number(self, same_noise):
        """A histogram of the column shows between which values they lie: those that are then advised hold most rows."""
        frame = visits()
        with closing(opened(frame)) as session:
            frame.dp.histogram("cost", epsilon=0.5).run()
            queries = frame.dp.mean("cost", epsilon=2), frame.dp.sum("cost", epsilon=2), session.sql(MEANS, epsilon=2)
            for query in queries:
                (text,) = [said for said in query.plan.warnings if "noise is for values" in said]
                share = int(re.search(r"Release #1 has (9\d) of 100 rows between 0 and ", text).group(1))
                low, high = eval(re.search(r"bounds=(\(.*?\))", text).group(1))
                assert frame["cost"].between(low, high).mean() > share / 100 - 0.01
                assert high < WIDE / 50
                times = int(re.search(r"up to (\d+) times", text).group(1))
                assert times == round(WIDE / high)
            advised = frame.dp.mean("cost", bounds=(low, high), epsilon=2)
            assert advised.plan.error * times / 3 < queries[0].plan.error
            assert not self.said(advised)

    def test_where_noise_hides_the_number_or_nothing_is_wide(self, same_noise):
        """The hint is what it was, or none."""
        frame = visits()
        with closing(opened(frame)):
            frame.dp.histogram("cost", epsilon=0.02).run()
            assert self.said(frame.dp.mean("cost", epsilon=0.1))
        with closing(opened(frame, cost=dpn.Bins(0, 20_000, width=1_000))):
            assert self.said(frame.dp.sum("cost", epsilon=0.1))
            frame.dp.histogram("cost", epsilon=0.5).run()
            assert not any("noise is for values" in said for said in frame.dp.sum("cost", epsilon=2).plan.warnings)


class TestSeveralAtOnce:
    """`agg`, `describe` and spreads of `df.dp` take `bounds="auto"` as sums and means do."""

    ASKED = ("count", "mean", "median", "std", "sum")

    @pytest.mark.one_in(6)
    @BUDGETS
    @pytest.mark.parametrize("most", [None, 12], ids=["one row", "several"])
    def test_what_agg_says_is_near(self, budget, most, same_noise):
        """Of 20,000 costs below 10,000 and a declaration of a million, by which they would be 100 times as far off."""
        frame = visits()
        with closing(opened(frame, budget, most)) as session:
            release = frame.dp.agg({"cost": list(self.ASKED)}, bounds="auto", epsilon=3.0).run()
            code = session.code(release.number)
            assert "bounds='auto'" in code
            assert eval(code, {"session": session}).plan.free
            told = release.frame.iloc[0]
            again = frame.dp["cost"].agg(list(self.ASKED), bounds="auto", epsilon=3.0)
            assert again.plan.free
        exact = frame["cost"].agg(list(self.ASKED))
        assert told["cost_std"] < WIDE / 20  # noise hides it where several rows of a unit count
        near = {"count": 0.2, "mean": 0.4, "median": 0.5, "sum": 0.5} | ({"std": 0.9} if most is None else {})
        for name, part in near.items():
            assert abs(told[f"cost_{name}"] - exact[name]) < part * exact[name], name

    def test_names_groups_and_columns_that_are_not_declared(self, same_noise):
        """As with declared bounds."""
        frame = visits()
        with closing(opened(frame)):
            asked = {"n": ("cost", "size"), "usual": ("other", "mean"), "high": ("other", "90%")}
            shown = frame.dp.groupby("ward").agg(**asked, bounds="auto", epsilon=1.0).run().frame
            assert shown["ward"].tolist() == WARDS
            assert (np.abs(shown["usual"] - 50) < 1).all()
            assert (np.abs(shown["high"] - frame["other"].quantile(0.9)) < 2).all()

    @pytest.mark.one_in(2)
    @BUDGETS
    def test_quartiles_are_read_off_bins_where_values_lie(self, budget, same_noise):
        """Bins of a million are 1,953 wide: a median of 400 was 1,100 then."""
        frame = visits()
        with closing(opened(frame, budget)):
            shown = frame.dp.describe(["cost", "other"], bounds="auto", epsilon=1.0).run().frame.iloc[0]
        for column in ("cost", "other"):
            for fraction in (0.25, 0.5, 0.75):
                exact, name = frame[column].quantile(fraction), f"{column}_{fraction:.0%}"
                assert abs(shown[name] - exact) < 0.15 * exact
                assert shown[f"{name}_std_error"] < 0.15 * exact

    def test_spreads_look_inside_where_that_is_asked(self, same_noise):
        """Of ages, which is not done unasked; and not where it is forbidden."""
        frame = visits().assign(age=lambda rows: rows["age"] % 10)
        with closing(opened(frame)) as session:
            asked = {bounds: frame.dp.std("age", bounds=bounds, epsilon=0.5) for bounds in (None, "auto", "declared")}
            assert [within(query) for query in asked.values()] == [None, (0, 115), None]
            assert within(frame.dp.var("cost", bounds="declared", epsilon=0.5)) is None
            assert within(frame.dp.agg({"cost": "sem"}, bounds="auto", epsilon=0.5)) == (0, WIDE)
            auto, declared = (asked[bounds].run() for bounds in ("auto", "declared"))
            assert abs(auto.value - frame["age"].std()) < 0.2
            assert auto.frame["std_error"][0] * 3 < declared.frame["std_error"][0]
            assert "bounds='auto'" in session.code(auto.number)

    def test_what_does_not_go_together_is_said(self):
        """And nothing is spent."""
        frame = visits(100)
        with closing(opened(frame)) as session:
            for ask in (frame.dp.describe, partial(frame.dp.agg, {"cost": "mean"})):
                with pytest.raises(DomainError, match="has no objective="):
                    ask(bounds="auto", objective="worst", epsilon=0.1)
                with pytest.raises(DomainError, match="bounds= is 'auto', 'declared' or left out here"):
                    ask(bounds=(0, 100), epsilon=0.1)
            with pytest.raises(DomainError, match="bounds= is 'auto', 'declared' or left out here"):
                frame.dp.std("cost", bounds=(0, 100), epsilon=0.1)
            with pytest.raises(DomainError, match="of numbers"):
                frame.dp.agg({"ward": "mean"}, bounds="auto", epsilon=0.1)
            assert session.spent.epsilon == 0


def test_a_declared_column_is_hardly_worse_than_one_that_is_not(same_noise):
    """Deviations fell back on all that is declared in half of the sessions, with intervals seven times as long."""
    random = np.random.default_rng(8)
    pay = 2_400 * np.exp(0.14 * random.integers(0, 12, 6_000) + random.normal(0, 0.15, 6_000))
    frame = pd.DataFrame({"pay": pay.round(2), "k": "a"})
    lengths, held = {}, 0
    for name, domain in (("declared", {"pay": dpn.Bins(0, 40_000, width=250)}), ("not", {"k": ["a"]})):
        found = []
        for _ in range(9):
            with closing(dpn.Session(GAUSSIAN, ":memory:", confirm="never")) as session:
                session.protect(frame.copy(), "people", domain=domain)
                answer = session.sql("SELECT STDDEV(pay) AS v FROM people WHERE pay + 0 >= 0", epsilon=0.4).run().frame
            held += answer["v_lower"][0] < frame["pay"].std() < answer["v_upper"][0]
            found.append(answer["v_upper"][0] - answer["v_lower"][0])
        lengths[name] = float(np.median(found))
    assert held >= 15  # of 18
    assert lengths["declared"] < 2.5 * lengths["not"]


def test_nothing_is_taken_from_beyond_what_is_declared():
    """A law of a tail that knows no end told that bounds take from sums what no values between declared ones have."""
    edges = np.concatenate([np.linspace(0.0, 2_000.0, 13), 2_000.0 * 1.35 ** np.arange(1, 9)])
    counts = 40.0 * np.exp(-np.arange(edges.size - 1) / 3.0)
    told = partial(
        lost_between, NoisyHistogram(counts, 8.0, edges).with_found(0, 6), 0.0, 1_000.0, squares=False, heavy=True
    )
    apart, ended = told(), told(ends=(0.0, float(edges[-1])))
    assert 0.0 < ended.about <= ended.most < apart.most
    share = counts[6:].clip(0.0).sum() + 4 * 8.0 * (counts.size - 6)
    assert ended.most < share * (edges[-1] - 1_000.0) / counts[:6].sum()


@pytest.mark.one_in(2)
@BUDGETS
@pytest.mark.parametrize("declared", [(3, 4), (0, 1), (-1_000, 0)])
def test_values_far_from_all_that_is_declared_fail_nothing(declared, budget):
    """So few bins lie between such bounds that a histogram told nothing, and the answer failed after its charge."""
    random = np.random.default_rng(6)
    frame = pd.DataFrame({"x": random.pareto(1, 3_000) * 1_000, "y": random.normal(size=3_000)})
    low, high = declared
    with closing(dpn.Session(budget, ":memory:", confirm="never")) as session:
        session.protect(
            frame, "rows", domain={"x": dpn.Bins(low, high, width=(high - low) / 10), "y": dpn.Range(-5, 5)}
        )
        for asked, least, most in (
            ("AVG(x)", low, high),
            ("VAR_POP(x)", 0, (high - low) ** 2 / 4),
            ("STDDEV_POP(x)", 0, (high - low) / 2),
            ("CORR(x, y)", -1, 1),
        ):
            statement = f"SELECT {asked} AS v FROM rows WHERE x + 0 >= 0 AND y + 0 < 9"
            answer = session.sql(statement, epsilon=0.5).run().frame["v"][0]
            assert np.isnan(answer) or least <= answer <= most


def test_intervals_hold_what_is_beyond_all_bins_and_declared():
    """Bins end at twelve times the largest order of magnitude; values of a power law do where they are declared to."""
    random, held = np.random.default_rng(8), 0
    for _ in range(24):
        x = (100.0 * (1.0 - random.random(20_000)) ** -0.5).clip(0, 40_000)
        with closing(dpn.Session(dpn.Budget(1.0), ":memory:", confirm="never")) as session:
            session.protect(pd.DataFrame({"x": x}), "pay", domain={"x": dpn.Bins(0, 40_000, width=100)})
            answer = session.sql("SELECT STDDEV_POP(x) AS s FROM pay", epsilon=0.3).run().frame
        held += answer["s_lower"][0] <= x.std() <= answer["s_upper"][0]
    assert held >= 16  # fewer than one in 10^4 times where 90% hold; 35% did


def test_what_bounds_take_is_told_where_each_of_many_bins_is_hidden():
    """Of 60% zeros at epsilon .05: a law was fitted to noise in the next bins, and intervals ended below the mean."""
    edges = np.concatenate([np.linspace(0.0, 1_020.0, 13), 1_020.0 + 900.0 * 1.35 ** np.arange(8)])
    counts = np.array([5_930, 400, 620, 600, 480, 420, 310, 250, 220, 170, 110, 100, 390] + [0] * 7, dtype=float)
    places, scale, random = (edges[1:] + edges[:-1]) / 2, 450.0, np.random.default_rng(4)
    taken, held = float(np.maximum(places - 85.0, 0.0) @ counts / counts.sum()), []
    for _ in range(400):
        noisy = counts + random.laplace(0.0, scale / np.sqrt(2), counts.size)
        found = found_bins(NoisyHistogram(noisy, scale, edges, law_of("laplace").tail_ratio), squares=False)
        if found is not None and (found.first, found.end) == (0, 1):
            told = lost_between(NoisyHistogram(noisy, scale, edges).with_found(0, 1), 0.0, 85.0, squares=False)
            held.append(told.most >= taken)
    assert len(held) > 100
    assert np.mean(held) > 0.9  # .77 were


@BUDGETS
def test_what_lies_beyond_declared_bounds_is_not_said_to_be_little(budget, same_noise):
    """Three in a thousand values are far beyond what is declared, which moves a mean by as much as it is."""
    frame = visits()
    frame.loc[::300, "cost"] = 400_000.0
    with closing(opened(frame, budget, most=12, cost=dpn.Bins(0, 20_000, width=100))) as session:
        query = session.sql("SELECT AVG(cost) AS x FROM visits", epsilon=2.0)
        (note,) = (one for one in query.run().notes if "values are taken to be between" in one)
        again = session.sql("SELECT AVG(cost) AS x FROM visits WHERE age < 50", epsilon=1.0).plan
    for said in (note, *(one for one in again.warnings if "values are taken to be between" in one)):
        assert "hardly any" not in said
        assert said.endswith("values beyond what is declared count as the nearest that is, however many there are")


def test_of_truth_values_nothing_is_beyond_what_is_declared(same_noise):
    """They are 0 or 1 whatever is declared, so nothing is said."""
    with closing(opened(visits(), most=12)) as session:
        notes = (
            session.sql("SELECT AVG(CASE WHEN age > 50 THEN 1.0 ELSE 0.0 END) AS x FROM visits", epsilon=2.0)
            .run()
            .notes
        )
    assert not [one for one in notes if "beyond what is declared" in one]
