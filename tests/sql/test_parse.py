"""Statements and what becomes of them, as tables of SQL text."""

import numpy as np
import pytest

from dpnotebook.domain import Bins, Categories, Domain, Range
from dpnotebook.errors import SQLError
from dpnotebook.predicate import Predicate
from dpnotebook.question import bounded_value
from dpnotebook.reuse.table import Table
from dpnotebook.sql import question_from_sql

DOMAIN = Domain(
    {
        "age": Range(0, 115, nullable=True),
        "sex": ["F", "M"],
        "region": Categories(["N", "S"], other="elsewhere", nullable=True),
        "income": Bins(0, 100, width=10, nullable=True),
        "smoker": bool,
        "grade": Categories(["low", "middle", "high"], ordered=True),
        "odd name": [1, 2, 3],
        "date": Range(1990, 2030),
    }
)
TABLES = {
    "visits": Table("visits", DOMAIN),
    "Costs": Table("Costs", Domain({"x": [1, 2]})),
    "COSTS": Table("COSTS", Domain({"x": [1, 2]})),
    "my table": Table("my table", DOMAIN),
}
VALUES = {
    "lo": 3,
    "hi": 5,
    "who": "F",
    "yes": True,
    "nothing": None,
    "many": [1],
    "nan": float("nan"),
    "np": np.int64(7),
}


def ask(statement, **parameters):
    return question_from_sql(statement, TABLES, {**VALUES, **parameters})


def refusal(statement, **parameters):
    with pytest.raises(SQLError) as caught:
        ask(statement, **parameters)
    return str(caught.value)


@pytest.mark.parametrize(
    ("condition", "meaning"),
    [
        ("age >= 65", "age >= 65"),
        ("65 <= age", "age >= 65"),
        ("age <> 65", "age != 65 and age.notna()"),
        ("age != 65", "age != 65 and age.notna()"),
        ("age == 65", "age == 65"),
        ("NOT age = 65", "age != 65 and age.notna()"),
        ("age BETWEEN 3 AND 5", "3 <= age <= 5"),
        ("age NOT BETWEEN 3 AND 5", "(age < 3 or age > 5)"),
        ("NOT (age < 3 OR region = 'N')", "age >= 3 and region.notna() and region != 'N'"),
        ("age > -5", "age.notna()"),
        ("age < +1e1", "age < 10"),
        ("age < 9.5", "age < 10"),
        ("income < 20.0", "income < 20"),
        ("age > .5", "age >= 1"),
        ("age < 1_0", "age < 10"),
        ("sex IN ('F')", "sex == 'F'"),
        ("sex NOT IN ('F')", "sex == 'M'"),
        ("region IN ('N', NULL)", "region == 'N'"),
        ("region NOT IN ('N')", "region in ['S', 'elsewhere']"),
        ("region = 'elsewhere'", "region == 'elsewhere'"),
        ("region IS NULL OR age IS NULL", "region.isna() or age.isna()"),
        ("region IS NOT NULL", "region.notna()"),
        ("NOT region IS NULL", "region.notna()"),
        ("smoker", "smoker"),
        ("NOT smoker", "not smoker"),
        ("smoker = FALSE", "not smoker"),
        ("smoker IS TRUE", "smoker"),
        ("smoker IS NOT TRUE", "not smoker"),
        ("grade >= 'middle'", "grade in ['middle', 'high']"),
        ("grade BETWEEN 'low' AND 'middle'", "grade in ['low', 'middle']"),
        ('"odd name" > 1', "`odd name` in [2, 3]"),
        ('"ODD NAME" = 1', "`odd name` == 1"),
        ("date >= 2000", "date >= 2000"),
        ("1 = 1 AND sex = 'F'", "sex == 'F'"),
        ("FALSE OR sex = 'F'", "sex == 'F'"),
        ("sex = 'F' AND age < 3 OR age > 5", "(sex == 'F' and age < 3) or age > 5"),
        ("sex = 'F' AND (age < 3 OR age > 5)", "sex == 'F' and (age < 3 or age > 5)"),
        ("age = (3) /* three */ -- or so", "age == 3"),
        ("age BETWEEN :lo AND :hi AND sex = :who", "3 <= age <= 5 and sex == 'F'"),
        ("((:lo < age AND smoker) OR (smoker AND sex = 'F'))", "smoker and (age > 3 or sex == 'F')"),
        ("smoker = :yes AND age = -:lo OR age = :np", None),
        ("age > -:lo AND age = :np", "age == 7"),
        ("sex = :who AND region = ':who'", None),
    ],
)
def test_conditions(condition, meaning):
    if meaning is None:  # -3 is no age; ':who' in quotes is a text and no region
        assert "is not a level of age" in (text := refusal(f"SELECT COUNT(*) FROM visits WHERE {condition}")) or (
            "region has no level ':who'" in text
        )
    else:
        assert ask(f"SELECT COUNT(*) FROM visits WHERE {condition}").where == Predicate.parse(meaning, DOMAIN)


