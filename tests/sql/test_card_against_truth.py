"""What cards say before a statement runs, and intervals after it, against what answers do in many runs.

The table is as people have them: rows a person, groups and values are skewed, some keys and values are missing, one
group is small. Each statement is measured once without noise, and that is the truth: of contributions as they were
bounded. Then its noise is drawn many times, and every answer is read as if it had been released.

The study of 2,000 runs prints a table: `pytest -n 0 -m slow -s tests/sql/test_card_against_truth.py`.
"""

import math

import numpy as np
import pytest
from noise_studies import Case, Study, visits
from scipy.stats import binom

import dpnotebook as dpn

RUNS = 2_000
RARE = 1e-7  # probability that a row fails by chance: there are hundreds
WITHIN = 1.15  # times an error that a card may say of another

OF = "FROM visits GROUP BY city"
BY_YEAR = "FROM visits GROUP BY year"
COUNTED = f"SELECT city, COUNT(*) AS n, ANON_SUM(cost, 0, 1000) AS s {OF}"
SHARPER = (("epsilon", 2.0),)
WITHIN_TWO = " WHERE city IN ('Ulm', 'Bonn') GROUP"
DECLARED = (("cost", dpn.Bins(0, 400, width=10)), ("age", dpn.Range(0, 99)))
BY_CITY = f"SELECT city, COUNT(*) AS n, SUM(cost) AS s {OF}"
CASES = {
    "counts": Case(f"SELECT city, COUNT(*) AS n, COUNT(DISTINCT who) AS u, COUNT(cost) AS c {OF}"),
    "sums": Case(f"SELECT city, SUM(cost) AS s, SUM(nights) AS k {OF}"),
    "means": Case(f"SELECT city, AVG(cost) AS m, AVG(age) AS a {OF}"),
    "means with bounds": Case(f"SELECT city, ANON_AVG(cost, 0, 400) AS m {OF}"),
    "means of units": Case(f"SELECT city, ANON_AVG(cost, 0, 400) AS m {OF}", "laplace"),
    "means of sampled rows": Case(f"SELECT city, ANON_AVG(cost, 0, 400) AS m {OF}", "gaussian", "rows"),
    "variances": Case(f"SELECT city, VAR_POP(age) AS v {OF}"),
    "deviations": Case(f"SELECT city, STDDEV(age) AS d {OF}"),
    "medians": Case(f"SELECT city, MEDIAN(cost) AS q {OF}", rough=("q",)),
    "percentiles": Case(f"SELECT city, PERCENTILE_CONT(age, 0.9) AS q {OF}", rough=("q",)),
    "first quartiles": Case(f"SELECT city, PERCENTILE_CONT(cost, 0.25) AS q {OF}", rough=("q",)),
    "highest percentiles": Case(f"SELECT city, PERCENTILE_CONT(cost, 0.99) AS q {OF}", rough=("q",)),
    "ratios": Case(
        f"SELECT city, SUM(cost) / COUNT(*) AS r, COUNT(*) FILTER (WHERE sick = 'yes') / COUNT(*) AS p {OF}"
    ),
    "ratios with Laplace noise": Case(
        f"SELECT city, ANON_SUM(cost, 0, 4000) / ANON_COUNT(*, 0, 12) AS r {OF}", "laplace", rough=("r",)
    ),
    "rounded": Case(f"SELECT city, ROUND(COUNT(*), -1) AS n, ROUND(AVG(cost), 1) AS m {OF}", rough=("n",)),
    "cases": Case(
        f"SELECT city, CASE WHEN COUNT(*) > 500 THEN SUM(cost) / COUNT(*) END AS m {OF} HAVING COUNT(*) > 900"
    ),
    "outer": Case(f"SELECT SUM(n) AS n, SUM(s) / SUM(n) AS m FROM ({BY_CITY})"),
    "largest of groups": Case(f"SELECT MAX(n) - MIN(n) AS w FROM ({BY_CITY})"),
    "joined": Case(
        f"WITH a AS (SELECT city, COUNT(*) AS n {OF}), b AS (SELECT city, SUM(cost) AS s {OF}) "
        "SELECT a.city, s / n AS r, n / (SELECT SUM(n) FROM a) AS share FROM a JOIN b USING (city)"
    ),
    "shares of the total": Case(f"SELECT city, COUNT(*) / SUM(COUNT(*)) OVER () AS share {OF}"),
    "changes": Case(
        "SELECT year, SUM(cost) - LAG(SUM(cost)) OVER (ORDER BY year) AS d, SUM(SUM(cost)) OVER (ORDER BY year) AS r, "
        "SUM(cost) / LAG(SUM(cost)) OVER (ORDER BY year) - 1 AS g FROM visits GROUP BY year"
    ),
    "larger groups": Case(
        "SELECT city, year, AVG(cost) AS m, COUNT(*) AS n FROM visits GROUP BY ROLLUP (city, year) ORDER BY city, year"
    ),
    "functions": Case(f"SELECT city, SQRT(COUNT(*)) AS q, AVG(cost) / AVG(age) AS z {OF} HAVING COUNT(*) > 700"),
    "rows a unit": Case(f"SELECT city, COUNT(*) / COUNT(DISTINCT who) AS each {OF}"),
    "multiples": Case(f"SELECT city, 2 * AVG(cost) + 1 AS m, AVG(cost) * COUNT(*) AS t {OF} HAVING COUNT(*) > 700"),
    "covariances": Case(
        "SELECT city, ANON_COUNT(*, 0, 12) AS n, "
        "ANON_COVAR_POP(cost, age, contribution_bounds_per_row => ((0, 400), (0, 99))) AS c "
        "FROM visits WHERE city IN ('Ulm', 'Bonn', 'Jena') GROUP BY city",
        rough=("c",),
    ),
    "selected": Case("SELECT city, AVG(cost) AS m FROM visits WHERE sick = 'yes' AND year > 2020 GROUP BY city"),
    "of all": Case("SELECT COUNT(*) AS n, AVG(cost) AS m, COUNT(DISTINCT who) AS u FROM visits"),
    "correlations": Case(
        f"SELECT year, CORR(cost, age) AS c {BY_YEAR}", domain=DECLARED, rough=("c",), accuracy=(("epsilon", 6.0),)
    ),
    "declared bounds": Case(
        f"SELECT city, SUM(cost) AS s, AVG(cost) AS m, STDDEV(cost) AS d {OF}", domain=DECLARED
    ),
    "joined with public rows": Case(
        "SELECT region, COUNT(*) AS n, AVG(cost) AS m FROM visits JOIN places USING (city) GROUP BY region"
    ),
    "common table": Case(
        "WITH old AS (SELECT city, age, cost * 2 AS twice FROM visits WHERE age > 60) "
        "SELECT city, COUNT(*) AS n, AVG(twice) AS m FROM old GROUP BY city"
    ),
    "worked out of rows": Case(
        f"SELECT city, SUM(CASE WHEN sick = 'yes' THEN age ELSE 0 END) AS s, AVG(age / 10 + year) AS m {OF}",
        domain=(("age", dpn.Range(0, 99)),),
    ),
    "counts of an error": Case(f"SELECT city, COUNT(*) AS n {OF}", "gaussian", "rows", accuracy=(("error", 60.0),)),
    "means of an error": Case(f"SELECT city, ANON_AVG(cost, 0, 400) AS m {OF}", accuracy=(("error", 20.0),)),
    "without delta": Case(
        f"SELECT year, COUNT(*) AS n, SUM(age) AS s, AVG(cost) AS m {BY_YEAR}", "laplace", "rows", delta=0.0,
        domain=(("age", dpn.Range(0, 99)),),
    ),
    "medians without delta": Case(f"SELECT year, MEDIAN(cost) AS q {BY_YEAR}", "laplace", rough=("q",), delta=0.0),
    "deviations without delta": Case(f"SELECT year, STDDEV(age) AS d {BY_YEAR}", "laplace", delta=0.0),
    "one row a person": Case(
        f"SELECT city, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS m {OF}", one_row=True
    ),
    "one row without delta": Case(
        f"SELECT year, SUM(cost) AS s, AVG(cost) AS m, VAR_POP(cost) AS v {BY_YEAR}", "laplace", delta=0.0, one_row=True
    ),
    "sharper": Case(
        f"SELECT city, COUNT(*) AS n, ANON_SUM(cost, 0, 1000) AS s, ANON_SUM(cost, 0, 1000) / COUNT(*) AS r {OF}",
        "gaussian", "rows", before=COUNTED, accuracy=SHARPER,
    ),
    "sharper without delta": Case(
        f"SELECT year, COUNT(*) AS n, ANON_SUM(cost, 0, 1000) AS s {BY_YEAR}", "laplace",
        before=f"SELECT year, COUNT(*) AS n, ANON_SUM(cost, 0, 1000) AS s {BY_YEAR}", accuracy=SHARPER, delta=0.0,
    ),
    "sharper means": Case(
        f"SELECT city, ANON_AVG(cost, 0, 400) AS m, 2 * ANON_AVG(cost, 0, 400) AS t {OF}", "gaussian", "rows",
        before=f"SELECT city, ANON_AVG(cost, 0, 400) AS m {OF}", accuracy=SHARPER,
    ),
    "a part of what was released": Case(
        f"SELECT city, COUNT(*) AS n, SUM(cost) / COUNT(*) AS r {OF.replace(' GROUP', WITHIN_TWO)}", before=BY_CITY,
        accuracy=(("epsilon", 0.5),),
    ),
    "larger groups of what was released": Case(
        "SELECT year, COUNT(cost) AS n FROM visits WHERE sick IN ('yes', 'no') GROUP BY year",
        before="SELECT sick, year, COUNT(cost) AS n FROM visits GROUP BY sick, year",
        accuracy=(("epsilon", 0.3),), domain=(("sick", ["yes", "no"]),),
    ),
    "selected groups of what was released": Case(
        f"SELECT city, COUNT(*) AS n, SUM(cost) AS s {OF} HAVING COUNT(*) > 900 ORDER BY n DESC", before=BY_CITY,
        accuracy=(("epsilon", 0.5),),
    ),
}  # fmt: skip
AGAIN = [name for name, case in CASES.items() if case.before is not None]
QUICK = (
    "correlations",
    "sharper",
    "a part of what was released",
    "counts",
    "means",
    "means of units",
    "means of sampled rows",
    "variances",
    "medians",
    "percentiles",
    "of all",
)
LONG = ("sharper", "a part of what was released")  # these take as long as all others together
QUICK_DERIVED = ("ratios", "shares of the total", "changes", "multiples")
FORETOLD = ("shares of the total", "changes", "functions")
ALSO = ("outer", "multiples", "largest of groups", "ratios", "cases", "rows a unit", "larger groups")


