"""A ledger's file looked at by somebody who has neither its budget nor data."""

import contextlib
import sqlite3

import pandas as pd
import pytest

import dpnotebook as dpn

FRAME = pd.DataFrame({"age": [n % 90 for n in range(300)], "ward": ["A", "B", "C"] * 100, "who": range(300)})
BUDGETS = {"pure": dpn.Budget(1.0), "gaussian": dpn.Budget(1.0, 1e-6)}


@pytest.fixture(params=BUDGETS)
def used(tmp_path, request):
    """Return a ledger's file after some questions, with what its session says of it."""
    path = tmp_path / "clinic.ledger"
    with dpn.Session(BUDGETS[request.param], path, analyst="anna") as session:
        session.protect(FRAME, "visits", domain={"age": dpn.Range(0, 99)})
        FRAME.dp.histogram("age", epsilon=0.25).run()
        FRAME.dp.count(where="age < 50", epsilon=0.1).run()
        session.sql("SELECT COUNT(*) AS n FROM visits WHERE who > 30", epsilon=0.125).run()
        session.raise_budget(dpn.Budget(1.5, session.budget.delta), reason="a follow-up")
        told = session.history(), session.spent, session.budget, session.audit()
    return path, told


def test_what_a_session_says_is_in_the_file(used):
    path, (history, spent, budget, audit) = used
    report = dpn.audit_ledger(path)
    pd.testing.assert_frame_equal(report.history(), history)
    assert (report.ok, report.spent, report.budget, report.audit) == (True, spent, budget, audit)
    assert repr(report) == repr(audit)
    assert report.history()["paid"].max() > 0
    assert report.history()["analyst"].tolist() == ["anna"] * 3


def test_looking_changes_nothing_and_goes_on_beside_a_session(used):
    path, (history, _, budget, audit) = used
    path.chmod(0o400)
    before = path.read_bytes(), sorted(path.parent.iterdir())
    assert dpn.audit_ledger(str(path), audit.head).audit.compared
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == before
    path.chmod(0o600)
    with dpn.Session(budget, path) as session:
        session.protect(FRAME, "visits")
        assert len(dpn.audit_ledger(path).history()) == len(history)
        FRAME.dp.count(where="age < 20", epsilon=0.3).run()
        report = dpn.audit_ledger(path)
        assert (report.spent, len(report.history())) == (session.spent, len(history) + 1)


def test_what_was_changed_is_told_and_no_history_is_shown(used):
    path = used[0]
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE state SET spent = spent - 1")
    report = dpn.audit_ledger(path)
    assert not report.ok
    assert "the totals do not follow from the entries" in repr(report)
    with pytest.raises(dpn.LedgerCorrupt, match="not as it was written: the totals do not follow"):
        report.history()


def test_a_noted_head_that_is_gone_is_told(used):
    report = dpn.audit_ledger(used[0], "0" * 64)
    assert not report.ok
    with pytest.raises(dpn.LedgerCorrupt, match="the noted head is not among its entries"):
        report.history()


def test_what_is_no_ledger(tmp_path):
    with pytest.raises(dpn.LedgerError):
        dpn.audit_ledger(tmp_path / "none.ledger")
    assert not (tmp_path / "none.ledger").exists()
    (tmp_path / "text.ledger").write_text("visits")
    with pytest.raises(dpn.LedgerError):
        dpn.audit_ledger(tmp_path / "text.ledger")
