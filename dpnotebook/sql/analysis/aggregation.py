"""The private aggregation: from a select over private rows to what is measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.errors import shorten
from dpnotebook.sql.aggregates.budget_split import averages_units, counts_values
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.analysis.contributions import Contributions, also_counted, left_out
from dpnotebook.sql.analysis.fan_out import repeated_rows
from dpnotebook.sql.analysis.key_groups import key_columns, number_levels
from dpnotebook.sql.analysis.keys import KeyColumn, columns_of
from dpnotebook.sql.analysis.public_levels import PublicLevels
from dpnotebook.sql.analysis.release_names import Names
from dpnotebook.sql.analysis.requested_aggregates import asked_aggregates, call_at, call_over
from dpnotebook.sql.ownership.expressions import total
from dpnotebook.sql.ownership.grouping import Grouping, grouping
from dpnotebook.sql.ownership.padded_rows import check_aggregates, notes_of, padded
from dpnotebook.sql.ownership.queries import Environment, From
from dpnotebook.sql.ownership.reader import Reader
from dpnotebook.sql.ownership.scope import UNIT
from dpnotebook.sql.ownership.select_parts import calls_of
from dpnotebook.sql.ownership.selects import condition
from dpnotebook.sql.ownership.windows import first_of_unit
from dpnotebook.sql.parse.statement_parser import Clause, clause_of
from dpnotebook.sql.select import Aggregate, Apart, PrivateSelect, Selection


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
            f"each group would be a single {source.owner.one}; group by other columns, or use this query in FROM",
            select.args["group"],
        )
    where = condition(select, "where", source.scope, environment, reader)
    listed = clause is not None and clause.selection == "public"  # by the statement itself
    padding = None if listed else padded(source, select.args.get("where"), text)
    if padding is not None:
        check_aggregates(source, calls, text)
    source.single = source.single or first_of_unit(where, source)
    private = clause is not None or any(call_at(node).private for node in calls)
    asked = [call_over(node, source, text) for node in calls]
    names = Names(text)
    public = None if listed else PublicLevels(relations, source.scope, where)
    keys, together = key_columns(list(group.all), names.keys(group, select), relations, public, text)
    min_units = 1 if clause is None or clause.min_units is None else clause.min_units
    selection = _selection(clause, keys, min_units)
    said_of_units = Contributions(clause, private, contribution, source, relations, len(group.all), text)
    clipped = said_of_units.clipped(asked)
    mixed = contribution == "planned" and any(clipped) and not all(clipped)
    vectors, rest = ([one for one, also in zip(asked, clipped, strict=True) if also is way] for way in (True, False))
    # A threshold goes by what is clipped, where anything is.
    hides = selection == "threshold" and not mixed
    limits, notes, drawn, rows_if_hidden = said_of_units.bounding(rest if mixed else asked, hides=hides)
    of_vectors, more, *_ = said_of_units.bounding(vectors) if mixed else (limits, [])
    of_calls = {
        id(node): replace(of_vectors if also else limits, values=said_of_units.values_counted)
        for node, also in zip(calls, clipped, strict=True)
    }
    aggregates, called, inputs = asked_aggregates(select, source, environment, reader, of_calls, names)
    apart = None
    if mixed:
        mine = {called[id(node)] for node, also in zip(calls, clipped, strict=True) if also}
        numbers = tuple(i for i, one in enumerate(aggregates) if one.name in mine)
        apart = Apart(of_vectors.contribution, numbers)
    groups = None
    if selection == "public":
        groups = groups_text(_public_keys(select, group, source, reader), source)
        keys = [replace(column, key=replace(column.key, levels=None), attribute=None) for column in keys]
    source.take_asked()
    rows, tables = rows_text(source, where, keys, inputs)
    # COUNT(*) beside an average counts rows that this has no value of.
    spoken_of = rows_text(source, where, keys, ())[0] if any(one.star for one in asked) else rows
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
        written=private,
        rows_if_hidden=rows_if_hidden,
        apart=apart,
        together=together,
        also_counted=also_counted(spoken_of, [relations[name] for name in source.tables]),
    )
    told = _bounds_notes(measured)
    if group.sets is not None:
        told += _larger_groups_notes(aggregates, selection == "threshold")
    if padding is not None and any(one.equal or not one.absent for key in keys for one in columns_of(key.written)):
        told += notes_of(padding, selection == "threshold")
    about = [f"{measured.apart_for}: {note}" for note in more]
    said = [*about, *map(measured.said_of_drawn, notes), *left_out(source, relations)]
    warned = [*repeated_rows(asked, source, relations, text), *([measured.said_of_drawn(drawn)] if drawn else [])]
    measured = replace(
        measured,
        notes=tuple(dict.fromkeys([*said, *reader.notes, *told])),
        drawn="; ".join([*warned, *_values_drawn(measured, source)]),
    )
    return Aggregation(measured, keys, called, group, source)


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
            f"table with unit={shorten(path)}",
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


BOUNDED = {"declared": "as declared", "follows": "as follows from what it is made of"}


def _bounds_notes(select: PrivateSelect) -> list[str]:
    """Return what a plan says of bounds; norms that vectors are clipped to are spoken of when it is known of them."""
    found = []
    for i, aggregate in enumerate(select.aggregates):
        for operand in aggregate.operands:
            column = aggregate.argument if operand is aggregate else operand.words
            words = aggregate.words if aggregate.other is None else f"{column} in {aggregate.words}"
            if counts_values(select, i) or averages_units(select, i):
                continue  # how many a unit may stand for, and what all of it comes to, is no bound of values
            if operand.bounds_from == "auto" and not select.clips(i):
                found.append(f"bounds of {words} are found from the data, with at most half of its share (AUTO)")
            elif function_of(operand.kind).of == "numbers" and operand.bounds_from in BOUNDED and operand.bounds:
                low, high = map(_shown, operand.bounds)
                found.append(f"{words} is bounded by {low} and {high}, {BOUNDED[operand.bounds_from]}")
    return found


def _values_drawn(select: PrivateSelect, source: From) -> list[str]:
    """Return what a plan warns of where a unit may stand for some of its different values only."""
    assert source.owner is not None
    found = []
    for aggregate in select.aggregates:
        if not function_of(aggregate.kind).by_itself or aggregate.bounds is None or select.single:
            continue
        most = int(aggregate.bounds[1])
        one = source.owner.one
        said, more = f"each {one} adds {most} values at most", ""
        if most == 1:
            said = f"each {one} adds one value at most"
            more = "; contribution='rows' lets each add more, with as many times the noise"
        found.append(f"{aggregate.words}: {said}, so that some that few have may be missed{more}")
    return found


def _larger_groups_notes(aggregates: list[Aggregate], hidden: bool) -> list[str]:
    """Return what a plan says of groups that are put together from smaller ones."""
    found = ["larger groups are added up from the smallest, with the noise of all of them: that of k is sqrt(k) times"]
    if hidden:
        found.append("groups that are not shown, as they have too few units, are in none of the larger ones")
    averages = [one.words for one in aggregates if function_of(one.kind).averages]
    return found + [
        f"{words} of larger groups has each of the smallest with the weight of its count" for words in averages
    ]


def _shown(bound: Fraction) -> str:
    return f"{int(bound):,}" if bound.denominator == 1 else f"{float(bound):g}"


# The SQL of the rows that a private aggregation is about, written so that equal questions have equal texts.
def rows_text(
    source: From, where: exp.Expr | None, keys: Sequence[KeyColumn], inputs: Sequence[exp.Expr]
) -> tuple[str, tuple[str, ...]]:
    """Return SQL of the rows (the unit as u, keys as k0, k1, ..., inputs as x0, x1, ...), and the tables in it.

    Parameters
    ----------
    source
        What is read.
    where
        Which rows take part.
    keys, inputs
        What is grouped by, and what is aggregated.
    """
    unit = source.scope.unit
    assert unit is not None
    items = [exp.alias_(unit.copy(), UNIT)]
    written = [total(column.written.node.copy()) for column in keys]
    items += [exp.alias_(node, f"k{number}") for number, node in enumerate(written)]
    items += [exp.alias_(node.copy(), f"x{number}") for number, node in enumerate(inputs)]
    select = exp.Select(expressions=items)
    source.build(select, [*items, *([where] if where is not None else [])])
    present = exp.Not(this=exp.Is(this=unit.copy(), expression=exp.null()))
    conditions = [present] if where is None else [where.copy(), present]
    select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    rename(select)
    tables = tuple(dict.fromkeys(table.name for table in select.find_all(exp.Table, bfs=False)))
    for number, column in enumerate(keys):
        if column.attribute is not None:
            number_levels(select, 1 + number, number, column)
    return select.sql(DIALECT), tables


def groups_text(keys: Sequence[exp.Expr], source: From) -> str:
    """Return SQL of the groups of a release, over public tables: k0, k1, ..."""
    assert source.groups is not None
    items = [exp.alias_(key.copy(), f"k{number}") for number, key in enumerate(keys)]
    numbers = {int(key.name[1:]) for key in keys}
    select = exp.Select(expressions=items, distinct=exp.Distinct())
    select.from_(source.groups.build(sorted(numbers)), copy=False)
    rename(select)
    return select.sql(DIALECT)


def rename(tree: exp.Expr) -> None:
    """Number the sources of a query in the order in which they stand in it."""
    names: dict[str, str] = {}
    nodes = list(tree.walk(bfs=False))
    for node in nodes:
        if isinstance(node, exp.TableAlias) and node.name not in names:
            names[node.name] = f"s{len(names)}"
    for node in nodes:
        if isinstance(node, exp.TableAlias):
            node.set("this", exp.to_identifier(names[node.name]))
        elif isinstance(node, exp.Column) and node.table:
            node.set("table", exp.to_identifier(names[node.table]))
