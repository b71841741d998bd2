import contextlib
import os
import shutil
import sqlite3
import threading
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import (
    AccuracyError,
    BudgetExceeded,
    LedgerCorrupt,
    LedgerError,
    LedgerMismatch,
    NotProtected,
)
from dpnotebook.ledger import Ledger, reading, snapshot, writing
from dpnotebook.ledger import ledger as module
from dpnotebook.privacy.accountant import UNITS, GaussianAccountant, epsilon_of_mu
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import CellCost, CostTerm, Spend


def units(epsilon):
    return int(Fraction(str(epsilon)) * UNITS)


def test_charge_record_and_what_comes_back(either, kit):
    charge = either.charge("people", "count", {"steps": ("a", 1.5)}, kit.cost(0.25, sex=[0]))
    assert (charge.number, charge.table, charge.question, charge.units) == (1, "people", "count", units(0.25))
    assert charge.plan == {"steps": ["a", 1.5]}
    assert charge.cost.to_json() == kit.cost(0.25, sex=[0]).to_json()
    assert [pending.number for pending in either.pending("people")] == [1]
    with pytest.raises(LedgerError, match="release 1 was charged but its answer was not recorded yet"):
        either.get(1)
    answers = [np.array([[1, -2], [3, 4]]), np.array(5)]
    record = either.record(1, answers, {"bits": [3]})
    for found in (record, either.get(1), either.records("people")[0], either.records("people", "count")[0]):
        assert (found.number, found.question, found.units, found.time) == (1, "count", charge.units, charge.time)
        assert found.plan == charge.plan
        assert found.details == {"bits": [3]}
        assert [array.tolist() for array in found.answers] == [[[1, -2], [3, 4]], 5]
    assert either.pending("people") == ()
    assert (either.spent, either.remaining, either.total) == (units(0.25), units(0.75), units(1))


def test_the_first_record_of_a_charge_wins(path, kit):
    first, second = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    kit.register(first)
    charge = first.charge("people", "q", {}, kit.cost(0.5))
    assert [pending.number for pending in second.pending("people")] == [charge.number]
    assert second.record(charge.number, [np.array([7])], {"by": "second"}).answers[0].tolist() == [7]
    late = first.record(charge.number, [np.array([8])], {"by": "first"})
    assert (late.answers[0].tolist(), late.details) == ([7], {"by": "second"})
    assert first.spent == units(0.5)
    assert first.audit().entries == 4


def test_a_ledger_remembers_everything(path, kit):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.1, age=[1, 2])
        ledger.charge("people", "pending", {}, kit.cost(0.2))
        before = (ledger.key, ledger.spent, ledger.head, ledger.history(), ledger.spend("people").cells.tolist())
    with contextlib.closing(Ledger(str(path), Budget(1.0))) as ledger:
        after = (ledger.key, ledger.spent, ledger.head, ledger.history(), ledger.spend("people").cells.tolist())
        assert after == before
        assert len(ledger.key) == 32
        assert ledger.tables()["people"]["domain"] == kit.domain
    assert Ledger(path.with_name("other.ledger"), Budget(1.0)).key != before[0]


def test_the_key_is_never_shown(ledger, kit):
    kit.answer(ledger)
    shown = f"{ledger!r}{ledger}{ledger.audit()}{ledger.history()}{ledger.tables()}"
    assert ledger.key.hex() not in shown
    assert repr(ledger.key) not in shown


def test_history_is_in_order_with_states(either, kit):
    kit.answer(either, 0.1, question="a")
    either.charge("people", "b", {"p": 1}, kit.cost(0.2))
    rows = either.history()
    assert [(row["number"], row["question"], row["units"], row["state"]) for row in rows] == [
        (1, "a", units(0.1), "recorded"),
        (2, "b", units(0.2), "charged"),
    ]
    assert rows[1]["plan"] == {"p": 1}
    assert all(row["table"] == "people" for row in rows)
    assert all(one["time"] <= other["time"] for one, other in pairwise(rows))


def test_records_of_one_question_and_after_a_number(either, kit):
    for question in ("a", "b", "a"):
        kit.answer(either, 0.1, question=question)
    assert [record.number for record in either.records("people", "a")] == [1, 3]
    assert [record.number for record in either.records("people", after=1)] == [2, 3]
    assert either.records("people", "c") == either.records("nobody") == ()


