"""A ledger's file looked at by somebody who has neither its budget nor data."""

import contextlib
import sqlite3

import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.ledger import Ledger
from dpnotebook.privacy.spend import CellCost
from dpnotebook.session.policy import Policy

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


CITIES = pd.DataFrame({"city": ["X", "Y", "Z"], "people": [10, 20, 30]})
VISITS = pd.DataFrame({"patient": [n % 500 for n in range(3000)], "city": ["X", "Y", "Z"] * 1000, "cost": range(3000)})


def ask_much(session):
    """Ask all kinds of questions."""
    visits = session.protect(FRAME, "visits", domain={"age": dpn.Range(0, 99), "ward": ["A", "B", "C"]})
    session.protect(VISITS, "stays", unit="patient", domain={"cost": dpn.Bins(0, 3000, width=100)})
    session.register(CITIES, "cities", public=True)
    visits.histogram("age", epsilon=0.1).run()
    visits.count(where="age < 50", epsilon=0.05).run()
    visits.count(where="age < 30", epsilon=0.05).simultaneous().run()
    visits.groupby("ward").mean("age", epsilon=0.1).run()
    visits.quantile("age", 0.5, epsilon=0.1).run()
    visits.answer(dpn.marginals(2), epsilon=0.1).run()
    visits.answer(dpn.marginals(2), epsilon=0.05, adaptive=True).run()
    visits.value_counts("ward", epsilon=0.2).run()
    session.sql("SELECT ward, COUNT(*) / 3 AS n FROM visits GROUP BY ward", epsilon=0.2).run()
    session.sql("SELECT COUNT(*) AS n, AVG(cost) AS c FROM stays", epsilon=0.2).run()
    session.sql("SELECT COUNT(*) AS n FROM stays JOIN cities USING (city) WHERE people > 10", epsilon=0.2).run()
    if session.budget.delta:
        session.sql("SELECT city, SUM(cost) AS c FROM stays GROUP BY city", epsilon=0.2).run()


def shown(release):
    return release.frame, release.notes, release.sources, release.epsilon, release.delta, str(release)


@pytest.mark.parametrize("budget", [dpn.Budget(9.0), dpn.Budget(9.0, 1e-6)], ids=["pure", "gaussian"])
def test_every_release_is_read_without_the_tables(tmp_path, budget):
    """With what a session says of it: frame, intervals, notes, and how it draws its noise again."""
    path = tmp_path / "clinic.ledger"
    with dpn.Session(budget, path) as session:
        ask_much(session)
        report = dpn.audit_ledger(path)
        numbers = report.history()["number"]
        assert len(numbers) >= 9
        for number in numbers:
            here, there = session.release(number), report.release(number)
            pd.testing.assert_frame_equal(there.frame, here.frame)
            assert shown(there)[1:] == shown(here)[1:], number
            assert there.question == here.question
            assert report.code(number) == session.code(number)
        assert report.remaining == session.remaining
        pd.testing.assert_frame_equal(report.budgets(), session.budgets())
        assert report.release(2).samples(20).shape == session.release(2).samples(20).shape
        assert report.release(1).simultaneous().frame.equals(session.release(1).simultaneous().frame)
        assert report.release(1).nonnegative().frame.equals(session.release(1).nonnegative().frame)
        assert (report.release(1) / report.release(1).sum()).frame is not None


def test_reading_releases_changes_nothing_and_needs_no_permission_to_write(tmp_path):
    path = tmp_path / "clinic.ledger"
    with dpn.Session(dpn.Budget(9.0), path) as session:
        ask_much(session)
        last = session.release(4).frame
    path.chmod(0o400)
    before = path.read_bytes(), sorted(path.parent.iterdir())
    pd.testing.assert_frame_equal(dpn.audit_ledger(path).release(4).frame, last)
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == before


def test_a_ledger_that_is_read_is_asked_nothing_and_written_to_by_nothing(tmp_path):
    path = tmp_path / "clinic.ledger"
    with dpn.Session(dpn.Budget(9.0), path) as session:
        ask_much(session)
    opened = Ledger(path, None, only_read=True)
    assert opened.budget == dpn.Budget(9.0)
    before = path.read_bytes()
    for write in (
        lambda: opened.charge("visits", "q", {"units": 1}, CellCost(())),
        lambda: opened.note("visits", "q", {}, {}),
        lambda: opened.raise_budget(dpn.Budget(10.0), reason="more"),
        lambda: opened.register(
            "new", fingerprint="f", domain=Domain({"age": dpn.Range(0, 9)}).to_json(), unit=None, max_rows=None
        ),
    ):
        with pytest.raises(dpn.LedgerReadOnly, match="was opened to be read"):
            write()
    opened.refuse("visits", "q", {}, 1, "no")
    assert opened.refusals() == []
    assert path.read_bytes() == before


