"""Truth values of which one is missing: pandas has objects then, and what can be asked stays what it was."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError

CONDITIONS = (
    "smokes",
    "smokes = TRUE",
    "TRUE = smokes",
    "smokes <> FALSE",
    "smokes IN (TRUE)",
    "smokes IS TRUE",
    "NULLIF(smokes, FALSE)",
    "smokes IS NOT DISTINCT FROM TRUE",
    "CASE smokes WHEN TRUE THEN 1 ELSE 0 END = 1",
    "CAST(smokes AS INT) = 1",
    "smokes::DOUBLE + 1 = 2",
    "CAST(smokes AS BOOLEAN)",
)
NUMBERS = ("SUM(CAST(smokes AS BOOLEAN))", "SUM(smokes::INT)", "COUNTIF(smokes)", "SUM(CASE WHEN smokes THEN 1 END)")


@pytest.fixture(params=[False, True], ids=["whole", "with a gap"])
def asked(request):
    frame = pd.DataFrame({"smokes": np.random.default_rng(5).random(4_000) < 0.3, "k": "a"})
    if request.param:
        frame["smokes"] = frame["smokes"].astype(object)
        frame.loc[0, "smokes"] = None
    public = pd.DataFrame({"smokes": [True, False], "rate": ["high", "low"]})
    with dpn.Session(dpn.Budget(1e4, 1e-6), ":memory:", confirm="never") as session:
        session.protect(frame, "t", domain={"k": ["a"]})
        session.register(public, "rates", public=True)
        yield session, int((frame["smokes"] == True).sum())  # noqa: E712, there are missing ones


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_true_of_the_same_rows(asked, condition):
    session, true = asked
    told = session.sql(f"SELECT COUNT(*) AS n FROM t WHERE {condition}", epsilon=20.0).run().frame["n"][0]
    assert abs(told - true) < 10


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_them_are_the_same(asked, number):
    session, true = asked
    told = session.sql(f"SELECT {number} AS n FROM t", epsilon=40.0).run().frame["n"][0]
    assert abs(told - true) < 20


def test_they_are_joined_with_truth_values_of_a_public_table(asked):
    session, true = asked
    query = "SELECT rate, COUNT(*) AS n FROM t JOIN rates ON t.smokes = rates.smokes GROUP BY rate"
    told = session.sql(query, epsilon=20.0).run().frame.set_index("rate")["n"]
    assert abs(told["high"] - true) < 10
    assert abs(told["low"] - (4_000 - true)) < 10


def test_a_text_that_is_no_truth_value_is_not_compared_with_one(asked):
    session, _ = asked
    with pytest.raises(SQLError, match="compares texts with truth values"):
        session.sql("SELECT COUNT(*) FROM t WHERE (smokes IS TRUE) = 'perhaps'", epsilon=1.0)
    assert session.spent.epsilon == 0


def test_other_texts_are_numbers_or_missing():
    frame = pd.DataFrame({"x": ["12", "true", "False", "1e3", "none", None] * 500, "k": "a"})
    with dpn.Session(dpn.Budget(1e4, 1e-6), ":memory:", confirm="never") as session:
        session.protect(frame, "t", domain={"k": ["a"]})
        query = "SELECT {} AS n FROM t WHERE CAST(x AS {}) = {}"
        for kind in ("INT", "DOUBLE"):
            for value in (12, 1, 0):
                told = session.sql(query.format("COUNT(*)", kind, value), epsilon=20.0).run().frame["n"][0]
                assert abs(told - 500) < 10, (kind, value)
