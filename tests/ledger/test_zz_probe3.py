"""A release is refined by one charge at most: in one kernel, in several, and after a crash."""

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpnotebook.errors import BudgetExceeded, LedgerConflict
from dpnotebook.ledger import Ledger
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.budget import Budget

WORKER = Path(__file__).with_name("worker.py")


def refine(ledger, kit, *numbers, epsilon=0.1):
    """Charge a refinement of releases of one measurement each."""
    return ledger.charge("people", "q", {}, kit.cost(epsilon), refines=[(number, 0) for number in numbers])


def test_a_charge_says_what_it_refines(either, kit):
    kit.answer(either, 0.1)
    kit.answer(either, 0.1)
    assert either.get(1).refines == ()
    charge = refine(either, kit, 2, np.int64(1))
    assert charge.refines == either.pending("people")[0].refines == ((2, 0), (1, 0))
    assert either.refining("people") == {(1, 0), (2, 0)}
    record = either.record(charge.number, [np.array([3])], {})
    for found in (record, either.get(3), either.records("people")[2]):
        assert found.refines == ((2, 0), (1, 0))
        assert found.answers[0].tolist() == [3]
    assert either.refining("people") == frozenset()
    # What was refined can be refined no more, but the refined answer can.
    assert refine(either, kit, 3).refines == ((3, 0),)
    assert either.audit().ok


def test_each_measurement_of_a_release_is_refined_by_itself(either, kit):
    charge = either.charge("people", "q", {}, kit.cost(0.1))
    either.record(charge.number, [np.array([1]), np.array([2, 3])], {})
    assert either.charge("people", "q", {}, kit.cost(0.1), [(1, 1)]).refines == ((1, 1),)
    assert either.refining("people") == {(1, 1)}
    for places in ([(1, 1)], [(1, 0), (1, 1)]):
        with pytest.raises(LedgerConflict, match="release 1 was refined by release 2"):
            either.charge("people", "q", {}, kit.cost(0.1), places)
    assert either.charge("people", "q", {}, kit.cost(0.1), [(1, 0)]).refines == ((1, 0),)
    for place in (2, -1):
        with pytest.raises(LedgerConflict, match=f"release 1 has no measurement {place}"):
            either.charge("people", "q", {}, kit.cost(0.1), [(1, place)])
    either.note("people", "free", {}, {})
    with pytest.raises(LedgerConflict, match="release 4 has no measurement 0"):
        refine(either, kit, 4)
    assert either.audit().ok


@pytest.mark.parametrize("recorded", [True, False])
def test_a_release_is_refined_once(path, kit, recorded):
    one, two = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    kit.register(one)
    for _ in range(2):
        kit.answer(one, 0.1)
    charge = refine(one, kit, 1)
    if recorded:
        one.record(charge.number, [np.array([3])], {})
    before = (one.head, one.spent)
    for ledger in (two, one):
        for numbers in ((1,), (2, 1)):
            with pytest.raises(LedgerConflict) as caught:
                refine(ledger, kit, *numbers)
            assert str(caught.value).startswith("release 1 was refined by release 3: perhaps another kernel was faster")
            assert "nothing was spent. Run the query again" in str(caught.value)
    assert (two.head, two.spent) == before
    assert two.refusals() == []
    refine(two, kit, 2)


def test_a_refinement_beyond_the_budget_leaves_the_release_to_others(either, kit):
    kit.answer(either, 0.5)
    with pytest.raises(BudgetExceeded):
        refine(either, kit, 1, epsilon=0.6)
    assert refine(either, kit, 1, epsilon=0.5).refines == ((1, 0),)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ((0,), "there is no release 0"),
        ((-1,), "there is no release -1"),
        ((9,), "there is no release 9"),
        ((4,), "there is no release 4"),
        ((1, 1), "release 1 is named twice"),
        ((2,), "release 2 was charged but its answer was not recorded yet"),
        ((3,), "release 3 is of the table 'visits'"),
    ],
)
def test_what_cannot_be_refined(either, kit, numbers, why):
    kit.register(either, "visits")
    kit.answer(either, 0.1)
    either.charge("people", "pending", {}, kit.cost(0.1))
    kit.answer(either, 0.1, table="visits")
    before = (either.head, either.spent)
    with pytest.raises(LedgerConflict, match=why):
        refine(either, kit, *numbers)
    assert (either.head, either.spent, either.audit().ok) == (*before, True)
    with pytest.raises(TypeError):
        refine(either, kit, "1")
    for wrong in ((1,), ("11",)):
        with pytest.raises(TypeError):
            either.charge("people", "q", {}, kit.cost(0.1), refines=wrong)


def test_what_refines_nothing_is_written_as_before(ledger, path, kit):
    """The word is in the file only where it says something, so that older ledgers and newer ones look alike."""
    kit.answer(ledger, 0.1)
    with kit.raw(path) as connection:
        assert connection.execute("SELECT count(*) FROM entry WHERE instr(payload, 'refines')").fetchone() == (0,)
    refine(ledger, kit, 1)
    with kit.raw(path) as connection:
        found = connection.execute("SELECT number FROM entry WHERE instr(payload, '\"refines\":[[1,0]]')").fetchall()
    assert found == [(5,)]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(1, 6), max_size=3)), max_size=10))
def test_what_may_be_refined_is_that_of_brute_force(kit, charges):
    """What any number of charges may refine, by going through all that were made before."""
    ledger, made = Ledger(":memory:", Budget(10.0)), []
    kit.register(ledger)
    for recorded, refines in charges:
        taken = [number for _, others in made for number in others]
        fits = len(set(refines)) == len(refines) and all(
            number <= len(made) and made[number - 1][0] and number not in taken for number in refines
        )
        if not fits:
            with pytest.raises(LedgerConflict):
                refine(ledger, kit, *refines)
            continue
        charge = refine(ledger, kit, *refines)
        made.append((recorded, refines))
        assert charge.number == len(made)
        if recorded:
            ledger.record(charge.number, [np.array([1])], {})
    assert ledger.spent == len(made) * UNITS // 10
    waiting = [[(number, 0) for number in refines] for recorded, refines in made if not recorded]
    assert [list(charge.refines) for charge in ledger.pending("people")] == waiting
    assert sorted(ledger.refining("people")) == sorted(place for places in waiting for place in places)
    assert ledger.audit().ok


def test_of_processes_that_refine_the_same_one_wins(path, kit):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        for _ in range(30):
            kit.answer(ledger, 0.01)
    done = subprocess.run(
        [sys.executable, WORKER, "hammer", path, "4", "refine"],
        env=kit.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sorted(seed for seed, *_ in lines) == list(range(4))
    won = [number for _, *numbers in lines for number in numbers]
    ledger = Ledger(path, Budget(1.0))
    refined = [*ledger.records("people", "refined"), *ledger.pending("people")]
    assert sorted(won) == sorted(number for charge in refined for number, _ in charge.refines) == list(range(1, 31))
    print("WON", [len(n) for _, *n in lines])
    assert sum(bool(numbers) for _, *numbers in lines) >= 2
    assert ledger.spent == 30 * UNITS // 100 + 30
    assert ledger.audit().ok
