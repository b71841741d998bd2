"""Two queries, one over the other, as the one private select that says the same: so that both are measured alike.

`SELECT s / n FROM (SELECT SUM(x) AS s, COUNT(*) AS n FROM t)` is a mean of t. And sums of what a query below has summed
up for each unit are sums over rows: `SELECT SUM(s) FROM (SELECT person, SUM(x) AS s FROM t GROUP BY person)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.expressions import words_of
from dpnotebook.sql.ownership.select_parts import calls_of, expression_queries
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.statement_parser import clause_of
from dpnotebook.sql.reuse.spelling import bare

PARTS = {"kind", "expressions", "from", "with", "order", "limit"}  # of a query over another one
ROWS = {"kind", "expressions", "from", "joins", "where", "group"}  # parts of a query of groups of rows
DIFFERENT = ROWS | {"distinct"}
PLACE = ("line", "col", "start", "end")
ADDED = ("sum", "count")  # what sums up, over units, to the same over rows


def over_rows(query: exp.Select, below: exp.Expr | None, text: Text) -> exp.Select | None:
    """Return a query that works out columns of a private select as a private select itself; None where it does more.

    Parameters
    ----------
    query
        A query that has no aggregates of its own.
    below
        The private select that it reads, and nothing else.
    text
        The statement.
    """
    if not isinstance(below, exp.Select) or _parts(query) - PARTS or _parts(below) - ROWS:
        return None
    if any(clause_of(one) is not None or expression_queries(one) for one in (query, below)) or calls_of(query):
        return None
    items = {item.alias_or_name.casefold(): item.unalias() for item in below.expressions}
    starred = any(item.find(exp.Star, exp.Window) for item in query.expressions)
    if starred or below.is_star or len(items) < len(below.expressions):
        return None
    own = {item.alias.casefold() for item in query.expressions if item.alias}
    used = {column.name.casefold() for item in query.expressions for column in item.find_all(exp.Column)}
    if any(name not in used and not isinstance(item, exp.Column) for name, item in items.items()):
        return None  # which would not be read then
    found = below.copy()
    keys = below.args.get("group")
    if keys is not None:
        places = [_key(key, below) for key in keys.expressions]
        if any(value for name, value in keys.args.items() if name != "expressions") or None in places:
            return None
        found.set("group", exp.Group(expressions=[key.copy() for key in places if key is not None]))
    listed = [exp.alias_(item.unalias().copy(), _name(item, text), quoted=True) for item in query.expressions]
    order = query.args.get("order")
    order = None if order is None else order.copy()
    for node in (*listed, *(() if order is None else (order,))):
        for column in list(node.find_all(exp.Column)):
            name = column.name.casefold()
            if node is order and name in own:
                continue
            if name not in items:
                return None
            column.replace(exp.Paren(this=items[name].copy()))
    found.set("expressions", listed)
    found.set("order", order)
    for part in ("limit", "with_", "with"):
        found.set(part, query.args.get(part))
    return found


def without_sums_of_units(
    select: exp.Select, below: exp.Expr | None, is_unit: Callable[[exp.Column], bool]
) -> exp.Select | None:
    """Return sums of what a query below sums up for each unit as sums over its rows; None where there is more in it.

    Parameters
    ----------
    select
        The private select.
    below
        The query that it reads, and nothing else.
    is_unit
        Tells whether a column of the query below is that of the unit.
    """
    if not isinstance(below, exp.Select) or _parts(select) - PARTS or _parts(below) - ROWS:
        return None
    if any(clause_of(one) is not None or expression_queries(one) for one in (select, below)):
        return None
    group = below.args.get("group")
    keys = [] if group is None else [_key(key, below) for key in group.expressions]
    if len(keys) != 1 or not isinstance(keys[0], exp.Column) or not is_unit(keys[0]):
        return None
    items = {item.alias_or_name.casefold(): bare(item.unalias()) for item in below.expressions}
    select = select.copy()  # what a select reads is known by itself: another one is another select
    calls = calls_of(select)
    found = [_summed(node, items) for node in calls]
    if not calls or len(items) < len(below.expressions) or any(one is None for one in found):
        return None
    inside = {id(part) for one in calls for part in one.walk()}
    own = [*select.expressions, *filter(None, [select.args.get("order")])]
    if any(id(column) not in inside for item in own for column in item.find_all(exp.Column)):
        return None
    for node, made in zip(calls, found, strict=True):
        assert made is not None
        node.replace(made)
    return _over_tables(select, below)


def of_distinct_units(
    select: exp.Select, below: exp.Expr | None, is_unit: Callable[[exp.Column], bool]
) -> exp.Select | None:
    """Return a count of the different units, and keys, of a query below as COUNT(DISTINCT unit) of its rows.

    Parameters
    ----------
    select
        The private select, which counts rows of the query below, in all or by keys.
    below
        The query that it reads, and nothing else, with DISTINCT.
    is_unit
        Tells whether a column of the query below is that of the unit.

    Returns
    -------
    exp.Select | None
        None where there is more in it.
    """
    if not isinstance(below, exp.Select) or _parts(select) - PARTS - {"group"} or _parts(below) - DIFFERENT:
        return None
    if any(clause_of(one) is not None or expression_queries(one) for one in (select, below)) or calls_of(below):
        return None
    distinct, grouped = below.args.get("distinct"), below.args.get("group")
    items = {item.alias_or_name.casefold(): bare(item.unalias()) for item in below.expressions}
    columns = [item for item in items.values() if isinstance(item, exp.Column) and not item.is_star]
    units = [column for column in columns if is_unit(column)]
    if len(units) != 1 or len(columns) < len(below.expressions):
        return None
    if grouped is not None:  # by all that it lists, which lists each once
        keys = [_key(key, below) for key in grouped.expressions]
        if distinct is not None or any(key not in columns for key in keys) or any(one not in keys for one in columns):
            return None
    elif distinct is None or distinct.args.get("on"):
        return None
    found = select.copy()
    calls = calls_of(found)
    if not calls or not all(_counts_rows(node, items, units[0]) for node in calls):
        return None
    for node in calls:
        call = call_of(node)
        assert call is not None
        asked = Call("units", distinct=True, words=call.words, called=call.called or function_of("count").word_of(call))
        made = function_of("units").node(asked, units[0].copy())
        made.meta.update({key: node.meta[key] for key in PLACE if key in node.meta}, call=asked)
        node.replace(made)
    own = {item.alias.casefold() for item in found.expressions if item.alias}
    group = found.args.get("group")
    by = [] if group is None else [_key(key, found) for key in group.expressions]
    of = {None if key is None else key.alias_or_name.casefold() for key in by if isinstance(key, exp.Column)}
    if len(of) < len(by) or of != {name for name, item in items.items() if item is not units[0]}:
        return None  # which lists a unit more than once in a group
    named = [*found.expressions, *([] if group is None else group.expressions)]
    counted = {id(part) for node in calls_of(found) for part in node.walk()}
    for key in named:
        for column in list(key.find_all(exp.Column)):
            name = column.name.casefold()
            if id(column) in counted or (name in own and name not in items):
                continue
            value = items.get(name)
            if value is None or value.name.casefold() != name:
                return None  # which would be called otherwise
            column.replace(value.copy())
    return _over_tables(found, below)


def _counts_rows(node: exp.Expr, items: dict[str, exp.Expr], unit: exp.Expr) -> bool:
    """Return whether a call counts rows, of which each has a unit."""
    call = call_of(node)
    if call is None or call.kind != "count" or call.distinct or call.private or call.bounds is not None:
        return False
    argument = None if call.star or call.argument is None else bare(call.argument)
    return call.epsilon is None and (argument is None or items.get(argument.name.casefold()) is unit)


def _over_tables(select: exp.Select, below: exp.Select) -> exp.Select:
    """Return a select, which is changed, over what a query below reads."""
    for part in ("from", "from_", "joins", "where"):
        value = below.args.get(part)
        kept = [one.copy() for one in value] if isinstance(value, list) else value.copy() if value is not None else None
        select.set(part, kept)
    return select


def _summed(node: exp.Expr, items: dict[str, exp.Expr]) -> exp.Expr | None:
    """Return the sum or count over rows that a sum of those of units is; None of another call."""
    call = call_of(node)
    if call is None or call.kind != "sum" or call.private or call.bounds is not None or call.epsilon is not None:
        return None
    column = None if call.argument is None else bare(call.argument)
    inner = items.get(column.name.casefold()) if isinstance(column, exp.Column) else None
    of = None if inner is None else call_of(inner)
    if inner is None or of is None or of.kind not in ADDED or of.distinct or of.private or of.bounds is not None:
        return None
    assert isinstance(column, exp.Column)
    made: exp.Expr = inner.copy()
    made.meta["call"] = replace(of, argument=None, second=None, words=call.words, called=f"sum_{column.name}")
    for part in made.walk():  # all of it was read from the words of the sum
        part.meta.update({key: node.meta[key] for key in PLACE if key in node.meta and key in part.meta})
    made.meta.update({key: node.meta[key] for key in PLACE if key in node.meta})
    return made


def _parts(query: exp.Select) -> set[str]:
    """Return the parts that a query has, without the underscore that versions of sqlglot put behind some."""
    return {name.rstrip("_") for name, value in query.args.items() if value}


def _key(node: exp.Expr, select: exp.Select) -> exp.Expr | None:
    """Return what a key of a query is, by its place in the list or by columns of tables; None where it is named."""
    if isinstance(node, exp.Literal) and node.this.isdigit() and 0 < int(node.this) <= len(select.expressions):
        key: exp.Expr = select.expressions[int(node.this) - 1].unalias()
        return key
    named = {item.alias.casefold() for item in select.expressions if item.alias}
    used = {column.name.casefold() for column in node.find_all(exp.Column)}
    return None if used & named or isinstance(node, exp.Literal) else node


def _name(item: exp.Expr, text: Text) -> str:
    return item.alias_or_name or words_of(item, text)
