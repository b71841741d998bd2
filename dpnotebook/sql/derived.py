"""Which columns a statement works out from noisy answers, and the query that works them out of redrawn ones.

Above a private aggregation anything may stand: arithmetic, joins, windows, further grouping. Its answer is worked out
once from what was released, and, for its intervals, from many redraws of it: in one query, with what reads a release
once a draw (`LATERAL`).

    SELECT city, paid / n AS mean FROM release_0 ORDER BY mean LIMIT 3

becomes, `redrawn_0` being redraws of `release_0` below each other and `redraws` their numbers,

    SELECT r.draw, q.* FROM redraws AS r, LATERAL (
        SELECT city, paid / n AS mean FROM (SELECT * FROM redrawn_0 WHERE draw = r.draw) AS release_0) AS q
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.sql.analysis.release_names import interval_columns
from dpnotebook.sql.parse.grouping_sets import has_sets, keys_of
from dpnotebook.sql.select import PrivateSelect

DRAW, ROW, DIVISOR = "release draw", "release row", "release divisor"  # columns beside those of a release
KEY = "release key {}"
REDRAWS, REDRAWN = "redraws", "redrawn_{}"  # tables that the query over redraws reads
RELEASE = re.compile(r"release_(\d+)")
ROWWISE = ("joins", "laterals", "group", "having", "distinct", "qualify", "windows", "sample", "with", "with_")
SHOWING = ("order", "limit", "offset")  # parts that say which rows are shown, and not what is in them


def adds_up_groups(outer: str | None) -> bool:
    """Return whether what is worked out from releases adds up, counts or averages rows of theirs."""
    return outer is not None and sqlglot.parse_one(outer, read=DIALECT).find(exp.Sum, exp.Count, exp.Avg) is not None


@dataclass(frozen=True)
class DerivedColumns:
    """What a statement works out from its releases.

    Parameters
    ----------
    noisy
        Of each column of the answer, in order, whether it depends on noise; the others tell its rows apart.
    shown
        Of each column, the column of the release that it is; None where it is another.
    query
        What gives the answer, and behind its columns those that tell its rows apart.
    redrawn
        What gives it for each draw: the draw, the columns, then those that tell rows apart, then divisors.
    rows
        Whether each row of the answer is a row of the release: its number tells it apart.
    apart
        How many columns tell rows apart beside those of the answer: of groups, their keys.
    divisors
        How many numbers that depend on noise are divided by.
    divided
        Of each column, the numbers of the divisors that are in it.
    read
        In lower case, the columns of the release that others are worked out from, or that decide on rows; None where
        that may be all.
    """

    noisy: tuple[bool, ...]
    shown: tuple[str | None, ...]
    query: str
    redrawn: str
    rows: bool
    apart: int
    divisors: int
    divided: tuple[tuple[int, ...], ...]
    read: frozenset[str] | None = None

    def needed(self, names: Sequence[Sequence[str]], alike: Sequence[Sequence[str]]) -> frozenset[str] | None:
        """Return the aggregates that columns are worked out from; None where all may be.

        Parameters
        ----------
        names
            Of the aggregates, by release.
        alike
            What each of them is: those that are the same are redrawn together, as they have one order.
        """
        if self.read is None:
            return None
        own = [one for kinds, of in zip(alike, names, strict=True) for one in zip(kinds, of, strict=True)]
        kinds = {
            kind for kind, name in own if self.read & {part.casefold() for part in (name, *interval_columns(name))}
        }
        return frozenset(name for kind, name in own if kind in kinds) or None


def derived_columns(outer: str, selects: Sequence[PrivateSelect]) -> DerivedColumns | None:
    """Return what a statement works out from its releases; None where that cannot be told from its text.

    Parameters
    ----------
    outer
        The query over releases, as `Statement` has it.
    selects
        The private aggregations that were released.
    """
    tree = sqlglot.parse_one(outer, read=DIALECT)
    releases: dict[str, dict[str, bool]] = {
        f"release_{i}": {key.name: False for key in select.keys}
        | {name: True for part in select.aggregates for name in (part.name, *interval_columns(part.name))}
        for i, select in enumerate(selects)
    }
    if {name.casefold() for columns in releases.values() for name in columns} & {DRAW, ROW}:
        return None
    found = _columns(tree, _Known(releases))
    if found is None or not isinstance(tree, exp.Query) or any(node.args.get("sample") for node in _tables(tree)):
        return None
    rows = _is_rowwise(tree)
    named = [releases[node.name] for node in _tables(tree)]
    items = tree.selects if rows else []
    shown = [
        item.unalias().name if isinstance(item.unalias(), exp.Column) and named[0].get(item.unalias().name) else None
        for item in items
    ]
    if any(item.is_star for item in items):
        shown = [name if noisy else None for name, noisy in named[0].items()]
    query = tree.copy()
    apart = [exp.column(ROW, quoted=True)] if rows else [] if found.keys else _keys(tree)
    if not (rows and query.is_star):
        for node in apart:
            query.select(node, copy=False)
    noisy = tuple(noisy for _, noisy in found.columns)
    each = _divisors(tree, noisy)
    divisors = list({text: node for own in each for text, node in own.items()}.items())
    places = {text: place for place, (text, _) in enumerate(divisors)}
    listed = {name: [*columns, ROW] if rows else list(columns) for name, columns in releases.items()}
    return DerivedColumns(
        noisy,
        tuple(shown) if rows else (None,) * len(found.columns),
        query.sql(DIALECT) if apart else outer,
        _redrawn(query, listed, [node for _, node in divisors], found.rows).sql(DIALECT),
        rows,
        len(apart),
        len(divisors),
        tuple(tuple(places[text] for text in own) for own in each),
        _read(tree) if rows and not tree.is_star else None,
    )


def _read(tree: exp.Query) -> frozenset[str]:
    """Return the names that more is worked out from than a column that shows them, of rows that are told one by one."""
    shown = [item for item in tree.selects if isinstance(item.unalias(), exp.Column)]
    others = [item for item in tree.selects if not isinstance(item.unalias(), exp.Column)]
    others += [node for part in ("where", "order") if (node := tree.args.get(part)) is not None]
    names = {column.name.casefold() for node in others for column in node.find_all(exp.Column)}
    again = {item.unalias().name.casefold() for item in shown if item.alias_or_name.casefold() in names}
    return frozenset(names | again)


# Which columns depend on noise


@dataclass(frozen=True)
class _Output:
    """The columns of a query and whether each depends on noise; whether noise decides on its rows, and on its keys."""

    columns: list[tuple[str, bool]]
    rows: bool = False
    keys: bool = False

    def renamed(self, node: exp.Expr) -> _Output | None:
        """Return it with the names of columns that an alias has: of the first columns, where there are fewer."""
        alias = node.args.get("alias")
        names = [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
        if len(names) > len(self.columns):
            return None
        named = [(new, noisy) for new, (_, noisy) in zip(names, self.columns, strict=False)]
        return _Output([*named, *self.columns[len(names) :]], self.rows)


@dataclass(frozen=True)
class _Known:
    """What a query can name: releases, and queries of WITH clauses."""

    releases: Mapping[str, Mapping[str, bool]]
    common: Mapping[str, _Output] = field(default_factory=dict)

    def source(self, node: exp.Expr, above: Mapping[str, bool]) -> _Output | None:
        """Return the columns of a source of FROM; of public tables nothing is listed, as none depends on noise."""
        found: _Output | None = None
        if isinstance(node, exp.Subquery):
            found = _columns(node, self, above)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if node.name in self.releases:
                found = _Output(list(self.releases[node.name].items()))
            elif node.name.casefold() in self.common:
                found = self.common[node.name.casefold()]
            else:
                return _Output([])
        return None if found is None else found.renamed(node)


def _columns(query: exp.Expr, known: _Known, above: Mapping[str, bool] | None = None) -> _Output | None:
    """Return the columns of a query; None where they cannot be told."""
    above = above or {}
    clause = query.args.get("with_") or query.args.get("with")
    for node in clause.expressions if clause is not None else []:
        found = _columns(node.this, known)
        named = None if found is None else found.renamed(node)
        if named is None:
            return None
        known = _Known(known.releases, {**known.common, node.alias.casefold(): named})
    if isinstance(query, exp.Subquery):
        return _columns(query.this, known, above)
    if isinstance(query, exp.SetOperation):
        one, other = _columns(query.left, known, above), _columns(query.right, known, above)
        if one is None or other is None or len(one.columns) != len(other.columns) or query.args.get("by_name"):
            return None
        both = [(name, a or b) for (name, a), (_, b) in zip(one.columns, other.columns, strict=True)]
        rows = one.rows or other.rows or (query.args.get("distinct", False) and any(noisy for _, noisy in both))
        return _Output(both, rows or query.args.get("limit") is not None)
    return _selected(query, known, above) if isinstance(query, exp.Select) else None


def _selected(query: exp.Select, known: _Known, above: Mapping[str, bool]) -> _Output | None:
    first = query.args.get("from_") or query.args.get("from")
    joins = query.args.get("joins") or []
    named: list[tuple[str, _Output]] = []
    for node in [first.this, *(join.this for join in joins)] if first else []:
        source = known.source(node, above)
        if source is None:
            return None
        named.append((node.alias_or_name.casefold(), source))
    if query.args.get("laterals"):
        return None
    listed = [column for _, source in named for column in source.columns]
    names = {name.casefold(): noisy or above.get(name.casefold(), False) for name, noisy in listed}
    for name, noisy in listed:  # a name that is that of several columns
        names[name.casefold()] |= noisy
    names = {**{name: noisy for name, noisy in above.items() if name not in names}, **names}
    deciding = [query.args.get(part) for part in ("where", "having", "qualify")]
    deciding += [join.args.get("on") for join in joins] + _grouped(query)
    aliased = {item.alias.casefold(): _is_noisy(item, names, known, False) for item in query.expressions if item.alias}
    rows = any(source.rows for _, source in named)
    rows = rows or any(_is_noisy(node, {**aliased, **names}, known, False) for node in deciding if node is not None)
    columns: list[tuple[str, bool]] = []
    before: dict[str, bool] = {}  # a column of the answer may name one that stands before it
    for item in query.expressions:
        if _is_plain_star(item):
            columns += listed
        elif isinstance(item, exp.Column) and _is_plain_star(item.this):
            columns += [column for name, source in named if name == item.table.casefold() for column in source.columns]
        elif item.is_star or isinstance(item, exp.Columns):
            return None
        else:
            noisy = _is_noisy(item, {**before, **names}, known, rows)
            columns.append((item.alias_or_name, noisy))
            before[item.alias.casefold()] = noisy
    ordered = query.args.get("order")
    if query.args.get("limit") or query.args.get("offset"):
        rows = rows or ordered is None or _is_noisy(ordered, {**aliased, **names}, known, rows)
    if query.args.get("distinct"):
        rows = rows or any(noisy for _, noisy in columns)
    return _Output(columns, rows, any(_is_noisy(node, {**aliased, **names}, known, False) for node in _grouped(query)))


def _is_plain_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) and not any(node.args.values())


def _grouped(query: exp.Select) -> list[exp.Expr]:
    """Return what a query groups by."""
    group = query.args.get("group")
    if group is None:
        return []
    return [_item(node, query) for node in keys_of(group)]


def _item(key: exp.Expr, query: exp.Query) -> exp.Expr:
    """Return what a query groups by: for a number what stands at that place in its list."""
    if isinstance(key, exp.Literal) and not key.is_string and 1 <= int(key.this) <= len(query.selects):
        return query.selects[int(key.this) - 1].unalias()
    return key


def _is_noisy(node: exp.Expr, names: Mapping[str, bool], known: _Known, rows: bool) -> bool:
    """Return whether an expression depends on noise, over rows that noise decides on or not."""
    for inner in node.walk(prune=lambda inner: isinstance(inner, exp.Query)):
        if isinstance(inner, exp.Column) and names.get(inner.name.casefold(), False):
            return True
        if rows and isinstance(inner, exp.AggFunc | exp.Window | exp.Anonymous) and not isinstance(inner, exp.Grouping):
            return True
        if isinstance(inner, exp.Query):
            found = _columns(inner, known, names)
            if found is None or found.rows or any(noisy for _, noisy in found.columns):
                return True
    return False


# The query over redraws


def _tables(tree: exp.Expr) -> list[exp.Table]:
    """Return where a query reads releases."""
    return [node for node in tree.find_all(exp.Table) if RELEASE.fullmatch(node.name)]


def _is_rowwise(tree: exp.Expr) -> bool:
    """Return whether each row of the answer is worked out from one row of a release."""
    if not isinstance(tree, exp.Select) or any(tree.args.get(part) for part in ROWWISE):
        return False
    first = tree.args.get("from_") or tree.args.get("from")
    if first is None or not isinstance(first.this, exp.Table) or not RELEASE.fullmatch(first.this.name):
        return False
    many = (exp.AggFunc, exp.Window, exp.Query, exp.Anonymous, exp.Explode, exp.Unnest)
    nodes = [inner for item in tree.expressions for inner in item.walk()]
    return not any(isinstance(node, many) for node in nodes) and not (len(tree.expressions) > 1 and tree.is_star)


def _keys(tree: exp.Query) -> list[exp.Expr]:
    """Return what tells the groups of a query apart: its keys, and which of them each set of keys has."""
    group = tree.args.get("group")
    if not isinstance(tree, exp.Select) or group is None or tree.args.get("distinct") or tree.is_star:
        return []
    keys = list({node.sql(DIALECT): node.copy() for node in _grouped(tree)}.values())
    if any(isinstance(node, exp.Literal) for node in keys):
        return []
    told = [exp.Grouping(expressions=[node.copy() for node in keys])] if has_sets(group) and keys else []
    return [exp.alias_(node, KEY.format(i), quoted=True) for i, node in enumerate([*keys, *told])]


def _divisors(tree: exp.Query, noisy: Sequence[bool]) -> list[dict[str, exp.Expr]]:
    """Return what each noisy column of the answer is divided by, by its text, where that is more than a number."""
    if not isinstance(tree, exp.Select) or tree.is_star or len(tree.expressions) != len(noisy):
        return [{} for _ in noisy]
    found: list[dict[str, exp.Expr]] = []
    named: dict[str, dict[str, exp.Expr]] = {}
    for item, depends in zip(tree.expressions, noisy, strict=True):
        divided = [
            _of_group(node)
            for node in (item.find_all(exp.Div, exp.IntDiv) if depends else ())
            if node.expression.find(exp.Column, exp.Query, exp.AggFunc) is not None
        ]
        own = {node.sql(DIALECT): node for node in divided}
        for column in item.find_all(exp.Column) if depends else ():  # which may be another column of the answer
            own |= named.get(column.name.casefold(), {})
        named[item.alias_or_name.casefold()] = own
        found.append(own)
    return found


def _of_group(ratio: exp.Div | exp.IntDiv) -> exp.Expr:
    """Return what is divided by; of many rows that are added up afterwards, what is nearest to zero."""
    divisor: exp.Expr = ratio.expression
    total = ratio.find_ancestor(exp.AggFunc, exp.Query)
    if not isinstance(total, exp.AggFunc) or isinstance(total.find_ancestor(exp.Window, exp.Query), exp.Window):
        return divisor
    nearest: exp.Expr = exp.func("arg_min", divisor.copy(), exp.func("abs", divisor.copy()))
    if isinstance(total.parent, exp.Filter):
        nearest = exp.Filter(this=nearest, expression=total.parent.expression.copy())
    return nearest


def _redrawn(
    query: exp.Query, releases: Mapping[str, Sequence[str]], divisors: Sequence[exp.Expr], by_noise: bool
) -> exp.Select:
    """Return the query over redraws of releases, whose columns are listed.

    Rows that the last SELECT leaves out for what noise says are in it.
    """
    inner = query.copy()
    for part in SHOWING:
        inner.set(part, None)
    if isinstance(inner, exp.Select):
        grouped = inner.args.get("group") is not None
        within = any(node.find(exp.AggFunc, exp.Window, exp.Anonymous) for node in inner.expressions)
        inner.set("qualify", None)
        if grouped:
            inner.set("having", None)
        elif by_noise and not within and inner.args.get("distinct") is None:
            inner.set("where", None)
        for i, divisor in enumerate(divisors):
            inner.select(exp.alias_(divisor.copy(), f"{DIVISOR} {i}", quoted=True), copy=False)
    draw = exp.column(DRAW, table=REDRAWS, quoted=True)
    for node in _tables(inner):
        own = REDRAWN.format(node.name.removeprefix("release_"))
        rows = exp.select(*(exp.column(name, quoted=True) for name in releases[node.name])).from_(exp.to_table(own))
        rows = rows.where(exp.column(DRAW, table=own, quoted=True).eq(draw.copy()))
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
        node.replace(exp.Subquery(this=rows, alias=alias.copy()))
    lateral = exp.Lateral(this=exp.Subquery(this=inner), alias=exp.TableAlias(this=exp.to_identifier("answer")))
    return exp.select(draw, "answer.*").from_(REDRAWS).join(lateral, join_type="cross")
