"""Intervals hold the exact answer as often as they say, however an answer came about: free, combined or refined.

Groups of one attribute have no noise in common, so that one session gives as many independent repetitions as it has
groups.
"""

import math

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.privacy.tails import half_widths

GROUPS, SIZES = 1_000, {"h": 2}
FEW, MANY = {0.0: 6, 1e-6: 2}, 50  # sessions: thousands of repetitions of each kind of answer, and 50,000
SIGMAS = 5.5  # that chance passes less than once in ten million runs
KINDS = ("measured", "measured apart", "free", "combined", "refined", "all together")


def answers(delta):
    """Yield what each kind of answer has: its plan, its frame and the exact counts, in one session."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"g": rng.integers(0, GROUPS, 40_000), "h": rng.integers(0, SIZES["h"], 40_000)})
    exact = frame.groupby(["g", "h"]).size().unstack(fill_value=0).reindex(range(GROUPS), fill_value=0).to_numpy()
    with dpn.Session(dpn.Budget(100.0, delta), ":memory:", purchases="never") as session:
        domain = {"g": dpn.Range(0, GROUPS - 1), "h": dpn.Range(0, SIZES["h"] - 1)}
        table = session.protect(frame, "t", domain=domain)
        whole, (first, second) = exact.sum(axis=1), exact.T
        asked = [
            (table.histogram("g", error=60), whole),
            (table.groupby(["g"]).count(where="h == 1", error=60), second),
            (table.groupby(["g"]).count(where="h == 0", error=95), first),
            (table.groupby(["g"]).count(where="h == 0", error=50), first),
            (table.histogram("g", error=25), whole),
            (table.crosstab("g", "h", error=80), exact),
        ]
        for kind, (query, truth) in zip(KINDS, asked, strict=True):
            plan = session._plan(query)
            yield kind, plan, query.run().frame, truth


def errors_and_hits(delta, sessions):
    """Return errors in standard errors, and whether intervals hold the truth, one group a session of each kind."""
    errors, hits = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}
    for _ in range(sessions):
        for kind, plan, frame, truth in answers(delta):
            assert plan.free == (kind in ("free", "all together"))
            assert bool(plan.reused) == ("measured" not in kind)
            if kind == "refined" and not delta:
                assert "refine" in [action.kind for action in plan.actions]
            cells = len(frame) // GROUPS
            rows = np.arange(GROUPS) * cells  # one answer of each group: those of a group have noise in common
            found = frame.iloc[rows]
            one = truth.reshape(GROUPS, cells)[:, 0]
            errors[kind].append((found["value"].to_numpy() - one) / found["std_error"].to_numpy())
            hits[kind].append((found["lower"].to_numpy() <= one) & (one <= found["upper"].to_numpy()))
    return {kind: np.concatenate(errors[kind]) for kind in KINDS}, {kind: np.concatenate(hits[kind]) for kind in KINDS}


@pytest.mark.one_in(2)
@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["laplace", "gaussian"])
def test_errors_are_as_large_as_they_say_whatever_an_answer_came_from(delta):
    """Fails if the noise of any kind of answer were a tenth smaller, or larger, than is said."""
    errors, hits = errors_and_hits(delta, FEW[delta])
    for kind in KINDS:
        n = errors[kind].size
        spread = math.sqrt((5 if not delta else 2) / n)  # of the variance: Laplace noise has a kurtosis of 6
        assert np.mean(errors[kind] ** 2) == pytest.approx(1.0, abs=SIGMAS * spread), kind
        assert np.mean(hits[kind]) == pytest.approx(0.95, abs=SIGMAS * math.sqrt(0.95 * 0.05 / n)), kind


@pytest.mark.parametrize("groups", [60, 100, 400])
def test_each_of_many_answers_has_the_interval_of_the_exact_law_of_its_noise(groups):
    """All are the difference of two draws: no bound that holds for any law of their variance."""
    frame = pd.DataFrame({"g": np.arange(groups), "h": np.arange(groups) % 2})
    with dpn.Session(dpn.Budget(100.0), ":memory:") as session:
        domain = {"g": dpn.Range(0, groups - 1), "h": dpn.Range(0, 1)}
        table = session.protect(frame, "t", domain=domain)
        asked = table.histogram("g", error=60), table.groupby(["g"]).count(where="h == 1", error=40)
        scales = [query.plan.measurements[0].scale for query in asked]
        for query in asked:
            query.run()
        found = table.groupby(["g"]).count(where="h == 0", error=95).run().frame
        ones = half_widths(np.ones((1, 2)), scales, "laplace", 0.95)
        np.testing.assert_allclose((found["upper"] - found["lower"]) / 2, ones[0], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["laplace", "gaussian"])
def test_coverage_over_many_repetitions(delta):
    """Over 50,000 of each kind a half percent is more than five standard deviations."""
    _, hits = errors_and_hits(delta, MANY)
    for kind in KINDS:
        assert np.mean(hits[kind]) == pytest.approx(0.95, abs=0.005), kind
