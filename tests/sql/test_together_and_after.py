"""Any two aggregates in one statement, and any statement after any other: planned, answered, in every way of bounding.

What one finds of the table (norms, bounds, how many rows count) is used by the next: each pair is a path of its own.
"""

import itertools
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

AGGREGATES = [
    *(
        "COUNT(*)",
        "COUNT(y)",
        "COUNT(DISTINCT who)",
        "COUNT(DISTINCT CASE WHEN x > 3 THEN who END)",
        "COUNT(DISTINCT tag)",
    ),
    *("SUM(x)", "SUM(d)", "AVG(x)", "AVG(d)", "MEDIAN(x)", "MEDIAN(d)", "MAX(x)", "STDDEV(x)", "SUM(w * x) / SUM(w)"),
    *("COVAR_POP(x, w)", "CORR(x, d)", "AVG(CASE WHEN x > 3 THEN 1 ELSE 0 END)", "SUM(x) / COUNT(*)"),
]
STATEMENTS = [
    *(f"{one} AS a" for one in AGGREGATES),
    *(
        "COUNT(*) AS a, AVG(x) AS b",
        "AVG(x) AS a, MEDIAN(x) AS b",
        "COUNT(DISTINCT who) AS a, MEDIAN(w) AS b, SUM(x) AS c",
    ),
]
TABLES = {  # noise, how many rows are declared, what is grouped by
    "gaussian": (dpn.Budget(2_000.0, 1e-6), None, "kind"),
    "gaussian, hidden": (dpn.Budget(2_000.0, 1e-6), None, "tag"),
    "gaussian, declared": (dpn.Budget(2_000.0, 1e-6), 20, "kind"),
    "laplace": (dpn.Budget(2_000.0), None, "kind"),
    "laplace, declared": (dpn.Budget(2_000.0), 4, "kind"),
}


def rows(people=300, seed=6):
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), random.integers(1, 20, people))
    return pd.DataFrame(
        {
            "who": who,
            "kind": random.choice(list("abc"), who.size),
            "tag": random.choice(list("pqrstuvw"), who.size),
            "x": random.lognormal(1, 1, who.size),
            "w": random.exponential(1, who.size),
            "d": random.integers(0, 100, who.size),
            "y": np.where(random.random(who.size) < 0.2, np.nan, 1.0),
        }
    )


FRAME = rows()


def opened(name):
    budget, most, _ = TABLES[name]
    session = dpn.Session(budget, ":memory:", confirm="never")
    declared = {} if most is None else {"max_rows": most}
    domain = {"kind": list("abc"), "d": dpn.Range(0, 99)}
    session.protect(FRAME, "visits", unit="who", domain=domain, **declared)
    return session


def asked(name, listed):
    key = TABLES[name][2]
    return f"SELECT {key}, {listed} FROM visits GROUP BY {key}"


@pytest.mark.one_in(120)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("first", AGGREGATES)
def test_any_two_aggregates_are_answered_together(name, first):
    with closing(opened(name)) as session:
        for second in AGGREGATES[AGGREGATES.index(first) + 1 :]:
            frame = session.sql(asked(name, f"{first} AS a, {second} AS b"), epsilon=4, fresh=True).run().frame
            assert {"a", "a_std_error", "b", "b_std_error"} <= {*frame.columns}
            for one in "ab":
                known = frame[one].notna()
                assert (frame[f"{one}_lower"][known] <= frame[one][known]).all()
                assert (frame[one][known] <= frame[f"{one}_upper"][known]).all()


@pytest.mark.one_in(120)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("before", STATEMENTS)
def test_any_statement_is_planned_after_any_other(name, before):
    with closing(opened(name)) as session:
        session.sql(asked(name, before), epsilon=2).run()
        spent = session.spent.epsilon
        for after, epsilon in itertools.product(STATEMENTS, (0.5, 8.0)):
            plan = session.sql(asked(name, after), epsilon=epsilon).plan
            assert 0 <= plan.cost.epsilon <= epsilon * (1 + 1e-9)
        assert session.spent.epsilon == spent
