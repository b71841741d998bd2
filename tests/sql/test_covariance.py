"""Covariances and correlations: what they are of, right without noise, and with noise as far off as they say."""

import contextlib
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from private_selects import fixed_noise, pair, plan, select, totals

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget
from dpnotebook.sql.aggregates.bounds import find_bounds, magnitude_edges
from dpnotebook.sql.aggregates.budget_split import found_with, shares
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.expected import expected, unit
from dpnotebook.sql.aggregates.function import KnownGroups
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.noising import exact, noisy
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.bounded_sums import Totals
from dpnotebook.sql.statement import Relation
from dpnotebook.sql.statement_json import statement_from_json, statement_to_json
from dpnotebook.testing import exact_session

GAUSSIAN = accountant_for(Budget(1.0, 1e-6))
LAPLACE = accountant_for(Budget(1.0, 1e-6, noise="laplace"))
BOTH = pytest.mark.parametrize("accountant", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
DRAWS = 4_000


def table(rows=3000, seed=0):
    """Return rows of people: two columns that vary together, with values missing in either and beyond all bounds."""
    rng = np.random.default_rng(seed)
    x = rng.normal(40, 15, rows)
    y = 0.5 * x + rng.normal(5, 10, rows)
    x[rng.random(rows) < 0.1], y[rng.random(rows) < 0.1] = np.nan, np.nan
    x[:3], y[3:6] = (math.inf, -math.inf, 1e300), (math.inf, -math.inf, -1e300)
    kind = np.where(rng.random(rows) < 0.3, "a", "b")
    return pd.DataFrame({"who": rng.integers(0, 900, rows), "kind": kind, "x": x, "y": y})


def by_numpy(frame, low=0.0, high=80.0, least=-10.0, most=60.0):
    """Return the covariance, that of a sample, and the correlation of clamped pairs without missing values."""
    pairs = frame.dropna(subset=["x", "y"])
    x, y = pairs.x.clip(low, high), pairs.y.clip(least, most)
    return np.cov(x, y, bias=True)[0, 1], np.cov(x, y)[0, 1], np.corrcoef(x, y)[0, 1]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("surface", ["named", "anon", "clamped"])
def test_without_noise_they_are_numpys(monkeypatch, noise, surface):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = table()
    few = frame.groupby("who").cumcount() < 5  # of so many rows of a unit in a group all are drawn
    frame = frame[few]
    calls = {
        "named": "{}(x, y, contribution_bounds_per_row => ((0, 80), (-10, 60)))",
        "anon": "ANON_{}(x, y, 0, 80, -10, 60)",
        "clamped": "ANON_{}(x CLAMPED BETWEEN 0 AND 80, y CLAMPED BETWEEN -10 AND 60)",
    }[surface]
    sample = "COVAR_SAMP(x, y, contribution_bounds_per_row => ((0, 80), (-10, 60)))"
    limit = "rows" if surface == "named" else "groups"
    head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 5, max_{limit}_contributed = 9)"
    with contextlib.closing(exact_session(dpn.Budget(60.0, 1e-5, noise=noise))) as session:
        session.protect(frame, "t", unit="who", max_rows=9, domain={"kind": ["a", "b"]})
        asked = f"{calls.format('COVAR_POP')} AS c, {sample} AS s, {calls.format('CORR')} AS r"
        found = session.sql(f"{head} {asked} FROM t").run().frame
        groups = session.sql(f"{head} kind, {asked} FROM t GROUP BY kind ORDER BY kind").run().frame
    for row, mine in [(found.iloc[0], frame), *((groups.iloc[i], frame[frame.kind == k]) for i, k in enumerate("ab"))]:
        assert (row.c, row.s, row.r) == pytest.approx(by_numpy(mine), rel=1e-5)
        assert row.c_lower < row.c < row.c_upper
        assert row.r_lower < row.r < row.r_upper


def test_values_that_are_all_alike_vary_with_nothing():
    """Not even by rounding: products are those of the rounded values."""
    for accountant in (GAUSSIAN, LAPLACE):
        chosen = select(pair("covariance", 0, 100, 0, 1), pair("correlation", 0, 100, 0, 1), selection="all")
        measured = plan(chosen, accountant, 100 * UNITS)
        found = totals(measured, [{"a": [(99.997, x)]} for x in np.linspace(0, 1, 3000)])
        covariance, correlation = estimate(measured, exact(measured, found), 0.95)
        assert abs(covariance.value[0]) < 1e-6
        assert (correlation.lower[0], correlation.upper[0], correlation.std_error[0]) == (-1, 1, 1)


