"""The three surfaces of SQL: what clauses, options, bounds and shares are read as, and what is refused, and where."""

import copy
import datetime
import random
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from clocks import cost
from sqlglot import exp

from dpnotebook.errors import SQLError
from dpnotebook.sql.aggregates.catalogue import NAMES
from dpnotebook.sql.parse.statement_parser import Clause, call_of, clause_of, read_surface

DP = "SELECT WITH DIFFERENTIAL_PRIVACY"
VALUES = {
    "lo": -2,
    "hi": 5.5,
    "e": 0.25,
    "who": "O'Neil",
    "yes": True,
    "nothing": None,
    "many": [1],
    "nan": float("nan"),
    "np": np.int64(7),
    "dec": Decimal("0.1"),
    "day": datetime.date(2024, 2, 29),
    "moment": datetime.datetime(2024, 2, 29, 12, 30),
}


def read(statement, **parameters):
    return read_surface(statement, {**VALUES, **parameters})


def calls(statement, **parameters):
    return [call for node in read(statement, **parameters).tree.walk(bfs=False) if (call := call_of(node)) is not None]


def call(statement, **parameters):
    (only,) = calls(f"{statement} FROM t", **parameters)
    return only


def clause(options, **parameters):
    return clause_of(read(f"{DP} OPTIONS({options}) COUNT(*) FROM t", **parameters).tree)


def refusal(statement, **parameters):
    with pytest.raises(SQLError) as caught:
        read(statement, **parameters)
    return str(caught.value)


def pointed(message):
    """Return the piece of the statement that an error points at."""
    line, carets = message.split("\n")[-2:]
    return line[carets.index("^") : carets.rindex("^") + 1]


# ---- the surfaces


@pytest.mark.parametrize(
    ("statement", "dialect", "tree"),
    [
        ("SELECT a, COUNT(*) FROM t GROUP BY a", "duckdb", "SELECT a, COUNT(*) FROM t GROUP BY a"),
        ('SELECT "a b" FROM t', "duckdb", 'SELECT "a b" FROM t'),
        (
            'SELECT WITH ANONYMIZATION `a b`, ANON_COUNT(*) FROM `p.q` WHERE x = "it" -- why\nGROUP BY 1',
            "bigquery",
            'SELECT "a b", COUNT(*) FROM "p"."q" WHERE x = \'it\' GROUP BY 1',
        ),
        (f"{DP} COUNT(*) FROM t # note", "bigquery", "SELECT COUNT(*) FROM t"),
        (f"{DP} OPTIONS() ALL a, SUM(x) + 1 AS s FROM t GROUP BY a", "bigquery", None),
        ("SELECT ANON_SUM(x, 0, 1) FROM t", "bigquery", "SELECT SUM(x) FROM t"),
        (
            'SELECT SUM(x, contribution_bounds_per_group => (0, 1)) AS "s t" FROM t',
            "duckdb",
            'SELECT SUM(x) AS "s t" FROM t',
        ),
        ("select with anonymization anon_count ( * ) from t ;", "bigquery", "SELECT COUNT(*) FROM t"),
        (f"WITH q AS ({DP} a, COUNT(*) AS n FROM t GROUP BY a) SELECT SUM(n) FROM q", "bigquery", None),
    ],
)
def test_a_clause_or_a_function_of_its_kind_makes_the_text_bigquerys(statement, dialect, tree):
    surface = read(statement)
    assert surface.dialect == dialect
    if tree is not None:
        assert surface.tree.sql("duckdb") == tree


def test_bigquerys_example_reads_as_it_is_written():
    surface = read(
        """
        -- With noise, using the epsilon parameter.
        SELECT
          WITH DIFFERENTIAL_PRIVACY
            OPTIONS(epsilon=10, delta=.01, max_groups_contributed=2, privacy_unit_column=id)
            item,
            AVG(quantity, contribution_bounds_per_group => (0,100)) average_quantity,
            COUNT(*, contribution_bounds_per_group=>(0, 5)) AS n,
            PERCENTILE_CONT(quantity, 0.5, contribution_bounds_per_row => (0,10)) AS median_quantity,
            APPROX_QUANTILES(quantity, 2, contribution_bounds_per_row => (0,10)) AS q,
        FROM professors
        GROUP BY item
        ORDER BY average_quantity DESC
        """
    )
    assert clause_of(surface.tree) == Clause(
        "DIFFERENTIAL_PRIVACY",
        epsilon=Fraction(10),
        delta=Fraction(1, 100),
        max_groups=2,
        unit=("id",),
        token=clause_of(surface.tree).token,
    )
    found = [call_of(item.this) for item in surface.tree.expressions[1:]]
    assert [one.kind for one in found] == ["average", "count", "quantiles", "quantiles"]
    assert [one.bounds for one in found] == [(0, 100), (0, 5), (0, 10), (0, 10)]
    assert [one.per for one in found] == ["group", "group", "row", "row"]
    assert [one.fractions for one in found] == [(), (), (0.5,), (0.0, 0.5, 1.0)]
    assert [one.array for one in found] == [False, False, False, True]
    assert all(one.private for one in found)


def test_the_papers_listing_reads_as_it_is_written():
    surface = read(
        "SELECT WITH ANONYMIZATION\nT1.partition_key,\nANON_SUM(T2.val, 0, 1)\n"
        "FROM Table1 T1 JOIN Table2 T2 USING(uid)\nGROUP BY T1.partition_key"
    )
    assert clause_of(surface.tree).word == "ANONYMIZATION"
    found = call_of(surface.tree.expressions[1])
    assert (found.kind, found.bounds, found.per) == ("sum", (0, 1), None)
    assert found.words == "ANON_SUM(T2.val, 0, 1)"


def test_every_select_keeps_its_own_clause():
    surface = read(
        f"{DP} OPTIONS(epsilon=1) a, (SELECT WITH ANONYMIZATION OPTIONS(epsilon=2) ANON_COUNT(*) FROM u) FROM "
        f"(SELECT b FROM v UNION ALL {DP} OPTIONS(epsilon=3) COUNT(*) FROM w) GROUP BY a"
    )
    by_table = {select.args["from_"].this.name: clause_of(select) for select in surface.tree.find_all(exp.Select)}
    assert [by_table[name] and by_table[name].epsilon for name in ("", "u", "v", "w")] == [1, 2, None, 3]
    assert "\x00" not in surface.tree.sql()


