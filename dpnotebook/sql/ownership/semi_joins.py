"""Subqueries that ask whether a unit is in another private table, or what it has there, written as joins on the unit.

`patient IN (SELECT patient FROM visits WHERE ...)`, `EXISTS (SELECT ... WHERE visits.patient = patients.patient)` and
`(SELECT COUNT(*) FROM visits WHERE visits.patient = patients.patient)` say of a row nothing but what the other rows of
its own unit say. A join with a query that has one row a unit means the same; what may be joined is decided there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpnotebook.sql.ownership.catalog import private_names, reads
from dpnotebook.sql.ownership.correlated import OF_UNIT, REQUIRED
from dpnotebook.sql.ownership.expressions import bare, conjuncts
from dpnotebook.sql.ownership.joins import WRITTEN
from dpnotebook.sql.ownership.select_parts import calls_of, source_nodes
from dpnotebook.sql.parse.semi_joins import WRITTEN_AS
from dpnotebook.sql.parse.spellings import put
from dpnotebook.sql.parse.statement_parser import call_of
from dpnotebook.sql.statement import Relation

CALLED = "the query in parentheses"  # in the messages of joins; nobody calls a table that
UNIT, VALUE = "its unit", "its value"
WHOLE = ("limit", "offset", "with", "with_", "group", "having", "qualify", "windows")  # parts that look at all rows


@dataclass
class _AboutUnits:
    """A subquery that can be joined: what its unit equals outside, and the query with one row for each unit."""

    outside: exp.Expr
    query: exp.Select
    value: bool = False  # whether it stands for a value, and not for whether there is a row
    counts: bool = False  # whether that is 0 where there is no row


def with_semi_joins(tree: exp.Expr, relations: Mapping[str, Relation]) -> exp.Expr:
    """Return a statement in which such subqueries are joins; it is changed in place.

    Parameters
    ----------
    tree
        The statement as it was read.
    relations
        What its tables are.
    """
    names = private_names(tree, relations)
    units = {table.unit.casefold() for table in relations.values() if table.private and table.unit is not None}
    number = 0
    for select in reversed(list(tree.find_all(exp.Select))):  # those inside first: they are copied with those around
        where = select.args.get("where")
        sides = [node for node in _own_queries(select) if reads(node, names)]
        for node in sides:
            if _compares_rows(node, select, units, relations):
                continue
            found = _found(node, units)
            if found is None:
                continue
            number += 1
            called = CALLED if number == 1 else f"{CALLED} ({number})"
            _join(select, node, found, called, None if where is None else where.this)
    return tree


def _own_queries(select: exp.Select) -> Iterator[exp.Expr]:
    """Return the nodes of a select's own expressions that ask of a subquery: IN, EXISTS, and values."""
    parts = ("where", "group", "having")
    roots = [*select.expressions, *(node for part in parts if (node := select.args.get(part)) is not None)]
    for root in roots:
        for node in list(root.walk(prune=lambda node: isinstance(node, exp.Query))):
            holds = isinstance(node, exp.In) and node.args.get("query") is not None
            alone = isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.In | exp.Exists)
            if holds or alone or isinstance(node, exp.Exists):
                yield node


def _found(node: exp.Expr, units: set[str]) -> _AboutUnits | None:
    inner = node.args["query"] if isinstance(node, exp.In) else node.this
    while isinstance(inner, exp.Subquery) and not inner.args.get("alias"):
        inner = inner.this
    if node.args.get("negate"):
        return None
    if isinstance(node, exp.In):
        left = bare(node.this)
        listed = inner.selects if isinstance(inner, exp.Query) else []
        if not (_is_unit(left, units) and len(listed) == 1 and _is_unit(bare(listed[0].unalias()), units)):
            return None
        name = exp.column(exp.to_identifier(listed[0].alias_or_name, quoted=True))
        return _AboutUnits(left, _one_row_a_unit(name, exp.Subquery(this=inner.copy(), alias=_alias("listed"))))
    if not isinstance(inner, exp.Select) or any(inner.args.get(part) for part in ("limit", "offset", "with_", "group")):
        return None
    equality = _equality(inner, units)
    if equality is None:
        return None
    inside, outside, rest = equality
    query = inner.copy()
    query.set("where", exp.Where(this=exp.and_(*(part.copy() for part in rest), copy=False)) if rest else None)
    query.set("order", None)
    unit = exp.alias_(inside.copy(), UNIT, quoted=True)
    if isinstance(node, exp.Exists):
        if calls_of(inner) or inner.args.get("having"):
            return None
        query.set("expressions", [unit])
        query.set("distinct", exp.Distinct())
        return _AboutUnits(outside, query)
    value = inner.expressions[0].unalias()
    # What is worked out from an aggregate may have a value where there is no row, which a join does not give.
    if len(inner.expressions) != 1 or call_of(bare(value)) is None or inner.args.get("having"):
        return None
    query.set("expressions", [unit, exp.alias_(value.copy(), VALUE, quoted=True)])
    query.set("group", exp.Group(expressions=[inside.copy()]))
    return _AboutUnits(outside, query, value=True, counts=isinstance(bare(value), exp.Count))