def spread(rows, correlation, seed=1, scale=12.0):
    """Return pairs of one unit each, between 0 and 100, and what numpy says of them."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, rows))
    pairs = np.stack([55 + scale * x, 40 + scale * (correlation * x + math.sqrt(1 - correlation**2) * z)])
    pairs = pairs.clip(0, 100)
    return [{"a": [one]} for one in pairs.T], np.cov(*pairs, bias=True)[0, 1], np.corrcoef(*pairs)[0, 1]


def many(measured, units, times):
    found = totals(measured, units)
    return Totals(tuple((i,) for i in range(times)), np.repeat(found.numbers, times, axis=0))


@pytest.mark.one_in(12)
@BOTH
@pytest.mark.parametrize("kind", ["groups", "rows"])
@pytest.mark.parametrize("rows", [5, 80, 2500])
@pytest.mark.parametrize("correlation", [0.0, 0.8, -0.97])
def test_intervals_hold_in_groups_of_any_size(accountant, kind, rows, correlation):
    units, covariance, truth = spread(rows, correlation)
    asked = pair("covariance", 0, 100, 0, 100), pair("correlation", 0, 100, 0, 100)
    measured = plan(select(*asked, kind=kind, most=2, selection="all"), accountant, accountant.units(6.0))
    answers = estimate(measured, noisy(measured, many(measured, units, DRAWS), fixed_noise()), 0.9)
    for answer, exactly in zip(answers, (covariance, truth), strict=True):
        assert np.all((answer.lower <= answer.value + 1e-9) & (answer.value <= answer.upper + 1e-9))
        assert np.all(np.isfinite(answer.std_error))
        covered = np.mean((answer.lower <= exactly + 1e-3) & (exactly - 1e-3 <= answer.upper))
        assert covered > 0.9 - 4.5 * math.sqrt(0.09 / DRAWS)


@pytest.mark.one_in(16)
@BOTH
@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.9])
def test_standard_errors_of_large_groups_are_those_of_the_noise(accountant, correlation):
    units, covariance, truth = spread(4000, correlation, scale=20.0)
    asked = pair("covariance", 0, 100, 0, 100), pair("correlation", 0, 100, 0, 100)
    measured = plan(select(*asked, selection="all"), accountant, accountant.units(30.0))
    answers = estimate(measured, noisy(measured, many(measured, units, 30_000), fixed_noise()), 0.95)
    for answer, exactly in zip(answers, (covariance, truth), strict=True):
        spread_of = answer.value.std()
        assert math.sqrt(np.mean(answer.std_error**2)) == pytest.approx(spread_of, rel=0.03)
        assert abs(answer.value.mean() - exactly) < 0.05 * spread_of
        covered = np.mean((answer.lower <= exactly) & (exactly <= answer.upper))
        assert 0.94 < covered < 0.99
        assert np.median(answer.upper - answer.lower) < 2 * 1.96 * spread_of * 1.25


@pytest.mark.one_in(2)
@BOTH
def test_expected_errors_are_those_of_usual_pairs(accountant):
    """Of pairs that vary independently by a quarter of the way to a bound, about means half-way to one."""
    rows = 4000
    away = np.random.default_rng(4).uniform(-1, 1, (rows, 2)) * 12.5 * math.sqrt(3)
    units = [{"a": [one]} for one in away + np.array([25, 75])]
    asked = pair("covariance", 0, 100, 0, 100), pair("correlation", 0, 100, 0, 100)
    chosen = select(*asked, selection="all")
    measured = plan(chosen, accountant, accountant.units(30.0))
    answers = estimate(measured, noisy(measured, many(measured, units, 20_000), fixed_noise()), 0.95)
    for said, answer in zip(
        expected(measured, 0.95, [KnownGroups.of(np.array([float(rows)]))] * 2), answers, strict=True
    ):
        assert said.std_error == pytest.approx(answer.value.std(), rel=0.05)
        assert "covariances and correlations are those of a group of 4,000 pairs" in said.note
    hardly = expected(plan(chosen, accountant, UNITS // 1000), 0.95, [KnownGroups.of(np.array([3.0]))] * 2)
    assert [said.half_width for said in hardly] == [2500.0, 1.0]
    assert [unit(chosen, i, {}) for i in (0, 1)] == ["covariance times y", "correlation"]


@BOTH
def test_groups_with_next_to_nobody_answer_something_between_the_bounds(accountant):
    asked = pair("covariance", 10, 20, 0, 4), pair("correlation", 10, 20, 0, 4)
    measured = plan(select(*asked, selection="all"), accountant, UNITS // 100)
    nobody = Totals(tuple((i,) for i in range(300)), np.zeros((300, measured.width), dtype=np.int64))
    for answer, most in zip(estimate(measured, noisy(measured, nobody, fixed_noise()), 0.95), (10, 1), strict=True):
        for values in (answer.value, answer.lower, answer.upper, answer.std_error):
            assert np.all(np.isfinite(values))
            assert np.all(abs(values) <= most * (1 + 1e-9))
        assert np.mean(answer.upper - answer.lower) > 1.6 * most
    empty = Totals((), np.zeros((0, measured.width), dtype=np.int64))
    assert [answer.value.shape for answer in estimate(measured, noisy(measured, empty), 0.95)] == [(0,)] * 2


@BOTH
def test_what_is_measured_survives_json_and_says_nothing_new_of_single_columns(accountant):
    asked = pair("covariance", 0, 1, -2, 3), pair("correlation"), pair("correlation", 0, 1)
    measured = plan(select(*asked, selection="all"), accountant, UNITS)
    again = Measuring.from_json(json.loads(json.dumps(measured.to_json())))
    assert again == measured
    assert [part.bounds for part in again.parts] == [(0, 1, -2, 3), None, None]
    written = measured.to_json()["components"]
    assert all(entry["other"] for entry in written)
    alone = plan(select(pair("variance", 0, 1, other=None)), accountant, UNITS).to_json()["components"]
    assert not any("other" in entry for entry in alone)


RELATIONS = {
    "t": Relation(
        "t", {"u": "integer", "x": "number", "y": "number", "d": "integer", "s": "text"}, unit="u", max_rows=4,
        domain=dpn.domain.Domain({"d": dpn.Range(0, 9)}),
    )
}  # fmt: skip


def test_each_column_has_its_own_bounds_declared_or_found():
    statement = analyse("SELECT CORR(d, x) AS r, CORR(x, d) AS b, COVAR_POP(x, y), VAR_POP(x) FROM t", RELATIONS)
    (chosen,) = statement.selects
    first, second, third, variance = chosen.aggregates
    assert (first.bounds, first.other.bounds) == ((0, 9), None)
    assert (second.bounds, second.other.bounds) == (None, (0, 9))
    assert first.other.input == second.input == third.input == variance.input == 1
    assert [one.name for one in chosen.aggregates] == ["r", "b", "covar_x_y", "var_x"]
    assert any("d in CORR(d, x) is bounded by 0 and 9, as declared" in note for note in chosen.notes)
    assert any("bounds of y in COVAR_POP(x, y) are found" in note for note in chosen.notes)
    again = statement_from_json(json.loads(json.dumps(statement_to_json(statement))))
    assert again.key == statement.key
    assert again.selects[0].aggregates == chosen.aggregates
    written = analyse("SELECT ANON_CORR(d, x, 0, 5, 0, 6) FROM t", RELATIONS).selects[0].aggregates[0]
    assert (written.bounds, written.other.bounds, written.all_bounds) == ((0, 5), (0, 6), (0, 5, 0, 6))
    plain = analyse("SELECT CORR(d, x), CORR(d,  x) FROM t", RELATIONS).selects[0]
    assert len(plain.aggregates) == 1


@BOTH
def test_bounds_that_are_found_take_half_of_the_share_together(accountant):
    """One histogram a column, and one for all that look at the same column."""
    both, half = pair("correlation", name="r"), pair("covariance", 0, 9, name="c")
    chosen = select(both, half, selection="all")
    given = shares(chosen, 1200, accountant)
    assert given.main == (300, 300)
    assert given.auto == (150, 450, 0, 0)  # of x; of y, for both; of x, which is known; of y again
    assert [found_with(chosen, at) for at in range(4)] == [0, 1, 2, 1]
    asked, drawn = [], []

    def magnitudes(operand):
        asked.append((operand.kind, operand.input))
        counts = np.zeros(magnitude_edges().size - 1, dtype=np.int64)
        if len(asked) < 3:
            counts[np.searchsorted(magnitude_edges(), 3.0) - 1] = 10**6
        return counts

    def draw(noise, scale, size):  # none: by noise alone small values seem to be there in one of twelve tables
        drawn.append((noise, scale, size))
        return np.zeros(size, dtype=np.int64)

    costs = shares(chosen, 100 * UNITS, accountant)
    found = find_bounds(chosen, costs, accountant, magnitudes, draw)
    assert asked == [("correlation", 0), ("correlation", 1)]
    assert drawn == [
        (accountant.noise, accountant.scale(costs.auto[at], 1), magnitude_edges().size - 1) for at in (0, 1)
    ]
    assert found == {0: (2, 4, 2, 4), 1: (0, 9, 2, 4)}
    hidden = find_bounds(chosen, costs, accountant, magnitudes, draw)
    assert hidden == {0: None, 1: None}
    measured = plan(chosen, accountant, 100 * UNITS, found=hidden)
    assert [part.found for part in measured.parts] == [False, False]
    nobody = Totals(((0,),), np.zeros((1, measured.width), dtype=np.int64))
    assert all(
        math.isnan(answer.value[0]) for answer in estimate(measured, noisy(measured, nobody, fixed_noise()), 0.9)
    )


@BOTH
@pytest.mark.parametrize("kind", ["covariance", "correlation"])
def test_next_to_nothing_is_shared_by_all_sums_or_refused(accountant, kind):
    chosen = select(pair(kind), selection="all")
    with pytest.raises(SQLError, match="too small to be shared"):
        shares(chosen, 25, accountant)
    least = shares(chosen, 26, accountant)
    assert (least.main, least.auto) == ((13,), (6, 6))
    known = select(pair(kind, 0, 1, 0, 1), selection="all")
    for cost in (26, 1000):
        measured = plan(known, accountant, cost)
        assert all(block.scale > 0 for block in measured.blocks)


def test_without_bounds_they_are_found_and_the_answer_is_near(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    frame = table(seed=3).query("abs(x) < 1e9 and abs(y) < 1e9")
    with contextlib.closing(exact_session(dpn.Budget(60.0, 1e-5))) as session:
        session.protect(frame, "t", unit="who", max_rows=20)
        found = session.sql("SELECT CORR(x, y) AS r, COVAR_POP(x, y) AS c FROM t", epsilon=20.0).run().frame.iloc[0]
    covariance, _, correlation = by_numpy(frame, -1e9, 1e9, -1e9, 1e9)
    assert found.r == pytest.approx(correlation, abs=0.03)
    assert found.c == pytest.approx(covariance, rel=0.06)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("CORR(x, s)", "CORR is of numbers, and this holds texts"),
        ("COVAR_POP(s, x)", "COVAR_POP is of numbers, and this holds texts"),
        ("CORR(x, x)", "is of two columns, and these are one"),
        ("COVAR_POP(x, (x))", "is of two columns, and these are one"),
        ("CORR(x, z)", "there is no column 'z'"),
        ("CORR(x, *)", "cannot stand here"),
        ("AVG(c) FROM (SELECT u, CORR(x, y) AS c FROM t GROUP BY u)", "below a private aggregation"),
    ],
)
def test_what_cannot_be_asked_is_said(asked, says):
    with pytest.raises(SQLError, match=re.escape(says)):
        analyse(f"SELECT {asked}" + ("" if " FROM " in asked else " FROM t"), RELATIONS)


def test_vectors_that_are_clipped_to_a_norm_have_a_correlation_where_noise_is_gaussian():
    (asked,) = analyse("SELECT CORR(x, y) FROM t", RELATIONS, contribution="l2").selects
    assert asked.clips(0)
    with pytest.raises(SQLError, match="by their Euclidean length"):
        plan(select(pair("correlation"), kind="l2"), LAPLACE)


def test_over_releases_it_is_an_ordinary_function():
    outer = "SELECT CORR(n, s) AS r FROM (SELECT d, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY d)"
    assert "CORR(n, s)" in analyse(outer, RELATIONS).outer
