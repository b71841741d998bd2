"""A declared column: a finite list of levels, how values fall onto them, and what may be asked of them.

Levels are numbered regular levels first, then the level of all other values (if declared), then the level of missing
values (if declared). Everything that is released about a column is said in these levels; a row with a value that has
no level is not part of the protected table.
"""

from __future__ import annotations

import copy
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.values import Mask, check_value, column, plain, said
from dpnotebook.errors import DomainError, PredicateError, shorten

UNLISTED = -1
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

SAID = ("unit", "label")  # what is for people, and no part of what an attribute is

Codes = NDArray[np.int64]


class Attribute(ABC):
    """What `Range`, `Bins`, `Categories`, `Boolean` and `Dates` have in common. Immutable, hashable, equal by value.

    How a column is called (`label`), and what its values are counted in (`unit`), are for people: attributes that
    differ in nothing else are equal, so that a label can be given or changed without touching what was answered.
    """

    kind: ClassVar[str]
    holds: str  # "number", "text", "boolean" or "date"
    ordered: bool = False
    nullable: bool
    unit: str | None
    label: str | None

    if TYPE_CHECKING:  # at run time a property here would hide the fields and properties of the subclasses

        @property
        def levels(self) -> Sequence[Any]:
            """The display values of the regular levels."""

    @property
    @abstractmethod
    def regular(self) -> int:
        """The number of regular levels: all but those of other and of missing values."""

    @property
    @abstractmethod
    def other_label(self) -> str | None:
        """The display value of the level of all other values, None where there is no such level."""

    @property
    def clamps(self) -> bool:
        """Whether values beyond the ends count at the first or last level."""
        return False

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the greatest value of a numeric attribute, None for the rest."""
        return None

    @cached_property
    def size(self) -> int:
        """The number of levels."""
        return self.regular + (self.other_label is not None) + self.nullable

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """The display value of every level, in order; None for missing values."""
        other = () if self.other_label is None else (self.other_label,)
        return (*self.levels, *other, *((None,) if self.nullable else ()))

    @property
    def other_index(self) -> int | None:
        """The level of all other values."""
        return None if self.other_label is None else self.regular

    @property
    def null_index(self) -> int | None:
        """The level of missing values."""
        return self.size - 1 if self.nullable else None

    def named(self, unit: str | None = None, label: str | None = None) -> Self:
        """Return the same levels with another unit and label, or without them.

        Parameters
        ----------
        unit
            What the values are counted in, in the plural, such as "dollars"; None where nothing is said.
        label
            What people call the column, such as "Yearly income"; None for its name.

        Raises
        ------
        DomainError
            If one is not a short text.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> dpn.Range(0, 115).named(unit="years", label="Age at admission")
        Range(0, 115, unit='years', label='Age at admission')
        """
        made = copy.copy(self)
        made._say(unit, label)
        return made

    def _say(self, unit: str | None, label: str | None) -> None:
        """Set unit and label of an attribute that is being made."""
        object.__setattr__(self, "unit", said(unit, "unit="))
        object.__setattr__(self, "label", said(label, "label="))

    def _said(self) -> dict[str, str]:
        """Return unit and label where they are given, as JSON values."""
        return {name: text for name in SAID if (text := getattr(self, name)) is not None}

    def _written(self) -> list[str]:
        """Return unit and label where they are given, as arguments."""
        return [f"{name}={text!r}" for name, text in self._said().items()]

    def level_bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the least and the greatest value that a row at each regular level can have, each of shape (regular,).

        Raises
        ------
        DomainError
            If the attribute has no numeric bounds.
        """
        raise DomainError("only a column declared as Range or Bins has bounds; declare it so to add its values up")

    def encode(self, values: Any) -> Codes:
        """Return the level of each value; -1 where the row is not part of the protected table.

        Never fails because of a value: what cannot be read as this attribute's kind is an unlisted value.
        """
        data, missing = column(values)
        codes = self._codes(data)
        if self.other_index is not None:
            codes[codes == UNLISTED] = self.other_index
        codes[missing] = UNLISTED if self.null_index is None else self.null_index
        return codes

    def compare(self, op: str, value: Any, name: str = "the column") -> Mask:
        """Return which levels satisfy `column op value`, shape (size,).

        Missing values satisfy `!=` only. All other values satisfy no ordering, and equal nothing but their own label.

        Parameters
        ----------
        op
            One of ==, !=, <, <=, >, >=.
        value
            A text, number or boolean, as the attribute holds.
        name
            What to call the column in an error.

        Raises
        ------
        PredicateError
            If the value is of the wrong kind or no level, or the comparison would cut a level in two.
        """
        if op not in OPERATORS:
            raise PredicateError(f"{shorten(op)} is no comparison; there are {', '.join(OPERATORS)}")
        value = plain(value)
        mask = np.zeros(self.size, dtype=bool)
        if op in ("==", "!="):
            mask[self.levels_of(value, name)] = True
            return mask if op == "==" else ~mask
        self._check(value, name)
        mask[: self.regular] = self._ordering(op, value, name)
        return mask

    def levels_of(self, value: Any, name: str = "the column") -> slice:
        """Return the levels of rows that equal `value`: one, or of dates those of a longer span; see `compare`."""
        value = plain(value)
        self._check(value, name)
        if isinstance(value, str) and value == self.other_label:
            return slice(self.regular, self.regular + 1)
        return self._find(value, name)

    def _check(self, value: Any, name: str) -> None:
        """Refuse what a column cannot be compared with."""
        check_value(value, name)

    @abstractmethod
    def _codes(self, data: NDArray[Any]) -> Codes:
        """Return regular levels, -1 for unlisted values, anything for missing ones."""

    @abstractmethod
    def _find(self, value: Any, name: str) -> slice:
        """Return the regular level of exactly `value`, or those that it is made of."""

    @abstractmethod
    def _ordering(self, op: str, value: Any, name: str) -> Mask:
        """Return which regular levels satisfy the ordering `op`."""

    def runs(self, mask: Mask) -> list[tuple[int, int]]:
        """Return the maximal runs [start, stop) of selected regular levels."""
        padded = np.zeros(self.regular + 2, dtype=np.int8)
        padded[1:-1] = mask[: self.regular]
        steps = np.diff(padded)
        return list(zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True))

    def describe(self, mask: Mask) -> str:
        """Return the selected levels in words: "65-115", "'F', 'M'", "not 'F'", "not null"."""
        mask = np.asarray(mask, dtype=bool)
        if mask.shape != (self.size,):
            raise PredicateError(f"a mask over this column has {self.size} entries, not {mask.size}")
        if mask.all():
            return "any"
        if not mask.any():
            return "none"
        chosen, rest = self._words(mask), self._words(~mask)
        if len(rest) == 1 and (len(chosen) > 1 or rest == ["null"]):
            return f"not {rest[0]}"
        return ", ".join(chosen) if len(chosen) <= 6 else ", ".join(chosen[:5]) + f" and {len(chosen) - 5:,} more"

    def _words(self, mask: Mask) -> list[str]:
        extras = [(self.other_index, str(self.other_label)), (self.null_index, "null")]
        return self._regular_words(mask) + [word for index, word in extras if index is not None and mask[index]]

    @abstractmethod
    def _regular_words(self, mask: Mask) -> list[str]:
        """Return words for the selected regular levels."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the attribute as JSON values, for `attribute_from_json`."""

    def __getstate__(self) -> dict[str, Any]:
        # what is cached (labels, lookups) can be megabytes, and is computed again when it is asked for
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


class Bounded(Attribute):
    """A column in order, from a first to a last value; `outside` says what becomes of what is beyond them."""

    outside: str
    ordered = True

    @property
    def other_label(self) -> str | None:
        """The display value of the level of values beyond the ends."""
        return "other" if self.outside == "other" else None

    @property
    def clamps(self) -> bool:
        """Whether values beyond the ends count at them."""
        return self.outside == "clamp"
