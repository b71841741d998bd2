"""Aggregates that can be written in several ways, written in one: so all of these are measured alike, and known again.

`SUM(1)` is COUNT(*), `SUM(CASE WHEN old THEN 1 ELSE 0 END)` counts rows, `AVG(x / 12) * 12` is AVG(x), and what
all aggregates of a select without groups are of, by FILTER or CASE, is a condition of WHERE.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from dpnotebook.dialect.types import Kind
from dpnotebook.sql.aggregates.catalogue import AVERAGE, function_of
from dpnotebook.sql.ownership.select_parts import calls_of
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.statement_parser import clause_of
from dpnotebook.sql.reuse.spelling import TRUTH, bare

KindOf: TypeAlias = Callable[[exp.Column], Kind | None]
ADDED = ("sum", AVERAGE.kind)  # of what a factor of every row is one of the answer
GROUPED = ("group", "having", "qualify", "distinct", "order")  # of a select in which WHERE would mean something else
EXACT = ("DOUBLE", "DECIMAL", "BIGINT", "HUGEINT", "INT128")  # types that whole numbers are cast to as they are
PLACE = ("line", "col", "start", "end")


def as_usual_calls(select: exp.Select, kind_of: KindOf, is_unit: Callable[[exp.Column], bool]) -> bool:
    """Write the aggregates of a private select as they are usually written, and return whether any was another.

    Left as they are: private functions, and selects with a private clause, which say themselves how they are measured.

    Parameters
    ----------
    select
        The select, of which expressions are replaced; what its answers are called stays.
    kind_of
        Gives what a column holds, None where that is not known.
    is_unit
        Tells whether a column is that of the unit, which every row that counts has.
    """
    if clause_of(select) is not None:
        return False
    changed = False
    for node in calls_of(select):
        changed |= _searched(node)
        call = call_of(node)
        if call is not None and not call.private and call.bounds is None and call.epsilon is None:
            changed |= _unscaled(node, call, kind_of)
    for node in calls_of(select):
        changed |= _counted(node, kind_of) or _of_rows(node, is_unit)
    return _with_common_condition(select) or changed


# Choices


def _searched(node: exp.Expr) -> bool:
    """Write what a call is of as a CASE with a condition, where it is IF, or a CASE of one value."""
    call = call_of(node)
    argument = None if call is None or call.star or call.distinct or call.argument is None else bare(call.argument)
    made: exp.Case | None = None
    if isinstance(argument, exp.If):
        made = exp.Case(
            ifs=[exp.If(this=argument.this, true=argument.args["true"])], default=argument.args.get("false")
        )
    elif isinstance(argument, exp.Case) and argument.this is not None and len(argument.args["ifs"]) == 1:
        (branch,) = argument.args["ifs"]
        equal = exp.EQ(**{
            name: side if isinstance(side, exp.Column | exp.Literal) else exp.Paren(this=side)
            for name, side in (("this", argument.this), ("expression", branch.this))
        })  # fmt: skip
        made = exp.Case(ifs=[exp.If(this=equal, true=branch.args["true"])], default=argument.args.get("default"))
    if call is None or argument is None or made is None or call.private:
        return False
    made.meta.update({key: argument.meta[key] for key in PLACE if key in argument.meta})
    node.set("this", made.copy())
    return True


# Factors


def _unscaled(node: exp.Expr, call: Call, kind_of: KindOf) -> bool:
    """Take factors, and of a mean what is added, out of a call: AVG(x) / 12 * 12 stands for AVG(x / 12) * 12."""
    if call.argument is None or call.star or call.distinct:
        return False
    if call.kind not in ADDED:
        inner = _as_it_is(call.argument, kind_of)
        node.set("this", inner.copy())
        return inner is not call.argument
    steps: list[exp.Expr] = []
    inner = call.argument
    while (found := _step(inner, call.kind, kind_of)) is not None:
        step, inner = found
        steps += [] if step is None else [step]
    if call.kind == "sum" and (number := _number(inner)) is not None:
        if number != 1:
            steps.append(exp.Mul(this=inner.copy(), expression=exp.Placeholder()))
        made: exp.Expr = _as_call("count", call, exp.Star(), node, star=True)
    elif inner is call.argument or inner.find(exp.Column) is None:
        return False
    else:
        made = function_of(call.kind).node(_called(call), inner.copy())
        _places(made, _called(call), node)
    if steps and (node.parent is None or isinstance(node.parent, exp.Alias | exp.Select)):
        return False  # what is shown by itself has an error of its own on the card
    whole = made
    for step in reversed(steps):
        place = step.find(exp.Placeholder)
        assert place is not None
        place.replace(whole)
        whole = exp.Paren(this=step)
    whole.meta.update({key: node.meta[key] for key in PLACE if key in node.meta})
    node.replace(whole)
    return True


def _step(node: exp.Expr, kind: str, kind_of: KindOf) -> tuple[exp.Expr | None, exp.Expr] | None:
    """Return what is done to a number last, with a placeholder in its place, and that number; None where nothing is.

    The first is None where it changes nothing, as a factor of 1 does.
    """
    inner = _as_it_is(node, kind_of)
    if inner is not node:
        return None, inner
    if isinstance(node, exp.Neg) and _number(node) is None:
        return exp.Neg(this=exp.Placeholder()), node.this
    if isinstance(node, exp.Case) and (scaled := _scaled_case(node)) is not None:
        return scaled
    if not isinstance(node, exp.Mul | exp.Div | exp.Add | exp.Sub):
        return None
    for side, other in (("this", "expression"), ("expression", "this")):
        number = _number(node.args[other])
        if number is None or _number(node.args[side]) is not None:
            continue
        adds = isinstance(node, exp.Add | exp.Sub)
        if isinstance(node, exp.Div) and (side != "this" or number == 0):
            return None
        nothing = number == (0 if adds else 1) and (side == "this" or not isinstance(node, exp.Sub))
        if nothing:
            return None, node.args[side]
        if (adds and kind == "sum") or number == 0:
            return None
        step = node.copy()
        step.set(side, exp.Placeholder())
        return step, node.args[side]
    return None


def _scaled_case(node: exp.Case) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the number that a CASE gives where its condition holds, and 0 elsewhere, apart from 1 and 0."""
    default = node.args.get("default")
    if node.this is not None or len(node.args["ifs"]) != 1 or default is None or _number(default) != 0:
        return None
    number = _number(node.args["ifs"][0].args["true"])
    if number in (None, 0, 1):
        return None
    made = node.copy()
    written = made.args["ifs"][0].args["true"]
    written.replace(exp.Literal.number(1))
    return exp.Mul(this=written, expression=exp.Placeholder()), made


