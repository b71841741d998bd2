"""A mixture of products that fits noisy answers: data that could have been, at any number of attributes.

Every row is of one of a few hidden kinds, and within a kind attributes have nothing to do with each other. Such a model
answers any product of queries in closed form, whatever the size of the whole domain, and its counts are never negative;
that makes it a usual model for synthetic data from noisy marginals (McKenna, Mullins, Sheldon and Miklau 2022, "AIM",
whose successor package mbi has it as an estimator; Liu et al. 2021, RAP, relaxes data in the same way).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.progress import Progress, silent
from dpnotebook.workload.base import Array

COMPONENTS = 64  # kinds of rows: more than noisy marginals can tell apart
ITERATIONS = 1_000  # of descent, at most: after 300 counts were still off twice as far as their noise
MOST_ANSWERS = 50_000  # of one observation: all kinds answer all of them at once
SPREAD = 1.0  # standard deviation of the logarithms that descent begins from
CLOSE = 1e-7  # relative decrease of the loss below which no more is expected


@dataclass(frozen=True, eq=False)
class ProductObservation:
    """Noisy answers to a product of queries.

    Parameters
    ----------
    factors
        By attribute, the queries along it, shape (queries, levels); attributes that are not there are summed over.
    noisy
        The noisy answers, in C order of the factors, shape (product of their queries,).
    std_error
        Of the noise of each.
    """

    factors: Mapping[int, Array]
    noisy: Array
    std_error: float


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of products over some attributes.

    Parameters
    ----------
    total
        Number of rows.
    shares
        Of each kind of rows, shape (kinds,).
    levels
        By attribute, how often rows of each kind have each level, shape (kinds, levels).
    """

    total: float
    shares: Array
    levels: tuple[Array, ...]

    def answers(self, factors: Mapping[int, Array]) -> Array:
        """Return the answers of a product of queries, as `ProductObservation` has them."""
        return self.total * _answers(self.shares, [self.levels[i] @ matrix.T for i, matrix in factors.items()])

    def sample(self, rows: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the levels of drawn rows, shape (rows, attributes).

        Within a kind every level comes as often as it should, but for less than one row (systematic sampling), and
        levels of two attributes meet nearly as often as they should, as rows are spread by a scrambled Sobol sequence
        (Owen 1997): drawn one by one, or paired by chance, rows would add as much chance again as there is noise in
        what was released, and several times as much to counts that were released more accurately.
        """
        from scipy.stats import qmc

        ends = np.cumsum(self.shares) / self.shares.sum()
        kinds = np.searchsorted(ends, (np.arange(rows) + generator.random()) / rows)
        counts = np.bincount(np.minimum(kinds, ends.size - 1), minlength=ends.size)
        found = np.empty((rows, len(self.levels)), dtype=np.int64)
        spread = qmc.Sobol(len(self.levels), seed=generator)
        spread.fast_forward(1)  # or it warns that rows are no power of two
        start = 0
        for kind in np.flatnonzero(counts):
            stop = start + counts[kind]
            order = np.argsort(spread.random(counts[kind]), axis=0)
            places = (np.arange(counts[kind])[:, None] + generator.random(order.shape)) / counts[kind]
            for attribute, table in enumerate(self.levels):
                within = np.cumsum(table[kind]) / table[kind].sum()
                levels = np.minimum(np.searchsorted(within, places[:, attribute]), within.size - 1)
                found[start + order[:, attribute], attribute] = levels
            start = stop
        return generator.permutation(found)


def fit_mixture(
    sizes: Sequence[int],
    observations: Sequence[ProductObservation],
    total: float,
    *,
    components: int = COMPONENTS,
    iterations: int = ITERATIONS,
    report: Progress = silent,
) -> Mixture:
    """Return the mixture of products that fits noisy answers best, each by its own variance.

    Parameters
    ----------
    sizes
        Number of levels of each attribute.
    observations
        What was released.
    total
        About how many rows there are; the fit may move it.
    components
        Kinds of rows.
    iterations
        Most steps of descent (L-BFGS).
    report
        Told how far it is.

    Returns
    -------
    The same for the same observations: descent begins from draws that these decide.

    Raises
    ------
    WorkloadError
        If there are no observations, or one has too many answers.

    Examples
    --------
    >>> import numpy as np
    >>> from dpnotebook.inference.mixture import ProductObservation, fit_mixture
    >>> table = np.array([60.0, 0.0, 0.0, 40.0])  # of two attributes that always agree
    >>> both = ProductObservation({0: np.eye(2), 1: np.eye(2)}, table, std_error=1.0)
    >>> found = fit_mixture([2, 2], [both], total=100.0, components=4)
    >>> bool(np.abs(found.answers(both.factors) - table).max() < 1)
    True
    """
    if not observations:
        raise WorkloadError("there is nothing to fit: no observation was given")
    for one in observations:
        if one.noisy.size > MOST_ANSWERS:
            raise WorkloadError(f"an observation of {one.noisy.size:,} answers is too large; at most {MOST_ANSWERS:,}")
    from scipy.optimize import minimize

    seed = hashlib.sha256(b"/".join(np.ascontiguousarray(one.noisy).tobytes() for one in observations)).digest()
    generator = np.random.default_rng(int.from_bytes(seed, "big"))
    fit = _Fit(sizes, observations, components)
    start = np.concatenate(
        [[math.log(max(total, 1.0))], np.zeros(components), SPREAD * generator.standard_normal(components * sum(sizes))]
    )
    done = 0

    def tell(_: Array) -> None:
        nonlocal done
        done += 1
        report(done / iterations, "fitting a model of what was released")

    options = {"maxiter": iterations, "ftol": CLOSE, "maxcor": 20}
    found = minimize(fit.loss, start, jac=True, method="L-BFGS-B", options=options, callback=tell)
    return Mixture(*fit.parameters(found.x))


class _Fit:
    """The loss of a mixture, and its gradient, over the logarithms of its parameters."""

    def __init__(self, sizes: Sequence[int], observations: Sequence[ProductObservation], components: int) -> None:
        self.sizes, self.observations, self.components = tuple(sizes), observations, components
        self.count = sum(one.noisy.size for one in observations)

    def parameters(self, x: Array) -> tuple[float, Array, tuple[Array, ...]]:
        """Return the total, the shares and the levels that logarithms stand for."""
        kinds = self.components
        ends = np.cumsum([1 + kinds, *(kinds * size for size in self.sizes)])
        levels = [_softmax(x[start:end].reshape(kinds, -1)) for start, end in pairwise(ends)]
        return math.exp(x[0]), _softmax(x[None, 1 : 1 + kinds])[0], tuple(levels)

    def loss(self, x: Array) -> tuple[float, Array]:
        """Return the mean squared miss, each in its own variance, and the gradient; shape of x."""
        total, shares, levels = self.parameters(x)
        value, by_total = 0.0, 0.0
        by_shares, by_levels = np.zeros_like(shares), [np.zeros_like(table) for table in levels]
        for one in self.observations:
            places = list(one.factors)
            told = [levels[i] @ one.factors[i].T for i in places]
            answers = _answers(shares, told)
            off = (total * answers - one.noisy) / one.std_error
            value += float(off @ off)
            slope = 2 * off / one.std_error  # of the loss by an answer of the total
            by_total += float(slope @ answers)
            across = slope.reshape([table.shape[1] for table in told])
            kinds = _contracted(across, told)
            by_shares += total * kinds
            for place, i in enumerate(places):
                others = [*told[:place], *told[place + 1 :]]
                left = _contracted_but(across, place, others)
                by_levels[i] += total * shares[:, None] * (left @ one.factors[i])
        gradient = [np.array([by_total * total]), _through_softmax(shares[None], by_shares[None]).ravel()]
        gradient += [_through_softmax(table, slope).ravel() for table, slope in zip(levels, by_levels, strict=True)]
        return value / self.count, np.concatenate(gradient) / self.count


def _answers(shares: Array, told: Sequence[Array]) -> Array:
    """Return the sum over kinds of their share times the product of what each factor tells, shape (answers,)."""
    if not told:
        return np.ones(1)
    first, *rest = told
    weighted = shares[:, None] * first
    if not rest:
        return np.asarray(weighted.sum(axis=0))
    *middle, last = rest
    return np.asarray((reduce(_beside, middle, weighted).T @ last).ravel())


def _beside(one: Array, other: Array) -> Array:
    """Return all products of two tables, kind by kind, shape (kinds, columns of one * columns of other)."""
    return np.asarray((one[:, :, None] * other[:, None, :]).reshape(len(one), -1))


def _contracted(across: Array, told: Sequence[Array]) -> Array:
    """Return for each kind the sum over answers of a weight times the product of what each factor tells."""
    if not told:
        return np.asarray(across.ravel())
    first, *rest = told
    left = _contracted_but(across, 0, rest)
    return np.asarray((left * first).sum(axis=1))


def _contracted_but(across: Array, place: int, others: Sequence[Array]) -> Array:
    """Return the same before the factor at a place is multiplied, shape (kinds, queries of that factor)."""
    moved = np.moveaxis(across, place, 0).reshape(across.shape[place], -1)
    if not others:
        return np.asarray(moved.T)  # one row, alike for every kind
    return np.asarray(reduce(_beside, others) @ moved.T)


def _softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _through_softmax(value: Array, slope: Array) -> Array:
    """Return the gradient by the logarithms from that by what the softmax makes of them."""
    return np.asarray(value * (slope - (value * slope).sum(axis=1, keepdims=True)))