# --- what is refused


def test_over_the_budget(either, kit):
    kit.answer(either, 0.9)
    head = either.head
    with pytest.raises(BudgetExceeded) as caught:
        either.charge("people", "too dear", {}, kit.cost(0.3))
    error = caught.value
    assert (error.requested_units, error.remaining_units) == (units(0.3), units(0.1))
    assert "would cost 30% of the budget (ε 0.3)" in str(error)
    assert "only 10% (ε 0.1) is left: 20% too little. Nothing was spent" in str(error)
    assert (either.head, either.spent, len(either.history())) == (head, units(0.9), 1)
    (row,) = either.refusals()
    assert (row["table"], row["question"], row["requested"], row["remaining"]) == (
        "people",
        "too dear",
        units(0.3),
        units(0.1),
    )
    assert either.charge("people", "fits", {}, kit.cost(0.1)).units == units(0.1)
    assert either.remaining == 0


def test_a_difference_in_the_last_digit_is_told(either, kit):
    kit.answer(either, 0.9)
    with pytest.raises(BudgetExceeded, match=r"10\.000001% .*ε 0\.1.* only 10% \(ε 0\.1\) is left: 1e-06% too little"):
        either.charge("people", "q", {}, kit.cost("0.10000001"))


def test_ten_tenths_fit(either, kit):
    for _ in range(10):
        kit.answer(either, 0.1)
    assert either.remaining == 0
    with pytest.raises(BudgetExceeded):
        kit.answer(either, "1e-12")


def test_a_cost_beyond_64_bits_is_refused_not_wrapped(either):
    huge = CellCost((CostTerm(Fraction(2**70), {}),))
    assert either.price("people", huge) == 2**70
    with pytest.raises(BudgetExceeded):
        either.charge("people", "q", {}, huge)
    assert either.refusals()[0]["requested"] == 2**70


@pytest.mark.parametrize(
    ("rate", "norms"),
    [
        (Fraction(0), {}),
        (Fraction(-5), {}),
        (Fraction(1), {"age": np.full(10, -1)}),
        (Fraction(1), {"age": np.full(10, 0.5)}),
        (Fraction(1), {"age": np.ones(9, dtype=np.int64)}),
        (Fraction(1), {"height": np.ones(10, dtype=np.int64)}),
        (Fraction(1, 2**70), {"age": np.full(10, 2**40), "sex": np.full(2, 2**40)}),
    ],
)
def test_what_is_no_cost_of_the_table_is_refused(either, rate, norms):
    for use in (either.price, lambda table, cost: either.charge(table, "q", {}, cost)):
        with pytest.raises(ValueError):
            use("people", CellCost((CostTerm(rate, norms),)))
    assert (either.spent, either.history(), either.refusals()) == (0, [], [])


def test_what_is_no_json_or_no_integer_leaves_nothing(either, kit):
    with pytest.raises(ValueError, match="float"):
        either.charge("people", "q", {"error": float("nan")}, kit.cost(0.1))
    assert either.history() == []
    charge = either.charge("people", "q", {}, kit.cost(0.1))
    with pytest.raises(TypeError, match="integers"):
        either.record(charge.number, [np.array([0.5])], {})
    with pytest.raises(TypeError):
        either.record(charge.number, [np.array([1])], {"x": object()})
    assert [pending.number for pending in either.pending("people")] == [1]
    assert either.audit().ok


def test_a_charge_that_fails_holds_nobody_up(path, kit):
    one, two = Ledger(path, Budget(1.0), timeout=0.2), Ledger(path, Budget(1.0), timeout=0.2)
    kit.register(one)
    for error, plan, epsilon in ((TypeError, {"x": object()}, 0.1), (BudgetExceeded, {}, 2)):
        with pytest.raises(error):
            one.charge("people", "q", plan, kit.cost(epsilon))
        kit.answer(two, 0.1)
    assert one.spent == units(0.2)


