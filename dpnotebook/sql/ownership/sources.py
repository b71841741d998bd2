"""What stands in FROM: tables, queries, arrays of rows, each under a name of our own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.expressions import MaybeKind, joint, kind_of
from dpnotebook.dialect.text import Text
from dpnotebook.dialect.types import ROW_UNIT
from dpnotebook.sql.ownership.catalog import columns_of, find_relation
from dpnotebook.sql.ownership.clocks import by_clocks
from dpnotebook.sql.ownership.expressions import resolve, total
from dpnotebook.sql.ownership.joins import join
from dpnotebook.sql.ownership.multiplied import repeats
from dpnotebook.sql.ownership.populations import population_of
from dpnotebook.sql.ownership.queries import Environment, From, FromItem, Joined, Rows, output_column, unit_column
from dpnotebook.sql.ownership.scope import UNIT, Column, Owner, Scope
from dpnotebook.sql.ownership.select_parts import from_of
from dpnotebook.sql.parse.refusals import PIVOT_OF_GROUPS
from dpnotebook.sql.parse.statement_parser import clause_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol

SELECT_PARTS = frozenset(
    {
        *("expressions", "from", "joins", "where", "group", "having", "qualify", "order", "limit", "offset"),
        *("distinct", "with"),
    }
)
SUBQUERY_PARTS = frozenset({"this", "alias", "with", "order", "limit", "offset"})

SAMPLE_DIGITS = 8

# What leaves out rows of public tables.
NARROWING = (exp.Where, exp.Having, exp.Qualify, exp.Limit, exp.Join, exp.TableSample, exp.Except, exp.Intersect)


def read_from(select: exp.Select, environment: Environment, outer: Scope | None, reader: ReaderProtocol) -> From:
    """Return what the FROM of a select brings, its ownership checked."""
    reader.check_parts(select, SELECT_PARTS)
    first = from_of(select)
    if first is None:
        return From(Scope([], None, outer))
    clause = clause_of(select)
    found = _first(read_source(first, environment, outer, None, reader))
    found.scope.outer = outer
    comma = False
    joins = select.args.get("joins") or []
    for node in joins:
        right = read_source(node.this, environment, outer, found, reader)
        wanted = clause is not None and clause.selection == "public" and node is joins[-1]
        reader.groups_wanted = select if wanted else None
        if comma and node.side.upper() in ("RIGHT", "FULL"):
            raise reader.text.error(f"{node.side} JOIN after a comma is not supported; write JOIN for the comma", node)
        comma = comma or not (node.side or node.kind or node.method or node.args.get("on") or node.args.get("using"))
        found = join(found, right, node, environment, reader)
    reader.groups_wanted = None
    found.scope.dropped = _units_dropped(found)
    found.scope.owner = found.owner
    return found


def _units_dropped(source: From) -> tuple[str, ...]:
    """Return the units' columns that queries in FROM do not select, for errors."""
    owners = [item.source.owner for item in source.joined if not any(column.unit for column in item.source.columns)]
    return tuple(owner.unit for owner in owners if owner is not None and owner.unit is not None)


def read_source(
    node: exp.Expr, environment: Environment, outer: Scope | None, before: From | None, reader: ReaderProtocol
) -> FromItem:
    """Return a source of FROM."""
    if node.args.get("pivots"):
        raise reader.text.error(PIVOT_OF_GROUPS, node)
    if isinstance(node, exp.Table):
        reader.check_parts(node, frozenset({"this", "alias", "db", "catalog", "sample"}))
        common = reader.common_table(node, environment)
        if common is None:
            return _table(node, reader)
        if node.args.get("sample"):
            raise reader.text.error("take the sample of the table itself, in the WITH clause", node)
        reader.check_parts(common.node, frozenset({"this", "alias"}))
        rows = reader.rows_of(common.node.this, common.environment, None)
        rows = _renamed(rows, common.node, reader.text)
        return _query_source(rows, node, node.alias or node.name, reader)
    if isinstance(node, exp.Subquery):
        reader.check_parts(node, SUBQUERY_PARTS)
        if isinstance(node.this, exp.Table):
            raise reader.text.error("joins in parentheses are not supported; write them one after the other", node)
        rows = reader.rows_of(node, environment, None)
        return _query_source(rows, node, node.alias, reader)
    if isinstance(node, exp.Unnest):
        return _unnest(node, environment, outer, before, reader)
    if isinstance(node, exp.Values):
        return _values(node, reader)
    if isinstance(node, exp.Lateral):
        raise reader.text.error("LATERAL is not supported; write a JOIN with a condition", node)
    raise reader.text.error("after FROM stands the name of a table, or a query in parentheses", node)