# ---- calls


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("COUNT(*)", {"kind": "count", "star": True, "argument": None, "private": False}),
        ("COUNT(1)", {"kind": "count", "star": True, "argument": None}),
        ("COUNT('a')", {"star": True}),
        ("COUNT(NULL)", {"star": False}),
        ("COUNT(x)", {"kind": "count", "star": False}),
        ("COUNT(ALL x)", {"kind": "count", "distinct": False}),
        ("COUNT(DISTINCT x)", {"kind": "units", "distinct": True}),
        ("SUM(x)", {"kind": "sum", "bounds": None, "per": None, "epsilon": None}),
        ("AVG(x)", {"kind": "average"}),
        ("VARIANCE(x)", {"kind": "variance", "population": False}),
        ("VAR_SAMP(x)", {"kind": "variance", "population": False}),
        ("VAR_POP(x)", {"kind": "variance", "population": True}),
        ("STDDEV(x)", {"kind": "deviation", "population": False}),
        ("STDDEV_POP(x)", {"kind": "deviation", "population": True}),
        ("MIN(x)", {"kind": "quantiles", "fractions": (0.0,), "array": False}),
        ("MAX(x)", {"fractions": (1.0,)}),
        ("MEDIAN(x)", {"fractions": (0.5,)}),
        ("PERCENTILE_CONT(x, .9)", {"fractions": (0.9,)}),
        ("QUANTILE_CONT(x, 0.9)", {"fractions": (0.9,)}),
        ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)", {"fractions": (0.9,)}),
        ("percentile_cont(0.75) within group (order by x desc)", {"fractions": (0.25,)}),
        ("NTILE(x, 1)", {"fractions": (1.0,)}),
        (
            "APPROX_QUANTILES(x, 4, contribution_bounds_per_row => AUTO)",
            {"fractions": (0.0, 0.25, 0.5, 0.75, 1.0), "array": True, "bounds": "auto", "private": True},
        ),
        ("SUM(x, contribution_bounds_per_group => (-1.5, +2e2))", {"bounds": (Fraction(-3, 2), 200), "per": "group"}),
        ("SUM(x, contribution_bounds_per_row => (0, 2))", {"bounds": (0, 2), "per": "row"}),
        ("SUM(x, contribution_bounds_per_group => AUTO, epsilon => .5)", {"bounds": "auto", "epsilon": Fraction(1, 2)}),
        ("SUM(x, EPSILON => 0.1, contribution_bounds_per_group => ((0), (1)))", {"epsilon": Fraction(1, 10)}),
        ("COUNT(*, contribution_bounds_per_group => (0, 1))", {"star": True, "bounds": (0, 1)}),
        ("COUNT(DISTINCT x, epsilon => 1)", {"kind": "units", "epsilon": 1, "private": True}),
        ("SUM(x, contribution_bounds_per_group => (:lo, :hi))", {"bounds": (-2, Fraction(11, 2))}),
        ("SUM(x, epsilon => :e)", {"epsilon": Fraction(1, 4)}),
        ("SUM(x, epsilon => :dec)", {"epsilon": Fraction(1, 10)}),
        ("PERCENTILE_CONT(x, :e)", {"fractions": (0.25,)}),
        ("ANON_COUNT(*)", {"kind": "count", "star": True, "bounds": None, "private": True}),
        ("ANON_COUNT(*, 5)", {"star": True, "bounds": (0, 5), "per": None}),
        ("ANON_COUNT(x, 5)", {"kind": "count", "bounds": (0, 5)}),
        ("ANON_COUNT(DISTINCT x)", {"kind": "units", "distinct": True, "private": True}),
        ("ANON_COUNT(* CLAMPED BETWEEN 0 AND 3)", {"star": True, "bounds": (0, 3)}),
        ("ANON_SUM(x, 0, 1)", {"kind": "sum", "bounds": (0, 1)}),
        ("ANON_SUM(x, @lo, @hi)", {"bounds": (-2, Fraction(11, 2))}),
        ("ANON_SUM(x, AUTO)", {"bounds": "auto"}),
        ("ANON_SUM(x)", {"bounds": None}),
        ("ANON_SUM(x CLAMPED BETWEEN -1 AND 1)", {"bounds": (-1, 1)}),
        ("ANON_AVG(x + 1 CLAMPED BETWEEN -1 AND 1)", {"kind": "average", "bounds": (-1, 1)}),
        ("ANON_VAR(x, 0, 1)", {"kind": "variance", "population": True}),
        ("ANON_VAR_POP(x, 0, 1)", {"kind": "variance", "population": True}),
        ("ANON_STDDEV(x, 0, 1)", {"kind": "deviation", "population": True}),
        ("ANON_STDDEV_POP(x CLAMPED BETWEEN 0 AND 1)", {"kind": "deviation", "population": True}),
        ("ANON_MIN(x, 0, 1)", {"fractions": (0.0,), "bounds": (0, 1)}),
        ("ANON_MAX(x, 0, 1)", {"fractions": (1.0,)}),
        ("ANON_MEDIAN(x, 0, 1)", {"fractions": (0.5,)}),
        ("ANON_NTILE(x, 0.25, 0, 10)", {"fractions": (0.25,), "bounds": (0, 10)}),
        ("ANON_PERCENTILE_CONT(x, 0.25 CLAMPED BETWEEN 0 AND 10)", {"fractions": (0.25,), "bounds": (0, 10)}),
        ("ANON_QUANTILES(x, 2 CLAMPED BETWEEN 0 AND 10)", {"fractions": (0.0, 0.5, 1.0), "array": True}),
        ("ANON_QUANTILES(x, 2, 0, 10)", {"fractions": (0.0, 0.5, 1.0), "bounds": (0, 10)}),
        ("ANON_SUM(x, epsilon => 0.1)", {"epsilon": Fraction(1, 10), "bounds": None}),
        ("COVAR_POP(x, y)", {"kind": "covariance", "population": True, "bounds": None, "private": False}),
        ("covar_samp(x, y + 1)", {"kind": "covariance", "population": False}),
        ("CORR(x, y, epsilon => 0.1)", {"kind": "correlation", "epsilon": Fraction(1, 10), "bounds": None}),
        ("CORR(x, y, contribution_bounds_per_row => ((0, 1), (-2, :hi)))", {"bounds": (0, 1, -2, Fraction(11, 2))}),
        ("CORR(x, y, contribution_bounds_per_row => AUTO)", {"bounds": "auto", "private": True}),
        ("ANON_CORR(x, y)", {"bounds": None, "private": True}),
        ("ANON_CORR(x, y, AUTO)", {"bounds": "auto"}),
        ("ANON_COVAR_POP(x, y, 0, 1, -2, 2)", {"kind": "covariance", "bounds": (0, 1, -2, 2)}),
        ("ANON_CORR(x CLAMPED BETWEEN 0 AND 1, y CLAMPED BETWEEN -2 AND 2)", {"bounds": (0, 1, -2, 2)}),
    ],
)
def test_a_call_says_what_it_asks_for(written, expected):
    found = call(f"SELECT {written}")
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.words == " ".join(written.split())
    if not found.star and written != "COUNT(NULL)":
        assert found.argument.find(exp.Column).name == "x"


def test_arguments_are_expressions():
    found = call("SELECT ANON_SUM(CASE WHEN a BETWEEN 1 AND 2 THEN GREATEST(x, 0) END CLAMPED BETWEEN 0 AND 9)")
    assert isinstance(found.argument, exp.Case)
    assert found.bounds == (0, 9)
    assert call("SELECT ANON_SUM(clamped CLAMPED BETWEEN 0 AND 1)").argument.name == "clamped"
    assert isinstance(call("SELECT ANON_COUNT(clamped BETWEEN 0 AND 1)").argument, exp.Between)


def test_filters_and_counts_of_a_condition_are_cases():
    for written, plain in [
        ("SUM(x) FILTER (WHERE y > 3)", "SUM(CASE WHEN y > 3 THEN x END)"),
        ("COUNT(*) FILTER (WHERE y > 3)", "COUNT(CASE WHEN y > 3 THEN 1 END)"),
        ("COUNT(*) FILTER (y > 3)", "COUNT(CASE WHEN y > 3 THEN 1 END)"),
        ("COUNT(DISTINCT x) FILTER (WHERE y > 3)", "COUNT(DISTINCT CASE WHEN y > 3 THEN x END)"),
        ("COUNTIF(y > 3)", "COUNT(CASE WHEN y > 3 THEN 1 END)"),
        ("CORR(x, z) FILTER (WHERE y > 3)", "CORR(CASE WHEN y > 3 THEN x END, z)"),
    ]:
        surface = read(f"SELECT {written} FROM t")
        assert surface.tree.expressions[0].sql("duckdb") == plain
        assert not call_of(surface.tree.expressions[0]).star


