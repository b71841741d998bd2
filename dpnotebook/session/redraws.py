"""Releases whose noise is drawn again, and the intervals of what is worked out from such draws.

What is linear in the noise has its exact interval; of a ratio, redraws give the interval of Fieller's theorem. Where
what is divided by may be zero, anything is possible, and that is what the interval says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.privacy.tails import half_widths, kappa
from dpnotebook.session.answer_frame import PARTS, column_name
from dpnotebook.session.jumps import ends_of_parts
from dpnotebook.session.ordered import quantile_of_ordered
from dpnotebook.sql.aggregates.lost_parts import NO_END
from dpnotebook.sql.derived import DRAW, ROW

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WORKED = 400_000  # rows that are worked out from redraws, about
MOST_WORKED = 4_000_000  # and where intervals are so sure that their ends are rare
FEWEST, FEWEST_QUANTILES, MOST = 200, 40, 4_000  # redraws
IN_TAIL = 5  # redraws beyond each end
MOST_QUANTILES = 10_000  # read off their bins for one answer
SLOW = 50  # rows that can be worked out while one quantile is read off its bins
AROUND = 1e-9  # of a value: a redraw that is nearer is the same
LINEAR = 0.02  # of its spread: what is off a linear function of the noise by less is one
PER_NUMBER = 4  # redraws for each noisy number, from which on they tell what it counts for
MISSED = 0.01  # share of redraws without an answer, above which there is no interval
MEANT = 6  # digits of an end below its standard error
FAR = 0.001  # share of redraws at either end that counts as no farther out: a ratio may have no standard error else


@dataclass(frozen=True)
class Redrawn:
    """A release, and what it may have been.

    Parameters
    ----------
    frame
        As it was released.
    values
        Of each aggregate, shape (draws, rows), or (draws, rows, quantiles) for arrays; those that are needed.
    noise
        What was added to each noisy number of a row that they are worked out from, shape (draws, rows, measured); of
        numbers that are of no row in particular, shape (draws, 1, numbers).
    scales, law
        Of that noise, by row one scale for each of `measured`; none where it is not known what noise that is.
    """

    frame: pd.DataFrame
    values: Mapping[str, Floats]
    noise: NDArray[Any]
    scales: tuple[tuple[Fraction, ...], ...]
    law: Noise

    @property
    def draws(self) -> int:
        """How often it was redrawn."""
        return int(self.noise.shape[0])

    def table(self) -> pd.DataFrame:
        """Return all redraws below each other, as the query over them reads them."""
        import pandas as pd

        rows = len(self.frame)
        columns: dict[str, Any] = {
            name: pd.Series(np.tile(self.frame[name].to_numpy(), self.draws), dtype=self.frame[name].dtype)
            for name in self.frame.columns
            if name not in self.values
        }
        for name, values in self.values.items():
            flat = values.reshape(self.draws * rows, *values.shape[2:])
            columns[name] = flat if flat.ndim == 1 else pd.Series([one.tolist() for one in flat], dtype=object)
            for part in ("lower", "upper") if flat.ndim == 1 else ():
                end = column_name(name, part)
                away = self.frame[end].to_numpy(dtype=float) - self.frame[name].to_numpy(dtype=float)
                columns[end] = (values + away).ravel()
        columns[ROW] = np.tile(np.arange(rows), self.draws)
        columns[DRAW] = np.repeat(np.arange(self.draws), rows)
        return pd.DataFrame(columns)


class RedrawnColumns(dict[str, NDArray[Any]]):
    """Columns of a release as they may have been, by name, shape (draws, rows) each, and the noise they follow from.

    Parameters
    ----------
    columns
        The columns.
    noise, scales, law
        The noise of each of the noisy numbers, shape (draws, numbers), its scales, and their law; of no numbers where
        they are many.
    measured
        Whether these are numbers as they were measured, which are independent of those of any other release but the
        same ones: a sharper release has what follows from those of an earlier one.
    """

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        noise: NDArray[Any],
        scales: Sequence[Fraction],
        law: Noise,
        *,
        measured: bool,
    ) -> None:
        super().__init__(columns)
        self.noise, self.scales, self.law, self.measured = noise, tuple(scales), law, measured

    def with_columns(self, columns: Mapping[str, NDArray[Any]]) -> RedrawnColumns:
        """Return other columns that follow from the same noise."""
        return RedrawnColumns(columns, self.noise, self.scales, self.law, measured=self.measured)


def same_noise(columns: Mapping[str, NDArray[Any]], of: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Return columns as what follows from the noise of others, where that is known."""
    return of.with_columns(columns) if isinstance(of, RedrawnColumns) else columns


