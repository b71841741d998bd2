"""The spend of every cell of a table, written out."""

import numpy as np


def of_every_cell(spend):
    """Return what every cell has spent, in units; shape (levels of the first attribute, of the second, ...)."""
    lengths = dict(zip(spend.axes, spend.cells.shape, strict=True))
    cells = spend.cells.reshape([lengths.get(name, 1) for name in spend.sizes])
    for axis, name in enumerate(spend.sizes):
        if name in spend.labels:
            cells = cells.take(spend.labels[name], axis=axis)
    return np.broadcast_to(cells, tuple(spend.sizes.values())) + spend.everywhere
