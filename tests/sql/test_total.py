"""Expressions that no row can make fail: rows of the worst values there are, and the values of ordinary ones."""

import datetime
import itertools
import math
import random
import re

import duckdb
import pytest
from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of, with_kind
from dpnotebook.dialect.safe.expressions import make_total
from dpnotebook.errors import SQLError
from dpnotebook.sql.parse.statement_parser import read_surface

KINDS = {
    "n": "text",
    "x": "integer",
    "b": "integer",
    "h": "integer",
    "ub": "integer",
    "dc": "number",
    "f": "number",
    "d": "time",
    "ts": "time",
    "bo": "boolean",
    "l": "other",
}
# As tables show them (`engine.kinds.plain_value`): decimals, which would overflow, are floating-point numbers.
PAIRED = ("n", "h", "dc", "f", "d", "ts", "bo", "l")
COLUMNS = (
    "n VARCHAR, x INT, b BIGINT, h HUGEINT, ub UBIGINT, dc DOUBLE, f DOUBLE, d DATE, ts TIMESTAMP, bo BOOLEAN, l INT[]"
)
WORST = """
    ('abc', 1, 9223372036854775807, 170141183460469231731687303715884105727, 18446744073709551615, 1.25, 'inf',
     '5881580-07-10', '2020-01-01', true, [1, 2]),
    ('5', 0, -9223372036854775808, -170141183460469231731687303715884105728, 0,
     -9999999999999999999999999999.9999999999, '-inf', 'infinity', 'infinity', false, NULL),
    ('nan', -5, 0, 0, 5, 0, 1e308, '-infinity', '-infinity', NULL, []),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    ('1e999', 2147483647, 5, 7, 5, 0.5, -1e-320, '0001-01-01', '294247-01-10 04:00:54', true, [NULL]),
    ('2020-01-05', -2147483648, 5, 7, 5, 0.5, -0.5, '2020-05-05', '290309-12-22 (BC) 00:00:00', true, [3])
"""
ORDINARY = """
    ('abc', 1, 12, 3, 5, 1.25, 2.5, '2020-02-29', '2020-01-01 10:30:00', true, [1, 2]),
    ('5', 7, -4, 8, 1, -3.5, -0.75, '1999-12-31', '2021-07-04 23:59:59', false, [3]),
    ('x y', 100, 1000000, 2, 9, 0.1, 8, '2024-01-01', '2000-12-31 00:00:00', true, [4])
"""
OF_ONE = """
    -{a}; ABS({a}); SIGN({a}); ROUND({a}); ROUND({a}, 2); ROUND({a}, -2); FLOOR({a}); CEIL({a}); TRUNC({a}); LN({a});
    LOG({a}); LOG10({a}); LOG2({a}); SQRT({a}); EXP({a}); LOWER({a}); UPPER({a}); TRIM({a}); LTRIM({a});
    SUBSTR({a}, 1, 2); LENGTH({a}); LEFT({a}, 1); RIGHT({a}, 2); {a} LIKE '1%'; {a} NOT LIKE '_'; {a} IS NULL;
    {a} IS TRUE; NOT {a}; EXTRACT(YEAR FROM {a}); EXTRACT(WEEK FROM {a}); EXTRACT(DAYOFWEEK FROM {a});
    EXTRACT(HOUR FROM {a}); YEAR({a}); MONTH({a}); DATE_TRUNC('month', {a}); DATE_TRUNC('hour', {a}); DATE({a});
    {a} + INTERVAL 1 DAY; {a} - INTERVAL '10' YEAR; CAST({a} AS INT); CAST({a} AS BIGINT); CAST({a} AS DOUBLE);
    CAST({a} AS VARCHAR); CAST({a} AS DATE); CAST({a} AS TIMESTAMP); CAST({a} AS BOOLEAN); CAST({a} AS DECIMAL(10, 2));
    {a}::INT; TRY_CAST({a} AS INT); CASE WHEN {a} THEN 1 ELSE 0 END; CASE {a} WHEN 5 THEN 'x' END;
    CASE {a} WHEN 'abc' THEN 1 END; {a} IN (1, 2); {a} IN ('abc', '5'); {a} = 5; {a} = 'abc'; {a} > 0.5;
    {a} BETWEEN 1 AND 2; {a} BETWEEN '2020-01-01' AND '2021-01-01'; {a} >= DATE '2020-01-01';
    {a} < TIMESTAMP '2020-01-01 10:00:00'; NULLIF({a}, 5); NULLIF({a}, 'abc'); COALESCE({a}, 0); COALESCE({a}, 'abc');
    IF({a} IS NULL, 0, 1); REPLACE({a}, 'a', 'b'); SPLIT_PART({a}, '-', 2); {a} % 7; {a} / 0; {a} % 0;
    POWER({a}, 2); POWER({a}, -1);
    POWER({a}, 0.5); STARTS_WITH({a}, 'a'); CONTAINS({a}, 'b'); STRPOS({a}, 'b'); {a} IS DISTINCT FROM 5;
    CASE WHEN x = 77 THEN {a} ELSE 'abc' END; CASE WHEN x = 77 THEN {a} ELSE 0.5 END; {a} > 99999999999999999999999;
    CASE WHEN x = 77 THEN {a} = 'abc' END; CASE WHEN x = 77 THEN {a} > TIMESTAMP '2020-01-01 10:00:00' END
"""
OF_TWO = """
    {a} + {b}; {a} - {b}; {a} * {b}; {a} / {b}; {a} % {b}; {a} = {b}; {a} < {b}; {a} || {b}; CONCAT({a}, {b});
    GREATEST({a}, {b}); LEAST({a}, {b}); COALESCE({a}, {b}); NULLIF({a}, {b}); CASE WHEN x = 1 THEN {a} ELSE {b} END;
    {a} AND {b}; {a} OR {b}; POWER({a}, {b}); LOG({a}, {b}); DATE_DIFF('day', {a}, {b}); DATE_DIFF('month', {a}, {b});
    DATE_DIFF('second', {a}, {b});
    {a} IN ({b}, 5); {a} BETWEEN {b} AND 5; {a} IS NOT DISTINCT FROM {b}; CASE {a} WHEN {b} THEN 1 END;
    SAFE_DIVIDE({a}, {b}); ({a} + 1) * 2 - ({b} - 3) / ({a} - {b}); STARTS_WITH({a}, {b}); STRPOS({a}, {b})
"""


