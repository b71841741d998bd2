"""A statement that a release of another one answers costs nothing, and its answer is that of its own question."""

import math
import re

import card_texts
import numpy as np
import pandas as pd
import pytest
from reused_visits import DOMAIN, MUCH, assert_same, made, protected
from scipy import stats

import dpnotebook as dpn
from dpnotebook.sql.aggregates.layers import REACH, WIDER
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.testing import exact_session

ABOUT = 0.15  # of what groups are off, where layers are added up: it is bounded by their sum


@pytest.fixture
def exact(monkeypatch):
    """Return a session whose answers have no noise."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(dpn.Budget(1e6, 1e-6), confirm="never") as session:
        yield protected(session)


@pytest.fixture
def noisy():
    """Return a session."""
    with dpn.Session(dpn.Budget(200.0, 1e-6), confirm="never") as session:
        yield protected(session)


# What was asked first, what is asked then, and whether that is answered by it, at a tenth of the epsilon.
PAIRS = [
    ("town, sex: COUNT(*) n, AVG(cost) m", "SELECT sex, town, COUNT(*) FROM visits GROUP BY sex, town", True),
    ("town: COUNT(*) n, AVG(cost) m", "SELECT town, AVG(cost) FROM visits GROUP BY 1 ORDER BY 2 LIMIT 2", True),
    ("town: COUNT(*) n, AVG(cost) m", "SELECT AVG(cost) / COUNT(*) FROM visits WHERE town = 'B'", True),
    ("town: COUNT(*)", "SELECT town, COUNT(*) n FROM visits WHERE town IN ('B', 'a') GROUP BY town", True),
    ("town: COUNT(*)", "SELECT COUNT(*) FROM visits WHERE town IN ('B', 'a')", False),  # one may not be shown
    ("town: COUNT(*)", "SELECT COUNT(*) FROM visits", False),
    ("town: COUNT(*)", "SELECT COUNT(*) FROM visits WHERE town IS NULL", True),
    ("town: COUNT(*)", "SELECT COUNT(*) FROM visits WHERE town = 'nowhere'", False),
    ("town: COUNT(*)", "SELECT COUNT(*) FROM visits WHERE town > 'A'", False),  # texts are sorted in many ways
    ("town: COUNT(cost)", "SELECT town, COUNT(*) FROM visits GROUP BY town", False),
    ("town: AVG(cost)", "SELECT town, SUM(cost) FROM visits GROUP BY town", False),
    ("town: VAR_POP(cost)", "SELECT town, VAR_SAMP(cost) FROM visits GROUP BY town", True),
    ("town, floor: COUNT(*)", "SELECT town, COUNT(*) FROM visits WHERE floor = -1 GROUP BY town", True),
    ("town, floor: COUNT(*)", "SELECT town, COUNT(*) FROM visits WHERE floor > -2 GROUP BY town", False),
    ("town, floor: COUNT(*)", "SELECT floor, town, COUNT(*) FROM visits WHERE floor > -2 GROUP BY 1, 2", True),
    ("sex, year: COUNT(*)", "SELECT sex, COUNT(*) FROM visits GROUP BY sex", False),  # rows without a year
    ("sex, year: COUNT(*)", "SELECT sex, COUNT(*) FROM visits WHERE year >= 2021 GROUP BY sex", True),
    ("sex, year: COUNT(*)", "SELECT year, COUNT(*) FROM visits GROUP BY year", False),  # sexes that are not declared
    ("sex, year: COUNT(*)", "SELECT year, COUNT(*) FROM visits WHERE sex IN ('m', 'f') GROUP BY year", True),
    ("sex, year: COUNT(*)", "SELECT year, COUNT(*) FROM visits WHERE sex <> 'm' GROUP BY year", False),
    ("sex, year: COUNT(*)", "SELECT year, COUNT(*) FROM visits WHERE sex = 'x' GROUP BY year", False),
    ("sex, ward: COUNT(*), AVG(cost)", "SELECT sex, COUNT(*), AVG(cost) FROM visits GROUP BY sex", True),
    ("sex, ward: COUNT(*)", "SELECT sex, COUNT(*) FROM visits WHERE ward <> 'it''s' GROUP BY sex", True),
    ("sex, ward: COUNT(*)", "SELECT sex, COUNT(*) FROM visits WHERE ward = 'elsewhere' GROUP BY sex", False),
    ("sex, ward: COUNT(*)", "SELECT sex, COUNT(*) FROM visits WHERE NOT ward IN ('attic') GROUP BY sex", False),
    ("sex, age: COUNT(*)", "SELECT sex, COUNT(*) FROM visits GROUP BY sex", True),
    ("sex, age: COUNT(*)", "SELECT sex, COUNT(*) FROM visits WHERE age IS NULL OR age < 2 GROUP BY sex", True),
    ("sex, age: COUNT(DISTINCT who)", "SELECT sex, COUNT(DISTINCT who) FROM visits GROUP BY sex", False),
    ("sex, age: COUNT(DISTINCT who)", "SELECT COUNT(DISTINCT who) FROM visits WHERE sex = 'f' AND age = 1", True),
    ("sex, urgent: SUM(cost)", "SELECT sex, SUM(cost) FROM visits WHERE urgent GROUP BY sex", True),
    ("sex, urgent: SUM(cost)", "SELECT SUM(cost) FROM visits WHERE NOT urgent AND sex = 'f'", True),
    ("room: VARIANCE(cost), COUNT(*)", "SELECT VARIANCE(cost) FROM visits WHERE room IN ('r3', 'r4', 'r5')", True),
    ("room: COUNT(*)", "SELECT room, COUNT(*) FROM visits WHERE sex = 'f' GROUP BY room", False),
    ("room: COUNT(*); floor > 0", "SELECT room, COUNT(*) FROM visits WHERE 0 < floor GROUP BY room", True),
    ("room: COUNT(*); floor > 0", "SELECT COUNT(*) FROM visits WHERE room = 'r1' AND floor > 0", True),
    ("room: COUNT(*); floor > 0", "SELECT COUNT(*) FROM visits WHERE room = 'r1'", False),
]


def first(told):
    """Return a statement that groups by some columns."""
    told, _, where = told.partition("; ")
    keys, asked = told.split(": ")
    return f"SELECT {keys}, {asked} FROM visits {f'WHERE {where}' if where else ''} GROUP BY {keys}"


@pytest.mark.one_in(60)
@pytest.mark.parametrize(("before", "then", "free"), PAIRS)
def test_what_was_released_answers(exact, before, then, free):
    exact.sql(first(before), epsilon=MUCH).run()
    asked, alone = exact.sql(then, epsilon=0.1), exact.sql(then, epsilon=0.1, fresh=True)
    assert asked.plan.free == free
    must, spent = 0 if free else alone.plan.cost.units, exact.ledger.spent
    assert asked.plan.cost.units == must
    answer = asked.run()
    assert exact.ledger.spent - spent == must
    if free:
        assert answer.sources == (1,)
        assert_same(answer, exact.sql(then, epsilon=MUCH, fresh=True).run())


# Of rows that are drawn, and not of all that a unit adds up, means and sums are of the same values.
MEANS = [
    ("AVG(cost)", "SUM(cost), COUNT(cost)", True),
    ("AVG(cost)", "COUNT(cost)", True),
    ("AVG(cost)", "COUNT(*)", False),  # rows without a cost
    ("AVG(cost)", "VARIANCE(cost)", False),
    ("AVG(cost)", "SUM(floor)", False),
    ("VARIANCE(cost), COUNT(*)", "SUM(cost), COUNT(*)", True),
    ("VARIANCE(cost)", "AVG(cost)", False),
    ("SUM(cost), COUNT(cost)", "AVG(cost)", True),
    ("SUM(cost), COUNT(*)", "AVG(cost)", False),
    ("SUM(floor), COUNT(cost)", "AVG(cost)", False),
    ("COUNT(cost)", "SUM(cost)", False),
]


@pytest.mark.one_in(22)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("before", "then", "free"), MEANS)
def test_means_counts_and_sums_share_what_was_measured(before, then, free, delta):
    """What follows is right within its noise, whose standard error it says; its bounds were drawn, and clip by some."""
    frame = made()
    with dpn.Session(dpn.Budget(1e4, delta), confirm="never") as session:
        protected(session, frame, max_rows=8)  # nobody has more
        first = session.sql(f"SELECT room, {before} FROM visits GROUP BY room", epsilon=80.0, contribution="rows").run()
        query = session.sql(f"SELECT room, {then} FROM visits GROUP BY room", epsilon=2.0, contribution="rows")
        assert query.plan.free == free
        if not free:
            return
        release = query.run()
        assert (release.paid, release.sources) == (0, (1,))
        found = release.frame.set_index("room")
        bounds = re.findall(r"taken to be between \S+ and ([\d.]+\d)", " ".join(first.notes))
        exact = frame[frame["room"].isin(DOMAIN["room"])].assign(cost=frame["cost"].clip(upper=float(bounds[0])))
        exact = exact.groupby("room")["cost"]
        truth = {"SUM": exact.sum(), "COUNT": exact.count(), "AVG": exact.mean()}
        for word in {word.split("(")[0] for word in then.split(", ")} - {"VARIANCE"}:
            name = word.lower()
            name = name if name in found else f"{name}_cost"
            if then.endswith("COUNT(*)") and word == "COUNT":
                continue  # measured by itself
            right, error = truth[word].reindex(found.index), found[f"{name}_std_error"]
            missed = ~right.between(found[f"{name}_lower"], found[f"{name}_upper"])
            assert missed.sum() <= stats.binom.isf(1e-8, len(found), 0.05)
            if delta:  # normal noise
                squares = (((found[name] - right) / error) ** 2).sum()
                assert 1e-8 < stats.chi2.cdf(squares, len(found)) < 1 - 1e-8
            drawn = release.samples(1_000).groupby("room", sort=False)[name].std()
            assert (drawn / error).mean() == pytest.approx(1, abs=0.06)  # over eight standard errors of that


CONDITIONS = [
    "sex = 'f'", "sex IN ('f', 'm')", "sex <> 'f'", "sex IS NULL", "ward = 'north'", "ward <> 'south'",
    "ward IS NOT NULL", "ward IN ('it''s', 'north')", "town = 'b'", "town <> 'B'", "town IS NULL", "year > 2020",
    "year BETWEEN 2020 AND 2022", "year IS NOT NULL", "NOT year = 2021", "age < 2", "age IS NULL OR age = 1",
    "2 <= age", "urgent", "NOT urgent", "urgent = TRUE", "urgent IS NULL", "room = 'r1'", "room IN ('r2', 'r30')",
    "floor = 1", "floor <= 0", "floor NOT IN (1, -2)", "sex = 'f' OR sex = 'm'", "NOT (ward = 'north' OR ward IS NULL)",
]  # fmt: skip


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_whatever_is_free_is_right(exact, seed):
    """Whatever was asked before, an answer that costs nothing is that of a release of its own, without noise."""
    random, reused = np.random.default_rng(seed), 0
    columns = ["sex", "ward", "town", "year", "age", "urgent", "floor"]
    asked = ["COUNT(*)", "COUNT(cost)", "SUM(cost)", "AVG(cost)", "COUNT(DISTINCT who)"]
    for _ in range(2):
        keys = random.choice(columns, 2, replace=False)
        where = f"WHERE {random.choice(CONDITIONS)}" if random.random() < 0.3 else ""
        exact.sql(
            f"SELECT {', '.join([*keys, *asked])} FROM visits {where} GROUP BY {', '.join(keys)}", epsilon=MUCH
        ).run()
        for _ in range(20):
            chosen = random.permutation(keys)[: random.integers(0, 3)]
            conditions = [one for one in CONDITIONS if any(key in one for key in keys)]
            more = random.choice(conditions, random.integers(0, 3), replace=False)
            told = " AND ".join([*([where[6:]] if where else []), *(f"({one})" for one in more)])
            picked = random.choice(asked, random.integers(1, 3), replace=False)
            then = f"SELECT {', '.join([*chosen, *picked])} FROM visits {f'WHERE {told}' if told else ''}"
            query = exact.sql(then + (f" GROUP BY {', '.join(chosen)}" if len(chosen) else ""), epsilon=0.01)
            if query.plan.free:
                reused += 1
                assert_same(query.run(), exact.sql(query.question.text, epsilon=MUCH, fresh=True).run())
    assert reused > 5


def in_layers(session, number):
    """Return which aggregates of a release were measured in two layers."""
    (select,) = session.ledger.get(number).details["selects"]
    return [bool(part.layers) for part in Measuring.from_json(select["measuring"]).parts]


def test_noise_that_is_added_up(noisy):
    """Of k groups the noise of the answer is that of all, as redraws of the release have it: k times the variance.

    Where counts and sums are of two layers it is more, as the proportion of both moves all groups alike; redraws are
    spread as intervals are, which are longer than standard errors there, and by about as much as what groups are off.
    """
    ask = "SELECT age, sex, COUNT(*) n, SUM(cost) s FROM visits GROUP BY age, sex"
    then = "SELECT sex, COUNT(*) n, SUM(cost) s FROM visits GROUP BY sex"
    parts, whole = noisy.sql(ask, epsilon=1.0).run().frame, noisy.sql(then, epsilon=0.1).run()
    assert whole.paid == 0
    for name, layers in zip(("n", "s"), in_layers(noisy, 1), strict=True):
        together = parts.groupby("sex", sort=False)[name].sum()
        np.testing.assert_allclose(whole.frame[name], together, rtol=1e-3, atol=3)  # all are rounded
        width, drawn = whole.frame[f"{name}_upper"] - whole.frame[f"{name}_lower"], noisy.release(1).samples(8_000)
        down = whole.frame[name] - whole.frame[f"{name}_lower"]  # nothing is too large: where much is lost, noise alone
        sums = drawn.assign(draw=np.arange(len(drawn)) // len(parts)).groupby(["sex", "draw"])[name].sum()
        chance = 5.5 / math.sqrt(2 * 8_000)
        of_sums = sums.groupby("sex", sort=False)
        reached = of_sums.quantile(0.975) - of_sums.quantile(0.025)  # with what bounds take from all groups alike
        np.testing.assert_allclose(width, reached, rtol=ABOUT if layers else 2 * chance)
        reached_down = together.to_numpy() - of_sums.quantile(0.025).to_numpy()
        np.testing.assert_allclose(down, reached_down, rtol=ABOUT if layers else 3 * chance)
        errors = whole.frame[f"{name}_std_error"]
        assert (width / 2 / REACH > (WIDER if layers else 1.0) * 0.98 * errors).all()
        assert (down > stats.norm.ppf(0.95) * (WIDER if layers else 1.0) * 0.98 * errors).all()
        assert (down < REACH * (WIDER + ABOUT if layers else 1.02) * errors).all()


def test_redraws_are_of_the_answer(noisy):
    noisy.sql("SELECT age, sex, COUNT(*) n, AVG(cost) m FROM visits GROUP BY age, sex", epsilon=2.0).run()
    release = noisy.sql("SELECT sex, COUNT(*) n, AVG(cost) m FROM visits GROUP BY sex", epsilon=0.1).run()
    assert release.paid == 0
    drawn = release.samples(4_000).groupby("sex", sort=False)
    for name, layers in zip(("n", "m"), in_layers(noisy, 1), strict=True):
        told = (release.frame[f"{name}_upper"] - release.frame[f"{name}_lower"]) / 2 / REACH  # with what clipping moves
        assert (told > 0.99 * (WIDER if layers else 1.0) * release.frame[f"{name}_std_error"]).all()
        ends = drawn[name].quantile([0.025, 0.975]).unstack()  # laws are skewed: their spread is no part of this length
        np.testing.assert_allclose((ends[0.975] - ends[0.025]) / 2, told * REACH, rtol=0.12)


def test_an_error_is_kept_by_what_was_delivered(noisy):
    noisy.sql("SELECT town, sex, COUNT(*) n FROM visits GROUP BY town, sex", epsilon=1.0).run()
    then = "SELECT sex, town, COUNT(*) FROM visits GROUP BY sex, town"
    width = noisy.sql(then, error=1_000).plan.error  # of the noise, of two layers wider where one of them is chance
    assert width >= REACH * float(noisy.release(1).frame["n_std_error"].max()) * (1 - 1e-6)
    assert noisy.sql(then, error=width * 1.001).plan.free
    assert not noisy.sql(then, error=width * 0.9).plan.free
    plan = noisy.sql(then, error=width * 1.001).plan
    assert plan.error == pytest.approx(width)
    assert plan.cost.epsilon == 0
    assert "release #1" in plan.steps[0]


def test_no_epsilon_is_answered_worse_than_by_itself(noisy):
    """Half of an epsilon was for the average: a count for all of it is measured; one for half of it is not."""
    noisy.sql("SELECT town, COUNT(*) n, AVG(cost) FROM visits GROUP BY town", epsilon=1.0).run()
    then = "SELECT town, COUNT(*) FROM visits GROUP BY town HAVING COUNT(*) > 10"
    assert not noisy.sql(then, epsilon=1.0).plan.free
    assert noisy.sql(then, epsilon=0.5).plan.free
    assert not noisy.sql(then, epsilon=0.5, fresh=True).plan.free


def test_samples_of_rows_are_not_taken_apart():
    """Of a sample of each unit's rows, those in one town are fewer than a sample of the rows in that town."""
    drawn = "WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 1)"
    with dpn.Session(dpn.Budget(100.0, 1e-6), confirm="never") as session:
        protected(session, max_rows=2)
        session.sql(f"SELECT {drawn} town, COUNT(*) FROM visits GROUP BY town", epsilon=1.0).run()
        then = f"SELECT {drawn} COUNT(*) FROM visits WHERE town = 'b'"
        assert not session.sql(then, epsilon=0.1).plan.free
        again = f"SELECT {drawn} town, COUNT(*) AS n FROM visits GROUP BY town HAVING COUNT(*) > 1"
        assert session.sql(again, epsilon=0.1).plan.free


