"""Groups of the levels of a column: spans of dates that are longer than the declared ones, bands of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.attribute import Attribute


class Spans(NamedTuple):
    """Groups of the levels of a column.

    Parameters
    ----------
    labels
        Of each group, in order; None for missing values.
    groups
        In which of them each level is, shape (levels,).
    """

    labels: list[str | None]
    groups: NDArray[np.intp]


def spans_with_others(attribute: Attribute, labels: Sequence[str], groups: NDArray[np.intp]) -> Spans:
    """Return the groups of the regular levels of a column, with one for each of its others."""
    beyond = np.arange(len(labels), len(labels) + attribute.size - attribute.regular)
    return Spans([*labels, *attribute.labels[attribute.regular :]], np.concatenate([groups, beyond]))
