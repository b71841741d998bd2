"""Answers of whole sessions are as accurate as their plans said, and as least squares over everything recorded.

A session that fails names its seed. Many more, from any seed on: `DPNOTEBOOK_SESSIONS=500 DPNOTEBOOK_FIRST_SESSION=100
pytest -m slow tests/promises/test_whole_sessions.py`.
"""

import math
import os

import numpy as np
import pytest

QUICK = [("laplace", 1), ("gaussian", 2)]
FIRST, ALL = int(os.environ.get("DPNOTEBOOK_FIRST_SESSION", "100")), int(os.environ.get("DPNOTEBOOK_SESSIONS", "200"))
CHANCE = 2e-8  # of either side, as 5.5 standard deviations
SIGMAS = 5.5
# A sum that was refined beside counts of its column, which are not combined with it: 2% less accurate than promised.
# Two histograms of the same cells, of which one has a level that no cell is in: planning beside both failed.
# Sums by group of a column of few values, whose histogram tells some groups better than their sums do: two sessions.
# A sum by groups of which a mean had told how many rows each has: charged.
# Running counts less accurate than was said, because the law of their own noise was known: preferred for its interval.
BROKEN_ONCE = {1033: 200, 135: 200, 3032: 200, 4046: 200, 3071: 200, 5022: 600}  # and the most cells
MOST_OVERSTATED = 0.05  # of the questions that are combined with what is known
MOST_CELLS, LARGE = 150, 10_000


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("noise", "seed"), QUICK)
def test_a_session(noise, seed, whole):
    """What is planned, shown and best is compared answer by answer; how large the noise is has an exact law."""
    found = whole.run(whole.Session(seed, (60, MOST_CELLS), (40, 60), noise))
    assert found.charged == []
    assert found.overstated == []
    low, size, high, _ = whole.noise_of([found], CHANCE)
    assert low <= size <= high
    assert found.free
    assert "reuse" in found.actions


@pytest.mark.one_in(10)
@pytest.mark.parametrize("seed", BROKEN_ONCE)
def test_a_session_that_failed_once(seed, whole):
    most = BROKEN_ONCE[seed]
    found = whole.run(whole.Session(seed, (10, 200) if most == 200 else (200, most)))
    assert found.charged == []


@pytest.fixture(scope="module")
def many(whole):
    """Sessions of small domains, one after another."""
    return [whole.run(whole.Session(seed, (10, 200))) for seed in range(FIRST, FIRST + ALL)]


@pytest.mark.slow
def test_no_question_of_many_sessions_is_charged_that_a_release_determines(many):
    charged = [words for found in many for words in found.charged]
    assert charged == []


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_noise_of_many_sessions_is_what_plans_say(noise, many, whole):
    """By the exact law of so many draws; a tenth less noise falls out of its bounds."""
    low, size, high, tenth = whole.noise_of([found for found in many if found.noise == noise], CHANCE)
    assert low <= size <= high
    assert tenth * high < low


@pytest.mark.slow
def test_errors_of_many_sessions_are_as_planned(many, capsys):
    """Sessions are independent of each other: their means tell how far the mean over all can be off."""
    held, squares = (np.array([np.mean(getattr(found, of)) for found in many]) for of in ("held", "squares"))
    spread = [SIGMAS * each.std(ddof=1) / math.sqrt(each.size) for each in (held, squares)]
    overstated = sum(len(found.overstated) for found in many) / sum(found.questions for found in many)
    with capsys.disabled():
        print(
            f"\n{len(many)} sessions: held {held.mean():.4f} (+- {spread[0]:.4f} at 5.5 standard errors), mean square"
        )
        print(f"of a miss {squares.mean():.4f} (+- {spread[1]:.4f}), {overstated:.2%} of questions planned too large")
    assert held.mean() > 0.95 - spread[0]
    assert abs(squares.mean() - 1) < spread[1]
    assert overstated <= MOST_OVERSTATED


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_large_domains(seed, whole):
    """Beyond what is worked out over all cells, what is shown is held against the plan and the exact answers alone."""
    found = whole.run(whole.Session(seed, (5_000, LARGE), dense=False))
    assert found.questions
    assert found.free