def _as_it_is(node: exp.Expr, kind_of: KindOf) -> exp.Expr:
    """Return a number without parentheses, and without a cast that leaves it as it is."""
    while True:
        if isinstance(node, exp.Paren):
            node = node.this
        elif (
            isinstance(node, exp.Cast | exp.TryCast)
            and isinstance(column := bare(node.this), exp.Column)
            and (kind := kind_of(column)) in ("integer", "number")
            and node.to.is_type(*(EXACT if kind == "integer" else EXACT[:1]))
            and not node.to.expressions
        ):
            node = column
        else:
            return node


def _number(node: exp.Expr) -> float | None:
    """Return the number that a literal is; None of anything else."""
    node = bare(node)
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    return float(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


# Counts


def _counted(node: exp.Expr, kind_of: KindOf) -> bool:
    """Write a sum of 1 for each row of some as their count."""
    call = call_of(node)
    if call is None or call.kind != "sum" or call.private or call.bounds is not None or call.epsilon is not None:
        return False
    argument = None if call.argument is None else bare(call.argument)
    condition: exp.Expr | None = None
    if isinstance(argument, exp.Case) and argument.this is None and len(argument.args["ifs"]) == 1:
        branch, other = argument.args["ifs"][0], argument.args.get("default")
        nothing = other is None or isinstance(bare(other), exp.Null) or _number(other) == 0
        condition = branch.this if nothing and _number(branch.args["true"]) == 1 else None
    elif isinstance(argument, exp.Cast | exp.TryCast) and argument.to.is_type(*exp.DataType.NUMERIC_TYPES):
        condition = bare(argument.this)
        condition = condition if _is_truth(condition, kind_of) else None
    elif argument is not None and _is_truth(argument, kind_of):
        condition = argument
    if condition is None:
        return False
    some = exp.Case(ifs=[exp.If(this=condition.copy(), true=exp.Literal.number(1))])
    node.replace(_as_call("count", call, some, node))
    return True


def _of_rows(node: exp.Expr, is_unit: Callable[[exp.Column], bool]) -> bool:
    """Write a count of units that are there, one of each row, as the count of rows that it is."""
    call = call_of(node)
    if call is None or call.kind != "count" or call.distinct or call.private or call.bounds is not None:
        return False
    argument = None if call.argument is None or call.epsilon is not None else bare(call.argument)
    if not isinstance(argument, exp.Column) or not is_unit(argument):
        return False
    node.replace(_as_call("count", call, exp.Star(), node, star=True))
    return True


def _is_truth(node: exp.Expr, kind_of: KindOf) -> bool:
    return isinstance(node, TRUTH) or (isinstance(node, exp.Column) and kind_of(node) == "boolean")


# Conditions


def _with_common_condition(select: exp.Select) -> bool:
    """Write the condition of all calls into WHERE, where a select has no groups, of which some would be lost."""
    if any(select.args.get(part) for part in GROUPED):
        return False
    calls = [(node, call_of(node)) for node in calls_of(select)]
    found = [None if call is None else _of_some(call) for _, call in calls]
    if not found or any(one is None for one in found):
        return False
    some = [one for one in found if one is not None]
    condition = some[0][0]
    if any(one != condition for one, _ in some) or condition.find(exp.Query) is not None:
        return False
    for (node, call), (_, value) in zip(calls, some, strict=True):
        assert call is not None
        if call.kind == "count" and not call.distinct and _number(value) is not None:
            node.replace(_as_call("count", call, exp.Star(), node, star=True))
            continue
        if call.distinct:
            node.this.set("expressions", [value.copy()])
        else:
            node.set("this", value.copy())
        node.meta["call"] = _called(call)
    select.where(exp.Paren(this=condition.copy()), copy=False)
    return True


def _of_some(call: Call) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the condition of the rows that a call is of, and its value there; None where it is of all rows."""
    if call.private or call.bounds is not None or call.epsilon is not None or call.argument is None or call.second:
        return None
    argument = bare(call.argument)
    if not isinstance(argument, exp.Case) or argument.this is not None or len(argument.args["ifs"]) != 1:
        return None
    branch, other = argument.args["ifs"][0], argument.args.get("default")
    nothing = other is None or isinstance(bare(other), exp.Null) or (call.kind == "sum" and _number(other) == 0)
    return (bare(branch.this), bare(branch.args["true"])) if nothing else None


# Calls and names


def _as_call(kind: str, call: Call, argument: exp.Expr, node: exp.Expr, star: bool = False) -> exp.Expr:
    """Return a call of another aggregate in the place of one."""
    made = Call(kind, star=star, words=call.words, called=_name(call))
    return _places(function_of(kind).node(made, argument), made, node)


def _places(made: exp.Expr, call: Call, node: exp.Expr) -> exp.Expr:
    """Say of a node what it calls, and that it was read from the words of another one."""
    made.meta.update({key: node.meta[key] for key in PLACE if key in node.meta})
    made.meta["call"] = call
    return made


def _called(call: Call) -> Call:
    return replace(call, argument=None, second=None, called=_name(call))


def _name(call: Call) -> str:
    """Return what the answer of a call is called, where it has no alias."""
    if call.called is not None:
        return call.called
    word = function_of(call.kind).word_of(call)
    argument = None if call.star or call.argument is None else bare(call.argument)
    return f"{word}_{argument.name}" if isinstance(argument, exp.Column) else word
