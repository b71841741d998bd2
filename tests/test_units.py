"""Whose rows a table holds: populations of units in a session and in its ledger, and what needs them."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpnotebook as dpn
from dpnotebook.ledger import audit_file
from dpnotebook.testing import exact_session

BUDGET = dpn.Budget(4.0, 1e-6)
USERS = pd.DataFrame({"uid": [1, 2, 3, 4, 5, 6], "sex": ["F", "M", "F", "M", "F", "M"]})
VISITS = pd.DataFrame({"uid": [1, 1, 2, 2, 3, 3, 7, 7, 8, 9], "kind": ["a", "b"] * 5})
SEX, KIND = {"sex": ["F", "M"]}, {"kind": ["a", "b"]}
JOIN = "SELECT kind, COUNT(*) AS n FROM visits JOIN users USING (uid) GROUP BY kind"
LEFT = "SELECT kind, COUNT(sex) AS n FROM visits LEFT JOIN users USING (uid) GROUP BY kind"

# Written at commit 9e1b884, when units had no population: JOIN and LEFT above, each at epsilon 0.5, and a count.
BEFORE = Path(__file__).parent / "data" / "ledger_before_populations.sqlite"
HEAD = "1aea6d952d7985e217cf26c34735e076a0081be758be64a3b588d3e6a50a0fcb"


@pytest.fixture(autouse=True)
def unsafe(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def patient(column="uid"):
    return dpn.Unit("patient", column=column)


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens a session on one ledger with both tables, whose units are given."""
    sessions = []

    def opened(users=None, visits=None, path=tmp_path / "a.ledger"):
        session = dpn.Session(BUDGET, ledger=path)
        sessions.append(session)
        if users is not None:
            session.protect(USERS.copy(), "users", unit=users, max_rows=1, domain=SEX)
        if visits is not None:
            session.protect(VISITS.copy(), "visits", unit=visits, max_rows=2, domain=KIND)
        return session

    yield opened
    for session in sessions:
        session.close()


# What one person changes, through the public names


def answers(statement, units, users, visits):
    """Return the answer of a session that adds no noise, by group."""
    session = exact_session(BUDGET)
    session.protect(users, "users", unit=units[0], max_rows=1)
    session.protect(visits, "visits", unit=units[1], max_rows=1)
    frame = session.sql(statement, epsilon=1.0).run().frame
    session.close()
    return frame.set_index(frame.iloc[:, 0].fillna("NULL"))["n"]


def largest_change(statement, units, populations):
    """Return the most that all counts change together when somebody leaves who is in both tables, or in one."""
    users, visits = USERS, VISITS.drop_duplicates("uid")  # of one row each, which are all kept
    before, largest = answers(statement, units, users, visits), 0.0
    for names in populations:
        for uid in (1, 7):
            fewer = [
                table[table["uid"] != uid].reset_index(drop=True) if name in names else table
                for name, table in (("users", users), ("visits", visits))
            ]
            after = answers(statement, units, *fewer)
            largest = max(largest, before.sub(after, fill_value=0).abs().sum())
    return largest


OUTER = [
    "SELECT sex, COUNT(*) AS n FROM visits LEFT JOIN users USING (uid) GROUP BY sex",
    "SELECT sex, COUNT(*) AS n FROM users RIGHT JOIN visits USING (uid) GROUP BY sex",
    "SELECT COALESCE(sex, kind) AS g, COUNT(*) AS n FROM users FULL JOIN visits USING (uid) GROUP BY g",
    "SELECT g, COUNT(*) AS n FROM (SELECT uid, MAX(g) AS g FROM (SELECT uid, sex AS g FROM users UNION ALL "
    "SELECT uid, kind AS g FROM visits) AS all_of GROUP BY uid) AS q GROUP BY g",
    "SELECT kind AS g, COUNT(*) AS n FROM (SELECT uid, kind FROM visits EXCEPT SELECT uid, 'a' AS kind FROM users) "
    "AS q GROUP BY g",
]


@pytest.mark.parametrize("statement", OUTER)
def test_no_person_of_one_table_moves_another_tables_row(statement):
    """Refused, or within what is paid for; it was accepted, and a person of one table alone could change it by two."""
    alone = [["users"], ["visits"]]
    change, said = 0, 'unit=dpn.Unit("person", column="uid")'
    try:
        change = largest_change(statement, ("uid", "uid"), alone)
    except dpn.SQLError as error:
        said = str(error)
    assert change <= 1
    assert 'unit=dpn.Unit("person", column="uid")' in said
    assert largest_change(statement, (patient(), patient()), [["users", "visits"]]) == 1


def test_a_join_covers_the_persons_of_either_table_and_of_both():
    populations = [["users"], ["visits"], ["users", "visits"]]
    statement = JOIN.replace("kind", "sex")
    for units in (("uid", "uid"), (patient(), dpn.Unit("staff", column="uid"))):
        assert largest_change(statement, units, populations) == 1


