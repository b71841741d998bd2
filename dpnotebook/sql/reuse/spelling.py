"""One spelling for rows that are written in several ways, so that a statement is known again however it is put.

Only the ledger is looked up by it: what an engine runs is what was written. Every change keeps SQL's three-valued
logic, in which a condition that is NULL selects no row.
"""

from __future__ import annotations

import datetime
import itertools

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.attributes import DAYS_OF, FEW_SPANS, MONTHS_OF, counted_months, counted_spans
from dpnotebook.dialect.text import DIALECT

Comparisons = dict[type[exp.Expr], type[exp.Binary]]
FLIPPED: Comparisons = {
    exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ
}  # fmt: skip
NEGATED: Comparisons = {
    exp.GT: exp.LTE, exp.LTE: exp.GT, exp.LT: exp.GTE, exp.GTE: exp.LT, exp.EQ: exp.NEQ, exp.NEQ: exp.EQ
}  # fmt: skip
PLAIN = {"expressions", "from_", "from", "joins", "where"}  # parts of a SELECT that can be put into another one
INNER = {"INNER", "CROSS", ""}
TRUTH = (exp.Predicate, exp.Connector, exp.Not)


def bare(node: exp.Expr) -> exp.Expr:
    """Return an expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def all_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that all have to hold for a condition to hold, each in one spelling."""
    node = _spelled(bare(node))
    if isinstance(node, exp.And):
        return [*all_of(node.this), *all_of(node.expression)]
    if isinstance(node, exp.Is) and node.expression == exp.true():  # what is NULL selects no row either
        return all_of(node.this)
    return [] if _always(node) else [node]


def is_flat(tree: exp.Select) -> bool:
    """Return whether `flattened` leaves a SELECT as it is."""
    first, joins = _from(tree), tree.args.get("joins") or []
    names = [one.alias for one in (first, *(join.this for join in joins)) if one is not None and one.alias[:1] == "s"]
    crossed = any(join.kind == "CROSS" for join in joins)
    return not crossed and not isinstance(first, exp.Subquery) and names == [f"s{i}" for i in range(len(names))]


def flattened(tree: exp.Select) -> exp.Select:
    """Return a SELECT with what it selects from put into it, where that selects columns and rows and nothing else.

    Tables are numbered anew in the order in which they stand; conditions by which tables are joined stand with them.

    Parameters
    ----------
    tree
        The SQL of the rows of a private aggregation; it is not changed.
    """
    tree = tree.copy()
    while _inlined(tree):
        pass
    _join_conditions(tree)
    _number_tables(tree)
    return tree


def with_counted_spans(key: exp.Expr) -> exp.Expr:
    """Return a key with its days, weeks or months counted, whose places earlier versions looked for one by one.

    Parameters
    ----------
    key
        SQL of the number of a key's level; it is not changed.
    """
    inside = key.args.get("default") if isinstance(key, exp.Case) else None
    edges = _searched(inside) if isinstance(inside, exp.Case) else []
    if len(edges) < FEW_SPANS or not isinstance(inside, exp.Case):
        return key
    times = [datetime.datetime.fromisoformat(edge.this.name) for edge in edges]
    (days, *others) = {(later - earlier).days for earlier, later in itertools.pairwise(times)}
    firsts = [time.year * 12 + time.month for time in times]
    (months, *other_months) = {later - earlier for earlier, later in itertools.pairwise(firsts)}
    column = inside.args["ifs"][0].this.this.sql(DIALECT)
    if not others and days in DAYS_OF.values():
        counted = counted_spans(str(times[0].date()), days, len(edges) + 1, column)
    elif not other_months and months in MONTHS_OF.values() and {time.day for time in times} == {1}:
        counted = counted_months(firsts[0], months, len(edges) + 1, column)
    else:
        return key
    found = key.copy()
    found.set("default", sqlglot.parse_one(counted, read=DIALECT))
    return found


