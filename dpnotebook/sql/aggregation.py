"""The private aggregation: from a select over private rows to what is measured of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dpnotebook.domain import Attribute
from dpnotebook.sql.contributions import Limits, bounds_of, contribution_of, edges_of
from dpnotebook.sql.expressions import bare, column_of, resolve, total
from dpnotebook.sql.grouping import Grouping, grouping
from dpnotebook.sql.keys import KeyColumn, key_columns
from dpnotebook.sql.kinds import kind_of
from dpnotebook.sql.ownership import Reader
from dpnotebook.sql.queries import Environment, From
from dpnotebook.sql.release_names import Names
from dpnotebook.sql.rows_text import groups_text, rows_text
from dpnotebook.sql.scope import Column
from dpnotebook.sql.select_parts import calls_of
from dpnotebook.sql.selects import condition
from dpnotebook.sql.statement import Aggregate, Kind, PrivateSelect, Relation, Selection, plainly
from dpnotebook.sql.surface import Call, Clause, call_of, clause_of

NUMBERS = ("integer", "number", "boolean")


@dataclass
class Aggregation:
    """A private aggregation and where its columns are in the select that it was read from.

    Parameters
    ----------
    measured
        What is measured.
    keys
        Its keys, as they were grouped by.
    names
        The column of the release by the identity of each call in the tree.
    group
        The grouping.
    source
        What it reads.
    """

    measured: PrivateSelect
    keys: list[KeyColumn]
    names: dict[int, str]
    group: Grouping
    source: From


def private_aggregation(
    select: exp.Select, environment: Environment, reader: Reader, contribution: str | None
) -> Aggregation:
    """Return what a select over private rows measures.

    Parameters
    ----------
    select
        The select as it was read.
    environment
        Names of WITH clauses.
    reader
        Who reads the statement.
    contribution
        "l2" to bound all that a unit adds together.

    Raises
    ------
    SQLError
        If it asks for something that cannot be measured privately.
    """
    text, relations = reader.text, reader.relations
    clause = clause_of(select)
    if select.args.get("distinct") is not None:
        raise text.error(
            "SELECT DISTINCT is not supported here: GROUP BY lists every combination once", select.expressions[0]
        )
    calls = calls_of(select)
    if not calls:
        at = select.args.get("group") or select.expressions[0]
        raise text.error("there is no aggregate here: add COUNT(*), which counts the rows of each group", at)
    source = reader.source(select, environment, None)
    assert source.owner is not None
    _check_unit(clause, source, reader)
    group = grouping(select, source.scope, environment, reader)
    if group.by_unit:
        raise text.error(
            f"each group would be a single {source.owner.unit}; group by other columns, or use this query in FROM",
            select.args["group"],
        )
    private = clause is not None or any(_call(node).private for node in calls)
    limits, notes = contribution_of(clause, private, contribution, source, relations, len(group.all), text)
    names = Names(text)
    keys = key_columns(list(group.all), names.keys(group, select), relations)
    inputs: list[exp.Expr] = []
    asked: list[tuple[Aggregate, list[exp.Expr]]] = []
    for node in calls:
        aggregate = _aggregate(node, source, environment, reader, limits, inputs)
        same = next((nodes for other, nodes in asked if _same(other, aggregate)), None)
        if same is None:
            asked.append((aggregate, [node]))
        else:
            same.append(node)
    aggregates = _named(asked, _aliases(select), names, source, reader)
    called = {id(node): one.name for one, (_, nodes) in zip(aggregates, asked, strict=True) for node in nodes}
    where = condition(select, "where", source.scope, environment, reader)
    min_units = 1 if clause is None or clause.min_units is None else clause.min_units
    selection = _selection(clause, keys, min_units)
    groups = None
    if selection == "public":
        groups = groups_text(_public_keys(select, group, source, reader), source)
        keys = [replace(column, key=replace(column.key, levels=None), attribute=None) for column in keys]
    rows, tables = rows_text(source, where, keys, inputs)
    measured = PrivateSelect(
        rows,
        source.tables,
        tuple(name for name in tables if name not in source.tables),
        tuple(column.key for column in keys),
        tuple(aggregates),
        len(inputs),
        limits.contribution,
        selection,
        groups,
        min_units,
        None if clause is None else clause.epsilon,
        None if clause is None else clause.delta,
        None if clause is None else clause.selection_epsilon,
        source.single,
        tuple(dict.fromkeys([*notes, *reader.notes, *_bounds_notes(aggregates)])),
        private,
    )
    return Aggregation(measured, keys, called, group, source)


def _call(node: exp.Expr) -> Call:
    call = call_of(node)
    assert call is not None
    return call


def _aliases(select: exp.Select) -> dict[int, str]:
    """Return the names of the items of the list that are calls by themselves, by the identity of the call."""
    return {id(bare(item.this)): item.alias for item in select.expressions if isinstance(item, exp.Alias)}


def _aggregate(
    node: exp.Expr, source: From, environment: Environment, reader: Reader, limits: Limits, inputs: list[exp.Expr]
) -> Aggregate:
    call, text = _call(node), reader.text
    words = plainly(call.words or text.words(node))
    if call.star or call.argument is None:
        bounds, origin = bounds_of(call, None, None, limits, node)
        return Aggregate(call.kind, "", None, bounds, origin, call.epsilon, integer=True, words=words)
    written = bare(call.argument)
    column = column_of(written, source.scope, text)
    unit = column is not None and column.unit
    if call.kind == "units":
        resolve(written, source.scope, environment, reader)
        if not unit:
            what = source.owner.unit if source.owner is not None and source.owner.unit else "the unit column"
            raise text.error(
                f"distinct values cannot be counted privately, because several units can share one; units can: "
                f"COUNT(DISTINCT {what})",
                node,
            )
        return Aggregate("units", "", None, None, "declared", call.epsilon, integer=True, words=words)
    resolved = resolve(written, source.scope, environment, reader)
    kind = kind_of(resolved)
    attribute = _attribute(column, reader.relations)
    lost = None if column is None else column.lost
    bounds, origin = bounds_of(call, attribute, lost, limits, node)
    if call.kind == "count":
        place = None if unit else _input(total(resolved), inputs)
        return Aggregate("count", "", place, bounds, origin, call.epsilon, integer=True, words=words)
    if kind in ("text", "time"):
        held = "texts" if kind == "text" else "times"
        raise text.error(f"{words.split('(')[0].upper()} is of numbers, and this holds {held}", node)
    place = _input(total(_number(resolved, kind)), inputs)
    quantiles = call.kind == "quantiles"
    edges = edges_of(attribute) if quantiles and origin == "declared" else None
    integer = kind in ("integer", "boolean")
    return Aggregate(
        call.kind,
        "",
        place,
        bounds,
        origin,
        call.epsilon,
        call.fractions,
        call.array,
        call.population,
        integer,
        edges,
        words,
    )


def _number(node: exp.Expr, kind: Kind | None) -> exp.Expr:
    if kind in ("integer", "number"):
        return node
    if kind == "boolean":
        return exp.cast(node, "int")
    return exp.TryCast(this=node, to=exp.DataType.build("double"))


def _input(node: exp.Expr, inputs: list[exp.Expr]) -> int:
    if node not in inputs:
        inputs.append(node)
    return inputs.index(node)


def _attribute(column: Column | None, relations: Mapping[str, Relation]) -> Attribute | None:
    """Return what is declared of the values of a column."""
    if column is None or column.origin is None:
        return None
    domain = relations[column.origin[0]].domain
    return None if domain is None else domain.get(column.origin[1])


def _same(one: Aggregate, other: Aggregate) -> bool:
    return (
        one.kind,
        one.input,
        one.bounds,
        one.bounds_from,
        one.epsilon,
        one.fractions,
        one.array,
        one.population,
    ) == (
        other.kind,
        other.input,
        other.bounds,
        other.bounds_from,
        other.epsilon,
        other.fractions,
        other.array,
        other.population,
    )


def _named(
    asked: list[tuple[Aggregate, list[exp.Expr]]], aliases: dict[int, str], names: Names, source: From, reader: Reader
) -> list[Aggregate]:
    """Return aggregates with their names; those that the statement names itself come first to theirs."""
    own = [next((aliases[id(node)] for node in nodes if id(node) in aliases), None) for _, nodes in asked]
    found: dict[int, str] = {}
    for place in sorted(range(len(asked)), key=lambda place: (own[place] is None, place)):
        aggregate, nodes = asked[place]
        call = _call(nodes[0])
        found[place] = names.aggregate(aggregate.kind, call, own[place], _about(nodes[0], source, reader), nodes[0])
    return [replace(aggregate, name=found[place]) for place, (aggregate, _) in enumerate(asked)]


def _about(node: exp.Expr, source: From, reader: Reader) -> str | None:
    """Return the column that a call is about, for its name."""
    argument = _call(node).argument
    if argument is None or _call(node).star:
        return None
    column = column_of(argument, source.scope, reader.text)
    return None if column is None else column.name


def _selection(clause: Clause | None, keys: list[KeyColumn], min_units: int) -> Selection:
    if clause is not None and clause.selection == "public":
        return "public"
    unknown = any(column.key.levels is None for column in keys)
    asked = clause is not None and clause.selection == "threshold" and bool(keys)
    return "threshold" if unknown or asked or (min_units > 1) else "all"


def _check_unit(clause: Clause | None, source: From, reader: Reader) -> None:
    """Refuse a privacy_unit_column that is not the unit that was declared."""
    if clause is None or clause.unit is None:
        return
    assert source.owner is not None
    path = ".".join(clause.unit)
    if source.owner.unit is None:
        raise reader.text.error(
            f"each row of {source.owner.table} is a unit of its own: leave privacy_unit_column out, or protect the "
            f"table with unit={path!r}",
            clause.token,
        )
    column = exp.column(
        exp.to_identifier(clause.unit[-1], quoted=True), table=None if len(clause.unit) < 2 else clause.unit[-2]
    )
    found = source.scope.find(column, reader.text)
    if found is None or not found[0].unit:
        raise reader.text.error(
            f"privacy_unit_column is {path}, and the unit of {source.owner.table} was declared to be "
            f"{source.owner.unit}: write {source.owner.unit}, or leave it out",
            clause.token,
        )


def _public_keys(select: exp.Select, group: Grouping, source: From, reader: Reader) -> list[exp.Expr]:
    """Return the keys as columns of the public groups."""
    text = reader.text
    how = "RIGHT JOIN (SELECT DISTINCT key FROM public_table) USING (key)"
    if source.groups is None or not group.all:
        raise text.error(
            f"PUBLIC_GROUPS needs its groups from a public table, as the last thing in FROM: {how}",
            select.args.get("group") or select.expressions[0],
        )
    if select.args.get("where") is not None:
        raise text.error("with PUBLIC_GROUPS nothing stands after the join: put WHERE into a query in FROM", "WHERE")
    alias = source.groups.alias
    for key in group.all:
        if not isinstance(key.node, exp.Column) or key.node.table != alias:
            raise text.error(f"{key.name} is not one of the public groups: {how}", key.written)
    return [key.node for key in group.all]


def _bounds_notes(aggregates: list[Aggregate]) -> list[str]:
    found = []
    for aggregate in aggregates:
        if aggregate.bounds_from == "auto":
            found.append(f"bounds of {aggregate.words} are found from the data, with half of its share (AUTO)")
        elif aggregate.bounds_from == "declared" and aggregate.bounds is not None and aggregate.kind != "count":
            low, high = (_shown(bound) for bound in aggregate.bounds)
            found.append(f"{aggregate.words} is bounded by {low} and {high}, as declared")
    return found


def _shown(bound: Fraction) -> str:
    return f"{int(bound):,}" if bound.denominator == 1 else f"{float(bound):g}"
