"""Several quantiles of a column are one question: one measurement, one price, and they never cross."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "cost": dpn.Bins(0, 500, width=10), "quantile": ["low", "high"]}
QUARTILES = [0.25, 0.5, 0.75]


@pytest.fixture
def people(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    rng = np.random.default_rng(8)
    rows = pd.DataFrame(
        {
            "age": rng.integers(0, 80, 2000),
            "sex": rng.choice(["F", "M"], 2000, p=[0.7, 0.3]),
            "cost": rng.gamma(3, 50, 2000).clip(0, 500),
            "quantile": rng.choice(["low", "high"], 2000),
        }
    )
    session = exact_session(dpn.Budget(epsilon=100.0))
    session.protect(rows, "people", domain=DOMAIN)
    yield rows
    session.close()


def truth(values, quantiles):
    """Return the least value up to which that share of the rows lies."""
    return np.quantile(values, quantiles, method="inverted_cdf").tolist()


def test_each_is_the_exact_one(people):
    found = people.dp.quantile("age", [0.9, 0.25, 0.5], epsilon=1).run().frame
    assert list(found) == ["quantile", "value", "std_error", "lower", "upper"]
    assert found["quantile"].tolist() == [0.9, 0.25, 0.5]
    assert found["value"].tolist() == truth(people["age"], [0.9, 0.25, 0.5])
    assert people.dp.quantile("age", np.array([0.1]), epsilon=1).run().value == truth(people["age"], 0.1)
    assert people.dp.median("age", epsilon=1).run().value == truth(people["age"], 0.5)
    young = people[people["age"] < 30]
    found = people.dp.quantile("age", (0.25, 0.5), where="age < 30", epsilon=1).run().frame
    assert found["value"].tolist() == truth(young["age"], [0.25, 0.5])


@pytest.mark.parametrize("scale", [10.0, 60.0, 150.0])
def test_where_most_rows_are_in_the_first_bin(monkeypatch, scale):
    """Rows that are spread evenly within a bin, and many fall into the first: what pandas says, within a few rows."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    edges = np.arange(0, 1100, 100)
    held = np.diff(-np.exp(-edges / scale))
    counts = np.round(20_000 * held / held.sum()).astype(int)
    parts = [np.linspace(low, low + 100, n, endpoint=False) for low, n in zip(edges, counts, strict=False)]
    frame = pd.DataFrame({"cost": np.concatenate(parts)})
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        session.protect(frame, "bills", domain={"cost": dpn.Bins(0, 1000, width=100)})
        found = frame.dp.quantile("cost", [0.05, 0.25, 0.5, 0.75, 0.95], epsilon=1).run().frame["value"]
    np.testing.assert_allclose(found, frame["cost"].quantile([0.05, 0.25, 0.5, 0.75, 0.95]), atol=1.0)


@pytest.mark.parametrize("keys", [["sex"], ["sex", "quantile"], ["quantile", "sex"]])
def test_groups_have_a_row_for_each(people, keys):
    release = people.dp.groupby(keys).quantile("age", QUARTILES, epsilon=1).run()
    said = "quantile_" if "quantile" in keys else "quantile"
    assert release.keys == (*keys, said)
    assert len(release.frame) == 3 * 2 ** len(keys)
    for row in release.frame.to_dict("records"):
        group = people[(people[keys] == [row[key] for key in keys]).all(axis=1)]
        assert row["value"] == truth(group["age"], row[said]), row


def test_within_bins_they_are_near(people):
    found = people.dp.quantile("cost", QUARTILES, epsilon=1).run().frame
    assert found["value"].to_numpy() == pytest.approx(truth(people["cost"], QUARTILES), abs=10)
    assert (found["lower"] <= found["value"]).all()
    assert (found["value"] <= found["upper"]).all()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("accuracy", [{"epsilon": 0.3}, {"error": 30}, {"variance": 90}])