def as_number_of_truth(value: exp.Expr) -> exp.Expr:
    """Return a value in one spelling, where it is a condition as a number: 1 and 0, whatever type these have.

    A condition that is NULL has no number where it is cast, and that of ELSE in a CASE.

    Parameters
    ----------
    value
        SQL of a value of a row.

    Returns
    -------
    Any other value as it is.
    """
    inner = value.this if isinstance(value, exp.Nullif) and isinstance(value.this, exp.Cast) else value
    if isinstance(inner, exp.Cast) and inner.is_type(*exp.DataType.NUMERIC_TYPES):
        condition = bare(inner.this)
        return _number_of(condition) if isinstance(condition, TRUTH) else value
    if not isinstance(value, exp.Case) or value.this is not None:
        return value
    (first, *others), default = value.args["ifs"], value.args.get("default")
    given = [_whole_number(one) for one in (*(branch.args["true"] for branch in value.args["ifs"]), default)]
    if not others and given == [1, 0]:
        ifs = [exp.If(this=_spelled(bare(first.this)), true=exp.Literal.number(1))]
        return exp.Case(ifs=ifs, default=exp.Literal.number(0))
    if len(others) == 1 and given == [1, 0, None] and (default is None or isinstance(default, exp.Null)):
        condition, opposite = _spelled(bare(first.this)), _spelled(bare(others[0].this))
        if opposite == _spelled(exp.Not(this=condition.copy())):
            return _number_of(condition)
    return value


def _number_of(condition: exp.Expr) -> exp.Expr:
    """Return a condition as a number, which is NULL where it is."""
    return exp.TryCast(this=_spelled(condition).copy(), to=exp.DataType.build("BIGINT"))


