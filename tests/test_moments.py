"""std, var, sem, corr, cov, min, max and nunique of `df.dp`: statements of SQL, exact without noise, against pandas."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import dpnotebook as dpn
from dpnotebook.predicate import Predicate
from dpnotebook.session.condition_sql import condition_sql, name_sql
from dpnotebook.testing import exact_session

DOMAIN = {
    "city": ["a", "b", "c"],
    "pay": dpn.Bins(0, 400, width=5, unit="dollars"),
    "age": dpn.Range(0, 80),
    "seen": dpn.Dates("2023", "2023"),
    "order": bool,
}
SIZE = 3_000


def made(size=SIZE, seed=0):
    """Return visits of people who come twice, with values within what is declared."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 81, size)
    return pd.DataFrame(
        {
            "pid": np.arange(size) // 2,
            "city": rng.choice(["a", "b", "c"], size, p=[0.5, 0.3, 0.2]),
            "pay": (rng.gamma(2, 20, size) + age).clip(0, 400),
            "age": age,
            "raw": rng.normal(5, 2, size),
            "seen": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24 * 60, size), unit="min"),
            "order": rng.random(size) < 0.3,
        }
    )


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.fixture
def visits():
    rows = made()
    with exact_session(dpn.Budget(epsilon=1_000.0)) as session:
        session.protect(rows, "visits", unit="pid", max_rows=2, domain=DOMAIN)
        yield rows


PANDAS = {
    "std": lambda rows: rows["pay"].std(),
    "std of all": lambda rows: rows["age"].std(ddof=0),
    "var": lambda rows: rows["pay"].var(),
    "sem": lambda rows: rows["pay"].sem(),
    "corr": lambda rows: rows["pay"].corr(rows["age"]),
    "cov": lambda rows: rows["pay"].cov(rows["age"]),
    "cov of all": lambda rows: rows["pay"].cov(rows["age"], ddof=0),
    "nunique": lambda rows: rows["pid"].nunique(),
}
OURS = {
    "std": lambda dp, **options: dp.std("pay", **options),
    "std of all": lambda dp, **options: dp.std("age", ddof=0, **options),
    "var": lambda dp, **options: dp.var("pay", **options),
    "sem": lambda dp, **options: dp.sem("pay", **options),
    "corr": lambda dp, **options: dp.corr("pay", "age", **options),
    "cov": lambda dp, **options: dp.cov("pay", "age", **options),
    "cov of all": lambda dp, **options: dp.cov("pay", "age", ddof=0, **options),
    "nunique": lambda dp, **options: dp.nunique("pid", **options),
}
WHERE = {
    None: None,
    "age >= 20 and city in ['a', 'c'] and not order": "age >= 20 and city in ['a', 'c'] and not order",
    "seen >= '2023-05' and (age < 30 or city != 'b')": "seen >= '2023-05-01' and (age < 30 or city != 'b')",
}
FINE = 1e-3  # of a value: columns are rounded to some thousands of steps before they are added up
CLIPPED = 5e-3  # the same of pairs, whose columns are looked at inside what is declared: a few values are cut off


@pytest.mark.one_in(22)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("verb", OURS)
def test_each_is_that_of_pandas(visits, verb, where):
    rows, near = visits if where is None else visits.query(WHERE[where]), CLIPPED if verb in ("corr", "cov") else FINE
    epsilon = 1.0 if verb == "nunique" else 30.0  # with more noise bounds inside what is declared cut off more
    release = OURS[verb](visits.dp, where=where, epsilon=epsilon).run()
    assert release.value == pytest.approx(PANDAS[verb](rows), rel=near)
    low, high = release.interval
    assert low <= release.value <= high
    assert release.names == ("value",)
    by = OURS[verb](visits.dp.groupby("city"), where=where, epsilon=epsilon).run().frame.set_index("city")["value"]
    for city, group in rows.groupby("city"):
        assert by[city] == pytest.approx(PANDAS[verb](group), rel=near)