def each(texts):
    return [text.strip() for text in texts.split(";")]


def database(rows):
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t ({COLUMNS})")
    connection.execute(f"INSERT INTO t VALUES {rows}")
    return connection


def read(expression, clause=""):
    item = read_surface(f"SELECT {clause} {expression} FROM t", {}).tree.expressions[0]
    node = item.this if isinstance(item, exp.Alias) else item
    for column in node.find_all(exp.Column):
        with_kind(column, KINDS[column.name])
    return node


def total(expression, condition=False, clause=""):
    return make_total(read(expression, clause), condition)


def evaluate(connection, expressions):
    """Return for each expression the values of all rows."""
    listed = ", ".join(f"{expression} AS e{i}" for i, expression in enumerate(expressions))
    rows = connection.execute(f"SELECT {listed} FROM t").fetchall()
    return list(zip(*rows, strict=True))


def all_of_them():
    for form, a in itertools.product(each(OF_ONE), KINDS):
        yield form.format(a=a)
    for form, (a, b) in itertools.product(each(OF_TWO), itertools.product(PAIRED, PAIRED)):
        yield form.format(a=a, b=b)


def test_no_row_makes_an_expression_fail():
    connection, made, refused = database(WORST), [], []
    for expression in all_of_them():
        try:
            made.append(total(expression).sql("duckdb"))
        except SQLError as error:
            refused.append(str(error))
    assert len(made) > 1800
    assert {re.sub(r"[;:,].*", "", message) for message in refused} == {
        "dates are no numbers",
        "this holds neither dates nor texts",
        "this column holds neither numbers",
        "dates cannot be cast to numbers or truth values",
        "a date is no condition",
        "a number or truth value stands where a date is wanted",
    }
    for start in range(0, len(made), 200):
        batch = made[start : start + 200]
        for expression, values in zip(batch, evaluate(connection, batch), strict=True):
            assert not any(isinstance(value, float) and math.isnan(value) for value in values), expression


