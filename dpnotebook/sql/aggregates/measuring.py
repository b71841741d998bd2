"""What is measured for a private aggregation, and with how much noise: everything but the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import Law, Noise, law_of
from dpnotebook.sql.bounded_sums import Component, Partner
from dpnotebook.sql.group_weights import GroupWeights
from dpnotebook.sql.select import Contribution
from dpnotebook.strategy import Strategy

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class NoisyNumbers:
    """Noisy numbers of one scale: integer combinations of integers that the engine adds up.

    Parameters
    ----------
    columns
        Which columns of `Totals.numbers` are combined.
    combine
        Rows are what is measured, shape (measured, columns); or a strategy whose operator is measured.
    scale
        Of the noise on each, in whole steps.
    """

    columns: tuple[int, ...]
    combine: Matrix | Strategy
    scale: Fraction

    @property
    def measured(self) -> int:
        """How many noisy numbers a group has of it."""
        return int(self.combine.operator.shape[0]) if isinstance(self.combine, Strategy) else len(self.combine)


@dataclass(frozen=True)
class AggregateInput:
    """What an aggregate is worked out from.

    Parameters
    ----------
    kind, fractions, array, population
        As in `Aggregate`.
    blocks
        Numbers of its blocks.
    bounds
        Lower and upper, as they were written or found, of each column; of averages whose vectors are clipped, their
        norm behind them, and between these what `centring.with_centre` adds. None while they are to be found.
    sought
        While they are to be found: the scale of the noise on the histogram that they are read off.
    usual
        While they are to be found: the bounds of as many rows as a unit is meant to have, where that is known.
    inside
        While they are to be found: whether that is inside declared ones, which hold where noise hides them.
    found
        Whether they are known in the end; where noise hid them, nothing is answered.
    step
        What one integer is worth in the answer's units; for variances, of a centred value.
    half
        Of centred statistics: the most that a value is away from the middle, in steps.
    square
        Of variances: what one integer of the squares is worth.
    edges
        Of quantiles: the edges of the bins.
    points
        Of quantiles: whether a bin holds only the whole number at its lower edge; of counts and sums whose noise is no
        whole number: whether they are shown as such, where noise is larger than that.
    layers
        Of counts and sums in two layers: how answers follow from both; see `layers.Combination`. Nothing before they
        are measured.
    moved
        Of means and variances: by how much bounds and norms are taken to make them too small beside the noise, as a
        standard deviation; intervals reach farther up by that. 0 in records of before this was told.
    moved_down
        The same of too large ones, where intervals reach farther down; None in records of before both were told apart.
    drawn
        Of means and variances over rows that are drawn: variance that comes from which units and rows count, times the
        number of values that count in a group. 0 in records of before this was told.
    pair
        Of covariances and correlations: what bounds take from both columns, as `covariance.PairTaken` has it. Nothing
        where that is not known, and in records of before this was told.
    every_row
        Of counts that are read off what is measured for a mean: whether rows without a value count too.
    reach
        Of quantiles whose bounds were found from the data: how far the values may reach beyond them. Nothing where
        bounds are written, and in records of before this was told.
    shifted
        Of quantiles over rows of which only some of each unit count: which part of all weight is that of other units
        than if all did; intervals reach so much farther, as nobody knows what values these have. 0 in records of before
        this was told.
    lost
        Of counts and sums that were measured: what bounds take from them, in proportion; see `lost_parts.LostParts`.
        Nothing in records of before this was told.
    """

    kind: str
    blocks: tuple[int, ...]
    bounds: tuple[Fraction, ...] | None
    step: Fraction = Fraction(1)
    half: int = 1
    square: Fraction = Fraction(1)
    fractions: tuple[float, ...] = ()
    array: bool = False
    population: bool = True
    edges: tuple[float, ...] = ()
    points: bool = False
    sought: Fraction | None = field(default=None, compare=False)
    found: bool = True
    usual: tuple[Fraction, ...] | None = field(default=None, compare=False)
    inside: bool = field(default=False, compare=False)
    layers: tuple[float, ...] = ()
    moved: float = 0.0
    moved_down: float | None = None
    lost: tuple[float, ...] = ()
    drawn: float = 0.0
    pair: tuple[float, ...] = ()
    every_row: bool = False
    reach: tuple[float, ...] = field(default=(), compare=False)
    shifted: float = 0.0

    @property
    def reaches_farther(self) -> bool:
        """Whether intervals reach farther for what bounds and norms do."""
        return any(self.moves) or bool(self.lost) or bool(self.drawn) or bool(self.pair) or bool(self.shifted)

    @property
    def moves(self) -> tuple[float, float]:
        """By how much intervals reach farther down, and farther up, for what bounds and norms do."""
        return self.moved if self.moved_down is None else self.moved_down, self.moved


@dataclass(frozen=True)
class Measuring:
    """What is measured for a private aggregation.

    Parameters
    ----------
    noise, contribution
        The law of the noise, and how units are bounded: what they add to all components that do not say otherwise.
    components
        What the engine adds up, in the order of the columns of `Totals.numbers`.
    blocks
        What is measured of that, in the order of the noisy numbers.
    parts
        One for each aggregate, in order.
    counted
        Number of the block that counts units for the threshold; None where all groups are shown.
    tau
        Least noisy number of units of a group that is shown, in steps, where one unit suffices; None where all are.
    min_units
        Fewest units of a group that is shown.
    one
        How many steps one unit is worth in the count of units.
    grouped
        Whether there are several groups.
    together
        Of each group, how many groups of a release were added up for it, where these are not equally many; the scales
        are those of one then. Nothing elsewhere.
    weights
        By what is multiplied what units have in groups, before vectors are clipped to a norm; None where nothing is.
    weighing
        The same of each group that is shown, by which its numbers are to be divided; nothing where all are 1.
    """

    noise: Noise
    contribution: Contribution
    components: tuple[Component, ...]
    blocks: tuple[NoisyNumbers, ...]
    parts: tuple[AggregateInput, ...]
    counted: int | None = None
    tau: int | None = None
    min_units: int = 1
    one: int = 1
    grouped: bool = True
    together: tuple[int, ...] = ()
    weights: GroupWeights | None = None
    weighing: tuple[int, ...] = ()

    @property
    def law(self) -> Law:
        """The law of the noise."""
        return law_of(self.noise)

    @property
    def width(self) -> int:
        """How many integers a group has."""
        return sum(component.width for component in self.components)

    @property
    def measured(self) -> int:
        """How many noisy numbers a group has."""
        return sum(block.measured for block in self.blocks)

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """The noise scale of each noisy number of a group."""
        return tuple(block.scale for block in self.blocks for _ in range(block.measured))

    @property
    def weighed(self) -> NDArray[np.bool_]:
        """Which noisy numbers of a group have its weight: not the one that a threshold is compared with."""
        return np.array([i != self.counted for i, block in enumerate(self.blocks) for _ in range(block.measured)])

    def weights_of(self, groups: int) -> NDArray[np.float64]:
        """Return by what numbers of groups are to be divided, of the same ones several times over, shape (groups,)."""
        return np.resize(np.array(self.weighing or (1,), dtype=float), groups)

    @property
    def complete(self) -> bool:
        """Whether all bounds are known, so that it can be measured."""
        return all(part.bounds is not None for part in self.parts)

    def component(self, column: int) -> Component:
        """Return the component that a column of `Totals.numbers` belongs to."""
        return self.components[self.components_of([column])[0]]

    def components_of(self, columns: Sequence[int]) -> list[int]:
        """Return the number of the component that each of some columns of `Totals.numbers` belongs to."""
        ends = np.cumsum([component.width for component in self.components])
        return [int(place) for place in np.searchsorted(ends, columns, side="right")]

    def contribution_of(self, part: AggregateInput) -> Contribution:
        """Return how what a unit adds to an aggregate is bounded."""
        of = self.component(self.blocks[part.blocks[0]].columns[0]).contribution if part.blocks else None
        return self.contribution if of is None else of

    def place(self, block: int) -> slice:
        """Return where the noisy numbers of a block stand."""
        start = sum(before.measured for before in self.blocks[:block])
        return slice(start, start + self.blocks[block].measured)

    def of_parts(self, numbers: Sequence[int]) -> tuple[Measuring, list[int]]:
        """Return what some of the aggregates need, and the places of that among all noisy numbers of a group."""
        blocks = sorted({block for i in numbers for block in self.parts[i].blocks})
        parts = (replace(self.parts[i], blocks=tuple(map(blocks.index, self.parts[i].blocks))) for i in numbers)
        counted = blocks.index(self.counted) if self.counted in blocks else None
        places = [place for block in blocks for place in range(self.place(block).start, self.place(block).stop)]
        chosen = tuple(self.blocks[block] for block in blocks)
        return replace(self, blocks=chosen, parts=tuple(parts), counted=counted), places

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, with all that a later version needs to read the noisy numbers."""
        return {
            "noise": self.noise,
            "contribution": [self.contribution.kind, self.contribution.most],
            "components": [_component_to_json(component) for component in self.components],
            "blocks": [
                {
                    "columns": _runs(block.columns),
                    "matrix": None if isinstance(block.combine, Strategy) else [list(row) for row in block.combine],
                    "strategy": block.combine.to_json() if isinstance(block.combine, Strategy) else None,
                    "scale": str(block.scale),
                }
                for block in self.blocks
            ],
            "parts": [
                {
                    "kind": part.kind,
                    "blocks": list(part.blocks),
                    "bounds": None if part.bounds is None else [str(bound) for bound in part.bounds],
                    "step": str(part.step),
                    "half": part.half,
                    "square": str(part.square),
                    "fractions": list(part.fractions),
                    "array": part.array,
                    "population": part.population,
                    "edges": list(part.edges),
                    "points": part.points,
                    "found": part.found,
                }
                | ({"layers": list(part.layers)} if part.layers else {})
                | ({"moved": part.moved} if any(part.moves) else {})
                | ({"moved_down": part.moved_down} if part.moved_down is not None else {})
                | ({"lost": list(part.lost)} if part.lost else {})
                | ({"drawn": part.drawn} if part.drawn else {})
                | ({"pair": list(part.pair)} if part.pair else {})
                | ({"every_row": True} if part.every_row else {})
                | ({"shifted": part.shifted} if part.shifted else {})
                | ({"reach": [str(end) for end in part.reach]} if part.reach else {})
                for part in self.parts
            ],
            "threshold": [self.counted, self.tau, self.min_units, self.one],
            "grouped": self.grouped,
        } | (
            ({"together": list(self.together)} if self.together else {})
            | ({"weights": self.weights.to_json()} if self.weights is not None else {})
            | ({"weighing": list(self.weighing)} if self.weighing else {})
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Measuring:
        """Return what `to_json` wrote."""
        counted, tau, min_units, one = value["threshold"]
        return cls(
            value["noise"],
            Contribution(*value["contribution"]),
            tuple(map(_component_from_json, value["components"])),
            tuple(
                NoisyNumbers(
                    tuple(i for start, stop in entry["columns"] for i in range(start, stop)),
                    Strategy.from_json(entry["strategy"])
                    if entry["matrix"] is None
                    else tuple(map(tuple, entry["matrix"])),
                    Fraction(entry["scale"]),
                )
                for entry in value["blocks"]
            ),
            tuple(
                AggregateInput(
                    entry["kind"],
                    tuple(entry["blocks"]),
                    None if entry["bounds"] is None else tuple(map(Fraction, entry["bounds"])),
                    Fraction(entry["step"]),
                    entry["half"],
                    Fraction(entry["square"]),
                    tuple(entry["fractions"]),
                    entry["array"],
                    entry["population"],
                    tuple(entry["edges"]),
                    entry["points"],
                    found=entry.get("found", True),
                    layers=tuple(entry.get("layers", ())),
                    moved=float(entry.get("moved", 0.0)),
                    moved_down=entry.get("moved_down"),
                    lost=tuple(entry.get("lost", ())),
                    drawn=float(entry.get("drawn", 0.0)),
                    pair=tuple(entry.get("pair", ())),
                    every_row=entry.get("every_row", False),
                    reach=tuple(map(float, entry.get("reach", ()))),
                    shifted=float(entry.get("shifted", 0.0)),
                )
                for entry in value["parts"]
            ),
            counted,
            tau,
            min_units,
            one,
            value["grouped"],
            tuple(value.get("together", ())),
            GroupWeights.from_json(value["weights"]) if "weights" in value else None,
            tuple(value.get("weighing", ())),
        )


def _component_to_json(component: Component) -> dict[str, Any]:
    values: dict[str, Any] = {
        "statistic": component.statistic,
        "input": component.input,
        "low": str(component.low),
        "high": str(component.high),
        "step": str(component.step),
        "largest": component.largest,
        "edges": list(component.edges),
    }
    if component.other is not None:
        values["other"] = [component.other.input, str(component.other.low), str(component.other.high)]
        if component.other.centre is not None:
            values["other"].append(str(component.other.centre))
    if component.together is not None:
        values["together"] = component.together
    if component.beyond:
        values["beyond"] = component.beyond
    if component.centre is not None:
        values["centre"] = str(component.centre)
    if component.usual:
        values["usual"] = str(component.usual)
    if component.contribution is not None:
        values["contribution"] = [component.contribution.kind, component.contribution.most]
    return values


def _component_from_json(entry: Mapping[str, Any]) -> Component:
    column, *bounds = entry.get("other", [None])
    return Component(
        entry["statistic"],
        entry["input"],
        Fraction(entry["low"]),
        Fraction(entry["high"]),
        Fraction(entry["step"]),
        entry["largest"],
        tuple(entry["edges"]),
        None if column is None else Partner(column, *map(Fraction, bounds)),
        entry.get("together"),
        entry.get("beyond", 0),
        Fraction(entry["centre"]) if "centre" in entry else None,
        Fraction(entry.get("usual", 0)),
        Contribution(*entry["contribution"]) if "contribution" in entry else None,
    )


def _runs(columns: Sequence[int]) -> list[list[int]]:
    """Return columns as half-open runs: those of a thousand bins are one."""
    runs: list[list[int]] = []
    for column in columns:
        if runs and runs[-1][1] == column:
            runs[-1][1] = column + 1
        else:
            runs.append([column, column + 1])
    return runs
