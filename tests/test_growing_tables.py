"""Tables that grow by parts: what is asked of them, what that costs, and what a unit may lose by it."""

import math
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpnotebook as dpn
from dpnotebook.errors import (
    ArgumentError,
    DomainError,
    EngineError,
    FrameChanged,
    LedgerConflict,
    LedgerMismatch,
    NotProtected,
)
from dpnotebook.planner.plan_json import planned_from_json
from dpnotebook.privacy.accountant import UNITS
from dpnotebook.testing import exact_session

pytestmark = pytest.mark.usefixtures("same_noise")  # where answers go when parts come, and not how they were drawn
DOMAIN = {"age": dpn.Range(0, 19), "sex": ["F", "M"]}
BUDGETS = {"laplace": dpn.Budget(epsilon=50.0), "gaussian": dpn.Budget(epsilon=50.0, delta=1e-6)}


def made(rows, seed, first=0):
    """Return rows of people of whom each has one to three, numbered from `first`."""
    source = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": source.integers(0, 20, rows),
            "sex": source.choice(["F", "M"], rows, p=[0.7, 0.3]),
            "cost": source.integers(0, 1_000, rows).astype(float),
            "who": first + np.arange(rows) // 3,
        }
    )


JANUARY, FEBRUARY, MARCH = made(900, 1), made(600, 2, first=1_000), made(300, 3, first=2_000)
MONTHS = [JANUARY, FEBRUARY, MARCH]


