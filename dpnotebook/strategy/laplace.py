"""p-Identity strategies for Laplace noise: a few weighted sums over the cells, found by descent.

Source: HDMM, section 4.3 (Definitions 13 and 14, OPT_0): A = [I; Theta] D, Theta >= 0, where D scales every column to
sum one. Its error on a workload with the Gram matrix V, and the gradient, take one product of a p x n matrix with V
(Theorem 17).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.progress import Progress, silent
from dpnotebook.strategy.blas import threads_for
from dpnotebook.strategy.descent import BoundedDescent, Descending, Function, LibraryDescent
from dpnotebook.workload.base import Array, whole

LARGEST = 1e3  # of an entry of Theta: beyond it, the loss is a difference of numbers that agree in too many digits
SEVERAL = 512  # up to this many cells several starts are tried; beyond it, the one that is best for ranges
FEW_CELLS = 128  # and up to these also rows of one width, which are far from the best where cells are more
# Over few cells, where time is no matter, descents are the library's: so many steps of every start, those that are
# within a factor of the best go on to the end, and so many of them at most, one more for each random start.
SKETCH, CLOSE, REFINED, END = 150, 1.005, 2, 1e-9
# Over more: steps of every start, those that go on, and steps of these before the best of them go on to the end.
BEGUN, GOING, FURTHER, HOPELESS = 30, 4, 60, 1.02
HASTE = 80  # steps where there is no time
STEEP = 1e-6  # relative decrease in a step at which that is enough
TOLERANCE, PATIENCE = 1e-4, 50  # a descent ends where the loss fell by less than this share in so many steps
# Steps to the end at most: over few cells; over 1,024; over more, where the start is further from the end.
MOST, LEAST, WIDE = 1000, 400, 600
MANY_CELLS = 1024  # that more are
PART, FEWEST = 16, 4  # rows: one for so many cells, and where cells are few so many, or one for so many cells
LEAST_SHARE = 1.2  # of a row, from which on a width gets rows of its own
# The rows start as overlapping triangles of several widths: of each width about 2.8 times fewer than of the one before;
# and, where that is cheap, also in these proportions. Which is best depends on the workload.
RATIO = 2.8
LADDERS = ((11, 3, 2), (5, 3), (1,))

Product = Callable[[Array], Array]

DENSE_CELLS = 256  # up to this many cells a dense product is as fast
EXACT = 1e-12  # relative to the largest entry


@dataclass(frozen=True)
class Descent:
    """Where a descent ended: `theta`, shape (p, n), and the loss |W A^+|_F^2 there."""

    theta: Array
    loss: float


def p_identity(
    gram: Array,
    p: int | None = None,
    *,
    restarts: int = 0,
    quick: bool = False,
    single: bool = False,
    report: Progress = silent,
    rng: np.random.Generator | None = None,
) -> list[Descent]:
    """Return the best p-Identity strategies found, best first; their losses are approximate.

    Parameters
    ----------
    gram
        V = W'W, shape (n, n).
    p
        Rows besides the identity; n/16, or a few where n is small, unless given.
    restarts
        Random starts besides the deterministic ones.
    quick
        Descend from one start, and not to the end: within 1% for ranges.
    single
        Descend from one start, to the end.
    report
        Called with the progress at every evaluation.
    rng
        Where random starts come from; unseeded unless given.

    Raises
    ------
    WorkloadError
        If p or restarts is out of range.
    """
    n = len(gram)
    rows = default_rows(n) if p is None else whole(p, "the number of rows of a p-Identity")
    if rows > n:
        raise WorkloadError(f"a p-Identity over {n:,} cells has at most {n:,} rows, not {rows:,}")
    randoms = whole(restarts, "the number of restarts", 0)
    starts = [*starting_points(n, rows), *_random_points(n, rows, randoms, rng)]
    steps = WIDE if n > MANY_CELLS else min(MOST, LEAST * MANY_CELLS**2 // n**2)
    with threads_for(n):
        loss, kind = _scaled_loss(gram, report), LibraryDescent if n <= FEW_CELLS else BoundedDescent
        begun = starts[:1] if quick or single else starts
        descents: list[Descending] = [kind(loss, start.ravel(), LARGEST) for start in begun]
        if quick:
            descents[0].go(HASTE, STEEP)
        elif n <= FEW_CELLS:
            descents = _better(descents, SKETCH, REFINED + randoms, CLOSE)
            for descent in descents:
                descent.go(steps, END)
        else:
            descents = _better(descents, BEGUN, GOING + randoms, HOPELESS)
            descents = _better(descents, FURTHER, 1 + randoms, HOPELESS)
            for descent in descents:
                descent.go(steps, TOLERANCE, PATIENCE)
    descents.sort(key=_value)
    scale = float(np.trace(gram))
    return [Descent(descent.point.reshape(-1, n), descent.value * scale) for descent in descents]


def _value(descent: Descending) -> float:
    return descent.value


def _better(descents: list[Descending], steps: int, count: int, near: float) -> list[Descending]:
    """Return those descents that are best after so many steps more; one alone goes on as it is."""
    if len(descents) == 1:
        return descents
    for descent in descents:
        descent.go(steps, STEEP)
    descents = sorted(descents, key=_value)
    return [descent for descent in descents if descent.value <= descents[0].value * near][:count]


def starting_points(n: int, p: int) -> Iterator[Array]:
    """Yield each Theta from which descents start, shape (p, n): first many narrow and few wide rows."""
    several = [_geometric(p)]
    if n <= SEVERAL:
        several += [_counts(p, ladder) for ladder in LADDERS]
    if n <= FEW_CELLS:
        several += [(count,) for count in range(1, min(p, 4))]
    for counts in dict.fromkeys(several):
        yield np.vstack([_triangles(count, n) for count in counts])


def _random_points(n: int, p: int, count: int, rng: np.random.Generator | None) -> Iterator[Array]:
    generator = np.random.default_rng() if rng is None and count else rng
    for _ in range(count):
        assert generator is not None
        yield generator.random((p, n))


def default_rows(n: int) -> int:
    """Return the number of rows besides the identity: n/16 as in HDMM, section 9, and a few where n is small."""
    return max(1, n // PART, min(FEWEST, n // FEWEST))


def loss_and_gradient(theta: Array, gram: Product, diagonal: Array) -> tuple[float, Array]:
    """Return |W A^+|_F^2 of the p-Identity of Theta, and its gradient by Theta.

    With s the column sums of [I; Theta], R = (I + Theta Theta')^-1 and M = R Theta, the loss is
    sum_i V_ii s_i^2 - tr(M G Theta') for G_ij = s_i s_j V_ij (HDMM, the proof of Theorem 17).

    Parameters
    ----------
    theta
        Shape (p, n).
    gram, diagonal
        The function X -> X V, and the diagonal of V.
    """
    sums = 1 + theta.sum(axis=0)  # 1 / D of Definition 13
    inner = theta @ theta.T
    inner[np.diag_indices_from(inner)] += 1
    solved = np.linalg.inv(inner) @ theta
    product = gram(solved * sums)
    explained = np.einsum("ki,ki->i", theta, product)
    cells = diagonal * sums - explained
    product *= sums
    gradient = (product @ theta.T) @ solved
    gradient -= product
    gradient += cells
    return float(np.dot(sums, cells)), 2 * gradient


def _scaled_loss(gram: Array, report: Progress) -> Function:
    """Return the loss of a Theta that is written as one row, and its gradient, as a share of that of the cells."""
    diagonal, product = np.diagonal(gram).copy(), gram_product(gram)
    scale, count = 1 / float(diagonal.sum()), 0

    def evaluate(flat: Array) -> tuple[float, Array]:
        nonlocal count
        count += 1
        report(None, f"looking for the best p-Identity, step {count:,}")
        value, gradient = loss_and_gradient(flat.reshape(-1, len(gram)), product, diagonal)
        return value * scale, (gradient * scale).ravel()

    return evaluate


def _geometric(p: int) -> tuple[int, ...]:
    """Return p split in shares of a geometric sequence, narrow to wide."""
    counts, share = [], p * (1 - 1 / RATIO)
    while share >= LEAST_SHARE:
        counts.append(round(share))
        share /= RATIO
    rest = counts[1:]
    return (p - sum(rest), *rest)


def _counts(p: int, ladder: tuple[int, ...]) -> tuple[int, ...]:
    """Return p split in these proportions: widths that would get less than one row are left out."""
    edges = np.rint(np.cumsum((0, *ladder)) * p / sum(ladder)).astype(int)
    return tuple(int(count) for count in np.diff(edges) if count)


def _triangles(count: int, n: int) -> Array:
    """Return rows that rise to 1 and fall to 0 around evenly spaced centres, as far as the neighbours' centres."""
    centres = (np.arange(count) + 0.5) * n / count
    distance = np.abs(np.arange(n) + 0.5 - centres[:, None]) * count / n
    return np.maximum(0.0, 1 - distance)


# Products with a Gram matrix, by running sums where V_ij = a_i b_j for i <= j: prefixes, all ranges, and the like.
def gram_product(gram: Array) -> Product:
    """Return the function X -> X V, for V of shape (n, n) and X of shape (p, n)."""
    factors = _generators(gram) if len(gram) > DENSE_CELLS else None
    if factors is None:
        return lambda x: np.asarray(x @ gram)
    return semiseparable(*factors)


def semiseparable(a: Array, b: Array) -> Product:
    """Return the function X -> X V for V_ij = a_i b_j where i <= j, and symmetric; a and b of shape (n,)."""

    def multiply(x: Array) -> Array:
        # Column j of X V is b_j sum_(i <= j) a_i x_i + a_j sum_(i > j) b_i x_i.
        result = np.cumsum(x * a, axis=1)
        result *= b
        after = x * b
        sums = np.cumsum(after[:, ::-1], axis=1)[:, ::-1]
        sums -= after
        sums *= a
        result += sums
        return np.asarray(result)

    return multiply


def _generators(gram: Array) -> tuple[Array, Array] | None:
    """Return a and b with V_ij = a_i b_j for all i <= j, if there are such."""
    if gram[0, 0] <= 0 or gram[0, -1] <= 0:
        return None
    a, b = gram[:, -1] / gram[0, -1], gram[0]
    near = EXACT * float(np.abs(gram).max())
    for i in range(len(gram)):  # a row at a time: no second matrix of this size
        if np.abs(a[i] * b[i:] - gram[i, i:]).max() > near:
            return None
    return a, b
