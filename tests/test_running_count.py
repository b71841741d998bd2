"""Running counts of a table that grows: the error of every part, what a row has paid in the end, other kernels."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import AccuracyError, DomainError, EngineError, LedgerConflict
from dpnotebook.privacy.laws import law_of
from dpnotebook.session.pipeline import PLANNED_AGAIN
from dpnotebook.session.questions import draw_noise
from dpnotebook.strategy.arrival import at_arrival
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


@pytest.mark.one_in(2)
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


def prices_of_parts(so_far, session):
    """Return what each part pays, exactly: its column to the power of the noise's norm, times what a unit costs."""
    accountant = session.ledger.accountant
    columns = [[abs(int(x)) ** accountant.law.power for x in column] for column in so_far.strategy.operator.dense().T]
    return [math.ceil(accountant.rate(so_far._scale) * sum(column)) for column in columns]


def steps_charged(session):
    return [one for one in session.ledger.history() if one["question"].startswith("running count ")]


@pytest.mark.one_in(2)
def test_each_month_pays_at_once_for_all_steps_that_will_read_it(session):
    so_far = session.running_count("visits", horizon=MONTHS, error=50)
    prices = prices_of_parts(so_far, session)
    so_far.run()
    assert session.ledger.spent == prices[0]
    for number in range(2, MONTHS + 1):
        session.extend("visits", month(number))
        so_far.run()
        assert so_far.run().paid == 0.0
        assert session.ledger.spend("visits").cells.tolist() == prices[:number]
    # A row is in one part: the total is that of the dearest part.
    assert session.ledger.spent == max(prices) <= session.ledger.accountant.units(so_far.cost.epsilon)
    assert len(steps_charged(session)) == so_far.strategy.operator.shape[0]
    assert session.audit().ok


@pytest.mark.slow
def test_1024_parts_pay_what_the_optimum_costs_before_the_first_noise():
    """In the price that is charged, the errors are 2.955 times those of one count, in root mean square."""
    with dpn.Session(budget=dpn.Budget(epsilon=1.0, delta=1e-6), ledger=":memory:") as session:
        session.protect(month(1, 50), "visits", domain=DOMAIN)
        so_far = session.running_count("visits", horizon=1024, epsilon=0.5, objective="total")
        session._questions.draw = lambda *_: (_ for _ in ()).throw(RuntimeError)
        with pytest.raises(EngineError):
            so_far.run()
        accountant, prices = session.ledger.accountant, prices_of_parts(so_far, session)
        assert session.ledger.spent == prices[0]
        assert max(prices) <= accountant.units(0.5)
        alone = accountant.law.count_variance(accountant.scale(max(prices), 1))
        assert (so_far.variance * at_arrival(so_far.strategy).mean() / alone) ** 0.5 == pytest.approx(2.955, rel=0.01)


@pytest.mark.one_in(2)
def test_what_other_questions_take_is_not_missing_for_later_months(noise):
    """Old months have paid: a new one finds its own budget whole, and all of that of the others may be gone."""
    with dpn.Session(budget=dpn.Budget(epsilon=0.5, delta=DELTAS[noise]), ledger=":memory:") as session:
        session.protect(month(1), "visits", domain=DOMAIN)
        so_far = session.running_count("visits", horizon=6, epsilon=0.4)
        for number in range(1, 7):
            if number > 1:
                session.extend("visits", month(number))
            assert so_far.run().frame["value"].notna().all()
            rest = session.remaining.epsilon
            if rest > 1e-3:
                session.table("visits").histogram("age", epsilon=float(f"{rest * 0.99:.3g}")).run()
        assert session.remaining.epsilon < 0.05
        assert (half_widths(so_far.run()) <= so_far.error * ROUNDED).all()
        assert session.audit().ok


def test_a_new_month_needs_its_whole_price(noise):
    with dpn.Session(budget=dpn.Budget(epsilon=0.5, delta=DELTAS[noise]), ledger=":memory:") as session:
        session.protect(month(1), "visits", domain=DOMAIN)
        so_far = session.running_count("visits", horizon=6, epsilon=0.4)
        session.table("visits").histogram("age", epsilon=0.4).run()
        spent = session.ledger.spent
        with pytest.raises(dpn.BudgetExceeded):
            so_far.run()
        assert session.ledger.spent == spent
        session.extend("visits", month(2))
        with pytest.raises(dpn.BudgetExceeded):  # nor is a later step measured before it
            so_far.run()
        assert steps_charged(session) == []


