"""What a plan promises, over thousands of runs: answers are unbiased, as variable as planned, and in their intervals.

Every number below comes through the whole of `Query.run`: planned, charged, counted (once, as the rows do not change),
drawn, recorded, estimated.
Nothing is seeded, so every bound is one that chance passes less than once in ten million runs: a sample variance of N
Laplace draws scatters by sqrt(5 / N), so a promise within 10% takes some sixteen thousand draws, pooled over groups.
Noise of a tenth less is a variance of a fifth less, and noticed as surely.
"""

import functools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import dpnotebook as dpn
from dpnotebook.privacy.laws import law_of
from dpnotebook.privacy.randomness import random_bytes
from dpnotebook.session.questions import draw_noise

pytestmark = pytest.mark.statistical

RUNS = 80
AGES, EACH = 100, 40
ROWS = AGES * EACH
# Every age has the same sexes and incomes, so that every group has the same number of rows and the same mean.
FRAME = pd.DataFrame(
    {
        "age": np.repeat(np.arange(AGES), EACH),
        "sex": np.tile(["F", "M"], ROWS // 2),
        "income": np.tile(np.linspace(0, 19_500, EACH, dtype=int), AGES),
    }
)
DOMAIN = {"age": dpn.Range(0, AGES - 1), "sex": ["F", "M"], "income": dpn.Bins(0, 20_000, width=2_500)}
MEAN, MOST = float(FRAME["income"].mean()), 20_000.0


@pytest.fixture(params=[0.0, 1e-6], ids=["pure", "gaussian"])
def session(request):
    opened = dpn.Session(dpn.Budget(epsilon=900.0, delta=request.param))
    opened.protect(FRAME, "people", domain=DOMAIN, rows=ROWS)
    # The rows stay the same, and it is the noise that is drawn hundreds of times: DuckDB counts once for each query.
    engine = opened._questions._table("people").engine
    engine._columns = functools.cache(engine._columns)
    yield opened
    opened.close()


def frames_of(query, times):
    """Return the frames of so many fresh runs of a query."""
    return [replace(query, fresh=True).run().frame for _ in range(times)]


def errors_of(frames, exact, name=""):
    """Return the errors of one measure and whether its intervals hold the exact answer, of shape (runs, answers)."""
    columns = [name, f"{name}_lower", f"{name}_upper"] if name else ["value", "lower", "upper"]
    value, lower, upper = (np.stack([frame[column].to_numpy() for frame in frames]) for column in columns)
    return value - exact, (lower <= exact) & (exact <= upper)


def check_unbiased(errors, std_errors):
    """The mean error is within 7 standard errors of none, of every answer: one in 10^8 runs has a larger one of 3,600.

    Means of dozens of Laplace draws have longer tails than normal ones, some forty times as likely so far out.
    """
    each = np.abs(errors.mean(axis=0)) / (std_errors / np.sqrt(len(errors)))
    assert each.max() < 7, each.max()


def check_variance(errors, std_errors, tolerance=0.1):
    """The variance over all runs and answers is the plan's within 10%: 5.6 standard errors, see `many`."""
    ratio = float(((errors / std_errors) ** 2).mean())
    assert abs(ratio - 1) < tolerance, ratio


def check_coverage(inside, confidence=0.95):
    """The share of intervals that hold the exact answer is the promised one within 2 points.

    Shares of many scatter by a quarter of a point at most. Those of a few hundred single intervals do by more: these
    are as many as chance allows but for one run in 10^7.
    """
    if inside.shape[1] > 1:
        assert abs(inside.mean() - confidence) < 0.02, inside.mean()
        return
    low, high = binom.ppf([5e-8, 1 - 5e-8], inside.size, confidence)
    assert low <= inside.sum() <= high, inside.sum()


def many(session):
    """Return, per kind, a query with many answers, the exact ones, and how many runs tell its variance within 10%.

    So many that 10% are 5.6 standard errors or more for Laplace noise, which chance passes once in 10^7 runs, longer
    tails above included; half of them do for Gaussian noise. Answers of one group have noise in common: how far their
    variance scatters (by 1.2% to 1.75% of itself) was measured over 27 series of runs.

    Counts and sums are at scales where the integer grid is fine enough for their intervals. A mean is a ratio, planned
    to first order in the noise: there it is small beside the 40 rows of a group, so that the second order is below 1%.
    """
    dp, gaussian = FRAME.dp, session.budget.delta > 0
    means = dp.groupby("age").mean("income", epsilon=8.0 if gaussian else 2.0).assuming(rows=ROWS, value=MEAN)
    bins = FRAME["income"][:EACH].floordiv(2_500).value_counts().sort_index().to_numpy()
    ranges = [bins[i : j + 1].sum() for i in range(8) for j in range(i, 8)]
    # Answers from the same noise are correlated: groups, which are independent, make up for it.
    workload = dpn.workload.Kron(dpn.workload.Identity(AGES), dpn.workload.AllRange(8))
    by_range = dp.answer(workload, on=["age", "income"], epsilon=0.05)
    by_level = dp.groupby("age").cdf("income", epsilon=0.05)
    unions = dp.answer(dpn.identity("age") + 2 * dpn.identity("age", "sex"), epsilon=0.05)
    return {
        "histogram": (dp.histogram("age", epsilon=0.05), np.full(AGES, EACH), 200),
        "crosstab": (dp.crosstab("sex", "age", epsilon=0.05), np.full(2 * AGES, EACH / 2), 80),
        "sums": (dp.groupby("age").sum("income", epsilon=0.4), np.full(AGES, EACH * MEAN), 200),
        "means": (means, np.full(AGES, MEAN), 200),
        "cumulative counts": (by_level, np.tile(np.cumsum(bins), AGES), 100),
        "ranges": (by_range, np.tile(ranges, AGES), 60),
        "marginals": (unions, np.repeat([EACH, EACH / 2], [AGES, 2 * AGES]), 160),
    }


@pytest.mark.one_in(16)
@pytest.mark.parametrize("kind", ["histogram", "crosstab", "sums", "means", "cumulative counts", "ranges", "marginals"])
def test_many_answers(session, kind):
    query, exact, times = many(session)[kind]
    plan = query.plan
    runs = times // 2 if plan.delta and kind not in ("histogram", "crosstab") else times
    errors, inside = errors_of(frames_of(query, runs), exact)
    check_unbiased(errors, plan.std_errors)
    check_variance(errors, plan.std_errors)
    check_coverage(inside)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", ["histogram", "sums", "means", "ranges", "marginals"])
def test_a_tenth_less_noise_is_noticed(session, kind):
    """The same check of the variance with noise of 9/10 of the planned scale fails."""
    query, exact, times = many(session)[kind]
    less = Fraction(9, 10)
    session._questions.draw = lambda item, noise, source: draw_noise(
        replace(item, scale=item.scale * less), noise, source
    )
    errors, _ = errors_of(frames_of(query, 3 * times // 4), exact)
    with pytest.raises(AssertionError):
        check_variance(errors, query.plan.std_errors)


@pytest.mark.one_in(2)
def test_single_answers(session):
    """One number a run and measure: a count, a sum and a mean that are told by one measurement.

    A few dozen of them do not tell a variance, nor how often intervals hold. So every run is held against the very
    noise that was drawn for it, and that noise and its intervals against many more draws of the same planned law.
    """
    statement = "SELECT COUNT(*) AS n, SUM(income) AS total, AVG(income) AS average FROM people"
    query = replace(session.sql(statement, epsilon=0.4), fresh=True).assuming(rows=ROWS, value=MEAN)
    (item,) = query.plan.measurements
    alone = FRAME.dp.mean("income", epsilon=0.4, fresh=True).plan.measurements[0]
    assert float(alone.scale) == pytest.approx(float(item.scale), rel=1e-6)  # the whole epsilon, not a third
    steps, step = item.measurement.summand.steps, float(item.measurement.summand.step)
    drawn = []

    def draw(item, noise, source):
        drawn.append(draw_noise(item, noise, source))
        return drawn[-1]

    session._questions.draw = draw
    frames = frames_of(query, RUNS)
    ends = np.array(drawn) / 2.0**item.bits
    above, below = (ROWS * part / step + ends[:, i] for i, part in enumerate((MEAN, MOST - MEAN)))
    found = {
        "n": (ROWS, ends.sum(axis=1) / steps, [1 / steps, 1 / steps]),
        "total": (ROWS * MEAN, ends[:, 0] * step, [step, 0.0]),
        "average": (MEAN, MOST * above / (above + below) - MEAN, np.array([MOST - MEAN, -MEAN]) * step / ROWS / MOST),
    }
    size, law = 100_000, query.plan.noise
    several = replace(item, measurement=replace(item.measurement, operator=dpn.workload.Identity(size)))
    draws = draw_noise(several, law, random_bytes).reshape(-1, size) / 2.0**item.bits
    for name, (exact, expected, weights) in found.items():
        std_error = math.sqrt(law_of(law).count_variance(item.scale) * float(np.square(weights).sum()))
        errors, inside = errors_of(frames, exact, name)
        assert errors[:, 0] == pytest.approx(expected, abs=1e-5 * std_error)
        check_unbiased(errors, np.array([std_error]))
        check_coverage(inside)
        noise = np.array(weights) @ draws
        check_variance(noise, std_error)
        half = np.array([(frame[f"{name}_upper"] - frame[f"{name}_lower"]).item() / 2 for frame in frames])
        # 100,000 draws tell a share within 0.0038 at 5.5 standard errors, and ends are whole steps: 0.0004 of it. The
        # interval of a mean follows its count. One a twentieth narrower is noticed.
        assert abs((np.abs(noise) <= np.median(half)).mean() - 0.95) < 0.0042, name
