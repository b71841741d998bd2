"""The private aggregation: from a select over private rows to what is measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT, Text
from dpnotebook.errors import shorten
from dpnotebook.sql.aggregates.budget_split import averages_units, counts_values
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.function import Limits
from dpnotebook.sql.analysis.contributions import Bounding, Contributions, also_counted, left_out
from dpnotebook.sql.analysis.fan_out import repeated_rows
from dpnotebook.sql.analysis.key_groups import key_columns, number_levels
from dpnotebook.sql.analysis.keys import KeyColumn, columns_of
from dpnotebook.sql.analysis.public_levels import PublicLevels
from dpnotebook.sql.analysis.release_names import Names
from dpnotebook.sql.analysis.requested_aggregates import asked_aggregates, call_at, call_over
from dpnotebook.sql.ownership.expressions import total
from dpnotebook.sql.ownership.grouping import Grouping, grouping
from dpnotebook.sql.ownership.padded_rows import check_aggregates, notes_of, padded
from dpnotebook.sql.ownership.queries import Environment, From, Padding
from dpnotebook.sql.ownership.reader import Reader
from dpnotebook.sql.ownership.scope import UNIT
from dpnotebook.sql.ownership.select_parts import calls_of
from dpnotebook.sql.ownership.selects import condition
from dpnotebook.sql.ownership.windows import first_of_unit
from dpnotebook.sql.parse.statement_parser import Call, Clause, clause_of
from dpnotebook.sql.select import Aggregate, Apart, ContributionChoice, PrivateSelect, Selection


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
    select: exp.Select, environment: Environment, reader: Reader, contribution: ContributionChoice | None
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
        The kind of bound that is chosen; None where limits are what is written or declared.

    Raises
    ------
    SQLError
        If it asks for something that cannot be measured privately.
    """
    text, relations = reader.text, reader.relations
    clause = clause_of(select)
    calls = _calls(select, text)
    source = reader.source(select, environment, None)
    _check_unit(clause, source, reader)
    group = _grouping(select, source, environment, reader)
    where = condition(select, "where", source.scope, environment, reader)
    listed = clause is not None and clause.selection == "public"  # by the statement itself
    padding = None if listed else padded(source, select.args.get("where"), text)
    if padding is not None:
        check_aggregates(source, calls, text)
    source.single = source.single or first_of_unit(where, source)
    private = clause is not None or any(call_at(node).private for node in calls)
    asked = [call_over(node, source, text) for node in calls]
    names = Names(text)
    public = None if listed else PublicLevels(relations, source.scope, where, lists=reader.lists)
    keys, together = key_columns(list(group.all), names.keys(group, select), relations, public, text)
    min_units = 1 if clause is None or clause.min_units is None else clause.min_units
    selection = _selection(clause, keys, min_units)
    said_of_units = Contributions(clause, private, contribution, source, relations, len(group.all), text)
    bounded = _BoundedCalls.of(asked, said_of_units, hides=selection == "threshold")
    aggregates, called, inputs = asked_aggregates(
        select, source, environment, reader, bounded.limits(calls, said_of_units.values_counted), names
    )
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
        bounded.usual.limits.contribution,
        selection,
        groups,
        min_units,
        None if clause is None else clause.epsilon,
        None if clause is None else clause.delta,
        None if clause is None else clause.selection_epsilon,
        source.single,
        written=private,
        rows_if_hidden=bounded.usual.rows_if_hidden,
        apart=bounded.apart(calls, called, aggregates),
        together=together,
        also_counted=also_counted(spoken_of, [relations[name] for name in source.tables]),
    )
    told = _notes_of_groups(measured, keys, padding, larger=group.sets is not None)
    return Aggregation(_with_notes(measured, asked, bounded, source, reader, told), keys, called, group, source)


def _calls(select: exp.Select, text: Text) -> list[exp.Expr]:
    """Return the calls of aggregates; there have to be some."""
    if select.args.get("distinct") is not None:
        raise text.error(
            "SELECT DISTINCT is not supported here: GROUP BY lists every combination once", select.expressions[0]
        )
    calls = calls_of(select)
    if not calls:
        at = select.args.get("group") or select.expressions[0]
        raise text.error("there is no aggregate here: add COUNT(*), which counts the rows of each group", at)
    return calls


