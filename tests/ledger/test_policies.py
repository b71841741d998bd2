"""Policies in a ledger: entries of the chain, one for all kernels, and a most that all answers together keep to."""

import contextlib
import json

import pytest

from dpnotebook.errors import BudgetExceeded, LedgerConflict, LedgerCorrupt
from dpnotebook.ledger import Ledger, audit_file
from dpnotebook.ledger.policies import digest_of
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.privacy.budget import Budget

SAID = {"budget": {"epsilon": 1.0}, "limits": {"all": 0.5}}
HALF = UNITS // 2


def opened(path):
    """Open a ledger as another kernel would."""
    return contextlib.closing(Ledger(path, Budget(1.0)))


def test_what_all_answers_may_take_is_kept_to(either, kit):
    either.follow_policy(SAID, HALF)
    kit.answer(either, 0.4)
    assert (either.total, either.spent, either.remaining) == (UNITS, 4 * HALF // 5, HALF // 5)
    with pytest.raises(BudgetExceeded):
        kit.answer(either, 0.2)
    kit.answer(either, 0.1)
    assert either.remaining == 0
    assert either.audit().ok


def test_what_was_spent_before_counts(either, kit):
    kit.answer(either, 0.8)
    either.follow_policy(SAID, HALF)
    assert either.remaining == 0
    with pytest.raises(BudgetExceeded):
        kit.answer(either, 0.1)


def test_it_is_written_once_and_replayed(path, ledger, kit):
    ledger.follow_policy(SAID, HALF)
    entries = ledger.audit().entries
    with opened(path) as other:
        other.follow_policy(SAID, HALF, before=1)
        assert other.audit().entries == entries
        (known,) = other.policies()
        assert (known.said, known.most, known.digest, known.reason) == (SAID, HALF, digest_of(SAID), "")
        kit.register(other)
        kit.answer(other, 0.3)
    assert ledger.remaining == HALF - 3 * UNITS // 10


def test_a_kernel_that_follows_another_one_is_refused(path, ledger, kit):
    with opened(path) as other:
        other.follow_policy(SAID, HALF)
        for refused in (lambda: kit.answer(ledger, 0.1), lambda: ledger.note("people", "q", {}, {})):
            with pytest.raises(LedgerConflict, match="another policy"):
                refused()
        with pytest.raises(LedgerConflict, match="another policy"):
            ledger.follow_policy({"budget": {"epsilon": 1.0}}, None, before=0)
        assert ledger.spent == 0
        ledger.follow_policy({"budget": {"epsilon": 1.0}}, None, before=1, reason="the board agreed")
        kit.answer(ledger, 0.9)
        with pytest.raises(LedgerConflict):
            kit.answer(other, 0.01)
    assert [one.reason for one in ledger.policies()] == ["", "the board agreed"]


def test_a_forged_policy_is_found(path, ledger, kit):
    ledger.follow_policy(SAID, HALF)
    number = ledger.audit().entries
    ledger.close()
    with kit.raw(path) as connection:
        (payload,) = connection.execute("SELECT payload FROM entry WHERE number = ?", (number,)).fetchone()
        values = json.loads(payload)
        values["policy"]["limits"]["all"] = 1.0
        forged = json.dumps(values).encode()
        connection.execute("UPDATE entry SET payload = ? WHERE number = ?", (forged, number))
        kit.rehash(connection, number)
    assert not audit_file(path).ok
    with pytest.raises(LedgerCorrupt):
        Ledger(path, Budget(1.0))


def test_an_older_ledger_is_under_none(ledger):
    assert ledger.policies() == ()
    assert ledger.policy is None


def test_a_ledger_and_its_copies_have_one_identity(tmp_path, path, ledger):
    ledger.backup(tmp_path / "copy.ledger")
    with opened(tmp_path / "copy.ledger") as copy, opened(":memory:") as other:
        assert copy.identity == ledger.identity != other.identity
        assert len(ledger.identity) == 16
