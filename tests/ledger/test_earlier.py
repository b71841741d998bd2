"""Ledgers of earlier versions, of other planners and of changed tables: what they hold is used where it is true."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import LedgerError, LedgerMismatch
from dpnotebook.ledger import Ledger, audit_file
from dpnotebook.privacy.accountant import UNITS

# Written at commit 3029271, before anything was reused: counts of all rows at epsilon 0.5, by age at 0.25 and by sex
# at 0.25; a count of the women from 20 at 0.125 was charged and never recorded; one at 5 was refused.
BEFORE_REUSE = Path(__file__).parents[1] / "data" / "ledger_before_reuse.sqlite"
HEAD = "cd6268dcfc0e95e2660efa8e7fa258ac35950d2d6dbfa6d01a748db1db6d56c0"
ROWS = pd.DataFrame({"age": [n * 7 % 50 for n in range(60)], "sex": ["F", "M"] * 30})
DOMAIN = {"age": dpn.Range(0, 49), "sex": ["F", "M"]}
PLANNERS = ("naive", "pioneer", "optimal")


@pytest.fixture
def earlier(path):
    shutil.copy(BEFORE_REUSE, path)
    return path


@pytest.fixture
def opened(path):
    """Return a function that opens a session on the ledger and protects rows, and returns it with their `dp`."""
    sessions = []

    def opened(planner="optimal", rows=ROWS, name="people"):
        session, rows = dpn.Session(dpn.Budget(epsilon=2.0), ledger=path, planner=planner), rows.copy()
        sessions.append(session)
        session.protect(rows, name, domain=DOMAIN)
        return session, rows.dp

    yield opened
    for session in sessions:
        session.close()


def test_an_earlier_ledger_is_sound(earlier):
    audit = audit_file(earlier, expected=HEAD)
    assert (audit.ok, audit.compared, audit.head) == (True, True, HEAD)
    assert (audit.entries, audit.releases, audit.pending, audit.spent) == (9, 4, 1, 1_125 * 10**9)


def test_an_earlier_ledger_gives_back_what_was_recorded(earlier):
    with contextlib.closing(Ledger(earlier, dpn.Budget(epsilon=2.0))) as ledger:
        assert ledger.head == HEAD
        count, ages, sexes = ledger.records("people")
        assert (count.answers[0].ravel().tolist(), sexes.answers[0].ravel().tolist()) == ([59], [29, 27])
        assert ages.answers[0].size == 50
        assert [record.units for record in (count, ages, sexes)] == [5 * 10**11, 25 * 10**10, 25 * 10**10]
        assert {record.refines for record in (count, ages, sexes)} == {()}
        version, news = ledger.news("people")
        assert [record.number for record in news] == [1, 2, 3]
        assert version == ledger.version("people") == 9
        assert ledger.pending("people") == ()  # of the fourth the noise is not known: it can never be measured
        assert ledger.history()[3]["state"] == "lost"
        assert ledger.refining("people") == frozenset()
        assert len(ledger.refusals()) == 1


def test_what_is_new_is_appended_to_an_earlier_ledger(earlier, kit):
    with contextlib.closing(Ledger(earlier, dpn.Budget(epsilon=2.0))) as ledger:
        sex = ledger.get(3).cost
        charge = ledger.charge("people", "q", {}, sex, [(1, 0), (2, 0)])
        ledger.record(charge.number, [np.array([1])], {})
        ledger.note("people", "q", {}, {"estimates": [1.5]})
    with contextlib.closing(Ledger(earlier, dpn.Budget(epsilon=2.0))) as ledger:
        assert [record.refines for record in ledger.records("people", after=3)] == [((1, 0), (2, 0)), ()]
        assert ledger.spent == 1_375 * 10**9
        assert ledger.audit(expected=HEAD).ok


def test_a_session_goes_on_with_an_earlier_ledger(earlier, opened):
    """What was paid for is shown again at no cost, and what is new builds on it; what was interrupted is lost."""
    session, people = opened()
    history = session.history()
    assert history["state"].tolist() == ["recorded"] * 3 + ["lost"]
    assert session.spent.epsilon == 1.125
    again = people.count(epsilon=0.5).run()
    assert (again.number, again.paid, again.frame["value"].tolist()) == (1, 0, [59])
    sexes = session.release(3)
    assert sexes.frame["value"].tolist() == [29, 27]
    with pytest.raises(LedgerError, match="can never be measured"):
        session.retry(4)
    # The two numbers of release 3 give the women; their variance at 0.25 is 2 * 16.
    free = people.count(where="sex == 'F'", variance=40).run()
    assert free.paid == 0
    assert session.spent.epsilon == 1.125
    assert session.audit(expected=HEAD).ok


@pytest.mark.one_in(4)
@pytest.mark.parametrize("later", PLANNERS)
@pytest.mark.parametrize("first", PLANNERS)
def test_a_ledger_of_another_planner(opened, first, later):
    """Records are records: whatever planner chose them, they are shown again, audited and, where it can, reused."""
    session, people = opened(first)
    people.count(where="age < 20", variance=40).run()
    people.count(where="age >= 20", variance=40).run()
    people.histogram("sex", variance=40).run()
    spent, shown = session.spent.epsilon, [session.release(n).frame for n in (1, 2, 3)]
    session.close()
    session, people = opened(later)
    assert session.spent.epsilon == spent
    for number, frame in enumerate(shown, 1):
        pd.testing.assert_frame_equal(session.release(number).frame, frame)
    again = people.count(where="age < 20", variance=40).run()
    assert (again.number, again.paid) == (1, 0)
    release = people.count(variance=81).run()
    if later == "optimal":
        assert release.paid == 0
    people.count(where="age < 10", variance=40).run()
    assert session.audit().ok
    assert session.ledger.pending("people") == ()


def test_a_changed_table_starts_without_answers(opened):
    """Under the old name it is refused; under another nothing of the old rows is used, and both are paid for."""
    session, people = opened()
    people.count(variance=8).run()
    spent = session.spent.epsilon
    session.close()
    changed = pd.concat([ROWS, ROWS.head(7)], ignore_index=True)
    with pytest.raises(LedgerMismatch) as caught:
        opened(rows=changed)
    assert "What was answered of that one is not used for this one" in str(caught.value)
    assert "protect it by another name, such as 'people_2'. It starts without answers" in str(caught.value)
    session, people = opened(rows=changed, name="people_2")
    assert session.spent.epsilon == spent
    query = people.count(variance=8)
    assert (query.plan.free, query.plan.reused) == (False, ())
    release = query.run()
    assert release.paid == pytest.approx(spent)
    assert session.spent.epsilon == pytest.approx(2 * spent)
    assert session.ledger.spent == sum(int(row["units"]) for row in session.ledger.history()) <= 2 * UNITS
    assert session.audit().ok
