"""Keys of a private aggregation: declared ones become the numbers of their levels, others are what is in the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from sqlglot import exp

from dpnotebook.dialect.attributes import level_number, literal, moment, span_number
from dpnotebook.dialect.expressions import MaybeKind, is_untyped, kind_of
from dpnotebook.dialect.text import Text
from dpnotebook.dialect.types import Kind
from dpnotebook.domain import Attribute, Bins, Boolean, Categories, Dates, Range
from dpnotebook.domain.calendar import SPANS
from dpnotebook.errors import DomainError
from dpnotebook.sql import level_values
from dpnotebook.sql.analysis.public_levels import PublicLevels
from dpnotebook.sql.level_texts import rows_in_sql
from dpnotebook.sql.ownership.date_spans import part_of_times
from dpnotebook.sql.ownership.expressions import bare, total
from dpnotebook.sql.ownership.grouping import GroupKey
from dpnotebook.sql.ownership.scope import Column
from dpnotebook.sql.ownership.value_bounds import PARTS
from dpnotebook.sql.public_values import KINDS_OF_VALUES, PublicValues
from dpnotebook.sql.select import Key
from dpnotebook.sql.statement import Relation

MAX_LEVELS = 10_000  # of one Range that is grouped by
MAX_CASES = 24  # categories that are told apart one by one; more of them are looked up in a list


@dataclass(frozen=True)
class KeyColumn:
    """A key, and what gives it.

    Parameters
    ----------
    key
        The key.
    attribute
        What is declared of it; None where its values are unknown.
    written
        What was grouped by.
    """

    key: Key
    attribute: Attribute | PublicValues | None
    written: GroupKey


def key_column(
    group: GroupKey, name: str, relations: Mapping[str, Relation], public: PublicLevels | None, text: Text
) -> KeyColumn:
    """Return a key with the levels that are declared of it.

    Parameters
    ----------
    group, name
        What is grouped by, and what it is called.
    relations
        What is public about the tables.
    public
        The values of public columns; None where they are not to be known.
    text
        The statement.

    Raises
    ------
    SQLError
        If it holds what has no canonical form: two values that differ in the database could be one here.
    """
    attribute = declared(group, relations, public)
    values = None if attribute is not None or public is None else public.values(group.column)
    if values is not None:
        return KeyColumn(Key(name, values.labels, values.kind), values, group)
    if attribute is None:
        return _worked_out(group, name, relations, public) or unknown_key(group, name, text)
    kind = kind_of(group.node) if isinstance(attribute, Categories) else KINDS[type(attribute)]
    levels = moments_of(attribute) if isinstance(attribute, Dates) else attribute.labels
    return KeyColumn(Key(name, levels, kind or "other"), attribute, group)


def unknown_key(group: GroupKey, name: str, text: Text) -> KeyColumn:
    """Return a key whose values are those of the data; raises as `key_column`."""
    return KeyColumn(Key(name, None, _canonical(group, text), is_untyped(group.node)), None, group)


def columns_of(group: GroupKey) -> list[Column]:
    """Return the columns that a key is worked out from, as far as they are known."""
    spans = [] if group.span is None else [group.span[0]]
    return [*([] if group.column is None else [group.column]), *spans, *(column for _, column in group.parts)]


def _canonical(group: GroupKey, text: Text) -> Kind:
    """Return what a key holds whose values are those of the data."""
    kind = kind_of(total(group.node.copy()))
    if group.column is not None and group.column.rounded:
        raise text.error(
            f"{group.name} holds decimals that can be closer than what they are read as; group by "
            f"CAST({group.name} AS DOUBLE)",
            group.written,
        )
    if kind is None or kind == "other":
        raise text.error(
            f"{group.name} holds values that cannot be grouped by exactly, or that are of no known type; CAST it, as "
            f"in GROUP BY CAST({group.name} AS VARCHAR)",
            group.written,
        )
    return kind


KINDS: dict[type[Attribute], Kind] = {Range: "integer", Bins: "text", Boolean: "boolean", Dates: "time"}


def declared(
    group: GroupKey, relations: Mapping[str, Relation], public: PublicLevels | None = None
) -> Attribute | None:
    """Return what is known of a key: a column as it is in its table, spans of its dates, or what a CASE can give."""
    if group.span is not None:
        return _declared_spans(*group.span, relations, public) or _part(group.span[1])
    column = group.column
    if column is None:
        known = _written_out(group, relations)
        kind = kind_of(group.node)
        return _listed(public.listed(group.node, kind), kind) if known is None and public is not None else known
    if column.origin is None:
        return None if public is None else _listed(public.listed(column.node, column.kind), column.kind)
    relation = relations[column.origin[0]]
    attribute = None if relation.domain is None else relation.domain.get(column.origin[1])
    if attribute is None and relation.private and public is not None:
        return _listed(public.attribute(column), relation.columns[column.origin[1]])
    if isinstance(attribute, Dates):  # a moment is in its day, or what is declared, as an amount is in its bin
        return _declared_spans(column, attribute.by, relations)
    if attribute is None or (isinstance(attribute, Range) and attribute.regular > MAX_LEVELS):
        return None
    kind = relation.columns[column.origin[1]]
    fits = kind in ("integer", "number") if attribute.holds == "number" else kind == attribute.holds
    levelled = isinstance(attribute, Categories) or type(attribute) in KINDS  # of others SQL groups by values
    return attribute if fits and levelled else None


def _listed(attribute: Attribute | None, kind: MaybeKind) -> Attribute | None:
    """Return the values that conditions leave to a column as it is in its table; moments of a day are too many."""
    if attribute is None or isinstance(attribute, Dates):
        return None
    kinds = level_values.kinds_of(attribute)
    return attribute if kind in kinds or (kind == "number" and "integer" in kinds) else None


def _written_out(group: GroupKey, relations: Mapping[str, Relation]) -> Attribute | None:
    """Return the values that an expression can have whatever the rows hold: a condition, a CASE of literals, an hour.

    What is missing has a level wherever it could be: without ELSE if a declared value is left out, and of conditions.
    """
    kind = kind_of(group.node)
    results = _results(group.written)
    if (part := part_of_times(group.written)) is not None:
        return _part(part[1])
    if results is None:
        return Boolean(nullable=not _knows_always(group.written)) if kind == "boolean" else None
    levels = list(dict.fromkeys(value for value in results if value is not None))
    if len({type(level) for level in levels}) != 1 or kind != KINDS_OF_VALUES[type(levels[0])]:
        return None
    nullable = any(value is None for value in results) and not _never_missing(group, relations)
    if kind == "boolean":
        return Boolean(nullable=nullable)
    try:
        return Categories(levels, nullable=nullable)
    except DomainError:  # a text that no answer can be written with
        return None


def _knows_always(condition: exp.Expr) -> bool:
    """Return whether a condition is true or false whatever is missing, as `x IS NULL` is."""
    match condition:
        case exp.Paren() | exp.Not():
            return _knows_always(condition.this)
        case exp.And() | exp.Or():
            return _knows_always(condition.this) and _knows_always(condition.expression)
        case exp.Is():
            return isinstance(condition.expression, exp.Null | exp.Boolean)
        case exp.Coalesce():
            return any(isinstance(one, exp.Boolean) for one in condition.expressions)
        case _:
            return isinstance(condition, exp.NullSafeEQ | exp.NullSafeNEQ | exp.Boolean)


def _never_missing(group: GroupKey, relations: Mapping[str, Relation]) -> bool:
    """Return whether an expression has a value for whatever is declared of its columns: DAYNAME has, of any day."""
    told = _by_levels(group.node, group, _levelled(group, relations))
    return told is not None and all(value is not None for value, there in told if there)


def _by_levels(
    node: exp.Expr, group: GroupKey, columns: Sequence[level_values.LevelledColumn]
) -> list[tuple[level_values.Value, bool]] | None:
    """Return an expression's value for every combination of levels, and whether all are declared; None if unknown."""
    values = level_values.values(node, columns) if len(columns) == len(group.parts) else None
    if values is None:
        return None
    return [(value, there) for value, (_, there) in zip(values, level_values.combinations(columns), strict=True)]


