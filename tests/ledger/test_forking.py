import contextlib
import os
import threading

import numpy as np
import pytest

from dpnotebook.errors import LedgerError
from dpnotebook.ledger import Ledger, store
from dpnotebook.privacy.budget import Budget


def in_child(work):
    """Run `work` in a forked child and return what it returned, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(work()).encode())
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def test_a_forked_child_goes_on_with_its_own_connection(ledger, path, kit):
    kit.answer(ledger, 0.1)
    assert in_child(lambda: kit.answer(ledger, 0.2, values=[5]).number) == "2"
    assert ledger.spent == 3 * 10**11
    assert ledger.get(2).answers[0].tolist() == [5]
    kit.answer(ledger, 0.1)
    assert ledger.audit().ok


def test_a_child_that_outlives_the_parents_connection_loses_nothing(ledger, path, kit):
    """With a connection taken across the fork, the parent would remove the log that the child still writes."""
    kit.answer(ledger, 0.1)
    ready_reader, ready_writer = os.pipe()
    go_reader, go_writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kit.answer(ledger, 0.1)
            os.write(ready_writer, b"x")
            os.read(go_reader, 1)
            kit.answer(ledger, 0.1)
        finally:
            os._exit(0)
    os.read(ready_reader, 1)
    kit.answer(ledger, 0.1)
    ledger.close()
    os.write(go_writer, b"x")
    assert os.waitpid(child, 0)[1] == 0
    with contextlib.closing(Ledger(path, Budget(1.0))) as after:
        assert after.spent == 4 * 10**11
        assert len(after.records("people")) == 4
        assert after.audit().ok


def test_parent_and_children_share_one_budget(ledger, kit):
    def spend():
        granted = 0
        with contextlib.suppress(Exception):
            while kit.answer(ledger, "0.02"):
                granted += 1
        return granted

    reader, writer = os.pipe()
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, f"{spend()}\n".encode())
            finally:
                os._exit(0)
        children.append(child)
    own = spend()
    for child in children:
        os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as said:
        theirs = [int(line) for line in said.read().split()]
    assert len(theirs) == 3
    assert own + sum(theirs) == 50
    assert ledger.remaining == 0
    assert ledger.audit().ok


def test_a_fork_waits_for_a_charge_of_another_thread(ledger, kit):
    """No child may start with half a transaction, or with a lock that nobody will ever release."""
    stop = threading.Event()
    errors = []

    def work():
        try:
            while not stop.is_set():
                kit.answer(ledger, "0.0001")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    said = [in_child(lambda: kit.answer(ledger, "0.0001", values=[9]).answers[0].tolist()) for _ in range(10)]
    stop.set()
    for thread in threads:
        thread.join()
    assert said == ["[9]"] * 10
    assert errors == []
    assert ledger.audit().ok


def test_a_child_sees_what_its_parent_saw(ledger, kit):
    kit.answer(ledger, 0.3, age=[1])
    assert in_child(lambda: ledger.price("people", kit.cost(0.3, age=[2]))) == "0"
    assert in_child(lambda: ledger.key == ledger.key and len(ledger.history())) == "1"


def test_a_ledger_in_memory_is_refused_in_a_child(kit):
    ledger = Ledger(":memory:", Budget(1.0))
    kit.register(ledger)
    kit.answer(ledger, 0.1)
    for use in (lambda: ledger.spent, lambda: kit.answer(ledger), lambda: ledger.get(1)):
        assert in_child(use).startswith("LedgerError: a ledger in memory belongs to the process that made it")
    kit.answer(ledger, 0.1)
    assert ledger.spent == 2 * 10**11
    assert in_child(lambda: Ledger(":memory:", Budget(2.0)).remaining) == str(2 * 10**12)


def test_a_fork_that_python_does_not_know_of(ledger, kit, monkeypatch):
    kit.answer(ledger, 0.1)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(LedgerError, match="forked without Python knowing of it"):
        ledger.record(1, [np.array([1])], {})


def test_a_connection_of_another_process_is_never_closed(ledger, kit, monkeypatch):
    """Closing it could remove the log that its owner still writes."""
    kit.answer(ledger, 0.1)
    handle = ledger._store._handle()
    connection = handle.connection
    monkeypatch.setattr(os, "getpid", lambda: 1)
    handle.close()
    monkeypatch.undo()
    assert connection.execute("SELECT spent FROM state").fetchone() == (10**11,)
    assert connection in store._foreign
    store._foreign.remove(connection)
    connection.close()
    assert ledger.spent == 10**11