def test_where_may_be_absent_or_true():
    assert ask("SELECT COUNT(*) FROM visits").where.is_everything
    assert ask("SELECT COUNT(*) FROM visits WHERE TRUE").where.is_everything


@pytest.mark.parametrize(
    ("selected", "measures"),
    [
        ("COUNT(*)", [("count", None, "count")]),
        ("count( * ) AS n", [("count", None, "n")]),
        ('COUNT(*) "How Many"', [("count", None, "How Many")]),
        ("COUNT(1)", [("count", None, "count")]),
        ("COUNT(sex)", [("count", None, "count_sex")]),
        ("SUM(income)", [("sum", "income", "sum_income")]),
        ("SUM(Income) AS total, AVG(visits.age)", [("sum", "income", "total"), ("mean", "age", "avg_age")]),
        ("COUNT(*), COUNT(sex) AS both_sexes", None),
        ("COUNT(*) AS value, SUM(age)", [("count", None, "value"), ("sum", "age", "sum_age")]),
    ],
)
def test_aggregates_and_their_names(selected, measures):
    if measures is None:
        measures = [("count", None, "count"), ("count", None, "both_sexes")]
    found = ask(f"SELECT {selected} FROM visits").measures
    assert [(measure.kind, measure.column, measure.name) for measure in found] == measures


def test_sums_and_means_are_bounded_as_declared():
    total, mean = ask("SELECT SUM(age), AVG(age) FROM visits").measures
    assert total.summand == bounded_value(DOMAIN, "age")
    assert mean.summand == bounded_value(DOMAIN, "age", ends=True)


@pytest.mark.parametrize(
    ("selected", "rows"),
    [
        ("COUNT(age)", "age.notna()"),
        ("COUNT(age), SUM(age), AVG(age)", "age.notna()"),
        ("SUM(age), COUNT(age) AS n", "age.notna()"),
        ("SUM(age), AVG(income)", None),
        ("COUNT(*), SUM(age), AVG(income)", None),
        ("COUNT(*), COUNT(sex), COUNT(smoker)", None),
    ],
)
def test_rows_that_all_aggregates_count(selected, rows):
    where = ask(f"SELECT {selected} FROM visits").where
    assert where == (Predicate.everything(DOMAIN) if rows is None else Predicate.parse(rows, DOMAIN))


@pytest.mark.parametrize(
    "selected",
    ["COUNT(*), COUNT(age)", "COUNT(age), COUNT(income)", "COUNT(age), SUM(income)", "AVG(age), COUNT(income)"],
)
def test_aggregates_of_different_rows_are_refused(selected):
    assert "in a statement of its own" in refusal(f"SELECT {selected} FROM visits")


def test_a_condition_can_make_the_rows_the_same():
    found = ask("SELECT COUNT(*), COUNT(age), SUM(age) FROM visits WHERE age > 3")
    assert found.where == Predicate.parse("age > 3", DOMAIN)


@pytest.mark.parametrize(
    ("statement", "keys"),
    [
        ("SELECT sex, COUNT(*) FROM visits GROUP BY sex", ("sex",)),
        ("SELECT COUNT(*), Region, sex FROM visits GROUP BY sex, region", ("region", "sex")),
        ("SELECT region, COUNT(*), sex FROM visits GROUP BY 3, 1", ("region", "sex")),
        ("SELECT COUNT(*) FROM visits GROUP BY sex, region", ("sex", "region")),
        ("SELECT region, COUNT(*) FROM visits GROUP BY sex, (region), 1", ("region", "sex")),
        ("SELECT v.sex AS sex, COUNT(*) FROM visits AS v GROUP BY V.SEX;", ("sex",)),
        ('SELECT "odd name", COUNT(*) FROM visits v GROUP BY v."odd name"', ("odd name",)),
        ("FROM visits SELECT sex, COUNT(*) GROUP BY sex", ("sex",)),
    ],
)
def test_keys(statement, keys):
    assert ask(statement).keys == keys