def _table(node: exp.Table, reader: ReaderProtocol) -> FromItem:
    relation = find_relation(node, reader.relations, reader.text)
    names = columns_of(relation, node, reader.text)
    alias = reader.alias()
    qualifier = (node.alias or node.name).casefold()
    renamed = _column_names(node, reader.text)
    if len(renamed) > len(names):
        raise reader.text.error(f"{relation.name} has {len(names)} columns, not {len(renamed)}", node)
    columns = tuple(
        Column(
            shown,
            qualifier,
            exp.column(exp.to_identifier(name, quoted=True), table=alias),
            relation.columns[name],
            unit=relation.private and name == relation.unit,
            origin=(relation.name, name),
            element=relation.elements.get(name),
            rounded=name in relation.rounded,
            row=alias,
            untyped=name in relation.untyped,
            form=relation.forms.get(name, ""),
        )
        for name, shown in zip(names, [*renamed, *names[len(renamed) :]], strict=True)
    )
    owner = unit = None
    if relation.private:
        kind = relation.columns.get(relation.unit or "", "integer")
        populations = frozenset([population_of(relation)])
        owner = Owner(relation.unit, relation.name, kind, populations, relation.population)
        unit = exp.column(exp.to_identifier(relation.unit or ROW_UNIT, quoted=True), table=alias)

    def build(wanted: Iterable[int]) -> exp.Expr:
        table: exp.Expr = exp.Table(this=exp.to_identifier(relation.name, quoted=True))
        wanted_names = [names[number] for number in wanted]
        if not relation.clocks.keys().isdisjoint(wanted_names):
            table = by_clocks(relation, table, wanted_names)
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        return table

    source = FromItem(
        alias,
        columns,
        build,
        node.alias or node.name,
        owner,
        unit,
        relation.private and relation.unit is None,
        (relation.name,) if relation.private else (),
        () if relation.private else (relation.name,),
        times=1 if relation.private else repeats(relation, ()),
    )
    sample = node.args.get("sample")
    return source if sample is None else sampled(source, sample, reader)


def _query_source(rows: Rows, node: exp.Expr, called: str, reader: ReaderProtocol) -> FromItem:
    """Return a query as a source."""
    alias = reader.alias()
    names = _column_names(node, reader.text)
    if len(names) > len(rows.outputs):
        raise reader.text.error(f"this query has {len(rows.outputs)} columns, not {len(names)}", node)
    named = [*names, *(output.name for output in rows.outputs[len(names) :])]
    narrowing = [one for one in NARROWING if one is not exp.Where or not rows.within]
    narrows = rows.owner is None and rows.build(range(len(rows.outputs))).find(*narrowing) is not None
    columns = tuple(
        Column(
            name,
            called.casefold() or None,
            output_column(alias, number),
            output.kind,
            output.unit,
            output.origin,
            output.lost,
            element=output.element,
            rounded=output.rounded,
            growth=output.growth,
            numbers=output.numbers,
            missing=output.missing,
            narrowed=output.narrowed or narrows,
            row=output.row and f"{alias}, {output.row}",  # a query that is read twice gives two rows
            absent=output.absent and rows.padding is not None,
            within=rows.within or output.within,
            untyped=output.untyped,
            form=output.form,
            unit_or_null=output.unit_or_null,
            ends=output.ends,
        )
        for number, (name, output) in enumerate(zip(named, rows.outputs, strict=True))
    )

    def build(wanted: Iterable[int]) -> exp.Expr:
        reader.count_built()
        return exp.Subquery(this=rows.build(wanted), alias=exp.TableAlias(this=exp.to_identifier(alias)))

    unit = None if rows.owner is None else unit_column(alias)
    shown = called or "the subquery"
    single, distinct = rows.single, rows.distinct and rows.owner is None
    made = FromItem(alias, columns, build, shown, rows.owner, unit, single, rows.tables, rows.public, distinct)
    return replace(made, padding=rows.padding, times=rows.times)