def test_what_a_statement_works_out_from_a_public_table_that_is_not_here(tmp_path):
    path, text = (
        tmp_path / "clinic.ledger",
        (
            "WITH t AS (SELECT ward, COUNT(*) AS n FROM visits WHERE who > 30 GROUP BY ward) "
            "SELECT ward, n / people AS share FROM t JOIN cities ON ward = city ORDER BY ward"
        ),
    )
    budget, wards = dpn.Budget(2.0), {"ward": ["A", "B", "C"]}
    with dpn.Session(budget, path) as session:
        session.protect(FRAME, "visits", domain=wards)
        session.register(pd.DataFrame({"city": ["A", "B", "C"], "people": [1, 2, 3]}), "cities", public=True)
        assert list(session.sql(text, epsilon=1.0).run().frame["ward"]) == ["A", "B", "C"]
    read = dpn.audit_ledger(path).release(1)
    with dpn.Session(budget, path) as session:
        session.protect(FRAME, "visits")
        for release in (read, session.release(1)):
            assert "n" in release.frame
            assert "share" not in release.frame
            assert any("the public table cities is not here" in note for note in release.notes)


def test_groups_that_the_policy_withholds_are_withheld_from_readers_too(tmp_path):
    path = tmp_path / "clinic.ledger"
    few = pd.DataFrame({"ward": ["A"] * 5000 + ["B"] * 3})
    session = dpn.Session(dpn.Budget(4.0), path, policy=Policy(dpn.Budget(4.0), minimum=500))
    with session:
        table = session.protect(few, "visits", domain={"ward": ["A", "B"]})
        here = table.histogram("ward", epsilon=1.0).run()
    read = dpn.audit_ledger(path).release(1)
    assert list(read.frame["ward"]) == list(here.frame["ward"]) == ["A"]
    assert read.notes == here.notes


def test_a_table_that_grew_is_read_with_its_parts(tmp_path):
    path = tmp_path / "clinic.ledger"
    with dpn.Session(dpn.Budget(4.0), path) as session:
        visits = session.protect(FRAME, "visits", domain={"age": dpn.Range(0, 99)})
        visits.count(epsilon=0.5).run()
        session.extend("visits", FRAME.assign(age=50))
        session.table("visits").histogram("age", epsilon=0.5).run()
        frames = [session.release(number).frame for number in (1, 2)]
    report = dpn.audit_ledger(path)
    for number in (1, 2):
        pd.testing.assert_frame_equal(report.release(number).frame, frames[number - 1])


def test_no_release_is_read_of_a_file_that_is_another_by_now(used, tmp_path):
    path = used[0]
    report = dpn.audit_ledger(path)
    dpn.Session(dpn.Budget(1.0), tmp_path / "other.ledger").close()
    (tmp_path / "other.ledger").replace(path)
    with pytest.raises(dpn.LedgerCorrupt, match="entries that were there are gone"):
        report.release(1)


def test_what_is_no_release(used):
    report = dpn.audit_ledger(used[0])
    with pytest.raises(dpn.LedgerError, match="99"):
        report.release(99)
    with pytest.raises(dpn.LedgerError, match=r"numbered 1, 2, 3, as history\(\) lists them"):
        report.release("first")


def test_a_session_without_the_table_says_where_answers_can_be_read(used):
    path, (_, _, budget, _) = used
    with dpn.Session(budget, path) as session, pytest.raises(dpn.NotProtected) as refused:
        session.release(1)
    assert f"dpn.audit_ledger({str(path)!r}).release(number)" in str(refused.value)


