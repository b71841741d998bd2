"""The verbs of `df.dp`, of `session.table(name)` and of what `protect` returns: each makes a lazy Query."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from dpnotebook.domain import Domain
from dpnotebook.domain.named_workloads import WorkloadRequest
from dpnotebook.errors import AccuracyError, DomainError, DPError, WorkloadError, shorten
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.accountant import Noise
from dpnotebook.query.objective import Objective
from dpnotebook.query.question import Accuracy, Measure, Question, bounded_value
from dpnotebook.session.answer_frame import PARTS, column_name
from dpnotebook.session.query import Query, SessionProtocol
from dpnotebook.strategy import Strategy
from dpnotebook.workload import Workload

Bounds = tuple[float, float]


class Grouped:
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
        Declared attributes to group by.
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
        keys: Sequence[str] = (),
        guard: Callable[[], None] | None = None,
    ) -> None:
        self._session, self._table, self._guard = session, table, guard
        self._keys = tuple(checked_keys(keys, table))

    def count(
        self,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
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
        return self._query(Measure("count"), where, accuracy_of(epsilon, error, variance, confidence, objective), fresh)

    def sum(
        self,
        column: str,
        *,
        bounds: Bounds | None = None,
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
            A column declared as Range or Bins.
        bounds
            (low, high); those of the declaration when None.
        granularity
            Step to which values are rounded, in the column's units.
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
        summand = bounded_value(self._table.domain, self._known(column), bounds, granularity)
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
        bounds: Bounds | None = None,
        granularity: float | None = None,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the mean of a column; parameters as for `sum`.

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
        """
        summand = bounded_value(self._table.domain, self._known(column), bounds, granularity, ends=True)
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
        )

    def quantile(
        self,
        column: str,
        q: float = 0.5,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the value below which a fraction q of the rows lies; `error=` is in rows of rank.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> patients.quantile("age", 0.25, epsilon=0.5).run().value
        24.0
        """
        if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 <= q <= 1:
            raise AccuracyError(f"a quantile lies between 0 and 1, such as 0.5 for the median; not {shorten(q)}")
        return self._query(
            Measure("quantile", self._ranked(column), quantile=float(q)),
            where,
            accuracy_of(epsilon, error, variance, confidence, objective),
            fresh,
        )

    def _query(self, measure: Measure, where: str | None, accuracy: Accuracy, fresh: bool) -> Query:
        if not isinstance(fresh, bool):
            raise AccuracyError(f"fresh= is True or False, not {shorten(fresh)}")
        domain = self._table.domain
        predicate = self._table.within(parsed(where, domain))
        named = replace(measure, name=_answer_name(measure, self._keys))
        question = Question(self._table.name, (named,), self._keys, predicate)
        return Query(self._session, question, accuracy, fresh, guard=self._guard)

    def _known(self, column: str) -> str:
        return checked_keys([column], self._table)[0]

    def _ranked(self, column: str) -> str:
        if self._known(column) in self._keys:
            raise DomainError(
                f"{shorten(column)} is grouped by: each group has one level of it, so there is nothing to rank"
            )
        return column


class Verbs(Grouped):
    """All questions about one protected table; see `Grouped` for how to say how accurate an answer must be."""

    def groupby(self, keys: str | Sequence[str]) -> Grouped:
        """Return the verbs for answers grouped by declared attributes; every declared level is present.

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
        listed: list[Any] = list(keys) if isinstance(keys, (list, tuple)) else [keys]
        return Grouped(self._session, self._table, listed, self._guard)

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
            fresh=fresh,
        )

    def crosstab(
        self,
        *columns: str,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | str | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        objective: Objective | None = None,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the number of rows at every combination of levels of two or more attributes.

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
        return self.groupby(columns).count(
            where=where,
            epsilon=epsilon,
            error=error,
            variance=variance,
            confidence=confidence,
            objective=objective,
            fresh=fresh,
        )

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
            As for every verb; exactly one of the first three.

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
        if isinstance(workload, WorkloadRequest):
            asked = repr(workload)
            predicate = self._table.within(parsed(where, domain))
            levels = {name: allowed_levels(predicate, name, domain) for name in grouped._keys}
            workload = workload.over(domain, grouped._keys, levels)
        query = grouped._query(
            Measure("workload", workload=workload, asked=asked),
            where,
            accuracy_of(epsilon, error, variance, confidence, objective),
            fresh,
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


def parsed(where: str | None, domain: Domain) -> Predicate:
    """Return the predicate of a where= text: everything, without one."""
    return Predicate.everything(domain) if where is None else Predicate.parse(where, domain)


def checked_keys(keys: Sequence[str], table: TableSchema) -> list[str]:
    """Return the names as a list if all are declared and none comes twice, or raise DomainError."""
    from difflib import get_close_matches

    for name in keys:
        if not isinstance(name, str) or name not in table.domain:
            close = get_close_matches(str(name), table.domain.names, n=1)
            hint = (
                f"; did you mean {shorten(close[0])}?" if close else f"; declared are {', '.join(table.domain.names)}"
            )
            raise DomainError(f"{shorten(name)} is not declared in the domain of {shorten(table.name)}{hint}")
    if len(set(keys)) != len(keys):
        raise DomainError(f"an attribute comes twice: {', '.join(keys)}")
    return list(keys)


def _answer_name(measure: Measure, keys: tuple[str, ...]) -> str:
    """Return what to call the answer: "value", unless a key of the answer has a name that this needs."""
    taken = {*keys, measure.column} if measure.kind == "cdf" else {*keys}
    names = itertools.chain(["value"], (measure.kind + "_" * i for i in itertools.count()))
    return next(name for name in names if not taken & {name, *(column_name(name, part) for part in PARTS)})


def accuracy_of(
    epsilon: float | None,
    error: float | str | None,
    variance: float | None,
    confidence: float,
    objective: Objective | None = None,
) -> Accuracy:
    """Return the accuracy that the keywords of every verb say; `error` may be relative, such as "5%"."""
    return Accuracy(epsilon, cast("float | None", error), variance, confidence, objective=objective)