def test_calls_and_clauses_go_along_with_copies():
    surface = read(f"{DP} OPTIONS(epsilon=1) SUM(x, contribution_bounds_per_group => (0, 7)) + 1 FROM t")
    for tree in (surface.tree.copy(), copy.deepcopy(surface.tree), surface.tree.transform(lambda node: node)):
        assert clause_of(tree).epsilon == 1
        (found,) = [one for node in tree.walk() if (one := call_of(node)) is not None]
        assert found.bounds == (0, 7)
        found.argument.replace(exp.column("z"))  # what is called is the node's own argument, not one of before
        (again,) = [one for node in tree.walk() if (one := call_of(node)) is not None]
        assert again.argument.name == "z"
    assert call_of(surface.tree) is None
    assert clause_of(surface.tree.expressions[0]) is None


def test_every_aggregate_node_has_a_call():
    second = {"fraction": ", 0.5", "parts": ", 4, contribution_bounds_per_row => (0, 1)"}
    for name, (function, spelling) in NAMES.items():
        other = ", y" if function.operands == 2 else second.get(spelling.second, "")
        assert call(f"SELECT {name}(x{other})").kind == function.kind


# ---- options


def test_options_are_read():
    found = clause(
        "epsilon = 1.5, DELTA = 1e-9, max_rows_contributed = 3, privacy_unit_column = v.`user id`, "
        "group_selection_strategy = LAPLACE_THRESHOLD, min_privacy_units_per_group = 20, group_selection_epsilon = .5"
    )
    assert (found.epsilon, found.delta, found.selection_epsilon) == (Fraction(3, 2), Fraction(1, 10**9), Fraction(1, 2))
    assert (found.max_groups, found.max_rows, found.min_units) == (None, 3, 20)
    assert (found.unit, found.selection) == (("v", "user id"), "threshold")
    assert clause("group_selection_strategy = public_groups").selection == "public"
    assert clause("kappa = 4").max_groups == 4
    assert clause("epsilon = @e, max_groups_contributed = @np").epsilon == Fraction(1, 4)
    assert clause("delta = 0").delta == 0
    assert clause("").epsilon is None
    assert clause_of(read(f"{DP} COUNT(*) FROM t").tree).epsilon is None


@pytest.mark.parametrize(
    ("options", "says", "at"),
    [
        ("epsilon = NULL", "above 0", "NULL"),
        ("epsilon = 0", "above 0", "0"),
        ("epsilon = -1", "above 0", "-"),
        ("epsilon = 'a'", "above 0", "'a'"),
        ("epsilon = TRUE", "above 0", "TRUE"),
        ("epsilon = 1e999", "written out", "1e999"),
        ("epsilon = CAST('nan' AS FLOAT64)", "written out", "CAST"),
        ("epsilon = 1 + 1", "written out", "1"),
        ("epsilon = ", "written out", "epsilon"),
        ("epsilon 1", "name = value", "epsilon"),
        ("epsilon = 1, epsilon = 1", "twice", "epsilon"),
        ("kappa = 1, max_groups_contributed = 2", "twice", "max_groups_contributed"),
        ("epsilon = 1,, delta = 0", "comma too many", ","),
        ("delta = -1e-9", "0 to 1", "-"),
        ("delta = 1.5", "0 to 1", "1.5"),
        ("delta = NULL", "0 to 1", "NULL"),
        ("delta = 'a'", "0 to 1", "'a'"),
        ("max_groups_contributed = 0", "at least 1", "0"),
        ("max_groups_contributed = 1.5", "whole number", "1.5"),
        ("max_rows_contributed = NULL", "whole number", "NULL"),
        ("max_rows_contributed = 1, max_groups_contributed = 1", "not both", "max_rows_contributed"),
        ("kappa = 1, max_rows_contributed = 1", "not both", "max_rows_contributed"),
        ("privacy_unit_column = 'id'", "without quotes", "'id'"),
        ("privacy_unit_column = 3", "name of a column", "3"),
        ("group_selection_strategy = BEST", "LAPLACE_THRESHOLD or PUBLIC_GROUPS", "BEST"),
        ("min_privacy_units_per_group = -1", "at least 1", "-"),
        ("group_selection_strategy = PUBLIC_GROUPS, min_privacy_units_per_group = 3", "no meaning", None),
        ("group_selection_strategy = PUBLIC_GROUPS, group_selection_epsilon = 1", "no meaning", None),
        ("epsilon = 1, group_selection_epsilon = 1", "part of epsilon", "group_selection_epsilon"),
        ("k_threshold = 50", "write delta = 1e-6", "k_threshold"),
        ("epsilom = 1", "did you mean epsilon?", "epsilom"),
        ("whatever = 1", "max_groups_contributed", "whatever"),
        ("epsilon = @nothing", "IS NULL", "nothing"),
        ("epsilon = @nan", "finite", "nan"),
        ("epsilon = @none", "no value", "none"),
        ("epsilon = @many", "a list", "many"),
    ],
)
def test_options_are_refused_at_their_place(options, says, at):
    message = refusal(f"{DP} OPTIONS({options}) COUNT(*) FROM t")
    assert says in message
    if at is not None:
        assert pointed(message) == at


# ---- refused calls


