"""Natural calls of pandas users that have one plain meaning: each answers as pandas does with the rows."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import DPError
from dpnotebook.notebook.estimate.expressions import query_in
from dpnotebook.testing import exact_session

CALLS = [  # ours without its price, and pandas' own
    ("df.dp['age'].mean", "[df['age'].mean()]"),
    ("df.dp.age.mean", "[df.age.mean()]"),
    ("df.dp['sex'].value_counts", "df['sex'].value_counts()"),
    ("df.dp.sex.value_counts", "df.sex.value_counts()"),
    ("df.dp.groupby('sex').size", "df.groupby('sex').size()"),
    ("df.dp.groupby('sex')['age'].mean", "df.groupby('sex')['age'].mean()"),
    ("df.dp.groupby('sex')['age'].sum", "df.groupby('sex')['age'].sum()"),
    ("df.dp.groupby('sex').age.mean", "df.groupby('sex').age.mean()"),
    ("partial(df.dp.crosstab, 'sex', 'ill', normalize=True)", "pd.crosstab(df.sex, df.ill, normalize=True).stack()"),
    (
        "partial(df.dp.crosstab, 'sex', 'ill', normalize='index')",
        "pd.crosstab(df.sex, df.ill, normalize='index').stack()",
    ),
    (
        "partial(df.dp.crosstab, 'sex', 'ill', normalize='columns')",
        "pd.crosstab(df.sex, df.ill, normalize='columns').stack()",
    ),
    ("df.dp.groupby(by='sex').size", "df.groupby(by='sex').size()"),
    ("df.dp.groupby('sex', as_index=False).size", "df.groupby('sex', as_index=False).size()['size']"),
    ("df.dp.groupby('sex', observed=False, dropna=False).count", "df.groupby('sex', dropna=False).size()"),
    ("df.dp.groupby(['sex', 'ill'], sort=True).size", "df.groupby(['sex', 'ill'], sort=True).size()"),
    (
        "partial(df.dp.groupby('sex').agg, value=pd.NamedAgg('age', 'mean'))",
        "df.groupby('sex').agg(value=pd.NamedAgg('age', 'mean'))['value']",
    ),
    (
        "partial(df.dp.groupby('sex').agg, value=pd.NamedAgg(column='age', aggfunc='sum'))",
        "df.groupby('sex').agg(value=pd.NamedAgg(column='age', aggfunc='sum'))['value']",
    ),
    *(
        (f"partial(df.dp.count, where={where!r})", f"[({where.replace('day.', 'df.day.')}).sum()]")
        for where in (
            "day.dt.day_name() == 'Monday'",
            "day.dt.day_name() != 'Friday'",
            "'January' == day.dt.month_name()",
        )
    ),
    (
        "partial(df.dp.count, where=\"day.dt.day_name() in ['Saturday', 'Sunday']\")",
        "[df.day.dt.day_name().isin(['Saturday', 'Sunday']).sum()]",
    ),
]

LOOKS = [  # of a release as of its frame
    *("columns", "index", "shape", "dtypes", "empty", "values", "T", "loc[0]", "iloc[-1]", "head(1)", "tail(1)"),
    *("get('value')", "xs(0)", "at[0, 'value']", "iat[0, 1]", "filter(['value'])", "drop(columns='sex')"),
    *("sort_values('value', ascending=False)", "sort_index()", "set_index('sex').loc['M']", "nlargest(1, 'value')"),
    *("nsmallest(1, 'value')", "query('value > 500')", "to_dict('records')", "to_numpy()", "to_json()", "to_string()"),
    *("round(1)", "rename(columns={'value': 'n'})", "sex", "std_error"),
]

NUMBERS = ["int(one)", "float(one)", "round(one)", "round(one, 1)", "f'{one:,.1f}'", "f'{one:.0f} rows'"]

REFUSED = [  # what is not done, and what it says to write
    ("one > 5", "float(release) > 5 compares the number, and release.interval says where the exact answer may be"),
    ("one <= 5", "float(release) <= 5"),
    ("max(one, 3)", "float(release) < 3"),
    ("one == 1000", "float(release) == 1000"),
    ("one != 1000.0", "float(release) == 1000.0"),
    ("two >= 5", "this release has several answers: release['value'] >= 5 compares each"),
    ("df.age > one", "float(release) < a Series"),
    ("one == df.age", "float(release) == a Series"),
    ("df.age.astype(object) * one", "a Series * float(release)"),
    ("np.float64(3) > one", "float(release) < 3.0"),
    ("np.asarray(df.age) + one", "+ float(release)"),
    ("one + 1", "float(release) + 1 is the number alone"),
    ("one - 1", "float(release) - 1"),
    ("1 - one", "1 - float(release)"),
    ("one / 2", "float(release) / 2"),
    ("100 / one", "100 / float(release)"),
    ("two * 2", "release['value'] * 2"),
    ("2 * two", "2 * release['value']"),
    ("one + one", "releases are compared, by release - other and release / other"),
    ("sum([one, one])", "0 + float(release)"),
    ("np.mean(one)", "there is one answer, so there is no mean to take: it is float(release)"),
    ("np.max(two)", "take it of each draw of release.samples()"),
    ("two.merge(two)", "release.frame.merge(other.frame)"),
    ("two.pivot(index='sex')", "release.to_frame() is a copy that has pivot"),
    ("two.hist()", "release.plot() draws them"),
    ("two.plot.bar()", 'release.plot(kind="bar")'),
    ("two.plot.scatter(x='sex', y='value')", 'release.plot(kind="point")'),
    ("two.plot.pie()", "for others draw release.frame yourself"),
    ("two.valeu", "did you mean value?"),
    ("f'{one:abc}'", "'abc' is no format of 1000.0"),
    ("df.dp.groupby('sex', as_index=True)", ".run().set_index([...]) makes them an index"),
    ("df.dp.groupby('sex', observed=True)", "every declared level is there"),
    ("df.dp.groupby('sex', sort=False)", "in the order of their declaration"),
    ("df.dp.groupby('sex', dropna=True)", 'where="key.notna()"'),
    ("df.dp.groupby('age', bins=5)", "bins are those that are declared"),
    ("df.dp.groupby('sex', axis=1)", "leave axis= out"),
    ("df.dp.groupby('sex', 'ill')", "several keys are a list"),
    ("df.dp.histogram('age', bins=10, epsilon=1)", "groupby({'age': 10}).count(epsilon=0.1)"),
    ("df.dp.crosstab('sex', 'ill', margins=True, epsilon=1)", "totals are answers of their own"),
    ("df.dp.describe(percentiles=[0.1], epsilon=1)", "quantile('age', [0.1, 0.9], epsilon=0.1)"),
    ("df.dp.describe(include='all', epsilon=1)", "describe(['age'], epsilon=0.1)"),
    ("df.dp.mean('age', numeric_only=True, epsilon=1)", "leave numeric_only= out"),
    ("df.dp.mean('age', skipna=True, epsilon=1)", "leave skipna= out"),
    ("df.dp.value_counts('sex', ascending=True, epsilon=1)", ".run().sort_values('value', ascending=True)"),
    ("df.dp.value_counts('sex', dropna=False, epsilon=1)", "a missing level is there where it is declared"),
    ("df.dp.quantile(0.5, epsilon=1)", "quantile('age', 0.5, epsilon=0.1)"),
    ("df.dp.count('age', epsilon=1)", 'count(where="age.notna()", epsilon=0.1)'),
    ("df.dp.mean(epsilon=1)", "name a column: mean('age', epsilon=0.1)"),
    ("df.dp.mean('age', 'ill', epsilon=1)", "df.dp[['age', ...]].mean(epsilon=0.1)"),
    ("df.dp.corr(epsilon=1)", "name two columns"),
    ("df.dp.count(where=\"day.dt.day_name() == 'Mon'\", epsilon=1)", "'Mon' is none of Monday, Tuesday"),
    ("df.dp.count(where='day.dt.day_name() == 1', epsilon=1)", "1 is none of Monday, Tuesday"),
    (
        "df.dp[df.dp['day'].dt.day_name().isin(['Saturday', 'Sunday'])]",
        "count(where=\"day.dt.day_name() in ['Saturday', 'Sunday']\", epsilon=0.1)",
    ),
    ("df.dp[df.dp['sex'].str.startswith('F')]", "count(where=\"sex.str.startswith('A')\", epsilon=0.1)"),
    ("df.dp.agg(n=pd.NamedAgg('age', len), epsilon=1)", "agg() takes the names of functions"),
]

IN_BRACKETS = [  # what the status bar follows without running it
    "df.dp.age.mean(epsilon=0.1)",
    "df.dp.groupby('sex').age.median(error=2)",
    "df.dp['age'].mean(epsilon=1)",
    "df.dp['age'].quantile([0.25, 0.5], epsilon=1).run()",
    "df.dp[['age', 'ill']].mean(epsilon=1)",
    "df.dp.groupby('sex')['age'].agg(['mean', 'median'], epsilon=1).run().head()",
]


@pytest.fixture(scope="module")
def df():
    number = np.arange(1000)
    rows = pd.DataFrame({"age": number % 100, "sex": np.where(number < 600, "F", "M"), "ill": number % 7 == 0})
    rows["day"] = pd.date_range("2024-01-01", periods=1000, freq="h").normalize()
    days = dpn.Dates("2024-01-01", "2024-02-29", by="day")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPNOTEBOOK_UNSAFE", "1")
        with exact_session(dpn.Budget(epsilon=1000.0)) as session:
            session.protect(
                rows, "visits", domain={"age": dpn.Range(0, 99), "sex": ["F", "M"], "ill": bool, "day": days}
            )
            yield rows


@pytest.mark.one_in(11)
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


@pytest.fixture(scope="module")
def names(df):
    two, one = df.dp.histogram("sex", epsilon=1.0).run(), df.dp.count(epsilon=1.0).run()
    return {"df": df, "pd": pd, "np": np, "two": two, "one": one, "frame": two.to_frame()}


@pytest.mark.parametrize("look", LOOKS)
def test_a_release_is_looked_at_as_its_frame(names, look):
    found, expected = (eval(f"{what}.{look}", dict(names)) for what in ("two", "frame"))
    assert type(found) is type(expected)
    assert str(found) == str(expected)


def test_looks_change_nothing(names):
    shown = names["two"].rename(columns={"value": "n"})
    shown["n"] = -1.0
    names["two"].values[:] = 0.0
    pd.testing.assert_frame_equal(names["two"].frame, names["frame"])


@pytest.mark.parametrize("number", NUMBERS)
def test_a_single_answer_is_a_number(names, number):
    assert eval(number, dict(names)) == eval(number, {"one": len(names["df"])})


@pytest.mark.parametrize(("code", "said"), REFUSED, ids=[code for code, _ in REFUSED])
def test_what_is_not_done_says_what_to_write(names, code, said):
    with pytest.raises(DPError) as caught:
        eval(code, dict(names))
    assert said in str(caught.value)
    assert len(str(caught.value)) < 240
    assert caught.value.__cause__ is None


def test_releases_are_told_apart_by_identity(names):
    one, two = names["one"], names["two"]
    assert one == one
    assert one != two
    assert two in [one, two]
    assert {one: 1, two: 2}[two] == 2


@pytest.mark.parametrize("code", IN_BRACKETS)
def test_brackets_are_followed_before_they_run(df, code):
    query = query_in(code, {"df": df})
    asked = eval(code.partition(".run()")[0], {"df": df})
    assert query.question == asked.question
