"""The population of a table's units: registered with it, or named later in an entry of its own, and never changed."""

import contextlib

import pytest

from dpnotebook.errors import LedgerMismatch
from dpnotebook.ledger import Ledger, audit_file
from dpnotebook.ledger.chain import GENESIS, Broken, entry_after, to_bytes
from dpnotebook.ledger.replay import Replay
from dpnotebook.privacy.budget import Budget

UNIT = {"unit": "uid", "max_rows": 3}


def test_a_population_is_registered_or_named_later(either, kit):
    kit.register(either, "visits", **UNIT)
    assert "population" not in either.tables()["visits"]  # as in ledgers of earlier versions
    kit.register(either, "stays", **UNIT, population="patient")
    kit.answer(either, 0.25, table="visits")
    spent, cells = either.spent, either.spend("visits").cells.tolist()
    kit.register(either, "visits", **UNIT, population="patient")
    assert [table.get("population") for table in either.tables().values()] == [None, "patient", "patient"]
    assert (either.spent, either.spend("visits").cells.tolist()) == (spent, cells)
    entries = either.audit().entries
    for population in ("patient", None):  # what is known is not written again, nor taken away
        kit.register(either, "visits", **UNIT, population=population)
        assert either.tables()["visits"]["population"] == "patient"
    assert either.audit().entries == entries
    with pytest.raises(LedgerMismatch, match="the population 'patient', which cannot change"):
        kit.register(either, "visits", **UNIT, population="nurse")
    with pytest.raises(LedgerMismatch, match="its unit"):
        kit.register(either, "people", **UNIT, population="patient")
    assert (either.audit().ok, either.audit().entries) == (True, entries)


def test_a_population_is_there_after_opening_again(path, kit):
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger, "visits", **UNIT)
        kit.answer(ledger, 0.25, table="visits")
        kit.register(ledger, "visits", **UNIT, population="patient")
        kit.answer(ledger, 0.25, table="visits", question="r")
        head = ledger.head
    assert audit_file(path, expected=head.hex() if isinstance(head, bytes) else head).ok
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        assert ledger.tables()["visits"]["population"] == "patient"
        assert len(ledger.records("visits")) == 2


def test_kernels_that_say_it_at_once_agree(path, kit):
    first, second = Ledger(path, Budget(1.0)), Ledger(path, Budget(1.0))
    kit.register(first, "visits", **UNIT)
    assert second.tables()["visits"]["unit"] == "uid"
    kit.register(first, "visits", **UNIT, population="patient")
    with pytest.raises(LedgerMismatch):
        kit.register(second, "visits", **UNIT, population="nurse")
    kit.register(second, "visits", **UNIT, population="patient")
    assert second.audit().entries == 3
    for ledger in (first, second):
        ledger.close()


@pytest.mark.parametrize(
    "values",
    [
        {"name": "rows", "population": "patient"},
        {"name": "nobody", "population": "patient"},
        {"name": "visits", "population": 7},
        {"name": "visits", "population": None},
        {"name": "visits"},
        {"name": "stays", "population": "nurse"},
        {"name": "stays", "population": "patient"},
    ],
)
def test_an_entry_that_could_not_have_been_written_is_broken(values):
    view, number, head = Replay(), 0, GENESIS
    table = {"sizes": [["a", 3]], "unit": "uid"}
    opening = {"budget": {"epsilon": 1.0, "delta": 0.0}, "noise": "laplace", "total": 10**12, "key": "00", "cells": 100}
    said = [
        ("open", opening),
        ("register", table | {"name": "visits"}),
        ("register", table | {"name": "stays", "population": "patient"}),
        ("register", table | {"name": "rows", "unit": None}),
    ]
    for kind, told in said:
        entry = entry_after(number, head, kind, to_bytes(told))
        view.apply(entry)
        number, head = entry.number, entry.hash
    with pytest.raises(Broken):
        view.apply(entry_after(number, head, "population", to_bytes(values)))
