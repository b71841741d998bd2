"""A private aggregation as SQL of an engine: clamped per unit and group, a sample of them, and sums of that leave.

Each part of a query is a common table expression over the part before it: what takes part, the rows that are drawn,
what each unit adds to each group, the groups that are drawn, the sums.

Sources: Wilson et al., section 4.2.3 (two-stage aggregation, bounded contributions); clipping a unit's whole vector
to an L2 norm is the usual step before Gaussian noise.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from dpnotebook.dialect.attributes import whole_sum
from dpnotebook.errors import EngineError
from dpnotebook.sql.aggregates.catalogue import statistic_of
from dpnotebook.sql.bounded_sums import ROWS_SAMPLED, Component, Totals
from dpnotebook.sql.rewrite import clipping, steps
from dpnotebook.sql.rewrite.contribution_bounding import Parts, listed_sql
from dpnotebook.sql.rewrite.contribution_sampling import (
    draw_groups,
    draw_placed,
    draw_rows,
    draw_within_groups,
    place_rows,
)
from dpnotebook.sql.rewrite.different_values import matched, matching_sql
from dpnotebook.sql.rewrite.groups import Found
from dpnotebook.sql.rewrite.magnitudes import all_magnitudes, magnitudes
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import PrivateSelect

__all__ = [
    "all_magnitudes",
    "bins_sql",
    "magnitudes",
    "placed_sql",
    "sample_sql",
    "totals",
    "totals_beside",
    "totals_sql",
]


MOST = 1 << 53  # whole numbers up to here are floating-point numbers too


def totals(
    select: PrivateSelect,
    components: Sequence[Component],
    run: Run,
    key: str,
    among: Container[tuple[Any, ...]] | None = None,
) -> Totals:
    """Return what all units add up to in every group.

    Parameters
    ----------
    select
        The private aggregation.
    components
        What is added up; those that are bounded alike in one query.
    run
        Executes a query in DuckDB's SQL and gives its columns, masked where NULL.
    key
        A secret, fresh in every query: who knows it knows what is drawn.
    among
        All groups that there are, where these were found before; None where they are those that are found.

    Returns
    -------
    Totals
        Groups in the order of their keys. Where all keys have declared levels every combination of them is there, and
        where groups are public every one of these, with zeros where nobody is.

    Raises
    ------
    ValueError
        If a component has no meaning as units are bounded, or is too large.
    """
    if any(component.largest > MOST for component in components):
        raise ValueError("what a unit adds must be less than 2^53 steps")
    listed = run(listed_sql(select)) if select.selection == "public" else None
    found = Found(select, sum(component.width for component in components), listed)
    places = list(accumulate((component.width for component in components), initial=0))
    for contribution in dict.fromkeys(component.contribution for component in components):
        alike = [(at, one) for at, one in zip(places, components, strict=False) if one.contribution == contribution]
        bounded = select.bounded(contribution)
        together = [one for _, one in alike]
        for place, component in alike:
            if component.binned:
                columns = run(bins_sql(bounded, together, component, key))
                bins = np.ma.getdata(columns["bin"]).astype(np.intp)
                found.add(columns, [(place + bins, columns["v0"])])
        whole = [place for place, component in alike if not component.binned and not component.distinct]
        if whole:
            columns = run(totals_sql(bounded, together, key))
            found.add(columns, [(at, columns[f"v{j}"]) for j, at in enumerate(whole)])
    by_themselves = [(at, one) for at, one in zip(places, components, strict=False) if one.distinct]
    if among is None and select.selection == "threshold" and len(by_themselves) < len(components):
        # A group that no row is drawn in is none: a threshold is for as many groups as a unit has drawn rows in.
        among = found.groups
    for place, component in by_themselves:
        if select.single:
            columns = run(distinct_sql(select, component, key))
            found.add(columns, [(place, columns["v0"])], among)
        else:
            groups, counts = matched(run(matching_sql(select, component, key)))
            found.add(groups, [(place, counts)], among)
    return found.totals()


def totals_beside(
    select: PrivateSelect, components: Sequence[Component], run: Run, key: str, known: tuple[Component, Totals] | None
) -> Totals:
    """Return `totals` where one component, and with it all groups, was added up before; None where none was.

    Raises
    ------
    EngineError
        If there are other groups than before.
    """
    if known is None or known[0] not in components:
        return totals(select, components, run, key)
    at, (_, before) = components.index(known[0]), known
    rows = {group: row for row, group in enumerate(before.keys)}
    found = totals(select, [*components[:at], *components[at + 1 :]], run, key, rows)
    if not rows.keys() >= set(found.keys):
        raise EngineError("the groups of a table changed while it was read")
    numbers = np.zeros((len(rows), found.numbers.shape[1]), dtype=np.int64)
    numbers[[rows[group] for group in found.keys]] = found.numbers
    place = sum(component.width for component in components[:at])
    return Totals(before.keys, np.insert(numbers, [place], before.numbers, axis=1))


def totals_sql(select: PrivateSelect, components: Sequence[Component], key: str) -> str:
    """Return the query that adds up all components with one integer a group: columns `k0`, ..., `v0`, ....

    Parameters
    ----------
    select, components, key
        As for `totals`; components that take queries of their own are left out.
    """
    parts = Parts(select, key)
    inputs = take(parts, components)
    components = [component for component in components if not component.binned and not component.distinct]
    names = [f"v{j}" for j in range(len(components))]
    match select.contribution.kind:
        case "rows":
            draw_rows(parts, inputs, select.contribution.most)
            _add_rows(parts, components)
        case "groups":
            for of in sorted({c.inputs for c in components if statistic_of(c).drawn}):
                inputs = draw_within_groups(parts, inputs, of)
            rows, shared = Columns(select.single), _parts_of(components)
            values = [statistic_of(c).of_group(c, rows, shared) for c in components]
            parts.group(rows.listed)
            if parts.draws_groups:
                draw_groups(parts, list(rows.listed), select.contribution.most)
            parts.choose("bounded", [f"{value} AS {name}" for value, name in zip(values, names, strict=True)])
        case "l2":
            rows = Columns(select.single)
            values = [clipping.of_vector(c, rows) for c in components]
            parts.group(rows.listed)
            weighs = parts.weigh()
            if weighs:
                values = [value if c.once else f"({value}) * w" for c, value in zip(components, values, strict=True)]
            entries = {name: clipping.entry(c, value) for c, name, value in zip(components, names, values, strict=True)}
            alike = {name: entries.pop(name) for c, name in zip(components, names, strict=True) if _is_alike(c, weighs)}
            parts.choose("vectors", [f"{entry} AS {name}" for name, entry in entries.items()])
            _clip(parts, components, alike)
    return parts.finished([f"{whole_sum(name)} AS {name}" for name in names])


def placed_sql(select: PrivateSelect, components: Sequence[Component]) -> str:
    """Return the query of all rows and the places by which those of units with too many are drawn, whatever the key.

    Parameters
    ----------
    select, components
        As for `totals`.
    """
    parts = Parts(select, "")
    place_rows(parts, take(parts, components), select.contribution.most)
    return parts.as_it_is()


def sample_sql(
    select: PrivateSelect, components: Sequence[Component], key: str, placed: str
) -> tuple[str, tuple[str, ...]]:
    """Return the query of the rows that are drawn of each unit, and the columns of their inputs.

    Parameters
    ----------
    select, components, key
        As for `totals`; each of its queries would draw the same rows.
    placed
        Where the rows of `placed_sql` are kept in DuckDB.
    """
    parts = Parts(select, key)
    inputs = take(parts, components)
    draw_placed(parts, placed, inputs, select.contribution.most)
    return parts.as_it_is(), tuple(inputs)


def bins_sql(select: PrivateSelect, components: Sequence[Component], component: Component, key: str) -> str:
    """Return the query that counts values of sampled rows by bin: columns `k0`, ..., `bin`, `v0`.

    Parameters
    ----------
    select, components, key
        As for `totals`; the same rows are drawn for all components.
    component
        The one that has bins.
    """
    parts = Parts(select, key)
    inputs = take(parts, components)
    y = f"y{component.input}"
    bin_of = steps.bin_number(y, component.edges, float(component.high))
    if select.contribution.kind == "rows":
        draw_rows(parts, inputs, select.contribution.most)
        parts.choose("spread", [f"{bin_of} AS bin"], f"{y} IS NOT NULL", unit=False)
    elif select.contribution.kind == "groups":
        assert component.input is not None
        draw_within_groups(parts, inputs, component.inputs)
        last = 1 if select.single else ROWS_SAMPLED
        drawn = f"{y} IS NOT NULL AND turn{component.input} BETWEEN 1 AND {last}"
        parts.choose("binned", [f"CASE WHEN {drawn} THEN {bin_of} END AS bin", f"turn{component.input} AS turn"])
        rows = Columns(select.single)
        names = [rows.largest(f"CASE WHEN turn = {turn} THEN bin END") for turn in range(1, last + 1)]
        parts.group(rows.listed)
        if parts.draws_groups:
            draw_groups(parts, names, select.contribution.most)
        before = parts.hold()
        one = " UNION ALL ".join(f"SELECT {', '.join([*parts.keys, f'{name} AS bin'])} FROM {before}" for name in names)
        parts.add("spread", one)
        parts.choose("spread", ["bin"], "bin IS NOT NULL", unit=False)
    else:
        raise ValueError("bins are no vector that can be clipped to a norm")
    return parts.finished(["CAST(count(*) AS BIGINT) AS v0"], ["bin"])


def distinct_sql(select: PrivateSelect, component: Component, key: str) -> str:
    """Return the query that counts different values by group, where no unit has several rows: columns `k0`, ..., `v0`.

    Parameters
    ----------
    select, key
        As for `totals`.
    component
        The one that counts them.
    """
    assert component.input is not None
    parts = Parts(select.from_rows if select.grouped else select, key)
    (value,) = parts.take_values(component.input)
    parts.keep_listed([value])
    return parts.finished([f"CAST(count(DISTINCT {value}) AS BIGINT) AS v0"])


def take(parts: Parts, components: Sequence[Component]) -> list[str]:
    """Begin with the rows that take part; return the columns of their inputs."""
    components = [component for component in components if not component.distinct]
    inputs = {(c.input, statistic_of(c).present) for c in components if c.input is not None and c.other is None}
    numbers, present = ({i for i, counted in inputs if counted is wanted} for wanted in (False, True))
    pairs = {(c.inputs[i], c.inputs[1 - i]) for c in components if c.other is not None for i in (0, 1)}
    return parts.take(sorted(numbers), sorted(present), sorted(pairs))


def _add_rows(parts: Parts, components: Sequence[Component]) -> None:
    """Turn rows into what they add; a unit that is counted is counted once a group."""
    once = any(c.once for c in components) and not parts.select.single
    values = [f"{statistic_of(c).of_row(c)} AS v{j}" for j, c in enumerate(components)]
    parts.choose("added", values, unit=once)
    if once:
        parts.group({f"v{j}": f"max(v{j})" if c.once else f"sum(v{j})" for j, c in enumerate(components)})


def _parts_of(components: Sequence[Component]) -> dict[int, Fraction]:
    """Return in what the numbers of each input are added up, so that sums and averages of it share one sum."""
    reach: dict[int, Fraction] = {}
    for c in components:
        if statistic_of(c).summed and c.input is not None:
            reach[c.input] = max(reach.get(c.input, Fraction(0)), abs(c.low), abs(c.high))
    return {i: steps.part_for(most) for i, most in reach.items()}


def _is_alike(component: Component, weighs: bool) -> bool:
    """Return whether a unit has the same in each of its groups, and every unit has."""
    return statistic_of(component).alike(component) and (component.once or not weighs)


def _clip(parts: Parts, components: Sequence[Component], alike: Mapping[str, str]) -> None:
    """Scale down each unit's vectors over groups to their norms.

    Of those that have the same in all groups, the SQL is in `alike`, and entries are worked out once a unit.
    """
    vectors = [(c, f"v{j}") for j, c in enumerate(components)]
    value = {name: alike.get(name, name) for _, name in vectors}
    norms = {name: f"n{name}" if c.together is None else f"w{c.together}" for c, name in vectors}
    added: dict[str, str] = {}
    for c, name in vectors:  # what is a part of one vector has one norm
        square, before = clipping.squares(c, value[name]), added.get(norms[name])
        added[norms[name]] = square if before is None else f"{before} + {square}"
    squares = list(added.items())
    factors = [f"{clipping.factor(c, norms[name])} AS f{name}" for c, name in vectors]
    clipped = [f"{clipping.clipped(c, value[name], f'f{name}')} AS {name}" for c, name in vectors]
    if parts.select.single:
        entries = [name for _, name in vectors if name not in alike]
        parts.choose("norms", [*entries, *(f"{square} AS {name}" for name, square in squares)])
        parts.choose("scaled", [*entries, *factors])
        parts.choose("clipped", clipped)
        return
    every, sums = parts.hold(), ", ".join(f"sum({square}) AS {name}" for name, square in squares)
    parts.add("norms", f"SELECT u AS norm_u, {sums} FROM {every} GROUP BY u")
    parts.add("scaled", f"SELECT norm_u, {', '.join(factors)} FROM {parts.last}")  # of units, which are fewer
    if alike:
        once = [one if name in alike else f"f{name}" for one, (_, name) in zip(clipped, vectors, strict=True)]
        parts.add("entries", f"SELECT norm_u, {', '.join(once)} FROM {parts.last}")
        clipped = [name if name in alike else one for one, (_, name) in zip(clipped, vectors, strict=True)]
    chosen = ", ".join([*parts.keys, *clipped])
    parts.add("clipped", f"SELECT {chosen} FROM {every} JOIN {parts.last} ON u = norm_u")
