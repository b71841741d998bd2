"""Statements and the questions to the planner that become of them, as tables of SQL text."""

import numpy as np
import pytest

from dpnotebook.domain import Bins, Categories, Domain, Range
from dpnotebook.errors import NotProtected, SQLError
from dpnotebook.planner.table import TableSchema
from dpnotebook.predicate import Predicate
from dpnotebook.query.question import bounded_value
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.linear.questions import linear_question, new_names
from dpnotebook.sql.statement import Relation

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
    "visits": TableSchema("visits", DOMAIN),
    "Costs": TableSchema("Costs", Domain({"x": [1, 2]})),
    "COSTS": TableSchema("COSTS", Domain({"x": [1, 2]})),
    "my table": TableSchema("my table", DOMAIN),
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


KINDS = {"Range": "integer", "Bins": "number", "Boolean": "boolean"}


def relation(table):
    kinds = {name: KINDS.get(type(attribute).__name__, "text") for name, attribute in table.domain.items()}
    kinds |= {name: "integer" for name in kinds if name in ("odd name", "x")}
    return Relation(table.name, kinds, domain=table.domain)


RELATIONS = {name: relation(table) for name, table in TABLES.items()}


def ask(statement, **parameters):
    given = {**VALUES, **parameters}
    return linear_question(analyse(statement, RELATIONS, given), TABLES, given)


def refusal(statement, **parameters):
    with pytest.raises((SQLError, NotProtected)) as caught:
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


@pytest.mark.parametrize(
    "asked",
    [
        "COUNT(*) FROM visits WHERE smoker IS NULL",
        "COUNT(*) FROM visits WHERE sex IS NULL OR age < 5",
        "COUNT(*) FROM visits WHERE smoker IS NOT TRUE",
        "COUNT(*) FROM visits WHERE NOT (sex IS NOT NULL AND age < 5)",
        "COUNT(CASE WHEN sex IS NULL THEN 1 END) FROM visits",
        "COUNT(*) FILTER (sex IS NULL) FROM visits",
        "CASE WHEN sex IS NULL THEN 'unknown' ELSE sex END AS s, COUNT(*) FROM visits GROUP BY s",
        "CASE WHEN sex IS NOT NULL THEN 'told' ELSE 'unknown' END AS s, COUNT(*) FROM visits GROUP BY s",
        "sex IS NULL AS s, COUNT(*) FROM visits GROUP BY s",
    ],
)
def test_of_missing_values_that_are_not_declared_only_rows_tell(asked):
    """The planner's table leaves such rows out: it would say that there are none, whatever the data."""
    assert ask(f"SELECT {asked}") is None


def test_that_a_value_is_there_is_so_in_all_rows_where_missing_ones_are_not_declared():
    asked = "SELECT COUNT(*) FROM visits WHERE {} AND age < 5 AND sex IS NOT NULL"
    for there in ("smoker IS NOT NULL", "NOT smoker IS NULL", "(smoker IS NOT NULL)"):
        assert ask(asked.format(there)).where == Predicate.parse("age < 5", DOMAIN)
    assert ask("SELECT COUNT(*) FROM visits WHERE sex IS NOT NULL").where.is_everything
    apart = "SELECT COUNT(*) FROM visits WHERE (smoker IS NOT NULL AND (sex IS NOT NULL AND age < 5)) AND sex = 'F'"
    assert ask(apart).where == Predicate.parse("age < 5 and sex == 'F'", DOMAIN)


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
        ("AVG(smoker), SUM(smoker)", [("mean", "smoker", "avg_smoker"), ("count", None, "sum_smoker")]),
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
    ("selected", "rows"),
    [
        ("COUNT(*), COUNT(age)", [None, "age.notna()"]),
        ("COUNT(age), COUNT(income)", ["age.notna()", "income.notna()"]),
        ("COUNT(age), SUM(income)", ["age.notna()", None]),
        ("AVG(age), COUNT(income)", [None, "income.notna()"]),
        ("COUNT(*), COUNTIF(sex = 'F'), SUM(CASE WHEN age > 3 THEN income END)", [None, "sex == 'F'", "age > 3"]),
        (
            "COUNTIF(sex = 'F') AS f, COUNT(age) FILTER (WHERE sex = 'M') AS m",
            ["sex == 'F'", "age >= 0 and sex == 'M'"],
        ),
    ],
)
def test_aggregates_may_be_of_different_rows(selected, rows):
    found = ask(f"SELECT {selected} FROM visits WHERE grade = 'low'")
    assert found.where == Predicate.parse("grade == 'low'", DOMAIN)
    wanted = [None if text is None else Predicate.parse(text, DOMAIN) for text in rows]
    assert [measure.rows for measure in found.measures] == wanted


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT sex, COUNT(*), COUNTIF(sex = 'F') FROM visits GROUP BY sex",  # a group that it cannot have
        "SELECT COUNT(*), COUNTIF(age > 3) FROM visits WHERE age < 2",  # no row at all
        "SELECT sex, COUNT(*), COUNTIF(age > 3) FROM visits WHERE (sex = 'F' AND age < 2) OR sex = 'M' GROUP BY sex",
    ],
)
def test_each_aggregate_has_all_groups_or_is_no_part_of_a_question(statement):
    assert ask(statement) is None


