"""Keys that a statement works out from declared columns: CASE, IF, COALESCE and conditions, level by level.

Each of their values is a set of levels, so that counts by them are sums of counts by the columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.domain import Boolean, Categories, Range
from dpnotebook.errors import SQLError
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.expression import Expression, Not
from dpnotebook.query.question import Question
from dpnotebook.query.written_keys import WrittenKey, WrittenKeys
from dpnotebook.sql.level_values import combinations
from dpnotebook.sql.linear.condition import OPERATORS, bare, condition, value
from dpnotebook.sql.linear.scope import LinearScope, NotLinear
from dpnotebook.sql.linear.worked_out import DaysOfSpans, days_of_spans, worked_out
from dpnotebook.sql.select import Key
from dpnotebook.workload import Identity, Kron, Predicates, Workload

Value = str | int | bool | None
Groups = list[tuple[Value, Predicate]]

MOST_CELLS = 10**7  # of groups times the cells that they are of: weeks of twenty years
MOST_LEVELS = 1_000  # values of a key, and levels of a column whose values are those of the key
KINDS: Mapping[type, str] = {str: "text", int: "integer", bool: "boolean"}
CONDITIONS: tuple[type[exp.Expr], ...] = (exp.And, exp.Or, exp.Not, exp.Between, exp.In, exp.Is, *OPERATORS)


@dataclass(frozen=True)
class GroupedLevels:
    """A key, and which rows have each of its values.

    Parameters
    ----------
    name
        What it is called.
    columns
        The declared columns that it depends on, in the domain's order.
    groups
        Its values, and the rows that have them.
    moments
        Whether the values are moments, as texts.
    """

    name: str
    columns: tuple[str, ...]
    groups: Groups
    moments: bool = False

    def within(self, where: Predicate) -> tuple[WrittenKey, NDArray[np.bool_]]:
        """Return the key with those of its groups that some row of a condition can be in, and their cells.

        Raises
        ------
        NotLinear
            If these are too many to be listed.
        """
        domain = where.domain
        levels = [np.asarray(allowed_levels(where, name, domain), dtype=np.intp) for name in self.columns]
        cells = math.prod(domain[name].size for name in self.columns)
        if cells * len(self.groups) > MOST_CELLS:
            raise NotLinear
        masks = [rows.dense(self.columns)[np.ix_(*levels)].ravel() for _, rows in self.groups]
        kept = [place for place, mask in enumerate(masks) if mask.any()]
        labels = tuple(self.groups[place][0] for place in kept)
        return WrittenKey(self.name, self.columns, labels, self.moments), np.array([masks[place] for place in kept])


def grouped_levels(node: exp.Expr, key: Key, scope: LinearScope) -> GroupedLevels:
    """Return which rows have each value of an expression that is grouped by.

    Parameters
    ----------
    node
        The expression.
    key
        What it is called, what it holds, and its values where these are known already, whose order is kept.
    scope
        What names mean.

    Raises
    ------
    NotLinear
        If its values are not told by declared levels.
    """
    if (spans := days_of_spans(bare(node), scope)) is not None:
        return _of_spans(spans, key.name, scope)
    try:
        found = _groups(node, scope, Predicate.everything(scope.domain))
    except SQLError:  # a level that was not declared: no row has that value, which is no mistake in a CASE
        raise NotLinear from None
    together: dict[tuple[type, Value], Predicate] = {}
    for given, rows in found:
        told = type(given), given  # 1 is no TRUE
        together[told] = together[told] | rows if told in together else rows
    kinds = {kind for kind, _ in together if kind is not type(None)}
    if len(kinds) != 1:
        raise NotLinear
    only = kinds.pop()
    if KINDS.get(only) != key.kind:
        raise NotLinear
    order: Sequence[Value] = [given for _, given in together] if key.levels is None else key.levels
    values = [given for given in order if given is not None]
    listed: list[tuple[type, Value]] = [*((only, given) for given in values), (type(None), None)]
    if any(type(given) is not only for given in values) or not set(together) <= set(listed):
        raise NotLinear
    if node.find(exp.Coalesce) is not None and any((only, given) not in together for given in values):
        raise NotLinear  # a value of what is missing, which is not declared: only the rows can tell
    groups: Groups = [(one[1], together[one]) for one in listed if one in together]
    columns = {name for _, rows in groups for name in rows.attributes}
    if not columns:
        raise NotLinear  # the same for all rows
    return GroupedLevels(key.name, tuple(name for name in scope.domain.names if name in columns), groups)


def _of_spans(spans: DaysOfSpans, name: str, scope: LinearScope) -> GroupedLevels:
    """Return the days of each span; without a day last, where that is declared."""
    attribute = scope.domain[spans.column]
    if spans.starts.size > MOST_LEVELS:
        raise NotLinear
    masks = np.zeros((spans.starts.size + attribute.nullable, attribute.size), dtype=bool)
    masks[spans.spans, np.arange(attribute.regular)] = True
    labels: list[Value] = [str(start.astype("datetime64[s]")) for start in spans.starts]
    if attribute.nullable:
        masks[-1, attribute.null_index] = True
        labels.append(None)
    groups = [
        (label, Predicate.box(scope.domain, {spans.column: mask})) for label, mask in zip(labels, masks, strict=True)
    ]
    return GroupedLevels(name, (spans.column,), groups, moments=True)


def in_groups(question: Question, keys: Sequence[GroupedLevels], statement: str) -> Question:
    """Return a question about columns as one about groups of their levels.

    Parameters
    ----------
    question
        With the columns of all keys as its keys.
    keys
        Those keys that are worked out.
    statement
        Its text.

    Raises
    ------
    NotLinear
        If a key of several columns stands beside others, or two columns of the answer had one name.
    """
    found = [key.within(question.where) for key in keys]
    columns = [name for key, _ in found for name in key.columns]
    plain = [name for name in question.keys if name not in columns]
    names = [*(key.name for key, _ in found), *plain, *(measure.name for measure in question.measures)]
    joint = len(columns) > len(found)
    if len({name.casefold() for name in names}) < len(names) or (joint and len(columns) < len(question.keys)):
        raise NotLinear
    if joint and len(found) > 1:
        raise NotLinear
    masks = {key.columns[0]: mask for key, mask in found}
    workload = Predicates(found[0][1]).simplest() if joint else _workload(question, masks)
    measures = tuple(replace(measure, workload=workload) for measure in question.measures)
    return replace(question, measures=measures, written=WrittenKeys(statement, tuple(key for key, _ in found)))


def _workload(question: Question, masks: Mapping[str, NDArray[np.bool_]]) -> Workload | None:
    """Return the groups of all keys, given those that are worked out of a column; None where each is a level."""
    domain = question.where.domain
    factors: list[Workload] = []
    for name in sorted(question.keys, key=domain.names.index):
        levels = len(allowed_levels(question.where, name, domain))
        factors.append(Predicates(masks[name]).simplest() if name in masks else Identity(levels))
    if all(isinstance(factor, Identity) for factor in factors):
        return None
    return factors[0] if len(factors) == 1 else Kron(*factors)


def _groups(node: exp.Expr, scope: LinearScope, rows: Predicate) -> Groups:
    """Return the values that an expression has among some rows, and which of them have each; a value may come twice."""
    node = bare(node)
    if rows.is_empty:
        return []
    if isinstance(node, exp.Case | exp.If):
        return _branches(node, scope, rows)
    if isinstance(node, exp.Coalesce):
        return _first_known([node.this, *node.expressions], scope, rows)
    if isinstance(node, exp.Column):
        return _levels(scope.column(node), rows)
    if isinstance(node, CONDITIONS):
        return _truth(condition(node, scope), rows)
    if node.find(exp.Column) is not None:
        return _worked_out(node, scope, rows)
    found = value(node)
    if found is not None and not isinstance(found, str | int | bool):
        raise NotLinear
    return [(found, rows)]


def _worked_out(node: exp.Expr, scope: LinearScope, rows: Predicate) -> Groups:
    """Return the values of any other expression, worked out for every combination of levels of its columns."""
    found = worked_out(node, scope)
    if len(set(found.values)) > MOST_LEVELS:
        raise NotLinear
    columns, told = list(found.columns), list(found.columns.values())
    together: dict[Value, NDArray[np.bool_]] = {}
    for (places, there), given in zip(combinations(told), found.values, strict=True):
        if there:
            mask = together.setdefault(given, np.zeros([column.attribute.size for column in told], dtype=bool))
            mask[places] = True
    groups = [(given, rows & _within(rows, columns, mask)) for given, mask in together.items()]
    return [(given, part) for given, part in groups if not part.is_empty]


def _within(rows: Predicate, names: Sequence[str], mask: NDArray[np.bool_]) -> Predicate:
    """Return the rows whose levels of some columns are marked."""
    if len(names) == 1:
        return Predicate.box(rows.domain, {names[0]: mask})
    found = rows & ~rows
    for level, others in enumerate(mask):
        if others.any():
            one = np.arange(len(mask)) == level
            found |= Predicate.box(rows.domain, {names[0]: one}) & _within(rows, names[1:], others)
    return found


def _branches(node: exp.Case | exp.If, scope: LinearScope, rows: Predicate) -> Groups:
    if isinstance(node, exp.If):
        branches, other = [node], node.args.get("false")
    else:
        branches, other = node.args["ifs"], node.args.get("default")
    found: Groups = []
    for branch in branches:
        holds = exp.EQ(this=node.this.copy(), expression=branch.this.copy()) if _compares(node) else branch.this
        meant = Predicate.of(condition(holds, scope), scope.domain, nulls="sql")
        found += _groups(branch.args["true"], scope, rows & meant)
        rows &= ~meant  # where it is false or NULL
    return found + ([(None, rows)] if other is None else _groups(other, scope, rows))


def _compares(node: exp.Case | exp.If) -> bool:
    """Whether it is CASE x WHEN value ...: of an IF the condition stands there."""
    return isinstance(node, exp.Case) and node.this is not None


def _first_known(given: Sequence[exp.Expr], scope: LinearScope, rows: Predicate) -> Groups:
    found: Groups = []
    for one in given:
        left = rows & ~rows
        for label, part in _groups(one, scope, rows):
            if label is None:
                left |= part
            else:
                found.append((label, part))
        rows = left
    return [*found, (None, rows)]


def _levels(name: str, rows: Predicate) -> Groups:
    """Return the values of a column as they are declared, where each level is one value."""
    domain = rows.domain
    attribute = domain[name]
    told = isinstance(attribute, Categories | Boolean | Range) and attribute.other_index is None
    if not told or attribute.size > MOST_LEVELS:
        raise NotLinear
    every = np.eye(attribute.size, dtype=bool)
    found: Groups = []
    for level, mask in enumerate(every):
        label = None if level == attribute.null_index else attribute.labels[level]
        found.append((label, rows & Predicate.box(domain, {name: mask})))
    return found


def _truth(expression: Expression, rows: Predicate) -> Groups:
    holds, fails = (Predicate.of(one, rows.domain, nulls="sql") for one in (expression, Not(expression)))
    return [(False, rows & fails), (True, rows & holds), (None, rows & ~holds & ~fails)]
