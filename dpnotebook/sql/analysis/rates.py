"""A count over the count it is a part of, as the mean that it is: COUNT(*) FILTER (WHERE died) / COUNT(*); or a sum.

A mean is measured about a middle value, together with the number of its rows, and so it is two to five times closer
than a ratio of two counts that are measured each for itself. So are means in which rows have weights, as those of
surveys: SUM(weight * income) / SUM(weight).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from sqlglot import exp

from dpnotebook.sql.aggregates.catalogue import AVERAGE, WEIGHTED
from dpnotebook.sql.analysis.implied import follows, is_there, parts_of
from dpnotebook.sql.ownership.select_parts import calls_of
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.statement_parser import clause_of

# Of a query whose rows are no rows of what it reads, each with what is worked out from it.
NO_ROWS = ("group", "having", "qualify", "distinct", "limit", "offset", "windows", "joins", "laterals")
ONE, ZERO = exp.Literal.number(1), exp.Literal.number(0)


def as_means(select: exp.Select, weighted: bool = False, below: exp.Expr | None = None) -> bool:
    """Write ratios of a private select as the means that they are, and return whether there were any.

    Left as they are: ratios whose numerator is shown as well, so that all that is shown fits together; and those of
    private functions and of selects with a private clause, which say themselves how they are measured.

    Parameters
    ----------
    select
        The select, of which expressions are replaced.
    weighted
        Whether means in which rows have weights can be measured.
    below
        The query that it reads alone, by a name or where it stands, in which products may have been given names; None
        where it reads a table, or more.
    """
    if clause_of(select) is not None:
        return False
    weighted = weighted and not any(select.find_all(exp.GroupingSets, exp.Rollup, exp.Cube))
    named = _named_below(below) if weighted else {}
    for division in list(_divisions(select)):
        _split(division, weighted, named, calls_of(select))
    found = [(node, *pair) for node in _divisions(select) if (pair := _mean_of(node, weighted, named)) is not None]
    inside = {id(call) for node, *_ in found for part in (node.this, node.expression) for call in part.walk()}
    shown = [call for call in calls_of(select) if id(call) not in inside]
    made = False
    for node, counted, mean in found:
        if counted not in shown:
            counted.replace(mean)
            node.replace(exp.Paren(this=_uncast(node.this)))
            made = True
    return made


def _divisions(select: exp.Select) -> Iterator[exp.Div]:
    """Yield the divisions of a select's list, and of what chooses and orders its groups."""
    roots = [*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order"))]
    for root in roots:
        if root is not None:
            nodes = root.walk(prune=lambda node: isinstance(node, exp.Query) or call_of(node) is not None)
            yield from [node for node in nodes if isinstance(node, exp.Div)]


def _split(division: exp.Div, weighted: bool, named: Mapping[str, exp.Expr], calls: Sequence[exp.Expr]) -> None:
    """Write a difference, or a sum, of counts over a count as that of two means: `(a - b) / c` is `a / c - b / c`."""
    added = _inner(division.this)
    while isinstance(added, exp.Mul):
        sides = _inner(added.this), _inner(added.expression)
        added = sides[0] if sides[1].is_number else sides[1]
    if not isinstance(added, exp.Add | exp.Sub):
        return
    made = type(added)(
        **{
            side: exp.Div(
                **{**division.args, "this": added.args[side].copy(), "expression": division.expression.copy()}
            )
            for side in ("this", "expression")
        }
    )
    inside = [node for node in added.walk() if call_of(node) is not None]
    alone = all(sum(call == one for one in calls) == 1 for call in inside)
    if alone and all(_mean_of(made.args[side], weighted, named) is not None for side in ("this", "expression")):
        added.replace(made)
        division.replace(exp.Paren(this=division.this))


def _named_below(query: exp.Expr | None) -> dict[str, exp.Expr]:
    """Return what the columns of a query of rows are, by their names in lower case; nothing of one that is no such."""
    if not isinstance(query, exp.Select) or any(query.args.get(part) for part in NO_ROWS) or calls_of(query):
        return {}
    names = [item.alias_or_name.casefold() for item in query.expressions]
    return {
        name: item.unalias().unnest()
        for name, item in zip(names, query.expressions, strict=True)
        if names.count(name) == 1 and not item.is_star
    }


def _mean_of(division: exp.Div, weighted: bool, named: Mapping[str, exp.Expr]) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the call above the line and the mean in its place that the division is; None where it is none."""
    above, below = _counted(division.this), _divisor(division.expression)
    if above is None or below is None:
        return None
    call, of = call_of(above), call_of(below)
    assert call is not None
    assert of is not None
    if any(one.private or one.bounds is not None or one.epsilon is not None for one in (call, of)):
        return None
    words = f"{call.words} / {of.words}"
    if (argument := _averaged(call, of)) is not None:
        mean = Call(AVERAGE.kind, words=words)
        made = AVERAGE.node(mean, argument)
    elif weighted and (pair := _weighted(call, of) or _weighted_below(call, of, named)) is not None:
        mean = Call(WEIGHTED.kind, operands=WEIGHTED.operands, words=words)
        made = WEIGHTED.node(mean, *pair)
    else:
        return None
    made.meta.update(call=mean, start=above.meta["start"], end=below.meta["end"])  # it was read from all of that
    return above, made


def _averaged(call: Call, of: Call) -> exp.Expr | None:
    """Return what the mean is of: 1 and 0 for counts; None where rows count above that do not below.

    A sum over some rows, as of CASE and of FILTER, is over those that count below, or over some of these.
    """
    among = _condition(of)
    if among is None:
        return None
    condition = _condition(call)
    if condition is not None and not call.star:
        if of.star:
            return _case(condition, ZERO.copy())
        if follows(among, condition):
            return _case(condition, exp.Case(ifs=[exp.If(this=among.copy(), true=ZERO.copy())]))
    if call.kind != "sum" or call.argument is None:
        return None
    if of.star:  # a row without a value counts as 0
        return exp.Coalesce(this=call.argument.copy(), expressions=[ZERO.copy()])
    if among in (is_there(call.argument), is_there(_only_column(call.argument))):
        return call.argument.copy()
    where, value = _branch(call.argument)
    if where is None:
        return None
    some = exp.Case(ifs=[exp.If(this=where.copy(), true=value.copy())])
    if among == is_there(some):
        return some
    if not follows(among, where):
        return None
    filled = exp.Coalesce(this=value.copy(), expressions=[ZERO.copy()])
    others = [] if parts_of(among) == parts_of(where) else [exp.If(this=among.copy(), true=ZERO.copy())]
    return exp.Case(ifs=[exp.If(this=where.copy(), true=filled), *others])


def _weighted(call: Call, of: Call) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the value and the weight of a mean in which rows have weights; None where it is none.

    A row without a value adds its weight below the line, and nothing above: its value is 0.
    """
    if call.kind != "sum" or of.kind != "sum" or call.argument is None or of.argument is None:
        return None
    weight, value = of.argument, call.argument.unnest()
    (among, one), (condition, product) = _branch(weight), _branch(value)
    found = _without(product, one)
    if found is None:
        return None
    some = condition is not None and among != condition
    if among is not None and (some or condition is None):
        known = among in _there(product, one) if condition is None else follows(among, condition)
        if not known:
            return None  # rows count above that do not below
    if condition is not None and some:
        found = exp.Case(ifs=[exp.If(this=condition.copy(), true=found)], default=ZERO.copy())
    return exp.Coalesce(this=found, expressions=[ZERO.copy()]), weight.copy()


def _weighted_below(call: Call, of: Call, named: Mapping[str, exp.Expr]) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the same where the product of value and weight was given a name below; None where it is none.

    The value itself need have no name: it is the product over the weight, of rows whose weight is not 0.
    """
    if call.kind != "sum" or of.kind != "sum" or call.argument is None or of.argument is None:
        return None
    product, weight = (node.unnest() for node in (call.argument, of.argument))
    if not all(isinstance(node, exp.Column) and node.name.casefold() in named for node in (product, weight)):
        return None
    if _without(named[product.name.casefold()], named[weight.name.casefold()]) is None:
        return None
    numbers = (exp.cast(node.copy(), exp.DataType.Type.DOUBLE) for node in (product, weight))
    above, below = numbers
    value = exp.Div(this=above, expression=exp.Nullif(this=below, expression=ZERO.copy()), typed=False, safe=True)
    return exp.Coalesce(this=value, expressions=[ZERO.copy()]), weight.copy()


def _branch(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr]:
    """Return the condition of a CASE that is 0 or NULL elsewhere, and what it is there; else None, and the node."""
    node = node.unnest()
    if isinstance(node, exp.Case) and node.this is None and len(node.args["ifs"]) == 1:
        branch, other = node.args["ifs"][0], node.args.get("default")
        if other is None or other == ZERO or isinstance(other, exp.Null):
            return branch.this.unnest(), branch.args["true"].unnest()
    return None, node


def _without(product: exp.Expr, weight: exp.Expr) -> exp.Expr | None:
    """Return what a product is without a factor, or without those of a product; None where these are none of its."""
    factors = _factors(product)
    for factor in _factors(weight):
        if factor not in factors:
            return None
        factors.remove(factor)
    copies = [exp.paren(factor.copy()) if isinstance(factor, exp.Binary) else factor.copy() for factor in factors]
    return reduce(lambda a, b: exp.Mul(this=a, expression=b), copies) if copies else ONE.copy()


def _factors(product: exp.Expr) -> list[exp.Expr]:
    product = product.unnest()
    return [factor.unnest() for factor in (product.flatten() if isinstance(product, exp.Mul) else [product])]


def _there(product: exp.Expr, weight: exp.Expr) -> list[exp.Expr]:
    """Return what says that the value of a weighted row is there."""
    value = _without(product, weight)
    return [] if value is None else [is_there(value), is_there(_inner(value))]


def _condition(call: Call) -> exp.Expr | None:
    """Return the condition of the rows that a call counts, TRUE of all; None where it is no count of rows."""
    if call.kind not in ("count", "sum") or call.distinct:
        return None
    if call.star or call.argument is None:
        return exp.true()
    argument = call.argument.unnest()
    if isinstance(argument, exp.Case) and argument.this is None and len(argument.args["ifs"]) == 1:
        branch, other = argument.args["ifs"][0], argument.args.get("default")
        counts = branch.args["true"] == ONE
        if counts and (other is None or (call.kind == "sum" and other == ZERO)):
            condition: exp.Expr = branch.this
            return condition
    if call.kind == "count":
        return is_there(argument)
    truth: exp.Expr = argument.this.unnest() if isinstance(argument, exp.Cast) else argument
    return truth if isinstance(truth, exp.Predicate | exp.Connector | exp.Not) else None


def _only_column(node: exp.Expr) -> exp.Expr:
    """Return the one column that a value is worked out from, without which there is none; else the value itself."""
    parts = [part for part in node.walk() if not isinstance(part, exp.Paren | exp.Identifier)]
    columns = [part for part in parts if isinstance(part, exp.Column)]
    steps = (exp.Column, exp.Literal, exp.Mul, exp.Add, exp.Sub, exp.Pow, exp.Neg)
    known = columns and all(one == columns[0] for one in columns) and all(isinstance(part, steps) for part in parts)
    return columns[0] if known else node


def _case(condition: exp.Expr, default: exp.Expr) -> exp.Case:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=ONE.copy())], default=default)


def _counted(node: exp.Expr) -> exp.Expr | None:
    """Return the call that a numerator is, but for factors; None where it is another expression."""
    node = _inner(node)
    while isinstance(node, exp.Mul):
        sides = _inner(node.this), _inner(node.expression)
        numbers = [side.is_number for side in sides]
        if numbers[0] == numbers[1]:
            return None
        node = sides[numbers[0]]
    return node if call_of(node) is not None else None


def _divisor(node: exp.Expr) -> exp.Expr | None:
    """Return the call that a divisor is; NULLIF(..., 0) of it is the same, as a mean of nothing is NULL."""
    node = _inner(node)
    if isinstance(node, exp.Nullif) and node.expression == ZERO:
        node = _inner(node.this)
    return node if call_of(node) is not None else None


def _inner(node: exp.Expr) -> exp.Expr:
    """Return what stands in parentheses, or is cast to a number."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.NUMERIC_TYPES)):
        node = node.this
    return node


def _uncast(node: exp.Expr) -> exp.Expr:
    """Return a numerator without casts: of a mean they would round."""
    made = node.copy()
    for cast in list(made.find_all(exp.Cast)):
        if call_of(_inner(cast)) is not None:
            inner = _inner(cast)
            if cast is made:
                return inner
            cast.replace(inner)
    return made