def _unnest(
    node: exp.Unnest, environment: Environment, outer: Scope | None, before: From | None, reader: ReaderProtocol
) -> FromItem:
    if len(node.expressions) != 1 or node.args.get("offset"):
        raise reader.text.error("UNNEST takes one array", node)
    scope = Scope(before.scope.columns if before else [], before.scope.unit if before else None, outer)
    resolved = resolve(node.expressions[0], scope, environment, reader)
    if kind_of(resolved) not in (None, "other"):
        raise reader.text.error(
            "UNNEST is of an array, and this is a single value; a column of lists in a frame is one as astype("
            "pd.ArrowDtype(pyarrow.list_(pyarrow.string())))",
            node.expressions[0],
        )
    argument = total(resolved)
    alias = reader.alias()
    names = _column_names(node, reader.text) or ([node.alias] if node.alias else ["unnest"])
    if len(names) != 1:
        raise reader.text.error("an array has one column", node)
    qualifier = node.alias.casefold() or None
    kind, rounded = _element(node.expressions[0], scope, reader.text)
    column = Column(names[0], qualifier, output_column(alias, 0), kind, rounded=rounded)

    def build(wanted: Iterable[int]) -> exp.Expr:
        columns = [exp.to_identifier("c0")]
        shape = exp.TableAlias(this=exp.to_identifier(alias), columns=columns)
        return exp.Unnest(expressions=[argument.copy()], alias=shape, offset=False)

    lateral = any(True for _ in argument.find_all(exp.Column))
    return FromItem(alias, (column,), build, names[0], lateral=lateral, times=None)


def _element(array: exp.Expr, scope: Scope, text: Text) -> tuple[MaybeKind, bool]:
    """Return what the elements of an array hold, None where that is not known; and whether they are rounded."""
    if isinstance(array, exp.Array):
        return joint(kind_of(item) for item in array.expressions if not isinstance(item, exp.Null)), False
    found = scope.find(array, text) if isinstance(array, exp.Column) else None
    return (None, False) if found is None else (found[0].element, found[0].rounded)


def _values(node: exp.Values, reader: ReaderProtocol) -> FromItem:
    alias = reader.alias()
    width = {len(row.expressions) if isinstance(row, exp.Tuple) else 1 for row in node.expressions}
    if len(width) != 1:
        raise reader.text.error("the rows of VALUES have different lengths", node)
    count = width.pop()
    names = _column_names(node, reader.text) or [f"col{number}" for number in range(count)]
    names += [f"col{number}" for number in range(len(names), count)]
    firsts = node.expressions[0].expressions if isinstance(node.expressions[0], exp.Tuple) else node.expressions[:1]
    if any(True for row in node.expressions for _ in row.find_all(exp.Column, exp.Query)):
        raise reader.text.error("VALUES lists values only", node)
    columns = tuple(
        Column(name, node.alias.casefold() or None, output_column(alias, number), kind_of(firsts[number]))
        for number, name in enumerate(names)
    )

    def build(wanted: Iterable[int]) -> exp.Expr:
        shape = [exp.to_identifier(f"c{number}") for number in range(count)]
        rows = [row.copy() for row in node.expressions]
        return exp.Values(expressions=rows, alias=exp.TableAlias(this=exp.to_identifier(alias), columns=shape))

    return FromItem(alias, columns, build, node.alias or "VALUES", times=len(node.expressions))


