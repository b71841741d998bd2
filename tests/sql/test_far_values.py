"""What few of many people's rows have, and all others have not, is in averages: each person who has some is found."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dpnotebook import Budget, Session, Unit
from dpnotebook.sql.aggregates.bounds import magnitude_edges
from dpnotebook.sql.aggregates.value_range import range_edges
from dpnotebook.sql.value_histogram import _perhaps_far, _surely_far, _with_far

PEOPLE = 12_000


def payments(seed):
    """One row of seventeen is a salary; the others are what was bought."""
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(PEOPLE), 1 + random.poisson(14 * random.gamma(1.5, 1 / 1.5, PEOPLE)))
    salary, size = random.random(person.size) < 0.06, person.size
    amount = np.where(salary, random.lognormal(7.4, 0.5, size), -random.lognormal(3.2, 1.1, size))
    return pd.DataFrame({"person": person, "channel": random.choice(["a", "b", "c", "d"], size), "amount": amount})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(8))
def test_an_average_of_many_small_and_few_large_amounts(seed, same_noise):
    """Noise hides what so few rows have: none was found, and averages were -42 where 68 is true."""
    frame = payments(seed)
    with closing(Session(Budget(8.0, 1e-6), ":memory:", confirm="never")) as session:
        session.protect(frame, "payments", unit=Unit("person", column="person"))
        told = session.sql("SELECT channel, AVG(amount) AS a FROM payments GROUP BY channel", epsilon=0.1).run().frame
    true = frame.groupby("channel")["amount"].mean()[told["channel"]].to_numpy()
    assert len(told) == 4
    assert (np.abs(told["a"] - true) < 0.7 * true).all()
    assert ((told["a_lower"] <= true) & (true <= told["a_upper"])).sum() >= 3
    assert (told["a_upper"] - told["a_lower"] < 3 * true).all()


def test_large_amounts_of_the_other_sign_where_rows_count_one_by_one(same_noise):
    """They are no tail of the others, beyond which nothing was looked at: an average was -42 where 68 is true."""
    off, held = [], []
    for seed in range(6):
        frame = payments(seed).groupby("person").head(1)
        with closing(Session(Budget(8.0), ":memory:", confirm="never")) as session:
            session.protect(frame, "payments", unit="person", max_rows=1)
            text = "SELECT AVG(amount) AS a, STDDEV_POP(amount) AS s FROM payments"
            told = session.sql(text, epsilon=1.0).run().frame
        true, spread = frame["amount"].mean(), frame["amount"].std()
        off.append((told["a"][0] / true - 1.0, told["s"][0] / spread - 1.0))
        held.append(told["a_lower"][0] <= true <= told["a_upper"][0])
    assert (np.abs(off) < [0.2, 0.3]).all()
    assert sum(held) >= 4


def test_noise_alone_makes_nothing_seem_far_away():
    """Once in twenty tables the last histogram looks farther, and hardly ever both together tell of units there."""
    random, scale, tables = np.random.default_rng(4), Fraction(50), 3_000
    laplace, tails, size = SimpleNamespace(noise="laplace"), (Fraction(-64), Fraction(64)), magnitude_edges().size - 1
    looked = surely = 0
    for _ in range(tables):
        seen = _perhaps_far(tails, random.laplace(0.0, 50.0, size), scale, laplace)
        edges = range_edges((Fraction(-5), Fraction(5)), _with_far(tails, seen))
        counts = random.laplace(0.0, 20.0, edges.size - 1)
        looked += bool(seen)
        surely += bool(_surely_far(seen, counts, edges, 20.0 * np.sqrt(2.0)))
    assert 0.02 < looked / tables < 0.06
    assert surely <= 3


@pytest.fixture(scope="module")
def alarms():
    """A share of rows of people who have about 15: few of the rows, and few of the people, have an alarm."""
    random = np.random.default_rng(6)
    person = np.repeat(np.arange(PEOPLE), 1 + random.poisson(14 * random.gamma(1.5, 1 / 1.5, PEOPLE)))
    frame = pd.DataFrame({"person": person, "ward": random.choice(["a", "b"], person.size)})
    frame["seldom"] = random.random(person.size) < 0.004
    frame["often"] = random.random(person.size) < 0.3
    frame["costs"] = np.where(frame["seldom"], random.lognormal(5.0, 0.5, person.size), 0.0)
    frame["seldom_number"] = frame["seldom"].astype(int)
    return frame


@pytest.fixture
def watched(alarms):
    with closing(Session(Budget(8.0, 1e-6), ":memory:", confirm="never")) as session:
        session.protect(alarms, "alarms", unit=Unit("person", column="person"))
        yield session


@pytest.mark.parametrize(
    ("share", "column", "error"),
    [
        ("AVG(CAST(seldom AS INT))", "seldom", 0.01),
        ("AVG(CASE WHEN seldom THEN 1.0 ELSE 0 END)", "seldom", 0.01),
        ("COUNT(*) FILTER (WHERE seldom) * 1.0 / COUNT(*)", "seldom", 0.01),
        ("SUM(CAST(seldom AS INT)) * 1.0 / COUNT(*)", "seldom", 0.01),
        ("AVG(CAST(often AS INT))", "often", 0.05),
    ],
)
def test_a_share_of_rows_is_as_close_as_rare_ones_allow(share, column, error, watched, alarms, same_noise):
    """However it is written: of .4% the error was 2%, as if they might be half of all."""
    told = watched.sql(f"SELECT ward, {share} AS s FROM alarms GROUP BY ward", epsilon=0.2).run().frame
    true = alarms.groupby("ward")[column].mean()[told["ward"]].to_numpy()
    assert len(told) == 2
    assert (told["s_upper"] - told["s_lower"] < 2 * error).all()
    assert ((told["s_lower"] <= true) & (true <= told["s_upper"])).all()
    again = watched.sql(f"SELECT ward, {share} AS s FROM alarms GROUP BY ward", epsilon=0.2)
    assert again.plan.free


@pytest.mark.parametrize(("column", "error"), [("seldom_number", 0.01), ("costs", 1.0)])
def test_an_average_of_what_is_nearly_always_zero_is_found(column, error, watched, alarms, same_noise):
    """Each row is a fifteenth of its person: of so few in any bin nothing was found, and the answer was NULL."""
    row = watched.sql(f"SELECT AVG({column}) AS a FROM alarms", epsilon=0.4).run().frame.iloc[0]
    assert abs(row["a"] - alarms[column].mean()) < error
    assert row["a_lower"] <= alarms[column].mean() <= row["a_upper"]
    assert row["a_upper"] - row["a_lower"] < 4 * error


def test_truth_values_that_are_all_alike(watched, same_noise):
    """No length is nothing, however rare the others are."""
    row = watched.sql("SELECT AVG(CASE WHEN ward IS NULL THEN 1 ELSE 0 END) AS a FROM alarms", epsilon=2.0).run()
    (value, lower, upper) = row.frame[["a", "a_lower", "a_upper"]].iloc[0]
    assert 0 <= lower <= value <= upper < 0.01
