"""What every cell of an extended domain has spent: what its rows had paid, wherever they were before.

The promise is about neighbouring databases: tables that differ by the rows of one privacy unit. It holds if for every
unit the sum of the losses of all releases is at most what the ledger says was spent, which is the spend of the dearest
cell, whatever domain each release was made under.

Let a unit be one row first. A release under the domain D loses at most cost_D(cell of the row in D) to it, and nothing
where the row has no level in D: then it was no part of the table. A statement loses at most its whole price to every
row, whether or not it has a cell. So what a row has lost depends on its value alone, and all rows of one cell c of an
extension D' have lost the same: every level of D' lies within one level of D or outside all of them, so that these rows
shared a cell of D, or were all outside. The spend of c starts with that loss:

- in a cell of D that is split, or that a new attribute divides: with the spend of that cell, whole, for each part;
- outside of D: with what all statements have cost. Rows that a new attribute leaves out, because they have no level of
  it, have paid for their old cell; from then on all rows outside are taken to have paid what the dearest cell had.

What is charged under D' adds to c what it may lose to a row there, as ever. A row that is in no cell of D' loses no
more than statements cost from then on, which every cell pays as well, and what it had lost before is at most the spend
of the cells that its old cell became: every level of D has a level of D' within it. So the dearest cell of D' still
covers everybody, and is what the dearest cell of D was: an extension costs nothing and gives nothing back.

A unit with up to k rows loses at most the sum over its rows, and a charge has the factor for k rows in every cell: the
same sum over the same rows stays below the spend of the dearest cell. It has to be the same rows in every release. The
sample of them depends on the declared columns and on which rows have levels, so that where these change another sample
may be drawn; then all cells start with the spend of the dearest one. What a unit lost before and what it will lose are
each at most the largest spend of their time, and these add up.

A part that comes later is an extension too, by a level of the attribute that says which part a row is in. Its rows were
in none of the tables that earlier releases read, statements included, so what they have lost is nothing, and the cells
of the new part start with that. Each unit has rows in one part only: of one that an older part has, no row of a later
one counts. That leaves the rows of all others as they are, whether or not that unit is there, so that two tables that
differ by one unit still differ in the cells of one part, and the dearest cell of all parts covers everybody.

Where units may be in several parts, each with a sample of its own, a unit loses the sum over the parts of what it loses
by its rows there, which is at most the sum over the parts of the dearest cell of each (see `Spend`). For Gaussian noise
that holds of charges that read one part each. One that reads s parts changes by at most s times what k rows of one part
change it by, so that it costs s^2 times as much as for one part: s in each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpnotebook.domain.extension import NONE, Levels
from dpnotebook.privacy.spend import Spend


def check_levels(levels: Mapping[str, Levels], before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Check that every level of an extended domain was one level or none, and that no level is gone.

    Parameters
    ----------
    levels
        Of each attribute that there was, which level rows at each level had, -1 for none.
    before, after
        Numbers of levels by attribute, in order.

    Raises
    ------
    ValueError
        If that is not so.
    """
    if list(levels) != list(before) or [name for name in after if name in before] != list(before):
        raise ValueError("an extension keeps the attributes that there are, in their order")
    for name, found in levels.items():
        if found.shape != (after[name],) or not np.array_equal(np.unique(found[found != NONE]), range(before[name])):
            raise ValueError(f"an extension keeps every level of {name!r}")


