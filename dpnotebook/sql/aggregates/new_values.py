"""How many different values of a unit count, where these are counted: so many that what is missed and noise are least.

What units may bring is in proportion to noise, whether it is new or not. Values that many units share, such as the
judges of cases, are all brought by units that stand for one each; of values that nobody else has, such as the numbers
of cases, a unit that stands for one alone misses all others. Which of the two it is tells a second value of each unit:
how many more are counted where each may stand for two, of the units that have two.

Source: what a unit brings is bounded as in Knop and Steinke, Counting distinct elements under person-level differential
privacy, NeurIPS 2023; there the bound is chosen among noisy counts, here by two histograms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpnotebook.privacy.laws import law_of
from dpnotebook.sql.aggregates.budget_split import OF_NEW_VALUES
from dpnotebook.sql.aggregates.row_histogram import RowHistogram, row_edges, units_by_rows
from dpnotebook.sql.aggregates.taken import REACH, Taken
from dpnotebook.sql.aggregates.units_rows import SPREAD, values_nearly_best, values_to_count
from dpnotebook.views import digits

SURELY = 1.0  # standard deviations of noise that are not taken to be new values, where it is chosen how many count
HIDDEN_VALUES = 8.0  # of a unit, where noise hides how many it has: who has more is not told of
SHOWN = 6.0  # standard deviations of noise: about so many units a group has that a threshold does not hide
LITTLE = 0.5  # values: fewer that are missed are none


@dataclass(frozen=True)
class NewValues:
    """How many different values units have, and how many of them are new.

    Parameters
    ----------
    told
        How many units have how many different values.
    more
        How many more are counted where each unit stands for two of its values than where it stands for one, noisy.
    scale
        Of the noise on that.
    """

    told: RowHistogram
    more: int
    scale: Fraction

    @property
    def units(self) -> int:
        """What it cost, in the accountant's units."""
        return OF_NEW_VALUES * self.told.units

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return self.told.to_json() | {"second": self.more, "second_scale": str(self.scale)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> NewValues:
        """Return what `to_json` wrote."""
        return cls(RowHistogram.from_json(told), int(told["second"]), Fraction(told["second_scale"]))

    def new(self, deviations: float) -> float:
        """Return which part of units' second values is new, so many standard deviations of noise above what is told."""
        found = units_by_rows(self.told)
        if found is None:
            return 1.0
        several = np.array(row_edges(self.told.most)[:-1]) > 1
        units = max(float(np.maximum(found.average, 0.0)[several].sum()), 1.0)
        spread = math.sqrt(law_of(self.told.noise).variance(self.scale))
        return min(max((self.more + deviations * spread) / units, 0.0), 1.0)

    def to_count(self, noise: float, groups: int | None) -> tuple[int, Taken]:
        """Return how many values of a unit should count, and how many a group lacks then; 1 where noise hides that.

        Parameters
        ----------
        noise
            Standard deviation of the noise on a group, where one value of a unit counts.
        groups
            How many there are; None where that is not known.
        """
        chosen = values_to_count(self.told, noise * self._among(noise, groups) ** SPREAD, self.new(-SURELY))
        groups = groups or 1  # those that are shown tell which part of what is missed each lacks
        if chosen is None:
            return 1, self._hidden(groups)
        counted, about, at_most = chosen
        about, at_most = (
            new * missed / math.sqrt(groups) for new, missed in ((self.new(0.0), about), (self.new(REACH), at_most))
        )
        return counted, Taken(min(about, at_most), at_most, at_most, below=at_most, above=0.0, groups=groups)

    def _hidden(self, groups: int) -> Taken:
        """Return how many a group may lack where one of each unit counts, and noise hides how many these have."""
        spread = math.sqrt(len(self.told.counts) * law_of(self.told.noise).variance(self.told.scale))
        most = (max(sum(self.told.counts), 0) + REACH * spread) * (HIDDEN_VALUES - 1.0) * self.new(REACH)
        most /= math.sqrt(groups)
        return Taken(most / 2.0, most, most, looked=HIDDEN_VALUES, below=most, above=0.0, groups=groups)

    def suits(self, noise: float, groups: int | None, counted: int) -> bool:
        """Return whether so many values of a unit, that were chosen for other noise, give nearly the least error."""
        noise *= self._among(noise, groups) ** SPREAD
        return values_nearly_best(self.told, noise, self.new(-SURELY), counted)

    def _among(self, noise: float, groups: int | None) -> float:
        """Return over how many groups values are shared out, where nobody declared them as many as noise may show.

        That is from one to as many as have just enough to be shown: the geometric mean of both.
        """
        if groups is not None or (found := units_by_rows(self.told)) is None:
            return float(groups or 1)
        values = float(np.array(row_edges(self.told.most)[:-1]) @ np.maximum(found.average, 0.0))
        return math.sqrt(max(values / (SHOWN * noise), 1.0))


def said_of_values(counted: int, missed: Taken) -> str:
    """Return how many values of each unit count, as was found, and what that does to an answer, in words."""
    one = "1 value of each unit counts" if counted == 1 else f"up to {counted:,} values of each unit count"
    if not math.isnan(missed.looked):
        most = digits(missed.most)
        return (
            f"noise hides how many different values one unit has, so that {one}: at most about {most} are missed in a "
            f"group if no unit has more than {missed.looked:g}; the interval is longer for that"
        )
    if missed.most < LITTLE:
        return f"{one}, as was found to suit this price; hardly any is missed by that"
    about, most = digits(missed.about), digits(missed.most)
    missing = f"about {about}, at most about {most}," if missed.about >= LITTLE else f"at most about {most}"
    return (
        f"{one}, as was found to suit this price: {missing} are missed in a group, as no unit stands for them; the "
        "interval is longer for that"
    )
