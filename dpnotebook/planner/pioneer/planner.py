"""What Pioneer would do, in terms of recorded measurements: for sessions with planner="pioneer"."""

from __future__ import annotations

from dpnotebook.planner.answers import scale_of_variance
from dpnotebook.planner.history import History
from dpnotebook.planner.marginal_measurement import LinearTarget, OverAtoms, cells_predicate
from dpnotebook.planner.pioneer.choose import choose
from dpnotebook.planner.pioneer.groups import PastQuery
from dpnotebook.planner.plan import Planned
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.laws import LAPLACE
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.workload import Identity

GROUPS = 4  # of past queries that a plan may use: the default k of the paper's Table III


def pioneer_items(asked: LinearTarget, target: float, history: History) -> tuple[Planned, ...] | None:
    """Return what Pioneer refines and measures for one count; None for questions of another form.

    Parameters
    ----------
    asked
        The question over the atoms of what was measured.
    target
        The variance that its answer may have.
    history
        Everything recorded; its noise is Laplace noise.

    Source: Peng et al. (ICDE 2013), as `dpnotebook.planner.pioneer` reads it.
    """
    if not isinstance(asked, OverAtoms):
        return None
    queries, block = asked.queries, asked.block
    if queries.count != 1 or not queries.bins:
        return None
    atoms, parents = block.atoms.refined(queries.cells)
    past, keys = [], []
    for source in block.sources.values():
        if source.columns is not None or source.queries != 1 or source.part.totals is not None:
            continue
        for key in source.repeats:
            item = history.items[key]
            refinable = key not in history.refining and item.measurement.answers == 1
            past.append(PastQuery(source.atoms[parents] >= 0, item.variance, item.group, refinable))
            keys.append(key)
    choice = choose(queries.cells[atoms.first] == 0, target, past, GROUPS)
    items = []
    for position, variance in choice.refine:
        first = history.items[keys[position]]
        scale = scale_of_variance(LAPLACE, variance)
        if scale < first.scale:
            items.append(Planned(first.measurement, scale, 0, None, first.key, first.scale, first.group))
    domain = block.domain
    everything = tuple(Axis(name, tuple(range(domain[name].size))) for name in block.names)
    for (mask, variance), group in zip(choice.measure, choice.groups, strict=True):
        cells = mask[atoms.labels]
        where = cells_predicate(everything, cells, domain) if everything else Predicate.everything(domain)
        scale = scale_of_variance(LAPLACE, variance)
        label = f"{history.version}.{group[1]}" if isinstance(group, tuple) and group[0] == "new" else group
        name = label if isinstance(label, str) else None
        items.append(Planned(Measurement(Identity(1), (), where), scale, LAPLACE.grid_bits(scale), group=name))
    return tuple(items)