def test_the_plain_expressions_do_fail_on_these_rows():
    connection = database(WORST)
    for expression in ("x + b", "b * 2", "x / 0 + n::INT", "n = 5", "NOT n", "h > 0.5", "d = ts", "x = 'abc'"):
        with pytest.raises(duckdb.Error):
            connection.execute(f"SELECT {expression} FROM t").fetchall()


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "expression",
    [
        *each(
            """
            x + b; x - dc; f * x; (x + 1) * (b - 2); x / b; f / 4; x % 7; b % x; -x; -f; ABS(b); SIGN(f); ROUND(f);
            ROUND(f, 1); ROUND(x, -1); FLOOR(f); CEIL(dc); TRUNC(f); LN(x); LOG10(x); LOG2(x); LOG(3, x); SQRT(x);
            EXP(f); POWER(x, 2); POWER(f, 3); POWER(x, 0.5); LOWER(n); UPPER(n); TRIM(n); SUBSTR(n, 2, 1); LENGTH(n);
            LEFT(n, 1); RIGHT(n, 2); n LIKE 'a%'; n ILIKE 'A%'; n NOT LIKE '5'; REPLACE(n, 'b', 'zz');
            SPLIT_PART(n, 'b', 1); SPLIT_PART(n, 'b', 2);
            STARTS_WITH(n, 'a'); STRPOS(n, 'c'); CONTAINS(n, ' ');
            n || 'q'; CONCAT(n, x); x IN (1, 2); n IN ('abc', 'q'); x NOT IN (1, 5);
            x = 7; n = 'abc'; x > 0.5; x BETWEEN 2 AND 50; d >= DATE '2000-01-01'; ts < TIMESTAMP '2020-01-01 12:00:00';
            d BETWEEN DATE '2000-01-01' AND DATE '2021-01-01'; d < ts; bo AND x > 3; bo OR x > 50; NOT bo; bo IS TRUE;
            CASE WHEN x > 5 THEN 'big' ELSE 'small' END; CASE x WHEN 1 THEN 'one' WHEN 7 THEN 'seven' END;
            COALESCE(NULLIF(x, 7), -1); GREATEST(x, b); LEAST(f, 1); IF(bo, x, b); NULLIF(n, '5'); EXTRACT(YEAR FROM d);
            YEAR(ts) - 1990; EXTRACT(WEEK FROM d); EXTRACT(DAYOFWEEK FROM d); EXTRACT(HOUR FROM ts); MONTH(d);
            DATE_TRUNC('month', ts); DATE_TRUNC('year', ts); d + INTERVAL 40 DAY; ts - INTERVAL 3 MONTH; DATE(ts);
            DATE_DIFF('day', d, DATE '2024-03-01'); DATE_DIFF('month', d, DATE '2024-03-01');
            DATE_DIFF('quarter', d, DATE '2024-03-01'); DATE_DIFF('year', d, DATE '2024-03-01'); d - DATE '2020-01-01';
            DATE_DIFF('hour', ts, TIMESTAMP '2021-05-06 07:08:09'); DATE_DIFF('minute', ts, d);
            DATE_DIFF('hour', ts, d); DATE_DIFF('second', TIMESTAMP '2021-05-06 07:08:09', ts); ts::DATE - d;
            CAST(x AS DOUBLE); CAST(f AS BIGINT); CAST(x AS VARCHAR); CAST(ts AS DATE); CAST(dc AS DECIMAL(10, 1));
            x IS DISTINCT FROM 7; x IS NULL; EXTRACT(YEAR FROM d) % 10; YEAR(d) * 100 + MONTH(d)
            """
        ),
    ],
)
def test_ordinary_values_are_what_the_plain_expression_gives(expression):
    connection = database(ORDINARY)
    made = total(expression)
    assert make_total(made) == made  # once more changes nothing
    (exact,), (found,) = evaluate(connection, [expression]), evaluate(connection, [made.sql("duckdb")])
    for one, other in zip(exact, found, strict=True):
        if isinstance(one, str | bool) or one is None or hasattr(one, "year"):
            assert str(other).removesuffix(" 00:00:00") == str(one).removesuffix(" 00:00:00")
        else:
            assert float(other) == pytest.approx(float(one), rel=1e-14)