def test_unknown_tables_and_releases(either, kit):
    for use in (
        lambda: either.charge("visits", "q", {}, kit.cost(0.1)),
        lambda: either.price("visits", kit.cost(0.1)),
        lambda: either.spend("visits"),
    ):
        with pytest.raises(NotProtected, match=r"no table 'visits' \(it knows 'people'\): protect it first"):
            use()
    for number in (0, 1, -1):
        with pytest.raises(LedgerError, match=f"no release {number} in the ledger"):
            either.get(number)
        with pytest.raises(LedgerError, match=f"no release {number} in the ledger"):
            either.record(number, [np.array([1])], {})


@pytest.mark.parametrize("budget", [Budget(2.0), Budget(1.0, 1e-6), Budget(1.0 + 1e-12)])
def test_another_budget_is_refused(path, budget):
    Ledger(path, Budget(1.0)).close()
    with pytest.raises(LedgerMismatch) as caught:
        Ledger(path, budget)
    assert "was made for a budget of ε = 1, not ε = " in str(caught.value)
    assert str(budget) in str(caught.value)
    assert "Budget(epsilon=1.0, delta=0.0)" in str(caught.value)
    Ledger(path, Budget(1)).close()


def test_a_total_that_a_later_library_rounds_otherwise(path, monkeypatch):
    """The smaller one counts: that of the file or that of today."""
    budget = Budget(1.0, 1e-6)
    total = GaussianAccountant(Fraction(1), 9e-7).total
    with monkeypatch.context() as patched:
        patched.setattr(GaussianAccountant, "total", total - 5)
        Ledger(path, budget).close()
    assert Ledger(path, budget).remaining == total - 5
    monkeypatch.setattr(GaussianAccountant, "total", total - 9)
    assert Ledger(path, budget).remaining == total - 9


@pytest.mark.parametrize("budget", [Budget(1e7), Budget(1e8, 1e-6)])
def test_a_budget_that_protects_nobody(path, budget):
    with pytest.raises(AccuracyError, match="protects nobody"):
        Ledger(path, budget)
    assert not path.exists()


def test_a_timeout_that_is_none(path):
    for timeout in (-1, float("nan"), float("inf")):
        with pytest.raises(LedgerError, match="seconds"):
            Ledger(path, Budget(1.0), timeout=timeout)


# --- tables


def test_registering_again_changes_nothing(either, kit):
    head = either.head
    kit.register(either)
    assert either.head == head
    assert either.audit().entries == 2


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"fingerprint": "f2"}, "its data"),
        ({"unit": "id", "max_rows": 3}, "its unit and its max_rows"),
        ({"max_rows": 1}, "its max_rows"),
        ({"domain": {}}, "its domain"),
    ],
)
def test_another_table_under_the_name(either, kit, other, what):
    kit.answer(either)
    head = either.head
    with pytest.raises(LedgerMismatch) as caught:
        kit.register(either, **other)
    assert f"knows another table by the name 'people': {what} differ" in str(caught.value)
    assert "What was answered of that one is not used for this one" in str(caught.value)
    assert "by another name, such as 'people_2'. It starts without answers, and what both cost adds up" in str(
        caught.value
    )
    assert "f1" not in str(caught.value).partition(" knows ")[2]  # before it stands a path with random letters
    assert either.head == head


def test_a_new_snapshot_goes_on_under_another_name(either, kit):
    kit.answer(either, 0.6)
    kit.register(either, "people_2", fingerprint="f2")
    with pytest.raises(BudgetExceeded):
        kit.answer(either, 0.6, table="people_2")
    kit.answer(either, 0.4, table="people_2")
    assert either.remaining == 0
    with pytest.raises(LedgerMismatch, match="such as 'people_3'"):
        kit.register(either, fingerprint="f3")


# --- what a question costs


def test_disjoint_questions_cost_what_the_dearest_costs(either, kit):
    young, old, middle = kit.cost(0.3, age=range(5)), kit.cost(0.3, age=range(5, 10)), kit.cost(0.2, age=range(3, 7))
    assert either.charge("people", "young", {}, young).units == units(0.3)
    head = either.head
    assert either.price("people", old) == 0
    assert either.price("people", middle) == units(0.2)
    assert (either.head, either.spent) == (head, units(0.3))
    assert either.charge("people", "old", {}, old).units == 0
    assert either.spent == units(0.3)
    # The third overlaps both: its cells have now paid 0.5, all others 0.3.
    assert either.charge("people", "middle", {}, middle).units == units(0.2)
    assert either.spend("people").by_attribute("age").tolist() == [units(0.3)] * 3 + [units(0.5)] * 4 + [units(0.3)] * 3
    # What the others have left is free.
    assert either.price("people", kit.cost(0.2, age=[0, 9])) == 0
    assert either.price("people", kit.cost(0.25, age=[0, 9])) == units(0.05)


