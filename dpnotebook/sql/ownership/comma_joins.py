"""Protected tables behind commas, joined by what WHERE says: read as JOIN ... ON, which is the same.

`FROM patients p, visits v WHERE p.id = v.patient AND v.ward = 'icu'` equates units as plainly as a join does. Of public
tables nothing is rewritten: any of their rows may stand beside any row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpnotebook.sql.ownership.catalog import private_names, reads
from dpnotebook.sql.ownership.expressions import bare, conjuncts
from dpnotebook.sql.ownership.select_parts import source_nodes
from dpnotebook.sql.statement import Relation


def with_joins_for_commas(tree: exp.Expr, relations: Mapping[str, Relation]) -> exp.Expr:
    """Return a statement in which such tables are joined by ON; it is changed in place.

    Parameters
    ----------
    tree
        The statement as it was read.
    relations
        What its tables are.
    """
    private = private_names(tree, relations)
    common = {query.alias.casefold() for query in tree.find_all(exp.CTE)}
    columns = {
        name.casefold(): {column.casefold() for column in relation.columns}
        for name, relation in relations.items()
        if name.casefold() not in common
    }
    for select in tree.find_all(exp.Select):
        sources, joins = source_nodes(select), select.args.get("joins") or []
        if len(sources) != 1 + len(joins):  # which is refused where it is read
            continue
        for place, join in enumerate(joins, 1):
            both = reads(sources[place], private) and any(reads(one, private) for one in sources[:place])
            if both and _is_comma(join):
                _move(select, join, sources, place, columns)
    return tree


def _is_comma(join: exp.Join) -> bool:
    """Return whether a join puts any rows side by side."""
    says = any(join.args.get(part) for part in ("side", "method", "on", "using"))
    return not says and str(join.args.get("kind") or "").upper() in ("", "CROSS")


def _move(
    select: exp.Select, join: exp.Join, sources: Sequence[exp.Expr], place: int, columns: Mapping[str, set[str]]
) -> None:
    """Put into ON what WHERE equates of a source and of those before it."""
    where = select.args.get("where")
    if where is None:
        return
    parts = conjuncts(where.this)
    moved = []
    for part in parts:
        if isinstance(part, exp.EQ):
            found = [_source_of(bare(side), sources, columns) for side in part.iter_expressions()]
            if place in found and all(one is not None and one <= place for one in found) and found[0] != found[1]:
                moved.append(part)
    if not moved:
        return
    rest = [part.copy() for part in parts if not any(part is one for one in moved)]
    join.set("kind", None)
    join.set("on", exp.and_(*(part.copy() for part in moved), copy=False))
    select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)


def _source_of(node: exp.Expr, sources: Sequence[exp.Expr], columns: Mapping[str, set[str]]) -> int | None:
    """Return of which source a column is; None of anything else, and where that is not plain."""
    if not isinstance(node, exp.Column) or len(node.parts) > 2:
        return None
    if node.table:
        named = [place for place, one in enumerate(sources) if one.alias_or_name.casefold() == node.table.casefold()]
    elif all(isinstance(one, exp.Table) and one.name.casefold() in columns for one in sources):
        name = node.name.casefold()
        named = [place for place, one in enumerate(sources) if name in columns[one.name.casefold()]]
    else:
        return None
    return named[0] if len(named) == 1 else None