def test_what_is_reused_is_kept_with_the_ledger(tmp_path):
    frame = made()
    with dpn.Session(dpn.Budget(9.0, 1e-6), tmp_path / "a.dpledger", confirm="never") as session:
        protected(session, frame).sql("SELECT town, sex, COUNT(*) FROM visits GROUP BY town, sex", epsilon=1.0).run()
    with dpn.Session(dpn.Budget(9.0, 1e-6), tmp_path / "a.dpledger", confirm="never") as session:
        protected(session, frame)
        release = session.sql("SELECT sex, town, COUNT(*) FROM visits GROUP BY sex, town", epsilon=1.0).run()
        assert (release.paid, release.number) == (0, 1)


@pytest.mark.slow
def test_ten_thousand_levels_are_looked_up_in_what_was_released():
    """With missing and undeclared ones: what is picked and added up are the numbers that were shown."""
    random, rows = np.random.default_rng(0), 30_000
    codes = np.array([None, "none of them", *(f"c{i}" for i in range(10_000))], dtype=object)
    frame = pd.DataFrame({"who": random.integers(0, 9_000, rows), "code": codes[random.integers(0, len(codes), rows)]})
    frame["code"] = frame["code"].where(random.random(rows) < 0.5, random.choice(["c1", "c9999"], rows))
    with dpn.Session(dpn.Budget(50.0, 1e-6), confirm="never") as session:
        session.protect(frame, "visits", unit="who", domain={"code": [f"c{i}" for i in range(10_000)]})
        shown = session.sql("SELECT code, COUNT(*) AS n FROM visits GROUP BY code", epsilon=2.0).run().frame
        shown = shown.set_index("code")
        two = session.sql("SELECT COUNT(*) FROM visits WHERE code IN ('c1', 'c9999')", epsilon=0.5).run()
        assert (two.paid, two.sources) == (0, (1,))
        assert two.value == pytest.approx(shown.loc[["c1", "c9999"], "n"].sum(), abs=1.5)  # all are rounded
        each = shown.loc[["c1", "c9999"], "n_std_error"]  # which err by themselves, or both alike
        assert 0.99 * math.hypot(*each) <= two.frame["count_std_error"][0] <= 1.01 * sum(each)
        later = "SELECT code, COUNT(*) AS n FROM visits WHERE code <> 'c7' GROUP BY code"
        others = session.sql(later, epsilon=0.5).run()
        assert others.paid == 0
        assert others.frame.set_index("code")["n"].equals(shown["n"].drop("c7"))
        assert not session.sql("SELECT COUNT(*) FROM visits", epsilon=0.1).plan.free  # rows without a code


