"""How much of one unit counts: what is written, else what is declared, else what is found privately (AUTO)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.domain import Attribute, Bins, Domain, Range
from dpnotebook.domain.left_out import left_out as missing_places
from dpnotebook.engine.executor import named
from dpnotebook.errors import shorten
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.function import Limits
from dpnotebook.sql.ownership.multiplied import together
from dpnotebook.sql.ownership.queries import From
from dpnotebook.sql.parse.statement_parser import Call, Clause
from dpnotebook.sql.select import BoundsFrom, Contribution, ContributionChoice, PrivateSelect
from dpnotebook.sql.statement import Relation

MAX_EDGES = 1_024
# Rows of a unit that count where nobody has said how many, of what is neither a count nor a sum: as many as GoogleSQL
# draws for variances and percentiles. With more of them noise grows, with fewer those of large units count less.
DRAWN_ROWS = 5
MOST_ROWS = 1 << 16  # of a unit that may count where nobody has said how many it has


class Bounding(NamedTuple):
    """How a unit is bounded, and what is said of that.

    Parameters
    ----------
    limits
        What bounds are chosen by.
    notes
        What a plan says about it.
    drawn
        What it warns of, where rows of a unit are drawn; else empty.
    rows_if_hidden
        How many rows of a unit count where noise hides how many should; 0 where that is not looked for.
    """

    limits: Limits
    notes: list[str]
    drawn: str = ""
    rows_if_hidden: int = 0


@dataclass(frozen=True)
class Contributions:
    """What a private select, and what is declared of the tables it reads, say of how a unit is bounded.

    Parameters
    ----------
    clause
        The private clause.
    private
        Whether there is a clause or a private function.
    wanted
        The kind of bound that is chosen; None where limits are what is written or declared.
    source
        What is read.
    relations
        What is public about the tables.
    keys
        How many keys there are.
    text
        The statement.
    """

    clause: Clause | None
    private: bool
    wanted: ContributionChoice | None
    source: From
    relations: Mapping[str, Relation]
    keys: int
    text: Text

    def bounding(self, calls: Sequence[Call], *, hides: bool = False) -> Bounding:
        """Return how a unit is bounded for some calls.

        Parameters
        ----------
        calls
            What is asked.
        hides
            Whether a threshold hides small groups.

        Raises
        ------
        SQLError
            If the clause limits rows or groups and "l2" is asked for, or nobody says how many rows a unit may have and
            an answer depends on that.
        """
        suited = self.wanted in ("planned", "alike")
        planned = suited and all(self.clipped(calls))
        if self._limits and self.wanted in ("l2", "rows"):
            at = None if self.clause is None else self.clause.token
            said = f"contribution='{self.wanted}' says how a unit is bounded; leave max_..._contributed out"
            raise self.text.error(said, at)
        if calls and all(map(_is_by_itself, calls)) and not (self.private or planned or self.wanted == "l2"):
            most = 1 if hides else self.max_rows or 1  # of what a threshold counts, else of nothing
            return Bounding(self._limited(Contribution("rows", most)), [])
        counted = self.wanted == "counted" or (suited and not planned and not hides)
        if counted and not self.private and not self.source.single:
            found = self._counted(calls)
            if found is not None:
                return found
        if self.wanted == "l2" or planned:
            note = f"all that one {self._one} adds, over all groups, is scaled down together (contribution='l2')"
            return Bounding(self._limited(Contribution("l2", self._joined_rows or 1)), [note])
        if self.clause is not None and self.clause.max_rows is not None:
            return Bounding(self._limited(Contribution("rows", self.clause.max_rows)), [])
        return self._groups() if self.private else self._rows(calls)

    def clipped(self, calls: Sequence[Call]) -> list[bool]:
        """Return of which calls all that a unit adds is clipped to norms: noise is Gaussian, nobody says otherwise."""
        if self.wanted not in ("planned", "alike") or self.private:
            return [False] * len(calls)
        several = not self.source.single and self.max_rows != 1
        clipped = [function_of(call.kind).weighted or (several and _can_be_clipped(call)) for call in calls]
        # What is bounded by itself stands beside either, and a threshold hides least of what goes by vectors.
        by_vectors = any(clipped) or (several and all(map(_is_by_itself, calls)))
        return [one or (by_vectors and _is_by_itself(call)) for one, call in zip(clipped, calls, strict=True)]

    @property
    def values_counted(self) -> int:
        """How many different values of a unit count, where these are counted; 0 where that is to be found."""
        if self.source.single or self.max_rows == 1:
            return 1
        written = None if self.clause is None else self.clause.max_rows or self.clause.max_groups
        if written or self.wanted == "rows":
            return written or self.max_rows or DRAWN_ROWS
        return 1 if self.clause is not None or self.wanted is None else 0

    @property
    def declared_rows(self) -> int | None:
        """How many rows a unit is declared to have at most in a table that is read; None where nothing is said."""
        said = [_rows_declared(table) for table in self._multiplying]
        return None if None in said else max(most for most in said if most is not None)

    @property
    def max_rows(self) -> int | None:
        """How many rows a unit has at most in what is read, as declared, and as public tables multiply them.

        None where nothing is said of a table, or it is not known how many rows meet one.
        """
        return together(self.declared_rows, self.source.times)

    @property
    def _joined_rows(self) -> int | None:
        """How many rows a unit has at most where rows of several protected tables meet; None where it is not known."""
        several = [
            item.source for item in self.source.joined if item.source.owner is not None and not item.source.single
        ]
        said = [_rows_declared(self.relations[name]) for source in several for name in source.tables]
        return together(*said, self.source.times) if several else self.max_rows

    @property
    def _multiplying(self) -> list[Relation]:
        """The tables of which a unit may have several rows here: not those of joined queries with one row a unit."""
        owned = [item.source for item in self.source.joined if item.source.owner is not None]
        several = [item for item in owned if not item.single] or owned
        return [self.relations[name] for name in dict.fromkeys(name for item in several for name in item.tables)]

    @property
    def _one(self) -> str:
        """What a unit is called."""
        assert self.source.owner is not None
        return self.source.owner.one

    @property
    def _limits(self) -> list[int]:
        """The limits that the clause says."""
        clause = self.clause
        return [] if clause is None else [one for one in (clause.max_groups, clause.max_rows) if one is not None]

    def _limited(self, contribution: Contribution) -> Limits:
        owner, single = self.source.owner, self.source.single
        assert owner is not None
        return Limits(contribution, self._joined_rows, single, owner.unit is None, not self.private, self.text)

    def _counted(self, calls: Sequence[Call]) -> Bounding | None:
        """Return that as many rows count as are found to suit what is asked; None where that is not worth finding."""
        # A unit counts once in each group: of few of its rows most could be in the same ones.
        once = all(function_of(one.kind).of == "units" for one in calls)
        if once and not self.keys:
            # One row of a unit says that it is there, but not that it has a row that fulfils a condition.
            conditions = any(isinstance(one.argument, exp.Case) for one in calls)
            return Bounding(self._limited(Contribution("groups" if conditions else "rows", 1)), [])
        most = self._joined_rows
        if most is not None and most <= DRAWN_ROWS:  # finding that few count less takes more than it gives
            return None
        contribution = Contribution("groups" if once else "rows", most or MOST_ROWS)
        declared = f" of up to {most:,}, as declared," if most else ""
        note = f"as many {contribution.kind} of each {self._one}{declared} count as are found to suit what is asked"
        hidden = DRAWN_ROWS if all(map(_is_scale_free, calls)) else self.max_rows or DRAWN_ROWS
        return Bounding(self._limited(contribution), [note], rows_if_hidden=hidden)

    def _groups(self) -> Bounding:
        """Return that so many groups of a unit count, as written, or one."""
        assert self.source.owner is not None
        most = 1 if self.clause is None or self.clause.max_groups is None else self.clause.max_groups
        notes = []
        if not self._limits and self.keys and not (self.source.single and self.source.owner.unit is None):
            notes.append(f"at most 1 group of each {self._one} counts: say max_groups_contributed=... for more")
        return Bounding(self._limited(Contribution("groups", most)), notes)

    def _rows(self, calls: Sequence[Call]) -> Bounding:
        """Return that so many rows of a unit count, as declared, or a few where answers do not depend on how many."""
        assert self.source.owner is not None
        one, single, max_rows = self._one, self.source.single, self.max_rows or self.declared_rows
        if self.wanted == "rows":
            max_rows = self.declared_rows
        scale_free = all(map(_is_scale_free, calls))
        unsaid = next((table for table in self._multiplying if _rows_declared(table) is None), None)
        drawn = ""
        if unsaid is not None and not single:
            if not scale_free:
                at = None if self.clause is None else self.clause.token
                raise self.text.error(_unbounded(calls, unsaid, self.wanted), at)
            drawn = (
                f"{DRAWN_ROWS} rows of each {one} are drawn, as nobody said how many one has, so that who has more "
                f"counts less: session.protect(..., {shorten(unsaid.name, 120)}, max_rows=...) draws more, with more "
                "noise"
            )
        most = 1 if single else max_rows or DRAWN_ROWS
        if most > DRAWN_ROWS and self.wanted != "rows" and scale_free:
            most = DRAWN_ROWS
            drawn = (
                f"{DRAWN_ROWS} of up to {max_rows:,} rows of each {one} are drawn, so that who has more counts less: "
                f"contribution='rows' draws {max_rows:,}, with more noise"
            )
        notes = []
        if not single and not drawn:
            rows = "1 row" if max_rows == 1 else f"{most:,} rows"
            why = ", as declared" if self.source.owner.unit is not None else ""
            if max_rows != self.declared_rows:
                why += ", and as public tables multiply them"
            elif len(self.source.joined) > 1:
                why += ", also where a join multiplies them"
            notes.append(f"at most {rows} of each {one} count{'s' if max_rows == 1 else ''}{why}")
        return Bounding(self._limited(Contribution("rows", most)), notes, drawn)


def _rows_declared(table: Relation) -> int | None:
    """Return how many rows of a unit a table is declared to have at most; None where nothing is said."""
    return 1 if table.unit is None else table.max_rows


def left_out(source: From, relations: Mapping[str, Relation]) -> list[str]:
    """Return which rows have no owner."""
    owned = [table for name in source.tables if (table := relations[name]).unit is not None]
    return [f"rows of {table.name} without a {table.unit} belong to nobody and are left out" for table in owned]


def also_counted(rows: str, tables: Sequence[Relation]) -> str:
    """Return which rows count here that no answer counts which is planned from a declared domain; empty where none.

    Those whose places in columns that a statement does not speak of are not declared: SQL counts them, a vector of
    declared cells cannot.

    Parameters
    ----------
    rows
        The SQL of the rows that count, which names the columns that a statement speaks of.
    tables
        The protected tables that they are from.
    """
    said, spoken_of = [], named([rows])
    for table in tables:
        if table.domain is None or _rows_declared(table) is None:  # nothing is planned from it
            continue
        others = {name: one for name, one in table.domain.items() if name.casefold() not in spoken_of}
        if others and (missing := missing_places(Domain(others))):
            of = f" of {table.name}" if len(tables) > 1 else ""
            said.append(f"{missing}{of}")
    if not said:
        return ""
    return f"{' and '.join(said)} count here as in SQL; answers planned from declared columns leave them out"


def draws_few(select: PrivateSelect) -> bool:
    """Return whether a few rows of each unit are drawn although nobody has written how many."""
    found = select.written or select.rows_if_hidden
    return not found and select.contribution == Contribution("rows", DRAWN_ROWS)


def needs_few(select: PrivateSelect) -> bool:
    """Return whether it is to be found how many rows of each unit count, of what a few of them would do for."""
    return bool(select.rows_if_hidden) and not any(function_of(one.kind).adds for one in select.aggregates)


def _unbounded(calls: Sequence[Call], table: Relation, wanted: ContributionChoice | None) -> str:
    """Return what to tell who asks what needs a bound on the rows of a unit of a table, which nobody has given."""
    one = table.population or table.unit
    asked = next((call for call in calls if not function_of(call.kind).clipped or isinstance(call.bounds, tuple)), None)
    what = "this" if asked is None or wanted not in ("planned", "alike") else asked.words
    return (
        f"{what} needs to know how many rows of one {one} count in {table.name}: "
        f"session.protect(..., {shorten(table.name, 120)}, max_rows=8) says so, or OPTIONS(max_rows_contributed = 8) "
        "behind SELECT WITH DIFFERENTIAL_PRIVACY. Where noise is Gaussian, COUNT, SUM, AVG, VAR and STDDEV find it "
        "by themselves, and any statement does whose groups are declared; averages and "
        "quantiles without a count or sum need none"
    )


def _is_scale_free(call: Call) -> bool:
    """Return whether an answer stays about the same where only some rows of each unit count."""
    return not function_of(call.kind).adds


def _is_by_itself(call: Call) -> bool:
    """Return whether it bounds what a unit adds by itself."""
    return function_of(call.kind).by_itself


def _can_be_clipped(call: Call) -> bool:
    """Return whether all of a unit can be clipped to norms that are found, and nobody has written other bounds."""
    return function_of(call.kind).clipped and not isinstance(call.bounds, tuple)


def bounds_of(
    call: Call, values: Bounds | None, lost: str | None, limits: Limits, node: exp.Expr
) -> tuple[Bounds | None, BoundsFrom]:
    """Return the bounds of an aggregate and where they are from; None: to be found privately.

    Parameters
    ----------
    call
        The aggregate.
    values
        Between which values it is about, as far as what is declared and written says so.
    lost
        The declared column whose name was given to another value below.
    limits
        How a unit is bounded.
    node
        The call in the tree, for errors.

    Raises
    ------
    SQLError
        If the bounds are of another kind than the contribution's, or were declared of a column that was redefined.
    """
    function, text = function_of(call.kind), limits.text
    if limits.contribution.kind == "l2" and not function.clipped and not function.by_itself:
        raise text.error(
            "contribution='l2' works for counts, sums, averages, variances and correlations; leave it out, or ask for "
            "those",
            node,
        )
    if function.of == "units":
        return None, "auto" if limits.contribution.kind == "l2" else "declared"
    if function.by_itself and not isinstance(call.bounds, tuple):
        standing = function.declared(None, limits)
        return standing, "auto" if standing is None else "declared"
    if isinstance(call.bounds, tuple):
        _check_written(call, limits, node)
        if limits.contribution.kind == "l2" and function.centres:
            return None, "auto"  # they are of its values; the norm is found
        return call.bounds, "written"
    if not function.needs_bounds(limits.contribution):
        return function.declared(None, limits), "declared"
    if call.bounds == "auto":
        return None, "auto"
    if function.of == "numbers" and values is None:
        if lost is not None:
            raise text.error(
                f"{lost} was given another value below, so the bounds that are declared of {lost} no longer hold: give "
                "the value another name, or write bounds, as in ANON_SUM(x, 0, 100)",
                node,
            )
        return None, "auto"
    found = limits.contribution.kind == "l2" and (function.centres or not limits.single)
    bounds = None if found else function.declared(values, limits)
    return bounds, "auto" if bounds is None else "declared"


def values_of(call: Call, values: Bounds | None, limits: Limits) -> Bounds | None:
    """Return between which values rows lie, as written or declared, where a norm is to be found; None if unknown."""
    if limits.contribution.kind != "l2":
        return None
    if isinstance(call.bounds, tuple):
        return call.bounds if function_of(call.kind).centres else None
    return None if call.bounds == "auto" else values


def _check_written(call: Call, limits: Limits, node: exp.Expr) -> None:
    function, text, rows = function_of(call.kind), limits.text, limits.contribution.kind == "rows"
    if function.by_itself or not function.needs_bounds(limits.contribution):
        raise text.error("with max_rows_contributed each row counts as 1: leave the bounds of COUNT out", node)
    if rows and call.per == "group":
        raise text.error(
            "with max_rows_contributed bounds are of a row: write contribution_bounds_per_row => (lower, upper)", node
        )
    if not rows and call.per == "row" and not function.rowwise:
        raise text.error(
            "bounds are of what a unit adds to a group: write contribution_bounds_per_group => (lower, upper)", node
        )


def edges_of(attribute: Attribute | None) -> tuple[float, ...] | None:
    """Return the edges of the levels of a declared column, for quantiles; None where there are too many."""
    if isinstance(attribute, Bins):
        return tuple(float(edge) for edge in attribute.edges)
    if isinstance(attribute, Range) and attribute.regular <= MAX_EDGES:
        return tuple(float(edge) for edge in range(int(attribute.low), int(attribute.high) + 2))
    return None
