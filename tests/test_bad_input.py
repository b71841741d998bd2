"""Bad input through the public API: a short error in the user's words, nothing spent, nothing lost, no value shown.

Every case runs in a session that has already answered something; after the refusal that answer is read again, the
budget is as it was, and the ledger still adds up.
"""

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

# Values that stand in the data and nowhere else: no message may hold one of them.
SECRETS = ("Zebulon", "98765", "4242", "3.14159", "Harrogate")
DOMAIN = {
    "age": dpn.Range(0, 99),
    "sex": ["F", "M"],
    "town": dpn.Categories(["Bath", "York"], other="elsewhere"),
    "income": dpn.Bins(0, 100_000, width=10_000),
    "smokes": bool,
}
PURE, GAUSSIAN = dpn.Budget(1.0), dpn.Budget(1.0, 1e-6)


def rows():
    return pd.DataFrame(
        {
            "age": [31, 4242, 64, 80] * 5,
            "sex": ["F", "M", "F", "M"] * 5,
            "town": ["Harrogate", "Bath", "York", "Bath"] * 5,
            "income": [98765.43, 20_000.0, np.inf, -5.0] * 5,
            "smokes": [True, False, False, True] * 5,
            "name": ["Zebulon", "Ann", "Bo", "Cy"] * 5,
            "score": [3.14159, np.nan, -np.inf, 0.0] * 5,
            "who": [1, 1, 2, 3] * 5,
        }
    )


class Ward:
    """A session with a table and one release, and what must still be true after something was refused."""

    def __init__(self, budget=PURE, ledger=":memory:", timeout=0.2):
        self.session = dpn.Session(budget, ledger, timeout=timeout)
        self.frame = rows()
        self.table = self.session.protect(self.frame, "people", domain=DOMAIN)
        self.release = self.frame.dp.histogram("age", epsilon=0.25).run()

    def check(self, entries=1):
        session = self.session
        assert session.spent.epsilon == pytest.approx(0.25)
        assert len(session.history()) == entries
        assert session.audit().ok
        again = session.release(self.release.number)
        assert again.frame.equals(self.release.frame)
        assert session.table("people").histogram("age", epsilon=0.25).run().paid == 0.0


def said(caught):
    """Return what an error says, after checking that it is short, one of ours, and holds no value of the data."""
    error = caught.value
    text = str(error)
    assert isinstance(error, dpn.DPError)
    assert 10 < len(text) < 400
    assert not any(secret in text for secret in SECRETS)
    assert error.__cause__ is None or not any(secret in str(error.__cause__) for secret in SECRETS)
    (line,) = error._render_traceback_()
    assert type(error).__name__ in line
    assert text in line
    return text


@pytest.fixture(scope="module")
def shared():
    """A ward for everything that is refused before the ledger is touched: one for all, so that nothing adds up."""
    ward = Ward()
    yield ward
    ward.check()
    ward.session.close()


def refused(ward, kind, call, *words):
    """Check that a call is refused with these words, and that nothing came of it."""
    head = ward.session.ledger.head
    with pytest.raises(kind) as caught:
        call(ward)
    text = said(caught)
    for word in words:
        assert word in text, text
    assert ward.session.ledger.head == head
    ward.check()


def protect(**options):
    """Return a call that protects other rows in the ward's session."""
    frame = options.pop("frame", None)
    name = options.pop("name", "other")
    options.setdefault("domain", DOMAIN)
    return lambda ward: ward.session.protect(rows() if frame is None else frame, name, **options)


def ask(verb, *args, **options):
    """Return a call that asks, plans and runs."""

    def call(ward):
        query = getattr(ward.frame.dp, verb)(*args, **options)
        return query.plan, query.run()

    return call


UNITS = {
    "rows bounded without a unit": (protect(max_rows=3), "unit="),
    "max_rows of zero": (protect(unit="who", max_rows=0), "max_rows=8", "got 0"),
    "negative max_rows": (protect(unit="who", max_rows=-4), "got -4"),
    "fractional max_rows": (protect(unit="who", max_rows=2.5), "got 2.5"),
    "max_rows as text": (protect(unit="who", max_rows="8"), "got '8'"),
    "max_rows as a truth value": (protect(unit="who", max_rows=True), "got True"),
    "max_rows beyond reason": (protect(unit="who", max_rows=10**30), "max_rows=8"),
    "a unit that is no column": (protect(unit="patient", max_rows=2), "unit='patient' is not a column", "age, sex"),
    "a unit that is a number": (protect(unit=7, max_rows=2), "unit=", "7"),
    "a unit that is a list": (protect(unit=["who"], max_rows=2), "unit="),
    "a unit that is the index": (protect(frame=rows().set_index("who"), unit="who"), "protect frame.reset_index()"),
    "a unit whose name is a number": (
        protect(frame=rows().rename(columns={"who": 7}), unit="7"),
        "frame.columns = frame.columns.map(str)",
    ),
    "a unit and a column that differ in case": (
        protect(frame=rows().rename(columns={"who": "AGE"}), unit="AGE", max_rows=2),
        "differ only in case",
    ),
}

