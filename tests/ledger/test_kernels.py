"""Sessions of several kernels on one ledger that refine each other's answers, and one that dies while it does."""

import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import EngineError, LedgerConflict
from dpnotebook.reuse.recorded import planned_from_json

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


def test_what_another_kernel_refines_is_measured_anew_meanwhile(kernel, monkeypatch):
    """The first kernel has paid for a refinement and not recorded it: no other may draw on the same answer."""
    _, people = kernel()
    people.count(variance=32).run()
    second, others = kernel()
    with monkeypatch.context() as dying:
        dying.setattr("dpnotebook.answering.refined_laplace", die)
        with pytest.raises(EngineError):
            people.count(variance=8).run()
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


def test_of_two_kernels_that_plan_the_same_refinement_one_is_told(kernel, monkeypatch):
    first, people = kernel()
    people.count(variance=32).run()
    second, others = kernel()
    planned = second._plan

    def late(*args, **options):
        plan = planned(*args, **options)
        people.count(variance=8).run()  # between the plan of one kernel and its charge
        return plan

    with monkeypatch.context() as racing:
        racing.setattr(second, "_plan", late)
        with pytest.raises(LedgerConflict, match=r"release 1 was refined by release 2: .* Run the query again"):
            others.count(variance=2).run()
    assert len(second.history()) == 2
    release = others.count(variance=2).run()
    assert second.ledger.get(release.number).refines == ((2, 0),)
    assert second.spent.epsilon == first.spent.epsilon
    assert second.audit().ok