@pytest.fixture(scope="module")
def table():
    return visits()


def check_card(study, runs):
    """Hold what the card said of the worst group against the error that it has."""
    told = []
    for name, said, errors, held in (study.measures if study.case.before is None else study.again)(runs):
        told.append((name, said, errors.max(), np.nanmin(held, initial=1.0), np.nanmax(held, initial=0.0)))
        slack = 1 + 5 / math.sqrt(2 * runs)  # five standard errors of a root mean square
        assert errors.max() / (WITHIN * slack) < said < errors.max() * WITHIN * slack, told
    return told


def check_intervals(study, runs, at_once=False):
    """Hold how often intervals of 95% hold against that, to one and a half points beyond what chance explains."""
    held, seen, together = study.derived(runs, at_once)
    assert held
    for (name, key), times in held.items():
        low, high = binom.ppf([RARE, 1 - RARE], seen[name, key], [0.935, 0.965])
        assert low <= times, (name, key, times / seen[name, key])
        if name not in study.case.rough:
            assert times <= high, (name, key, times / seen[name, key])
    assert sum(together) >= binom.ppf(RARE, runs, 0.935)
    shares = np.array([times / seen[one] for one, times in held.items() if seen[one] >= runs / 2])
    return float(shares.min()), float(shares.mean()), float(shares.max()), float(np.mean(together))