def test_tables_add_up(either, kit):
    kit.register(either, "visits")
    kit.answer(either, 0.3, age=[0])
    kit.answer(either, 0.3, table="visits", age=[9])
    assert either.spent == units(0.6)
    assert kit.answer(either, 0.3, table="visits", age=[0]).units == 0
    assert either.spent == units(0.6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["people", "visits"]),
            st.integers(1, 400),
            st.one_of(st.none(), st.lists(st.integers(0, 9), min_size=1, unique=True)),
            st.one_of(st.none(), st.lists(st.integers(0, 1), min_size=1, unique=True)),
        ),
        max_size=12,
    )
)
def test_the_total_is_that_of_brute_force(asked):
    from dpnotebook.domain import Domain, Range

    ledger = Ledger(":memory:", Budget(1.0))
    cells = {}
    for name in ("people", "visits"):
        domain = Domain({"age": Range(0, 9), "sex": ["F", "M"]}).to_json()
        ledger.register(name, fingerprint="f", domain=domain, unit=None, max_rows=None)
        cells[name] = [[0, 0] for _ in range(10)]
    total = 0
    for table, price, ages, sexes in asked:
        norms = {}
        if ages is not None:
            norms["age"] = np.isin(np.arange(10), ages).astype(np.int64)
        if sexes is not None:
            norms["sex"] = np.isin(np.arange(2), sexes).astype(np.int64)
        cost = CellCost((CostTerm(Fraction(price) * 10**9, norms),))
        after = {name: [list(row) for row in rows] for name, rows in cells.items()}
        for age in range(10) if ages is None else ages:
            for sex in range(2) if sexes is None else sexes:
                after[table][age][sex] += price * 10**9
        due = sum(max(map(max, rows)) for rows in after.values())
        assert ledger.price(table, cost) == due - total
        if due <= 10**12:
            assert ledger.charge(table, "q", {}, cost).units == due - total
            cells, total = after, due
        else:
            with pytest.raises(BudgetExceeded):
                ledger.charge(table, "q", {}, cost)
        assert ledger.spent == total
    audit = ledger.audit()
    assert audit.ok
    assert audit.spent == total


def test_a_gaussian_budget_adds_up_mu_squared(path, kit):
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(path, budget)
    kit.register(ledger)
    accountant = ledger.accountant
    assert isinstance(accountant, GaussianAccountant)
    each = accountant.units(0.2)
    sigma = accountant.scale(each, 1)

    def spend_all():
        while True:
            ledger.charge("people", "q", {}, CellCost((CostTerm(accountant.rate(sigma), {}),)))

    with pytest.raises(BudgetExceeded) as caught:
        spend_all()
    granted = len(ledger.history())
    # Far more than the five that a sum of epsilons would allow; mu^2 of each is 1 / sigma^2.
    mu = (granted * float(1 / sigma**2)) ** 0.5
    assert granted > 15
    delta = 9e-7  # a tenth of the budget's is kept for thresholds
    assert epsilon_of_mu(mu, delta) <= 1.0 < epsilon_of_mu((mu**2 + float(1 / sigma**2)) ** 0.5, delta)
    assert accountant.epsilon(ledger.spent) == pytest.approx(epsilon_of_mu(mu, delta), rel=1e-6)
    assert caught.value.remaining_units < each
    left = accountant.epsilon(caught.value.remaining_units)
    percents = [100 * part / accountant.total for part in (each, caught.value.remaining_units)]
    assert str(caught.value).startswith(
        f"this query would cost {percents[0]:.3g}% of the budget (ε 0.2 at δ = 1e-06), but only {percents[1]:.3g}% "
        f"(ε {left:.3g}) is left"
    )
    with pytest.raises(LedgerMismatch, match=r"Open the ledger with Budget\(epsilon=1.0, delta=1e-06\)"):
        Ledger(path, Budget(1.0))


