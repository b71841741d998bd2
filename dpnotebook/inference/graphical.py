"""Private-PGM: the non-negative histogram of greatest entropy that fits noisy marginals best, as a graphical model.

Source: McKenna, Sheldon and Miklau, "Graphical-model based estimation and inference for differential privacy" (2019),
through the package `mbi` of its authors, which brings jax and is loaded when it is first needed (HDMM, section 10.1).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.inference.consistent import nearest_marginals
from dpnotebook.inference.marginal_algebra import as_marginals
from dpnotebook.inference.nonnegative import Counts, best_total, checked, given_total
from dpnotebook.progress import Progress, silent
from dpnotebook.workload import Identity, Workload
from dpnotebook.workload.base import Array, require_memory
from dpnotebook.workload.marginals import Subset, largest_subsets
from dpnotebook.workload.terms import SparseTerm, sparse_terms

TREE = 2**22  # most cells of the cliques of a junction tree
ITERATIONS = 5_000  # of mirror descent at most
_Table = tuple[Subset, Array, float]
TOLERANCE = 1e-9  # relative decrease of the loss in fifty iterations below which no more is expected


def graphical_model(
    operator: Workload,
    noisy: ArrayLike,
    total: float | None = None,
    iterations: int = ITERATIONS,
    report: Progress = silent,
) -> Counts:
    """Return the counts of a graphical model that fits noisy measurements of marginals best (Private-PGM).

    It minimises |A x - y| over the x >= 0 of sum `total` without ever forming x, and of all such x stands for the one
    of greatest entropy, so it gives counts over any attributes, measured together or not. Beside `nonnegative` this
    also rules out marginals that agree pairwise and yet belong to no data; it needs the optional extra `pgm`, a
    junction tree that fits in memory, and time: seconds to compile, minutes for trees of a million cells.

    Parameters
    ----------
    operator
        What was measured, shape (p, n): a union of products, every row with the same noise variance.
    noisy
        Noisy answers, shape (p,).
    total
        Number of rows, where it is public; else what the measurements say of it.
    iterations
        Most steps of mirror descent; fewer are done where they stop helping. Where the tree is large a few hundred are
        far from enough, and what they give can be worse than least squares.
    report
        Told how far it is.

    Raises
    ------
    WorkloadError
        If `mbi` is not installed, what was measured are no marginals, the junction tree is too large, or as for
        `nonnegative`.

    Examples
    --------
    >>> from dpnotebook.inference import graphical_model
    >>> from dpnotebook.workload import marginals
    >>> counts = graphical_model(marginals((2, 3), 1), [6, 4, 5, 3, 2])  # of each attribute by itself
    >>> counts.answers(marginals((2, 3), 2)).round(1)  # as if the two had nothing to do with each other
    array([3. , 1.8, 1.2, 2. , 1.2, 0.8])
    """
    measured = checked(operator, noisy)
    found = sparse_terms(operator)
    if found is None:
        raise WorkloadError("a graphical model needs measurements that are products over the same attributes")
    sizes, terms = found
    rows = best_total(operator, measured) if total is None else given_total(total)
    largest = largest_subsets([term.axes for term in terms])
    tree = junction_tree(sizes, [term.axes for term in terms])
    cells = sum(math.prod(sizes[i] for i in clique) for clique in tree)
    if cells > TREE:
        raise WorkloadError(
            f"the junction tree of these measurements has {cells:,} cells ({8 * cells / 2**30:,.2g} GiB; the limit is "
            f"{TREE:,}); measure fewer or smaller marginals, such as those along a tree of attributes, or use "
            "nonnegative(...), which needs no tree"
        )
    if rows == 0:
        empty = {subset: np.zeros([sizes[i] for i in subset]) for subset in largest}
        return Counts(sizes, rows, empty, lambda axes: np.zeros([sizes[i] for i in axes]))

    mbi = _mbi()
    tables = _tables(operator, terms, measured, rows)
    with _double():
        domain = mbi.Domain(_names(range(len(sizes))), sizes)
        measurements = [mbi.LinearMeasurement(part, _names(axes), spread) for axes, part, spread in tables]
        model = mbi.estimation.MirrorDescent().estimate(
            domain, measurements, known_total=rows, iters=iterations, tol=TOLERANCE, callback_fn=_telling(report)
        )
        counts = {subset: _counts(model, subset) for subset in largest}

    def further(axes: Subset) -> Array:
        require_memory(math.prod(sizes[i] for i in axes), f"the counts over the attributes {shorten(axes)}")
        with _double():
            return _counts(model, axes)

    return Counts(sizes, rows, counts, further)


def junction_tree(sizes: Sequence[int], subsets: Sequence[Subset]) -> list[frozenset[int]]:
    """Return the cliques of a junction tree in which every subset of attributes is within one.

    Attributes are eliminated one by one, each time the one whose clique has the fewest cells: near the least tree, and
    a tree in any case.
    """
    near: dict[int, set[int]] = {i: {i} for i in range(len(sizes))}
    for subset in subsets:
        for i in subset:
            near[i].update(subset)
    cliques: list[frozenset[int]] = []
    while near:
        i = min(near, key=lambda j: math.prod(sizes[k] for k in near[j]))
        clique = frozenset(near.pop(i))
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for j in clique - {i}:
            near[j] |= clique
            near[j].discard(i)
    return cliques


def _tables(operator: Workload, terms: Sequence[SparseTerm], measured: Array, total: float) -> list[_Table]:
    """Return what was measured as noisy tables of counts, each with the standard deviation of its noise.

    Queries other than counts are answered first, by the nearest marginals that are not negative: those of the best
    graphical model where attributes form a tree, and a start that descent gets on with where they do not.
    """
    cuts = np.cumsum([term.queries for term in terms])[:-1]
    if all(isinstance(factor, Identity) for term in terms for factor in term.factors):
        parts = zip(terms, np.split(measured, cuts), strict=True)
        return [(term.axes, part / float(term.weight), 1 / float(term.weight)) for term, part in parts]
    marginals = as_marginals(operator)
    if marginals is None:
        raise WorkloadError("a graphical model needs measurements of marginals, with one kind of queries an attribute")
    return [(axes, table.reshape(-1), 1.0) for axes, table in nearest_marginals(marginals, measured, total).items()]


def _counts(model: Any, axes: Subset) -> Array:
    found: Array = np.asarray(model.project(_names(axes)).datavector(flatten=False), dtype=float)
    return np.asarray(np.maximum(found, 0.0))


def _names(axes: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"attribute {i}" for i in axes)


def _telling(report: Progress) -> Callable[[Any], None]:
    return lambda _: report(None, "fitting a graphical model")


def _mbi() -> Any:
    """Return the package, without what it says of jax's settings when it is imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import mbi
    except ImportError:
        raise WorkloadError(
            'graphical models need the package mbi, which brings jax: pip install "dpnotebook[pgm]"; '
            "nonnegative(...) needs neither"
        ) from None
    return mbi


def _double() -> Any:
    """Have jax count in double precision, here alone."""
    import jax

    return jax.enable_x64(True)
