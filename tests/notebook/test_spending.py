import pytest

from dpnotebook.notebook.dashboard.spending import columns, offers, timeline


def test_the_timeline_adds_up_in_exact_units(make_session):
    session = make_session(epsilon=1.0, delta=1e-6)
    people = session.table("people")
    for epsilon in (0.3, 0.4):
        people.count(epsilon=epsilon, fresh=True).run()
    steps = timeline(session)
    assert [step.number for step in steps] == [1, 2]
    assert steps[0].epsilon == pytest.approx(0.3)
    assert 0.4 < steps[1].epsilon < 0.7  # Gaussian: squares add up
    assert steps[-1].epsilon == session.spent.epsilon
    assert steps[-1].share == session.ledger.spent / session.ledger.accountant.total


def test_disjoint_questions_are_one_step(session):
    people = session.table("people")
    people.count(where="sex == 'F'", epsilon=0.3).run()
    people.count(where="sex == 'M'", epsilon=0.3).run()
    assert [step.epsilon for step in timeline(session)] == [0.3, 0.3]
    by_name = {column.attribute: column for column in columns(session)}
    assert by_name["sex"].most == by_name["sex"].least == pytest.approx(0.3)


def test_columns_tell_which_levels_have_paid(session):
    session.table("people").count(where="age < 5", epsilon=0.3).run()
    by_name = {column.attribute: column for column in columns(session)}
    assert (by_name["age"].most, by_name["age"].least) == pytest.approx((0.3, 0.0))
    assert (by_name["sex"].most, by_name["sex"].least) == pytest.approx((0.3, 0.3))


def test_offers_are_the_planners_own_numbers(session):
    people = session.table("people")
    people.count(epsilon=0.4).run()
    found = {offer.question: offer for offer in offers(session)}
    assert set(found) == {"a count", "the cumulative counts of age", "the mean of age"}
    count = found["a count"]
    assert count.epsilon == pytest.approx(0.6)
    assert count.error == people.count(epsilon=0.6, fresh=True).plan.error
    assert count.error_at_half == people.count(epsilon=0.3, fresh=True).plan.error
    assert session.spent.epsilon == pytest.approx(0.4)


def test_nothing_is_offered_when_nothing_is_left(session):
    session.table("people").count(epsilon=1.0).run()
    assert offers(session) == []
