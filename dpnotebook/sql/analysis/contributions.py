"""How much of one unit counts: what is written, else what is declared, else what is found privately (AUTO)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.domain import Attribute, Bins, Range
from dpnotebook.errors import shorten
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.function import Limits
from dpnotebook.sql.ownership.queries import From
from dpnotebook.sql.parse.statement_parser import Call, Clause
from dpnotebook.sql.select import Contribution, PrivateSelect
from dpnotebook.sql.statement import Relation

Bounds = tuple[Fraction, ...]
From_ = Literal["written", "declared", "follows", "auto"]

MAX_EDGES = 1_024
# Rows of a unit that count where nobody has said how many, of what is neither a count nor a sum: as many as GoogleSQL
# draws for variances and percentiles. With more of them noise grows, with fewer those of large units count less.
DRAWN_ROWS = 5
MOST_ROWS = 1 << 16  # of a unit that may count where nobody has said how many it has


def contribution_of(
    clause: Clause | None,
    private: bool,
    wanted: str | None,
    source: From,
    relations: Mapping[str, Relation],
    keys: int,
    text: Text,
    calls: Sequence[Call] = (),
    hides: bool = False,
) -> tuple[Limits, list[str], str, int]:
    """Return how a unit is bounded, what the plan says about it, a warning where rows are drawn, and `rows_if_hidden`.

    Parameters
    ----------
    clause
        The private clause.
    private
        Whether there is a clause or a private function.
    wanted
        "l2", "rows", None; "counted": as many rows as are found to suit what is asked; or "planned", and "alike" where
        all are to be bounded in one way: "l2" where that suits everything, and else "counted", where no threshold hides
        groups, which goes by the rows declared.
    source
        What is read.
    relations
        What is public about the tables.
    keys
        How many keys there are.
    text
        The statement.
    calls
        What is asked.
    hides
        Whether a threshold hides small groups.

    Raises
    ------
    SQLError
        If the clause limits rows or groups and "l2" is asked for.
    """
    assert source.owner is not None
    multiplying = [relations[name] for name in _multiplying(source)]
    said, max_rows = _rows_said(multiplying)
    unit = source.owner.one
    notes: list[str] = []
    drawn = ""
    limits = [] if clause is None else [limit for limit in (clause.max_groups, clause.max_rows) if limit is not None]
    suited = wanted in ("planned", "alike")
    planned = suited and all(clipped_calls(calls, private, wanted, source, relations))
    if limits and wanted in ("l2", "rows"):
        at = None if clause is None else clause.token
        raise text.error(f"contribution='{wanted}' says how a unit is bounded; leave max_..._contributed out", at)
    if calls and all(map(_is_by_itself, calls)) and not (private or planned or wanted == "l2"):
        kind = Contribution("rows", 1 if hides else max_rows or 1)  # of what a threshold counts, else of nothing
        return _limited(kind, source, max_rows, private, text), notes, "", 0
    counted = wanted == "counted" or (suited and not planned and not hides)
    counted = counted and not private and not source.single
    if counted and not keys and all(function_of(one.kind).of == "units" for one in calls):
        # One row of a unit says that it is there, but not that it has a row that fulfils a condition.
        kind = Contribution("groups" if any(isinstance(one.argument, exp.Case) for one in calls) else "rows", 1)
        return _limited(kind, source, max_rows, private, text), notes, "", 0
    if counted and (max_rows is None or max_rows > DRAWN_ROWS):  # finding that few count less takes more than it gives
        # A unit counts once in each group: of few of its rows most could be in the same ones.
        once = all(function_of(one.kind).of == "units" for one in calls)
        kind = Contribution("groups" if once else "rows", max_rows or MOST_ROWS)
        declared = f" of up to {max_rows:,}, as declared," if max_rows else ""
        notes.append(f"as many {kind.kind} of each {unit}{declared} count as are found to suit what is asked")
        hidden = DRAWN_ROWS if all(map(_is_scale_free, calls)) else max_rows or DRAWN_ROWS
        return _limited(kind, source, max_rows, private, text), notes, "", hidden
    if wanted == "l2" or planned:
        kind = Contribution("l2", max_rows or 1)
        notes.append(f"all that one {unit} adds, over all groups, is scaled down together (contribution='l2')")
    elif clause is not None and clause.max_rows is not None:
        kind = Contribution("rows", clause.max_rows)
    elif private:
        most = 1 if clause is None or clause.max_groups is None else clause.max_groups
        kind = Contribution("groups", most)
        if not limits and keys and not (source.single and source.owner.unit is None):
            notes.append(f"at most 1 group of each {unit} counts: say max_groups_contributed=... for more")
    else:
        unsaid = next((table for table, most in zip(multiplying, said, strict=True) if most is None), None)
        if unsaid is not None and not source.single:
            if not all(_is_scale_free(call) for call in calls):
                raise text.error(_unbounded(calls, unsaid, wanted), None if clause is None else clause.token)
            drawn = (
                f"{DRAWN_ROWS} rows of each {unit} are drawn, as nobody said how many one has, so that who has more "
                f"counts less: session.protect(..., {shorten(unsaid.name, 120)}, max_rows=...) draws more, with more "
                "noise"
            )
        most = 1 if source.single else max_rows or DRAWN_ROWS
        if most > DRAWN_ROWS and wanted != "rows" and all(map(_is_scale_free, calls)):
            most = DRAWN_ROWS
            drawn = (
                f"{DRAWN_ROWS} of up to {max_rows:,} rows of each {unit} are drawn, so that who has more counts less: "
                f"contribution='rows' draws {max_rows:,}, with more noise"
            )
        kind = Contribution("rows", most)
        if not source.single and not drawn:
            rows = "1 row" if max_rows == 1 else f"{kind.most:,} rows"
            why = ", as declared" if source.owner.unit is not None else ""
            why += ", also where a join multiplies them" if len(source.joined) > 1 else ""
            notes.append(f"at most {rows} of each {unit} count{'s' if max_rows == 1 else ''}{why}")
    return _limited(kind, source, max_rows, private, text), notes, drawn, 0


def clipped_calls(
    calls: Sequence[Call], private: bool, wanted: str | None, source: From, relations: Mapping[str, Relation]
) -> list[bool]:
    """Return of which calls all that a unit adds is clipped to norms, as noise is Gaussian and nobody says otherwise.

    Parameters
    ----------
    calls, private, wanted, source, relations
        As for `contribution_of`.
    """
    if wanted not in ("planned", "alike") or private:
        return [False] * len(calls)
    several = not source.single and _most_declared(source, relations) != 1
    clipped = [function_of(call.kind).weighted or (several and _can_be_clipped(call)) for call in calls]
    # What is bounded by itself stands beside either, and a threshold hides least of what goes by vectors.
    by_vectors = any(clipped) or (several and all(map(_is_by_itself, calls)))
    return [one or (by_vectors and _is_by_itself(call)) for one, call in zip(clipped, calls, strict=True)]


def values_counted(clause: Clause | None, wanted: str | None, source: From, relations: Mapping[str, Relation]) -> int:
    """Return how many different values of a unit count, where these are counted.

    Parameters
    ----------
    clause, wanted, source, relations
        As for `contribution_of`. Where nothing is written, and a unit may have several, it is 0: that is found.
    """
    most = _most_declared(source, relations)
    if source.single or most == 1:
        return 1
    written = None if clause is None else clause.max_rows or clause.max_groups
    if written or wanted == "rows":
        return written or most or DRAWN_ROWS
    return 1 if clause is not None or wanted is None else 0


def _most_declared(source: From, relations: Mapping[str, Relation]) -> int | None:
    """Return how many rows a unit is declared to have at most in what is read; None where nothing is said."""
    return _rows_said([relations[name] for name in _multiplying(source)])[1]


def _rows_said(tables: Sequence[Relation]) -> tuple[list[int | None], int | None]:
    """Return how many rows of a unit each table is declared to have, and the most; None where nothing is said."""
    said = [1 if table.unit is None else table.max_rows for table in tables]
    return said, None if None in said else max(most for most in said if most is not None)


def _limited(kind: Contribution, source: From, max_rows: int | None, private: bool, text: Text) -> Limits:
    assert source.owner is not None
    return Limits(kind, max_rows, source.single, source.owner.unit is None, not private, text)


def left_out(source: From, relations: Mapping[str, Relation]) -> list[str]:
    """Return which rows have no owner."""
    owned = [table for name in source.tables if (table := relations[name]).unit is not None]
    return [f"rows of {table.name} without a {table.unit} belong to nobody and are left out" for table in owned]


def draws_few(select: PrivateSelect) -> bool:
    """Return whether a few rows of each unit are drawn although nobody has written how many."""
    found = select.written or select.rows_if_hidden
    return not found and select.contribution == Contribution("rows", DRAWN_ROWS)


def needs_few(select: PrivateSelect) -> bool:
    """Return whether it is to be found how many rows of each unit count, of what a few of them would do for."""
    return bool(select.rows_if_hidden) and not any(function_of(one.kind).adds for one in select.aggregates)


def _unbounded(calls: Sequence[Call], table: Relation, wanted: str | None) -> str:
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


def _multiplying(source: From) -> tuple[str, ...]:
    """Return the tables of which a unit may have several rows here: not those of joined queries with one row a unit."""
    owned = [item.source for item in source.joined if item.source.owner is not None]
    several = [item for item in owned if not item.single] or owned
    return tuple(dict.fromkeys(name for item in several for name in item.tables))


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
) -> tuple[Bounds | None, From_]:
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