@pytest.mark.one_in(10)
@pytest.mark.statistical
@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow) if one in LONG else one for one in QUICK])
def test_cards_say_how_wrong_answers_will_be(name, table):
    assert check_card(Study(CASES[name], table), 400)


@pytest.mark.one_in(6)
@pytest.mark.statistical
@pytest.mark.parametrize("name", [*FORETOLD, *(pytest.param(name, marks=pytest.mark.slow) for name in ALSO)])
def test_cards_say_how_wrong_what_is_worked_out_will_be(name, table):
    """Where the aggregates were released before: to 15%, and what the redraws of a card are off by themselves."""
    told = list(Study(CASES[name], table).worked_out(2_000))
    assert told
    for _, said, halves in told:
        assert halves.max() / (WITHIN * 1.1) < said < halves.max() * WITHIN * 1.1, told


@pytest.mark.one_in(5)
@pytest.mark.statistical
@pytest.mark.parametrize("name", QUICK_DERIVED)
def test_intervals_of_what_is_worked_out_hold(name, table):
    check_intervals(Study(CASES[name], table), 12)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_cards_in_2000_runs(name, table, capsys):
    told = check_card(Study(CASES[name], table), RUNS)
    with capsys.disabled():
        for column, said, error, low, high in told:
            print(f"\n{name:26s} {column:10s} card {said:9.4g} truth {error:9.4g} held {low:.3f} to {high:.3f}", end="")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_intervals_in_2000_runs(name, table, capsys):
    low, mean, high, together = check_intervals(Study(CASES[name], table), RUNS, at_once=True)
    with capsys.disabled():
        print(f"\n{name:26s} held {low:.3f} {mean:.3f} {high:.3f}, all at once {together:.3f}", end="")