def test_what_earlier_versions_found_of_norms_is_used(noisy, monkeypatch):
    """They found it by the very text of the rows."""
    from dpnotebook.sql import profile_keys

    def earlier_key(part, select, aggregate, *_, **__):
        return profile_keys._earlier_key(part, select, aggregate)

    ask = "SELECT room, sex, AVG(cost) AS m FROM visits WHERE floor > 0 GROUP BY room, sex"
    with monkeypatch.context() as patch:
        patch.setattr(profile_keys, "key_of", earlier_key)
        assert noisy.sql(ask, epsilon=1.0).plan.profiles
        noisy.sql(ask, epsilon=1.0).run()
    assert noisy.sql(ask, epsilon=1.0, fresh=True).plan.profiles == ()
    assert len(noisy.profile()) == 1


def test_any_quantile_is_read_off_the_bins_of_another():
    """As accurately as it would be by itself: the bins are the same, whichever quantiles were asked of them."""
    with dpn.Session(dpn.Budget(100.0, 1e-6), confirm="never") as session:
        protected(session, max_rows=4)
        first = session.sql("SELECT floor, MEDIAN(cost) AS q FROM visits GROUP BY floor", epsilon=4.0).run()
        then = (
            "SELECT floor, MIN(cost) AS low, MAX(cost) AS high, PERCENTILE_CONT(cost, [0.25, 0.5]) AS mid FROM visits "
            "GROUP BY floor"
        )
        for asked in (then, "SELECT floor, PERCENTILE_CONT(cost, 0.5) AS q FROM visits GROUP BY floor ORDER BY q"):
            release = session.sql(asked, epsilon=3.0).run()
            assert (release.paid, release.sources) == (0, (1,))
        several = session.sql(then, epsilon=3.0).run().frame.set_index("floor")
        shown = first.frame.set_index("floor").dropna()
        assert len(shown)
        for floor, row in shown.iterrows():
            low, high, mid = several.loc[floor, ["low", "high", "mid"]]
            assert low <= mid[0] <= mid[1] <= high
            assert mid[1] == pytest.approx(row["q"], abs=row["q_std_error"])
        assert not session.sql(then, epsilon=8.0).plan.free
        assert not session.sql("SELECT floor, MAX(age) AS q FROM visits GROUP BY floor", epsilon=0.5).plan.free