def test_months_of_days_that_are_declared(visits):
    frame = (
        visits.dp.groupby({"seen": "month", "order": None}).std("pay", epsilon=100.0).run().frame
    )  # and none is cut off
    assert frame["seen"].dtype.kind == "M"
    truth = visits.groupby([visits["seen"].dt.to_period("M").dt.to_timestamp(), "order"])["pay"].std()
    assert len(frame) == 24
    for row in frame.itertuples():
        assert row.value == pytest.approx(truth[row.seen, row.order], rel=FINE)


def test_ends_are_quantiles_that_noise_does_not_hide(visits):
    for verb, others in (("min", visits["age"].min()), ("max", visits["age"].max())):
        release = getattr(visits.dp, verb)("age", epsilon=1.0).run()
        low, high = release.interval
        assert low <= others <= high
        assert abs(release.value - others) <= 3  # of 80 years, of which each has 37 rows


def test_a_column_that_is_not_declared_gets_bounds_from_noise():
    rows = made()
    with exact_session(dpn.Budget(epsilon=1_000.0)) as session:
        session.protect(rows, "visits", unit="pid", max_rows=2, domain={"city": ["a", "b", "c"]})
        query = rows.dp.std("raw", epsilon=5.0)
        assert "bounds first" in " ".join(query.plan.steps)
        assert query.run().value == pytest.approx(rows["raw"].std(), rel=0.02)  # clamped to 16 of 2 deviations each
        with pytest.raises(dpn.DomainError, match="'pai' is not declared"):
            rows.dp.std("pai", epsilon=1.0)


def test_agg_has_them_beside_others_in_one_plan_at_one_price():
    rows = made()
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        session.protect(rows, "visits", unit="pid", max_rows=2, domain=DOMAIN)
        asked = {"pay": ["mean", "std", "var", "90%"], "age": ["count", "sum", "median", "max"]}
        query = rows.dp.groupby("city").agg(asked, epsilon=60.0)  # more noise cuts off values inside what is declared
        assert query.plan.cost.epsilon <= 60.0
        assert [part.name for part in query.plan.parts][:4] == ["pay_mean", "pay_std", "pay_var", "pay_90%"]
        frame = query.run().frame.set_index("city")
        assert session.spent.epsilon <= 60.0
        truth = rows.groupby("city")
        for name, true in {
            "pay_mean": truth["pay"].mean(),
            "pay_std": truth["pay"].std(),
            "pay_var": truth["pay"].var(),
            "age_count": truth["age"].count(),
            "age_sum": truth["age"].sum(),
        }.items():
            assert frame[name].to_numpy() == pytest.approx(true.to_numpy(), rel=FINE)
            assert {f"{name}_std_error", f"{name}_lower", f"{name}_upper"} <= set(frame)
        assert {"pay_90%", "age_median", "age_max"} <= set(frame)
        again = rows.dp.groupby("city").agg(asked, epsilon=60.0)
        assert again.plan.free
        with pytest.raises(dpn.AccuracyError, match="objective= is for what the planner measures"):
            rows.dp.agg(asked, epsilon=0.1, objective="worst")


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("ours", "statement"),
    [
        (lambda dp: dp.groupby("city").std("pay", epsilon=0.1), "SELECT city, STDDEV(pay) FROM visits GROUP BY city"),
        (
            lambda dp: dp.var("pay", where="age >= 20 and age < 40 and city == 'a'", epsilon=0.1),
            "SELECT VAR_SAMP(pay) FROM visits WHERE city = 'a' AND age >= 20 AND age < 40",
        ),
        (lambda dp: dp.corr("pay", "age", epsilon=0.1), "SELECT CORR(pay, age) FROM visits"),
        (lambda dp: dp.nunique("pid", epsilon=0.1), "SELECT COUNT(DISTINCT pid) FROM visits"),
    ],
)
def test_a_verb_and_its_statement_reuse_each_other(ours, statement):
    for first_is_ours in (True, False):
        rows = made()
        with dpn.Session(dpn.Budget(epsilon=1.0)) as session:
            session.protect(rows, "visits", unit="pid", max_rows=2, domain=DOMAIN)
            both = [ours(rows.dp), session.sql(statement, epsilon=0.1)]
            first, second = both if first_is_ours else both[::-1]
            paid = first.run()
            assert paid.paid > 0
            assert second.plan.free
            told = second.run()
            assert told.paid == 0
            numbers = [frame.select_dtypes(float).to_numpy() for frame in (paid.frame, told.frame)]
            assert np.array_equal(*numbers)
            assert session.spent.epsilon <= 0.1


