"""A second ledger for the same table resets the budget: what lies in the same folder is told of."""

import contextlib
import os
import shutil
import sqlite3
import warnings

import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import LedgerWarning
from dpnotebook.ledger import Ledger, audit_file, exposure, nearby
from dpnotebook.privacy.budget import Budget

ROWS = pd.DataFrame({"age": [n % 50 for n in range(100)], "sex": ["F", "M"] * 50, "who": range(100)})
DOMAIN = {"age": dpn.Range(0, 49), "sex": ["F", "M"]}


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch):
    monkeypatch.setattr(exposure, "_said", set())


def protected(path, name="people", domain=DOMAIN, ask=0.0, **options):
    """Open a session, protect the rows, perhaps ask, close; return what was warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.closing(dpn.Session(dpn.Budget(epsilon=1.0), ledger=path)) as session:
            table = session.protect(ROWS.copy(), name, domain=domain, **options)
            if ask:
                table.count(epsilon=ask, fresh=True).run()
    assert all(warning.category is LedgerWarning for warning in said)
    assert all(warning.filename == __file__ for warning in said)
    return [str(warning.message) for warning in said]


def test_a_second_ledger_for_a_table_is_told_of(tmp_path):
    one, two = tmp_path / "one.ledger", tmp_path / "two.ledger"
    assert protected(one, ask=0.25) == []
    (text,) = protected(two)
    assert text == (
        "the ledger one.ledger in the same folder also knows a table 'people'. Neither counts what the other spends "
        f"(ε = 0.25 there): if both are about the same people, use one, dpn.Session(budget, ledger='{one}')"
    )
    assert protected(two) == []  # once
    exposure._said.clear()
    assert len(protected(one)) == len(protected(two)) == 1  # from both sides, in every new kernel


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "patients"}, "a table of the same columns, 'people'"),
        ({"domain": {"age": dpn.Range(0, 99)}}, "a table 'people'"),
        ({"name": "patients", "domain": {"age": dpn.Range(0, 99)}}, None),
        ({"name": "patients", "domain": {"sex": ["F", "M"], "age": dpn.Range(0, 49)}}, None),
        ({"name": "patients", "domain": None}, None),
    ],
)
def test_what_tells_a_table(tmp_path, change, told):
    protected(tmp_path / "one.ledger")
    said = protected(tmp_path / "two.ledger", **{"name": "people", "domain": DOMAIN} | change)
    assert [told in text for text in said] == ([] if told is None else [True])


def test_tables_without_declared_columns_are_told_by_their_names_alone(tmp_path):
    protected(tmp_path / "one.ledger", domain=None)
    assert protected(tmp_path / "two.ledger", name="visits", domain=None) == []
    assert len(protected(tmp_path / "three.ledger", domain=None)) == 1


@pytest.mark.parametrize("later", [False, True])
def test_a_population_tells_a_table(tmp_path, later):
    unit = dpn.Unit("citizen", column="who")
    protected(tmp_path / "one.ledger", unit="who" if later else unit, max_rows=1)
    if later:  # named when the table was known already
        protected(tmp_path / "one.ledger", unit=unit, max_rows=1)
    visits = {"name": "visits", "domain": {"age": dpn.Range(0, 60)}, "max_rows": 1}
    patient = dpn.Unit("patient", column="who")
    assert protected(tmp_path / "two.ledger", "others", {"age": dpn.Range(0, 61)}, unit=patient, max_rows=1) == []
    (text,) = protected(tmp_path / "three.ledger", unit=unit, **visits)
    assert "also knows a table of the population 'citizen', 'people'" in text


def test_the_name_of_the_file_does_not_matter(tmp_path):
    protected(tmp_path / "old study.sqlite")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "here.ledger").symlink_to(tmp_path / "old study.sqlite")
    assert len(protected(tmp_path / "two.ledger")) == 1
    assert protected(tmp_path / "links" / "here.ledger") != []  # the folder of the file itself
    assert protected(tmp_path / "links" / "new.ledger") != []  # what a link leads to is a ledger beside it
    (tmp_path / "apart").mkdir()
    assert protected(tmp_path / "apart" / "new.ledger") == []


def test_what_is_no_ledger_is_passed_over(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "other.ledger")) as other:
        other.execute("CREATE TABLE entry (x)")
        other.commit()
    (tmp_path / "empty.ledger").touch()
    (tmp_path / "text.ledger").write_bytes(b"age,sex\n" * 512)
    (tmp_path / "folder.ledger").mkdir()
    (tmp_path / "dangling.ledger").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.ledger")
    protected(tmp_path / "damaged.ledger")
    whole = (tmp_path / "damaged.ledger").read_bytes()
    (tmp_path / "damaged.ledger").write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    (tmp_path / "short.ledger").write_bytes(whole[:4096])
    before = {file.name: file.lstat().st_mtime_ns for file in tmp_path.iterdir()}
    assert protected(tmp_path / "one.ledger", ask=0.1) == []
    after = {file.name: file.lstat().st_mtime_ns for file in tmp_path.iterdir() if file.name != "one.ledger"}
    assert after == before  # nothing was touched, nothing was left behind


def test_a_folder_of_thousands_of_files_is_not_read_through(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(nearby, "as_it_lies", lambda other: looked.append(other) or contextlib.nullcontext())
    for n in range(600):
        (tmp_path / f"{n}.parquet").write_bytes(bytes(512 if n % 2 else 100))
    protected(tmp_path / "z.ledger")
    (tmp_path / "a.ledger").write_bytes(bytes(512))
    monkeypatch.setattr(exposure, "_said", set())
    looked.clear()
    protected(tmp_path / "z.ledger")
    assert looked[0] == str(tmp_path / "a.ledger")
    assert len(looked) <= nearby.MOST_FILES


def test_a_ledger_in_memory_has_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    protected(tmp_path / "one.ledger")
    assert protected(":memory:") == []


def test_a_backup_is_no_second_ledger_until_it_is_used(tmp_path):
    path, copy = tmp_path / "clinic.ledger", tmp_path / "backup.ledger"
    protected(path, ask=0.1)
    with contextlib.closing(Ledger(path, Budget(1.0))) as ledger:
        ledger.backup(copy)
    assert protected(path, ask=0.1) == []
    assert audit_file(copy).spent == 10**11
    # The older copy is used in the place of the ledger: it has forgotten an answer.
    (text,) = protected(copy)
    assert "clinic.ledger in the same folder is a later copy of this ledger" in text
    assert "Go on with the later one" in text
    # Both are used: neither knows all.
    exposure._said.clear()
    (text,) = protected(copy, ask=0.3)
    for one in (path, copy):
        exposure._said.clear()
        (text,) = protected(one)
        assert "is a copy of this ledger that was used by itself" in text


def test_a_restored_copy_is_told_what_it_has_forgotten(tmp_path):
    path = tmp_path / "clinic.ledger"
    protected(path, ask=0.1)
    shutil.copy(path, tmp_path / "backup.ledger")
    protected(path, ask=0.5)
    path.rename(tmp_path / "broken.ledger")
    shutil.copy(tmp_path / "backup.ledger", path)
    (text,) = protected(path)
    assert "broken.ledger in the same folder is a later copy of this ledger: what was spent after clinic.ledger" in text


def test_a_warning_that_is_an_error_leaves_the_table_unprotected(tmp_path):
    protected(tmp_path / "one.ledger")
    with contextlib.closing(dpn.Session(dpn.Budget(epsilon=1.0), ledger=tmp_path / "two.ledger")) as session:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(LedgerWarning):
                session.protect(ROWS.copy(), "people", domain=DOMAIN)
        assert session.ledger.tables() == {}
        with pytest.warns(LedgerWarning):
            session.protect(ROWS.copy(), "people", domain=DOMAIN)


def test_looking_at_another_ledger_keeps_the_locks_of_this_process(tmp_path, kit):
    """Whoever closes a file drops its process's locks on it: here another session writes to the ledger looked at."""
    with contextlib.closing(Ledger(tmp_path / "one.ledger", Budget(1.0))) as one:
        kit.register(one)
        with one._store.writing():
            protected(tmp_path / "two.ledger")
            exposure._said.clear()
            tried = kit.script(
                "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], timeout=0.1, isolation_level=None)\n"
                "try:\n    c.execute('BEGIN IMMEDIATE')\nexcept sqlite3.OperationalError as e:\n    print(e)",
                tmp_path / "one.ledger",
            )
    assert tried == "database is locked\n"
