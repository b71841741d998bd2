"""Groups that a statement writes out itself, by CASE, IF or a condition, are known: nothing hides them."""

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

DOMAIN = {
    "age": dpn.Range(18, 100, nullable=True),
    "sex": ["F", "M"],
    "bmi": dpn.Bins(10, 60, width=1),
    "smoker": ["yes", "no", "former"],
}


@pytest.fixture(scope="module")
def trial():
    random = np.random.default_rng(1)
    rows = 600
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 90, rows).astype(float),
            "sex": random.choice(["F", "M"], rows),
            "bmi": random.normal(27, 5, rows).clip(10, 59).round(1),
            "smoker": random.choice(["yes", "no", "former"], rows),
        }
    )
    frame.loc[random.random(rows) < 0.1, "age"] = np.nan
    return frame


KNOWN = {
    "bands of ages": "SELECT CASE WHEN age < 40 THEN 'young' WHEN age < 65 THEN 'middle' ELSE 'old' END AS g, "
    "COUNT(*) AS n, AVG(bmi) AS b FROM trial GROUP BY 1",
    "without ELSE": "SELECT CASE WHEN age < 40 THEN 'young' WHEN age < 65 THEN 'middle' END AS g, COUNT(*) AS n "
    "FROM trial GROUP BY g",
    "whole numbers and a column": "SELECT CASE smoker WHEN 'yes' THEN 1 WHEN 'no' THEN 0 ELSE -1 END AS code, sex, "
    "COUNT(*) AS n FROM trial GROUP BY code, sex",
    "a condition": "SELECT age >= 65 AS old, COUNT(*) AS n, SUM(bmi) AS s FROM trial GROUP BY old",
    "a condition of several": "SELECT age >= 65 OR sex = 'F' AND NOT smoker = 'no' AS c, COUNT(*) AS n "
    "FROM trial GROUP BY c",
    "what is not": "SELECT NOT age >= 65 AS young, smoker LIKE '%e%' AS e, COUNT(*) AS n FROM trial GROUP BY young, e",
    "IF and its total": "SELECT IF(bmi > 25, 'high', 'low') AS w, COUNT(*) AS n FROM trial GROUP BY ROLLUP (w)",
    "one in another": "SELECT CASE WHEN age < 40 THEN CASE WHEN sex = 'F' THEN 'her' ELSE 'him' END ELSE 'it''s' END "
    "AS g, COUNT(*) AS n FROM trial GROUP BY g",
    "letters of both cases and none": "SELECT CASE WHEN bmi > 25 THEN 'a' WHEN bmi > 20 THEN 'A' ELSE '' END AS g, "
    "COUNT(*) AS n FROM trial GROUP BY g",
    "levels of a column": "SELECT CASE WHEN age > 40 THEN smoker END AS g, COUNT(*) AS n FROM trial GROUP BY g",
    "truth values": "SELECT CASE WHEN smoker = 'yes' THEN TRUE WHEN smoker = 'no' THEN FALSE END AS g, COUNT(*) AS n "
    "FROM trial GROUP BY g",
}


ALWAYS_KNOWN = [
    "note IS NULL",
    "NOT (note IS NULL)",
    "note IS NOT NULL AND age IS NULL",
    "(note = 'x') IS TRUE",
    "note IS NOT DISTINCT FROM 'x'",
    "COALESCE(note = 'x', FALSE)",
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("condition", ALWAYS_KNOWN)
def test_what_is_always_true_or_false_has_no_third_group(trial, condition, monkeypatch):
    """Nor noise about it."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = trial.assign(note=np.where(np.arange(len(trial)) % 3, "x", None))
    session = exact_session(dpn.Budget(100.0))
    session.protect(frame, "trial", domain=DOMAIN)
    text = f"SELECT {condition} AS g, COUNT(*) AS n FROM trial GROUP BY g ORDER BY g"
    found = session.sql(text, epsilon=1.0).run().frame[["g", "n"]]
    wanted = duckdb.connect().execute(text.replace("trial", "frame")).df()
    assert found["g"].tolist() == [False, True]
    assert found["n"].tolist() == wanted["n"].tolist()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", KNOWN)
def test_each_group_is_that_of_duckdb_without_a_delta(trial, name, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(dpn.Budget(epsilon=10.0)) as session:
        session.protect(trial, "trial", domain=DOMAIN)
        found = session.sql(KNOWN[name], epsilon=1).run().frame
    with duckdb.connect() as other:
        other.register("trial", trial)
        exact = other.sql(KNOWN[name]).df()
    keys = [column for column in exact if column not in "nbs"]
    columns = [*keys, "n"]
    assert _rows(found[columns], keys) == _rows(exact[columns], keys)
    for column in set(exact) & {"b", "s"}:
        assert sorted(found[column]) == pytest.approx(sorted(exact[column]), rel=1e-3)


def _rows(frame, keys):
    plain = [[None if pd.isna(row[key]) else row[key] for key in keys] for _, row in frame.iterrows()]
    return sorted((tuple(map(repr, key)), round(n)) for key, n in zip(plain, frame["n"], strict=True) if round(n))


def test_a_group_without_rows_is_there_as_noise(trial):
    """Whether there is anybody in it is not told."""
    with dpn.Session(dpn.Budget(epsilon=10.0), ":memory:") as session:
        session.protect(trial, "trial", domain=DOMAIN)
        text = "SELECT CASE WHEN bmi > 1000 THEN 'giant' ELSE 'other' END AS g, COUNT(*) AS n FROM trial GROUP BY g"
        query = session.sql(text, epsilon=1)
        assert np.isfinite(query.plan.std_errors).all()
        assert query.run().frame["g"].tolist() == ["giant", "other"]


@pytest.mark.parametrize(
    "result",
    ["bmi", "1.5", "sex || CAST(bmi AS VARCHAR)", "UPPER(CAST(bmi AS VARCHAR))"],
)
def test_what_is_not_written_out_is_not_known(trial, result):
    with dpn.Session(dpn.Budget(epsilon=10.0), ":memory:") as session:
        session.protect(trial, "trial", domain=DOMAIN)
        text = f"SELECT CASE WHEN age > 40 THEN {result} END AS g, COUNT(*) AS n FROM trial GROUP BY g"
        with pytest.raises(SQLError, match="which groups of g exist is not known beforehand"):
            session.sql(text, epsilon=1).run()
        assert session.spent.epsilon == 0
