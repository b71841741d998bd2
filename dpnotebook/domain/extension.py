"""One domain as an extension of another: which level of the earlier one the rows at every level had.

An extension tells rows apart that were together, and may take rows in that had no level: a new attribute, levels that
are split or added, finer bins, wider bounds. Every level of the later domain has to lie within one level of the earlier
one, or outside all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.attribute import Attribute
from dpnotebook.domain.bins import Bins
from dpnotebook.domain.categorical import Categories
from dpnotebook.domain.dates import Dates
from dpnotebook.domain.left_out import drops_undeclared
from dpnotebook.domain.numeric import Numeric, Range
from dpnotebook.domain.schema import Domain
from dpnotebook.domain.times import Times
from dpnotebook.errors import DomainError, shorten

NONE = -1  # in place of a level: rows that had none

Levels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Extension:
    """What became of a domain.

    Parameters
    ----------
    before, after
        The earlier and the later domain; the attributes of the earlier one are in the same order in both.
    levels
        Of each attribute of the earlier domain, the level that rows at each level of the later one had, -1 where they
        had none and so were not part of the table; shape (levels of the later domain,).
    """

    before: Domain
    after: Domain
    levels: Mapping[str, Levels]

    @property
    def added(self) -> tuple[str, ...]:
        """The attributes that the earlier domain did not have."""
        return tuple(name for name in self.after if name not in self.before)

    @property
    def changed(self) -> frozenset[str]:
        """The attributes that both have and that are declared otherwise."""
        return frozenset(name for name in self.before if self.before[name] != self.after[name])

    @property
    def takes_rows_in(self) -> bool:
        """Whether rows that were not part of the table are."""
        return any((levels == NONE).any() for levels in self.levels.values())

    @property
    def leaves_rows_out(self) -> bool:
        """Whether rows that were part of the table may not be: those without a level of a new attribute."""
        return not all(has_every_value(self.after[name]) for name in self.added)

    def then(self, later: Extension) -> Extension:
        """Return this extension and a later one as one."""
        levels = {
            name: np.where(later.levels[name] == NONE, NONE, own[later.levels[name]])
            for name, own in self.levels.items()
        }
        return Extension(self.before, later.after, levels)


def extension(before: Domain, after: Domain) -> Extension:
    """Return a domain as an extension of another one.

    Raises
    ------
    DomainError
        If it is none; the text says why, in a clause.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> found = extension(dpn.Domain({"sex": ["F", "M"]}), dpn.Domain({"sex": ["F", "M"], "ward": ["A", "B"]}))
    >>> found.added
    ('ward',)
    """
    gone = [name for name in before if name not in after]
    if gone:
        raise DomainError(f"{shorten(gone[0])} is gone")
    if tuple(name for name in after if name in before) != before.names:
        raise DomainError("its columns are in another order")
    return Extension(before, after, {name: _levels(name, before[name], after[name]) for name in before})


def in_known_order(before: Domain, after: Domain) -> Domain:
    """Return a later domain with columns, and levels that are not ordered, as the earlier one lists the same of them.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> known, again = ({"sex": ["F", "M"], "age": dpn.Range(0, 99)}, {"age": dpn.Range(0, 99), "sex": ["M", "F"]})
    >>> in_known_order(dpn.Domain(known), dpn.Domain(again)) == dpn.Domain(known)
    True
    """
    places = iter([name for name in before if name in after])
    names = [next(places) if name in before else name for name in after]
    found = {name: _listed_as(before[name], after[name]) if name in before else after[name] for name in names}
    return Domain(found) if found else after


def _listed_as(before: Attribute, after: Attribute) -> Attribute:
    """Return a later attribute with the levels of an earlier one in the order of that, if they are the same."""
    if not (isinstance(before, Categories) and isinstance(after, Categories)) or before.ordered or after.ordered:
        return after
    if before.levels == after.levels or before.holds != after.holds or set(before.levels) != set(after.levels):
        return after
    return Categories(before.levels, other=after.other, nullable=after.nullable, unit=after.unit, label=after.label)


def _levels(name: str, before: Attribute, after: Attribute) -> Levels:
    """Return of each level of an attribute which level it was, see `Extension`."""
    if before == after:
        return np.arange(before.size)
    if type(before) is not type(after):
        why = "it may not be of another kind"
    elif before.nullable and not after.nullable:
        why = "its missing values have a level already"
    elif isinstance(before, Categories) and isinstance(after, Categories):
        why = _listed_otherwise(before, after)
    elif isinstance(before, Numeric) and isinstance(after, Numeric):
        why = _bounded_otherwise(before, after)
    elif isinstance(before, Dates) and isinstance(after, Dates):
        why = _dated_otherwise(before, after)
    elif isinstance(before, Times) and isinstance(after, Times):
        why = _timed_otherwise(before, after)
    else:
        why = ""
    if why:
        raise DomainError(f"{shorten(name, 40)} was {_declared(before, 40)} and is {_declared(after, 40)}: {why}")
    # Values that had the level of all others have it still, or one of their own.
    others = NONE if before.other_index is None else before.other_index
    found = [_regular_levels(before, after, others)]
    if after.other_index is not None:
        found.append(np.array([others]))
    if after.null_index is not None:
        found.append(np.array([NONE if before.null_index is None else before.null_index]))
    return np.concatenate(found).astype(np.int64)


def _listed_otherwise(before: Categories, after: Categories) -> str:
    """Return why a list of levels does not extend another one; empty if it does."""
    if (before.holds, before.ordered) != (after.holds, after.ordered):
        return "its levels may not be of another kind or order"
    if before.other not in (None, after.other):
        return f"other={shorten(before.other)} stays"
    gone = [level for level in before.levels if level not in set(after.levels)]
    return f"the level {shorten(gone[0])} is gone" if gone else ""


def _bounded_otherwise(before: Numeric, after: Numeric) -> str:
    """Return why a range or bins do not extend others; empty if they do."""
    (low, high), (least, most) = before.bounds or (0, 0), after.bounds or (0, 0)
    if before.outside != after.outside:
        return f"outside={shorten(before.outside)} stays"
    if least > low or most < high:
        return "its bounds may only be wider"
    if isinstance(before, Bins) and isinstance(after, Bins):
        # Values beyond the ends are in the first and the last bin, unless they are others: then the ends are told
        # apart as well, and of the last bin the end belongs to it.
        inner = before.edges if before.outside == "other" else before.edges[1:-1]
        if before.outside == "other" and most != high:
            return "its highest edge stays, which belongs to the last bin"
        if not set(map(float, inner)) <= set(map(float, after.edges)):
            return "an edge is gone"
    return ""


def _dated_otherwise(before: Dates, after: Dates) -> str:
    """Return why dates do not extend others; empty if they do."""
    if before.outside != after.outside:
        return f"outside={shorten(before.outside)} stays"
    if before.timezone != after.timezone:
        return "days of another time zone are other days"
    if after.first > before.first or after.last < before.last:
        return "its first and last day may only be farther apart"
    inner = before.starts[1:-1] if before.clamps else before.starts
    return "" if np.isin(inner, after.starts).all() else "a level would be in two of the earlier ones"


def _timed_otherwise(before: Times, after: Times) -> str:
    """Return why times of day do not extend others; empty if they do."""
    if before.timezone != after.timezone:
        return "hours of another time zone are other hours"
    return "a level would be in two of the earlier ones" if before.minutes % after.minutes else ""


def _regular_levels(before: Attribute, after: Attribute, others: int) -> Levels:
    """Return which level of an attribute the rows at each regular level of an extension of it had."""
    if isinstance(before, Range) and isinstance(after, Range):
        values = np.arange(after.low, after.high + 1)
        inside = (before.low <= values) & (values <= before.high)
        clamped = np.clip(values, before.low, before.high) - before.low
        return clamped if before.outside == "clamp" else np.where(inside, clamped, others)
    if isinstance(before, Bins) and isinstance(after, Bins):
        edges, starts = (np.array(bins.edges, dtype=np.float64)[:-1] for bins in (before, after))
        place = np.searchsorted(edges, starts, side="right") - 1  # -1 below the lowest edge
        return np.maximum(place, 0) if before.outside == "clamp" else np.where(place < 0, others, place)
    if isinstance(before, Dates) and isinstance(after, Dates):
        place = np.searchsorted(before.starts, after.starts[:-1], side="right") - 1
        outside = (place < 0) | (place >= before.regular)
        return np.clip(place, 0, before.regular - 1) if before.clamps else np.where(outside, others, place)
    if isinstance(before, Times) and isinstance(after, Times):
        return np.arange(after.regular) * after.minutes // before.minutes
    if isinstance(before, Categories) and isinstance(after, Categories):
        known = {level: place for place, level in enumerate(before.levels)}
        return np.array([known.get(level, others) for level in after.levels], dtype=np.int64)
    return np.arange(after.regular)


def has_every_value(attribute: Attribute) -> bool:
    """Return whether an attribute has a level for every value that a column of its kind can hold, and for none.

    Truth values may be kept as numbers, of which all but 0 and 1 are none.
    """
    return attribute.nullable and attribute.holds != "boolean" and not drops_undeclared(attribute)


def changes(before: Domain, after: Domain) -> str:
    """Return in words what another declaration of a table's columns changes, attribute by attribute.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> changes(dpn.Domain({"age": dpn.Range(0, 99)}), dpn.Domain({"age": dpn.Range(0, 120), "sex": ["F", "M"]}))
    "'age' is Range(0, 120), was Range(0, 99); 'sex' is new, Categories(['F', 'M'])"
    """
    found = []
    for name, attribute in after.items():
        if name not in before:
            found.append(f"{shorten(name)} is new, {_declared(attribute)}")
        elif before[name] != attribute:
            found.append(f"{shorten(name)} is {_declared(attribute)}, was {_declared(before[name])}")
    found += [f"{shorten(name)} is gone" for name in before if name not in after]
    if not found and before.names != after.names:
        found.append("its columns are in another order")
    return "; ".join(found)


def _declared(attribute: object, limit: int = 80) -> str:
    text = repr(attribute)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