@pytest.mark.parametrize("name", ["visits", "VISITS", '"visits"', "visits AS v", '"my table"'])
def test_tables(name):
    assert ask(f"SELECT COUNT(*) FROM {name}").table == ("my table" if "my" in name else "visits")


def test_a_name_that_two_tables_share_but_for_case():
    assert ask("SELECT COUNT(*) FROM Costs").table == "Costs"
    assert ask('SELECT COUNT(*) FROM "COSTS"').table == "COSTS"
    assert "costs can be 'Costs' or 'COSTS'" in refusal("SELECT COUNT(*) FROM costs")


def test_equal_questions_have_equal_keys():
    ways = [
        "SELECT sex, COUNT(*) FROM visits WHERE age >= 65 AND NOT smoker GROUP BY sex",
        "select Sex, count(1) as n from VISITS as v where not (v.smoker or 65 > age) group by 1; -- again",
        "SELECT COUNT(age) AS many FROM visits WHERE age BETWEEN 65 AND 115 AND smoker = FALSE GROUP BY sex",
    ]
    assert len({ask(way).key for way in ways}) == 1


C = "SELECT COUNT(*) FROM visits"
REFUSED = [
    # statement, what the text must say, what the carets must be under
    ("", "there is no statement", None),
    (" -- nothing\n ;", "there is no statement", None),
    (f"{C}; {C}", "several statements", "SELECT"),
    ("DROP TABLE visits", "starts with SELECT, not DROP", "DROP"),
    ("EXPLAIN " + C, "starts with SELECT", "EXPLAIN"),
    ("DESCRIBE visits", "starts with SELECT", "DESCRIBE"),
    ("WITH v AS (SELECT * FROM visits) SELECT COUNT(*) FROM v", "WITH is not supported", "WITH"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM visits", "plain SELECT", "WITH"),
    (f"({C})", "without parentheses", "("),
    ("SELECT COUNT(*)", "there is no FROM", "SELECT"),
    ("SELECT COUNT(*) FROM vists", "did you mean visits?", "vists"),
    ("SELECT COUNT(*) FROM main.visits", "without anything before it", "main"),
    ("SELECT COUNT(*) FROM 'visits.parquet'", "has no meaning here", "'visits.parquet'"),
    ("SELECT COUNT(*) FROM read_csv('x.csv')", "not a function", None),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits)", "one protected table", None),
    ("SELECT COUNT(*) FROM visits, Costs", "joins are not supported", "Costs"),
    ("SELECT COUNT(*) FROM visits JOIN Costs USING (x)", "joins are not supported", None),
    ("SELECT COUNT(*) FROM visits NATURAL JOIN Costs", "joins are not supported", "Costs"),
    (f"{C} UNION ALL {C}", "one protected table", None),
    (f"{C} AS v(a, b)", "keep the names", "a"),
    (f"{C} TABLESAMPLE (10 PERCENT)", "sample is not supported", None),
    (f"{C} USING SAMPLE 10", "sample is not supported", "SAMPLE"),
    ("SELECT DISTINCT COUNT(*) FROM visits", "DISTINCT is not supported", "DISTINCT"),
    ("SELECT COUNT(DISTINCT sex) FROM visits", "DISTINCT in an aggregate", None),
    (f"{C} GROUP BY sex HAVING COUNT(*) > 5", "HAVING is not supported", "HAVING"),
    (f"{C} GROUP BY sex ORDER BY 1", "r.frame.sort_values", "ORDER BY"),
    (f"{C} GROUP BY sex LIMIT 5", "r.frame.nlargest", "LIMIT"),
    (f"{C} GROUP BY sex LIMIT 5 OFFSET 2", "is not supported", None),
    (f"{C} QUALIFY row_number() OVER () = 1", "is not supported", None),
    ("SELECT COUNT(*) OVER () FROM visits", "windows are not supported", None),
    ("SELECT SUM(age) FILTER (WHERE smoker) FROM visits", "write the condition as WHERE", None),
    ("SELECT MEDIAN(age) FROM visits", "df.dp.quantile", None),
    ("SELECT MAX(age) FROM visits", "df.dp.quantile", None),
    ("SELECT STDDEV(age) FROM visits", "function STDDEV", None),
    ("SELECT string_agg(sex) FROM visits", "is not supported", None),
    ("SELECT mean(age) FROM visits", "function MEAN is not supported", None),
    ("SELECT random() FROM visits", "is not supported", None),
    ("SELECT * FROM visits", "rows cannot be shown", "*"),
    ("SELECT visits.* FROM visits", "* stands in COUNT(*) only", None),
    ("SELECT COUNT(visits.*) FROM visits", "* stands in COUNT(*) only", None),
    ("SELECT COUNT(* EXCLUDE age) FROM visits", "write COUNT(*) alone", None),
    ("SELECT COUNT() FROM visits", "write COUNT(*)", None),
    ("SELECT SUM(*) FROM visits", "an aggregate takes one declared column", None),
    ("SELECT SUM(1) FROM visits", "an aggregate takes one declared column", None),
    ("SELECT COUNT(age, sex) FROM visits", "COUNT takes one column", None),
    ("SELECT SUM(age, sex) FROM visits", "too many arguments", None),
    ("SELECT SUM(age + 1) FROM visits", "arithmetic is not supported", "age + 1"),
    ("SELECT COUNT(*) + 1 FROM visits", "arithmetic is not supported", None),
    ("SELECT COUNT(*) / 2 FROM visits", "arithmetic is not supported", "/"),
    ("SELECT SUM(sex) FROM visits", "only a Range or Bins", "sex"),
    ("SELECT AVG(smoker) FROM visits", "only a Range or Bins", "smoker"),
    ("SELECT SUM(height) FROM visits", "no declared column 'height'", "height"),
    ("SELECT sex FROM visits GROUP BY sex", "rows cannot be shown", "SELECT"),
    ("SELECT sex, COUNT(*) FROM visits", "must be in GROUP BY", "sex"),
    ("SELECT sex AS s, COUNT(*) FROM visits GROUP BY sex", "keeps its name", "sex"),
    ("SELECT sex, sex, COUNT(*) FROM visits GROUP BY sex", "selected twice", "sex"),
    ("SELECT 1, COUNT(*) FROM visits", "nothing else", "1"),
    ("SELECT 'x', COUNT(*) FROM visits", "nothing else", "'x'"),
    ("SELECT age + 1, COUNT(*) FROM visits GROUP BY 1", "arithmetic is not supported", "age + 1"),
    ("SELECT (SELECT 1), COUNT(*) FROM visits", "one protected table", None),
    ("SELECT sex,, COUNT(*) FROM visits GROUP BY sex", "a comma too many", ","),
    ("SELECT COUNT(*), COUNT(*) AS again FROM visits", "asked twice", None),
    ("SELECT COUNT(*) AS n, SUM(age) AS N FROM visits", "two columns", None),
    ("SELECT SUM(age) AS value, SUM(income) AS lower FROM visits", "two columns", None),
    ("SELECT COUNT(*) AS n, SUM(age) AS n_lower FROM visits", "two columns", None),
    ("SELECT sex, COUNT(*) AS sex FROM visits GROUP BY sex", "two columns", None),
    (f"{C} GROUP BY 1", "column 1 is an aggregate", "1"),
    (f"{C} GROUP BY 7", "no column 7", "7"),
    (f"{C} GROUP BY 'sex'", "by name or by their place", "'sex'"),
    (f"{C} GROUP BY height", "no declared column", "height"),
    (f"{C} GROUP BY ALL", "without ALL or DISTINCT", "GROUP BY"),
    (f"{C} GROUP BY DISTINCT sex", "without ALL or DISTINCT", "GROUP BY"),
    (f"{C} AS n GROUP BY", "after GROUP BY stand columns", "GROUP BY"),
    (f"{C} CASE GROUP BY sex", "CASE is a word of SQL", "CASE"),
    ("SELECT COUNT(*) ORDER FROM visits", "ORDER is a word of SQL", "ORDER"),
    ("SELECT AS COUNT(*) FROM visits", "AS stands between", "AS"),
    (f"{C} GROUP BY ROLLUP (sex)", "plain GROUP BY", None),
    (f"{C} GROUP BY GROUPING SETS ((sex), ())", "plain GROUP BY", None),
    (f"{C} WHERE height > 3", "no declared column 'height'", "height"),
    (f"{C} WHERE ag > 3", "did you mean 'age'?", "ag"),
    (f"{C} AS v WHERE visits.age > 3", "write v.age", None),
    (f"{C} WHERE age", "age alone is no condition", "age"),
    (f"{C} WHERE 'x'", "no condition", "'x'"),
    (f"{C} WHERE NOT 5", "no condition", "5"),
    (f"{C} WHERE sex = F", "texts stand in single quotes", "F"),
    (f'{C} WHERE sex = "F"', "double quotes are for names", '"F"'),
    (f"{C} WHERE sex = 'f'", "did you mean 'F'?", "sex = 'f'"),
    (f"{C} WHERE sex > 'F'", "sex IN (...)", "sex > 'F'"),
    (f"{C} WHERE sex BETWEEN 'F' AND 'M'", "sex IN (...)", None),
    (f"{C} WHERE smoker > FALSE", "NOT smoker", None),
    (f"{C} WHERE age = '65'", "write it without quotes", None),
    (f"{C} WHERE age = 200", "not a level of age", None),
    (f"{C} WHERE age > 200", "no row of the declared domain", "WHERE"),
    (f"{C} WHERE age BETWEEN 5 AND 3", "no row of the declared domain", "WHERE"),
    (f"{C} WHERE age NOT IN (3, NULL)", "NOT IN a list with NULL is never true", "WHERE"),
    (f"{C} WHERE FALSE", "no row of the declared domain", "WHERE"),
    (f"{C} WHERE income > 15", "nearest edges are 10 and 20", "income > 15"),
    (f"{C} WHERE age = NULL", "write IS NULL", None),
    (f"{C} WHERE age > income", "stands where a value is wanted", "income"),
    (f"{C} WHERE 'a' = 'b'", "neither side is a column", None),
    (f"{C} WHERE age + 1 > 3", "arithmetic is not supported", "age + 1"),
    (f"{C} WHERE -age > 3", "where a value is wanted", "age"),
    (f"{C} WHERE age > 1.2.3", "is not supported", "1.2.3"),
    (f"{C} WHERE age > 1e999", "infinity", None),
    (f"{C} WHERE age > -'3'", "before a number only", None),
    (f"{C} WHERE age = 3 = TRUE", "where a declared column is wanted", None),
    (f"{C} WHERE age IN ()", "list after IN is empty", None),
    (f"{C} WHERE age IN 3", "after IN stands a list", None),
    (f"{C} WHERE age IN [1, 2]", "in parentheses", "["),
    (f"{C} WHERE age IN (SELECT 1)", "a query inside a query", None),
    (f"{C} WHERE EXISTS (SELECT 1)", "one protected table", None),
    (f"{C} WHERE (age, sex) IN ((1, 'F'))", "a tuple is not supported", None),
    (f"{C} WHERE age IS (NULL)", "after IS stands NULL", None),
    (f"{C} WHERE age IS 3", "after IS stands NULL", None),
    (f"{C} WHERE age IS TRUE", "after IS stands NULL", None),
    (f"{C} WHERE age IS DISTINCT FROM 3", "IS DISTINCT FROM is not supported", None),
    (f"{C} WHERE region LIKE 'N%'", "patterns are not supported", None),
    (f"{C} WHERE age::INT = 3", "casts are not supported", "::"),
    (f"{C} WHERE CAST(age AS INT) = 3", "casts and dates are not supported", None),
    (f"{C} WHERE age > DATE '2020-01-01'", "dates are not supported", None),
    (f"{C} WHERE coalesce(age, 1) = 3", "expressions are not supported", None),
    (f"{C} WHERE CASE WHEN smoker THEN TRUE END", "expressions are not supported", None),
    (f"{C} WHERE sex = 'F' 'M'", "one text in single quotes", None),
    (f"{C} WHERE sex = 'F' || 'M'", "texts cannot be joined", "||"),
    (f"{C} WHERE sex = $$F$$", "one text in single quotes", None),
    (f"{C} WHERE age > :nope", ":nope has no value", ":nope"),
    (f"{C} WHERE age > :nothing", "write IS NULL", ":nothing"),
    (f"{C} WHERE age > :many", ":many is a list", ":many"),
    (f"{C} WHERE age > :nan", "not a finite number", ":nan"),
    (f"{C} WHERE :lo > 3 AND :column = 3", ":column has no value", ":column"),
    ("SELECT SUM(:lo) FROM visits", "an aggregate takes one declared column", None),
    (f"{C} GROUP BY :lo", "by name or by their place", ":lo"),
    (f"{C} WHERE age > $lo", "parameters with a colon", "$"),
    (f"{C} WHERE age > ?", "give the parameter a name", "?"),
    (f"{C} WHERE age > {{{{ lo }}}}", "templates are not supported", "{"),
    ("SELECT sex, COUNT(*), FROM visits GROUP BY sex", "a comma too many", ","),
    (f"{C} WHERE age IN (, 3)", "a comma too many", ","),
    (f"{C} WHERE age IN (3, +)", ", has no meaning here", ","),
    (f"{C} WHERE age BETWEEN 3 5", "is missing: AND", None),
    (f"{C} WHERE age ISNULL", "ISNULL has no meaning here; leave it out, or write it out in full", "ISNULL"),
    ("SELECT ALL COUNT(*) FROM visits", "ALL has no meaning here", "ALL"),
    ("SELECT SUM(ALL age) FROM visits", "", None),  # read by some versions of the parser and not by others
    ("SELECT COUNT(*) AS, SUM(age) FROM visits", "AS stands between", "AS"),
    ("SELECT COUNT(*) :lo FROM visits", "stands a comma, or AS and a name", None),
    ("SELECT COUNT(*) FROM visits*", "* has no meaning here", "*"),
    ("SELECT COUNT(*) FROM .visits", ". has no meaning here", "."),
    (f"{C} WHERE", "ends too early", "WHERE"),
    ("SELECT COUNT(* FROM visits", ") is missing before 'FROM'", "FROM"),
    ("SELECT COUNT(*) visits", "there is no FROM", "SELECT"),
    (f"{C} WHERE sex = 'F", "never closed", None),
    (f"{C} /* and", "never closed", None),
]


