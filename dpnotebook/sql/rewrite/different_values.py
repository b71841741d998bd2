"""How many different values there are, of which each unit stands for a few at most: a matching of units and values.

A value counts if some unit stands for it, and units stand for values so that as many as can be count. One unit more is
worth as many more as it may stand for, and none less, whatever the others have: that is what noise has to hide. Drawing
which values a unit stands for hides no less, and loses values that only few units have.

Over several groups a unit is drawn into a few of them first, by itself, as what is found of one group must not depend
on others. Popular values are counted where the data is: one that more units have than there are values with fewer of
them is never short of one. What is left leaves as numbers that stand for units and values.

Source: Knop and Steinke, Counting distinct elements under person-level differential privacy, NeurIPS 2023, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.contribution_bounding import Parts
from dpnotebook.sql.rewrite.contribution_sampling import draw_values
from dpnotebook.sql.rewrite.magnitudes import counted, units_by_bin
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import PrivateSelect

Columns = Mapping[str, NDArray[Any]]

NUMBERS = ("group_no", "unit_no", "value_no", "places")


def matching_sql(select: PrivateSelect, component: Component, key: str) -> str:
    """Return the query of who may stand for what: columns `k0`, ..., and `NUMBERS`.

    A row without a unit is of a group, and says how many of its values count for certain. Each other row is of a unit
    in a group, a value it has there, and for how many of its values there it may stand; its keys are NULL.

    Parameters
    ----------
    select
        The private aggregation, whose units may have several rows.
    component
        The one that counts different values.
    key
        The secret by which units are drawn into groups.
    """
    assert component.input is not None
    parts = Parts(select.from_rows if select.grouped else select, key)
    (value,), keys = parts.take_values(component.input), parts.keys
    parts.keep_listed([value])
    by = ["u", *keys]
    parts.add("different", f"SELECT DISTINCT {_listed(*by, value)} FROM {parts.last} WHERE {value} IS NOT NULL")
    different, places = parts.hold(), "count(*)"
    if keys:
        draw_values(parts, value, component.largest)
    else:
        places = f"CASE WHEN count(*) < {component.largest} THEN count(*) ELSE {component.largest} END"
    own = [f"{name} AS of_{name}" for name in keys]
    number = "row_number() OVER (ORDER BY u) AS unit_no"
    of_units = _listed("u AS of_u", *own, f"CAST({places} AS BIGINT) AS places", number)
    parts.add("places", f"SELECT {of_units} FROM {parts.last} GROUP BY {_listed(*by)}")
    parts.add(
        "pairs",
        f"SELECT {_listed(*keys, value, 'unit_no', 'places')} FROM {different} JOIN {parts.hold()} "
        f"ON {_same('u', *keys)}",
    )
    pairs = parts.hold()
    holders = _listed(*keys, value, "count(*) AS holders")
    parts.add("holders", f"SELECT {holders} FROM {pairs} GROUP BY {_listed(*keys, value)}")
    within = f"PARTITION BY {_listed(*keys)} ORDER BY holders" if keys else "ORDER BY holders"
    numbered = [f"row_number() OVER ({within}) AS place", "row_number() OVER (ORDER BY holders) AS value_no"]
    own.append(f"{value} AS of_{value}")
    parts.add("ordered", f"SELECT {_listed(*own, 'holders', *numbered)} FROM {parts.last}")
    ordered = parts.hold()
    # Of the values with the most units: each has at least as many as there are values up to it.
    short = "coalesce(max(CASE WHEN holders < place THEN place ELSE 0 END), 0) AS short"
    group = [f"of_{name} AS in_{name}" for name in keys]
    grouped = f" GROUP BY {_listed(*(f'of_{name}' for name in keys))}" if keys else ""
    each = _listed(*group, short, "count(*) AS every", "row_number() OVER (ORDER BY count(*)) AS group_no")
    parts.add("groups", f"SELECT {each} FROM {ordered}{grouped}")
    groups = parts.hold()
    none = "CAST(NULL AS BIGINT)"
    sure = [f"in_{name} AS {name}" for name in keys]
    sure += ["group_no", f"{none} AS unit_no", f"{none} AS value_no", "CAST(every - short AS BIGINT) AS places"]
    rest = [*(f"NULL AS {name}" for name in keys), *NUMBERS]
    inside = _same(*keys, prefix="in_") if keys else "1 = 1"
    parts.add(
        "matched",
        f"SELECT {_listed(*sure)} FROM {groups} UNION ALL SELECT {_listed(*rest)} FROM {pairs} "
        f"JOIN {ordered} ON {_same(value, *keys)} JOIN {groups} ON {inside} WHERE place <= short",
    )
    return parts.shown_as_it_is(NUMBERS)


def values_of_units(select: PrivateSelect, column: int, edges: tuple[int, ...], run: Run) -> NDArray[np.int64]:
    """Return how many units have how many different values in groups, each unit counted once, shape (bins,).

    Parameters
    ----------
    select
        The private aggregation.
    column
        Number of the input column.
    edges
        The least number in each bin, and one behind them; who has more is in the last bin.
    run
        Executes a query.
    """
    return units_by_bin(run(values_of_units_sql(select, column, edges)), 1, len(edges) - 1)[0]


def values_of_units_sql(select: PrivateSelect, column: int, edges: tuple[int, ...]) -> str:
    """Return the query of `values_of_units`: columns `which`, `bin`, `v0`."""
    parts = Parts(select.from_rows if select.grouped else select, "")
    (value,) = parts.take_values(column)
    parts.keep_listed([value])
    by = ["u", *parts.keys]
    parts.add("different", f"SELECT DISTINCT {_listed(*by, value)} FROM {parts.last} WHERE {value} IS NOT NULL")
    parts.add("sizes", f"SELECT u, CAST(count(*) AS DOUBLE) AS n FROM {parts.last} GROUP BY u")
    parts.add("binned", f"SELECT {steps.bin_number('n', tuple(map(float, edges)))} AS bv0 FROM {parts.last}")
    return counted(parts, 1, hold=False)


def matched(columns: Columns, most: int | None = None) -> tuple[Columns, NDArray[np.int64]]:
    """Return the groups of what `matching_sql` found, and how many different values each has.

    Parameters
    ----------
    columns
        What the query found.
    most
        For how many values a unit may stand at most, where that is fewer than the query was for: without groups it
        finds the same rows then.
    """
    of_group = np.ma.getmaskarray(columns["unit_no"])
    groups = {name: column[of_group] for name, column in columns.items()}
    group, unit, value, places = (np.ma.getdata(columns[name])[~of_group].astype(np.int64) for name in NUMBERS)
    counts = np.ma.getdata(groups["places"]).astype(np.int64)
    if not unit.size:
        return groups, counts
    numbers = np.ma.getdata(groups["group_no"]).astype(np.int64)
    order = np.argsort(numbers)
    (_, first, units), (_, of_value, values) = (
        np.unique(numbers, return_index=True, return_inverse=True) for numbers in (unit, value)
    )
    places = places[first] if most is None else np.minimum(places[first], most)
    # Nobody else can stand for a value of one unit: it does first, as long as it may stand for more.
    single = np.bincount(values)[values] == 1
    own = np.minimum(np.bincount(units[single], minlength=first.size), places)
    in_group = order[np.searchsorted(numbers, group, sorter=order)]
    np.add.at(counts, in_group[first], own)
    places = places - own
    rest = ~single & (places[units] > 0)
    if rest.any():
        reached = _reached(units[rest], values[rest], places, of_value.size)
        np.add.at(counts, in_group[of_value[reached]], 1)
    return groups, counts


def _reached(
    units: NDArray[np.int64], values: NDArray[np.int64], places: NDArray[np.int64], every: int
) -> NDArray[np.int64]:
    """Return the values that units stand for, as many as can be.

    Parameters
    ----------
    units, values
        Pairs of numbers of units, and of values that these have.
    places
        For how many each unit may stand.
    every
        How many values there are.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    many, behind = places.size, places.size + every
    start, end = behind, behind + 1  # from the start to units, from these to values, from these to the end
    tails = np.concatenate([np.full(many, start), units, many + np.arange(every)])
    heads = np.concatenate([np.arange(many), many + values, np.full(every, end)])
    passing = np.concatenate([places, np.ones(units.size + every, dtype=np.int64)])
    network = csr_array((passing.astype(np.int32), (tails, heads)), shape=(end + 1, end + 1))
    flow = maximum_flow(network, start, end).flow.tocoo()
    return np.asarray(flow.row[(flow.col == end) & (flow.data > 0)] - many)


def _listed(*columns: str) -> str:
    return ", ".join(columns)


def _same(*columns: str, prefix: str = "of_") -> str:
    """Return the condition that columns are the same as those of another part, NULL being the same as NULL."""
    return " AND ".join(f"{column} IS NOT DISTINCT FROM {prefix}{column}" for column in columns)
