"""The noise of answers is as large as what is charged for them says, seen from outside: by formulas of the papers."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import dpnotebook as dpn

CELLS, MOST, DELTA = 1000, 50_000.0, 1e-6
FRAME = pd.DataFrame({"age": np.arange(CELLS), "income": np.full(CELLS, 20_000.0), "note": "none"})
BUDGETS = {"pure": dpn.Budget(epsilon=800.0), "gaussian": dpn.Budget(epsilon=800.0, delta=DELTA)}
QUESTIONS = {
    "histogram": (lambda session, **asked: session.table("people").histogram("age", **asked), "value", 1.0, 1.0),
    "sums": (
        lambda session, **asked: session.table("people").groupby("age").sum("income", **asked), "value", MOST, 20_000.0
    ),
    "statement": (
        lambda session, **asked: session.sql(
            "SELECT age, COUNT(*) AS n FROM people WHERE note <> 'x' GROUP BY age", **asked
        ),
        "n", 1.0, 1.0,
    ),
}  # fmt: skip


def spread(law, epsilon, sensitivity):
    """Return the standard deviation that (epsilon, delta) asks for.

    Sources: Dwork et al. 2006; Balle and Wang 2018, Theorem 8.
    """
    if law == "pure":
        return math.sqrt(2) * sensitivity / epsilon

    def lost(mu):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)) - DELTA

    return sensitivity / brentq(lost, 1e-3, 100)


@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize("law", BUDGETS)
def test_noise_is_as_large_as_it_is_paid_for(law, asked):
    """Twelve thousand draws: 6% are six standard errors of Laplace noise, and more of Gaussian noise."""
    question, column, sensitivity, exact = QUESTIONS[asked]
    session = dpn.Session(budget=BUDGETS[law])
    domain = {"age": dpn.Range(0, CELLS - 1), "income": dpn.Bins(0, MOST, width=1_000)}
    session.protect(FRAME, "people", domain=domain)
    errors = []
    for _ in range(12):
        release = question(session, epsilon=0.5, fresh=True).run()
        assert release.paid == pytest.approx(0.5, rel=1e-6)
        frame = release.frame
        shown = frame[column].to_numpy(dtype=float)
        errors.append(shown - exact)
        claimed = frame["std_error" if column == "value" else f"{column}_std_error"].to_numpy(dtype=float)
    session.close()
    found = math.sqrt(np.mean(np.concatenate(errors) ** 2))
    expected = spread(law, 0.5, sensitivity)
    assert 0.94 * expected < found
    assert found < 1.06 * expected
    assert claimed == pytest.approx(expected, rel=0.02)
