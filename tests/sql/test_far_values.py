"""What few of many people's rows have, and all others have not, is in averages: each person who has some is found."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from dpnotebook import Budget, Session, Unit

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