def extended(spend: Spend, sizes: Mapping[str, int], levels: Mapping[str, Levels], outside: int) -> Spend:
    """Return the spend of every cell of an extended domain.

    Parameters
    ----------
    spend
        Of every cell of the earlier one; it stays as it is.
    sizes
        Numbers of levels of the extended domain.
    levels
        As for `check_levels`.
    outside
        What rows without a cell had paid, in units.
    """
    found = Spend(sizes, spend.limit, spend.merge, spend.adds)
    comes = {name: bool((levels[name] == NONE).any()) for name in spend.sizes}
    found.everywhere = min(spend.everywhere, outside) if any(comes.values()) else spend.everywhere
    lengths = dict(zip(spend.axes, spend.cells.shape, strict=True))
    told: dict[str, Levels] = {}
    for name, length in spend.sizes.items():
        if not (comes[name] or name in lengths):
            continue
        own = spend.labels.get(name, np.arange(length) if name in lengths else np.zeros(length, dtype=np.int64))
        told[name] = np.where(levels[name] == NONE, lengths.get(name, 1), own[levels[name]])
    if spend.labels or math.prod(place.size for place in told.values()) > spend.limit:
        for name, place in told.items():
            told[name], label = np.unique(place, return_inverse=True)
            found.labels[name] = label.astype(np.int64)
    if math.prod(place.size for place in told.values()) > spend.limit:
        return level(spend, sizes)
    found.axes = tuple(told)
    found.cells = np.asarray(spend.cells + (spend.everywhere - found.everywhere))
    if told:  # the last place along an axis is that of no level
        cells = found.cells.reshape([lengths.get(name, 1) for name in told])
        cells = np.pad(cells, [(0, int(comes[name])) for name in told], constant_values=outside - found.everywhere)
        found.cells = cells[np.ix_(*told.values())]
    return found


def grown(spend: Spend, sizes: Mapping[str, int], parts: int, *, adds: bool) -> Spend:
    """Return the spend of every cell of a table that one more part of rows came to, which starts with none.

    Parameters
    ----------
    spend
        Of every cell before; it stays as it is.
    sizes
        Numbers of levels, of which the last is the number of parts.
    parts
        How many parts there were before; of one, the spend may have no attribute that tells it apart.
    adds
        Whether units may be in several parts, so that what parts cost adds up.

    Raises
    ------
    ValueError
        If another attribute changes, or not one part is added.
    """
    *others, (name, count) = sizes.items()
    if count != parts + 1 or dict(others) != {key: size for key, size in spend.sizes.items() if key != name}:
        raise ValueError("a part adds one level to the attribute of parts, and changes no other")
    if spend.adds not in (None, name) or (parts > 1 and (spend.adds is not None) != adds):
        raise ValueError("the parts of a table are all of the same kind")
    if name not in spend.sizes:
        before, spend = spend, Spend({**spend.sizes, name: 1}, spend.limit, spend.merge)
        spend.everywhere, spend.labels = before.everywhere, before.labels
        spend.axes, spend.cells = before.axes, before.cells
    if not adds:
        levels = {key: np.arange(size) for key, size in others} | {name: np.r_[np.arange(parts), NONE]}
        return extended(spend, sizes, levels, outside=0)
    cells = spend.cells if name in spend.axes else spend.cells[..., None]
    length = cells.shape[-1]
    shared = np.arange(parts) if length > 1 else np.zeros(parts, dtype=np.int64)
    label = np.append(spend.labels.get(name, shared), length)
    found = Spend(sizes, spend.limit, spend.merge, name)
    found.everywhere, found.labels = spend.everywhere, dict(spend.labels)
    found.axes = spend.axes if name in spend.axes else (*spend.axes, name)
    found.cells = np.pad(cells, [(0, 0)] * (cells.ndim - 1) + [(0, 1)])
    if found.labels or found.cells.size // (length + 1) * (parts + 1) > spend.limit:
        found.labels[name] = label
    else:
        found.cells = found.cells[..., label]
    return level(spend, sizes, name) if found.cells.size > spend.limit else found


def level(spend: Spend, sizes: Mapping[str, int], adds: str | None = None) -> Spend:
    """Return the spend of every cell of another domain where each starts with that of the dearest cell."""
    found = Spend(sizes, spend.limit, spend.merge, adds or spend.adds)
    found.everywhere = spend.maximum
    return found