def test_all_cost_what_one_does(people, accuracy):
    one, several = people.dp.quantile("age", 0.5, **accuracy), people.dp.quantile("age", QUARTILES, **accuracy)
    assert several.plan.cost == one.plan.cost
    assert (several.plan.error, several.plan.answers) == (one.plan.error, 3)
    assert len(several.plan.measurements) == 1
    price = one.plan.cost.epsilon
    assert several.run().paid == pytest.approx(price)
    later = [one.plan.cost.epsilon, people.dp.cdf("age", **accuracy).plan.cost.epsilon]
    assert max(later) <= (0.1 * price if "error" in accuracy else 0)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("epsilon", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_they_never_cross_whatever_the_noise(people, epsilon, seed):
    session = dpn.Session(budget=dpn.Budget(epsilon=100.0))
    table = session.protect(people.head(100 + seed), "people", domain=DOMAIN)
    wanted = [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
    release = table.groupby("sex").quantile("cost", wanted[::-1], epsilon=epsilon).run()
    draws = [group for _, group in release.samples(20).groupby("draw")]
    for frame in [release.frame, *draws]:
        for _, group in frame.groupby("sex"):
            rising = group.sort_values("quantile")
            for part in ("value", "lower", "upper"):
                if part in rising:
                    shown = rising[part].dropna()  # the others are hidden by noise
                    assert shown.is_monotonic_increasing, (part, rising)
                    assert shown.between(0, 500).all()
    hidden = release.frame["value"].isna()
    assert (hidden == ((release.frame["lower"] == 0) & (release.frame["upper"] == 500))).all()
    assert hidden.any() == any("noise hides it in" in note for note in release.notes)
    shown = release.frame[~hidden]
    assert (shown["lower"] <= shown["value"]).all()
    assert (shown["value"] <= shown["upper"]).all()
    assert (shown["std_error"] > 0).all()
    session.close()


def test_a_ledger_keeps_them(people, tmp_path):
    with dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=tmp_path / "people.ledger") as session:
        table = session.protect(people, "people", domain=DOMAIN)
        first = table.groupby("sex").quantile("age", QUARTILES, epsilon=0.3).run()
        grouped = table.groupby("sex").quantile("age", [0.5], epsilon=0.2).run()  # from what is known
    with dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=tmp_path / "people.ledger") as session:
        table = session.protect(people, "people", domain=DOMAIN)
        again = table.groupby("sex").quantile("age", QUARTILES, epsilon=0.3)
        assert again.plan.free
        pd.testing.assert_frame_equal(again.run().frame, first.frame)
        pd.testing.assert_frame_equal(session.release(1).frame, first.frame)
        pd.testing.assert_frame_equal(session.release(2).frame, grouped.frame)


def test_the_code_asks_them_again(people):
    query = people.dp.groupby("sex").quantile("age", [0.25, 0.5], epsilon=0.3)
    assert query.plan.code == "people.dp.groupby(['sex']).quantile('age', [0.25, 0.5], epsilon=0.3)"
    assert query.plan.title == "0.25 and 0.5 quantiles of age by sex"
    assert eval(query.plan.code).question == query.question


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "fractions, each once, such as [0.25, 0.5, 0.75]; not []"),
        ([0.5, 0.5], "each once"),
        ([0.5, 1.5], "a quantile lies between 0 and 1, such as 0.5 for the median; not [0.5, 1.5]"),
        ([0.5, True], "lies between 0 and 1"),
        ([[0.5]], "lies between 0 and 1"),
        ("0.5", "lies between 0 and 1, such as 0.5 for the median; not '0.5'"),
        (25, "not 25"),
        (np.array([123456.0]), "an array of shape (1,)"),
        (pd.Series([123456.0]), "not a Series"),
        (float("nan"), "not nan"),
    ],
)
def test_what_is_no_quantile(people, given, said):
    with pytest.raises(dpn.AccuracyError) as caught:
        people.dp.quantile("age", given, epsilon=1)
    assert said in str(caught.value)
    assert "123456" not in str(caught.value)


SAME = [
    ("SELECT MEDIAN(age) FROM people", lambda table, **how: table.median("age", **how)),
    ("SELECT sex, PERCENTILE_CONT(age, 0.9) AS old FROM people GROUP BY sex",
     lambda table, **how: table.groupby("sex").quantile("age", 0.9, **how)),
    ("SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY cost) FROM people WHERE age < 30",
     lambda table, **how: table.quantile("cost", 0.25, where="age < 30", **how)),
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("statement", "verb"), SAME)
@pytest.mark.parametrize("unit", [None, "who"])
def test_in_sql_they_are_the_same_question(people, statement, verb, unit):
    """Whichever was asked first, the other is its answer and costs nothing; with units and without."""
    rows, bounds = people.assign(who=np.arange(len(people)) // 2), {} if unit is None else {"max_rows": 2}
    for first in ("sql", "verb"):
        with dpn.Session(dpn.Budget(100.0, 1e-6), confirm="never") as session:
            table = session.protect(rows, "people", domain=DOMAIN, unit=unit, **bounds)
            asked = {"sql": session.sql(statement, epsilon=2), "verb": verb(table, epsilon=2)}
            one = asked.pop(first).run()
            (other,) = asked.values()
            assert other.plan.free
            again = other.run()
            assert (again.paid, again.number) == (0, one.number)
            for part in ("value", "std_error"):
                mine, others = (
                    release.frame[release.names[0] if part == "value" else found].tolist()
                    for release in (one, again)
                    for found in [next(name for name in release.frame if name.endswith("std_error"))]
                )
                assert mine == others


def test_in_sql_they_are_read_off_what_is_known(people):
    """A histogram has them all; least and greatest values, and lists, are questions of their own."""
    with dpn.Session(dpn.Budget(100.0, 1e-6), confirm="never") as session:
        table = session.protect(people, "people", domain=DOMAIN)
        table.cdf("age", epsilon=1).run()
        for asked in ("MEDIAN(age)", "PERCENTILE_CONT(age, 0.1) - MEDIAN(age) AS d"):
            assert session.sql(f"SELECT {asked} FROM people", epsilon=1).plan.free
        for asked in ("MIN(age)", "MAX(age)", "PERCENTILE_CONT(age, [0.25, 0.5])"):
            assert not session.sql(f"SELECT {asked} FROM people", epsilon=1).plan.free
