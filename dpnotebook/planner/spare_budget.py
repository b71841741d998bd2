"""A range of one ordered attribute, measured with the budget that its cells have to spare."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.pricing import Pricing, more_precise, scale_for_units
from dpnotebook.planner.spare_segments import Piece, spare_pieces
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.spend import Spend
from dpnotebook.query.measurement import Measurement
from dpnotebook.workload import Identity

NEAR = 12  # cut points on either side of each end of a range between which pieces are looked for

Indices = NDArray[np.intp]


def spare_range(
    measurement: Measurement, block: LeastSquaresState, spend: Spend, target: float, pricing: Pricing, most: int = 0
) -> tuple[Planned, ...] | None:
    """Return measurements of pieces in and around a range that together bring it to a variance at the least price.

    Parameters
    ----------
    measurement
        The count of the range.
    block
        Least squares over what was measured of the attribute.
    spend
        What every cell of the table has cost.
    target
        The variance to be reached.
    pricing
        Of which table, with which noise.
    most
        What may be paid, in units, for a short piece that leaves other cells what they have to spare.

    Returns
    -------
    None where the question is no range of one ordered attribute, or the whole range is best measured at once.
    """
    found = range_of(measurement, pricing.table.domain)
    if found is None or block.names != (found[0],):
        return None
    name, start, end = found
    labels = block.atoms.labels
    cuts = _cuts(labels, start, end)
    accountant = pricing.accountant
    asked = int(np.searchsorted(cuts, start)), int(np.searchsorted(cuts, end))
    pieces = spare_pieces(
        block.line(cuts),
        np.diff(cuts),
        np.maximum.reduceat(spend.by_attribute(name), cuts[:-1]),
        spend.maximum,
        asked,
        target,
        accountant.noise,
        accountant.per_unit(pricing.table.contribution_bound),
        most,
    ).pieces
    if not pieces or [(piece.start, piece.end) for piece in pieces] == [asked]:
        return None
    return tuple(_planned(pieces, cuts, name, pricing))


def range_of(measurement: Measurement, domain: Domain) -> tuple[str, int, int] | None:
    """Return the attribute and the run of levels that a measurement counts."""
    where = measurement.where
    if measurement.axes or measurement.summand.column is not None or len(where.attributes) != 1:
        return None
    (name,) = where.attributes
    levels = np.flatnonzero(where.dense([name]))
    if not domain[name].ordered or not levels.size or levels[-1] - levels[0] + 1 != levels.size:
        return None
    return name, int(levels[0]), int(levels[-1]) + 1


def _cuts(labels: Indices, start: int, end: int) -> Indices:
    """Return the ends of the range and the cut points around them, ascending, from the first level to the last."""
    changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    cuts = np.unique(np.concatenate([[0, labels.size, start, end], changes]))
    kept = {0, cuts.size - 1}
    for place in np.searchsorted(cuts, (start, end)).tolist():
        kept.update(range(max(place - NEAR, 0), min(place + NEAR + 1, cuts.size)))
    return np.asarray(cuts[sorted(kept)], dtype=np.intp)


def _planned(pieces: tuple[Piece, ...], cuts: Indices, name: str, pricing: Pricing) -> Iterator[Planned]:
    domain, accountant = pricing.table.domain, pricing.accountant
    for piece in pieces:
        mask = np.zeros(domain[name].size, dtype=bool)
        mask[cuts[piece.start] : cuts[piece.end]] = True
        measurement = Measurement(Identity(1), (), Predicate.box(domain, {name: mask}))
        if accountant.law.refines and pricing.history.latest(measurement) is not None:
            yield more_precise(measurement, 1 / piece.variance, pricing)
        else:
            scale = scale_for_units(measurement, piece.units, pricing.table, accountant)
            yield Planned(measurement, scale, accountant.law.grid_bits(scale))
