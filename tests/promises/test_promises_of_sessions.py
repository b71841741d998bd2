"""Everything that was paid for is delivered as promised, in random sessions over domains of 10^3 to 10^6 cells.

A session that fails names its seed: `pytest -m "" -k "a_session and [17]" tests/promises` asks the same again, with
other noise. How often the truth is missed is judged over all sessions together: nothing is seeded but the questions.
Thousands of long sessions, from any seed on: `DPNOTEBOOK_SESSIONS=2000 DPNOTEBOOK_FIRST_SESSION=500 pytest -m slow
tests/promises`.
"""

import math
import os

import numpy as np
import pytest

QUICK = 50
# Asked again by epsilon=: paid for again, or answered worse. A count of all rows from ranks of those that have a value.
# An answer that needs another way than was planned, as another kernel had recorded meanwhile.
BROKEN_ONCE = (5019, 10251, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (5054, 60540)))  # 20 seconds
FIRST, ALL = int(os.environ.get("DPNOTEBOOK_FIRST_SESSION", "0")), int(os.environ.get("DPNOTEBOOK_SESSIONS", "500"))
SURE = 5.0  # standard errors
ENOUGH = 20  # sessions from which on their misses are judged
NEARLY = 0.005  # how far from 95% intervals may hold, over thousands of sessions
SPREAD = 0.75  # standard deviation over quick sessions of their mean square of a miss, as 150 of them have it


@pytest.fixture(scope="module")
def quick_ones(delivered):
    return delivered.Tally()


@pytest.fixture(scope="module")
def long_ones(delivered):
    return delivered.Tally()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(QUICK))
def test_a_quick_session(seed, sessions, delivered, quick_ones, tmp_path):
    delivered.run(sessions.World(seed, quick=True), tmp_path / "ledger", quick_ones)


@pytest.mark.parametrize("seed", BROKEN_ONCE)
def test_a_session_that_broke_a_promise_once(seed, sessions, delivered, tmp_path):
    delivered.run(sessions.World(seed), tmp_path / "ledger", delivered.Tally())


def test_the_truth_is_missed_as_often_as_quick_sessions_said(quick_ones):
    judge(quick_ones, SPREAD)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + ALL))
def test_a_session(seed, sessions, delivered, long_ones, tmp_path):
    delivered.run(sessions.World(seed), tmp_path / "ledger", long_ones)


@pytest.mark.slow
def test_the_truth_is_missed_as_often_as_sessions_said(long_ones, capsys):
    with capsys.disabled():
        print(f"\n{long_ones.summary()}")
    judge(long_ones)
    assert long_ones.actions["buy"]  # quick ones end before there is something to guess from


def judge(tally, spread=0.0):
    """Hold the intervals and standard errors of all sessions together against the truth.

    Parameters
    ----------
    tally
        What is known of the sessions.
    spread
        Of the mean squares of a miss, the least standard deviation over sessions that is believed. In 50 sessions that
        happen to have no far draw both the mean and its own standard error are small: 3 runs in 10,000 failed by that
        (of 800,000 sets of 50 that were drawn from 150 sessions). With it, none did.
    """
    if len(tally.held) < ENOUGH:
        pytest.skip("too few sessions were run with this one")
    held, squares, sharp = map(np.array, (tally.held, tally.squares, tally.sharp))
    mean, error = held.mean(), held.std(ddof=1) / math.sqrt(held.size)
    assert mean > 0.95 - SURE * error
    assert SURE * error < 0.2  # or nothing would be tested
    mean, error = squares.mean(), max(squares.std(ddof=1), spread) / math.sqrt(squares.size)
    assert abs(mean - 1) < SURE * error
    # One far draw that many answers rest on is much of the error of this mean, so its power is that of the other half.
    assert SURE * np.subtract(*np.percentile(squares, [75, 25])) / math.sqrt(squares.size) < 2
    # Where the law of the noise is known exactly, an interval of 95% is no wider than that either.
    # Not by the deviation that was found: where by chance nearly all held there is next to none.
    mean, error = sharp.mean(), max(sharp.std(ddof=1), math.sqrt(0.95 * 0.05)) / math.sqrt(sharp.size)
    assert abs(mean - 0.95) < max(NEARLY, SURE * error)
    # What is found to be free, refined or bought is what goes wrong most easily.
    assert tally.free > 0
    assert set(tally.actions) >= {"measure", "reuse", "refine", "free"}
