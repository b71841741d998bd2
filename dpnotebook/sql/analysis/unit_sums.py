"""Sums over rows, as sums of what each unit adds up: without Gaussian noise, where rows count one by one.

Bounds of rows are found from a histogram in which a unit's rows share its weight, and noise is in proportion to as many
rows as a unit may have. What units add up is one number each: it is found as well as units are, also where few rows
are large, and noise is in proportion to what the largest of them add up.

Numbers of units stand beside them for the price of one row each. Drawn rows would serve both badly: the fewer rows of
a unit count, the closer its number is, and the less is left of what it adds up.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.aggregates.catalogue import AVERAGE, UNIT_AVERAGE, function_of
from dpnotebook.sql.ownership.expressions import words_of
from dpnotebook.sql.ownership.select_parts import calls_of, expression_queries, from_of
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.statement_parser import clause_of
from dpnotebook.sql.select import PrivateSelect

UNIT, ANSWER, ROWS, QUERY = "unit", "answer", "rows", "by_unit"
SUMMED = {"sum", AVERAGE.kind}  # kinds of what needs bounds of values
INNER = ("INNER", "CROSS", "")
WITHOUT = ("group", "having", "qualify", "order", "distinct", "limit", "offset", "windows", "laterals", "with_", "with")


def adds_up_rows(select: PrivateSelect) -> bool:
    """Return whether an aggregation adds up rows of units with several, between bounds that are to be found.

    Counts of rows alone are as close by rows, but for those beside a number of units.

    Parameters
    ----------
    select
        The private aggregation.
    """
    several = select.contribution.kind == "rows" and select.contribution.most > 1 and not select.written
    kinds = {one.kind for one in select.aggregates}
    found = all(one.bounds is None and one.within is None for one in select.aggregates if one.kind in SUMMED)
    added = bool(kinds & SUMMED) or {"count", "units"} <= kinds
    return several and found and not select.keys and added and kinds <= {"count", "units", *SUMMED}


def as_sums_of_units(select: exp.Select, unit: exp.Column, text: Text) -> exp.Select | None:
    """Return a select of sums and counts of rows over one that adds them up for each unit; None where it is another.

    Parameters
    ----------
    select
        The select as it was read, of one table or of inner joins of several.
    unit
        The column of one of these with the unit.
    text
        The statement.
    """
    calls = calls_of(select)
    table = from_of(select)
    if clause_of(select) is not None or any(select.args.get(part) for part in WITHOUT) or expression_queries(select):
        return None
    joins = select.args.get("joins") or []
    for source in (table, *(join.this for join in joins)):
        if not isinstance(source, exp.Table) or source.args.get("sample") or source.args.get("pivots"):
            return None
    if any(join.side or join.method or join.kind not in INNER for join in joins):
        return None
    if not calls or not all(map(_adds_up, calls)):
        return None
    assert isinstance(table, exp.Table)
    items: list[exp.Expr] = [exp.alias_(unit.copy(), UNIT)]
    items += [exp.alias_(node.copy(), f"{ANSWER}_{place}") for place, node in enumerate(calls)]
    items += [exp.alias_(_counted(node), f"{ROWS}_{place}") for place, node in enumerate(calls) if _is_average(node)]
    inner = exp.Select(expressions=items).from_(table.copy(), copy=False)
    inner.set("joins", [join.copy() for join in joins])
    if select.args.get("where") is not None:
        inner.set("where", select.args["where"].copy())
    inner.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
    outer = select.copy()
    for part in [part for part in outer.args if part != "expressions"]:
        outer.set(part, None)
    for place, (before, after) in enumerate(zip(calls, calls_of(outer), strict=True)):
        call = call_of(before)
        assert call is not None
        columns = [exp.column(f"{ANSWER}_{place}", QUERY)]
        if call.distinct:  # a unit has one of itself, or none
            there = exp.If(this=exp.GT(this=columns[0], expression=exp.Literal.number(0)), true=exp.column(UNIT, QUERY))
            asked = replace(call, argument=None)
            made = function_of("units").node(asked, exp.Case(ifs=[there]))
        else:
            columns += [exp.column(f"{ROWS}_{place}", QUERY)] if _is_average(before) else []
            function = UNIT_AVERAGE if len(columns) > 1 else function_of("sum")
            asked = Call(function.kind, operands=function.operands, words=call.words)
            made = function.node(asked, *columns)
        made.meta.update(call=asked, start=before.meta["start"], end=before.meta["end"])
        for column in columns:
            column.meta.update(start=before.meta["start"], end=before.meta["end"])
        after.replace(made)
    for before, after in zip(select.expressions, list(outer.expressions), strict=True):
        if not before.alias:
            after.replace(exp.alias_(after.copy(), words_of(before, text), quoted=True))
    return outer.from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(QUERY))), copy=False)


def _is_average(node: exp.Expr) -> bool:
    """Return whether a call is an average of rows."""
    call = call_of(node)
    return call is not None and call.kind == AVERAGE.kind


def _counted(node: exp.Expr) -> exp.Expr:
    """Return the number of the values that an average is of."""
    call = call_of(node)
    assert call is not None
    assert call.argument is not None
    counting = Call("count", words=f"COUNT({call.argument.sql()})")
    made = function_of(counting.kind).node(counting, call.argument.copy())
    made.meta.update(call=counting, start=node.meta["start"], end=node.meta["end"])
    return made


def _adds_up(node: exp.Expr) -> bool:
    """Return whether a call is a sum, count or mean of rows, or a number of units, that says not how it is measured."""
    call = call_of(node)
    if call is None or call.kind not in {"count", "units", *SUMMED} or (call.distinct and call.kind != "units"):
        return False
    return not call.private and call.bounds is None and call.epsilon is None
