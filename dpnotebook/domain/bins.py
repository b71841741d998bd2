"""`Bins`: one level for each interval of numbers."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.attribute import UNLISTED, Codes
from dpnotebook.domain.numeric import OUTSIDE, Numeric
from dpnotebook.domain.values import MAX_LEVELS, Mask, choice, code, finite, numbers, whole
from dpnotebook.errors import DomainError, PredicateError, holds_data, is_column_of_data, shorten


@dataclass(frozen=True, init=False, repr=False)
class Bins(Numeric):
    """Numbers in adjacent intervals [a, b); the last one includes its upper end.

    Write `Bins(0, 200_000, width=5_000)`, `Bins(0, 1, count=20)`, `Bins(edges=[0, 18, 65, 120])` or
    `Bins(intervals=[(0, 18), (18, 65)])`.

    Parameters
    ----------
    low, high
        Bounds known from outside the data, with `width` or `count`.
    width
        The width of every bin; it must divide the span.
    count
        The number of bins of equal width.
    edges
        The ends of the bins, increasing.
    intervals
        The bins as pairs; adjacent, without gaps or overlaps.
    outside
        "clamp" counts a value beyond a bound in the first or last bin; "other" counts it in a level of its own.
    nullable
        Whether missing values have a level of their own; if not, their rows are left out of the table.
    unit, label
        What the values are counted in and what people call the column, such as "dollars" and "Yearly income".

    Raises
    ------
    DomainError
        If these do not describe increasing finite edges, or there are more than 10^6 bins.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> dpn.Bins(0, 200_000, width=50_000).labels
    ('[0, 50,000)', '[50,000, 100,000)', '[100,000, 150,000)', '[150,000, 200,000]')
    >>> dpn.Bins(edges=[0, 18, 65, 120]).size
    3
    >>> dpn.Bins(0, 200_000, width=5_000, unit="dollars", label="Yearly income").unit
    'dollars'
    """

    edges: tuple[int | float, ...]
    outside: str
    nullable: bool
    unit: str | None = field(default=None, compare=False)
    label: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = "bins"
    may_be_wide: ClassVar[bool] = True  # what is declared in bins is mostly an amount

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        width: float | None = None,
        count: int | None = None,
        edges: Iterable[float] | None = None,
        intervals: Iterable[tuple[float, float]] | None = None,
        outside: str = "clamp",
        nullable: bool = False,
        unit: str | None = None,
        label: str | None = None,
    ) -> None:
        ways = [width is not None, count is not None, edges is not None, intervals is not None]
        grid = width is not None or count is not None
        if sum(ways) != 1 or grid != (low is not None) or grid != (high is not None):
            raise DomainError(
                "Bins are declared in one of these ways: Bins(low, high, width=...), Bins(low, high, count=...), "
                "Bins(edges=[...]), Bins(intervals=[(a, b), ...])"
            )
        if grid:
            found = even_edges(finite(low, "the low end of Bins"), finite(high, "the high end of Bins"), width, count)
        elif intervals is not None:
            found = _joined(intervals)
        else:
            found = tuple(finite(edge, "an edge of Bins") for edge in _listed(edges, "edges="))
        if len(found) < 2:
            raise DomainError("Bins need at least two edges, hence one bin")
        for left, right in pairwise(found):
            if left >= right and holds_data(edges):
                raise DomainError("edges of Bins increase, and these do not")
            if left >= right:
                raise DomainError(f"edges of Bins increase, and {shorten(left)} comes before {shorten(right)}")
        object.__setattr__(self, "edges", found)
        object.__setattr__(self, "outside", choice(outside, "outside=", OUTSIDE))
        object.__setattr__(self, "nullable", choice(nullable, "nullable=", (False, True)))
        self._say(unit, label)

    @property
    def regular(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

    @cached_property
    def levels(self) -> Sequence[str]:
        """The bins as text: "[0, 5,000)", the last one closed."""
        return tuple(self.span(level, level + 1) for level in range(self.regular))

    @property
    def bounds(self) -> tuple[float, float]:
        """The first and the last edge."""
        return self.edges[0], self.edges[-1]

    @cached_property
    def _array(self) -> NDArray[Any]:
        edges = np.array(self.edges)
        edges.setflags(write=False)
        return edges

    def level_bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the lower and the upper edge of each bin."""
        return self._array[:-1], self._array[1:]

    def span(self, start: int, stop: int) -> str:
        """Return the union of bins start to stop - 1 as text."""
        low, high = self._label(self.edges[start]), self._label(self.edges[stop])
        return f"[{low}, {high}{']' if stop == self.regular else ')'}"

    def _label(self, value: float) -> str:
        # thousands are set apart unless all numbers are small, as years are
        return f"{value:,}" if max(abs(self.edges[0]), abs(self.edges[-1])) >= 10_000 else str(value)

    def _codes(self, data: NDArray[Any]) -> Codes:
        found, valid = numbers(data)
        codes = np.clip(np.searchsorted(self._array, found, side="right") - 1, 0, self.regular - 1).astype(np.int64)
        if self.outside == "other":
            codes[(found < self.edges[0]) | (found > self.edges[-1])] = UNLISTED
        codes[~valid] = UNLISTED
        return codes

    def _find(self, value: Any, name: str) -> slice:
        if isinstance(value, str | bool):
            raise self._kind_error(value, name)
        level = min(max(bisect_right(self.edges, value) - 1, 0), self.regular - 1)
        if not self.edges[0] <= value <= self.edges[-1]:
            raise PredicateError(
                f"{shorten(value)} is outside the bins of {name}, which go from {code(self.edges[0])} to "
                f"{code(self.edges[-1])}"
            )
        low, high = code(self.edges[level]), code(self.edges[level + 1])
        raise PredicateError(
            f"{name} is declared in bins, so it cannot equal the single value {shorten(value)}; its bin is "
            f"{self.span(level, level + 1)}: compare with the edges {low} and {high}"
        )

    def _below(self, op: str, value: Any, name: str) -> int:
        closed = op in ("<=", ">")
        if value < self.edges[0] or (not closed and value == self.edges[0]):
            return 0
        if value > self.edges[-1] or (closed and value == self.edges[-1]):
            return self.regular
        level = bisect_left(self.edges, value)
        if not closed and value == self.edges[level] and level < self.regular:
            return level
        level = min(bisect_right(self.edges, value), self.regular) - 1
        raise PredicateError(self._cut(op, value, name, level))

    def _cut(self, op: str, value: Any, name: str, level: int) -> str:
        low, high = (f"{code(edge)}" for edge in self.edges[level : level + 2])
        strict = "<" if op in ("<", "<=") else ">="
        last = level == self.regular - 1
        options = [f"{name} {strict} {low}"]
        if not last:
            options.append(f"{name} {strict} {high}")
        elif strict == "<":
            options.append(f"{name} <= {high}")
        return (
            f"{name} {op} {shorten(value)} cuts through the bin {self.span(level, level + 1)}; the nearest edges are "
            f"{low} and {high}: write {' or '.join(options)}"
        )

    def _regular_words(self, mask: Mask) -> list[str]:
        return [self.span(start, stop) for start, stop in self.runs(mask)]

    @cached_property
    def _even(self) -> bool:
        """Whether low, high and the number of bins say it all."""
        return self.edges == steps(self.edges[0], self.edges[-1], self.regular)

    def to_json(self) -> dict[str, Any]:
        """Return the attribute as JSON values."""
        even: dict[str, Any] = {"low": self.edges[0], "high": self.edges[-1], "count": self.regular}
        where = even if self._even else {"edges": list(self.edges)}
        return {"kind": self.kind, **where, "outside": self.outside, "nullable": self.nullable, **self._said()}

    def __repr__(self) -> str:
        if not self._even or self.regular == 1:
            where = [f"edges=[{', '.join(f'{code(edge)}' for edge in self.edges)}]"]
        else:
            low, high = self.edges[0], self.edges[-1]
            width = (exact(high) - exact(low)) / self.regular
            short = number(width)
            # a width such as 1/3 is no decimal; then the count says it better
            even = exact(short) == width
            where = [f"{code(low)}", f"{code(high)}", f"width={code(short)}" if even else f"count={code(self.regular)}"]
        return f"Bins({', '.join([*where, *self._options()])})"


