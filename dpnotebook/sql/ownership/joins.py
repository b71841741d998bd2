"""Joins: rows of two units are never joined, and no row is left without its unit.

The rules are those of Table 4.3 of Wilson et al., for joins: private tables equate their units, and outer joins keep
the rows of the private side only, or of one population (`dpnotebook.sql.ownership.populations`). Equal units are always
written into the condition by us, whatever the statement says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dpnotebook.dialect.expressions import check_comparisons, joint, with_kind
from dpnotebook.dialect.text import Text
from dpnotebook.errors import SQLError, shorten
from dpnotebook.sql.ownership.expressions import bare, column_of, conjuncts, resolve, total
from dpnotebook.sql.ownership.multiplied import multiplied
from dpnotebook.sql.ownership.padded_rows import may_hold, padded_by
from dpnotebook.sql.ownership.populations import different_kinds, joined, refusal, stays
from dpnotebook.sql.ownership.protocol import ReaderProtocol
from dpnotebook.sql.ownership.queries import Environment, From, FromItem, Joined, Padding
from dpnotebook.sql.ownership.scope import Column, Owner, Scope

SIDES = ("LEFT", "RIGHT", "FULL")
WRITTEN = "written"  # notes what a join was read from, where that was a subquery


@dataclass
class _Condition:
    """The parts of a join's condition: columns that it equates, and the rest."""

    equal: list[tuple[Column, Column]]
    rest: list[exp.Expr]
    merged: list[tuple[Column, Column]]


def join(left: From, right: FromItem, node: exp.Join, environment: Environment, reader: ReaderProtocol) -> From:
    """Return what FROM brings with one more source.

    Parameters
    ----------
    left
        What has been read before.
    right
        The source that is joined.
    node
        The join as it was read.
    environment, reader
        What names mean, and who reads.

    Raises
    ------
    SQLError
        If a row could come from two units, or from none.
    """
    how = _how(node, reader.text)
    scope = Scope([*left.scope.columns, *right.columns], None, left.scope.outer, left.scope.dropped)
    condition = _condition(left, right, node, scope, environment, reader)
    groups = how in ("LEFT", "RIGHT") and reader.public_groups(left, right, how)
    pads = None if groups else _pads(left, right, how)
    both = left.owner is not None and right.owner is not None
    if not groups and pads is None:
        _check_sides(left, right, how, node, reader.text)
    if both:
        _check_units(left, right, how, condition, node, reader)
    parts = list(condition.rest)
    if both:
        parts.insert(0, exp.EQ(this=_copy(left.scope.unit), expression=_copy(right.unit)))
    if how == "CROSS" and parts:
        how = "INNER"
    if how == "INNER" and not parts:
        how = "CROSS"
    on = None if how == "CROSS" else exp.and_(*parts, copy=False) if parts else exp.true()
    unit = _unit(left, right, how)
    inner = bool(groups) or pads is not None  # without the rows of the public side that no other meets
    meets = not both and _meets_padded(condition, node, scope, reader.text)
    before, after, padding = padded_by(left, right, how, pads, meets)
    columns = _columns(before, after, (left.owner, right.owner), how, condition, inner)
    emitted = "INNER" if inner else how
    return From(
        Scope(columns, unit, left.scope.outer, left.scope.dropped),
        [*left.joined, Joined(emitted, right, on)],
        _owner(left, right),
        both and left.single and right.single and how != "FULL",
        tuple(dict.fromkeys([*left.tables, *right.tables])),
        tuple(dict.fromkeys([*left.public, *right.public])),
        groups or left.groups,
        padding,
        multiplied(left, right, condition.equal, reader.relations),
    )


def _how(node: exp.Join, text: Text) -> str:
    """Return CROSS, INNER, LEFT, RIGHT or FULL."""
    side, kind = node.side.upper(), node.kind.upper()
    if node.method.upper() == "NATURAL":
        raise text.error("NATURAL JOIN is not supported: name the columns, as in JOIN b USING (id)", node.this)
    known = {"this", "side", "kind", "on", "using"}
    extra = [part for part, value in node.args.items() if part not in known and value]
    if extra or side not in ("", *SIDES) or kind not in ("", "INNER", "OUTER", "CROSS"):
        words = " ".join(word for word in (node.method, side, kind, "JOIN") if word)
        raise text.error(f"{words} is not supported; there are JOIN, LEFT JOIN, RIGHT JOIN and FULL JOIN", node.this)
    conditions = node.args.get("on") is not None or bool(node.args.get("using"))
    if not conditions and (side or kind == "OUTER"):
        raise text.error(f"{side} JOIN needs a condition: ON a.id = b.id, or USING (id)", node.this)
    if conditions and kind == "CROSS":
        raise text.error("CROSS JOIN has no condition; write JOIN", node.this)
    return side or ("INNER" if conditions else "CROSS")