@pytest.mark.parametrize(
    ("written", "says", "at"),
    [
        ("SUM(x, contribution_bounds_per_group => (1, 0))", "swap", "1"),
        ("SUM(x, contribution_bounds_per_group => (:hi, :lo))", "swap", ":hi"),
        ("SUM(x, contribution_bounds_per_group => (0, 0))", "equal", "0"),
        ("AVG(x, contribution_bounds_per_group => (2, 2))", "equal", "2"),
        ("SUM(x, contribution_bounds_per_group => (0, y))", "written out", "y"),
        ("SUM(x, contribution_bounds_per_group => (0, 1 + 1))", "written out", "1"),
        ("SUM(x, contribution_bounds_per_group => (0, '1'))", "numbers", "'1'"),
        ("SUM(x, contribution_bounds_per_group => (0, NULL))", "numbers", "NULL"),
        ("SUM(x, contribution_bounds_per_group => (0, TRUE))", "numbers", "TRUE"),
        ("SUM(x, contribution_bounds_per_group => (0, 1, 2))", "two numbers", "("),
        ("SUM(x, contribution_bounds_per_group => 5)", "(lower, upper)", "5"),
        ("SUM(x, contribution_bounds_per_group => (0, 1e400))", "written out", "1e400"),
        ("SUM(x, contribution_bounds_per_group => )", "(lower, upper)", None),
        ("SUM(x, contribution_bounds_per_group => (0, 1), contribution_bounds_per_group => (0, 1))", "twice", None),
        ("SUM(x, contribution_bounds_per_group => (0, 1), contribution_bounds_per_row => (0, 1))", "twice", None),
        ("COUNT(*, contribution_bounds_per_group => (0, 1.5))", "whole numbers", "1.5"),
        ("COUNT(*, contribution_bounds_per_row => (0, 1))", "per_group", "contribution_bounds_per_row"),
        ("VAR_POP(x, contribution_bounds_per_group => (0, 1))", "per_row", "contribution_bounds_per_group"),
        ("MEDIAN(x, contribution_bounds_per_group => (0, 1))", "per_row", "contribution_bounds_per_group"),
        ("COUNT(DISTINCT x, contribution_bounds_per_group => (0, 5))", "takes no bounds", "COUNT"),
        ("SUM(x, epsilon => 0)", "above 0", "0"),
        ("SUM(x, epsilon => -1)", "above 0", "-"),
        ("SUM(x, epsilon => NULL)", "above 0", "NULL"),
        ("SUM(x, epsilon => y)", "above 0", "y"),
        ("SUM(x, epsilon => 1, epsilon => 1)", "twice", "epsilon"),
        ("SUM(x, report_format => 'JSON')", "intervals", "report_format"),
        ("SUM(x, max_contributions_per_group => 1)", "contribution_bounds_per_group", "max_contributions_per_group"),
        ("SUM(x, bounds => (0, 1))", "contribution_bounds_per_row and epsilon", "bounds"),
        ("SUM(epsilon => 1, x)", "stand after", "x"),
        ("SUM(x, 0, 10)", "contribution_bounds_per_group => (0, 100)", "0"),
        ("VAR_POP(x, 0, 10)", "contribution_bounds_per_row => (0, 100)", "0"),
        ("COUNT(x, y)", "too many arguments", "y"),
        ("COUNT()", "COUNT(*)", "COUNT"),
        ("SUM()", "SUM(column)", "SUM"),
        ("SUM(*)", "not of *", "*"),
        ("COUNT(DISTINCT *)", "not of *", "*"),
        ("COUNT(DISTINCT x, y)", "CONCAT(a, '|', b)", "y"),
        ("SUM(DISTINCT x)", "DISTINCT", "DISTINCT"),
        ("ANON_SUM(DISTINCT x, 0, 1)", "DISTINCT", "DISTINCT"),
        ("SUM(x ORDER BY y)", "ORDER BY", "ORDER BY"),
        ("SUM(x HAVING MAX y)", "HAVING", "HAVING"),
        ("SUM(x LIMIT 3)", "LIMIT", "LIMIT"),
        ("MAX(x IGNORE NULLS)", "IGNORE NULLS", "IGNORE"),
        ("PERCENTILE_CONT(x, 1.5)", "0 to 1", "1.5"),
        ("PERCENTILE_CONT(x, y)", "0 to 1", "y"),
        ("PERCENTILE_CONT(x, -0.1)", "0 to 1", "-"),
        ("PERCENTILE_CONT(x)", "two arguments", "PERCENTILE_CONT"),
        ("PERCENTILE_CONT(x, '0.5')", "0 to 1", "'0.5'"),
        ("PERCENTILE_CONT(x, [0.5, 2])", "0 to 1", "2"),
        ("PERCENTILE_CONT(x, [0.5, y])", "0 to 1", "y"),
        ("PERCENTILE_CONT(x, [])", "a list of quantiles has", "["),
        ("APPROX_QUANTILES(x, 0, contribution_bounds_per_row => (0, 1))", "from 1 to", "0"),
        ("APPROX_QUANTILES(x, 1.5, contribution_bounds_per_row => (0, 1))", "whole number", "1.5"),
        ("APPROX_QUANTILES(x, 100000, contribution_bounds_per_row => (0, 1))", "from 1 to", "100000"),
        ("ANON_QUANTILES(x, 2)", "needs bounds", "ANON_QUANTILES"),
        ("ANON_SUM(x, 0)", "ANON_SUM(column, lower, upper)", "0"),
        ("ANON_SUM(x, 0, 1, 2)", "ANON_SUM(column, lower, upper)", "2"),
        ("ANON_SUM(x, 1, 0)", "swap", "1"),
        ("ANON_SUM(x, 0, 'a')", "numbers", "'a'"),
        ("ANON_COUNT(*, -1)", "never below 0", "-"),
        ("ANON_COUNT(*, 1.5)", "whole numbers", "1.5"),
        ("ANON_COUNT(*, 0)", "equal", "0"),
        ("ANON_COUNT(DISTINCT x, 3)", "takes no bounds", "ANON_COUNT"),
        ("ANON_NTILE(x, 2, 0, 1)", "0 to 1", "2"),
        ("ANON_SUM(x CLAMPED BETWEEN 0)", "CLAMPED BETWEEN 0 AND 100", "CLAMPED"),
        ("ANON_SUM(x CLAMPED BETWEEN 0 AND y)", "written out", "y"),
        ("ANON_SUM(x CLAMPED BETWEEN 3 AND 1)", "swap", "3"),
        ("PERCENTILE_CONT(x, 0.5) OVER ()", "has no window", None),
        ("ABS(x) OVER ()", "has no window", None),
        ("ANON_SUM(x) OVER ()", "ANON_SUM has no window", "ANON_SUM"),
        ("ROW_NUMBER()", "its window is missing", None),
        ("LAG(x)", "its window is missing", None),
        ("RANK(x) OVER ()", "the parentheses of a rank are empty", None),
        ("SUM(RANK() OVER (ORDER BY x)) OVER ()", "in another window", "RANK() OVER (ORDER BY x"),
        ("SUM(RANK() OVER (ORDER BY x))", "in an aggregate", "RANK() OVER (ORDER BY x"),
        ("RANK() OVER w", "no window w", "w"),
        ("SUM(x) OVER (ORDER BY y ROWS BETWEEN 2 AND 3)", "written out in full", "ROWS"),
        ("SUM(x) OVER (ORDER BY y ROWS 2 UNBOUNDED)", "", None),
        ("SUM(x) FILTER ()", "FILTER (WHERE condition)", "FILTER"),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (x)", "WITHIN GROUP (ORDER BY column)", "WITHIN"),
        ("SUM(COUNT(*))", "aggregate of an aggregate", "COUNT(*)"),
        ("SUM(x + MAX(y))", "aggregate of an aggregate", "MAX(y)"),
        ("COUNT(*) FILTER (WHERE SUM(x) > 1)", "aggregate of an aggregate", "SUM(x)"),
        ("ARRAY_AGG(x)", "show rows", None),
        ("STRING_AGG(x, ',')", "show rows", None),
        ("FIRST(x)", "which row comes first is not said", None),
        ("MODE(x)", "show a value of somebody", None),
        ("QUANTILE(x, 0.5)", "PERCENTILE_CONT", None),
        ("CORR(x)", "is of two columns: CORR(x, y)", "CORR"),
        ("CORR()", "is of two columns", "CORR"),
        ("CORR(*, y)", "not of *", "*"),
        ("CORR(x, y, z)", "contribution_bounds_per_row => ((0, 100), (0, 100))", "z"),
        ("CORR(DISTINCT x, y)", "DISTINCT", "DISTINCT"),
        ("CORR(x, DISTINCT y)", "leave it out", "DISTINCT"),
        ("CORR(x) WITHIN GROUP (ORDER BY y)", "both columns", "CORR"),
        ("COVAR_POP(x, y, contribution_bounds_per_group => ((0, 1), (0, 1)))", "row by row", None),
        ("COVAR_POP(x, y, contribution_bounds_per_row => (0, 1))", "((lower, upper), (lower, upper))", None),
        ("COVAR_POP(x, y, contribution_bounds_per_row => ((0, 1)))", "of each column a pair", None),
        ("COVAR_POP(x, y, contribution_bounds_per_row => ((0, 1), 1))", "or => AUTO", "1"),
        ("COVAR_POP(x, y, contribution_bounds_per_row => ((0, 1), (1, 0)))", "swap", "1"),
        ("COVAR_POP(x, y, contribution_bounds_per_row => ((0, 1), (1, 1)))", "equal", "1"),
        ("ANON_CORR(x, y, 0, 1)", "ANON_CORR(x, y, lower, upper, lower, upper)", "1"),
        ("ANON_CORR(x, y, 0, 1, 2, 3, 4)", "ANON_CORR(x, y, lower, upper, lower, upper)", "4"),
        ("ANON_CORR(x CLAMPED BETWEEN 0 AND 1, y)", "behind both columns", "ANON_CORR"),
        ("SUM(x * CORR(x, y))", "aggregate of an aggregate", "CORR(x, y)"),
        ("CORR(x, SUM(y))", "aggregate of an aggregate", "SUM(y)"),
        ("REGR_SLOPE(x)", "REGR_SLOPE(y, x)", None),
        ("REGR_SLOPE(AVG(x), y)", "aggregate of an aggregate", None),
        ("BIT_XOR(x)", "is not supported", None),
        ("HISTOGRAM(x)", "is not supported", None),
        ('"sum"(x)', "is not supported", None),
        ("main.sum(x)", "not supported", None),
    ],
)
def test_calls_are_refused_at_their_place(written, says, at):
    message = refusal(f"SELECT {written} FROM t")
    assert says in message
    if at is not None:
        assert pointed(message) == at


