"""Several sets of groups (ROLLUP, CUBE, GROUPING SETS): the finest groups are measured, and added up for the others."""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.analysis.aggregation import Aggregation
from dpnotebook.sql.analysis.release_names import quoted
from dpnotebook.sql.analysis.requested_aggregates import call_at
from dpnotebook.sql.ownership.reader import Reader
from dpnotebook.sql.ownership.select_parts import calls_of
from dpnotebook.sql.parse.calls import Call
from dpnotebook.sql.parse.grouping_sets import has_sets

ADDED = "added"  # marks what is measured beside what the list of a select has


def add_counts(select: exp.Select) -> None:
    """Add the number of values to a private select that averages them over several sets of groups.

    Parameters
    ----------
    select
        The select; averages of larger groups are those of smaller ones, each with the weight of its values.
    """
    group = select.args.get("group")
    if group is None or not has_sets(group):
        return
    averaged = [node for node in calls_of(select) if function_of(call_at(node).kind).averages]
    for argument in dict.fromkeys(node.this for node in averaged):
        if _count_of(select, argument) is None:
            call = Call("count", words=f"COUNT({argument.sql('duckdb')})")
            count = function_of("count").node(call, argument.copy())
            count.meta.update({"call": call, ADDED: True})
            select.append("expressions", count)


def is_added(item: exp.Expr) -> bool:
    """Return whether an item of a list was not written there."""
    return bool(item.meta.get(ADDED))


def grouped_again(found: Aggregation) -> exp.Group | None:
    """Return GROUP BY over the columns of a release, where there are several sets of keys; None where there is one."""
    if found.group.sets is None:
        return None
    sets: exp.Group = found.group.sets.copy()
    for place in list(sets.find_all(exp.Literal)):
        place.replace(quoted(found.keys[int(place.this)].key.name))
    return sets


def over_groups(written: exp.Expr, select: exp.Select, found: Aggregation, reader: Reader) -> exp.Expr:
    """Return what an aggregate is for several groups of a release together.

    Parameters
    ----------
    written
        The call, as it was read.
    select
        The select that it stands in.
    found
        What that measures.
    reader
        Who reads the statement.

    Raises
    ------
    SQLError
        If that does not follow from what it is for each.
    """
    call, answers = call_at(written), quoted(found.names[id(written)])
    function = function_of(call.kind)
    if function.averages and not found.measured.written:
        count = _count_of(select, written.this)
        assert count is not None
        return _weighted(answers, quoted(found.names[id(count)]))
    if function.adds and (function.of != "units" or found.measured.single):
        return exp.Sum(this=answers)
    raise reader.text.error(
        f"{call.words} of several groups does not follow from that of each; ask for it in a statement for each set "
        "of columns",
        written,
    )


def _weighted(answers: exp.Expr, counts: exp.Expr) -> exp.Expr:
    """Return the mean of answers, each with the weight of its count; groups whose answer noise hides have none."""
    hidden = exp.Is(this=answers.copy(), expression=exp.null())
    weight = exp.Case(ifs=[exp.If(this=exp.Not(this=hidden), true=exp.Greatest(this=counts, expressions=[_zero()]))])
    total = exp.Sum(this=exp.Mul(this=answers, expression=weight.copy()))
    return exp.Div(this=total, expression=exp.Nullif(this=exp.Sum(this=weight), expression=_zero()))


def _zero() -> exp.Expr:
    return exp.Literal.number(0)


def _count_of(select: exp.Select, argument: exp.Expr) -> exp.Expr | None:
    """Return the call that counts the values of a column in a select."""
    for node in calls_of(select):
        call = call_at(node)
        if call.kind == "count" and not call.star and not call.distinct and node.this == argument:
            return node
    return None
