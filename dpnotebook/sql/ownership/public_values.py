"""What a public table says of groups, as in `COUNT(*) / MAX(population)`: joined with their answers, not measured.

Where groups are by the column that a public table is joined on, and that has each value once there, its other columns
have one value a group. They cost nothing then, and no group is hidden for one of them that nobody declared: the
statement is one of the rows' own groups, which that table is joined with again. So it is where all rows of the public
table are kept, `FROM regions LEFT JOIN visits`, as all its values are groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.expressions import bare, conjuncts, words_of
from dpnotebook.sql.ownership.select_parts import from_of, source_nodes
from dpnotebook.sql.parse.semi_joins import on_of
from dpnotebook.sql.parse.statement_parser import call_of, clause_of
from dpnotebook.sql.statement import Relation

OF_EQUALS = (exp.Max, exp.Min, exp.Avg, exp.AnyValue)  # of values that are all the same, each gives that one
GROUPS = "the groups"  # in messages about the query that is asked of the rows; nobody calls a table that
OUTSIDE = ("order", "limit", "offset")
NOT_THERE = ("qualify", "windows", "distinct", "with", "with_", "sample", "pivots")


@dataclass(frozen=True)
class _PublicTable:
    """A public table that is joined on a column which is grouped by.

    Parameters
    ----------
    join, called, relation
        How it is joined, its name there, and what is known of it.
    outside, inside
        The columns that are equal: the other table's, and its own.
    others
        The columns of the other tables.
    kept
        Whether groups are by its own column, as all its rows are kept, and the other table's has declared levels.
    """

    join: exp.Join
    called: str
    relation: Relation
    outside: exp.Column
    inside: exp.Column
    others: frozenset[str]
    kept: bool = False

    @property
    def grouped(self) -> exp.Column:
        """The column that rows are grouped by in its place."""
        return self.inside if self.kept else self.outside

    def has(self, column: exp.Column) -> bool:
        """Return whether a column is one of the public table's."""
        if isinstance(column.this, exp.Star):
            return False
        if column.table:
            return column.table.casefold() == self.called
        name = column.name.casefold()
        return name in {one.casefold() for one in self.relation.columns} and name not in self.others

    def tells(self, node: exp.Expr) -> bool:
        """Return whether an expression is of columns of the public table alone."""
        columns = list(node.find_all(exp.Column))
        return bool(columns) and all(map(self.has, columns)) and node.find(exp.Query) is None

    def is_key(self, node: exp.Expr) -> bool:
        """Return whether it is the column that the table is joined on, under either name."""
        if not isinstance(node, exp.Column):
            return False
        if not node.table:
            same = node.name.casefold() in (self.outside.name.casefold(), self.inside.name.casefold())
            return same and (bool(self.join.args.get("using")) or node.name.casefold() in self.others)
        of = self.inside if node.table.casefold() == self.called else self.outside
        return (node.name.casefold(), node.table.casefold()) == (of.name.casefold(), of.table.casefold())

    def is_value(self, node: exp.Expr) -> bool:
        """Return whether an aggregate is of a value that is the same in all rows of a group."""
        return isinstance(node, OF_EQUALS) and self.tells(node)


def with_public_values(tree: exp.Expr, relations: Mapping[str, Relation], text: Text) -> exp.Expr:
    """Return a statement in which what public tables say of groups is joined with their answers.

    Parameters
    ----------
    tree
        The statement as it was read; it is changed in place.
    relations
        What its tables are.
    text
        The statement.
    """
    common = {each.alias.casefold() for each in tree.find_all(exp.CTE)}
    known = {name: relation for name, relation in relations.items() if name.casefold() not in common}
    for select in list(tree.find_all(exp.Select)):
        group = select.args.get("group")
        if group is None or any(select.args.get(part) for part in NOT_THERE) or _is_below(select):
            continue
        if clause_of(select) is not None or _are_bounded_apart(select):
            continue
        if any(value and part != "expressions" for part, value in group.args.items()):
            continue
        keys = [_key(select, node) for node in group.expressions]
        turned = _public_last(select, known)
        found = (_public_table(turned, join, keys, known) for join in turned.args.get("joins") or [])
        joined = next((one for one in found if one is not None and _asked(select, keys, one)), None)
        if joined is not None:
            made = _outside(turned, keys, joined, text)
            if select is tree:
                return made
            select.replace(made)
    return tree


def _public_last(select: exp.Select, relations: Mapping[str, Relation]) -> exp.Select:
    """Return a select with FROM public LEFT JOIN private turned round; others as they are."""
    first, joins = from_of(select), select.args.get("joins") or []
    if len(joins) != 1 or str(joins[0].args.get("side") or "").upper() != "LEFT":
        return select
    private = [isinstance(one, exp.Table) and one.name in relations and relations[one.name].private
               for one in (first, joins[0].this)]  # fmt: skip
    if private != [False, True] or any(item.is_star for item in select.expressions):
        return select
    turned = select.copy()
    source, join = from_of(turned), turned.args["joins"][0]
    assert source is not None
    other = join.this.copy()
    join.set("this", source.copy())
    join.set("side", "RIGHT")
    source.replace(other)
    return turned


def _is_below(select: exp.Select) -> bool:
    """Return whether a query around it groups or adds up what it gives: then it is one of rows, not of answers."""
    around = select.parent_select
    while isinstance(around, exp.Select):
        if around.args.get("group") is not None or any(True for _ in _calls(around)):
            return True
        around = around.parent_select
    return False