def _whole_number(node: exp.Expr | None) -> int | None:
    """Return the whole number that a literal is; None of anything else."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    whole = isinstance(node, exp.Literal) and not node.is_string and float(node.this).is_integer()
    return int(float(node.this)) if whole and node is not None else None


def _searched(node: exp.Expr) -> list[exp.Expr]:
    """Return the moments among which places are looked for, in order; none where it is something else."""
    if not isinstance(node, exp.Case):
        return []
    (branch,) = node.args["ifs"] if len(node.args["ifs"]) == 1 else (None,)
    edge = branch.this.expression if branch is not None and isinstance(branch.this, exp.LT) else None
    if branch is None or not isinstance(edge, exp.Cast) or not edge.is_type(*exp.DataType.TEMPORAL_TYPES):
        return []
    return [*_searched(branch.args["true"]), edge, *_searched(node.args["default"])]


def _always(node: exp.Expr) -> bool:
    """Return whether a condition holds of every row: TRUE, and what compares a constant with itself."""
    equal = isinstance(node, exp.EQ) and _type_of(node.this) is not None and bare(node.this) == bare(node.expression)
    return equal or node == exp.true()


def _spelled(node: exp.Expr) -> exp.Expr:
    """Return a condition in one spelling, the columns first and constants behind them."""
    if isinstance(node, exp.Not):
        inner = bare(node.this)
        if isinstance(inner, exp.And | exp.Or):
            sides = (exp.Not(this=bare(side).copy()) for side in (inner.this, inner.expression))
            parts = dict(zip(("this", "expression"), map(_spelled, sides), strict=True))
            if isinstance(inner, exp.Or):
                return exp.And(**parts)
            listed = _listed(exp.Or(**parts))
            return node if listed is None else _of_truth(listed)
        if isinstance(inner, exp.Not):
            return _spelled(bare(inner.this))
        if type(inner) in NEGATED:
            return _spelled(NEGATED[type(inner)](this=inner.this.copy(), expression=inner.expression.copy()))
        return node
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low, high = node.args["low"], node.args["high"]
        if _type_of(low) is None or _type_of(low) != _type_of(high):
            return node  # the ends decide together how they are compared
        ends = ((exp.GTE, bare(low)), (exp.LTE, bare(high)))
        return exp.And(**{
            name: how(this=node.this.copy(), expression=end.copy())
            for name, (how, end) in zip(("this", "expression"), ends, strict=True)
        })  # fmt: skip
    if isinstance(node, exp.Or | exp.In):
        listed = _listed(node)
        return node if listed is None else _of_truth(listed)
    if isinstance(node, exp.Like) and (start := _start_of(node.expression, "%")) is not None:
        return exp.StartsWith(this=node.this.copy(), expression=exp.Literal.string(start))
    if type(node) in FLIPPED:
        first, second = (bare(side) if _type_of(side) else side for side in (node.this, node.expression))
        if _is_after(first, second):
            return _of_start(_of_truth(FLIPPED[type(node)](this=second.copy(), expression=first.copy())))
        return _of_start(_of_truth(type(node)(this=first.copy(), expression=second.copy())))
    return node


def _of_truth(node: exp.Expr) -> exp.Expr:
    """Return a condition as itself where it is compared with TRUE or FALSE, or as its opposite."""
    if not isinstance(node, exp.EQ | exp.NEQ) or not isinstance(node.expression, exp.Boolean):
        return node
    same = bool(node.expression.this) is isinstance(node, exp.EQ)
    return _spelled(bare(node.this) if same else exp.Not(this=node.this.copy()))


def _of_start(node: exp.Expr) -> exp.Expr:
    """Return STARTS_WITH for a condition of the first letters of a text, as LEFT and SUBSTRING give them."""
    of = node.this if isinstance(node, exp.EQ) else None
    if isinstance(of, exp.Left):
        length = of.expression
    elif isinstance(of, exp.Substring) and of.args.get("start") == exp.Literal.number(1):
        length = of.args.get("length")
    else:
        return node
    start = _start_of(node.expression, "")
    if start is None or not isinstance(length, exp.Literal) or length.this != str(len(start)):
        return node
    return exp.StartsWith(this=of.this.copy(), expression=node.expression.copy())


def _start_of(pattern: exp.Expr, end: str) -> str | None:
    """Return the plain letters before the end of a pattern; None where it has others, or ends otherwise."""
    written = pattern.name if isinstance(pattern, exp.Literal) and pattern.is_string else ""
    start = written.removesuffix(end)
    plain = start.isascii() and not set(start) & set("%_\\") and len(start) + len(end) == len(written)
    return start if start and plain else None


def _is_after(first: exp.Expr, second: exp.Expr) -> bool:
    """Return whether the sides of a comparison are to change places: constants stand last, columns by their names."""
    constants = [node.find(exp.Column) is None for node in (first, second)]
    if constants[0] != constants[1]:
        return constants[0]
    columns = isinstance(first, exp.Column) and isinstance(second, exp.Column)
    return columns and first.sql(DIALECT) > second.sql(DIALECT)


def _type_of(node: exp.Expr) -> tuple[object, ...] | None:
    """Return what tells apart how a constant is compared; None where it is no constant that is understood."""
    node = bare(node)
    if isinstance(node, exp.Cast):
        inner = _type_of(node.this)
        return None if inner is None else ("cast", node.to.sql(DIALECT))
    if isinstance(node, exp.Neg):
        return _type_of(node.this)
    if isinstance(node, exp.Boolean):
        return ("truth",)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return ("text",)
        written = str(node.this)  # a fraction is as wide as its digits, and larger numbers are of larger types
        return ("integer",) if written.isdigit() and len(written) < 10 else None
    return None


def _listed(node: exp.Expr) -> exp.Expr | None:
    """Return `x IN (...)` for alternatives that say of one thing which constants it may be; None for others."""
    found: dict[str, exp.Expr] = {}
    what: exp.Expr | None = None
    waiting = [node]
    while waiting:
        one = bare(waiting.pop())
        if isinstance(one, exp.Or):
            waiting += [one.expression, one.this]
            continue
        one = _spelled(one) if isinstance(one, exp.EQ) else one
        if isinstance(one, exp.EQ):
            values = [one.expression]
        elif isinstance(one, exp.In) and one.expressions:
            values = one.expressions
        else:
            return None
        if what is not None and what != one.this:
            return None
        what = one.this
        found |= {bare(value).sql(DIALECT): bare(value) for value in values}
    types = {_type_of(value) for value in found.values()}
    if what is None or len(types) > 1 or None in types:
        return None
    if len(found) == 1:
        return exp.EQ(this=what.copy(), expression=next(iter(found.values())).copy())
    return exp.In(this=what.copy(), expressions=[found[text].copy() for text in sorted(found)])


def _from(tree: exp.Select) -> exp.Expr | None:
    found = tree.args.get("from_") or tree.args.get("from")
    return None if found is None else found.this


def _inlined(tree: exp.Select) -> bool:
    """Put the SELECT that a SELECT selects from into it, and return whether that was done."""
    inside = _from(tree)
    if not isinstance(inside, exp.Subquery) or not isinstance(inside.this, exp.Select):
        return False
    inner, joins = inside.this, tree.args.get("joins") or []
    if {name for name, value in inner.args.items() if value} - PLAIN or inner.args.get("joins"):
        return False
    below = _from(inner)
    if below is None or any(join.side in ("RIGHT", "FULL") for join in joins):
        return False
    columns = {item.alias_or_name.casefold(): item.unalias() for item in inner.selects}
    name, own = inside.alias_or_name, below.alias_or_name
    used = [column for column in tree.find_all(exp.Column) if column.table == name]
    taken = {join.this.alias_or_name for join in joins}
    nested = [node for node in tree.find_all(exp.Select) if node not in (tree, inner) and node.find(exp.Column)]
    if own in taken or any(column.name.casefold() not in columns for column in used):
        return False
    if any(_below(column, node) for column in used for node in nested) or inner.find(exp.Star, exp.Window, exp.AggFunc):
        return False
    for column in used:
        value = columns[column.name.casefold()].copy()
        plain = isinstance(value, exp.Column | exp.Literal) or isinstance(column.parent, exp.Alias | exp.Select)
        column.replace(value if plain else exp.paren(value, copy=False))
    where = inner.args.get("where")
    inside.replace(below.copy())
    if where is not None:
        tree.where(where.this.copy(), copy=False, dialect=DIALECT)
    return True


def _below(node: exp.Expr, ancestor: exp.Expr) -> bool:
    while node.parent is not None and node is not ancestor:
        node = node.parent
    return node is ancestor


def _join_conditions(tree: exp.Select) -> None:
    """Let what equates columns of a table and one before it stand with its join, where all joins are inner ones."""
    joins, where = tree.args.get("joins") or [], tree.args.get("where")
    crossed = {join.this.alias_or_name: join for join in joins if join.kind == "CROSS"}
    if where is None or not crossed or any(join.side or join.kind not in INNER for join in joins):
        return
    first = _from(tree)
    order = [first.alias_or_name if first is not None else "", *(join.this.alias_or_name for join in joins)]
    kept = []
    for condition in all_of(where.this):
        sides = [condition.this, condition.expression] if isinstance(condition, exp.EQ) else []
        tables = {side.table for side in sides if isinstance(side, exp.Column)}
        later = max(tables, key=order.index) if len(tables) == 2 and tables <= set(order) else None
        if later not in crossed or "on" in crossed[later].args:
            kept.append(condition)
            continue
        crossed[later].set("kind", "INNER")
        crossed[later].set("on", condition.copy())
    if kept:
        tree.set("where", exp.Where(this=exp.and_(*kept, copy=True)))
    else:
        tree.set("where", None)


def _number_tables(tree: exp.Select) -> None:
    """Call tables s0, s1, ... in the order in which they stand, where no query stands in the way."""
    first, joins = _from(tree), tree.args.get("joins") or []
    tables = [one for one in (first, *(join.this for join in joins)) if one is not None and one.alias[:1] == "s"]
    if any(node is not tree for node in tree.find_all(exp.Select)) or any(
        not one.alias[1:].isdigit() for one in tables
    ):
        return
    names = {one.alias: f"s{i}" for i, one in enumerate(tables)}
    for one in tables:
        one.set("alias", exp.TableAlias(this=exp.to_identifier(names[one.alias])))
    for column in tree.find_all(exp.Column):
        if column.table in names:
            column.set("table", exp.to_identifier(names[column.table]))
