"""Drilling down costs at most 1.5 times as much with purchases as without, after every question, and at most twice
what buying at once does: as if what is bought in the course of a session had been bought before its first question."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.planner.ski_rental import BOUND, BY_DEGREES

BEFORE = 40  # questions of a drill-down


def asked(sequences, seed, noise, purchases, count=BEFORE, first=()):
    """Return the total after each question, and after each what has been bought by then: variances by keys."""
    sizes = sequences.DRILL_SIZES
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.integers(0, size, 200) for name, size in sizes.items()})
    budget = dpn.Budget(50.0) if noise == "laplace" else dpn.Budget(50.0, 1e-6)
    totals, bought = [], [{}]
    with dpn.Session(budget, ":memory:", purchases=purchases) as session:
        table = session.protect(frame, "t", domain={name: dpn.Range(0, size - 1) for name, size in sizes.items()})
        for keys, variance in first:
            (table.groupby(list(keys)) if keys else table).count(variance=variance).run()
        for keys, where, variance in sequences.drill_down(np.random.default_rng(seed), BEFORE)[:count]:
            text = " and ".join(f"{name} in {list(levels)}" for name, levels in where.items()) or None
            query = table.groupby(list(keys)).count(where=text, variance=variance)
            plan = session._plan(query)
            bought.append({**bought[-1], **(_marginals(plan, noise) if plan.bought else {})})
            query.run()
            totals.append(session.ledger.spent)
    return np.array(totals, dtype=float), bought[1:]


def _marginals(plan, noise):
    whole = [one for one in plan.measurements if one.measurement.where.is_everything]
    times = 2 if noise == "laplace" else 1
    return {tuple(axis.attribute for axis in one.measurement.axes): times * float(one.scale) ** 2 for one in whole}


def check(sequences, seed, noise, count=BEFORE):
    paid, bought = asked(sequences, seed, noise, "auto", count)
    without, _ = asked(sequences, seed, noise, "never", count)
    assert (paid <= float(BY_DEGREES) * without * (1 + 1e-9)).all()
    when = [turn for turn in range(count) if bought[turn] != (bought[turn - 1] if turn else {})]
    assert when  # or nothing would be tested
    ratios = []
    for turn in {when[0], when[-1]}:
        at_once, _ = asked(sequences, seed, noise, "never", turn + 1, bought[turn].items())
        ratios.append(paid[turn] / at_once[-1])
    assert max(ratios) <= BOUND
    return paid[-1] / without[-1]


@pytest.mark.slow
def test_at_most_half_as_much_again_and_twice_what_buying_at_once_costs(sequences):
    check(sequences, 24, "laplace", 14)  # by what questions cost one after another alone, it was at 1.58


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_many_drill_downs(sequences, noise):
    shares = [check(sequences, seed, noise) for seed in range(20, 30)]
    # Precisions add up as Gaussian costs do, so that 40 questions gain nothing yet: 1.015 in the mean of these ten and
    # .991 of ten others. With B = 5/4 it is 1.016 and .969, but after 150 questions .97 where it is .86.
    assert np.mean(shares) <= (1 if noise == "laplace" else 1.05)
