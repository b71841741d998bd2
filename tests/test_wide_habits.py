"""The verbs on tables as they are: 300 columns, 10,000 levels, an index that repeats, dates beyond the ends."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.testing import exact_session


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setenv("DPNOTEBOOK_UNSAFE", "1")


def wide(columns=300, size=800):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.integers(0, 50, (size, columns)), columns=[f"x{number}" for number in range(columns)])


def test_three_hundred_columns_of_which_some_are_declared():
    rows = wide()
    with exact_session(dpn.Budget(epsilon=1_000.0)) as session:
        declared = list(rows)[:60]
        session.protect(rows, "wide", domain={name: dpn.Range(0, 49, label=f"Column {name}") for name in declared})
        asked = {name: ["mean", "std"] for name in declared[:20]}
        frame = rows.dp.agg(asked, epsilon=50.0).run().frame
        for name in asked:
            assert frame[f"{name}_std"].iloc[0] == pytest.approx(rows[name].std(), rel=1e-3)
            assert frame[f"{name}_mean"].iloc[0] == pytest.approx(rows[name].mean(), rel=1e-3)
        some = rows.query("x7 >= 25 and x8 < 40")
        release = rows.dp.corr("x0", "x59", where="x7 >= 25 and x8 < 40", epsilon=50.0).run()
        assert release.value == pytest.approx(some["x0"].corr(some["x59"]), abs=0.01)
        # The others are columns of SQL, with bounds that are found.
        assert rows.dp.std("x299", epsilon=50.0).run().value == pytest.approx(rows["x299"].std(), rel=0.05)
        with pytest.raises(
            dpn.DomainError, match="'x300' is not declared in the domain of 'wide'; did you mean"
        ) as said:
            rows.dp.std("x300", epsilon=1.0)
        assert len(str(said.value)) < 1_000


def very_wide():
    """300 columns of numbers beside 10,000 levels, dates and truth values, all declared."""
    rows, random = wide(), np.random.default_rng(1)
    levels = [f"c{number:05}" for number in range(10_000)]
    rows = rows.assign(
        code=random.choice(levels[:50], len(rows)),
        seen=pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 365, len(rows)), unit="D"),
        member=random.random(len(rows)) < 0.5,
    )
    numbers = {name: dpn.Range(0, 49) for name in rows if name.startswith("x")}
    return rows, numbers | {"code": levels, "seen": dpn.Dates("2023", "2023"), "member": dpn.Boolean()}


@pytest.mark.slow
def test_three_hundred_declared_columns_on_every_verb(tmp_path):
    (rows, domain), path = very_wide(), tmp_path / "wide.ledger"
    budget, much = dpn.Budget(epsilon=1_000.0), {"epsilon": 5.0}
    with exact_session(budget) as session:
        session.protect(rows, "wide", domain=domain)
        few = rows.query("x7 >= 25 and x288 < 40 or code == 'c00003'")
        assert rows.dp.count(where="x7 >= 25 and x288 < 40 or code == 'c00003'", **much).run().value == len(few)
        assert rows.dp.histogram("x299", **much).run().frame["value"].tolist() == [
            (rows["x299"] == level).sum() for level in range(50)
        ]
        pairs = rows.dp.groupby(["x100", "member"]).count(**much).run().frame
        assert pairs["value"].sum() == len(rows)
        assert len(pairs) == 100
        coded = rows.dp.groupby("code").sum("x298", **much).run().frame.set_index("code")["value"]
        truth = rows.groupby("code")["x298"].sum()
        assert len(coded) == 10_000
        assert coded[truth.index].tolist() == truth.tolist()
        by_month = rows.dp.groupby({"seen": "month"}).sum("x3", **much).run().frame
        truth = rows.groupby(rows["seen"].dt.month)["x3"].sum()
        assert by_month["value"].tolist() == pytest.approx(truth.tolist())
        for verb, options in (("mean", {}), ("std", {}), ("min", {}), ("quantile", {"q": 0.5})):
            found = getattr(rows.dp, verb)("x297", **options, **much).run().value
            assert found == pytest.approx(getattr(rows["x297"], verb)(**options), rel=0.02, abs=0.6)
        together = rows.dp.corr("x0", "x294", **much).run().value
        assert together == pytest.approx(rows["x0"].corr(rows["x294"]), abs=0.01)
        assert rows.dp.value_counts("member", **much).run().frame["value"].sum() == len(rows)
        assert rows.dp.crosstab("x1", "x299", **much).run().frame["value"].sum() == len(rows)
        several = rows.dp.agg({"x1": ["mean", "sum"], "x250": "std"}, **much).run().frame
        assert several["x1_sum"].iloc[0] == rows["x1"].sum()
        assert rows.dp.answer(dpn.marginals(1), **much).run().paid > 0
        with pytest.raises(dpn.DPError, match="at most 1,000,000 are possible; ask for fewer"):
            rows.dp.answer(dpn.marginals(3), **much)
        counted = session.sql(
            "SELECT member, COUNT(*) AS n, SUM(x299) AS s FROM wide WHERE x298 > 3 GROUP BY 1", **much
        )
        truth = rows[rows["x298"] > 3].groupby("member")["x299"].agg(["size", "sum"])
        assert counted.run().frame[["n", "s"]].to_numpy().tolist() == truth.to_numpy().tolist()
    # And with noise, in a file that is opened again.
    with dpn.Session(budget, path) as session:
        session.protect(rows[["x0"]].copy(), "narrow", domain={"x0": dpn.Range(0, 49)})
        session.protect(rows, "wide", domain=domain)
        for column in list(domain)[::30]:
            rows.dp.histogram(column, epsilon=1.0).run()
        assert rows.dp.histogram("x299", epsilon=0.25).run().paid > 0
        spent, spend = session.ledger.spent, session.ledger.spend("wide")
        assert spend.by_attribute("x299").max() == spend.maximum == spent
        assert len(str(session.dashboard())) < 20_000
        session.extend("wide", rows.iloc[:100].copy())
        assert session.audit().ok
    with dpn.Session(budget, path) as session:
        assert session.ledger.spent == spent
        assert session.audit().ok


def test_a_wide_tables_mistakes_are_answered_shortly():
    rows, domain = very_wide()
    with exact_session(dpn.Budget(epsilon=10.0)) as session:
        session.protect(rows, "wide", domain=domain)
        for wrong in (
            lambda: rows.dp.count(where="x300 > 3", epsilon=0.1),
            lambda: rows.dp.groupby("X1").count(epsilon=0.1),
            lambda: rows.dp.mean("code", epsilon=0.1),
            lambda: rows.dp.mean(rows["x1"], epsilon=0.1),
            lambda: rows.dp.histogram("nothing", epsilon=0.1),
            lambda: rows.dp.count(where="code == 'c1'", epsilon=0.1),
            lambda: rows.dp.groupby(list(domain)).count(epsilon=0.1).run(),
            lambda: rows.dp.count(where=" or ".join(f"x{n} == 2" for n in range(300)), epsilon=0.1),
            lambda: session.sql("SELECT COUNT(*) FROM wide GROUP BY nothing", epsilon=0.1),
            lambda: session.sql("SELECT AVG(x300) FROM wide", epsilon=0.1),
            lambda: session.protect(rows, "wide", domain={**domain, "x300": dpn.Range(0, 1)}),
        ):
            with pytest.raises(dpn.DPError) as said:
                wrong()
            assert len(str(said.value)) <= 600, said.value
        assert session.ledger.spent == 0


def test_ten_thousand_levels():
    rng = np.random.default_rng(1)
    levels = [f"c{number:05}" for number in range(10_000)]
    rows = pd.DataFrame({"code": rng.choice(levels[:50], 3_000), "x": rng.integers(0, 100, 3_000)})
    with exact_session(dpn.Budget(epsilon=1_000.0)) as session:
        session.protect(rows, "t", domain={"code": levels, "x": dpn.Range(0, 99)})
        grouped = rows.dp.groupby("code").std("x", epsilon=10.0).run().frame
        assert len(grouped) == 10_000
        truth = rows.groupby("code")["x"].std()
        found = grouped.set_index("code")["value"]
        assert found[truth.index].to_numpy() == pytest.approx(truth.to_numpy(), rel=0.05)
        few = rows.dp.var("x", where="code.str.startswith('c0000') and ~code.str.endswith('7')", epsilon=10.0).run()
        own = rows[rows["code"].str.startswith("c0000") & ~rows["code"].str.endswith("7")]
        assert few.value == pytest.approx(own["x"].var(), rel=1e-3)


def test_an_index_that_repeats_and_dates_beyond_the_ends():
    rng = np.random.default_rng(2)
    seen = pd.Timestamp("2022-06-01") + pd.to_timedelta(rng.integers(0, 800, 2_000), unit="D")
    rows = pd.DataFrame({"seen": seen, "cost": rng.integers(0, 100, 2_000)}, index=np.zeros(2_000, dtype=int))
    inside = rows[(rows["seen"] >= "2023-01-01") & (rows["seen"] < "2024-01-01")]
    for outside in ("drop", "clamp", "other"):
        copied = rows.copy()
        with exact_session(dpn.Budget(epsilon=1_000.0)) as session:
            domain = {"seen": dpn.Dates("2023", "2023", outside=outside), "cost": dpn.Range(0, 99)}
            session.protect(copied, "t", domain=domain)
            by_month = copied.dp.groupby({"seen": "month"})
            sums, spreads = (verb("cost", epsilon=5.0).run().frame for verb in (by_month.sum, by_month.std))
            truth = inside.groupby(inside["seen"].dt.month)["cost"]
            middle = slice(1, 11)  # of a year whose ends take in what is beyond them
            assert sums["value"].to_numpy()[middle] == pytest.approx(truth.sum().to_numpy()[middle])
            assert spreads["value"].to_numpy()[middle] == pytest.approx(truth.std().to_numpy()[middle], rel=1e-3)
            counted = inside if outside == "drop" else rows
            assert sums["value"].sum() == pytest.approx(counted["cost"].sum())
            assert len(sums) == 12 + (outside == "other")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_table_of_which_nothing_is_declared_is_asked_on_after_its_rows_were_counted(delta):
    """What was counted has no attribute to be a marginal of."""
    session = dpn.Session(budget=dpn.Budget(epsilon=9.0, delta=delta), confirm="never")
    table = session.protect(pd.DataFrame({"age": [1, 2, 3] * 100}), "t")
    table.count(epsilon=0.5).run()
    for ask in (
        lambda: session.sql("SELECT COUNT(*) AS n FROM t", epsilon=0.5),
        lambda: session.sql("SELECT AVG(age) AS a FROM t", epsilon=0.5),
        lambda: table.std("age", epsilon=0.5),
        lambda: table.count(error=3),
        lambda: table.count(epsilon=0.4),
    ):
        ask().run()
    assert table.count(epsilon=0.4).plan.free
    session.close()