# ---- what a statement is made of

WRITTEN_AS_TEXT = ("TO_CHAR", "DATE_FORMAT", "FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIMESTAMP", "FORMAT")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a, COUNT(*) FROM t GROUP BY a HAVING COUNT(*) > 3 ORDER BY 2 DESC NULLS LAST LIMIT 3 OFFSET 1",
        "FROM t SELECT COUNT(*)",
        "(SELECT COUNT(*) FROM t)",
        "SELECT COUNT(*) FROM t JOIN s USING (u) LEFT JOIN p ON p.k = t.k AND p.x > 3 CROSS JOIN q",
        "SELECT COUNT(*) FROM (SELECT u, SUM(x) AS s FROM t GROUP BY u) AS q (u, s)",
        "WITH q AS (SELECT * FROM t), r(u, k) AS (SELECT u, k FROM q) SELECT COUNT(*) FROM r",
        "SELECT COUNT(*) FROM (SELECT u FROM t UNION ALL SELECT u FROM s EXCEPT SELECT u FROM p) q",
        "SELECT COUNT(*) FROM t WHERE x IN (SELECT k FROM p) AND EXISTS (SELECT 1 FROM p WHERE p.k = t.k)",
        "SELECT COUNT(*) FROM t TABLESAMPLE SYSTEM (10 PERCENT)",
        "SELECT tag, COUNT(*) FROM t, UNNEST(t.tags) AS v(tag) GROUP BY tag",
        "SELECT (SELECT COUNT(*) FROM t) / (SELECT COUNT(*) FROM s) AS share",
        "SELECT CASE WHEN COUNT(*) > 5 THEN 'many' ELSE 'few' END FROM t",
        "SELECT COUNT(*) AS n FROM t WHERE a = 'GROUP BY' AND \"select\" = 1 /* SELECT WITH ANONYMIZATION */",
    ],
)
def test_queries_are_read(statement):
    assert "\x00" not in read(statement).tree.sql("duckdb")


@pytest.mark.parametrize(
    ("statement", "plainly"),
    [
        (
            "SELECT [Order Date], COUNT(*) AS [n] FROM [t] WHERE t.[x] > 1 GROUP BY [Order Date] ORDER BY [n]",
            'SELECT "Order Date", COUNT(*) AS "n" FROM "t" WHERE t."x" > 1 GROUP BY "Order Date" ORDER BY "n"',
        ),
        (
            "SELECT `Straße 1`, COUNT(*) FROM `t` GROUP BY `Straße 1`",
            'SELECT "Straße 1", COUNT(*) FROM "t" GROUP BY "Straße 1"',
        ),
        (
            "SELECT COUNT(*) FROM t WHERE a = '[x]' AND `b` = '`'",
            "SELECT COUNT(*) FROM t WHERE a = '[x]' AND \"b\" = '`'",
        ),
    ],
)
def test_names_in_brackets_and_backticks_are_names(statement, plainly):
    assert read(statement).tree.sql("duckdb") == read(plainly).tree.sql("duckdb")


