"""What is worked out from releases: outer queries, arithmetic, HAVING, ORDER BY, LIMIT, joins and unions of releases.

Private selects are taken out of the statement and become tables `release_0`, `release_1`, ...; the rest of it reads
these and public tables only, and is DuckDB's to run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from dpnotebook.dialect.types import Kind
from dpnotebook.sql.analysis.aggregation import Aggregation, private_aggregation
from dpnotebook.sql.analysis.column_groups import as_groups, is_grouping
from dpnotebook.sql.analysis.merged import of_distinct_units, over_rows, without_sums_of_units
from dpnotebook.sql.analysis.pivots import pivoted
from dpnotebook.sql.analysis.plain import over_one_table
from dpnotebook.sql.analysis.rates import as_means
from dpnotebook.sql.analysis.release_view import View, view
from dpnotebook.sql.analysis.rolled_up import add_counts
from dpnotebook.sql.analysis.roots import as_deviations, as_variances
from dpnotebook.sql.analysis.unit_sums import as_sums_of_units
from dpnotebook.sql.analysis.usual_calls import as_usual_calls
from dpnotebook.sql.analysis.visible_names import (
    NOTHING,
    Names,
    VisibleNames,
    aliased,
    as_duckdb,
    called,
    check_names,
    selected,
)
from dpnotebook.sql.ownership.catalog import find_relation
from dpnotebook.sql.ownership.queries import Environment
from dpnotebook.sql.ownership.reader import Reader
from dpnotebook.sql.ownership.select_parts import calls_of, from_of, source_nodes
from dpnotebook.sql.ownership.status import source_status
from dpnotebook.sql.parse.refusals import PIVOT_OF_GROUPS
from dpnotebook.sql.parse.statement_parser import call_of, clause_of
from dpnotebook.sql.select import ContributionChoice, PrivateSelect
from dpnotebook.sql.statement import Relation

RESERVED = re.compile(r"release_\d+", re.IGNORECASE)
NOTHING_PRIVATE = "nothing here is private: no protected table is read, so ask it of the data itself"


@dataclass
class Outer:
    """The part of a statement above its private selects, as it is being read.

    Parameters
    ----------
    reader
        Who reads the statement.
    contribution
        "l2" to bound all that a unit adds together.
    mentioned
        Every name of a column in the statement, in lower case.
    rates
        Whether counts over counts that they are a part of are measured as means.
    found
        What its private selects measure.
    public
        The public tables that it reads.
    private
        The private selects as they were read; None for one that reads a WITH clause around it.
    grouped
        How aggregates of disjoint rows side by side are measured as one grouping: by "columns" or "conditions"; or
        "units" for sums of what each unit adds up. None where each is measured for itself, and by rows.
    usual
        Whether aggregates that can be written in several ways are written in one.
    has_rates, has_groups, has_usual
        Whether some are.
    can_group
        Whether some would be measured as one grouping, by conditions.
    """

    reader: Reader
    contribution: ContributionChoice | None
    mentioned: set[str]
    rates: bool = True
    grouped: str | None = None
    usual: bool = True
    found: list[Aggregation] = field(default_factory=list)
    public: dict[str, None] = field(default_factory=dict)
    private: list[exp.Select | None] = field(default_factory=list)
    has_rates: bool = False
    has_groups: bool = False
    has_usual: bool = False
    can_group: bool = False
    _common: dict[int, tuple[exp.Expr, Names]] = field(default_factory=dict)

    def query(self, query: exp.Expr, environment: Environment, above: VisibleNames = NOTHING) -> tuple[exp.Expr, Names]:
        """Return a query over releases and public tables, and the names of its columns where they are known.

        Parameters
        ----------
        query
            The query as it was read.
        environment
            Names of WITH clauses.
        above
            What the query around it can name, if it stands in an expression.

        Raises
        ------
        SQLError
            If it shows rows, or a private select in it cannot be measured.
        """
        reader = self.reader
        environment = reader.with_common_tables(query, environment)
        self.check_common(query, environment)
        if isinstance(query, exp.Subquery):
            tree, names = self.query(query.this, environment, above)
            found: exp.Expr = query.copy()
            found.set("this", tree)
        elif isinstance(query, exp.SetOperation):
            self._refuse_rows(query, environment)
            found = query.copy()
            tree, names = self.query(query.this, environment, above)
            found.set("this", tree)
            found.set("expression", self.query(query.expression, environment, above)[0])
        elif isinstance(query, exp.Select):
            self._refuse_rows(query, environment)
            query = self.as_groups(self.over_rows(query, environment), environment)
            if self.is_private(query, environment):
                shown = self.release(query, environment)
                found, names = shown.listed(self.mentioned), tuple(shown.names)
            else:
                found, names = self._passed(query, environment, above)
        else:
            raise reader.text.error("a query is a SELECT", query)
        self.with_common_tables(query, found)
        return found, names

    def is_private(self, query: exp.Expr, environment: Environment) -> bool:
        """Whether a query is a private select itself, and not one over releases."""
        if not isinstance(query, exp.Select):
            return False
        environment = self.reader.with_common_tables(query, environment)
        first = from_of(query)
        nodes = [] if first is None else [first, *(node.this for node in query.args.get("joins") or [])]
        return any(source_status(node, environment, self.reader) == "owned" for node in nodes)

    def as_groups(self, query: exp.Select, environment: Environment) -> exp.Select:
        """Return a private select over the grouping that its aggregates are, where they are to be asked like that."""
        if self.grouped is None or not self.is_private(query, environment):
            return query
        environment = self.reader.with_common_tables(query, environment)
        self._as_usual(query, environment)
        if self.grouped == "units":
            found = self._of_units(query, environment)
        else:
            found = as_groups(query, self.grouped, self.reader.text)
        self.has_groups |= found is not None
        return found or query

    def _of_units(self, query: exp.Select, environment: Environment) -> exp.Select | None:
        """Return sums of what each unit adds up, of one protected table or of one that others are joined to."""
        query = query if query.args.get("joins") else over_one_table(query) or query
        for table in source_nodes(query):
            if not isinstance(table, exp.Table) or self.reader.common_table(table, environment) is not None:
                return None
            relation = find_relation(table, self.reader.relations, self.reader.text)
            if relation.private and relation.unit is None:
                return None
            if relation.private and relation.unit is not None:
                of = table.alias_or_name if query.args.get("joins") else None
                unit = exp.column(exp.to_identifier(relation.unit, quoted=True), of)
                return as_sums_of_units(query, unit, self.reader.text)
        return None

    def _below(self, query: exp.Select, environment: Environment) -> exp.Expr | None:
        """Return the query that a select reads, where it reads nothing else."""
        first = from_of(query)
        common = self.reader.common_table(first, environment) if isinstance(first, exp.Table) else None
        read = [node for node in (first, None if common is None else common.node) if node is not None]
        named = any(isinstance(alias := node.args.get("alias"), exp.TableAlias) and alias.columns for node in read)
        other = named or any(node.args.get(part) for node in read for part in ("pivots", "sample"))
        return None if not read or other or query.args.get("joins") or query.args.get("laterals") else read[-1].this

    def over_rows(self, query: exp.Select, environment: Environment) -> exp.Select:
        """Return a query over another one as one alone, where that is what it says and is measured better.

        Sums of what units have below are sums over rows; ratios of what is summed up below are means.
        """
        inside = self.reader.with_common_tables(query, environment)
        below = self._below(query, inside)
        if not self.usual or not isinstance(below, exp.Select):
            return query
        if self.is_private(query, environment):
            read = self._tables(below, inside)
            is_unit = partial(self._is_unit, read)
            # Of the rows that are declared to count, units may have none in a group of which they have some.
            drawn = self.contribution != "planned" and any(one.max_rows is not None for _, one in read)
            by_group = query.args.get("group") is not None
            ways = [without_sums_of_units] if read else []
            ways += [of_distinct_units] if read and not (drawn and by_group) else []
            found = next((made for way in ways if (made := way(query, below, is_unit)) is not None), None)
            if found is not None:
                self.reader.rows(below, inside, None)  # refused as it is written, where something in it is wrong
        else:
            found = over_rows(query, below, self.reader.text) if self.is_private(below, inside) else None
            if found is not None and not (self.rates and as_means(found.copy(), self.contribution == "planned")):
                found = None
        self.has_usual |= found is not None
        return found or query

    def _usual_calls(self, query: exp.Select, environment: Environment) -> bool:
        """Write aggregates of a private select as they are usually written, and return whether any was another."""
        read = self._tables(query, environment)
        return as_usual_calls(query, partial(self._kind_of, read), partial(self._is_unit, read))

    def _tables(self, query: exp.Select, environment: Environment) -> list[tuple[str, Relation]]:
        """Return the tables that a select reads, by their names in it; none where it reads anything else too.

        None either where some are joined so that units may be missing.
        """
        environment = self.reader.with_common_tables(query, environment)
        found = []
        for node in source_nodes(query):
            if not isinstance(node, exp.Table) or self.reader.common_table(node, environment) is not None:
                return []
            relation = find_relation(node, self.reader.relations, self.reader.text)
            found.append((node.alias_or_name.casefold(), relation))
        return [] if any(join.side for join in query.args.get("joins") or []) else found

    @staticmethod
    def _named(read: list[tuple[str, Relation]], column: exp.Column) -> list[tuple[Relation, str]]:
        """Return the columns of tables that a column may be."""
        return [
            (relation, name)
            for called, relation in read
            for name in relation.columns
            if name.casefold() == column.name.casefold() and column.table.casefold() in ("", called)
        ]

    def _kind_of(self, read: list[tuple[str, Relation]], column: exp.Column) -> Kind | None:
        kinds = {relation.columns[name] for relation, name in self._named(read, column)}
        return kinds.pop() if len(kinds) == 1 else None

    def _is_unit(self, read: list[tuple[str, Relation]], column: exp.Column) -> bool:
        found = self._named(read, column)
        return bool(found) and all(relation.private and relation.unit == name for relation, name in found)

    def _as_usual(self, query: exp.Select, environment: Environment) -> None:
        """Write what a private select asks for as what is measured for it."""
        self.has_usual |= self.usual and self._usual_calls(query, environment)
        self.has_rates |= self.rates and as_means(
            query, self.contribution == "planned", self._below(query, environment)
        )
        as_variances(query)
        as_deviations(query)

    def release(self, query: exp.Select, environment: Environment) -> View:
        """Return what a private select shows of its release, which is added to those of the statement."""
        self._check_qualify(query)
        by_name = any(node.name.casefold() in environment for node in query.find_all(exp.Table))
        environment = self.reader.with_common_tables(query, environment)
        self._as_usual(query, environment)
        self.can_group |= self.grouped is None and is_grouping(query)
        add_counts(query)
        found = private_aggregation(query, environment, self.reader, self.contribution)
        if found.measured not in self.selects:
            self.found.append(found)
            self.private.append(None if by_name else query)
        return view(query, found, self.selects.index(found.measured), self, environment)

    @property
    def selects(self) -> list[PrivateSelect]:
        """The private selects of the statement."""
        return [found.measured for found in self.found]

    def known(self, columns: list[str]) -> VisibleNames:
        """Return what subqueries in the list of a private select can name: the columns of its release."""
        return VisibleNames(tuple(columns))

    def scalar(self, node: exp.Expr, environment: Environment, around: VisibleNames) -> exp.Expr:
        """Return a subquery of an expression over releases."""
        inner = node
        while isinstance(inner, exp.Subquery):
            inner = inner.this
        if self.reader.status(inner, environment) == "owned":
            self.reader.refuse_private(inner, environment)
        tree, _ = self.query(inner, environment, around)
        return tree if isinstance(node.parent, exp.Exists) else exp.Subquery(this=tree)

    # Over releases and public tables

    def _passed(self, query: exp.Select, environment: Environment, above: VisibleNames) -> tuple[exp.Select, Names]:
        """Return a select over releases and public tables, as it was written."""
        self._check_clause(query, environment)
        self._check_qualify(query)
        own = NOTHING
        found = query.copy()
        first = from_of(query)
        if first is not None:
            tree, names = self._source(first, environment)
            found.set("from_", None)
            found.set("from", None)
            found.from_(tree, copy=False)
            own = VisibleNames(names, called(first))
        for written, node in zip(query.args.get("joins") or [], found.args.get("joins") or [], strict=True):
            tree, names = self._source(written.this, environment)
            node.set("this", tree)
            own += VisibleNames(names, called(written.this))
        self._expressions(query, found, environment, own + above)
        check_names(query, own + above, self.reader.text)
        return found, selected(query, own.names)

    def _source(self, node: exp.Expr, environment: Environment) -> tuple[exp.Expr, Names]:
        if isinstance(node, exp.Subquery):
            tree, names = self.query(node.this, self.reader.with_common_tables(node, environment))
            found = node.copy()
            found.set("this", tree)
            if node.args.get("pivots"):
                return pivoted(node, found, names, self.reader.text)
            return found, aliased(node, names)
        if not isinstance(node, exp.Table):
            if any(True for _ in node.find_all(exp.Query)):
                raise self.reader.text.error("a query stands in FROM by itself, or in an expression", node)
            return node.copy(), None
        common = self.reader.common_table(node, environment)
        if common is not None:
            names = aliased(common.node, self._common_table(common.node, common.environment)[1])
            if node.args.get("pivots"):
                return pivoted(node, node.copy(), names, self.reader.text)
            return node.copy(), aliased(node, names)
        relation = find_relation(node, self.reader.relations, self.reader.text)
        if RESERVED.fullmatch(relation.name):
            raise self.reader.text.error(
                f"{relation.name} is what a release is called here; register the table anew", node
            )
        self.public[relation.name] = None
        table = exp.Table(this=exp.to_identifier(relation.name, quoted=True), alias=node.args.get("alias"))
        if not node.alias:
            table = exp.alias_(table, node.name, table=True, quoted=True)  # type: ignore[assignment]
        if node.args.get("sample"):
            table.set("sample", node.args["sample"].copy())
        if node.args.get("pivots"):
            return pivoted(node, table, tuple(relation.columns), self.reader.text)
        return table, aliased(node, tuple(relation.columns))

    def _common_table(self, node: exp.CTE, environment: Environment) -> tuple[exp.Expr, Names]:
        found = self._common.get(id(node))
        if found is None:
            found = self._common[id(node)] = self.query(node.this, environment)
        return found

    def with_common_tables(self, query: exp.Expr, found: exp.Expr) -> None:
        """Give a query those queries of its WITH clause that it reads and that are over releases."""
        clause = query.args.get("with_") or query.args.get("with")
        for part in ("with", "with_"):
            if found.args.get(part) is not None:
                found.set(part, None)
        if clause is None:
            return
        used = [node for node in clause.expressions if id(node) in self._common]
        for node in used:
            if RESERVED.fullmatch(node.alias):
                raise self.reader.text.error(f"{node.alias} is what a release is called here; take another name", node)
        if used:
            items = []
            for node in used:
                item = node.copy()
                item.set("this", self._common[id(node)][0].copy())
                items.append(item)
            part = "with_" if "with_" in query.args else "with"
            found.set(part, exp.With(expressions=items))

    def _expressions(
        self, query: exp.Select, found: exp.Select, environment: Environment, around: VisibleNames
    ) -> None:
        """Replace the subqueries in the expressions of a select, and write aggregates as DuckDB does."""
        pairs = list(zip(query.expressions, found.expressions, strict=True))
        for part in ("where", "group", "having", "qualify", "order"):
            if query.args.get(part) is not None:
                pairs.append((query.args[part], found.args[part]))
        for written, made in zip(query.args.get("joins") or [], found.args.get("joins") or [], strict=True):
            if written.args.get("on") is not None:
                pairs.append((written.args["on"], made.args["on"]))
        for written, made in pairs:
            self._replace(written, made, environment, around)

    def _replace(self, before: exp.Expr, after: exp.Expr, environment: Environment, around: VisibleNames) -> None:
        def stops(node: exp.Expr) -> bool:
            return isinstance(node, exp.Query)

        pairs = zip(list(before.walk(prune=stops)), list(after.walk(prune=stops)), strict=True)
        for written, made in list(pairs):
            if stops(written):
                made.replace(self.scalar(written, environment, around))
            elif call_of(written) is not None and made.parent is not None:
                plain = as_duckdb(made)
                if plain is not made:
                    made.replace(plain)

    # Errors

    def check_common(self, query: exp.Expr, environment: Environment) -> None:
        """Refuse queries of a WITH clause that cannot be read, used or not."""
        clause = query.args.get("with_") or query.args.get("with")
        for node in clause.expressions if clause is not None else []:
            common = environment[node.alias.casefold()]
            self.reader.status(common.node.this, common.environment)

    def _refuse_rows(self, query: exp.Expr, environment: Environment) -> None:
        """Refuse a query that would show rows of private tables."""
        if self.reader.status(query, environment) != "owned":
            return
        text = self.reader.text
        select = query
        while not isinstance(select, exp.Select):
            branches = [select.this, select.args.get("expression")]
            select = next(
                (node for node in branches if node and self.reader.status(node, environment) == "owned"), select.this
            )
        at = select.expressions[0] if select.expressions else query
        if select.args.get("distinct") is not None:
            raise text.error(
                "SELECT DISTINCT would show values of rows: write SELECT column, COUNT(*) ... GROUP BY column", at
            )
        if calls_of(select) or select.args.get("group") is not None:
            raise text.error(
                "each row of this would be about a single unit; group by other columns, or use this query in FROM of "
                "one that aggregates over units",
                select.args.get("group") or at,
            )
        if select.find(exp.Pivot) is not None:
            raise text.error(PIVOT_OF_GROUPS, at)
        raise text.error("rows cannot be shown; add COUNT(*), SUM(column) or AVG(column)", at)

    def _check_qualify(self, query: exp.Select) -> None:
        """Refuse a QUALIFY that is about no window."""
        kept = query.args.get("qualify")
        if kept is not None and not any(part.find(exp.Window) for part in (kept, *query.expressions)):
            instead = "HAVING" if query.args.get("group") is not None or calls_of(query) else "WHERE"
            raise self.reader.text.error(f"QUALIFY is a condition on a window; write this one as {instead}", kept.this)

    def _check_clause(self, query: exp.Select, environment: Environment) -> None:
        """Refuse what is only for private tables in a select over releases or public tables."""
        clause = clause_of(query)
        private = next((node for node in calls_of(query) if (call := call_of(node)) is not None and call.private), None)
        if clause is None and private is None:
            return
        at = clause.token if clause is not None and clause.token is not None else private
        if self.reader.status(query, environment) == "public":
            raise self.reader.text.error(NOTHING_PRIVATE, at)
        raise self.reader.text.error(
            "a private query stands inside a private query: group the one inside by the unit's column too, "
            "or leave the "
            "outer clause out",
            at,
        )
