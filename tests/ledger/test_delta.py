"""The delta of thresholds: added up exactly beside the units, refused when it does not fit, fixed from the start."""

import contextlib
import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import BudgetExceeded, LedgerCorrupt, LedgerMismatch
from dpnotebook.ledger import Ledger, audit_file
from dpnotebook.ledger.chain import Broken, entry_after, to_bytes
from dpnotebook.ledger.replay import Replay
from dpnotebook.privacy.accountant import DELTA_UNITS, GaussianAccountant, whole_delta
from dpnotebook.privacy.budget import Amount, Budget
from dpnotebook.privacy.spend import CellCost

# Written at commit fcecc90, before thresholds: Gaussian, epsilon 2 at delta 1e-6; counts of all rows at 0.5, by age at
# 0.25 and by sex at 0.75; a count of the women from 20 at 1 was charged and never recorded; one at 5 was refused.
BEFORE = Path(__file__).parents[1] / "data" / "ledger_before_thresholds.sqlite"
HEAD = "9d99462393100590664124594fedd84d6ffcd98e53dd267d071cc7af3ca482ef"
ROWS = pd.DataFrame({"age": [n * 7 % 50 for n in range(60)], "sex": ["F", "M"] * 30})
DOMAIN = {"age": dpn.Range(0, 49), "sex": ["F", "M"]}

MILLIONTH = Fraction(1, 10**6)
LAPLACE, GAUSSIAN = Budget(1.0, 1e-6, noise="laplace"), Budget(1.0, 1e-6)


@pytest.fixture(params=["file", "memory"])
def books(request, path, kit):
    """Return a ledger with Laplace noise whose delta of 1e-6 is all for thresholds."""
    ledger = Ledger(path if request.param == "file" else ":memory:", LAPLACE)
    kit.register(ledger)
    yield ledger
    ledger.close()


def test_delta_adds_up_beside_the_units(books, kit):
    assert (books.threshold_delta, books.delta_spent, books.delta_remaining) == (MILLIONTH, 0, MILLIONTH)
    first = books.charge("people", "a", {}, kit.cost(0.1), delta=MILLIONTH / 4)
    kit.answer(books, 0.1)
    books.charge("people", "b", {}, CellCost(()), delta=MILLIONTH / 2)  # of thresholds alone
    assert first.delta == MILLIONTH / 4
    assert (books.delta_spent, books.delta_remaining) == (MILLIONTH * 3 / 4, MILLIONTH / 4)
    assert books.spent == 2 * 10**11
    assert [row["delta"] for row in books.history()] == [MILLIONTH / 4, 0, MILLIONTH / 2]
    record = books.record(1, [np.array([1])], {})
    assert record.delta == books.get(1).delta == MILLIONTH / 4
    assert [charge.delta for charge in books.pending("people")] == [MILLIONTH / 2]
    audit = books.audit()
    assert (audit.ok, audit.delta) == (True, MILLIONTH * 3 / 4)
    assert "spent ε = 0.2 and, on thresholds, δ = 7.5e-07 of the budget of ε = 1, δ = 1e-06" in str(audit)


def test_ten_tenths_of_delta_fit(books, kit):
    for _ in range(10):
        books.charge("people", "q", {}, kit.cost(0.01), delta=Fraction(1, 10**7))
    assert books.delta_remaining == 0
    with pytest.raises(BudgetExceeded):
        books.charge("people", "q", {}, kit.cost(0.01), delta=Fraction(1, DELTA_UNITS))


def test_delta_is_never_rounded_down(books, kit):
    """Three thirds of it do not fit unless they are rounded down first, by who asks for them."""
    third = MILLIONTH / 3
    assert whole_delta(third) < third
    for _ in range(2):
        charge = books.charge("people", "q", {}, kit.cost(0.01), delta=third)
        assert third < charge.delta < third + Fraction(1, DELTA_UNITS)
    with pytest.raises(BudgetExceeded):
        books.charge("people", "q", {}, kit.cost(0.01), delta=third)
    assert books.charge("people", "q", {}, kit.cost(0.01), delta=whole_delta(books.delta_remaining)).delta < third
    with pytest.raises(ValueError, match="no less than nothing"):
        books.charge("people", "q", {}, kit.cost(0.01), delta=-third)