def test_a_spend_cannot_be_changed(either, kit):
    """It shares its array with the ledger, so it neither changes the ledger nor with it."""
    either.spend("people").add(kit.cost(0.9))
    kit.answer(either, 0.1, age=[1])
    spend = either.spend("people")
    with pytest.raises(ValueError, match="read-only"):
        spend.cells += 1
    with pytest.raises(ValueError, match="read-only"):
        spend.cells[0] = 1
    kit.answer(either, 0.2, age=[1])
    assert spend.maximum == units(0.1)
    spend.add(kit.cost(0.9))
    assert spend.maximum == units(1)
    assert either.spend("people").maximum == either.spent == units(0.3)


# --- what costs nothing


def test_a_charge_of_nothing(either, kit):
    """It can be made before anything was spent, on a used table, and when nothing is left."""
    for number, paid in enumerate((0, 1, 0, 0), 1):
        charge = either.charge("people", f"q{number}", {"free": not paid}, kit.cost(1) if paid else CellCost(()))
        assert (charge.number, charge.units, charge.cost.terms == ()) == (number, paid * UNITS, not paid)
        record = either.record(number, (), {"estimates": "x" * 100_000})
        assert (record.answers, record.details) == ((), {"estimates": "x" * 100_000})
        assert either.get(number).details == record.details
    assert [(row["units"], row["state"]) for row in either.history()] == [
        (units, "recorded") for units in (0, UNITS, 0, 0)
    ]
    assert either.price("people", CellCost(())) == 0
    assert (either.spent, either.refusals(), either.audit().ok) == (UNITS, [], True)


def test_a_note_is_a_charge_and_its_record(either, kit):
    for number in (1, 3):
        note = either.note("people", "free", {"note": number}, {"estimates": [0.5, number]})
        assert (note.number, note.table, note.question, note.units, note.answers) == (number, "people", "free", 0, ())
        assert (note.plan, note.details, note.cost.terms) == ({"note": number}, {"estimates": [0.5, number]}, ())
        for found in (either.get(number), either.records("people", "free")[-1]):
            assert (found.details, found.time, found.plan) == (note.details, note.time, note.plan)
        kit.answer(either, 0.5)
    assert [(row["number"], row["units"], row["state"]) for row in either.history()] == [
        (1, 0, "recorded"),
        (2, units(0.5), "recorded"),
        (3, 0, "recorded"),
        (4, units(0.5), "recorded"),
    ]
    assert either.pending("people") == ()
    audit = either.audit()
    assert (audit.ok, audit.entries, audit.releases, audit.pending) == (True, 10, 4, 0)
    with pytest.raises(NotProtected, match="no table 'visits'"):
        either.note("visits", "q", {}, {})
    with pytest.raises(TypeError):
        either.note("people", "q", {}, {"x": object()})
    with pytest.raises(ValueError, match="float"):
        either.note("people", "q", {}, {"x": float("inf")})
    assert either.head == audit.head


