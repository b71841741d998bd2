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


def test_more_columns_than_a_ledger_can_be_read_with_are_refused_before_it_is_written(tmp_path):
    rows, path, budget = wide(), tmp_path / "wide.ledger", dpn.Budget(epsilon=1.0)
    with dpn.Session(budget, path) as session:
        session.protect(rows[["x0"]].copy(), "narrow", domain={"x0": dpn.Range(0, 49)})
        for columns in (65, 300):
            with pytest.raises(dpn.DomainError, match=f"would have {columns} declared columns, and a ledger keeps"):
                session.protect(rows, "wide", domain={name: dpn.Range(0, 49) for name in list(rows)[:columns]})
        most = {name: dpn.Range(0, 49) for name in list(rows)[:64]}
        session.protect(rows, "wide", domain=most)
        assert rows.dp.histogram("x63", epsilon=0.1).run().paid > 0
        with pytest.raises(dpn.DomainError, match="would have 65 declared columns"):
            session.protect(rows, "wide", domain=most | {"x64": dpn.Range(0, 49)})
        session.protect(rows, "wide", domain=most)
        with pytest.raises(dpn.DomainError, match="would have 65 declared columns"):
            session.extend("wide", rows + 0.5)
    with dpn.Session(budget, path) as session:
        assert session.audit().ok
        session.protect(rows, "wide", domain=most)
        assert rows.dp.histogram("x63", epsilon=0.1).run().paid == 0


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