def _compares_rows(node: exp.Expr, select: exp.Select, units: set[str], relations: Mapping[str, Relation]) -> bool:
    """Note a subquery that compares a row with others of its unit, which no join on the unit says; False for others."""
    query = _with_equality(node, select, units) if isinstance(node, exp.In) else node.this
    while isinstance(query, exp.Subquery) and not query.args.get("alias"):
        query = query.this
    if not isinstance(query, exp.Select) or any(query.args.get(part) for part in WHOLE):
        return False
    alone = isinstance(node, exp.Exists | exp.In)
    if (alone and calls_of(query)) or (not alone and (len(query.expressions) != 1 or not calls_of(query))):
        return False
    equality = _equality(query, units)
    if equality is None or not _names_outside(equality[2], query, select, relations):
        return False
    where = select.args.get("where")
    query.meta[OF_UNIT] = True
    query.meta[REQUIRED] = alone and where is not None and any(part is node for part in conjuncts(where.this))
    if isinstance(node, exp.In):
        put(exp.Exists(this=query), node)
    return True


def _with_equality(node: exp.In, select: exp.Select, units: set[str]) -> exp.Expr | None:
    """Return the query of `unit IN (SELECT unit ...)` with that equality as a condition; None for others."""
    query, left = node.args["query"], bare(node.this)
    while isinstance(query, exp.Subquery) and not query.args.get("alias"):
        query = query.this
    listed = query.expressions if isinstance(query, exp.Select) else []
    if len(listed) != 1 or query.args.get("where") is None or node.args.get("negate"):
        return None
    sides = []
    for side, around in ((bare(listed[0].unalias()), query), (left, select)):
        if not _is_unit(side, units):
            return None
        sources, table = source_nodes(around), side.args.get("table")
        if table is None and len(sources) != 1:
            return None
        name = sources[0].alias_or_name if table is None else table.name
        sides.append(exp.column(side.this.copy(), table=exp.to_identifier(name, quoted=True)))
    found: exp.Expr = query.copy()
    found.set("where", exp.Where(this=exp.and_(found.args["where"].this, exp.EQ(this=sides[0], expression=sides[1]))))
    return found


def _names_outside(
    conditions: list[exp.Expr], inner: exp.Select, select: exp.Select, relations: Mapping[str, Relation]
) -> bool:
    """Return whether conditions of a subquery name a column of the select around it."""
    own = source_nodes(inner)
    called = {node.alias_or_name.casefold() for node in own}
    outside = {node.alias_or_name.casefold() for node in source_nodes(select)} - called
    known: set[str] | None = set()
    for node in own:
        relation = relations.get(node.name) if isinstance(node, exp.Table) else None
        known = None if relation is None or known is None else known | {name.casefold() for name in relation.columns}
    for part in conditions:
        for column in part.find_all(exp.Column):
            unknown = not column.table and known is not None and column.name.casefold() not in known
            if column.table.casefold() in outside or unknown:
                return True
    return False


def _is_unit(node: exp.Expr, units: set[str]) -> bool:
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) and node.name.casefold() in units


def _one_row_a_unit(name: exp.Column, source: exp.Subquery) -> exp.Select:
    select = exp.Select(expressions=[exp.alias_(name, UNIT, quoted=True)], distinct=exp.Distinct())
    return select.from_(source, copy=False)


def _equality(inner: exp.Select, units: set[str]) -> tuple[exp.Expr, exp.Expr, list[exp.Expr]] | None:
    """Return the unit inside that is equated with one outside, that one, and the other conditions."""
    where = inner.args.get("where")
    own = {node.alias_or_name.casefold() for node in source_nodes(inner)}
    parts = [] if where is None else conjuncts(where.this)
    for part in parts:
        sides = [bare(part.this), bare(part.expression)] if isinstance(part, exp.EQ) else []
        if len(sides) != 2 or not all(_is_unit(side, units) for side in sides):
            continue
        of = ["" if side.args.get("table") is None else side.args["table"].name.casefold() for side in sides]
        if all(of) and sum(name in own for name in of) == 1:
            inside, outside = sides if of[0] in own else sides[::-1]
            return inside, outside, [other for other in parts if other is not part]
    return None


def _join(select: exp.Select, node: exp.Expr, found: _AboutUnits, called: str, where: exp.Expr | None) -> None:
    """Join the query, and write in the place of the subquery whether there is a row of it, or its value."""
    source = exp.Subquery(this=found.query, alias=_alias(called))
    equal = exp.EQ(this=found.outside.copy(), expression=_column(called, UNIT))
    required = where is not None and any(part is node for part in conjuncts(where))
    side = {} if required else {"side": "LEFT"}
    join = exp.Join(this=source, on=equal, **side)
    word = "IN " if isinstance(node, exp.In) else "EXISTS " if isinstance(node, exp.Exists) else ""
    join.meta[WRITTEN] = node.meta.get(WRITTEN_AS, f"{word}(SELECT ...)")
    select.append("joins", join)
    for star in select.expressions:
        if isinstance(star, exp.Star):  # what is joined is not listed
            listed = star.args.get("except_") or []
            names = [UNIT, VALUE] if found.value else [UNIT]
            star.set("except_", [*listed, *(exp.to_identifier(name, quoted=True) for name in names)])
    if found.value:
        value: exp.Expr = _column(called, VALUE)
        made = exp.Coalesce(this=value, expressions=[exp.Literal.number(0)]) if found.counts else value
    elif required:
        made = exp.true()
    else:
        made = exp.Not(this=exp.Is(this=_column(called, UNIT), expression=exp.null()))
    made = exp.Paren(this=made)
    for place in ("line", "col", "start", "end"):
        if place in node.meta:
            made.meta[place] = node.meta[place]
    node.replace(made)


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def _column(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
