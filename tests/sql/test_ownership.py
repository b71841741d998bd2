"""Ownership: without one unit everybody else's rows are the same, and no row makes a query fail."""

import numpy as np
import pytest
from ownership_data import RELATIONS, UNITS, connect, is_owned, most_rows, selects, tables

from dpnotebook.errors import SQLError

SOUND = [
    "SELECT COUNT(*) FROM visits SEMI JOIN users USING (uid)",
    "SELECT v.region, COUNT(*) FROM visits v ANTI JOIN users u ON u.uid = v.uid AND u.income > 3 GROUP BY v.region",
    "SELECT COUNT(*) FROM visits v LEFT JOIN users u ON u.uid = v.uid AND u.name = 'N' WHERE u.uid IS NULL AND v.ok",
    "SELECT COUNT(*) FROM visits",
    "SELECT region, COUNT(*), SUM(cost) FROM visits WHERE age > 3 OR ok GROUP BY region",
    # joins on the unit
    "SELECT COUNT(*) FROM visits v JOIN users u ON v.uid = u.uid",
    "SELECT COUNT(*) FROM visits v JOIN users u ON u.uid = v.uid AND v.age > u.income AND (v.ok OR u.name = 'N')",
    "SELECT COUNT(*) FROM visits v JOIN users u ON (((v.uid = u.uid)))",
    "SELECT COUNT(*) FROM visits JOIN users USING (uid)",
    "SELECT COUNT(*) FROM visits JOIN users USING (uid, region)",
    "SELECT COUNT(name) FROM visits v LEFT JOIN users u ON v.uid = u.uid AND v.age > 2",
    "SELECT COUNT(cost) FROM visits v RIGHT JOIN users u ON v.uid = u.uid AND v.age > 2",
    "SELECT COUNT(cost), COUNT(name) FROM visits v FULL JOIN users u ON v.uid = u.uid AND v.age > 2",
    "SELECT COUNT(*) FROM visits v FULL JOIN users u USING (uid)",
    "SELECT COUNT(*) FROM visits v FULL JOIN users u USING (uid) FULL JOIN visits w USING (uid)",
    "SELECT COUNT(*) FROM visits v FULL JOIN users u USING (uid) LEFT JOIN visits w USING (uid)",
    "SELECT COUNT(*) FROM visits v LEFT JOIN users u USING (uid) JOIN visits w ON w.uid = v.uid",
    "SELECT COUNT(*) FROM visits v RIGHT JOIN users u USING (uid) JOIN visits w USING (uid)",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.uid = b.uid JOIN users c ON a.uid = c.uid AND b.uid = c.uid",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.uid = b.uid AND a.n < b.n",
    "SELECT COUNT(*) FROM visits v JOIN days d ON d.uid = v.uid JOIN users u ON u.uid = d.uid",
    # public tables on anything
    "SELECT r.pop, COUNT(*) FROM visits v JOIN regions r ON v.region = r.region GROUP BY r.pop",
    "SELECT COUNT(*) FROM visits v, regions r",
    "SELECT COUNT(*) FROM visits v CROSS JOIN regions r WHERE v.age > r.pop",
    "SELECT COUNT(*) FROM visits v LEFT JOIN regions r ON v.age > r.pop OR r.region = v.region",
    "SELECT COUNT(*) FROM regions r RIGHT JOIN visits v USING (region)",
    "SELECT r.region, COUNT(*) FROM people p JOIN regions r ON r.pop = p.age GROUP BY r.region",
    "SELECT COUNT(*) FROM people p LEFT JOIN regions r ON r.pop = p.age",
    "SELECT r.pop, COUNT(v.cost) FROM regions r LEFT JOIN visits v ON v.age > r.pop OR r.region = v.region GROUP BY 1",
    "SELECT COUNT(p.age) FROM people p RIGHT JOIN regions r ON r.pop = p.age",
    "SELECT COUNT(v.uid) FROM regions r LEFT JOIN days d ON d.uid = r.boss LEFT JOIN visits v ON v.day = d.day "
    "LEFT JOIN users u ON u.uid = v.uid",
    "SELECT COUNT(b) FROM (SELECT v.uid, r.boss, MAX(v.age) AS b FROM regions r LEFT JOIN visits v USING (region) "
    "GROUP BY v.uid, r.boss)",
    "SELECT COUNT(*) FROM people p JOIN regions r ON r.pop > p.age",
    "SELECT COUNT(*) FROM people p CROSS JOIN regions r",
    # subqueries, groupings by the unit, WITH
    "SELECT region, AVG(c) FROM (SELECT uid, region, SUM(cost) AS c FROM visits GROUP BY uid, region) GROUP BY region",
    "SELECT AVG(c) FROM (SELECT uid AS who, MAX(age) AS c FROM visits GROUP BY 1 HAVING COUNT(*) > 1)",
    "SELECT COUNT(*) FROM (SELECT v.uid, COUNT(name) n FROM visits v LEFT JOIN users USING (uid) GROUP BY v.uid)",
    "SELECT COUNT(*) FROM (SELECT uid, COUNT(DISTINCT region) d FROM visits GROUP BY uid) WHERE d > 1",
    "SELECT COUNT(*) FROM (SELECT u, r FROM (SELECT uid AS u, region AS r FROM visits)) AS q JOIN users ON uid = u",
    "SELECT region, COUNT(*) FROM (SELECT region FROM visits WHERE age > 2) GROUP BY region",
    "SELECT region, COUNT(*) FROM (SELECT * FROM (SELECT * FROM visits)) GROUP BY region",
    "SELECT COUNT(*) FROM (SELECT DISTINCT uid, region FROM visits)",
    "SELECT COUNT(DISTINCT who) FROM visits AS v(who, a)",
    "WITH a AS (SELECT uid, age FROM visits), b AS (SELECT * FROM users) SELECT COUNT(*) FROM a JOIN b USING (uid)",
    "WITH a AS (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) SELECT COUNT(*) FROM a x JOIN a y USING (uid)",
    "WITH visits AS (SELECT * FROM visits WHERE age > 2) SELECT COUNT(*) FROM visits",
    "WITH regions AS (SELECT uid, region FROM visits) SELECT region, COUNT(*) FROM regions GROUP BY region",
    "WITH a(x, y) AS (SELECT uid, age FROM visits) SELECT SUM(y) FROM a JOIN users ON a.x = users.uid",
    "SELECT AVG(c) FROM (SELECT uid, COUNT(name) AS c, MAX(cost) FROM visits FULL JOIN users USING (uid) GROUP BY uid)",
    "SELECT AVG(c) FROM (SELECT u.uid, u.region, COUNT(*) AS c FROM visits v JOIN users u USING (uid) GROUP BY 2, 1)",
    # set operations
    "SELECT COUNT(*) FROM (SELECT uid, region FROM visits UNION ALL SELECT uid, name FROM users)",
    "SELECT r, COUNT(*) FROM (SELECT uid, region AS r FROM visits UNION SELECT uid, name FROM users) GROUP BY r",
    "SELECT COUNT(*) FROM (SELECT uid, region FROM visits EXCEPT SELECT uid, region FROM users)",
    "SELECT COUNT(*) FROM (SELECT uid, region FROM visits INTERSECT SELECT uid, region FROM users)",
    "SELECT COUNT(*) FROM (SELECT region FROM visits UNION SELECT region FROM users)",
    "SELECT COUNT(*) FROM (SELECT region, uid FROM visits UNION ALL (SELECT name, uid FROM users EXCEPT "
    "SELECT name, boss AS uid FROM (SELECT name, uid AS boss FROM users)))",
    "SELECT COUNT(*) FROM (SELECT age FROM people UNION ALL SELECT age + 1 FROM people)",
    # public subqueries in expressions
    "SELECT COUNT(*) FROM visits WHERE region IN (SELECT region FROM regions WHERE pop > 5)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM regions r WHERE r.region = v.region AND r.pop > v.age)",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT * FROM regions WHERE region = v.region)",
    "SELECT COUNT(*) FROM visits v WHERE age > (SELECT MAX(pop) FROM regions r WHERE r.region = v.region)",
    "SELECT SUM(b) FROM (SELECT uid, (SELECT AVG(pop) FROM regions r WHERE r.region = v.region) AS b FROM visits v)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM regions r WHERE r.pop IN (SELECT r.boss FROM days d "
    "WHERE d.uid = v.uid))",
    "SELECT COUNT(*) FROM visits WHERE age > (SELECT pop FROM regions WHERE pop > 6 LIMIT 1)",
    "SELECT SUM(b) FROM (SELECT uid, (SELECT boss FROM regions r WHERE r.region = v.region ORDER BY pop LIMIT 1) AS b "
    "FROM visits v)",
    "SELECT COUNT(*) FROM visits WHERE age > (SELECT MIN(pop) FROM regions HAVING COUNT(*) > 1)",
    "SELECT AVG(n) FROM (SELECT uid, EXISTS (SELECT 1 FROM regions r WHERE r.region = v.region) AS e, COUNT(*) AS n "
    "FROM visits v GROUP BY uid, e)",
    "SELECT EXISTS (SELECT 1 FROM regions r WHERE r.region = v.region) AS e, COUNT(*) FROM visits v GROUP BY 1",
    "SELECT d, COUNT(*) FROM (SELECT uid, ARG_MAX(region, day) AS d FROM visits GROUP BY uid) GROUP BY d",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits GROUP BY uid HAVING MIN(cost > 3))",
    "SELECT d, COUNT(*) FROM (SELECT uid, MAX(cost > 3) AS d FROM visits GROUP BY uid) GROUP BY d",
    "SELECT d, COUNT(*) FROM (SELECT uid, ARG_MIN(cost > 3, day) AS d FROM visits GROUP BY uid) GROUP BY d",
    "SELECT AVG(d) FROM (SELECT uid AS x, region, MIN_BY(cost, n) + COUNT(*) AS d FROM visits v WHERE age > 1 GROUP BY "
    "1, region HAVING MAX_BY(ok, v.day) OR MIN_BY(tags IS NULL, n))",
    "SELECT AVG(d) FROM (SELECT uid, ARG_MIN(age, cost) AS d FROM (SELECT * FROM visits JOIN days USING (uid)) "
    "GROUP BY uid)",
    # rows compared with others of their unit
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.day > v.day)",
    "SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM users u WHERE v.uid = u.uid AND (u.income > v.cost "
    "OR u.region = v.region))",
    "SELECT COUNT(*) FROM visits v WHERE age > 3 OR EXISTS (SELECT * FROM users u JOIN visits w USING (uid) WHERE "
    "u.uid = v.uid AND w.n <> v.n)",
    "SELECT COUNT(*) FROM visits v WHERE v.uid IN (SELECT u.uid FROM users u WHERE u.region = v.region)",
    "SELECT COUNT(*) FROM visits v WHERE uid IN (SELECT uid FROM users WHERE income > cost OR name = v.region)",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT COUNT(*) FROM visits w WHERE w.uid = v.uid AND w.day < v.day) > 1",
    "SELECT region, AVG(CASE WHEN EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.age < v.age) THEN 1 ELSE 0 "
    "END) FROM visits v GROUP BY region",
    "SELECT EXISTS (SELECT 1 FROM users u WHERE u.uid = v.uid AND u.region = v.region) AS e, COUNT(*) FROM visits v "
    "GROUP BY e",
    "SELECT AVG(m) FROM (SELECT uid, MAX(d) AS m FROM (SELECT uid, n - (SELECT MIN(w.n) FROM visits w WHERE w.uid = "
    "v.uid AND w.region = v.region) AS d FROM visits v) GROUP BY uid)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.n > v.n AND EXISTS "
    "(SELECT 1 FROM users u WHERE u.uid = w.uid AND u.region = w.region))",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.age "
    "> v.age)) JOIN users USING (uid)",
    # arrays, samples
    "SELECT tag, COUNT(*) FROM visits v, UNNEST(v.tags) AS t(tag) GROUP BY tag",
    "SELECT tag, COUNT(*) FROM visits v CROSS JOIN UNNEST(tags) AS t(tag) WHERE tag = 'a' GROUP BY tag",
    "SELECT COUNT(*) FROM visits v, UNNEST(v.tags) AS t(tag) WHERE tag = '1'",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM UNNEST(v.tags) AS t(tag) WHERE tag = 'b')",
    "SELECT tag, COUNT(*) FROM visits v LEFT JOIN UNNEST(v.tags) AS t(tag) ON TRUE GROUP BY tag",
    "SELECT COUNT(*) FROM (SELECT uid, tag FROM visits v, UNNEST(v.tags) AS t(tag)) q JOIN users USING (uid) "
    "WHERE tag = name",
    "SELECT x, COUNT(*) FROM visits, UNNEST(['a', 'b']) AS t(x) WHERE region = x GROUP BY x",
    "SELECT COUNT(*) FROM (SELECT uid, COUNT(tag) AS n FROM visits v, UNNEST(v.tags) AS t(tag) GROUP BY uid) "
    "WHERE n > 1",
    "SELECT COUNT(*) FROM visits v, UNNEST(v.tags) AS a(x), UNNEST(v.tags) AS b(y) WHERE x > y",
    "SELECT COUNT(*) FROM visits TABLESAMPLE BERNOULLI (50 PERCENT)",
    "SELECT COUNT(*) FROM (SELECT * FROM visits TABLESAMPLE BERNOULLI (50 PERCENT)) JOIN users USING (uid)",
    # names
    'SELECT COUNT(*) FROM VISITS "V" JOIN "Users" u ON v."UID" = U.uId',
    "SELECT COUNT(*) FROM visits u JOIN users visits ON u.uid = visits.uid WHERE visits.income > 3",
    "SELECT COUNT(*) FROM (SELECT uid AS c0, age AS u FROM visits) s0 JOIN (SELECT uid AS u, name AS c0 FROM users) s1 "
    "ON s0.c0 = s1.u WHERE s0.u > 3",
    "SELECT COUNT(*) FROM (SELECT boss AS uid, uid AS boss, income FROM users) JOIN visits ON boss = visits.uid",
    # the unit's name on something else is no unit
    "SELECT COUNT(*) FROM (SELECT age AS uid, uid AS age FROM visits) a JOIN users b ON a.age = b.uid",
    "SELECT SUM(pop) FROM visits JOIN (SELECT boss AS uid, pop FROM regions) USING (uid)",
    # windows over the rows of one unit
    "SELECT COUNT(*) FROM (SELECT uid, day, LAG(day) OVER (PARTITION BY uid ORDER BY day) AS b FROM visits) "
    "WHERE day < b + INTERVAL 30 DAY OR b IS NULL",
    "SELECT AVG(cost) FROM (SELECT uid AS u, cost, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day DESC) AS k "
    "FROM visits) WHERE k <= 2",
    "SELECT SUM(d) FROM (SELECT uid, cost - LEAD(cost, 2) OVER (PARTITION BY region, uid ORDER BY age, n) AS d "
    "FROM visits)",
    "SELECT r, f, COUNT(*) FROM (SELECT v.uid, RANK() OVER (PARTITION BY v.uid ORDER BY age) AS r, "
    "FIRST_VALUE(u.region) OVER (PARTITION BY v.uid ORDER BY day) AS f FROM visits v JOIN users u USING (uid)) "
    "GROUP BY r, f",
    "SELECT COUNT(*) FROM (SELECT uid, DENSE_RANK() OVER (PARTITION BY uid) AS r, LAG(ok) OVER (PARTITION BY uid) AS o "
    "FROM (SELECT * FROM visits WHERE age > 2)) WHERE o AND r = 1",
    "SELECT region, COUNT(*) FROM (SELECT uid, region FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY uid "
    "ORDER BY day) = 1) GROUP BY region",
    "SELECT AVG(cost) FROM (SELECT *, RANK() OVER (PARTITION BY uid ORDER BY day) AS k FROM visits WHERE age > 2 "
    "QUALIFY k = 1 AND LAG(n) OVER (PARTITION BY uid) IS NULL)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT uid, region FROM visits QUALIFY 1 = ROW_NUMBER() OVER (PARTITION BY ok, "
    "uid))",
    "SELECT COUNT(*) FROM (SELECT v.uid FROM visits v JOIN users u USING (uid) QUALIFY ROW_NUMBER() OVER (PARTITION BY "
    "v.uid ORDER BY age DESC) = 2 OR age > 4)",
    "SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY n) AS k FROM visits) "
    "WHERE k = 3 AND ok",
    "SELECT AVG(n) FROM (SELECT uid, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY uid) AS k FROM visits) q "
    "WHERE (1 = q.k))",
    "SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY uid) AS k FROM visits) q JOIN visits v "
    "USING (uid) WHERE k = 1",
    "SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY uid, age) AS k FROM visits) WHERE k = 1",
    "SELECT COUNT(*) FROM (SELECT *, RANK() OVER (PARTITION BY uid ORDER BY age) AS k FROM visits) WHERE k = 1 "
    "OR k = 2",
    "SELECT COUNT(*) FROM (SELECT uid, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY uid) AS k FROM visits) q, "
    "regions) WHERE k = 1",
]
AWKWARD = [
    "SELECT SUM(EXTRACT(YEAR FROM AGE(DATE '2025-03-01', day))), SUM(YEAR(AGE(day, DATE '2030-02-28'))) FROM visits",
    "SELECT SUM(age / n), SUM(age * n), SUM(age + n), SUM(age - n), SUM(age % n), SUM(-age), SUM(ABS(n)) FROM visits",
    "SELECT SUM(SQRT(cost)), SUM(LN(cost)), SUM(EXP(cost)), SUM(POWER(cost, age)), SUM(ROUND(cost, 2)) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE CAST(region AS INTEGER) = 1 OR CAST(cost AS INTEGER) > 3",
    "SELECT COUNT(*) FROM visits WHERE CAST(region AS DATE) > day OR CAST(cost AS BIGINT) = n OR region = 'N' AND ok",
    "SELECT COUNT(*) FROM visits WHERE day >= '2024-01-01' AND day BETWEEN '2024-01-01' AND '2024-12-31'",
    "SELECT YEAR(day), COUNT(*) FROM visits GROUP BY YEAR(day)",
    "SELECT DATE_TRUNC('month', day) m, COUNT(*) FROM visits GROUP BY m",
    "SELECT COUNT(*) FROM visits WHERE day + INTERVAL 1 DAY > '2024-01-01' OR DATE_DIFF('day', day, '2024-01-01') > 3",
    "SELECT SUBSTR(region, 1, 2) || UPPER(region) AS r, COUNT(*) FROM visits GROUP BY r",
    "SELECT COALESCE(age, n, 0) AS a, COUNT(*) FROM visits WHERE NULLIF(region, '') LIKE 'N%' GROUP BY a",
    "SELECT CASE WHEN age > 3 THEN 'old' WHEN ok THEN 'ok' ELSE region END AS c, COUNT(*) FROM visits GROUP BY c",
    "SELECT AVG(s) FROM (SELECT uid, SUM(n) AS s, AVG(cost) a, STDDEV(cost) d, VAR_POP(n) v FROM visits GROUP BY uid) "
    "WHERE a > 1 OR d > 2 OR v < 3",
    "SELECT COUNT(*) FROM visits WHERE tags = tags OR tags IS NULL OR ok = (age > 3) OR (region IS NULL) = ok",
    "SELECT COUNT(*), SUM(x) FROM clients WHERE uid > 'a' OR x > 3",
    "SELECT COUNT(*) FROM visits WHERE age IN (1, 2.5, NULL) OR region NOT IN ('N', NULL) OR n BETWEEN cost AND age",
    "SELECT GREATEST(age, cost) g, LEAST(age, n) l, COUNT(*) FROM visits GROUP BY 1, 2",
    "SELECT COUNT(*) FROM visits v JOIN regions r ON v.age = r.pop AND v.cost = r.boss AND v.day IS NOT NULL",
    "SELECT COUNT(CASE age > 2 WHEN n > 3 THEN cost ELSE 0 END) FROM visits",
    "SELECT age, COUNT(*), MEDIAN(cost), VAR_POP(n), MAX(age) FROM visits GROUP BY age",
    "SELECT income, COUNT(*) FROM users GROUP BY income",
    "SELECT ok, sex, age, COUNT(*) FROM people GROUP BY ok, sex, age",
]
UNSOUND = [  # SQL for the engine as it would be without the rules: the test of ownership must see each of them
    "SELECT v.uid AS u, w.cost FROM visits v JOIN visits w ON v.region = w.region",
    "SELECT v.uid AS u, v.cost FROM visits v WHERE v.age IN (SELECT boss FROM users)",
    "SELECT v.uid AS u, s FROM visits v JOIN (SELECT region, COUNT(*) s FROM visits GROUP BY 1) USING (region)",
    "SELECT uid AS u, region FROM visits ORDER BY age, n, cost, day LIMIT 3",
    "SELECT uid AS u, COUNT(*) OVER () FROM visits",
    "SELECT u.boss AS u, u.income FROM users u",
    "SELECT 7 AS u, COUNT(*) FROM visits",
    "SELECT COALESCE(v.uid, 7) AS u, COUNT(*) FROM visits v GROUP BY 1",
    "SELECT r.boss AS u, r.pop FROM regions r WHERE r.region NOT IN (SELECT name FROM users WHERE name IS NOT NULL)",
]