def _worked_out(
    group: GroupKey, name: str, relations: Mapping[str, Relation], public: PublicLevels | None
) -> KeyColumn | None:
    """Return a key that is an expression over declared columns, with the values that it has for their levels."""
    columns = _levelled(group, relations, public)
    node = level_values.with_whole_numbers(group.node)
    told = None if node is None else _by_levels(node, group, columns)
    if node is None or told is None:
        return None
    asked = group.node.find(*level_values.KNOWS_NULL) is not None  # about what is missing, declared or not
    found = [value for value, there in told if there or asked]
    levels = list(dict.fromkeys(value for value in found if value is not None))
    if not levels:
        return None
    kind = KINDS_OF_VALUES[type(levels[0])]
    nullable = any(value is None for value, there in told if there)
    if kind == "boolean" or len(levels) > MAX_LEVELS:
        return None
    try:
        attribute = Categories(sorted(levels) if kind == "integer" else levels, nullable=nullable)
    except DomainError:  # a text that no answer can be written with
        return None
    written = replace(group, node=level_values.within(node, columns))
    return KeyColumn(Key(name, attribute.labels, kind), attribute, written)


def _levelled(
    group: GroupKey, relations: Mapping[str, Relation], public: PublicLevels | None = None
) -> list[level_values.LevelledColumn]:
    """Return the columns of an expression each of whose levels is one value of it, with what is declared of them."""
    found: list[level_values.LevelledColumn] = []
    for node, column in group.parts:
        attribute = _attribute(column, relations, public)
        if attribute is None or column.origin is None:
            continue
        relation = relations[column.origin[0]]
        kind = relation.columns[column.origin[1]]
        kind = "integer" if kind == "number" and not relation.private else kind  # all of these are whole
        if not level_values.has_values(attribute, group.node, node):
            continue
        if kind in level_values.kinds_of(attribute):
            found.append(level_values.LevelledColumn(node, attribute))
    return found


