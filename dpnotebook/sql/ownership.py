"""Ownership: every row below a private aggregation belongs to exactly one privacy unit.

The check of Table 4.3 of the paper, applied bottom-up. Each query over private rows carries the unit of each row in a
column of its own, which no statement can name or overwrite, through projections, groupings, joins and set operations;
what a statement says about the unit's column is checked against the rules, and never trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from dpnotebook.errors import SQLError
from dpnotebook.sql.catalog import columns_of, find_relation
from dpnotebook.sql.expressions import bare, resolve, total
from dpnotebook.sql.grouping import check_grouped, grouping
from dpnotebook.sql.joins import Joiner, join
from dpnotebook.sql.kinds import kind_of
from dpnotebook.sql.queries import (
    CommonTable,
    Environment,
    From,
    Joined,
    Output,
    Rows,
    Source,
    named_outputs,
    output_column,
    unit_column,
)
from dpnotebook.sql.sampling_clause import sampled
from dpnotebook.sql.scope import Column, Owner, Scope
from dpnotebook.sql.set_operations import set_operation
from dpnotebook.sql.statement import ROW_UNIT, Relation
from dpnotebook.sql.surface import call_of, clause_of
from dpnotebook.sql.text import Text

Status = Literal["public", "owned", "released"]

MAX_BUILT = 2_000  # selects that one statement may come to, with its common tables written out wherever they are used
SELECT_PARTS = frozenset(
    {"expressions", "from", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with"}
)
SUBQUERY_PARTS = frozenset({"this", "alias", "with", "order", "limit", "offset"})
KEEPS = "which rows are kept would depend on rows of other units; leave it out below the aggregation"


class Reader(Joiner):
    """A statement as it is being read.

    Parameters
    ----------
    text
        The statement.
    relations
        What its tables are.
    """

    def __init__(self, text: Text, relations: Mapping[str, Relation]) -> None:
        self.text = text
        self.relations = relations
        self.named = False  # whether it names a unit's column anywhere
        self.dropped: list[SQLError] = []  # subqueries that do not select it
        self.notes: list[str] = []
        self._aliases = 0
        self._built = 0
        self._groups_wanted: exp.Select | None = None
        self._status: dict[int, Status] = {}
        self._sources: dict[int, From] = {}
        self._rows: dict[int, Rows] = {}

    # What kind of query it is

    def status(self, query: exp.Expr, environment: Environment) -> Status:
        """Return whether a query reads public tables only, gives rows that belong to units, or releases of them."""
        found = self._status.get(id(query))
        if found is None:
            found = self._status[id(query)] = self._find_status(query, environment)
        return found

    def _find_status(self, query: exp.Expr, environment: Environment) -> Status:
        environment = self.with_common_tables(query, environment)
        if isinstance(query, exp.Subquery):
            return self.source_status(query, environment)
        if isinstance(query, exp.SetOperation):
            return _worst([self.status(query.this, environment), self.status(query.expression, environment)])
        if not isinstance(query, exp.Select):
            return self.source_status(query, environment)
        status = _worst(self.source_status(node, environment) for node in source_nodes(query))
        if status == "owned":
            return "released" if self.is_private_aggregation(query, environment) else "owned"
        inner = [self.status(node, environment) for node in expression_queries(query)]
        return "released" if status == "released" or any(found != "public" for found in inner) else "public"

    def source_status(self, node: exp.Expr, environment: Environment) -> Status:
        """Return the status of something in FROM."""
        if isinstance(node, exp.Subquery):
            statuses = [self.status(node.this, self.with_common_tables(node, environment))]
            statuses += [self.source_status(item.this, environment) for item in node.this.args.get("joins") or []]
            return _worst(statuses)
        if isinstance(node, exp.Table):
            common = self.common_table(node, environment)
            if common is not None:
                return self.status(common.node.this, common.environment)
            return "owned" if find_relation(node, self.relations, self.text).private else "public"
        return "public"

    def is_private_aggregation(self, select: exp.Select, environment: Environment) -> bool:
        """Whether a select over private rows adds up rows of several units."""
        calls = calls_of(select)
        if clause_of(select) is not None or any(call_of(node).private for node in calls):  # type: ignore[union-attr]
            return True
        if not calls and select.args.get("group") is None and select.args.get("having") is None:
            return False
        source = self.source(select, environment, None)
        return not grouping(select, source.scope, environment, self).by_unit

    def refuse_private(self, query: exp.Expr, environment: Environment) -> None:
        """Refuse a subquery of an expression that reads a private table.

        Raises
        ------
        SQLError
            Naming the table.
        """
        if self.status(query, environment) == "public":
            return
        names = [node for node in query.find_all(exp.Table) if self._is_private(node, environment)]
        name = names[0].name if names else "a private table"
        raise self.text.error(
            f"{name} is private and stands in a subquery of an expression: move it to FROM, and join it on the unit",
            names[0] if names else query,
        )

    def _is_private(self, node: exp.Table, environment: Environment) -> bool:
        try:
            return self.source_status(node, environment) != "public"
        except LookupError:
            return False  # a name of a WITH inside the subquery

    # Names

    def with_common_tables(self, query: exp.Expr, environment: Environment) -> Environment:
        """Return what a query can name, with the queries of its WITH clause."""
        clause = query.args.get("with_") or query.args.get("with")
        if clause is None:
            return environment
        if clause.args.get("recursive"):
            raise self.text.error("recursive queries are not supported", clause)
        found = dict(environment)
        here: set[str] = set()
        for node in clause.expressions:
            name = node.alias.casefold()
            if name in here:
                raise self.text.error(f"WITH defines {node.alias} twice", node.args.get("alias") or node)
            here.add(name)
            found[name] = CommonTable(node, dict(found))
        return found

    def common_table(self, node: exp.Table, environment: Environment) -> CommonTable | None:
        """Return the query of a WITH clause that a table in FROM means, if it means one."""
        return environment.get(node.name.casefold()) if len(node.parts) == 1 else None

    def alias(self) -> str:
        """Return a new name for a source."""
        self._aliases += 1
        return f"s{self._aliases - 1}"

    def note(self, words: str) -> None:
        """Keep what the plan should say."""
        if words not in self.notes:
            self.notes.append(words)

    # Sources

    def source(self, select: exp.Select, environment: Environment, outer: Scope | None) -> From:
        """Return what the FROM of a select brings, its ownership checked; the same for the same select."""
        found = self._sources.get(id(select))
        if found is None:
            found = self._sources[id(select)] = self._read_from(select, environment, outer)
        return found

    def _read_from(self, select: exp.Select, environment: Environment, outer: Scope | None) -> From:
        self.check_parts(select, SELECT_PARTS)
        first = from_of(select)
        if first is None:
            return From(Scope([], None, outer))
        clause = clause_of(select)
        found = _first(self.read_source(first, environment, outer, None))
        found.scope.outer = outer
        comma = False
        joins = select.args.get("joins") or []
        for node in joins:
            right = self.read_source(node.this, environment, outer, found)
            wanted = clause is not None and clause.selection == "public" and node is joins[-1]
            self._groups_wanted = select if wanted else None
            if comma and node.side.upper() in ("RIGHT", "FULL"):
                raise self.text.error(
                    f"{node.side} JOIN after a comma is not supported; write JOIN for the comma", node
                )
            comma = comma or not (
                node.side or node.kind or node.method or node.args.get("on") or node.args.get("using")
            )
            found = join(found, right, node, environment, self)
        self._groups_wanted = None
        found.scope.reached = found.scope.reached or (outer is not None and any(j.source.lateral for j in found.joined))
        found.scope.dropped = self._units_dropped(found)
        return found

    def _units_dropped(self, source: From) -> tuple[str, ...]:
        owners = [item.source.owner for item in source.joined if not any(column.unit for column in item.source.columns)]
        return tuple(owner.unit for owner in owners if owner is not None and owner.unit is not None)

    def public_groups(self, left: From, right: Source, how: str) -> Source | None:
        """Return the source that lists the groups of a release, if this join is one with public groups."""
        if self._groups_wanted is None:
            return None
        if how == "RIGHT" and left.owner is not None and right.owner is None and right.distinct:
            return right
        only = left.joined[0].source if len(left.joined) == 1 else None
        if how == "LEFT" and right.owner is not None and only is not None and only.owner is None and only.distinct:
            return only
        return None

    def read_source(self, node: exp.Expr, environment: Environment, outer: Scope | None, before: From | None) -> Source:
        """Return a source of FROM."""
        if isinstance(node, exp.Table):
            self.check_parts(node, frozenset({"this", "alias", "db", "catalog", "sample"}))
            common = self.common_table(node, environment)
            if common is None:
                return self._table(node)
            if node.args.get("sample"):
                raise self.text.error("take the sample of the table itself, in the WITH clause", node)
            self.check_parts(common.node, frozenset({"this", "alias"}))
            rows = self.rows_of(common.node.this, common.environment, None)
            rows = _renamed(rows, common.node, self.text)
            return self._query_source(rows, node, node.alias or node.name)
        if isinstance(node, exp.Subquery):
            self.check_parts(node, SUBQUERY_PARTS)
            if isinstance(node.this, exp.Table):
                raise self.text.error("joins in parentheses are not supported; write them one after the other", node)
            rows = self.rows_of(node, environment, None)
            return self._query_source(rows, node, node.alias)
        if isinstance(node, exp.Unnest):
            return self._unnest(node, environment, outer, before)
        if isinstance(node, exp.Values):
            return self._values(node)
        if isinstance(node, exp.Lateral):
            raise self.text.error("LATERAL is not supported; write a JOIN with a condition", node)
        raise self.text.error("after FROM stands the name of a table, or a query in parentheses", node)

    def _table(self, node: exp.Table) -> Source:
        relation = find_relation(node, self.relations, self.text)
        names = columns_of(relation, node, self.text)
        alias = self.alias()
        qualifier = (node.alias or node.name).casefold()
        renamed = _column_names(node, self.text)
        if len(renamed) > len(names):
            raise self.text.error(f"{relation.name} has {len(names)} columns, not {len(renamed)}", node)
        columns = tuple(
            Column(
                shown,
                qualifier,
                exp.column(exp.to_identifier(name, quoted=True), table=alias),
                relation.columns[name],
                unit=relation.private and name == relation.unit,
                origin=(relation.name, name) if relation.private else None,
            )
            for name, shown in zip(names, [*renamed, *names[len(renamed) :]], strict=True)
        )
        owner = unit = None
        if relation.private:
            owner = Owner(relation.unit, relation.name, relation.columns.get(relation.unit or "", "integer"))
            unit = exp.column(exp.to_identifier(relation.unit or ROW_UNIT, quoted=True), table=alias)

        def build(wanted: Iterable[int]) -> exp.Expr:
            table = exp.to_identifier(relation.name, quoted=True)
            return exp.Table(this=table, alias=exp.TableAlias(this=exp.to_identifier(alias)))

        source = Source(
            alias,
            columns,
            build,
            node.alias or node.name,
            owner,
            unit,
            relation.private and relation.unit is None,
            (relation.name,) if relation.private else (),
            () if relation.private else (relation.name,),
        )
        sample = node.args.get("sample")
        return source if sample is None else sampled(source, sample, self)

    def _query_source(self, rows: Rows, node: exp.Expr, called: str) -> Source:
        """Return a query as a source."""
        alias = self.alias()
        names = _column_names(node, self.text)
        if len(names) > len(rows.outputs):
            raise self.text.error(f"this query has {len(rows.outputs)} columns, not {len(names)}", node)
        named = [*names, *(output.name for output in rows.outputs[len(names) :])]
        columns = tuple(
            Column(
                name,
                called.casefold() or None,
                output_column(alias, number),
                output.kind,
                output.unit,
                output.origin,
                output.lost,
            )
            for number, (name, output) in enumerate(zip(named, rows.outputs, strict=True))
        )

        def build(wanted: Iterable[int]) -> exp.Expr:
            self._built += 1
            if self._built > MAX_BUILT:
                raise self.text.error("the statement comes to too many queries; name fewer of them more than once")
            return exp.Subquery(this=rows.build(wanted), alias=exp.TableAlias(this=exp.to_identifier(alias)))

        unit = None if rows.owner is None else unit_column(alias)
        shown = called or "the subquery"
        single, distinct = rows.single, rows.distinct and rows.owner is None
        return Source(alias, columns, build, shown, rows.owner, unit, single, rows.tables, rows.public, distinct)

    def _unnest(self, node: exp.Unnest, environment: Environment, outer: Scope | None, before: From | None) -> Source:
        if len(node.expressions) != 1 or node.args.get("offset"):
            raise self.text.error("UNNEST takes one array", node)
        scope = Scope(before.scope.columns if before else [], before.scope.unit if before else None, outer)
        argument = total(resolve(node.expressions[0], scope, environment, self))
        alias = self.alias()
        names = _column_names(node, self.text) or ([node.alias] if node.alias else ["unnest"])
        if len(names) != 1:
            raise self.text.error("an array has one column", node)
        qualifier = node.alias.casefold() or None
        column = Column(names[0], qualifier, output_column(alias, 0), None)

        def build(wanted: Iterable[int]) -> exp.Expr:
            columns = [exp.to_identifier("c0")]
            shape = exp.TableAlias(this=exp.to_identifier(alias), columns=columns)
            return exp.Unnest(expressions=[argument.copy()], alias=shape, offset=False)

        lateral = any(True for _ in argument.find_all(exp.Column))
        return Source(alias, (column,), build, names[0], lateral=lateral)

    def _values(self, node: exp.Values) -> Source:
        alias = self.alias()
        width = {len(row.expressions) if isinstance(row, exp.Tuple) else 1 for row in node.expressions}
        if len(width) != 1:
            raise self.text.error("the rows of VALUES have different lengths", node)
        count = width.pop()
        names = _column_names(node, self.text) or [f"col{number}" for number in range(count)]
        names += [f"col{number}" for number in range(len(names), count)]
        firsts = node.expressions[0].expressions if isinstance(node.expressions[0], exp.Tuple) else node.expressions[:1]
        if any(True for row in node.expressions for _ in row.find_all(exp.Column, exp.Query)):
            raise self.text.error("VALUES lists values only", node)
        columns = tuple(
            Column(name, node.alias.casefold() or None, output_column(alias, number), kind_of(firsts[number]))
            for number, name in enumerate(names)
        )

        def build(wanted: Iterable[int]) -> exp.Expr:
            shape = [exp.to_identifier(f"c{number}") for number in range(count)]
            rows = [row.copy() for row in node.expressions]
            return exp.Values(expressions=rows, alias=exp.TableAlias(this=exp.to_identifier(alias), columns=shape))

        return Source(alias, columns, build, node.alias or "VALUES")

    # Queries

    def rows_of(self, query: exp.Expr, environment: Environment, outer: Scope | None) -> Rows:
        """Return a query in FROM, or in WITH; one over private rows that drops the unit is remembered."""
        rows = self.rows(query, environment, outer)
        if rows.owner is not None and rows.owner.unit is not None and not any(output.unit for output in rows.outputs):
            self.dropped.append(self._drops(query, rows))
        return rows

    def rows(self, query: exp.Expr, environment: Environment, outer: Scope | None) -> Rows:
        """Return a query over private rows or over public tables, understood.

        Raises
        ------
        SQLError
            If a row of it could belong to nobody, or to several units, or be an aggregate of several units.
        """
        found = self._rows.get(id(query))
        if found is None:
            found = self._rows[id(query)] = self._read_rows(query, environment, outer)
        return found

    def _read_rows(self, query: exp.Expr, environment: Environment, outer: Scope | None) -> Rows:
        environment = self.with_common_tables(query, environment)
        if isinstance(query, exp.Subquery):
            if query.args.get("limit") or query.args.get("offset"):
                raise self.text.error("write LIMIT inside the parentheses", query)
            return self.rows(query.this, environment, outer)
        if isinstance(query, exp.SetOperation):
            return set_operation(query, environment, outer, self)
        if not isinstance(query, exp.Select):
            raise self.text.error("a subquery is a SELECT", query)
        if self.status(query, environment) == "released":
            raise self.text.error(
                "a private aggregation stands inside another one, or is joined with private rows; below the "
                "aggregation, group by the unit's column too",
                self._aggregation(query),
            )
        source = self.source(query, environment, outer)
        if source.owner is not None and (query.args.get("limit") or query.args.get("offset")):
            raise self.text.error(f"LIMIT below an aggregation is not supported: {KEEPS}", query.args.get("limit"))
        return self._select(query, source, environment)

    def _select(self, query: exp.Select, source: From, environment: Environment) -> Rows:
        scope = source.scope
        group = grouping(query, scope, environment, self)
        aggregated = (
            bool(calls_of(query)) or query.args.get("group") is not None or query.args.get("having") is not None
        )
        outputs = self.outputs(query, scope, environment)
        if aggregated:
            check_grouped(outputs, group, query, self.text)
        if not outputs:
            raise self.text.error("a SELECT lists columns", query)
        aliases = _aliases(query, outputs)
        where = self.condition(query, "where", scope, environment)
        having = self.condition(query, "having", scope, environment, aliases)
        distinct = query.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.text.error(
                "DISTINCT ON is not supported: which row is kept is not said; group by columns", query
            )
        owned = source.owner is not None
        if distinct is not None and source.owner is not None and source.owner.unit is not None:
            unit = source.owner.unit
            if not any(output.unit for output in outputs):
                message = f"SELECT DISTINCT below an aggregation lists the unit's column {unit} too"
                raise self.text.error(message, query.expressions[0])
        tail = [] if owned else self._tail(query, scope, environment, aliases)
        nodes = [total(output.node) for output in outputs]
        keys = [total(key) for key in group.keys]
        every = range(len(outputs))
        by_unit = aggregated and owned

        def build(wanted: Iterable[int]) -> exp.Expr:
            select = exp.Select()
            items = named_outputs(nodes, every if distinct is not None else wanted, scope.unit)
            select.set("expressions", items)
            if distinct is not None:
                select.set("distinct", exp.Distinct())
            used = [*items, *(node for node in (where, having) if node is not None), *keys, *tail]
            if source.joined:
                source.build(select, used)
            if where is not None:
                select.set("where", exp.Where(this=where.copy()))
            grouped = ([scope.unit.copy()] if by_unit and scope.unit is not None else []) + [key.copy() for key in keys]
            if grouped:
                select.set("group", exp.Group(expressions=grouped))
            if having is not None:
                select.set("having", exp.Having(this=having.copy()))
            for node in tail:
                select.set(node.key, node.copy())
            return select

        single = source.single or (by_unit and not keys) or (distinct is not None and all(o.unit for o in outputs))
        return Rows(
            tuple(outputs),
            source.owner,
            build,
            single,
            source.tables,
            source.public,
            distinct is not None,
            scope.reached,
            distinct is not None,
        )

    def condition(
        self,
        query: exp.Select,
        part: str,
        scope: Scope,
        environment: Environment,
        aliases: Mapping[str, Callable[[], exp.Expr]] | None = None,
    ) -> exp.Expr | None:
        """Return WHERE or HAVING of a select, resolved; None without one."""
        written = query.args.get(part)
        if written is None:
            return None
        if part == "where":
            refuse_calls(written.this, "an aggregate stands in WHERE; write the condition as HAVING", self.text)
        return total(resolve(written.this, scope, environment, self, aliases), True)

    def _tail(
        self, query: exp.Select, scope: Scope, environment: Environment, aliases: Mapping[str, Callable[[], exp.Expr]]
    ) -> list[exp.Expr]:
        """Return ORDER BY, LIMIT and OFFSET of a select over public tables."""
        tail: list[exp.Expr] = []
        order = query.args.get("order")
        if order is not None and query.args.get("limit") is not None:
            items = []
            for item in order.expressions:
                copy = item.copy()
                copy.set("this", total(resolve(item.this, scope, environment, self, aliases)))
                items.append(copy)
            tail.append(exp.Order(expressions=items))
        for part in ("limit", "offset"):
            node = query.args.get(part)
            if node is not None:
                if not isinstance(node.expression, exp.Literal):
                    raise self.text.error(f"{part.upper()} is a number that is written out", node)
                tail.append(node.copy())
        return tail

    def outputs(self, query: exp.Select, scope: Scope, environment: Environment) -> list[Output]:
        """Return the columns that a select lists."""
        found: list[Output] = []
        for item in query.expressions:
            node = item.this if isinstance(item, exp.Alias) else item
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                found += self._star(node, scope)
                continue
            resolved = resolve(node, scope, environment, self)
            plain = bare(node)
            located = scope.find(plain, self.text) if isinstance(plain, exp.Column) else None
            name = item.alias_or_name or self.text.words(node)
            if located is not None:
                found.append(_passed(name, resolved, located[0], located[1] is scope))
            else:
                found.append(Output(name, resolved, kind_of(resolved), lost=_lost(name, scope)))
        return found

    def _star(self, node: exp.Expr, scope: Scope) -> list[Output]:
        star = node.this if isinstance(node, exp.Column) else node
        qualifier = node.table.casefold() if isinstance(node, exp.Column) else None
        if star.args.get("replace") or star.args.get("rename"):
            raise self.text.error("* with REPLACE or RENAME is not supported; list the columns", node)
        columns = [
            column for column in scope.columns if (column.shown if qualifier is None else column.qualifier == qualifier)
        ]
        if qualifier is not None and not columns:
            raise self.text.error(f"there is no table {node.table!r} in this FROM", node)  # type: ignore[attr-defined]
        excluded = [name.name for name in star.args.get("except_") or star.args.get("except") or []]
        for name in excluded:
            if not any(column.name.casefold() == name.casefold() for column in columns):
                raise self.text.error(f"there is no column {name!r} to leave out", node)
        folded = {name.casefold() for name in excluded}
        return [
            _passed(column.name, scope.value(column), column, True)
            for column in columns
            if column.name.casefold() not in folded
        ]

    # Errors

    def check_parts(self, node: exp.Expr, known: frozenset[str]) -> None:
        """Refuse parts of a query that have no meaning here."""
        for part, value in node.args.items():
            if part.rstrip("_") not in known and value and part not in ("kind", "only"):
                word = part.rstrip("_").upper()
                raise self.text.error(
                    f"{word} is not supported here", value if isinstance(value, exp.Expression) else node
                )

    def _drops(self, query: exp.Expr, rows: Rows) -> SQLError:
        inner = query
        while isinstance(inner, exp.Subquery):
            inner = inner.this
        assert rows.owner is not None
        items = inner.expressions if isinstance(inner, exp.Select) else []
        unit = rows.owner.unit
        for item in items:
            derived = isinstance(item, exp.Alias) and any(
                column.name.casefold() == str(unit).casefold() for column in item.this.find_all(exp.Column)
            )
            if derived:
                return self.text.error(
                    f"this derives a value from {unit}, and the rows of the subquery have no unit then; select {unit} "
                    "itself too",
                    item,
                )
        return self.text.error(f"this query drops the unit column: select {unit} too", items[0] if items else query)

    def _aggregation(self, query: exp.Select) -> exp.Expr:
        calls = calls_of(query)
        return calls[0] if calls else query.args.get("group") or query


def source_nodes(select: exp.Select) -> list[exp.Expr]:
    """Return what stands in FROM."""
    first = from_of(select)
    return [] if first is None else [first, *(node.this for node in select.args.get("joins") or [])]


def from_of(select: exp.Select) -> exp.Expr | None:
    """Return the first thing in FROM."""
    node = select.args.get("from_") or select.args.get("from")
    return None if node is None else node.this


def expression_queries(select: exp.Select) -> list[exp.Expr]:
    """Return the subqueries in the expressions of a select."""
    roots = [*select.expressions]
    roots += [node for part in ("where", "group", "having", "order") if (node := select.args.get(part)) is not None]
    roots += [on for node in select.args.get("joins") or [] if (on := node.args.get("on")) is not None]
    return [node for root in roots for node in root.walk(prune=_is_query) if _is_query(node)]


def calls_of(select: exp.Select) -> list[exp.Expr]:
    """Return the calls of aggregate functions of a select itself."""
    roots = [*select.expressions]
    roots += [node for part in ("having", "order") if (node := select.args.get(part)) is not None]
    return [
        node
        for root in roots
        for node in root.walk(prune=lambda node: _is_query(node) or call_of(node) is not None)
        if call_of(node) is not None
    ]


def refuse_calls(node: exp.Expr, message: str, text: Text) -> None:
    """Refuse aggregates in an expression."""
    for part in node.walk(prune=_is_query):
        if call_of(part) is not None:
            raise text.error(message, part)


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _worst(statuses: Iterable[Status]) -> Status:
    found = list(statuses)
    return "owned" if "owned" in found else "released" if "released" in found else "public"


def _first(source: Source) -> From:
    scope = Scope(list(source.columns), source.unit)
    return From(scope, [Joined("", source)], source.owner, source.single, source.tables, source.public)


def _column_names(node: exp.Expr, text: Text) -> list[str]:
    """Return the names that an alias such as `t(a, b)` gives to columns."""
    alias = node.args.get("alias")
    names = [] if not isinstance(alias, exp.TableAlias) else [name.name for name in alias.args.get("columns") or []]
    if len({name.casefold() for name in names}) < len(names):
        raise text.error("two columns get the same name", node)
    return names


def _renamed(rows: Rows, node: exp.CTE, text: Text) -> Rows:
    names = _column_names(node, text)
    if len(names) > len(rows.outputs):
        raise text.error(f"{node.alias} has {len(rows.outputs)} columns, not {len(names)}", node)
    outputs = [replace(output, name=name) for output, name in zip(rows.outputs, names, strict=False)]
    return replace(rows, outputs=(*outputs, *rows.outputs[len(names) :]))


def _passed(name: str, resolved: exp.Expr, column: Column, own: bool) -> Output:
    """Return a column that is passed on as it is."""
    return Output(name, resolved, column.kind, column.unit and own, column.origin, column.lost)


def _lost(name: str, scope: Scope) -> str | None:
    """Return the declared column whose name an expression takes."""
    for column in scope.columns:
        if column.name.casefold() == name.casefold():
            if column.origin is not None:
                return column.origin[1]
            if column.lost is not None:
                return column.lost
    return None


def _aliases(query: exp.Select, outputs: list[Output]) -> dict[str, Callable[[], exp.Expr]]:
    if len(query.expressions) != len(outputs):
        return {}
    found: dict[str, Callable[[], exp.Expr]] = {}
    for item, output in zip(query.expressions, outputs, strict=True):
        if isinstance(item, exp.Alias):
            found.setdefault(item.alias.casefold(), output.node.copy)
    return found
