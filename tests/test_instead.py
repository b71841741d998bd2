"""What pandas has and `df.dp` has not: a short message that says what to write, and that runs as it is written."""

import copy
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.session import instead
from dpnotebook.testing import exact_session

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"], "cost": dpn.Bins(0, 500, width=10)}


@pytest.fixture(autouse=True)
def _without_noise(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.fixture
def visits():
    rows = pd.DataFrame(
        {
            "age": np.arange(1000) % 100,
            "sex": np.where(np.arange(1000) < 600, "F", "M"),
            "cost": np.arange(1000) % 50 * 10.0,
            "pid": np.arange(1000) // 2,
        }
    )
    with exact_session(dpn.Budget(epsilon=1000.0)) as session:
        session.protect(rows, "visits", unit="pid", max_rows=2, domain=DOMAIN)
        yield rows


def said(thing, name):
    with pytest.raises(dpn.UnknownVerb) as caught:
        getattr(thing, name)
    assert isinstance(caught.value, AttributeError)
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", [name for name in dir(pd.DataFrame) if not name.startswith("_")])
def test_all_that_pandas_has_is_there_or_told(visits, name):
    for thing in (visits.dp, visits.dp.table, visits.dp.groupby("sex")):
        if not hasattr(thing, name):
            text = said(thing, name)
            assert name in text
            assert len(text) < 300


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", sorted(instead._SAID))
def test_what_is_told_runs(visits, name):
    """Verbs and statements that a message writes are asked here, of `df.dp` and of groups."""
    session = visits.dp.session
    for thing in (visits.dp, visits.dp.groupby("sex")):
        if hasattr(thing, name):
            continue
        text = said(thing, name)
        for table in re.findall(r"session\.register\(.*?public=True\)", text):
            eval(table, {"session": session, "pd": pd})
        for statement in re.findall(r"session\.sql\('[^']*', epsilon=0\.1\)", text):
            if "..." not in statement:
                assert len(eval(statement, {"session": session}).run().frame), statement
        for call in re.findall(r"\b(\w+\([^()]*epsilon=0\.1\))", text):
            if "..." not in call and not call.startswith("sql"):
                assert eval(f"dp.{call}", {"dp": visits.dp}).run() is not None, call


EXPECTED = {
    "stddev": "std('age', epsilon=0.1)",
    "variance": "var('age', epsilon=0.1)",
    "corrwith": "corr('age', 'cost', epsilon=0.1)",
    "skew": "std('age', epsilon=0.1)",
    "mode": "value_counts('sex', epsilon=0.1)",
    "nlargest": "quantile('age', [0.05, 0.95], epsilon=0.1)",
    "idxmin": "quantile('age', [0.05, 0.95], epsilon=0.1)",
    "head": "those of people are never shown",
    "sample": "those of people are never shown",
    "iloc": "those of people are never shown",
    "loc": "count(where=...",
    "plot": "histogram('sex', epsilon=0.1).run().plot()",
    "to_csv": "histogram('sex', epsilon=0.1).run().to_csv(path)",
    "apply": "session.sql('SELECT SUM(age) FROM visits', epsilon=0.1)",
    "merge": "is a JOIN in SQL",
    "unique": ".domain['sex'].labels",
    "isin": "every verb has where=",
    "rolling": "an answer has an order",
    "resample": "an answer has an order",
    "pivot_table": "crosstab('sex', 'age', epsilon=0.1)",
    "shape": "count(epsilon=0.1)",
    "avg": "mean('age', epsilon=0.1)",
    "cut": "groupby({'age': [0, 33, 66]}).count(epsilon=0.1)",
    "qcut": "quantile('age', [0.25, 0.5, 0.75], epsilon=0.1)",
    "fillna": "before it is protected",
    "aggregate": "agg({'age': [\"mean\"]}, epsilon=0.1)",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_told(visits, name):
    assert EXPECTED[name] in said(visits.dp, name)


BANDS = {
    "whole numbers": {"age": dpn.Range(0, 99)},
    "bins": {"cost": dpn.Bins(0, 500, width=50)},
    "bins of their own": {"cost": dpn.Bins(edges=[0, 7.5, 40, 500])},
    "one bin": {"cost": dpn.Bins(edges=[0, 500])},
}


@pytest.mark.parametrize("declared", BANDS)
@pytest.mark.parametrize("name", ["cut", "qcut"])
def test_bands_run_as_they_are_told(visits, name, declared):
    rows = visits.copy()
    with exact_session(dpn.Budget(epsilon=1000.0)) as session:
        session.protect(rows, "visits", domain={**BANDS[declared], "sex": ["F", "M"]})
        (column,) = BANDS[declared]
        for thing, keys in ((rows.dp, []), (rows.dp.groupby("sex"), ["sex"])):
            text = said(thing, name)
            call = text.split("from some on: ")[1].split("; one number")[0]
            found = eval(f"rows.dp.{call}", {"rows": rows}).run().frame
            begins = eval(call.split(f"{column!r}: ")[1].split("}")[0])
            bands = pd.cut(rows[column], [*begins, np.inf], right=False)  # what pandas would have counted
            counted = rows.groupby([*keys, bands], observed=False).size()
            assert found["value"].tolist() == pytest.approx(counted.tolist())


def test_the_bands_of_pandas_say_how_they_are_asked(visits):
    with pytest.raises(
        dpn.DomainError, match=r"write its name, 'age'; bands of it are groupby\(\{'age': \[0, 18, 65\]\}\)"
    ):
        visits.dp.groupby(pd.cut(visits["age"], [0, 18, 65, 100]))
    with pytest.raises(dpn.DomainError, match="write its name, 'age'; declared"):
        visits.dp.groupby(visits["age"])


DECLARED = {
    "levels": DOMAIN,
    "numbers": {"cost": dpn.Bins(0, 500, width=10), "age": dpn.Range(0, 99)},
    "a number": {"age": dpn.Range(0, 99)},
    "truths": {"flag": dpn.Boolean(), "age": dpn.Range(0, 99)},
    "quotes": {"how old": dpn.Range(0, 99), "sex of": ["F", "M"]},
}


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("name", ["merge", "join", "pivot_table", "melt"])
def test_joins_and_shapes_run_as_they_are_told(visits, name, declared):
    rows = visits.assign(flag=visits["age"] > 50, **{"how old": visits["age"], "sex of": visits["sex"]})
    with exact_session(dpn.Budget(epsilon=1000.0)) as session:
        session.protect(rows, "of all", unit="pid", max_rows=2, domain=DECLARED[declared])
        text = said(rows.dp, name)
        assert len(text) < 300
        assert "..." not in text
        found = re.findall(r"session\.register\(.*?public=True\)|session\.sql\(.*?epsilon=0\.1\)", text)
        found += [f"rows.dp.{one}" for one in re.findall(r"(?:crosstab|histogram|groupby).*?epsilon=0\.1\)", text)]
        assert len(found) == 2
        for one in found:
            made = eval(one, {"session": session, "pd": pd, "rows": rows})
            assert made is None or len(made.run().frame), one


OF_PICKED = {
    "cost.hist": "histogram('cost', epsilon=0.1).run().plot()",
    "sex.mode": "value_counts('sex', epsilon=0.1)",
    "age.mode": "value_counts('age', epsilon=0.1)",
    "cost.nlargest": "quantile('cost', [0.05, 0.95], epsilon=0.1)",
    "cost.apply": "SELECT SUM(cost) FROM visits",
    "cost.isin": "cost >= 10",
    "sex.str": "sex.str.startswith('A')",
}


@pytest.mark.parametrize("name", OF_PICKED)
def test_what_is_told_speaks_of_the_column_that_was_picked(visits, name):
    column, verb = name.split(".")
    assert OF_PICKED[name] in said(visits.dp[column], verb)


def test_columns_are_not_worked_with():
    """What pandas does with columns says what to write, not that a type does not support it."""
    session = exact_session(dpn.Budget(epsilon=9.0))
    cost = session.protect(pd.DataFrame({"cost": [1.0]}), "t", domain={"cost": dpn.Bins(0, 9, width=1)})["cost"]
    for work in (lambda: cost + 1, lambda: 1 - cost, lambda: cost / cost):
        with pytest.raises(dpn.errors.UnknownVerb, match=r"session.sql\('SELECT AVG\(cost\) FROM t', epsilon=0.1\)"):
            work()
    for condition in (lambda: ~cost, lambda: cost & cost, lambda: cost > 1):
        with pytest.raises(dpn.errors.UnknownVerb, match=r'count\(where="cost >= 10", epsilon=0.1\)'):
            condition()
    with pytest.raises(dpn.errors.UnknownVerb, match="those of people are never shown"):
        list(cost)
    session.close()


def test_groups_and_names_that_need_quotes():
    rows = pd.DataFrame({"a b": [1.0], "who's": ["x"], "sex": ["F"]})
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        domain = {"a b": dpn.Bins(0, 10, width=1), "sex": ["F", "M"]}
        table = session.protect(rows, "my table", unit="who's", max_rows=1, domain=domain)
        for name in ("apply", "transform"):
            text = said(table.groupby("sex"), name)
            assert "GROUP BY sex" in text
            statement = re.search(r"session\.sql\(.*epsilon=0\.1\)", text).group()
            assert eval(statement).run().frame["sex"].tolist() == ["F", "M"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("histogramm", "did you mean histogram?"),
        ("Count", "did you mean count?"),
        ("foo", "there are agg, answer, cdf"),
    ],
)
def test_misspelt_names(visits, name, hint):
    assert said(visits.dp, name) == f"df.dp has no {name}; {hint}" or said(visits.dp, name).startswith(
        f"df.dp has no {name}; {hint}"
    )


def test_what_looks_for_attributes_is_told_that_they_are_not_there(visits):
    for thing in (visits.dp, visits.dp.table, visits.dp.groupby("sex"), pd.DataFrame({"a": [1]}).dp):
        assert not hasattr(thing, "skew")
        assert not hasattr(thing, "_repr_html_of_nobody_")
        assert getattr(thing, "_ipython_canary_method_should_not_exist_", None) is None
        assert "skew" not in dir(thing)
    assert {"agg", "describe", "median", "value_counts", "std", "corr", "nunique"} <= {*dir(visits.dp)}


BESIDE = [
    (lambda f: f.dp[f.age > 3], "every verb has where="),
    (lambda f: len(f.dp), "the exact number of rows, which is not public"),
    (lambda f: f["age"].dp, "a column has no dp: ask its frame, and name it"),
    (lambda f: f.dp.count(epsilon=0.1).frame, "a query has no frame before it is run: query.run().frame"),
    (lambda f: f.dp.count(epsilon=0.1).collect(), "and query.run() answers it"),
    (lambda f: float(f.dp.count(epsilon=0.1)), "query.run().value"),
    (lambda f: f.dp.session["visits"], "a table of a session is session.table('visits')"),
    (lambda f: f.dp.session.mean("age"), "mean is asked of a table: session.table('visits').mean(...)"),
    (lambda f: f.dp.session.execute("SELECT 1"), "session.sql('SELECT COUNT(*) FROM visits', epsilon=0.1)"),
    (lambda f: f.dp.session.balance, "session.remaining and session.spent"),
    (lambda f: f.dp.session.public(f, "wards"), "public=True"),
    (lambda f: f.dp.session.tabel, "a session has no tabel; did you mean table?"),
]


@pytest.mark.parametrize(("call", "text"), BESIDE)
def test_brackets_queries_columns_and_sessions(visits, call, text):
    with pytest.raises(dpn.UnknownVerb) as caught:
        call(visits)
    assert text in str(caught.value)


def test_a_table_is_true_and_a_column_has_no_dp(visits):
    assert visits.dp
    assert visits.dp.table
    assert visits.dp.groupby("sex")
    assert not hasattr(visits["age"], "dp")
    assert "dp" not in dir(visits["age"])


def test_underscores_are_pythons_own(visits):
    with pytest.raises(AttributeError) as caught:
        visits.dp._nothing  # noqa: B018
    assert type(caught.value) is AttributeError
    grouped = copy.copy(visits.dp.groupby("sex"))
    assert grouped.count(epsilon=1).run().frame["value"].tolist() == [600, 400]
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        pickle.dumps(visits.dp.table)


def test_a_frame_that_is_not_protected_is_told_all_the_same():
    assert "is a JOIN in SQL" in said(pd.DataFrame({"a": [1]}).dp, "merge")
    with pytest.raises(dpn.NotProtected):
        pd.DataFrame({"a": [1]}).dp.median("a", epsilon=1)


def test_no_value_of_the_data_is_told(visits):
    frame = pd.DataFrame({"age": [31], "sex": ["F"], "name": ["Zebulon"], "score": [98765.25]})
    with exact_session(dpn.Budget(1.0)) as session:
        session.protect(frame, "people", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"]})
        for name in instead._SAID:
            if not hasattr(frame.dp, name):
                text = said(frame.dp, name)
                assert not any(value in text for value in ("Zebulon", "98765", "31"))


def test_spans_of_dates_are_said_as_such():
    rows = pd.DataFrame({"seen": pd.to_datetime(["2023-05-17"] * 50), "sex": "F", "cost": 3})
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        table = session.protect(rows, "visits", domain={"seen": dpn.Dates("2023", "2023"), "cost": dpn.Range(0, 9)})
        call = re.search(r"groupby.*0\.1\)", said(table, "resample")).group()
        assert len(eval(f"table.{call}", {"table": table}).run().frame) == 12
        with pytest.raises(dpn.DomainError, match="parts of dates are said so"):
            table.groupby("seen.dt.month")
        assert table.quantile("seen", epsilon=1).run().value == pd.Timestamp("2023-05-17")
        with pytest.raises(dpn.DomainError, match="declare it as Dates"):
            session.protect(rows, "again", domain={"seen": ["2023-05-17"]})
        assert len(table.groupby({"seen": "year"}).mean("cost", epsilon=1).run().frame) == 1
