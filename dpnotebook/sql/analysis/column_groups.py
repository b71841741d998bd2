"""Aggregates of disjoint rows side by side, as the grouping that they are: AVG(x) FILTER (WHERE g = 'a') and so on.

Each is measured for itself otherwise, and they share the budget: four of them are two to thirty times farther off than
the same four numbers as rows of a GROUP BY, where a row is in one group and each group has the whole budget.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT, Text
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.expressions import words_of
from dpnotebook.sql.ownership.select_parts import calls_of, expression_queries
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.statement_parser import clause_of

ONE, ZERO = exp.Literal.number(1), exp.Literal.number(0)
KEY, ANSWER, QUERY = "condition", "answer", "by_condition"
WITHOUT = ("group", "having", "qualify", "order", "distinct", "limit", "offset", "windows")
# Texts that are different values of any type that they can be cast to: words, and days that are written out.
DIFFERENT = (re.compile(r"[^\W\d].*", re.DOTALL), re.compile(r"\d{4}-\d{2}-\d{2}"))
WORDS = ("nan", "inf", "infinity", "true", "false", "t", "f", "yes", "no", "y", "n")  # several of them for one value
COMPARED: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.LT: (False, False),
    exp.LTE: (False, True),
    exp.GT: (True, False),
    exp.GTE: (True, True),
}
TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


@dataclass(frozen=True)
class _Values:
    """Values of a column: some texts or truth values, or all numbers between two ends.

    Parameters
    ----------
    some
        The texts or truth values; of what is between ends, nothing.
    but
        All values but these; of what is between ends, and of some, nothing.
    between
        Both ends, each with whether it is outside of them: (low, False) < (low, True).
    """

    some: frozenset[str | bool] = frozenset()
    but: frozenset[str | bool | float] = frozenset()
    between: tuple[tuple[float, bool], tuple[float, bool]] | None = None

    def apart_from(self, other: _Values) -> bool:
        """Return whether surely no value is of both."""
        if self.between is not None and other.between is not None:
            return self._ends_before(other) or other._ends_before(self)
        if self.but or other.but:
            return self._among(other.but) or other._among(self.but)
        alike = {type(value) for value in self.some} == {type(value) for value in other.some}
        return bool(self.some and other.some) and alike and not _as_any_sees(self.some) & _as_any_sees(other.some)

    def _among(self, values: frozenset[str | bool | float]) -> bool:
        """Return whether it is of no other than some values."""
        if self.between is not None:
            (low, _), (high, _) = self.between
            return low == high and low in values
        return bool(self.some) and self.some <= values

    def _ends_before(self, other: _Values) -> bool:
        assert self.between is not None
        assert other.between is not None
        (high, without), (low, after) = self.between[1], other.between[0]
        return high < low or (high == low and (without or after))

    @property
    def one(self) -> exp.Expr | None:
        """The one value that it is of, as a literal; None where that is not one alone."""
        if self.between is not None:
            (low, _), (high, _) = self.between
            return exp.Literal.number(f"{low!r}".removesuffix(".0")) if low == high else None
        if len(self.some) != 1:
            return None
        (value,) = self.some
        return exp.convert(value)

    def and_of(self, other: _Values) -> _Values | None:
        """Return the numbers that are of both; None of what is not between ends."""
        if self.between is None or other.between is None:
            return None
        (low, high), (low_too, high_too) = self.between, other.between
        least = min(high, high_too, key=lambda end: (end[0], not end[1]))
        return _Values(between=(max(low, low_too), least))


def _as_any_sees(values: frozenset[str | bool]) -> set[str | bool]:
    """Return values as the coarsest collation has them, to which case, accents and blanks at the end are nothing."""
    texts = [unicodedata.normalize("NFKD", one).casefold().rstrip() for one in values if isinstance(one, str)]
    plain = ["".join(letter for letter in text if not unicodedata.combining(letter)) for text in texts]
    return {*plain, *(one for one in values if not isinstance(one, str))}


@dataclass(frozen=True)
class _Some:
    """A call that is of some rows.

    Parameters
    ----------
    node, call
        As it was read.
    of, values
        Which rows: those at some values of an expression.
    chosen
        The condition of the statement that says so.
    argument
        What is aggregated of these; None where rows are counted.
    """

    node: exp.Expr
    call: Call
    of: exp.Expr
    values: _Values
    chosen: exp.Expr
    argument: exp.Expr | None

    @property
    def asks(self) -> tuple[object, ...]:
        """What it asks of its rows, equal for what is one aggregate of a grouping."""
        call = self.call
        kind = "count" if self.argument is None else call.kind
        return kind, self.argument, call.fractions, call.population


def as_groups(select: exp.Select, by: str, text: Text) -> exp.Select | None:
    """Return a select whose aggregates are each of rows that others have not, over one that groups by these rows.

    Left as it is: where something is of all rows, of private functions, and of selects that group already.

    Parameters
    ----------
    select
        The select as it was read.
    by
        "columns" to group by the column that each aggregate is at one value of, as GROUP BY does; "conditions" to group
        by which of the conditions holds, whatever they are.
    text
        The statement.
    """
    some = _of_some(select, by)
    return None if some is None else _grouped(select, some, by == "columns", text)


def is_grouping(select: exp.Select) -> bool:
    """Return whether a select would be a grouping by conditions.

    Parameters
    ----------
    select
        The select as it was read.
    """
    return _of_some(select, "conditions") is not None


def _of_some(select: exp.Select, by: str) -> list[_Some] | None:
    """Return of which rows each call of a select is, in their order; None where that makes no grouping."""
    if clause_of(select) is not None or any(select.args.get(part) for part in WITHOUT) or expression_queries(select):
        return None
    calls = calls_of(select)
    ways = [_ways(node) for node in calls]
    if len(calls) < 2 or not all(ways):
        return None
    for of in ways[0]:
        found = [next((way for way in each if way.of == of.of), None) for each in ways]
        some = [one for one in found if one is not None]
        plain = isinstance(of.of, exp.Column) and all(one.values.one is not None for one in some)
        if len(some) == len(calls) and _saves(some) and (plain or by == "conditions"):
            return some
    return None


def _saves(some: list[_Some]) -> bool:
    """Return whether there are fewer aggregates of a grouping, and no row is in two of its groups."""
    values = list(dict.fromkeys(one.values for one in some))
    asked, written = {one.asks for one in some}, {(one.asks, one.values) for one in some}
    return len(asked) < len(written) and all(one.apart_from(other) for one, other in combinations(values, 2))


def _grouped(select: exp.Select, some: list[_Some], by_column: bool, text: Text) -> exp.Select:
    """Return the select over the grouping: the same one, in whatever order its groups are written."""
    written = {one.values: one.chosen for one in reversed(some)}
    chosen = dict(sorted(written.items(), key=lambda one: one[1].sql(DIALECT)))
    places: dict[_Values, exp.Expr] = {values: exp.Literal.number(i) for i, values in enumerate(chosen)}
    key: exp.Expr = exp.Case(
        ifs=[exp.If(this=chosen[values].copy(), true=place.copy()) for values, place in list(places.items())[:-1]],
        default=exp.Literal.number(len(places) - 1),
    )
    name = some[0].of.name if by_column else KEY
    if by_column:
        key = some[0].of.copy()
        places = {values: values.one or place for values, place in places.items()}
    asked = {asks: place for place, asks in enumerate(dict.fromkeys(one.asks for one in some))}
    items: list[exp.Expr] = [exp.alias_(key, name, quoted=True)]
    for asks, place in asked.items():
        items.append(exp.alias_(_call(next(one for one in some if one.asks == asks)), f"{ANSWER}_{place}"))
    inner = exp.Select(expressions=items)
    for part, value in select.args.items():
        if part not in ("expressions", "where", "with_", "with") and value is not None:
            inner.set(part, _copied(value))
    among = exp.paren(exp.or_(*(exp.paren(one.copy()) for one in chosen.values()), copy=False))
    where = select.args.get("where")
    conditions = [among] if where is None else [exp.paren(where.this.copy()), among]
    inner.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    inner.set("group", exp.Group(expressions=[exp.Literal.number(1)]))
    outer = select.copy()
    for part in [part for part in outer.args if part not in ("expressions", "with_", "with")]:
        outer.set(part, None)
    for before, after in zip(calls_of(select), calls_of(outer), strict=True):
        one = next(one for one in some if one.node is before)
        answer = exp.column(f"{ANSWER}_{asked[one.asks]}", QUERY)
        group = exp.column(exp.to_identifier(name, quoted=True), QUERY)
        here = exp.EQ(this=group, expression=places[one.values].copy())
        after.replace(exp.Max(this=exp.Case(ifs=[exp.If(this=here, true=answer)])))  # the answer of one group
    for before, after in zip(select.expressions, list(outer.expressions), strict=True):
        if not before.alias:
            after.replace(exp.alias_(after.copy(), words_of(before, text), quoted=True))
    return outer.from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(QUERY))), copy=False)


def _call(one: _Some) -> exp.Expr:
    """Return the aggregate of a grouping."""
    kind = "count" if one.argument is None else one.call.kind
    name = "COUNT" if one.argument is None else one.call.words.split("(")[0].upper()
    words = f"{name}({'*' if one.argument is None else one.argument.sql(DIALECT)})"
    call = replace(one.call, kind=kind, star=one.argument is None, argument=one.argument, words=words)
    made = function_of(kind).node(call, exp.Star() if one.argument is None else one.argument.copy())
    made.meta.update(call=call, start=one.node.meta["start"], end=one.node.meta["end"])
    return made


def _copied(value: object) -> object:
    """Return a part of a select, copied."""
    if isinstance(value, exp.Expression):
        return value.copy()
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _ways(node: exp.Expr) -> list[_Some]:
    """Return in which ways a call is one of some rows: by which expressions these are chosen."""
    call = call_of(node)
    assert call is not None
    own = call.private or call.bounds is not None or call.epsilon is not None
    if own or call.distinct or call.star or call.array or call.second is not None or call.argument is None:
        return []
    case = call.argument.unnest()
    if isinstance(case, exp.If):
        case = exp.Case(ifs=[exp.If(this=case.this, true=case.args["true"])], default=case.args.get("false"))
    if not isinstance(case, exp.Case) or case.this is not None:
        return []
    ifs, otherwise = [*case.args["ifs"]], case.args.get("default")
    while isinstance(otherwise, exp.Case) and otherwise.this is None:  # as shares of some rows have it
        ifs, otherwise = [*ifs, *otherwise.args["ifs"]], otherwise.args.get("default")
    nothing = otherwise is None or isinstance(otherwise, exp.Null) or (call.kind == "sum" and otherwise == ZERO)
    if not nothing:
        return []
    branches = [(_parts(branch.this), branch.args["true"]) for branch in ifs]
    found = []
    for chosen, of, values in _choices(branches[0][0]):
        rest = [([part for part in parts if part not in chosen], value) for parts, value in branches]
        alike = all(set(chosen) <= set(parts) for parts, _ in branches)
        if alike:
            argument = _argument(rest)
            counted = argument == ONE and call.kind in ("count", "sum")
            found.append(_Some(node, call, of, values, exp.and_(*chosen), None if counted else argument))
    return found


def _argument(branches: list[tuple[list[exp.Expr], exp.Expr]]) -> exp.Expr:
    """Return what is aggregated of the rows of a group, by what remains of the conditions of a CASE."""
    ifs: list[exp.Expr] = []
    for rest, value in branches:
        if not rest:
            if not ifs:
                return value.copy()
            return exp.Case(ifs=ifs, default=value.copy())
        ifs.append(exp.If(this=exp.and_(*rest), true=value.copy()))
    return exp.Case(ifs=ifs)


def _choices(parts: Iterable[exp.Expr]) -> list[tuple[list[exp.Expr], exp.Expr, _Values]]:
    """Return which parts of a condition choose values of an expression, of which one, and which values."""
    found: dict[exp.Expr, tuple[list[exp.Expr], _Values]] = {}
    for part in parts:
        choice = _choice(part)
        if choice is None:
            continue
        of, values = choice
        chosen, before = found.get(of, ([], values))
        both = values if not chosen else before.and_of(values)
        if both is not None:
            found[of] = ([*chosen, part], both)
    return [(chosen, of, values) for of, (chosen, values) in found.items()]


def _choice(part: exp.Expr) -> tuple[exp.Expr, _Values] | None:
    """Return the expression that a condition is about, and the values at which it holds; None of any other."""
    part = part.unnest()
    if isinstance(part, exp.Column):
        return part, _Values(frozenset([True]))
    if isinstance(part, exp.Not) and isinstance(part.this.unnest(), exp.Column):
        return part.this.unnest(), _Values(frozenset([False]))
    if isinstance(part, exp.In) and part.expressions and not part.args.get("query"):
        texts = [_literal(one) for one in part.expressions]
        some = frozenset(one for one in texts if isinstance(one, str))
        return (part.this.unnest(), _Values(some)) if len(some) == len(texts) else None
    if isinstance(part, exp.Between):
        ends = _literal(part.args["low"]), _literal(part.args["high"])
        low, high = (one if isinstance(one, float) else math.nan for one in ends)
        known = not math.isnan(low + high)
        return (part.this.unnest(), _Values(between=((low, False), (high, False)))) if known else None
    if not isinstance(part, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    kind: type[exp.Expr] = type(part)
    of, value = part.this.unnest(), _literal(part.expression)
    if value is None:
        of, value, kind = part.expression.unnest(), _literal(part.this), TURNED.get(kind, kind)
    if value is None:
        return None
    if kind is exp.NEQ:
        return of, _Values(but=frozenset([value]))
    if kind is exp.EQ:
        if isinstance(value, float):
            return of, _Values(between=((value, False), (value, False)))
        return of, _Values(frozenset([value]))
    if not isinstance(value, float):
        return None
    above, equal = COMPARED[kind]
    return of, _Values(
        between=((value, not equal), (math.inf, False)) if above else ((-math.inf, False), (value, not equal))
    )


def _literal(node: exp.Expr) -> str | bool | float | None:
    """Return the value of a literal: a number, a truth value, or a text that is no other one's value; else None."""
    node = node.unnest()
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if node.is_number:
        try:
            return float(node.sql())
        except ValueError:
            return None
    if not node.is_string:
        return None
    text = str(node.this)
    different = any(form.fullmatch(text) for form in DIFFERENT) and text.casefold() not in WORDS
    return text if different else None


def _parts(condition: exp.Expr) -> list[exp.Expr]:
    """Return what a condition is true of if it is true of all of them."""
    condition = condition.unnest()
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    return [part.unnest() for part in parts]
