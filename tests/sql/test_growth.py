"""No text of one row can become so long that a query runs out of memory: what could is refused beforehand."""

import duckdb
import pytest
from ownership_data import RELATIONS

from dpnotebook.errors import SQLError
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.ownership.growth import MOST

TEXT = "CASE WHEN name = 'Ada' THEN name END"


def replaced(text, times, new="aaaaaaaaaa"):
    for _ in range(times):
        text = f"REPLACE({text}, 'a', '{new}')"
    return text


def doubled(times, how="c || c"):
    query = "SELECT uid, name AS c FROM users"
    for _ in range(times):
        query = f"SELECT uid, {how} AS c FROM ({query}) AS q"
    return query


GROWING = [
    f"SELECT COUNT(*) FROM users WHERE {replaced(TEXT, 9)} = 'x'",
    f"SELECT COUNT(*) FROM users GROUP BY {replaced('name', 3)}",
    f"SELECT COUNT(*) FROM users WHERE LENGTH({replaced('name', 1, 'a' * 200)}) > 3",
    f"SELECT COUNT(*) FROM ({doubled(30)}) AS q WHERE c = 'x'",
    f"SELECT COUNT(*) FROM ({doubled(30, 'CONCAT(c, c)')}) AS q WHERE c = 'x'",
    f"SELECT COUNT(c) FROM ({doubled(12, 'LOWER(COALESCE(c, CAST(uid AS VARCHAR)) || c)')}) AS q",
    f"WITH q AS ({doubled(5)}) SELECT COUNT(*) FROM q JOIN q AS r ON q.uid = r.uid WHERE q.c || r.c || q.c || r.c = ''",
    "SELECT COUNT(*) FROM users WHERE name IN (SELECT c FROM (SELECT region || region || region AS c FROM regions) q "
    "WHERE REPLACE(REPLACE(c, 'a', 'bbbbbbbbbb'), 'b', 'cccccccccc') = 'x')",
    "SELECT COUNT(*) FROM users WHERE REPLACE(name, 'a', region) = 'x'",
    "SELECT COUNT(*) FROM users WHERE REPLACE(name, region, 'aa') = 'x'",
]


@pytest.mark.parametrize("statement", GROWING)
def test_what_can_grow_without_limit_is_refused(statement):
    with pytest.raises(SQLError, match=r"puts texts together|written out"):
        analyse(statement, RELATIONS)


ORDINARY = [
    "REPLACE(REPLACE(REPLACE(name, 'a', 'b'), '  ', ' '), '&', 'and')",
    "name || ', ' || region || name",
    "CONCAT(UPPER(LEFT(name, 1)), LOWER(SUBSTR(name, 2)))",
    "COALESCE(name || region, name)",
]


@pytest.mark.parametrize("written", ORDINARY)
def test_what_grows_a_little_is_asked(written):
    """And is never longer than that many times the texts it is made of."""
    select = analyse(f"SELECT {written} AS k, COUNT(*) FROM users GROUP BY k", RELATIONS).selects[0]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE users AS SELECT 1 AS uid, repeat('a& ', 999) AS name, repeat('b', 999) AS region")
    (found,) = connection.execute(f"SELECT length(k0) FROM ({select.rows})").fetchone()
    assert found <= MOST * 3000