@pytest.fixture(scope="module")
def databases():
    rng = np.random.default_rng(20240817)
    found = [connect(tables(rng)) for _ in range(4)]
    found.append(connect({name: [] for name in tables(rng)}))
    yield found
    for connection in found:
        connection.close()


@pytest.mark.parametrize("statement", SOUND + AWKWARD)
def test_rows_belong_to_their_unit_alone(statement, databases):
    for select in selects(statement):
        for connection in databases:
            assert is_owned(connection, select.rows, select.tables), select.rows
            assert not select.single or most_rows(connection, select.rows) <= 1, select.rows


@pytest.mark.parametrize("query", UNSOUND)
def test_the_test_of_ownership_sees_shared_rows(query, databases):
    assert not all(is_owned(connection, query, ["visits", "users"]) for connection in databases)


def test_rows_without_a_unit_are_left_out(databases):
    for statement in SOUND:
        for select in selects(statement):
            for connection in databases:
                found = connection.execute(f"SELECT COUNT(*) FROM ({select.rows}) WHERE u IS NULL").fetchone()
                assert found == (0,)


ATTACKS = [
    "SELECT COUNT(*) FROM visits v JOIN users u ON v.uid = u.boss",
    "SELECT COUNT(*) FROM visits JOIN (SELECT boss AS uid, income FROM users) USING (uid)",
    "SELECT COUNT(*) FROM visits JOIN (SELECT boss AS uid, uid AS boss FROM users) u USING (uid)",
    "SELECT COUNT(*) FROM (SELECT age AS uid FROM visits) JOIN users USING (uid)",
    "SELECT COUNT(*) FROM visits v LEFT JOIN users u USING (uid) JOIN visits w ON w.uid = u.uid",
    "SELECT COUNT(*) FROM visits v FULL JOIN users u ON v.uid = u.uid JOIN visits w ON w.uid = v.uid",
    "SELECT COUNT(*) FROM visits v FULL JOIN users u ON v.uid = u.uid JOIN visits w ON w.uid = u.uid",
    "SELECT COUNT(*) FROM visits v JOIN users u ON v.uid = u.uid + 0",
    "SELECT COUNT(*) FROM visits v JOIN users u ON NOT v.uid <> u.uid",
    "SELECT COUNT(*) FROM visits v JOIN users u ON CASE WHEN v.uid = u.uid THEN TRUE ELSE TRUE END",
    "SELECT COUNT(*) FROM visits v JOIN users u ON (v.uid = u.uid) IS NOT NULL",
    "SELECT COUNT(*) FROM visits v JOIN users u ON v.uid = u.uid OR TRUE",
    "SELECT COUNT(*) FROM visits v JOIN users u ON v.uid IN (u.uid)",
    "SELECT COUNT(*) FROM visits v JOIN users u ON v.uid BETWEEN u.uid AND u.uid",
    "SELECT COUNT(*) FROM visits v JOIN clients c ON v.uid = c.uid",
    "SELECT COUNT(*) FROM visits v JOIN clients c USING (uid)",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits UNION ALL SELECT uid FROM clients)",
    "SELECT COUNT(*) FROM (SELECT age FROM people UNION ALL SELECT age FROM animals)",
    "SELECT COUNT(*) FROM (SELECT age FROM people UNION ALL SELECT uid FROM visits)",
    "SELECT COUNT(*) FROM people a JOIN people b ON a.age = b.age",
    "SELECT COUNT(*) FROM people a JOIN people b USING (__row__)",
    "SELECT COUNT(DISTINCT __row__) FROM people",
    "SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 3)",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits UNION ALL SELECT uid FROM users LIMIT 3)",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits ORDER BY age LIMIT 3 OFFSET 2)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT ON (region) uid, region FROM visits)",
    "SELECT COUNT(*) FROM visits WHERE age > (SELECT AVG(age) FROM visits)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM users u WHERE u.uid = v.region)",
    "SELECT COUNT(*) FROM visits v WHERE age IN (WITH regions AS (SELECT uid FROM users) SELECT uid FROM regions)",
    "SELECT COUNT(*) FROM visits WHERE age IN (SELECT pop FROM regions WHERE pop > (SELECT COUNT(*) FROM users))",
    "SELECT COUNT(*) FROM regions r WHERE r.boss IN (SELECT uid FROM visits)",
    "SELECT r.region, COUNT(*) FROM regions r LEFT JOIN visits v USING (region) GROUP BY r.region",
    "SELECT r.region, COUNT(*) FROM visits v RIGHT JOIN regions r USING (region) GROUP BY r.region",
    "SELECT COUNT(*) FROM visits v FULL JOIN regions r USING (region)",
    "SELECT COUNT(*) FROM visits v, (SELECT COUNT(*) AS n FROM users) q WHERE v.age > q.n",
    "WITH q AS (SELECT AVG(age) AS m FROM visits) SELECT COUNT(*) FROM visits, q WHERE age > m",
    "SELECT COUNT(*) FROM visits v, LATERAL (SELECT * FROM users u WHERE u.region = v.region) q",
    "SELECT COUNT(*) FROM visits v JOIN (SELECT income FROM users WHERE users.uid = v.uid) q ON TRUE",
    "SELECT COUNT(*) FROM regions ANTI JOIN users ON users.boss = regions.boss",
    "SELECT COUNT(*) FROM visits POSITIONAL JOIN users",
    "SELECT COUNT(*) FROM visits NATURAL JOIN users",
    "SELECT COUNT(*) FROM visits ASOF JOIN users ON visits.uid = users.uid AND visits.age >= users.boss",
    "SELECT COUNT(*) FROM visits v JOIN users v ON v.uid = v.uid",
    "SELECT COUNT(*) FROM visits JOIN users ON uid = uid",
    "SELECT COUNT(*) FROM (SELECT uid, uid FROM visits) a JOIN users b ON a.uid = b.uid",
    "SELECT COUNT(*) FROM (SELECT v.uid, COUNT(*) n FROM visits v JOIN users u ON v.region = u.region GROUP BY v.uid)",
    "SELECT COUNT(*) FROM (SELECT 10 + uid AS uid, cost FROM visits) JOIN users USING (uid)",
    "SELECT COUNT(*) FROM (SELECT COALESCE(uid, 1) AS uid FROM visits)",
    "SELECT COUNT(*) FROM visits v JOIN users u ON v.uid = (SELECT u.uid)",
    "SELECT COUNT(*) FROM (VALUES (1), (2)) AS visits(uid) JOIN users USING (uid) JOIN visits w ON TRUE",
    "SELECT COUNT(*) FROM visits v JOIN (users u JOIN regions r ON TRUE) ON v.uid = u.uid OR TRUE",
    "SELECT COUNT(*) FROM visits v, UNNEST(v.tags) t(tag) JOIN users u ON u.name = tag",
    "SELECT COUNT(*) FROM UNNEST((SELECT LIST(uid) FROM visits)) AS t(x)",
    "SELECT COUNT(*) FROM visits TABLESAMPLE RESERVOIR (3 ROWS)",
    "SELECT COUNT(*) FROM people TABLESAMPLE SYSTEM (50 PERCENT)",
    "SELECT SUM(b) FROM (SELECT uid, (SELECT SUM(v.age) FROM regions r) AS b FROM visits v)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT pop FROM regions GROUP BY pop HAVING SUM(v.age) > 3)",
    "SELECT SUM(b) FROM (SELECT uid, (SELECT pop FROM regions ORDER BY SUM(v.age) LIMIT 1) AS b FROM visits v)",
    "SELECT COUNT(*) FROM visits WHERE uid = 7 AND age > (SELECT pop FROM regions)",
    "SELECT COUNT(*) FROM visits WHERE uid = 7 AND age > (SELECT MAX(pop) FROM regions GROUP BY region)",
    "SELECT COUNT(*) FROM visits WHERE uid = 7 AND age > (SELECT MAX(pop) FROM regions UNION SELECT boss FROM regions)",
    "SELECT COUNT(*) FROM visits WHERE uid = 7 AND age > (SELECT pop FROM regions LIMIT 2)",
    "SELECT pop, (SELECT COUNT(*) FROM users) FROM regions, UNNEST((SELECT uid FROM visits)) AS t(x)",
    "SELECT COUNT(*) FROM visits TABLESAMPLE BERNOULLI (age PERCENT)",
    "SELECT COUNT(*) FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY region) = 1",
    "SELECT COUNT(*) FROM (SELECT uid, cost FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY region) = 1)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.uid <> v.uid AND w.day > v.day)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.region = v.region AND w.day > v.day)",
    "SELECT COUNT(*) FROM visits v JOIN days d ON TRUE WHERE EXISTS (SELECT 1 FROM visits w WHERE w.uid = d.uid AND "
    "w.n > v.n)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM days d, visits w WHERE d.uid = v.uid AND w.n > v.n)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid OR w.day > v.day)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM users u WHERE u.boss = v.uid AND u.income > v.age)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM (SELECT boss AS uid, income FROM users) u WHERE u.uid = "
    "v.uid AND u.income > v.age)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM (SELECT age AS uid, day FROM visits) w WHERE w.uid = "
    "v.uid AND w.day > v.day) AND EXISTS (SELECT 1 FROM visits w JOIN users u ON w.region = u.region WHERE "
    "w.uid = v.uid AND u.income > v.cost)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM clients c WHERE c.uid = v.uid AND c.x > v.cost)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.day > v.day LIMIT 3)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.day > v.day HAVING "
    "COUNT(*) > 2)",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT w.age FROM visits w WHERE w.uid = v.uid AND w.day > v.day) > 1",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT MEDIAN(w.age) FROM visits w WHERE w.uid = v.uid AND w.n > v.n) > 1",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT SUM(v.age) FROM visits w WHERE w.uid = v.uid AND w.day > v.day) > 1",
    "SELECT COUNT(*) FROM regions r WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = r.uid AND v.age > r.pop)",
    "SELECT COUNT(*) FROM days d WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = d.uid AND v.day > d.day)",
    "SELECT COUNT(*) FROM days uid, people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = uid.uid AND v.age > "
    "p.age)",
    "SELECT AVG(e) FROM (SELECT uid, SUM(CASE WHEN EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.n > v.n) "
    "THEN 1 END) AS e FROM visits v GROUP BY uid)",
    "SELECT AVG(e) FROM (SELECT uid, EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.n > v.n) AS e FROM "
    "visits v GROUP BY uid)",
    "SELECT region, COUNT(*) FROM visits v GROUP BY region HAVING EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid "
    "AND w.region > v.region)",
    "SELECT COUNT(*) FROM visits v JOIN users u ON v.uid = u.uid AND EXISTS (SELECT 1 FROM visits w WHERE w.uid = "
    "v.uid AND w.age > u.income)",
    "SELECT COUNT(*) FROM visits v WHERE age > (SELECT MAX(pop) FROM regions r WHERE EXISTS (SELECT 1 FROM visits w "
    "WHERE w.uid = r.uid AND w.age > r.pop))",
    "SELECT ARG_MAX(cost, day) FROM visits",
    "SELECT region, ARG_MAX(cost, day) FROM visits GROUP BY region",
    "SELECT region, ARG_MAX(cost, day), COUNT(*) FROM visits GROUP BY region",
    "SELECT uid, ARG_MAX(cost, day) FROM visits GROUP BY uid",
    "SELECT AVG(c) FROM (SELECT region, ARG_MAX(cost, day) AS c FROM visits GROUP BY region)",
    "SELECT AVG(c) FROM (SELECT MIN(uid) AS uid, region, MIN_BY(cost, day) AS c FROM visits GROUP BY region)",
    "SELECT AVG(c) FROM (SELECT age AS uid, ARG_MAX(cost, day) AS c FROM visits GROUP BY 1)",
    "SELECT COUNT(*) FROM visits WHERE ARG_MAX(cost, day) > 3",
    "SELECT COUNT(*) FROM visits HAVING ARG_MAX(cost, day) > 3",
    "SELECT region, COUNT(*) FROM visits GROUP BY region ORDER BY ARG_MAX(cost, day)",
    "SELECT ARG_MAX(sex, age) FROM people",
    "SELECT ARG_MAX(region, COUNT(*)) FROM visits GROUP BY region",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits QUALIFY ROW_NUMBER() OVER (ORDER BY uid) = 1)",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY uid) = 1 OR "
    "RANK() OVER (PARTITION BY region ORDER BY age) = 1)",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits QUALIFY COUNT(*) OVER (PARTITION BY region) > 3)",
    "SELECT COUNT(*) FROM (SELECT uid, COUNT(*) FROM visits GROUP BY uid QUALIFY RANK() OVER (ORDER BY COUNT(*)) < 9)",
    "SELECT COUNT(*) FROM (SELECT uid FROM visits QUALIFY age > (SELECT AVG(age) FROM visits))",
    "SELECT COUNT(*) FROM (SELECT age FROM people QUALIFY ROW_NUMBER() OVER (PARTITION BY age) = 1)",
    "SELECT SUM(x) FROM (SELECT uid, LAG(cost) OVER (ORDER BY uid, day) AS x FROM visits)",
    "SELECT SUM(x) FROM (SELECT uid, LAG(cost) OVER (PARTITION BY region ORDER BY uid) AS x FROM visits)",
    "SELECT SUM(x) FROM (SELECT uid, LAG(cost) OVER (PARTITION BY uid + 0 ORDER BY day) AS x FROM visits)",
    "SELECT SUM(x) FROM (SELECT uid, LAG(cost) OVER (PARTITION BY uid % 2 ORDER BY day) AS x FROM visits)",
    "SELECT SUM(x) FROM (SELECT uid, LAG(cost) OVER (PARTITION BY b ORDER BY day) AS x "
    "FROM (SELECT uid, cost, day, region AS b FROM visits))",
    "SELECT SUM(x) FROM (SELECT v.uid, LAG(income) OVER (PARTITION BY u.boss ORDER BY day) AS x "
    "FROM visits v JOIN users u ON v.uid = u.uid)",
    "SELECT SUM(x) FROM (SELECT b AS uid, LAG(cost) OVER (PARTITION BY uid) AS x FROM (SELECT age AS uid, uid AS b, "
    "cost FROM visits))",
    "SELECT SUM(x) FROM (SELECT pop, LAG(pop) OVER (PARTITION BY region) AS x FROM regions), visits",
    "SELECT SUM(x) FROM (SELECT LAG(age) OVER (PARTITION BY sex) AS x FROM people)",
    "SELECT SUM(x) FROM (SELECT uid, SUM(cost) OVER (PARTITION BY uid) AS x FROM visits)",
    "SELECT SUM(x) FROM (SELECT uid, LAG(cost, n) OVER (PARTITION BY uid ORDER BY day) AS x FROM visits)",
    "SELECT SUM(x) FROM (SELECT uid, LAG(cost, 1, 0) OVER (PARTITION BY uid ORDER BY day) AS x FROM visits)",
    "SELECT SUM(x) FROM (SELECT uid, FIRST_VALUE(cost) OVER (PARTITION BY uid ORDER BY day ROWS 2 PRECEDING) AS x "
    "FROM visits)",
    "SELECT SUM(x) FROM (SELECT uid, LAG(AVG(cost)) OVER (PARTITION BY uid ORDER BY region) AS x FROM visits "
    "GROUP BY uid, region)",
    "SELECT COUNT(*) FROM (SELECT uid, LAG(cost) OVER w AS x FROM visits WINDOW w AS (PARTITION BY region))",
    "SELECT uid, LAG(cost) OVER (PARTITION BY uid) FROM visits",
    "SELECT uid FROM visits",
    "SELECT uid, COUNT(*) FROM visits GROUP BY uid",
    "SELECT v.uid, COUNT(*) FROM visits v JOIN users u USING (uid) GROUP BY u.uid, v.uid",
    "SELECT DISTINCT uid FROM visits",
    "SELECT region FROM visits GROUP BY region",
    "SELECT (SELECT uid FROM visits LIMIT 1), COUNT(*) FROM users",
    "SELECT COUNT(*) FROM visits UNION ALL SELECT age FROM visits",
    "SELECT region, pop FROM regions WHERE pop IN (SELECT age FROM visits)",
    "SELECT (SELECT MAX(age) FROM (SELECT age FROM visits WHERE v.uid = 1)) FROM visits v",
    "WITH RECURSIVE t AS (SELECT uid FROM visits UNION ALL SELECT uid + 1 FROM t) SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM duckdb_tables()",
    "SELECT COUNT(*) FROM 'visits.csv'",
    "SELECT COUNT(*) FROM read_csv('visits.csv')",
    "SELECT COUNT(*) FROM sqlite_master",
    "SELECT COUNT(*) FROM information_schema.tables",
    "SELECT COUNT(*) FROM release_0",
    "SELECT COUNT(*) FROM visits v JOIN release_0 ON TRUE",
]


@pytest.mark.parametrize("statement", ATTACKS)
def test_attacks_are_refused(statement):
    from dpnotebook.errors import NotProtected

    with pytest.raises((SQLError, NotProtected)) as error:
        selects(statement)
    assert len(str(error.value)) > 20


def test_every_table_has_a_unit_in_the_tests():
    private = {name for name, relation in RELATIONS.items() if relation.private}
    assert private == set(UNITS)
    assert all(RELATIONS[name].unit == (None if unit == "__row__" else unit) for name, unit in UNITS.items())
