"""What is known of charges in short: read once, and again only where it can have changed."""

import pandas as pd

import dpnotebook as dpn
from dpnotebook.session.charges import ChargeLog


def small_session(path=":memory:"):
    """Return a session of one small table, in a Gaussian session."""
    made = dpn.Session(budget=dpn.Budget(epsilon=1.0, delta=1e-6), ledger=path, confirm="never")
    made.protect(pd.DataFrame({"age": [31, 47, 62] * 20}), "people", domain={"age": dpn.Range(0, 99)})
    return made


def numbers_read(ledger, monkeypatch):
    """Return a list that is given the numbers of the charges that are read of a ledger."""
    read, history = [], ledger.history

    def noted(after=0, among=()):
        rows = history(after, among)
        read.extend(row["number"] for row in rows)
        return rows

    monkeypatch.setattr(ledger, "history", noted)
    return read


def test_every_charge_is_read_once(monkeypatch):
    session = small_session()
    people = session.table("people")
    read = numbers_read(session.ledger, monkeypatch)
    for number in range(1, 6):
        people.count(where=f"age >= {number}", epsilon=0.01).run()
        assert len(session.history()) == len(session.charges) == number
        assert session.saved.paid > 0
    assert read == [1, 2, 3, 4, 5]


def test_one_without_its_answer_is_read_until_it_is_recorded(monkeypatch):
    session = small_session()
    session.table("people").count(epsilon=0.25).run()
    recorded = session.ledger.history
    states = ["charged", "lost", "recorded"]

    def history(after=0, among=()):
        return [row | {"state": states.pop(0)} for row in recorded(after, among)]

    monkeypatch.setattr(session.ledger, "history", history)
    log = ChargeLog(session.ledger)
    assert [log.charges()[0].state for _ in range(5)] == ["charged", "lost", "recorded", "recorded", "recorded"]


def test_what_another_kernel_adds_is_there_and_the_history_is_as_it_was(tmp_path):
    path = tmp_path / "one.ledger"
    one, other = small_session(path), small_session(path)
    one.table("people").count(epsilon=0.1).run()
    assert len(other.charges) == 1
    other.table("people").histogram("age", epsilon=0.1).run()
    pd.testing.assert_frame_equal(one.history(), other.history())
    pd.testing.assert_frame_equal(one.history(), small_session(path).history())
    assert one.history()["question"].tolist() == ["COUNT", "COUNT by age"]
    assert one.charges == other.charges
