"""Sessions of several kernels on one ledger that refine each other's answers, and one that dies while it does."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import EngineError
from dpnotebook.planner.plan_json import plan_to_json, planned_from_json

ROWS = pd.DataFrame({"age": [n * 7 % 50 for n in range(60)], "sex": ["F", "M"] * 30})


@pytest.fixture
def kernel(path):
    """Return a function that opens the ledger as another kernel would: the session and its protected rows."""
    sessions = []

    def opened():
        session, rows = dpn.Session(dpn.Budget(epsilon=2.0), ledger=path), ROWS.copy()
        session.protect(rows, "people", domain={"age": dpn.Range(0, 49), "sex": ["F", "M"]})
        sessions.append(session)
        return session, rows.dp

    yield opened
    for session in sessions:
        session.close()


def die(*_):
    raise RuntimeError("the kernel died")


def test_a_stricter_question_refines_and_pays_the_difference(kernel):
    session, people = kernel()
    first = people.count(variance=32).run()
    release = people.count(variance=2).run()
    record = session.ledger.get(release.number)
    assert record.refines == ((1, 0),)
    (refined,) = planned_from_json(record.plan, session.table("people").table.domain)
    # Both answers together cost what the second alone costs, to the unit.
    assert session.spent.epsilon == pytest.approx(float(1 / refined.scale), abs=1e-11)
    assert release.paid == pytest.approx(float(1 / refined.scale) - first.paid, abs=1e-11)
    assert session.audit().ok


def test_what_another_kernel_refines_is_measured_anew_meanwhile(kernel):
    """The first kernel has paid for a refinement and not recorded it: no other may draw on the same answer."""
    first, people = kernel()
    people.count(variance=32).run()
    second, others = kernel()
    plan = people.count(variance=8).plan
    refines = [item.refines for item in plan.measurements]
    first.ledger.charge("people", "of the same rows", plan_to_json(plan), plan.cells, refines)
    assert second.ledger.refining("people") == {(1, 0)}
    assert [charge.refines for charge in second.ledger.pending("people")] == [((1, 0),)]
    before = second.spent.epsilon
    release = others.count(variance=2).run()
    assert second.ledger.get(release.number).refines == ()
    assert second.spent.epsilon == pytest.approx(before + release.paid)
    third, _ = kernel()  # completes what the first one paid for
    assert third.ledger.pending("people") == ()
    assert third.ledger.get(2).refines == ((1, 0),)
    assert third.ledger.refining("people") == frozenset()
    assert third.spent.epsilon == second.spent.epsilon
    assert third.audit().ok


def test_a_refinement_that_was_interrupted_is_measured_for_its_charge(kernel, monkeypatch):
    session, people = kernel()
    people.count(variance=32).run()
    with monkeypatch.context() as dying:
        dying.setattr("dpnotebook.session.questions.refined_laplace", die)
        with pytest.raises(EngineError, match=r"Release 2 was charged, .* was shown\. Run it again"):
            people.count(variance=8).run()
        spent = session.spent.epsilon
        with pytest.raises(EngineError, match="Release 2 was charged"):
            people.count(variance=8).run()
    assert session.spent.epsilon == spent
    release = people.count(variance=8).run()
    assert (release.number, release.paid, session.spent.epsilon) == (2, 0, spent)
    assert session.ledger.get(2).refines == ((1, 0),)
    stricter = people.count(variance=2).run()
    assert session.ledger.get(stricter.number).refines == ((2, 0),)
    assert session.audit().ok


def test_of_two_kernels_that_plan_the_same_refinement_one_plans_again(kernel, monkeypatch):
    first, people = kernel()
    people.count(variance=32).run()
    second, others = kernel()
    planned = second._pipeline.plan

    def late(*args, **options):
        plan = planned(*args, **options)
        people.count(variance=8).run()  # between the plan of one kernel and its charge
        return plan

    with monkeypatch.context() as racing:
        racing.setattr(second._pipeline, "plan", late)
        release = others.count(variance=2).run()
    assert len(second.history()) == 3
    assert second.ledger.get(release.number).refines == ((2, 0),)
    assert second.spent.epsilon == first.spent.epsilon
    assert second.audit().ok


def test_the_slower_of_two_kernels_that_complete_a_charge_forgets_its_own_answer(kernel, monkeypatch):
    """Two draws for one charge: the one that was recorded first is all that either kernel may ever build on."""
    slow, people = kernel()
    with monkeypatch.context() as dying:
        dying.setattr(slow._questions, "draw", die)
        with pytest.raises(EngineError):
            people.count(where="sex == 'F'", variance=8).run()
    record = slow.ledger.record

    def late(number, answers, details):
        kernel()  # completes what is pending when it protects the table
        assert slow.ledger.pending("people") == ()
        other = [answer + 10**6 for answer in answers]  # so that it cannot be the same by chance
        return record(number, other, details)

    with monkeypatch.context() as racing:
        racing.setattr(slow.ledger, "record", late)
        release = people.count(where="sex == 'F'", variance=8).run()
    last, _ = kernel()
    pd.testing.assert_frame_equal(release.frame, last.release(1).frame)
    assert abs(release.frame["value"].item() - 30) < 10**3
    # What comes next builds on what was recorded: the men and the women are everybody.
    people.count(where="sex == 'M'", variance=8).run()
    everybody = people.count(variance=17).run()
    assert everybody.paid == 0
    assert abs(everybody.frame["value"].item() - 60) < 10**3
    for session in (slow, last):
        history, record = session._questions.histories._history(session.table("people").table), last.ledger.get(1)
        (bits,) = (item["bits"] for item in [*record.plan["measures"], *record.plan.get("items", ())])
        assert history.items[1, 0].noisy.tolist() == np.ldexp(record.answers[0].astype(float), -bits).tolist()
    assert last.audit().ok
