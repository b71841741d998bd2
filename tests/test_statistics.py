"""What a plan promises, over thousands of runs: answers are unbiased, as variable as planned, and in their intervals.

Every number below comes through the whole of `Query.run`: planned, charged, counted (once, as the rows do not change),
drawn, recorded, estimated.
Nothing is seeded, so every bound is at least four standard errors of what it is held against: a sample variance of N
Laplace draws scatters by sqrt(5 / N), so a promise within 8% takes some twenty thousand draws, pooled over groups.
Noise of a tenth less is a variance of a fifth less, and noticed.
"""

import functools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.privacy.laws import law_of
from dpnotebook.privacy.randomness import random_bytes
from dpnotebook.session.questions import draw_noise

pytestmark = pytest.mark.statistical

RUNS = 400
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
    """The mean error is within 4 standard errors of none: of every answer where they are few, of 99% of many."""
    each = np.abs(errors.mean(axis=0)) / (std_errors / np.sqrt(len(errors)))
    assert np.quantile(each, 0.99) < 4, each.max()
    assert each.max() < 6, each.max()


def check_variance(errors, std_errors, tolerance=0.08):
    """The variance over all runs and answers is the plan's within 8%."""
    ratio = float(((errors / std_errors) ** 2).mean())
    assert abs(ratio - 1) < tolerance, ratio


def check_coverage(inside, confidence=0.95):
    """The share of intervals that hold the exact answer is the promised one within 1.5 points.

    A few hundred single intervals scatter by more: they are granted 4.5 standard errors.
    """
    share = float(inside.mean())
    scatter = 4.5 * np.sqrt(confidence * (1 - confidence) / inside.size)
    assert abs(share - confidence) < (0.015 if inside.shape[1] > 1 else scatter), share


def many(session):
    """Return, per kind, a query with many answers, the exact ones, and how many runs tell its variance within 8%.

    So many that 8% are four and a half standard errors for Laplace noise; half of them do for Gaussian noise.

    Counts and sums are at scales where the integer grid is fine enough for their intervals. A mean is a ratio, planned
    to first order in the noise: there it is small beside the 40 rows of a group, so that the second order is below 1%.
    """
    dp, gaussian = FRAME.dp, session.budget.delta > 0
    means = dp.groupby("age").mean("income", epsilon=8.0 if gaussian else 2.0).assuming(rows=ROWS, value=MEAN)
    bins = FRAME["income"][:EACH].floordiv(2_500).value_counts().sort_index().to_numpy()
    ranges = [bins[i : j + 1].sum() for i in range(8) for j in range(i, 8)]
    # Answers from the same noise are correlated: groups, which are independent, make up for it.
    workload = dpn.workload.Kron(dpn.workload.Identity(20), dpn.workload.AllRange(8))
    by_range = dp.answer(workload, on=["age", "income"], where="age < 20", epsilon=0.05)
    by_level = dp.groupby("age").cdf("income", where="age < 40", epsilon=0.05)
    unions = dp.answer(dpn.identity("age") + 2 * dpn.identity("age", "sex"), epsilon=0.05)
    return {
        "histogram": (dp.histogram("age", epsilon=0.05), np.full(AGES, EACH), 200),
        "crosstab": (dp.crosstab("sex", "age", epsilon=0.05), np.full(2 * AGES, EACH / 2), 80),
        "sums": (dp.groupby("age").sum("income", epsilon=0.4), np.full(AGES, EACH * MEAN), 200),
        "means": (means, np.full(AGES, MEAN), 125),
        "cumulative counts": (by_level, np.tile(np.cumsum(bins), 40), 180),
        "ranges": (by_range, np.tile(ranges, 20), 140),
        "marginals": (unions, np.repeat([EACH, EACH / 2], [AGES, 2 * AGES]), 160),
    }


@pytest.mark.parametrize("kind", ["histogram", "crosstab", "sums", "means", "cumulative counts", "ranges", "marginals"])
def test_many_answers(session, kind):
    query, exact, times = many(session)[kind]
    plan = query.plan
    runs = times // 2 if plan.delta and kind not in ("histogram", "crosstab") else times
    errors, inside = errors_of(frames_of(query, runs), exact)
    check_unbiased(errors, plan.std_errors)
    check_variance(errors, plan.std_errors)
    check_coverage(inside)


@pytest.mark.parametrize("kind", ["histogram", "sums", "means", "ranges", "marginals"])
def test_a_tenth_less_noise_is_noticed(session, kind):
    """The same check of the variance with noise of 9/10 of the planned scale fails."""
    query, exact, times = many(session)[kind]
    less = Fraction(9, 10)
    session._questions.draw = lambda item, noise, source: draw_noise(
        replace(item, scale=item.scale * less), noise, source
    )
    errors, _ = errors_of(frames_of(query, times // 2), exact)
    with pytest.raises(AssertionError):
        check_variance(errors, query.plan.std_errors)


def test_single_answers(session):
    """One number a run and measure: a count, a sum and a mean that are told by one measurement.

    A few hundred of them do not tell a variance. So every run is held against the very noise that was drawn for it, and
    the variance of that noise is taken from many more draws of the same planned law.
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
    size, noise = 100_000, query.plan.noise
    several = replace(item, measurement=replace(item.measurement, operator=dpn.workload.Identity(size)))
    draws = draw_noise(several, noise, random_bytes).reshape(-1, size) / 2.0**item.bits
    for name, (exact, expected, weights) in found.items():
        std_error = math.sqrt(law_of(noise).count_variance(item.scale) * float(np.square(weights).sum()))
        errors, inside = errors_of(frames, exact, name)
        assert errors[:, 0] == pytest.approx(expected, abs=1e-5 * std_error)
        check_unbiased(errors, np.array([std_error]))
        check_coverage(inside)
        check_variance(np.array(weights) @ draws, std_error)
