"""What an expression means over a domain: which levels of which columns make it true."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.domain.values import Mask, is_missing
from dpnotebook.errors import PredicateError
from dpnotebook.predicate.diagram import Node, choice, combine_all, pack
from dpnotebook.predicate.expression import And, Compare, Expression, IsNull, Not, OneOf, Or

MAX_NESTING = 100

Nulls = Literal["pandas", "sql"]


def index_of(domain: Domain, name: str) -> int:
    """Return the place of a declared column."""
    if name not in domain:
        raise PredicateError(domain.unknown(name))
    return domain.names.index(name)


def diagram_of(expression: Expression, domain: Domain, nulls: Nulls, want: bool = True, depth: int = 0) -> Node:
    """Return the diagram of rows for which `expression` is `want`; what is neither true nor false is in none.

    Raises
    ------
    PredicateError
        If a column is not declared, or a comparison cannot be decided by the levels of its column.
    """
    if depth > MAX_NESTING:
        raise PredicateError(f"the condition is nested more than {MAX_NESTING} deep; write it flatter")
    match expression:
        case Not(part):
            return diagram_of(part, domain, nulls, not want, depth + 1)
        case And(parts) | Or(parts):
            conjunction = isinstance(expression, And) == want
            return combine_all([diagram_of(part, domain, nulls, want, depth + 1) for part in parts], conjunction)
        case Compare(name) | OneOf(name) | IsNull(name):
            index = index_of(domain, name)
            mask = _mask(expression, domain, nulls, want)
            return choice(index, pack(mask), domain.shape[index])
    raise PredicateError(
        f"a condition is made of Compare, OneOf, IsNull, And, Or and Not, not of {type(expression).__name__}"
    )


def _mask(atom: Compare | OneOf | IsNull, domain: Domain, nulls: Nulls, want: bool) -> Mask:
    """Return the levels of one column at which an atom is `want`."""
    attribute = domain[atom.attribute]
    missing = np.zeros(attribute.size, dtype=bool)
    if attribute.null_index is not None:
        missing[attribute.null_index] = True
    unknown = False  # whether rows that the atom does not select are undecided rather than refused
    match atom:
        case IsNull():
            return missing if want else ~missing
        case Compare(name, op, value):
            if is_missing(value) and nulls == "sql":
                return np.zeros(attribute.size, dtype=bool)
            mask = attribute.compare(op, value, name)
        case OneOf(name, values):
            mask = np.zeros(attribute.size, dtype=bool)
            for value in values:
                if not is_missing(value):
                    mask[attribute.level_of(value, name)] = True
            if any(map(is_missing, values)):
                unknown = nulls == "sql"
                mask |= missing
    if nulls == "sql":
        return mask & ~missing if want else ~mask & ~missing & (not unknown)
    return mask if want else ~mask


def columns_of(expression: Expression) -> set[str]:
    """Return the columns that an expression names."""
    match expression:
        case Compare(name) | OneOf(name) | IsNull(name):
            return {name}
        case Not(part):
            return columns_of(part)
    return set().union(*(columns_of(part) for part in expression.parts))
