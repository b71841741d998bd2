"""What cards promise over a messy table of twelve columns, in sessions of random questions (`messy.py`)."""

import numpy as np
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session
from dpnotebook.workload.terms import row_weights

ROWS = 300
REFUSALS = (dpn.BudgetExceeded, dpn.DomainError, dpn.AccuracyError, dpn.WorkloadError, dpn.PredicateError)
ALIKE = 1e-6
NEAR = 0.99  # of what a card said, that is shown at least


@pytest.mark.parametrize("noise", [pytest.param("laplace", marks=pytest.mark.slow), "gaussian"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_delivered_is_what_was_promised(seed, noise, messy, monkeypatch, tmp_path):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    rng = np.random.default_rng([seed, noise == "laplace"])
    frame, budget = messy.frame_of(rng, ROWS), dpn.Budget(epsilon=500.0, delta=1e-6 * (noise == "gaussian"))
    with (
        dpn.Session(budget=budget, ledger=tmp_path / "t.ledger") as session,
        exact_session(dpn.Budget(epsilon=10.0**6), ledger=":memory:") as beside,
    ):
        table, exact = (one.protect(frame, "t", domain=messy.domain(), rows=ROWS) for one in (session, beside))
        for _ in range(6 if seed else 3):
            text, ask = messy.question(rng)
            before = session.ledger.spent
            try:
                query = ask(table)
                plan, release = query.plan, query.run()
            except REFUSALS:
                assert session.ledger.spent == before, text
                continue
            assert session.ledger.spent - before == plan.cost.units, text
            value, error, lower, upper = (
                release.frame[name].to_numpy(float) for name in ("value", "std_error", "lower", "upper")
            )
            width = (upper - lower) / 2
            assert error.max() <= plan.std_error * messy.ROUNDING, text
            assert width.max() <= plan.error * messy.ROUNDING + 1e-9, text
            assert error.max() >= plan.std_error * NEAR, text
            assert width.max() >= plan.error * NEAR, text
            if query.accuracy.by_part:
                targets = query.accuracy.error / row_weights(query.question.measures[0].workload)
                assert (width <= targets * messy.ROUNDING + 1e-9).all(), text
            elif query.accuracy.error is not None:
                assert width.max() <= query.accuracy.error * messy.ROUNDING + 1e-9, text
            truth = _exact(ask, exact).frame["value"].to_numpy(float)
            assert (np.abs(value - truth) <= messy.FARTHEST[noise] * error + ALIKE).all(), text
            assert ask(table).plan.free, text
            assert session.release(release.number).frame.equals(release.frame), text


def _exact(ask, table):
    """Return what a session without noise says, which has no past answer that a relative error could be of."""
    query = ask(table)
    try:
        return query.run()
    except dpn.AccuracyError:
        return query.at(epsilon=1.0).run()
