"""Between which values most rows of a column lie, as a histogram tells that was released: to read that is free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Attribute

Floats = NDArray[np.float64]

BEYOND = (0.005, 0.01, 0.025)  # of all rows, that may lie beyond either end: the least that noise lets one tell
SURE = 1.0  # standard errors of how many lie there, by which they may be more than a release says


@dataclass(frozen=True)
class ReleasedSpan:
    """Between which values most rows of a column lie.

    Parameters
    ----------
    release
        The release that tells.
    low, high
        The values.
    share
        Of 100 rows, how many.
    """

    release: int
    low: float
    high: float
    share: int

    def times_wider(self, low: float, high: float, kind: str) -> float:
        """Return how many times as much noise bounds make, of a "sum" or a "mean", as these values would."""
        if kind == "sum":
            return max(abs(low), abs(high)) / max(abs(self.low), abs(self.high), 1e-300)
        return (high - low) / max(self.high - self.low, 1e-300)


def released_span(release: int, counts: Floats, std_errors: Floats, attribute: Attribute) -> ReleasedSpan | None:
    """Return between which values a noisy histogram has all rows but a few; None where noise hides that.

    Parameters
    ----------
    release
        Its number.
    counts, std_errors
        Of the regular levels, in their order, shape (regular,).
    attribute
        Whose levels these are; it has bounds.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> counts = np.array([300.0, 650.0, 40.0, 2.0, -3.0])
    >>> released_span(7, counts, np.full(5, 1.5), dpn.Bins(0, 50, width=10))
    ReleasedSpan(release=7, low=0.0, high=30.0, share=99)
    """
    total = float(counts.sum())
    unsure = SURE * float(np.sqrt((std_errors**2).sum()))
    beyond = next((part for part in BEYOND if unsure <= part * total), None)
    if beyond is None:
        return None

    def first(of: Floats, errors: Floats) -> int:
        """Return the first level up to which there are more than may lie beyond an end."""
        most = np.cumsum(of) + SURE * np.sqrt(np.cumsum(errors**2))
        return int(np.argmax(most > beyond * total))

    least, greatest = attribute.level_bounds()
    below, above = first(counts, std_errors), first(counts[::-1], std_errors[::-1])
    ends = float(least[below]), float(greatest[len(counts) - 1 - above])
    return ReleasedSpan(release, *ends, round(100 - 200 * beyond))