@pytest.fixture(autouse=True)
def without_noise_is_allowed(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clinic.ledger"


@pytest.fixture
def kernel(path):
    """Return what opens one more session on the same ledger."""
    opened = []

    def one(budget=BUDGETS["laplace"], **options):
        opened.append(dpn.Session(budget, path, **options))
        return opened[-1]

    yield one
    for session in opened:
        session.close()


def copies():
    return [month.copy() for month in MONTHS]


def exact(**options):
    """Return a session without noise, in which the three months are parts of a table."""
    session = exact_session(BUDGETS["laplace"])
    session.protect(MONTHS, "visits", domain=DOMAIN, **options)
    return session


def values(release):
    return release.frame["value"].tolist()


# What is counted.


def test_every_part_is_counted_where_it_is():
    visits = exact().table("visits")
    whole = pd.concat(MONTHS, keys=[1, 2, 3], names=["part", None]).reset_index("part")
    assert visits.count(epsilon=0.1).run().value == len(whole)
    assert values(visits.groupby("part").count(epsilon=0.1).run()) == [900, 600, 300]
    assert values(visits.histogram("age", epsilon=0.1).run()) == np.bincount(whole.age, minlength=20).tolist()
    for where in ("part == 2", "part >= 2 and age < 5", "part != 2 and sex == 'F'", "age >= 10 or part == 3"):
        assert visits.count(where=where, epsilon=0.1).run().value == len(whole.query(where))
    crossed = visits.crosstab("part", "sex", where="age < 7", epsilon=0.1).run().frame
    there = whole.query("age < 7").groupby(["part", "sex"]).size()
    assert crossed["value"].tolist() == [there[key] for key in zip(crossed["part"], crossed["sex"], strict=True)]
    turned = visits.crosstab("sex", "part", epsilon=0.1).run().frame
    assert turned["value"].sum() == len(whole)
    assert turned.set_index(["sex", "part"])["value"]["M", 2] == (FEBRUARY.sex == "M").sum()
    assert values(visits.groupby("part").sum("age", epsilon=0.5).run()) == [int(month.age.sum()) for month in MONTHS]
    means = visits.groupby("part").mean("age", epsilon=0.5).run()
    assert values(means) == pytest.approx([month.age.mean() for month in MONTHS])
    assert visits.answer(dpn.marginals(1), epsilon=0.5).run().frame["value"].tolist() == [
        *np.bincount(whole.age, minlength=20).tolist(),
        *[(whole.sex == sex).sum() for sex in "FM"],
    ]
    named = visits.answer(dpn.identity("part", "sex"), epsilon=0.5).run()
    assert named.frame["value"].sum() == len(whole)


def test_statements_read_all_parts():
    session = exact()
    whole = pd.concat(MONTHS, keys=[1, 2, 3], names=["part", None]).reset_index("part")
    found = session.sql("SELECT part, COUNT(*) AS n FROM visits WHERE sex = 'F' GROUP BY part", epsilon=0.1).run()
    assert found.frame["n"].tolist() == whole.query("sex == 'F'").groupby("part").size().tolist()
    statement = "SELECT Part, SUM(cost) AS s, COUNT(*) AS n FROM visits WHERE cost >= 500 GROUP BY Part"
    asked = session.sql(f"{statement} ORDER BY 1".replace("SUM(cost)", "ANON_SUM(cost, 0, 1000)"), epsilon=1.0).run()
    there = whole.query("cost >= 500").groupby("part")["cost"]
    assert asked.frame["s"].tolist() == there.sum().tolist()
    assert asked.frame["n"].tolist() == there.size().tolist()
    session.register(pd.DataFrame({"sex": ["F", "M"], "word": ["female", "male"]}), "words", public=True)
    joined = (
        "SELECT sex, ANON_COUNT(*) AS n FROM visits JOIN words USING (sex) WHERE part < 3 GROUP BY sex ORDER BY sex"
    )
    both = pd.concat([JANUARY, FEBRUARY])
    assert session.sql(joined, epsilon=1.0).run().frame["n"].tolist() == [(both.sex == s).sum() for s in "FM"]


def test_a_part_may_be_in_any_form_that_duckdb_reads(tmp_path, kernel):
    parquet, file = tmp_path / "february.parquet", tmp_path / "march.duckdb"
    FEBRUARY.to_parquet(parquet)
    with duckdb.connect(str(file)) as connection:
        connection.register("march", MARCH)
        connection.execute("CREATE TABLE rows AS SELECT * FROM march")
    forms = [pa.Table.from_pandas(JANUARY), str(parquet), (str(file), "rows")]
    session = exact_session(BUDGETS["laplace"])
    visits = session.protect(forms, "visits", domain=DOMAIN)
    assert values(visits.groupby("part").count(epsilon=0.1).run()) == [900, 600, 300]
    assert session.sql("SELECT ANON_SUM(cost, 0, 1000) AS s FROM visits", epsilon=1.0).run().value == sum(
        month.cost.sum() for month in MONTHS
    )
    # The same rows are the same parts, whatever they are in.
    first, second = kernel(), kernel()
    first.protect(MONTHS, "visits", domain=DOMAIN).count(epsilon=0.5).run()
    again = second.protect(forms, "visits", domain=DOMAIN)
    assert repr(again).startswith(
        "<protected table 'visits': age, sex; 3 of 3 parts; privacy unit: one row;\n rows with"
    )
    assert again.count(epsilon=0.5).run().paid == 0


@pytest.mark.parametrize("form", ["frame", "parquet", "duckdb"])
def test_rows_of_units_that_an_earlier_part_has_are_left_out(form, tmp_path):
    back = FEBRUARY.copy()
    back.loc[:59, "who"] = np.arange(60)  # these were here in January
    back = back.sample(frac=1, random_state=1)
    data = back
    if form == "parquet":
        data = str(tmp_path / "back.parquet")
        back.to_parquet(data)
    if form == "duckdb":
        connection = duckdb.connect()
        connection.register("frame", back)
        connection.execute("CREATE TABLE back AS SELECT * FROM frame")
        data = (connection, "back")
    session = exact_session(BUDGETS["laplace"])
    visits = session.protect(JANUARY, "visits", domain=DOMAIN, unit="who", max_rows=3)
    session.extend("visits", data, one_part=True)
    kept = back[~back.who.isin(JANUARY.who)]
    assert len(kept) == 540
    assert values(visits.groupby("part").count(epsilon=1.0).run()) == [900, 540]
    assert values(visits.groupby("sex").count(where="part == 2", epsilon=1.0).run()) == [
        (kept.sex == sex).sum() for sex in "FM"
    ]
    asked = "SELECT part, ANON_COUNT(*) AS n FROM visits GROUP BY part ORDER BY part"
    assert session.sql(asked, epsilon=1.0).run().frame["n"].tolist() == [900, 540]
    assert session.extend("visits", data, one_part=True, part=2) is visits  # the same rows are no further part
    assert visits.domain["part"].size == 2


def test_each_part_has_a_sample_of_its_own():
    many = pd.concat([JANUARY.assign(who=JANUARY.who % 10)] * 1)
    session = exact_session(BUDGETS["laplace"])
    visits = session.protect(many, "visits", domain=DOMAIN, unit="who", max_rows=2)
    session.extend("visits", many.iloc[::2].reset_index(drop=True))
    assert values(visits.groupby("part").count(epsilon=1.0).run()) == [20, 20]


# What it costs.


def month(number):
    return made(400, 10 + number, first=10_000 * number)


def asked_of(table):
    yield table.count(error=40)
    yield table.histogram("sex", error=50)
    yield table.count(where="age >= 10", error=40)
    yield table.histogram("age", epsilon=0.5)
    yield table.mean("age", epsilon=0.2)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("unit", [{}, {"unit": "who", "max_rows": 3}])
@pytest.mark.parametrize("noise", BUDGETS)
def test_six_months_cost_what_one_costs(noise, unit):
    session = dpn.Session(BUDGETS[noise])
    frames = [month(number) for number in range(6)]
    session.protect(frames[0], "visits", domain=DOMAIN, rows=400, **unit)
    for query in asked_of(frames[0].dp):
        query.run()
    spent = session.ledger.spent
    assert spent > 0
    for frame in frames[1:]:
        session.extend("visits", frame, one_part=bool(unit))
        for query in asked_of(frame.dp):
            plan = query.plan
            query.run()
            if query.accuracy.error is not None:
                assert plan.error <= query.accuracy.error
    assert session.ledger.spent <= 1.001 * spent  # prices are rounded up to four figures
    assert session.audit().ok


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", BUDGETS)
def test_where_units_are_in_several_parts_each_part_costs_what_the_first_did(noise):
    session = dpn.Session(BUDGETS[noise])
    frames = [month(0), month(0).iloc[::-1].reset_index(drop=True).assign(age=3), month(0).assign(age=7)]
    session.protect(frames[0], "visits", domain=DOMAIN, rows=400, unit="who", max_rows=3)
    spent = []
    for place, frame in enumerate(frames):
        if place:
            session.extend("visits", frame)
        before = session.ledger.spent
        for query in asked_of(frame.dp):
            query.run()
        spent.append(session.ledger.spent - before)
    assert spent == pytest.approx([spent[0]] * 3, rel=1e-6)
    steps = " ".join(session.table("visits").count(error=10).plan.steps)
    assert "reads 3 parts, each with up to 3 rows of one who: what they cost adds up" in steps
    assert "adds up" not in " ".join(frames[0].dp.count(error=5).plan.steps)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("noise", BUDGETS)
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_an_epsilon_is_the_most_that_several_parts_cost(noise, parts):
    session = dpn.Session(BUDGETS[noise])
    frames = [month(0).assign(age=place) for place in range(3)]
    visits = session.protect(frames, "visits", domain=DOMAIN, rows=400, unit="who", max_rows=3)
    some = f"part <= {parts}"
    for number, query in enumerate(
        (
            visits.count(where=some, epsilon=0.3, fresh=True),
            visits.groupby(["part", "sex"]).count(where=some, epsilon=0.3, fresh=True),
            visits.cdf("age", where=some, epsilon=0.3, fresh=True),
            visits.mean("age", where=some, epsilon=0.3, fresh=True),
            visits.answer(dpn.marginals(1), where=some, epsilon=0.3, fresh=True),
            session.sql(f"SELECT COUNTIF(part = 1) AS a, COUNTIF({some}) AS b FROM visits", epsilon=0.3, fresh=True),
        )
    ):
        before = session.ledger.spent
        plan, release = query.plan, query.run()
        paid = session.ledger.accountant.epsilon(session.ledger.spent - before)
        assert 0.29 < paid <= 0.3
        assert session.ledger.spent - before == plan.cost.units
        if number < 5:
            assert release.epsilon == pytest.approx(paid, rel=0.005)  # as nothing is disjoint
    before = session.ledger.spent
    session.sql("SELECT ANON_SUM(cost, 0, 1000) AS s FROM visits", epsilon=0.3).run()  # which bounds units by itself
    assert session.ledger.accountant.epsilon(session.ledger.spent - before) == pytest.approx(0.3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unit", [{}, {"unit": "who", "max_rows": 3}])
def test_a_statement_costs_the_parts_that_its_rows_are_in(unit, kernel):
    session, frames = kernel(), copies()
    session.protect(frames[0], "visits", domain=DOMAIN, **unit)
    answers = [session.sql("SELECT AVG(cost) AS s FROM visits", epsilon=0.4).run()]
    for number in (2, 3):
        session.extend("visits", frames[number - 1], one_part=bool(unit))
        plan = session.sql(f"SELECT AVG(cost) AS s FROM visits WHERE part = {number}", epsilon=0.4).plan
        assert (plan.cost.units, plan.epsilon) == (0, pytest.approx(0.4))
        answers.append(session.sql(f"SELECT AVG(cost) AS s FROM visits WHERE part = {number}", epsilon=0.4).run())
    assert [release.paid for release in answers] == [pytest.approx(0.4), 0, 0]
    # What it was asked of the parts that it is about is known, whatever came since and is here.
    again = kernel()
    again.protect(frames[0], "visits", domain=DOMAIN, **unit)
    assert again.sql("SELECT AVG(cost) AS s FROM visits", epsilon=0.4).run().number == answers[0].number
    again.extend("visits", frames[1], one_part=bool(unit))
    found = again.sql("SELECT AVG(cost) AS s FROM visits WHERE part = 2", epsilon=0.4).run()
    assert (found.number, found.paid) == (answers[1].number, 0)
    new = again.sql("SELECT AVG(cost) AS s FROM visits WHERE part = 2 AND age < 9", epsilon=0.2)
    assert new.run().epsilon == pytest.approx(0.2)
    with pytest.raises(NotProtected, match="2 of 3 parts of 'visits' are protected"):
        again.sql("SELECT AVG(cost) AS s FROM visits WHERE part >= 2 AND age < 9", epsilon=0.2).run()
    with pytest.raises(DomainError, match="other parts than parts 1, 2 of 3 of 'visits'"):
        again.sql("SELECT AVG(cost) AS s FROM visits WHERE part = 3 AND age < 9", epsilon=0.2)


def test_a_statement_is_charged_to_the_parts_that_it_reads():
    session = exact()
    for where, parts in (
        ("part = 2", [2]),
        ("2 <= part AND cost > 3", [2, 3]),
        ("part BETWEEN 1 AND 2 AND part <> 1", [2]),
        ("part = 2 OR cost > 3", [1, 2, 3]),
        ("part = age", [1, 2, 3]),
        ("NOT (part = 2 OR cost > 3)", [1, 2, 3]),
        ("NOT (part = 2)", [1, 3]),
        ("part * 1 = 2", [1, 2, 3]),
    ):
        for what in ("ANON_SUM(cost, 0, 1000)", "MEDIAN(cost)"):
            before = session.ledger.spend("visits").by_attribute("part")
            query = session.sql(
                f"SELECT {what} AS s FROM (SELECT * FROM visits) WHERE {where}", epsilon=0.1, fresh=True
            )
            plan, release = query.plan, query.run()
            more = session.ledger.spend("visits").by_attribute("part") - before
            assert (np.flatnonzero(more) + 1).tolist() == parts
            assert plan.cost.units == max(before + more) - max(before) == pytest.approx(release.paid * UNITS)


def test_what_is_said_of_how_many_rows_there_are_is_of_each_part(kernel):
    session, frames = kernel(), copies()
    visits = session.protect(frames, "visits", domain=DOMAIN, rows=600)
    one, three = (table.mean("age", epsilon=0.1).plan for table in (frames[1].dp, visits))
    assert "600 rows" in one.assumption
    assert "1,800 rows" in three.assumption
    assert three.error < 0.5 * one.error
    scattered = " or ".join(f"(age == {age} and sex == 'F')" for age in range(0, 20, 2))
    assert "about 450 rows" in visits.mean("age", where=scattered, epsilon=0.1).plan.assumption


# What a unit loses: what every release could change by whoever is left out, against what was paid.


def losses(session, frames):
    """Return, for every unit, the privacy loss of all that was measured of declared columns; in units."""
    ledger, domain = session.ledger, session.table("visits").domain
    whole = pd.concat(frames, keys=range(1, len(frames) + 1), names=["part", None]).reset_index("part")
    codes = {"age": whole["age"].to_numpy(), "sex": (whole["sex"] == "M").to_numpy().astype(int)}
    codes["part"] = whole["part"].to_numpy() - 1
    everybody = whole["who"].unique()
    lost = dict.fromkeys(everybody.tolist(), 0.0)
    for record in ledger.records("visits"):
        declared = session._questions.histories.domain_of(session.table("visits").table, record.since)
        parts = declared["part"].size
        for item in planned_from_json(record.plan, declared):
            measurement = item.measurement
            names = list(declared)
            inside = measurement.where.dense(names)[tuple(np.minimum(codes[n], declared[n].size - 1) for n in names)]
            inside &= codes["part"] < parts
            for axis in measurement.axes:
                inside &= np.isin(codes[axis.attribute], axis.levels)
            cell = np.zeros(len(whole), dtype=int)
            for axis in measurement.axes:
                place = {level: i for i, level in enumerate(axis.levels)}
                cell = cell * axis.size + np.array([place.get(code, 0) for code in codes[axis.attribute].tolist()])
            size = math.prod(axis.size for axis in measurement.axes)
            summand = measurement.summand
            weights = [np.ones(len(whole))]
            if summand.column == "age":
                steps = (codes["age"] - float(summand.low)) / float(summand.step)
                weights = [steps, summand.steps - steps] if summand.ends else [codes["age"] / float(summand.step)]
            for who in lost:
                own = inside & (whole["who"] == who).to_numpy()
                change = [
                    measurement.operator.matvec(np.bincount(cell[own], weight[own], minlength=size))
                    for weight in weights
                ]
                change = np.concatenate(change)
                if ledger.accountant.noise == "laplace":
                    before = 0 if item.before is None else 1 / float(item.before)
                    lost[who] += np.abs(change).sum() * (1 / float(item.scale) - before) * UNITS
                else:
                    lost[who] += (change**2).sum() / float(item.scale) ** 2 * UNITS
    assert set(domain) == {"age", "sex", "part"}
    return lost


@pytest.mark.parametrize("noise", BUDGETS)
@pytest.mark.parametrize("one_part", [True, False])
def test_nobody_loses_more_than_was_paid(noise, one_part):
    source = np.random.default_rng(5)
    session = dpn.Session(BUDGETS[noise])
    frames = []
    for number in range(3):
        who = np.repeat(np.arange(12), 2) + (100 * number if one_part else 0)
        # Most of them are where everybody is who loses most, in every part.
        frame = pd.DataFrame({"age": source.choice([3, 3, 3, 4], 24), "sex": source.choice(["F", "F", "M"], 24)})
        frames.append(frame.assign(who=who))
    visits = session.protect(frames[0], "visits", domain=DOMAIN, unit="who", max_rows=2, rows=24)
    for number, frame in enumerate(frames):
        if number:
            session.extend("visits", frame, one_part=one_part)
        visits.count(epsilon=0.2).run()
        frame.dp.histogram("age", epsilon=0.3).run()
        visits.histogram("sex", error=40).run()
        visits.count(where="age >= 3", error=60).run()
        visits.mean("age", epsilon=0.2, fresh=True).run()
        visits.groupby("sex").count(where="age == 3", error=30).run()
    lost = losses(session, frames)
    assert max(lost.values()) <= session.ledger.spent * (1 + 1e-9)
    assert max(lost.values()) > 0.6 * session.ledger.spent  # somebody does lose about that much


# What is known: answers that were given before a part came are used for the parts that they are about.


@pytest.mark.parametrize("noise", BUDGETS)
def test_what_was_answered_is_known(noise, kernel):
    session, (january, february, march) = kernel(BUDGETS[noise]), copies()
    visits = session.protect(january, "visits", domain=DOMAIN)
    ages = visits.histogram("age", epsilon=1.0).run()
    session.extend("visits", february)
    assert session.spent.epsilon == pytest.approx(1.0, rel=1e-6)
    again = january.dp.histogram("age", epsilon=1.0).run()
    assert (again.paid, values(again)) == (0, pytest.approx(values(ages)))
    februarys = february.dp.histogram("age", epsilon=1.0).run()
    both = visits.histogram("age", epsilon=0.5).run()
    assert both.paid == 0 or noise == "gaussian"
    assert values(visits.histogram("age", variance=1e6).run()) == pytest.approx(
        np.add(values(again), values(februarys)), abs=60
    )
    session.extend("visits", march)
    assert march.dp.count(error=100).run().paid == 0
    assert session.release(ages.number).frame.equals(ages.frame)


@pytest.mark.slow
def test_intervals_hold_in_sessions_in_which_parts_come():
    held, squares = [], []
    for seed in range(24):
        source = np.random.default_rng(seed)
        noise = ["laplace", "gaussian"][seed % 2]
        frames = [made(int(source.integers(200, 1_500)), 100 * seed + i, first=5_000 * i) for i in range(4)]
        session = dpn.Session(BUDGETS[noise])
        visits = session.protect(frames[0], "visits", domain=DOMAIN)
        whole = frames[0].assign(part=1)
        for number in range(1, 5):
            if number > 1:
                session.extend("visits", frames[number - 1])
                whole = pd.concat([whole, frames[number - 1].assign(part=number)])
            for _ in range(4):
                low = int(source.integers(0, 20))
                where = str(source.choice([f"age >= {low}", "sex == 'F'", f"age < {low + 1} and sex == 'M'"]))
                if number > 1 and source.random() < 0.4:
                    where += f" and part {source.choice(['<=', '>=', '=='])} {source.integers(1, number + 1)}"
                accuracy = {"epsilon": 0.3} if source.random() < 0.5 else {"error": float(source.choice([20, 60]))}
                key = str(source.choice(["", "sex", "age", "part"]))
                if key in where or (key == "part" and number == 1):
                    key = ""
                rows = whole.query(where)
                query = (visits.groupby(key) if key else visits).count(where=where, **accuracy)
                plan, release = query.plan, query.run()
                frame = release.frame
                truth = [(rows[key] == level).sum() for level in frame[key]] if key else [len(rows)]
                assert release.paid <= plan.cost.epsilon * (1 + 1e-9)
                assert frame["std_error"].max() <= plan.std_error * (1 + 1e-6)
                held.append(frame["lower"].le(truth).mul(frame["upper"].ge(truth)).mean())
                squares.append((((frame["value"] - truth) / frame["std_error"]) ** 2).mean())
                again = query.run()
                assert again.paid == 0
        session.close()
    error = np.std(held) / math.sqrt(len(held))
    assert 0.95 - 5.5 * error < np.mean(held) < 0.95 + 5.5 * error + 0.02  # steps of the noise make intervals wider
    assert abs(np.mean(squares) - 1) < 6.5 * np.std(squares) / math.sqrt(len(squares))  # they are skew


# Kernels and notebooks.


def cells(session, frames):
    """Run a notebook that grew; return its releases."""
    shown = []
    visits = session.protect(frames[0], "visits", domain=DOMAIN)
    for place, frame in enumerate(frames):
        if place:
            session.extend("visits", frame)
        shown.append(visits.count(where="age >= 10", error=60).run())
        shown.append(frame.dp.histogram("age", epsilon=0.3).run())
        shown.append(session.sql("SELECT sex, COUNT(*) AS value FROM visits GROUP BY sex", error=60).run())
        shown.append(session.sql("SELECT ANON_SUM(cost, 0, 1000) AS value FROM visits", epsilon=0.4).run())
    return shown


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", BUDGETS)
def test_a_notebook_that_is_run_again_costs_nothing_and_shows_no_less(noise, kernel):
    first = kernel(BUDGETS[noise])
    shown = cells(first, copies())
    spent = first.spent
    again = kernel(BUDGETS[noise])
    for place, (before, now) in enumerate(zip(shown, cells(again, copies()), strict=True)):
        assert now.paid == 0
        if place % 4 == 3:  # measured by itself
            assert now.frame.equals(before.frame)
            continue
        worst = [one.frame["std_error"].max() for one in (before, now)]
        assert worst[1] <= worst[0] * (1 + 1e-6)
        far = np.abs(before.frame["value"] - now.frame["value"])
        assert far.max() < 8 * worst[0]
    assert again.spent == spent
    frames = copies()
    here = again.protect(frames[0], "visits", domain=DOMAIN)  # in the same kernel, from the first cell on
    assert repr(here).startswith(
        "<protected table 'visits': age, sex; 1 of 3 parts; privacy unit: one row;\n rows with"
    )
    assert here.count(where="age >= 10", error=60).run().paid == 0
    assert again.spent == spent


def test_only_the_parts_that_are_here_are_asked(kernel):
    session, frames = kernel(), copies()
    session.protect(frames, "visits", domain=DOMAIN)
    some = kernel()
    visits = some.protect(frames[0], "visits", domain=DOMAIN)
    count = visits.count(error=20)
    assert "part == 1" in count.plan.where
    assert abs(count.run().value - 900) < 100
    assert visits.groupby("part").count(error=20).run().frame["part"].tolist() == [1]
    with pytest.raises(DomainError, match=r"other parts than part 1 of 3 of 'visits'.*session\.extend"):
        visits.count(where="part == 2", error=20)
    before = some.spent
    asked = "SELECT ANON_SUM(cost, 0, 1000) AS s FROM visits"
    with pytest.raises(NotProtected, match="1 of 3 parts of 'visits' are protected in this session"):
        some.sql(asked, epsilon=0.1).run()
    assert some.spent == before
    assert visits.histogram("age", error=30).plan.bought == 0
    some.extend("visits", frames[1])
    some.extend("visits", frames[2])
    assert some.sql(asked, epsilon=0.1).run().paid == pytest.approx(0.1)
    assert visits.count(where="part == 2", error=20).run().value == pytest.approx(600, abs=100)


def test_two_kernels_that_extend_at_once(kernel):
    one, other = kernel(), kernel()
    for session in (one, other):
        session.protect(JANUARY.copy(), "visits", domain=DOMAIN)
    one.extend("visits", FEBRUARY)
    with pytest.raises(LedgerConflict, match="changed by another kernel"):
        other.table("visits").count(error=20).run()
    with pytest.raises(LedgerMismatch, match="knows 2 parts of 'visits', and part 2 of them comes next here"):
        other.extend("visits", MARCH)
    visits = other.extend("visits", FEBRUARY)
    assert repr(visits).count("2 of 2 parts")
    other.extend("visits", MARCH)
    assert one.ledger.tables()["visits"]["parts"] == other.ledger.tables()["visits"]["parts"]
    assert len(one.ledger.tables()["visits"]["parts"]) == 3


def test_the_same_rows_are_one_part(kernel):
    session, frames = kernel(), copies()
    visits = session.protect(frames[0], "visits", domain=DOMAIN)
    session.extend("visits", frames[1])
    for same, number in ((frames[1].iloc[::-1], 2), (frames[0].copy(), 1)):
        with pytest.warns(dpn.LedgerWarning, match=f"these rows are part {number} of 'visits' already.*write part=3"):
            assert session.extend("visits", same) is visits
    assert session.extend("visits", frames[1]) is visits  # a cell that is run again
    assert session.extend("visits", frames[1].copy(), part=2) is visits
    assert visits.domain["part"].size == 2
    with pytest.raises(LedgerMismatch, match="part 2 of 'visits' has other rows than these"):
        session.extend("visits", frames[2], part=2)
    for wrong in (0, 4, "3", True):
        with pytest.raises(ArgumentError, match="the next one here is part 3; not"):
            session.extend("visits", frames[2], part=wrong)


def test_other_rows_that_are_alike_are_another_part():
    """What is declared is the same in both, or all of it: then it has to be said."""
    session = exact_session(BUDGETS["laplace"])
    visits = session.protect(JANUARY, "visits", domain=DOMAIN)
    session.extend("visits", JANUARY.assign(cost=0.0))
    assert values(visits.groupby("part").count(epsilon=1.0).run()) == [900, 900]
    few = session.protect(pd.DataFrame({"sex": ["F"]}), "few", domain={"sex": ["F", "M"]})
    session.extend("few", pd.DataFrame({"sex": ["F"]}), part=2)
    session.extend("few", pd.DataFrame({"sex": ["F"]}), part=3)
    assert few.count(epsilon=1.0).run().value == 3
    alike = session.protect([pd.DataFrame({"sex": ["M"]})] * 4, "alike", domain={"sex": ["F", "M"]})
    assert values(alike.groupby("part").count(epsilon=1.0).run()) == [1] * 4


def interrupted(visits, monkeypatch):
    """Charge a count, and stop before it is answered."""

    def stops(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(visits.engine, "totals", stops)
        with pytest.raises(KeyboardInterrupt):
            visits.count(epsilon=0.5).run()


def test_a_charge_that_waits_is_answered_before_a_part_comes(kernel, monkeypatch):
    session = kernel()
    visits = session.protect(JANUARY, "visits", domain=DOMAIN)
    interrupted(visits, monkeypatch)
    session.extend("visits", FEBRUARY)
    assert session.release(1).value == pytest.approx(900, abs=100)
    assert session.spent.epsilon == pytest.approx(0.5)


def test_where_adding_a_part_is_interrupted_nothing_reads_it(kernel, monkeypatch):
    session = kernel()
    visits = session.protect(JANUARY.copy(), "visits", domain=DOMAIN)

    def stops(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session.ledger, "grow", stops)
        with pytest.raises(KeyboardInterrupt):
            session.extend("visits", FEBRUARY)
    assert "part" not in visits.domain
    assert "part" not in session.relations["visits"].columns
    asked = session.sql("SELECT ANON_COUNT(*) AS n FROM visits", epsilon=5.0).run()
    assert asked.value == pytest.approx(900, abs=20)
    session.extend("visits", FEBRUARY)
    asked = session.sql("SELECT ANON_COUNT(*) AS n FROM visits", epsilon=5.0).run()
    assert asked.value == pytest.approx(1_500, abs=20)


def test_a_part_that_is_not_here_is_not_counted_as_empty(kernel, monkeypatch):
    session = kernel()
    visits = session.protect(MONTHS, "visits", domain=DOMAIN)
    interrupted(visits, monkeypatch)
    other = kernel()
    other.protect(JANUARY, "visits", domain=DOMAIN)
    with pytest.raises(EngineError, match="answering it failed"):
        other.retry(1)
    other.extend("visits", FEBRUARY)
    other.extend("visits", MARCH)
    assert other.release(1).value == pytest.approx(1_800, abs=100)


def test_the_domain_is_extended_for_all_parts(kernel):
    session, frames = kernel(), copies()
    wider = DOMAIN | {"cost": dpn.Bins(0, 1_000, width=250, nullable=True)}
    visits = session.protect(frames, "visits", domain=DOMAIN)
    ages = visits.histogram("age", epsilon=0.5).run()
    january = frames[0].dp.count(epsilon=0.7).run()
    with pytest.raises(DomainError, match="has 3 parts, and its domain is extended for all of them together"):
        session.protect(frames[0], "visits", domain=wider)
    spent = session.spent
    with pytest.warns(dpn.LedgerWarning, match=r"'cost' is new.*Its 2 answers are kept"):
        visits = session.protect(frames, "visits", domain=wider)
    assert session.spent == spent
    assert visits.histogram("age", epsilon=0.5).run().paid == 0
    assert frames[0].dp.count(epsilon=0.7).run().paid == 0
    assert values(visits.groupby("part").count(where="cost < 250", error=25).run()) == pytest.approx(
        [(month.cost < 250).sum() for month in MONTHS], abs=120
    )
    assert session.release(ages.number).frame.equals(ages.frame)
    assert january.value == frames[0].dp.count(epsilon=0.7).run().value
    again = kernel()
    assert repr(again.protect(copies(), "visits", domain=wider)).count("3 of 3 parts")


FINER = DOMAIN | {"cost": dpn.Bins(0, 1_000, width=250, nullable=True)}
OTHERWISE = DOMAIN | {"cost": dpn.Bins(0, 1_000, width=200, nullable=True)}


def test_extensions_that_contradict_a_part_change_nothing(kernel):
    """Of two kernels one declares first; the other is told, can go on with that, and pays nothing twice."""
    one, other, frames, others = kernel(), kernel(), copies(), copies()
    visits = one.protect(frames[:2], "visits", domain=DOMAIN)
    other.protect(others[:2], "visits", domain=DOMAIN)
    by_part = visits.groupby("part").count(epsilon=1.0).run()
    with pytest.warns(dpn.LedgerWarning, match="Its 1 answer is kept"):
        one.protect(frames[:2], "visits", domain=FINER)
    spent, head = one.spent, one.ledger.head
    refused = [
        (
            LedgerMismatch,
            "Here 'cost' was .*width=250.* is .*width=200.*an edge",
            lambda: both(other, others, OTHERWISE),
        ),
        (LedgerMismatch, "Here 'cost' is gone", lambda: both(other, others, DOMAIN)),
        (LedgerMismatch, "Here 'sex' is gone", lambda: both(one, frames, {"age": FINER["age"], "cost": FINER["cost"]})),
        (LedgerMismatch, "'sex' was .*: the level 'M' is gone", lambda: both(one, frames, FINER | {"sex": ["F", "X"]})),
        (LedgerMismatch, "its data differ", lambda: both(one, frames[::-1][1:], FINER)),
        (LedgerConflict, "changed by another kernel", lambda: other.extend("visits", others[2])),
        (LedgerConflict, "changed by another kernel", lambda: other.extend("visits", others[1], part=2)),
        (LedgerConflict, "changed by another kernel", lambda: other.table("visits").count(epsilon=1.0).run()),
    ]
    for kind, words, use in refused:
        with pytest.raises(kind, match=words):
            use()
    assert one.ledger.head == head
    again = both(other, others, FINER)
    assert values(again.groupby("part").count(epsilon=1.0).run()) == values(by_part)
    other.extend("visits", others[2])
    with pytest.raises(LedgerConflict, match="changed by another kernel"):
        one.table("visits").count(epsilon=1.0).run()
    one.extend("visits", frames[2])
    for session in (one, other):
        assert values(session.table("visits").groupby("part").count(where="part < 3", epsilon=1.0).run()) == values(
            by_part
        )
        assert session.spent == spent
        assert session.audit().ok


def both(session, frames, domain):
    """Declare the first two parts of a table that has two."""
    return session.protect(frames[:2], "visits", domain=domain)


def test_a_domain_is_corrected_from_the_first_part_on(kernel):
    session = kernel()
    session.protect(MONTHS, "visits", domain=DOMAIN)
    with pytest.warns(dpn.LedgerWarning, match="was corrected"):
        visits = session.protect(JANUARY, "visits", domain={"age": dpn.Range(0, 50)})
    assert visits.domain.names == ("age",)
    assert session.extend("visits", FEBRUARY).domain.sizes == {"age": 51, "part": 2}


# What is refused.


def test_bad_input_is_told_and_nothing_changes(kernel):
    session, frames = kernel(), copies()
    visits = session.protect(frames[0], "visits", domain=DOMAIN)
    people = session.protect(frames[0].copy(), "people", domain=DOMAIN, unit="who", max_rows=3)
    head = session.ledger.head
    refused = [
        (NotProtected, "no table 'others'", lambda: session.extend("others", frames[1])),
        (DomainError, "cannot protect a int", lambda: session.extend("visits", 3)),
        (DomainError, "'age' is in the domain but not in", lambda: session.extend("visits", frames[1][["sex"]])),
        (DomainError, "which is for numbers, but the column holds text", lambda: wrong_type(session, frames[1])),
        (DomainError, "the column 'Part' has the name", lambda: session.extend("visits", frames[1].assign(Part=1))),
        (DomainError, "'cost' does not hold the same kind", lambda: wrong_cost(session, frames[1])),
        (ArgumentError, "one_part= is True or False", lambda: session.extend("people", frames[1], one_part="yes")),
        (DomainError, "same kind of values in all parts", lambda: wrong_unit(session, frames[1])),
        (
            DomainError,
            "'who' is of whole numbers in one part of 'people' and",
            lambda: unit_missing(session, frames[1]),
        ),
        (DomainError, "needs at least one part", lambda: session.protect([], "empty", domain=DOMAIN)),
    ]
    for kind, words, use in refused:
        with pytest.raises(kind, match=words):
            use()
    assert session.ledger.head == head
    assert visits.count(error=20).run().value == pytest.approx(900, abs=100)
    session.extend("people", frames[1], one_part=True)
    with pytest.raises(DomainError, match=r"was said to be in one part of 'people' when it first grew.*write one_part"):
        session.extend("people", frames[2])
    assert people.count(error=60).run().value == pytest.approx(1_500, abs=300)


def wrong_type(session, frame):
    session.extend("visits", frame.assign(age=frame["age"].astype(str).astype("string")))


def wrong_cost(session, frame):
    session.extend("visits", frame.assign(cost=frame["cost"].astype(str).astype("string")))


def wrong_unit(session, frame):
    session.extend("people", frame.assign(who=frame["who"].astype(str).astype("string")), one_part=True)


def unit_missing(session, frame):
    session.extend("people", frame.assign(who=frame["who"].where(frame["who"] != 1_003)))


def test_a_table_with_a_column_of_that_name_cannot_grow(kernel):
    session = kernel()
    session.protect(JANUARY.assign(part="upper"), "visits", domain=DOMAIN | {"part": ["upper", "lower"]})
    with pytest.raises(DomainError, match="the column 'part' has the name by which the parts of a table"):
        session.extend("visits", FEBRUARY.assign(part="lower"))
    assert session.table("visits").count(where="part == 'upper'", error=30).run().value > 700


def test_rows_that_are_given_together_are_not_the_first_part(kernel):
    session = kernel()
    session.protect(MONTHS, "visits", domain=DOMAIN).count(error=20).run()
    with pytest.raises(LedgerMismatch, match=r"there it came in 3 parts\. Give all of them as a list"):
        kernel().protect(pd.concat(MONTHS, ignore_index=True), "visits", domain=DOMAIN)
    with pytest.raises(LedgerMismatch, match="comes next here: these are part 3"):
        kernel().protect([JANUARY, MARCH], "visits", domain=DOMAIN)


def test_a_frame_that_was_changed_is_refused_by_itself(kernel):
    session, frames = kernel(), copies()
    visits = session.protect(frames, "visits", domain=DOMAIN)
    frames[1].loc[0, "age"] = 1
    with pytest.raises(FrameChanged):
        frames[1].dp.count(error=20)
    assert frames[0].dp.count(error=30).run().value == pytest.approx(900, abs=150)
    assert visits.count(error=30).run().value == pytest.approx(1_800, abs=150)


def test_the_rows_of_a_part_are_not_shown(kernel):
    session, frames = kernel(), copies()
    session.protect(frames, "visits", domain=DOMAIN)
    with pytest.raises(DomainError, match="these are the rows of 'visits', which is protected"):
        session.register(frames[1], "february", public=True)
    published = made(40, 9)
    session.register(published, "published", public=True)
    others = session.protect(made(50, 8), "others", domain=DOMAIN)
    with pytest.raises(DomainError, match="registered as public"):
        session.extend("others", published)
    assert not others.table.parts


def test_rows_that_a_part_leaves_out_are_not_shown_either(kernel):
    session, back = kernel(), FEBRUARY.assign(who=np.arange(600) % 300)  # all of them were here in January
    session.protect(JANUARY, "visits", domain=DOMAIN, unit="who", max_rows=3)
    session.extend("visits", back, one_part=True)
    with pytest.raises(DomainError, match="these are the rows of 'visits', which is protected"):
        session.register(back.copy(), "february", public=True)
    assert session.table("visits").count(where="part == 2", error=30).run().value == pytest.approx(0, abs=120)


# A ledger that is kept: what tables in parts wrote when they were new opens, and answers, for ever.

KEPT = Path(__file__).parent / "data" / "ledger_of_parts.sqlite"
HEAD = "2cab8c687825d6cd45522bbc84f6412457565c71869698208e4cabc2b81a5cee"


def counted(number, rows=60):
    """Return the rows of a part that need no random numbers."""
    place = np.arange(rows) + 7 * number
    return pd.DataFrame(
        {"age": place % 20, "sex": np.where(place % 3, "F", "M"), "cost": place * 11.0 % 500, "who": place // 2}
    )


def asked_and_kept(session):
    """Ask what the ledger was made with: two tables in parts, one of rows, one of units that are in several."""
    found = []
    for name, unit in (("visits", {}), ("stays", {"unit": "who", "max_rows": 2})):
        table = session.protect(counted(1), name, domain=DOMAIN, **unit)
        found.append(table.histogram("age", epsilon=0.5).run())
        for number in (2, 3):
            session.extend(name, counted(number))
            found.append(table.count(where=f"part == {number}", epsilon=0.25).run())
            found.append(
                session.sql(f"SELECT ANON_SUM(cost, 0, 500) AS s FROM {name} WHERE part = {number}", epsilon=1.0).run()
            )
        found.append(table.groupby("part").count(where="sex == 'F'", epsilon=0.5).run())
    return found


def test_a_ledger_of_today_is_answered_for_ever(tmp_path):
    path = tmp_path / "kept.ledger"
    shutil.copy(KEPT, path)
    path.chmod(0o600)
    with dpn.Session(dpn.Budget(epsilon=20.0), path) as session:
        assert session.audit(HEAD).ok
        spent, kept = session.spent, len(session.history())
        for place, release in enumerate(asked_and_kept(session)):
            assert release.paid == 0
            if place % 6 in (2, 4):  # statements: the very release
                assert release.number <= kept
        assert session.spent == spent
        parts = session.ledger.spend("visits").by_attribute("part").tolist()
        stays = session.ledger.spend("stays")
        assert session.ledger.spent == max(parts) + stays.maximum
        assert len(session.ledger.tables()["stays"]["parts"]) == 3


def months(*numbers: int) -> pd.DataFrame:
    """Return visits of some months, each row with a time of its own, as an export has them."""
    frames = []
    for number in numbers:
        random = np.random.default_rng(number)
        minutes = np.sort(random.choice(28 * 24 * 60, 300, replace=False))
        at = pd.Timestamp(2025, number, 1) + pd.to_timedelta(minutes, unit="min")
        frames.append(pd.DataFrame({"ward": random.choice(["A", "B"], 300), "at": at}))
    return pd.concat(frames, ignore_index=True)


class TestRowsInTwoParts:
    """An export of all until now is no new part: rows in two parts would cost twice what is charged."""

    def test_an_export_of_all_until_now_is_refused_before_it_is_a_part(self) -> None:
        session = dpn.Session(dpn.Budget(epsilon=1.0))
        january = months(1)
        session.protect(january, "visits", domain={"ward": ["A", "B"]})
        entries = session.audit().entries
        for rows in (months(1, 2), months(2, 1).sample(frac=1, random_state=1), pd.concat([january[:20], months(2)])):
            with pytest.raises(dpn.DomainError, match="rows of part 1 of 'visits' are among these as well"):
                session.extend("visits", rows)
        assert session.audit().entries == entries
        assert session.tables()["parts"].tolist() == [1]

    def test_what_the_refusal_keeps_away(self) -> None:
        # Both parts count the row of the same person, each at the whole epsilon, for the price of one.
        session = exact_session(dpn.Budget(epsilon=1.0))
        session.protect(months(1), "visits", domain={"ward": ["A", "B"]})
        visits = session.extend("visits", months(1, 2), part=2)
        counts = visits.groupby("part").count(epsilon=0.5).run().frame["value"].tolist()
        assert counts == [300, 600]
        assert session.spent.epsilon == 0.5

    def test_it_holds_for_a_list_and_for_files(self, tmp_path: Path) -> None:
        session = dpn.Session(dpn.Budget(epsilon=1.0))
        with pytest.raises(dpn.DomainError, match=r"session.extend\('visits', ..., part=2\)"):
            session.protect([months(1), months(1, 2)], "visits", domain={"ward": ["A", "B"]})
        months(1, 3).to_parquet(tmp_path / "march.parquet")
        with pytest.raises(dpn.DomainError, match="rows of part 1"):
            session.extend("visits", tmp_path / "march.parquet")
        session.extend("visits", months(2))
        with pytest.raises(dpn.DomainError, match="rows of part 2"):
            session.extend("visits", months(2, 3))

    def test_once_the_ledger_has_a_part_it_is_opened_with_it_again(self, tmp_path: Path) -> None:
        path = tmp_path / "visits.ledger"
        parts = [months(1), months(1, 2)]
        with dpn.Session(dpn.Budget(epsilon=1.0), path) as session:
            session.protect(parts[0], "visits", domain={"ward": ["A", "B"]})
            session.extend("visits", parts[1], part=2)
        with dpn.Session(dpn.Budget(epsilon=1.0), path) as session:
            assert session.protect(parts, "visits", domain={"ward": ["A", "B"]}).complete

    @pytest.mark.parametrize("seed", range(20))
    def test_rows_that_are_alike_by_chance_are_a_part(self, seed: int) -> None:
        # Few columns: thousands of people share each row, or a few do, or hardly any.
        random = np.random.default_rng(seed)
        levels = int(random.choice([2, 40, 2_000, 100_000]))
        session = dpn.Session(dpn.Budget(epsilon=1.0))
        for part in range(3):
            rows = pd.DataFrame({"ward": random.choice(["A", "B"], 2_000), "code": random.integers(0, levels, 2_000)})
            if part:
                session.extend("visits", rows)
            else:
                session.protect(rows, "visits", domain={"ward": ["A", "B"]})
        assert session.tables()["parts"].tolist() == [3]

    def test_of_very_many_rows_some_are_compared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dpnotebook.engine.parts.MOST_COMPARED", 200)  # of 300 rows a half, of 1,200 an eighth
        session = dpn.Session(dpn.Budget(epsilon=1.0))
        session.protect(months(1), "visits", domain={"ward": ["A", "B"]})
        for rows in (months(1, 2), months(1, 2, 3, 4)):
            with pytest.raises(dpn.DomainError, match="rows of part 1"):
                session.extend("visits", rows)
        session.extend("visits", months(2, 3, 4, 5))
        with pytest.raises(dpn.DomainError, match="rows of part 2"):
            session.extend("visits", months(4, 6))
        assert session.extend("visits", months(6)).complete

    def test_units_may_have_the_same_rows_in_every_part(self) -> None:
        session = dpn.Session(dpn.Budget(epsilon=1.0))
        rows = pd.DataFrame({"who": range(100), "ward": ["A", "B"] * 50})
        session.protect(rows, "visits", unit="who", max_rows=1, domain={"ward": ["A", "B"]})
        assert session.extend("visits", rows.iloc[:90]).complete
