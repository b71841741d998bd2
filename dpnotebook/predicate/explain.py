"""From a decision diagram back to a condition that a person can read, and paste.

The text means exactly the diagram: parsing it again gives an equal predicate. Of several ways to say it, the shortest
is taken: the diagram read from the top, an `or` of boxes as wide as can be, or an `and` of what such boxes leave out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.domain.attribute import Attribute
from dpnotebook.domain.bins import Bins
from dpnotebook.domain.dates import Dates
from dpnotebook.domain.numeric import Numeric
from dpnotebook.domain.times import Times
from dpnotebook.domain.values import Mask
from dpnotebook.predicate import diagram
from dpnotebook.predicate.diagram import FALSE, TRUE, Node
from dpnotebook.predicate.expression import And, Compare, Expression, IsNull, Not, OneOf, Or

BEYOND = {"<": "above", "<=": "above", ">": "below", ">=": "below"}  # what an order leaves out
MAX_BOXES = 16  # beyond, a search for shorter words takes longer than it is worth

Box = dict[int, int]


def expression_of(root: Node, domain: Domain) -> Expression:
    """Return a condition that means the diagram; `Or()` is no row and `And()` is every row."""
    options = [(1.0, _from_the_top(root, domain))]
    opposite = diagram.negate(root)
    if 1 < diagram.count_paths(root) <= MAX_BOXES:
        options.append((1.0, _sum(widest_boxes(root, opposite, domain.shape), domain)))
    if 1 < diagram.count_paths(opposite) <= MAX_BOXES:
        # an `and` of alternatives is harder to read, so it must be clearly shorter
        options.append((1.25, _product(widest_boxes(opposite, root, domain.shape), domain)))
    return min(options, key=lambda option: option[0] * len(str(option[1])))[1]


def counted_unsaid(expression: Expression, domain: Domain) -> list[str]:
    """Return the columns that a condition says only what they are not of, so that rows without a value satisfy it too.

    Parameters
    ----------
    expression, domain
        As `expression_of` returns it, and over what.

    Examples
    --------
    >>> from dpnotebook.domain import Categories, Domain
    >>> domain = Domain({"sex": Categories(["F", "M"], nullable=True)})
    >>> counted_unsaid(Compare("sex", "!=", "F"), domain), counted_unsaid(Compare("sex", "==", "M"), domain)
    (['sex'], [])
    """
    match expression:
        case And(parts) | Or(parts):
            found = [name for part in parts for name in counted_unsaid(part, domain)]
        case Compare(name, "!="):
            found = [name]
        case Not(part):  # of one column, and of missing values too where these are not meant
            atoms = list(_atoms_of(part))
            found = [] if any(isinstance(atom, IsNull) for atom in atoms) else [atom.attribute for atom in atoms]
        case _:
            found = []
    return [name for name in dict.fromkeys(found) if domain[name].null_index is not None]


def kept_beyond(expression: Expression, domain: Domain) -> list[tuple[str, str]]:
    """Return of which columns a condition asks in vain that values lie below an end, or above: all of them count there.

    Parameters
    ----------
    expression, domain
        As `expression_of` returns it, and over what.

    Examples
    --------
    >>> from dpnotebook.domain import Domain, Range
    >>> domain = Domain({"age": Range(0, 115)})
    >>> kept_beyond(And((Compare("age", ">=", 0), Compare("age", "<", 18))), domain)
    [('age', 'below')]
    """
    found = []
    for atom in _atoms_of(expression):
        if not isinstance(atom, Compare) or atom.op not in BEYOND:
            continue
        attribute, end = domain[atom.attribute], BEYOND[atom.op]
        if isinstance(attribute, Numeric) and attribute.clamps and isinstance(atom.value, int | float):
            low, high = attribute.bounds or (-math.inf, math.inf)
            past = atom.value > high if end == "above" else atom.value < low
            if past or (atom.op in ("<=", ">=") and atom.value == (high if end == "above" else low)):
                found.append((atom.attribute, end))
    return list(dict.fromkeys(found))


def _atoms_of(expression: Expression) -> Iterator[Compare | OneOf | IsNull]:
    match expression:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _atoms_of(part)
        case Not(part):
            yield from _atoms_of(part)
        case _:
            yield expression


def _from_the_top(root: Node, domain: Domain) -> Expression:
    def step(at: Node, below: Callable[[Node], Expression]) -> Expression:
        sure = sum(bits for bits, child in at.edges if child == TRUE)
        never = any(child == FALSE for _, child in at.edges)
        open_edges = [(bits, child) for bits, child in at.edges if child not in (TRUE, FALSE)]
        parts = [_side(at.index, sure, domain)] if sure else []
        for bits, child in open_edges:
            if len(open_edges) == 1 and not never:
                parts.append(below(child))  # the rest is in already, so nothing needs to be kept out here
            else:
                parts.append(And(_side(at.index, bits, domain), below(child)))
        return Or(*parts) if len(parts) > 1 else parts[0]

    everything: Expression = And()
    return diagram.fold(root, everything, Or(), step)


def _sum(boxes: list[Box], domain: Domain) -> Expression:
    """Return "in one of the boxes"."""
    parts = [_all([_side(index, bits, domain) for index, bits in sorted(box.items())]) for box in boxes]
    return Or(*parts) if len(parts) > 1 else parts[0]


def _product(boxes: list[Box], domain: Domain) -> Expression:
    """Return "in none of the boxes", as the conditions to be outside of each."""
    parts = []
    for box in boxes:
        sides = [_side(i, ((1 << domain.shape[i]) - 1) ^ bits, domain) for i, bits in sorted(box.items())]
        parts.append(Or(*sides) if len(sides) > 1 else sides[0])
    return _all(parts)


def _all(parts: list[Expression]) -> Expression:
    return And(*parts) if len(parts) > 1 else parts[0]


def _side(index: int, bits: int, domain: Domain) -> Expression:
    name = domain.names[index]
    return condition_of(domain[name], name, diagram.unpack(bits, domain[name].size))


def widest_boxes(root: Node, opposite: Node, shape: tuple[int, ...]) -> list[Box]:
    """Return boxes that together are the diagram, each as wide as it can be, none of them to spare.

    Parameters
    ----------
    root, opposite
        A diagram that is not constant, and its negation.
    shape
        The number of levels of each column.
    """
    found: list[Box] = []
    for path in diagram.paths(root):
        box = dict(path)
        for index in path:
            rest = {key: bits for key, bits in box.items() if key != index}
            # levels at which the box without this side would reach outside
            clash = diagram.combine(diagram.box(rest, shape), opposite, conjunction=True)
            every = (1 << shape[index]) - 1
            box = {**rest, index: every & ~diagram.levels_at(clash, index, every)}
            if box[index] == every:
                box = rest
        if box not in found:
            found.append(box)
    for box in list(found):
        others = [diagram.box(other, shape) for other in found if other is not box]
        if diagram.combine_all(others, conjunction=False) == root:
            found = [other for other in found if other is not box]
    return found


def condition_of(attribute: Attribute, name: str, mask: Mask) -> Expression:
    """Return a condition on one column that selects exactly the levels of `mask`, positive or negated."""
    chosen, rest = _atoms(attribute, name, mask), _atoms(attribute, name, ~mask)
    positive = Or(*chosen) if len(chosen) != 1 else chosen[0]
    negative = _negated(Or(*rest) if len(rest) != 1 else rest[0])
    return negative if len(str(negative)) + 2 < len(str(positive)) else positive


def _negated(expression: Expression) -> Expression:
    if isinstance(expression, Compare) and expression.op == "==" and not isinstance(expression.value, bool):
        return Compare(expression.attribute, "!=", expression.value)
    return Not(expression)


def _atoms(attribute: Attribute, name: str, mask: Mask) -> list[Expression]:
    """Return conditions of which exactly the rows at the levels of `mask` satisfy one."""
    found: list[Expression] = []
    single: list[object] = []
    levels = attribute.levels
    ranked = attribute.ordered or (attribute.holds == "number" and list(levels) == sorted(levels))
    if ranked:
        for start, stop in attribute.runs(mask):
            if stop - start == 1 and not isinstance(attribute, Bins):
                single.append(levels[start])
            else:
                found.append(_span(attribute, name, start, stop))
    else:
        single += [levels[level] for level in np.flatnonzero(mask[: attribute.regular]).tolist()]
    if attribute.other_index is not None and mask[attribute.other_index]:
        single.append(attribute.other_label)
    if single:
        found.append(Compare(name, "==", single[0]) if len(single) == 1 else OneOf(name, single))
    if attribute.null_index is not None and mask[attribute.null_index]:
        found.append(IsNull(name))
    return found


def _span(attribute: Attribute, name: str, start: int, stop: int) -> Expression:
    """Return the condition for the levels start to stop - 1 of an ordered attribute."""
    if isinstance(attribute, Bins):
        lower = Compare(name, ">=", attribute.edges[start])
        upper = Compare(name, "<", attribute.edges[stop])
    elif isinstance(attribute, Dates):  # of weeks, their first and their last day
        lower = Compare(name, ">=", attribute.levels[start].split("/")[0])
        upper = Compare(name, "<=", attribute.levels[stop - 1].split("/")[-1])
    elif isinstance(attribute, Times):
        lower = Compare(name, ">=", attribute.levels[start])
        upper = Compare(name, "<", attribute.levels[stop % attribute.regular])
    else:
        lower = Compare(name, ">=", attribute.levels[start])
        upper = Compare(name, "<=", attribute.levels[stop - 1])
    if stop == attribute.regular:
        return lower
    return upper if start == 0 else And(lower, upper)