def test_no_row_that_is_a_unit_moves_other_rows_into_a_sample():
    """Rows have no name but their place: without the first one, the sample was of others."""
    frame = pd.DataFrame({"sex": ["F", "M"] * 500})
    sampled = "SELECT sex, COUNT(*) AS n FROM people TABLESAMPLE BERNOULLI (50 PERCENT) GROUP BY sex"
    found, refused = [], 0
    for rows in (frame, frame[1:].reset_index(drop=True)):
        session = exact_session(BUDGET)
        session.protect(rows, "people", domain=SEX)
        try:
            found.append(session.sql(sampled, epsilon=1).run().frame["n"].to_numpy())
        except dpn.SQLError:
            refused += 1
    assert refused == 2 or np.abs(found[0] - found[1]).sum() <= 1


# The ledger


def test_a_refusal_shows_lines_that_work_and_costs_nothing(opened):
    session = opened("uid", "uid")
    spent = session.sql(JOIN, epsilon=0.5).run().paid
    with pytest.raises(dpn.SQLError) as refused:
        session.sql(LEFT, epsilon=0.5)
    assert session.spent.epsilon == pytest.approx(spent)
    lines = re.findall(r"session\.protect\(.*?\.domain\)", str(refused.value))
    assert len(lines) == 2
    names = {"dpn": dpn, "session": session, "users": USERS.copy(), "visits": VISITS.copy()}
    for line in lines:
        exec(line, names)
    assert session.sql(LEFT, epsilon=0.5).run().paid > 0
    assert session.sql(JOIN, epsilon=0.5).run().paid == 0  # what was answered before is still there
    assert session.tables()["population"].tolist() == ["person", "person"]
    assert session.audit().ok


def test_what_was_said_once_holds_for_every_kernel(opened, tmp_path):
    earlier = opened("uid", "uid")
    later = opened(patient(), patient())
    assert later.sql(LEFT, epsilon=0.5).run().paid > 0
    with pytest.raises(dpn.SQLError, match="one population"):
        earlier.sql(LEFT, epsilon=0.5)  # what it knows is less, which is safe
    plain = opened("uid", "uid")
    assert plain.sql(LEFT, epsilon=0.5).run().paid == 0
    assert plain.tables()["population"].tolist() == ["patient", "patient"]
    kinds = [entry["kind"] for entry in entries(tmp_path / "a.ledger")]
    assert kinds.count("population") == 2
    audit = plain.audit()
    assert (audit.ok, audit.entries) == (True, len(kinds))


def entries(path):
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM entry ORDER BY number")]


def test_two_kernels_cannot_say_different_things_of_one_table(opened, tmp_path):
    both = dpn.Session(BUDGET, ledger=tmp_path / "a.ledger"), dpn.Session(BUDGET, ledger=tmp_path / "a.ledger")
    both[0].protect(USERS.copy(), "users", unit=patient(), max_rows=1, domain=SEX)
    with pytest.raises(dpn.LedgerMismatch, match=r"population 'patient'.*dpn\.Unit\('patient', column='uid'\)"):
        both[1].protect(USERS.copy(), "users", unit=dpn.Unit("nurse", column="uid"), max_rows=1, domain=SEX)
    assert both[1].tables().empty
    both[1].protect(USERS.copy(), "users", unit=patient(), max_rows=1, domain=SEX)
    for session in both:
        session.close()
    assert audit_file(tmp_path / "a.ledger").ok


def test_a_population_is_of_the_column_it_was_said_of(opened):
    opened("uid")
    frame = USERS.assign(uid2=USERS["uid"])
    session = opened()
    with pytest.raises(dpn.LedgerMismatch, match="its data and its unit differ"):
        session.protect(frame, "users", unit=patient("uid2"), max_rows=1, domain=SEX)
    with pytest.raises(dpn.LedgerMismatch, match="its unit"):
        session.protect(frame, "users", domain=SEX)
    rows = opened(path=":memory:")
    rows.protect(USERS.copy(), "users", domain=SEX)
    with pytest.raises(dpn.LedgerMismatch, match="its unit"):
        rows.protect(USERS.copy(), "users", unit=patient(), max_rows=1, domain=SEX)