def test_more_delta_than_is_left(books, kit):
    """Nothing of the charge stays, neither its delta nor its units, but a line in the log."""
    books.charge("people", "a", {}, kit.cost(0.1), delta=MILLIONTH * 9 / 10)
    head = books.head
    with pytest.raises(BudgetExceeded) as caught:
        books.charge("people", "too much", {}, kit.cost(0.1), delta=MILLIONTH / 5)
    error = caught.value
    assert (error.requested_delta, error.remaining_delta) == (MILLIONTH / 5, MILLIONTH / 10)
    assert "would cost δ = 2e-07, but of the δ = 1e-06 that the budget keeps for thresholds only 1e-07 is left" in str(
        error
    )
    assert (books.head, books.spent, books.delta_spent) == (head, 10**11, MILLIONTH * 9 / 10)
    (row,) = books.refusals()
    assert (row["question"], row["requested"], row["remaining"]) == ("too much", MILLIONTH / 5, MILLIONTH / 10)
    with pytest.raises(BudgetExceeded, match=r"would cost .*% of the budget \(ε 1"):  # both too much: told of the units
        books.charge("people", "q", {}, kit.cost(1), delta=MILLIONTH)
    assert (books.charge("people", "fits", {}, kit.cost(0.1), delta=MILLIONTH / 10).delta, books.spent) == (
        MILLIONTH / 10,
        2 * 10**11,
    )
    assert books.audit().ok


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(1.0, 1e-6, threshold_delta=0)], ids=repr)
def test_where_nothing_is_kept_for_thresholds(path, kit, budget):
    with contextlib.closing(Ledger(path, budget)) as ledger:
        kit.register(ledger)
        with pytest.raises(BudgetExceeded, match="nothing is kept for thresholds") as caught:
            ledger.charge("people", "q", {}, kit.cost(1e-9), delta=Fraction(1, DELTA_UNITS))
        assert (caught.value.remaining_delta, ledger.spent, ledger.delta_spent) == (0, 0, 0)


def test_what_costs_no_delta_writes_what_it_always_wrote(books, kit):
    books.charge("people", "q", {}, kit.cost(0.1))
    with books._reading() as (connection, _):
        (payload,) = connection.execute("SELECT payload FROM entry ORDER BY number DESC LIMIT 1").fetchone()
    always = {"number", "table", "question", "plan", "cost", "units", "spent", "cells"}
    assert set(json.loads(payload)) == always | {"random_state"}


def test_kernels_share_the_delta(path, kit):
    """What one process is granted the other cannot have; a third finds the sum in the file."""
    with contextlib.closing(Ledger(path, GAUSSIAN)) as one, contextlib.closing(Ledger(path, GAUSSIAN)) as two:
        kit.register(one)
        one.charge("people", "q", {}, CellCost(()), delta=Fraction(6, 10**8))
        with pytest.raises(BudgetExceeded):
            two.charge("people", "q", {}, CellCost(()), delta=Fraction(5, 10**8))
        two.charge("people", "q", {}, CellCost(()), delta=Fraction(4, 10**8))
        assert one.delta_remaining == 0
    with contextlib.closing(Ledger(path, GAUSSIAN)) as three:
        assert three.delta_spent == three.threshold_delta == Fraction(1, 10**7)


def test_the_split_is_that_of_the_ledger(path):
    """It is fixed when the ledger is made: a budget that asks for another part is another budget."""
    made = Budget(1.0, 1e-6, threshold_delta=3e-7)
    with contextlib.closing(Ledger(path, made)) as ledger:
        total = ledger.total
    with contextlib.closing(Ledger(path, GAUSSIAN)) as ledger:
        assert (ledger.threshold_delta, ledger.total) == (Fraction(3, 10**7), total)
        assert ledger.accountant.delta == 7e-7
        assert ledger.budget == made
    for other in (Budget(1.0, 1e-6, threshold_delta=0), Budget(1.0, 1e-6, threshold_delta=1e-7), LAPLACE):
        with pytest.raises(LedgerMismatch) as caught:
            Ledger(path, other)
        assert "Budget(epsilon=1.0, delta=1e-06, threshold_delta=3e-07)" in str(caught.value)


# --- what is tampered with


