"""The verbs of `df.dp`, of `session.table(name)` and of what `protect` returns: each makes a lazy Query."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

import numpy as np

from dpnotebook.domain import Dates, Domain
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.errors import AccuracyError, DomainError, DPError, WorkloadError, instead_of_data, shorten, some_of
from dpnotebook.planner.adaptive_rounds import asked_subsets
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import Noise
from dpnotebook.query.coarser_groups import per_words
from dpnotebook.query.objective import Objective
from dpnotebook.query.question import Accuracy, Measure, Question, bounded_value, narrowed
from dpnotebook.session.aggregation import aggregated, described, measures_of, named_pairs, refuse_beside, stated
from dpnotebook.session.answer_frame import PARTS, column_name, quantile_column
from dpnotebook.session.call_habits import grouping_keys, number_column
from dpnotebook.session.coarser_keys import coarser_levels, keys_of, span_workload
from dpnotebook.session.instead import declared_columns, instead, refuse, refuse_item, undeclared
from dpnotebook.session.moments import StatementVerbs, checked_bounds, refuse_objective
from dpnotebook.session.picked_columns import PickedColumns
from dpnotebook.session.query import Query, SessionProtocol
from dpnotebook.session.shares import is_condition, share_of
from dpnotebook.session.value_counts import Normalize, ShownCounts, whole_of
from dpnotebook.sql.ownership.reader import ValueBounds
from dpnotebook.strategy import Strategy
from dpnotebook.workload import Workload
from dpnotebook.workload.terms import sparse_terms

Bounds = tuple[float, float]


class Grouped(StatementVerbs):
    """Questions about one protected table, grouped by keys.

    Every verb takes exactly one of `epsilon=` (what it may cost at most: what is known as well already costs nothing),
    `error=` (half-width of the interval, in the answer's own units, or relative to the answer: "5%") or `variance=`;
    and optionally `confidence=` (0.95) and `fresh=True` (measure anew although the ledger holds an answer). An error or
    a variance holds for every answer, so where there are several, what is measured is chosen for the worst of them; an
    epsilon makes the squared errors of all together least. `objective="worst"` or `"total"` says otherwise.

    Parameters
    ----------
    session, table
        Who pays, and what is asked.
    keys
        Declared attributes to group by, of dates with the span: see `groupby`.
    guard
        Raises where the table is no longer what it was when it was protected; every query calls it before it runs.

    Examples
    --------
    >>> from dpnotebook.testing import example_session
    >>> by_sex = example_session().table("patients").groupby("sex")
    >>> by_sex.mean("age", where="age >= 65", epsilon=0.5).run().frame[["sex", "value"]]
      sex  value
    0   F   82.0
    1   M   82.0
    """

    def __init__(
        self,
        session: SessionProtocol,
        table: TableSchema,
        keys: Any = (),
        guard: Callable[[], None] | None = None,
    ) -> None:
        self._session, self._table, self._guard = session, table, guard
        names, self._spans = keys_of(keys)
        self._keys = tuple(checked_keys(names, table))
        for name, by in list(self._spans.items()):
            coarser_levels(table.domain, name, by)
            if by == getattr(table.domain[name], "by", None):
                del self._spans[name]

    if not TYPE_CHECKING:  # a type checker knows what is here

        def __getattr__(self, name: str) -> PickedColumns:
            own = vars(self)  # empty while it is being copied
            if own and name in self._table.domain:  # as in pandas; a column called as a verb is in brackets
                return self[name]
            refuse("a protected table", name, dir(type(self)), own.get("_table"), own.get("_keys", ()))

        def __dir__(self) -> list[str]:
            return [*super().__dir__(), *filter(str.isidentifier, self._table.domain)]

        def __len__(self) -> NoReturn:
            refuse("a protected table", "len", (), self._table)

        def __bool__(self) -> bool:
            return True

    def __getitem__(self, key: str | list[str]) -> PickedColumns:
        """Return columns to ask of, one or a list of several, as pandas users write them; see `PickedColumns`.

        Raises
        ------
        DomainError
            If a column is not declared.
        UnknownVerb
            If this is neither a name nor a list of names.
        """
        listed = [key] if isinstance(key, str) else key
        if not isinstance(listed, list) or not listed or not all(isinstance(name, str) for name in listed):
            refuse_item(key, self._table)
        if listed == [self._table.unit]:
            refuse("a protected table", listed[0], (), self._table)
        checked_keys(listed, self._table)
        return PickedColumns(self, self._table, self._keys, key)

    def count(
        self,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        simultaneous: bool = False,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the number of rows.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.count(where="age >= 65 and sex == 'F'", error=25).run().value
        210.0
        >>> patients.groupby("sex").count(error=25).run().frame[["sex", "value"]]
          sex  value
        0   F  600.0
        1   M  400.0
        """
        given = {"epsilon": epsilon, "error": error, "variance": variance}
        if objective is None and simultaneous is False:
            pairs, named = [(None, "count")], [self._named("count")]
            if (as_in_sql := self._of_many_rows(pairs, named, where, given, confidence, fresh)) is not None:
                return as_in_sql
        accuracy = accuracy_of(epsilon, error, variance, confidence, objective)
        return self._query(Measure("count"), where, accuracy, fresh, simultaneous)

    def size(
        self,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        simultaneous: bool = False,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the number of rows, as `count`: what pandas calls the size of groups.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.groupby("sex").size(epsilon=0.5).run()["value"].tolist()
        [600.0, 400.0]
        """
        return self.count(
            where=where,
            epsilon=epsilon,
            error=error,
            variance=variance,
            confidence=confidence,
            objective=objective,
            simultaneous=simultaneous,
            fresh=fresh,
        )

    def sum(
        self,
        column: str,
        *,
        bounds: Bounds | Literal["auto"] | None = None,
        granularity: float | None = None,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the sum of a column, its values clamped to bounds and rounded to a granularity.

        Parameters
        ----------
        column
            A column declared as Range, Bins or bool; of a bool, True is 1 and False is 0. With "auto" for bounds any
            column of numbers.
        bounds
            (low, high); those of the declaration when None. Noise is in proportion to them. "auto": narrower ones that
            are found privately, with a tenth of the price, as in SQL with bounds="auto".
        granularity
            Step to which values are rounded, in the column's units; not with "auto".
        where
            Which rows take part, as pandas-query text.
        epsilon, error, variance, confidence, objective, fresh
            As for every verb; exactly one of the first three.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.sum("age", where="sex == 'F'", epsilon=0.5).run()
        >>> release.value  # 6 people of each age from 0 to 99
        29700.0
        """
        given = {"epsilon": epsilon, "error": error, "variance": variance}
        if self._condition(column) is not None:
            if any(one is not None for one in (bounds, granularity)):
                raise DomainError("rows that satisfy a condition are counted: leave bounds= and granularity= out")
            both = column if where is None else f"({where}) and ({column})"
            accuracy: Mapping[str, Any] = given | {"confidence": confidence, "objective": objective}
            return self.count(where=both, **accuracy, fresh=fresh)
        if isinstance(bounds, str) and bounds == "auto":
            return self._inside("sum", column, granularity, where, given, confidence, objective, fresh)
        summand = bounded_value(self._table.domain, self._known(column), bounds, granularity)
        as_declared = any(one is not None for one in (bounds, granularity, objective))
        if not as_declared:
            pairs, named = [(column, "sum")], [self._named("sum")]
            if (as_in_sql := self._of_many_rows(pairs, named, where, given, confidence, fresh)) is not None:
                return as_in_sql
        return self._query(
            Measure("sum", column, summand=summand),
            where,
            accuracy_of(epsilon, error, variance, confidence, objective),
            fresh,
        )

    def mean(
        self,
        column: str,
        *,
        weights: str | None = None,
        bounds: Bounds | Literal["auto"] | None = None,
        granularity: float | None = None,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the mean of a column, or the share of True in a bool or of rows that satisfy a condition.

        Parameters as for `sum`, and

        Parameters
        ----------
        column
            A declared column, or a condition as for `where=`: what is answered is the share of rows of which it holds.
        weights
            A column of numbers, declared or not, by which rows count, as those of a survey do: SUM(weight * x) over
            SUM(weight) in SQL. Rows without a value have no weight. With it `column` may be any column of numbers.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.mean("age", epsilon=0.5).run().value
        49.5
        >>> patients.groupby("sex").mean("age", epsilon=0.5).run().frame[["sex", "value"]]
          sex  value
        0   F   49.5
        1   M   49.5
        >>> example_session().table("patients").mean("age >= 65", epsilon=0.5).run().value
        0.35
        """
        given = {"epsilon": epsilon, "error": error, "variance": variance}
        if (condition := self._condition(column)) is not None:
            if any(one is not None for one in (weights, bounds, granularity)):
                raise DomainError("a condition is true or false: leave weights=, bounds= and granularity= out")
            return self._share(condition, where, given, confidence, objective, fresh)
        if weights is not None:
            return self._weighted(column, weights, bounds, granularity, where, given, confidence, objective, fresh)
        if isinstance(bounds, str) and bounds == "auto":
            return self._inside("mean", column, granularity, where, given, confidence, objective, fresh)
        summand = bounded_value(self._table.domain, self._known(column), bounds, granularity, ends=True)
        as_declared = any(one is not None for one in (bounds, granularity, objective))
        if not as_declared:
            pairs, named = [(column, "mean")], [self._named("mean")]
            if (as_in_sql := self._of_many_rows(pairs, named, where, given, confidence, fresh)) is not None:
                return as_in_sql
        return self._query(
            Measure("mean", column, summand=summand),
            where,
            accuracy_of(epsilon, error, variance, confidence, objective),
            fresh,
        )

    def cdf(
        self,
        column: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        simultaneous: bool = False,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the number of rows at or below each level of an ordered column; `error=` is in rows.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.cdf("income", epsilon=0.5).run().frame[["income", "value", "share"]].head(3)
                     income  value  share
        0       [0, 10,000)  100.0    0.1
        1  [10,000, 20,000)  200.0    0.2
        2  [20,000, 30,000)  300.0    0.3
        """
        return self._query(
            Measure("cdf", self._ranked(column)),
            where,
            accuracy_of(epsilon, error, variance, confidence, objective),
            fresh,
            simultaneous,
        )

    def quantile(
        self,
        column: str,
        q: float | Sequence[float] = 0.5,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the value below which a fraction q of the rows lies; `error=` is in the column's units.

        How many rows that takes depends on how close together values lie: as releases tell, or as a small first look
        finds, whose card says the most that is paid in all. `cdf` has errors in rows; `variance=` is in rows of rank.

        Several cost what one of them does: all are read off one measurement, and they never cross. Of dates it is a
        date, and so are the ends of its interval; its standard error, and an `error=`, are in days.

        Parameters
        ----------
        column
            A column declared as Range, Bins or Dates.
        q
            A fraction from 0 to 1, or a list of them: then the frame has a row for each, in a column `quantile`.
        where
            Which rows take part, as pandas-query text.
        epsilon, error, variance, confidence, objective, fresh
            As for every verb; exactly one of the first three.

        Raises
        ------
        AccuracyError
            If a fraction is none, or comes twice.
        DomainError
            If the column has no order.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.quantile("age", 0.25, epsilon=0.5).run().value
        24.0
        >>> patients.quantile("age", [0.25, 0.5, 0.75], epsilon=0.5).run().frame[["quantile", "value"]]
           quantile  value
        0      0.25   24.0
        1      0.50   49.0
        2      0.75   74.0
        """
        if isinstance(column, float):  # as of a Series
            named = f"quantile({number_column(self._table)!r}, {column}, epsilon=0.1)"
            raise DomainError(f"quantile() is of a column, which is named first: {named}")
        ranked, quantiles = self._ranked(column), checked_quantiles(q)
        if objective is None:
            given = {"epsilon": epsilon, "error": error, "variance": variance}
            if (
                as_in_sql := self._quantiles_of_many_rows(ranked, quantiles, where, given, confidence, fresh)
            ) is not None:
                return as_in_sql
        return self._looking(
            self._query(
                Measure("quantile", ranked, quantile=quantiles),
                where,
                accuracy_of(epsilon, error, variance, confidence, objective),
                fresh,
            )
        )

    def _looking(self, query: Query) -> Query:
        """Return a query with a first look, where nothing tells yet what its error takes."""
        from dpnotebook.session.first_look import with_look

        return with_look(query, lambda accuracy: replace(query, accuracy=accuracy), self._session.most_at_once)

    def median(
        self,
        column: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the value that half of the rows lie below: `quantile(column, 0.5)`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.groupby("sex").median("age", epsilon=0.5).run().frame[["sex", "value"]]
          sex  value
        0   F   49.0
        1   M   49.0
        """
        return self.quantile(
            column,
            where=where,
            epsilon=epsilon,
            error=error,
            variance=variance,
            confidence=confidence,
            objective=objective,
            fresh=fresh,
        )

    def agg(
        self,
        functions: Mapping[str, str | Sequence[str]] | str | Sequence[str] | None = None,
        *,
        bounds: ValueBounds | None = None,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
        **named: Any,
    ) -> Query:
        """Return a query for several functions of several columns at once, planned together, at one price.

        What one of them tells of another is not paid for twice: a mean counts the rows, quantiles share a measurement.

        Parameters
        ----------
        functions
            A dict of columns and what is asked of each: "count" (of rows with a value), "sum", "mean", "median", a
            quantile such as "90%", or "std", "var", "sem", "min" and "max" as in the verbs; or "count", of all rows.
        bounds
            "auto": to what sums, means and spreads are clamped is found privately, with a tenth of the price, inside
            what is declared; also of columns of numbers that are not declared. All is measured as in SQL then.
            "declared" clamps those that only SQL has, such as "std", to what is declared, whatever it is.
        where
            Which rows take part, as pandas-query text.
        epsilon, error, variance, confidence, objective, fresh
            As for every verb. An epsilon is that of all together; an error holds for each, where all are of one unit.
        named
            In place of functions, a name for each answer with its column and its function: `oldest=("age", "90%")`, as
            in pandas.

        Returns
        -------
        A query whose frame has the columns age_mean, age_median and so on, or those named, each with its interval.

        Raises
        ------
        DomainError
            If a column is not declared, or a function is none of these.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.groupby("sex").agg({"age": ["count", "mean", "median"]}, epsilon=0.5).run()
        >>> release.frame[["sex", "age_count", "age_mean", "age_median"]]
          sex  age_count  age_mean  age_median
        0   F      600.0      49.5        49.0
        1   M      400.0      49.5        49.0
        >>> release = patients.groupby("sex").agg(n=("age", "size"), average=("age", "mean"), epsilon=0.5).run()
        >>> release.frame[["sex", "n", "average"]]
          sex      n  average
        0   F  600.0     49.5
        1   M  400.0     49.5
        """
        refused = partial(instead, table=self._table, keys=self._keys)
        names = tuple(named)
        known = self._column if checked_bounds(bounds) == "auto" else self._known
        if named and functions is None:
            pairs = named_pairs(named, self._keys, known, refused)
        elif named:
            refuse_beside(named)
        else:
            pairs = aggregated(functions, known, refused)
        given = {"epsilon": epsilon, "error": error, "variance": variance}
        if bounds == "auto" or stated(pairs):
            refuse_objective(objective, "agg" if bounds == "auto" else "")
            return self._aggregated(pairs, names, where, given, confidence, fresh, bounds)
        if bounds is None and objective is None:
            as_in_sql = self._of_many_rows(pairs, names, where, given, confidence, fresh)
            if as_in_sql is not None:
                return as_in_sql
        accuracy = accuracy_of(epsilon, error, variance, confidence, objective)
        return self._asked(measures_of(pairs, self._table.domain, self._keys, names), where, accuracy, fresh)

    def describe(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        bounds: Literal["auto"] | None = None,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for count, mean and quartiles of columns, planned together, at one price.

        Parameters
        ----------
        columns
            Columns declared as Range or Bins; all of them when None.
        bounds
            "auto": as for `agg`, also of columns of numbers that are not declared.
        where
            Which rows take part, as pandas-query text.
        epsilon, error, variance, confidence, objective, fresh
            As for `agg`.

        Raises
        ------
        DomainError
            If a column is not declared, or has no order.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.describe("age", epsilon=0.5).run()
        >>> release.frame[["age_count", "age_mean", "age_25%", "age_50%", "age_75%"]]
           age_count  age_mean  age_25%  age_50%  age_75%
        0     1000.0      49.5     24.0     49.0     74.0
        """
        given = {"epsilon": epsilon, "error": error, "variance": variance}
        if checked_bounds(bounds) == "auto":
            pairs = described(columns, self._table.columns, self._column, declared=False)
            refuse_objective(objective, "describe")
            return self._aggregated(pairs, (), where, given, confidence, fresh, bounds)
        pairs = described(columns, self._table.columns, self._known)
        if bounds is None and objective is None:
            as_in_sql = self._of_many_rows(pairs, (), where, given, confidence, fresh)
            if as_in_sql is not None:
                return as_in_sql
        accuracy = accuracy_of(epsilon, error, variance, confidence, objective)
        return self._asked(measures_of(pairs, self._table.domain, self._keys), where, accuracy, fresh)

    def _query(
        self, measure: Measure, where: str | None, accuracy: Accuracy, fresh: bool, simultaneous: bool = False
    ) -> Query:
        named = replace(measure, name=_answer_name(measure, self._keys))
        query = self._asked((named,), where, accuracy, fresh)
        if not isinstance(simultaneous, bool):
            raise AccuracyError(f"simultaneous= is True or False, not {shorten(simultaneous)}")
        return query.simultaneous() if simultaneous else query

    def _asked(self, measures: tuple[Measure, ...], where: str | None, accuracy: Accuracy, fresh: bool) -> Query:
        if not isinstance(fresh, bool):
            raise AccuracyError(f"fresh= is True or False, not {shorten(fresh)}")
        domain = self._table.domain
        predicate = self._table.within(parsed(where, domain))
        if self._spans:
            measures = tuple(self._by_span(measure, predicate, alone=len(measures) == 1) for measure in measures)
        question = narrowed(Question(self._table.name, measures, self._keys, predicate))
        check_rows(question)
        return Query(self._session, question, accuracy, fresh, guard=self._guard)

    def _by_span(self, measure: Measure, where: Predicate, alone: bool) -> Measure:
        """Return a measure by longer spans of dates, or wider bands of numbers, than those that are declared."""
        domain, asked = self._table.domain, per_words(self._spans)
        if measure.kind == "count" and measure.rows is None and alone:
            workload = span_workload(domain, self._keys, self._spans, where)
            return replace(measure, kind="workload", workload=workload, asked=asked)
        keys = sorted(self._keys, key=domain.names.index)
        return replace(measure, workload=span_workload(domain, keys, self._spans, where), asked=asked)

    def _condition(self, column: Any) -> Predicate | None:
        """Return the condition that was given in place of a column; None of anything else."""
        relation = self._session.relations.get(self._table.name)
        found = is_condition(column, {*self._table.domain, *(relation.columns if relation is not None else ())})
        return Predicate.parse(column, self._table.domain) if found else None

    def _share(
        self,
        condition: Predicate,
        where: str | None,
        given: Mapping[str, Any],
        confidence: float,
        objective: Objective | None,
        fresh: bool,
    ) -> Query:
        """Return a query for the share of rows that satisfy a condition; as in SQL where only that can ask it."""
        table = self._table
        measure = share_of(condition, table.within(parsed(where, table.domain)))
        bounded = table.unit is None or table.max_rows is not None
        if measure is not None and (objective is not None or (bounded and not self._buys_more_as_in_sql(given))):
            return self._query(measure, where, accuracy_of(**given, confidence=confidence, objective=objective), fresh)
        if objective is not None:
            raise AccuracyError("objective= is for shares by a condition on one column: leave it out here")
        return self._stated({self._named("mean"): self._share_sql(condition)}, where, given, confidence, fresh)

    def _known(self, column: str) -> str:
        if isinstance(column, list) and column and all(name in self._table.domain for name in column):
            raise DomainError(
                f"{shorten(column)} is not declared in the domain of {shorten(self._table.name)}: one column is asked "
                f"here, and several by agg(), or in brackets: df.dp[{shorten(column)}].mean(epsilon=0.1)"
            )
        return checked_keys([column], self._table)[0]

    def _ranked(self, column: str) -> str:
        if self._known(column) in self._keys:
            raise DomainError(
                f"{shorten(column)} is grouped by: each group has one level of it, so there is nothing to rank"
            )
        return column


class Verbs(Grouped):
    """All questions about one protected table; see `Grouped` for how to say how accurate an answer must be."""

    def groupby(
        self, keys: str | Sequence[Any] | Mapping[str, str | None] | EllipsisType = ..., **options: Any
    ) -> Grouped:
        """Return the verbs for answers grouped by declared attributes; every declared level is present.

        Parameters
        ----------
        keys
            One or several names; for dates by longer spans than they are declared by, a dict such as
            `{"admitted": "month", "sex": None}`: "week", "month", "quarter" or "year", or "weekday", "month of year" or
            "quarter of year"; or a `pandas.Grouper`. For numbers by bands, `{"age": 10}`, all of one width, or
            `{"age": [0, 18, 65]}`, each from one number up to the next.
        options
            As pandas has them, where they say what is done anyway: `by=` for keys, `as_index=False`, `observed=False`,
            `sort=True`, `dropna=False`.

        Raises
        ------
        ArgumentError
            If an option says something else.
        DomainError
            If a key is not declared.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> by_sex = patients.groupby("sex")
        >>> by_sex.count(where="age >= 65", error=25).run().frame[["sex", "value"]]
          sex  value
        0   F  210.0
        1   M  140.0
        """
        return Grouped(self._session, self._table, grouping_keys(keys, options, self._table), self._guard)

    def histogram(
        self,
        column: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        simultaneous: bool = False,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the number of rows at every level of an attribute.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.histogram("income", epsilon=0.5).run().frame[["income", "value"]].head(3)
                     income  value
        0       [0, 10,000)  100.0
        1  [10,000, 20,000)  100.0
        2  [20,000, 30,000)  100.0
        """
        return self.groupby(column).count(
            where=where,
            epsilon=epsilon,
            error=error,
            variance=variance,
            confidence=confidence,
            objective=objective,
            simultaneous=simultaneous,
            fresh=fresh,
        )

    def value_counts(
        self,
        columns: str | Sequence[str],
        *,
        normalize: bool = False,
        sort: bool = True,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the number of rows at every level, or combination of levels, the most frequent first.

        The noisy counts are sorted, so this costs what a histogram does. Every declared level is there, zeros included.

        Parameters
        ----------
        columns
            One or several declared attributes.
        normalize
            Whether to give shares of all rows instead of counts; `epsilon=`, `error=` and `variance=` are of the counts
            all the same.
        sort
            False: in the order in which levels were declared, as `histogram` has them.
        where
            Which rows take part, as pandas-query text.
        epsilon, error, variance, confidence, objective, fresh
            As for every verb; exactly one of the first three.

        Raises
        ------
        DomainError
            If an attribute is not declared.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.value_counts("sex", normalize=True, epsilon=0.5).run().frame[["sex", "value"]]
          sex  value
        0   F    0.6
        1   M    0.4
        """
        for name, given in (("normalize", normalize), ("sort", sort)):
            if not isinstance(given, bool):
                raise DomainError(f"{name}= is True or False, not {shorten(given)}")
        query = self.groupby(columns).count(
            where=where,
            epsilon=epsilon,
            error=error,
            variance=variance,
            confidence=confidence,
            objective=objective,
            fresh=fresh,
        )
        return replace(query, shown=ShownCounts("value_counts", () if normalize else None, sort))

    def crosstab(
        self,
        *columns: str,
        normalize: Normalize = False,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        simultaneous: bool = False,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the number of rows at every combination of levels of two or more attributes.

        Parameters
        ----------
        columns
            Declared attributes.
        normalize
            True or "all" gives shares of all rows instead of counts; of two attributes, "index" of the rows with the
            level of the first, and "columns" of the second. `epsilon=`, `error=` and `variance=` are of the counts.
        where, epsilon, error, variance, confidence, objective, simultaneous, fresh
            As for every verb; shares have no intervals that hold all at once.

        Raises
        ------
        DomainError
            If an attribute is not declared, or there are others than two where they must be.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.crosstab("sex", "income", where="age < 20", epsilon=0.5).run()
        >>> release.frame[["sex", "income", "value"]].head(3)
          sex            income  value
        0   F       [0, 10,000)   60.0
        1   F  [10,000, 20,000)   60.0
        2   F  [20,000, 30,000)    0.0
        """
        if len(columns) < 2:
            raise DomainError("crosstab takes two or more attributes; histogram takes one")
        of = whole_of(normalize, columns)
        if of is not None and simultaneous is not False:
            raise AccuracyError("shares have an interval each: leave simultaneous= out, or normalize=")
        query = self.groupby(columns).count(
            where=where,
            epsilon=epsilon,
            error=error,
            variance=variance,
            confidence=confidence,
            objective=objective,
            simultaneous=simultaneous,
            fresh=fresh,
        )
        return query if of is None else replace(query, shown=ShownCounts("crosstab", of))

    def answer(
        self,
        workload: Workload | WorkloadRequest,
        on: str | Sequence[str] | None = None,
        *,
        where: str | None = None,
        strategy: Strategy | Callable[..., Strategy] | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        simultaneous: bool = False,
        adaptive: bool = False,
        fresh: bool = False,
    ) -> Query:
        """Return a query for all answers of a workload over the histogram of some attributes.

        Parameters
        ----------
        workload
            By attribute names, such as `dpn.marginals(2) + dpn.ranges("age")`; or queries over the cells of `on` in C
            order, shape (answers, product of the attributes' sizes).
        on
            One or several declared attributes. When None, those that the workload names, or else all of the table.
        where
            Which rows take part; levels that none of them can have are no cells.
        strategy
            What to measure: a strategy for this workload, or a function that makes one, such as
            `dpn.strategy.wavelet`. The best that is found, unless given. Where the ledger has an answer that cost as
            much, that is given whatever it was measured by; `fresh=True` measures anew.
        epsilon, error, variance, confidence, objective, fresh
            As for every verb; exactly one of the first three, and none where the parts of the workload say themselves
            how far off they may be, such as `dpn.ranges("age").within(100) + dpn.marginals(2).within(50)`.
        simultaneous
            Whether all intervals hold at once with the confidence, and not each by itself: also that of the answer
            which stands out.
        adaptive
            Of marginals: whether what is measured is chosen round by round from noisy answers, and what is left out
            follows from smaller tables (see `dpnotebook.planner.adaptive_rounds`). Takes `epsilon=` alone, all of which
            is charged to every cell first. Far better for many columns, few rows or a small epsilon; not where rows
            are many and cells few, where everything is measured, and `.nonnegative()` of a plain answer is as good or
            better. Combinations of columns that were not measured have no interval (NaN).

        Marginals of more than two million counts are no frame: `release.marginal("age", "sex")` reads a table of them.

        Raises
        ------
        DomainError
            If this is no workload, or one of too many answers.
        WorkloadError
            If an adaptive answer is asked for of something else than marginals.
        AccuracyError
            If an adaptive answer is asked for within an error.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> release = patients.answer(dpn.identity("sex") + dpn.ranges("income"), epsilon=0.5).run()
        >>> len(release.frame)  # 2 counts, and 10 x 11 / 2 ranges
        57
        >>> by_wavelet = patients.answer(dpn.ranges("age"), strategy=dpn.strategy.wavelet, error=500)
        >>> by_wavelet.plan.answers
        5050
        >>> release = patients.answer(dpn.marginals(2), epsilon=0.5, adaptive=True).run()
        >>> float(release.frame["value"].min()) >= 0  # counts that data could have
        True
        """
        if not isinstance(workload, Workload | WorkloadRequest):
            raise DomainError(
                'answer() takes a workload, such as dpn.marginals(2), dpn.ranges("age") or dpn.workload.Prefix(100), '
                f"not {shorten(workload)}"
            )
        domain = self._table.domain
        if on is None:
            on = attributes_of(workload, self._table)
        grouped = self.groupby(on)
        asked = ""
        accuracy = _promised(workload, confidence, objective, epsilon=epsilon, error=error, variance=variance)
        if isinstance(workload, WorkloadRequest):
            asked = repr(workload)
            predicate = self._table.within(parsed(where, domain))
            levels = {name: allowed_levels(predicate, name, domain) for name in grouped._keys}
            workload = workload.over(domain, grouped._keys, levels)
        if adaptive:
            check_adaptive(workload, strategy, objective, simultaneous, epsilon if accuracy is None else None)
        query = grouped._query(
            Measure("workload", workload=workload, asked=asked, adaptive=adaptive),
            where,
            accuracy or accuracy_of(epsilon, error, variance, confidence, objective),
            fresh,
            simultaneous,
        )
        if strategy is None:
            return query
        noise = self._session.ledger.accountant.noise
        try:
            made = strategy if isinstance(strategy, Strategy) else strategy(workload, noise=noise)
        except DPError:
            raise
        except Exception as error:
            raise WorkloadError(
                "strategy= is a strategy, or a function of a workload and noise= that makes one, such as "
                f"dpn.strategy.wavelet; {shorten(strategy)} stopped with {shorten(type(error))}"
            ) from None
        return replace(query, strategy=checked_strategy(made, workload, noise))


def check_adaptive(
    workload: Workload, strategy: object, objective: object, simultaneous: bool, epsilon: float | None
) -> None:
    """Refuse what an adaptive answer cannot have.

    Raises
    ------
    WorkloadError
        If the workload is not of marginals.
    AccuracyError
        If a strategy, an objective or an error is asked for.
    """
    if strategy is not None or objective is not None or simultaneous:
        raise AccuracyError(
            "an adaptive answer chooses what it measures from noisy answers: leave strategy=, objective= and "
            "simultaneous= out, or adaptive="
        )
    if epsilon is None:
        raise AccuracyError(
            "an adaptive answer takes epsilon= alone: how far off it will be depends on what is chosen, so no error "
            "can be promised"
        )
    found = sparse_terms(workload)
    asked_subsets(workload, (workload.shape[1],) if found is None else found[0])


def checked_strategy(strategy: Strategy, workload: Workload, noise: Noise) -> Strategy:
    """Return the strategy if it answers the workload in a session with this noise.

    Raises
    ------
    WorkloadError
        If it is not for this workload or this noise, or leaves an answer undetermined.
    """
    if not isinstance(strategy, Strategy):
        raise WorkloadError(f"strategy= is a strategy or a function that makes one, not {type(strategy).__name__}")
    if strategy.workload != workload:
        raise WorkloadError(
            f"this strategy answers {shorten(strategy.workload)}, and the question is {shorten(workload)}: make one "
            "for it, or give "
            "the function that makes it, such as strategy=dpn.strategy.wavelet"
        )
    if strategy.noise != noise:
        raise WorkloadError(f'this session draws {noise} noise: make the strategy with noise="{noise}"')
    if not math.isfinite(strategy.objective):
        raise WorkloadError(
            f"the strategy {shorten(strategy.name)} does not determine every answer of {shorten(workload)}"
        )
    return strategy


def attributes_of(workload: Workload | WorkloadRequest, table: TableSchema) -> tuple[str, ...]:
    """Return which attributes of a table a workload is over; parts are told apart only where they are named."""
    if not isinstance(workload, WorkloadRequest):
        return table.columns.names
    try:
        return workload.attributes(table.columns)
    except WorkloadError:
        return workload.attributes(table.domain)


def check_rows(question: Question) -> None:
    """Raise DomainError if where= leaves no row that a measure is of, or not all groups that the question has."""
    domain = question.where.domain
    groups = [allowed_levels(question.where, name, domain) for name in question.keys]
    for measure in question.measures:
        if measure.rows is None:
            continue
        rows = question.rows_of(measure)
        if rows.is_empty or [allowed_levels(rows, name, domain) for name in question.keys] != groups:
            raise DomainError(f"where= or a key leaves no row with a value for {shorten(measure.name)}: ask it apart")


def checked_quantiles(q: float | Sequence[float]) -> float | tuple[float, ...]:
    """Return a fraction from 0 to 1 as it is, several as a tuple, or raise AccuracyError."""
    several = isinstance(q, (list, tuple, np.ndarray))
    listed: list[Any] = list(q) if several else [q]  # type: ignore[arg-type]
    if any(isinstance(one, bool) or not isinstance(one, (int, float)) or not 0 <= one <= 1 for one in listed):
        raise AccuracyError(f"a quantile lies between 0 and 1, such as 0.5 for the median; not {shorten(q)}")
    if not listed or len(set(listed)) < len(listed):
        raise AccuracyError(f"quantiles are fractions, each once, such as [0.25, 0.5, 0.75]; not {shorten(q)}")
    return tuple(map(float, listed)) if several else float(listed[0])


def parsed(where: str | None, domain: Domain) -> Predicate:
    """Return the predicate of a where= text: everything, without one."""
    return Predicate.everything(domain) if where is None else Predicate.parse(where, domain)


def checked_keys(keys: Sequence[str], table: TableSchema) -> list[str]:
    """Return the names as a list if all are declared and none comes twice, or raise DomainError."""
    for name in keys:
        if said := instead_of_data(name, table.domain.names):
            raise DomainError(f"{said}; declared in {shorten(table.name)} are {some_of(table.domain.names)}")
        if not isinstance(name, str) or name not in table.domain:
            column, dot, _ = str(name).partition(".dt.")
            if dot and isinstance(table.domain.get(column), Dates):
                raise DomainError(f'parts of dates are said so: groupby({{{column!r}: "month"}}), or "weekday"')
            alike = [one for one in table.domain.names if one.casefold() == str(name).casefold()]
            close = alike or get_close_matches(str(name), table.domain.names, n=1)
            there = f"{declared_columns(table, name)}{undeclared(table, name)}"
            hint = f"; did you mean {shorten(close[0])}?" if close else f"; {there}"
            raise DomainError(f"{shorten(name)} is not declared in the domain of {shorten(table.name)}{hint}")
    if len(set(keys)) != len(keys):
        raise DomainError(f"an attribute comes twice: {', '.join(keys)}")
    return list(keys)


def _answer_name(measure: Measure, keys: tuple[str, ...]) -> str:
    """Return what to call the answer: "value", unless a key of the answer has a name that this needs."""
    taken = {*keys, measure.column} if measure.kind == "cdf" else {*keys}
    if isinstance(measure.quantile, tuple):
        taken |= {quantile_column(keys)}
    names = itertools.chain(["value"], (measure.kind + "_" * i for i in itertools.count()))
    return next(name for name in names if not taken & {name, *(column_name(name, part) for part in PARTS)})


def _promised(
    workload: Workload | WorkloadRequest,
    confidence: float,
    objective: Objective | None,
    **said: float | str | None,
) -> Accuracy | None:
    """Return the accuracy that the parts of a workload say themselves, if they do; it can be said only once."""
    if not isinstance(workload, WorkloadRequest) or workload.loosest is None:
        return None
    if beside := [name for name, value in said.items() if value is not None]:
        raise AccuracyError(
            f"the parts of {shorten(workload)} say how far off their answers may be: leave "
            f"{' and '.join(f'{name}=' for name in beside)} out, or .within()"
        )
    return Accuracy(error=workload.loosest, confidence=confidence, objective=objective, within=workload.promised)


def accuracy_of(
    epsilon: float | None,
    error: float | str | None,
    variance: float | None,
    confidence: float,
    objective: Objective | None = None,
) -> Accuracy:
    """Return the accuracy that the keywords of every verb say; `error` may be relative, such as "5%"."""
    return Accuracy(epsilon, cast("float | None", error), variance, confidence, objective=objective)