def test_a_ledger_from_before_opens_and_keeps_what_it_answered(opened, tmp_path):
    path = tmp_path / "before.ledger"
    shutil.copy(BEFORE, path)
    path.chmod(0o600)
    assert audit_file(path, expected=HEAD).ok
    session = opened("uid", "uid", path)
    assert session.tables()["population"].tolist() == ["uid of users", "uid of visits"]
    spent = session.spent
    joined = session.sql(JOIN, epsilon=0.5).run()
    assert (joined.number, joined.paid) == (1, 0)
    with pytest.raises(dpn.SQLError, match="one population"):
        session.sql(LEFT, epsilon=0.5)
    shown = session.release(2).frame  # what was paid for can be seen
    assert shown["n"].tolist() == [18.0, 12.0]
    later = opened(patient(), patient(), path)
    again = later.sql(LEFT, epsilon=0.5).run()
    assert (again.number, again.paid) == (2, 0)
    pd.testing.assert_frame_equal(again.frame, shown)
    assert later.spent == spent
    assert later.audit(expected=HEAD).ok


# What is shown


def test_tables_say_whose_they_are(opened):
    session = opened(patient(), "uid")
    session.protect(pd.DataFrame({"sex": ["F", "M"]}), "rows", domain=SEX)
    tables = session.tables()
    assert tables["unit"].tolist() == ["uid", "uid", "row"]
    assert tables["population"].tolist() == ["patient", "uid of visits", "rows of rows"]
    assert "privacy unit: one patient, up to 1 rows" in repr(session.table("users"))
    assert "privacy unit: one uid, up to 2 rows" in repr(session.table("visits"))
    steps = session.table("users").count(epsilon=0.1).plan.steps
    assert any("at most 1 rows of each patient" in step for step in steps)
    assert repr(patient()) == "Unit('patient', column='uid')"
    assert eval(repr(patient()), {"Unit": dpn.Unit}) == patient()


def test_a_frame_is_protected_with_a_unit_too():
    frame = VISITS.copy()
    with_units = dpn.Session(BUDGET)
    frame.dp.protect("visits", domain=KIND, unit=patient(), max_rows=2)
    assert with_units.tables()["population"].tolist() == ["patient"]


# What cannot be


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"population": 7, "column": "uid"}, "the population of a unit is a name"),
        ({"population": "patient", "column": ["uid"]}, "the column of a unit is a name"),
        ({"population": "patient", "column": USERS}, "not a pandas.DataFrame"),
        ({"population": USERS["sex"], "column": "uid"}, "not a pandas.Series"),
        ({"population": "", "column": "uid"}, "needs its population"),
        ({"population": "patient"}, "needs the column"),
        ({"column": "uid"}, "needs its population"),
        ({"population": "x" * 101, "column": "uid"}, "at most 100 characters"),
        ({"population": "a\nb", "column": "uid"}, "one line"),
        ({"population": "a\ud800", "column": "uid"}, "one line"),
        ({"population": " patient", "column": "uid"}, "no spaces around it"),
    ],
)
def test_what_is_no_unit_says_so(given, words):
    with pytest.raises(dpn.DomainError, match=re.escape(words)) as error:
        dpn.Unit(**given)
    assert len(str(error.value)) < 200
    assert not any(value in str(error.value) for value in ("\n", "\ud800", "F  "))


class Hostile:
    """Fails whatever is asked of it."""

    __module__ = 5

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("repr")

    __eq__ = __hash__ = __bool__ = __str__ = __len__ = __repr__


class Unit:
    """A unit of another package, with the same attributes."""

    population, column = "patient", "uid"


WRONG = [7, 1.5, b"uid", ["uid"], ("patient", "uid"), {"column": "uid"}, USERS, USERS["uid"], Unit(), Unit,
         Hostile(), Hostile, dpn.Unit, dpn.Range(0, 1), object(), True, np.array(["uid"]), "", "no such column",
         "x" * 5_000, patient("no such column"), patient("x" * 5_000)]  # fmt: skip


@pytest.mark.parametrize("unit", WRONG, ids=lambda unit: type(unit).__name__)
def test_a_wrong_unit_registers_nothing(unit, opened):
    session = opened()
    with pytest.raises(dpn.DomainError) as error:
        session.protect(USERS.copy(), "users", unit=unit, max_rows=1, domain=SEX)
    assert len(str(error.value)) < 300
    assert session.tables().empty
    assert session.ledger.tables() == {}
    session.protect(USERS.copy(), "users", unit=patient(), max_rows=1, domain=SEX)


@given(st.text(max_size=120), st.text(max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_text_is_a_unit_or_is_refused(population, column):
    try:
        unit = dpn.Unit(population, column=column)
    except dpn.DomainError as error:
        unit, words = None, str(error)
    if unit is None:
        assert len(words) < 300
        return
    assert (unit.population, unit.column) == (population, column)
    assert unit == dpn.Unit(population, column=column)


def test_numpy_texts_are_texts(opened):
    session = opened(dpn.Unit(np.str_("patient"), column=np.str_("uid")), np.str_("uid"))
    assert session.tables()["population"].tolist() == ["patient", "uid of visits"]
    assert session.tables()["unit"].tolist() == ["uid", "uid"]