def _are_bounded_apart(select: exp.Select) -> bool:
    """Return whether aggregates that look the same are bounded in different ways."""
    calls: dict[exp.Expr, object] = {}
    return any(calls.setdefault(node, call_of(node)) != call_of(node) for node in _calls(select))


def _key(select: exp.Select, node: exp.Expr) -> exp.Expr:
    """Return what is grouped by, where a number or a name stands for what is listed."""
    items = select.expressions
    if isinstance(node, exp.Literal) and not node.is_string and 0 < int(node.this) <= len(items):
        return bare(items[int(node.this) - 1].unalias())
    if isinstance(node, exp.Column) and not node.table:
        named = (item for item in items if isinstance(item, exp.Alias) and item.alias == node.name)
        return next((bare(item.this) for item in named), node)
    return bare(node)


def _public_table(
    select: exp.Select, join: exp.Join, keys: list[exp.Expr], relations: Mapping[str, Relation]
) -> _PublicTable | None:
    """Return a public table that is joined on a column that has each value once and is grouped by; None of others."""
    table = join.this
    relation = relations.get(table.name) if isinstance(table, exp.Table) else None
    if relation is None or relation.private or not relation.unique:
        return None
    side, kind = (str(join.args.get(part) or "").upper() for part in ("side", "kind"))
    right = side == "RIGHT" and len(select.args["joins"]) == 1
    condition = on_of(select, join) if right or not side else None
    parts = [] if condition is None else conjuncts(condition)
    if len(parts) != 1 or not isinstance(parts[0], exp.EQ) or kind not in ("", "OUTER" if right else "INNER"):
        return None
    others: set[str] = set()
    declared: set[str] = set()
    for source in source_nodes(select):
        of = relations.get(source.name) if isinstance(source, exp.Table) else None
        if of is None:
            return None
        others |= {name.casefold() for name in of.columns} if source is not table else set()
        declared |= {name.casefold() for name in of.domain or () if source is not table}
    called, sides = table.alias_or_name.casefold(), [bare(side) for side in parts[0].iter_expressions()]
    for inside, outside in (sides, sides[::-1]):
        if not isinstance(inside, exp.Column) or not isinstance(outside, exp.Column):
            return None
        own = inside.table.casefold() == called != outside.table.casefold()
        if own and inside.name.casefold() in {name.casefold() for name in relation.unique}:
            kept = right and outside.name.casefold() in declared
            found = _PublicTable(join, called, relation, outside, inside, frozenset(others), kept)
            return found if any(map(found.is_key, keys)) else None
    return None


def _asked(select: exp.Select, keys: list[exp.Expr], joined: _PublicTable) -> bool:
    """Return whether something of the public table is grouped by, or aggregated though it is one value a group."""
    return any(map(joined.tells, keys)) or any(map(joined.is_value, _calls(select)))


def _calls(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the aggregates of a select itself."""
    parts = (select.args.get(part) for part in ("having", "order"))
    for root in [*select.expressions, *(part for part in parts if part is not None)]:
        for node in root.walk(prune=lambda node: isinstance(node, exp.Query) or call_of(node) is not None):
            if call_of(node) is not None:
                yield node


def _outside(select: exp.Select, keys: list[exp.Expr], joined: _PublicTable, text: Text) -> exp.Select:
    """Return the select as one over the groups of its rows, and over the public table again."""
    named = [(bare(item.unalias()), item.alias or item.name) for item in select.expressions]
    names = {node: name for node, name in reversed(named) if name}
    groups = exp.to_identifier(GROUPS, quoted=True)
    kept = [key for key in keys if joined.is_key(key) or not joined.tells(key)]
    called = {key: names.get(key, key.name or f"key {place}") for place, key in enumerate(kept, start=1)}
    for node in _calls(select):
        if not joined.is_value(node) and node not in called:
            called[node] = names.get(node, f"value {len(called) + 1}")

    def outside(node: exp.Expr) -> exp.Expr:
        if joined.is_value(node):
            return exp.Paren(this=bare(node.this).copy())
        if node in called:
            return exp.column(exp.to_identifier(called[node], quoted=True), table=groups.copy())
        return node

    inner = select.copy()
    of_rows = {node: joined.grouped if joined.is_key(node) and joined.tells(node) else node for node in called}
    inner.set("expressions", [exp.alias_(of_rows[node].copy(), name, quoted=True) for node, name in called.items()])
    inner.set("group", exp.Group(expressions=[of_rows[key].copy() for key in kept]))
    for part in ("having", *OUTSIDE):
        inner.set(part, None)
    outer = exp.Select(expressions=[_item(item, outside, text) for item in select.expressions])
    outer = outer.from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=groups)), copy=False)
    key = next(filter(joined.is_key, kept))
    equal = exp.EQ(this=outside(key), expression=joined.inside.copy())
    outer.append("joins", exp.Join(this=joined.join.this.copy(), on=equal))
    having = select.args.get("having")
    if having is not None:
        outer.set("where", exp.Where(this=having.this.copy().transform(outside)))
    for part in OUTSIDE:
        written = select.args.get(part)
        if written is not None:
            outer.set(part, written.copy().transform(outside))
    return outer


def _item(item: exp.Expr, outside: Callable[[exp.Expr], exp.Expr], text: Text) -> exp.Expr:
    """Return what is listed, under the name that it has without the table."""
    node = item.unalias()
    name, call = item.alias or (node.name if isinstance(node, exp.Column) else words_of(node, text)), call_of(node)
    if call is not None and not item.alias:
        word, of = function_of(call.kind).word_of(call), bare(node.this)
        name = f"{word}_{of.name}" if isinstance(of, exp.Column) else word
    return exp.alias_(node.copy().transform(outside), name, quoted=True)