DOMAINS = {
    "no column at all": (protect(domain={}), "at least one column"),
    "a list for a domain": (protect(domain=["age"]), "dict"),
    "a column that the frame does not have": (protect(domain={"ages": dpn.Range(0, 9)}), "'ages' is in the domain"),
    "a column that is a level of the index": (
        protect(frame=rows().set_index(["sex", "who"]), domain={"sex": ["F", "M"]}),
        "protect frame.reset_index()",
    ),
    "columns in two levels": (
        protect(frame=pd.concat({"a": rows()}, axis=1), domain={"age": dpn.Range(0, 9)}),
        "frame.columns = frame.columns.map('_'.join)",
    ),
    "a type for levels": (protect(domain={"age": int}), "Range(low, high)"),
    "a column of data for levels": (lambda ward: protect(domain={"age": ward.frame["age"]})(ward), "column of data"),
    "no levels": (protect(domain={"sex": []}), "'sex'"),
    "levels twice": (protect(domain={"sex": ["F", "F"]}), "'F'"),
    "a number for a column": (protect(domain={3: dpn.Range(0, 9)}), "column names are text"),
    "columns that differ in case": (protect(domain={"age": bool, "Age": bool}), "differ only in case"),
    "text where numbers are declared": (protect(domain={"sex": dpn.Range(0, 9)}), "'sex' is declared as", "text"),
    "numbers where text is declared": (protect(domain={"age": ["F", "M"]}), "the column holds numbers"),
    "text where truth values are declared": (protect(domain={"sex": bool}), "the column holds text"),
    "overlapping bins": (lambda ward: dpn.Bins(intervals=[(0, 10), (5, 20)]), "overlap"),
    "bins with a gap": (lambda ward: dpn.Bins(intervals=[(0, 10), (15, 20)]), "15"),
    "falling edges": (lambda ward: dpn.Bins(edges=[0, 20, 10]), "edges"),
    "bins to infinity": (lambda ward: dpn.Bins(0, float("inf"), count=10), "finite"),
    "bins from nowhere": (lambda ward: dpn.Bins(float("nan"), 10, count=10), "finite"),
    "a width that does not divide": (lambda ward: dpn.Bins(0, 10, width=3), "width"),
    "a width of zero": (lambda ward: dpn.Bins(0, 10, width=0), "width"),
    "an empty range": (lambda ward: dpn.Range(10, 0), "Range(10, 0) is empty"),
    "a range to infinity": (lambda ward: dpn.Range(0, float("inf")), "finite"),
    "a range of fractions": (lambda ward: dpn.Range(0, 1.5), "whole number"),
    "a range without end": (lambda ward: dpn.Range(0, 10**9), "levels"),
    "dates": (lambda ward: dpn.Range(date(2020, 1, 1), date(2024, 1, 1)), "Dates("),
}


LONG = np.array([1 + 1j], dtype=np.clongdouble)


def odd(**columns):
    """Return a frame of odd columns."""
    return pd.DataFrame(columns)


def elsewhere(domain, frame=None):
    """Return the verbs of a table in a session of its own."""
    frame = odd(**{name: [1] for name in domain}) if frame is None else frame
    return dpn.Session(PURE).protect(frame, "elsewhere", domain=domain)


FRAMES = {
    "nothing": (protect(frame=pd.DataFrame()), "is in the domain but not in the table"),
    "a column": (protect(frame=rows()["age"]), "cannot protect a Series"),
    "an array": (protect(frame=np.eye(3)), "cannot protect a ndarray"),
    "a dict": (protect(frame={"age": [1]}), "cannot protect a dict"),
    "a file that is not there": (protect(frame="nowhere.parquet"), "there is no file"),
    "a file that is no Parquet": (protect(frame=Path(__file__)), "cannot be read as a Parquet file"),
    "a database that is none": (protect(frame=(Path(__file__), "t")), "cannot be opened as a DuckDB database"),
    "a database of another kind": (protect(frame=(5, "t")), "cannot protect a tuple"),
    "two columns of one name": (
        protect(frame=pd.DataFrame([[1, 4242]], columns=["age", "age"]), domain={"age": DOMAIN["age"]}),
        "two columns of the same name",
    ),
    "a number for a column name": (
        protect(frame=odd(age=[1]).rename(columns={"age": 0}), domain={"0": dpn.Range(0, 9)}),
        "'0' is in the domain but not in the table",
    ),
    "columns of several levels": (
        protect(frame=rows().set_axis(pd.MultiIndex.from_product([["a"], rows().columns]), axis=1)),
        "'age' is in the domain but not in the table",
    ),
    "texts": (
        protect(frame=odd(age=["Zebulon", "4242"]), domain={"age": dpn.Range(0, 9)}),
        "'age' is declared as Range(0, 9)",
        "text",
    ),
    "dates": (protect(frame=odd(age=pd.to_datetime(["2020-01-01"])), domain={"age": dpn.Range(0, 9)}), "holds dates"),
    "months": (protect(frame=odd(age=pd.period_range("2020", periods=2, freq="M")), domain={"age": bool}), "period[M]"),
    "complex numbers": (protect(frame=odd(age=LONG), domain={"age": dpn.Range(0, 9)}), LONG.dtype.name),
    "no name": (protect(name=""), "needs a name"),
    "no text for a name": (protect(name=None), "needs a name"),
    "a name of two lines": (protect(name="a\nb"), "one line"),
    "a name without end": (protect(name="x" * 5000), "100 characters"),
    "no rows expected": (protect(rows=0), "rows must be"),
    "rows as text": (protect(rows="many"), "rows must be"),
}