def _attribute(column: Column, relations: Mapping[str, Relation], public: PublicLevels | None) -> Attribute | None:
    """Return what is declared of a column, or is there in a public table; None if nothing is known."""
    if column.origin is None:
        return None
    domain = relations[column.origin[0]].domain
    known = None if domain is None else domain.get(column.origin[1])
    return public.attribute(column) if known is None and public is not None else known


def _results(written: exp.Expr) -> list[str | int | bool | None] | None:
    """Return what a CASE or an IF gives, None for NULL; None of anything else, and where it gives no literal."""
    node = bare(written)
    if isinstance(node, exp.Case):
        given = [branch.args.get("true") for branch in node.args["ifs"]] + [node.args.get("default")]
    elif isinstance(node, exp.If):
        given = [node.args.get("true"), node.args.get("false")]
    else:
        return None
    found: list[str | int | bool | None] = []
    for result in given:
        inner = None if result is None else bare(result)
        if inner is None or isinstance(inner, exp.Null):
            found.append(None)
        elif isinstance(inner, exp.Boolean):
            found.append(bool(inner.this))
        elif isinstance(inner, exp.Literal) and inner.is_string:
            found.append(str(inner.this))
        elif inner.is_int:
            found.append(int(inner.sql()))
        elif isinstance(inner, exp.Case | exp.If) and (nested := _results(inner)) is not None:
            found += nested
        else:
            return None
    return found


def _part(by: str) -> Attribute | None:
    """Return the numbers that a part of times can be, and nothing where there is no time; None where it has no ends."""
    ends = PARTS.get(by)
    return None if ends is None else Range(*ends, nullable=True)