@pytest.mark.parametrize(
    ("expression", "exact"),
    [
        ("ts - TIMESTAMP '2021-05-06 07:08:09'", "EPOCH(ts - TIMESTAMP '2021-05-06 07:08:09') / 86400"),
        ("ts - d", "EPOCH(ts - d::TIMESTAMP) / 86400"),
        ("d - ts", "EPOCH(d::TIMESTAMP - ts) / 86400"),
        ("EXTRACT(EPOCH FROM ts - d) / 60", "EPOCH(ts - d::TIMESTAMP) / 60"),
        ("EPOCH(d - ts)", "EPOCH(d::TIMESTAMP - ts)"),
        ("ts - d < INTERVAL 36 HOUR", "ts - d::TIMESTAMP < INTERVAL 36 HOUR"),
        ("INTERVAL '2' WEEKS >= (d - ts)", "INTERVAL 2 WEEK >= d::TIMESTAMP - ts"),
        ("ts - d BETWEEN INTERVAL -3 DAY AND INTERVAL 90 MINUTE", "EPOCH(ts - d::TIMESTAMP) BETWEEN -259200 AND 5400"),
    ],
)
def test_lengths_of_time_are_days_and_parts_of_them(expression, exact):
    connection = database(ORDINARY)
    made = total(expression).sql("duckdb")
    (wanted,), (found,) = evaluate(connection, [exact]), evaluate(connection, [made])
    assert list(map(float, found)) == pytest.approx(list(map(float, wanted)), abs=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("expression", "exact"),
    [
        ("EXTRACT(DAYOFWEEK FROM d)", "EXTRACT(DOW FROM d) + 1"),  # Sunday is 1
        ("DATE_DIFF(DATE '2024-03-01', d, DAY)", "DATE_DIFF('day', d, DATE '2024-03-01')"),
        ("DATE_TRUNC(d, MONTH)", "DATE_TRUNC('month', d)"),
        ("DATE_ADD(d, INTERVAL 3 DAY)", "d + INTERVAL 3 DAY"),
        ("DATE_SUB(d, INTERVAL 3 MONTH)", "d - INTERVAL 3 MONTH"),
        ("DATE_ADD(d, INTERVAL -3 DAY)", "d - INTERVAL 3 DAY"),
        ("SAFE_CAST(n AS INT64)", "TRY_CAST(n AS BIGINT)"),
        ("SAFE_DIVIDE(x, x - 7)", "CASE WHEN x <> 7 THEN x / (x - 7) END"),
        ("DIV(x, 2)", "x // 2"),
        ("MOD(x, 3)", "x % 3"),
        ("b * MOD(x, 3)", "b * (x % 3)"),
        ("100 - MOD(b + 1, x + 1) * 2", "100 - ((b + 1) % (x + 1)) * 2"),
        ("b / SAFE_DIVIDE(x, 4)", "b / (x / 4)"),
        ("1 - MOD(b, 5) * DIV(b, 3)", "1 - (b % 5) * trunc(b / 3)"),
        ("CASE x > 5 WHEN b > 0 THEN 'both' END", "CASE WHEN (x > 5) = (b > 0) THEN 'both' END"),
        ("LOG(x, 3)", "LOG(3, x)"),
        ("x IN UNNEST([1, 7])", "x IN (1, 7)"),
        ("IF(x > 5, n, 'no')", "CASE WHEN x > 5 THEN n ELSE 'no' END"),
        ("GREATEST(x, NULLIF(b, 12))", "CASE WHEN b = 12 THEN NULL ELSE GREATEST(x, b) END"),
    ],
)
def test_bigquery_functions_mean_what_they_mean_there(expression, exact):
    connection = database(ORDINARY)
    made = total(expression, clause="WITH DIFFERENTIAL_PRIVACY").sql("duckdb")
    (wanted,), (found,) = evaluate(connection, [exact]), evaluate(connection, [made])
    assert [str(value).removesuffix(".0") for value in found] == [str(value).removesuffix(".0") for value in wanted]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("x / 0", None),
        ("LN(x - x)", None),
        ("SQRT(-1 - x * x)", None),
        ("CAST('abc' AS DOUBLE)", None),
        ("CAST('nan' AS DOUBLE)", None),
        ("CAST('inf' AS DOUBLE) - CAST('inf' AS DOUBLE)", None),
        ("CAST('inf' AS DOUBLE) * 0 > 3", None),
        ("1e308 * 10", math.inf),
        ("(n || '2020-13-01')::DATE", None),
        ("9223372036854775807 + 1", 2.0**63),
        (" + ".join(["SIGN(x)"] * 200), 200.0),
        ("d + INTERVAL 1 DAY", datetime.datetime(2020, 1, 2)),
        ("d + INTERVAL '-3' DAYS", datetime.datetime(2019, 12, 29)),
        ("d + INTERVAL -3 DAY", datetime.datetime(2019, 12, 29)),
        ("d - INTERVAL (3) DAY", datetime.datetime(2019, 12, 29)),
        ("INTERVAL '2 weeks' + d", datetime.datetime(2020, 1, 15)),
        ("d + INTERVAL 1000 YEAR + INTERVAL 1000 YEAR", datetime.datetime(4020, 1, 1)),
        ("d - INTERVAL 1000 YEAR - INTERVAL 1000 YEAR - INTERVAL 1000 YEAR", None),
    ],
)
def test_what_fails_is_null_and_what_is_too_large_is_infinite(expression, value):
    connection = database("('a', 1, 1, 1, 1, 1, 1, '2020-01-01', '2020-01-01', true, [1])")
    assert evaluate(connection, [total(expression).sql("duckdb")]) == [(value,)]