SESSIONS, CHANCE = 40, 1e-7  # what statements measure is held to its law in tests/sql; here, that verbs say the same


@pytest.mark.one_in(20)
@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("verb", ["std", "corr", "cov", "nunique"])
def test_intervals_hold_the_truth_as_often_as_they_say(verb, noise, same_noise):
    rows = made(size=2_000)
    truth, covered, errors, said = PANDAS[verb](rows), 0, [], []
    budget = dpn.Budget(epsilon=10.0) if noise == "laplace" else dpn.Budget(epsilon=10.0, delta=1e-6)
    with dpn.Session(budget) as session:
        session.protect(rows, "visits", unit="pid", max_rows=2, domain=DOMAIN)
        session.raise_budget(
            dpn.Budget(epsilon=10_000.0, delta=budget.delta), reason="the same question again and again"
        )
        # Where bounds are found inside declared ones a clip moves a spread, which is told, and is in no interval.
        how = {"bounds": "declared"} if verb == "std" else {}
        for _ in range(SESSIONS):
            release = OURS[verb](rows.dp, epsilon=2.0, fresh=True, **how).run()
            low, high = release.interval
            covered += low <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= high
            errors.append(release.value - truth)
            said.append(float(release.frame["std_error"].iloc[0]))
    assert covered >= binom.ppf(CHANCE, SESSIONS, 0.95)
    # The sum of squared errors over their variance is about chi-squared: of so many, within a factor of 2 of its mean.
    # Of pairs what clipping moves is in intervals, and not in standard errors, which are those of noise.
    alike = np.mean(errors) if verb in ("corr", "cov") else 0.0
    ratio = np.mean(np.square(np.array(errors) - alike)) / np.mean(np.square(said))
    assert 0.3 < ratio < 2.5, ratio


ATTRIBUTES = {
    "Größe in cm": dpn.Range(2, 9),
    "other": dpn.Range(0, 6, outside="other", nullable=True),
    "null": dpn.Range(1, 5, nullable=True),
    'say "b"': dpn.Bins(0, 1, count=5),
    "bins 💶": dpn.Bins(0, 10, width=2, outside="other", nullable=True),
    "texts": dpn.Categories(["it's", "<b>", "$x$"]),
    "some": dpn.Categories(["a", "b", "c"], other="else", nullable=True),
    "numbers": dpn.Categories([1, 2, 5], nullable=True),
    "order": dpn.Boolean(nullable=True),
    "days": dpn.Dates("2023-01-01", "2023-01-09", nullable=True),
    "clamped": dpn.Dates("2023-01-01", "2023-04-30", by="month", outside="clamp"),
    "elsewhere": dpn.Dates("2023-01-01", "2023-04-30", by="month", outside="other", nullable=True),
}


def messy(size=400):
    """Return a frame with values at and beyond all ends, and missing ones."""
    rng = np.random.default_rng(3)
    numbers = np.concatenate([np.arange(-1, 12) / 1.0, rng.uniform(-2, 12, size - 13)])
    whole = pd.array(np.floor(numbers), dtype="Int64")
    whole[rng.random(size) < 0.1] = pd.NA
    days = pd.Series(pd.Timestamp("2022-12-30") + pd.to_timedelta(np.floor(numbers * 300) / 20, unit="h"))
    months = pd.Series(pd.Timestamp("2022-12-01") + pd.to_timedelta(np.floor(numbers * 15), unit="D"))
    days[rng.random(size) < 0.1] = pd.NaT
    texts = rng.choice(np.array(["it's", "<b>", "$x$", "a", "b", "c", "zz", None], dtype=object), size)
    floats = pd.Series(numbers).where(rng.random(size) > 0.1)
    return pd.DataFrame(
        {
            "Größe in cm": numbers, "other": whole, "null": whole, 'say "b"': np.round(numbers / 10, 1),
            "bins 💶": floats, "texts": texts, "some": texts, "numbers": whole,
            "order": pd.array(np.where(numbers > 5, True, False), dtype="boolean"), "days": days, "clamped": months,
            "elsewhere": months.where(rng.random(size) > 0.1),
        }
    )  # fmt: skip


