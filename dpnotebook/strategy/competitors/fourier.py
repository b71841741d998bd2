"""The Fourier strategy for marginals: every coefficient that some marginal needs, once.

Source: Barak et al. 2007: attributes are written in bits, and the marginal over some of them needs the coefficients of
the parities within those. As in Li and Miklau 2012, section 5, coefficients that nothing needs are not measured.
"""

from __future__ import annotations

from itertools import combinations

from dpnotebook.errors import WorkloadError
from dpnotebook.privacy.laws import Noise
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Fourier, Identity, Kron, Marginals, Workload
from dpnotebook.workload.marginals import Subset
from dpnotebook.workload.terms import SparseTerm, sparse_terms

MOST = 2**20  # subsets of attributes that coefficients are listed for


def fourier(workload: Workload, noise: Noise = "laplace") -> Strategy:
    """Return the strategy that measures the Fourier coefficients of the workload's marginals, all with the same noise.

    The basis is Walsh's over the bits of each attribute's level number, so that every entry is 1 or -1; an attribute
    whose number of levels is no power of two has the coefficients of the next one.

    Parameters
    ----------
    workload
        What is to be answered: a union of products over the same attributes.
    noise
        "laplace" or "gaussian".

    Raises
    ------
    WorkloadError
        If parts of the workload are products over different attributes, or there are too many coefficients to list.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import marginals
    >>> found = strategy.fourier(marginals((2, 2, 2, 2), 2))
    >>> found.operator.shape  # 11 coefficients: of no, one or two attributes
    (11, 16)
    """
    asked = sparse_terms(workload)
    if asked is None:
        raise WorkloadError("the Fourier strategy needs parts over the same attributes")
    sizes, terms = asked
    subsets = coefficient_subsets(terms, sizes)
    if len(subsets) == 2 ** sum(size > 1 for size in sizes):
        bases = [Fourier(size) for size in sizes]
        return Strategy(workload, bases[0] if len(bases) == 1 else Kron(*bases), noise, "Fourier")
    factors = [Fourier(size, constant=False) if size > 1 else Identity(1) for size in sizes]
    return Strategy(workload, Marginals(factors, dict.fromkeys(subsets, 1)), noise, "Fourier")


def coefficient_subsets(terms: list[SparseTerm], sizes: tuple[int, ...]) -> list[Subset]:
    """Return every subset of the attributes of some term, smaller first; an attribute of one cell has no parity."""
    asked = {tuple(axis for axis in term.axes if sizes[axis] > 1) for term in terms}
    if sum(2 ** len(axes) for axes in asked) > 2 * MOST:
        raise WorkloadError(
            "the Fourier strategy would list the coefficients of more than a million subsets of the attributes; "
            "ask for marginals of fewer attributes"
        )
    found = {subset for axes in asked for size in range(len(axes) + 1) for subset in combinations(axes, size)}
    return sorted(found, key=lambda subset: (len(subset), subset))
