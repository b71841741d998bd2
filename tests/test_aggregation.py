"""`agg` and `describe`: several measures in one question, at one price, exact as each of them is by itself."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

DOMAIN = {
    "age": dpn.Range(0, 99),
    "sex": ["F", "M"],
    "cost": dpn.Bins(0, 500, width=10),
    "stay": dpn.Range(1, 30, nullable=True),
    "insured": bool,
}


@pytest.fixture
def people(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    rng = np.random.default_rng(11)
    rows = pd.DataFrame(
        {
            "age": rng.integers(0, 100, 2000),
            "sex": rng.choice(["F", "M"], 2000, p=[0.7, 0.3]),
            "cost": rng.integers(0, 50, 2000) * 10.0,
            "stay": np.where(rng.random(2000) < 0.25, np.nan, rng.integers(1, 31, 2000)),
            "insured": rng.random(2000) < 0.3,
        }
    )
    session = exact_session(dpn.Budget(epsilon=100.0))
    session.protect(rows, "people", domain=DOMAIN)
    yield rows
    session.close()


def quantile(values, share):
    return np.quantile(values.dropna(), share, method="inverted_cdf")


TRUTH = {
    "count": lambda values: values.count(),
    "sum": lambda values: values.sum(),
    "mean": lambda values: values.mean(),
    "median": lambda values: quantile(values, 0.5),
    "90%": lambda values: quantile(values, 0.9),
}
ASKED = {"age": ["mean", "median", "90%"], "stay": ["count", "mean", "sum"], "insured": "mean", "cost": "sum"}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("keys", [[], ["sex"], ["sex", "insured"]])
@pytest.mark.parametrize("where", [None, "age < 40"])
def test_each_is_exact(people, keys, where):
    asked = people.dp.groupby(keys) if keys else people.dp
    release = asked.agg(ASKED, where=where, epsilon=1).run()
    rows = people if where is None else people.query(where)
    names = [f"{column}_{one}" for column, some in ASKED.items() for one in ([some] if isinstance(some, str) else some)]
    assert release.names == tuple(names)
    assert release.keys == tuple(keys)
    assert len(release.frame) == 2 ** len(keys)
    for row in release.frame.to_dict("records"):
        group = rows[(rows[keys] == [row[key] for key in keys]).all(axis=1)]
        for name in names:
            column, function = name.rsplit("_", 1)
            truth = TRUTH[function](group[column])
            assert row[name] == pytest.approx(truth, rel=1e-7), name  # digits below the noise are cut
            assert row[f"{name}_lower"] <= row[name] <= row[f"{name}_upper"]
            assert row[f"{name}_std_error"] >= 0


def test_rows_may_be_counted_alone(people):
    assert people.dp.agg("count", epsilon=1).run().value == 2000
    assert people.dp.agg(["count"], epsilon=1).run().frame["count"].tolist() == [2000]
    assert people.dp.groupby("sex").agg(["count"], epsilon=1).run().frame["count"].tolist() == (
        people["sex"].value_counts()[["F", "M"]].tolist()
    )


def test_one_price_for_all(people):
    plan = people.dp.agg(ASKED, epsilon=0.5).plan
    assert plan.cost.epsilon <= 0.5 * (1 + 1e-9)
    assert [part.name for part in plan.parts] == [
        "age_mean", "age_median", "age_90%", "stay_count", "stay_mean", "stay_sum", "insured_mean", "cost_sum",
    ]  # fmt: skip
    spent = people.dp.agg(ASKED, epsilon=0.5).run().paid
    assert spent == plan.cost.epsilon
    assert people.dp.agg(ASKED, epsilon=0.5).plan.free


def test_what_one_tells_of_another_is_not_paid_twice(people):
    """Two measurements: the pair of sums of the mean, which counts the rows too, and the ranks of all quantiles."""
    plan = people.dp.describe("age", epsilon=0.6).plan
    assert len(plan.measurements) == 2
    apart = people.dp.mean("age", epsilon=0.3, fresh=True).plan
    assert plan.parts[1].half_width <= apart.error * 1.01
    median = people.dp.median("age", epsilon=0.3, fresh=True).plan
    assert [part.half_width for part in plan.parts[2:]] == pytest.approx([median.error] * 3, rel=0.25)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("planner", ["optimal", "naive"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_noisy_answers_are_within_their_intervals(people, planner, delta):
    session = dpn.Session(budget=dpn.Budget(20.0, delta), planner=planner)
    table = session.protect(people, "people", domain=DOMAIN)
    frame = table.groupby("sex").describe(["age", "stay"], epsilon=5).run().frame
    for row in frame.to_dict("records"):
        group = people[people["sex"] == row["sex"]]
        for column in ("age", "stay"):
            for name, truth in {
                "count": group[column].count(),
                "mean": group[column].mean(),
                **{f"{share}%": quantile(group[column], share / 100) for share in (25, 50, 75)},
            }.items():
                width = row[f"{column}_{name}_upper"] - row[f"{column}_{name}_lower"]
                assert abs(row[f"{column}_{name}"] - truth) <= 2 * width + 1, (column, name)  # eight standard errors
    session.close()


def test_describe_takes_all_numbers(people):
    frame = people.dp.describe(epsilon=2).run().frame
    said = ["count", "mean", "25%", "50%", "75%"]
    assert [name for name in frame if name.endswith(tuple(said))] == [
        f"{column}_{one}" for column in ("age", "cost", "stay") for one in said
    ]
    pandas = people["age"].describe()
    assert frame["age_count"].tolist() == [pandas["count"]]
    assert frame["age_mean"].iloc[0] == pytest.approx(pandas["mean"])
    assert frame["stay_count"].tolist() == [people["stay"].count()]


def test_a_ledger_keeps_them(people, tmp_path):
    for _ in range(2):
        with dpn.Session(budget=dpn.Budget(epsilon=2.0), ledger=tmp_path / "people.ledger") as session:
            table = session.protect(people, "people", domain=DOMAIN)
            again = table.groupby("sex").agg(ASKED, epsilon=1).run()
            pd.testing.assert_frame_equal(session.release(1).frame, again.frame)
            assert again.samples(3).shape == (6, 10)
    assert again.paid == 0


def test_names_that_are_taken(people):
    rows = people.rename(columns={"sex": "age_mean", "insured": "age_median_lower"})
    domain = {"age": DOMAIN["age"], "age_mean": ["F", "M"], "age_median_lower": bool}
    with exact_session(dpn.Budget(epsilon=10.0)) as session:
        table = session.protect(rows, "people", domain=domain)
        frame = table.groupby(["age_mean", "age_median_lower"]).agg({"age": ["mean", "median"]}, epsilon=1).run().frame
        assert len(frame) == 4
        assert [name for name in frame if not name.endswith(("_std_error", "_upper"))] == [
            "age_mean", "age_median_lower", "age_mean_", "age_mean__lower", "age_median_", "age_median__lower",
        ]  # fmt: skip


@pytest.mark.parametrize(
    "asked",
    [
        lambda f: f.agg({"age": ["mean", "median"], "cost": ["sum"]}, epsilon=0.5),
        lambda f: f.groupby("sex").agg({"stay": ["count", "90%"]}, where="age < 40", epsilon=0.5),
        lambda f: f.groupby(["sex", "insured"]).describe("age", epsilon=0.5),
    ],
)
def test_the_code_asks_the_same(people, asked):
    query = asked(people.dp)
    assert query.plan.code.startswith("people.dp")
    assert "agg(" in query.plan.code
    assert eval(query.plan.code).question == query.question


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("mean", 'mean is of a column: name it, as in agg({"age": "mean"})'),
        (["mean", "count"], "mean is of a column"),
        ({"age": "meen"}, "agg() has no function 'meen'; did you mean 'mean'?"),
        ({"age": "foo"}, "mean, median, std, var, min, max, sem, nunique and 90% (a quantile)"),
        ({"age": "120%"}, "agg() has no function '120%'"),
        ({"age": np.mean}, 'the names of functions, not a function; write "mean"'),
        ({"age": [sum]}, 'write "sum"'),
        ({"age": lambda values: 1}, "names of functions, not a function, such as agg("),
        ({"age": ["mean", "mean"]}, "each function of a column once"),
        ({}, "each function of a column once"),
        ({"agee": "mean"}, "'agee' is not declared in the domain of 'people'; did you mean 'age'?"),
        ({"sex": "mean"}, "only a Range, Bins or bool can be summed or averaged"),
        ({"sex": "median"}, "a quantile needs an order"),
        ({"age": "skew"}, "skew is not answered; near it are describe('age', epsilon=0.1) and std('age', epsilon=0.1)"),
        ({"age": "nlargest"}, "nlargest is the value of one person"),
        (5, "names of functions, not 5"),
    ],
)
def test_what_agg_refuses(people, asked, said):
    with pytest.raises(dpn.DPError) as caught:
        people.dp.agg(asked, epsilon=1).plan  # noqa: B018 - some is found when it is planned
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda f: f.describe("sex", epsilon=1), "quartiles need a Range or Bins; value_counts('sex') says how often"),
        (lambda f: f.describe(["age", "age"], epsilon=1), "each once"),
        (lambda f: f.describe([], epsilon=1), "each once"),
        (lambda f: f.groupby("age").describe("age", epsilon=1), "'age' is grouped by"),
        (lambda f: f.groupby("age").agg({"age": "median"}, epsilon=1), "'age' is grouped by"),
        (lambda f: f.agg({"stay": "count"}, where="stay.isna()", epsilon=1), "leaves no row with a value"),
        (lambda f: f.groupby("stay").agg({"stay": "count"}, epsilon=1), "no row with a value for 'stay_count'"),
        (lambda f: f.agg({"age": "mean"}), "exactly one of epsilon=, error=, variance="),
        (lambda f: f.describe("age", error=5).plan, "cannot hold for age and rows"),
    ],
)
def test_what_else_is_refused(people, asked, said):
    with pytest.raises(dpn.DPError) as caught:
        asked(people.dp)
    assert said in str(caught.value)


def test_nothing_to_describe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(dpn.Budget(1.0)) as session:
        table = session.protect(pd.DataFrame({"sex": ["F"]}), "people", domain={"sex": ["F", "M"]})
        with pytest.raises(dpn.DomainError, match="value_counts"):
            table.describe(epsilon=1)
