"""A table of counts from margins of it, as if beyond these its attributes had nothing to do with each other.

Of all tables with the same margins it is the one of greatest entropy: a log-linear model without further interaction,
found by scaling to each margin in turn (iterative proportional fitting; Deming and Stephan, 1940; Bishop, Fienberg and
Holland, "Discrete multivariate analysis", 1975, chapter 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpnotebook.workload.base import Array
from dpnotebook.workload.marginals import Subset

ROUNDS = 10  # of scaling to all margins: what is left to do is far below the noise of the margins


def without_interaction(axes: Subset, sizes: Sequence[int], margins: Mapping[Subset, Array]) -> Array:
    """Return the counts over some attributes that have the given margins and no interaction beside these.

    Parameters
    ----------
    axes
        Positions of the attributes, ascending.
    sizes
        Cells of every attribute there is.
    margins
        Counts of at least 0 over some of these attributes, which agree wherever they overlap; by positions.

    Returns
    -------
    One axis an attribute. Attributes that no margin has are even.

    Examples
    --------
    >>> import numpy as np
    >>> from dpnotebook.inference.interactions import without_interaction
    >>> without_interaction((0, 1), (2, 2), {(0,): np.array([30.0, 10.0]), (1,): np.array([20.0, 20.0])})
    array([[15., 15.],
           [ 5.,  5.]])
    """
    shape = tuple(sizes[i] for i in axes)
    total = max((float(margin.sum()) for margin in margins.values()), default=0.0)
    found = np.full(shape, total / math.prod(shape))
    inside = [i for margin in margins for i in margin]
    for _ in range(1 if len(inside) == len(set(inside)) else ROUNDS):
        for subset, margin in margins.items():
            gone = tuple(k for k, i in enumerate(axes) if i not in subset)
            now = found.sum(axis=gone, keepdims=True)
            wanted = margin.reshape(now.shape)
            found = found * np.divide(wanted, now, out=np.zeros(now.shape), where=now > 0)
    return found