def test_who_was_refused_what(tmp_path):
    path = tmp_path / "clinic.ledger"
    with dpn.Session(dpn.Budget(1.0), path, analyst="anna") as session:
        visits = session.protect(FRAME, "visits", domain={"age": dpn.Range(0, 99)})
        visits.count(epsilon=0.75).run()
        with pytest.raises(dpn.BudgetExceeded):
            visits.count(where="age < 50", epsilon=0.5, fresh=True).run()
        told = session.refusals()
    with dpn.Session(dpn.Budget(1.0), path, policy=Policy(dpn.Budget(1.0), question=0.1), analyst="ben") as session:
        visits = session.protect(FRAME, "visits")
        with pytest.raises(dpn.PolicyError):
            visits.histogram("age", epsilon=0.2).run()
    pd.testing.assert_frame_equal(dpn.audit_ledger(path).refusals()[:1], told)
    found = dpn.audit_ledger(path).refusals()
    assert found["question"].tolist() == ["COUNT where age <= 49", "COUNT by age"]
    assert found["analyst"].tolist() == ["anna", "ben"]
    assert found["left"].tolist() == [25.0, 25.0]
    assert found["percent"].tolist() == pytest.approx([50.0, 20.0], rel=0.01)  # the count tells a little of the second
    assert found["why"][0] == "more than is left of the budget"
    assert "limits.question" in found["why"][1]
    assert dpn.audit_ledger(path).ok


def test_of_sql_its_text_is_kept_and_shown(tmp_path):
    """What a statement measures is in words there, of which two with other conditions have the same."""
    path, text = tmp_path / "clinic.ledger", "SELECT COUNT(*) AS n FROM visits WHERE who > 30"
    with dpn.Session(dpn.Budget(1.0), path) as session:
        session.protect(FRAME, "visits", domain={"age": dpn.Range(0, 99)})
        session.table("visits").count(epsilon=0.1).run()
        assert "statement" not in session.history()
        session.sql(text, epsilon=0.25).run()
        with pytest.raises(dpn.BudgetExceeded):
            session.sql(text, epsilon=9.0).run()
        assert session.history()["statement"].tolist() == ["", text]
    report = dpn.audit_ledger(path)
    assert report.history()["statement"].tolist() == ["", text]
    assert report.refusals()["question"].tolist() == [text]
    assert report.refusals()["accuracy"].str.startswith("epsilon=").all()
    assert text in report.code(2)


def test_of_sql_the_values_that_were_bound_are_kept_and_shown(tmp_path):
    path, text = tmp_path / "clinic.ledger", "SELECT COUNT(*) AS n FROM visits WHERE who > :least AND ward = :ward"
    values, told = {"least": 30, "ward": "A"}, f"{text} -- :least = 30, :ward = 'A'"
    scope = {**values, "password": "hunter2", "frame": FRAME, "A": "of the notebook"}  # as a magic gives it all
    with dpn.Session(dpn.Budget(1.0), path) as session:
        session.protect(FRAME, "visits", domain={"age": dpn.Range(0, 99)})
        first = session.sql(
            text.replace("WHERE", "WHERE ward <> ':password' AND"), epsilon=0.125, parameters=scope
        ).run()
        assert "hunter2" not in session.code(first.number)
        assert b"hunter2" not in path.read_bytes()
        assert b"of the notebook" not in path.read_bytes()
        first = session.sql(text, epsilon=0.25, parameters=scope).run()
        with pytest.raises(dpn.BudgetExceeded):
            session.sql(text, epsilon=9.0, parameters=values).run()
        code = session.code(first.number)
        again = eval(code).run()
        assert (again.number, again.paid) == (first.number, 0.0)
        day = pd.Timestamp("2024-01-01")  # is no value of JSON: then none is kept
        other = session.sql(
            text.replace("who", ":day IS NOT NULL AND who"), epsilon=0.25, parameters={**values, "day": day}
        )
        assert "parameters" not in session.code(other.run().number)
    report = dpn.audit_ledger(path)
    assert report.history()["statement"][first.number - 1] == told
    assert report.refusals()["question"].tolist() == [told]
    assert report.code(first.number) == code


def test_what_was_refused_before_words_were_kept(tmp_path):
    path = tmp_path / "clinic.ledger"
    dpn.Session(dpn.Budget(1.0), path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        row = ("2026-01-01T00:00:00+00:00", "visits", "5e" * 32, "10", "5")
        connection.execute("INSERT INTO refusal VALUES (?, ?, ?, ?, ?)", row)
    found = dpn.audit_ledger(path).refusals()
    assert found[["table", "question", "analyst", "why"]].values.tolist() == [["visits", "", "", ""]]
