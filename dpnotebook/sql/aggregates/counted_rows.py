"""How many rows of each unit count, as was found, and what that does to answers, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpnotebook.sql.aggregates.taken import (
    HELD,
    NOT_KNOWN,
    Taken,
    said_apart,
    taken_from_json,
    taken_to_json,
)
from dpnotebook.views import digits

LITTLE = 0.5  # rows: fewer that are left out of a group are none
HARDLY = 0.1  # percent of the range of values: by less no mean is moved
MOVED = "moved"
LOST_UNITS = "lost_units"
QUANTILES = "quantiles"
PERCENT = 100.0

OF_MEANS = ("carried", "walked", "drawn")  # what is told of values
TOLD_OF_VALUES = (*OF_MEANS, "shifted")

NO_END = (
    ", so that intervals of counts and sums have no end where more would be; a larger epsilon finds how many there "
    "are, and max_rows= in protect says it"
)

MORE_LOST = ("apart", "looked", "answer", "below", "above", "single", "groups")  # beside about and the most


def kept_of(told: Mapping[str, Any], index: int) -> float:
    """Return which part of all values counted for an aggregate, by what is recorded of it."""
    of_all = told.get("rows", {}).get("kept", 1.0)
    return float(told.get("kept", {}).get(str(index), of_all))


@dataclass(frozen=True)
class CountedRows:
    """How many rows of a unit count, or groups, as was found.

    Parameters
    ----------
    most
        So many.
    lost
        Rows that are left out of a group then, where something adds up.
    hidden
        Whether noise hid how many there are.
    of_units
        Whether it is units that are left out, and not rows, as nothing else is counted.
    moved
        By how much that moves a mean, in percent of the range of its values, or a quantile, in percent of the ranks;
        where one is asked for.
    averaged
        What is moved so, as its aggregates say: "averages and variances", "quantiles".
    kept
        Which part of all rows counts.
    of_groups
        Whether it is groups of a unit that count, and not rows.
    carried
        Where values are summed up: by how much the mean of those that count is likely to be another one than that of
        all, in parts of the range of values.
    walked
        Where means are asked for: by how many steps units' means move, from one number of rows to twice as many, the
        mean of those that count is likely to be another one than that of all.
    drawn
        Where means are asked for: variance of a mean of the rows that count, as which units and rows these are is
        chance, times the number of these rows, where values have a variance of 1.
    unbounded
        Whether noise hides how many there are, nobody has said how many at most, and something adds up: what is left
        out of that may be any number then.
    lost_units
        Units that are left out of a group then, where rows or values add up beside numbers of units.
    shifted
        Where quantiles are asked for: which part of all weight is that of other units than if all rows counted.
    """

    most: int
    lost: Taken = NOT_KNOWN
    hidden: bool = False
    of_units: bool = False
    moved: Taken = NOT_KNOWN
    averaged: tuple[str, ...] = ()
    kept: float = 1.0
    of_groups: bool = False
    carried: float = 0.0
    walked: float = 0.0
    drawn: float = 0.0
    unbounded: bool = False
    lost_units: Taken = NOT_KNOWN
    shifted: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told: dict[str, Any] = {"most": self.most, "hidden": self.hidden, "of_units": self.of_units}
        if self.lost.known:
            told |= {"about": self.lost.about, "at_most": self.lost.most}
        for part in MORE_LOST:
            if math.isfinite(number := getattr(self.lost, part)):
                told[part] = number
        if math.isfinite(self.lost_units.below):
            told[LOST_UNITS] = {name: one for name, one in self.lost_units._asdict().items() if math.isfinite(one)}
        told |= {part: number for part in TOLD_OF_VALUES if (number := getattr(self, part))}
        told |= {"averaged": list(self.averaged)} if self.averaged else {}
        told |= {"of_groups": True} if self.of_groups else {}
        told |= {"unbounded": True} if self.unbounded else {}
        return told | taken_to_json(MOVED, {0: self.moved}) | ({"kept": self.kept} if self.kept < 1.0 else {})

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> CountedRows:
        """Return what `to_json` wrote."""
        lost = Taken(told["about"], told["at_most"]) if "about" in told else Taken()
        lost = lost._replace(**{part: told[part] for part in MORE_LOST if part in told})
        moved = taken_from_json(MOVED, told).get(0, NOT_KNOWN)
        averaged = tuple(told.get("averaged", ()))
        rest = told.get("kept", 1.0), told.get("of_groups", False), *(told.get(part, 0.0) for part in OF_MEANS)
        rest = *rest, told.get("unbounded", False)
        last = {"lost_units": Taken(**told.get(LOST_UNITS, {})), "shifted": told.get("shifted", 0.0)}
        return cls(told["most"], lost, told["hidden"], told["of_units"], moved, averaged, *rest, **last)

    def told_with(self, less: float) -> CountedRows:
        """Return about what would be told of means by a histogram whose noise is so many times as much."""
        return replace(self, walked=self.walked * less, drawn=self.drawn * less**2)

    @property
    def words(self) -> str:
        """What counts, and what that does to answers, as a person would say it."""
        if self.hidden:
            few = f"up to {self.most:,} of each count, and who has more counts less"
            what = "in how many groups one unit is" if self.of_groups else "how many rows one unit has"
            return f"noise hides {what}: {few}{NO_END * self.unbounded}"
        one = "group" if self.of_groups else "row"
        rows = f"1 {one}" if self.most == 1 else f"{self.most:,} {one}s"
        count = f"up to {rows} of each unit count{'s' if self.most == 1 else ''}, as was found to suit this price"
        said = [*filter(None, (self._left_out, self._moving))]
        far = "except for units far from all others"
        held = (
            f"; intervals of counts and sums are {HELD}, {far}"
            if self._left_out and math.isfinite(self.lost.below)
            else ""
        )
        if self._moving and self.shifted:
            held += f"; intervals of quantiles are {HELD}"
        if self._moving and self.walked and set(self.averaged) != {QUANTILES}:
            held += f"; intervals of averages are {HELD}, but too short where values go with how many rows one has"
        return f"{count}: {'; '.join(said)}, beside the noise{held}" if said else f"{count}; hardly any has more"

    @property
    def _left_out(self) -> str:
        """How many rows, or units, are left out of counts and sums, in words; "" where hardly any is."""
        if not self.lost.worst >= LITTLE:
            return ""
        about, most = map(digits, self.lost[:2])
        more = f", at most about {most}" if about != most else ""
        what = "units" if self.of_units or self.of_groups else "rows"
        taken = "hardly any out of a group"
        if self.lost.most >= LITTLE:
            taken = f"about {about} {what} out of a group{more}"
        return f"that leaves {taken}{said_apart(self.lost)}"

    @property
    def _moving(self) -> str:
        """By how much averages and quantiles move, in words; "" where they hardly do."""
        if not self.moved.worst >= HARDLY:
            return ""
        about, most, apart = map(_percent, (*self.moved[:2], self.moved.worst))
        more = f", at most about {most}" if about != most else ""
        far = f" ({apart} if noise hides some with far more)" if apart != most else ""
        if self.moved.most < HARDLY:
            return f"that hardly moves {' and '.join(self.averaged)}{far}"
        others = " and ".join(one for one in self.averaged if one != QUANTILES)
        said, beside = [f"{others} by about {about} of the range of values"] if others else [], f"{more}{far}"
        if QUANTILES in self.averaged and self.shifted:  # the most that it may be is another number than that of means
            up_to = PERCENT * self.shifted
            said = [f"{one}{beside}" for one in said] + [f"{QUANTILES} by up to {_percent(up_to)} of the ranks"]
            beside = far if not others and self.moved.worst > up_to else ""
        elif QUANTILES in self.averaged:
            said.append(f"{QUANTILES} by {'as much' if others else f'about {about}'} of the ranks")
        return f"units with more count less, which moves {', and '.join(said)}{beside}"


def _percent(share: float) -> str:
    """Return a number of percent with two digits."""
    return f"{float(f'{share:.2g}'):g}%"