def followed(*several: Mapping[str, NDArray[Any]]) -> list[Redrawn]:
    """Return columns as what `intervals` works out from: noisy numbers that are of no row in particular.

    What several columns have in common, as releases that rest on the same measurement do, is one number.
    """
    import pandas as pd

    known = [one for one in several if isinstance(one, RedrawnColumns) and one.scales]
    if len(known) < len(several) or (len(several) > 1 and not all(one.measured for one in known)):
        return []
    numbers: dict[bytes, tuple[NDArray[Any], Fraction]] = {}
    for one in known:
        for drawn, scale in zip(one.noise.T, one.scales, strict=True):
            numbers.setdefault(np.ascontiguousarray(drawn).tobytes(), (drawn, scale))
    noise = np.column_stack([drawn for drawn, _ in numbers.values()])
    scales = tuple(scale for _, scale in numbers.values())
    return [Redrawn(pd.DataFrame(), {}, noise[:, None, :], (scales,), known[0].law)]


class Redraw(Protocol):
    """Gives what releases may have been, so many times: all of their aggregates, or those that are needed."""

    def __call__(self, draws: int, needed: Collection[str] | None = None) -> list[Redrawn]:
        """Return one for each release; `values` of what is not needed may be left out."""
        ...


@dataclass(frozen=True)
class Drawn:
    """A column that is worked out from redraws.

    Parameters
    ----------
    values
        As it was worked out from what was released, shape (rows,).
    redrawn
        As it is worked out from redraws, shape (draws, rows): infinite where it does not exist, such as 1 / 0, and
        NaN where the row is not in the answer.
    divisors
        What it is divided by there, each of shape (draws, rows).
    """

    values: Floats
    redrawn: Floats
    divisors: Sequence[Floats] = ()


@dataclass(frozen=True)
class Ends:
    """Standard errors and intervals of a column, each of shape (rows,)."""

    std_error: Floats
    lower: Floats
    upper: Floats

    def without(self, rows: NDArray[np.bool_]) -> Ends:
        """Return the same but for some rows, which have none."""
        return Ends(*(np.where(rows, np.nan, part) for part in (self.std_error, self.lower, self.upper)))

    def notes(self, name: str) -> Iterator[str]:
        """Yield what is to be said of them."""
        anything, moved = np.isinf(self.lower) & np.isinf(self.upper), np.isnan(self.std_error)
        if (anything & ~moved).any():
            yield f"{name}: as far as noise lets one tell, it may be divided by 0 or not exist, so it may be anything"
        if (anything & moved).any():
            yield f"{name}: noise moves it to one side, as it does the largest of many, so it may be anything"


def as_often_as_can_be(redraw: Callable[[int], T], draws: int) -> T | None:
    """Return what is redrawn so often, or else as rarely as serves; None where even that is too much."""
    for fewer in dict.fromkeys((draws, min(draws, FEWEST))) if draws else ():
        try:
            return redraw(fewer)
        except WorkloadError:
            continue
    return None


