"""A SQL statement over protected tables, understood: what is measured, and what is worked out from the release.

Everything here is public: it follows from the text of the statement and from what is declared of the tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpnotebook.dialect.types import Kind
from dpnotebook.sql.level_texts import dumps
from dpnotebook.sql.select import Aggregate, PrivateSelect, is_column

if TYPE_CHECKING:
    from dpnotebook.domain import Domain


@dataclass(frozen=True)
class Relation:
    """What is public about a table that a statement may name.

    Parameters
    ----------
    name
        As it was protected or registered.
    columns
        What each column of the table holds; declared or not.
    private
        Whether it belongs to privacy units.
    unit
        Of a private table: the column that identifies the unit of a row; None: each row is a unit of its own.
    max_rows
        Most rows of a unit that are meant to count; None where nobody has said how many.
    domain
        Declared columns and their levels; None for public tables.
    rows
        About how many rows there are, where that is public.
    elements
        What the elements of its lists hold, where that is one of the kinds of a single value.
    population
        Of a private table: the named population of its units; None: one of this table alone.
    rounded
        Columns of numbers that can be closer than floating-point numbers are, which they are read as.
    dates
        Columns that hold dates, which have no hours.
    untyped
        Columns of texts that stand for values of any kind: what a frame calls objects, of which nothing is declared.
    forms
        What columns are beside the kind that they are read as, as `dialect.types` calls it.
    clocks
        The time zones whose clocks columns of moments are told by; those of others by UTC's.
    ends, unique
        Of a public table whose rows are at hand: the least and the largest number of each column of numbers, and the
        columns that have each of their values once.
    levels
        Of a public table whose rows are at hand: gives the different values of a column in the rows for which a
        condition in SQL holds, none for no condition; None where they are too many.
    groups
        The same of several keys: gives the different groups of a query over it, which has numbers of levels as `k0`,
        `k1`, ..., as many as are given.
    repeats
        The same: gives how many of its rows have the same values in some columns, at most; all of them for no column.
    """

    name: str
    columns: Mapping[str, Kind]
    private: bool = True
    unit: str | None = None
    max_rows: int | None = 1
    domain: Domain | None = None
    rows: float | None = None
    elements: Mapping[str, Kind] = field(default_factory=dict)
    population: str | None = None
    rounded: frozenset[str] = frozenset()
    dates: frozenset[str] = frozenset()
    untyped: frozenset[str] = frozenset()
    forms: Mapping[str, str] = field(default_factory=dict)
    clocks: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unique: frozenset[str] = frozenset()
    levels: Callable[[str, str], tuple[Any, ...] | None] | None = None
    groups: Callable[[str, int], tuple[tuple[int, ...], ...] | None] | None = None
    repeats: Callable[[tuple[str, ...]], int] | None = None


@dataclass(frozen=True)
class ShownColumn:
    """A column of a release as cards and plots see it: its name, its words, what it is of and what it is counted in."""

    name: str
    words: str
    kind: str
    column: str | None = None
    unit: str | None = None

    @property
    def counted_in(self) -> str:
        """What its answers are counted in; empty where that has no name."""
        if self.kind in ("sum", "mean", "quantile"):
            return self.unit or (str(self.column) if is_column(str(self.column)) else "")
        return {"units": "units", "values": "values", "derived": ""}.get(self.kind, "rows")


@dataclass(frozen=True)
class Statement:
    """A statement: private aggregations, and what is worked out from their releases.

    Parameters
    ----------
    text
        As it was written.
    selects
        The private aggregations in it.
    outer
        SQL (DuckDB's) over the relations `release_0`, `release_1`, ... (columns: keys, then of each aggregate its
        value under its name and `{name}_std_error`, `{name}_lower`, `{name}_upper`) and over public tables; None
        where the answer is `release_0` as it is.
    public
        The public tables that `outer` reads.
    units
        What the values of declared columns are counted in, where that was said.
    options
        With which `contribution=`, `bounds=` and `parameters=` it was asked, where it was with any.
    rates
        Whether ratios of counts in it are measured as the means that they are.
    grouped
        How aggregates of disjoint rows in it are measured as one grouping, by "columns" or by "conditions"; or "units"
        for sums of what each unit adds up. None where each is measured for itself, and by rows.
    can_group
        Whether aggregates of disjoint rows in it, each measured for itself, would be one grouping.
    usual
        Whether aggregates in it are measured as others that are usually written for them.
    parts
        Of a table that grew: of how many parts it was when this was written, and in which of them its rows are,
        numbered from 1; None where they can be in any.
    """

    text: str
    selects: tuple[PrivateSelect, ...]
    outer: str | None = None
    public: tuple[str, ...] = ()
    parts: tuple[int, tuple[int, ...]] | None = field(default=None, compare=False)
    units: Mapping[str, str] = field(default_factory=dict, compare=False)
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    rates: bool = field(default=False, compare=False)
    grouped: str | None = field(default=None, compare=False)
    can_group: bool = field(default=False, compare=False)
    usual: bool = field(default=False, compare=False)

    def code(self, accuracy: str) -> str:
        """Return the Python that asks it, given how accurately that is in Python, if it does not say that itself."""
        options = [accuracy, *(f"{name}={value!r}" for name, value in self.options.items())]
        return f"session.sql({', '.join([repr(self.text.strip()), *filter(None, options)])})"

    @property
    def key(self) -> str:
        """A digest that is equal for statements that measure the same, however they were written."""
        canonical = [select.canonical for select in self.selects]
        return hashlib.sha256(dumps(["statement", canonical], sort_keys=True).encode()).hexdigest()

    @property
    def tables(self) -> tuple[str, ...]:
        """The protected tables that are read, each once, in the order of the statement."""
        return tuple(dict.fromkeys(name for select in self.selects for name in select.tables))

    @property
    def table(self) -> str:
        """The protected table that stands first: what the statement costs is charged to its cells, all alike."""
        return self.tables[0]

    @property
    def words(self) -> str:
        """What is asked as a person would say it."""
        return "; ".join(_said(select) for select in self.selects)

    @property
    def where_text(self) -> str:
        """Empty: what rows take part is said by the statement itself."""
        return ""

    @property
    def measures(self) -> tuple[ShownColumn, ...]:
        """The columns of the first release that have one number a group."""
        return tuple(self._shown(aggregate) for aggregate in self.selects[0].aggregates if not aggregate.array)

    def _shown(self, aggregate: Aggregate) -> ShownColumn:
        from dpnotebook.sql.aggregates.catalogue import function_of  # with much that most sessions never need

        function, words = function_of(aggregate.kind), aggregate.words or aggregate.name
        column = function.column(aggregate)
        unit = None if column is None or not self.units else function.unit(aggregate, self.units)
        return ShownColumn(aggregate.name, words, function.shown, column, unit)


def _said(select: PrivateSelect) -> str:
    asked = [aggregate.words or aggregate.name for aggregate in select.aggregates]
    text = " and ".join([", ".join(asked[:-1]), asked[-1]] if len(asked) > 1 else asked)
    keys = ", ".join(key.name for key in select.keys)
    return text + (f" by {keys}" if keys else "")