def _condition(
    left: From, right: FromItem, node: exp.Join, scope: Scope, environment: Environment, reader: ReaderProtocol
) -> _Condition:
    found = _Condition([], [], [])
    for name in node.args.get("using") or []:
        written = exp.column(name.copy()) if isinstance(name, exp.Identifier) else name
        pair = tuple(
            _using(written, side, called, reader.text)
            for side, called in ((left.scope, "before"), (Scope(list(right.columns)), "after"))
        )
        found.merged.append((pair[0], pair[1]))
        _add_equality(found, pair[0], pair[1], name, left, right, reader)
    on = node.args.get("on")
    for written in conjuncts(on) if on is not None else []:
        equated = bare(written)
        if isinstance(equated, exp.EQ):
            first, second = (column_of(side, scope, reader.text) for side in (equated.this, equated.expression))
            if first is not None and second is not None:
                if _beside(second, right) or not _beside(first, right):
                    _add_equality(found, first, second, written, left, right, reader)
                else:
                    _add_equality(found, second, first, written, left, right, reader)
                continue
        found.rest.append(total(resolve(written, scope, environment, reader), True))
    return found


def _add_equality(
    found: _Condition,
    first: Column,
    second: Column,
    written: exp.Expr,
    left: From,
    right: FromItem,
    reader: ReaderProtocol,
) -> None:
    """Add an equality of columns; that of the units of both sides is written by us."""
    reader.named = reader.named or first.unit or second.unit
    if not _beside(first, right) and _beside(second, right):
        found.equal.append((first, second))
        if first.unit and second.unit and left.owner is not None and right.owner is not None:
            return
    nodes = [with_kind(column.node.copy(), column.kind) for column in (first, second)]
    for node, column in zip(nodes, (first, second), strict=True):
        node.meta["untyped"] = column.untyped
    equality = exp.EQ(this=nodes[0], expression=nodes[1])
    found.rest.append(total(check_comparisons(equality, written, reader.text)))


def _pads(left: From, right: FromItem, how: str) -> Padding | None:
    """Return what an outer join pads with NULL that keeps rows of a public table; None of other joins."""
    if how == "LEFT" and left.owner is None and right.owner is not None:
        return Padding(_called(left, False), right.called, right.owner.one)
    if how == "RIGHT" and left.owner is not None and right.owner is None and not right.lateral:
        return Padding(right.called, _called(left, True), left.owner.one)
    return None


def _called(source: From, private: bool) -> str:
    """Return what the private or the public sources of FROM are called."""
    sources = [item.source for item in source.joined]
    return " and ".join(dict.fromkeys(one.called for one in sources if (one.owner is not None) == private))


def _check_sides(left: From, right: FromItem, how: str, node: exp.Join, text: Text) -> None:
    """Refuse joins that keep all rows of a private and of a public table, and arrays that are of no row."""
    if left.owner is None and right.owner is None:
        return
    if right.lateral and how in ("RIGHT", "FULL"):
        raise text.error("an array of a row is joined by CROSS JOIN or LEFT JOIN", node.this)
    private = [side for side in (left.owner, right.owner) if side is not None]
    if len(private) == 2:
        return
    if how == "FULL":
        own, other = ("LEFT", "RIGHT") if left.owner is not None else ("RIGHT", "LEFT")
        raise text.error(
            "FULL JOIN keeps all rows of both sides, and those of the public table belong to no unit; write "
            f"{own} JOIN for all rows of {private[0].table}, or {other} JOIN for all of the public table",
            node.this,
        )


def _meets_padded(condition: _Condition, node: exp.Join, scope: Scope, text: Text) -> bool:
    """Return whether a join's condition may hold for rows that were padded before."""
    if any(column.absent for pair in condition.equal for column in pair):
        return False
    on = node.args.get("on")
    return on is None or may_hold(on, scope, text)


def _check_units(
    left: From, right: FromItem, how: str, condition: _Condition, node: exp.Join, reader: ReaderProtocol
) -> None:
    """Refuse two private sides whose units are not equated, or that an outer join may keep when they have left."""
    assert left.owner is not None
    assert right.owner is not None
    text = reader.text
    for owner in (left.owner, right.owner):
        if owner.unit is None:
            raise text.error(
                f"each row of {owner.table} is a unit of its own, so it can be joined with public tables only; protect "
                "it with unit= to join it with another protected table",
                node.this,
            )
    if not any(first.unit and second.unit for first, second in condition.equal):
        raise _unequated(left, right, how, node, text)
    if left.owner.kind != right.owner.kind:
        raise text.error(different_kinds(left.owner, right.owner), node.this)
    if stays(how, left.owner, right.owner):
        word = node.meta.get(WRITTEN)  # where it was read from a subquery
        tables = [*left.tables, *right.tables]
        raise text.error(refusal(word or f"{how} JOIN", tables, reader.relations, word is None), node.this)


