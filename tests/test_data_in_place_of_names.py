"""Columns, arrays and frames where a name or a number belongs: refused, with what to write, and no value is shown."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpnotebook as dpn
from dpnotebook.session.verbs import Verbs
from dpnotebook.testing import exact_session

CANARIES = ("Zebulon", "98765", "4242")
ROWS = pd.DataFrame(
    {"age": [31, 98765, 64] * 5, "sex": ["F", "Zebulon", "M"] * 5, "cost": [4242.5, 1, 2] * 5, "who": [4242, 1, 2] * 5}
)
DOMAIN = {"age": dpn.Range(0, 99), "cost": dpn.Bins(0, 100, width=10), "sex": dpn.Categories(["F", "M"], other="x")}
DATA = {
    "a column": ROWS["cost"],
    "a column of texts": ROWS["sex"],
    "a condition": ROWS["age"] > 3,
    "a frame": ROWS[["sex", "cost"]],
    "an index": ROWS.set_index("sex").index,
    "a row called by a value": ROWS.set_index("sex").loc["Zebulon"].iloc[0],
    "an array": ROWS["cost"].to_numpy(),
    "an array of objects": ROWS["sex"].to_numpy(dtype=object),
    "a pandas array": ROWS["cost"].array,
    "a categorical": ROWS["sex"].astype("category").array,
    "groups": ROWS.groupby("sex"),
    "a polars column": pl.Series("cost", [4242.5, 4242.5]),
    "a polars frame": pl.DataFrame({"cost": [4242.5], "sex": ["Zebulon"]}),
    "an Arrow table": pa.table({"cost": [4242.5]}),
    "an Arrow column": pa.chunked_array([[4242.5]]),
    "a list of columns": [ROWS["cost"]],
    "a dict of columns": {"cost": ROWS["cost"]},
}
VERBS = [
    "count", "sum", "mean", "median", "quantile", "cdf", "agg", "describe", "histogram", "value_counts", "crosstab",
    "groupby", "answer",
]  # fmt: skip
FILLED = {"workload": dpn.ranges("age"), "functions": {"age": "mean"}, "keys": "sex"}
ARGUMENTS = [
    (verb, name) for verb in VERBS for name in inspect.signature(getattr(Verbs, verb)).parameters if name != "self"
]


@pytest.fixture(scope="module")
def visits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        rows = ROWS.copy()
        with exact_session(dpn.Budget(1.0)) as session:
            session.protect(rows, "visits", domain=DOMAIN)
            yield rows


def shown(call):
    """Return what a refusal says; anything but a refusal of ours is an error."""
    with pytest.raises(dpn.DPError) as caught:
        call()
    text = str(caught.value)
    assert not [canary for canary in CANARIES if canary in text], text
    assert len(text) < 400
    return text


@pytest.mark.parametrize(("verb", "argument"), ARGUMENTS)
def test_every_argument_of_every_verb(visits, verb, argument):
    parameters = inspect.signature(getattr(Verbs, verb)).parameters
    for what, data in DATA.items():
        named, places = ({"epsilon": 0.1} if "epsilon" in parameters else {}), []
        for name, parameter in parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                places = [data, "sex"] if name == argument else ["sex", "age"]
            elif name == argument:
                named[name] = data
                if name in ("error", "variance"):
                    del named["epsilon"]
            elif parameter.default is parameter.empty and name != "self":
                named[name] = FILLED.get(name, "age")

        def call(places=places, named=named):
            query = getattr(visits.dp, verb)(*places, **named)
            return query.plan if hasattr(query, "plan") else query

        assert shown(call), what


NAMED = [
    lambda f: f.dp.histogram(f.cost, epsilon=0.1),
    lambda f: f.dp.mean(f["cost"], epsilon=0.1),
    lambda f: f.dp.value_counts([f["cost"]], epsilon=0.1),
    lambda f: f.dp.describe(f.cost, epsilon=0.1),
    lambda f: f.dp.groupby(f.cost),
    lambda f: f.dp.crosstab(f.cost, f.age, epsilon=0.1),
    lambda f: f.dp.quantile(pl.Series("cost", [4242.5]), epsilon=0.1),
]


@pytest.mark.parametrize("call", NAMED)
def test_a_column_is_told_by_its_name(visits, call):
    text = shown(lambda: call(visits))
    assert text == "a Series holds values: write its name, 'cost'; declared in 'visits' are age, cost, sex"


def test_a_name_that_is_not_declared_is_not_told(visits):
    """That of a row is a value, and so may that of any Series be."""
    row = visits.set_index("sex").loc["Zebulon"].iloc[0]
    for data in (row, visits["who"].rename("Zebulon"), visits):
        assert "write the name of a column; declared in" in shown(lambda data=data: visits.dp.mean(data, epsilon=0.1))


def protect(rows=ROWS, name="visits", domain=DOMAIN, **options):
    return dpn.Session(budget=dpn.Budget(1.0)).protect(rows, name, domain=domain, **options)


DECLARED = {
    "domain": lambda x: protect(domain=x),
    "levels": lambda x: protect(domain={"cost": x}),
    "a level": lambda x: protect(domain={"sex": [x]}),
    "name": lambda x: protect(name=x),
    "unit": lambda x: protect(unit=x, max_rows=2),
    "max_rows": lambda x: protect(unit="who", max_rows=x),
    "max_rows of rows": lambda x: protect(max_rows=x),
    "low": lambda x: dpn.Range(x, 99),
    "high": lambda x: dpn.Range(0, x),
    "low of bins": lambda x: dpn.Bins(x, 100, width=10),
    "width": lambda x: dpn.Bins(0, 100, width=x),
    "count": lambda x: dpn.Bins(0, 100, count=x),
    "edges": lambda x: dpn.Bins(edges=x),
    "categories": lambda x: dpn.Categories(x),
    "other": lambda x: dpn.Categories(["F"], other=x),
    "nullable": lambda x: dpn.Boolean(nullable=x),
    "a domain": lambda x: dpn.Domain(x),
    "budget": lambda x: dpn.Budget(x),
    "population": lambda x: dpn.Unit(x),
    "session": lambda x: dpn.Session(x),
    "ledger": lambda x: dpn.Session(dpn.Budget(1.0), ledger=x),
}


ARRAYS = ("an array", "an array of objects", "a pandas array", "a categorical", "an index")
LEVELS = ("domain", "levels", "edges", "categories", "a domain")


@pytest.mark.parametrize("argument", DECLARED)
def test_what_is_declared(argument):
    for what, data in DATA.items():
        if (
            argument not in LEVELS or what not in ARRAYS
        ):  # these may be levels, which somebody wrote, and are public then
            assert shown(lambda data=data: DECLARED[argument](data)), what


def test_the_unit_is_told_by_its_name():
    text = shown(lambda: protect(unit=ROWS["who"], max_rows=2))
    assert text == "unit= is the column that says whose row it is; a Series holds values: write its name, 'who'"
    assert "write the name of a column" in shown(lambda: protect(unit=ROWS["who"].rename("Zebulon"), max_rows=2))


@pytest.mark.parametrize("data", [ROWS["sex"], pl.Series([4242.5]), pa.chunked_array([[4242.5]])])
def test_levels_are_written_and_not_read_from_a_column(data):
    said = "this is a column of data; a domain says what you know without it: write its levels as a list"
    assert said in shown(lambda: protect(domain={"sex": data}))


@pytest.mark.parametrize("levels", [np.array([4242.5, 1, 4242.5]), ["F", "F"]])
def test_a_level_that_comes_twice_is_named_only_where_it_was_written(levels):
    text = shown(lambda: dpn.Categories(levels))
    assert text == ("the level 'F' is listed twice" if isinstance(levels, list) else "a level is listed twice")
