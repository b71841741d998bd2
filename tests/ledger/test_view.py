from fractions import Fraction

import pytest

from dpnotebook.errors import LedgerError, NotProtected
from dpnotebook.ledger import snapshot
from dpnotebook.ledger.chain import GENESIS, Broken, entry_after, to_bytes
from dpnotebook.ledger.replay import Replay
from dpnotebook.privacy.spend import CellCost, CostTerm, Spend

OPENING = {"budget": {"epsilon": 1.0, "delta": 0.0}, "noise": "laplace", "total": 10**12, "key": "00", "cells": 100}
TABLE = {"name": "t", "sizes": [["a", 3]]}
COST = CellCost((CostTerm(Fraction(5), {}),))


def charge(number=1, units=5, spent=5, table="t", **other):
    spend = Spend({"a": 3}, 100)
    for _ in range(number):
        spend.add(COST)
    values = {"number": number, "table": table, "question": "q", "plan": {}, "cost": COST.to_json()}
    return values | {"units": units, "spent": spent, "cells": snapshot.digest(spend)} | other


def chain(*said):
    """Return entries that follow from one another and say (kind, values)."""
    entries, number, head = [], 0, GENESIS
    for kind, values in (("open", OPENING), ("register", TABLE), *said):
        entry = entry_after(number, head, kind, to_bytes(values))
        entries.append(entry)
        number, head = entry.number, entry.hash
    return entries


def replayed(*said, view=None):
    view = view or Replay()
    for entry in chain(*said):
        view.apply(entry)
    return view


def test_what_entries_add_up_to():
    view = replayed(("charge", charge()), ("charge", charge(2, spent=10, question="r")))
    assert (view.entries, view.spent, len(view.lines)) == (4, 10, 2)
    assert view.tables["t"].spend.maximum == 10
    assert view.numbers("t") == [1, 2]
    assert view.numbers("t", "r") == [2]
    assert view.numbers("t", "s") == view.numbers("u") == []
    with pytest.raises(NotProtected, match=r"no table 'u' \(it knows 't'\)"):
        view.table("u")
    with pytest.raises(LedgerError, match="no release 3 in the ledger; it has 2"):
        view.line(3)


@pytest.mark.parametrize(
    ("kind", "values", "what"),
    [
        ("open", OPENING, "a second time"),
        ("register", TABLE, "a second time"),
        ("gift", {}, "no known kind"),
        ("charge", charge(units=4), "does not add up to the spend"),
        ("charge", charge(units=0, spent=0), "does not add up to the spend"),
        ("charge", charge(spent=4), "does not add up to the total"),
        ("charge", charge(cells="00"), "does not add up to the spend"),
        ("charge", charge(2, spent=5), "does not charge release 1"),
        ("charge", charge(table="u"), "cannot be read"),
        ("charge", {}, "cannot be read"),
        ("charge", charge(cost=[{"rate": "x", "norms": {}}]), "cannot be read"),
        ("charge", charge(cost=[{"rate": "1/0", "norms": {}}]), "cannot be read"),
        ("charge", charge(cost=[{"rate": "5", "norms": {"a": [[1, 2]]}}]), "cannot be read"),
        ("record", {"charge": 1, "answers": {"bytes": None}}, "not charged"),
        ("record", {"charge": 0, "answers": {"bytes": None}}, "not charged"),
        ("record", {"charge": 1, "answers": {"bytes": 7}}, "answers beside entry 3"),
        ("charge", [], "cannot be read"),
    ],
)
def test_what_does_not_follow_is_broken(kind, values, what):
    with pytest.raises(Broken, match=what):
        replayed((kind, values))


def test_a_second_record_is_broken():
    record = ("record", {"charge": 1, "answers": {"bytes": None, "shapes": []}})
    assert replayed(("charge", charge()), record).lines[0].record == 4
    with pytest.raises(Broken, match="a second one"):
        replayed(("charge", charge()), record, record)


def test_what_refines_twice_is_broken():
    record = ("record", {"charge": 1, "answers": {"bytes": None, "shapes": [[1]]}})
    refining = [("charge", charge(n, spent=5 * n, refines=[[1, 0]])) for n in (2, 3)]
    view = replayed(("charge", charge()), record, refining[0])
    assert (view.refined, view.tables["t"].pending) == ({(1, 0): 2}, {2: ((1, 0),)})
    with pytest.raises(Broken, match="release 3 refines what it must not: release 1 was refined by release 2"):
        replayed(("charge", charge()), record, *refining)


@pytest.mark.parametrize(
    ("refines", "what"),
    [
        ([[1, 0]], "its answer was not recorded yet"),
        ([[2, 0]], "no release 2"),
        ([[0, 0]], "no release 0"),
        ([[True, 0]], "no release True"),
        (["10"], "no release '1'"),
        ([1], "cannot be read"),
        ([[]], "cannot be read"),
        (1, "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_what_cannot_be_refined_is_broken(refines, what):
    with pytest.raises(Broken, match=what):
        replayed(("charge", charge()), ("charge", charge(2, spent=10, refines=refines)))


def test_a_snapshot_stands_for_what_came_before():
    charges = [("charge", charge(n, spent=5 * n)) for n in (1, 2, 3, 4)]
    spend = Spend({"a": 3}, 100)
    spend.add(COST)
    spend.add(COST)
    view = replayed(*charges, view=Replay({"t": (2, snapshot.pack(spend))}))
    assert view.unused_snapshots == 0
    assert view.tables["t"].spend.maximum == view.spent == 20
    for wrong in (1, 3):
        with pytest.raises(Broken, match=f"release {wrong} does not add up"):
            replayed(*charges, view=Replay({"t": (wrong, snapshot.pack(spend))}))


@pytest.mark.parametrize("part", sorted(OPENING))
def test_an_opening_without_a_part_is_broken(part):
    opening = {name: value for name, value in OPENING.items() if name != part}
    first = entry_after(0, GENESIS, "open", to_bytes(opening))
    with pytest.raises(Broken, match="entry 1 cannot be read"):
        Replay().apply(first)


def test_a_payload_that_is_no_json_is_broken():
    entry = entry_after(0, GENESIS, "open", b"{")
    with pytest.raises(Broken, match="cannot be read"):
        Replay().apply(entry)