def _grouping(select: exp.Select, source: From, environment: Environment, reader: Reader) -> Grouping:
    """Return what rows are grouped by, which is not their unit."""
    assert source.owner is not None
    group = grouping(select, source.scope, environment, reader)
    if group.by_unit:
        raise reader.text.error(
            f"each group would be a single {source.owner.one}; group by other columns, or use this query in FROM",
            select.args["group"],
        )
    return group


class _BoundedCalls(NamedTuple):
    """How a unit is bounded for each call of a private aggregation.

    Parameters
    ----------
    clipped
        Of which calls all that a unit adds is clipped to norms.
    usual
        How it is bounded for all calls, or for the others where some are clipped beside them.
    vectors
        How it is bounded for those that are clipped beside others; None where all are bounded in one way.
    """

    clipped: Sequence[bool]
    usual: Bounding
    vectors: Bounding | None

    @classmethod
    def of(cls, asked: Sequence[Call], said: Contributions, *, hides: bool) -> _BoundedCalls:
        """Return how calls are bounded; `hides` is whether a threshold hides small groups.

        A threshold goes by what is clipped, where anything is.
        """
        clipped = said.clipped(asked)
        if said.wanted != "planned" or not any(clipped) or all(clipped):
            return cls(clipped, said.bounding(asked, hides=hides), None)
        vectors, rest = (
            [one for one, also in zip(asked, clipped, strict=True) if also is way] for way in (True, False)
        )
        return cls(clipped, said.bounding(rest), said.bounding(vectors))

    def limits(self, calls: Sequence[exp.Expr], values: int) -> dict[int, Limits]:
        """Return what the bounds of each call are chosen by, by its identity, where so many different values count."""
        return {
            id(node): replace((self.vectors if also and self.vectors else self.usual).limits, values=values)
            for node, also in zip(calls, self.clipped, strict=True)
        }

    def apart(
        self, calls: Sequence[exp.Expr], called: Mapping[int, str], aggregates: Sequence[Aggregate]
    ) -> Apart | None:
        """Return which aggregates are clipped beside others; `called` has their names, by the identity of the calls."""
        if self.vectors is None:
            return None
        mine = {called[id(node)] for node, also in zip(calls, self.clipped, strict=True) if also}
        numbers = tuple(i for i, one in enumerate(aggregates) if one.name in mine)
        return Apart(self.vectors.limits.contribution, numbers)


def _notes_of_groups(
    measured: PrivateSelect, keys: Sequence[KeyColumn], padding: Padding | None, *, larger: bool
) -> list[str]:
    """Return what a plan says of bounds, of groups put together from smaller ones, and of padded rows."""
    hides = measured.selection == "threshold"
    told = _bounds_notes(measured)
    if larger:
        told += _larger_groups_notes(measured.aggregates, hides)
    if padding is not None and any(one.equal or not one.absent for key in keys for one in columns_of(key.written)):
        told += notes_of(padding, hides)
    return told


def _with_notes(
    measured: PrivateSelect,
    asked: Sequence[Call],
    bounded: _BoundedCalls,
    source: From,
    reader: Reader,
    told: Sequence[str],
) -> PrivateSelect:
    """Return it with what a plan says of it: how a unit is bounded, which rows are left out, and what else is told."""
    of_vectors = [] if bounded.vectors is None else bounded.vectors.notes
    about = [f"{measured.apart_for}: {note}" for note in of_vectors]
    said = [*about, *map(measured.said_of_drawn, bounded.usual.notes), *left_out(source, reader.relations)]
    warned = repeated_rows(asked, source, reader.relations, reader.text)
    if bounded.usual.drawn:
        warned.append(measured.said_of_drawn(bounded.usual.drawn))
    return replace(
        measured,
        notes=tuple(dict.fromkeys([*said, *reader.notes, *told])),
        drawn="; ".join([*warned, *_values_drawn(measured, source)]),
    )


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


def _larger_groups_notes(aggregates: Sequence[Aggregate], hidden: bool) -> list[str]:
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