def _joined(intervals: Iterable[tuple[float, float]]) -> tuple[int | float, ...]:
    """Return the edges of adjacent intervals."""
    pairs = []
    for pair in _listed(intervals, "intervals="):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DomainError(f"each of intervals= is a pair (low, high), not {shorten(pair)}")
        left, right = (finite(end, "an end of an interval") for end in pair)
        if left >= right:
            raise DomainError(
                f"the interval ({shorten(left)}, {shorten(right)}) has no width: its high end must be above its low end"
            )
        pairs.append((left, right))
    if not pairs:
        raise DomainError("intervals= is empty: write at least one pair (low, high)")
    pairs.sort()
    for (left, right), (start, stop) in pairwise(pairs):
        if start < right:
            raise DomainError(
                f"the intervals ({shorten(left)}, {shorten(right)}) and ({shorten(start)}, {shorten(stop)}) overlap; "
                "bins may only touch"
            )
        if start > right:
            raise DomainError(
                f"nothing lies between {shorten(right)} and {shorten(start)}; bins must touch: add "
                f"({shorten(right)}, {shorten(start)})"
            )
    return (pairs[0][0], *(right for _, right in pairs))


def _listed(values: Any, what: str) -> list[Any]:
    if isinstance(values, str | bytes) or is_column_of_data(values) or not isinstance(values, Iterable):
        raise DomainError(f"{what} is a list, not {shorten(values)}")
    listed = list(islice(values, MAX_LEVELS + 2))
    if len(listed) > MAX_LEVELS + 1:
        raise DomainError(f"{what} is longer than {MAX_LEVELS + 1:,}: at most {MAX_LEVELS:,} bins are possible")
    return listed