def _first(source: FromItem) -> From:
    scope = Scope(list(source.columns), source.unit)
    found = From(scope, [Joined("", source)], source.owner, source.single, source.tables, source.public)
    found.padding, found.times = source.padding, source.times
    return found


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


# TABLESAMPLE: a sample of the units of a private table, the same for everyone else when one unit leaves.
#
# An engine's sample of rows depends on where other rows lie, and differs between the queries of one statement. So what
# is kept is decided by each unit's own digest: that is a condition on the row, like one in WHERE. Rows that are units
# have nothing to tell them by but their place, which moves when another row leaves.
def sampled(source: FromItem, sample: exp.TableSample, reader: ReaderProtocol) -> FromItem:
    """Return a sample of a table.

    Parameters
    ----------
    source
        The table.
    sample
        The clause as it was read.
    reader
        Who reads the statement.

    Raises
    ------
    SQLError
        If it is a private table's, and is not a percentage that is written out, or rows are units of their own.
    """
    if source.unit is None:

        def with_sample(wanted: Iterable[int]) -> exp.Expr:
            table = source.build(wanted)
            table.set("sample", sample.copy())
            return table

        return replace(source, build=with_sample)
    if source.owner is not None and source.owner.unit is None:
        raise reader.text.error(
            f"each row of {source.called} is a unit of its own, and which of them are in a sample would depend on the "
            "others: leave TABLESAMPLE out, or protect it with unit=",
            sample,
        )
    percent, seed = sample.args.get("percent"), sample.args.get("seed")
    extra = [part for part, value in sample.args.items() if value and part not in ("percent", "seed", "method", "this")]
    if extra or not _is_number(percent) or (seed is not None and not isinstance(seed, exp.Literal)):
        raise reader.text.error(
            f"a sample of a private table is a percentage of its units: {source.called} TABLESAMPLE BERNOULLI "
            "(10 PERCENT)",
            sample,
        )
    assert percent is not None
    share = min(max(Fraction(str(percent.this)) / 100, Fraction(0)), Fraction(1))
    limit = int(share * 16**SAMPLE_DIGITS)
    salt = "" if seed is None else str(seed.this)
    alias, unit = reader.alias(), source.unit
    reader.note(
        f"a sample of {float(100 * share):g}% of the units of {source.called} takes part, the same ones every time; "
        "counts are of the sample"
    )

    def build(wanted: Iterable[int]) -> exp.Expr:
        chosen = list(wanted)
        items = [exp.alias_(unit.copy(), UNIT)]
        items += [exp.alias_(source.columns[number].node.copy(), f"c{number}") for number in chosen]
        text = exp.Concat(
            expressions=[exp.cast(unit.copy(), "text"), exp.Literal.string(f"|{salt}")], safe=False, coalesce=False
        )
        digest = exp.Substring(
            this=exp.MD5(this=text), start=exp.Literal.number(1), length=exp.Literal.number(SAMPLE_DIGITS)
        )
        select = exp.Select(expressions=items).from_(source.build(chosen), copy=False)
        if limit < 16**SAMPLE_DIGITS:
            below = exp.LT(this=digest, expression=exp.Literal.string(f"{limit:0{SAMPLE_DIGITS}x}"))
            select.set("where", exp.Where(this=below))
        return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(alias)))

    columns = tuple(replace(column, node=output_column(alias, number)) for number, column in enumerate(source.columns))
    return replace(source, alias=alias, columns=columns, unit=unit_column(alias), build=build)


def _is_number(node: exp.Expr | None) -> bool:
    if not isinstance(node, exp.Literal) or node.is_string:
        return False
    try:
        return Fraction(str(node.this)) >= 0
    except ValueError:
        return False