QUESTIONS = {
    "an undeclared column": (ask("histogram", "agee", epsilon=0.1), "'agee'", "did you mean 'age'?"),
    "a column of the frame that is undeclared": (ask("histogram", "name", epsilon=0.1), "'name' is not declared"),
    "a number for a column": (ask("histogram", 3, epsilon=0.1), "3 is not declared"),
    "no column": (ask("histogram", None, epsilon=0.1), "None is not declared"),
    "a list for a column": (ask("sum", ["age"], epsilon=0.1), "['age'] is not declared"),
    "one column twice": (ask("crosstab", "age", "age", epsilon=0.1), "comes twice"),
    "a crosstab of one column": (ask("crosstab", "age", epsilon=0.1), "histogram takes one"),
    "a sum of text": (ask("sum", "sex", epsilon=0.1), "'sex'", "Range, Bins or bool"),
    "a mean of truth values within bounds": (ask("mean", "smokes", bounds=(0, 1), epsilon=0.1), "'smokes'", "bounds="),
    "a median of text": (ask("quantile", "sex", epsilon=0.1), "needs an order"),
    "a quantile beyond 1": (ask("quantile", "age", 50, epsilon=0.1), "between 0 and 1"),
    "a quantile that is no number": (ask("quantile", "age", float("nan"), epsilon=0.1), "between 0 and 1"),
    "bounds that fall": (ask("sum", "age", bounds=(9, 1), epsilon=0.1), "increasing"),
    "bounds to infinity": (ask("sum", "age", bounds=(0, float("inf")), epsilon=0.1), "finite"),
    "bounds that are no numbers": (ask("mean", "age", bounds="ab", epsilon=0.1), "two numbers"),
    "one bound": (ask("mean", "age", bounds=(5,), epsilon=0.1), "two numbers"),
    "bounds beyond the declared": (ask("sum", "age", bounds=(-5, 500), epsilon=0.1), "0 to 99", "write bounds within"),
    "a granularity of zero": (ask("sum", "income", granularity=0, epsilon=0.1), "granularity"),
    "a granularity that does not divide": (ask("sum", "income", granularity=7, epsilon=0.1), "does not divide"),
    "a granularity too fine": (ask("sum", "income", granularity=1e-9, epsilon=0.1), "write granularity="),
    "a table that is too large": (
        lambda ward: elsewhere({name: dpn.Range(0, 999) for name in "abc"}).crosstab("a", "b", "c", epsilon=0.1).plan,
        "1,000,000,000 cells",
        "where=",
    ),
    "a workload of another size": (ask("answer", dpn.workload.Prefix(5), "age", epsilon=0.1), "over 5 cells"),
    "a matrix for a workload": (ask("answer", np.eye(2), "sex", epsilon=0.1), "takes a workload"),
    "a condition that is no text": (ask("count", where=5, epsilon=0.1), "where= is a text"),
    "a condition on an undeclared column": (ask("count", where="name == 'x'", epsilon=0.1), "'name'"),
    "a level that is none": (ask("count", where="sex == 'X'", epsilon=0.1), "sex"),
    "a cut through a bin": (ask("count", where="income > 12_345", epsilon=0.1), "10_000", "20_000"),
    "a comparison with infinity": (ask("count", where="age < 1e999", epsilon=0.1), "infinity"),
    "a condition that nothing satisfies": (ask("count", where="age < 0", epsilon=0.1), "nothing"),
    "code": (ask("count", where="__import__('os').system('true')", epsilon=0.1), "not supported"),
    "half a condition": (ask("count", where="age >", epsilon=0.1), "where="),
    "a median of no value": (
        lambda ward: elsewhere({"x": dpn.Range(0, 9, nullable=True)}).quantile("x", where="x.isna()", epsilon=0.1).plan,
        "nothing to rank",
    ),
    "ranks of what is grouped by": (
        lambda ward: ward.frame.dp.groupby("age").cdf("age", epsilon=0.1),
        "grouped by",
    ),
    "a release that is none": (lambda ward: ward.session.release(77), "no release 77"),
    "a release by name": (lambda ward: ward.session.release("age"), "numbered"),
    "a table that is none": (lambda ward: ward.session.table("persons"), "'persons'", "people"),
}

NUMBERS = {
    "negative": -0.1,
    "zero": 0,
    "nan": float("nan"),
    "infinite": float("inf"),
    "text": "0.1",
    "a truth value": True,
    "a list": [0.1],
    "complex": 1j,
    "missing": pd.NA,
    "beyond floats": 10**400,
}

ACCURACIES = {
    "neither": (ask("count"), "exactly one of", "error=25"),
    "epsilon and error": (ask("count", epsilon=0.1, error=5), "epsilon= and error="),
    "error and variance": (ask("count", variance=10, error=5), "error= and variance="),
    "all three": (ask("count", epsilon=0.1, variance=10, error=5), "exactly one of"),
    "epsilon of None": (ask("count", epsilon=None), "exactly one of"),
    "epsilon too small for anything": (ask("count", epsilon=1e-15), "too small"),
    "epsilon too small for a sum": (
        lambda ward: ward.frame.dp.sum("income", granularity=0.001, epsilon=1e-9).plan,
        "larger epsilon",
    ),
    "the error of a mean of unknown size": (
        ask("mean", "income", where="age > 50 and sex == 'F'", error=2),
        "number of rows",
        "rows=",
    ),
    "fresh as text": (ask("count", epsilon=0.1, fresh="no"), "fresh="),
    "rows assumed negative": (lambda ward: ward.frame.dp.mean("age", epsilon=0.1).assuming(rows=-3), "rows must be"),
    "a mean assumed nan": (
        lambda ward: ward.frame.dp.mean("age", epsilon=0.1).assuming(value=float("nan")),
        "finite number",
    ),
    **{
        f"{name} that is {what}": (ask("count", **{name: value}), name)
        for name in ("epsilon", "error", "variance")
        for what, value in NUMBERS.items()
    },
    **{
        f"confidence that is {what}": (ask("count", epsilon=0.1, confidence=value), "confidence")
        for what, value in (NUMBERS | {"one": 1, "per cent": 95, "none": None, "too sure": 1 - 1e-12}).items()
    },
}

STATEMENTS = {
    "rows": ("SELECT * FROM people", "rows cannot be shown"),
    "a column that is not there": ("SELECT COUNT(*) FROM people WHERE nickname = 'x'", "'nickname'"),
    "a level that was not declared": ("SELECT COUNT(*) FROM people WHERE sex = 'x'", "no level 'x'"),
    "groups that nobody declared": ("SELECT who, COUNT(*) FROM people GROUP BY who", "delta"),
    "an unknown table": ("SELECT COUNT(*) FROM persons", "persons"),
    "two statements": ("SELECT COUNT(*) FROM people; DROP TABLE people", "one at a time"),
    "a file": ("SELECT COUNT(*) FROM '/etc/passwd'", "not of files"),
    "a function of a file": ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "cannot stand in FROM"),
    "a change": ("DELETE FROM people", "SELECT"),
    "a join": ("SELECT COUNT(*) FROM people JOIN people AS b ON true", "public tables only"),
    "a comma too many": ("SELECT age,, COUNT(*) FROM people GROUP BY age", "comma"),
    "no statement": ("", "SELECT"),
}


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        pytest.param(kind, case, id=name)
        for kind, table in (
            (dpn.DomainError, UNITS),
            (dpn.DomainError, DOMAINS),
            (dpn.DPError, FRAMES),
            (dpn.DPError, QUESTIONS),
            (dpn.AccuracyError, ACCURACIES),
        )
        for name, case in table.items()
    ],
)
def test_refused(shared, kind, case):
    call, *words = case
    refused(shared, kind, call, *words)


def test_a_keyword_that_no_verb_has(shared):
    refused(shared, dpn.ArgumentError, ask("count", eps=0.1), "eps=", "did you mean epsilon=?")