# Edges of bins of equal width, computed in exact decimals.
def even_edges(low: float, high: float, width: Any, count: Any) -> tuple[int | float, ...]:
    """Return the edges of bins of equal width."""
    if low >= high:
        raise DomainError(
            f"Bins from {shorten(low)} to {shorten(high)} have no width: the high end must be above the low end"
        )
    span = exact(high) - exact(low)
    if count is not None:
        bins = whole(count, "count=")
        if bins < 1:
            raise DomainError(f"count= is at least 1, not {bins}")
    else:
        step = exact(finite(width, "width="))
        if step <= 0:
            raise DomainError(f"width= is above 0, not {shorten(width)}")
        if span % step:
            raise DomainError(_uneven(low, high, span, step))
        bins = int(span / step)
    if bins > MAX_LEVELS:
        raise DomainError(f"that makes {bins:,} bins, and at most {MAX_LEVELS:,} are possible; use a greater width")
    return steps(low, high, bins)


def steps(low: float, high: float, count: int) -> tuple[int | float, ...]:
    """Return `count` + 1 evenly spaced edges, each the number nearest to its exact decimal value."""
    start, stop = exact(low), exact(high)
    below = math.lcm(start.denominator, stop.denominator) * count
    first, last = int(start * below), int(stop * below)
    step = (last - first) // count
    if all(value % below == 0 for value in (first, step)):
        return tuple(range(first // below, last // below + 1, step // below))
    return tuple(_tidy((first + i * step) / below) for i in range(count + 1))


def _uneven(low: float, high: float, span: Fraction, step: Fraction) -> str:
    """Say why a width does not divide a span, and which near ones do."""
    fewer = max(math.floor(span / step), 1)
    if span.denominator == step.denominator == 1:
        whole_span, whole_step = int(span), int(step)
        near = [d for d in _divisors(whole_span) if d <= whole_step][-1:]
        near += [d for d in _divisors(whole_span) if d > whole_step][:1]
        widths = [f"width={code(d)} ({whole_span // d:,} bins)" for d in near]
    else:
        counts = sorted({fewer, fewer + 1}, reverse=True)
        widths = [f"width={code(number(span / n))} ({n:,} bins)" for n in counts if exact(number(span / n)) == span / n]
        widths = widths or [f"count={n}" for n in counts]
    ends = [number(exact(low) + step * n) for n in (fewer, fewer + 1)]
    return (
        f"width={code(number(step))} does not divide the span from {code(low)} to {code(high)}; "
        f"{' or '.join(widths)} does, or end at {code(ends[0])} or {code(ends[1])}, or give edges=[...]"
    )


def _divisors(n: int) -> list[int]:
    # bounded work for absurd spans: divisors beyond 10^6 bins could not be used anyway
    small = [d for d in range(1, min(math.isqrt(n), MAX_LEVELS) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def exact(value: float) -> Fraction:
    """Return a number as the decimal it was written as: 0.1 is one tenth."""
    return Fraction(str(value))


def number(value: Fraction) -> int | float:
    """Return the int, or the float nearest to a fraction."""
    return value.numerator if value.denominator == 1 else _tidy(float(value))


def _tidy(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
