import pytest

from dpnotebook.errors import LedgerCorrupt, LedgerError, LedgerLocked
from dpnotebook.ledger.store import MEMORY, Store


def pragma(store, name):
    with store.reading() as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.fixture
def store(path):
    store = Store(path, 1.0, lambda connection: None)
    yield store
    store.close()


def test_a_commit_is_on_the_disk_when_it_returns(store):
    assert pragma(store, "journal_mode") == b"delete"
    assert pragma(store, "synchronous") == 3  # EXTRA
    assert pragma(store, "busy_timeout") == 1000


def test_a_block_is_written_whole_or_not_at_all(store):
    def refuse(times, fail):
        with store.writing() as connection:
            for _ in range(times):
                connection.execute("INSERT INTO refusal VALUES ('', '', '', '', '')")
            if fail:
                raise KeyboardInterrupt

    refuse(2, fail=False)
    with pytest.raises(KeyboardInterrupt):
        refuse(3, fail=True)
    with store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM refusal").fetchone() == (2,)


def test_a_transaction_that_an_interrupt_left_open_is_undone(store):
    connection = store._handle().connection
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO refusal VALUES ('', '', '', '', '')")
    with store.reading() as connection:
        assert connection.execute("SELECT count(*) FROM refusal").fetchone() == (0,)


def test_a_transaction_that_vanishes_is_never_taken_for_written(store):
    def vanish():
        with store.writing() as connection:
            connection.execute("INSERT INTO refusal VALUES ('', '', '', '', '')")
            connection.execute("ROLLBACK")

    with pytest.raises(LedgerError, match="cannot commit - no transaction is active"):
        vanish()


def test_errors_of_sqlite_are_ours(store, path):
    other = Store(path, 0.05, None)
    with store.writing(), pytest.raises(LedgerLocked, match=r"held by another process for 0\.05 s"), other.writing():
        pass
    with pytest.raises(LedgerError, match="no such table"), store.reading() as connection:
        connection.execute("SELECT * FROM none")
    other.close()


def test_a_store_that_is_not_there_is_not_made(path):
    with pytest.raises(LedgerError, match="there is no ledger"):
        Store(path, 1.0, None)
    assert not path.exists()


def test_what_could_not_be_filled_is_not_made(path):
    def fail(connection):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Store(path, 1.0, fail)
    assert list(path.parent.iterdir()) == []


def test_a_failed_opening_holds_no_file(path, kit):
    Store(path, 1.0, lambda connection: None).close()
    with kit.raw(path) as connection:
        connection.execute("CREATE TABLE more (x)")
    with pytest.raises(LedgerCorrupt) as caught:
        Store(path, 1.0, None)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert "tables are not those of a ledger" in str(caught.value)


def test_a_store_in_memory_needs_no_file():
    store = Store(MEMORY, 1.0, lambda connection: None)
    with store.writing() as connection:
        connection.execute("INSERT INTO refusal VALUES ('', '', '', '', '')")
    store.close()
    with pytest.raises(LedgerError, match="closed"), store.reading():
        pass
