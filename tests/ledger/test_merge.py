"""Ledgers over more cells than are held: levels share cells, and ledgers from before they did go on as they were."""

import contextlib
from fractions import Fraction

import pytest

from dpnotebook.ledger import Ledger, audit_file, writing
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.budget import Budget


def units(epsilon):
    return int(Fraction(str(epsilon)) * UNITS)


def asked(ledger, kit):
    """Ages by themselves, one of them by sex, and the other sex: 20 cells, of which 3 times 2 differ."""
    kit.answer(ledger, 0.2, question="old", age=range(5, 10))
    kit.answer(ledger, 0.1, question="nines", age=[9], sex=[0])
    kit.answer(ledger, 0.1, question="men", sex=[1])


@pytest.mark.parametrize("limit", [6, 19])
def test_levels_share_cells(path, kit, monkeypatch, limit):
    monkeypatch.setattr(writing, "DENSE_LIMIT", limit)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        asked(ledger, kit)
        assert ledger.spent == units(0.3)  # men and nines that are women are different people
        assert ledger.spend("people").cells.shape == (3, 2)
        head = ledger.head
    with contextlib.closing(Ledger(path, Budget(1.0))) as again:
        assert again.spent == units(0.3)
        assert again.price("people", kit.cost(0.1, age=range(5), sex=[0])) == 0
        assert again.price("people", kit.cost(0.1, age=[9], sex=[0])) == units(0.1)
        assert again.audit().ok
    assert audit_file(path, expected=head).ok


def test_a_ledger_of_an_earlier_version_goes_on_as_it_was(path, kit, monkeypatch):
    monkeypatch.setattr(writing, "DENSE_LIMIT", 19)
    to_bytes = writing.to_bytes
    monkeypatch.setattr(writing, "to_bytes", lambda said: to_bytes({k: v for k, v in said.items() if k != "merge"}))
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        kit.register(ledger)
        asked(ledger, kit)
        assert ledger.spent == units(0.2) + 2 * units(0.1)  # a bound on every cell, for ever
    monkeypatch.undo()
    with contextlib.closing(Ledger(path, Budget(1.0))) as again:
        assert again.spent == units(0.4)
        kit.answer(again, 0.1, question="women", sex=[0])
        assert again.spent == units(0.5)
        assert again.audit().ok
