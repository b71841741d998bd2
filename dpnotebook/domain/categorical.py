"""Attributes with listed levels: `Categories` and `Boolean`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.attribute import OPERATORS, UNLISTED, Attribute, Codes
from dpnotebook.domain.values import (
    MAX_BOUND,
    MAX_LEVELS,
    Mask,
    check_writable,
    choice,
    finite,
    is_date,
    is_missing,
    is_number,
    plain,
)
from dpnotebook.errors import DomainError, PredicateError, holds_data, is_column_of_data, shorten

Level = str | int | float | bool


class Listed(Attribute):
    """A column whose regular levels are single values."""

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {level: index for index, level in enumerate(self.levels)}

    def _codes(self, data: NDArray[Any]) -> Codes:
        if data.dtype.kind in "mM":
            return np.full(len(data), UNLISTED, dtype=np.int64)
        if data.dtype.kind in "biuf":
            # few distinct values are looked up once each
            distinct, where = np.unique(data, return_inverse=True)
            return self._lookup(distinct.tolist())[where]
        return self._lookup(data.tolist())

    def _lookup(self, values: list[Any]) -> Codes:
        return np.fromiter((self._position(value) for value in values), dtype=np.int64, count=len(values))

    def _position(self, value: Any) -> int:
        try:
            return self._index.get(value, UNLISTED)
        except TypeError:  # a list or dict in an object column is no level
            return UNLISTED

    def _find(self, value: Any, name: str) -> slice:
        level = self._position(value)
        if level == UNLISTED:
            raise PredicateError(self._unknown(value, name))
        return slice(level, level + 1)

    def _unknown(self, value: Any, name: str) -> str:
        known = [*self.levels, *([self.other_label] if self.other_label is not None else [])]
        text = f"{name} has no level {shorten(value)}"
        other_type = next((level for level in known[:1000] if _written(level) == _written(value)), None)
        if other_type is not None:
            return f"{text}; write {shorten(other_type)}"
        if isinstance(value, str):
            near = get_close_matches(value, [level for level in known[:10_000] if isinstance(level, str)], 1)
            near = near or [level for level in known if isinstance(level, str) and level.lower() == value.lower()]
            if near:
                text += f", did you mean {shorten(near[0])}?"
        shown = ", ".join(repr(level) for level in known[:8]) + (f" and {len(known) - 8:,} more" if known[8:] else "")
        return f"{text}; its levels are {shown}"

    def _regular_words(self, mask: Mask) -> list[str]:
        return [repr(self.levels[index]) for index in np.flatnonzero(mask[: self.regular]).tolist()]


@dataclass(frozen=True, init=False, repr=False)
class Categories(Listed):
    """Values from a list: texts, numbers, or truth values.

    Parameters
    ----------
    levels
        The values known from outside the data, all of one kind. None (or NaN) in the list makes it nullable.
    other
        Label of a level that counts all other values; without it, rows with other values are left out of the table.
    nullable
        Whether missing values have a level of their own; if not, their rows are left out of the table.
    ordered
        Whether `<` and `>` compare levels by their place in the list.
    unit, label
        What the values are counted in, if anything, and what people call the column, such as "Ward".

    Raises
    ------
    DomainError
        If there is no level, one comes twice, kinds are mixed, or `other` is itself a level.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Categories(["never", "sometimes", "often"], ordered=True).labels
    ('never', 'sometimes', 'often')
    >>> dpn.Categories(["Oslo", "Bergen"], other="elsewhere", nullable=True).labels
    ('Oslo', 'Bergen', 'elsewhere', None)
    """

    levels: tuple[Level, ...]
    other: str | None
    nullable: bool
    ordered: bool
    holds: str
    unit: str | None = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = "categories"

    def __init__(
        self,
        levels: Iterable[Level | None],
        *,
        other: str | None = None,
        nullable: bool = False,
        ordered: bool = False,
        unit: str | None = None,
        label: str | None = None,
    ) -> None:
        data = holds_data(levels)
        if isinstance(levels, str | bytes | dict) or is_column_of_data(levels) or not isinstance(levels, Iterable):
            raise DomainError(f"levels are a list such as ['F', 'M'], not {shorten(levels)}")
        if isinstance(levels, set | frozenset):
            raise DomainError("levels are a list, not a set: a set has no order, so answers would change places")
        given = [plain(level) for level in itertools.islice(levels, MAX_LEVELS + 2)]
        listed = [level for level in given if not is_missing(level)]
        if not listed:
            raise DomainError("there are no levels: list the values that the column can have")
        if len(listed) > MAX_LEVELS:
            raise DomainError(
                f"there are more than {MAX_LEVELS:,} levels; list those that matter, count the rest by other='other'"
            )
        found = [_level(level) for level in listed]
        held = sorted({_holds(level) for level in found})
        if len(held) > 1:
            raise DomainError(f"levels are of one kind, and these mix {' and '.join(held)}")
        seen: set[Level] = set()
        for level in found:
            if level in seen:
                raise DomainError(f"{'a level' if data else f'the level {shorten(level)}'} is listed twice")
            seen.add(level)
        if other is not None and not isinstance(other, str):
            raise DomainError(f"other= is the label of all other values, such as 'other', not {shorten(other)}")
        check_writable(other or "")
        if other in seen:
            raise DomainError(
                f"other={shorten(other)} is also one of the levels: take another label, or drop the level"
            )
        object.__setattr__(self, "levels", tuple(found))
        object.__setattr__(self, "other", other)
        object.__setattr__(self, "nullable", choice(nullable, "nullable=", (False, True)) or len(given) > len(found))
        object.__setattr__(self, "ordered", choice(ordered, "ordered=", (False, True)))
        object.__setattr__(self, "holds", held[0])
        self._say(unit, label)

    @property
    def regular(self) -> int:
        """The number of listed levels."""
        return len(self.levels)

    @property
    def other_label(self) -> str | None:
        """The display value of the level of all other values."""
        return self.other

    def _find(self, value: Any, name: str) -> slice:
        # to Python True is 1, to a person it is not
        if isinstance(value, bool) and self.holds == "number":
            raise PredicateError(f"{name} holds numbers, and {value} is a truth value; compare it with a number")
        return super()._find(value, name)

    def level_bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what a row at each listed level adds to a number of True, twice, where levels are truth values."""
        if self.holds != "boolean":
            return super().level_bounds()
        added = np.array([int(level) for level in self.levels])
        return added, added

    def _ordering(self, op: str, value: Any, name: str) -> Mask:
        increasing = self.holds == "number" and (not self.ordered or list(self.levels) == sorted(self.levels))
        if increasing:
            if not is_number(value):
                raise PredicateError(f"{name} holds numbers, and {shorten(value)} is none; compare it with a number")
            compare = OPERATORS[op]
            return np.array([compare(level, value) for level in self.levels], dtype=bool)
        if not self.ordered:
            raise PredicateError(
                f"the levels of {name} have no order, so {op} means nothing: write {name} in [...], or declare "
                "Categories([...], ordered=True)"
            )
        places = np.arange(self.regular)
        return np.asarray(OPERATORS[op](places, self._find(value, name).start), dtype=bool)

    def to_json(self) -> dict[str, Any]:
        """Return the attribute as JSON values."""
        return {
            "kind": self.kind,
            "levels": list(self.levels),
            "other": self.other,
            "nullable": self.nullable,
            "ordered": self.ordered,
            **self._said(),
        }

    def __repr__(self) -> str:
        options = [f"other={self.other!r}"] * (self.other is not None)
        options += ["nullable=True"] * self.nullable + ["ordered=True"] * self.ordered + self._written()
        return f"Categories({', '.join([repr(list(self.levels)), *options])})"


