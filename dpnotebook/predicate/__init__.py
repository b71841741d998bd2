"""Predicates: which rows take part, parsed from text or SQL, in a canonical form that is equal for equal meaning."""

from dpnotebook.predicate.expression import And, Compare, Expression, IsNull, Not, OneOf, Or
from dpnotebook.predicate.predicate import Predicate

__all__ = ["And", "Compare", "Expression", "IsNull", "Not", "OneOf", "Or", "Predicate"]
