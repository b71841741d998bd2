"""Buying a strategy for the ranges that are likely to be asked of one ordered attribute.

The strategy is a p-Identity (HDMM, Definition 13) over merged cells, with three differences. It adds to what history
knows; a cell may cost more the less it has spent so far, since only the rise of the dearest cell is paid; and not the
mean variance of the ranges is bounded but nearly the largest. A range that ends inside of a merged cell needs a part
of it: the parts of a cell are measured one by one, which among few parts is as good as anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.planner.range_forecast import Forecast
from dpnotebook.planner.run_state import RunState
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.strategy.laplace import LARGEST, default_rows, starting_points
from dpnotebook.workload import Coarse, PIdentity

ROUNDS = 3  # of optimising, each with more weight on the ranges that are still too uncertain
STEPS = 40  # of each descent
TOLERANCE = 1e-5  # relative decrease of the loss in one of them, at which a descent ends
EASED, STRESSED = 0.05, 3.0  # factors by which the weight of a range falls and rises at most in one round
KNOWN = 1e-9  # least variance with which history is taken to know a part of a cell: its inverse stays finite
SHARE = 0.97  # of the ranges that are bounded
FEWER = (0.9, 0.8)  # the same where levels may not pay for a strategy that bounds so many
SLIVER = 0.05  # of the variance of a range, left for what is cut off a part that is not told apart
PRIOR = 1e6  # variance of what is unknown, relative to the one that is aimed at
LEAST, MOST = 0.02, 100.0  # rise, in prices of one range
HALVINGS = 9  # of the logarithm of the rise: to 2%
BELOW = 0.999  # of what may be spent on a cell, for what rounding adds
NEARLY = 0.99  # of a rise, above which another one is no better
BITS = 14  # of the integers of a strategy
GRADED = 1e-9  # weight of the single cells: so that a workload of full rank is optimised
PART_SHARES = (0.05, 0.08, 0.12, 0.18, 0.25)  # of the variance of a range, that part of a cell at one end may have

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RangePurchase:
    """A strategy to measure.

    Parameters
    ----------
    operator
        Integer queries over the levels of the attribute.
    units
        What it costs in its dearest cell, in units: its noise scale is the accountant's for these units and the
        operator's largest column norm.
    rise
        By how much the spend of the dearest cell rises, in units.
    price
        What it costs in the mean over the cells it tells apart, in units: what cells had to spare is worth something.
    edges
        The cut points between merged cells.
    variances
        Of the run between any two of them, by least squares over history and the strategy; (cells + 1, cells + 1).
    variance
        What was aimed at.
    missed
        Share of the likely ranges that are not as accurate.
    """

    operator: Coarse
    units: int
    rise: int
    price: int
    edges: NDArray[np.int64]
    variances: Floats
    variance: float
    missed: float


@dataclass(frozen=True)
class Lacking:
    """That levels may not pay for any strategy yet.

    Parameters
    ----------
    units
        About how much more each would have to be allowed.
    """

    units: int


def range_strategy(
    forecast: Forecast,
    line: RunState,
    spend: ArrayLike,
    maximum: int,
    levels: int,
    noise: Noise,
    per_unit: int = 1,
    most: ArrayLike | None = None,
) -> RangePurchase | Lacking | None:
    """Return a strategy that makes nearly all ranges of a forecast as accurate as it says, at a low price.

    Parameters
    ----------
    forecast
        What is likely to be asked.
    line
        What history knows along the parts of the forecast.
    spend
        Of each part's dearest level, in units, shape (parts,).
    maximum
        The spend of the dearest cell of the table, in units.
    levels
        Number of levels of the attribute.
    noise, per_unit
        The accountant's law of noise, and its factor for units with many rows.
    most
        What may be spent on each part, in units, shape (parts,); None for anything.

    Returns
    -------
    None where history knows enough already.
    """
    price = price_of(forecast.variance, noise, per_unit)
    search = _Search(forecast, line, noise, None if most is None else np.asarray(most) / price)
    spent = np.asarray(spend, dtype=np.int64)
    room = (maximum - np.maximum.reduceat(spent, search.first)) / price
    if search.enough():
        return None
    best = found = search.best(room)
    for _ in range(ROUNDS):
        search.improve(search.columns(room, found.rise, found.share)[0])
        found = search.best(room)
        if (-found.covered, found.rise) < (-best.covered, best.rise):
            best = found
        search.stress(room, found.rise, found.share)
    if most is not None and best.rise >= MOST:
        return Lacking(int(price * search.lacking(room)))
    rise, share, search.theta = best.rise, best.share, best.theta
    columns, parts = search.columns(room, rise, share)
    matrix = search.matrix(columns)
    operator, column = search.rounded(matrix, parts)
    norms = operator.column_norms(search.power)
    units = int(np.ceil(price * column))
    costs = np.ceil(units * (norms / norms.max())).astype(np.int64)
    variances = search.variances(matrix)
    return RangePurchase(
        Coarse(operator, forecast.parts, levels),
        units,
        max(0, int((spent + costs).max()) - maximum),
        int(costs.mean()),
        forecast.edges,
        variances * forecast.variance,
        forecast.variance,
        float(forecast.weights[variances > 1].sum()),
    )


def price_of(variance: float, noise: Noise, per_unit: int = 1) -> float:
    """Return what a range costs that is measured by itself with this variance, in units."""
    return float(UNITS * per_unit * law_of(noise).cost(1 / variance))


@dataclass(frozen=True, eq=False)
class _Least:
    """The least rise of the dearest cell at which a strategy bounds a share of the ranges, and the share of parts."""

    covered: float
    rise: float
    share: float
    theta: Floats


class _Search:
    """A p-Identity over the merged cells of a forecast, and the weight of the parts of each cell.

    Variances are relative to the one aimed at and costs to the price of one range, so that a query measured at a cost
    of 1 has noise of variance 1, whatever the law.
    """

    def __init__(self, forecast: Forecast, line: RunState, noise: Noise, most: Floats | None = None) -> None:
        corners = line.diffuse(PRIOR * forecast.variance) / forecast.variance
        at = np.searchsorted(forecast.parts, forecast.edges)
        steps = np.diff(np.diff(corners[np.ix_(at, at)], axis=0), axis=1)
        known = np.linalg.inv((steps + steps.T) / 2)
        self.known = (known + known.T) / 2
        self.first, self.parts = at[:-1], np.diff(at)
        self.of_parts = _of_parts(corners, at)
        self.most = None if most is None else BELOW * np.minimum.reduceat(most, self.first)
        self.slivers = SLIVER * np.minimum(1.0, np.diff(forecast.edges) / self.parts - 1)
        self.likely, self.weights = forecast.weights, forecast.weights
        self.power = law_of(noise).power
        self.cells = forecast.cells
        self.theta = next(starting_points(self.cells, default_rows(self.cells)))
        self.covered = SHARE

    def enough(self) -> bool:
        """Return whether history alone knows nearly all of the likely ranges well enough."""
        return self._reached(self.variances(None), np.zeros(self.cells))

    def columns(self, room: Floats, rise: float, share: float) -> tuple[Floats, Floats]:
        """Return what may be spent on each merged cell, and on each of its parts alone, when the dearest cell rises.

        Parts are so precise that, with what is known of them, a part of the cell has at most this share of the variance
        of a range; but no more than half of what the cell may spend goes into them.
        """
        whole = np.maximum(room + rise if self.most is None else np.minimum(room + rise, self.most), LEAST)
        # Of s parts the first k are known with variance k (s - k) / s if their sum is: s / 6 in the mean.
        precision = np.where(self.parts > 1, self.parts / 6 * np.maximum(1 / share - 1 / self.of_parts, 0), 0.0)
        parts = np.minimum(precision ** (self.power / 2), whole / 2)
        return whole - parts, parts

    def matrix(self, columns: Floats) -> Floats:
        """Return the p-Identity whose columns have these norms, shape (cells + p, cells)."""
        diagonal = (columns / (1 + (self.theta**self.power).sum(axis=0))) ** (1 / self.power)
        return np.vstack([np.diag(diagonal), self.theta * diagonal])

    def variances(self, matrix: Floats | None) -> Floats:
        """Return the variance of the run between any two edges, from history and the p-Identity."""
        information = self.known if matrix is None else self.known + matrix.T @ matrix
        corners = np.zeros((self.cells + 1, self.cells + 1))
        corners[1:, 1:] = np.linalg.inv(information).cumsum(axis=0).cumsum(axis=1)
        diagonal = np.diagonal(corners)
        return np.asarray(diagonal[:, None] + diagonal - corners - corners.T)

    def _reached(self, variances: Floats, parts: Floats) -> bool:
        """Return whether nearly all of the likely ranges are accurate enough, each of which may end beside an edge.

        Parameters
        ----------
        variances
            Of the runs between edges.
        parts
            What is spent on the parts of each cell.
        """
        precision = parts ** (2 / self.power) * 6 / self.parts
        cut = np.where(self.parts > 1, 1 / (precision + 1 / self.of_parts), 0.0) + self.slivers
        beside = (np.append(cut, 0.0) + np.append(0.0, cut)) / 2
        return bool(self.likely[variances <= 1 - beside - beside[:, None]].sum() >= self.covered)

    def best(self, room: Floats) -> _Least:
        """Return what the strategy costs that bounds as many ranges as levels may pay for; `MOST` if they cannot."""
        for covered in (SHARE,) if self.most is None else (SHARE, *FEWER):
            self.covered = covered
            rise, share = self.least_rise(room)
            if rise < MOST:
                break
        return _Least(self.covered, rise, share, self.theta)

    def lacking(self, room: Floats) -> float:
        """Return how much more every cell would have to be allowed, in prices of one range."""
        allowed, low, high = self.most, LEAST, MOST
        for _ in range(HALVINGS):
            middle = (low * high) ** 0.5
            self.most = allowed + middle
            low, high = (low, middle) if self.least_rise(room)[0] < MOST else (middle, high)
        return high

    def least_rise(self, room: Floats) -> tuple[float, float]:
        """Return the rise of the dearest cell at which the strategy is accurate enough, and the share of the parts."""
        best = MOST, PART_SHARES[0]
        for share in PART_SHARES if (self.parts > 1).any() else PART_SHARES[-1:]:

            def reached(rise: float, share: float = share) -> bool:
                columns, parts = self.columns(room, rise, share)
                return self._reached(self.variances(self.matrix(columns)), parts)

            if not reached(best[0] * NEARLY):
                continue
            low, high = LEAST, best[0] * NEARLY
            for _ in range(HALVINGS):
                middle = (low * high) ** 0.5
                low, high = (low, middle) if reached(middle) else (middle, high)
            best = high, share
        return best

    def stress(self, room: Floats, rise: float, share: float) -> None:
        """Give more weight to ranges that are too uncertain, and less to others."""
        variances = self.variances(self.matrix(self.columns(room, rise, share)[0]))
        weights = self.weights * np.clip(variances, EASED, STRESSED)
        self.weights = weights / weights.sum()

    def improve(self, columns: Floats) -> None:
        """Descend to a better p-Identity with these column norms."""
        from scipy.optimize import minimize

        gram = _gram(self.weights)
        gram[np.diag_indices_from(gram)] += GRADED
        shape = self.theta.shape
        scale = 1 / self._loss(self.theta, columns, gram)[0]

        def evaluate(flat: Floats) -> tuple[float, Floats]:
            loss, gradient = self._loss(flat.reshape(shape), columns, gram)
            return loss * scale, (gradient * scale).ravel()

        self.theta = minimize(
            evaluate,
            self.theta.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, LARGEST)] * self.theta.size,
            options={"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": TOLERANCE},
        ).x.reshape(shape)

    def _loss(self, theta: Floats, columns: Floats, gram: Floats) -> tuple[float, Floats]:
        """Return tr(V (X + A'A)^-1) for the p-Identity A of theta, and its gradient.

        With Q the inverse times V times the inverse, the derivative by an entry of A is -2 A Q. A cell's diagonal d, by
        which its column of theta is multiplied, falls as theta rises, so that the column norm stays.
        """
        sums = 1 + (theta**self.power).sum(axis=0)
        diagonal = (columns / sums) ** (1 / self.power)
        information = theta.T @ theta
        information[np.diag_indices_from(information)] += 1
        information *= diagonal
        information *= diagonal[:, None]
        information += self.known
        inverse = np.linalg.inv(information)
        product = inverse @ gram
        inner = product @ inverse
        of_rows = (theta * diagonal) @ inner
        fall = diagonal / sums * (diagonal * np.diagonal(inner) + (of_rows * theta).sum(axis=0))
        gradient = (fall if self.power == 1 else theta * fall) - of_rows * diagonal
        return float(np.trace(product)), 2 * gradient

    def rounded(self, matrix: Floats, parts: Floats) -> tuple[PIdentity, float]:
        """Return the strategy over parts with integer entries, and its largest column norm before it was scaled."""
        power, many = self.power, np.repeat(self.parts > 1, self.parts)
        rows = np.repeat(matrix, self.parts, axis=1)
        single = np.zeros((self.cells, rows.shape[1]), dtype=bool)
        single[:, ~many] = True
        rows[: self.cells][single] = 0.0
        own = np.where(many, np.repeat(parts ** (1 / power), self.parts), np.repeat(np.diagonal(matrix), self.parts))
        largest = float((own**power + (rows**power).sum(axis=0)).max())
        scale = 2**BITS / largest ** (1 / power)
        extra = np.floor(rows * scale).astype(np.int64)
        operator = PIdentity(np.maximum(np.floor(own * scale).astype(np.int64), 1), extra[extra.any(axis=1)])
        return operator, float(operator.column_norms(power).max()) / scale**power


def _of_parts(corners: Floats, at: NDArray[np.intp]) -> Floats:
    """Return the variance with which history knows where in a cell a range ends, averaged over its parts, (cells,)."""
    found = np.ones(at.size - 1)
    for cell, (first, last) in enumerate(zip(at[:-1].tolist(), at[1:].tolist(), strict=True)):
        inside = np.arange(first + 1, last)
        if inside.size:
            from_first = corners[first, first] + corners[inside, inside] - 2 * corners[first, inside]
            to_last = corners[last, last] + corners[inside, inside] - 2 * corners[last, inside]
            found[cell] = max(float(np.minimum(from_first, to_last).mean()), KNOWN)
    return found


def _gram(weights: Floats) -> Floats:
    """Return the Gram matrix of ranges between edges, each counted by its weight; shape (cells, cells)."""
    n = len(weights) - 1
    i, j = np.indices((n, n))
    holding = np.cumsum(np.cumsum(weights, axis=0)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(holding[np.minimum(i, j), np.maximum(i, j) + 1])
