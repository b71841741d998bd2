"""What SQL has a function for: spreads, correlations, ends and distinct units, as verbs that write the statement.

A verb here is the statement that somebody would write for it, so that it is planned, bounded, reused and recorded as
that is. Its rows are those that SQL has: also those with values that other columns do not declare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from dpnotebook.domain import Bins, Dates, Range, Times
from dpnotebook.domain.bands import bands_between
from dpnotebook.domain.calendar import SPANS
from dpnotebook.domain.parts import PART
from dpnotebook.errors import AccuracyError, DomainError, shorten
from dpnotebook.planner.table import TableSchema
from dpnotebook.predicate import Predicate
from dpnotebook.query.question import Question
from dpnotebook.session.closer_by_itself import LEAST_ROWS
from dpnotebook.session.condition_sql import condition_sql, name_sql
from dpnotebook.session.quantile_rows import in_rows, names_beside
from dpnotebook.session.query import Query, SessionProtocol
from dpnotebook.session.release import Release
from dpnotebook.sql.ownership.reader import ValueBounds

# Parts of every week or year, of which dates are, as SQL calls them.
OF_EVERY_SQL = {
    "weekday": "DAYNAME({})",
    "month of year": "MONTHNAME({})",
    "quarter of year": "CASE QUARTER({}) WHEN 1 THEN 'Q1' WHEN 2 THEN 'Q2' WHEN 3 THEN 'Q3' WHEN 4 THEN 'Q4' END",
}
OF_A_COLUMN = {  # functions of `agg` that are none of the planner, and what SQL calls them
    "std": "STDDEV",
    "var": "VAR_SAMP",
    "min": "MIN",
    "max": "MAX",
    "sem": "STDDEV({0}) / SQRT(COUNT({0}))",
    "nunique": "COUNT(DISTINCT {0})",
}
AS_IN_SQL = "is measured as in SQL, which has no"
PLURAL = {"text": "texts", "time": "times", "date": "dates"}
BESIDE = {"count": "COUNT", "sum": "SUM", "mean": "AVG", "median": "MEDIAN"}


class StatementVerbs:
    """The verbs that are statements, of a table and of its groups."""

    _session: SessionProtocol
    _table: TableSchema
    _keys: tuple[str, ...]
    _spans: dict[str, str]
    _guard: Callable[[], None] | None

    def std(
        self,
        column: str,
        *,
        ddof: int = 1,
        bounds: ValueBounds | None = None,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the standard deviation of a column: STDDEV in SQL, with its interval.

        Values are clamped to the declared bounds; of a column without any, bounds are found from a noisy histogram.

        Parameters
        ----------
        column
            A column of numbers, declared or not.
        ddof
            1 divides by one less than the number of values, as pandas does; 0 by their number.
        bounds
            "auto": values are clamped to bounds that are found privately, with a tenth of the price, inside those that
            are declared; of amounts, which are often declared wide, that is done unasked. "declared": to these.
        where
            Which rows take part, as pandas-query text.
        epsilon, error, variance, confidence, fresh
            As for every verb; exactly one of the first three. An error needs declared bounds.

        Raises
        ------
        DomainError
            If there is no such column, or no such ddof.
        SQLError
            If the column holds no numbers.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> round(patients.std("age", epsilon=0.5).run().value, 1)
        28.9
        >>> patients.groupby("sex").std("age", epsilon=0.5).run().frame[["sex", "value"]].round(1)
          sex  value
        0   F   28.9
        1   M   28.9
        """
        name = ("STDDEV_POP", "STDDEV")[_degrees(ddof)]
        return self._of("std", name, (column,), where, epsilon, error, variance, confidence, fresh, bounds)

    def var(
        self,
        column: str,
        *,
        ddof: int = 1,
        bounds: ValueBounds | None = None,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the variance of a column: VAR_SAMP in SQL; parameters as for `std`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> round(patients.var("age", ddof=0, where="sex == 'F'", epsilon=0.5).run().value, 1)
        833.3
        """
        name = ("VAR_POP", "VAR_SAMP")[_degrees(ddof)]
        return self._of("var", name, (column,), where, epsilon, error, variance, confidence, fresh, bounds)

    def sem(
        self,
        column: str,
        *,
        bounds: ValueBounds | None = None,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the standard error of the mean: STDDEV(cost) / SQRT(COUNT(cost)) in SQL; see `std`.

        It is how far the mean of these rows may be from that of all whom they stand for, had nothing been hidden, and
        has an interval of its own. A private mean is wrong by its noise as well, which its own standard error tells:
        both together are the root of the sum of their squares. Rows are taken to be independent, which those of one
        unit are not.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> round(patients.sem("age", epsilon=0.5).run().value, 2)
        0.91
        """
        if epsilon is None and (error is not None or variance is not None):
            raise AccuracyError(
                "sem is worked out from a spread and a number, for which no error can be asked: give it epsilon=0.1, "
                "and read the error on its card"
            )
        call = OF_A_COLUMN["sem"]
        return self._of("sem", call, (column,), where, epsilon, error, variance, confidence, fresh, bounds)

    def corr(
        self,
        column: str,
        other: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the correlation of two columns, between -1 and 1: CORR in SQL; see `std`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> round(patients.corr("age", "income", epsilon=0.5).run().value, 2)
        1.0
        """
        columns = (column, other)
        return self._of("corr", "CORR", columns, where, epsilon, error, variance, confidence, fresh)

    def cov(
        self,
        column: str,
        other: str,
        *,
        ddof: int = 1,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the covariance of two columns: COVAR_SAMP in SQL; see `std`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> round(patients.cov("age", "income", ddof=0, epsilon=0.5).run().value)
        833250
        """
        name = ("COVAR_POP", "COVAR_SAMP")[_degrees(ddof)]
        return self._of("cov", name, (column, other), where, epsilon, error, variance, confidence, fresh)

    def min(
        self,
        column: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the least value that noise does not hide: MIN in SQL, a low quantile.

        Nobody's own value is told: it is the value above so many others as noise may have added.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> round(patients.min("age", where="age >= 50", epsilon=0.5).run().value)  # three years have enough rows
        53
        """
        return self._of("min", "MIN", (column,), where, epsilon, error, variance, confidence, fresh)

    def max(
        self,
        column: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the greatest value that noise does not hide: MAX in SQL, a high quantile; see `min`.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> round(patients.max("age", where="age < 50", epsilon=0.5).run().value)
        46
        """
        return self._of("max", "MAX", (column,), where, epsilon, error, variance, confidence, fresh)

    def nunique(
        self,
        column: str | None = None,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        variance: float | None = None,
        confidence: float = 0.95,
        fresh: bool = False,
    ) -> Query:
        """Return a query for the number of different privacy units, or values: COUNT(DISTINCT column) in SQL.

        Parameters
        ----------
        column
            What is counted; the column that identifies the unit when None. Of another column each unit adds one of
            its values at most, so that some are missed where few units have many that no other has.
        where, epsilon, error, variance, confidence, fresh
            As for `std`.

        Raises
        ------
        DomainError
            If there is no such column.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_patients, exact_session
        >>> visits = example_patients().assign(pid=lambda rows: rows.index // 2)
        >>> session = exact_session(dpn.Budget(epsilon=1.0))
        >>> table = session.protect(visits, "visits", unit="pid", max_rows=2, domain={"sex": ["F", "M"]})
        >>> visits.dp.nunique("pid", epsilon=0.5).run().value
        500.0
        >>> visits.dp.nunique("sex", epsilon=0.5).run().value
        2.0
        """
        unit = self._table.unit
        if unit is None and column is None:
            raise DomainError("each row is a unit of its own here, so count(epsilon=0.1) counts them")
        counted = str(unit) if column in (None, unit) else self._column(column)
        return self._of("nunique", "COUNT", (counted,), where, epsilon, error, variance, confidence, fresh)

    def _of(
        self,
        verb: str,
        function: str,
        columns: tuple[str, ...],
        where: str | None,
        epsilon: float | None,
        error: float | None,
        variance: float | None,
        confidence: float,
        fresh: bool,
        bounds: ValueBounds | None = None,
    ) -> Query:
        """Return the query of a statement with one function of one or two columns."""
        checked_bounds(bounds)
        names = columns if verb == "nunique" else tuple(self._numbers(verb, column) for column in columns)
        if len(set(names)) < len(names):
            raise DomainError(f"{verb} is of two columns; of one and the same it is {'1' if verb == 'corr' else 'var'}")
        call = _call(function, f"{'DISTINCT ' * (verb == 'nunique')}{', '.join(map(name_sql, names))}")
        given = {"epsilon": epsilon, "error": error, "variance": variance}
        return self._stated({self._named(verb): call}, where, given, confidence, fresh, bounds)

    def _inside(
        self,
        verb: Literal["sum", "mean"],
        column: str,
        granularity: float | None,
        where: str | None,
        given: Mapping[str, float | str | None],
        confidence: float,
        objective: str | None,
        fresh: bool,
    ) -> Query:
        """Return the query of a statement for a sum or a mean whose bounds are found inside those that are declared."""
        if granularity is not None:
            raise DomainError(f"with bounds='auto' {verb} {AS_IN_SQL} granularity=: leave it out")
        refuse_objective(objective, verb)
        call = _call(BESIDE[verb], name_sql(self._numbers(verb, column)))
        return self._stated({self._named(verb): call}, where, given, confidence, fresh, bounds="auto")

    def _weighted(
        self,
        column: str,
        weights: str,
        bounds: Any,
        granularity: float | None,
        where: str | None,
        given: Mapping[str, float | str | None],
        confidence: float,
        objective: str | None,
        fresh: bool,
    ) -> Query:
        """Return the query of a statement for a mean in which rows have weights."""
        asked = {"bounds": bounds, "granularity": granularity, "objective": objective}
        for name, one in asked.items():
            if one is not None:
                raise DomainError(f"with weights= mean {AS_IN_SQL} {name}=: leave it out")
        x, weight = self._numbers("mean", column), self._numbers("mean", weights)
        boolean = self._session.relations[self._table.name].columns[x] == "boolean"
        value, by = (f"CAST({name_sql(x)} AS INTEGER)" if boolean else name_sql(x)), name_sql(weight)
        there = f"CASE WHEN {name_sql(x)} IS NOT NULL THEN {by} END"
        call = f"SUM({value} * {by}) / NULLIF(SUM({there}), 0)"
        return self._stated({self._named("mean"): call}, where, given, confidence, fresh)

    def _of_many_rows(
        self,
        pairs: Sequence[tuple[str | None, str]],
        named: Sequence[str],
        where: str | None,
        given: Mapping[str, float | str | None],
        confidence: float,
        fresh: bool,
    ) -> Query | None:
        """Return the query of `_aggregated` where that is better asked as in SQL, for what is given; else None.

        That is so where nobody has said how many rows of a unit count, which statements find, and of sums and means
        where an epsilon buys more so.
        """
        found = self._table.unit is not None and self._table.max_rows is None
        left = Times if found else Bins | Times  # of bins the planner answers more from what it knows
        if any(isinstance(self._table.domain[key], left) for key in self._keys):
            return None
        averaged = any(function in ("sum", "mean") for _, function in pairs)
        if not (found or (averaged and self._buys_more_as_in_sql(given))):
            return None
        with suppress(DomainError):  # as of parts of a table, which only the planner tells apart
            return self._aggregated(pairs, named, where, given, confidence, fresh)
        return None

    def _quantiles_of_many_rows(
        self,
        column: str,
        quantiles: float | Sequence[float],
        where: str | None,
        given: Mapping[str, float | str | None],
        confidence: float,
        fresh: bool,
    ) -> Query | None:
        """Return `_of_many_rows` of a quantile, or of several, which have a row each and share one measurement."""
        several = [quantiles] if isinstance(quantiles, float) else list(quantiles)
        name, beside = self._named("quantile"), names_beside(several, self._keys)
        pairs = [(column, f"{100 * quantile:.12g}%") for quantile in several]
        named = [name] if isinstance(quantiles, float) else beside
        query = self._of_many_rows(pairs, named, where, given, confidence, fresh)
        if query is None or isinstance(quantiles, float):
            return query
        columns, before = dict(zip(beside, several, strict=True)), query.shown
        unit = self._table.domain[column].unit

        def shown(release: Release) -> Release:
            release = release if before is None else before(release)
            return in_rows(release, columns, name, column, unit, self._keys)

        return replace(query, shown=shown)

    def _buys_more_as_in_sql(self, given: Mapping[str, float | str | None]) -> bool:
        """Return whether sums and means are mostly much closer as in SQL for what is given.

        Noise for as many rows as a unit may have, of values anywhere in what is declared, hides most of them.
        """
        if given["epsilon"] is None or self._table.contribution_bound < LEAST_ROWS:
            return False
        return given["error"] is None and given["variance"] is None

    def _aggregated(
        self,
        pairs: Sequence[tuple[str | None, str]],
        named: Sequence[str],
        where: str | None,
        given: Mapping[str, float | str | None],
        confidence: float,
        fresh: bool,
        bounds: ValueBounds | None = None,
    ) -> Query:
        """Return the query of a statement with all functions that `agg` was asked for."""
        calls: dict[str, str] = {}
        for i, (column, function) in enumerate(pairs):
            answer = named[i] if named else function if column is None else f"{column}_{function}"
            if column is None or function == "size":
                calls[answer] = "COUNT(*)"
                continue
            name = name_sql(column if function in ("count", "nunique") else self._numbers(function, column))
            if function.endswith("%"):
                call = f"PERCENTILE_CONT({name}, {float(function[:-1]) / 100:g})"
            else:
                call = _call((OF_A_COLUMN | BESIDE)[function], name)
            calls[answer] = call
        return self._stated(calls, where, given, confidence, fresh, bounds)

    def _stated(
        self,
        calls: Mapping[str, str],
        where: str | None,
        given: Mapping[str, float | str | None],
        confidence: float,
        fresh: bool,
        bounds: ValueBounds | None = None,
    ) -> Query:
        """Return the query of a statement that selects the keys and some aggregates, each under a name."""
        if not isinstance(fresh, bool):
            raise AccuracyError(f"fresh= is True or False, not {shorten(fresh)}")
        table = self._table
        selected = Predicate.everything(table.domain) if where is None else Predicate.parse(where, table.domain)
        if (PART in selected.attributes and table.parts) or table.elsewhere:
            raise DomainError(
                f"this is asked of all parts of {shorten(table.name)} together: leave the condition on parts out, or "
                f"ask in SQL, where a part can be named"
            )
        said = condition_sql(selected, table.domain, self._session.relations[table.name].columns)
        parts = [name for name, by in self._spans.items() if by in OF_EVERY_SQL]
        declared = list(filter(None, map(self._declared_days, parts)))
        said = " AND ".join([*([f"({said})" if declared else said] * bool(said)), *declared])
        keys = {name: self._key(name) for name in self._keys}
        listed = [sql if sql == name_sql(name) else f"{sql} AS {name_sql(name)}" for name, sql in keys.items()]
        listed += [f"{call} AS {name_sql(name)}" for name, call in calls.items()]
        text = f"SELECT {', '.join(listed)} FROM {name_sql(table.name)}"
        text += f" WHERE {said}" * bool(said)
        text += f" GROUP BY {', '.join(keys.values())}" * bool(keys)
        query = self._session.sql(text, **given, confidence=confidence, fresh=fresh, bounds=bounds)  # type: ignore[arg-type]
        dates = [name for name in self._keys if isinstance(table.domain[name], Dates) and name not in parts]
        days = tuple(name for name in dates if table.domain[name].other_index is None)
        return replace(query, guard=self._guard, shown=partial(with_days, keys=days) if days else None)

    def in_sql(
        self,
        function: str,
        column: str | None,
        asked: Question,
        where: str | None,
        given: Mapping[str, float | str | None],
    ) -> str | None:
        """Return the statement with one function of one column that asks a question; None where it asks another.

        Parameters
        ----------
        function, column
            What SQL calls it, and of what; of no column it is of rows.
        asked, where
            The question, and its condition as pandas-query text.
        given
            How accurately it is asked.

        Examples
        --------
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients").groupby("sex")
        >>> asked = patients.count(epsilon=0.1).question
        >>> patients.in_sql("COUNT", None, asked, None, {"epsilon": 0.1})
        'SELECT sex, COUNT(*) AS value FROM patients GROUP BY sex'
        """
        call = f"{function}({'*' if column is None else name_sql(self._column(column))})"
        if (condition := asked.condition_of(asked.measures[0])) is not None:
            call = self._share_sql(condition)
        made = self._stated({asked.measures[0].name: call}, where, given, 0.95, False)
        return made.statement.text if made.statement is not None and made.question.key == asked.key else None

    def _share_sql(self, condition: Predicate) -> str:
        """Return what a statement averages to find the share of rows that satisfy a condition."""
        said = condition_sql(condition, self._table.domain, self._session.relations[self._table.name].columns)
        return f"AVG(CASE WHEN {said or 'TRUE'} THEN 1 ELSE 0 END)"

    def _key(self, name: str) -> str:
        """Return what a statement groups by for a key."""
        attribute = self._table.domain[name]
        if isinstance(attribute, Times):
            raise DomainError(f"this is not grouped by {shorten(name)}, which is times of day; sums and means are")
        if isinstance(attribute, Range | Bins) and name in self._spans:
            return _bands_sql(name_sql(name), attribute, self._spans[name])
        if not isinstance(attribute, Dates):
            return name_sql(name)
        by = self._spans.get(name, attribute.by)
        if by in OF_EVERY_SQL:
            return OF_EVERY_SQL[by].format(name_sql(name))
        if by not in SPANS or attribute.by_span(by) is None:
            raise DomainError(f"this is grouped by whole spans of {shorten(name)}, not by {by}: {', '.join(SPANS)}")
        return f"DATE_TRUNC('{by}', {name_sql(name)})"

    def _declared_days(self, name: str) -> str:
        """Return the condition of the rows with a declared date, or none where that is declared; empty if all count."""
        attribute, column = self._table.domain[name], name_sql(name)
        assert isinstance(attribute, Dates)
        if attribute.clamps or attribute.other_index is not None:
            return ""
        first, after = attribute.starts[0], attribute.starts[-1]
        inside = f"{column} >= '{first}' AND {column} < '{after}'"
        return f"({inside} OR {column} IS NULL)" if attribute.nullable else inside

    def _named(self, verb: str) -> str:
        """Return what to call the only answer: "value", unless a key needs that name."""
        taken = {*self._keys}
        names = ["value", *(verb + "_" * i for i in range(len(taken) + 1))]
        parts = ("", "_std_error", "_lower", "_upper")
        beside = {"value": {"value", "std_error", "lower", "upper"}}
        return next(name for name in names if not taken & beside.get(name, {name + part for part in parts}))

    def _numbers(self, verb: str, column: Any) -> str:
        """Return the name of a column that holds numbers, or truth values."""
        name = self._column(column)
        relation = self._session.relations[self._table.name]
        kind = relation.columns[name]
        if kind in ("integer", "number", "boolean") or name in relation.untyped:
            return name
        other = f"; value_counts({shorten(name)}) counts them" if name in self._table.domain else ""
        if kind == "time" and verb in ("min", "max") and name in self._table.domain:
            other = f"; quantile({shorten(name)}, [0.05, 0.95]) is of dates too"
        elif kind == "time":
            other = f"{other}; a column of its hours or days holds numbers, such as df[{shorten(name)}].dt.hour"
        elif kind == "text" and name not in self._table.domain:
            other = "; declare it as Range or Bins in domain=, or convert it to numbers before protect()"
        raise DomainError(
            f"{verb} is of numbers, and {shorten(name)} holds {PLURAL.get(kind, 'something else')}{other}"
        )

    def _column(self, name: Any) -> str:
        """Return the name of a column of the table, declared or not."""
        relation = self._session.relations.get(self._table.name)
        if isinstance(name, str) and relation is not None and name in relation.columns and name != self._table.unit:
            return name
        return self._known(name)

    def _known(self, column: str) -> str:
        """Return the name of a declared column, or raise DomainError."""
        raise NotImplementedError


def with_days(release: Release, keys: Sequence[str]) -> Release:
    """Return a release with keys that are days, NaT where they are missing, as the planner's answers have them."""
    frame, again = release.frame, release.again
    return replace(
        release,
        frame=frame.assign(**{key: frame[key].to_numpy(dtype="datetime64[us]") for key in keys}),
        again=None if again is None else lambda confidence: with_days(again(confidence), keys),
    )


def _bands_sql(column: str, attribute: Range | Bins, by: str) -> str:
    """Return the band of a number as SQL; values beyond the declared ones are in the first and the last band."""
    labels, begins = bands_between(by, *attribute.bounds)
    cases = [f"WHEN {column} < {begin!r} THEN '{label}'" for begin, label in zip(begins.tolist(), labels, strict=False)]
    if attribute.outside == "other":
        low, high = attribute.bounds
        cases.insert(0, f"WHEN {column} < {low!r} OR {column} > {high!r} THEN 'other'")
    return f"CASE {' '.join(cases)} WHEN {column} IS NOT NULL THEN '{labels[-1]}' END"


def _call(function: str, of: str) -> str:
    """Return the SQL of a function of columns, or of what is written with several functions of one."""
    return function.format(of) if "{0}" in function else f"{function}({of})"


def checked_bounds(bounds: Any) -> ValueBounds | None:
    """Return what values are clamped to, or raise DomainError: bounds of one's own are those of a sum or of a mean."""
    if bounds is None or (isinstance(bounds, str) and bounds in ("auto", "declared")):
        return bounds  # type: ignore[return-value]
    raise DomainError(
        f"bounds= is 'auto', 'declared' or left out here, not {shorten(bounds)}: bounds of one's own are given to "
        "sum(), mean(), or in SQL"
    )


def refuse_objective(objective: str | None, verb: str) -> None:
    """Raise DomainError for an objective of what SQL measures: of a verb with bounds="auto", or of SQL's functions."""
    if objective is not None and verb:
        raise DomainError(f"with bounds='auto' {verb} {AS_IN_SQL} objective=: leave it out")
    if objective is not None:
        raise AccuracyError("objective= is for what the planner measures, and std, var, sem, min and max are SQL's")


def _degrees(ddof: object) -> Literal[0, 1]:
    if isinstance(ddof, bool) or ddof not in (0, 1):
        raise DomainError(f"ddof= is 1, as in pandas, or 0; not {shorten(ddof)}")
    return 1 if ddof == 1 else 0
