"""UNION, INTERSECT and EXCEPT: rows keep their unit if it has the same place in every branch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.expressions import WORDS, alike, joint
from dpnotebook.privacy.unit import EXAMPLE
from dpnotebook.sql.ownership.catalog import bounded
from dpnotebook.sql.ownership.populations import different_kinds, refusal
from dpnotebook.sql.ownership.queries import Environment, Output, Rows
from dpnotebook.sql.ownership.scope import Scope
from dpnotebook.sql.statement import Relation

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol

PARTS = frozenset({"this", "expression", "distinct", "with", "order", "limit", "offset"})


def set_operation(
    query: exp.SetOperation, environment: Environment, outer: Scope | None, reader: ReaderProtocol
) -> Rows:
    """Return a set operation over private rows or over public tables, understood.

    Raises
    ------
    SQLError
        If its branches do not have the unit in the same place, or are not columns of the same kinds.
    """
    word = query.key.upper()
    text = reader.text
    reader.check_parts(query, PARTS)
    left = reader.rows(query.this, environment, outer)
    right = reader.rows(query.expression, environment, outer)
    if len(left.outputs) != len(right.outputs):
        raise text.error(
            f"the branches of this {word} have {len(left.outputs)} and {len(right.outputs)} columns",
            _first(query.expression),
        )
    _check_owners(query, left, right, word, reader)
    if left.owner is not None and (query.args.get("limit") or query.args.get("offset")):
        raise text.error(
            "LIMIT below an aggregation is not supported: which rows are kept would depend on rows of other units",
            query.args.get("limit"),
        )
    outputs = tuple(
        replace(_output(first, second, number, query, reader), absent=_absent((left, first), (right, second)))
        for number, (first, second) in enumerate(zip(left.outputs, right.outputs, strict=True), 1)
    )
    everything = not isinstance(query, exp.Union) or query.args.get("distinct") is not False
    whole = everything or left.whole or right.whole
    every = range(len(outputs))
    doubles = {f"c{number}" for number, output in enumerate(outputs) if output.kind == "number" and not output.unit}

    def build(wanted: Iterable[int]) -> exp.Expr:
        columns = list(every if whole else wanted)
        parts = [_of_one_type(branch.build(columns), doubles) for branch in (left, right)]
        parts = [exp.Subquery(this=part) if isinstance(part, exp.SetOperation) else part for part in parts]
        return type(query)(this=parts[0], expression=parts[1], distinct=query.args.get("distinct"))

    tables = tuple(dict.fromkeys([*left.tables, *right.tables]))
    public = tuple(dict.fromkeys([*left.public, *right.public]))
    padding = left.padding or right.padding
    distinct = query.args.get("distinct") is not False
    single = left.owner is not None and distinct and all(output.unit for output in outputs)
    times = 1 if single else _times(query, left, right, reader.relations)
    return Rows(outputs, left.owner, build, single, tables, public, whole=whole, padding=padding, times=times)


def _times(query: exp.SetOperation, left: Rows, right: Rows, relations: Mapping[str, Relation]) -> int | None:
    """Return how many rows both branches make of one row, at most; None if not known.

    A UNION has the rows of either branch. Where several rows are declared, these are taken to be in both together.
    """
    if not isinstance(query, exp.Union):
        return left.times
    if left.times is None or right.times is None:
        return None
    tables = [relations[name] for name in (*left.tables, *right.tables)]
    once = all(table.unit is None or table.max_rows == 1 for table in tables)
    return left.times + right.times if once else max(left.times, right.times)


def _check_owners(query: exp.SetOperation, left: Rows, right: Rows, word: str, reader: ReaderProtocol) -> None:
    text = reader.text
    if (left.owner is None) != (right.owner is None):
        place, branch = ("first", query.this) if left.owner is None else ("second", query.expression)
        raise text.error(
            f"the {place} branch of this {word} reads no private table, so its rows have no unit; take it out",
            _first(branch),
        )
    if left.owner is None or right.owner is None:
        return
    same = left.owner.populations == right.owner.populations
    if not same and (left.owner.unit is None or right.owner.unit is None):
        raise text.error(
            f"the rows of {left.owner.table} and {right.owner.table} are units of different tables; protect both with "
            f"the same {EXAMPLE} to put them together",
            _first(query.expression),
        )
    if left.owner.kind != right.owner.kind:
        raise text.error(different_kinds(left.owner, right.owner), _first(query.expression))
    if not same:
        message = refusal(word, [*left.tables, *right.tables], reader.relations, False)
        raise text.error(message, _first(query.expression))
    places = [{number for number, output in enumerate(side.outputs, 1) if output.unit} for side in (left, right)]
    if places[0] & places[1] or not any(places):
        return
    where = [", ".join(map(str, sorted(found))) for found in places]
    if not all(places):
        number, branch, other = (1, query.this, where[1]) if not places[0] else (2, query.expression, where[0])
        unit = left.owner.unit if number == 1 else right.owner.unit
        raise text.error(
            f"branch {number} of this {word} does not select the unit's column in position {other}: write {unit} there",
            _first(branch),
        )
    raise text.error(
        f"the unit's column is in position {where[0]} of the first branch of this {word} and in position {where[1]} of "
        "the second; select it in the same position",
        _first(query.expression),
    )


def _output(first: Output, second: Output, number: int, query: exp.SetOperation, reader: ReaderProtocol) -> Output:
    kinds = [output.kind for output in (first, second) if not isinstance(output.node, exp.Null)]
    known = first.origin == second.origin is not None or not set(kinds) & {None, "other"}
    if len(kinds) == 2 and not (known and alike(*kinds)):
        words = " and ".join(WORDS.get(kind or "other", "values of another kind") for kind in kinds)
        raise reader.text.error(
            f"column {number} of the branches holds {words}; CAST one of them", _first(query.expression)
        )
    return replace(
        first,
        kind=joint(kinds),
        unit=first.unit and second.unit,
        origin=first.origin if first.origin == second.origin else None,
        lost=first.lost or second.lost or _lost(first, second, reader),
        rounded=first.rounded or second.rounded,
        growth=max(first.growth, second.growth),
        missing=first.missing or second.missing,
        narrowed=first.narrowed or second.narrowed or first.within != second.within,
        untyped=first.untyped or second.untyped,
        form=first.form or second.form,
        ends=_around(first.ends, second.ends),
        unit_or_null=all(output.unit or output.unit_or_null for output in (first, second)),
    )


def _around(
    first: tuple[Fraction, Fraction] | None, second: tuple[Fraction, Fraction] | None
) -> tuple[Fraction, Fraction] | None:
    """Return between which numbers both are; None where one has no ends."""
    return None if first is None or second is None else (min(first[0], second[0]), max(first[1], second[1]))


def _absent(*branches: tuple[Rows, Output]) -> bool:
    """Return whether a column is NULL in the padded rows of all branches that have some."""
    return all(output.absent for rows, output in branches if rows.padding is not None)


def _of_one_type(query: exp.Expr, doubles: set[str]) -> exp.Expr:
    """Return a branch whose numbers are DOUBLE: engines stop at one that the other branch's type cannot hold."""
    if isinstance(query, exp.Select):
        for item in query.expressions:
            if isinstance(item, exp.Alias) and item.alias in doubles:
                item.set("this", exp.TryCast(this=item.this, to=exp.DataType.build("DOUBLE")))
    return query


def _lost(first: Output, second: Output, reader: ReaderProtocol) -> str | None:
    """Return the column whose declared bounds do not hold of the values of the other branch."""
    if first.origin == second.origin:
        return None
    found = [bounded(output.origin, reader.relations) for output in (first, second) if output.origin is not None]
    return next((name for name in found if name is not None), None)


def _first(query: exp.Expr) -> exp.Expr:
    while not isinstance(query, exp.Select) and isinstance(query.this, exp.Expression):
        query = query.this
    return query.expressions[0] if isinstance(query, exp.Select) and query.expressions else query
