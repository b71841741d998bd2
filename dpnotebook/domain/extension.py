"""One domain as an extension of another: which level of the earlier one the rows at every level had.

An extension tells rows apart that were together, and may take rows in that had no level: a new attribute. Every level
of the later domain has to lie within one level of the earlier one, or outside all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.attribute import Attribute
from dpnotebook.domain.categorical import Categories
from dpnotebook.domain.schema import Domain
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


def _levels(name: str, before: Attribute, after: Attribute) -> Levels:
    """Return of each level of an attribute which level it was, see `Extension`."""
    if before == after:
        return np.arange(before.size)
    raise DomainError(f"{shorten(name)} was {_declared(before)} and is {_declared(after)}")


def has_every_value(attribute: Attribute) -> bool:
    """Return whether an attribute has a level for every value that a column of its kind can hold, and for none.

    Truth values may be kept as numbers, of which all but 0 and 1 are none.
    """
    if not attribute.nullable or attribute.holds == "boolean":
        return False
    return not isinstance(attribute, Categories) or attribute.other is not None


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


def _declared(attribute: object) -> str:
    text = repr(attribute)
    return text if len(text) <= 80 else f"{text[:79]}…"
