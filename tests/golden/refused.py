"""What is refused, by class and words: questions, statements, budgets, tables."""

import pandas as pd
from golden.rows import PATIENT, PEOPLE, VISITS, people, protect_clinic, protect_people, visits
from golden.stories import Story

import dpnotebook as dpn

SMALL = dpn.Budget(1.0, 1e-6)
FRAME = people()
VERBS = {
    "no accuracy": lambda s, t: t.count(),
    "two accuracies": lambda s, t: t.count(epsilon=0.1, error=5),
    "no such keyword": lambda s, t: t.count(eps=0.1),
    "no epsilon": lambda s, t: t.count(epsilon=0),
    "no error": lambda s, t: t.count(error="many"),
    "no such column": lambda s, t: t.histogram("incme", epsilon=0.1),
    "column twice": lambda s, t: t.crosstab("sex", "sex", epsilon=0.1),
    "one column": lambda s, t: t.crosstab("sex", epsilon=0.1),
    "sum of categories": lambda s, t: t.sum("sex", epsilon=0.1),
    "bounds upside down": lambda s, t: t.sum("income", bounds=(10, 0), epsilon=0.1),
    "quantile of none": lambda s, t: t.quantile("age", 2, epsilon=0.1),
    "ranked by its key": lambda s, t: t.groupby("age").quantile("age", epsilon=0.1),
    "no such level": lambda s, t: t.count(where="sex == 'X'", epsilon=0.1),
    "no such name": lambda s, t: t.count(where="agee > 3", epsilon=0.1),
    "no condition": lambda s, t: t.count(where="age >", epsilon=0.1),
    "a call": lambda s, t: t.count(where="__import__('os')", epsilon=0.1),
    "nobody": lambda s, t: t.count(where="age < 0", epsilon=0.1),
    "no workload": lambda s, t: t.answer([1, 2], epsilon=0.1),
    "workload of other cells": lambda s, t: t.answer(dpn.workload.Prefix(7), on="age", epsilon=0.1),
    "strategy of another": lambda s, t: t.answer(
        dpn.ranges("age"), strategy=dpn.strategy.select(dpn.workload.Prefix(7)), epsilon=0.1
    ),
    "percent of nothing": lambda s, t: t.count(error="5%"),
    "beyond the budget": lambda s, t: t.count(epsilon=2.0),
    "within it": lambda s, t: t.count(epsilon=0.6),
    "beyond what is left": lambda s, t: t.histogram("sex", epsilon=0.6),
    "no such release": lambda s, t: s.release(99),
    "no number": lambda s, t: s.release("first"),
    "lower budget": lambda s, t: s.raise_budget(dpn.Budget(0.5, 1e-6), reason="less"),
    "no reason": lambda s, t: s.raise_budget(dpn.Budget(2.0, 1e-6), reason=" "),
    "other noise": lambda s, t: s.renew_budget(dpn.Budget(2.0), reason="more"),
    "not protected": lambda s, t: s.table("persons"),
    "no such column declared": lambda s, t: s.protect(FRAME, "b", domain={"aged": dpn.Range(0, 9)}),
    "texts as numbers": lambda s, t: s.protect(FRAME, "b", domain={"sex": dpn.Range(0, 9)}),
    "unit without rows": lambda s, t: (
        s.protect(FRAME, "b", unit="age", domain=PEOPLE).count(epsilon=0.1, simultaneous=True).plan
    ),
    "rows without unit": lambda s, t: s.protect(FRAME, "b", max_rows=3, domain=PEOPLE),
    "other rows": lambda s, t: s.protect(FRAME.head(20), "people", domain=PEOPLE),
    "public by accident": lambda s, t: s.register(FRAME, "b"),
    "no range": lambda s, t: dpn.Range(9, 0),
    "no bins": lambda s, t: dpn.Bins(0, 10, width=3),
    "no levels": lambda s, t: dpn.Categories([]),
    "levels twice": lambda s, t: dpn.Categories(["a", "a"]),
    "no budget": lambda s, t: dpn.Budget(-1.0),
    "no unit": lambda s, t: dpn.Unit("", column="a"),
    "no planner": lambda s, t: dpn.Session(SMALL, planner="best"),
    "no session of no budget": lambda s, t: dpn.Session(1.0),
    "pioneer without pure noise": lambda s, t: dpn.Session(SMALL, planner="pioneer"),
    "no frame of the session": lambda s, t: pd.DataFrame({"a": [1]}).dp.count(epsilon=0.1),
}
STATEMENTS = {
    "no statement": "",
    "not a question": "DELETE FROM visits",
    "two statements": "SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits",
    "no such table": "SELECT COUNT(*) FROM visit",
    "no such column": "SELECT COUNT(*) FROM visits WHERE cst > 3",
    "rows": "SELECT cost FROM visits",
    "all rows": "SELECT * FROM visits",
    "a group of rows": "SELECT drug, cost, COUNT(*) FROM visits GROUP BY drug",
    "a window": "SELECT COUNT(*) FROM (SELECT patient_id, RANK() OVER (ORDER BY cost) AS r FROM visits)",
    "a random": "SELECT COUNT(*) FROM visits WHERE RANDOM() < 0.5",
    "a clock": "SELECT COUNT(*) FROM visits WHERE day < NOW()",
    "a file": "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "an unknown function": "SELECT COUNT(*) FROM visits WHERE UPPR(drug) = 'A'",
    "distinct values": "SELECT COUNT(DISTINCT CONCAT(patient_id, drug)) FROM visits",
    "text summed": "SELECT SUM(drug) FROM visits",
    "a cross join": "SELECT COUNT(*) FROM visits, patients",
    "a join by another column": "SELECT COUNT(*) FROM visits JOIN patients ON visits.ward = patients.town",
    "a full sample": "SELECT COUNT(*) FROM visits TABLESAMPLE RESERVOIR (3 ROWS)",
    "recursion": "WITH RECURSIVE t AS (SELECT 1) SELECT COUNT(*) FROM t",
    "limit inside": "SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 5) AS q",
    "aggregate of aggregate": "SELECT SUM(COUNT(*)) FROM visits",
    "no parameter": "SELECT COUNT(*) FROM visits WHERE cost > :most",
    "unbounded parenthesis": "SELECT COUNT(* FROM visits",
    "an option": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilo = 1) COUNT(*) FROM visits",
    "an option of nothing": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0) COUNT(*) FROM visits",
    "bounds upside down": "SELECT ANON_SUM(cost, 9, 0) FROM visits",
    "rollup": "SELECT drug, MEDIAN(cost) FROM visits GROUP BY ROLLUP (drug)",
    "filter": "SELECT COUNT(*) FILTER (WHERE cost > 3) FROM visits",
    "string_agg": "SELECT STRING_AGG(drug, ',') FROM visits",
    "beyond the budget": "SELECT drug, COUNT(*) FROM visits WHERE cost > 5 GROUP BY drug",
    "epsilon twice": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM visits",
    "another unit": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = drug) COUNT(*) FROM visits",
    "public alone": "SELECT COUNT(*) FROM wards",
    "a column with itself": "SELECT CORR(cost, cost) FROM visits",
    "one column": "SELECT COVAR_POP(cost) FROM visits",
    "bounds of one column": "SELECT CORR(cost, age, contribution_bounds_per_row => (0, 9)) FROM visits",
    "a text beside a number": "SELECT CORR(cost, drug) FROM visits",
}


def _statement(text):
    return lambda s, t: s.sql(text, epsilon=2.0)


def _no_delta(s):
    return s.protect(visits(), "visits", unit=PATIENT, max_rows=4, domain=VISITS)


STORIES = [
    Story("refused_verbs", SMALL, protect_people, VERBS),
    Story("refused_statements", SMALL, protect_clinic, {name: _statement(text) for name, text in STATEMENTS.items()}),
    Story(
        "refused_without_delta",
        dpn.Budget(5.0),
        _no_delta,
        {
            "found keys": lambda s, t: s.sql("SELECT drug, COUNT(*) FROM visits GROUP BY drug", epsilon=1.0),
            "one norm": lambda s, t: s.sql("SELECT SUM(cost) FROM visits", epsilon=1.0, contribution="l2"),
            "error of found bounds": lambda s, t: s.sql("SELECT SUM(cost) AS total FROM visits", error=50, fresh=True),
            "relative error": lambda s, t: s.sql(
                "SELECT ANON_SUM(cost, 0, 9) AS total, ANON_COUNT(*) AS n FROM visits", error="5%"
            ),
        },
    ),
]