def test_brackets_of_elements_and_lists_are_no_names():
    places = "SELECT APPROX_QUANTILES(x, 4)[OFFSET(2)], QUANTILE_CONT(x, [0.1, 0.9]) FROM t"
    assert len(read(places).tree.expressions) == 2
    assert "parts of arrays" in refusal("SELECT COUNT(*) FROM t WHERE tags[a] = 1")
    assert "cannot be used here" in refusal("SELECT COUNT(*) FROM t WHERE a = `b")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("", "there is no statement"),
        (" ; ", "there is no statement"),
        (None, "a text, not a NoneType"),
        ("DROP TABLE t", "starts with SELECT"),
        ("DESCRIBE t", "starts with SELECT"),
        ("SELECT COUNT(*) FROM t; SELECT 1", "several statements"),
        ("SELECT 'a", "never closed"),
        ("SELECT (COUNT(*) FROM t", "never closed"),
        ("SELECT COUNT(*)) FROM t", "closes nothing"),
        ("SELECT a,, COUNT(*) FROM t", "comma too many"),
        ("SELECT , a FROM t", "comma too many"),
        ("SELECT a, FROM t", "comma too many"),
        ("SELECT COUNT(*) FROM t WHERE a IN (, 3)", "comma too many"),
        ("SELECT COUNT(*) FROM t WHERE {{ x }}", "templates"),
        ("SELECT COUNT(*) FROM t LIMIT ?", ":limit"),
        ("SELECT COUNT(*) FROM t LIMIT $1", ":limit"),
        ("SELECT COUNT(*) FROM t WHERE a = @who", ":limit"),
        ("SELECT COUNT(*) FROM t WHERE a = :", "name of a parameter"),
        ("SELECT COUNT(*) FROM t WHERE a = : who", "name of a parameter"),
        ("SELECT WITH AGGREGATION_THRESHOLD COUNT(*) FROM t", "DIFFERENTIAL_PRIVACY or ANONYMIZATION"),
        ("SELECT WITH", "DIFFERENTIAL_PRIVACY or ANONYMIZATION"),
        (f"{DP} OPTIONS(epsilon=1) OPTIONS(delta=0) COUNT(*) FROM t", "OPTIONS once"),
        (f"{DP} WITH ANONYMIZATION COUNT(*) FROM t", "one private clause"),
        (f"{DP} OPTIONS(epsilon=1 COUNT(*) FROM t", "never closed"),
        (f"{DP} AS STRUCT COUNT(*) FROM t", "FROM t"),
        ("SELECT COUNT(*) FROM 'patients.csv'", "not of files"),
        ("SELECT COUNT(*) FROM read_csv('patients.csv')", "session.protect(path, 'name')"),
        ("SELECT COUNT(*) FROM read_parquet('x')", "session.protect(path, 'name')"),
        ("SELECT COUNT(*) FROM duckdb_tables()", "session.protect(path, 'name')"),
        ("SELECT COUNT(*) FROM range(5)", "register what it lists as a public table: session.register(pd.DataFrame("),
        ("SELECT COUNT(*) FROM (VALUES (1)) v(x)", "VALUES"),
        ("WITH RECURSIVE q AS (SELECT 1) SELECT COUNT(*) FROM q", "RECURSIVE"),
        ("SELECT COUNT(*) FROM t GROUP BY a WITH ROLLUP", "GROUP BY ROLLUP (a, b)"),
        ("SELECT COUNT(*) FROM t GROUP BY a WITH CUBE", "GROUP BY ROLLUP (a, b)"),
        ("SELECT COUNT(*) FROM t GROUP BY DISTINCT a", "without DISTINCT"),
        ("SELECT STRFTIME(d, f) FROM t", "written out"),
        ("SELECT STRFTIME('%Y-%m', d) FROM t", "STRFTIME(column, '%Y-%m')"),
        *((f"SELECT {name}(d, 'YYYY-MM') FROM t", "write STRFTIME(column, '%Y-%m')") for name in WRITTEN_AS_TEXT),
        *((f"SELECT {name}('%Y-%m', d) FROM t", "write STRFTIME(column, '%Y-%m')") for name in WRITTEN_AS_TEXT),
        ("SELECT TO_DATE(s, 'YYYY-MM-DD') FROM t", "write STRPTIME(column, '%Y-%m-%d')"),
        ("SELECT TO_TIMESTAMP(s, 'YYYY-MM-DD') FROM t", "write STRPTIME(column, '%Y-%m-%d')"),
        ("SELECT DATEPART(month, d) FROM t", "write EXTRACT(MONTH FROM column)"),
        ("SELECT DATENAME(month, d) FROM t", "MONTHNAME(column)"),
        ("SELECT EOMONTH(d) FROM t", "INTERVAL 1 MONTH - INTERVAL 1 DAY"),
        ("SELECT UNIX_TIMESTAMP(d) FROM t", "DATE_DIFF('second'"),
        ("SELECT CONVERT(VARCHAR(7), d, 120) FROM t", "CONVERT is not supported: write CAST(column AS VARCHAR)"),
        ("SELECT CONVERT(VARCHAR, d) FROM t", "CONVERT is not supported: write CAST(column AS VARCHAR)"),
        ("SELECT TRY_CONVERT(DATE, s) FROM t", "CONVERT is not supported: write CAST(column AS VARCHAR)"),
        ("SELECT CONVERT(d, CHAR(7)) FROM t", "write CAST(value AS type)"),
        ("SELECT STRFTIME(d, '%q') FROM t", "%Y-%m"),
        ("SELECT TOP 10 a, COUNT(*) FROM t GROUP BY a", "LIMIT 10"),
        ("SELECT TOP (10) a, COUNT(*) FROM t GROUP BY a", "LIMIT 10"),
        ("SELECT COUNT(*) FROM t CROSS APPLY s", "write a JOIN for APPLY"),
        ("SELECT ISNULL(a, 0) FROM t", "COALESCE(column, 0)"),
        ("SELECT ZEROIFNULL(a) FROM t", "COALESCE(column, 0)"),
        ("SELECT NVL2(a, 1, 2) FROM t", "IF(column IS NOT NULL, a, b)"),
        ("SELECT IFF(a > 1, 1, 2) FROM t", "IF(condition, a, b)"),
        ("SELECT SUM(DECODE(a, 'x', 1, 0)) FROM t", "DECODE is not supported: write CASE column WHEN"),
        ("SELECT CHOOSE(a, 'x', 'y') FROM t", "CASE column WHEN"),
        ("SELECT COUNT_BIG(*) FROM t", "write COUNT(*)"),
        ("SELECT SQUARE(x) FROM t", "POWER(column, 2)"),
        ("SELECT DIV0(x, y) FROM t", "SAFE_DIVIDE(a, b)"),
        ("SELECT STDEV(x) FROM t", "STDEV is not supported: write STDDEV(column)"),
        ("SELECT APPROX_PERCENTILE(x, 0.9) FROM t", "PERCENTILE_CONT(column, 0.9)"),
        ("SELECT TO_NUMBER(x) FROM t", "CAST(column AS DOUBLE)"),
        ("SELECT COUNT(*) FROM t WHERE d >= DATEADD(month, -6, d)", "column - INTERVAL 6 MONTH"),
        ("SELECT COUNT(*) FROM t WHERE d >= ADD_MONTHS(d, -6)", "column - INTERVAL 6 MONTH"),
        ("SELECT COUNT(*) FROM t WHERE d >= CURDATE()", ":today"),
        ("SELECT AVG(DATEDIFF(a, b)) FROM t", "write DATEDIFF('day', from, to), with the unit first"),
        ("SELECT AVG(TIMESTAMPDIFF(HOUR, a, b)) FROM t", "DATE_DIFF('hour', from, to)"),
        ("SELECT DATE_TRUNC(d, MONTH) FROM t", "DATE_TRUNC('month', column)"),
        ("SELECT TRUNC(d, 'MM') FROM t", "DATE_TRUNC('month', column)"),
        ("SELECT SUBSTR(a, STRPOS(a, '@') + 1) FROM t", "SPLIT_PART(column, '@', 2)"),
        ("SELECT RATIO_TO_REPORT(COUNT(*)) OVER () FROM t", "COUNT(*) / SUM(COUNT(*)) OVER ()"),
        ("SELECT COUNT(*) FROM t WITH (NOLOCK)", "leave WITH (...) behind a table out"),
        ("SELECT STRING_AGG(a, ',') FROM t", "it would show rows"),
        ("SELECT COUNT(*) FROM t GROUP BY (a, b)", "one by one"),
        ("SELECT COUNT(*) FROM t WHERE RANK() OVER (ORDER BY a) = 1", "QUALIFY"),
        ("SELECT COUNT(*) FROM t GROUP BY RANK() OVER (ORDER BY a)", "QUALIFY"),
        ("SELECT RANK() OVER (w PARTITION BY a) FROM t WINDOW w AS (ORDER BY b)", "PARTITION BY stands in"),
        ("SELECT COUNT(*) FROM t UNPIVOT (x FOR y IN (a, b))", "UNION ALL"),
        ("SELECT COUNT(*) FROM t NATURAL JOIN s", "USING"),
        ("SELECT COUNT(*) FROM t SEMI JOIN s", "IN (SELECT"),
        ("SELECT COUNT(*) FROM t JOIN r USING (u) ANTI JOIN s USING (u)", "ON a.id = b.id"),
        ("SELECT COUNT(*) FROM t POSITIONAL JOIN s", "POSITIONAL"),
        ("SELECT COUNT(*) FROM t, LATERAL (SELECT 1) x", "LATERAL"),
        ("SELECT COUNT(*) FROM (t JOIN s USING (u))", "parentheses"),
        ("SELECT COUNT(*) FROM t FOR UPDATE", "LOCKS"),
        ("SELECT COUNT(*) INTO x FROM t", "INTO"),
        ("SELECT COUNT(*) FROM t LIMIT 10%", "number of rows"),
        ("SELECT COUNT(*) FROM t FETCH FIRST 3 ROWS ONLY", "LIMIT"),
        ("SELECT * REPLACE (1 AS x) FROM t", "REPLACE"),
        ("SELECT COUNT(*) FROM t WHERE x > ALL (SELECT k FROM p)", "ANY and ALL"),
        ("SELECT COUNT(*) FROM t WHERE x SIMILAR TO 'a'", "LIKE"),
        ("SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(a, 'x')", "LIKE"),
        ("SELECT COUNT(*) FROM t WHERE REGEXP_EXTRACT(a, 'x') = 'x'", "SPLIT_PART"),
        ("SELECT COUNT(*) FROM t WHERE SPLIT_PART(a, '', 1) = 'x'", "between"),
        ("SELECT COUNT(*) FROM t WHERE SPLIT_PART(a, b, 1) = 'x'", "between"),
        ("SELECT COUNT(*) FROM t WHERE SPLIT_PART(a, '@', -1) = 'x'", "from 1 on"),
        ("SELECT COUNT(*) FROM t WHERE a LIKE b", "written out"),
        ("SELECT COUNT(*) FROM t WHERE a LIKE 'x\\'", "backslash"),
        ("SELECT COUNT(*) FROM t WHERE a LIKE 'x!_' ESCAPE '!'", "LIKE"),
        ("SELECT COUNT(*) FROM t WHERE RANDOM() < 0.5", "TABLESAMPLE"),
        ("SELECT COUNT(*) FROM t WHERE d > NOW()", ":today"),
        ("SELECT COUNT(*) FROM t WHERE d > CURRENT_DATE", ":today"),
        ("SELECT COUNT(*) FROM t WHERE a = CURRENT_USER", ":today"),
        ("SELECT COUNT(*) FROM t WHERE a = getenv('HOME')", ":today"),
        ("SELECT COUNT(*) FROM t WHERE a = current_setting('x')", ":today"),
        ("SELECT COUNT(*) FROM t WHERE list_filter(a, x -> x > 1) = a", "->"),
        ("SELECT COUNT(*) FROM t WHERE a[1] = 2", "UNNEST"),
        ("SELECT COUNT(*) FROM t WHERE uper(a) = 'X'", "did you mean UPPER?"),
        ("SELECT COUNT(*) FROM t WHERE hash(a) = 1", "HASH is not supported"),
        ("SELECT WIDTH_BUCKET(x, 0, 10, 5) AS b, COUNT(*) FROM t GROUP BY b", "FLOOR((column - least) / width)"),
        ("SELECT TIME_BUCKET(INTERVAL '1 month', d) AS m, COUNT(*) FROM t GROUP BY m", "DATE_TRUNC('month', column)"),
        ("SELECT GEOMEAN(x) FROM t", "EXP(AVG(LN(column)))"),
        ("SELECT MODE(a) FROM t", "SELECT column, COUNT(*) AS n FROM t GROUP BY column ORDER BY n DESC"),
        ("SELECT KURTOSIS(x) FROM t", "the aggregates are COUNT, SUM"),
        ("SELECT ENTROPY(x) FROM t", "the aggregates are COUNT, SUM"),
        ("PIVOT t ON a USING COUNT(*)", "release.frame.pivot(index='a', columns='b', values='n')"),
        ("SUMMARIZE t", "session.table('t').describe('column', epsilon=0.1)"),
        ("DESCRIBE t", "session.table('t').domain"),
        ("SELECT COUNT(*) FROM t WHERE SUBSTR(a, -2) = 'x'", "RIGHT"),
        ("SELECT COUNT(*) FROM t WHERE SUBSTR(a, x) = 'x'", "written out"),
        ("SELECT COUNT(*) FROM t WHERE LEFT(a, x) = 'x'", "LEFT(column, 2)"),
        ("SELECT COUNT(*) FROM t WHERE ROUND(x, y) = 1", "written out"),
        ("SELECT COUNT(*) FROM t WHERE REPEAT(a, 3) = 'x'", "REPEAT"),
        ("SELECT COUNT(*) FROM t WHERE CAST(x AS BLOB) = 'x'", "BIGINT, DOUBLE"),
        ("SELECT COUNT(*) FROM t WHERE CAST(x AS INT[]) = [1]", "BIGINT, DOUBLE"),
        ("SELECT COUNT(*) FROM t WHERE d > DATE '2024-02-30'", "DATE '2024-05-31'"),
        ("SELECT COUNT(*) FROM t WHERE d > d + INTERVAL (x) DAY", "INTERVAL 7 DAY"),
        ("SELECT COUNT(*) FROM t WHERE d > d + INTERVAL 100000 YEAR", "INTERVAL 7 DAY"),
        ("SELECT COUNT(*) FROM t WHERE EXTRACT(CENTURY FROM d) = 20", "EXTRACT takes"),
        ("SELECT COUNT(*) FROM t WHERE DATE_TRUNC('decade', d) = d", "one of YEAR"),
        ("SELECT COUNT(*) FROM t WHERE (a, b) IN ((1, 2))", "one by one"),
        ("SELECT a b c FROM t", "cannot be read"),
        ("SELECT COUNT(*) GROUP FROM t", "a word of SQL"),
        ("SELECT COUNT(*) FROM t ORDER", ""),
        ("SELECT COUNT(*) FROM t AS select", ""),
        ("SELECT a AS from FROM t", ""),
        ("SELECT " + "(" * 200 + "x" + ")" * 200 + " FROM t", "nested too deeply"),
        ("SELECT " + "NOT " * 5000 + "x FROM t", "nested too deeply"),
        ("SELECT FROM t", "after SELECT"),
        (f"{DP} FROM t", "after SELECT"),
        ("SELECT 1 FROM t\x00", "cannot be in a statement"),
        ("x" * 1_000_001, "at most 1,000,000"),
    ],
)
def test_the_rest_is_refused_with_what_there_is_instead(statement, says):
    message = refusal(statement)
    assert says in message
    assert "\x00" not in message.split("\n")[0]
    assert "sqlglot" not in message