def _declared_spans(
    column: Column, by: str, relations: Mapping[str, Relation], public: PublicLevels | None = None
) -> Attribute | None:
    """Return the spans or parts of a column of dates that are declared; None where that is not known."""
    attribute = _attribute(column, relations, public)
    if not isinstance(attribute, Dates) or column.origin is None:
        return None
    relation = relations[column.origin[0]]
    if relation.columns[column.origin[1]] != "time":
        return None
    if by == "YEAR":
        years = range(attribute.first.year, attribute.last.year + 1)
        if attribute.clamps:
            return Range(years[0], years[-1], nullable=attribute.nullable)
        return Categories(list(years), other=attribute.other_label, nullable=attribute.nullable)
    if by not in SPANS:
        return Range(*PARTS[by], nullable=attribute.nullable) if by in PARTS else None
    spans = attribute.by_span(by)
    return spans if spans is not None and spans.regular <= MAX_LEVELS else None


def moments_of(attribute: Dates) -> tuple[Any, ...]:
    """Return the value of each level of dates in the answer: the first moment of a span, a label of the others."""
    return (*attribute.starts[:-1].astype("datetime64[us]").tolist(), *attribute.labels[attribute.regular :])


def level_sql(attribute: Attribute | PublicValues, column: str, kind: Kind) -> str:
    """Return SQL for the number of a value's level, NULL for a value without one.

    Parameters
    ----------
    attribute
        What is declared.
    column
        SQL of the column; NaN is NULL in it.
    kind
        What it holds.
    """
    null = "NULL" if attribute.null_index is None else str(attribute.null_index)
    if isinstance(attribute, Range | Bins):
        whole = "BIGINT" if kind == "integer" else "DECIMAL"  # neither has NaN
        inside = level_number(attribute, column, whole)
        return inside if attribute.nullable else f"CASE WHEN {column} IS NULL THEN NULL ELSE {inside} END"
    if isinstance(attribute, Dates):
        outside = "NULL" if attribute.other_index is None else str(attribute.other_index)
        first, after = (moment(end) for end in attribute.starts[[0, -1]])
        beyond = "" if attribute.clamps else f" WHEN NOT ({column} >= {first} AND {column} < {after}) THEN {outside}"
        return f"CASE WHEN {column} IS NULL THEN {null}{beyond} ELSE {span_number(attribute, column)} END"
    if isinstance(attribute, Boolean):
        return f"CASE WHEN {column} IS NULL THEN {null} WHEN {column} THEN 1 ELSE 0 END"
    of_others = None if isinstance(attribute, PublicValues) else attribute.other_index
    other = "NULL" if of_others is None else str(of_others)
    if (attribute.kind if isinstance(attribute, PublicValues) else attribute.holds) == "boolean":
        names = [f"WHEN {'' if level else 'NOT '}{column} THEN {place}" for place, level in _levels(attribute)]
    else:
        names = [f"WHEN {column} = {literal(level)} THEN {place}" for place, level in _levels(attribute)]
    return f"CASE WHEN {column} IS NULL THEN {null} {' '.join(names)} ELSE {other} END"


def looked_up(attribute: Attribute | PublicValues) -> TypeGuard[Categories | PublicValues]:
    """Whether levels are so many that they are looked up in a list."""
    if isinstance(attribute, PublicValues):
        return attribute.regular > MAX_CASES
    return isinstance(attribute, Categories) and attribute.holds != "boolean" and attribute.regular > MAX_CASES


def level_list(attribute: Categories | PublicValues, column: str, alias: str) -> tuple[str, str, str]:
    """Return SQL of a list of levels, of the condition that a value is in it, and of the number of its level."""
    rows = rows_in_sql(attribute)
    of_others = None if isinstance(attribute, PublicValues) else attribute.other_index
    other = "NULL" if of_others is None else str(of_others)
    null = "NULL" if attribute.null_index is None else str(attribute.null_index)
    found = f"CASE WHEN {column} IS NULL THEN {null} ELSE COALESCE({alias}.i, {other}) END"
    return f"(VALUES {rows}) AS {alias}(v, i)", f"{column} = {alias}.v", found


def _levels(attribute: Attribute | PublicValues) -> list[tuple[int, object]]:
    return list(enumerate(attribute.labels[: attribute.regular]))
