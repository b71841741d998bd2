"""Which table a name in a statement means; a name that is neither protected nor public is refused."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.dialect.types import ROW_UNIT
from dpnotebook.errors import NotProtected, shorten
from dpnotebook.sql.ownership.scope import listed
from dpnotebook.sql.statement import Relation


def match_name(written: str, known: Mapping[str, object]) -> list[str]:
    """Return the known names that a name in SQL can mean: itself, else all that differ in case only."""
    if written in known:
        return [written]
    return [name for name in known if name.casefold() == written.casefold()]


def find_relation(node: exp.Table, relations: Mapping[str, Relation], text: Text) -> Relation:
    """Return the relation that a table in FROM means.

    A path such as `project.dataset.visits` means what is registered under the whole of it, or under its end.

    Raises
    ------
    SQLError
        If several relations can be meant.
    NotProtected
        If there is none: nothing is ever answered from a table that nobody has declared.
    """
    if not isinstance(node.this, exp.Identifier):
        raise text.error("after FROM stands the name of a table, not a function", node)
    parts = [part.name for part in node.parts]
    for start in range(len(parts)):
        found = match_name(".".join(parts[start:]), relations)
        if len(found) > 1:
            names = " or ".join(repr(name) for name in found)
            raise text.error(f"{node.name} can be {names}; write one of them exactly, in quotes", node)
        if found:
            return relations[found[0]]
    near = get_close_matches(node.name, relations, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {listed(relations)}"
    if not relations:
        hint = "protect one first: session.protect(frame, 'name', domain={...})"
    error = text.error(
        f"no table {shorten('.'.join(parts))} is protected or registered as public in this session; {hint}", node
    )
    raise NotProtected(str(error))


def private_names(tree: exp.Expr, relations: Mapping[str, Relation]) -> set[str]:
    """Return the names of private tables, and of queries of WITH that read some, casefolded.

    Parameters
    ----------
    tree, relations
        The statement as it was read, and what its tables are.
    """
    found = {name.casefold() for name, relation in relations.items() if relation.private}
    for query in tree.find_all(exp.CTE, bfs=False):
        if reads(query.this, found):
            found.add(query.alias.casefold())
    return found


def reads(query: exp.Expr, names: set[str]) -> bool:
    """Return whether a query, or what stands in FROM, reads a table of one of some names, which are casefolded."""
    return any(table.name.casefold() in names for table in query.find_all(exp.Table))


def columns_of(relation: Relation, node: exp.Expr, text: Text) -> list[str]:
    """Return the columns of a relation that can be named, in order.

    Raises
    ------
    SQLError
        If its unit's column cannot be told from another one.
    """
    names = [name for name in relation.columns if name != ROW_UNIT]
    if relation.unit is not None:
        twins = [name for name in names if name.casefold() == relation.unit.casefold()]
        if twins != [relation.unit]:
            raise text.error(
                f"the columns {listed(twins)} of {relation.name} differ only in case, which SQL cannot tell apart; "
                "rename all but the unit's",
                node,
            )
    return names


def bounded(origin: tuple[str, str], relations: Mapping[str, Relation]) -> str | None:
    """Return the name of a column of a protected table if bounds are declared of it."""
    domain = relations[origin[0]].domain
    attribute = None if domain is None else domain.get(origin[1])
    return None if attribute is None or attribute.bounds is None else origin[1]
