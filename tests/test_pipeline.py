"""The five steps: a plan is made once for a question and a state of the ledger, and never outlives either."""

import contextlib

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.ledger.opened import Opened
from dpnotebook.session import histories
from dpnotebook.sql import plan as statement_plans

STATEMENT = "SELECT COUNT(*) AS bakers FROM people WHERE job = 'baker'"


def frame():
    return pd.DataFrame({"age": np.arange(300) % 100, "job": ["nurse", "baker", "clerk"] * 100})


@pytest.fixture
def made(monkeypatch):
    """How many plans were made so far, of questions and of statements."""
    count = [0]

    def counted(function):
        def call(*args, **kwargs):
            count[0] += 1
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(histories, "make_plan", counted(histories.make_plan))
    monkeypatch.setattr(statement_plans, "make_statement_plan", counted(statement_plans.make_statement_plan))
    return count


@pytest.fixture
def kernel(tmp_path):
    with contextlib.ExitStack() as stack:

        def opened():
            session = dpn.Session(dpn.Budget(epsilon=5.0), ledger=tmp_path / "people.ledger")
            stack.callback(session.close)
            session.protect(frame(), "people", domain={"age": dpn.Range(0, 99)})
            return session

        yield opened


def ask(session, kind):
    if kind == "statement":
        return session.sql(STATEMENT, epsilon=0.5)
    return session.table("people").histogram("age", epsilon=0.5)


@pytest.mark.parametrize("kind", ["question", "statement"])
def test_what_was_looked_at_is_what_runs(kernel, made, kind):
    query = ask(kernel(), kind)
    plan = query.plan
    assert query.plan is plan
    release = query.run()
    assert made == [1]
    assert release.paid == pytest.approx(plan.cost.epsilon)
    assert query.run().paid == 0  # by another plan: the ledger has the answer now
    assert made == [2]


@pytest.mark.parametrize("kind", ["question", "statement"])
def test_another_accuracy_is_another_plan(kernel, made, kind):
    query = ask(kernel(), kind)
    assert query.at(epsilon=0.25).plan.epsilon == pytest.approx(query.plan.epsilon / 2)
    assert made == [2]


@pytest.mark.parametrize("kind", ["question", "statement"])
def test_what_another_kernel_charges_makes_plans_anew(kernel, made, kind):
    first, second = kernel(), kernel()
    query = ask(first, kind)
    before = query.plan
    ask(second, kind).run()
    assert query.plan.recorded == 1
    assert before.recorded is None
    assert query.run().paid == 0


def test_a_charge_that_cannot_be_finished_any_more_makes_plans_anew(kernel, tmp_path, monkeypatch):
    session = kernel()
    query = ask(session, "question")
    with monkeypatch.context() as patched:
        patched.setattr(session.ledger, "record", lambda *_: 1 / 0)
        with pytest.raises(dpn.EngineError):
            query.run()
    assert query.plan.recorded == 1
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "people.ledger":
            file.unlink()  # what is random about the answer: it can never be measured
    assert query.plan.recorded is None
    assert query.run().paid == pytest.approx(0.5)


def test_a_public_table_that_changes_makes_plans_anew(kernel, made):
    session = kernel()
    session.register(pd.DataFrame({"job": ["nurse", "baker"]}), "jobs", public=True)
    query = ask(session, "statement")
    _ = query.plan
    session.register(pd.DataFrame({"job": ["nurse"]}), "jobs", public=True)
    _ = query.plan
    assert made == [2]


def test_what_a_plan_is_compared_with_is_worked_out_when_somebody_looks(kernel, made):
    session = kernel()
    table = session.table("people")
    table.histogram("age", error=20).run()
    query = table.count(where="age == 7", error=20)  # known from the histogram, of whose bars it may be picked
    plan = query.plan
    assert made == [2]
    assert plan.picked.rows == 100
    alone = table.count(where="age == 7", error=20, fresh=True).plan
    assert plan.afresh.cost == alone.cost
    assert plan.afresh is plan.afresh  # once
    assert made == [4]
    assert len(alone.alternatives) > 1
    assert made == [4]  # prices are of the plan that was made
    table.count(where="age < 50", error=20).run()
    assert [one.chosen for one in alone.alternatives].count(True) == 1


