"""Arguments that pandas users pass to the verbs, which a verb does not take: what is done anyway, and what to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpnotebook.errors import ArgumentError, DomainError, shorten
from dpnotebook.planner.table import TableSchema

MISSING = "missing values take no part in it anyway: leave {name}= out"
ORDER = "answers can be sorted: .run().sort_values('value', ascending=True)"

# By the name of an argument, or of a verb and its argument; {column} is a column of the table that is asked.
OPTIONS: dict[str, str] = {
    "bins": (
        "bins are those that are declared, such as dpn.Bins(0, 100, width=10); wider ones are bands of a width, "
        "groupby({{{column!r}: 10}}).count(epsilon=0.1)"
    ),
    "margins": "totals are answers of their own: histogram({column!r}, epsilon=0.1), count(epsilon=0.1)",
    "margins_name": "totals are answers of their own: histogram({column!r}, epsilon=0.1), count(epsilon=0.1)",
    "percentiles": "ask for others than quartiles so: quantile({column!r}, [0.1, 0.9], epsilon=0.1)",
    "include": "name the columns: describe([{column!r}], epsilon=0.1), and value_counts() of those without an order",
    "exclude": "name the columns: describe([{column!r}], epsilon=0.1), and value_counts() of those without an order",
    "numeric_only": "a column is named, so leave numeric_only= out",
    "skipna": MISSING,
    "min_count": MISSING,
    "ascending": ORDER,
    "na_position": ORDER,
    "axis": "it is always of rows: leave axis= out",
    "level": "a key is named by groupby(), so leave level= out",
    "group_keys": "keys are columns of the answer: leave group_keys= out",
    "squeeze": "leave squeeze= out; the single answer of a release is its .value",
    "interpolation": "a quantile is a declared level here: leave interpolation= out",
    "method": "there is one method, that of Pearson in corr: leave method= out",
    "min_periods": MISSING,
    "values": "a mean by two keys is groupby([...]).mean({column!r}, epsilon=0.1)",
    "aggfunc": "a mean by two keys is groupby([...]).mean({column!r}, epsilon=0.1)",
    "subset": "columns are named first: value_counts([{column!r}], epsilon=0.1)",
    "engine": "leave engine= out: rows are counted where they are",
    "value_counts.dropna": 'a missing level is there where it is declared: without it, where="{column}.notna()"',
    "crosstab.dropna": 'a missing level is there where it is declared: without it, where="{column}.notna()"',
}

TOO_MANY: dict[str, str] = {
    "count": 'it is of all rows; those with a value are count(where="{column}.notna()", epsilon=0.1)',
    "size": "it is of all rows, and takes no column: size(epsilon=0.1)",
    "groupby": "several keys are a list, such as groupby([{column!r}, ...])",
    "mean": "several columns are a list in brackets: df.dp[[{column!r}, ...]].mean(epsilon=0.1)",
    "sum": "several columns are a list in brackets: df.dp[[{column!r}, ...]].sum(epsilon=0.1)",
    "histogram": "several columns are crosstab({column!r}, ..., epsilon=0.1)",
    "value_counts": "several columns are a list: value_counts([{column!r}, ...], epsilon=0.1)",
}
TOO_FEW: dict[str, str] = {
    **dict.fromkeys(
        ("mean", "sum", "median", "quantile", "std", "var", "sem", "min", "max", "histogram", "value_counts", "cdf"),
        "name a column: {verb}({column!r}, epsilon=0.1); several are agg() or describe()",
    ),
    **dict.fromkeys(("corr", "cov"), "name two columns, such as {verb}({column!r}, ..., epsilon=0.1)"),
    "nunique": "name a column: nunique({column!r}, epsilon=0.1)",
    "groupby": "name a key, such as groupby({column!r})",
}


def about_option(verb: str, name: str, table: TableSchema) -> str:
    """Return what to write instead of an argument of pandas that a verb has not; empty where it is none of pandas.

    Parameters
    ----------
    verb, name
        What was called, and the name of the argument.
    table
        What is public of the table that was asked.
    """
    said = OPTIONS.get(f"{verb}.{name}") or OPTIONS.get(name, "")
    return said.format(name=name, column=number_column(table))


def about_call(verb: str, few: bool, table: TableSchema) -> str:
    """Return how a verb is called that was given too few arguments without names, or too many; empty where unknown."""
    return (TOO_FEW if few else TOO_MANY).get(verb, "").format(verb=verb, column=number_column(table))


def grouping_keys(keys: Any, options: Mapping[str, Any], table: TableSchema) -> Any:
    """Return the keys of `groupby`, called as pandas has it.

    Parameters
    ----------
    keys
        The keys; `...` where there are none, or where they are named by `by=`.
    options
        Arguments of pandas: those that say what is done anyway are allowed.
    table
        What is public of the table that is grouped.

    Raises
    ------
    ArgumentError
        If one says something else.
    """
    for name, given in options.items():
        if name == "by" and keys is ...:
            continue
        if name not in GROUPED:
            known = "by=, as_index=False, observed=False, sort=True, dropna="
            said = about_option("groupby", name, table) or f"it takes keys, and as pandas {known}"
            raise ArgumentError(f"groupby() takes no {shorten(name)[1:-1]}=; {said}")
        allowed, said = GROUPED[name]
        if given is not allowed:
            raise ArgumentError(f"groupby() takes no {name}={shorten(given)}: {said}")
    if keys is ... and "by" not in options:
        raise ArgumentError(f"groupby() cannot be called so: missing a required argument: 'keys'; {_keys(table)}")
    return options["by"] if keys is ... else keys


# What is done anyway, and why the other is not.
GROUPED: dict[str, tuple[bool | None, str]] = {
    "by": (None, "the keys are there already"),
    "as_index": (False, "keys are columns of an answer; .run().set_index([...]) makes them an index"),
    "observed": (False, "which levels were observed is not public, so every declared level is there: leave it out"),
    "sort": (True, "the order of rows is not public, so levels are in the order of their declaration"),
    "dropna": (False, 'a missing level is there where it is declared; leave it out by where="key.notna()"'),
    "group_keys": (True, "keys are columns of an answer; leave group_keys= out"),
}


def named_aggregation(asked: Any) -> Any:
    """Return a `pandas.NamedAgg` as the pair that it means, anything else as it is."""
    if type(asked).__name__ == "NamedAgg" and type(asked).__module__.split(".")[0] == "pandas":
        if getattr(asked, "args", ()) or getattr(asked, "kwargs", None):
            raise DomainError(
                'a NamedAgg is a column and a function here, such as NamedAgg("age", "mean"), and no more'
            )
        return asked.column, asked.aggfunc
    return asked


def _keys(table: TableSchema) -> str:
    return TOO_FEW["groupby"].format(column=next(iter(table.columns), "sex"))


def number_column(table: TableSchema) -> str:
    """Return a column of numbers, if there is one."""
    columns: Sequence[str] = list(table.columns)
    return next((name for name in columns if table.columns[name].bounds is not None), next(iter(columns), "age"))
