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
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.expressions import words_of
from dpnotebook.sql.ownership.select_parts import calls_of, expression_queries, from_of
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.statement_parser import clause_of
from dpnotebook.sql.select import PrivateSelect

UNIT, ANSWER, QUERY = "unit", "answer", "by_unit"
WITHOUT = ("group", "having", "qualify", "order", "distinct", "limit", "offset", "windows", "joins", "with_", "with")


def adds_up_rows(select: PrivateSelect) -> bool:
    """Return whether an aggregation adds up rows of units with several, between bounds that are to be found.

    Counts of rows alone are as close by rows, but for those beside a number of units.

    Parameters
    ----------
    select
        The private aggregation.
    """
    several = select.contribution.kind == "rows" and select.contribution.most > 1 and not select.written
    found = all(one.bounds is None and one.within is None for one in select.aggregates if one.kind == "sum")
    kinds = {one.kind for one in select.aggregates}
    added = "sum" in kinds or {"count", "units"} <= kinds
    return several and found and not select.keys and added and kinds <= {"sum", "count", "units"}


def as_sums_of_units(select: exp.Select, unit: str, text: Text) -> exp.Select | None:
    """Return a select of sums and counts of rows over one that adds them up for each unit; None where it is another.

    Parameters
    ----------
    select
        The select as it was read, of one table.
    unit
        The column of that table with the unit.
    text
        The statement.
    """
    calls = calls_of(select)
    table = from_of(select)
    if clause_of(select) is not None or any(select.args.get(part) for part in WITHOUT) or expression_queries(select):
        return None
    if not isinstance(table, exp.Table) or table.args.get("sample") or table.args.get("pivots"):
        return None
    if not calls or not all(map(_adds_up, calls)):
        return None
    items: list[exp.Expr] = [exp.alias_(exp.column(exp.to_identifier(unit, quoted=True)), UNIT)]
    items += [exp.alias_(node.copy(), f"{ANSWER}_{place}") for place, node in enumerate(calls)]
    inner = exp.Select(expressions=items).from_(table.copy(), copy=False)
    if select.args.get("where") is not None:
        inner.set("where", select.args["where"].copy())
    inner.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
    outer = select.copy()
    for part in [part for part in outer.args if part != "expressions"]:
        outer.set(part, None)
    for place, (before, after) in enumerate(zip(calls, calls_of(outer), strict=True)):
        call = call_of(before)
        assert call is not None
        column = exp.column(f"{ANSWER}_{place}", QUERY)
        if call.distinct:  # a unit has one of itself, or none
            there = exp.If(this=exp.GT(this=column, expression=exp.Literal.number(0)), true=exp.column(UNIT, QUERY))
            own = replace(call, argument=None)
            made = function_of("units").node(own, exp.Case(ifs=[there]))
        else:
            own = Call("sum", words=call.words)
            made = function_of("sum").node(replace(call, kind="sum", star=False, argument=None), column)
        made.meta.update(call=own, start=before.meta["start"], end=before.meta["end"])
        column.meta.update(start=before.meta["start"], end=before.meta["end"])
        after.replace(made)
    for before, after in zip(select.expressions, list(outer.expressions), strict=True):
        if not before.alias:
            after.replace(exp.alias_(after.copy(), words_of(before, text), quoted=True))
    return outer.from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(QUERY))), copy=False)


def _adds_up(node: exp.Expr) -> bool:
    """Return whether a call is a sum, a count of rows or a number of units that says not how it is measured."""
    call = call_of(node)
    if call is None or call.kind not in ("sum", "count", "units"):
        return False
    return not call.private and call.bounds is None and call.epsilon is None