def test_other_prices_of_an_old_plan_are_as_the_ledger_stands_when_they_are_looked_at(kernel):
    session = kernel()
    table = session.table("people")
    query = table.count(where="age < 50", error=10)
    old, seen = query.plan, query.plan.error
    table.histogram("age", epsilon=1.0).run()
    table.count(where="age < 50", error=9.0).run()
    assert old.alternatives == query.plan.alternatives
    assert old.error == seen


def test_the_prices_of_a_plan_outlive_the_session(kernel):
    session = kernel()
    query = session.table("people").count(where="age < 50", error=10)
    plan = query.plan
    session.close()
    assert len(plan.alternatives) > 1
    assert (plan.picked, plan.afresh, plan.otherwise) == (None, None, None)


def between_plan_and_charge(session, monkeypatch, happens):
    """Let something happen once, after the next plan of a session was made and before it is charged for."""
    charge, waiting = session.ledger.charge, [happens]

    def charged(*args, **kwargs):
        if waiting:
            waiting.pop()()
        return charge(*args, **kwargs)

    monkeypatch.setattr(session.ledger, "charge", charged)


@pytest.mark.parametrize("kind", ["question", "statement"])
def test_two_kernels_that_ask_the_same_at_one_moment_pay_once(kernel, monkeypatch, kind):
    one, other = kernel(), kernel()
    first = []
    between_plan_and_charge(other, monkeypatch, lambda: first.append(ask(one, kind).run()))
    second = ask(other, kind).run()
    assert (first[0].paid, second.paid) == (pytest.approx(0.5), 0.0)
    assert second.frame.equals(first[0].frame)
    assert other.spent.epsilon == pytest.approx(0.5)


def test_what_another_kernel_was_charged_for_and_has_not_counted_yet_is_counted_not_bought_again(kernel, monkeypatch):
    one, other = kernel(), kernel()

    def charged_only():
        with monkeypatch.context() as patch:
            patch.setattr(one.ledger, "record", lambda *_: 1 / 0)
            with pytest.raises(dpn.EngineError):
                ask(one, "question").run()

    between_plan_and_charge(other, monkeypatch, charged_only)
    assert ask(other, "question").run().paid == 0.0
    assert other.spent.epsilon == pytest.approx(0.5)


def test_a_kernel_that_is_outpaced_every_time_pays_at_last(kernel, monkeypatch):
    one, other = kernel(), kernel()
    charge, asked = other.ledger.charge, iter(range(100))

    def outpaced(*args, **kwargs):
        one.table("people").count(where=f"age < {next(asked) + 1}", epsilon=0.01, fresh=True).run()
        return charge(*args, **kwargs)

    monkeypatch.setattr(other.ledger, "charge", outpaced)
    assert other.table("people").count(where="age >= 50", epsilon=0.5, fresh=True).run().paid > 0
    assert next(asked) == 4


def test_measuring_afresh_is_paid_for_in_every_kernel(kernel, monkeypatch):
    one, other = kernel(), kernel()
    again = one.table("people").histogram("age", epsilon=0.5, fresh=True)
    between_plan_and_charge(other, monkeypatch, again.run)
    assert other.table("people").histogram("age", epsilon=0.5, fresh=True).run().paid == pytest.approx(0.5)
    assert other.spent.epsilon == pytest.approx(1.0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["question", "statement"])
def test_a_plan_reads_the_ledger_a_few_times_whatever_is_compared(kernel, kind, monkeypatch):
    session, looks = kernel(), []
    table = session.table("people")
    for number in range(20):
        table.count(where=f"age < {number + 1}", error=20).run()
    query = ask(session, kind)
    reading = Opened._reading

    def counted(ledger):
        looks.append(1)
        return reading(ledger)

    monkeypatch.setattr(Opened, "_reading", counted)
    plan = query.plan
    # The moment, what was recorded since the last one and since it was written, what was asked; of a statement also
    # what is known of declared columns, which tells how large its groups are.
    assert len(looks) <= (6 if kind == "question" else 9)
    looks.clear()
    assert len(plan.alternatives) > 1
    if kind == "question":
        assert looks == []
