"""Aggregate functions: their names, and what a call of one asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from sqlglot import exp

Bounds = tuple[Fraction, ...]
EACH_ONCE = Fraction(0), Fraction(1)  # bounds of a count in which every unit counts once


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function.

    Parameters
    ----------
    kind
        Which of `sql/aggregates` it asks for; COUNT(DISTINCT x) is of kind "units".
    distinct
        Whether DISTINCT is written, which only COUNT can have.
    star
        Whether rows are counted: COUNT(*), and COUNT of a number or text.
    argument
        The expression that is aggregated; None where rows are counted.
    second
        Of pairs of columns: the other one.
    operands
        Of how many columns it is.
    bounds
        As written: lower and upper, of pairs of columns one behind the other, or "auto" where AUTO is; None where
        nothing is said.
    per
        Which of contribution_bounds_per_group and contribution_bounds_per_row is written, if one is.
    epsilon
        Its own share, where that is written.
    fractions
        Of quantiles, each in [0, 1].
    array
        Whether the answer is the array of all quantiles.
    population
        Whether variances divide by n and not by n - 1.
    private
        Whether it has an ANON_ name, or arguments that only private functions have.
    words
        As it is written.
    anyone
        Whether it is the value of any row, which can only be asked of the rows of one unit.
    of_truth
        Whether it is of a condition alone: BOOL_OR, which is its greatest truth value.
    called
        What its answer is called without an alias, where it was written as another call; None where that follows.
    """

    kind: str
    distinct: bool = False
    star: bool = False
    argument: exp.Expr | None = None
    second: exp.Expr | None = None
    operands: int = 1
    bounds: Bounds | Literal["auto"] | None = None
    per: Literal["group", "row"] | None = None
    epsilon: Fraction | None = None
    fractions: tuple[float, ...] = ()
    array: bool = False
    population: bool = True
    private: bool = False
    words: str = ""
    anyone: bool = False
    of_truth: bool = False
    called: str | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Call:
        """Return itself: it goes along with copies of the tree that it stands in."""
        return self


@dataclass(frozen=True)
class Spelling:
    """What a name of an aggregate function says beside which aggregate it is.

    Parameters
    ----------
    population
        As in `Call`.
    fractions
        Of quantiles, where the name says which.
    second
        What the second argument is: the fraction of a quantile, or how many parts quantiles divide into.
    """

    population: bool = True
    fractions: tuple[float, ...] = ()
    second: Literal["fraction", "parts"] | None = None


def call_of(node: exp.Expr) -> Call | None:
    """Return what a node of the tree asks for; None if it is no call of an aggregate function."""
    call = node.meta.get("call")
    if not isinstance(call, Call):
        return None
    if call.star:
        return call
    second = node.expression if call.operands > 1 else None
    return replace(call, argument=node.this.expressions[0] if call.distinct else node.this, second=second)
