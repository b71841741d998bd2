"""Bounds of values are chosen anew for the noise of each statement, from a histogram that is measured once."""

import json
import math
from contextlib import closing
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from private_selects import aggregate, fixed_noise
from scipy.integrate import quad
from scipy.stats import gamma, norm

import dpnotebook as dpn
from dpnotebook.planner.plan import KEPT
from dpnotebook.privacy.laws import LAPLACE, law_of
from dpnotebook.sql.aggregates.bounds import found, magnitude_edges, surely_between
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram
from dpnotebook.sql.aggregates.norms import spread_of_run
from dpnotebook.sql.aggregates.value_range import Trimming, located, range_edges
from dpnotebook.sql.value_histogram import ValueHistogram

TAILS = np.random.default_rng(1).lognormal(4, 1.0, 40_000)
pytestmark = pytest.mark.usefixtures("same_noise")


def opened(**budget):
    session = dpn.Session(dpn.Budget(1000.0, **({"delta": 1e-6} | budget)), ":memory:", confirm="never")
    session.protect(pd.DataFrame({"x": TAILS}), "t")
    return session


def asked(session, name, epsilon):
    return session.sql(f"SELECT {name}(x) AS m FROM t", epsilon=epsilon, fresh=True)


def error(asked_for, bounds, noise):
    """Return the root mean squared error with bounds, knowing all rows; noise is that of a sum over bounds 2 apart."""
    low, high = bounds
    kept = TAILS.clip(low, high)
    if asked_for == "SUM":
        return math.hypot((kept - TAILS).sum(), noise * max(high, -low, 0.0))
    return math.hypot((kept - TAILS).mean(), noise * (high - low) / 2 / TAILS.size)


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["average", "sum"])
def test_they_are_near_the_best_in_hindsight_for_any_noise(kind):
    """From a histogram with hardly any noise, for noise on a sum from 1 to 10,000 times that of a value."""
    edges = range_edges((Fraction(10), Fraction(120)), (Fraction(0), Fraction(20_000)))
    counts = np.bincount(
        (np.searchsorted(edges, TAILS, side="right") - 1).clip(0, edges.size - 2), minlength=edges.size - 1
    )
    told = ValueHistogram((Fraction(10), Fraction(120)), tuple(edges), tuple(map(int, counts)), 1, 0.5)
    wanted, ends, before = "SUM" if kind == "sum" else "AVG", np.quantile(TAILS, np.linspace(0.3, 1, 4_000)), math.inf
    for noise in np.geomspace(1, 10_000, 9):
        bounds, cut = told.bounds(aggregate(kind), float(noise))
        best = min(error(wanted, (0.0, high), noise) for high in ends)
        assert error(wanted, bounds, noise) < 1.1 * best
        assert bounds[1] <= before
        assert cut.known
        before = bounds[1]
    assert before < TAILS.max() / 20


