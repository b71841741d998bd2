"""Running counts of a table that grows: the error of every part, what a row has paid in the end, other kernels."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, DomainError
from dpnotebook.privacy.laws import law_of
from dpnotebook.session.questions import draw_noise
from dpnotebook.workload.base import WorkloadError

DELTAS = {"gaussian": 1e-6, "laplace": 0.0}
DOMAIN = {"ward": ["A", "B"], "age": dpn.Range(0, 9)}
MONTHS = 12
ROUNDED = 1 + 1e-5
MOVED = 10**6  # rows by which a draw is moved: what is rounded in an answer is nothing beside it


def month(number, rows=300):
    random = np.random.default_rng(number)
    return pd.DataFrame({"ward": random.choice(["A", "B"], rows), "age": random.integers(0, 10, rows)})


@pytest.fixture(params=DELTAS)
def noise(request):
    return request.param


@pytest.fixture
def session(noise):
    with dpn.Session(budget=dpn.Budget(epsilon=5.0, delta=DELTAS[noise]), ledger=":memory:") as session:
        session.protect(month(1), "visits", domain=DOMAIN)
        yield session


def half_widths(release):
    return ((release.frame["upper"] - release.frame["lower"]) / 2).to_numpy(dtype=float)


def test_every_month_keeps_the_error_and_the_price_is_what_was_said(session):
    so_far = session.running_count("visits", horizon=MONTHS, error=50)
    assert so_far.error <= 50
    for number in range(1, MONTHS + 1):
        if number > 1:
            session.extend("visits", month(number))
        release = so_far.run()
        assert len(release.frame) == number
        assert (half_widths(release) <= 50 * ROUNDED).all()
        assert so_far.run().paid == 0.0
    assert session.spent.epsilon <= so_far.cost.epsilon * ROUNDED


def test_what_is_to_come_is_what_later_months_are_charged(session, noise):
    """Rows of a part pay in steps, of which none is charged before it is measured, and in all what was said."""
    so_far = session.running_count("visits", horizon=MONTHS, error=50)
    accountant = session.ledger.accountant
    spent, to_come = [], []
    for number in range(1, MONTHS + 1):
        if number > 1:
            session.extend("visits", month(number))
        so_far.run()
        # What the rows of every part have paid, the ones of the first most.
        spent.append(accountant.units(session.spent.epsilon))
        to_come.append(accountant.units(so_far.to_come.epsilon) if so_far.to_come.epsilon else 0)
    whole = accountant.units(so_far.cost.epsilon)
    # Prices of steps are rounded up to four figures, and what is to come is not.
    assert all(paid + later >= spent[-1] * 0.998 for paid, later in zip(spent, to_come, strict=True))
    assert spent[-1] <= whole
    assert to_come == sorted(to_come, reverse=True) or noise == "laplace"  # a tree reads a part where a node ends
    assert max(to_come) < whole
    assert to_come[-1] == 0
    assert "to come" not in repr(so_far)


def test_what_other_questions_took_is_not_there_for_later_months(noise):
    """The step that is too much says so and is not charged; what was measured stays, and a larger budget goes on."""
    with dpn.Session(budget=dpn.Budget(epsilon=0.5, delta=DELTAS[noise]), ledger=":memory:") as session:
        session.protect(month(1), "visits", domain=DOMAIN)
        so_far = session.running_count("visits", horizon=6, epsilon=0.4)
        assert "keep ε" in repr(so_far)
        first = so_far.run()
        other = 0.45 - session.spent.epsilon if noise == "laplace" else 0.4
        session.table("visits").histogram("age", epsilon=other).run()
        spent = session.spent.epsilon
        for number in range(2, 7):
            session.extend("visits", month(number))
        with pytest.raises(dpn.BudgetExceeded):
            so_far.run()
        assert session.spent.epsilon >= spent
        assert session.audit().ok
        assert first.frame["value"].notna().all()


def test_it_costs_less_than_every_month_anew(session, noise):
    so_far = session.running_count("visits", horizon=MONTHS, error=50).cost.epsilon
    alone = session.table("visits").count(error=50).plan.cost.epsilon
    assert so_far < (0.6 if noise == "laplace" else 0.2) * MONTHS * alone


def test_an_epsilon_is_never_passed(session):
    so_far = session.running_count("visits", horizon=MONTHS, epsilon=0.4, where="ward == 'A'")
    for number in range(1, MONTHS + 1):
        if number > 1:
            session.extend("visits", month(number))
        assert (half_widths(so_far.run()) <= so_far.error * ROUNDED).all()
    assert 0.2 < session.spent.epsilon <= 0.4


def test_the_counts_are_off_as_much_as_is_said(noise):
    """Exactly: how much each draw moves the counts, alone, and the variance that its scale gives it."""
    frames = [month(number, 10 * number) for number in range(1, 7)]
    rows, law = np.cumsum([len(frame) for frame in frames]), law_of(noise)

    def errors(moved):
        """Return how far off the counts are where only one number is drawn, and all that were asked for."""
        drawn = []

        def draw(item, law, source):
            ends = np.zeros_like(draw_noise(item, law, source))
            for place in range(ends.size):
                ends.flat[place] = MOVED * 2**item.bits * (len(drawn) == moved)
                drawn.append(item)
            return ends

        with dpn.Session(budget=dpn.Budget(epsilon=5.0, delta=DELTAS[noise]), ledger=":memory:") as session:
            session.protect(frames[0], "visits", domain=DOMAIN)
            session._questions.draw = draw
            for frame in frames[1:]:
                session.extend("visits", frame)
            found = session.running_count("visits", horizon=6, error=50).run().frame
        return (found["value"].to_numpy() - rows) / MOVED, drawn, found["std_error"].to_numpy()

    exact, drawn, told = errors(None)
    assert exact == pytest.approx(np.zeros(6), abs=1e-9)
    assert len(drawn) >= 6
    variances = sum(errors(k)[0] ** 2 * law.count_variance(item.scale) for k, item in enumerate(drawn))
    assert told == pytest.approx(np.sqrt(variances), rel=1e-4)


def test_another_kernel_goes_on_where_it_was(tmp_path, noise):
    budget, paid = dpn.Budget(epsilon=5.0, delta=DELTAS[noise]), []
    for months in (2, 2, 4):
        with dpn.Session(budget=budget, ledger=tmp_path / "visits.ledger") as session:
            session.protect(month(1), "visits", domain=DOMAIN)
            for number in range(2, months + 1):
                session.extend("visits", month(number))
            so_far = session.running_count("visits", horizon=MONTHS, error=50)
            paid.append(so_far.run().paid)
            spent = session.spent.epsilon
    assert paid[1] == 0.0
    assert spent <= so_far.cost.epsilon


def test_an_error_is_kept_beside_other_answers(session):
    so_far = session.running_count("visits", horizon=MONTHS, error=40)
    session.table("visits").count(error=30).run()
    for number in range(2, 6):
        session.extend("visits", month(number))
        session.table("visits").groupby("part").count(where="age < 5", error=70).run()
        session.table("visits").count(where=f"part <= {number}", error=60).run()
        release = so_far.run()
        assert (half_widths(release) <= 40 * ROUNDED).all()
    assert so_far.run().paid == 0.0


def test_units_that_are_in_one_part(noise):
    with dpn.Session(budget=dpn.Budget(epsilon=5.0, delta=DELTAS[noise]), ledger=":memory:") as session:
        frames = [month(number).assign(person=np.arange(300) // 2 + 1_000 * number) for number in (1, 2, 3)]
        session.protect(frames[0], "visits", domain=DOMAIN, unit="person", max_rows=2)
        so_far = session.running_count("visits", horizon=6, error=100)
        for frame in frames[1:]:
            session.extend("visits", frame, one_part=True)
        assert (half_widths(so_far.run()) <= 100 * ROUNDED).all()
        assert session.spent.epsilon <= so_far.cost.epsilon


class TestBadInput:
    def test_units_in_several_parts(self, noise):
        with dpn.Session(budget=dpn.Budget(epsilon=5.0, delta=DELTAS[noise]), ledger=":memory:") as session:
            frame = month(1).assign(person=np.arange(300))
            session.protect(frame, "visits", domain=DOMAIN, unit="person", max_rows=1)
            session.extend("visits", frame.assign(age=1))
            with pytest.raises(DomainError, match="one_part=True"):
                session.running_count("visits", horizon=6, error=100)

    def test_more_parts_than_the_horizon(self, session):
        session.extend("visits", month(2))
        with pytest.raises(DomainError, match="2 parts already"):
            session.running_count("visits", horizon=1, error=50)

    @pytest.mark.parametrize("horizon", [0, -1, 2.5, "12", None, 10**6])
    def test_a_horizon_is_a_number_of_parts(self, session, horizon):
        with pytest.raises((WorkloadError, DomainError)):
            session.running_count("visits", horizon=horizon, error=50)

    def test_a_budget_that_does_not_pay_for_all_of_it(self, session):
        with pytest.raises(AccuracyError, match="more than the whole budget"):
            session.running_count("visits", horizon=MONTHS, error=1)
        assert session.spent.epsilon == 0

    @pytest.mark.parametrize("said", [{}, {"error": 50, "epsilon": 1}, {"error": "5%"}, {"error": 0}, {"error": 1e-9}])
    def test_one_accuracy_in_rows(self, session, said):
        with pytest.raises(AccuracyError):
            session.running_count("visits", horizon=MONTHS, **said)

    def test_a_condition_that_cannot_be_read(self, session):
        with pytest.raises(dpn.DPError, match="warp"):
            session.running_count("visits", horizon=MONTHS, error=50, where="warp == 1")