def test_what_has_rows_of_its_own_is_another_question():
    one, same, other, plain = (
        ask(f"SELECT COUNT(*), COUNT(*) FILTER (WHERE {rows}) AS n FROM visits WHERE age < 5")
        for rows in ("age < 3", "NOT age >= 3", "age < 4", "age < 5")
    )
    assert one.key == same.key
    assert len({one.key, other.key, plain.key}) == 3
    assert plain.measures[1].rows is None
    assert type(one).from_json(one.to_json(), DOMAIN) == one


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
    ("SELECT COUNT(*) FROM visits WHERE age > 1e999", "1e999", None),
    ("SELECT COUNT(*) FROM visits WHERE age = 3 = TRUE", "comparisons cannot be chained", None),
    ("SELECT COUNT(*) FROM visits WHERE age IS 3", "after IS stands NULL", "age IS 3"),
    ("SELECT COUNT(*) FROM visits WHERE age IN ()", "after IN stands a list", "age"),
    ("SELECT COUNT(*) FROM visits WHERE sex = 'F' 'M'", "join them with ||", "'M'"),
    # statement, what the text must say, what the carets must be under
    ("", "there is no statement: write SELECT COUNT(*) FROM a_protected_table, for example", None),
    (" -- nothing\n ;", "there is no statement: write SELECT COUNT(*) FROM a_protected_table, for example", None),
    (
        "SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits",
        "there are several statements; ask one at a time",
        "SELECT",
    ),
    ("DROP TABLE visits", "a question starts with SELECT, not DROP", "DROP"),
    ("EXPLAIN SELECT COUNT(*) FROM visits", "a question starts with SELECT, not EXPLAIN", "EXPLAIN"),
    ("DESCRIBE visits", "a question starts with SELECT, not DESCRIBE", "DESCRIBE"),
    ("SELECT COUNT(*)", "nothing here is private: no protected table is read, so ask it of the data itself", "SELECT"),
    (
        "SELECT COUNT(*) FROM vists",
        "no table 'vists' is protected or registered as public in this session; did you mean visits",
        "vists",
    ),
    ("SELECT COUNT(*) FROM 'visits.parquet'", "in FROM stand the names of tables, not of files", "'visits.parquet'"),
    (
        "SELECT COUNT(*) FROM read_csv('x.csv')",
        "a function cannot stand in FROM; read files beforehand: session.protect(path, 'name') or s",
        "read_csv('x.csv'",
    ),
    (
        "SELECT COUNT(*) FROM range(5)",
        "a function cannot stand in FROM; register what it lists as a public table: session.register",
        "range(5",
    ),
    (
        "SELECT COUNT(*) FROM visits, Costs",
        "each row of visits is a unit of its own, so it can be joined with public tables only; prot",
        "Costs",
    ),
    ("SELECT COUNT(*) FROM visits JOIN Costs USING (x)", "there is no column 'x' before this join", "x"),
    (
        "SELECT COUNT(*) FROM visits NATURAL JOIN Costs",
        "NATURAL, ASOF and POSITIONAL joins are not supported; write JOIN ... USING (column)",
        "Costs",
    ),
    (
        "SELECT COUNT(*) FROM visits USING SAMPLE 10",
        "write the sample after the table: FROM t TABLESAMPLE SYSTEM (10 PERCENT)",
        "10",
    ),
    (
        "SELECT DISTINCT COUNT(*) FROM visits",
        "SELECT DISTINCT is not supported here: GROUP BY lists every combination once",
        "COUNT(*)",
    ),
    ("SELECT COUNT(*) OVER () FROM visits", "rows cannot be shown; add COUNT(*)", "COUNT(*"),
    (
        "SELECT string_agg(sex) FROM visits",
        "GROUP_CONCAT is not supported: it would show rows; the aggregates are COUNT, SUM, AVG, VAR",
        "sex",
    ),
    (
        "SELECT random() FROM visits",
        "RAND is not supported: what is random is not supported; a sample is written TABLESAMPLE SY",
        "random",
    ),
    ("SELECT * FROM visits", "rows cannot be shown; add COUNT(*), SUM(column) or AVG(column)", "*"),
    ("SELECT visits.* FROM visits", "rows cannot be shown; add COUNT(*), SUM(column) or AVG(column)", "visits.*"),
    ("SELECT COUNT(visits.*) FROM visits", "* stands in a list of columns, or in COUNT(*)", "visits.*"),
    ("SELECT COUNT() FROM visits", "COUNT is of something: write COUNT(*) for the number of rows", "COUNT"),
    ("SELECT SUM(*) FROM visits", "SUM is of a column, not of *", "*"),
    (
        "SELECT COUNT(age, sex) FROM visits",
        "COUNT has too many arguments; bounds are written contribution_bounds_per_group => (0, 100)",
        "sex",
    ),
    (
        "SELECT SUM(age, sex) FROM visits",
        "SUM has too many arguments; bounds are written contribution_bounds_per_group => (0, 100)",
        "sex",
    ),
    ("SELECT SUM(sex) FROM visits", "SUM is of numbers, and this holds texts", "SUM(sex)"),
    (
        "SELECT SUM(height) FROM visits",
        "there is no column 'height' here; there are age, sex, region, income, smoker, grade, odd n",
        "height",
    ),
    (
        "SELECT sex FROM visits GROUP BY sex",
        "there is no aggregate here: add COUNT(*), which counts the rows of each group",
        "sex",
    ),
    (
        "SELECT sex, COUNT(*) FROM visits",
        "sex is neither grouped by nor aggregated here: add it to GROUP BY, or aggregate it",
        "sex",
    ),
    ("SELECT sex,, COUNT(*) FROM visits GROUP BY sex", "there is a comma too many", ","),
    (
        "SELECT COUNT(*), COUNT(*) AS again FROM visits",
        "two columns of the answer would be called 'again'; give one another name with AS",
        "COUNT(*) AS again",
    ),
    (
        "SELECT COUNT(*) AS n, SUM(age) AS N FROM visits",
        "two columns of the answer would be called 'N'; give one another name with AS",
        "SUM(age)",
    ),
    (
        "SELECT SUM(age) AS value, SUM(income) AS lower FROM visits",
        "two columns of the answer would be called 'lower'; give one another name with AS",
        "SUM(income)",
    ),
    (
        "SELECT COUNT(*) AS n, SUM(age) AS n_lower FROM visits",
        "two columns of the answer would be called 'n_lower'; give one another name with AS",
        "SUM(age)",
    ),
    (
        "SELECT sex, COUNT(*) AS sex FROM visits GROUP BY sex",
        "two columns of the answer would be called 'sex'; give one another name with AS",
        "COUNT(*)",
    ),
    ("SELECT COUNT(*) FROM visits GROUP BY 1", "GROUP BY names columns of the list, not *", "1"),
    ("SELECT COUNT(*) FROM visits GROUP BY 7", "there is no column 7 in the list, which has 1", "7"),
    ("SELECT COUNT(*) FROM visits GROUP BY 'sex'", "group by columns, or by their places in the list", "'sex'"),
    (
        "SELECT COUNT(*) FROM visits GROUP BY height",
        "there is no column 'height' here; there are age, sex, region, income, smoker, grade, odd n",
        "height",
    ),
    (
        "SELECT COUNT(*) FROM visits GROUP BY DISTINCT sex",
        "after GROUP BY stand columns, without DISTINCT",
        "GROUP BY",
    ),
    ("SELECT COUNT(*) FROM visits AS n GROUP BY", "after GROUP BY stand columns", "GROUP BY"),
    (
        "SELECT COUNT(*) FROM visits CASE GROUP BY sex",
        "CASE is a word of SQL; as a name, write it in double quotes",
        "CASE",
    ),
    ("SELECT COUNT(*) ORDER FROM visits", "ORDER is a word of SQL; as a name, write it in double quotes", "ORDER"),
    ("SELECT AS COUNT(*) FROM visits", "AS stands between a value and its name", "AS"),
    (
        "SELECT COUNT(*) FROM visits GROUP BY sex WITH ROLLUP",
        "write GROUP BY ROLLUP (a, b), CUBE (a, b) or GROUPING SETS ((a, b), (a), ())",
        None,
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE height > 3",
        "there is no column 'height' here; there are age, sex, region, income, smoker, grade, odd n",
        "height",
    ),
    ("SELECT COUNT(*) FROM visits WHERE ag > 3", "there is no column 'ag' here; did you mean age?", "ag"),
    (
        "SELECT COUNT(*) FROM visits AS v WHERE visits.age > 3",
        "there is no table 'visits' in this FROM; there are v",
        "visits.age",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE sex = F",
        "there is no column 'F' here; there are age, sex, region, income, smoker, grade, odd name, ",
        "F",
    ),
    (
        'SELECT COUNT(*) FROM visits WHERE sex = "F"',
        "there is no column 'F' here; double quotes are for names, and a text stands in single quot",
        '"F"',
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE sex = 'f'",
        "sex has no level 'f', did you mean 'F'?; its levels are 'F', 'M'",
        "sex = 'f'",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE sex",
        "sex alone is no condition, since it is not true or false; compare it, as in sex = 'M'",
        "sex",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age > 9 AND NOT sex",
        "sex alone is no condition, since it is not true or false; compare it, as in sex = 'M'",
        "sex",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE sex IS TRUE",
        "sex alone is no condition, since it is not true or false; compare it, as in sex = 'M'",
        "sex",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE sex IS NOT TRUE",
        "sex alone is no condition, since it is not true or false; compare it, as in sex = 'M'",
        "sex",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age = '65'",
        "this compares numbers with texts; write a value of the same kind, or CAST one side",
        "age = '65'",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age = 200",
        "200 is not a level of age: it holds the whole numbers 0 to 115",
        "age = 200",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age > 200",
        "no row of the declared domain satisfies this WHERE, whatever the data",
        "WHERE",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age BETWEEN 5 AND 3",
        "no row of the declared domain satisfies this WHERE, whatever the data",
        "WHERE",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age NOT IN (3, NULL)",
        "no row of the declared domain satisfies this WHERE, whatever the data; NOT IN a list with ",
        "WHERE",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE FALSE",
        "no row of the declared domain satisfies this WHERE, whatever the data",
        "WHERE",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age = NULL",
        "a comparison with NULL is never true: write IS NULL or IS NOT NULL",
        "age",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age > 1.2.3",
        "parts of arrays and structs are not supported; UNNEST an array in FROM, SUBSTRING a text",
        "1.2.3",
    ),
    ("SELECT COUNT(*) FROM visits WHERE age IN 3", "after IN stands a list in parentheses or a query", "3"),
    (
        "SELECT COUNT(*) FROM visits WHERE age IN [1, 2]",
        "[ has no meaning here; leave it out, or write it out in full",
        "[",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE (age, sex) IN ((1, 'F'))",
        "a list of columns in parentheses is not supported; write them one by one",
        "age, sex",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age > DATE '2020-01-01'",
        "this compares numbers with times; write a value of the same kind, or CAST one side",
        "age > DATE '2020-01-01'",
    ),
    ("SELECT COUNT(*) FROM visits WHERE sex = $$F$$", "write texts as 'text'", "$$F$$"),
    (
        "SELECT COUNT(*) FROM visits WHERE age > :nope",
        ":nope has no value: give parameters={'nope': ...}, or in a notebook a variable of this nam",
        "nope",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age > :nothing",
        ":nothing is None; write IS NULL for missing values, and a parameter is a number, a text, a",
        "nothing",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age > :many",
        ":many is a list, and a parameter is a number, a text, a date, True or False",
        "many",
    ),
    ("SELECT COUNT(*) FROM visits WHERE age > :nan", ":nan is not a finite number", "nan"),
    (
        "SELECT COUNT(*) FROM visits WHERE :lo > 3 AND :column = 3",
        ":column has no value: give parameters={'column': ...}, or in a notebook a variable of this",
        "column",
    ),
    ("SELECT COUNT(*) FROM visits GROUP BY :lo", "there is no column 3 in the list, which has 1", ":lo"),
    (
        "SELECT COUNT(*) FROM visits WHERE age > $lo",
        "$ cannot be used here: write parameters with a colon, :limit",
        "$",
    ),
    ("SELECT COUNT(*) FROM visits WHERE age > ?", "? cannot be used here: give the parameter a name: :limit", "?"),
    (
        "SELECT COUNT(*) FROM visits WHERE age > {{ lo }}",
        "{ cannot be used here: text templates are not supported; bind values by name, :limit",
        "{",
    ),
    ("SELECT sex, COUNT(*), FROM visits GROUP BY sex", "there is a comma too many", ","),
    ("SELECT COUNT(*) FROM visits WHERE age IN (, 3)", "there is a comma too many", ","),
    (
        "SELECT COUNT(*) FROM visits WHERE age IN (3, +)",
        ", has no meaning here; leave it out, or write it out in full",
        ",",
    ),
    ("SELECT COUNT(*) FROM visits WHERE age BETWEEN 3 5", "an AND is missing", "age BETWEEN 3 5"),
    ("SELECT ALL COUNT(*) FROM visits", "ALL has no meaning here; leave it out, or write it out in full", "ALL"),
    ("SELECT SUM(ALL age) FROM visits", "ALL has no meaning here; leave it out, or write it out in full", "ALL"),
    ("SELECT COUNT(*) AS, SUM(age) FROM visits", "after AS stands a name", "AS"),
    ("SELECT COUNT(* FROM visits", "this parenthesis is never closed", "("),
    (
        "SELECT COUNT(*) visits",
        "nothing here is private: no protected table is read, so ask it of the data itself",
        "SELECT",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE sex = 'F",
        "a quote or a comment in this statement is opened and never closed",
        None,
    ),
    ("SELECT COUNT(*) FROM visits /* and", "a quote or a comment in this statement is opened and never closed", None),
]
MEASURED_BY_ITSELF = [
    "SELECT COUNT(*) FROM visits WHERE age > -'3'",
    "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits AS v(a, b)",
    "SELECT MIN(age) FROM visits",
    "SELECT PERCENTILE_CONT(age, [0.25, 0.75]) FROM visits",
    "SELECT MAX(age) FROM visits",
    "SELECT STDDEV(age) FROM visits",
    "SELECT COUNT(* EXCLUDE age) FROM visits",
    "SELECT SUM(age + 1) FROM visits",
    "SELECT age + 0.5, COUNT(*) FROM visits GROUP BY 1",
    "SELECT (SELECT 1), COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE age",
    "SELECT COUNT(*) FROM visits WHERE 'x'",
    "SELECT COUNT(*) FROM visits WHERE NOT 5",
    "SELECT COUNT(*) FROM visits WHERE sex > 'F'",
    "SELECT COUNT(*) FROM visits WHERE sex BETWEEN 'F' AND 'M'",
    "SELECT COUNT(*) FROM visits WHERE smoker > FALSE",
    "SELECT COUNT(*) FROM visits WHERE income > 15",
    "SELECT COUNT(*) FROM visits WHERE age > income",
    "SELECT COUNT(*) FROM visits WHERE 'a' = 'b'",
    "SELECT COUNT(*) FROM visits WHERE age + 1 > 3",
    "SELECT COUNT(*) FROM visits WHERE -age > 3",
    "SELECT COUNT(*) FROM visits WHERE age IN (SELECT 1)",
    "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1)",
    "SELECT COUNT(*) FROM visits WHERE age IS TRUE",
    "SELECT COUNT(*) FROM visits WHERE age IS DISTINCT FROM 3",
    "SELECT COUNT(*) FROM visits WHERE region LIKE 'N%'",
    "SELECT COUNT(*) FROM visits WHERE age::INT = 3",
    "SELECT COUNT(*) FROM visits WHERE CAST(age AS INT) = 3",
    "SELECT COUNT(*) FROM visits WHERE coalesce(age, 1) = 3",
    "SELECT COUNT(*) FROM visits WHERE CASE WHEN smoker THEN TRUE END",
    "SELECT COUNT(*) FROM visits WHERE sex = 'F' || 'M'",
    "SELECT SUM(:lo) FROM visits",
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
    assert "no column 'who'" in refusal(f"{C} WHERE age = :lo AND who = 'F'")


def test_no_table_at_all():
    with pytest.raises(NotProtected, match=r"session\.protect"):
        analyse(C, {})


def test_what_is_no_text():
    assert "is a text, not a NoneType" in refusal(None)
    assert "characters" in refusal(C + " " * 10**6)


@pytest.mark.parametrize("statement", MEASURED_BY_ITSELF)
def test_what_is_no_question_about_declared_columns_is_measured_by_itself(statement):
    assert ask(statement) is None


@pytest.mark.parametrize(
    ("statement", "outer"),
    [
        (f"({C})", None),
        (f"{C} GROUP BY sex HAVING COUNT(*) > 5", 'SELECT * FROM release_0 WHERE "count" > 5'),
        (f"{C} GROUP BY sex ORDER BY 1", 'SELECT * FROM release_0 ORDER BY "count"'),
        (f"{C} GROUP BY sex LIMIT 5 OFFSET 2", "SELECT * FROM release_0 LIMIT 5 OFFSET 2"),
        ("SELECT COUNT(*) / 2 AS half FROM visits", 'SELECT "count" / 2 AS "half" FROM release_0'),
        ("SELECT SUM(age) / COUNT(age) AS mean FROM visits", 'SELECT "sum_age" / "count_age" AS "mean" FROM release_0'),
    ],
)
def test_what_is_worked_out_afterwards_leaves_a_question(statement, outer):
    assert ask(statement) is not None
    assert analyse(statement, RELATIONS, VALUES, rates=False).outer == outer


def test_a_key_may_be_called_otherwise():
    statement = "SELECT sex AS s, COUNT(*) AS n FROM visits GROUP BY sex"
    assert ask(statement).keys == ("sex",)
    assert new_names(analyse(statement, RELATIONS)) == {"sex": "s"}


def test_long_and_deep_statements():
    """Longer, and deeper, than Python nests calls: 1,000."""
    chain = " OR ".join(f"age = {value % 100}" for value in range(1500))
    assert ask(f"{C} WHERE {chain}").where == Predicate.parse("age < 100", DOMAIN)
    listed = ", ".join(str(value % 100) for value in range(1500))
    assert ask(f"{C} WHERE age IN ({listed})").where == Predicate.parse("age < 100", DOMAIN)
    assert "flatter" in refusal(f"{C} WHERE {'(' * 3000}age = 1{')' * 3000}")
    assert "flatter" in refusal(f"{C} WHERE {'NOT ' * 3000}age = 1")
