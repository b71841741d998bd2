"""From what the engine found to noisy numbers, and which groups are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import EngineError
from dpnotebook.privacy.laws import Noise, draw_integers
from dpnotebook.sql.aggregates.measuring import Measuring, NoisyNumbers
from dpnotebook.sql.bounded_sums import Totals
from dpnotebook.strategy import Strategy

Integers = NDArray[np.int64]
Draw = Callable[[Noise, Fraction, int], Integers]


def exact(measuring: Measuring, totals: Totals) -> Integers:
    """Return what is measured, before noise, shape (groups, measured); never to be shown."""
    numbers = np.asarray(totals.numbers, dtype=np.int64).reshape(len(totals.keys), measuring.width)
    parts = [_combined(block, numbers) for block in measuring.blocks]
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(totals.keys), 0), dtype=np.int64)


def noisy(
    measuring: Measuring, totals: Totals, draw: Draw = draw_integers, known: Mapping[int, Integers] | None = None
) -> Integers:
    """Return what is measured with noise, of every group that the engine found, whether it will be shown or not.

    Parameters
    ----------
    measuring
        What is measured.
    totals
        What the engine found.
    draw
        Draws noise of a law and a scale.
    known
        Noisy numbers of some blocks, by their number, that were drawn before and are not drawn again.

    Returns
    -------
    int64 array of shape (groups, measured).
    """
    if not measuring.complete:
        raise ValueError("bounds must be found before anything is measured with them")
    numbers = exact(measuring, totals)
    for i, block in enumerate(measuring.blocks):
        place = measuring.place(i)
        if known and i in known:
            numbers[:, place] = _same_groups(known[i], len(numbers))
            continue
        size = len(numbers) * block.measured
        numbers[:, place] += draw(measuring.noise, block.scale, size).reshape(len(numbers), block.measured)
    return numbers


def released(measuring: Measuring, totals: Totals, noisy: Integers) -> NDArray[np.bool_]:
    """Return which groups are shown, shape (groups,): those with enough units, and with enough noisy units.

    Parameters
    ----------
    measuring
        What was measured.
    totals
        What the engine found.
    noisy
        The noisy numbers of `noisy`.
    """
    if measuring.counted is None or measuring.tau is None:
        return np.ones(len(totals.keys), dtype=np.bool_)
    block = measuring.blocks[measuring.counted]
    numbers = np.asarray(totals.numbers, dtype=np.int64).reshape(len(totals.keys), measuring.width)
    units = numbers[:, block.columns[0]]
    # Under "l2" units weigh less than one, and how many there are is not known: noise alone decides.
    fewest = measuring.min_units if measuring.one == 1 else 1
    least = measuring.tau + (measuring.min_units - 1) * measuring.one
    return np.asarray((units >= fewest) & (noisy[:, measuring.place(measuring.counted).start] >= least))


def _same_groups(noisy: Integers, groups: int) -> Integers:
    """Return noisy numbers of all groups; raises EngineError if there are others than before."""
    if len(noisy) != groups:
        raise EngineError("the groups of a table changed while it was read")
    return noisy


def _combined(block: NoisyNumbers, numbers: Integers) -> Integers:
    """Return integer combinations of columns, shape (groups, measured)."""
    columns = numbers[:, list(block.columns)]
    if not isinstance(block.combine, Strategy):
        return np.asarray(columns @ np.array(block.combine, dtype=np.int64).T)
    if not len(columns):
        return np.zeros((0, block.measured), dtype=np.int64)
    measured: Integers = np.rint(np.asarray(block.combine.operator.matvec(columns.T)).T).astype(np.int64)
    return measured
