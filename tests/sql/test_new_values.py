"""COUNT(DISTINCT column): it is found how many values of a person count, what that costs, tells and chooses."""

import math
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from added_up import connect, connect_postgres, select
from private_selects import aggregate

import dpnotebook as dpn
from dpnotebook.planner.plan import KEPT
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.laws import draw_integers
from dpnotebook.sql.aggregates.budget_split import shares
from dpnotebook.sql.aggregates.distinct_values import MOST_VALUES
from dpnotebook.sql.aggregates.new_values import NewValues
from dpnotebook.sql.aggregates.row_histogram import RowHistogram, row_edges
from dpnotebook.sql.statement_json import statement_from_json
from dpnotebook.sql.values_profile import measured_new_values

LAPLACE, GAUSSIAN = accountant_for(dpn.Budget(1.0)), accountant_for(dpn.Budget(1.0, 1e-6))
OUTCOMES = ["plea", "dismissed", "convicted"]


def cases(people=6_000, seed=2, judges=90):
    """Return cases of people, each with a number of its own, a judge whom many share, and a lawyer whom few do."""
    random = np.random.default_rng(seed)
    many = np.minimum(
        random.geometric(0.5, people) + (random.random(people) < 0.02) * random.integers(5, 20, people), 30
    )
    who = np.repeat(np.arange(people), many)
    return pd.DataFrame(
        {
            "who": who,
            "number": np.arange(who.size) + 10**6,
            "judge": random.integers(0, judges, who.size),
            "lawyer": random.integers(0, who.size // 2, who.size),
            "outcome": random.choice(OUTCOMES, who.size, p=[0.6, 0.3, 0.1]),
        }
    )


CASES = cases()


def opened(budget, frame=CASES, **options):
    session = dpn.Session(budget, ":memory:", confirm="never")
    session.protect(frame, "cases", unit="who", domain={"outcome": OUTCOMES}, **options)
    return session


def sought(keys=0, **more):
    """Return a private aggregation that counts different values of the first input."""
    return select(keys, kind="rows", aggregates=(aggregate("different values"),), **{"selection": "all"} | more)


def nothing(law, scale, size):
    return np.zeros(size, dtype=np.int64)


def measured(chosen, run, draw=nothing, accountant=LAPLACE):
    """Return what is found of different values by what runs SQL over rows, and what is recorded of that."""
    costs = shares(chosen, UNITS, accountant)
    clips, told = measured_new_values(chosen, costs, accountant, [0], "secret", run, draw)
    (found,) = told.values()
    return clips[0], NewValues.from_json(found)


# Privacy


@pytest.mark.parametrize("seed", range(6))
def test_one_person_is_one_in_the_histogram_and_two_among_second_values(seed):
    """Exactly, whatever a person has: one bin has one less, and there are two more or one less second values."""
    random = np.random.default_rng(seed)
    sizes = random.choice([1, 1, 2, 3, 4, 9, 30], 25)
    unit = np.repeat(np.arange(sizes.size), sizes)
    x = np.where(random.random(unit.size) < 0.5, random.integers(0, 6, unit.size), random.integers(0, 400, unit.size))
    rows = pd.DataFrame({"u": unit.astype(str), "k0": random.choice(["a", "b"], unit.size), "x0": x.astype(float)})
    rows.loc[random.random(unit.size) < 0.1, "x0"] = np.nan
    chosen = sought(keys=seed % 2, **({"selection": "threshold"} if seed % 2 else {}))
    whole = measured(chosen, connect(rows))[1]
    by = ["u", "k0", "x0"] if seed % 2 else ["u", "x0"]
    has = rows.dropna().drop_duplicates(by).groupby("u").size()
    np.testing.assert_array_equal(whole.told.counts, np.histogram(has, row_edges(MOST_VALUES))[0])
    for one in np.unique(unit.astype(str)):
        less = measured(chosen, connect(rows[rows.u != one].reset_index(drop=True)))[1]
        gone = np.array(whole.told.counts) - np.array(less.told.counts)
        assert (gone.min(), gone.sum()) == (0, int(one in has.index))
        assert -1 <= whole.more - less.more <= 2


def _gaussian_cost(changed, scale):
    return GAUSSIAN.law.cost(changed**2 / GAUSSIAN.law.variance(scale))


@pytest.mark.parametrize("accountant", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_what_it_finds_costs_what_is_set_aside(accountant):
    """The noise on both numbers costs what the shares give for finding, at most, and nearly all of it."""
    chosen, law = sought(), accountant.law
    scales = []

    def draw(noise, scale, size):
        scales.append((scale, size))
        return draw_integers(noise, scale, size)

    measured(chosen, connect(pd.DataFrame({"u": ["a"], "x0": [1.0]})), draw, accountant)
    (bins, of_bins), (second, of_one) = scales
    assert (of_bins, of_one) == (len(row_edges(MOST_VALUES)) - 1, 1)
    exact = (lambda changed, scale: changed / scale) if law.power == 1 else _gaussian_cost
    cost = float(exact(1, bins) + exact(2, second))
    assert 0.99 <= cost / (shares(chosen, UNITS, accountant).auto[0] / UNITS) <= 1.0 + 1e-9


def test_they_are_read_off_noisy_numbers():
    """What is recorded of many draws is spread as the scales say."""
    chosen = sought()
    run = cache(connect(pd.DataFrame({"u": ["a", "a", "b"], "x0": [1.0, 2.0, 1.0]})))  # each draw asks the same of it
    drawn = [measured(chosen, run, draw_integers)[1] for _ in range(300)]
    for numbers, scale in (
        (np.array([one.told.counts for one in drawn])[:, 5:], drawn[0].told.scale),
        (np.array([one.more for one in drawn]), drawn[0].scale),
    ):
        spread = math.sqrt(LAPLACE.law.variance(scale))
        assert numbers.std() == pytest.approx(spread, rel=5 * 1.2 / math.sqrt(numbers.size))


def test_postgresql_finds_the_same(postgres):
    """How many different values people have, and how many of these are new, with keys and without."""
    random = np.random.default_rng(4)
    unit = np.repeat(np.arange(30), random.integers(1, 9, 30)).astype(str)
    x = random.integers(0, 40, unit.size)
    rows = pd.DataFrame({"u": unit, "k0": random.choice(["a", "b", "c"], unit.size), "x0": x})
    kinds = {"u": "text", "k0": "text", "x0": "bigint"}
    with connect_postgres(postgres, "people_values", kinds, rows.itertuples(index=False, name=None)) as run:
        for keys in (0, 1):
            chosen = sought(keys=keys, **({"selection": "threshold"} if keys else {}))
            there = replace(chosen, rows=chosen.rows.replace('"the table"', "people_values"), tables=("people_values",))
            found, mine = measured(there, run)[1], measured(chosen, connect(rows))[1]
            assert (found.told.counts, found.more) == (mine.told.counts, mine.more)


# What it chooses


@pytest.mark.one_in(2)
@pytest.mark.parametrize("budget", [dpn.Budget(50.0, 1e-6), dpn.Budget(50.0)], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("column", ["number", "judge", "lawyer"])
def test_values_of_ones_own_and_values_that_are_shared_are_counted(budget, column):
    """Intervals hold, and answers are as near as noise on as many values as people have lets them be."""
    exact, held, errors = CASES[column].nunique(), 0, []
    for _ in range(24):
        with closing(opened(budget)) as session:
            release = session.sql(f"SELECT COUNT(DISTINCT {column}) AS n FROM cases", epsilon=1.0).run()
            told = release.frame.iloc[0]
            held += told["n_lower"] <= exact <= told["n_upper"]
            errors.append(abs(told["n"] - exact))
    assert held >= 18  # by chance alone fewer are once in 8,000
    assert np.median(errors) < (40 if column == "judge" else 0.06 * exact)


def test_by_groups_each_has_its_own():
    exact = CASES.groupby("outcome")["number"].nunique()
    held, parts = [], []
    for _ in range(24):
        with closing(opened(dpn.Budget(50.0, 1e-6))) as session:
            query = "SELECT outcome, COUNT(DISTINCT number) AS n FROM cases GROUP BY outcome"
            frame = session.sql(query, epsilon=1.0).run().frame.set_index("outcome")
            true = exact.loc[frame.index]
            held += list((frame["n_lower"] <= true) & (true <= frame["n_upper"]))
            parts.append(frame["n"] / true)
    assert len(held) == 24 * len(OUTCOMES)
    assert np.mean(held) >= 0.83  # .96 are: fewer are less than once in 10,000 times
    assert (pd.concat(parts, axis=1).median(axis=1) > 0.9).all()  # of one alone noise may hide how many values count


def test_who_has_more_than_is_declared_is_not_waited_for():
    """No one is taken to have more different values than rows: the interval ends where these would."""
    with closing(opened(dpn.Budget(50.0, 1e-6), CASES.groupby("who").head(2), max_rows=2)) as session:
        release = session.sql("SELECT COUNT(DISTINCT number) AS n FROM cases", epsilon=1.0).run()
        assert int(statement_from_json(session.ledger.get(1).plan["statement"]).selects[0].aggregates[0].values[1]) == 2
        told = release.frame.iloc[0]
        exact = CASES.groupby("who").head(2)["number"].nunique()
        assert told["n_lower"] <= exact <= told["n_upper"] <= 1.1 * exact


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_as_many_count_as_make_the_error_least(share):
    """Of people with up to 30 values of which a part is new: near the best in hindsight, as numbers tell it."""
    random, scale, noise = np.random.default_rng(8), Fraction(20), 12.0
    times, held = [], 0
    for _ in range(40):
        many = np.minimum(random.geometric(0.3, 20_000), 30)
        counts = np.histogram(many, row_edges(MOST_VALUES))[0]
        noisy = tuple(map(int, counts + draw_integers("laplace", scale, counts.size)))
        more = int(share * (many > 1).sum()) + int(draw_integers("laplace", 2 * scale, 1)[0])
        counted, missed = NewValues(RowHistogram(MOST_VALUES, noisy, scale, "laplace", 1), more, 2 * scale).to_count(
            noise, 1
        )
        lacking = {n: share * np.maximum(many - n, 0).sum() for n in {*range(1, 50), counted}}
        errors = {n: math.hypot(noise * n, lacks) for n, lacks in lacking.items()}
        times.append(errors[counted] / min(errors.values()))
        held += missed.most >= lacking[counted]
    assert np.median(times) <= 1.4
    assert (
        np.sum(np.array(times) > 4) <= 7
    )  # one in 28 is: noise hides how many values are new; more are in 1 of 10,000
    assert held >= 38  # 599 of 600 are


@pytest.mark.parametrize("groups", [4, 30, 200])
def test_of_groups_that_nobody_declared_no_noise_is_paid_for_all_in_one(groups):
    """How many there are is hidden: between one and as many as can be shown, no number is far from the best."""
    random, scale, noise = np.random.default_rng(9), Fraction(20), 10.0
    times = []
    for _ in range(20):
        many = np.clip(np.round(random.lognormal(0.8, 1.0, 20_000)).astype(int), 1, 400)
        counts = np.histogram(many, row_edges(MOST_VALUES))[0]
        noisy = tuple(map(int, counts + draw_integers("laplace", scale, counts.size)))
        more = int((many > 1).sum() + draw_integers("laplace", 2 * scale, 1)[0])
        found = NewValues(RowHistogram(MOST_VALUES, noisy, scale, "laplace", 1), more, 2 * scale)
        counted, _ = found.to_count(noise, None)
        assert found.suits(noise, None, counted)
        lacking = {n: np.maximum(many - n, 0).sum() / groups for n in {*range(1, 100), counted}}
        errors = {n: math.hypot(noise * n, lacks) for n, lacks in lacking.items()}
        times.append(errors[counted] / min(errors.values()))
    assert np.median(times) <= 3.0


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_as_many_still_suit_where_there_is_half_the_noise(law):
    """Sharper statements pay the difference then; with a hundredth of the noise many more are worth it."""
    random, scale, noise = np.random.default_rng(10), Fraction(20), 10.0
    suits = []
    for _ in range(40):
        counts = np.histogram(random.geometric(0.35, 10_000), row_edges(MOST_VALUES))[0]
        noisy = tuple(map(int, counts + draw_integers(law, scale, counts.size)))
        found = NewValues(RowHistogram(MOST_VALUES, noisy, scale, law, 1), 6_500, 2 * scale)
        counted, _ = found.to_count(noise, 1)
        suits.append([found.suits(noise * times, 1, counted) for times in (1.0, 0.5)])
        assert not found.suits(noise / 100, 1, 2)
    same, half = np.mean(suits, axis=0)
    assert same == 1.0
    assert half >= 0.8


# What is known is used again


def test_a_later_statement_uses_what_was_found():
    with closing(opened(dpn.Budget(50.0, 1e-6))) as session:
        first = session.sql("SELECT COUNT(DISTINCT number) AS n FROM cases", epsilon=1.0)
        with pytest.raises(dpn.AccuracyError, match="how many different values one unit has"):
            _ = session.sql("SELECT COUNT(DISTINCT number) AS n FROM cases", variance=1e4).plan
        error = first.run().frame["n_std_error"][0]
        again = session.sql("SELECT COUNT(DISTINCT number) AS n FROM cases", epsilon=1.0)
        assert again.plan.free
        sharper = session.sql("SELECT COUNT(DISTINCT number) AS n FROM cases", epsilon=2.0)
        assert not sharper.plan.profiles
        assert sharper.run().frame["n_std_error"][0] < error
        asked = session.sql("SELECT COUNT(DISTINCT number) AS n FROM cases", error=60)
        most = asked.plan.rest.epsilon  # for more than four times the budget, with as many values as are known
        found = asked.run()
        assert found.paid <= most
        reach = (found.frame["n_upper"][0] - found.frame["n_lower"][0]) / 2
        assert reach <= (60 * KEPT if not any("not kept" in note for note in found.notes) else 600)


@pytest.mark.parametrize("condition", ["outcome = 'convicted'", "outcome IN ('convicted', 'plea')"])
def test_of_some_groups_of_a_release_as_much_is_missed(condition):
    """Free answers have the interval of what they are answered from, with what no unit stands for."""
    query = "SELECT outcome, COUNT(DISTINCT number) AS n FROM cases {} GROUP BY outcome"
    with closing(opened(dpn.Budget(50.0, 1e-6))) as session:
        every = session.sql(query.format(""), epsilon=0.3).run().frame.set_index("outcome")
        some = session.sql(query.format(f"WHERE {condition}"), epsilon=0.3)
        assert some.plan.free
        told = some.run().frame.set_index("outcome")
        alone = session.sql("SELECT COUNT(DISTINCT number) AS n FROM cases WHERE outcome = 'convicted'", epsilon=0.3)
        assert alone.plan.free
        only = alone.run().frame.iloc[0]
    assert every["n_upper"]["plea"] - every["n"]["plea"] > 1.02 * 1.96 * every["n_std_error"]["plea"]
    for name in ("n", "n_lower", "n_upper"):
        assert told[name].to_dict() == pytest.approx(every[name][told.index].to_dict())
        assert only[name] == pytest.approx(every[name]["convicted"])


def test_what_was_paid_with_one_value_of_each_stays_free_and_says_so(monkeypatch):
    text = "SELECT COUNT(DISTINCT number) AS n FROM cases"
    with closing(opened(dpn.Budget(50.0, 1e-6))) as session:
        with monkeypatch.context() as earlier:
            earlier.setattr("dpnotebook.sql.analysis.contributions.Contributions.values_counted", 1)
            session.sql(text, epsilon=1.0).run()
        again = session.sql(text, epsilon=1.0)
        assert again.plan.free
        assert any("one value of each unit counts at most" in one for one in again.plan.warnings)
        release = again.run()
        assert any("one value of each unit counts at most" in one for one in release.notes)
        assert release.frame["n"][0] < 0.6 * CASES["number"].nunique()
        other = session.sql(text, epsilon=2.0)
        assert not other.plan.free
        assert other.run().frame["n"][0] > 0.9 * CASES["number"].nunique()


# Groups of what each person has


def test_who_adds_up_over_hidden_groups_is_told_what_to_write():
    """How many cases have how many charges: without the person in its groups, all of them are hidden."""
    frame = pd.concat([CASES, CASES[CASES["judge"] % 3 == 0]], ignore_index=True)
    text = "SELECT k, COUNT(*) AS n FROM (SELECT {}, COUNT(*) AS k FROM cases GROUP BY {}) GROUP BY k"
    with closing(opened(dpn.Budget(50.0, 1e-6), frame)) as session:
        (said,) = [
            one for one in session.sql(text.format("number", "number"), epsilon=1.0).plan.warnings if "FROM" in one
        ]
        selected, grouped = said.split("write there SELECT ")[1].split(", ... GROUP BY ")
        query = session.sql(text.format(selected, grouped), epsilon=10.0)
        assert not any("is answered first" in one for one in query.plan.warnings)
        told = query.run().frame.set_index("k")["n"]
    exact = frame.groupby("number").size().value_counts()
    assert all(abs(told[k] - exact[k]) < 200 for k in (1, 2))