FRAME = messy()
EMPTY = duckdb.connect()
LEVELS = {name: attribute.encode(FRAME[name]) for name, attribute in ATTRIBUTES.items()}


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_conditions_select_the_levels_in_any_database(data):
    names = data.draw(st.lists(st.sampled_from(sorted(ATTRIBUTES)), min_size=1, max_size=3, unique=True))
    domain = dpn.Domain({name: ATTRIBUTES[name] for name in names})
    where = None
    for _ in range(data.draw(st.integers(1, 2))):
        masks = {}
        for name in names:
            mask = data.draw(st.lists(st.booleans(), min_size=ATTRIBUTES[name].size, max_size=ATTRIBUTES[name].size))
            masks[name] = np.array(mask) if any(mask) else ~np.array(mask)
        box = Predicate.box(domain, masks)
        where = box if where is None else where | box
    said = condition_sql(where, domain, {"numbers": "integer", "other": "integer", "null": "integer"})
    cells = np.stack([LEVELS[name] for name in names])
    here = (cells >= 0).all(
        axis=0
    )  # rows without a level are in no answer; SQL has them where nothing is asked of them
    expected = np.zeros(len(FRAME), dtype=bool)
    expected[here] = where.dense(names)[tuple(cells[:, here])]
    connection = EMPTY.cursor()
    columns = FRAME[names].astype(object).where(FRAME[names].notna(), None).assign(row=np.arange(len(FRAME)))
    kinds = {"days": "TIMESTAMP", "clamped": "TIMESTAMP", "elsewhere": "TIMESTAMP", "order": "BOOLEAN"}
    for name in ("Größe in cm", 'say "b"', "bins 💶", "other", "null", "numbers"):
        kinds[name] = "DOUBLE"
    cast = ", ".join(f"CAST({name_sql(name)} AS {kinds.get(name, 'VARCHAR')}) AS {name_sql(name)}" for name in names)
    connection.register("frame", columns)
    text = f"SELECT row FROM (SELECT row, {cast} FROM frame){' WHERE ' * bool(said)}{said}"
    found = np.zeros(len(FRAME), dtype=bool)
    found[[row for (row,) in connection.execute(text).fetchall()]] = True
    assert np.array_equal(found[here], expected[here]), said


def test_names_of_all_kinds_are_written_so_that_they_are_read():
    rows = made().rename(columns={"pay": 'pay "net" <b>', "city": "group", "age": "Größe 💶 $x$"})
    names = {"pay": 'pay "net" <b>', "city": "group", "age": "Größe 💶 $x$"}
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        domain = {new: DOMAIN[old] for old, new in names.items()}
        session.protect(rows, "select", unit="pid", max_rows=2, domain=domain)
        frame = (
            rows.dp.groupby("group").corr(names["pay"], names["age"], where="group != 'b'", epsilon=50.0).run().frame
        )
        truth = rows[rows["group"] == "a"]
        assert frame["value"].iloc[0] == pytest.approx(truth[names["pay"]].corr(truth[names["age"]]), rel=CLIPPED)
        keyed = rows.assign(value=rows["group"])
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        session.protect(keyed, "t", unit="pid", max_rows=2, domain={"value": ["a", "b", "c"]} | domain)
        frame = keyed.dp.groupby("value").std(names["pay"], epsilon=1.0).run().frame
        assert list(frame.columns)[:2] == ["value", "std"]


