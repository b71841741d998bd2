"""How much of one unit counts: what is written, else what is declared, else what is found privately (AUTO)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.domain import Attribute, Bins, Range
from dpnotebook.sql.ownership.queries import From
from dpnotebook.sql.parse.statement_parser import Call, Clause
from dpnotebook.sql.statement import Contribution, Relation

Bounds = tuple[Fraction, Fraction]
From_ = Literal["written", "declared", "auto"]

MAX_EDGES = 1_024


@dataclass(frozen=True)
class Limits:
    """What bounds are chosen by.

    Parameters
    ----------
    contribution
        How what a unit adds is bounded.
    max_rows
        Most rows of a unit that are meant to count.
    single
        Whether no unit has more than one row.
    rows
        Whether each row of the table is a unit of its own.
    plain
        Whether the statement has no private clause and no private function.
    text
        The statement.
    """

    contribution: Contribution
    max_rows: int
    single: bool
    rows: bool
    plain: bool
    text: Text


def contribution_of(
    clause: Clause | None,
    private: bool,
    wanted: str | None,
    source: From,
    relations: Mapping[str, Relation],
    keys: int,
    text: Text,
) -> tuple[Limits, list[str]]:
    """Return how a unit is bounded, and what the plan says about it.

    Parameters
    ----------
    clause
        The private clause.
    private
        Whether there is a clause or a private function.
    wanted
        "l2", or None.
    source
        What is read.
    relations
        What is public about the tables.
    keys
        How many keys there are.
    text
        The statement.

    Raises
    ------
    SQLError
        If the clause limits rows or groups and "l2" is asked for.
    """
    assert source.owner is not None
    tables = [relations[name] for name in source.tables]
    max_rows = max(1 if table.unit is None else table.max_rows for table in tables)
    unit = source.owner.one
    notes: list[str] = []
    limits = [] if clause is None else [limit for limit in (clause.max_groups, clause.max_rows) if limit is not None]
    if wanted == "l2":
        if limits:
            at = None if clause is None else clause.token
            raise text.error("contribution='l2' bounds all that a unit adds; leave max_..._contributed out", at)
        kind = Contribution("l2")
        notes.append(f"all that one {unit} adds, over all groups, is scaled down together (contribution='l2')")
    elif clause is not None and clause.max_rows is not None:
        kind = Contribution("rows", clause.max_rows)
    elif private:
        most = 1 if clause is None or clause.max_groups is None else clause.max_groups
        kind = Contribution("groups", most)
        if not limits and keys and not (source.single and source.owner.unit is None):
            notes.append(f"at most 1 group of each {unit} counts: say max_groups_contributed=... for more")
    else:
        kind = Contribution("rows", 1 if source.single else max_rows)
        if not source.single:
            rows = "1 row" if max_rows == 1 else f"{max_rows:,} rows"
            why = ", as declared" if source.owner.unit is not None else ""
            why += ", also where a join multiplies them" if len(source.joined) > 1 else ""
            notes.append(f"at most {rows} of each {unit} count{'s' if max_rows == 1 else ''}{why}")
    for table in tables:
        if table.unit is not None:
            notes.append(f"rows of {table.name} without a {table.unit} belong to nobody and are left out")
    return Limits(kind, max_rows, source.single, source.owner.unit is None, not private, text), notes


def bounds_of(
    call: Call, attribute: Attribute | None, lost: str | None, limits: Limits, node: exp.Expr
) -> tuple[Bounds | None, From_]:
    """Return the bounds of an aggregate and where they are from; None: to be found privately.

    Parameters
    ----------
    call
        The aggregate.
    attribute
        What is declared of the column that it is about, if it is a declared column as it is in its table.
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
    kind, text = limits.contribution.kind, limits.text
    if kind == "l2" and call.kind not in ("count", "sum", "units"):
        raise text.error("contribution='l2' works for COUNT and SUM; leave it out, or ask for those", node)
    if call.kind == "units":
        return None, "declared"
    if isinstance(call.bounds, tuple):
        _check_written(call, kind, text, node)
        return call.bounds, "written"
    if call.kind == "count" and kind == "rows":
        return (Fraction(0), Fraction(1)), "declared"
    if call.bounds == "auto":
        return None, "auto"
    if call.kind == "count":
        if limits.single or limits.rows:
            return (Fraction(0), Fraction(1)), "declared"
        return ((Fraction(0), Fraction(limits.max_rows)), "declared") if limits.plain else (None, "auto")
    if not isinstance(attribute, Range | Bins):
        if lost is not None:
            raise text.error(
                f"{lost} was given another value below, so the bounds that are declared of {lost} no longer hold: give "
                "the value another name, or write bounds, as in ANON_SUM(x, 0, 100)",
                node,
            )
        return None, "auto"
    low, high = (Fraction(bound) for bound in attribute.bounds)
    if call.kind == "sum" and kind == "groups" and not limits.single:
        return (min(Fraction(0), low) * limits.max_rows, max(Fraction(0), high) * limits.max_rows), "declared"
    if kind == "l2":
        times = 1 if limits.single else limits.max_rows
        return (Fraction(0), max(abs(low), abs(high)) * times), "declared"
    return (low, high), "declared"


def _check_written(call: Call, kind: str, text: Text, node: exp.Expr) -> None:
    if kind == "rows" and call.kind == "count":
        raise text.error("with max_rows_contributed each row counts as 1: leave the bounds of COUNT out", node)
    if kind == "rows" and call.per == "group":
        raise text.error(
            "with max_rows_contributed bounds are of a row: write contribution_bounds_per_row => (lower, upper)", node
        )
    if kind != "rows" and call.per == "row" and call.kind in ("sum", "average"):
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


def told(notes: Sequence[str]) -> tuple[str, ...]:
    """Return notes, each once."""
    return tuple(dict.fromkeys(notes))
