"""Everything that was paid for is delivered as promised, in random sessions over domains of 10^3 to 10^6 cells.

A session that fails names its seed: `pytest -k "session[17]"` runs it again, with other noise. How often the truth is
missed is judged over all sessions together: nothing is seeded but the questions.
"""

import math

import numpy as np
import pytest

QUICK, ALL = 48, 500
SURE = 5.0  # standard errors
ENOUGH = 20  # sessions from which on their misses are judged


@pytest.fixture(scope="module")
def quick_ones(delivered):
    return delivered.Tally()


@pytest.fixture(scope="module")
def long_ones(delivered):
    return delivered.Tally()


@pytest.mark.parametrize("seed", range(QUICK))
def test_a_quick_session(seed, sessions, delivered, quick_ones, tmp_path):
    delivered.run(sessions.World(seed, quick=True), tmp_path / "ledger", quick_ones)


def test_the_truth_is_missed_as_often_as_quick_sessions_said(quick_ones):
    judge(quick_ones)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ALL))
def test_a_session(seed, sessions, delivered, long_ones, tmp_path):
    delivered.run(sessions.World(seed), tmp_path / "ledger", long_ones)


@pytest.mark.slow
def test_the_truth_is_missed_as_often_as_sessions_said(long_ones):
    judge(long_ones)


def judge(tally):
    """Hold the intervals and standard errors of all sessions together against the truth, one number a session."""
    if len(tally.held) < ENOUGH:
        pytest.skip("too few sessions were run with this one")
    held, squares = np.array(tally.held), np.array(tally.squares)
    mean, error = held.mean(), held.std(ddof=1) / math.sqrt(held.size)
    assert mean > 0.95 - SURE * error
    assert SURE * error < 0.2  # or nothing would be tested
    mean, error = squares.mean(), squares.std(ddof=1) / math.sqrt(squares.size)
    assert abs(mean - 1) < SURE * error
    assert SURE * error < 2
    # What is found to be free, refined or bought is what goes wrong most easily.
    assert tally.free > 0
    assert set(tally.actions) == {"measure", "reuse", "refine", "buy", "free"}
