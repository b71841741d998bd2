"""Aggregate functions: their names, and what a call of one asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from sqlglot import exp

from dpnotebook.sql.statement import AggregateKind

Bounds = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Call:
    """A call of an aggregate function.

    Parameters
    ----------
    kind
        What it asks for; COUNT(DISTINCT x) is of kind "units".
    distinct
        Whether DISTINCT is written, which only COUNT can have.
    star
        Whether rows are counted: COUNT(*), and COUNT of a number or text.
    argument
        The expression that is aggregated; None where rows are counted.
    bounds
        As written: a pair, or "auto" where AUTO is; None where nothing is said.
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
    """

    kind: AggregateKind
    distinct: bool = False
    star: bool = False
    argument: exp.Expr | None = None
    bounds: Bounds | Literal["auto"] | None = None
    per: Literal["group", "row"] | None = None
    epsilon: Fraction | None = None
    fractions: tuple[float, ...] = ()
    array: bool = False
    population: bool = True
    private: bool = False
    words: str = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> Call:
        """Return itself: it goes along with copies of the tree that it stands in."""
        return self


@dataclass(frozen=True)
class Function:
    """What a name of a function means.

    Parameters
    ----------
    kind, population
        As in `Call`.
    fractions
        Of quantiles, where the name says which.
    second
        What the second argument is: the fraction of a quantile, or how many parts quantiles divide into.
    """

    kind: AggregateKind
    population: bool = True
    fractions: tuple[float, ...] = ()
    second: Literal["fraction", "parts"] | None = None


PLAIN = {
    "COUNT": Function("count"),
    "SUM": Function("sum"),
    "AVG": Function("average"),
    "MEAN": Function("average"),
    "VAR": Function("variance", population=False),
    "VARIANCE": Function("variance", population=False),
    "VAR_SAMP": Function("variance", population=False),
    "VAR_POP": Function("variance"),
    "STDDEV": Function("deviation", population=False),
    "STDDEV_SAMP": Function("deviation", population=False),
    "STDDEV_POP": Function("deviation"),
    "MIN": Function("quantiles", fractions=(0.0,)),
    "MAX": Function("quantiles", fractions=(1.0,)),
    "MEDIAN": Function("quantiles", fractions=(0.5,)),
    "NTILE": Function("quantiles", second="fraction"),
    "PERCENTILE_CONT": Function("quantiles", second="fraction"),
    "QUANTILE_CONT": Function("quantiles", second="fraction"),
    "APPROX_QUANTILES": Function("quantiles", second="parts"),
}
ANON = {
    "ANON_COUNT": Function("count"),
    "ANON_SUM": Function("sum"),
    "ANON_AVG": Function("average"),
    "ANON_VAR": Function("variance"),
    "ANON_VAR_POP": Function("variance"),
    "ANON_STDDEV": Function("deviation"),
    "ANON_STDDEV_POP": Function("deviation"),
    "ANON_MIN": Function("quantiles", fractions=(0.0,)),
    "ANON_MAX": Function("quantiles", fractions=(1.0,)),
    "ANON_MEDIAN": Function("quantiles", fractions=(0.5,)),
    "ANON_NTILE": Function("quantiles", second="fraction"),
    "ANON_PERCENTILE_CONT": Function("quantiles", second="fraction"),
    "ANON_QUANTILES": Function("quantiles", second="parts"),
}
FUNCTIONS = PLAIN | ANON


def canonical(call: Call, argument: exp.Expr) -> exp.Expr:
    """Return the node of sqlglot's that stands for a call; its metadata has the call.

    Parameters
    ----------
    call
        The call, without its argument.
    argument
        What it is about: an expression, or a star.
    """
    if call.kind in ("count", "units"):
        inner: exp.Expr = exp.Distinct(expressions=[argument]) if call.distinct else argument
        node: exp.Expr = exp.Count(this=inner, big_int=True)
    elif call.kind == "quantiles":
        node = _quantiles(call, argument)
    else:
        kinds: dict[tuple[str, bool], type[exp.Expr]] = {
            ("sum", True): exp.Sum,
            ("average", True): exp.Avg,
            ("variance", False): exp.Variance,
            ("variance", True): exp.VariancePop,
            ("deviation", False): exp.StddevSamp,
            ("deviation", True): exp.StddevPop,
        }
        node = kinds[call.kind, call.population](this=argument)
    node.meta["call"] = call
    return node


def _quantiles(call: Call, argument: exp.Expr) -> exp.Expr:
    if call.array:
        return exp.ApproxQuantiles(this=argument, expression=exp.Literal.number(len(call.fractions) - 1))
    fraction = call.fractions[0]
    if fraction in (0.0, 1.0):
        return exp.Max(this=argument) if fraction else exp.Min(this=argument)
    return exp.PercentileCont(this=argument, expression=exp.Literal.number(fraction))


def call_of(node: exp.Expr) -> Call | None:
    """Return what a node of the tree asks for; None if it is no call of an aggregate function."""
    call = node.meta.get("call")
    if not isinstance(call, Call):
        return None
    if call.star:
        return call
    return replace(call, argument=node.this.expressions[0] if call.distinct else node.this)
