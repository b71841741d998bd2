"""Queries over private rows or over public tables, understood, before they are written out for the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import Literal

from sqlglot import exp

from dpnotebook.dialect.expressions import MaybeKind
from dpnotebook.sql.ownership.scope import UNIT, Column, Owner, Scope

Build = Callable[[Iterable[int]], exp.Expr]

Status = Literal["public", "owned", "released"]
"""Whether a query reads public tables only, gives rows that belong to units, or releases of them."""


@dataclass(frozen=True)
class CommonTable:
    """A query of a WITH clause, and what it can name itself."""

    node: exp.CTE
    environment: Environment


Environment = dict[str, CommonTable]  # by lower-case name


@dataclass(frozen=True)
class Output:
    """A column that a query gives.

    Parameters
    ----------
    name
        As it can be named from outside.
    node
        What it is, in terms of the query's sources.
    kind, unit, origin, lost, element, rounded, growth, numbers, missing, narrowed, row, absent, within, untyped,
    form, unit_or_null, ends
        As in `Column`.
    """

    name: str
    node: exp.Expr
    kind: MaybeKind
    unit: bool = False
    origin: tuple[str, str] | None = None
    lost: str | None = None
    element: MaybeKind = None
    rounded: bool = False
    growth: int = 1
    numbers: bool = False
    missing: bool = False
    narrowed: bool = False
    row: str | None = None
    absent: bool = False
    within: str = ""
    untyped: bool = False
    form: str = ""
    unit_or_null: bool = False
    ends: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True)
class Padding:
    """Rows that an outer join keeps and that are of nobody, which are left out; see `padded_rows`.

    Parameters
    ----------
    kept, without
        What the public and the protected sources are called.
    one
        What a unit is called.
    """

    kept: str
    without: str
    one: str


@dataclass(frozen=True)
class Rows:
    """A query whose every row belongs to one unit, or that reads public tables only.

    Parameters
    ----------
    outputs
        Its columns.
    owner
        Whose rows they are; None where they are public.
    build
        Gives its SQL with some of its columns, called `c` and their number; with the unit as `u`, if there is one.
    single
        Whether no unit can have two rows.
    tables, public
        The protected and public tables that it reads.
    distinct
        Whether it is a SELECT DISTINCT.
    whole
        Whether it is built with all of its columns, whatever is asked for.
    padding
        Of what padded rows are left out; None where none are.
    within
        Of a query over a public table: as in `Column`; None where it leaves out rows in other ways, too.
    times
        How many rows joins with public tables make of one row of a unit, at most; of a public query how many rows it
        has. None where that is not known.
    """

    outputs: tuple[Output, ...]
    owner: Owner | None
    build: Build
    single: bool = False
    tables: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    distinct: bool = False
    whole: bool = False
    padding: Padding | None = None
    within: str | None = None
    times: int | None = 1


@dataclass(frozen=True)
class FromItem:
    """Something in FROM.

    Parameters
    ----------
    alias
        Our own name for it.
    columns
        What can be named of it.
    owner, single, tables, public, padding, times
        As in `Rows`.
    unit
        The unit of a row of it.
    build
        Gives its SQL, with its alias, that has some of its columns.
    called
        What it is called in the statement, for errors.
    distinct
        Whether it is a SELECT DISTINCT over public tables.
    lateral
        Whether it is an array of each row before it.
    """

    alias: str
    columns: tuple[Column, ...]
    build: Build
    called: str
    owner: Owner | None = None
    unit: exp.Expr | None = None
    single: bool = False
    tables: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    distinct: bool = False
    lateral: bool = False
    padding: Padding | None = None
    times: int | None = 1


@dataclass(frozen=True)
class Joined:
    """A source, how it is joined to those before it ("" for the first), and on what."""

    how: str
    source: FromItem
    on: exp.Expr | None = None


@dataclass
class From:
    """What a query reads from.

    Parameters
    ----------
    scope
        What can be named.
    joined
        The sources, in order.
    owner, single, tables, public, padding, times
        As in `Rows`.
    groups
        The public source whose rows are the groups of a release.
    """

    scope: Scope
    joined: list[Joined] = field(default_factory=list)
    owner: Owner | None = None
    single: bool = False
    tables: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    groups: FromItem | None = None
    padding: Padding | None = None
    times: int | None = 1

    def take_asked(self) -> None:
        """Add what subqueries in expressions about its rows read."""
        self.tables = tuple(dict.fromkeys([*self.tables, *self.scope.asked]))
        self.public = tuple(dict.fromkeys([*self.public, *self.scope.asked_public]))
        self.owner = self.owner and self.scope.owner

    def build(self, select: exp.Select, used: Iterable[exp.Expr]) -> None:
        """Write FROM and the joins into a select, with those columns of each source that are used."""
        needed: dict[str, set[int]] = {item.source.alias: set() for item in self.joined}
        numbers = {
            (item.source.alias, column.node.name): number
            for item in self.joined
            for number, column in enumerate(item.source.columns)
        }
        ons = [item.on for item in self.joined if item.on is not None]
        lateral = [item.source.build(()) for item in self.joined if item.source.lateral]
        for node in chain(used, ons, lateral):
            for column in node.find_all(exp.Column):
                number = numbers.get((column.table, column.name))
                if number is not None:
                    needed[column.table].add(number)
        joins = []
        for item in self.joined:
            table = item.source.build(sorted(needed[item.source.alias]))
            if not item.how:
                select.from_(table, copy=False)
            else:
                place = "side" if item.how in ("LEFT", "RIGHT", "FULL") else "kind"
                on = None if item.on is None else item.on.copy()
                joins.append(exp.Join(this=table, on=on, **{place: item.how}))
        if joins:
            select.set("joins", joins)


def output_column(alias: str, number: int) -> exp.Column:
    """Return a column of a source that is a query."""
    return exp.column(f"c{number}", table=alias)


def unit_column(alias: str) -> exp.Column:
    """Return the unit's column of a source that is a query."""
    return exp.column(UNIT, table=alias)


def named_outputs(nodes: Sequence[exp.Expr], wanted: Iterable[int], unit: exp.Expr | None) -> list[exp.Expr]:
    """Return the list of a select: the unit, then the wanted columns under their numbers."""
    items = [] if unit is None else [exp.alias_(unit.copy(), UNIT)]
    items += [exp.alias_(nodes[number].copy(), f"c{number}") for number in wanted]
    return items or [exp.alias_(exp.Literal.number(1), "c0")]
