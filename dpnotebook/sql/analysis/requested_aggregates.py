"""What a private select asks for: its aggregates, each once, their inputs, bounds and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of
from dpnotebook.dialect.types import Kind
from dpnotebook.domain import Attribute, Range
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.function import Limits
from dpnotebook.sql.analysis.contributions import bounds_of, edges_of
from dpnotebook.sql.analysis.release_names import Names
from dpnotebook.sql.ownership.expressions import bare, column_of, resolve, total
from dpnotebook.sql.ownership.queries import Environment, From
from dpnotebook.sql.ownership.reader import Reader
from dpnotebook.sql.ownership.scope import Column
from dpnotebook.sql.ownership.select_parts import calls_of
from dpnotebook.sql.parse.statement_parser import Call, call_of
from dpnotebook.sql.select import Aggregate, plainly
from dpnotebook.sql.statement import Relation


def asked_aggregates(
    select: exp.Select, source: From, environment: Environment, reader: Reader, limits: Limits, names: Names
) -> tuple[list[Aggregate], dict[int, str], list[exp.Expr]]:
    """Return the aggregates of a select, the name of each call by its identity, and their inputs.

    Parameters
    ----------
    select
        The select as it was read.
    source, environment, reader
        What it reads, what names mean, and who reads.
    limits
        How a unit is bounded.
    names
        What is taken in the release.

    Raises
    ------
    SQLError
        If one cannot be measured privately.
    """
    inputs: list[exp.Expr] = []
    asked: list[tuple[Aggregate, list[exp.Expr]]] = []
    for node in calls_of(select):
        aggregate = _aggregate(node, source, environment, reader, limits, inputs)
        same = next((nodes for other, nodes in asked if _same(other, aggregate)), None)
        if same is None:
            asked.append((aggregate, [node]))
        else:
            same.append(node)
    aggregates = _named(asked, _aliases(select), names, source, reader)
    called = {id(node): one.name for one, (_, nodes) in zip(aggregates, asked, strict=True) for node in nodes}
    return aggregates, called, inputs


def call_at(node: exp.Expr) -> Call:
    """Return the call of an aggregate function that a node is."""
    call = call_of(node)
    assert call is not None
    return call


def _aliases(select: exp.Select) -> dict[int, str]:
    """Return the names of the items of the list that are calls by themselves, by the identity of the call."""
    return {id(bare(item.this)): item.alias for item in select.expressions if isinstance(item, exp.Alias)}


def _aggregate(
    node: exp.Expr, source: From, environment: Environment, reader: Reader, limits: Limits, inputs: list[exp.Expr]
) -> Aggregate:
    call, text = call_at(node), reader.text
    function = function_of(call.kind)
    words = plainly(call.words or text.words(node))
    if call.star or call.argument is None:
        bounds, origin = bounds_of(call, None, None, limits, node)
        return Aggregate(call.kind, "", None, bounds, origin, call.epsilon, integer=True, words=words)
    written = bare(call.argument)
    column = column_of(written, source.scope, text)
    unit = column is not None and column.unit
    if function.of == "units":
        resolve(written, source.scope, environment, reader)
        if not unit:
            what = source.owner.unit if source.owner is not None and source.owner.unit else "the unit column"
            raise text.error(
                f"distinct values cannot be counted privately, because several units can share one; units can: "
                f"COUNT(DISTINCT {what})",
                node,
            )
        return Aggregate(call.kind, "", None, None, "declared", call.epsilon, integer=True, words=words)
    resolved = resolve(written, source.scope, environment, reader)
    kind = kind_of(resolved)
    attribute = _attribute(column, reader.relations)
    lost = None if column is None else column.lost
    bounds, origin = bounds_of(call, attribute, lost, limits, node)
    if function.of == "values":
        place = None if unit else _input(total(resolved), inputs)
        return Aggregate(call.kind, "", place, bounds, origin, call.epsilon, integer=True, words=words)
    if kind in ("text", "time"):
        held = "texts" if kind == "text" else "times"
        raise text.error(
            f"{words.split('(')[0].upper()} is of numbers, and this holds {held}; CAST it to DOUBLE, declare it in "
            "domain= as Range or Bins, or convert the column",
            node,
        )
    place = _input(total(_number(resolved, kind)), inputs)
    edges = edges_of(attribute) if function.levelled and origin == "declared" else None
    integer = kind in ("integer", "boolean") or isinstance(attribute, Range)
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
        _, nodes = asked[place]
        call = call_at(nodes[0])
        found[place] = names.aggregate(call, own[place], _about(nodes[0], source, reader), nodes[0])
    return [replace(aggregate, name=found[place]) for place, (aggregate, _) in enumerate(asked)]


def _about(node: exp.Expr, source: From, reader: Reader) -> str | None:
    """Return the column that a call is about, for its name."""
    argument = call_at(node).argument
    if argument is None or call_at(node).star:
        return None
    column = column_of(argument, source.scope, reader.text)
    return None if column is None else column.name
