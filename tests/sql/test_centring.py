"""Averages of clipped vectors: how wide a column is declared hardly matters, and answers are as close as is said."""

import math
from contextlib import closing
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.sql.aggregates.centring import centred_by, has_centre, with_centre
from dpnotebook.sql.aggregates.expected import taken_told
from dpnotebook.sql.statement_json import statement_from_json

UNITS = 20_000
KINDS = ("a", "b", "c")
AVERAGES = "SELECT kind, AVG(x) AS x FROM visits GROUP BY kind"
SEEN = 5.5  # standard errors: of some hundred answers none is farther off
NOBODY_SEES = 1.5


def visits(values, seed=3):
    """Return rows of people with one to some thirty of them, whose values have nothing to do with how many."""
    random = np.random.default_rng(seed)
    sizes = np.minimum(random.geometric(0.15, UNITS), 60)
    who = np.repeat(np.arange(UNITS), sizes)
    own, each = random.normal(size=UNITS)[who], random.normal(size=who.size)
    x = values(0.5 * own + math.sqrt(0.75) * each)
    return pd.DataFrame({"who": who, "kind": random.choice(KINDS, who.size, p=[0.6, 0.3, 0.1]), "x": x})


def bell(z):
    return 50 + 5 * z


def skewed(z):
    return np.exp(4 + z)


def asked(frame, domain, epsilon=0.5):
    """Return the averages that a session by itself gives, and by how much they are moved at most, as it says."""
    with closing(dpn.Session(dpn.Budget(4.0, 1e-6), ":memory:", confirm="never")) as session:
        session.protect(frame, "visits", unit="who", domain={"kind": list(KINDS)} | domain)
        release = session.sql(AVERAGES, epsilon=epsilon).run()
        record = session.ledger.get(release.number)
        (select,) = statement_from_json(record.plan["statement"]).selects
        told = taken_told(record.details["selects"][0], select)
        moved = sum(taken[0].most for taken in told if taken)
        return release.frame.sort_values("kind", ignore_index=True), moved


@pytest.mark.parametrize("values", [bell, skewed])
def test_how_wide_a_column_is_declared_hardly_matters(values, same_noise):
    """Noise was in proportion to it: ten and a hundred times as much."""
    frame = visits(values)
    most = float(frame["x"].max())
    errors = [
        asked(frame, {"x": dpn.Bins(0, math.ceil(times * most), count=20_000)})[0]["x_std_error"]
        for times in (1, 10, 100)
    ]
    for error in errors[1:]:
        assert (error < NOBODY_SEES * errors[0]).all()
    by_itself, _ = asked(frame, {})
    assert (by_itself["x_std_error"] < NOBODY_SEES * errors[0]).all()


@pytest.mark.parametrize("domain", [{}, {"x": dpn.Range(0, 100)}, {"x": dpn.Bins(0, 5_000, width=10)}], ids=str)
def test_noise_is_that_of_values_near_their_mean(domain, same_noise):
    """What a person moves is no more than the rows that hardly anybody has more of, times how values are spread."""
    frame = visits(bell)
    answers, _ = asked(frame, domain)
    sizes, spread = frame.groupby("kind").size().to_numpy(), float(frame["x"].std())
    accountant = dpn.Session(dpn.Budget(4.0, 1e-6), ":memory:").ledger.accountant
    one = math.sqrt(accountant.law.variance(accountant.scale(accountant.units(0.5), 1)))
    rows = float(frame.groupby("who").size().quantile(0.999))
    assert (answers["x_std_error"] * sizes < 1.5 * one * rows * spread).all()


@pytest.mark.parametrize("values", [bell, skewed])
def test_answers_are_off_by_noise_and_by_what_is_told(values):
    frame = visits(values)
    exact = frame.groupby("kind")["x"].mean().to_numpy()
    for epsilon in (0.05, 0.2, 1.0):
        answers, told = asked(frame, {"x": dpn.Bins(0, 20_000, width=20)}, epsilon)
        off = np.abs(answers["x"].to_numpy() - exact)
        assert (off < SEEN * answers["x_std_error"] + told).all()


def test_a_centre_lies_between_the_bounds_and_is_told_to_a_part_of_the_spread():
    low, high = Fraction(0), Fraction(10**7)
    for mean, deviation in ((1_234_567.8, 10.1), (-5.0, 3.0), (1e9, 1e3), (0.001, 1e-9)):
        found = with_centre((low, high), mean, deviation)
        assert has_centre((*found, Fraction(7)))
        centre, length = centred_by(found)
        assert low <= centre <= high
        assert abs(centre - Fraction(min(max(mean, 0.0), 1e7))) <= deviation / 32
        assert float(length) == pytest.approx(deviation, rel=1 / 32)


@pytest.mark.parametrize("deviation", [0.0, 5.0, 80.0, math.inf])
def test_bounds_that_are_as_close_have_their_own_middle(deviation):
    bounds = Fraction(0), Fraction(10)
    assert with_centre(bounds, 3.0, deviation) == bounds
    assert centred_by(bounds) == (5, 5)
    assert centred_by((Fraction(7), Fraction(7))) == (7, 1)
