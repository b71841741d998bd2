"""Bounds of the values of rows that nobody wrote: found where values are, once, and never picked from noise."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from private_selects import aggregate, fixed_noise, select

import dpnotebook as dpn
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.privacy.laws import law_of
from dpnotebook.sql import value_histogram
from dpnotebook.sql.aggregates.bounds import magnitude_edges
from dpnotebook.sql.aggregates.budget_split import of_range
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram
from dpnotebook.sql.aggregates.value_range import Trimming, range_edges

pytestmark = pytest.mark.usefixtures("same_noise")  # what becomes of noisy histograms, and not how they were drawn

ROWS = 6_000
RANDOM = np.random.default_rng(17)
COLUMNS = {
    "years": RANDOM.integers(1930, 2015, ROWS).astype(float),
    "million": 1e6 + RANDOM.normal(0.0, 10.0, ROWS),
    "negative": -RANDOM.gamma(2.0, 50.0, ROWS),
    "bimodal": np.where(RANDOM.random(ROWS) < 0.4, RANDOM.normal(10, 1, ROWS), RANDOM.normal(1000, 20, ROWS)),
    "lognormal": RANDOM.lognormal(3.0, 0.7, ROWS),
}
TRUTH = {"AVG": np.mean, "STDDEV": np.std, "SUM": np.sum, "MEDIAN": np.median}
# Parts of the deviation of the values (a sum has that of as many values) that standard errors hardly ever pass. How
# far the squares of a heavy tail reach is told by few values: bounds for them differ most.
EPSILON = 2.0
MOST = {("SUM", "years"): 0.1, ("SUM", "million"): 120.0, ("STDDEV", "lognormal"): 0.8, ("STDDEV", "negative"): 0.1}
USUAL = 0.04


def opened(column, delta, rows=ROWS):
    session = dpn.Session(budget=dpn.Budget(epsilon=50.0, delta=delta), ledger=":memory:")
    frame = pd.DataFrame({"x": COLUMNS[column][:rows], "ward": np.arange(rows) % 2})
    session.protect(frame, "t", domain={"ward": dpn.Range(0, 1)})
    return session


@pytest.mark.one_in(24)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
@pytest.mark.parametrize("asked", TRUTH)
@pytest.mark.parametrize("column", COLUMNS)
def test_bounds_are_found_where_values_are(column, asked, delta):
    values = COLUMNS[column]
    deviation = np.std(values) * (ROWS if asked == "SUM" else 1)
    with opened(column, delta) as session:
        found = session.sql(f"SELECT {asked}(x) AS a FROM t", epsilon=EPSILON).run()
    (one,) = found.frame.itertuples(index=False)
    most = MOST.get((asked, column), USUAL) * deviation
    assert 0 < one.a_std_error <= most
    assert abs(one.a - TRUTH[asked](values)) <= 8 * one.a_std_error + most
    assert "values are taken to be between" in found.notes[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
def test_bounds_are_bought_once(delta):
    with opened("million", delta) as session:
        first = session.sql("SELECT AVG(x) AS a FROM t", epsilon=EPSILON)
        assert math.isnan(first.plan.error)  # what is not known cannot be told
        first.run()
        later = session.sql("SELECT AVG(x) AS a FROM t WHERE ward = 0", epsilon=EPSILON)
        again = session.sql("SELECT AVG(x) AS b, ward FROM t GROUP BY ward", epsilon=EPSILON)
        assert later.plan.clips == ({},)  # of other rows
        assert set(again.plan.clips[0]) == {0}
        assert math.isfinite(again.plan.parts[0].half_width)
        release = again.run()
        delivered = float((release.frame["b_upper"] - release.frame["b_lower"]).max() / 2)
        assert delivered <= 1.2 * again.plan.parts[0].half_width
        (shown,) = session.profile().itertuples(index=False)
        assert 999_000 < shown.low < 1e6 < shown.high < 1_001_000


@pytest.mark.one_in(6)
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "gaussian"])
@pytest.mark.parametrize("column", ["million", "lognormal"])
def test_what_noise_hides_is_not_found(column, delta):
    """Of twenty rows nothing is told, at most that there is none: never bounds that noise has picked."""
    with opened(column, delta, rows=20) as session:
        for asked in ("AVG", "SUM", "STDDEV", "MEDIAN"):
            release = session.sql(f"SELECT {asked}(x) AS a FROM t", epsilon=0.2).run()
            assert release.frame["a"].isna().all()
            assert "not found" in " ".join(release.notes)


def test_what_is_cut_off_is_hardly_ever_more_than_is_said():
    """Of years, whose last bins hold fewer: with Laplace noise one in six answers said 0 where it was twice that."""
    noise, runs, scale = "laplace", 300, Fraction(32)
    law = law_of(noise)
    spread = math.sqrt(law.variance(scale))
    values = np.random.default_rng(4).integers(1930, 2021, 5_000).astype(float)
    edges = range_edges((Fraction(1924), Fraction(2032)), (Fraction(0), Fraction(24_576)))
    exact = np.histogram(values, edges)[0]
    more, large = 0, 0
    for drawn in fixed_noise()(noise, scale, exact.size * runs).reshape(runs, -1):
        (low, high), taken = Trimming.of_told(NoisyHistogram(exact + drawn, spread, edges, law.tail_ratio), "means").at(
            2.0
        )
        moved = abs(values.clip(float(low), float(high)).mean() - values.mean())
        error = float(high - low) / 2 * 2.0 / values.size  # of the noise on the mean
        large += moved > error
        more += taken.most < moved - error / 4
    assert 0 < large <= runs / 50  # bounds that take more than the noise are rare themselves
    assert more <= runs / 50


NORMALS = {"half below zero": (0.0, 10.0), "some below zero": (20.0, 20.0), "few below zero": (50.0, 20.0)}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("column", NORMALS)
def test_what_is_cut_off_of_columns_that_pass_zero_is_hardly_ever_more_than_is_said(column, law, monkeypatch):
    """Of those on one side of zero hidden from the histogram of magnitudes: means were off by 1.6, and 0.1 was said.

    What is said is to hold in nine of ten: that is what `MAY` means.
    """
    runs, beyond, values = 60, 0, np.random.default_rng(8).normal(*NORMALS[column], 5_000)

    def counted(select, column, bins, edges, run):
        places = magnitude_edges() if edges is None else np.linspace(*edges, bins + 1) if len(edges) == 2 else edges
        at = np.searchsorted(places, values, side="right") - 1
        return np.bincount(at.clip(0, bins - 1), minlength=bins)

    monkeypatch.setattr(value_histogram.histograms, "values", counted)
    accountant = accountant_for(dpn.Budget(0.5, 1e-6, noise=law))
    costs, draw = of_range(accountant.units(0.499) // 2), fixed_noise()
    noise = math.sqrt(accountant.law.variance(accountant.scale(accountant.units(0.499) * 3 // 4, 1)))
    chosen = replace(select(aggregate("average"), kind="rows"), single=True)
    for _ in range(runs):
        told, _ = value_histogram.measured_values(chosen, chosen.aggregates[0], accountant, costs, None, draw)
        (low, high), taken = told.bounds(chosen.aggregates[0], noise)
        moved = abs(values.clip(float(low), float(high)).mean() - values.mean())
        beyond += taken.most < moved - float(high - low) / 2 * noise / values.size / 4
    assert beyond <= runs / 5