def rewritten(path, kit, change):
    """Replay a ledger's entries into a new chain, changed, as somebody would who can compute hashes."""
    with kit.raw(path) as connection:
        rows = connection.execute("SELECT number, kind, payload FROM entry ORDER BY number").fetchall()
        head = connection.execute("SELECT prev FROM entry WHERE number = 1").fetchone()[0]
        for number, kind, payload in rows:
            entry = entry_after(number - 1, head, kind, to_bytes(change(number, json.loads(payload))))
            connection.execute(
                "UPDATE entry SET time = ?, payload = ?, prev = ?, hash = ? WHERE number = ?",
                (entry.time, entry.payload, entry.prev, entry.hash, number),
            )
            head = entry.hash
        connection.execute("UPDATE state SET head = ?", (head,))


@pytest.mark.parametrize(
    "change",
    [{"delta": 1}, {"delta": 0}, {"delta": -(10**17)}, {"delta": 1e17}, {"delta": "1"}, {"delta_spent": 1}],
    ids=repr,
)
def test_a_delta_that_does_not_add_up(path, kit, change):
    with contextlib.closing(Ledger(path, GAUSSIAN)) as ledger:
        kit.register(ledger)
        ledger.charge("people", "q", {}, CellCost(()), delta=Fraction(1, 10**7))
    rewritten(path, kit, lambda number, values: values | (change if number == 3 else {}))
    assert not audit_file(path).ok
    with pytest.raises(LedgerCorrupt):
        Ledger(path, GAUSSIAN)


def test_more_delta_than_is_kept_is_found_by_the_audit(path, kit):
    with contextlib.closing(Ledger(path, GAUSSIAN)) as ledger:
        kit.register(ledger)
        ledger.charge("people", "q", {}, CellCost(()), delta=Fraction(1, 10**7))
    more = {"delta": 10**17 + 1, "delta_spent": 10**17 + 1}
    rewritten(path, kit, lambda number, values: values | (more if number == 3 else {}))
    assert audit_file(path).problems == ("thresholds cost more delta than is kept for them",)


def test_an_earlier_version_does_not_read_what_it_cannot_count():
    """It knows a budget of epsilon and delta only, and would not count what thresholds cost."""
    assert set(GAUSSIAN.to_json()) - {"epsilon", "delta"}
    opening = {"budget": GAUSSIAN.to_json() | {"unknown": 1}, "noise": "gaussian", "total": 1, "key": "", "cells": 1}
    with pytest.raises(Broken, match="cannot be read"):
        Replay().apply(entry_after(0, bytes(32), "open", to_bytes(opening)))


# --- ledgers that were made before


def test_an_earlier_gaussian_ledger_is_what_it_was(path):
    shutil.copy(BEFORE, path)
    audit = audit_file(path, expected=HEAD)
    assert (audit.ok, audit.compared, audit.spent, audit.delta) == (True, True, 108_461_980_085, 0)
    with contextlib.closing(Ledger(path, Budget(2.0, 1e-6))) as ledger:
        assert ledger.accountant == GaussianAccountant(Fraction(2), 1e-6)
        assert (ledger.total, ledger.head) == (201_004_039_244, HEAD)
        assert (ledger.threshold_delta, ledger.delta_remaining) == (0, 0)
    with contextlib.closing(Ledger(path, Budget(2.0, 1e-6, threshold_delta=0))) as ledger:
        assert ledger.total == 201_004_039_244
    with pytest.raises(LedgerMismatch, match="threshold_delta=0"):
        Ledger(path, Budget(2.0, 1e-6, threshold_delta=1e-7))


def test_a_session_goes_on_with_an_earlier_gaussian_ledger(path):
    shutil.copy(BEFORE, path)
    session, people = dpn.Session(dpn.Budget(epsilon=2.0, delta=1e-6), ledger=path), ROWS.copy()
    with contextlib.closing(session):
        session.protect(people, "people", domain=DOMAIN)
        assert session.history()["state"].tolist() == ["recorded"] * 3 + ["lost"]
        assert session.spent == Amount(1.4291532593281824, 1e-6, 0.0)
        assert (session.budget.for_thresholds, session.remaining.delta) == (0, 1e-6)
        again = people.dp.count(epsilon=0.5).run()
        assert (again.number, again.paid, again.delta) == (1, 0, 1e-6)
        people.dp.count(where="age < 10", epsilon=0.25).run()
        assert session.audit(expected=HEAD).ok
