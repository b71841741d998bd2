"""Drilling down in a table of 10 x 2 x 4 x 6 cells, through real sessions, beside asking every question by itself."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

UNITS = 10**12
SURE = 1e-3  # what rounding up to four figures may add to a price


def drill(sequences, seed, noise):
    """Return after every question what was paid and what all would have cost one by one, in units, and the plans.

    One by one, disjoint questions share their cost: what counts is the maximum over cells of the sum.
    """
    rng = np.random.default_rng(seed)
    sizes = sequences.DRILL_SIZES
    frame = pd.DataFrame({name: rng.integers(0, size, 500) for name, size in sizes.items()})
    budget = dpn.Budget(epsilon=50) if noise == "laplace" else dpn.Budget(epsilon=50, delta=1e-6)
    session = dpn.Session(budget=budget, ledger=":memory:")
    session.protect(frame, "t", domain={name: dpn.Range(0, size - 1) for name, size in sizes.items()})
    spend, paid, alone, plans = np.zeros(tuple(sizes.values())), [], [], []
    for keys, where, variance in sequences.drill_down(np.random.default_rng(seed)):
        text = " and ".join(f"{name} in {list(levels)}" for name, levels in where.items()) or None
        query = frame.dp.groupby(list(keys)).count(where=text, variance=variance)
        plans.append(session._plan(query))
        query.run()
        inside = np.ix_(*(where.get(name, range(size)) for name, size in sizes.items()))
        spend[inside] += np.sqrt(2 / variance) if noise == "laplace" else 1 / variance
        paid.append(session.ledger.spent)
        alone.append(spend.max() * UNITS)
    session.close()
    return np.array(paid), np.array(alone), plans


def check_prefixes(paid, alone, plans):
    """Never behind by more than the price of one purchase; dearer than alone only where the plan says that it buys."""
    bought = [plan.cost.units for plan in plans if plan.bought]
    assert (paid <= alone * (1 + SURE) + max(bought, default=0)).all()
    for plan in plans:
        if plan.without_reuse is not None and not plan.bought:
            assert plan.cost.units <= plan.without_reuse.units * (1 + SURE)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [1, 9])
def test_drilling_down_costs_less_than_half(sequences, seed):
    paid, alone, plans = drill(sequences, seed, "laplace")
    assert paid[-1] <= 0.40 * alone[-1]
    assert not plans[0].bought  # the first question never pays for what may come
    check_prefixes(paid, alone, plans)


@pytest.mark.slow
def test_drilling_down_costs_less_than_half_in_the_mean(sequences):
    # It was 0.39 while a session might cost twice what it does without purchases, at some questions; now 1.5 times.
    shares = []
    for seed in range(12):
        paid, alone, plans = drill(sequences, seed, "laplace")
        check_prefixes(paid, alone, plans)
        shares.append(paid[-1] / alone[-1])
    assert np.mean(shares) <= 0.43


@pytest.mark.slow
def test_drilling_down_with_gaussian_noise(sequences):
    # Shares of mu^2. Precisions add up as costs do, so that there is less to gain: with all questions known from the
    # start, marginals and the questions' own counts would still cost 0.29 and 0.37 of it in the two looked at.
    shares = []
    for seed in range(8):
        paid, alone, plans = drill(sequences, seed, "gaussian")
        check_prefixes(paid, alone, plans)
        shares.append(paid[-1] / alone[-1])
    assert np.mean(shares) <= 0.60