@pytest.mark.parametrize("case", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_statements_that_are_refused(shared, case):
    statement, word = case
    kind = (dpn.SQLError, dpn.NotProtected)
    refused(shared, kind, lambda ward: ward.session.sql(statement, epsilon=0.1).run(), word)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
@pytest.mark.parametrize("what", NUMBERS)
def test_budgets_that_are_none(what, delta):
    with pytest.raises(dpn.AccuracyError) as caught:
        dpn.Session(dpn.Budget(NUMBERS[what], delta))
    assert "budget" in said(caught)


@pytest.mark.parametrize("delta", [-1e-6, 1, 1.5, "1e-6", True, None, float("nan")])
def test_deltas_that_are_none(delta):
    with pytest.raises(dpn.AccuracyError) as caught:
        dpn.Budget(1.0, delta)
    assert "delta" in said(caught)


def test_a_session_needs_a_budget():
    for budget in (1.0, None, "1"):
        with pytest.raises(dpn.AccuracyError) as caught:
            dpn.Session(budget)
        assert "dpn.Budget(epsilon=1.0)" in said(caught)
    with pytest.raises(dpn.AccuracyError, match="protects nobody"):
        dpn.Session(dpn.Budget(1e9))


def exactly(frame, domain, monkeypatch, **options):
    """Return a table whose answers have no noise."""
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session = exact_session(dpn.Budget(900.0))
    return session.protect(frame, "t", domain=domain, **options)


def test_nan_and_infinity_in_the_data_are_counted_as_declared(monkeypatch):
    """Missing is missing, infinity is beyond every bound, and no answer becomes NaN."""
    frame = odd(x=[np.nan, np.inf, -np.inf, 1.5, 7.0, np.nan], y=[1, 1, 1, 2, 2, 2])
    kinds = {
        dpn.Range(0, 3): [1, 1, 0, 2],
        dpn.Range(0, 3, nullable=True): [1, 1, 0, 2, 2],
        dpn.Range(0, 3, outside="other"): [0, 1, 0, 0, 3],
        dpn.Range(0, 3, outside="other", nullable=True): [0, 1, 0, 0, 3, 2],
        dpn.Bins(0, 4, width=2): [2, 2],
        dpn.Bins(0, 4, width=2, outside="other", nullable=True): [1, 0, 3, 2],
    }
    for declared, expected in kinds.items():
        table = exactly(frame, {"x": declared}, monkeypatch)
        assert table.histogram("x", epsilon=50.0).run().frame["value"].tolist() == expected, declared
        assert np.isfinite(table.sum("x", epsilon=50.0).run().value)
        assert np.isfinite(table.mean("x", epsilon=50.0).run().value)
    assert exactly(frame, {"x": dpn.Bins(0, 4, width=2)}, monkeypatch).sum("x", epsilon=50.0).run().value == 9.5


def test_rows_outside_the_domain_are_no_rows(monkeypatch):
    """A table all of whose rows are outside answers zero, and says nothing else."""
    table = exactly(odd(sex=["Zebulon", None]), {"sex": ["F", "M"]}, monkeypatch)
    assert table.count(epsilon=50.0).run().value == 0
    assert table.histogram("sex", epsilon=50.0).run().frame["value"].tolist() == [0, 0]
    assert np.isfinite(table.groupby("sex").count(epsilon=0.1).run().frame["lower"]).all()


COLUMNS = {
    "int": np.arange(12),
    "float": np.arange(12) / 2,
    "bool": np.arange(12) % 3 == 0,
    "str": pd.array(["a", "b", "c"] * 4, dtype="str"),
    "object": np.array(["a", "b", "c"] * 4, dtype=object),
    "category": pd.Categorical(["a", "b", "c"] * 4),
    "Int64": pd.array([1, 2, None] * 4, dtype="Int64"),
    "boolean": pd.array([True, False, None] * 4, dtype="boolean"),
    "string": pd.array(["a", "b", None] * 4, dtype="string"),
    "arrow int": pd.array([1, 2, None] * 4, dtype="int64[pyarrow]"),
    "arrow text": pd.array(["a", "b", None] * 4, dtype="string[pyarrow]"),
}
DECLARED = {
    "int": dpn.Range(0, 20),
    "float": dpn.Bins(0, 10, width=1),
    "bool": bool,
    "boolean": dpn.Boolean(nullable=True),
    "Int64": dpn.Range(0, 9, nullable=True),
    "arrow int": dpn.Range(0, 9, nullable=True),
}
TEXT = dpn.Categories(["a", "b", "c"], nullable=True)


def by_loc(frame):
    frame.loc[0, "x"] = frame["x"].iloc[1]


def by_iloc(frame):
    frame.iloc[0, 0] = frame["x"].iloc[1]


def by_at(frame):
    frame.at[0, "x"] = frame["x"].iloc[1]


def by_mask(frame):
    frame.loc[frame.index > 5, "x"] = frame["x"].iloc[0]


def by_column(frame):
    frame["x"] = frame["x"].to_numpy()[::-1].copy()


def by_deleting(frame):
    del frame["x"]


def by_popping(frame):
    frame.pop("x")


def by_renaming(frame):
    frame.rename(columns={"x": "z"}, inplace=True)


def by_appending(frame):
    frame.loc[len(frame)] = frame.iloc[0]


def by_dropping(frame):
    frame.drop(index=0, inplace=True)


def by_sorting(frame):
    frame.sort_values("x", ascending=False, inplace=True)


def by_filling(frame):
    frame.loc[:, "x"] = frame["x"].iloc[1]


MUTATIONS = [
    by_loc, by_iloc, by_at, by_mask, by_column, by_deleting, by_popping, by_renaming, by_appending, by_dropping,
    by_sorting, by_filling,
]  # fmt: skip


@pytest.mark.one_in(24)
@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@pytest.mark.parametrize("dtype", COLUMNS)
def test_a_frame_that_was_changed(dtype, mutate, monkeypatch):
    """Its own questions stop, also those that were made before; the snapshot still answers."""
    frame = pd.DataFrame({"x": COLUMNS[dtype], "y": np.arange(12)})
    declared = DECLARED.get(dtype, TEXT)
    table = exactly(frame, {"x": declared}, monkeypatch)
    session = table.session
    before = frame.dp.histogram("x", epsilon=1.0)
    expected = table.histogram("x", epsilon=50.0).run().frame["value"].tolist()
    early = frame.dp.count(epsilon=2.0)
    mutate(frame)
    spent = session.spent
    for ask_ in (before.run, early.run, lambda: frame.dp.count(epsilon=1.0), lambda: frame.dp.groupby("x")):
        with pytest.raises(dpn.FrameChanged) as caught:
            ask_()
        assert "'x' was changed after 't' was protected; nothing was spent" in said(caught)
    assert session.spent == spent
    again = session.table("t").histogram("x", epsilon=50.0, fresh=True).run()
    assert again.frame["value"].tolist() == expected
    assert session.audit().ok


@pytest.mark.parametrize("harmless", ["another column", "undeclared column", "index", "attrs", "reading", "a copy"])
def test_what_does_not_touch_the_declared_columns_is_no_change(harmless):
    frame = pd.DataFrame({"x": np.arange(12), "y": np.arange(12)})
    session = dpn.Session(PURE)
    session.protect(frame, "t", domain={"x": dpn.Range(0, 20)})
    match harmless:
        case "another column":
            frame["z"] = 1
        case "undeclared column":
            frame.loc[0, "y"] = 77
        case "index":
            frame.index = list("abcdefghijkl")
        case "attrs":
            frame.attrs["note"] = "mine"
        case "reading":
            frame["x"].sum(), frame.groupby("y")["x"].mean(), frame.sort_values("x")
        case "a copy":
            twin = frame.copy()
            twin.loc[0, "x"] = 19
            view = frame[["x"]]
            view.loc[0, "x"] = 19
    assert frame.dp.count(epsilon=0.5).run().paid == 0.5
    session.close()


def test_the_same_rows_protected_again_after_a_change(tmp_path):
    """The ledger knows the name for the old rows: another name, or the old rows again, both go on."""
    frame = rows()
    ward = Ward(ledger=tmp_path / "a.ledger")
    frame = ward.frame
    frame.loc[0, "age"] = 5
    with pytest.raises(dpn.LedgerMismatch) as caught:
        ward.session.protect(frame, "people", domain=DOMAIN)
    text = said(caught)
    assert "people_2" in text
    assert "data" in text
    ward.check()
    ward.session.protect(frame, "people_2", domain=DOMAIN)
    frame.dp.count(epsilon=0.5).run()
    assert ward.session.spent.epsilon == pytest.approx(0.75)  # the same person may be in both
    frame.loc[0, "age"] = 31
    ward.session.protect(frame, "people", domain=DOMAIN)
    assert frame.dp.histogram("age", epsilon=0.25).run().paid == 0.0
    assert ward.session.audit().ok


def test_a_parquet_file_that_was_changed(tmp_path):
    """Its rows are read at every query: when it is replaced, questions stop; releases and another name go on."""
    path = tmp_path / "people.parquet"
    rows().to_parquet(path)
    session = dpn.Session(dpn.Budget(2.0))
    table = session.protect(path, "people", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"]})
    release = table.histogram("age", epsilon=0.5).run()
    rows().assign(age=7).to_parquet(path)
    for use in (table.count(epsilon=0.5).run, table.histogram("age", epsilon=0.5).run):
        with pytest.raises(dpn.FrameChanged) as caught:
            use()
        assert "was changed after it was protected; nothing was spent" in said(caught)
    assert session.spent.epsilon == 0.5
    assert session.release(1).frame.equals(release.frame)
    with pytest.raises(dpn.LedgerMismatch):
        session.protect(path, "people", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"]})
    session.protect(path, "people_2", domain={"age": dpn.Range(0, 99)}).count(epsilon=0.5).run()
    path.unlink()
    with pytest.raises(dpn.FrameChanged):
        session.table("people_2").count(epsilon=1.0).run()
    assert session.spent.epsilon == 1.0
    assert session.audit().ok


def test_a_table_of_a_connection_that_was_changed(monkeypatch):
    """What was protected is what is counted, whatever is written to the table afterwards, or if it is dropped."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range % 4 AS age, range AS who FROM range(40)")
    table = exactly((connection, "t"), {"age": dpn.Range(0, 9)}, monkeypatch)
    bounded = table.session.protect((connection, "t"), "b", domain={"age": dpn.Range(0, 9)}, unit="age", max_rows=5)
    connection.execute("UPDATE t SET age = 9")
    connection.execute("INSERT INTO t SELECT 8, range FROM range(1000)")
    assert table.histogram("age", epsilon=50.0).run().frame["value"].tolist() == [10.0] * 4 + [0.0] * 6
    with pytest.raises(dpn.LedgerMismatch):
        table.session.protect((connection, "t"), "t", domain={"age": dpn.Range(0, 9)})
    connection.execute("DROP TABLE t")
    assert table.count(where="age < 2", epsilon=50.0).run().value == 20
    assert bounded.count(epsilon=50.0).run().value == 20
    with pytest.raises(dpn.DomainError) as caught:
        table.session.protect((connection, "t"), "u", domain={"age": dpn.Range(0, 9)})
    assert "no table or view 't'" in said(caught)
    connection.close()
    with pytest.raises(dpn.DomainError) as caught:
        table.session.protect((connection, "t"), "u", domain={"age": dpn.Range(0, 9)})
    assert "cannot be opened" in said(caught)


DERIVED = {
    "filtered": lambda frame: frame[frame["age"] > 40],
    "copied": lambda frame: frame.copy(),
    "copied shallow": lambda frame: frame.copy(deep=False),
    "sliced": lambda frame: frame.iloc[:5],
    "sliced in full": lambda frame: frame[:],
    "merged": lambda frame: frame.merge(frame, on="who"),
    "grouped": lambda frame: frame.groupby("sex", as_index=False).sum(numeric_only=True),
    "columns": lambda frame: frame[["age"]],
    "assigned": lambda frame: frame.assign(age=1),
    "sorted": lambda frame: frame.sort_values("age"),
    "reset": lambda frame: frame.reset_index(),
    "concatenated": lambda frame: pd.concat([frame]),
    "piped": lambda frame: frame.query("age > 40"),
    "another": lambda frame: rows(),
}


@pytest.mark.parametrize("how", DERIVED)
def test_a_derived_frame_has_no_answers(shared, how):
    frame = DERIVED[how](shared.frame)
    head = shared.session.ledger.head
    for verb in (
        lambda: frame.dp.count(epsilon=0.1),
        lambda: frame.dp.groupby("sex").count(epsilon=0.1),
        lambda: frame.dp.table,
    ):
        with pytest.raises(dpn.NotProtected) as caught:
            verb()
        text = said(caught)
        assert "where='age >= 65'" in text
        assert "session.protect(frame, name, domain={...})" in text
    assert "not protected" in repr(frame.dp)
    assert shared.session.ledger.head == head
    shared.check()


def test_a_frame_outlives_neither_its_session_nor_itself():
    session = dpn.Session(PURE)
    frame = rows()
    session.protect(frame, "people", domain=DOMAIN)
    session.close()
    for use in (frame.dp.count(epsilon=0.1).run, lambda: session.spent, lambda: session.release(1)):
        with pytest.raises(dpn.DPError) as caught:
            use()
        assert "closed" in said(caught)
    assert "closed" in repr(session)
    with pytest.raises(dpn.NotProtected) as caught:
        dpn.active_session()
    assert "dpn.Session(budget=" in said(caught)


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_a_spent_budget_says_what_would_still_fit(budget):
    ward = Ward(budget)
    for verb, args in (("count", ()), ("crosstab", ("sex", "town")), ("sum", ("income",)), ("cdf", ("age",))):
        with pytest.raises(dpn.BudgetExceeded) as caught:
            getattr(ward.frame.dp, verb)(*args, epsilon=0.9999).run()
        text = said(caught)
        assert "nothing was spent" in text
        assert re.search(r"but [\d.]+% \(ε [\d.]+\) is left", text)
        fits = float(text.split("With epsilon=")[1].split()[0])
        assert 0.3 < fits < 1
        assert caught.value.requested_units > caught.value.remaining_units > 0
        ward.check()
    plan = ward.frame.dp.count(epsilon=0.9999).plan
    assert not plan.affordable
    assert ward.frame.dp.count(epsilon=fits, fresh=True).run().epsilon == pytest.approx(fits)
    assert len(ward.session.ledger.refusals()) == 4
    assert ward.session.audit().ok


def test_a_budget_that_is_spent_to_the_last_says_so():
    ward = Ward()
    ward.frame.dp.count(epsilon=0.75, fresh=True).run()
    for accuracy in ({"epsilon": 0.9}, {"error": 1.0}, {"variance": 1e-12}, {"variance": 1e-300}):
        with pytest.raises(dpn.BudgetExceeded) as caught:
            ward.frame.dp.count(where="age > 3", **accuracy).run()
        assert "but 0% (ε 0) is left" in said(caught)
    assert ward.session.remaining.epsilon == 0
    assert ward.session.release(1).frame.equals(ward.release.frame)
    assert ward.frame.dp.count(epsilon=0.5).run().paid == 0


@contextlib.contextmanager
def held(path, how="IMMEDIATE"):
    """Hold a ledger as another process would that is going to write, or (EXCLUSIVE) that is writing its changes."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute(f"BEGIN {how}")
    yield
    holder.execute("ROLLBACK")
    holder.close()


def test_a_ledger_that_is_locked(tmp_path):
    path = tmp_path / "clinic.ledger"
    ward = Ward(ledger=path)
    with held(path):
        for use in (
            lambda: ward.frame.dp.count(epsilon=0.1).run(),
            lambda: ward.session.protect(rows(), "others", domain=DOMAIN),
        ):
            with pytest.raises(dpn.LedgerLocked) as caught:
                use()
            text = said(caught)
            assert "another process" in text
            assert "Run this again" in text
        # what is recorded can be read meanwhile, and planned with
        assert ward.frame.dp.histogram("age", epsilon=0.25).run().paid == 0
        assert ward.frame.dp.count(epsilon=0.1).plan.cost.epsilon == pytest.approx(0.1, rel=0.05)
    with held(path, "EXCLUSIVE"):
        with pytest.raises(dpn.LedgerLocked) as caught:
            ward.frame.dp.count(epsilon=0.1).run()
        assert "Run this again" in said(caught)
    ward.check()
    assert ward.frame.dp.count(epsilon=0.1).run().paid == pytest.approx(0.1, rel=0.05)


def test_a_ledger_that_is_locked_between_charge_and_record(tmp_path, monkeypatch):
    """The charge stands, nothing is shown, and the same query later is free."""
    path = tmp_path / "clinic.ledger"
    ward = Ward(ledger=path)
    draw = ward.session._questions.draw
    with contextlib.ExitStack() as stack:

        def slow(item, noise, source):
            stack.enter_context(held(path))
            return draw(item, noise, source)

        monkeypatch.setattr(ward.session._questions, "draw", slow)
        with pytest.raises(dpn.EngineError, match="held by another process") as caught:
            ward.frame.dp.count(where="age > 3", epsilon=0.5).run()
        said(caught)
    monkeypatch.setattr(ward.session._questions, "draw", draw)
    assert ward.session.spent.epsilon == pytest.approx(0.75, rel=0.05)  # what is known of it is not paid for again
    assert ward.frame.dp.count(where="age > 3", epsilon=0.5).run().paid == 0
    assert ward.session.audit().ok


def damaged(path, how):
    """Damage a ledger that nobody has open."""
    content = bytearray(path.read_bytes())
    match how:
        case "garbage":
            content[:] = b"age,sex\nZebulon,4242\n" * 500
        case "empty":
            content.clear()
        case "truncated":
            del content[len(content) // 2 :]
        case "overwritten":
            content[4096 : 4096 + 512] = bytes(512)
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["garbage", "empty", "truncated", "overwritten", "shortened chain", "raised budget"])
def test_a_ledger_that_is_corrupt(tmp_path, how):
    path = tmp_path / "clinic.ledger"
    ward = Ward(ledger=path)
    ward.session.close()
    if how in ("shortened chain", "raised budget"):
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            if how == "shortened chain":
                connection.execute("DELETE FROM entry WHERE number > 2")
            else:
                cheaper = "CAST(replace(CAST(payload AS TEXT), '250000000000', '1') AS BLOB)"
                assert connection.execute(f"UPDATE entry SET payload = {cheaper} WHERE kind = 'charge'").rowcount == 1
            for _, sql in triggers:
                connection.execute(sql)
    else:
        damaged(path, how)
    before = path.read_bytes()
    with pytest.raises(dpn.LedgerCorrupt) as caught:
        dpn.Session(PURE, path).protect(rows(), "people", domain=DOMAIN)
    text = said(caught)
    assert "clinic.ledger" in text
    assert "Restore it from a copy" in text
    assert path.read_bytes() == before


def test_a_ledger_that_is_lost_while_it_is_open(tmp_path):
    path = tmp_path / "clinic.ledger"
    ward = Ward(ledger=path)
    path.rename(tmp_path / "moved.ledger")
    for use in (lambda: ward.frame.dp.count(epsilon=0.1).run(), lambda: ward.session.spent):
        with pytest.raises(dpn.LedgerCorrupt) as caught:
            use()
        assert "moved, deleted or replaced" in said(caught)
    (tmp_path / "moved.ledger").rename(path)
    ward.check()


AS_NOBODY = """
import os, sys
import pandas as pd, dpnotebook as dpn
def use(path):
    frame = pd.DataFrame({"age": [1, 2, 3]})
    session = dpn.Session(dpn.Budget(1.0), path, timeout=0.2)
    session.protect(frame, "t", domain={"age": dpn.Range(0, 9)})
    return frame.dp.count(epsilon=0.1).run()
use(":memory:")  # imports what another user may not read
os.setgid(65534); os.setuid(65534)
try:
    use(sys.argv[1])
except dpn.DPError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("what", ["file", "folder", "new"])
def test_a_ledger_that_is_read_only(what):
    """As a user who may not write: root may always."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are closed to other users
        folder = Path(name)
        folder.chmod(0o777)
        path = folder / "clinic.ledger"
        if what != "new":
            ward = Ward(ledger=path)
            ward.session.close()
            path.chmod(0o444 if what == "file" else 0o666)
        if what != "file":
            folder.chmod(0o555)
        root = str(Path(__file__).parent.parent)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(path)],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": root},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("LedgerReadOnly"), done.stdout
        assert "read-only for you" in done.stdout
        assert len(done.stdout) < 400


def test_a_ledger_of_another_budget(tmp_path):
    path = tmp_path / "clinic.ledger"
    ward = Ward(ledger=path)
    for budget in (dpn.Budget(2.0), dpn.Budget(1.0, 1e-6), dpn.Budget(0.5)):
        with pytest.raises(dpn.LedgerMismatch) as caught:
            dpn.Session(budget, path)
        text = said(caught)
        assert "was made for a budget of ε = 1" in text
        assert "another path" in text
    ward.check()


OTHERS = {
    "rows": ({"frame": rows().assign(age=7)}, "its data"),
    "a narrower domain": ({"domain": DOMAIN | {"age": dpn.Range(0, 50)}}, "its domain"),
    "fewer columns": ({"domain": {"age": dpn.Range(0, 99)}}, "its domain"),
    "a unit": ({"unit": "who", "max_rows": 2}, "its unit"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_ledger_of_another_table(tmp_path, what):
    path = tmp_path / "clinic.ledger"
    ward = Ward(ledger=path)
    changes, word = OTHERS[what]
    with dpn_session(path) as session:
        with pytest.raises(dpn.LedgerMismatch) as caught:
            protect(name="people", **changes)(Named(session))
        text = said(caught)
        assert word in text
        assert "people_2" in text
        with pytest.raises(dpn.NotProtected):
            session.table("people")
    ward.check()


class Named:
    """What `protect` needs of a ward."""

    def __init__(self, session):
        self.session = session


@contextlib.contextmanager
def dpn_session(path):
    session = dpn.Session(PURE, path)
    yield session
    session.close()


def test_a_full_disk(tmp_path):
    """SQLite is told that its file may not grow: the query is refused, or stays charged and is finished later."""
    path = tmp_path / "clinic.ledger"
    ward = Ward(ledger=path)
    connection = ward.session.ledger._store._handle().connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")

    def fill():
        for n in range(200):
            ward.frame.dp.histogram("age", where=f"age > {n % 90}", epsilon=0.001, fresh=True).run()

    with pytest.raises((dpn.LedgerFull, dpn.EngineError)) as caught:  # before or after a charge
        fill()
    assert "no room on the disk" in said(caught)
    history = ward.session.history()
    assert ward.session.spent.epsilon == pytest.approx(history["paid"].sum())
    assert ward.session.audit().ok
    for number, state in zip(history["number"], history["state"], strict=True):
        if state == "recorded":
            assert len(ward.session.release(int(number)).frame) > 0
    connection.execute("PRAGMA max_page_count = 1000000")
    again = dpn.Session(PURE, path)
    again.protect(ward.frame, "people", domain=DOMAIN)  # what was charged is completed
    assert again.history()["state"].unique().tolist() == ["recorded"]
    assert again.release(1).frame.equals(ward.release.frame)
    assert again.audit().ok


NAMES = [
    "dp",
    "select",
    "group",
    'a"b',
    "it's",
    "x; DROP TABLE people; --",
    "a b",
    "Größe",
    "年齢",
    "c0",
    "frame",
    "twin",
    "value",
    "lower",
    "count",
    "class",
    "%s",
    "{x}",
    "$1",
    "?",
    "--",
    "/* x */",
    "a.b",
    "\\",
    "' OR 1=1 --",
    "\"); ATTACH 'x' --",
]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_just_a_name(name, monkeypatch):
    """As a column, as a level, as a table and as a unit: counted like any other, in where= and in SQL."""
    frame = pd.DataFrame({name: [name, "other", name, name], "n": [1, 2, 3, 4], "who\n?"[:3]: [1, 1, 2, 3]})
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    session = exact_session(dpn.Budget(900.0))
    session.protect(frame, name, domain={name: [name, "other"], "n": dpn.Range(0, 9)})
    quoted = f"`{name}` == {name!r}"
    assert frame.dp.count(where=quoted, epsilon=50.0).run().value == 3
    assert frame.dp.sum("n", where=quoted, epsilon=50.0).run().value == 8
    found = frame.dp.crosstab(name, "n", epsilon=50.0).run()
    (value,) = found.names
    assert found.keys == (name, "n")
    assert found.frame[value].sum() == 4
    assert found.frame[found.frame[value] > 0][name].tolist() == [name, name, name, "other"]
    text = str(frame.dp.count(where=quoted, epsilon=50.0).question.where)
    assert frame.dp.count(where=text, epsilon=50.0).plan.free
    identifier = '"' + name.replace('"', '""') + '"'
    value = "'" + name.replace("'", "''") + "'"
    statement = (
        f"SELECT {identifier}, COUNT(*) AS c FROM {identifier} WHERE {identifier} <> {value} GROUP BY {identifier}"
    )
    answer = session.sql(statement, epsilon=50.0).run().frame
    assert answer["c"].tolist() == [1]
    bound = session.sql(
        f"SELECT COUNT(*) AS c FROM {identifier} WHERE {identifier} = :v", epsilon=50.0, parameters={"v": name}
    )
    assert bound.run().frame["c"].tolist() == [3]
    session.protect(frame, f"{name} 2", domain={"n": dpn.Range(0, 9)}, unit=name, max_rows=1)
    assert session.table(f"{name} 2").count(epsilon=50.0).run().value == 2
    assert session.release(1).frame["value"].tolist() == [3]
    assert session.audit().ok


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2020-01-01", periods=4),
        pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["age", "sex"]),
        pd.Index([7, 7, 7, 7], name="age"),
        pd.Index(["a", None, "b", 3.5]),
        pd.CategoricalIndex(list("abab")),
    ],
    ids=["dates", "levels", "one label", "mixed", "category"],
)
def test_any_index_is_no_matter(index, monkeypatch):
    frame = pd.DataFrame({"age": [1, 2, 2, 3], "sex": ["F", "M", "M", "F"]}, index=index)
    table = exactly(frame, {"age": dpn.Range(0, 3), "sex": ["F", "M"]}, monkeypatch)
    assert frame.dp.histogram("age", epsilon=50.0).run().frame["value"].tolist() == [0, 1, 2, 1]
    assert table.count(where="sex == 'M'", epsilon=50.0).run().value == 2


def test_columns_that_are_not_declared_may_be_anything(monkeypatch):
    """Types that DuckDB does not know, names that differ in case, names that are no text: none of them is touched."""
    frame = pd.DataFrame({"AGE": [9, 9, 9], "age": [1, 2, 2], 7: [0, 0, 0], None: [1, 1, 1], "dp": [5, 5, 6]})
    frame["when"] = pd.period_range("2020", periods=3, freq="M")
    frame["z"] = np.array([1j, 2j, 3j])
    frame["bag"] = [[1], {2: 3}, None]
    table = exactly(frame, {"age": dpn.Range(0, 9), "dp": dpn.Range(0, 9)}, monkeypatch)
    assert frame.dp.histogram("age", epsilon=50.0).run().frame["value"].tolist()[:3] == [0, 1, 2]
    assert table.count(where="dp == 5", epsilon=50.0).run().value == 2


def test_a_domain_object_is_a_domain(monkeypatch):
    table = exactly(rows(), dpn.Domain(DOMAIN), monkeypatch)
    assert table.count(epsilon=50.0).run().value == 20


def test_a_huge_domain_with_a_small_question(monkeypatch):
    """10^12 cells and more: what a question does not touch costs nothing to plan, to measure or to charge."""
    frame = pd.DataFrame({f"x{i}": np.arange(30) % 10 for i in range(14)})
    table = exactly(frame, {f"x{i}": dpn.Range(0, 9) for i in range(14)}, monkeypatch)
    assert table.table.domain.size == 10**14
    assert table.count(where="x0 < 5 and x13 >= 3", epsilon=5.0).run().value == 6
    assert table.crosstab("x1", "x2", epsilon=5.0).run().frame["value"].sum() == 30
    assert table.cdf("x5", where="x7 != 2", epsilon=5.0).run().frame["value"].iloc[-1] == pytest.approx(27)
    session = table.session
    assert session.spent.epsilon == pytest.approx(15.0)
    with pytest.raises(dpn.DomainError) as caught:
        table.crosstab(*(f"x{i}" for i in range(12)), epsilon=5.0).run()
    assert "1,000,000,000,000 cells" in said(caught)
    assert session.spent.epsilon == pytest.approx(15.0)
    # more attributes than the ledger keeps apart: charged as if every row were in all of them, never less
    table.count(where=" and ".join(f"x{i} < 5" for i in range(9)), epsilon=5.0).run()
    assert session.spent.epsilon == pytest.approx(20.0)
    assert session.audit().ok


def test_an_error_beyond_all_measure_costs_next_to_nothing():
    """The least that anything costs is 10^-9; its plan has no cheaper alternative to list."""
    for accuracy in ({"error": 1e300}, {"variance": 1e300}, {"epsilon": 1e-9}):
        plan = elsewhere({"x": dpn.Range(0, 9)}).count(**accuracy).plan
        assert plan.epsilon == 1e-9
        assert len(plan.alternatives) == 3


def test_sixty_four_bits_are_enough(monkeypatch):
    """Sums of the widest bounds that are allowed, over many rows, are exact."""
    frame = pd.DataFrame({"x": np.full(50_000, 2.0**53), "y": np.full(50_000, 1e6)})
    domain = {"x": dpn.Bins(0, 2**53, count=8), "y": dpn.Bins(0, 1e6, count=10)}
    table = exactly(frame, domain, monkeypatch)
    assert table.sum("x", granularity=2.0**30, epsilon=50.0).run().value == 50_000 * 2.0**53
    assert table.sum("y", granularity=0.001, epsilon=50.0).run().value == 50_000 * 1e6
    with pytest.raises(dpn.DomainError) as caught:
        table.sum("x", granularity=1, epsilon=50.0)
    assert "granularity=" in said(caught)


def test_what_fails_inside_is_not_said_of_the_session(monkeypatch):
    """A failure of ours, with all arguments in order, is shown as it is."""

    def fails(*_, **__):
        raise TypeError("of ours")

    monkeypatch.setattr("dpnotebook.session.protected_rows.source_of", fails)
    with pytest.raises(TypeError, match="of ours"):
        dpn.Session(dpn.Budget(1.0)).protect("people.parquet", "people", domain={"age": dpn.Range(0, 9)})


@pytest.mark.parametrize("name", ["patients.csv", "it's PATIENTS.CSV"])
def test_a_file_that_pandas_reads_says_how(tmp_path, name):
    path = tmp_path / name
    pd.DataFrame({"age": [31, 47, 64]}).to_csv(path, index=False)
    session = dpn.Session(dpn.Budget(epsilon=1.0))
    with pytest.raises(dpn.DomainError, match="cannot be read as a Parquet file; read it first") as caught:
        session.protect(path, "patients", domain={"age": dpn.Range(0, 115)})
    read = str(caught.value).split("frame = ")[1].split(", and protect")[0]
    assert session.protect(eval(read), "patients", domain={"age": dpn.Range(0, 115)}).domain.names == ("age",)
