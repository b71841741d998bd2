"""Predicates over a declared domain: which cells of the domain a question counts.

A predicate is canonical: however it was written, equal meaning gives equal predicates with equal keys.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.domain.values import Mask, is_missing
from dpnotebook.errors import PredicateError, shorten
from dpnotebook.predicate import diagram
from dpnotebook.predicate.diagram import FALSE, TRUE, Node, choice, combine_all, pack
from dpnotebook.predicate.explain import counted_unsaid, expression_of, kept_beyond
from dpnotebook.predicate.expression import And, Compare, Expression, IsNull, Not, OneOf, Or
from dpnotebook.predicate.where import parse_where

__all__ = ["And", "Compare", "Expression", "IsNull", "Not", "OneOf", "Or", "Predicate"]

MAX_PRODUCTS = 100_000
MAX_DENSE = 10**8
MOST_KEPT = 1_000  # of the cells of a condition: of thousands of conditions these stay a few MB
MAX_TEXT = 400

MAX_NESTING = 100

Nulls = Literal["pandas", "sql"]


class Predicate:
    """A set of cells of a domain. Immutable, hashable, picklable; equal exactly if the domain and the cells are.

    Made by `Predicate.parse`, `Predicate.of`, `Predicate.box` and `Predicate.everything`, and from others by
    `&`, `|` and `~`.
    """

    domain: Domain
    _root: Node
    kept_beyond: frozenset[tuple[str, str]]  # at which ends of which columns a text asks in vain; no part of its cells

    def __init__(self, domain: Domain, root: Node, kept_beyond: frozenset[tuple[str, str]] = frozenset()) -> None:
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "_root", root)
        object.__setattr__(self, "kept_beyond", kept_beyond)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Predicate does not change; make a new one")

    @classmethod
    def everything(cls, domain: Domain) -> Predicate:
        """Return the predicate of all rows."""
        return cls(domain, TRUE)

    @classmethod
    def box(cls, domain: Domain, masks: Mapping[str, Mask]) -> Predicate:
        """Return the predicate of rows whose level is in the mask, shape (size,), of each column named."""
        parts = []
        for name, mask in masks.items():
            index = index_of(domain, name)
            size = domain[name].size
            if np.shape(mask) != (size,):
                raise PredicateError(f"a mask over {name} has {size} entries")
            parts.append(diagram.choice(index, diagram.pack(np.asarray(mask, dtype=bool)), size))
        return cls(domain, diagram.combine_all(parts, conjunction=True))

    @classmethod
    def of(cls, expression: Expression, domain: Domain, nulls: Nulls = "pandas") -> Predicate:
        """Return the predicate of rows for which an expression is true.

        Parameters
        ----------
        expression
            A tree of Compare, OneOf, IsNull, And, Or and Not.
        domain
            The declared columns.
        nulls
            "pandas": a missing value differs from every value, and `not` flips that. "sql": a comparison with a
            missing value is neither true nor false, and `not` leaves it so.

        Raises
        ------
        PredicateError
            If a column is not declared, or a comparison cannot be decided by the levels of its column.
        """
        if nulls not in ("pandas", "sql"):
            raise PredicateError(f"nulls= is 'pandas' or 'sql', not {shorten(nulls)}")
        return cls(domain, diagram_of(expression, domain, nulls), frozenset(kept_beyond(expression, domain)))

    @classmethod
    def parse(cls, text: str, domain: Domain) -> Predicate:
        """Return the predicate that a `where=` text, written as for `DataFrame.query`, means.

        Raises
        ------
        PredicateError
            If the text is not a condition over declared columns, or no row could ever satisfy it.
        """
        expression = parse_where(text, domain)
        predicate = cls.of(expression, domain)
        if predicate.is_empty:
            raise PredicateError(_nothing(expression, domain))
        return predicate

    def __and__(self, other: Predicate) -> Predicate:
        return self._combine(other, True)

    def __or__(self, other: Predicate) -> Predicate:
        return self._combine(other, False)

    def __invert__(self) -> Predicate:
        return Predicate(self.domain, diagram.negate(self._root))

    def _combine(self, other: Predicate, conjunction: bool) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        if self.domain != other.domain:
            raise PredicateError("these conditions are about different domains; write both for the same table")
        beyond = self.kept_beyond | other.kept_beyond
        return Predicate(self.domain, diagram.combine(self._root, other._root, conjunction), beyond)

    @cached_property
    def is_everything(self) -> bool:
        """Whether every cell of the domain satisfies it."""
        return self._root == TRUE

    @property
    def is_empty(self) -> bool:
        """Whether no cell of the domain satisfies it."""
        return self._root == FALSE

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The columns on which it truly depends, in the order of the domain."""
        names = self.domain.names
        return tuple(names[index] for index in sorted({at.index for at in diagram.nodes(self._root)}))

    @cached_property
    def key(self) -> str:
        """A name for what it means, the same in every process; equal on one domain exactly for equal predicates."""
        return _key_of_everything() if self.is_everything else _key_of(self.to_json())

    def products(self) -> list[dict[str, Mask]]:
        """Return disjoint boxes that together are the predicate: per box, masks of the columns that it constrains.

        Raises
        ------
        PredicateError
            If there are more than 10^5.
        """
        return list(self._products)

    @cached_property
    def _products(self) -> list[dict[str, Mask]]:
        count = diagram.count_paths(self._root)
        if count > MAX_PRODUCTS:
            raise PredicateError(f"this condition falls into {count:,} separate boxes, too many; ask for its parts")
        names = self.domain.names
        boxes = diagram.boxes(self._root, self.domain.shape)
        return [{names[index]: mask for index, mask in sides.items()} for sides in boxes]

    def levels_of(self, name: str) -> tuple[int, ...]:
        """Return the levels of a column that some row satisfying it can have, ascending."""
        index = index_of(self.domain, name)
        size = self.domain.shape[index]
        found = diagram.levels_at(self._root, index, (1 << size) - 1)
        return tuple(int(level) for level in np.flatnonzero(diagram.unpack(found, size)))

    def dense(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Return whether each cell satisfies it, shape `domain.project(names).shape`.

        Parameters
        ----------
        names
            Columns in any order, among them all of `attributes`.

        Raises
        ------
        PredicateError
            If a column that matters is not among the names, or there are more than 10^8 cells.
        """
        wanted = list(names)
        if wanted == list(self.attributes) and self._own is not None:
            return self._own.copy()
        projected = self.domain.project(wanted)
        missing = [name for name in self.attributes if name not in projected]
        if missing:
            raise PredicateError(f"the condition depends on {', '.join(missing)} as well")
        if projected.size > MAX_DENSE:
            raise PredicateError(f"there are {projected.size:,} cells, too many to list one by one")
        order = sorted(range(len(wanted)), key=lambda place: self.domain.names.index(wanted[place]))
        place_of = {index_of(self.domain, wanted[place]): position for position, place in enumerate(order)}
        shape = tuple(projected.shape[place] for place in order)

        cells = diagram.cells(self._root, place_of, shape)
        return np.array(cells.transpose(np.argsort(order)), order="C")

    @property
    def cells(self) -> NDArray[np.bool_]:
        """Whether each cell of its attributes satisfies it, shape (cells,), read-only; as `dense` says."""
        return self.dense(self.attributes).reshape(-1) if self._own is None else self._own.reshape(-1)

    @cached_property
    def _own(self) -> NDArray[np.bool_] | None:
        """The same in the shape of `dense`; None for more than are kept."""
        domain = self.domain
        places = [domain.names.index(name) for name in self.attributes]
        shape = tuple(domain.shape[place] for place in places)
        if math.prod(shape) > MOST_KEPT:
            return None
        found = np.array(diagram.cells(self._root, {index: at for at, index in enumerate(places)}, shape), order="C")
        found.setflags(write=False)
        return found

    def mapped(self, domain: Domain, levels: Mapping[str, NDArray[np.int64]]) -> Predicate:
        """Return a predicate over another domain that is true where this one is true of the levels of this domain.

        Parameters
        ----------
        domain
            Has the attributes of this domain in the same order, among others.
        levels
            Of each attribute of this domain, the level here for every level of the other domain; below 0 for those
            that satisfy nothing that is said of the attribute.
        """
        names = self.domain.names

        def step(at: Node, below: Callable[[Node], Node]) -> Node:
            here = levels[names[at.index]]
            known, edges = here >= 0, [(diagram.pack(here < 0), diagram.FALSE)]
            for bits, child in at.edges:
                mask = diagram.unpack(bits, self.domain.shape[at.index])
                edges.append((diagram.pack(known & mask[here]), below(child)))
            return diagram.node(index_of(domain, names[at.index]), edges)

        return Predicate(domain, diagram.fold(self._root, diagram.TRUE, diagram.FALSE, step))

    def given(self, name: str, level: int) -> Predicate:
        """Return what is left to say of the other columns where one has a level, over the domain without it."""
        index, size = index_of(self.domain, name), self.domain[name].size
        others = self.domain.project([other for other in self.domain.names if other != name])

        def step(at: Node, below: Callable[[Node], Node]) -> Node:
            if at.index == index:
                return next(below(child) for bits, child in at.edges if diagram.unpack(bits, size)[level])
            edges = [(bits, below(child)) for bits, child in at.edges]
            return diagram.node(at.index - (at.index > index), edges)

        return Predicate(others, diagram.fold(self._root, diagram.TRUE, diagram.FALSE, step))

    @property
    def expression(self) -> Expression:
        """The predicate as an expression; `Predicate.of` gives it back."""
        count = diagram.count_paths(self._root)
        if count > MAX_PRODUCTS:
            raise PredicateError(f"this condition falls into {count:,} separate boxes, too many to write down")
        return expression_of(self._root, self.domain)

    @cached_property
    def counted_unsaid(self) -> tuple[str, ...]:
        """The columns of which the text says only what they are not, so that rows without a value count as well."""
        if all(self.domain[name].null_index is None for name in self.attributes):
            return ()
        if diagram.count_paths(self._root) > MAX_PRODUCTS:
            return ()
        return tuple(counted_unsaid(self.expression, self.domain))

    @cached_property
    def text(self) -> str:
        """The whole predicate as text; unless it is "everything" or "nothing", `Predicate.parse` gives it back."""
        return str(self.expression)

    def __str__(self) -> str:
        if diagram.count_paths(self._root) > 100:
            return f"a condition on {', '.join(self.attributes)}"
        text = self.text
        return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"

    def __repr__(self) -> str:
        return f"Predicate({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Predicate):
            return NotImplemented
        return self._root == other._root and self.domain == other.domain

    def __hash__(self) -> int:
        return hash(self._root)

    def __reduce__(self) -> tuple[Any, ...]:
        return Predicate.from_json, (self.to_json(), self.domain)

    def to_json(self) -> dict[str, Any]:
        """Return the predicate as JSON values, the same for equal predicates.

        `nodes` are [column, [[child, [[start, stop], ...]], ...]]; child 0 is "no", 1 is "yes", 2 and up are nodes.
        """
        return diagram.write(self._root, self.domain.names, self.domain.shape)

    @classmethod
    def from_json(cls, obj: Mapping[str, Any], domain: Domain) -> Predicate:
        """Return the predicate that `to_json` wrote.

        Raises
        ------
        PredicateError
            If the object is no predicate over this domain.
        """
        return cls(domain, diagram.read(obj, domain.names, domain.shape))


_written = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode  # made once: there are many short ones


def _key_of(written: Mapping[str, Any]) -> str:
    return hashlib.sha256(_written(written).encode()).hexdigest()


@cache
def _key_of_everything() -> str:
    """Return the name of what every cell satisfies, of whatever domain: most of what is asked."""
    return _key_of(diagram.write(TRUE, (), ()))


def _nothing(expression: Expression, domain: Domain) -> str:
    """Say that no row can satisfy an expression, and how its columns are declared."""
    columns = sorted(columns_of(expression), key=domain.names.index)
    words = "; ".join(f"{name} is declared as {shorten(domain[name], 120)}" for name in columns[:3])
    text = f"nothing in the declared domain satisfies this condition, whatever the data: {words}"
    if isinstance(expression, IsNull):
        text += "; nullable=True would count its missing values"
    return text


# What an expression means over a domain: which levels of which columns make it true.
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
                    mask[attribute.levels_of(value, name)] = True
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
