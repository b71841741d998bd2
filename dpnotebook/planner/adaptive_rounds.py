"""Measuring where it matters: which marginals a table needs beside those that smaller ones tell, round by round.

Many attributes have little to do with each other, and what they have to do with each other is mostly told by pairs. A
workload of marginals is answered order by order: the columns one by one are measured; of every pair it is found out,
with noise, how far it is from what the columns say; those that are farther off than their noise would be are measured;
then triples of such pairs are held against what pairs say, and so on. Choose, measure, fit: the idea of AIM (McKenna,
Mullins, Sheldon and Miklau, "AIM: an adaptive and iterative mechanism for differentially private synthetic data",
2022), here with all candidates of a round scored at once, and on the residuals of marginals. Where there is little to
choose, because cells are few or rows are many for the noise, all is measured at once, which is what helps there.

Everything in this file is public: it sees the noisy numbers only, and decides from them what is measured next.

Why a score is private: it is the whole number |t - p|_1 of a marginal t of the table and a public table p of whole
numbers. A row that comes or goes changes one cell of t by 1, and so the score by at most 1 (triangle inequality): as
much as it changes the number of all rows. A unit with k rows changes it by at most k. So all m scores of a round cost
with some noise what m counts of all rows cost with it, in every notion of privacy that adds up norms of differences,
and that is how they are measured and paid for. A choice is a function of noisy scores, so it costs nothing more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.consistent import nearest_marginals
from dpnotebook.inference.interactions import without_interaction
from dpnotebook.inference.marginal_algebra import MarginalAlgebra, as_marginals
from dpnotebook.inference.nonnegative import Counts, best_total, nonnegative
from dpnotebook.inference.simplex import DENSE_CELLS
from dpnotebook.privacy.laws import Law
from dpnotebook.strategy.marginals import opt_marginals
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.workload import Centred, Identity, Marginals, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.terms import SparseTerm, sparse_terms

MOST_CELLS = 10**7  # of all marginals together: 80 MB of predictions
SPREAD = 0.75  # a count may be wrong by what its size to this power says: between errors in proportion and even ones
DOUBTED = 1.25  # times the squared error that scores say of what is left out: they know of sums, not of single cells
SHRUNK = 0.3  # of its noise, what a count near 0 is off by once no count is below 0
WEIGHT_BITS = 10  # of the largest weight of what is measured at once
NORM_BITS = 55  # of the squared norm of the largest product of queries: norms are whole numbers of 64 bits
MOST_WHOLE_CELLS = 2**16  # of a whole table that pure noise may be added to, instead of to its marginals
MOST_COMPARED = 8  # columns whose marginals are weighed against each other for pure noise
FEW_CELLS = 100  # of a whole table that is measured at once, without asking how much there is to choose
FEW_PURE_COLUMNS = 8  # that are all measured at once where costs add up: scores take more of these than they save
DEPENDENT = 0.02  # of all rows, that a table is taken to be wrong by while nothing but its columns is known
REDRAWS = 20  # of what was measured, for intervals
HALVINGS = 100  # of the interval that a scale is in: it ends within floating point
SEED = 16  # the noise for intervals is not secret, and is the same whenever the same was recorded

Noisy = NDArray[np.float64]


@dataclass(frozen=True)
class RoundShares:
    """What part of the price each round takes, the rest being for the last measurement.

    Parameters
    ----------
    columns
        For the columns one by one.
    scores
        For the scores of each round.
    between
        For the measurement of each round but the last.
    """

    columns: Fraction
    scores: Fraction
    between: Fraction

    @classmethod
    def of(cls, law: Law) -> RoundShares:
        """Return the shares for a law: costs that add up as squares leave more to the last for the same errors."""
        if law.power == 2:
            return cls(Fraction(1, 20), Fraction(1, 50), Fraction(3, 25))
        return cls(Fraction(1, 20), Fraction(1, 16), Fraction(1, 8))


@dataclass(eq=False)
class MeasuredMarginals:
    """What was measured so far of subsets of the attributes, and the counts that fit it best.

    Parameters
    ----------
    sizes
        Cells of each attribute.
    residual
        Whether the residuals of marginals are measured, as is best for Gaussian noise, or marginals themselves.
    """

    sizes: tuple[int, ...]
    residual: bool
    precisions: dict[Subset, float] = field(default_factory=dict)
    values: dict[Subset, Array] = field(default_factory=dict)

    @property
    def factors(self) -> tuple[Workload, ...]:
        """What is measured of each attribute."""
        return tuple(Centred(n) if self.residual and n > 1 else Identity(n) for n in self.sizes)

    def add(self, operator: Marginals, noisy: Noisy, variance: float) -> None:
        """Add noisy answers, shape (queries,), each of this variance."""
        first = 0
        for subset, weight in operator.weights:
            count = math.prod(operator.factors[i].shape[0] for i in subset)
            told, precision = noisy[first : first + count] / float(weight), float(weight) ** 2 / variance
            before = self.precisions.get(subset, 0.0)
            known = self.values.get(subset, np.zeros(count))
            self.values[subset] = (before * known + precision * told) / (before + precision)
            self.precisions[subset] = before + precision
            first += count

    def operator(self) -> tuple[Marginals, float]:
        """Return all that was measured as one operator, and the variance of each of its answers."""
        most = max(self.precisions.values())
        weights = {subset: math.sqrt(precision / most) for subset, precision in self.precisions.items()}
        return Marginals(self.factors, weights), 1 / most

    def noisy(self) -> Noisy:
        """Return the answers to `operator`."""
        operator, _ = self.operator()
        return np.concatenate([float(weight) * self.values[subset] for subset, weight in operator.weights])

    def fit(self, whole: bool = False) -> Counts:
        """Return the counts of at least 0 that agree with each other and fit what was measured best.

        Parameters
        ----------
        whole
            Whether they are to follow from cells of the whole table, where these are few: that says more of what was
            measured, and too much of what was not.
        """
        operator, variance = self.operator()
        noisy = self.noisy()
        if whole and operator.shape[1] <= DENSE_CELLS:
            return nonnegative(operator, noisy, noise_std=math.sqrt(variance))
        total = best_total(operator, noisy)
        return Counts(self.sizes, total, nearest_marginals(operator, noisy, total, noise_std=math.sqrt(variance)))

    def redrawn(self, counts: Counts, random: np.random.Generator) -> MeasuredMarginals:
        """Return what might have been measured if these were the counts."""
        found = MeasuredMarginals(self.sizes, self.residual, self.precisions)
        for subset, precision in self.precisions.items():
            exact = counts.marginal(subset).reshape(1, *(self.sizes[i] for i in subset))
            for k, i in enumerate(subset):
                rows = np.moveaxis(exact, k + 1, 1)
                told = self.factors[i].apply(rows.reshape(1, self.sizes[i], -1))
                exact = np.moveaxis(told.reshape(rows.shape), 1, k + 1)
            noise = random.normal(0.0, 1 / math.sqrt(precision), exact.size)
            found.values[subset] = exact.ravel() + noise
        return found


def predicted(counts: Counts, subset: Subset) -> Array:
    """Return what smaller marginals, or larger ones, say of the counts over a subset; one axis an attribute."""
    told = {tuple(i for i in known if i in subset) for known in counts.tables} - {()}
    largest = sorted(one for one in told if not any(set(one) < set(other) for other in told))
    if largest == [subset]:
        return counts.marginal(subset)
    return without_interaction(subset, counts.sizes, {one: counts.marginal(one) for one in largest})


def asked_subsets(workload: Workload, sizes: Sequence[int]) -> tuple[SparseTerm, ...]:
    """Return the marginals of a workload.

    Raises
    ------
    WorkloadError
        If it is of something else, or each of them is of a single attribute.
    """
    found = sparse_terms(workload)
    if (
        found is None
        or found[0] != tuple(sizes)
        or not all(isinstance(f, Identity) for t in found[1] for f in t.factors)
    ):
        raise WorkloadError(
            f"adaptive=True is for marginals, such as dpn.marginals(3), and {shorten(workload)} asks for something "
            "else; leave adaptive= out"
        )
    terms = tuple(found[1])
    if all(len(together(term.axes, sizes)) < 2 for term in terms):
        raise WorkloadError(
            "each of these marginals is of a single column, so there is nothing to choose: leave adaptive= out"
        )
    return terms


def together(axes: Subset, sizes: Sequence[int]) -> Subset:
    """Return the attributes of a subset that have more than one level."""
    return tuple(i for i in axes if sizes[i] > 1)


@dataclass(frozen=True, eq=False)
class AdaptiveAnswers:
    """Answers of an adaptive mechanism, and what their intervals are made of; each of shape (answers,).

    Parameters
    ----------
    values
        The answers, none of them below 0.
    std_errors
        How far redrawn noise moves them: what interactions that were not measured would add is not in it.
    middle, spread
        Of their intervals: of marginals that were measured the unbiased answers and their standard errors, so that
        these intervals hold the exact answers as often as they say; of others the answers, and NaN, for they have no
        intervals: how far smaller marginals are from them nobody measured.
    """

    values: Array
    std_errors: Array
    middle: Array
    spread: Array


@dataclass(eq=False)
class Rounds:
    """Where an adaptive answer is: what was measured and chosen so far, and what comes next.

    Parameters
    ----------
    workload
        Marginals.
    sizes
        Cells of each attribute.
    law
        Of the noise.
    noise_of
        Gives the standard deviation of the counts of so many marginals that are measured at once for so many units.
    per_norm
        Gives the precision of a single query of norm one for so many units.
    """

    workload: Workload
    sizes: tuple[int, ...]
    law: Law
    noise_of: Callable[[int, int], float]
    per_norm: Callable[[int], float]

    def __post_init__(self) -> None:
        self.terms = asked_subsets(self.workload, self.sizes)
        self.wanted = sorted({together(term.axes, self.sizes) for term in self.terms})
        cells = sum(math.prod(self.sizes[i] for i in subset) for subset in self.wanted)
        if cells > MOST_CELLS:
            raise WorkloadError(
                f"these marginals have {cells:,} cells together; at most {MOST_CELLS:,} can be chosen from. Ask for "
                "fewer attributes together, or restrict them with where="
            )
        self.measured = MeasuredMarginals(self.sizes, self.law.power == 2)
        self.chosen: list[Subset] = self.columns
        self._counts: Counts | None = None

    @property
    def columns(self) -> list[Subset]:
        """Every attribute that is asked about, by itself."""
        return sorted({(i,) for subset in self.wanted for i in subset})

    @property
    def at_once(self) -> bool:
        """Whether cells or columns are so few that finding out what to measure costs more than measuring all."""
        few_columns = self.law.power == 1 and len(self.columns) <= FEW_PURE_COLUMNS
        return few_columns or math.prod(self.sizes[i] for (i,) in self.columns) <= FEW_CELLS

    def first(self, share: int, units: int) -> Marginals:
        """Return what is measured first, whatever is in the table: all if that is best, else columns for a share."""
        return self.everything(units) if self.at_once else self.operator(self.columns, share)

    @property
    def order(self) -> int:
        """The most attributes that are asked about together."""
        return max(map(len, self.wanted))

    @property
    def counts(self) -> Counts:
        """The counts that fit what was measured so far."""
        if self._counts is None:
            self._counts = self.measured.fit(self.at_once)
        return self._counts

    def add(self, operator: Marginals, noisy: Noisy, variance: float) -> None:
        """Add what was measured."""
        self.measured.add(operator, noisy, variance)
        self._counts = None

    def candidates(self, order: int) -> list[Subset]:
        """Return the subsets of so many attributes that may be chosen: all whose parts were."""
        return self.further(self.chosen, order)

    def further(self, chosen: Sequence[Subset], order: int) -> list[Subset]:
        """Return the subsets of so many attributes that may be chosen once these were."""
        every = {part for subset in self.wanted for part in itertools.combinations(subset, order)}
        known = set(chosen)
        return sorted(one for one in every if known.issuperset(itertools.combinations(one, order - 1)))

    def predictions(self, candidates: Sequence[Subset]) -> list[NDArray[np.int64]]:
        """Return what is known says of candidates, in whole numbers, flat."""
        return [np.rint(predicted(self.counts, one)).astype(np.int64).ravel() for one in candidates]

    def choose(self, candidates: Sequence[Subset], scores: Noisy, std: float, units: int) -> list[Subset]:
        """Return which candidates are worth measuring, from noisy scores, when so many units are left.

        Those that are left out stay as wrong as their scores say; each that is taken makes the noise of all a little
        larger. As many are taken, the worst first, as make the squared error of all together least.
        """
        tables = [np.maximum(predicted(self.counts, one), 0.0).ravel() for one in candidates]
        left_out = np.array([_squared_miss(score, std, table) for score, table in zip(scores, tables, strict=True)])
        half = self.noise_of(max(len(candidates) // 2, 1), units)
        gains = left_out - [_squared_noise(half, table) for table in tables]
        order = np.argsort(-gains, kind="stable")
        best, taken = math.inf, 0
        for count in range(len(candidates) + 1):
            chosen = [candidates[i] for i in order[:count]]
            noise = self.noise_of(len(self._to_measure(chosen)), units)
            total = sum(_squared_noise(noise, tables[i]) for i in order[:count]) + left_out[order[count:]].sum()
            if total < best:
                best, taken = total, count
        return sorted(candidates[i] for i in order[:taken])

    def _to_measure(self, chosen: Sequence[Subset]) -> list[Subset]:
        """Return chosen subsets, and those that were before and are in none of them."""
        inside = {part for one in chosen for part in itertools.combinations(one, len(one) - 1)}
        return [*(one for one in self.chosen if one not in inside), *chosen]

    def everything(self, units: int) -> Marginals:
        """Return how to measure all that is asked about at once, beside what is known of it."""
        subsets = [subset for subset in self.wanted if subset]
        if self.measured.residual:
            return self.operator(subsets, units)
        ways = [Marginals(self.measured.factors, dict.fromkeys(subsets, 1))]
        asked = tuple(sorted({i for subset in subsets for i in subset}))
        if math.prod(self.sizes[i] for i in asked) <= MOST_WHOLE_CELLS:
            ways.append(Marginals(self.measured.factors, {asked: 1}))
        if len(asked) <= MOST_COMPARED:
            best = as_marginals(opt_marginals(ways[0], self.law.name).operator)
            if best is not None and all(isinstance(factor, Identity) for factor in best.factors):
                ways.append(best)
        return min(ways, key=lambda way: self._squared_errors(way, units).sum())

    def takes_everything(self, units: int) -> bool:
        """Return whether to measure all at once: where what is known says that its noise is less than what tables add.

        Of tables that nothing but single columns are known of, nobody knows yet how much they add. As far as the noise
        of all of them is below what `DEPENDENT` of all rows would make of them, choosing can only cost.
        """
        noise = np.sqrt(self._squared_errors(self.everything(units), units))
        noisy = _squared_noise(noise, np.maximum(self._told(self.counts), 0.0))
        score = DEPENDENT * self.counts.total
        added = sum(
            _squared_miss(score, 0.0, np.maximum(predicted(self.counts, one), 0.0).ravel())
            for one in (together(term.axes, self.sizes) for term in self.terms)
            if len(one) > 1
        )
        return noisy < added

    def _squared_errors(self, operator: Marginals, units: int) -> Array:
        """Return the variances of unbiased answers once this is measured for so many units, shape (answers,)."""
        variance = float(operator.max_column_norm(self.law.power)) ** (2 / self.law.power) / self.per_norm(units)
        known = self.measured
        after = MeasuredMarginals(known.sizes, known.residual, dict(known.precisions), dict(known.values))
        after.add(operator, np.zeros(operator.shape[0]), variance)
        everything, variance = after.operator()
        return MarginalAlgebra(everything, self.terms).variances() * variance

    def take(self, chosen: Sequence[Subset], units: int) -> Marginals:
        """Return what to measure of the chosen subsets, and of what is in none of them, for so many units."""
        subsets = self._to_measure(chosen)
        if chosen:
            self.chosen = list(chosen)
        return self.operator(subsets, units)

    def operator(self, subsets: Sequence[Subset], units: int) -> Marginals:
        """Return what to measure of some marginals at once, beside what is known of them."""
        weights = dict.fromkeys(subsets, 1)
        if not self.measured.residual:
            return Marginals(self.measured.factors, weights)
        plain = Marginals([Identity(n) for n in self.sizes], weights)
        residuals = opt_residual(plain).operator
        assert isinstance(residuals, Marginals)
        share = {subset: float(weight) ** 2 for subset, weight in residuals.weights}
        norms = {subset: math.prod(self.sizes[i] * (self.sizes[i] - 1) for i in subset) for subset in share}
        missing = _missing(share, norms, self.measured.precisions, self.per_norm(units))
        most = max(missing.values())
        room = (NORM_BITS - math.log2(max(norms.values()))) / 2
        finest = 2.0 ** min(WEIGHT_BITS, max(room, 0.0))
        whole = {subset: round(finest * math.sqrt(part / most)) for subset, part in missing.items()}
        return Marginals(self.measured.factors, {subset: weight for subset, weight in whole.items() if weight})

    def answers(self) -> AdaptiveAnswers:
        """Return the answers of the workload from all that was measured."""
        random = np.random.default_rng(SEED)
        values = self._told(self.counts)
        squares = np.zeros(values.size)
        for _ in range(REDRAWS):
            squares += (self._told(self.measured.redrawn(self.counts, random).fit(self.at_once)) - values) ** 2
        std_errors = np.sqrt(squares / (REDRAWS - 1))
        operator, variance = self.measured.operator()
        algebra = MarginalAlgebra(operator, self.terms)
        spread = np.sqrt(algebra.variances() * variance)
        known = np.isfinite(spread)
        middle = np.where(known, algebra.answers(self.measured.noisy()), values)
        return AdaptiveAnswers(values, std_errors, middle, np.where(known, spread, np.nan))

    def _told(self, counts: Counts) -> Array:
        found: dict[Subset, Array] = {}
        for subset in self.wanted:
            found[subset] = predicted(counts, subset) if subset else np.array(counts.total)
        return np.concatenate(
            [float(term.weight) * found[together(term.axes, self.sizes)].ravel() for term in self.terms]
        )


def _squared_miss(score: float, std: float, table: Array) -> float:
    """Return about how large the squared errors of a table are whose errors add up to a score with some noise."""
    shares = table**SPREAD
    total = float(shares.sum())
    squared = max(score, 0.0) ** 2 - std**2  # noise adds its variance to the square
    if squared <= 0:
        return 0.0
    concentrated = float((shares**2).sum()) / total**2 if total > 0 else 1 / table.size
    return DOUBTED * squared * concentrated


def _squared_noise(std: float | Array, table: Array) -> float:
    """Return about how large the squared errors of a table are that is measured, once no count is below 0."""
    return float((np.minimum(std, SHRUNK * std + table) ** 2).sum())


def _missing(
    share: Mapping[Subset, float], norms: Mapping[Subset, int], known: Mapping[Subset, float], budget: float
) -> dict[Subset, float]:
    """Return what precision to add to each residual, so that all together are in proportion and cost the budget."""

    def missing(scale: float) -> dict[Subset, float]:
        return {subset: max(0.0, scale * part - known.get(subset, 0.0)) for subset, part in share.items()}

    def cost(scale: float) -> float:
        return sum(part * norms[subset] for subset, part in missing(scale).items())

    low, high = 0.0, 1.0
    while cost(high) < budget:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) < budget else (low, middle)
    return missing(high)
