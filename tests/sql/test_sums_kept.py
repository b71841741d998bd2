"""Sums that are clipped to a norm, read off what was added up of each unit and group: as read off rows, and bounded."""

from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from added_up import SECRET, component, connect, select

from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.rewrite.kept import kept_for
from dpnotebook.sql.select import Aggregate

SUM, AVERAGE = Aggregate("sum", "s", 0), Aggregate("average", "m", 0)
STEPS = {
    "usual": Fraction(1, 4),
    "whole": Fraction(8),
    "finer than is kept": Fraction(1, 2**40),
    "huge": Fraction(2**70),
}
NASTY = [0.0, 0.1, -0.1, 1 / 3, 2.5, -7.25, 1e5, -1e9, 1e17, -1e17, 1e300, -1e300, 5e-324, 1e-13, 2.0**69, None]


def keeping(run):
    """Return how DuckDB keeps the rows of a query."""
    numbers = count()

    @contextmanager
    def keep(query, how):
        name = f"kept_{next(numbers)}"
        run(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")
        yield name

    return keep


def rows(seed, values=NASTY, units=12):
    random = np.random.default_rng(seed)
    size = 90
    return {
        "u": [f"unit {i}" for i in random.integers(0, units, size)],
        "k0": [f"group {i}" for i in random.integers(0, 5, size)],
        "x0": [values[i] for i in random.integers(0, len(values), size)],
    }


def clipped(step, steps=400):
    """Return components of sums that are clipped to so many steps, in one layer and beyond another one."""
    one = component("sum", 0, steps * step, step, steps)
    return [one, replace(one, high=2 * one.high, beyond=steps)]


def added_up(table, step, aggregates=(SUM,)):
    """Return what is kept of units and groups, and the totals as they are read off that and off rows, by group."""
    run, asked = connect(table), select(kind="l2", aggregates=aggregates)
    with kept_for(asked, keeping(run)) as kept:
        return kept.grouped, *(totals(one, clipped(step), run, SECRET) for one in (kept, asked))


def read_off_kept(table, step):
    """Return the totals as they are read off what is kept, by group."""
    run, asked = connect(table), select(kind="l2", aggregates=(SUM,))
    with kept_for(asked, keeping(run)) as kept:
        return totals(kept, clipped(step), run, SECRET)


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_adds_up_to_the_same_as_rows_do(step, seed):
    _, kept, read = added_up(rows(seed), step)
    assert kept.keys == read.keys
    assert kept.numbers.tolist() == read.numbers.tolist()
    assert np.any(kept.numbers)


def test_lists_of_values_are_kept_where_bounds_of_them_are_to_be_found():
    assert not any(column.startswith("list(") for column in added_up(rows(0), Fraction(1, 4))[0])
    both = added_up(rows(0), Fraction(1, 4), (SUM, AVERAGE))
    assert any(column.startswith("list(") for column in both[0])
    assert both[1].numbers.tolist() == both[2].numbers.tolist()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("seed", range(6))
def test_no_unit_changes_the_exact_totals_by_more_than_noise_is_paid_for(step, seed):
    table = rows(10 + seed)
    with_all = read_off_kept(table, step)
    longest = 0.0
    for unit in sorted(set(table["u"])):
        others = [i for i, one in enumerate(table["u"]) if one != unit]
        without = read_off_kept({name: [column[i] for i in others] for name, column in table.items()}, step)
        known = dict(zip(without.keys, without.numbers, strict=True))
        change = np.array([row - known.get(key, 0) for key, row in zip(with_all.keys, with_all.numbers, strict=True)])
        lengths = np.sqrt((change.astype(float) ** 2).sum(axis=0))
        assert (lengths <= 400).all()
        longest = max(longest, lengths.max())
    assert longest > 390  # those who are clipped have all of it
