"""Synthetic rows: of what was released and nothing else, near to it, marked, free, of every kind of column."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.errors import ArgumentError, NotProtected, WorkloadError

pytestmark = pytest.mark.usefixtures("same_noise")  # how near rows are to one answer, and not how it was drawn
DELTAS = {"gaussian": 1e-6, "laplace": 0.0}
DOMAIN = {
    "age": dpn.Range(0, 99),
    "sex": ["F", "M"],
    "region": dpn.Range(0, 7, nullable=True),
    "income": dpn.Bins(0, 200_000, width=10_000),
    "seen": dpn.Dates("2024-01-01", "2024-12-31", by="month"),
    "ward": dpn.Categories(["A", "B"], other="(other)"),
    "insured": bool,
}


def people(rows=8_000):
    random = np.random.default_rng(7)
    age = random.integers(0, 100, rows)
    region = ((age // 15 + random.integers(0, 3, rows)) % 8).astype(float)
    region[random.random(rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "sex": random.choice(["F", "M"], rows, p=[0.7, 0.3]),
            "region": region,
            "income": np.clip(random.gamma(2, 20_000, rows), 0, 199_999),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 366, rows), unit="D"),
            "ward": random.choice(["A", "B", "C", "D"], rows),
            "insured": random.random(rows) < 0.8,
        }
    )


FRAME = people()


@pytest.fixture(params=DELTAS)
def session(request):
    with dpn.Session(budget=dpn.Budget(epsilon=8.0, delta=DELTAS[request.param]), ledger=":memory:") as session:
        session.protect(FRAME, "people", domain=DOMAIN)
        yield session


@pytest.mark.one_in(2)
def test_rows_agree_with_what_was_released_and_cost_nothing(session):
    table = session.table("people")
    table.crosstab("age", "region", epsilon=1.0).run()
    table.crosstab("sex", "region", epsilon=1.0).run()
    table.histogram("income", error=60).run()
    table.mean("income", epsilon=0.1).run()
    spent, head = session.spent, session.ledger.head
    rows = session.synthesize(random_state=3)
    assert session.spent == spent
    assert session.ledger.head == head
    assert len(rows) == pytest.approx(len(FRAME), rel=0.05)
    by_table = rows.margins.set_index("attributes")
    assert set(by_table.index) >= {"age, region", "income"}
    assert (by_table["off"] < 3 * by_table["std_error"] + 4).all()
    drawn = rows.frame.groupby(["sex", "region"], dropna=False).size()
    truth = FRAME.groupby(["sex", "region"], dropna=False).size()
    assert np.abs(drawn.reindex(truth.index, fill_value=0) - truth).max() < 120
    again = session.synthesize(random_state=3)
    pd.testing.assert_frame_equal(rows.frame, again.frame)


@pytest.mark.one_in(2)
def test_every_kind_of_column_has_values_of_its_domain(session):
    table = session.table("people")
    for name in DOMAIN:
        table.histogram(name, epsilon=0.3).run()
    frame = session.synthesize(4_000).frame
    assert list(frame.columns) == [*DOMAIN, "synthetic"]
    assert frame["synthetic"].all()
    assert frame["age"].between(0, 99).all()
    assert set(frame["sex"]) == {"F", "M"}
    assert 0.05 < frame["region"].isna().mean() < 0.16
    assert frame["income"].between(0, 199_999).all()
    assert (frame["income"] % 1 == 0).all()
    assert frame["seen"].dt.day.eq(1).all()
    assert frame["seen"].dt.year.eq(2024).all()
    assert set(frame["ward"]) == {"A", "B", "(other)"}
    assert frame["insured"].mean() == pytest.approx(0.8, abs=0.06)


def test_rows_are_marked_also_in_files(session, tmp_path):
    session.table("people").histogram("sex", epsilon=0.5).run()
    rows = session.synthesize(50)
    assert rows.frame.attrs["dpnotebook"] == {"synthetic": True, "table": "people", "releases": [1]}
    rows.to_csv(tmp_path / "rows.csv")
    assert pd.read_csv(tmp_path / "rows.csv")["synthetic"].all()
    assert "of no person" in repr(rows)


def test_what_was_not_released_is_left_out_and_said(session):
    session.table("people").crosstab("sex", "ward", where="age >= 50", epsilon=0.5).run()
    rows = session.synthesize(100)
    assert {"region", "income", "seen", "insured"} <= set(rows.left_out)
    assert "no count of these was released" in repr(rows)
    assert "income" not in rows.frame


def test_conditions_are_fitted_too():
    """What was released of a part of the rows says how attributes go together."""
    frame = pd.DataFrame({"old": [True] * 500 + [False] * 500, "sick": [True] * 450 + [False] * 550})
    with dpn.Session(budget=dpn.Budget(epsilon=8.0), ledger=":memory:") as session:
        session.protect(frame, "people", domain={"old": bool, "sick": bool})
        session.table("people").histogram("old", epsilon=2.0).run()
        session.table("people").histogram("sick", where="old", epsilon=2.0).run()
        session.table("people").count(where="not old and sick", epsilon=2.0).run()
        drawn = session.synthesize(1_000).frame
    assert drawn[drawn["old"]]["sick"].mean() == pytest.approx(0.9, abs=0.05)
    assert drawn[~drawn["old"]]["sick"].mean() < 0.05


def test_nothing_of_the_rows_is_read(session, monkeypatch):
    session.table("people").crosstab("sex", "age", epsilon=1.0).run()
    with monkeypatch.context() as patch:
        patch.setattr(session.table("people"), "engine", None)
        assert len(session.synthesize(10)) == 10


def test_a_table_in_parts_and_a_ledger_opened_again(tmp_path):
    for _ in range(2):
        with dpn.Session(budget=dpn.Budget(epsilon=8.0), ledger=tmp_path / "a.ledger") as session:
            session.protect(FRAME[:4_000], "people", domain=DOMAIN)
            session.table("people").histogram("sex", epsilon=0.5).run()
            session.extend("people", FRAME[4_000:].reset_index(drop=True))
            session.table("people").crosstab("sex", "age", epsilon=0.5).run()
            rows = session.synthesize(random_state=1)
    assert "part" not in rows.frame
    assert len(rows) == pytest.approx(len(FRAME), rel=0.1)


class TestBadInput:
    def test_nothing_was_released(self, session):
        with pytest.raises(WorkloadError, match="no counts of 'people' were released"):
            session.synthesize(10)
        session.table("people").mean("age", epsilon=0.1).run()
        with pytest.raises(WorkloadError, match="no counts"):
            session.synthesize(10)

    @pytest.mark.parametrize("rows", [0, -3, 1.5, "many", 10**9])
    def test_a_number_of_rows(self, session, rows):
        session.table("people").histogram("sex", epsilon=0.5).run()
        with pytest.raises(dpn.DPError):
            session.synthesize(rows)

    def test_a_state_and_a_table(self, session):
        with pytest.raises(ArgumentError, match="random_state"):
            session.synthesize(10, random_state="one")
        with pytest.raises(NotProtected):
            session.synthesize(10, table="nobody")
