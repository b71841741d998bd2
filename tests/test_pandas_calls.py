"""Natural calls of pandas users that have one plain meaning: each answers as pandas does with the rows."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session

CALLS = [  # ours without its price, and pandas' own
    ("df.dp['age'].mean", "[df['age'].mean()]"),
    ("df.dp['sex'].value_counts", "df['sex'].value_counts()"),
    ("df.dp.groupby('sex').size", "df.groupby('sex').size()"),
    ("df.dp.groupby('sex')['age'].mean", "df.groupby('sex')['age'].mean()"),
    ("df.dp.groupby('sex')['age'].sum", "df.groupby('sex')['age'].sum()"),
    ("partial(df.dp.crosstab, 'sex', 'ill', normalize=True)", "pd.crosstab(df.sex, df.ill, normalize=True).stack()"),
    (
        "partial(df.dp.crosstab, 'sex', 'ill', normalize='index')",
        "pd.crosstab(df.sex, df.ill, normalize='index').stack()",
    ),
    (
        "partial(df.dp.crosstab, 'sex', 'ill', normalize='columns')",
        "pd.crosstab(df.sex, df.ill, normalize='columns').stack()",
    ),
]


@pytest.fixture(scope="module")
def df():
    number = np.arange(1000)
    rows = pd.DataFrame({"age": number % 100, "sex": np.where(number < 600, "F", "M"), "ill": number % 7 == 0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        with exact_session(dpn.Budget(epsilon=1000.0)) as session:
            session.protect(rows, "visits", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"], "ill": bool})
            yield rows


@pytest.mark.parametrize(("ours", "theirs"), CALLS, ids=[ours for ours, _ in CALLS])
def test_it_answers_as_pandas_does(df, ours, theirs):
    from functools import partial

    names = {"df": df, "pd": pd, "partial": partial}
    assert eval(ours, names)(epsilon=1.0).run()["value"].tolist() == pytest.approx(list(eval(theirs, names)))


def test_answers_have_the_names_they_were_given(df):
    found = df.dp.groupby("sex").agg(n=("age", "size"), average=("age", "mean"), epsilon=1.0).run()
    expected = df.groupby("sex").agg(n=("age", "size"), average=("age", "mean"))
    assert found["n"].tolist() == expected["n"].tolist()
    assert found["average"].tolist() == pytest.approx(expected["average"].tolist())