class TestEachStepIsMeasuredOnce:
    def test_asked_again_it_is_the_recorded_one(self, session):
        so_far = session.running_count("visits", horizon=6, error=50)
        session.extend("visits", month(2))
        so_far.run()
        charged = len(steps_charged(session))
        for step in so_far.steps:
            assert step.plan.free
            assert step.run().paid == step.run().paid == 0.0
            assert replace(step, fresh=True).run().paid == 0.0
        assert len(steps_charged(session)) == charged == len(so_far.steps)

    def test_none_before_the_one_before_it(self, session):
        so_far = session.running_count("visits", horizon=6, error=50)
        session.extend("visits", month(2))
        with pytest.raises(LedgerConflict, match="one after another"):
            so_far.steps[1].run()
        assert session.ledger.spent == 0

    def test_one_that_was_interrupted_goes_on(self, session):
        so_far = session.running_count("visits", horizon=6, error=50)
        so_far.run()
        spent = session.ledger.spent
        session.extend("visits", month(2))
        session._questions.draw = lambda *_: (_ for _ in ()).throw(RuntimeError)
        with pytest.raises(EngineError):
            so_far.run()
        paid, charged = session.ledger.spend("visits").cells.tolist(), len(steps_charged(session))
        assert paid == prices_of_parts(so_far, session)[:2]
        session._questions.draw = draw_noise
        assert len(so_far.run().frame) == 2
        assert session.ledger.spend("visits").cells.tolist() == paid
        assert len(steps_charged(session)) >= charged
        assert len(steps_charged(session)) == len(so_far.steps)
        assert spent <= session.ledger.spent

    def test_one_whose_noise_is_gone_is_paid_for_once_more(self, session):
        so_far = session.running_count("visits", horizon=6, error=50)
        session._questions.draw = lambda *_: (_ for _ in ()).throw(RuntimeError)
        with pytest.raises(EngineError):
            so_far.run()
        session._questions.draw = draw_noise
        first, accountant = session.ledger.spent, session.ledger.accountant
        (charge,) = session.ledger.pending("visits")
        session.ledger._random_states.forget(charge.random_state)
        assert so_far.run().value is not None
        row = abs(int(so_far.strategy.operator.dense()[0, 0])) ** accountant.law.power
        again = math.ceil(accountant.rate(so_far._scale) * row)
        assert session.ledger.spent == first + again

    def test_another_kernel_is_never_faster_unseen(self, tmp_path, noise):
        """Planned on a ledger that moved on, a step that is paid for is not charged: the other may have measured it."""
        budget = dpn.Budget(epsilon=5.0, delta=DELTAS[noise])
        with (
            dpn.Session(budget=budget, ledger=tmp_path / "visits.ledger") as one,
            dpn.Session(budget=budget, ledger=tmp_path / "visits.ledger") as other,
        ):
            for session in (one, other):
                session.protect(month(1), "visits", domain=DOMAIN)
            mine, theirs = (session.running_count("visits", horizon=6, error=50) for session in (one, other))
            step, charge, planned = mine.steps[0], one.ledger.charge, []

            def overtaken(*given):
                planned.append(given)
                if len(planned) <= PLANNED_AGAIN:
                    other.table("visits").count(error=40, fresh=True).run()
                else:
                    theirs.run()
                return charge(*given)

            one.ledger.charge = overtaken
            with pytest.raises(LedgerConflict):
                step.run()
            one.ledger.charge = charge
            assert step.run().paid == 0.0
            assert len(steps_charged(one)) == 1


def test_it_costs_less_than_every_month_anew(session, noise):
    so_far = session.running_count("visits", horizon=MONTHS, error=50).cost.epsilon
    alone = session.table("visits").count(error=50).plan.cost.epsilon
    assert so_far < (0.6 if noise == "laplace" else 0.2) * MONTHS * alone


@pytest.mark.one_in(2)
def test_an_epsilon_is_never_passed(session):
    so_far = session.running_count("visits", horizon=MONTHS, epsilon=0.4, where="ward == 'A'")
    for number in range(1, MONTHS + 1):
        if number > 1:
            session.extend("visits", month(number))
        assert (half_widths(so_far.run()) <= so_far.error * ROUNDED).all()
    assert 0.2 < session.spent.epsilon <= 0.4


@pytest.mark.one_in(2)
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


@pytest.mark.one_in(2)
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
