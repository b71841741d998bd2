"""What a bound takes from an answer, beside the noise: numbers, as they are recorded, and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from dpnotebook.views import digits

BESIDE_MOST = (
    "about",
    "answer",
    "apart",
    "looked",
    "below",
    "above",
    "single",
    "groups",
    "spread",
    "kept",
    "joint",
    "heavy",
)  # parts of what is told beside the most
HELD = "longer for that"  # in what is said of intervals that hold what bounds take
REACH = 1.959964  # standard deviations of noise, which passes them as seldom as bounds take more than the most
NEAR_ENOUGH = 4.0  # times what is expected: to where it may be, where that is mostly known within a factor of two


class Taken(NamedTuple):
    """What a bound takes from an answer, beside the noise.

    Parameters
    ----------
    about
        What is expected; NaN where only the most is known, as in records of before both were told.
    most
        What it may be, if numbers thin out as laws of tails do; NaN where nothing is known.
    answer
        About how large the answer is that it is taken from, of all rows; NaN where that is not known.
    apart
        What it may be if some lie apart from the others, no more than noise hides; NaN where that is not known.
    looked
        How far from 0 these were looked for; NaN likewise.
    below, above
        By how much the answer may be too small, and too large; NaN where that is not told apart.
    single
        Root of the sum of the squares of what single units lose, or of their mean where it is taken from each value;
        NaN where that is not told.
    groups
        Over how many groups it is shared out; NaN likewise.
    spread
        Standard deviation of the values that are kept between bounds, or of pairs the product of both; NaN likewise.
    kept, joint
        Of pairs of columns: which part bounds keep of the product of both standard deviations, at least, and which part
        of it the covariance of what they cut off may be, at most; NaN of anything else.
    heavy
        Of pairs: the root of the product of the fourth moments of both columns, in those of their variances' squares.
    """

    about: float = math.nan
    most: float = math.nan
    answer: float = math.nan
    apart: float = math.nan
    looked: float = math.nan
    below: float = math.nan
    above: float = math.nan
    single: float = math.nan
    groups: float = math.nan
    spread: float = math.nan
    kept: float = math.nan
    joint: float = math.nan
    heavy: float = math.nan

    @property
    def known(self) -> bool:
        """Whether anything is."""
        return math.isfinite(self.most)

    @property
    def worst(self) -> float:
        """The most of all that it may be, wherever some may lie; NaN where nothing is known."""
        return self.most if math.isnan(self.apart) else max(self.most, self.apart)

    @property
    def hidden(self) -> bool:
        """Whether noise hides how much it is: it may be far more than is expected, or that is the whole answer."""
        spread = math.isfinite(self.below) and self.most > NEAR_ENOUGH * self.about
        return self.about > self.answer or spread

    def times(self, factor: float) -> Taken:
        """Return what is taken by a bound that takes so many times as much, of the same answer."""
        about, most, apart, below, above = (
            factor * one for one in (self.about, self.most, self.apart, self.below, self.above)
        )
        return Taken(about, most, self.answer, apart, self.looked, below, above, spread=self.spread)

    def of_root(self) -> Taken:
        """Return what is taken from the root of the answer."""
        about, most, apart, below, above = (
            math.sqrt(self.answer + less) - math.sqrt(self.answer)
            for less in (self.about, self.most, self.apart, self.below, self.above)
        )
        return Taken(about, most, math.sqrt(self.answer), apart, self.looked, below, above)


NOT_KNOWN = Taken()  # where nothing tells what a bound takes


def parts_of(part: str) -> tuple[str, ...]:
    """Return under which names `taken_to_json` writes a part of a record."""
    return (part, *(f"{part}_{beside}" for beside in BESIDE_MOST))


def taken_to_json(part: str, taken: Mapping[int, Taken]) -> dict[str, dict[str, float]]:
    """Return what is recorded of what bounds take from some aggregates: the most as ever, and more beside it."""
    told = {part: {str(i): one.most for i, one in taken.items() if one.known}}
    for beside in BESIDE_MOST:
        known = {str(i): getattr(one, beside) for i, one in taken.items() if one.known}
        known = {i: number for i, number in known.items() if math.isfinite(number)}
        if known:
            told[f"{part}_{beside}"] = known
    return told


def taken_from_json(part: str, told: Mapping[str, Any]) -> dict[int, Taken]:
    """Return what `taken_to_json` wrote, of this version or an earlier one."""
    return {
        int(i): Taken(
            most=float(most),
            **{beside: float(told.get(f"{part}_{beside}", {}).get(i, math.nan)) for beside in BESIDE_MOST},
        )
        for i, most in told.get(part, {}).items()
    }


def said_apart(taken: Taken) -> str:
    """Return what may be taken beside the most, in words, if some are far from the others; "" where no more is."""
    if not taken.apart > taken.most:
        return ""
    apart, looked = digits(taken.apart), digits(taken.looked)
    return f" ({apart} if noise hides a few that reach {looked})"
