"""What `agg` and `describe` ask: several measures of several columns, in one question."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.errors import ArgumentError, DomainError, shorten
from dpnotebook.predicate import Predicate
from dpnotebook.query.question import Measure, bounded_value
from dpnotebook.session.answer_frame import PARTS, column_name
from dpnotebook.session.call_habits import named_aggregation
from dpnotebook.session.moments import OF_A_COLUMN

FUNCTIONS = ("count", "size", "sum", "mean", "median", *OF_A_COLUMN)  # size is the number of rows, as in pandas
DESCRIBED = ("count", "mean", "25%", "50%", "75%")
PERCENT = re.compile(r"(?:\d{1,2}(?:\.\d+)?|100)%", re.ASCII)
EXAMPLE = '{"age": ["mean", "median"], "cost": "sum"}'
NAMED_EXAMPLE = 'agg(oldest=("age", "90%"), epsilon=0.1)'
OPTIONS = ("where", "epsilon", "error", "variance", "confidence", "objective", "fresh")

Pairs = list[tuple[str | None, str]]  # a column, or None for all rows, and the name of a function


def aggregated(asked: Any, known: Callable[[Any], str], refused: Callable[[str], str]) -> Pairs:
    """Return what `agg` is asked for.

    Parameters
    ----------
    asked
        A dict of columns and one or several functions of each; or functions of the rows.
    known
        Returns the name of a declared column, or raises DomainError.
    refused
        Says of a function that is not answered what to write instead; empty where there is nothing to say.

    Raises
    ------
    DomainError
        If a column or a function is none, or comes twice.
    """
    pairs: Pairs = []
    for column, functions in asked.items() if isinstance(asked, Mapping) else [(None, asked)]:
        name = None if column is None else known(column)
        for function in functions if isinstance(functions, (list, tuple)) else [functions]:
            pairs.append((name, _function(function, name, refused)))
    if not pairs or len(set(pairs)) < len(pairs):
        raise DomainError(f"agg() takes each function of a column once, such as agg({EXAMPLE})")
    return pairs


def named_pairs(
    named: Mapping[str, Any], keys: Sequence[str], known: Callable[[Any], str], refused: Callable[[str], str]
) -> Pairs:
    """Return what `agg` is asked for by names of answers, `oldest=("age", "90%")`; parameters as for `aggregated`.

    Parameters
    ----------
    named
        By the name of an answer, its column and its function.
    keys
        By what is grouped: an answer has another name.

    Raises
    ------
    ArgumentError
        If an option has no such name, or is no pair.
    DomainError
        If a name is taken, or there is no such column or function.
    """
    pairs: Pairs = []
    taken = {*keys}
    for name, given in named.items():
        asked = named_aggregation(given)
        if not isinstance(asked, tuple) or len(asked) != 2:
            refuse_option(name)
        if {name, *_beside(name)} & taken:
            raise DomainError(f"the answer cannot be called {shorten(name)}: another column has that name, or would")
        taken |= {name, *_beside(name)}
        pairs.append((known(asked[0]), _function(asked[1], asked[0], refused)))
    return pairs


def refuse_beside(named: Mapping[str, Any]) -> NoReturn:
    """Raise what is wrong with names beside a dict of functions: an option that there is not, or the two together."""
    for name, given in named.items():
        if not isinstance(named_aggregation(given), tuple):
            refuse_option(name)
    raise DomainError("agg() takes a dict of functions, or names such as oldest=('age', '90%'), and not both")


def refuse_option(name: str) -> NoReturn:
    """Raise ArgumentError for an option that `agg` has not got."""
    close = get_close_matches(name, OPTIONS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}=?" if close else f"an answer is named so: {NAMED_EXAMPLE}"
    raise ArgumentError(f"agg() takes no {shorten(name)[1:-1]}=; {hint}")


def stated(pairs: Pairs) -> bool:
    """Whether a function is asked for that only a statement has."""
    return any(function in OF_A_COLUMN for _, function in pairs)


def described(columns: Any, domain: Domain, known: Callable[[Any], str], declared: bool = True) -> Pairs:
    """Return what `describe` asks of columns: of every Range and Bins, unless they are named; else as `aggregated`.

    Where bounds are found privately columns need not be `declared`.
    """
    listed: list[Any] = list(columns) if isinstance(columns, (list, tuple)) else [columns]
    if columns is None:
        listed = [name for name, attribute in domain.items() if attribute.bounds is not None]
    names = [known(name) for name in listed]
    if not names or len(set(names)) < len(names):
        raise DomainError("describe() takes columns declared as Range or Bins, each once; value_counts() takes others")
    for name in names:
        if (declared or name in domain) and domain[name].bounds is None:
            raise DomainError(
                f"{shorten(name)} is declared as {shorten(domain[name])}: quartiles need a Range or Bins; "
                f"value_counts({shorten(name)}) says how often each level is"
            )
    return [(name, function) for name in names for function in DESCRIBED]


def measures_of(pairs: Pairs, domain: Domain, keys: Sequence[str], named: Sequence[str] = ()) -> tuple[Measure, ...]:
    """Return a measure for each function of a column, with its name where they are named, else with one of its own.

    Raises
    ------
    DomainError
        If a column cannot be summed, or is ranked though it is grouped by.
    """
    measures, taken = [], {*keys}
    for i, (column, function) in enumerate(pairs):
        wanted = named[i] if named else function if column is None else f"{column}_{function}"
        names = (wanted + "_" * more for more in itertools.count())
        name = next(one for one in names if not {one, *_beside(one)} & taken)
        taken |= {name, *_beside(name)}
        measures.append(replace(_measure(column, function, domain), name=name))
        if measures[-1].kind == "quantile" and column in keys:
            raise DomainError(
                f"{shorten(column)} is grouped by: each group has one level of it, so there is nothing to rank"
            )
    return tuple(measures)


def _beside(name: str) -> Iterator[str]:
    return (column_name(name, part) for part in PARTS)


def _function(function: Any, column: str | None, refused: Callable[[str], str]) -> str:
    """Return the name of a function that can be asked of a column, or of all rows without one."""
    if not isinstance(function, str):
        name = getattr(function, "__name__", "") if callable(function) else ""
        hint = f'; write "{name}"' if name in FUNCTIONS else f", such as agg({EXAMPLE})"
        given = "a function" if callable(function) else shorten(function)
        raise DomainError(f"agg() takes the names of functions, not {given}{hint}")
    if function in FUNCTIONS or PERCENT.fullmatch(function):
        if column is None and function not in ("count", "size"):
            raise DomainError(f'{function} is of a column: name it, as in agg({{"age": "{function}"}})')
        return function
    close = get_close_matches(function, FUNCTIONS, n=1)
    there = f"there are {', '.join(FUNCTIONS)} and 90% (a quantile)"
    hint = f"did you mean {shorten(close[0])}?" if close else there
    raise DomainError(refused(function) or f"agg() has no function {shorten(function)}; {hint}")


def _measure(column: str | None, function: str, domain: Domain) -> Measure:
    """Return a measure of a column, without a name of its own."""
    if column is None or function == "size":
        return Measure("count")
    match function:
        case "count":
            attribute = domain[column]
            present = np.arange(attribute.size) != attribute.null_index
            return Measure("count", rows=None if present.all() else Predicate.box(domain, {column: present}))
        case "sum":
            return Measure("sum", column, summand=bounded_value(domain, column))
        case "mean":
            return Measure("mean", column, summand=bounded_value(domain, column, ends=True))
        case _:
            share = 0.5 if function == "median" else float(function[:-1]) / 100
            return Measure("quantile", column, quantile=share)
