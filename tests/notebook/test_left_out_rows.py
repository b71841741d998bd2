"""A card says which rows do not count for want of what the question does not speak of."""

from contextlib import closing

import pandas as pd
import pytest

import dpnotebook as dpn

PEOPLE = pd.DataFrame({"sex": ["F", "M", "F", None], "bmi": [20.5, None, 31.0, 25.0], "ward": ["A", "B", "C", "A"]})


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda df: df.dp.count(epsilon=0.1), "Rows with no sex or bmi, or with an undeclared sex, are left out"),
        (lambda df: df.dp.count(where="bmi >= 20", epsilon=0.1), "Rows with no sex, or with an undeclared sex, are"),
        (lambda df: df.dp.groupby("sex").count(epsilon=0.1), "Rows with no bmi are left out, as declared"),
        (lambda df: df.dp.mean("bmi", where="sex == 'F'", epsilon=0.1), ""),
        (lambda df: df.dp.crosstab("sex", "bmi", epsilon=0.1), ""),
    ],
)
def test_rows_that_lack_what_is_not_asked_about_are_left_out_and_the_card_says_so(ask, said):
    frame = PEOPLE.copy()
    with closing(dpn.Session(budget=dpn.Budget(epsilon=1))) as session:
        session.protect(frame, "people", domain={"sex": ["F", "M"], "bmi": dpn.Bins(10, 60, width=1)})
        shown = str(ask(frame).plan)
    assert (said in shown) if said else ("left out" not in shown)


def test_rows_that_have_a_place_are_not_spoken_of():
    frame = PEOPLE.copy()
    with closing(dpn.Session(budget=dpn.Budget(epsilon=1))) as session:
        domain = {"sex": dpn.Categories(["F", "M"], other="other", nullable=True)}
        session.protect(frame, "people", domain=domain | {"bmi": dpn.Bins(10, 60, width=1, nullable=True)})
        assert "left out" not in str(frame.dp.count(epsilon=0.1).plan)