WRONG = [
    (lambda dp: dp.std("city", epsilon=1.0), "number"),
    (lambda dp: dp.std("nobody", epsilon=1.0), "'nobody' is not declared"),
    (lambda dp: dp.std(pd.Series([31337.0], name="pay"), epsilon=1.0), "pay"),
    (lambda dp: dp.std("pay"), "exactly one of epsilon="),
    (lambda dp: dp.std("pay", ddof=2, epsilon=1.0), "ddof= is 1, as in pandas, or 0; not 2"),
    (lambda dp: dp.std("pay", epsilon=-1.0), "epsilon"),
    (lambda dp: dp.std("pay", epsilon=1.0, fresh="yes"), "fresh= is True or False"),
    (lambda dp: dp.std("pay", where="pay >= 3", epsilon=1.0), "cuts through the bin"),
    (lambda dp: dp.corr("pay", "pay", epsilon=1.0), "corr is of two columns; of one and the same it is 1"),
    (lambda dp: dp.groupby({"seen": "hour"}).std("pay", epsilon=1.0), "grouped by"),
    (lambda dp: dp.agg({"pay": "skew"}, epsilon=1.0), "skew is not answered"),
    (lambda dp: dp.agg({"pay": "stdd"}, epsilon=1.0), "did you mean 'std'"),
    (lambda dp: dp.agg("std", epsilon=1.0), "std is of a column: name it"),
]


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_mistakes_are_told_and_cost_nothing(visits, call, words):
    session = visits.dp.session
    with pytest.raises(dpn.DPError, match=words.replace("(", r"\(")) as found:
        call(visits.dp)
    assert "31337" not in str(found.value)
    assert len(str(found.value)) < 400
    assert session.spent.epsilon == 0


def test_days_are_those_of_the_column_s_place():
    rows = made()
    rows["seen"] = rows["seen"].dt.tz_localize("Europe/Paris", ambiguous="NaT", nonexistent="NaT")
    known = rows[rows["seen"].notna()]
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        session.protect(rows, "visits", unit="pid", max_rows=2, domain=DOMAIN)
        by_month = rows.dp.groupby({"seen": "month"}).std("pay", epsilon=20.0).run().frame
        late = rows.dp.std("pay", where="seen >= '2023-05'", epsilon=20.0).run().frame
    expected = known.groupby(known["seen"].dt.month)["pay"].std()
    assert by_month["value"].to_numpy() == pytest.approx(expected.to_numpy(), rel=0.02)
    assert late["value"][0] == pytest.approx(known[known["seen"].dt.month >= 5]["pay"].std(), rel=0.02)


def test_a_frame_that_changed_is_told_before_anything_is_spent(visits):
    query, session = visits.dp.std("pay", epsilon=1.0), visits.dp.session
    visits.loc[0, "pay"] = 17.0
    with pytest.raises(dpn.FrameChanged):
        query.run()
    assert session.spent.epsilon == 0


def test_parts_of_a_table_that_grew_are_asked_together():
    first, second = made(seed=1), made(seed=2).assign(pid=lambda rows: rows["pid"] + SIZE)
    with exact_session(dpn.Budget(epsilon=100.0)) as session:
        table = session.protect(first, "visits", unit="pid", max_rows=2, domain=DOMAIN)
        session.extend("visits", second, one_part=True)
        whole = session.table("visits")
        both = pd.concat([first, second])
        assert whole.std("pay", epsilon=1.0).run().value == pytest.approx(both["pay"].std(), rel=FINE)
        with pytest.raises(dpn.DomainError, match="all parts of 'visits' together"):
            whole.std("pay", where="part == 1", epsilon=1.0)
        assert table is not None


def test_dates_are_days_in_every_view_of_an_answer(visits):
    release = visits.dp.groupby({"seen": "quarter"}).std("pay", epsilon=1.0).run()
    quarters = [datetime.datetime(2023, month, 1) for month in (1, 4, 7, 10)]
    assert list(release.frame["seen"].dt.to_pydatetime()) == quarters
    assert list(release.simultaneous().frame["seen"].dt.to_pydatetime()) == quarters