def test_what_is_no_date_is_an_error_beforehand():
    for expression in ("CAST('2020-13-01' AS VARCHAR)::DATE", "CASE WHEN x = 77 THEN DATE(LOWER('x')) ELSE ts + 1 END"):
        with pytest.raises(SQLError):
            total(expression)


def test_a_condition_is_a_truth_value_whatever_stands_there():
    connection = database(WORST)
    for column, kind in KINDS.items():
        if kind in ("time", "other"):
            with pytest.raises(SQLError, match=r"a date is no condition|NULL in every row"):
                total(column, condition=True)
            continue
        made = total(column, condition=True)
        assert kind_of(made) == "boolean"
        assert (made.sql("duckdb") == column) == (kind == "boolean")
        connection.execute(f"SELECT COUNT(*) FROM t WHERE {made.sql('duckdb')}").fetchall()


def test_inner_aggregates_do_not_fail_either():
    connection = database(WORST)
    for call in ("SUM", "AVG", "VAR_POP", "VARIANCE", "STDDEV", "STDDEV_POP", "MEDIAN", "MIN", "MAX", "COUNT"):
        for column in ("n", "x", "b", "h", "ub", "dc", "f"):
            made = total(f"{call}({column}) + 1").sql("duckdb")
            ((value,),) = evaluate(connection, [made])
            assert not (isinstance(value, float) and math.isnan(value)), made


def test_what_is_made_is_not_longer_than_a_small_multiple():
    with pytest.raises(SQLError, match="nested too deeply"):
        total("GREATEST(" * 12 + "x" + ", 1)" * 12)
    deep = "x"
    for _ in range(40):
        deep = f"({deep} + 1) * 2"
    assert len(total(deep).sql("duckdb")) < 60 * len(deep)


def written(rng, depth, kind="number"):
    """Return a random expression of numbers or truth values."""

    def one(kind="number"):
        return written(rng, depth - 1, kind)

    if kind == "boolean":
        forms = [f"{one()} > {one()}", f"{one()} BETWEEN {one()} AND {one()}", f"NOT ({one()} <= {one()})"]
        if depth > 1:
            forms += [f"{one('boolean')} AND {one('boolean')}", f"({one('boolean')}) = ({one('boolean')})"]
        return rng.choice(forms)
    if depth <= 0:
        return rng.choice(["f", "dc", "3", "0.5", "(f)", "-2"])
    operator = rng.choice(["+", "-", "*", "/", "%"])
    forms = [
        *[f"{one()} {operator} {one()}"] * 4,
        f"({one()})",
        f"- ({one()})",
        f"MOD({one()}, {one()})",
        f"ABS({one()})",
        f"FLOOR({one()}) - 1",
        f"CASE WHEN {one('boolean')} THEN {one()} ELSE {one()} END",
        f"CASE {one()} WHEN {one()} THEN 1 ELSE 2 END",
        f"CASE {one('boolean')} WHEN {one('boolean')} THEN 3 ELSE 4 END",
        f"COALESCE({one()}, {one()})",
        f"GREATEST({one()}, {one()}) * 2",
        f"NULLIF({one()}, {one()})",
    ]
    return rng.choice(forms)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("seed", range(3))
def test_random_expressions_have_the_values_of_the_plain_ones(seed):
    rng, connection, compared = random.Random(seed), database(ORDINARY), 0
    for _ in range(120):
        expression = written(rng, rng.choice([1, 2, 3, 3]))
        made = total(expression).sql("duckdb")
        plain = re.sub(r"\b(\d+(\.\d+)?)\b", r"CAST(\1 AS DOUBLE)", expression)
        try:
            (exact,) = evaluate(connection, [plain])
        except duckdb.Error:  # a division by zero
            continue
        (found,) = evaluate(connection, [made])
        for one, other in zip(exact, found, strict=True):
            if one is not None and math.isfinite(one):
                assert other == pytest.approx(one, rel=1e-12, abs=1e-12), (expression, made)
                compared += 1
    assert compared > 150