def test_beside_many_releases_the_least_noisy_answers_and_few_are_read(monkeypatch):
    """Of releases that differ in noise alone one is read, and none that lacks the column that is asked."""
    from dpnotebook.ledger import ledger

    with dpn.Session(dpn.Budget(100.0, 1e-6), confirm="never") as session:
        protected(session, max_rows=8)

        def asked(text, epsilon, fresh=False):
            return session.sql(text, epsilon=epsilon, fresh=fresh, contribution="rows")

        parts = "SELECT room, {} FROM visits GROUP BY room"
        for epsilon in (0.5, 2.0, 1.0):
            for column in ("floor", "cost"):
                asked(parts.format(f"COUNT({column}), COUNT(*)"), epsilon, fresh=True).run()
        then = parts.format("COUNT(cost) AS n")
        assert asked(f"{then} HAVING n > 1", 0.1).plan.recorded == 4  # all of them were looked at
        read = []

        def reading(connection, line, read_record=ledger.read_record):
            read.append(line)
            return read_record(connection, line)

        monkeypatch.setattr(ledger, "read_record", reading)
        assert asked(f"{then} HAVING n > 2", 0.1).plan.recorded == 4
        assert len(read) == 1
        asked(parts.format("COUNT(cost), COUNT(*)"), 3.0, fresh=True).run()
        assert asked(f"{then} HAVING n > 2", 0.1).plan.recorded == 7