def test_a_note_is_written_whole_or_not_at_all(either, kit, monkeypatch):
    kit.answer(either)
    before, count = either.head, iter(range(2))

    def interrupted(*args, **options):
        if next(count):
            raise KeyboardInterrupt
        return writing.append(*args, **options)

    monkeypatch.setattr(module, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        either.note("people", "q", {}, {})
    monkeypatch.undo()
    assert (either.head, len(either.history()), either.pending("people")) == (before, 1, ())
    assert either.note("people", "q", {}, {}).number == 2
    assert either.audit().ok


def test_what_is_free_adds_no_cells_up(path, kit, monkeypatch):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        kit.answer(ledger, 0.5)
        for _ in range(20):
            ledger.note("people", "q", {}, {})
    hashed = []
    monkeypatch.setattr(snapshot, "digest", lambda spend, digest=snapshot.digest: (hashed.append(1), digest(spend))[1])
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert len(hashed) == 2  # that of the empty table, and that after the one charge
        ledger.note("people", "q", {}, {})
        ledger.charge("people", "q", {}, CellCost(()))
        assert ledger.spent == UNITS // 2
        assert len(hashed) == 2
    assert Ledger(path, Budget(1.0)).audit().ok


@pytest.mark.parametrize(
    ("part", "other"), [("units", 1), ("spent", 1), ("cells", "00"), ("cost", [{"rate": "1", "norms": {}}])]
)
def test_a_free_charge_is_checked_like_others(either, kit, monkeypatch, part, other):
    kit.answer(either, 0.5)
    monkeypatch.setattr(module, "charge_values", lambda *args: writing.charge_values(*args) | {part: other})
    either.note("people", "q", {}, {})
    with pytest.raises(LedgerCorrupt):
        either.pending("people")
    assert not either.audit().ok


# --- reading bit by bit


def test_news_misses_nothing(path, kit):
    """Of two kernels the one that charged first records last: nobody who reads bit by bit misses it."""
    one, two = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    kit.register(one)
    kit.register(one, "visits")
    assert two.news("people") == (two.version("people"), ())
    slow = one.charge("people", "slow", {}, kit.cost(0.1))
    kit.answer(two, 0.1, question="quick")
    version, records = one.news("people")
    assert [record.question for record in records] == ["quick"]
    one.record(slow.number, [np.array([5])], {"by": 1})
    assert one.records("people", after=records[-1].number) == ()
    later, records = one.news("people", version)
    assert [(record.question, record.details) for record in records] == [("slow", {"by": 1})]
    assert later == two.version("people") > version
    kit.answer(two, 0.1, table="visits")
    assert one.news("people", later) == (later, ())
    two.note("people", "free", {}, {})  # has no noisy answers
    assert one.news("people", later) == (two.version("people"), ())
    assert [record.question for record in one.news("people")[1]] == ["quick", "slow"]
    # A few at a time are the same, in the same order, and nothing is left out or given twice.
    told, since = [], 0
    while (part := one.news("people", since, 1))[1]:
        since, records = part
        told += [record.question for record in records]
    assert told == ["quick", "slow"]
    assert one.news("people", since, 1) == (two.version("people"), ())
    with pytest.raises(NotProtected):
        one.news("nobody")
    with pytest.raises(NotProtected):
        one.version("nobody")


def test_only_what_is_asked_for_is_read(ledger, kit, monkeypatch):
    """A planner asks before every plan: what was read and recorded before takes no time again."""
    for number in range(20):
        kit.answer(ledger, 0.01, question=f"q{number}")
        ledger.note("people", f"free {number}", {}, {})
    ledger.charge("people", "pending", {}, kit.cost(0.01))
    version, read = ledger.version("people"), []
    monkeypatch.setattr(reading, "intact", lambda entry, intact=reading.intact: (read.append(entry), intact(entry))[1])
    for use, entries in (
        (lambda: ledger.pending("people"), 1),
        (lambda: ledger.refining("people"), 0),
        (lambda: ledger.news("people", version), 0),
        (lambda: ledger.records("people", after=40), 0),
        (lambda: ledger.records("people", after=38), 4),
        (lambda: ledger.records("people", "q7"), 2),
        (lambda: ledger.spend("people"), 0),
        (lambda: ledger.price("people", kit.cost(0.1)), 0),
        (lambda: ledger.news("people"), 40),
    ):
        read.clear()
        use()
        assert len(read) == entries


def test_a_version_rises_with_everything_that_is_about_the_table(either, kit):
    kit.register(either, "visits")
    seen = [either.version("people")]
    charge = either.charge("people", "q", {}, kit.cost(0.1))
    seen.append(either.version("people"))
    either.record(charge.number, [np.array([1])], {})
    seen.append(either.version("people"))
    either.note("people", "q", {}, {})
    seen.append(either.version("people"))
    assert sorted(set(seen)) == seen
    kit.answer(either, 0.1, table="visits")
    kit.register(either)
    with pytest.raises(BudgetExceeded):
        either.charge("people", "q", {}, kit.cost(2))
    assert either.version("people") == seen[-1] < either.version("visits")


# --- the life of a ledger


def test_what_others_append_is_seen(path, kit):
    one, two = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    kit.register(one)
    kit.answer(one, 0.5, age=range(5))
    assert two.spent == units(0.5)
    assert two.price("people", kit.cost(0.5, age=range(5, 10))) == 0
    kit.answer(two, 0.4)
    with pytest.raises(BudgetExceeded):
        kit.answer(one, 0.2)
    assert one.head == two.head
    assert [record.number for record in one.records("people")] == [1, 2]


def count_additions(monkeypatch, added):
    def counted(self, coded, maximum, add=Spend.add_in_place):
        added.append(coded)
        return add(self, coded, maximum)

    monkeypatch.setattr(Spend, "add_in_place", counted)


def test_only_new_entries_are_read(path, kit, monkeypatch):
    one, two = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    kit.register(one)
    for _ in range(5):
        kit.answer(one, 0.1)
    assert two.spent == units(0.5)
    added = []
    count_additions(monkeypatch, added)
    kit.answer(one, 0.1)
    added.clear()
    assert two.spent == units(0.6)
    assert two.spent == units(0.6)
    assert len(added) == 1


def test_a_snapshot_saves_adding_up(path, kit, monkeypatch):
    monkeypatch.setattr(module, "SNAPSHOT_WORK", 4 << 15)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        for n in range(40):
            kit.answer(ledger, 0.02, age=[n % 10], question=f"q{n}")
        spend = ledger.spend("people").cells.tolist()
        assert ledger.audit().ok
    added = []
    count_additions(monkeypatch, added)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert len(added) <= 5
        assert ledger.spend("people").cells.tolist() == spend
        assert len(ledger.records("people")) == 40
        kit.answer(ledger, 0.02, age=[3])
        assert ledger.audit().ok
    with kit.raw(path) as connection:
        blob = connection.execute("SELECT spend FROM snapshot").fetchone()[0]
        connection.execute("UPDATE snapshot SET charge = charge - 1")
    with pytest.raises(LedgerCorrupt, match="does not add up"):
        Ledger(path, Budget(1.0))
    with kit.raw(path) as connection:
        connection.execute("UPDATE snapshot SET charge = charge + 1000")
    with pytest.raises(LedgerCorrupt, match="totals do not follow"):
        Ledger(path, Budget(1.0))
    with kit.raw(path) as connection:
        connection.execute("UPDATE snapshot SET charge = charge - 999, spend = ?", (blob[:-1],))
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        Ledger(path, Budget(1.0))


def test_threads_share_one_budget(either, kit):
    granted, errors, barrier = [], [], threading.Barrier(8)

    def work(n):
        barrier.wait()
        try:
            while True:
                charge = either.charge("people", f"{n}", {}, kit.cost("0.02"))
                granted.append((charge.number, n))
                either.record(charge.number, [np.array([n])], {})
                assert either.price("people", kit.cost("0.02")) == units("0.02")
        except BudgetExceeded:
            pass
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(number for number, _ in granted) == list(range(1, 51))
    assert either.remaining == 0
    assert all(either.get(number).answers[0].tolist() == [n] for number, n in granted)
    assert len(either.refusals()) == 8
    assert either.audit().ok


def test_a_reader_does_not_wait_for_a_writer(path, kit):
    ledger = Ledger(path, Budget(1.0), timeout=30)
    kit.register(ledger)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        writer = threading.Thread(target=kit.answer, args=(ledger, 0.5))
        writer.start()
        for _ in range(20):
            assert ledger.spent == 0
        assert writer.is_alive()
        holder.execute("ROLLBACK")
        writer.join()
    assert ledger.spent == units(0.5)


def test_an_interrupt_in_a_charge_leaves_nothing(either, kit, monkeypatch):
    before = either.head

    def interrupted(*args, **options):
        result = writing.append(*args, **options)
        raise KeyboardInterrupt
        return result

    monkeypatch.setattr(module, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kit.answer(either)
    monkeypatch.undo()
    assert (either.head, either.spent) == (before, 0)
    kit.answer(either, 1)
    assert either.audit().ok


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("step", [0, 2, 4])
def test_an_interrupt_while_catching_up_leaves_no_half_view(path, kit, monkeypatch, step, early):
    one, two = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    kit.register(one)
    for _ in range(5):
        kit.answer(one, 0.1)
    count = iter(range(100))

    def interrupted(self, coded, known, add=Spend.add_in_place):
        now, maximum = next(count) == step, known
        if not (now and early):
            maximum = add(self, coded, known)
        if now:
            raise KeyboardInterrupt
        return maximum

    monkeypatch.setattr(Spend, "add_in_place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        assert two.spent
    assert two.spent == units(0.5)
    assert two.audit().ok


def test_a_closed_ledger(either, kit):
    kit.answer(either)
    either.close()
    either.close()
    with pytest.raises(LedgerError, match="was closed; open it again"):
        assert either.spent


def test_a_ledger_in_memory_is_its_own(kit):
    one, two = Ledger(":memory:", Budget(1.0)), Ledger(":memory:", Budget(1.0))
    kit.register(one)
    assert two.tables() == {}
    assert one.key != two.key
    assert not os.path.exists(":memory:")


def test_the_file_is_found_again_from_another_folder(tmp_path, kit, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("a b#?%41.ledger", Budget(1.0))
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    kit.register(ledger)
    thread = threading.Thread(target=kit.answer, args=(ledger,))
    thread.start()
    thread.join()
    assert ledger.spent == units(0.1)
    ledger.close()
    assert (tmp_path / "a b#?%41.ledger").exists()
    assert list((tmp_path / "sub").iterdir()) == []


@pytest.mark.parametrize("how", ["delete", "move", "replace"])
def test_a_file_that_is_taken_away_is_missed(ledger, path, kit, how):
    kit.answer(ledger, 0.5)
    if how == "delete":
        path.unlink()
    elif how == "move":
        path.rename(path.with_name("elsewhere"))
    else:
        shutil.copy(path, path.with_name("copy"))
        path.with_name("copy").replace(path)
    for use in (lambda: ledger.spent, lambda: kit.answer(ledger)):
        with pytest.raises(LedgerCorrupt, match="moved, deleted or replaced while it was in use"):
            use()


def test_what_is_changed_under_an_open_ledger_is_noticed_when_it_is_read(ledger, path, kit):
    kit.answer(ledger, 0.2)
    assert ledger.get(1).details == {"bits": 0}
    with kit.raw(path) as connection:
        (payload,) = connection.execute("SELECT payload FROM entry WHERE number = 4").fetchone()
        changed = payload.replace(b'"bits":0', b'"bits":9')
        assert changed != payload
        connection.execute("UPDATE entry SET payload = ? WHERE number = 4", (changed,))
    for use in (lambda: ledger.get(1), lambda: ledger.records("people")):
        with pytest.raises(LedgerCorrupt, match="entry 4 was changed after it was written"):
            use()
    assert not ledger.audit().ok


def test_an_entry_that_is_slipped_in_is_noticed(ledger, path, kit):
    kit.answer(ledger, 0.2)
    assert ledger.spent == units(0.2)
    with kit.raw(path) as connection:
        connection.execute("INSERT INTO entry SELECT 9, kind, time, payload, prev, hash, answers FROM entry LIMIT 1")
    with pytest.raises(LedgerCorrupt, match="totals do not follow"):
        assert ledger.spent


def test_entries_that_vanish_under_an_open_ledger_are_missed(ledger, path, kit):
    kit.answer(ledger, 0.2)
    with kit.raw(path) as connection:
        state = connection.execute("SELECT entries, spent, head FROM state").fetchone()
    kit.answer(ledger, 0.2)
    with kit.raw(path) as connection:
        connection.execute("DELETE FROM entry WHERE number > 4")
        connection.execute("UPDATE state SET entries = ?, spent = ?, head = ?", state)
    for _ in range(2):  # and stay missed
        with pytest.raises(LedgerCorrupt, match="gone"):
            kit.answer(ledger)
    # Whoever did not see them cannot know; that is what a head noted elsewhere is for.
    assert Ledger(path, Budget(1.0)).spent == units(0.2)


def test_entries_that_were_replaced_under_an_open_ledger_are_missed(ledger, path, kit):
    kit.answer(ledger, 0.2)
    with kit.raw(path) as connection:
        state = connection.execute("SELECT entries, spent, head FROM state").fetchone()
    kit.answer(ledger, 0.2)
    with kit.raw(path) as connection:
        connection.execute("DELETE FROM entry WHERE number > 4")
        connection.execute("UPDATE state SET entries = ?, spent = ?, head = ?", state)
    with contextlib.closing(Ledger(path, Budget(1.0))) as other:
        for _ in range(3):
            kit.answer(other, 0.1, question="other")
    for _ in range(2):
        with pytest.raises(LedgerCorrupt):
            kit.answer(ledger)