def draws_for(confidence: float, rows: int, quantiles: int) -> int:
    """Return how many redraws tell the ends of intervals, an even number: of so many rows, and quantiles among them.

    None of more rows, or quantiles to be read off their bins, than can be worked out while somebody waits.
    """
    if rows * FEWEST > MOST_WORKED or quantiles * FEWEST_QUANTILES > MOST_QUANTILES:
        return 0
    rows += SLOW * quantiles
    wanted = min(max(WORKED // max(rows, 1), FEWEST_QUANTILES if quantiles else FEWEST), MOST)
    rare = min(math.ceil(2 * IN_TAIL / (1 - confidence)), (WORKED if quantiles else MOST_WORKED) // max(rows, 1))
    return 2 * ((max(wanted, rare) + 1) // 2)


def intervals(column: Drawn, redrawn: Sequence[Redrawn], row: Integers | None, confidence: float) -> Ends:
    """Return standard errors and intervals of a column.

    Parameters
    ----------
    column
        What is worked out.
    redrawn
        The releases that it is worked out from.
    row
        Of each row, the row of the first release that it is worked out from, shape (rows,); None where of several.
    confidence
        Probability that an interval holds the exact answer.
    """
    values, draws = column.values, column.redrawn.shape[0]
    law: Noise = redrawn[0].law if redrawn else "laplace"
    missed = np.isnan(values) | (np.isnan(column.redrawn).mean(axis=0) > MISSED)
    by_nothing = np.isinf(values)
    values = np.where(missed | by_nothing, 0.0, values)
    told = np.isfinite(column.redrawn) & ~missed
    drawn = np.where(told, column.redrawn, values)
    tail = max((1 - confidence) / 2, (IN_TAIL - 1) / draws)
    # Outwards: an end between two numbers of a grid, as counts with Laplace noise are on, would hold too rarely. What
    # does not exist for a draw may lie anywhere.
    nowhere = np.where(np.isinf(column.redrawn) & ~missed, np.inf, 0.0)
    ordered = np.sort(np.ascontiguousarray(drawn.T))
    if nowhere.any():
        lower = np.quantile(drawn - nowhere, tail, axis=0, method="lower")
        upper = np.quantile(drawn + nowhere, 1 - tail, axis=0, method="higher")
    else:
        lower, upper = (
            quantile_of_ordered(ordered, tail, "lower"),
            quantile_of_ordered(ordered, 1 - tail, "higher"),
        )
    first, last = ends_of_parts(ordered, tail)
    lower, upper = np.fmin(lower, first), np.fmax(upper, last)
    anything = ~np.isfinite(lower) | _divided_by_nothing(column.divisors, values, confidence, law) | by_nothing
    lower, upper = np.where(anything, values, lower), np.where(anything, values, upper)
    low, high = (quantile_of_ordered(ordered, share, "linear") for share in (FAR, 1 - FAR))
    std_error = np.clip(drawn, low, high).std(axis=0)
    # Ends that are too rare to be drawn lie as much farther out as those of the noise do.
    farther = max(kappa(confidence, law) / kappa(1 - 2 * tail, law), 1.0)
    lower, upper = values - farther * (values - lower), values + farther * (upper - values)
    linear = np.zeros(values.size, dtype=bool)
    for rows, weights, scales in _linear(values, drawn, row, redrawn):
        linear[rows] = True
        std_error[rows] = np.sqrt(weights**2 @ np.array([law_of(law).variance(scale) for scale in scales]))
        widths = half_widths(weights, scales, law, confidence)
        lower[rows], upper[rows] = values[rows] - widths, values[rows] + widths
    if row is not None and not linear.all():
        for rows, weight, name in _multiples(values, drawn, row, redrawn[0]):
            rows, weight = rows[~linear[rows]], weight[~linear[rows]]
            ends = [redrawn[0].frame[column_name(name, part)].to_numpy(dtype=float)[row[rows]] for part in PARTS[:3]]
            away = weight * (np.stack(ends[1:]) - redrawn[0].frame[name].to_numpy(dtype=float)[row[rows]])
            std_error[rows] = np.abs(weight) * ends[0]
            lower[rows], upper[rows] = values[rows] + away.min(axis=0), values[rows] + away.max(axis=0)
    # Noise that moves redraws past what they were drawn around has moved that too, and nothing tells how far.
    slack = AROUND * np.abs(values)
    beside = [(side * (drawn - values) > slack).mean(axis=0) for side in (1.0, -1.0)]
    moved = ~anything & ~linear & (np.maximum(*beside) > confidence)
    lower = np.where(anything | moved | (lower < -NO_END), -np.inf, lower)
    upper = np.where(anything | moved | (upper > NO_END), np.inf, upper)
    std_error = np.where(moved, np.nan, np.where(anything | (std_error > NO_END), np.inf, std_error))
    return Ends(*(_rounded(np.where(missed, np.nan, part), std_error) for part in (std_error, lower, upper)))


def _divided_by_nothing(divisors: Sequence[Floats], values: Floats, confidence: float, law: Noise) -> NDArray[np.bool_]:
    """Return of which answers it cannot be told, at a confidence, that they are not divided by 0, shape (rows,)."""
    found = np.zeros(values.size, dtype=bool)
    for divisor in divisors:
        known = np.maximum(np.isfinite(divisor).sum(axis=0), 1)
        divisor = np.where(np.isfinite(divisor), divisor, 0.0)
        beyond = np.minimum((divisor >= 0).sum(axis=0), (divisor <= 0).sum(axis=0)) / known
        # Rarer than is redrawn: as far as the law of noise reaches.
        near = np.abs(divisor.mean(axis=0)) < kappa(confidence, law) * divisor.std(axis=0)
        found |= (beyond > (1 - confidence) / 2) | (near & (beyond > 0))
    return found


def _rounded(numbers: Floats, std_error: Floats) -> Floats:
    """Return numbers without the digits that noise drowns: they differ between computers."""
    known = np.isfinite(std_error) & (std_error > 0) & np.isfinite(numbers)
    factor = 10.0 ** (MEANT - np.floor(np.log10(np.where(known, std_error, 1.0))))
    return np.where(known, np.rint(np.where(known, numbers, 0.0) * factor) / factor, numbers)


def _linear(
    values: Floats, drawn: Floats, row: Integers | None, redrawn: Sequence[Redrawn]
) -> Iterator[tuple[NDArray[np.intp], Floats, tuple[Fraction, ...]]]:
    """Yield rows that are linear in the noise, what each noisy number counts for in them, and the scales of these."""
    if not redrawn:
        return
    draws, away = drawn.shape[0], drawn - values
    if row is not None and len(redrawn[0].scales) == 1:
        groups = [(np.arange(len(values)), redrawn[0].noise[:, 0].astype(float), redrawn[0].scales[0])]
    elif row is not None:
        noise = redrawn[0].noise[:, row].astype(float)
        known = redrawn[0].scales
        groups = [(np.array([i]), noise[:, i], known[of] if known else ()) for i, of in enumerate(row)]
    else:
        noise = np.concatenate([one.noise.reshape(draws, -1) for one in redrawn], axis=1).astype(float)
        every = tuple(scale for one in redrawn for scales in one.scales for scale in scales)
        groups = [(np.arange(len(values)), noise, every)]
    for rows, basis, scales in groups:
        if not scales or len(scales) * PER_NUMBER > draws:
            return
        spread = np.array([max(float(scale), 1e-300) for scale in scales])
        # What is shown may be rounded, which moves all redraws alike.
        weights = np.linalg.lstsq(np.column_stack([basis / spread, np.ones(draws)]), away[:, rows], rcond=None)[0]
        rest = away[:, rows] - (basis / spread) @ weights[:-1] - weights[-1]
        good = np.sqrt((rest**2).mean(axis=0)) <= LINEAR * np.sqrt((away[:, rows] ** 2).mean(axis=0))
        if good.any():
            yield rows[good], (weights[:-1] / spread[:, None]).T[good], scales


def _multiples(
    values: Floats, drawn: Floats, row: Integers, redrawn: Redrawn
) -> Iterator[tuple[NDArray[np.intp], Floats, str]]:
    """Yield rows that are a multiple of one measure, but for a constant: which multiple of which."""
    away = drawn - values
    spread = np.sqrt((away**2).mean(axis=0))
    for name, one in redrawn.values.items():
        if one.ndim != 2 or column_name(name, "lower") not in redrawn.frame:
            continue
        basis = one[:, row] - one[:, row].mean(axis=0)
        power = (basis**2).sum(axis=0)
        weight = (basis * away).sum(axis=0) / np.where(power > 0, power, 1.0)
        rest = away - away.mean(axis=0) - weight * basis
        rows = np.flatnonzero((np.sqrt((rest**2).mean(axis=0)) <= LINEAR * spread) & (power > 0))
        if rows.size:
            yield rows, weight[rows], name