def test_errors_point_into_what_was_written():
    message = refusal(f"{DP}\n  OPTIONS(epsilon = 1,\n          delta = 2)\n  COUNT(*) FROM t")
    assert "(line 3, column 19)" in message
    message = refusal("SELECT ANON_SUM(x,\n 0,\n 1), ANON_COUNT(*, 3), HASH(x)\nFROM t")
    assert "(line 3, column 24)" in message
    assert pointed(refusal("SELECT ANON_SUM(x, 0, 1), FOO(:lo) FROM t")).startswith("FOO")


# ---- nobody can write what is put in place of a clause or a call


def test_markers_cannot_be_written():
    for statement in ("SELECT \x000, COUNT(*) FROM t", 'SELECT "\x000" FROM t', "SELECT '\x000' FROM t"):
        assert "cannot be in a statement" in refusal(statement)
    assert "no text can have" in refusal("SELECT COUNT(*) FROM t WHERE a = :who", who="\x000")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 'SELECT WITH ANONYMIZATION OPTIONS(epsilon=9)', COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t -- SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=9)",
        "SELECT COUNT(*) /* SUM(x, epsilon => 9) */ FROM t",
        'SELECT "SUM(x, epsilon => 9)", COUNT(*) FROM t',
        "SELECT 'a'' SUM(x, epsilon => 9)', COUNT(*) FROM t",
    ],
)
def test_texts_and_comments_are_no_clauses(statement):
    surface = read(statement)
    assert clause_of(surface.tree) is None
    assert [found.epsilon for node in surface.tree.walk() if (found := call_of(node))] == [None]
    assert "/*" not in surface.tree.sql("duckdb")


def test_names_that_look_like_ours_are_names():
    surface = read('SELECT "0", count, sum AS count, "COUNT" FROM options AS clamped WHERE epsilon = 1')
    assert not any(call_of(node) for node in surface.tree.walk())
    assert "count" in refusal("SELECT a FROM t AS count(a)").lower()


