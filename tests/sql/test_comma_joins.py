"""Protected tables behind commas: the join that WHERE says, the same question as with ON."""

import pytest
from people_and_shots import opened, shown, truth

import dpnotebook as dpn
from dpnotebook.errors import SQLError
from dpnotebook.testing import exact_session

SAME = [
    (
        "SELECT COUNT(*) AS n FROM people p, shots s WHERE p.pid = s.person AND p.age > 30 AND s.dose = 2",
        "SELECT COUNT(*) AS n FROM people p JOIN shots s ON p.pid = s.person WHERE p.age > 30 AND s.dose = 2",
    ),
    (
        "SELECT kind, COUNT(*) AS n FROM people, shots WHERE person = pid GROUP BY kind ORDER BY kind",
        "SELECT kind, COUNT(*) AS n FROM people JOIN shots ON person = pid GROUP BY kind ORDER BY kind",
    ),
    (
        "SELECT COUNT(*) AS n FROM people p CROSS JOIN shots s WHERE s.person = p.pid",
        "SELECT COUNT(*) AS n FROM people p JOIN shots s ON s.person = p.pid",
    ),
    (
        "SELECT COUNT(*) AS n FROM people p, shots s, shots t WHERE s.person = p.pid AND t.person = p.pid "
        "AND s.dose < 2",
        "SELECT COUNT(*) AS n FROM people p JOIN shots s ON s.person = p.pid JOIN shots t ON t.person = p.pid "
        "WHERE s.dose < 2",
    ),
    (
        "WITH a AS (SELECT DISTINCT person FROM shots) SELECT COUNT(*) AS n FROM people p, a WHERE p.pid = a.person",
        "WITH a AS (SELECT DISTINCT person FROM shots) SELECT COUNT(*) AS n FROM people p JOIN a ON p.pid = a.person",
    ),
    (
        "SELECT COUNT(*) AS n FROM people p WHERE EXISTS (SELECT 1 FROM shots s, shots t WHERE s.person = t.person "
        "AND s.person = p.pid AND s.dose < t.dose)",
        "SELECT COUNT(*) AS n FROM people p WHERE EXISTS (SELECT 1 FROM shots s JOIN shots t ON s.person = t.person "
        "WHERE s.person = p.pid AND s.dose < t.dose)",
    ),
]


@pytest.mark.parametrize(("commas", "joins"), SAME)
def test_a_comma_with_a_condition_is_a_join(commas, joins, monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")
    with exact_session(dpn.Budget(8.0, 1e-6)) as session:
        answer = shown(opened(session), commas)
        assert session.sql(joins, epsilon=2.0).plan.free
    assert answer.n.tolist() == pytest.approx(truth(joins).n.tolist(), rel=0.002)
    assert truth(commas).equals(truth(joins))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*) AS n FROM people p, shots s",
        "SELECT COUNT(*) AS n FROM people p, shots s WHERE p.pid < s.person",
        "SELECT COUNT(*) AS n FROM people p, shots s WHERE p.pid = s.person OR s.dose = 2",
        "SELECT COUNT(*) AS n FROM people p, shots s WHERE p.age = s.person",
        "SELECT COUNT(*) AS n FROM people p, shots s WHERE p.pid = s.person + 1",
        "SELECT COUNT(*) AS n FROM people p, shots s WHERE NOT p.pid = s.person",
    ],
)
def test_rows_of_different_people_are_never_joined(statement):
    with (
        dpn.Session(dpn.Budget(8.0, 1e-6), ":memory:") as session,
        pytest.raises(SQLError, match=r"write JOIN \.\.\. ON"),
    ):
        _ = opened(session).sql(statement, epsilon=1.0).plan