def test_a_group_that_may_have_stood_out_is_said_to_be_picked(noisy):
    """Its interval is too narrow: both cards say so, and what measuring it anew costs."""
    noisy.sql("SELECT room, sex, COUNT(*) AS n FROM visits GROUP BY room, sex", epsilon=4.0).run()
    then = "SELECT COUNT(*) AS n FROM visits WHERE room = 'r7' AND sex = 'f'"
    query = noisy.sql(then, epsilon=0.5)
    assert (query.plan.picked.release, query.plan.picked.rows) == (1, 60)
    assert query.plan.afresh.cost == noisy.sql(then, epsilon=0.5, fresh=True).plan.cost
    assert "stood out among the 60 rows of release #1" in card_texts.plan_text(query.plan)
    release = query.run()
    assert (release.paid, release.picked) == (0, query.plan.picked)
    assert "stood out among the 60 rows of release #1" in card_texts.release_text(release)
    anew = noisy.sql(then, epsilon=0.5, fresh=True)
    assert anew.plan.picked is None
    assert anew.run().picked is None


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("then", "rows"),
    [
        ("SELECT sex, COUNT(*) AS n FROM visits WHERE room IN ('r1', 'r2') GROUP BY sex", 60),
        ("SELECT room, COUNT(*) AS n FROM visits WHERE sex = 'f' GROUP BY room", None),  # one of two
        ("SELECT sex, room, COUNT(*) AS n FROM visits GROUP BY sex, room", None),  # all, in another order
        ("SELECT room, sex, COUNT(*) AS n FROM visits GROUP BY room, sex", None),  # the same again
    ],
)
def test_only_parts_of_many_are_picked(noisy, then, rows):
    noisy.sql("SELECT room, sex, COUNT(*) AS n FROM visits GROUP BY room, sex", epsilon=4.0).run()
    query = noisy.sql(then, epsilon=0.5)
    assert query.plan.free
    for picked in (query.plan.picked, query.run().picked):
        assert (picked and picked.rows) == rows
