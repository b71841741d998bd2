"""What is linear in noisy numbers has its exact standard error: sums, differences, windows, in SQL and of releases."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.privacy.tails import half_widths

pytestmark = pytest.mark.usefixtures("same_noise")  # errors do not depend on what is drawn

RNG = np.random.default_rng(2)
CLOSE = 1e-4  # redraws told 1 to 2 in a hundred
GROUPS = list("abcdef")
ROWS = pd.DataFrame({"g": RNG.choice(GROUPS, 9_000), "x": RNG.integers(0, 100, 9_000)})
BUDGETS = {"pure": dpn.Budget(90.0), "gaussian": dpn.Budget(90.0, delta=1e-6)}
DECLARED = {"declared": {"g": GROUPS, "x": dpn.Range(0, 99)}, "not declared": {"g": GROUPS}}
COUNTS = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
# Of one count by group; what is worked out from these, how many times as much it errs in each row.
WORKED_OUT = {
    "total": (f"SELECT SUM(n) AS d FROM ({COUNTS})", [6**0.5]),
    "multiple": (f"SELECT g, 5 - 3 * n AS d FROM ({COUNTS})", [3.0] * 6),
    "running": (f"SELECT g, SUM(n) OVER (ORDER BY g) AS d FROM ({COUNTS})", np.sqrt(np.arange(1, 7))),
    "change": (f"SELECT g, n - LAG(n) OVER (ORDER BY g) AS d FROM ({COUNTS})", [np.nan] + [2**0.5] * 5),
    "contrast": (f"SELECT SUM(CASE WHEN g < 'c' THEN n ELSE -2 * n END) AS d FROM ({COUNTS})", [18**0.5]),
}


def opened(budget, declared):
    """Return a session of rows."""
    session = dpn.Session(BUDGETS[budget], ":memory:", confirm="never")
    session.protect(ROWS, "t", domain=DECLARED[declared])
    return closing(session)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("what", WORKED_OUT)
def test_what_a_statement_works_out_has_its_exact_error(budget, declared, what):
    text, times = WORKED_OUT[what]
    with opened(budget, declared) as session:
        one = session.sql(COUNTS, epsilon=1.0).run().frame.n_std_error[0]
        found = session.sql(text, epsilon=1.0).run().frame
        assert found.d_std_error.to_numpy() == pytest.approx(one * np.asarray(times), rel=CLOSE, nan_ok=True)


@pytest.mark.parametrize("budget", BUDGETS)
def test_an_interval_of_a_sum_is_that_of_the_law_of_its_noise(budget):
    with opened(budget, "declared") as session:
        release = session.sql(COUNTS, epsilon=0.5).run()
        total = session.sql(f"SELECT SUM(n) AS d FROM ({COUNTS})", epsilon=0.5).run().frame.iloc[0]
        (noise,) = {plan["noise"] for plan in [session.ledger.get(release.number).plan]}
        (scale,) = {item.scale for item in session.sql(COUNTS, epsilon=0.5, fresh=True).plan.measurements}
        exact = half_widths(np.ones((1, len(GROUPS))), scale, noise, 0.95)[0]
        assert (total.d_upper - total.d_lower) / 2 == pytest.approx(exact, rel=5e-3)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("declared", DECLARED)
def test_totals_and_differences_of_releases_are_exact(budget, declared):
    """Two releases that rest on the same numbers do not err apart."""
    with opened(budget, declared) as session:
        first = session.sql(COUNTS, epsilon=1.0).run()
        one = first.frame.n_std_error[0]
        assert first.sum().frame.n_std_error[0] == pytest.approx(6**0.5 * one, rel=CLOSE)
        second = session.sql(COUNTS, epsilon=1.0, fresh=True).run()
        other = second.frame.n_std_error[0]
        apart = (first - second).frame.n_std_error
        assert apart.to_numpy() == pytest.approx(np.full(6, np.hypot(one, other)), rel=CLOSE)


def test_releases_of_the_same_numbers_share_their_errors():
    """What is the same in both has no error in their difference."""
    with opened("pure", "declared") as session:
        table = session.table("t")
        table.groupby("g").size(epsilon=1.0).run()
        first = session.sql(COUNTS, epsilon=1.0).run()
        again = session.sql(COUNTS, epsilon=0.9).run()
        assert again.paid == 0
        zero = (first - again).frame
        assert (zero.n == 0).all()
        assert (zero.n_std_error < 1e-6).all()
