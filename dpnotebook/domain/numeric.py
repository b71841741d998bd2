"""What columns of numbers have in common, and `Range`: one level for each whole number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.attribute import UNLISTED, Bounded, Codes
from dpnotebook.domain.bands import TEXT, bands_between, bands_of
from dpnotebook.domain.spans import Spans, spans_with_others
from dpnotebook.domain.values import MAX_LEVELS, Mask, choice, code, numbers, whole
from dpnotebook.errors import DomainError, PredicateError, shorten

OUTSIDE = ("clamp", "other")
FEW_LEVELS = 256  # ages, years, scores and hours have no more: who declares these mostly knows where they lie


class Numeric(Bounded):
    """A column of numbers with a least and a greatest value; values beyond them are clamped, or counted as other."""

    holds = "number"

    @property
    def may_be_wide(self) -> bool:
        """Whether it may well be declared far wider than where its values lie: amounts are, ages are not."""
        return self.regular > FEW_LEVELS

    def coarser(self, by: str, name: str = "the column") -> Spans:
        """Return bands of the levels, in order; the other level and the missing one are groups of their own.

        Parameters
        ----------
        by
            The bands, as `bands.band_text` has them.
        name
            What to call the column in an error.

        Raises
        ------
        DomainError
            If these are no bands, or a level is in two of them.
        """
        if TEXT.fullmatch(by) is None:
            raise DomainError(f"{name} is grouped by bands, such as 10 or [0, 18, 65], and not by {shorten(by)}")
        lows, highs = self.level_bounds()
        assert self.bounds is not None
        labels, begins = bands_between(by, *self.bounds)
        groups = bands_of(begins, lows)
        divided = np.flatnonzero((groups < len(begins)) & (np.append(begins, np.inf)[groups] < highs))
        if divided.size:
            raise DomainError(
                f"a band of {name} begins at {begins[groups[divided[0]]]:g}, inside {self.levels[divided[0]]}: bands "
                "are of whole bins"
            )
        kept, groups = np.unique(groups, return_inverse=True)
        return spans_with_others(self, [labels[band] for band in kept], groups)

    def _ordering(self, op: str, value: Any, name: str) -> Mask:
        if isinstance(value, str | bool):
            raise self._kind_error(value, name)
        below = self._below(op, value, name)
        leading = np.arange(self.regular) < below
        return leading if op in ("<", "<=") else ~leading

    def _below(self, op: str, value: Any, name: str) -> int:
        """Return how many levels lie below `value`; including it where `op` is <= or >."""
        raise NotImplementedError

    def _kind_error(self, value: Any, name: str) -> PredicateError:
        text = (
            f"{name} holds numbers, and {shorten(value)} is {'a text' if isinstance(value, str) else 'a truth value'}"
        )
        if isinstance(value, str) and value[:4].isdigit() and not value.isdigit():
            text += "; a column of dates is declared as Dates('2023-01-01', '2024-12-31', by='month')"
        elif isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdigit():
            text += "; write it without quotes"
        else:
            text += "; compare it with a number"
        return PredicateError(text)

    def _options(self) -> list[str]:
        options = [f"outside={self.outside!r}"] * (self.outside != "clamp") + ["nullable=True"] * self.nullable
        return options + self._written()


@dataclass(frozen=True, init=False, repr=False)
class Range(Numeric):
    """Whole numbers from `low` to `high`, both included; fractions are rounded down first.

    Parameters
    ----------
    low, high
        Bounds known from outside the data.
    outside
        "clamp" counts a value beyond a bound at that bound; "other" counts it in a level of its own.
    nullable
        Whether missing values have a level of their own; if not, their rows are left out of the table.
    unit, label
        What the values are counted in and what people call the column, such as "dollars" and "Yearly income".

    Raises
    ------
    DomainError
        If a bound is not a finite whole number, low > high, or there are more than 10^6 levels.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> age = dpn.Range(0, 115)  # people of 130 count as 115
    >>> age.size
    116
    >>> dpn.Range(0, 3, outside="other", nullable=True).labels
    (0, 1, 2, 3, 'other', None)
    """

    low: int
    high: int
    outside: str
    nullable: bool
    unit: str | None = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = "range"

    def __init__(
        self,
        low: int,
        high: int,
        *,
        outside: str = "clamp",
        nullable: bool = False,
        unit: str | None = None,
        label: str | None = None,
    ) -> None:
        low, high = whole(low, "the low end of a Range"), whole(high, "the high end of a Range")
        if low > high:
            raise DomainError(f"Range({code(low)}, {code(high)}) is empty: its low end is above its high end")
        if high - low >= MAX_LEVELS:
            raise DomainError(
                f"Range({code(low)}, {code(high)}) has {high - low + 1:,} levels, and at most {MAX_LEVELS:,} are "
                f"possible: declare Bins({code(low)}, {code(high)}, count=...)"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "outside", choice(outside, "outside=", OUTSIDE))
        object.__setattr__(self, "nullable", choice(nullable, "nullable=", (False, True)))
        self._say(unit, label)

    @property
    def regular(self) -> int:
        """The number of whole numbers from low to high."""
        return self.high - self.low + 1

    @property
    def levels(self) -> Sequence[int]:
        """The whole numbers from low to high."""
        return range(self.low, self.high + 1)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest level."""
        return self.low, self.high

    def level_bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the value of each regular level, twice."""
        levels = np.arange(self.low, self.high + 1, dtype=np.int64)
        return levels, levels

    def _codes(self, data: NDArray[Any]) -> Codes:
        found, valid = numbers(data)
        if found.dtype.kind == "f":
            found = np.floor(np.nan_to_num(found, nan=0.0, posinf=np.inf, neginf=-np.inf))
        codes: Codes = (np.clip(found, self.low, self.high) - self.low).astype(np.int64)
        if self.outside == "other":
            codes[(found < self.low) | (found > self.high)] = UNLISTED
        codes[~valid] = UNLISTED
        return codes

    def _find(self, value: Any, name: str) -> slice:
        if isinstance(value, str | bool):
            raise self._kind_error(value, name)
        if value != math.floor(value) or not self.low <= value <= self.high:
            raise PredicateError(
                f"{shorten(value)} is not a level of {name}: it holds the whole numbers {code(self.low)} to "
                f"{code(self.high)}"
            )
        return slice(int(value) - self.low, int(value) - self.low + 1)

    def _below(self, op: str, value: Any, name: str) -> int:
        first: int = math.floor(value) + 1 if op in ("<=", ">") else math.ceil(value)
        return min(max(first - self.low, 0), self.regular)

    def _regular_words(self, mask: Mask) -> list[str]:
        join = " to " if self.low < 0 else "-"
        runs = [(self.low + start, self.low + stop - 1) for start, stop in self.runs(mask)]
        return [f"{first}" if first == last else f"{first}{join}{last}" for first, last in runs]

    def to_json(self) -> dict[str, Any]:
        """Return the attribute as JSON values."""
        return {
            "kind": self.kind,
            "low": self.low,
            "high": self.high,
            "outside": self.outside,
            "nullable": self.nullable,
            **self._said(),
        }

    def __repr__(self) -> str:
        return f"Range({', '.join([f'{code(self.low)}', f'{code(self.high)}', *self._options()])})"
