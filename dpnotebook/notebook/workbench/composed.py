"""A question as the workbench composes it: plain values, which become a query, or its text in pandas or SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dpnotebook.domain import Attribute, Dates
from dpnotebook.domain.bands import given_bands
from dpnotebook.errors import AccuracyError, DomainError
from dpnotebook.session.as_sql import as_sql

if TYPE_CHECKING:
    from dpnotebook.planner.table import TableSchema
    from dpnotebook.session.protected import ProtectedTable
    from dpnotebook.session.query import Query

Amount = Literal["error", "epsilon"]


@dataclass(frozen=True)
class OfferedVerb:
    """A verb of `df.dp` that the workbench offers.

    Parameters
    ----------
    name, title
        Of the method, and as a person says it.
    columns
        How many columns it takes.
    of
        Which of the declared ones: with numbers, with numbers or dates in an order, with any order.
    fraction
        Whether it takes a fraction of the rows as well.
    """

    name: str
    title: str
    columns: int = 0
    of: Literal["", "numbers", "bounded", "ranked", "ordered"] = ""
    fraction: bool = False

    def takes(self, attribute: Attribute) -> bool:
        """Return whether it can be asked of a column that is declared so."""
        bounded = attribute.bounds is not None
        match self.of:
            case "numbers":
                return bounded or attribute.holds == "boolean"
            case "bounded":
                return bounded
            case "ranked":
                return attribute.ordered and (bounded or isinstance(attribute, Dates))
            case _:
                return attribute.ordered


VERBS = (
    OfferedVerb("count", "number of rows"),
    OfferedVerb("sum", "sum", 1, "numbers"),
    OfferedVerb("mean", "mean", 1, "numbers"),
    OfferedVerb("median", "median", 1, "ranked"),
    OfferedVerb("quantile", "quantile", 1, "ranked", fraction=True),
    OfferedVerb("cdf", "number of rows up to each level", 1, "ordered"),
    OfferedVerb("describe", "count, mean and quartiles", 1, "bounded"),
    OfferedVerb("std", "standard deviation", 1, "numbers"),
    OfferedVerb("var", "variance", 1, "numbers"),
    OfferedVerb("min", "least value that noise does not hide", 1, "bounded"),
    OfferedVerb("max", "greatest value that noise does not hide", 1, "bounded"),
    OfferedVerb("corr", "correlation", 2, "bounded"),
    OfferedVerb("cov", "covariance", 2, "bounded"),
    OfferedVerb("nunique", "number of privacy units"),
)
BY_NAME = {verb.name: verb for verb in VERBS}


def verbs_of(table: TableSchema) -> list[OfferedVerb]:
    """Return the verbs that can be asked of a table: those with columns enough."""
    columns = table.columns.values()
    found = [verb for verb in VERBS if sum(verb.takes(one) for one in columns) >= verb.columns]
    return [verb for verb in found if verb.name != "nunique" or table.unit is not None]


@dataclass(frozen=True)
class ComposedQuestion:
    """What the controls say.

    Parameters
    ----------
    verb
        Name of the verb.
    columns
        Those that it takes.
    fraction
        Of a quantile.
    keys
        What is grouped by, each with the span of dates, the bands of numbers as `bands.band_text` has them, or None.
    where
        Which rows, as pandas-query text; empty when all.
    amount, said
        What is said of the accuracy, and how much, as it was typed: error and "25" or "5%", epsilon and "0.1".
    """

    verb: str = "count"
    columns: tuple[str, ...] = ()
    fraction: float = 0.5
    keys: tuple[tuple[str, str | None], ...] = ()
    where: str = ""
    amount: Amount = "error"
    said: str = "50"

    def query(self, table: ProtectedTable) -> Query:
        """Return the query, or raise what the verb raises.

        Raises
        ------
        AccuracyError
            If the amount is no number.
        DomainError
            If a column is missing, or the verb cannot be asked like this.
        """
        verb = BY_NAME[self.verb]
        if len(self.columns) < verb.columns or None in self.columns:
            raise DomainError(f"choose {'a column' if verb.columns == 1 else 'two columns'} for the {verb.title}")
        asked = table.groupby(self._grouping) if self.keys else table
        options: dict[str, Any] = {self.amount: self._accuracy}
        if self.where:
            options["where"] = self.where
        made: Query = getattr(asked, self.verb)(*self._arguments, **options)
        return made

    def pandas(self, table: str) -> str:
        """Return the Python that asks the identical question.

        Parameters
        ----------
        table
            The Python of the protected table, such as `patients.dp` or `session.table('patients')`.
        """
        by = f".groupby({self._grouping!r})" if self.keys else ""
        arguments = [*map(repr, self._arguments), *([f"where={self.where!r}"] if self.where else [])]
        return f"{table}{by}.{self.verb}({', '.join([*arguments, f'{self.amount}={self._accuracy!r}'])}).run()"

    def sql(self, table: ProtectedTable) -> str | None:
        """Return the cell with `%%dpsql` that asks the identical question; None where SQL has none."""
        text = as_sql(self.query(table), table)
        return None if text is None else f"%%dpsql --{self.amount} {self.said.replace(' ', '')}\n{text}"

    @property
    def _arguments(self) -> tuple[Any, ...]:
        verb = BY_NAME[self.verb]
        return (*self.columns[: verb.columns], *((self.fraction,) if verb.fraction else ()))

    @property
    def _grouping(self) -> Any:
        if any(span for _, span in self.keys):
            return {name: given_bands(span) for name, span in self.keys}
        names: Sequence[str] = [name for name, _ in self.keys]
        return names[0] if len(names) == 1 else list(names)

    @property
    def _accuracy(self) -> float | str:
        return amount_of(self.amount, self.said)


def amount_of(amount: Amount, said: str) -> float | str:
    """Return what was typed as a number, or as a relative error.

    Raises
    ------
    AccuracyError
        If it is neither.
    """
    text = said.strip()
    if text.endswith("%") and amount == "error":
        return text
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise AccuracyError(
            "the error is a number above 0 in the answer's own units, such as 50, or a part of the answer, such as 5%"
            if amount == "error"
            else "ε is a number above 0, such as 0.1"
        )
    return int(number) if number == int(number) else number
