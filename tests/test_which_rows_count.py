"""Which rows count: those with a place in every declared column where an answer is planned from them, all in SQL."""

from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn

RNG = np.random.default_rng(5)
WHO = np.arange(3_000) // 2
ROWS = pd.DataFrame(
    {
        "who": WHO,
        "ward": RNG.choice(["a", "b", "elsewhere"], WHO.size),
        "sex": np.where(RNG.random(WHO.size) < 0.1, None, RNG.choice(["F", "M"], WHO.size)),
        "pay": np.where(RNG.random(WHO.size) < 0.2, np.nan, RNG.uniform(0, 100, WHO.size)),
        "weight": RNG.normal(70, 8, WHO.size),
    }
)
DECLARED = {"ward": ["a", "b"], "sex": ["F", "M"], "pay": dpn.Bins(0, 100, width=10)}
HAS_WARD, HAS_SEX, HAS_PAY = ROWS.ward != "elsewhere", ROWS.sex.notna(), ROWS.pay.notna()
EVERY = ROWS.who >= 0
LEFT_OUT = "are left out, as declared"
COUNT_HERE = "count here as in SQL; answers planned from declared columns leave them out"


def asked(text, domain=DECLARED, **options):
    """Return what a statement says of how many rows there are, hardly with noise, and what is noted of those."""
    with closing(dpn.Session(dpn.Budget(20_000.0, delta=1e-6), ":memory:", confirm="never")) as session:
        session.protect(ROWS, "rows", domain=domain, **options)
        release = session.sql(text, epsilon=500.0).run()
        found = [note for note in release.notes if LEFT_OUT in note or COUNT_HERE in note]
        return release.frame.n.sum(), found


MANY = {"unit": "who", "max_rows": 2}
CASES = {
    "planned": (
        "SELECT COUNT(*) AS n FROM rows",
        HAS_WARD & HAS_SEX & HAS_PAY,
        ["rows with no ward, sex or pay, or with an undeclared ward or sex, are left out, as declared"],
    ),
    "planned, of some": (
        "SELECT COUNT(*) AS n FROM rows WHERE ward = 'a' AND sex = 'F'",
        (ROWS.ward == "a") & (ROWS.sex == "F") & HAS_PAY,
        ["rows with no pay are left out, as declared"],
    ),
    "planned, beside a mean of values that some rows lack": (
        "SELECT COUNT(*) AS n, AVG(pay) AS m FROM rows WHERE ward = 'a' AND sex = 'F'",
        (ROWS.ward == "a") & (ROWS.sex == "F") & HAS_PAY,
        ["rows with no pay are left out, as declared"],
    ),
    "by itself": (
        "SELECT COUNT(*) AS n, AVG(weight) AS m FROM rows",
        EVERY,
        [f"rows with no ward, sex or pay, or with an undeclared ward or sex, {COUNT_HERE}"],
    ),
    "by itself, groups": (
        "SELECT ward, sex, COUNT(*) AS n, AVG(weight) AS m FROM rows GROUP BY ward, sex",
        HAS_WARD & HAS_SEX,
        [f"rows with no pay {COUNT_HERE}"],
    ),
    "by itself, beside a sum of values that some rows lack": (
        "SELECT COUNT(*) AS n, SUM(pay * pay) AS s FROM rows WHERE ward = 'a' AND sex = 'F'",
        (ROWS.ward == "a") & (ROWS.sex == "F"),
        [f"rows with no pay {COUNT_HERE}"],
    ),
    "by itself, of values alone": (
        "SELECT COUNT(pay) AS n, SUM(pay * pay) AS s FROM rows WHERE ward = 'a' AND sex = 'F'",
        (ROWS.ward == "a") & (ROWS.sex == "F") & HAS_PAY,
        [],
    ),
}


@pytest.mark.parametrize("options", [{}, MANY], ids=["a row each", "two rows each"])
@pytest.mark.parametrize("case", CASES)
def test_an_answer_counts_the_rows_that_it_says(case, options):
    text, rows, notes = CASES[case]
    count, said = asked(text, **options)
    assert said == notes
    assert count == pytest.approx(rows.sum(), abs=0.5 if options else 0.2)


def test_all_rows_count_where_nobody_says_how_many_a_person_has():
    for case in ("planned", "by itself"):
        count, said = asked(CASES[case][0], unit="who")
        assert said == []
        assert count == pytest.approx(len(ROWS), abs=0.5)


def test_nothing_is_said_where_every_value_has_a_place():
    whole = {"sex": dpn.Categories(["F", "M"], other="other", nullable=True)}
    for case in ("planned", "by itself"):
        count, said = asked(CASES[case][0], whole)
        assert said == []
        assert count == pytest.approx(len(ROWS), abs=0.2)


def test_a_protected_table_says_what_its_answers_leave_out():
    with closing(dpn.Session(dpn.Budget(1.0, delta=1e-6), ":memory:")) as session:
        assert "are left out" in repr(session.protect(ROWS, "few", domain=DECLARED, **MANY))
        assert "left out" not in repr(session.protect(ROWS, "many", domain=DECLARED, unit="who"))
