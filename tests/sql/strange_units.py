"""Units whose pairs of values are as strange as values can be, and by how much one of them changes what is added up."""

import math

import numpy as np
import pandas as pd
from added_up import SECRET, connect

from dpnotebook.sql.rewrite.bounded_aggregation import totals

STRANGE = [0.0, 1.0, -3.0, 1e308, -1e308, math.inf, -math.inf, math.nan, None, 5e-324, 1e-250, 12345.678, 7.0]
OTHERS = [("p", "a", 4.0, 2.0), ("q", "b", 9.0, 0.5), ("r", "c", None, 3.0)]


def both(rows):
    """Return a table of rows with a unit, a key and a pair of values."""
    frame = pd.DataFrame(rows, columns=["u", "k0", "x0", "x1"])
    return frame.astype({"u": object, "k0": object, "x0": float, "x1": float})


def influences(chosen, components):
    """Yield the squared length of what one unit changes of integers, for units with up to 600 rows in three groups."""
    random = np.random.default_rng(3)
    nothing = np.zeros(sum(component.width for component in components), dtype=object)
    for size in (1,) if chosen.single else (1, 3, 50, 600):
        for turn in range(8):
            values = [[STRANGE[i] for i in random.integers(len(STRANGE), size=size)] for _ in range(2)]
            if turn == 7:
                values = [[1e9] * size, [1e6] * size]
            groups = random.choice(["a", "b", "c"], size)
            mine = [("out", group, *pair) for group, *pair in zip(groups, *values, strict=True)]
            found = [totals(chosen, components, connect(both(rows)), SECRET) for rows in (OTHERS + mine, OTHERS)]
            before, after = (dict(zip(one.keys, one.numbers.astype(object), strict=True)) for one in found)
            every = {*before, *after}
            yield sum(int(((before.get(key, nothing) - after.get(key, nothing)) ** 2).sum()) for key in every)
