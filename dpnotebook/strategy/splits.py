"""How the queries of each attribute are best split into what they ask of the total and the rest.

In each attribute a vector z with 1'z = 1 says how the total stands for every query, and an operator B with B z = 0
measures the rest. At uniform z this is how marginals are split, and the best there is for them. Where queries are not
symmetric in an attribute's cells, z is the better chosen for them: minus the part that the total explains, the optimal
strategy X for V + lambda 11' is the optimal B'B for the z proportional to X^-1 1. It makes sqrt(beta) + sqrt(alpha +
lambda) least, so a search over lambda finds the best z and B for any weighing of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.gaussian import gaussian_optimum
from dpnotebook.strategy.lattice import Lattice
from dpnotebook.workload import Centred, Explicit, Identity, Stack, Total, Weighted, Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.contiguous import Contiguous

GRAM_CELLS = 4096  # a Gram matrix is looked at for symmetry
ROUNDS = 12  # of choosing the split of every attribute in turn; it ends earlier where nothing is gained
PRECISE = 1e-7  # gap of an attribute's optimum: it is found again and again, and rounded in the end
QUICK_ROUNDS, NEAR = 2, 1e-2  # the same where there is no time: the worst answer of unions is at most 6% worse
SINGULAR = 1e-12  # of the largest singular value: a smaller one is rounding
LEAST_PRICE = 1e-6  # of all that is asked: the total is within what is measured, whatever the queries
NOTHING = 1e-12  # of the whole of a factor's error: what is left of the rest is rounding
ALIKE = 1e-12  # of the diagonal: a difference of two entries that is rounding
SETTLED = 1e-6  # relative gain of a round below which the search ends


@dataclass(frozen=True)
class MergedAttribute:
    """What is asked of one attribute, where cells that no query tells apart count as one.

    Parameters
    ----------
    classes
        The class of each cell, shape (n,).
    forms
        (a, b) of each query factor, where all of them treat all classes alike: W'W = a I + b 11'.
    grams
        Else W'W of each over the classes.
    """

    classes: NDArray[np.int64]
    forms: tuple[tuple[float, float], ...] = ()
    grams: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Split:
    """How an attribute's queries are split into total and rest; n counts its classes of cells.

    Parameters
    ----------
    total
        z, shape (n,), adding up to one.
    gram
        B'B, shape (n, n), with B z = 0 and a largest diagonal entry of `norm`; empty where B is Centred.
    alpha, beta
        |W z|^2, and |B|^2 |W (I - z 1') B^+|^2, of every query factor of the attribute, shape (factors,).
    norm
        |B|^2, the largest squared norm of a column.
    operator
        B over all cells in integers, where they have been chosen.
    multipliers
        Where the search for a similar B begins.
    """

    total: Array
    gram: Array
    alpha: Array
    beta: Array
    norm: float = 1.0
    operator: Workload | None = None
    multipliers: Array | None = None


def attribute(kinds: Sequence[Workload], n: int) -> MergedAttribute:
    """Return what is asked of an attribute of n cells by its query factors."""
    forms = [symmetric_form(kind) for kind in kinds]
    if all(forms):
        return MergedAttribute(np.arange(n), forms=tuple(form for form in forms if form))
    grams = [np.asarray(kind.gram(), dtype=float) for kind in kinds]
    # Cells with equal columns in every Gram matrix have equal columns in every workload.
    _, cells, classes = np.unique(np.concatenate(grams), axis=1, return_index=True, return_inverse=True)
    small = [gram[np.ix_(cells, cells)] for gram in grams]
    forms = [_form(gram) for gram in small]
    if all(forms):
        return MergedAttribute(classes.reshape(-1), forms=tuple(form for form in forms if form))
    return MergedAttribute(classes.reshape(-1), grams=tuple(small))


def symmetric_form(kind: Workload) -> tuple[float, float] | None:
    """Return (a, b) where W'W = a I + b 11': what treats all cells alike; None for other workloads."""
    if kind.shape[1] == 1:
        return 0.0, kind.frobenius_squared()
    if isinstance(kind, Identity):
        return 1.0, 0.0
    if isinstance(kind, Total):
        return 0.0, 1.0
    if isinstance(kind, Weighted):
        form = symmetric_form(kind.workload)
        return None if form is None else (kind.weight**2 * form[0], kind.weight**2 * form[1])
    if isinstance(kind, Stack):
        forms = [symmetric_form(part) for part in kind.parts]
        known = [form for form in forms if form is not None]
        return (sum(a for a, _ in known), sum(b for _, b in known)) if len(known) == len(forms) else None
    if isinstance(kind, Contiguous) or kind.shape[1] > GRAM_CELLS:
        return None
    return _form(np.asarray(kind.gram(), dtype=float))


def splits(
    found: Lattice, attributes: Sequence[MergedAttribute], report: Progress = silent, *, quick: bool = False
) -> list[Split | None]:
    """Return a split of every attribute that is asked about, one at a time until nothing gets better.

    Parameters
    ----------
    found, attributes
        The products, and what is asked of each attribute.
    report
        Told of progress; may raise to stop.
    quick
        Whether each attribute is looked at twice at most, and only nearly.
    """
    current = [uniform(mine) for mine in attributes]
    searched = [axis for axis, mine in enumerate(attributes) if mine.grams]
    best = residual_objective(found, current)
    firsts = np.cumsum([0] + [len(kinds) for kinds in found.kinds])
    for _ in range(QUICK_ROUNDS if quick else ROUNDS):
        before = best
        for axis in searched:
            alpha, beta = together(current)
            roots = np.sqrt(found.losses(alpha, beta))
            slopes = np.divide(roots.sum(), roots, out=np.zeros_like(roots), where=roots > 0)
            of_alpha, of_beta = found.sensitivities(alpha, beta, slopes)
            mine = slice(firsts[axis], firsts[axis + 1])
            now = current[axis]
            assert now is not None
            weights, price = _prices(now, of_alpha[mine], of_beta[mine])
            precise = NEAR if quick else PRECISE
            trial = split_for(attributes[axis].grams, weights, price, now.multipliers, report, precise)
            proposed = [*current[:axis], trial, *current[axis + 1 :]]
            value = residual_objective(found, proposed)
            if value < best:
                current, best = proposed, value
        if best > before * (1 - SETTLED):
            break
    return current


def split_for(
    grams: Sequence[Array],
    weights: Array,
    price: float,
    start: Array | None,
    report: Progress,
    precise: float = PRECISE,
) -> Split:
    """Return the split that the optimal strategy for sum of weights_k V_k + price 11' makes.

    Parameters
    ----------
    grams, weights
        V_k = W_k'W_k of the attribute's query factors, and how much the variance of each counts.
    price
        lambda: how much the total counts beside them.
    start
        The multipliers of a similar split.
    report
        Told of progress; may raise to stop.
    precise
        Relative gap to the optimum.
    """
    wanted = sum(weight * gram for weight, gram in zip(weights, grams, strict=True)) + price
    found = gaussian_optimum(wanted, tolerance=precise, start=start, report=report)
    inverse = np.linalg.pinv(found.gram, rcond=SINGULAR, hermitian=True)
    sums = inverse.sum(axis=1)
    s = 1 / sums.sum()
    z = s * sums
    rest = inverse - np.outer(z, z) / s
    gram = (found.gram - s) / (found.gram.max() - s)
    alpha, beta = traces(grams, z, rest, float(found.gram.max() - s))
    return Split(z, gram, alpha, beta, multipliers=found.v)


def residual_objective(found: Lattice, current: Sequence[Split | None]) -> float:
    """Return (sum over subsets of sqrt L_S)^2: the error of the best weights for these splits."""
    return float(np.sqrt(found.losses(*together(current))).sum() ** 2)


def together(current: Sequence[Split | None]) -> tuple[Array, Array]:
    """Return alpha and beta of the query factors of all attributes."""
    asked = [split for split in current if split is not None]
    if not asked:
        return np.zeros(0), np.zeros(0)
    return np.concatenate([split.alpha for split in asked]), np.concatenate([split.beta for split in asked])


def _prices(now: Split, of_alpha: Array, of_beta: Array) -> tuple[Array, float]:
    """Return what to optimise an attribute for, from how the error depends on its alpha and beta.

    sqrt(beta) + sqrt(alpha + lambda), which the strategy for V + lambda 11' makes least, has these derivatives where
    lambda = beta / ratio^2 - alpha.
    """
    weights = of_beta / of_beta.max()
    rest, mean = float(weights @ now.beta), float(weights @ now.alpha)
    ratio = float(of_alpha @ now.alpha) / of_beta.max() / mean if mean else 0.0
    least = LEAST_PRICE * (rest + mean)
    return weights, max(least, rest / ratio**2 - mean if ratio else rest)


def traces(grams: Sequence[Array], z: Array, rest: Array, norm: float) -> tuple[Array, Array]:
    """Return alpha and beta of every query factor, where C = `rest` is the variance of what B measures."""
    alpha = np.array([max(float(z @ gram @ z), 0.0) for gram in grams])
    beta = np.array([max(float(np.vdot(gram, rest)), 0.0) for gram in grams]) * norm
    return alpha, np.where(beta > NOTHING * (alpha + beta), beta, 0.0)


def uniform(asked: MergedAttribute) -> Split | None:
    """Return the split at the mean of all cells: B = n I - 11', whose pseudo-inverse is itself over n^2."""
    if not asked.forms and not asked.grams:
        return None
    n = int(asked.classes.max()) + 1
    if n == 1:  # only the total is asked for: nothing else of this attribute is measured
        alpha = np.array([max(a + b, 0.0) for a, b in asked.forms])
        return Split(np.ones(1), np.empty((0, 0)), alpha, 0 * alpha, 1.0, Identity(len(asked.classes)))
    centred = Centred(n)
    norm = float(centred.max_column_norm(2))
    mean = np.full(n, 1 / n)
    if asked.forms:
        alpha = np.array([max(a / n + b, 0.0) for a, b in asked.forms])
        beta = np.array([a * (n - 1) ** 2 / n for a, _ in asked.forms])
        operator = centred if len(asked.classes) == n else Explicit(centred.dense()[:, asked.classes])
        return Split(mean, np.empty((0, 0)), alpha, beta, norm, operator)
    alpha, beta = traces(asked.grams, mean, (np.eye(n) - 1 / n) / n**2, norm)
    return Split(mean, n**2 * np.eye(n) - n, alpha, beta, norm)


def _form(gram: Array) -> tuple[float, float] | None:
    n = len(gram)
    b = float(gram[0, -1]) if n > 1 else 0.0
    expected = np.full((n, n), b)
    np.fill_diagonal(expected, gram[0, 0])
    same = np.allclose(gram, expected, rtol=0, atol=ALIKE * abs(gram[0, 0]))
    return (float(gram[0, 0]) - b, b) if same else None
