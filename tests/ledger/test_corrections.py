"""A domain can be declared otherwise as long as nothing rests on it: another one replaces it, for every kernel."""

from fractions import Fraction

import numpy as np
import pytest

from dpnotebook.domain import Domain, Range
from dpnotebook.errors import LedgerConflict, LedgerCorrupt, LedgerMismatch, LedgerWarning
from dpnotebook.ledger import Ledger
from dpnotebook.ledger.audit import audit_file
from dpnotebook.ledger.writing import append
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, CostTerm

WIDER = Domain({"age": Range(0, 12), "sex": ["F", "M"]}).to_json()
OLD = {"age": 10, "sex": 2}
NEW = {"age": 13, "sex": 2}


def correct(ledger, kit, **other):
    return ledger.register("people", **{"fingerprint": "f2", "domain": WIDER, "unit": None, "max_rows": None} | other)


def on_one(size, level):
    norm = np.zeros(size, dtype=np.int64)
    norm[level] = 1
    return CellCost((CostTerm(Fraction(1, 10) * UNITS, {"age": norm}),))


def kinds(path, kit):
    with kit.raw(path) as connection:
        return [kind for (kind,) in connection.execute("SELECT CAST(kind AS TEXT) FROM entry ORDER BY number")]


def test_a_correction_is_one_entry_and_what_counts_from_then_on(path, kit):
    ledger = Ledger(path, Budget(1.0))
    kit.register(ledger)
    assert ledger.spend("people").sizes == OLD
    assert correct(ledger, kit)
    assert not correct(ledger, kit)
    assert ledger.tables()["people"]["domain"] == WIDER
    assert ledger.tables()["people"]["fingerprint"] == "f2"
    assert ledger.spend("people").sizes == NEW
    ledger.charge("people", "oldest", {}, on_one(13, 12))
    assert ledger.spend("people").by_attribute("age").tolist() == [0] * 12 + [UNITS // 10]
    assert kinds(path, kit) == ["open", "register", "correct", "charge"]
    assert ledger.audit().ok
    ledger.close()
    again = Ledger(path, Budget(1.0))
    assert again.tables()["people"]["domain"] == WIDER
    assert not correct(again, kit)
    with pytest.raises(LedgerMismatch, match="its data and its domain differ"):
        kit.register(again)
    again.close()


def test_a_table_can_be_corrected_back(either, kit):
    correct(either, kit)
    assert kit.register(either) is None
    assert either.spend("people").sizes == OLD
    kit.answer(either, 0.5, age=[9])
    assert either.audit().ok


def test_how_many_rows_count_can_be_said_once_until_something_rests_on_it(path, kit):
    of_units = {"domain": kit.domain, "unit": "id"}
    ledger = Ledger(path, Budget(1.0))
    ledger.register("people", fingerprint="f1", **of_units, max_rows=None)
    assert ledger.register("people", fingerprint="f2", **of_units, max_rows=8)
    for most in (None, 9):
        with pytest.raises(LedgerMismatch, match="its max_rows"):
            ledger.register("people", fingerprint="f2", **of_units, max_rows=most)
    ledger.register("others", fingerprint="f1", **of_units, max_rows=None)
    ledger.charge("others", "oldest", {}, on_one(10, 1))
    with pytest.raises(LedgerMismatch, match="its max_rows"):
        ledger.register("others", fingerprint="f1", **of_units, max_rows=8)
    assert ledger.audit().ok
    ledger.close()
    again = Ledger(path, Budget(1.0))
    assert [again.tables()[name]["max_rows"] for name in ("people", "others")] == [8, None]
    again.close()


@pytest.mark.parametrize("other", [{"unit": "id", "max_rows": 3}, {"domain": None}])
def test_no_more_than_the_domain_is_corrected(either, kit, other):
    head = either.head
    domain = {"domain": kit.domain} if "domain" in other else {}
    with pytest.raises(LedgerMismatch):
        correct(either, kit, **other | domain)
    assert either.head == head


@pytest.mark.parametrize("what", ["charged", "answered", "free", "read by a statement"])
def test_nothing_is_corrected_that_something_rests_on(either, kit, what):
    match what:
        case "charged":
            either.charge("people", "q", {}, kit.cost(0.1))
        case "answered":
            kit.answer(either)
        case "free":
            either.note("people", "q", {}, {})
        case "read by a statement":
            kit.register(either, "visits")
            either.charge("visits", "q", {"columns": {"visits": {}, "people": {}}}, kit.cost(0.1))
    head = either.head
    with pytest.raises(LedgerMismatch, match="its data and its domain differ"):
        correct(either, kit)
    assert either.head == head


def test_a_named_population_stays(path, kit):
    ledger = Ledger(path, Budget(1.0))
    users = {"unit": "id", "max_rows": 2}
    kit.register(ledger, **users, population="patient")
    assert correct(ledger, kit, **users)
    assert ledger.tables()["people"]["population"] == "patient"
    with pytest.raises(LedgerMismatch, match="the population 'patient', which cannot change"):
        kit.register(ledger, **users, population="nurse")
    ledger.close()


def test_another_kernel_with_the_old_domain_is_refused(path, kit):
    old, new = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    kit.register(old)
    correct(new, kit)
    head = new.head
    uses = [
        lambda: old.check_domain("people"),
        lambda: old.moment("people"),
        lambda: old.charge("people", "q", {}, kit.cost(0.1)),
        lambda: old.note("people", "q", {}, {}),
    ]
    for use in uses:
        with pytest.raises(LedgerConflict, match=r"'people' was changed by another kernel.*nothing was spent"):
            use()
    assert (old.head, old.spent) == (head, 0)
    charge = new.charge("people", "q", {}, on_one(13, 3))
    with pytest.raises(LedgerConflict):  # nor can it answer under the old one what was charged under the new
        old.record(charge.number, [np.array([1])], {})
    correct(old, kit)
    old.check_domain("people")
    assert old.record(charge.number, [np.array([1])], {}).number == charge.number
    assert old.audit().ok
    old.close()
    new.close()


def test_of_two_kernels_that_correct_and_charge_at_once_one_is_refused(path, kit):
    """Whichever is first: after a correction the old domain is not charged, after a charge none is corrected."""
    for charges_first in (False, True):
        where = path.with_name(f"{charges_first}.ledger")
        old, new = Ledger(where, Budget(1.0)), Ledger(where, Budget(1.0))
        kit.register(old)
        kit.register(new)
        if charges_first:
            old.charge("people", "q", {}, kit.cost(0.25))
            with pytest.raises(LedgerMismatch):
                correct(new, kit)
            assert new.spent == UNITS // 4
        else:
            correct(new, kit)
            with pytest.raises(LedgerConflict):
                old.charge("people", "q", {}, kit.cost(0.25))
            assert old.spent == 0
        assert new.audit().ok
        old.close()
        new.close()


@pytest.mark.parametrize("change", ["after a charge", "of its unit", "of no table"])
def test_a_correction_that_must_not_be_does_not_follow(path, kit, change):
    ledger = Ledger(path, Budget(1.0))
    kit.register(ledger)
    values = {"name": "people", "fingerprint": "f2", "domain": WIDER, "unit": None, "max_rows": None}
    values["sizes"] = [["age", 13], ["sex", 2]]
    if change == "after a charge":
        kit.answer(ledger)
    else:
        values |= {"unit": "id"} if change == "of its unit" else {"name": "nobody"}
    with ledger._writing() as (connection, view):
        append(connection, view, "correct", values)
    ledger.close()
    assert not audit_file(path).ok
    with pytest.raises(LedgerCorrupt):
        Ledger(path, Budget(1.0))


def test_a_corrected_domain_is_the_one_that_other_ledgers_are_compared_with(tmp_path, kit):
    first = Ledger(tmp_path / "a.ledger", Budget(1.0))
    kit.register(first, "one")
    first.register("one", fingerprint="f2", domain=WIDER, unit=None, max_rows=None)
    second = Ledger(tmp_path / "b.ledger", Budget(1.0))
    with pytest.warns(LedgerWarning, match="a table of the same columns, 'one'"):
        second.warn_of_others("two", WIDER)
    first.close()
    second.close()