@dataclass(frozen=True, init=False, repr=False)
class Boolean(Listed):
    """True and False; 1 and 0 count as such.

    Parameters
    ----------
    nullable
        Whether missing values have a level of their own; if not, their rows are left out of the table.
    label
        What people call the column, such as "Insured".

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Boolean(nullable=True).labels
    (False, True, None)
    """

    nullable: bool
    unit: str | None = field(default=None, compare=False, init=False)
    label: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = "boolean"
    holds = "boolean"
    levels: ClassVar[Sequence[Any]] = (False, True)
    regular: ClassVar[int] = 2
    other_label: ClassVar[None] = None

    def __init__(self, *, nullable: bool = False, label: str | None = None) -> None:
        object.__setattr__(self, "nullable", choice(nullable, "nullable=", (False, True)))
        self._say(None, label)

    def level_bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what a row at each regular level adds to a number of True, twice: 0 and 1."""
        return np.arange(2), np.arange(2)

    def _ordering(self, op: str, value: Any, name: str) -> Mask:
        raise PredicateError(f"{name} is true or false, so {op} means nothing: write {name} or not {name}")

    def to_json(self) -> dict[str, Any]:
        """Return the attribute as JSON values."""
        return {"kind": self.kind, "nullable": self.nullable, **self._said()}

    def __repr__(self) -> str:
        return f"Boolean({', '.join(['nullable=True'] * self.nullable + self._written())})"


def _written(level: object) -> str:
    return shorten(level, 200) if isinstance(level, int) else str(level)


def _holds(level: Level) -> str:
    if isinstance(level, bool):
        return "boolean"
    return "text" if isinstance(level, str) else "number"


def _level(level: Any) -> Level:
    """Return one level as a Python text, number or truth value."""
    if isinstance(level, str):
        check_writable(level)
    if isinstance(level, str | bool):
        return level
    if is_date(level):
        raise DomainError(
            "a level is a date: declare a column of dates as Dates('2023-01-01', '2024-12-31', by='month')"
        )
    if not is_number(level):
        raise DomainError(f"a level is a text, a number, True or False, not {shorten(level)}")
    number = finite(level, "a level")
    if abs(number) > MAX_BOUND and number == int(number):
        raise DomainError(
            f"a level is at most 2^53 - 1 in absolute value, not {shorten(level)}: larger numbers are not told apart "
            "everywhere; turn the column into text"
        )
    return number
