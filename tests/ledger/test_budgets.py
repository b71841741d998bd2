"""Budgets that an owner raises or renews: entries of the chain, seen by every kernel, composed and never lowered."""

import contextlib
import json
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, BudgetExceeded, LedgerCorrupt, LedgerMismatch
from dpnotebook.ledger import Ledger, audit_file, writing
from dpnotebook.ledger.budgets import raised, renewed
from dpnotebook.privacy.accountant import UNITS, accountant_for
from dpnotebook.privacy.budget import Budget

ROWS = pd.DataFrame({"age": [n * 7 % 50 for n in range(200)], "sex": ["F", "M"] * 100})
WHY = "second year of the study, approved by the board"
PURE, GAUSSIAN = Budget(1.0), Budget(1.0, 1e-6)
THRESHOLDS = Budget(1.0, 1e-6, noise="laplace")


def delta_of(mu, epsilon):
    """HDMM, Proposition 2, written down again."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def mu_of(epsilon, delta):
    return brentq(lambda mu: delta_of(mu, epsilon) - delta, 1e-6, 50, xtol=1e-15, rtol=1e-14)


@pytest.fixture
def opened(path):
    """Return a function that opens a session as a kernel would, with the rows protected."""
    sessions = []

    def opened(budget=PURE):
        session, rows = dpn.Session(budget, ledger=path), ROWS.copy()
        sessions.append(session)
        session.protect(rows, "people", domain={"age": dpn.Range(0, 49), "sex": ["F", "M"]})
        return session, rows.dp

    yield opened
    for session in sessions:
        session.close()


def test_what_did_not_fit_fits_after_a_raise(either, kit):
    kit.answer(either, 0.9)
    with pytest.raises(BudgetExceeded):
        kit.answer(either, 0.2)
    assert either.raise_budget(Budget(2.0), reason=WHY) == either.budget == Budget(2.0)
    assert (either.total, either.spent, either.remaining) == (2 * UNITS, 9 * 10**11, 11 * 10**11)
    kit.answer(either, 1.1)
    with pytest.raises(BudgetExceeded, match=r"only 0% \(ε 0\) is left"):
        kit.answer(either, 0.001)
    first, second = either.budgets()
    assert (first.budget, first.reason, first.added, first.entry) == (PURE, "", None, 1)
    assert (second.budget, second.reason, second.added) == (Budget(2.0), WHY, None)
    audit = either.audit()
    assert audit.ok
    assert "of the budget of ε = 2, raised from ε = 1 (100.0%)" in str(audit)


def test_a_renewal_is_added_on_top(either, kit):
    kit.answer(either, 1)
    assert either.renew_budget(Budget(0.1), reason="a") == Budget(1.1)
    assert either.renew_budget(Budget(0.2), reason="b") == Budget(1.3)  # decimals, as they were written
    kit.answer(either, "0.3")
    assert either.remaining == 0
    assert [(one.added, one.reason) for one in either.budgets()] == [(None, ""), (Budget(0.1), "a"), (Budget(0.2), "b")]
    assert either.audit().ok


def test_a_raise_is_seen_by_every_kernel_and_at_reopening(path, kit):
    one, two = Ledger(path, PURE), Ledger(path, PURE)
    kit.register(one)
    kit.answer(two, 1)
    one.raise_budget(Budget(2.0), reason=WHY)
    assert kit.answer(two, 0.5).units == 5 * 10**11  # at its next transaction
    assert (two.budget, two.total) == (Budget(2.0), 2 * UNITS)
    two.renew_budget(Budget(1.0), reason=WHY)
    one.close(), two.close()
    for budget in (PURE, Budget(2.0), Budget(3.0)):  # what it was made for, and all that it was raised to
        with contextlib.closing(Ledger(path, budget)) as ledger:
            assert (ledger.budget, ledger.total) == (Budget(3.0), 3 * UNITS)
            assert [entry.budget for entry in ledger.budgets()] == [PURE, Budget(2.0), Budget(3.0)]
    with pytest.raises(LedgerMismatch, match=r"budget of ε = 1 and has been raised to ε = 3, not ε = 1\.5"):
        Ledger(path, Budget(1.5))
    assert audit_file(path).ok


def test_what_two_kernels_add_at_once_adds_up(path, kit):
    ledgers = [Ledger(path, PURE) for _ in range(3)]
    for ledger in ledgers:
        ledger.renew_budget(Budget(1.0), reason=WHY)
    with pytest.raises(AccuracyError, match="a budget is only ever raised"):
        ledgers[0].raise_budget(Budget(2.0), reason="planned before the others renewed it")
    assert ledgers[0].budget == Budget(4.0)


@pytest.mark.parametrize(
    ("present", "to"),
    [
        (PURE, Budget(0.5)),
        (PURE, PURE),
        (GAUSSIAN, Budget(2.0, 1e-7)),
        (GAUSSIAN, Budget(0.9, 1e-5)),
        (GAUSSIAN, Budget(2.0, 1e-6, threshold_delta=1e-8)),
        (GAUSSIAN, Budget(1.0, 1e-6, threshold_delta=5e-7)),
        (THRESHOLDS, Budget(2.0)),
        (THRESHOLDS, Budget(2.0, 1e-7, noise="laplace")),
        (Budget(1.0, 1e-6, threshold_delta=0.0), Budget(1.0, 1e-6)),
    ],
)
def test_nothing_is_ever_lowered(present, to):
    with pytest.raises(AccuracyError, match="a budget is only ever raised"):
        raised(present, to)


@pytest.mark.parametrize(("present", "other"), [(PURE, GAUSSIAN), (GAUSSIAN, PURE), (GAUSSIAN, THRESHOLDS)])
@pytest.mark.parametrize("how", [raised, renewed])
def test_the_noise_stays_what_it_is(present, other, how):
    bigger = Budget(5.0, other.delta * 2, other.noise)
    with pytest.raises(AccuracyError, match="a ledger keeps the noise that it began with") as caught:
        how(present, bigger)
    written = str(caught.value).rpartition("Write ")[2]
    assert how(present, eval(written, {"Budget": Budget})).epsilon >= 5  # what it says to write can be written


NO_REASONS = [None, "", "  ", 5, b"why", ["why"], "x" * 1001, "a\0b", object()]


@pytest.mark.parametrize("reason", NO_REASONS, ids=lambda reason: ascii(reason)[:12])
def test_a_reason_must_be_given(either, reason):
    before = either.head
    for change in (either.raise_budget, either.renew_budget):
        with pytest.raises(AccuracyError, match="say why the budget is raised"):
            change(Budget(2.0), reason=reason)
    assert either.head == before


@pytest.mark.parametrize("budget", [None, 2.0, "2", Budget(1e9), (2.0, 0.0)])
def test_what_is_no_budget_to_raise_to(either, budget):
    before = either.head
    for change in (either.raise_budget, either.renew_budget):
        with pytest.raises(AccuracyError):
            change(budget, reason=WHY)
    assert either.head == before


def test_an_endless_sum_of_renewals_is_refused(either):
    either.renew_budget(Budget(10**6), reason=WHY)
    with pytest.raises(AccuracyError, match="protects nobody"):
        either.renew_budget(Budget(4 * 10**6), reason=WHY)


budgets = st.builds(
    lambda epsilon, delta, part: Budget(epsilon, delta, threshold_delta=None if part is None else delta * part),
    st.sampled_from([0.01, 0.3, 1.0, 2.5, 10.0]),
    st.sampled_from([1e-9, 1e-6, 3e-5, 0.01]),
    st.sampled_from([None, 0.0, 0.5, 0.99]),
)


@settings(max_examples=60, deadline=None)
@given(budgets, budgets)
def test_gaussian_budgets_compose_in_mu_squared(present, added):
    """Against the formula of the analytic Gaussian mechanism, solved by another program."""
    whole = renewed(present, added)
    units, before = accountant_for(whole).total, accountant_for(present)
    mu = [mu_of(one.epsilon, float(Fraction(repr(one.delta)) - one.for_thresholds)) for one in (present, added)]
    assert units == pytest.approx((mu[0] ** 2 + mu[1] ** 2) * UNITS, rel=1e-7, abs=4)  # whole units
    assert units <= before.total + accountant_for(added).total  # rounded so that no more is granted than both allow
    assert units > before.total
    assert whole.for_thresholds == pytest.approx(present.for_thresholds + added.for_thresholds, rel=1e-12)
    assert delta_of(math.sqrt(units / UNITS), whole.epsilon) <= accountant_for(whole).delta * (1 + 1e-6)
    # It is said at the delta of before; and it is no more than both promise that are simply added up.
    assert accountant_for(whole).delta == pytest.approx(before.delta, rel=1e-12)
    deltas = before.delta + accountant_for(added).delta
    assert delta_of(math.sqrt(units / UNITS), present.epsilon + added.epsilon) <= deltas


def test_a_gaussian_ledger_is_raised_and_renewed(path, kit):
    with contextlib.closing(Ledger(path, GAUSSIAN)) as ledger:
        kit.register(ledger)
        total = ledger.total
        ledger.raise_budget(Budget(2.0, 2e-6), reason=WHY)
        assert ledger.total == accountant_for(Budget(2.0, 2e-6)).total > 3 * total
        assert ledger.threshold_delta == Fraction(2, 10**7)
        whole = ledger.renew_budget(GAUSSIAN, reason=WHY)
        assert ledger.total == pytest.approx(accountant_for(Budget(2.0, 2e-6)).total + total, rel=1e-8)
        assert ledger.threshold_delta == Fraction(3, 10**7)
    with contextlib.closing(Ledger(path, whole)) as ledger:
        assert ledger.budget == whole
        assert ledger.audit().ok


def test_thresholds_spend_what_both_keep(path, kit):
    with contextlib.closing(Ledger(path, THRESHOLDS)) as ledger:
        kit.register(ledger)
        ledger.charge("people", "q", {}, kit.cost(0.1), delta=Fraction(1, 10**6))
        with pytest.raises(BudgetExceeded):
            ledger.charge("people", "r", {}, kit.cost(0.1), delta=Fraction(1, 10**7))
        whole = ledger.renew_budget(THRESHOLDS, reason=WHY)
        assert (whole.epsilon, whole.delta, whole.noise) == (2.0, 2e-6, "laplace")
        ledger.charge("people", "r", {}, kit.cost(0.1), delta=Fraction(1, 10**6))
        assert ledger.delta_remaining == 0
        assert ledger.audit().ok
    with contextlib.closing(Ledger(path, THRESHOLDS)) as ledger:
        assert ledger.delta_remaining == 0


def test_a_pure_ledger_gets_delta_for_thresholds(path):
    with contextlib.closing(Ledger(path, PURE)) as ledger:
        assert ledger.threshold_delta == 0
        ledger.raise_budget(Budget(1.0, 1e-6, noise="laplace"), reason="groups that nobody can list beforehand")
        assert ledger.threshold_delta == Fraction(1, 10**6)
    Ledger(path, PURE).close()


def forged(path, kit, change, number):
    """Change an entry and make every hash follow again."""
    with kit.raw(path) as connection:
        (payload,) = connection.execute("SELECT payload FROM entry WHERE number = ?", [number]).fetchone()
        values = json.loads(payload)
        change(values)
        connection.execute("UPDATE entry SET payload = ? WHERE number = ?", [writing.to_bytes(values), number])
        kit.rehash(connection, number)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.update(total=10**11),
        lambda values: values.update(total="2"),
        lambda values: values.update(total=2**63),
        lambda values: values.update(reason=""),
        lambda values: values.pop("reason"),
        lambda values: values.update(budget={"epsilon": 2.0, "delta": 1e-6, "noise": "gaussian"}),
        lambda values: values.update(budget=None),
        lambda values: values.update(added=5),
    ],
)
def test_a_forged_raise_is_found(path, kit, change):
    with contextlib.closing(Ledger(path, PURE)) as ledger:
        ledger.raise_budget(Budget(2.0), reason=WHY)
    forged(path, kit, change, 2)
    assert not audit_file(path).ok
    with pytest.raises(LedgerCorrupt):
        Ledger(path, PURE)


def test_a_charge_beyond_the_budget_of_its_time_is_found(path, kit):
    """More was spent than there was, and a raise came after it."""
    with contextlib.closing(Ledger(path, PURE)) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.9)
        ledger.raise_budget(Budget(2.0), reason=WHY)
    assert audit_file(path).ok
    forged(path, kit, lambda values: values.update(total=8 * 10**11), 1)
    assert audit_file(path).problems == ("more was spent than the budget allows",)


def test_a_total_that_no_budget_gives_is_not_granted(path, kit):
    with contextlib.closing(Ledger(path, PURE)) as ledger:
        ledger.raise_budget(Budget(2.0), reason=WHY)
    forged(path, kit, lambda values: values.update(total=10**15), 2)
    with contextlib.closing(Ledger(path, PURE)) as ledger:
        assert ledger.total == 2 * UNITS


@pytest.mark.parametrize(
    ("budget", "more"),
    [(PURE, Budget(2.0)), (GAUSSIAN, Budget(2.0, 1e-6)), (GAUSSIAN, Budget(2.0, 1e-4)), (GAUSSIAN, Budget(1.0, 1e-4))],
)
def test_what_was_answered_before_a_raise_is_free_after_it(opened, budget, more):
    """Also where delta rose, and the same epsilon would buy more now."""
    session, people = opened(budget)
    ages = people.histogram("age", epsilon=0.5).run()
    within = people.count(where="age < 9", error=20).run()
    spent = session.ledger.spent
    session.raise_budget(more, reason=WHY)
    session.close()
    session, people = opened(budget)
    assert session.budget == more
    for query, first in (
        (people.histogram("age", epsilon=0.5), ages),
        (people.count(where="age < 9", error=20), within),
    ):
        again = query.run()
        assert (again.number, again.paid) == (first.number, 0)
        pd.testing.assert_frame_equal(again.frame[["value"]], first.frame[["value"]])
    assert session.ledger.spent == spent
    assert session.audit().ok


def test_a_statement_that_was_answered_before_a_raise_is_free_after_it(opened):
    session, _ = opened(GAUSSIAN)
    text = "SELECT sex, AVG(age) AS a FROM people GROUP BY sex HAVING COUNT(*) > 3"
    first = session.sql(text, epsilon=0.5).run()
    session.raise_budget(Budget(2.0, 1e-4), reason=WHY)
    again = session.sql(text, epsilon=0.5).run()
    assert (again.number, again.paid) == (first.number, 0)


def test_a_session_shows_the_whole_and_the_reason(opened):
    session, people = opened()
    people.count(epsilon=1.0).run()
    seen = []
    session.on_change(lambda: seen.append(session.budget))
    with pytest.raises(BudgetExceeded):
        people.count(where="age < 5", fresh=True, epsilon=0.5).run()
    assert session.renew_budget(Budget(1.0), reason="<b>year 2</b> of the study") == Budget(2.0)
    assert seen == [Budget(2.0)]
    assert (session.budget, session.remaining.epsilon, session.confirm_above) == (Budget(2.0), 1.0, 0.1)
    assert people.count(where="age < 5", fresh=True, epsilon=0.5).plan.affordable
    raises = session.budgets()
    assert raises["epsilon"].tolist() == [1.0, 2.0]
    assert raises["reason"].tolist() == ["", "<b>year 2</b> of the study"]
    from card_texts import budget_html, budget_text

    from dpnotebook.notebook.dashboard.summary import dashboard_html, dashboard_text

    day = f"{raises['time'][1]:%Y-%m-%d}"
    for text in (budget_text(session), dashboard_text(session)):
        assert f"raised from ε = 1 · {day} to ε = 2: <b>year 2</b> of the study" in text
    for html in (budget_html(session), dashboard_html(session)):
        assert "year 2" in html
        assert "<b>year 2</b>" not in html
    assert "of the budget left of ε 2" in budget_text(session)
    again, _ = opened()
    assert again.budget == Budget(2.0)
    assert again.ledger.audit().ok


def test_many_raises_stay_one_line(opened):
    session, _ = opened()
    from dpnotebook.notebook.cards.budget import raised_line

    assert raised_line(session) == ""
    for n in range(6):
        session.renew_budget(Budget(0.1), reason=f"reason {n}")
    text = raised_line(session)
    assert text.startswith("raised from ε = 1 · 3 earlier raises; ")
    assert "reason 2" not in text
    assert text.endswith("to ε = 1.6: reason 5")


def test_a_session_raises_only_by_name_and_reason(opened):
    session, _ = opened()
    with pytest.raises(TypeError):
        session.raise_budget(Budget(2.0), WHY)
    with pytest.raises(AccuracyError):
        session.raise_budget(2.0, reason=WHY)
    assert session.budget == PURE
    assert np.isclose(session.remaining.epsilon, 1.0)