# ---- parameters


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        (":who", "'O''Neil'"),
        (":lo", "(-2)"),
        (":hi", "5.5"),
        (":np", "7"),
        (":yes", "TRUE"),
        (":dec", "0.1"),
        (":day", "(CAST('2024-02-29' AS DATE))"),
        (":moment", "(CAST('2024-02-29 12:30:00' AS TIMESTAMP))"),
    ],
)
def test_parameters_are_literals_of_the_tree(written, sql):
    surface = read(f"SELECT COUNT(*) FROM t WHERE a = {written}")
    assert surface.tree.args["where"].this.expression.sql("duckdb") == sql
    assert not list(surface.tree.find_all(exp.Placeholder, exp.Parameter))


@pytest.mark.parametrize(
    "value", ["x' OR 1=1 --", "'); DROP TABLE t; --", "\\' OR TRUE --", '"', "`", "/*", "$$", "{{", ":lo", "@e", "\n;"]
)
def test_a_parameter_never_becomes_text_of_the_statement(value):
    for statement in ("SELECT COUNT(*) FROM t WHERE a = :v", f"{DP} COUNT(*) FROM t WHERE a = @v AND b = :v"):
        surface = read(statement, v=value)
        literals = [node.this for node in surface.tree.args["where"].find_all(exp.Literal)]
        assert set(literals) == {value}
        again = read(surface.tree.sql("duckdb"))  # and it is quoted when it is written out
        assert {node.this for node in again.tree.args["where"].find_all(exp.Literal)} == {value}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*) FROM :what",
        "SELECT COUNT(*) FROM t, :what",
        "SELECT COUNT(*) FROM t AS :what",
        "SELECT COUNT(*) FROM t JOIN s USING (:what)",
        "SELECT a AS :what FROM t",
        "SELECT t.:what FROM t",
        "SELECT :what.a FROM t",
        "SELECT :what(a) FROM t",
        "WITH :what AS (SELECT 1) SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t AS x(:what)",
        "SELECT SUM(x, :what => 1) FROM t",
        "SELECT CAST(x AS :what) FROM t",
        "SELECT EXTRACT(:what FROM d) FROM t",
        f"{DP} OPTIONS(privacy_unit_column = @what) COUNT(*) FROM t",
        f"{DP} OPTIONS(@what = 1) COUNT(*) FROM t",
    ],
)
def test_a_parameter_is_a_value_and_no_name(statement):
    assert "(line 1" in refusal(statement, what="secret")


def test_a_colon_in_a_text_is_no_parameter():
    assert read("SELECT COUNT(*) FROM t WHERE a = ':lo' AND x::INT = 1").tree.find(exp.Literal).this == ":lo"


# ---- whatever is written


SEEDS = [
    "SELECT region, COUNT(*) AS n, SUM(x) FILTER (WHERE y > :hi), percentile_cont(0.25) within group (order by z desc) "
    "FROM t GROUP BY region",
    f"{DP} OPTIONS(epsilon = @e, delta=1e-6, kappa=3, privacy_unit_column=a.`b`) region, SUM(x, "
    "contribution_bounds_per_group => (@lo, 100), epsilon => 0.1) + 1 AS s FROM `p.d.t` GROUP BY region",
    "SELECT WITH ANONYMIZATION ANON_SUM(x, :lo, 10), ANON_COUNT(x CLAMPED BETWEEN 0 AND 4), ANON_NTILE(x, 0.3, 0, 10) "
    "FROM t",
    "WITH q AS (SELECT u, CASE WHEN x > 3 THEN 'a' ELSE 'b' END AS k FROM t JOIN s USING (u) WHERE d >= DATE "
    "'2020-01-01' AND n LIKE 'x%') SELECT k, AVG(z), STDDEV_POP(z) FROM q GROUP BY k HAVING COUNT(*) > 10 LIMIT 5",
    "SELECT EXTRACT(YEAR FROM d) AS y, DATE_TRUNC('month', d) m, COUNT(*) FROM t, UNNEST(t.tags) AS u(tag) WHERE x IN "
    "(SELECT id FROM p) AND EXISTS (SELECT 1 FROM p WHERE p.id = t.x) GROUP BY 1, 2",
]
PIECES = re.findall(
    r"\S+",
    "SELECT FROM WHERE WITH ANONYMIZATION OPTIONS ( ) , . : @ => = AUTO NULL 1 'a' \"b\" `c` CLAMPED BETWEEN AND COUNT "
    "ANON_SUM * DISTINCT GROUP BY HAVING JOIN UNION CASE END IN EXISTS OVER FILTER WITHIN INTERVAL CAST AS [ ] { } ; "
    "-- /* */ # ? $$ || :: ! ~ \\ ' \" ` r' b' ''' 1e999 0x1F 1_0 .5 5. UNNEST LATERAL PIVOT VALUES RECURSIVE é",
)


def mangled(rng):
    words = rng.choice(SEEDS).split(" ")
    for _ in range(rng.choice([1, 2, 4])):
        place = rng.randrange(len(words) + 1)
        change = rng.randrange(4)
        if change == 0:
            words.insert(place, rng.choice(PIECES))
        elif change == 1:
            words[place : place + rng.randrange(3)] = []
        elif change == 2:
            words[place:] = rng.choice(SEEDS).split(" ")[place:]
        else:
            joined = " ".join(words)
            cut = rng.randrange(len(joined) + 1)
            words = (joined[:cut] + rng.choice(PIECES) + joined[cut + rng.randrange(2) :]).split(" ")
    return " ".join(words)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_written_is_read_or_refused(seed):
    rng = random.Random(seed)
    kept = 0
    for _ in range(800):
        statement = mangled(rng)
        try:
            surface = read(statement)
        except SQLError:
            continue
        kept += 1
        assert "\x00" not in surface.tree.sql("duckdb"), statement
    assert kept > 10


def test_reading_takes_a_moment():
    for statement in SEEDS:
        assert cost(lambda statement=statement: read(statement), 10) < 3, statement  # 1 at most


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("SELECT COUNT(*) FROM t WHERE x BETWEEN 1 5", "AND is missing"),
        ("SELECT COUNT(*) FROM t WHERE x BETWEEN 1 2 AND 5", "AND is missing"),
        ("SELECT COUNT(*) FROM t WHERE x = BOOL 5", "CAST(value AS type)"),
        ("SELECT COUNT(*) FROM t WHERE x = 'a' 'b'", "||"),
        ("SELECT COUNT(*) FROM t WHERE x IN > 2", "after IN"),
        ("SELECT COUNT(*) FROM t WHERE x NOT IS NOT NULL", "write IS NOT NULL"),
        ("SELECT COUNT(*) AS FROM t", "after AS"),
        ("SELECT AS COUNT(*) FROM t", "AS stands between"),
        ("SELECT COUNT(x AS) FROM t", "after AS"),
        ("SELECT COUNT(*) FROM t NATURAL UNION ALL SELECT 1 FROM t", "JOIN is missing"),
        ("SELECT COUNT(*) FROM t CROSS s", "JOIN is missing"),
        ("SELECT CASE WHEN x > 1 'a' ELSE 'b' END, COUNT(*) FROM t", "THEN is missing"),
        ("SELECT SUM(x) FILTER (WHERE CASE WHEN x > 1 'a' END) FROM t", "THEN is missing"),
    ],
)
def test_what_is_missing_is_not_guessed(statement, says):
    assert says in refusal(statement)
