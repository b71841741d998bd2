"""What leaves the engine: integers that every group adds up over privacy units, each bounded whatever a unit holds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.select import Contribution

ROWS_SAMPLED = 5  # rows of a unit in a group that are looked at, where aggregates are of single rows


@dataclass(frozen=True)
class Partner:
    """The other column of pairs, of which rows count that have a value in both.

    Parameters
    ----------
    input
        Number of the input column.
    low, high
        Bounds of its values.
    centre
        What stands for the middle of these, where vectors are clipped; None elsewhere.
    """

    input: int
    low: Fraction
    high: Fraction
    centre: Fraction | None = None


@dataclass(frozen=True)
class Component:
    """One integer a group (or one a bin), summed over units.

    Parameters
    ----------
    statistic
        What a unit adds, by the kind of contribution:

        * "units": 1 where the unit is in the group.
        * "groups": "l2" only: 1 where the unit is in the group, as a vector over them.
        * "count": its rows (of which x is not NULL, if there is an input); "groups": clamped to [low, high].
        * "sum": "groups": its SUM(x), clamped, in steps; "rows": each row's x, clamped, in steps. A unit without
          a value adds nothing.
        * "average": "groups" only: (clamped AVG(x) - middle) in steps; nothing without a value.
        * "values": "groups": 1 where the unit has a value, for "average"; else the number of sampled rows with one.
        * "centred", "square": of its sampled rows, the sum of (clamped x - middle) in steps, and of
          (clamped x - middle)^2 in steps.
        * "product": of its sampled pairs, the sum of (clamped x - its middle) (clamped y - its middle), in steps.
        * "bins": of its sampled rows, how many have their clamped x in each bin.
        * "distinct": of all groups together at most `largest` values x, each once; no sum, but how many different ones
          units bring to a group.

        Sampled are all rows that take part under "rows", at most `ROWS_SAMPLED` of the unit in the group otherwise.
        Under "l2" "units", "groups", "count" and "sum" are the vector of a unit over all groups, scaled down to `high`
        (for "units": to norm 1), then cut off towards zero to whole steps. "values", "centred" and "square" of all rows
        of the unit are one vector, `together`, that is scaled down to a norm of `largest` steps.
    input
        Number of the input column; None where there is none.
    low, high
        Bounds; the middle is half-way.
    step
        What one integer is worth; bounds (or the half-width, for centred statistics) need not be multiples, values
        are rounded to the nearest step inside them.
    largest
        The most, in absolute value, that one unit (under "rows": one row) adds to one group.
    edges
        For "bins": increasing edges e_0 < ... < e_n of n bins, each closed below; the last one on both sides.
    other
        Of pairs: the other column; None where single values count.
    together
        Under "l2": the number of the vector that this is a part of; None where it is one by itself.
    centre
        Of "centred" and "square" under "l2": what stands for the middle of the bounds; None where it is the middle.
    beyond
        Under "l2": the norm in steps from which on it is added up, up to `largest` steps more: what is below is in
        another component.
    usual
        Of "square" under "l2": what squares count from.
    contribution
        How what a unit adds is bounded, where that is not as for the rest of a private aggregation; else None.
    """

    statistic: str
    input: int | None
    low: Fraction
    high: Fraction
    step: Fraction
    largest: int
    edges: tuple[float, ...] = ()
    other: Partner | None = None
    together: int | None = None
    beyond: int = 0
    centre: Fraction | None = None
    usual: Fraction = Fraction(0)
    contribution: Contribution | None = None

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of the input columns of which a row must have a value, in order."""
        other = None if self.other is None else self.other.input
        return tuple(sorted(i for i in (self.input, other) if i is not None))

    @property
    def column(self) -> str:
        """The column of its values in a query."""
        assert self.input is not None
        return value_column(self.input, None if self.other is None else self.other.input)

    @property
    def turn(self) -> str:
        """The column that numbers the rows of a unit in a group in the order in which they are drawn."""
        return f"turn{'_'.join(map(str, self.inputs))}"

    @property
    def once(self) -> bool:
        """Whether a unit counts once in a group, however many rows of it count."""
        return self.statistic == "units"

    @property
    def binned(self) -> bool:
        """Whether values are counted by bin, which takes a query of its own."""
        return self.statistic == "bins"

    @property
    def distinct(self) -> bool:
        """Whether different values are counted, which takes a query of its own."""
        return self.statistic in ("matched", "distinct")  # these were drawn by earlier versions

    @property
    def width(self) -> int:
        """How many integers a group has of it."""
        return len(self.edges) - 1 if self.binned else 1

    def norm(self, contribution: Contribution, power: int) -> int:
        """Return the most that one unit changes all groups together: sum of |difference|^power.

        Parameters
        ----------
        contribution
            How a unit is bounded.
        power
            1 for Laplace noise, 2 for Gaussian noise.
        """
        if self.distinct:
            return int(self.largest**power)
        if contribution.kind == "l2":
            if power != 2:
                raise ValueError("a vector clipped to an L2 norm needs Gaussian noise")
            return self.largest**2
        if contribution.kind == "groups":
            return contribution.most * int(self.largest**power)
        if self.once:
            return contribution.most
        return int((contribution.most * self.largest) ** power)


@dataclass(frozen=True)
class Totals:
    """What the engine found.

    Parameters
    ----------
    keys
        The groups: the values of the keys, shape (groups,), in an order that does not depend on the rows' order.
    numbers
        int64, shape (groups, sum of the components' widths), the components in their order.
    """

    keys: tuple[tuple[Any, ...], ...]
    numbers: NDArray[np.int64]


def value_column(first: int, other: int | None = None) -> str:
    """Return the column of an input's values in a query; of pairs, NULL where the other input has none."""
    return f"y{first}" if other is None else f"y{first}_{other}"