@pytest.mark.one_in(4)
@pytest.mark.parametrize("budget", [{}, {"delta": 0.0}], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("asked_for", ["AVG", "SUM"])
def test_they_suit_the_noise_of_a_statement_whatever_found_them(asked_for, budget):
    """Those of a price 160 times as high would be far off."""
    with closing(opened(**budget)) as session:
        asked(session, asked_for, 8.0).run()
        found = {}
        for epsilon in (0.05, 8.0):
            plan = asked(session, asked_for, epsilon).plan
            assert plan.profiles == ()
            (clip,) = plan.clips[0].values()
            low, high = found[epsilon] = tuple(map(float, clip.bounds))
            noise = plan.std_errors[0] / (high if asked_for == "SUM" else (high - low) / 2 / TAILS.size)
            if epsilon == 0.05:
                few = noise
        assert few > 90 * noise
        assert error(asked_for, found[8.0], few) > 2 * error(asked_for, found[0.05], few)


def test_a_statement_is_clipped_to_what_its_card_says():
    with closing(opened()) as session:
        asked(session, "AVG", 20.0).run()
        query = asked(session, "AVG", 0.1)
        (clip,) = query.plan.clips[0].values()
        low, high = map(float, clip.bounds)
        release = query.run()
        said = [note for note in release.notes if "values are taken to be between" in note]
        assert f"{high:,.0f}"[:2] in said[0]
        wide = [note for note in asked(session, "AVG", 20.0).plan.warnings if "values are taken to be between" in note]
        assert wide[0].split(";")[0] not in said[0]
        assert abs(release.value - TAILS.clip(low, high).mean()) < 6 * release.frame["m_upper"][0]


def test_an_error_is_of_noise_and_of_what_bounds_take():
    """Bounds that follow a price would cut off nearly all for the least of them, if nothing said what they take."""
    with closing(opened()) as session:
        asked(session, "AVG", 20.0).run()
        for most in (0.5, 4.0, 30.0):
            query = session.sql("SELECT AVG(x) AS m FROM t", error=most, fresh=True)
            assert 0.98 * most < query.plan.error <= most
            release = query.run()
            low, high = release.interval
            assert (high - low) / 2 <= KEPT * most
            assert abs(TAILS.mean() - release.value) <= 1.5 * (high - low)  # three times as far as in 95 of 100


HISTOGRAMS = [
    ValueHistogram(None, scale=2.0),
    ValueHistogram((Fraction(1, 3), Fraction(7)), (0.0, 1e-300, 9.5), (2**60 + 1, -5), 2**20, 1 / 3, 1.25),
]


@pytest.mark.parametrize("told", HISTOGRAMS)
def test_it_is_recorded_exactly(told):
    assert ValueHistogram.from_json(json.loads(json.dumps(told.to_json()))) == told


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 32, 128, 384])
@pytest.mark.parametrize("level", [5.2, 6.0, 6.36])
def test_runs_of_laplace_noise_pass_as_seldom_as_is_said(width, level):
    """Their sum is the difference of two of gamma's law: exact, from the integral over one of them."""
    least = level * spread_of_run(width, LAPLACE.tail_ratio) * math.sqrt(2)  # of draws of scale 1

    def both(one):
        return gamma.pdf(one, width) * gamma.sf(one + least, width)

    passed, _ = quad(both, 0, 30 * width + 60, epsabs=0, epsrel=1e-6, limit=400, points=[width / 2, width, 2 * width])
    assert passed <= 1.02 * norm.sf(level)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_fine_bins_tell_of_values_in_many_of_them(law):
    """Without delta they never did: a run of a hundred bins was to be as far out as one bin is."""
    counts = np.histogram(np.random.default_rng(1).normal(50, 20, 5_000), bins=1536, range=(-256, 256))[0]
    noisy = counts + fixed_noise()(law, Fraction(26), counts.size)
    spread = 26 * (1 if law == "gaussian" else math.sqrt(2))
    (low, high), finer = located(noisy, spread, (Fraction(-256), Fraction(256)), 5_000, law_of(law).tail_ratio)
    assert -60 < low < 35
    assert 65 < high < 160
    assert not finer


def test_levels_beside_those_that_are_found_are_not_cut_off():
    """Answers from 1 to 5 of 320 people, of which 3 and 4 stand out by themselves, without any noise."""
    edges = range_edges((Fraction(2), Fraction(8)), (Fraction(-16), Fraction(96)))
    counts = np.histogram(np.repeat([1, 2, 3, 4, 5], [26, 49, 97, 103, 47]), edges)[0]
    (low, high), _ = Trimming.of_told(NoisyHistogram(counts, 13.7, edges), "means").at(13.0)
    assert low <= 2
    assert high >= 5


def test_one_value_is_not_taken_to_have_others_beside_it_by_noise():
    """All have about a million, and a bin of noise is taken in: bounds were from minus two millions then."""
    edges, scale = magnitude_edges(), Fraction(20)
    counts = np.zeros(edges.size - 1)
    counts[np.searchsorted(edges, 1e6) - 1] = 5_000
    counts[np.searchsorted(edges, -1.5e6) - 1] = 160
    assert found(counts, scale, "laplace")[0] == -(2**21)
    assert surely_between(counts, scale, "laplace") == (2**19, 2**20)