def _unequated(left: From, right: FromItem, how: str, node: exp.Join, text: Text) -> SQLError:
    units = [column for column in left.scope.columns if column.unit and (column.qualifier or column.bare)]
    others = [column for column in right.columns if column.unit]
    before = " and ".join(dict.fromkeys(item.source.called for item in left.joined if item.source.owner is not None))
    message = f"{before} and {right.called} are both private, and rows of different units would be joined"
    if not others:
        return text.error(f"{message}: select the unit's column in {right.called}, and join on it", node.this)
    if not units:
        by = "join those before by USING" if any(item.how == "FULL" for item in left.joined) else "select it before"
        return text.error(f"{message}: the unit's column cannot be named there; {by}, and join on it", node.this)
    named = next((column for column in units if column.qualifier), units[0])
    unit = f"{named.qualifier}.{named.name}" if named.qualifier else named.name
    word = "JOIN" if how in ("CROSS", "INNER") else f"{how} JOIN"
    if unit.casefold() == others[0].name.casefold():  # a column that USING has made of two
        return text.error(f"{message}: write {word} ... USING ({unit})", node.this)
    equal = f"{unit} = {others[0].qualifier or right.called}.{others[0].name}"
    return text.error(f"{message}: write {word} ... ON {equal}, and further conditions after AND", node.this)


def _owner(left: From, right: FromItem) -> Owner | None:
    if left.owner is None or right.owner is None:
        return left.owner or right.owner
    return joined(left.owner, right.owner)


def _unit(left: From, right: FromItem, how: str) -> exp.Expr | None:
    if left.owner is None or right.owner is None:
        return _copy(left.scope.unit if left.owner is not None else right.unit) if left.owner or right.owner else None
    if how == "FULL":
        first, second = (with_kind(_copy(unit), left.owner.kind) for unit in (left.scope.unit, right.unit))
        return exp.Coalesce(this=first, expressions=[second])
    return _copy(right.unit if how == "RIGHT" else left.scope.unit)


def _columns(
    before: list[Column],
    after: list[Column],
    owners: tuple[Owner | None, Owner | None],
    how: str,
    condition: _Condition,
    inner: bool,
) -> list[Column]:
    """Return what can be named after a join of the columns of both sides."""
    units = inner or how in ("CROSS", "INNER")
    if not units:
        before = [_kept(column, how == "LEFT") for column in before]
        after = [_kept(column, how == "RIGHT") for column in after]
    if units and (owners[0] is None) != (owners[1] is None):
        before, after = _spread(before, after, condition, owners[0] or owners[1])
        _note_equal(before, after, condition)
    for first, second in condition.merged:
        place, other = _place(before, first), _place(after, second)
        merged = _merged(before[place], after[other], first.unit and second.unit, how)
        before[place] = replace(before[place], bare=False, shown=False)
        after[other] = replace(after[other], bare=False, shown=False)
        before.insert(place, merged)
    return before + after


def _kept(column: Column, all_rows: bool) -> Column:
    """Return a column of one side of an outer join, of which all rows are kept or only those that meet one."""
    padded = column.unit_or_null or (column.unit and not all_rows)
    missing = column.missing or not all_rows
    return replace(column, unit=column.unit and all_rows, unit_or_null=padded, missing=missing)


def _spread(
    before: list[Column], after: list[Column], condition: _Condition, owner: object
) -> tuple[list[Column], list[Column]]:
    """Return the columns, those of a public table that equal the unit marked as the unit."""
    for first, second in condition.equal:
        if first.unit != second.unit and first.kind == second.kind and owner is not None:
            place, other = _place(before, first), _place(after, second)
            before[place], after[other] = replace(before[place], unit=True), replace(after[other], unit=True)
    return before, after


def _note_equal(before: list[Column], after: list[Column], condition: _Condition) -> None:
    """Note of columns, in place, which columns of the other side they equal in every row."""
    for first, second in condition.equal:
        if first.kind == second.kind:
            place, other = _place(before, first), _place(after, second)
            for columns, at, one in ((before, place, second), (after, other, first)):
                equal = (None, None) if one.narrowed else (one.origin, one.row)
                columns[at] = replace(columns[at], equal=equal[0], equal_row=equal[1])


def _merged(first: Column, second: Column, unit: bool, how: str) -> Column:
    """Return the one column that USING makes of two."""
    shown = replace(second if how == "RIGHT" else first, qualifier=None, bare=True, shown=True)
    if how != "FULL":
        return shown
    either = [with_kind(column.node.copy(), column.kind) for column in (first, second)]
    node = exp.Coalesce(this=either[0], expressions=either[1:])
    kind = joint([first.kind, second.kind])
    absent = first.absent and second.absent
    return replace(shown, node=node, kind=kind, unit=unit, origin=None, element=None, row=None, absent=absent)


def _place(columns: list[Column], wanted: Column) -> int:
    return next(index for index, column in enumerate(columns) if column.node is wanted.node)


def _beside(column: Column, right: FromItem) -> bool:
    return any(column.node is other.node for other in right.columns)


def _using(written: exp.Column, scope: Scope, called: str, text: Text) -> Column:
    found = column_of(written, scope, text)
    if found is None:
        raise text.error(f"there is no column {shorten(written.name)} {called} this join", written)
    return found


def _copy(node: exp.Expr | None) -> exp.Expr:
    assert node is not None
    return node.copy()