@pytest.mark.parametrize(("statement", "says", "under"), REFUSED, ids=[row[0][:70] for row in REFUSED])
def test_refusals_say_what_and_where(statement, says, under):
    text = refusal(statement)
    assert says in text
    assert "sqlglot" not in text
    assert "<class" not in text
    if under is not None:
        *_, line, carets = text.split("\n")
        start = carets.index("^")
        assert line[start : start + carets.count("^")] == under


def test_the_place_is_right_on_a_later_line():
    text = refusal("SELECT COUNT(*)\n\tFROM visits\n\tWHERE sex = 'F'\n\t  AND heigth > 3")
    assert text.endswith("(line 4, column 8)\n  \t  AND heigth > 3\n  \t      ^^^^^^")


def test_a_long_line_is_cut_around_the_place():
    text = refusal(f"{C} WHERE " + "age > 3 AND " * 100 + "height > 3 AND " + "age > 3 AND " * 100 + "smoker")
    *_, line, carets = text.split("\n")
    assert len(line) < 110
    assert line[carets.index("^") :].startswith("height")


def test_parameters_are_values_not_text():
    evil = "F' OR '1' = '1"
    assert repr(evil) in refusal(f"{C} WHERE sex = :who", who=evil) or "F' OR" in refusal(
        f"{C} WHERE sex = :who", who=evil
    )
    assert ask(f"{C} WHERE sex = :who", who=np.str_("M")).where == Predicate.parse("sex == 'M'", DOMAIN)
    assert "no declared column" in refusal(f"{C} WHERE age = :lo AND who = 'F'")


def test_no_table_at_all():
    with pytest.raises(SQLError, match=r"session\.protect"):
        question_from_sql(C, {}, {})


def test_what_is_no_text():
    with pytest.raises(SQLError, match="is a text, not a NoneType"):
        question_from_sql(None, TABLES, {})
    with pytest.raises(SQLError, match="characters"):
        question_from_sql(C + " " * 10**6, TABLES, {})


def test_long_and_deep_statements():
    chain = " OR ".join(f"age = {value % 100}" for value in range(3000))
    assert ask(f"{C} WHERE {chain}").where == Predicate.parse("age < 100", DOMAIN)
    listed = ", ".join(str(value % 100) for value in range(3000))
    assert ask(f"{C} WHERE age IN ({listed})").where == Predicate.parse("age < 100", DOMAIN)
    assert "flatter" in refusal(f"{C} WHERE {'(' * 3000}age = 1{')' * 3000}")
    assert "flatter" in refusal(f"{C} WHERE {'NOT ' * 3000}age = 1")
